/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/limits.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "topo/limits_kernels.h"
#include "topo/limits_tcp.h"

/* A figure takes at least this many repetitions, and one repetition moves at least this
 * many bytes, so that the clock costs nothing against it. */
#define MIN_REPS 3
#define REP_BYTES ((size_t)512 << 10)

/* The cores that measure together. */
struct crew {
	int n;
	const int *cpus;
	const struct limits_opts *opts;
	struct limits *out;
	_Atomic int arrived, phase;
	_Atomic bool no_memory, done;
	double ns[LIMITS_MAX_CORES]; /* of the repetition, by member */
};

struct member {
	struct crew *crew;
	int index;
	float *a, *b, *c;
	pthread_t thread;
};

int limits_cpus(int cpus[], int max)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set)) {
		cpus[0] = -1;
		return 1;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[n++] = cpu;
	}
	return n;
}

int limits_machine_cpus(int cpus[], int max)
{
	cpu_set_t bound, all;
	int n;

	if (sched_getaffinity(0, sizeof(bound), &bound))
		return limits_cpus(cpus, max);
	memset(&all, 0xff, sizeof(all)); /* the kernel takes away what is not there or not allowed */
	if (sched_setaffinity(0, sizeof(all), &all))
		return limits_cpus(cpus, max);
	n = limits_cpus(cpus, max);
	(void)sched_setaffinity(0, sizeof(bound), &bound);
	return n;
}

bool limits_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return false;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0; /* 0: this thread */
}

const char *limits_level(size_t bytes)
{
	static const struct {
		const char *name;
		int conf;
	} levels[] = {
		{ "L1", _SC_LEVEL1_DCACHE_SIZE },
		{ "L2", _SC_LEVEL2_CACHE_SIZE },
		{ "L3", _SC_LEVEL3_CACHE_SIZE },
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		long size = sysconf(levels[i].conf);

		if (size > 0 && bytes <= (size_t)size)
			return levels[i].name;
	}
	return "memory";
}

/* Wait for the whole crew. Yields soon: the machine may be busy with other things. */
static void meet(struct crew *c)
{
	int phase = atomic_load(&c->phase);

	if (atomic_fetch_add(&c->arrived, 1) + 1 == c->n) {
		atomic_store(&c->arrived, 0);
		atomic_fetch_add(&c->phase, 1);
		return;
	}
	for (int spins = 0; atomic_load(&c->phase) == phase; spins++) {
		if (spins < 2000)
			cpu_relax();
		else
			sched_yield();
	}
}

/* The first @workers members run @kernel on @bytes at once; best rate of all, in GB/s. The
 * time of a repetition is that of its slowest member. */
static double rate(struct member *m, limits_kernel kernel, size_t bytes, int workers)
{
	struct crew *c = m->crew;
	size_t calls = bytes < REP_BYTES ? REP_BYTES / bytes : 1;
	uint64_t end = now_ns() + (uint64_t)(c->opts->point_ms * 1e6);
	double best = 0;

	for (int rep = 0;; rep++) {
		double slowest = 0, gbps;
		uint64_t start;

		meet(c);
		start = now_ns();
		for (size_t i = 0; m->index < workers && i < calls; i++)
			kernel(m->c, m->a, m->b, bytes / sizeof(float));
		c->ns[m->index] = (double)(now_ns() - start);
		meet(c);
		for (int i = 0; i < workers; i++)
			slowest = fmax(slowest, c->ns[i]);
		gbps = (double)workers * (double)bytes * (double)calls / fmax(slowest, 1);
		best = fmax(best, gbps);
		if (m->index == 0)
			atomic_store(&c->done, rep + 1 >= MIN_REPS && now_ns() >= end);
		meet(c);
		if (atomic_load(&c->done))
			return best;
	}
}

typedef limits_kernel (*kernel_pair)(bool past);

static double best_rate(struct member *m, kernel_pair kernel, size_t bytes, int workers)
{
	double cached = rate(m, kernel(false), bytes, workers);

	/* Stores past the caches can only win where the buffers do not fit the near ones. */
	if (m->crew->opts->brief || !kernel(true) || bytes < (size_t)256 << 10)
		return cached;
	return fmax(cached, rate(m, kernel(true), bytes, workers));
}

