/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/service.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/group.h"

static void rewatch(struct conn *c, bool in)
{
	service_watch(&c->source, (in ? EPOLLIN : 0u) | EPOLLRDHUP | (c->want_out ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
}

struct conn *conn_new(int fd, bool local)
{
	struct conn *c = mem_calloc(1, sizeof(*c));
	int one = 1;

	if (!c) {
		close(fd);
		return NULL;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	if (!local)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*c = (struct conn){ .source = { SOURCE_CONN, fd }, .local = local, .next = service->conns, .peer = -1 };
	c->seen = c->sent = now_ns();
	if (c->next)
		c->next->prev = c;
	service->conns = c;
	service_watch(&c->source, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD);
	service->nwaiting++; /* state HELLO until conn_state() says otherwise */
	return c;
}

void conn_state(struct conn *c, enum conn_state s)
{
	service->nparked += (s == CONN_PARKED) - (c->state == CONN_PARKED);
	service->nwaiting += (s == CONN_HELLO || s == CONN_PROOF) - (c->state == CONN_HELLO || c->state == CONN_PROOF);
	c->state = s;
}

void conn_listen(struct conn *c, bool in)
{
	rewatch(c, in);
}

void conn_close(struct conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	conn_state(c, CONN_CLOSED);
	if (c->source.fd >= 0) {
		/* Closing alone does not do it while a forked child holds a copy. */
		service_watch(&c->source, 0, EPOLL_CTL_DEL);
		close(c->source.fd);
	}
	c->source.fd = -1;
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		service->conns = c->next;
	c->next = service->closed;
	service->closed = c;
	buf_cleanup(&c->out);
}

int conn_take(struct conn *c)
{
	int fd = c->source.fd;

	service_watch(&c->source, 0, EPOLL_CTL_DEL);
	c->source.fd = -1;
	conn_close(c);
	return fd;
}

void conn_free_closed(void)
{
	while (service->closed) {
		struct conn *c = service->closed;

		service->closed = c->next;
		buf_cleanup(&c->in);
		buf_cleanup(&c->out);
		mem_free(c);
	}
}

/* What the socket takes; the rest waits for EPOLLOUT. A broken socket shows when it is read. */
static size_t push(struct conn *c, const uint8_t *data, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = send(c->source.fd, data + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return len;
		if (n < 0)
			break;
		at += (size_t)n;
	}
	c->sent = now_ns();
	return at;
}

void conn_write(struct conn *c, const void *data, size_t len)
{
	size_t at = 0;

	if (c->state == CONN_CLOSED)
		return;
	if (!c->out.len)
		at = push(c, data, len);
	if (at == len)
		return;
	buf_bytes(&c->out, (const uint8_t *)data + at, len - at);
	if (c->out.failed) {
		/* The peer must not wait for bytes that will never come. */
		log_err(LOG_BOOT, "no memory for %zu bytes to a peer: the connection is closed", len);
		shutdown(c->source.fd, SHUT_RDWR);
		return;
	}
	if (!c->want_out) {
		c->want_out = true;
		rewatch(c, true);
	}
}

void conn_send(struct conn *c, struct buf *b)
{
	if (b->failed)
		shutdown(c->source.fd, SHUT_RDWR);
	else
		conn_write(c, b->data, b->len);
	buf_cleanup(b);
}

static void flush(struct conn *c)
{
	c->out_at += push(c, c->out.data + c->out_at, c->out.len - c->out_at);
	if (c->out_at < c->out.len)
		return;
	buf_cleanup(&c->out);
	c->out_at = 0;
	c->want_out = false;
	if (c->state == CONN_DRAIN)
		conn_close(c);
	else
		rewatch(c, true);
}

void conn_drain(struct conn *c)
{
	if (!c->out.len) {
		conn_close(c);
		return;
	}
	conn_state(c, CONN_DRAIN);
	c->b = NULL;
	c->deadline = now_ns() + 1000000000u;
	service_at(c->deadline);
}

static size_t frame_limit(const struct conn *c)
{
	/* An edge carries the table and 64 KiB of every rank. */
	if (c->state == CONN_EDGE || c->state == CONN_SURVIVOR)
		return UINT32_MAX;
	/* Strangers get no memory to fill. */
	return c->state == CONN_HELLO ? FRAME_STRANGER_MAX : FRAME_HANDSHAKE_MAX;
}

static void dispatch(struct conn *c, const struct frame *f)
{
	switch (c->state) {
	case CONN_HELLO:
		accept_hello(c, f);
		break;
	case CONN_PROOF:
		accept_proof(c, f);
		break;
	case CONN_EDGE:
		edge_frame(c, f);
		break;
	default: /* nobody has anything to say here */
		break;
	}
}

void conn_lost(struct conn *c, const char *why)
{
	enum conn_state s = c->state;

	if (s == CONN_EDGE)
		edge_closed(c, why);
	else if (s == CONN_SURVIVOR)
		accept_survivor_gone(c);
	else if (s == CONN_PROOF || (s == CONN_HELLO && c->in.len))
		service_reject(c, why);
	conn_close(c);
}

/* Whole frames of @data; what is left over. */
static size_t frames(struct conn *c, const uint8_t *data, size_t len)
{
	size_t at = 0;

	while (c->state != CONN_CLOSED) {
		struct frame f;
		enum frame_result r = frame_next(&f, data + at, len - at, frame_limit(c));

		if (r == FRAME_BAD) {
			if (c->state == CONN_HELLO || c->state == CONN_PROOF)
				service_reject(c, "what came was no frame");
			conn_lost(c, "it sent garbage");
			return 0;
		}
		if (r == FRAME_MORE)
			break;
		at += FRAME_HEADER + f.len;
		dispatch(c, &f);
	}
	return len - at;
}

static void keep_rest(struct conn *c, const uint8_t *rest, size_t len)
{
	struct frame f;

	frame_next(&f, rest, len, UINT32_MAX);
	if (buf_reserve(&c->in, f.len + FRAME_HEADER))
		buf_bytes(&c->in, rest, len);
	if (c->in.failed)
		conn_lost(c, "there was no memory for what it sent");
}

static void feed(struct conn *c, const uint8_t *data, size_t len)
{
	size_t rest;

	if (!c->in.len) {
		rest = frames(c, data, len);
		if (rest && c->state != CONN_CLOSED)
			keep_rest(c, data + len - rest, rest);
		return;
	}
	buf_bytes(&c->in, data, len);
	if (c->in.failed) {
		conn_lost(c, "there was no memory for what it sent");
		return;
	}
	rest = frames(c, c->in.data, c->in.len);
	if (c->state == CONN_CLOSED)
		return;
	if (!rest) {
		buf_cleanup(&c->in);
		return;
	}
	memmove(c->in.data, c->in.data + c->in.len - rest, rest);
	c->in.len = rest;
}

static void readable(struct conn *c)
{
	/* A fair share for each, then the others. */
	for (int i = 0; i < 4 && c->state != CONN_CLOSED && c->source.fd >= 0; i++) {
		ssize_t n = recv(c->source.fd, service->scratch, SCRATCH_BYTES, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			conn_lost(c, "its control connection closed"); /* or was reset: the same words everywhere */
			return;
		}
		c->seen = now_ns();
		feed(c, service->scratch, (size_t)n);
		if (n < SCRATCH_BYTES)
			return;
	}
}

void conn_event(struct conn *c, uint32_t events)
{
	if (c->state == CONN_CLOSED)
		return;
	if (c->state == CONN_PARKED) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn_close(c);
		return;
	}
	if (events & EPOLLOUT && c->out.len)
		flush(c);
	if (c->state != CONN_CLOSED && events & ~(uint32_t)EPOLLOUT)
		readable(c);
}
