/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/fdpass.h"

struct letter {
	unsigned char key[SHARE_KEY];
	int32_t from;
	uint32_t chunk;
	uint64_t turn;
};

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* The kernel picks the address. */
static bool listen_at(struct share_socket *s, struct share_rank *own)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(a), most = offsetof(struct sockaddr_un, sun_path) + sizeof(own->address);

	if (bind(s->in, (struct sockaddr *)&a, sizeof(sa_family_t)) ||
	    getsockname(s->in, (struct sockaddr *)&a, &len) || len > most ||
	    getrandom(own->key, sizeof(own->key), 0) != (ssize_t)sizeof(own->key))
		return false;
	len -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
	memcpy(own->address, a.sun_path, len);
	atomic_store_explicit(&own->address_len, len, memory_order_release); /* after address and key */
	return true;
}

enum taut_status share_socket_open(struct share_socket *s, struct share_rank *own)
{
	int err;

	s->in = new_socket();
	s->out = new_socket();
	if (s->in >= 0 && s->out >= 0 && listen_at(s, own))
		return TAUT_OK;
	err = errno;
	share_socket_close(s);
	return errno_fail(err, "a socket for descriptors of GPU memory");
}

bool share_socket_send(struct share_socket *s, const struct share_rank *to, int from, uint32_t chunk, uint64_t turn,
		       int fd)
{
	struct letter l = { .from = from, .chunk = chunk, .turn = turn };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint32_t len = atomic_load_explicit(&to->address_len, memory_order_acquire); /* before address and key */

	if (!len || s->out < 0)
		return false;
	memcpy(a.sun_path, to->address, len);
	memcpy(l.key, to->key, sizeof(l.key));
	return !connect(s->out, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) &&
	       fdpass_send(s->out, &l, sizeof(l), &fd, 1);
}

/* Everything that has come, as far as there is room. */
static void receive(struct share_socket *s, const struct share_rank *own)
{
	while (s->in >= 0 && s->n < SHARE_STASH) {
		struct letter l;
		int fd = -1, got = fdpass_recv(s->in, &l, sizeof(l), &fd, 1);

		if (!got || (got < 0 && errno))
			return;
		if (got < 0)
			continue;
		if (memcmp(l.key, own->key, sizeof(l.key)) != 0) {
			close(fd);
			continue;
		}
		s->stash[s->n++] = (struct share_fd){ l.from, fd, l.chunk, l.turn };
	}
}

static int find(const struct share_socket *s, int from, uint32_t chunk, uint64_t turn)
{
	for (int i = 0; i < s->n; i++)
		if (s->stash[i].from == from && s->stash[i].chunk == chunk && s->stash[i].turn == turn)
			return i;
	return -1;
}

int share_socket_take(struct share_socket *s, const struct share_rank *own, int from, uint32_t chunk, uint64_t turn)
{
	int fd, i = find(s, from, chunk, turn);

	if (i < 0) {
		receive(s, own);
		i = find(s, from, chunk, turn);
	}
	if (i < 0)
		return -1;
	fd = s->stash[i].fd;
	s->stash[i] = s->stash[--s->n];
	return fd;
}

void share_socket_drop(struct share_socket *s, const struct share_rank *own, int from, uint32_t chunk)
{
	receive(s, own);
	for (int i = s->n; i-- > 0;) {
		if (s->stash[i].from != from || s->stash[i].chunk != chunk)
			continue;
		close(s->stash[i].fd);
		s->stash[i] = s->stash[--s->n];
	}
}

void share_socket_close(struct share_socket *s)
{
	while (s->n > 0)
		close(s->stash[--s->n].fd);
	if (s->in >= 0)
		close(s->in);
	if (s->out >= 0)
		close(s->out);
	s->in = s->out = -1;
}
