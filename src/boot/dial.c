/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "boot/auth.h"

#define CONNECT_NS 3000000000u

static void say(struct dial *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct dial *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
}

/* The list lets an event reach dials that wait. */
static bool enlist(struct dial *d)
{
	bool cancelled;

	pthread_mutex_lock(&boot_lock);
	if (d->b && (d->b->closing || (d->stop_on_event && d->b->g->has_event)))
		d->cancelled = true;
	d->prev = NULL;
	d->next = service->dials;
	if (d->next)
		d->next->prev = d;
	service->dials = d;
	cancelled = d->cancelled;
	pthread_mutex_unlock(&boot_lock);
	return !cancelled;
}

static void delist(struct dial *d)
{
	pthread_mutex_lock(&boot_lock);
	if (d->next)
		d->next->prev = d->prev;
	if (d->prev)
		d->prev->next = d->next;
	else
		service->dials = d->next;
	pthread_mutex_unlock(&boot_lock);
}

void dial_cancel(const struct group *g, const struct boot *b)
{
	for (struct dial *d = service->dials; d; d = d->next)
		if (d->b && (b ? d->b == b : d->b->g == g && d->stop_on_event)) {
			d->cancelled = true;
			if (d->fd >= 0)
				shutdown(d->fd, SHUT_RDWR);
		}
}

void dial_close_all(void)
{
	for (struct dial *d = service->dials; d; d = d->next)
		if (d->fd >= 0)
			close(d->fd);
}

static void set_fd(struct dial *d, int fd)
{
	int old;

	pthread_mutex_lock(&boot_lock);
	old = d->fd;
	d->fd = fd;
	if (fd >= 0 && d->cancelled)
		shutdown(fd, SHUT_RDWR);
	pthread_mutex_unlock(&boot_lock);
	if (old >= 0)
		close(old);
}

static bool is_cancelled(const struct dial *d)
{
	bool yes;

	pthread_mutex_lock(&boot_lock);
	yes = d->cancelled;
	pthread_mutex_unlock(&boot_lock);
	return yes;
}

/* 1: ready, 0: time is over. */
static int wait_for(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = now_ns();
		int ms = now >= until ? 0 : (int)((until - now) / 1000000 % 3600000) + 1;
		int n = poll(&p, 1, ms);

		if (n > 0)
			return 1;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return 0;
		if (n == 0 && now_ns() >= until)
			return 0;
	}
}

static enum dial_end failed(struct dial *d, const char *what, int err)
{
	if (is_cancelled(d))
		return DIAL_CANCELLED;
	say(d, "%s: %s", what, strerror(err));
	return err == ECONNREFUSED ? DIAL_GONE : DIAL_UNREACHED;
}

static enum dial_end late(struct dial *d, const char *what)
{
	if (is_cancelled(d))
		return DIAL_CANCELLED;
	say(d, "%s", what);
	return now_ns() >= d->deadline ? DIAL_LATE : DIAL_UNREACHED;
}

/* Writes a connected, non-blocking socket to d->fd. */
static enum dial_end reach(struct dial *d, const struct sockaddr_storage *sa, socklen_t len, uint64_t until)
{
	int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err = 0, one = 1;
	socklen_t err_len = sizeof(err);

	if (fd < 0)
		return failed(d, "open a socket", errno);
	set_fd(d, fd);
	if (sa->ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* EAGAIN: a Unix listener's queue is full. */
	while (connect(fd, (const void *)sa, len)) {
		if (errno == EAGAIN && now_ns() < until && !is_cancelled(d)) {
			sleep_ms(1);
			continue;
		}
		if (errno != EINPROGRESS)
			return failed(d, "connect", errno);
		if (!wait_for(fd, POLLOUT, until))
			return late(d, "connect: no answer");
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len);
		return err ? failed(d, "connect", err) : DIAL_OK;
	}
	return DIAL_OK;
}

static enum dial_end put(struct dial *d, struct buf *b)
{
	enum dial_end end = b->failed ? failed(d, "handshake", ENOMEM) : DIAL_OK;
	size_t at = 0;

	while (!end && at < b->len) {
		ssize_t n = send(d->fd, b->data + at, b->len - at, MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			end = wait_for(d->fd, POLLOUT, d->deadline) ? DIAL_OK : late(d, "handshake: it does not read");
		else if (errno != EINTR)
			end = failed(d, "handshake", errno);
	}
	buf_cleanup(b);
	return end;
}

static enum dial_end get(struct dial *d, uint8_t *out, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = recv(d->fd, out + at, len - at, 0);

		if (n > 0) {
			at += (size_t)n;
		} else if (n == 0) {
			return failed(d, "handshake", ECONNRESET);
		} else if (errno == EAGAIN) {
			if (!wait_for(d->fd, POLLIN, d->deadline))
				return late(d, "handshake: no answer");
		} else if (errno != EINTR) {
			return failed(d, "handshake", errno);
		}
	}
	return DIAL_OK;
}

/* Reads exactly one frame: what follows it belongs to the connection's user. */
static enum dial_end get_frame(struct dial *d, struct frame *f, struct buf *b)
{
	uint8_t head[FRAME_HEADER];
	enum dial_end end = get(d, head, sizeof(head));

	if (end)
		return end;
	if (frame_next(f, head, sizeof(head), 16 * FRAME_HANDSHAKE_MAX) == FRAME_BAD)
		return failed(d, "handshake: what answers is not taut", EPROTO);
	buf_bytes(b, head, sizeof(head));
	if (!buf_reserve(b, f->len))
		return failed(d, "handshake", ENOMEM);
	end = get(d, b->data + FRAME_HEADER, f->len);
	b->len += f->len;
	f->data = b->data + FRAME_HEADER;
	return end;
}