static void curve(struct member *m, struct limits_curve *out, kernel_pair kernels)
{
	const struct limits_opts *o = m->crew->opts;
	int n = 0;

	for (size_t bytes = o->min_bytes; n < LIMITS_MAX_POINTS; bytes *= 8) {
		struct limits_point p = { .bytes = bytes < o->max_bytes ? bytes : o->max_bytes };

		p.one = best_rate(m, kernels, p.bytes, 1);
		p.all = m->crew->n > 1 ? best_rate(m, kernels, p.bytes, m->crew->n) : p.one;
		if (m->index == 0)
			out->p[n] = p;
		n++;
		if (bytes >= o->max_bytes)
			break;
	}
	if (m->index == 0)
		out->n = n;
}

/* Huge pages where they are to be had: the limit is not to be one of the page tables.
 * Touched here, by the core that will use them. */
static float *buffer(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish */
	memset(p, 0, bytes);
	return p;
}

static void release(float *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

static void *work(void *arg)
{
	struct member *m = arg;
	struct crew *c = m->crew;
	size_t len = c->opts->max_bytes;
	bool reduce = c->opts->what & LIMITS_REDUCE;

	limits_pin(c->cpus[m->index]);
	m->a = buffer(len);
	m->b = reduce ? buffer(len) : NULL;
	m->c = buffer(len);
	if (!m->a || !m->c || (reduce && !m->b))
		atomic_store(&c->no_memory, true);
	meet(c);
	if (!atomic_load(&c->no_memory)) {
		if (c->opts->what & LIMITS_COPY)
			curve(m, &c->out->copy, limits_copy_kernel);
		if (reduce)
			curve(m, &c->out->reduce, limits_reduce_kernel);
	}
	release(m->a, len);
	release(m->b, len);
	release(m->c, len);
	return NULL;
}

static enum taut_status measure_memory(struct limits *out, const struct limits_opts *opts, const int *cpus)
{
	struct crew crew = { .n = out->cores, .cpus = cpus, .opts = opts, .out = out };
	struct member *members = mem_calloc((size_t)crew.n, sizeof(*members));
	int started = 0;

	if (!members)
		return fail(TAUT_ERR_NOMEM, "limits: no memory for %d threads", crew.n);
	for (; started < crew.n; started++) {
		members[started] = (struct member){ .crew = &crew, .index = started };
		if (thread_start(&members[started].thread, "taut-limits", work, &members[started]))
			break;
	}
	/* Those that did not start would be waited for: stand in for them at the one meeting. */
	if (started < crew.n) {
		atomic_store(&crew.no_memory, true);
		for (int i = started; i < crew.n; i++)
			if (atomic_fetch_add(&crew.arrived, 1) + 1 == crew.n)
				atomic_fetch_add(&crew.phase, 1);
	}
	for (int i = 0; i < started; i++)
		pthread_join(members[i].thread, NULL);
	mem_free(members);
	if (atomic_load(&crew.no_memory))
		return fail(TAUT_ERR_NOMEM, "limits: no memory for buffers of %zu bytes on each of %d cores",
			    opts->max_bytes, crew.n);
	return TAUT_OK;
}

/* Two lines of memory, one written by each side. */
struct ping {
	_Alignas(128) _Atomic uint64_t there;
	_Alignas(128) _Atomic uint64_t back;
	_Alignas(128) const int *cpus;
	double best_ns; /* written by the caller */
};
#define PING_END UINT64_MAX
#define PING_NS 10000000u /* how long to play, at least ... */
#define PING_BATCHES 50	  /* ... and how often: a busy machine takes the core away in between ... */
#define PING_TRIPS 20	  /* ... but seldom in as few round trips */

static uint64_t await_change(_Atomic uint64_t *word, uint64_t old)
{
	for (unsigned spins = 0;; spins++) {
		uint64_t v = atomic_load_explicit(word, memory_order_acquire);

		if (v != old)
			return v;
		if (spins > 100000)
			sched_yield(); /* the partner is not on its core */
	}
}

static void *ping_echo(void *arg)
{
	struct ping *p = arg;
	uint64_t seen = 0;

	limits_pin(p->cpus[1]);
	while ((seen = await_change(&p->there, seen)) != PING_END)
		atomic_store_explicit(&p->back, seen, memory_order_release);
	return NULL;
}

static void *ping_call(void *arg)
{
	struct ping *p = arg;
	uint64_t i = 0;

	limits_pin(p->cpus[0]);
	for (uint64_t end = now_ns() + PING_NS, batch = 0; now_ns() < end || batch < PING_BATCHES; batch++) {
		uint64_t start = now_ns();

		for (int k = 0; k < PING_TRIPS; k++) {
			atomic_store_explicit(&p->there, i + 1, memory_order_release);
			i = await_change(&p->back, i);
		}
		p->best_ns = fmin(p->best_ns, (double)(now_ns() - start) / (2 * PING_TRIPS));
	}
	atomic_store_explicit(&p->there, PING_END, memory_order_release);
	return NULL;
}

static enum taut_status measure_trip(struct limits *out, const int *cpus)
{
	struct ping ping = { .cpus = cpus, .best_ns = 1e12 };
	pthread_t echo;
	pthread_t caller;
	int err = thread_start(&echo, "taut-limits", ping_echo, &ping);

	if (err)
		return errno_fail(err, "limits: cannot start a thread");
	err = thread_start(&caller, "taut-limits", ping_call, &ping);
	if (err)
		atomic_store(&ping.there, PING_END);
	else
		pthread_join(caller, NULL);
	pthread_join(echo, NULL);
	if (err)
		return errno_fail(err, "limits: cannot start a thread");
	out->trip_us = ping.best_ns / 1e3;
	return TAUT_OK;
}

enum taut_status limits_measure(struct limits *out, const struct limits_opts *opts)
{
	int cpus[LIMITS_MAX_CORES];
	int allowed = (opts->whole_machine ? limits_machine_cpus : limits_cpus)(cpus, LIMITS_MAX_CORES);
	struct limits l = { .cores = opts->cores && opts->cores < allowed ? opts->cores : allowed };
	enum taut_status st = TAUT_OK;

	if ((opts->what & ~(unsigned)LIMITS_TRIP) && (!opts->min_bytes || opts->min_bytes > opts->max_bytes))
		return fail(TAUT_ERR_ARG, "limits: buffers of %zu to %zu bytes are no range", opts->min_bytes,
			    opts->max_bytes);
	if (opts->what & (LIMITS_COPY | LIMITS_REDUCE))
		st = measure_memory(&l, opts, cpus);
	if (!st && (opts->what & LIMITS_TRIP) && allowed > 1)
		st = measure_trip(&l, cpus);
	if (!st && (opts->what & LIMITS_TCP))
		st = limits_measure_tcp(&l, opts, cpus, allowed);
	if (!st)
		*out = l;
	return st;
}

/* Between two points the rate changes with the logarithm of the size. */
double limits_rate(const struct limits_curve *curve, size_t bytes, int cores, int all_cores)
{
	const struct limits_point *p = curve->p;
	double part, one, all, x = (double)(bytes ? bytes : 1);
	int i = 0;

	if (curve->n == 0)
		return 0;
	while (i + 1 < curve->n && p[i + 1].bytes <= bytes)
		i++;
	part = i + 1 < curve->n ? log(x / (double)p[i].bytes) / log((double)p[i + 1].bytes / (double)p[i].bytes) : 0;
	part = fmax(part, 0);
	one = part > 0 ? p[i].one + part * (p[i + 1].one - p[i].one) : p[i].one;
	all = part > 0 ? p[i].all + part * (p[i + 1].all - p[i].all) : p[i].all;
	if (all_cores < 2 || cores >= all_cores)
		return all;
	return one + (all - one) * (cores - 1) / (all_cores - 1);
}
