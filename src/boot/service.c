/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "boot/auth.h"
#include "boot/dial.h"
#include "boot/group.h"
#include "boot/mend.h"

enum { EVENTS = 64, ADDRS_KNOWN = 64 };

pthread_mutex_t boot_lock = PTHREAD_MUTEX_INITIALIZER;
struct service *service;

static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_ulong rejected;

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

void service_watch(struct source *s, uint32_t events, int op)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (epoll_ctl(service->epoll, op, s->fd, &e))
		log_err(LOG_BOOT, "epoll_ctl: %s", strerror(errno));
}

/* --- Timers --- */

static void soonest(uint64_t when)
{
	if (when < service->tick)
		service->tick = when;
}

/* Time in which this thread could not look (the process was stopped, or got no core) says
 * nothing about a peer. */
static void excuse(struct conn *c, uint64_t now)
{
	if (service->late > c->heartbeat)
		c->seen = now - c->seen > service->late ? c->seen + service->late : now;
}

/* Signs of life on edges between machines. */
static void beat(struct conn *c, uint64_t now)
{
	struct buf b = { 0 };

	excuse(c, now);
	if (now - c->seen > 5 * c->heartbeat) {
		edge_silent(c);
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
	service->late = 0;
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
			listen_accept(s);
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
		uint64_t due = ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)ms * 1000000u, now;

		conn_free_closed();
		listen_free(s->unix_.next);
		s->unix_.next = NULL;
		pthread_mutex_unlock(&boot_lock);
		n = epoll_wait(s->epoll, events, EVENTS, ms);
		pthread_mutex_lock(&boot_lock);
		now = now_ns();
		s->late += now > due ? now - due : 0;
		for (int i = 0; i < n; i++)
			handle(&events[i]);
		/* After SIGCONT it is interrupted (n < 0): read what has come before judging who is silent. */
		if (n >= 0)
			ticks();
		call_run_all();
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

static void tell_owners(void)
{
	for (struct group *g = service->groups; g; g = g->next)
		for (struct boot *b = g->members; b; b = b->next)
			if (b->cb.on_fork)
				b->cb.on_fork(b->cb.ctx, (int)service->pid);
}

static void in_child(void)
{
	/* The thread is not here; its memory is left alone. */
	if (service) {
		tell_owners();
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

static enum taut_status find_addrs(struct service *s, const struct config *cfg)
{
	enum taut_status st;
	struct addr *all = mem_calloc(ADDRS_KNOWN, sizeof(*all));
	int n;

	if (!all)
		return fail(TAUT_ERR_NOMEM, "the boot service");
	st = addr_candidates(all, ADDRS_KNOWN, &n, cfg);
	if (st) {
		mem_free(all);
		return st;
	}
	s->naddr = n < ADDR_MAX ? n : ADDR_MAX;
	memcpy(s->addrs, all, (size_t)s->naddr * sizeof(*all));
	if (cfg->ifname[0]) {
		s->only = all;
		s->nonly = n;
	} else {
		mem_free(all);
	}
	return TAUT_OK;
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
	return find_addrs(s, cfg);
}

static enum taut_status start_thread(struct service *s)
{
	int err;

	service = s;
	service_watch(&s->wake, EPOLLIN, EPOLL_CTL_ADD);
	service_watch(&s->tcp.source, EPOLLIN, EPOLL_CTL_ADD);
	service_watch(&s->unix_.source, EPOLLIN, EPOLL_CTL_ADD);
	err = thread_start(&s->thread, "taut-service", run, s);
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
	mem_free(s->only);
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
	conn_free_closed();
	close_fds(s);
	listen_free(s->unix_.next);
	mem_free(s->only);
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

static struct id_hold **find_hold(const uint8_t key[KEY_BYTES])
{
	struct id_hold **p = &service->holds;

	while (*p && memcmp((*p)->key, key, KEY_BYTES))
		p = &(*p)->next;
	return p;
}

struct id_hold *service_find_id(const uint8_t key[KEY_BYTES])
{
	return *find_hold(key);
}

enum taut_status service_hold_id(const uint8_t key[KEY_BYTES], const uint8_t secret[SECRET_BYTES])
{
	struct id_hold *h = mem_calloc(1, sizeof(*h));

	if (!h)
		return fail(TAUT_ERR_NOMEM, "an id");
	memcpy(h->key, key, KEY_BYTES);
	memcpy(h->secret, secret, SECRET_BYTES);
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
	p = find_hold(key);
	found = *p;
	if (found)
		*p = found->next;
	pthread_mutex_unlock(&boot_lock);
	if (!found)
		return;
	auth_wipe(found->secret, SECRET_BYTES);
	mem_free(found);
	service_drop();
}
