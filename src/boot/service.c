/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/service.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/auth.h"
#include "boot/call.h"
#include "boot/dial.h"
#include "boot/group.h"
#include "boot/mend.h"

enum { SCRATCH_BYTES = 65536, EVENTS = 64, BACKLOG = 4096 };

pthread_mutex_t boot_lock = PTHREAD_MUTEX_INITIALIZER;
struct service *service;

static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_ulong rejected;

struct id_hold {
	struct id_hold *next;
	uint8_t key[KEY_BYTES];
};

unsigned long boot_rejected(void)
{
	return atomic_load_explicit(&rejected, memory_order_relaxed); /* a counter for people */
}

void service_reject(const struct conn *c, const char *why)
{
	atomic_fetch_add_explicit(&rejected, 1, memory_order_relaxed);
	log_info(LOG_BOOT, "closed a %s connection: %s", c->local ? "local" : "TCP", why);
}

void service_wake(void)
{
	const uint64_t one = 1;

	if (service && write(service->wake.fd, &one, sizeof(one)) < 0)
		log_debug(LOG_BOOT, "wake the service: %s", strerror(errno));
}

void service_at(uint64_t when)
{
	if (when >= service->tick)
		return;
	service->tick = when;
	if (!pthread_equal(pthread_self(), service->thread))
		service_wake();
}

/* --- Connections --- */

static void watch(struct source *s, uint32_t events, int op)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (epoll_ctl(service->epoll, op, s->fd, &e))
		log_err(LOG_BOOT, "epoll_ctl: %s", strerror(errno));
}

static void rewatch(struct conn *c, bool in)
{
	watch(&c->source, (in ? EPOLLIN : 0u) | EPOLLRDHUP | (c->want_out ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
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
	watch(&c->source, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD);
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
		watch(&c->source, 0, EPOLL_CTL_DEL);
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

	watch(&c->source, 0, EPOLL_CTL_DEL);
	c->source.fd = -1;
	conn_close(c);
	return fd;
}

static void free_closed(void)
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
	return FRAME_HANDSHAKE_MAX;
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

static void lost(struct conn *c, const char *why)
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
			lost(c, "it sent garbage");
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
		lost(c, "there was no memory for what it sent");
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
		lost(c, "there was no memory for what it sent");
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
			lost(c, "its control connection closed"); /* or was reset: the same words everywhere */
			return;
		}
		c->seen = now_ns();
		feed(c, service->scratch, (size_t)n);
		if (n < SCRATCH_BYTES)
			return;
	}
}

static void conn_event(struct conn *c, uint32_t events)
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

/* --- Listeners --- */

/* Out of descriptors: refuse, instead of coming round for ever. */
static void refuse_one(int listener)
{
	int fd;

	log_warn(LOG_BOOT, "out of file descriptors: a connection was refused; raise the limit (ulimit -n)");
	close(service->spare);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	service->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_all(struct source *s)
{
	for (int i = 0; i < 64; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct conn *c;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				refuse_one(s->fd);
			return;
		}
		c = conn_new(fd, s->kind == SOURCE_UNIX);
		if (c)
			accept_start(c);
	}
}