static enum dial_end rejected(struct dial *d, const struct frame *f)
{
	struct reader r = reader_of(f);
	uint32_t st = rd_u32(&r);

	rd_text(&r, d->why, sizeof(d->why));
	d->status = r.bad || !st || st > TAUT_ERR_INTERNAL ? TAUT_ERR_NET : (enum taut_status)st;
	return DIAL_REJECTED;
}

static enum dial_end wrong_secret(struct dial *d)
{
	struct buf b = { 0 };
	size_t at = frame_begin(&b, FRAME_REJECT);

	buf_u32(&b, TAUT_ERR_AUTH);
	buf_text(&b, "wrong secret");
	frame_end(&b, at);
	put(d, &b);
	say(d, "it does not have this rank's secret");
	return DIAL_AUTH;
}

static enum dial_end prove(struct dial *d, const struct frame *f)
{
	uint8_t nonce[NONCE_BYTES], mac[MAC_BYTES], want[MAC_BYTES];
	struct buf b = { 0 };

	if (!challenge_get(nonce, mac, f))
		return failed(d, "handshake: what answers is not taut", EPROTO);
	auth_mac(want, d->secret, AUTH_ACCEPTOR, &d->hello, nonce, NULL, 0);
	if (!auth_equal(mac, want))
		return wrong_secret(d);
	auth_mac(mac, d->secret, AUTH_DIALLER, &d->hello, nonce, d->payload, d->len);
	proof_put(&b, mac, d->payload, d->len);
	return put(d, &b);
}

static enum dial_end finish(struct dial *d, const struct frame *f)
{
	if (f->type == FRAME_REJECT)
		return rejected(d, f);
	if (f->type != FRAME_ACCEPT)
		return failed(d, "handshake: what answers is not taut", EPROTO);
	buf_bytes(&d->reply, f->data, f->len);
	return d->reply.failed ? failed(d, "handshake", ENOMEM) : DIAL_OK;
}

static enum dial_end handshake(struct dial *d)
{
	struct buf out = { 0 }, in = { 0 };
	struct frame f;
	enum dial_end end;

	d->hello.version = BOOT_VERSION;
	auth_random(d->hello.nonce, NONCE_BYTES);
	hello_put(&out, &d->hello);
	end = put(d, &out);
	if (!end)
		end = get_frame(d, &f, &in);
	if (!end)
		end = f.type == FRAME_REJECT ? rejected(d, &f) : prove(d, &f);
	in.len = 0;
	if (!end)
		end = get_frame(d, &f, &in);
	if (!end)
		end = finish(d, &f);
	buf_cleanup(&in);
	return end;
}

static enum dial_end try_unix(struct dial *d)
{
	struct sockaddr_storage sa;
	socklen_t len = d->target.name[0] ? addr_abstract(&sa, d->target.name) : addr_unix(&sa, d->target.uniq);
	enum dial_end end = reach(d, &sa, len, d->deadline);

	d->local = true;
	return end ? end : handshake(d);
}

static enum dial_end try_tcp(struct dial *d, int i)
{
	uint64_t until = now_ns() + (d->connect_ns ? d->connect_ns : CONNECT_NS);
	struct sockaddr_storage sa;
	socklen_t len = addr_sockaddr(&sa, &d->target.addrs[i], d->target.port);
	char text[ADDR_TEXT], why[sizeof(d->why)];
	enum dial_end end = reach(d, &sa, len, until < d->deadline ? until : d->deadline);

	d->local = false;
	if (!end)
		end = handshake(d);
	if (end && end != DIAL_REJECTED) {
		snprintf(why, sizeof(why), "%s", d->why);
		say(d, "%s: %.*s", addr_text(text, &d->target.addrs[i], d->target.port), 180, why);
	}
	return end;
}

/* What one address says counts for the whole when it is more than "not here". */
static bool conclusive(enum dial_end end)
{
	return end == DIAL_OK || end == DIAL_REJECTED || end == DIAL_CANCELLED || end == DIAL_LATE;
}

static enum dial_end try_all(struct dial *d)
{
	enum dial_end best = DIAL_GONE, end;
	char why[sizeof(d->why)] = "it gave no address";

	for (int i = 0; i < d->target.naddr; i++) {
		end = try_tcp(d, i);
		if (conclusive(end))
			return end;
		if (end >= best) {
			best = end;
			memcpy(why, d->why, sizeof(why));
		}
	}
	memcpy(d->why, why, sizeof(why));
	return best;
}

enum dial_end dial(struct dial *d)
{
	enum dial_end end;

	d->fd = -1;
	d->status = TAUT_ERR_NET;
	d->cancelled = false;
	if (!enlist(d))
		end = DIAL_CANCELLED;
	else if (d->target.same_node && !d->tcp)
		end = try_unix(d);
	else
		end = try_all(d);
	delist(d);
	if (end && d->fd >= 0) {
		close(d->fd);
		d->fd = -1;
	}
	auth_wipe(d->secret, sizeof(d->secret));
	return end;
}

void dial_prepare(struct dial *d, const struct boot *b, int to, enum purpose purpose)
{
	const struct group *g = b->g;

	d->b = b;
	d->hello.purpose = purpose;
	d->hello.to = (uint32_t)to;
	d->hello.from = (uint32_t)b->rank;
	memcpy(d->hello.key, g->key, KEY_BYTES);
	memcpy(d->secret, g->secret, SECRET_BYTES);
	if (table_has(g->table, to))
		table_target(&d->target, g->table, to, b->node);
}
