/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP receiver against a peer that sends anything. The input is a script: one byte for
 * the number of sockets and slots, then actions of the peer (raw bytes, headers that are nearly right,
 * closing) and of the receiver (every receive call, polling). */
#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

#include "wire/tcp.h"

enum { SOCKETS = 3, SLOT = 8192 };

struct script {
	const uint8_t *at;
	size_t left;
};

struct play {
	struct script script;
	struct wire_conn *rx;
	int nsocks, peer[SOCKETS];
	bool waiting, lent;
	size_t len; /* of the recv() that waits */
	uint32_t sig;
	unsigned char *buf; /* exactly len bytes */
};

static unsigned next(struct script *s)
{
	if (!s->left)
		return 0;
	s->left--;
	return *s->at++;
}

static void peer_write(struct play *p, const void *bytes, size_t len, unsigned socket)
{
	int fd = p->peer[socket % (unsigned)p->nsocks];

	if (fd >= 0 && send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* full or closed: as good as any other fault */
}

static void peer_raw(struct play *p)
{
	unsigned socket = next(&p->script);
	size_t n = next(&p->script);

	n = n < p->script.left ? n : p->script.left;
	peer_write(p, p->script.at, n, socket);
	p->script.at += n;
	p->script.left -= n;
}

static void peer_head(struct play *p)
{
	unsigned socket = next(&p->script) % (unsigned)p->nsocks;
	struct tcp_head h = { .part = (uint8_t)socket, .parts = 1 };
	unsigned char bytes[TCP_HEAD];

	h.len = next(&p->script) << 6 & 0x3fff; /* up to twice a slot */
	h.len |= next(&p->script) & 0x3f;
	h.sig = next(&p->script) & 1;
	h.seq = tcp_rx_of(p->rx)->socks[socket].seq + (next(&p->script) & 3);
	h.parts = (uint8_t)(1 + (next(&p->script) & 3));
	tcp_head_put(bytes, &h);
	peer_write(p, bytes, sizeof(bytes), socket);
}

static void peer_payload(struct play *p)
{
	static unsigned char bytes[SLOT];
	unsigned socket = next(&p->script);

	peer_write(p, bytes, next(&p->script) * 32 + 1, socket);
}

static void peer_close(struct play *p)
{
	unsigned socket = next(&p->script) % (unsigned)p->nsocks;

	if (p->peer[socket] >= 0)
		close(p->peer[socket]);
	p->peer[socket] = -1;
}

static void receive(struct play *p)
{
	if (p->lent)
		return;
	if (!p->waiting) {
		p->waiting = true;
		p->len = (next(&p->script) << 6 & 0x1fff) | (next(&p->script) & 0x3f);
		p->sig = next(&p->script) & 1;
		p->buf = malloc(p->len ? p->len : 1);
	}
	if (wire_tcp.recv(p->rx, p->buf, p->len, p->sig) == WIRE_AGAIN)
		return;
	p->waiting = false;
	free(p->buf);
	p->buf = NULL;
}

/* What recv_peek() says is what recv_ptr() then waits for. */
static void receive_in_place(struct play *p)
{
	enum wire_result r;
	const void *ptr;
	uint32_t sig;
	size_t len;

	if (p->waiting)
		return;
	if (p->lent) {
		p->lent = false;
		wire_tcp.recv_done(p->rx);
		return;
	}
	if (wire_tcp.recv_peek(p->rx, &len, &sig) != WIRE_DONE)
		return;
	assert(len <= SLOT);
	r = wire_tcp.recv_ptr(p->rx, &ptr, len, sig);
	assert(r != WIRE_MISMATCH);
	p->lent = r == WIRE_DONE;
	if (p->lent && len)
		(void)*((const volatile unsigned char *)ptr + len - 1);
}

static void act(struct play *p)
{
	short events;

	switch (next(&p->script) % 8) {
	case 0:
		peer_raw(p);
		break;
	case 1:
		peer_head(p);
		break;
	case 2:
		peer_payload(p);
		break;
	case 3:
		peer_close(p);
		break;
	case 4:
		receive(p);
		break;
	case 5:
		receive_in_place(p);
		break;
	default:
		wire_tcp.poll(p->rx);
		wire_tcp.wait_fd(p->rx, &events);
	}
}

static void open_receiver(struct play *p, struct config *cfg)
{
	struct wire_args args = { .cfg = cfg, .rank = 1 };
	unsigned first = next(&p->script);

	p->nsocks = 1 + (int)(first & 3) % SOCKETS;
	cfg->sockets = p->nsocks;
	cfg->slots = 1 + (first >> 2 & 3);
	cfg->slot_bytes = SLOT;
	for (int i = 0; i < p->nsocks; i++) {
		int fd[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) ||
		    (i ? wire_tcp.add_socket(p->rx, i, fd[1]) : wire_tcp.accept(&p->rx, &args, fd[1])))
			abort();
		p->peer[i] = fd[0];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct config cfg = { 0 };
	struct play p = { .script = { data, len } };

	open_receiver(&p, &cfg);
	while (p.script.left)
		act(&p);
	wire_tcp.close(p.rx);
	for (int i = 0; i < p.nsocks; i++)
		if (p.peer[i] >= 0)
			close(p.peer[i]);
	free(p.buf);
	return 0;
}
