/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/time.h"
#include "bench_check.h"
#include "bench_limit.h"
#include "bench_report.h"
#include "comm/comm.h"

#define ALIGN 4096	  /* of private buffers, as peers' benchmarks have it */
#define WARM_NS 20000000u /* warm up at least this long ... */
#define WARM_ROUNDS 12	  /* ... but not for ever */
#define BATCH_US 2000	  /* a repetition lasts about this long ... */
#define SMALL_BYTES 32768 /* ... and has at least ten calls up to this size */
#define MAX_BATCH 4000
#define MIN_REPS 7
#define MAX_REPS 201

struct runner {
	const struct bench_opts *opts;
	const struct limits *limits; /* rank 0 only, may be NULL */
	struct taut_comm *comm;
	struct bench_report *report; /* rank 0 only */
	int rank, size;
	bool tcp, one_machine;
	struct bench_buffers buffers; /* for the largest row */
	struct bench_table *table;    /* scratch of the verification */
	double *reps;		      /* times of the repetitions */
	int row, rows;		      /* for the eye */
	long long wrong;
};

/* --- Agreement: counts and times must be the same on all ranks --- */

/* By a collective that is not being measured: its algorithm may be set to one that wants
 * shared buffers. */
static enum taut_status agree(struct runner *r, double *values, int n, enum taut_op op)
{
	double *all;
	enum taut_status st;

	if (r->opts->coll->kind != BENCH_ALL_REDUCE)
		return taut_all_reduce(values, values, (size_t)n, TAUT_FLOAT64, op, r->comm, NULL);
	all = mem_calloc((size_t)n * (size_t)r->size, sizeof(*all));
	if (!all)
		return fail(TAUT_ERR_NOMEM, "no memory for %d times of %d ranks", n, r->size);
	st = taut_all_gather(values, all, (size_t)n, TAUT_FLOAT64, r->comm, NULL);
	for (int i = 0; i < n * r->size && !st; i++) {
		double *v = &values[i % n];

		if (i < n)
			*v = all[i];
		else
			*v = op == TAUT_MAX ? fmax(*v, all[i]) : *v + all[i];
	}
	mem_free(all);
	return st;
}

static enum taut_status agree_max(struct runner *r, double *values, int n)
{
	return agree(r, values, n, TAUT_MAX);
}

static enum taut_status meet(struct runner *r)
{
	enum taut_status st = taut_barrier(r->comm, NULL);

	/* The second one: so that all leave it together, however late one came to the first. */
	return st ? st : taut_barrier(r->comm, NULL);
}

/* --- Timing --- */

static int root_of(const struct runner *r, int call)
{
	return r->opts->root == BENCH_ALL_ROOTS ? call % r->size : r->opts->root;
}

static enum taut_status calls(struct runner *r, const struct bench_call *c, int n, double *us)
{
	uint64_t start;
	enum taut_status st = meet(r);

	start = now_ns();
	if (c->coll->rooted) {
		for (int i = 0; i < n && !st; i++)
			st = bench_call_run(c, root_of(r, i));
	} else {
		for (int i = 0; i < n && !st; i++)
			st = bench_call_run(c, 0);
	}
	*us = (double)(now_ns() - start) / 1e3;
	return st;
}

/* Rounds of ever more calls, until one has lasted long enough; *@us: the best time of a call. */
static enum taut_status warm_up(struct runner *r, const struct bench_call *c, double *us)
{
	int n = r->opts->warmup >= 0 ? r->opts->warmup : 3;
	enum taut_status st = TAUT_OK;

	*us = 1e12;
	for (int round = 0; round < WARM_ROUNDS && !st && n; round++) {
		double t;

		st = calls(r, c, n, &t);
		if (!st)
			st = agree_max(r, &t, 1);
		*us = fmin(*us, t / n);
		if (r->opts->warmup >= 0 || (t * 1e3 > WARM_NS && round > 0))
			break;
		if (t * 1e3 <= WARM_NS)
			n *= 4;
	}
	if (!n)
		*us = BATCH_US;
	return st;
}

