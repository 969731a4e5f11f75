/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_measure.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "bench_coll.h"
#include "comm/comm.h"

enum {
	REPS_MIN = 4,
	REPS_MAX = 101,
	BATCH_US = 500,
	BATCH_MAX = 1000,
	WARM_CALLS = 3,
	TURNS_MIN = 3,		/* the three most hopeful ways are measured, however long it takes */
	SMALL_BYTES = 64 << 10, /* a batch has ten calls at least up to this, and every root its turn */
};

struct runner {
	const struct tune_measure *m;
	struct tune_points *points;
	struct taut_comm *comm; /* of the ranks that measure */
	int rank, size;
	unsigned char *in, *out; /* private */
	unsigned char *shared;	 /* both, in memory of all */
	size_t longest;
	double point_us; /* time for one point in one round */
	uint64_t begun;
	int done;
};

/* --- One point. --- */

static struct bench_call call_of(const struct runner *r, const struct tune_point *p)
{
	return (struct bench_call){ .coll = bench_coll_find(sched_coll_name(p->coll)),
				    .comm = r->comm,
				    .rank = r->rank,
				    .size = r->size,
				    .in = p->mapped ? r->shared : r->in,
				    .out = p->mapped ? r->shared + r->longest : r->out,
				    .count = tune_count(p->coll, p->bytes, r->size),
				    .type = TAUT_FLOAT32,
				    .op = TAUT_SUM };
}

/* Roots take turns: else calls of one root overlap, and each looks cheaper than it is. */
static enum taut_status calls(double *us, struct runner *r, const struct tune_point *p, int n)
{
	enum taut_status st = taut_barrier(r->comm, NULL);
	struct bench_call c = call_of(r, p);
	uint64_t start;

	if (!st)
		st = taut_barrier(r->comm, NULL); /* leave together, however late one came to the first */
	start = now_ns();
	for (int i = 0; i < n && !st; i++)
		st = bench_call_run(&c, i % r->size);
	*us = (double)(now_ns() - start) / 1e3 / n;
	return st;
}