/* IPv6 that takes IPv4 too where there is IPv6. @port 0: any. */
static int listen_tcp(uint16_t *port, int family)
{
	int domain = family == 1 ? AF_INET : AF_INET6, one = 1, only = family == 2, err;
	int fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct addr any = { .family = domain == AF_INET ? 4 : 6 };
	struct sockaddr_storage sa;
	socklen_t len = addr_sockaddr(&sa, &any, *port);

	if (fd < 0 && domain == AF_INET6 && !only)
		return listen_tcp(port, 1);
	if (fd < 0)
		return -1;
	if (domain == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	/* A port given by hand may still have connections of the last run in TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, (void *)&sa, len) && !listen(fd, BACKLOG) && !getsockname(fd, (void *)&sa, &len)) {
		*port = ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port); /* at the same place in IPv6 */
		return fd;
	}
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

static int listen_unix(const struct sockaddr_storage *sa, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -1;
	if (!bind(fd, (const void *)sa, len) && !listen(fd, BACKLOG))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

static int listen_at(enum source_kind kind, uint16_t port, const char *name)
{
	struct sockaddr_storage sa;
	socklen_t len;

	if (kind == SOURCE_TCP)
		return listen_tcp(&port, 0);
	len = addr_abstract(&sa, name);
	return listen_unix(&sa, len);
}

enum taut_status service_listen(struct listener **out, uint16_t port, const char *name, const char *setting,
				const char *text)
{
	enum source_kind kind = name[0] ? SOURCE_UNIX : SOURCE_TCP;
	struct listener *l = mem_calloc(1, sizeof(*l));

	if (!l)
		return fail(TAUT_ERR_NOMEM, "a listener");
	l->source = (struct source){ kind, listen_at(kind, port, name) };
	if (l->source.fd < 0) {
		int err = errno;

		mem_free(l);
		if (kind == SOURCE_UNIX)
			return errno_fail(err,
					  "listen on the abstract socket \"%s\", where the ranks are to meet: set "
					  "another one (%s is \"%s\")",
					  name, setting, text);
		return errno_fail(err, "listen on port %u, where the ranks are to meet: set another one (%s is \"%s\")",
				  port, setting, text);
	}
	l->next = service->tcp.next;
	service->tcp.next = l;
	watch(&l->source, EPOLLIN, EPOLL_CTL_ADD);
	*out = l;
	return TAUT_OK;
}

void service_unlisten(struct listener *l)
{
	struct listener **p = &service->tcp.next;

	while (*p && *p != l)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = l->next;
	watch(&l->source, 0, EPOLL_CTL_DEL);
	close(l->source.fd);
	l->source.fd = -1;
	/* An event for it may be in the service thread's hands: leave it to that thread. */
	l->next = service->unix_.next;
	service->unix_.next = l;
	service_wake();
}

static void free_listeners(struct listener *l)
{
	while (l) {
		struct listener *next = l->next;

		if (l->source.fd >= 0)
			close(l->source.fd);
		mem_free(l);
		l = next;
	}
}

/* --- Calls to the owner --- */

struct call *call_new(enum call_kind kind, struct boot *b, size_t len)
{
	struct call *c = mem_calloc(1, sizeof(*c) + len);

	if (c)
		*c = (struct call){ .kind = kind, .b = b, .fd = -1, .len = len };
	return c;
}

void call_queue(struct call *c)
{
	*service->calls_tail = c;
	service->calls_tail = &c->next;
	if (!pthread_equal(pthread_self(), service->thread))
		service_wake();
}

void call_cancel(const struct boot *b)
{
	struct call **p = &service->calls;

	while (*p) {
		struct call *c = *p;

		if (c->b != b) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		if (c->fd >= 0)
			close(c->fd);
		mem_free(c);
	}
	service->calls_tail = p;
}

static void run_event(const struct call *c)
{
	const struct event_msg *m = (const void *)c->data;
	struct boot_event e = { .kind = m->kind, .status = m->status, .rank = m->rank, .text = m->text };

	c->b->cb.on_event(c->b->cb.ctx, &e);
}

static void run_call(struct call *c)
{
	struct boot *b = c->b;

	b->pins++;
	pthread_mutex_unlock(&boot_lock);
	if (c->kind == CALL_DIAL && b->cb.on_dial)
		b->cb.on_dial(b->cb.ctx, c->from, c->data, c->len, c->fd, c->local);
	else if (c->kind == CALL_DIAL)
		close(c->fd);
	else if (c->kind == CALL_EVENT && b->cb.on_event)
		run_event(c);
	else if (c->kind == CALL_DESCRIBE)
		query_describe(c);
	pthread_mutex_lock(&boot_lock);
	if (c->kind == CALL_DESCRIBE)
		query_described(c);
	b->pins--;
	if (!b->pins && b->closing)
		pthread_cond_broadcast(&b->cond);
	mem_free(c);
}

static void run_calls(void)
{
	while (service->calls) {
		struct call *c = service->calls;

		service->calls = c->next;
		if (!c->next)
			service->calls_tail = &service->calls;
		run_call(c);
	}
}

/* --- Timers --- */

static void soonest(uint64_t when)
{
	if (when < service->tick)
		service->tick = when;
}

/* Signs of life on edges between machines. */
static void beat(struct conn *c, uint64_t now)
{
	struct buf b = { 0 };

	if (now - c->seen > 5 * c->heartbeat) {
		lost(c, "its host has been silent for five heartbeats (TAUT_HEARTBEAT_MS)");
		return;
	}
	if (now - c->sent >= c->heartbeat) {
		frame_end(&b, frame_begin(&b, FRAME_BEAT));
		conn_send(c, &b);
		c->sent = now; /* also when the socket is full: the peer's bytes are on their way then */
	}
	soonest(c->sent + c->heartbeat);
	soonest(c->seen + 5 * c->heartbeat + 1);
}

static void conn_tick(struct conn *c, uint64_t now)
{
	if (c->state == CONN_EDGE && c->heartbeat) {
		beat(c, now);
		return;
	}
	if (!c->deadline)
		return;
	if (now < c->deadline) {
		soonest(c->deadline);
		return;
	}
	if (c->state == CONN_HELLO || c->state == CONN_PROOF)
		service_reject(c, "it did not prove itself in time");
	conn_close(c);
}

static void ticks(void)
{
	uint64_t now = now_ns();
	struct conn *c, *next;

	if (now < service->tick)
		return;
	service->tick = UINT64_MAX;
	for (c = service->conns; c; c = next) {
		next = c->next;
		conn_tick(c, now);
	}
	mend_tick(now);
}

/* --- The thread --- */

static void handle(const struct epoll_event *e)
{
	struct source *s = e->data.ptr;
	uint64_t count;

	switch (s->kind) {
	case SOURCE_WAKE:
		if (read(s->fd, &count, sizeof(count)) < 0)
			log_debug(LOG_BOOT, "read the wake descriptor: %s", strerror(errno));
		break;
	case SOURCE_TCP:
	case SOURCE_UNIX:
		if (s->fd >= 0)
			accept_all(s);
		break;
	case SOURCE_CONN:
		conn_event((struct conn *)(void *)s, e->events);
		break;
	}
}

static int wait_ms(void)
{
	uint64_t now = now_ns();

	if (service->calls)
		return 0;
	if (service->tick == UINT64_MAX)
		return -1;
	if (service->tick <= now)
		return 0;
	return (int)((service->tick - now) / 1000000 % 3600000) + 1;
}

static bool draining(void)
{
	for (const struct conn *c = service->conns; c; c = c->next)
		if (c->state == CONN_DRAIN)
			return true;
	return false;
}

static void *run(void *arg)
{
	struct epoll_event events[EVENTS];
	struct service *s = arg;

	pthread_mutex_lock(&boot_lock);
	while (!s->stop || draining()) {
		int n, ms = wait_ms();

		free_closed();
		free_listeners(s->unix_.next);
		s->unix_.next = NULL;
		pthread_mutex_unlock(&boot_lock);
		n = epoll_wait(s->epoll, events, EVENTS, ms);
		pthread_mutex_lock(&boot_lock);
		for (int i = 0; i < n; i++)
			handle(&events[i]);
		ticks();
		run_calls();
	}
	pthread_mutex_unlock(&boot_lock);
	return NULL;
}

/* --- Start and end --- */

static void raise_limit(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static void close_fds(struct service *s)
{
	for (struct conn *c = s->conns; c; c = c->next)
		close(c->source.fd);
	for (struct listener *l = s->tcp.next; l; l = l->next)
		close(l->source.fd);
	for (struct call *c = s->calls; c; c = c->next)
		if (c->fd >= 0)
			close(c->fd);
	close(s->tcp.source.fd);
	close(s->unix_.source.fd);
	close(s->wake.fd);
	close(s->spare);
	close(s->epoll);
}

static void before_fork(void)
{
	pthread_mutex_lock(&boot_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&boot_lock);
}

static void in_child(void)
{
	/* The thread is not here; its memory is left alone. */
	if (service) {
		dial_close_all();
		mend_forget();
		close_fds(service);
	}
	service = NULL;
	pthread_mutex_unlock(&boot_lock);
}

static void init_once(void)
{
	raise_limit();
	pthread_atfork(before_fork, after_fork, in_child);
}

static enum taut_status open_fds(struct service *s, const struct config *cfg)
{
	struct sockaddr_storage sa;
	socklen_t len;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = (struct source){ SOURCE_WAKE, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (s->epoll < 0 || s->wake.fd < 0 || s->spare < 0)
		return errno_fail(errno, "start the boot service");
	s->tcp.source = (struct source){ SOURCE_TCP, listen_tcp(&s->port, cfg->family) };
	if (s->tcp.source.fd < 0)
		return errno_fail(errno, "open a TCP listener");
	len = addr_unix(&sa, s->uniq);
	s->unix_.source = (struct source){ SOURCE_UNIX, listen_unix(&sa, len) };
	if (s->unix_.source.fd < 0)
		return errno_fail(errno, "open a local listener");
	return addr_candidates(s->addrs, ADDR_MAX, &s->naddr, cfg);
}

static enum taut_status start_thread(struct service *s)
{
	sigset_t all, old;
	int err;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	service = s;
	watch(&s->wake, EPOLLIN, EPOLL_CTL_ADD);
	watch(&s->tcp.source, EPOLLIN, EPOLL_CTL_ADD);
	watch(&s->unix_.source, EPOLLIN, EPOLL_CTL_ADD);
	err = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		return TAUT_OK;
	service = NULL;
	return errno_fail(err, "start the boot service's thread");
}

static enum taut_status start(const struct config *cfg)
{
	struct service *s = mem_calloc(1, sizeof(*s));
	enum taut_status st;

	if (!s)
		return fail(TAUT_ERR_NOMEM, "the boot service");
	*s = (struct service){ .pid = getpid(), .epoll = -1, .spare = -1, .tick = UINT64_MAX };
	s->wake.fd = s->tcp.source.fd = s->unix_.source.fd = -1;
	s->calls_tail = &s->calls;
	s->scratch = mem_calloc(1, SCRATCH_BYTES);
	st = s->scratch && auth_init() ? TAUT_OK : fail(TAUT_ERR_NOMEM, "the boot service");
	if (st)
		goto err_free;
	auth_random(s->uniq, sizeof(s->uniq));
	st = open_fds(s, cfg);
	if (!st)
		st = start_thread(s);
	if (!st)
		return TAUT_OK;
	close_fds(s);
err_free:
	mem_free(s->scratch);
	mem_free(s);
	return st;
}

enum taut_status service_hold(const struct config *cfg)
{
	enum taut_status st = TAUT_OK;

	pthread_once(&once, init_once);
	pthread_mutex_lock(&boot_lock);
	while (service && service->stop)
		pthread_cond_wait(&stopped, &boot_lock);
	if (!service)
		st = start(cfg);
	if (!st)
		service->refs++;
	pthread_mutex_unlock(&boot_lock);
	return st;
}

static void destroy(struct service *s)
{
	while (s->conns)
		conn_close(s->conns);
	free_closed();
	close_fds(s);
	free_listeners(s->unix_.next);
	mem_free(s->scratch);
	mem_free(s);
}

void service_drop(void)
{
	struct service *s;

	pthread_mutex_lock(&boot_lock);
	s = service;
	if (--s->refs) {
		pthread_mutex_unlock(&boot_lock);
		return;
	}
	s->stop = true;
	service_wake();
	pthread_mutex_unlock(&boot_lock);
	pthread_join(s->thread, NULL);
	mend_join();
	pthread_mutex_lock(&boot_lock);
	destroy(s);
	service = NULL;
	pthread_cond_broadcast(&stopped);
	pthread_mutex_unlock(&boot_lock);
}

enum taut_status service_hold_id(const uint8_t key[KEY_BYTES])
{
	struct id_hold *h = mem_calloc(1, sizeof(*h));

	if (!h)
		return fail(TAUT_ERR_NOMEM, "an id");
	memcpy(h->key, key, KEY_BYTES);
	pthread_mutex_lock(&boot_lock);
	h->next = service->holds;
	service->holds = h;
	pthread_mutex_unlock(&boot_lock);
	return TAUT_OK;
}

void service_take_id(const uint8_t key[KEY_BYTES])
{
	struct id_hold **p, *found;

	pthread_mutex_lock(&boot_lock);
	p = &service->holds;
	while (*p && memcmp((*p)->key, key, KEY_BYTES))
		p = &(*p)->next;
	found = *p;
	if (found)
		*p = found->next;
	pthread_mutex_unlock(&boot_lock);
	mem_free(found);
	if (found)
		service_drop();
}
