/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/limits_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"

#define TRIP_NS 20000000u	     /* how long to play ping-pong */
#define CALL_BYTES ((size_t)1 << 20) /* most that one system call is asked to move */
#define MIN_REPS 3

/* What both ends know. */
struct pair {
	const struct limits_opts *opts;
	struct limits *out;
	_Atomic int arrived, phase, status; /* status: the first errno */
	_Atomic bool done;
	double ns[2];
};

struct end {
	struct pair *pair;
	int index, fd, cpu;
	char *tx, *rx;
};

static void meet(struct pair *p)
{
	int phase = atomic_load(&p->phase);

	if (atomic_fetch_add(&p->arrived, 1) + 1 == 2) {
		atomic_store(&p->arrived, 0);
		atomic_fetch_add(&p->phase, 1);
		return;
	}
	while (atomic_load(&p->phase) == phase)
		sched_yield();
}

/* After a call that moved nothing: false when the connection is lost; the other end then
 * sees that too. */
static bool again(struct end *e, ssize_t n, unsigned *idle)
{
	int none = 0;

	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		atomic_compare_exchange_strong(&e->pair->status, &none, n ? errno : ECONNRESET);
		shutdown(e->fd, SHUT_RDWR);
		return false;
	}
	if (++*idle % 64 == 0)
		sched_yield(); /* the other end may need this core */
	return true;
}

/* Sends @out_len and receives @in_len bytes, whichever is possible. */
static bool exchange(struct end *e, size_t out_len, size_t in_len)
{
	size_t sent = 0, got = 0;
	unsigned idle = 0;

	while (sent < out_len || got < in_len) {
		size_t out = out_len - sent < CALL_BYTES ? out_len - sent : CALL_BYTES;
		size_t in = in_len - got < CALL_BYTES ? in_len - got : CALL_BYTES;
		ssize_t n = out ? send(e->fd, e->tx + sent, out, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;

		if (n > 0)
			sent += (size_t)n;
		else if (out && !again(e, n, &idle))
			return false;
		if (!in)
			continue;
		n = recv(e->fd, e->rx + got, in, MSG_DONTWAIT);
		if (n > 0)
			got += (size_t)n;
		else if (!again(e, n, &idle))
			return false;
	}
	return true;
}

/* Both ends stop together: end 0 decides, once both have finished the round. */
static bool go_on(struct end *e, bool more)
{
	struct pair *p = e->pair;
	bool done;

	meet(p);
	if (e->index == 0)
		atomic_store(&p->done, !more || atomic_load(&p->status));
	meet(p);
	done = atomic_load(&p->done);
	meet(p);
	return !done;
}

static double trip_us(struct end *e)
{
	uint64_t end = now_ns() + TRIP_NS;
	double best = 1e12;

	do {
		uint64_t start = now_ns();

		for (int i = 0; i < 50; i++) {
			if (!exchange(e, e->index == 0 ? 8 : 0, e->index == 0 ? 0 : 8) ||
			    !exchange(e, e->index == 0 ? 0 : 8, e->index == 0 ? 8 : 0))
				break;
		}
		best = fmin(best, (double)(now_ns() - start) / 100);
	} while (go_on(e, now_ns() < end));
	return best / 1e3;
}

static double exchange_rate(struct end *e, size_t bytes)
{
	struct pair *p = e->pair;
	uint64_t end = now_ns() + (uint64_t)(p->opts->point_ms * 1e6);
	size_t calls = bytes < CALL_BYTES ? CALL_BYTES / bytes : 1;
	double best = 0;
	int rep = 0;

	do {
		uint64_t start;

		meet(p);
		start = now_ns();
		for (size_t i = 0; i < calls; i++) {
			if (!exchange(e, bytes, bytes))
				break;
		}
		p->ns[e->index] = (double)(now_ns() - start);
		meet(p);
		best = fmax(best, (double)bytes * (double)calls / fmax(p->ns[0], p->ns[1]));
		rep++;
	} while (go_on(e, rep < MIN_REPS || now_ns() < end));
	return best;
}

static void *play(void *arg)
{
	struct end *e = arg;
	const struct limits_opts *o = e->pair->opts;
	struct limits_curve c = { 0 };
	double trip;

	limits_pin(e->cpu);
	trip = trip_us(e);
	for (size_t bytes = o->min_bytes; c.n < LIMITS_MAX_POINTS && !atomic_load(&e->pair->status); bytes *= 8) {
		size_t len = bytes < o->max_bytes ? bytes : o->max_bytes;
		double rate = exchange_rate(e, len);

		c.p[c.n++] = (struct limits_point){ .bytes = len, .one = rate, .all = rate };
		if (bytes >= o->max_bytes)
			break;
	}
	if (e->index == 0) {
		e->pair->out->tcp = c;
		e->pair->out->tcp_trip_us = trip;
	}
	return NULL;
}

static void tune(int fd, char congestion[16])
{
	int one = 1;
	socklen_t len = 15;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* Rate-pacing ones are slower over loopback; may be forbidden, then the default stays. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	memset(congestion, 0, 16);
	(void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &len);
}

static enum taut_status connect_ends(int fds[2], char congestion[16])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err;

	if (listener < 0)
		return errno_fail(errno, "limits: cannot make a TCP socket");
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fds[0] < 0 || bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) || connect(fds[0], (struct sockaddr *)&addr, len))
		goto err_close;
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fds[1] < 0)
		goto err_close;
	close(listener);
	tune(fds[0], congestion);
	tune(fds[1], congestion);
	return TAUT_OK;
err_close:
	err = errno;
	close(listener);
	if (fds[0] >= 0)
		close(fds[0]);
	return errno_fail(err, "limits: cannot connect over 127.0.0.1");
}

static enum taut_status run_ends(struct pair *pair, struct end ends[2])
{
	pthread_t threads[2];
	int err = thread_start(&threads[0], "taut-limits", play, &ends[0]);

	if (err)
		return errno_fail(err, "limits: cannot start a thread");
	err = thread_start(&threads[1], "taut-limits", play, &ends[1]);
	if (err)
		play(&ends[1]); /* rather in this thread than leave the other waiting */
	else
		pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	if (atomic_load(&pair->status))
		return errno_fail(atomic_load(&pair->status), "limits: TCP over 127.0.0.1");
	return TAUT_OK;
}

enum taut_status limits_measure_tcp(struct limits *out, const struct limits_opts *opts, const int *cpus, int ncpus)
{
	struct pair pair = { .opts = opts, .out = out };
	struct end ends[2] = { { 0 } };
	char *buffers = mem_calloc(4, opts->max_bytes);
	int fds[2];
	enum taut_status st;

	if (!buffers)
		return fail(TAUT_ERR_NOMEM, "limits: no memory for 4 buffers of %zu bytes", opts->max_bytes);
	st = connect_ends(fds, out->tcp_congestion);
	if (st)
		goto out_free;
	for (int i = 0; i < 2; i++) {
		char *tx = buffers + (size_t)(2 * i) * opts->max_bytes;

		ends[i] = (struct end){ &pair, i, fds[i], cpus[i < ncpus ? i : 0], tx, tx + opts->max_bytes };
		memset(tx, 1, 2 * opts->max_bytes);
	}
	st = run_ends(&pair, ends);
	close(fds[0]);
	close(fds[1]);
out_free:
	mem_free(buffers);
	return st;
}