static enum taut_status slowest(struct runner *r, double *values, int n)
{
	return taut_all_reduce(values, values, (size_t)n, TAUT_FLOAT64, TAUT_MAX, r->comm, NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int clamp(double v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : (int)v;
}

/* Of few calls one that is late would find all done by the others. */
static int least_batch(const struct runner *r, const struct tune_point *p)
{
	if (p->bytes > SMALL_BYTES)
		return 2;
	return r->size > 10 ? r->size : 10;
}

/* How often a batch of calls can be repeated in the time there is; all ranks agree. */
static enum taut_status plan_reps(int *batch, int *n, struct runner *r, const struct tune_point *p)
{
	double us, all;
	uint64_t start;
	enum taut_status st = calls(&us, r, p, p->bytes > SMALL_BYTES ? 1 : WARM_CALLS);

	if (!st)
		st = slowest(r, &us, 1);
	if (st)
		return st;
	*batch = clamp(BATCH_US / (us > 0.01 ? us : 0.01), least_batch(r, p), BATCH_MAX);
	start = now_ns();
	st = calls(&us, r, p, *batch);
	all = (double)(now_ns() - start) / 1e3; /* on a busy machine the barriers take longer than the calls */
	if (!st)
		st = slowest(r, &all, 1);
	*n = clamp(r->point_us / all, REPS_MIN, REPS_MAX);
	return st;
}

/* Of the repetitions' times, each that of the slowest rank, the lower quartile: other work
 * on the machine only ever adds. */
static enum taut_status time_point(double *out, struct runner *r, const struct tune_point *p)
{
	double reps[REPS_MAX], us;
	int batch = 1, n = 1;
	enum taut_status st = calls(&us, r, p, least_batch(r, p)); /* plans for the roots, connections */

	if (!st)
		st = plan_reps(&batch, &n, r, p);
	for (int i = 0; i < n && !st; i++)
		st = calls(&reps[i], r, p, batch);
	if (!st)
		st = slowest(r, reps, n);
	if (st)
		return st;
	qsort(reps, (size_t)n, sizeof(reps[0]), by_value);
	*out = reps[n / 4];
	return TAUT_OK;
}

/* Did the library do what the tuning file asks for? */
static bool as_asked(const struct runner *r, const struct tune_point *p)
{
	char want[64], have[64];

	snprintf(want, sizeof(want), "%s/%s", p->way.algo->name,
		 p->way.algo->mapped ? "mapped" : sched_proto_name(p->way.proto));
	return !strcmp(comm_last_choice(r->comm, have, sizeof(have)), want);
}

static enum taut_status try_point(struct runner *r, struct tune_point *p)
{
	struct bench_call c = call_of(r, p);
	double us = 0;
	enum taut_status st = bench_call_run(&c, 0);

	if (st || !as_asked(r, p))
		return st;
	if (r->rank == 0 && r->m->progress)
		r->m->progress(r->m->ctx, p, (double)r->done / (r->points->n * r->m->rounds));
	st = time_point(&us, r, p);
	if (!st && (p->us <= 0 || us < p->us))
		p->us = us;
	return st;
}

static enum taut_status measure_point(struct runner *r, struct tune_point *p)
{
	enum taut_status st = try_point(r, p);

	if (!st || r->rank)
		return st;
	return fail(st, "%s (%s of %zu bytes, %d ranks%s%s, by %s %s, pieces of %zu bytes, %d channels)",
		    taut_error_message(), sched_coll_name(p->coll), p->bytes, r->size,
		    p->at->machine.one_wire ? ", tcp" : "", p->mapped ? ", shared buffers" : "", p->way.algo->name,
		    sched_proto_name(p->way.proto), p->way.piece_bytes, p->way.channels);
}

/* --- One group of ranks. --- */

/* A tuning file that asks for the ways whose turn it is, in memory: nothing is left behind. */
static enum taut_status add_lines(struct tune *t, const struct runner *r, int turn)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < r->points->n && !st; i++) {
		const struct tune_point *p = &r->points->p[i];
		struct tune_best b = { .coll = p->coll,
				       .nranks = p->at->nranks,
				       .nodes = p->at->machine.one_wire ? p->at->nranks : p->at->nodes,
				       .mapped = p->mapped,
				       .algo = p->way.algo,
				       .proto = p->way.proto,
				       .channels = p->way.channels,
				       .piece_bytes = p->way.piece_bytes };

		if (p->turn != turn)
			continue;
		tune_range(&b.lo, &b.hi, p, r->m->sizes);
		st = tune_add(t, &b);
	}
	return st;
}

static enum taut_status write_lines(int fd, const struct runner *r, int turn)
{
	struct tune *t;
	char *text = NULL;
	size_t len;
	enum taut_status st = tune_create(&t);

	if (st)
		return st;
	st = add_lines(t, r, turn);
	if (!st)
		st = tune_text(&text, &len, t);
	if (!st && write(fd, text, len) != (ssize_t)len)
		st = errno_fail(errno, "tuning file in memory");
	mem_free(text);
	tune_free(t);
	return st;
}

/* Nothing but the file may choose. *@fd to be closed after the group is made. */
static enum taut_status ask_for(int *fd, const struct runner *r, int turn)
{
	char path[64];

	*fd = memfd_create("taut.tune", MFD_CLOEXEC);
	if (*fd < 0)
		return errno_fail(errno, "memory for a tuning file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	setenv("TAUT_ALGO", ";", 1); /* no list; empty would leave it to a settings file */
	setenv("TAUT_PROTO", ";", 1);
	setenv("TAUT_CHANNELS", "0", 1);
	setenv("TAUT_TUNE_FILE", path, 1);
	if (r->m->wire)
		setenv("TAUT_WIRE", r->m->wire, 1);
	return r->rank ? TAUT_OK : write_lines(*fd, r, turn);
}

static enum taut_status open_group(struct runner *r, int turn)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .name = "tune" };
	struct taut_id id = { { 0 } };
	int fd = -1;
	enum taut_status st = ask_for(&fd, r, turn);

	if (!st && r->rank == 0)
		st = taut_id_create(&id);
	if (!st)
		st = taut_broadcast(&id, &id, sizeof(id), TAUT_UINT8, 0, r->m->control, NULL);
	if (!st && r->rank < r->size)
		st = taut_comm_create(&r->comm, &id, r->rank, r->size, &opts);
	if (fd >= 0)
		close(fd);
	return st;
}