static int clamp(double v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : (int)v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Before anything else is called: the library remembers its last plan only. */
static void keep_choice(struct runner *r, struct bench_side *out)
{
	char buf[128];
	const char *choice = comm_last_choice(r->comm, buf, sizeof(buf));
	size_t len = strcspn(choice, "/");

	if (r->opts->coll->kind == BENCH_SENDRECV) /* has no algorithm */
		return;
	snprintf(out->algo, sizeof(out->algo), "%.*s", (int)len, choice);
	snprintf(out->proto, sizeof(out->proto), "%s", choice[len] ? choice + len + 1 : "");
}

static enum taut_status measure(struct runner *r, struct bench_side *out, const struct bench_call *c, size_t bytes)
{
	const struct bench_opts *o = r->opts;
	double us;
	enum taut_status st = warm_up(r, c, &us);
	int batch = o->batch ? o->batch : clamp(BATCH_US / us, bytes <= SMALL_BYTES ? 10 : 1, MAX_BATCH);
	int reps = o->iters ? o->iters : clamp(o->seconds * 1e6 / (us * batch), MIN_REPS, MAX_REPS);

	for (int i = 0; i < reps && !st; i++) {
		st = calls(r, c, batch, &r->reps[i]);
		r->reps[i] /= batch;
	}
	keep_choice(r, out);
	if (!st)
		st = agree_max(r, r->reps, reps);
	if (st)
		return st;
	qsort(r->reps, (size_t)reps, sizeof(r->reps[0]), by_value);
	out->median_us = reps % 2 ? r->reps[reps / 2] : (r->reps[reps / 2 - 1] + r->reps[reps / 2]) / 2;
	out->min_us = r->reps[0];
	out->max_us = r->reps[reps - 1];
	return TAUT_OK;
}

/* --- Rows --- */

static enum taut_status check(struct runner *r, struct bench_side *out, const struct bench_call *c,
			      const struct bench_buffers *b, bool in_place)
{
	size_t wrong = 0;
	double sum;
	enum taut_status st = bench_check(&wrong, r->table, c, b, root_of(r, r->row), in_place);

	sum = (double)wrong;
	if (!st)
		st = agree(r, &sum, 1, TAUT_SUM);
	out->wrong = (long long)sum;
	return st;
}

static void say_progress(struct runner *r, const struct bench_row *row, bool in_place)
{
	char text[160];

	if (!r->report)
		return;
	snprintf(text, sizeof(text), "[%d/%d] %s, %zu bytes, %s%s%s%s ...", r->row + 1, r->rows, r->opts->coll->name,
		 row->bytes, taut_type_name(row->type), r->opts->coll->reduces ? " " : "",
		 r->opts->coll->reduces ? taut_op_name(row->op) : "", in_place ? ", in place" : "");
	bench_report_progress(r->report, text);
}

static enum taut_status run_side(struct runner *r, struct bench_row *row, struct bench_call *c, bool in_place)
{
	struct bench_side *side = &row->side[in_place];
	struct bench_buffers b = r->buffers;
	enum taut_status st;

	say_progress(r, row, in_place);
	b.a_len = c->count * taut_type_size(c->type) * bench_in_blocks(c->coll, r->size);
	b.b_len = row->bytes;
	bench_place(c, &b, in_place);
	/* Zeros: a sum in place, again and again, would leave the range of the type. */
	memset(b.b, 0, b.b_len);
	st = measure(r, side, c, row->bytes);
	if (st)
		return st;
	side->wrong = -1;
	if (r->opts->check)
		st = check(r, side, c, &b, in_place);
	if (r->limits && r->one_machine)
		side->limit_us = bench_limit_us(r->limits, r->opts, row->bytes, r->size, in_place, r->tcp);
	side->done = true;
	r->wrong += side->wrong > 0 ? side->wrong : 0;
	return st;
}

static enum taut_status run_row(struct runner *r, size_t bytes, enum taut_type type, enum taut_op op)
{
	struct bench_call c = { .coll = r->opts->coll, .comm = r->comm, .rank = r->rank, .size = r->size };
	struct bench_row row = { .type = type, .op = op, .root = r->opts->root };
	enum taut_status st = TAUT_OK;
	unsigned char scalar[8];

	c.type = type;
	c.op = op;
	c.count = bench_count(c.coll, bytes, type, r->size);
	row.count = c.count;
	row.bytes = bench_bytes(c.coll, c.count, type, r->size);
	if (op == TAUT_OP_USER) {
		bench_scalar(scalar, type, r->rank);
		st = taut_op_create_premul_sum(&c.op, scalar, type, r->comm);
	}
	if (!st && r->opts->out_of_place)
		st = run_side(r, &row, &c, false);
	if (!st && r->opts->in_place)
		st = run_side(r, &row, &c, true);
	if (op == TAUT_OP_USER && c.op != TAUT_OP_USER)
		taut_op_destroy(c.op, r->comm);
	if (!st && r->report)
		st = bench_report_row(r->report, &row);
	return st;
}

/* A size that does not give one element to every block would be measured as nothing. */
static bool too_small(const struct runner *r, size_t bytes, enum taut_type type)
{
	return bytes && r->opts->coll->kind != BENCH_BARRIER && !bench_count(r->opts->coll, bytes, type, r->size);
}

static void say_too_small(struct runner *r, size_t bytes, enum taut_type type)
{
	char text[128];

	if (!r->report)
		return;
	if (bench_count(r->opts->coll, taut_type_size(type), type, r->size))
		snprintf(text, sizeof(text), "size %zu left out: less than one %s", bytes, taut_type_name(type));
	else
		snprintf(text, sizeof(text), "size %zu left out: less than one %s for each of %d ranks", bytes,
			 taut_type_name(type), r->size);
	bench_report_note(r->report, text);
}

static enum taut_status run_rows(struct runner *r)
{
	const struct bench_opts *o = r->opts;
	enum taut_status st = TAUT_OK;

	r->rows = o->ntypes * o->nops * (int)o->nsizes;
	for (; r->row < r->rows && !st; r->row++) {
		size_t bytes = o->sizes[r->row % (int)o->nsizes];
		enum taut_op op = o->ops[r->row / (int)o->nsizes % o->nops];
		enum taut_type type = o->types[r->row / (int)o->nsizes / o->nops];

		if (o->coll->reduces && !bench_op_fits(op, type))
			continue;
		if (too_small(r, bytes, type))
			say_too_small(r, bytes, type);
		else
			st = run_row(r, bytes, type, op);
	}
	return st;
}

/* --- Buffers --- */

static void find_lengths(struct runner *r)
{
	struct bench_buffers *b = &r->buffers;

	for (int t = 0; t < r->opts->ntypes; t++) {
		for (size_t i = 0; i < r->opts->nsizes; i++) {
			enum taut_type type = r->opts->types[t];
			size_t count = bench_count(r->opts->coll, r->opts->sizes[i], type, r->size);
			size_t in = count * taut_type_size(type) * bench_in_blocks(r->opts->coll, r->size);
			size_t all = bench_bytes(r->opts->coll, count, type, r->size);

			b->a_len = in > b->a_len ? in : b->a_len;
			b->b_len = all > b->b_len ? all : b->b_len;
		}
	}
	b->a_len = r->opts->out_of_place ? b->a_len : 0;
}

static enum taut_status allocate(struct runner *r, unsigned char **out, size_t len)
{
	void *p = NULL;

	if (r->opts->shared) {
		enum taut_status st = taut_mem_alloc(&p, len + BENCH_GUARD, r->comm);

		*out = p;
		return st;
	}
	*out = mem_aligned(ALIGN, (len + BENCH_GUARD + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	if (!*out)
		return fail(TAUT_ERR_NOMEM, "no memory for a buffer of %zu bytes on rank %d: use smaller --sizes", len,
			    r->rank);
	return TAUT_OK;
}

static void release(struct runner *r, unsigned char *p)
{
	if (r->opts->shared)
		taut_mem_free(p, r->comm);
	else
		mem_free(p);
}

/* Better said than killed by the kernel in the middle of the run. */
static enum taut_status memory_fits(struct runner *r)
{
	size_t need = (r->buffers.a_len + r->buffers.b_len) * (size_t)taut_comm_local_size(r->comm);
	size_t have = bench_memory_available();
	double short_of = need && have && need > have ? 1 : 0;
	enum taut_status st = agree_max(r, &short_of, 1);

	if (st || short_of == 0)
		return st;
	return fail(TAUT_ERR_NOMEM,
		    "the buffers of %d ranks take %zu MiB, this machine has %zu MiB free: use smaller --sizes or fewer "
		    "ranks",
		    taut_comm_local_size(r->comm), need >> 20, have >> 20);
}

static enum taut_status make_buffers(struct runner *r)
{
	struct bench_buffers *b = &r->buffers;
	int reps = r->opts->iters > MAX_REPS ? r->opts->iters : MAX_REPS;
	enum taut_status st;

	find_lengths(r);
	st = memory_fits(r);
	if (!st)
		st = allocate(r, &b->a, b->a_len);
	if (st)
		return st;
	st = allocate(r, &b->b, b->b_len);
	if (st)
		return st;
	memset(b->a, 0, b->a_len);
	memset(b->b, 0, b->b_len);
	r->table = mem_calloc(1, sizeof(*r->table));
	r->reps = mem_calloc((size_t)reps, sizeof(*r->reps));
	return r->table && r->reps ? TAUT_OK : fail(TAUT_ERR_NOMEM, "no memory for the verification");
}

static void free_buffers(struct runner *r)
{
	if (r->buffers.a)
		release(r, r->buffers.a);
	if (r->buffers.b)
		release(r, r->buffers.b);
	mem_free(r->table);
	mem_free(r->reps);
}

/* --- All --- */

/* What the ranks talk over, as far as one can say from the settings. */
static enum taut_status find_wire(struct runner *r, char *wire, size_t len)
{
	int local = taut_comm_local_size(r->comm);
	struct config cfg;
	enum taut_status st = config_load(&cfg);

	if (st)
		return st;
	if (strcmp(cfg.wire, "auto") && cfg.wire[0])
		snprintf(wire, len, "%s", cfg.wire);
	else if (cfg.shm_disable || (local == 1 && r->size > 1))
		snprintf(wire, len, "tcp");
	else
		snprintf(wire, len, local == r->size ? "shm" : "shm+tcp");
	config_cleanup(&cfg);
	r->tcp = !strcmp(wire, "tcp");
	r->one_machine = local == r->size;
	return TAUT_OK;
}

static void describe(const struct runner *r, const struct bench_setting *s, const char *wire, char *out, size_t len)
{
	const struct limits *l = s->limits;
	size_t largest = r->buffers.b_len;
	int n = snprintf(out, len, "%s, %d ranks (%s), wire %s, %s buffers", r->opts->coll->name, r->size, s->how, wire,
			 r->opts->shared ? "shared" : "private");

	if (!l || !r->one_machine || r->size == 1 || n < 0 || (size_t)n >= len)
		return;
	if (!largest)
		snprintf(out + n, len - (size_t)n, "\n# limit: core to core %.3f us", l->trip_us);
	else if (r->tcp)
		snprintf(out + n, len - (size_t)n, "\n# limit: TCP %.2f GB/s each way at %zu bytes, %.2f us one way",
			 limits_rate(&l->tcp, largest, 1, 1), largest, l->tcp_trip_us);
	else
		snprintf(out + n, len - (size_t)n,
			 "\n# limit: copy %.1f GB/s by %d core%s at %zu bytes, core to core %.3f us",
			 limits_rate(&l->copy, largest, l->cores, l->cores), l->cores, l->cores > 1 ? "s" : "", largest,
			 l->trip_us);
}

static enum taut_status open_report(struct runner *r, const struct bench_setting *s)
{
	char wire[16] = "", about[512];
	enum taut_status st = find_wire(r, wire, sizeof(wire));

	if (st || r->rank)
		return st;
	describe(r, s, wire, about, sizeof(about));
	return bench_report_create(&r->report, r->opts, r->size, wire, about);
}

enum taut_status bench_run(bool *wrong, const struct bench_setting *s, struct taut_comm *comm)
{
	struct runner r = { .opts = s->opts, .comm = comm };
	enum taut_status st, written;

	r.rank = taut_comm_rank(comm);
	r.size = taut_comm_size(comm);
	r.limits = r.rank ? NULL : s->limits;
	if (r.opts->root >= r.size)
		return fail(TAUT_ERR_ARG, "--root %d: want a rank below %d", r.opts->root, r.size);
	st = make_buffers(&r);
	if (!st)
		st = open_report(&r, s);
	if (!st)
		st = run_rows(&r);
	if (!st)
		st = taut_barrier(comm, NULL); /* nobody leaves while another still needs it */
	written = bench_report_finish(r.report, !st);
	free_buffers(&r);
	*wrong = r.wrong > 0;
	return st ? st : written;
}