static enum taut_status measure_kind(struct runner *r, int turn, bool mapped)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < r->points->n && !st; i++) {
		struct tune_point *p = &r->points->p[i];

		if (p->turn != turn || p->mapped != mapped)
			continue;
		st = measure_point(r, p);
		r->done++;
	}
	return st;
}

/* Shared memory comes last: while a group has some, every call asks whether it is used. */
static enum taut_status measure_turn(struct runner *r, int turn)
{
	void *p = NULL;
	enum taut_status st = measure_kind(r, turn, false);

	if (st || !r->points->p[0].at->mapped)
		return st;
	st = taut_mem_alloc(&p, 2 * r->longest, r->comm);
	if (st)
		return st;
	r->shared = p;
	memset(p, 0, 2 * r->longest);
	st = taut_barrier(r->comm, NULL);
	if (!st)
		st = measure_kind(r, turn, true);
	if (!st)
		st = taut_mem_free(p, r->comm);
	return st;
}

static enum taut_status run_turn(struct runner *r, int turn)
{
	enum taut_status st;

	r->comm = NULL;
	st = open_group(r, turn);
	if (!st && r->comm)
		st = measure_turn(r, turn);
	taut_comm_destroy(r->comm);
	return st;
}

/* All wait for the measuring ranks, and hear whether there is time for more. On a busy
 * machine the least that is measured of a point takes longer than was planned. */
static enum taut_status time_left(bool *out, struct runner *r)
{
	double spent = (double)(now_ns() - r->begun) / 1e9;
	enum taut_status st = taut_broadcast(&spent, &spent, 1, TAUT_FLOAT64, 0, r->m->control, NULL);

	*out = spent < r->m->seconds;
	return st;
}

/* --- All. --- */

static void bind_rank(const struct runner *r, const cpu_set_t *all)
{
	cpu_set_t one;
	int nth = r->rank;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && r->m->bind && CPU_COUNT(all) >= r->size; cpu++)
		if (CPU_ISSET(cpu, all) && nth-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), CPU_COUNT(&one) ? &one : all);
}

static enum taut_status make_buffers(struct runner *r)
{
	for (int i = 0; i < r->points->n; i++)
		if (r->points->p[i].bytes > r->longest)
			r->longest = r->points->p[i].bytes;
	r->longest = (r->longest + 4095) & ~(size_t)4095;
	r->in = mem_aligned(4096, r->longest);
	r->out = mem_aligned(4096, r->longest);
	if (!r->in || !r->out)
		return fail(TAUT_ERR_NOMEM, "buffers of %zu bytes", r->longest);
	memset(r->in, 0, r->longest);
	memset(r->out, 0, r->longest);
	return TAUT_OK;
}

enum taut_status tune_measure(struct tune_points *points, const struct tune_measure *m)
{
	struct runner r = { .m = m, .points = points };
	cpu_set_t before;
	bool more = true;
	enum taut_status st = TAUT_OK;

	if (!points->n)
		return TAUT_OK;
	r.rank = taut_comm_rank(m->control);
	r.size = points->p[0].at->nranks;
	r.point_us = m->seconds * 1e6 / (points->n * m->rounds);
	if (sched_getaffinity(0, sizeof(before), &before))
		return errno_fail(errno, "processors of rank %d", r.rank);
	if (r.rank < r.size) {
		bind_rank(&r, &before);
		st = make_buffers(&r);
	}
	r.begun = now_ns();
	for (int i = 0; i < m->rounds * points->turns && !st && more; i++) {
		st = run_turn(&r, i % points->turns);
		if (!st)
			st = time_left(&more, &r);
		more = more || i + 1 < TURNS_MIN;
	}
	mem_free(r.in);
	mem_free(r.out);
	sched_setaffinity(0, sizeof(before), &before);
	return st;
}
