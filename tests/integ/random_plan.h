/* SPDX-License-Identifier: Apache-2.0 */
/* What a random call is: its kind, group, numbers and blocks, drawn from the seed so that every rank
 * draws the same; and which parts of the ranks' inputs a rank reads and gets. */
#ifndef INTEG_RANDOM_PLAN_H
#define INTEG_RANDOM_PLAN_H

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include "random_values.h"
#include "ranks.h"
#include "sched/sched.h"

#define MAX_RANKS 6
#define MAX_GROUPS 6
#define MAX_PENDING 32
#define SEGMENT ((size_t)1 << 20) /* of taut_mem_alloc() */
#define GUARD 32
#define HASHES 65536
#define HANG_SECONDS 240

enum kind {
	ALL_REDUCE,
	REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	BROADCAST,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	BARRIER,
	ALL_GATHER_V,
	REDUCE_SCATTER_V,
	ALL_TO_ALL_V,
	GATHER_V,
	SCATTER_V,
	KINDS,
	MESSAGE
};
static const char *const kind_names[] = {
	"all_reduce", "reduce",	 "reduce_scatter", "all_gather",       "broadcast",    "gather",   "scatter",
	"all_to_all", "barrier", "all_gather_v",   "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v",
	"?",	      "message",
};

struct group {
	bool live;
	struct taut_comm *comm; /* NULL: this rank is no member */
	int n, me, members[MAX_RANKS];
	bool shared; /* has segments */
	unsigned char *segment[2];
	size_t used[2];
};

/* A call as all ranks know it. */
struct plan {
	enum kind kind;
	struct group *group;
	struct numbers num;
	size_t count;
	int root, peer, tag;
	bool in_place, in_segment;
	bool in_packed, out_packed; /* displacements not given */
	size_t counts[MAX_RANKS][MAX_RANKS], in_at[MAX_RANKS][MAX_RANKS], out_at[MAX_RANKS][MAX_RANKS];
};

/* @len elements from @to of this rank's output: what rank @from (-1: the reduction of all) has at @at. */
struct part {
	int from;
	size_t to, at, len;
};

struct area {
	unsigned char *memory, *base; /* NULL memory: in a segment */
	unsigned char *p, *copy;
	size_t len; /* with guards */
};

/* A call of this rank that is on its way. */
struct pending {
	struct plan plan;
	struct area in, out;
	struct part parts[MAX_RANKS];
	int nparts;
	size_t step, id, in_len, out_len; /* lengths in elements */
	enum taut_op op;
};

static struct {
	size_t calls, steps, done;
	uint64_t seed;
	int run, runs, size, rank;
	struct rng shared, own;
	struct group groups[MAX_GROUPS];
	struct pending pending[MAX_PENDING];
	int npending;
	struct taut_stream *streams[2];
	size_t step, limit_bytes;
	char settings[256];
	_Atomic uint64_t *hashes;
} w;

static void words(FILE *f)
{
	fprintf(f, "rank %d of %d, step %zu: repeat with `%zu %llu %d 0 %d`: %s\n", w.rank, w.size, w.step, w.calls,
		(unsigned long long)w.seed, w.runs, w.run, w.settings);
}

static void list_pending(FILE *f)
{
	for (int i = 0; i < w.npending; i++) {
		const struct pending *x = &w.pending[i];
		const struct plan *p = &x->plan;

		fprintf(f, "  step %zu group %d (rank %d of %d) %s %s op %d count %zu root %d peer %d tag %d%s%s\n",
			x->step, (int)(p->group - w.groups), p->group->me, p->group->n, kind_names[p->kind],
			taut_type_name(p->num.type), (int)p->num.op, p->count, p->root, p->peer, p->tag,
			p->in_place ? " in place" : "", p->in_segment ? " in segments" : "");
	}
}

__attribute__((format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n  last error: %s\n  ", taut_error_message());
	words(stderr);
	if (w.size == 1 || w.rank < 2)
		list_pending(stderr);
	fflush(stderr);
	_exit(1);
}

static inline void on_alarm(int sig)
{
	(void)sig;
	words(stderr);
	fprintf(stderr, "  hangs\n");
	_exit(1);
}

static inline void ok(enum taut_status st, const char *what)
{
	if (st)
		die("%s: %s", what, taut_status_name(st));
}

/* --- layouts --- */
static bool reduces(enum kind k)
{
	return k == ALL_REDUCE || k == REDUCE || k == REDUCE_SCATTER || k == REDUCE_SCATTER_V;
}

static bool has_blocks(enum kind k)
{
	return k != ALL_REDUCE && k != REDUCE && k != BROADCAST && k != BARRIER && k != MESSAGE;
}

static size_t end_of(const size_t *counts, const size_t *at, int n)
{
	size_t end = 0;

	for (int i = 0; i < n; i++)
		if (counts[i] && at[i] + counts[i] > end)
			end = at[i] + counts[i];
	return end;
}

/* Places of blocks: in rank order without gaps, or shuffled with gaps. */
static void place(struct rng *r, const size_t *counts, size_t *at, int n, bool packed)
{
	size_t end = 0;
	int first = packed ? 0 : (int)below(r, (size_t)n), step = packed || chance(r, 50) ? 1 : n - 1;

	for (int k = 0; k < n; k++) {
		int i = (first + k * step) % n;

		end += packed ? 0 : below(r, 3);
		at[i] = end;
		end += counts[i];
	}
}

static void draw_layout(struct rng *r, struct plan *p)
{
	int n = p->group->n;

	p->in_packed = p->kind == REDUCE_SCATTER_V || chance(r, 40);
	p->out_packed = chance(r, 40);
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			p->counts[a][b] = chance(r, 25) ? 0 : below(r, 2 * p->count + 1);
	/* [a][b]: what a sends to b; the forms with one list of counts use its row 0. */
	for (int a = 0; a < n; a++) {
		size_t column[MAX_RANKS];

		for (int b = 0; b < n; b++)
			column[b] = p->kind == ALL_TO_ALL_V ? p->counts[b][a] : p->counts[0][b];
		place(r, p->kind == ALL_TO_ALL_V ? p->counts[a] : p->counts[0], p->in_at[a], n, p->in_packed);
		place(r, column, p->out_at[a], n, p->out_packed);
	}
}

static size_t draw_bytes(struct rng *r)
{
	static const size_t edges[] = { 8, 56, 64, 112, 120, 504, 512, 1024, 2048, 4088, 4096, 8192, 16384, 65536 };
	size_t k = below(r, 1000);

	if (k < 40)
		return 0;
	if (k < 450)
		return 1 + below(r, 400);
	if (k < 720)
		return edges[below(r, sizeof(edges) / sizeof(edges[0]))];
	if (k < 900)
		return below(r, 10000);
	if (k < 980)
		return below(r, 60000);
	if (k < 995)
		return w.limit_bytes * (1 + below(r, 3));
	return chance(r, 70) ? below(r, 400000) : below(r, 3000000);
}

static size_t draw_count(struct rng *r, size_t elem, int blocks)
{
	size_t k = below(r, 100), n;

	if (k < 8)
		return 1;
	n = draw_bytes(r) / elem;
	if (n > 8000 / elem && blocks > 1)
		n /= (size_t)blocks;
	k = below(r, 4);
	return k == 0 ? n + 1 : k == 1 && n ? n - 1 : n;
}

static void draw_numbers(struct rng *r, struct plan *p)
{
	struct numbers *n = &p->num;
	int ops;

	n->salt = draw(r);
	n->type = (enum taut_type)below(r, TAUT_TYPE_COUNT);
	n->size = p->group->n;
	ops = is_float(n->type) ? TAUT_BAND : TAUT_OP_COUNT;
	n->op = reduces(p->kind) ? (enum taut_op)below(r, (size_t)ops + 1) : TAUT_SUM;
	if ((int)n->op == ops)
		n->op = TAUT_OP_USER;
	n->rough = reduces(p->kind) && is_float(n->type) &&
		   ((n->op == TAUT_AVG && (n->size & (n->size - 1))) ||
		    (n->op == TAUT_SUM && taut_type_size(n->type) > 1 && chance(r, 20)));
	for (int i = 0; i < n->size; i++) {
		n->scalar[i] = is_float(n->type) ? (chance(r, 50) ? 1 : -1) : (int64_t)draw(r);
		if (is_float(n->type) && taut_type_size(n->type) > 1 && chance(r, 30))
			n->scalar[i] = 2;
	}
}

static inline void draw_plan(struct rng *r, struct plan *p, struct group *g)
{
	*p = (struct plan){ .kind = (enum kind)below(r, KINDS), .group = g };
	draw_numbers(r, p);
	p->root = (int)below(r, (size_t)g->n);
	p->count = draw_count(r, taut_type_size(p->num.type), has_blocks(p->kind) ? g->n : 1);
	if (p->kind == BARRIER)
		p->count = 0;
	p->in_place = chance(r, 30);
	p->in_segment = g->shared && chance(r, 70);
	if (p->kind >= ALL_GATHER_V)
		draw_layout(r, p);
}

/* --- what a rank reads and gets --- */
static void add_part(struct pending *x, int from, size_t to, size_t at, size_t len)
{
	if (len)
		x->parts[x->nparts++] = (struct part){ from, to, at, len };
}

static void parts_regular(struct pending *x, int me, int n)
{
	const struct plan *p = &x->plan;
	size_t c = p->count;
	bool root = me == p->root;

	x->in_len = x->out_len = c;
	if (p->kind == REDUCE_SCATTER || p->kind == ALL_TO_ALL || (p->kind == SCATTER && root))
		x->in_len = c * (size_t)n;
	if (p->kind == ALL_GATHER || p->kind == ALL_TO_ALL || (p->kind == GATHER && root))
		x->out_len = c * (size_t)n;
	if ((p->kind == REDUCE || p->kind == GATHER) && !root)
		x->out_len = 0;
	if ((p->kind == BROADCAST || p->kind == SCATTER) && !root)
		x->in_len = 0;
	if (p->kind == ALL_REDUCE || (p->kind == REDUCE && root))
		add_part(x, -1, 0, 0, c);
	else if (p->kind == REDUCE_SCATTER)
		add_part(x, -1, 0, (size_t)me * c, c);
	else if (p->kind == BROADCAST)
		add_part(x, p->root, 0, 0, c);
	else if (p->kind == SCATTER)
		add_part(x, p->root, 0, (size_t)me * c, c);
	for (int s = 0; s < n && x->out_len; s++) {
		if (p->kind == ALL_GATHER || p->kind == GATHER)
			add_part(x, s, (size_t)s * c, 0, c);
		else if (p->kind == ALL_TO_ALL)
			add_part(x, s, (size_t)s * c, (size_t)me * c, c);
	}
}

static void parts_vectors(struct pending *x, int me, int n)
{
	const struct plan *p = &x->plan;
	const size_t *counts = p->counts[0];
	bool root = me == p->root;

	x->in_len = x->out_len = counts[me];
	if (p->kind == REDUCE_SCATTER_V || (p->kind == SCATTER_V && root))
		x->in_len = end_of(counts, p->in_at[me], n);
	if (p->kind == SCATTER_V && !root)
		x->in_len = 0;
	if (p->kind == REDUCE_SCATTER_V)
		add_part(x, -1, 0, p->in_at[me][me], counts[me]);
	if (p->kind == SCATTER_V)
		add_part(x, p->root, 0, p->in_at[p->root][me], counts[me]);
	if (p->kind == ALL_GATHER_V || (p->kind == GATHER_V && root)) {
		x->out_len = end_of(counts, p->out_at[me], n);
		for (int s = 0; s < n; s++)
			add_part(x, s, p->out_at[me][s], 0, counts[s]);
	} else if (p->kind == GATHER_V) {
		x->out_len = 0;
	}
}

static void parts_all_to_all_v(struct pending *x, int me, int n)
{
	const struct plan *p = &x->plan;

	x->out_len = 0;
	x->in_len = end_of(p->counts[me], p->in_at[me], n);
	for (int s = 0; s < n; s++) {
		size_t end = p->out_at[me][s] + p->counts[s][me];

		add_part(x, s, p->out_at[me][s], p->in_at[s][me], p->counts[s][me]);
		if (p->counts[s][me] && end > x->out_len)
			x->out_len = end;
	}
}

static inline void parts_of(struct pending *x)
{
	const struct plan *p = &x->plan;
	int me = p->group->me, n = p->group->n;

	if (p->kind == MESSAGE) {
		x->in_len = me == p->root ? p->count : 0;
		x->out_len = me == p->peer ? p->count : 0;
		add_part(x, p->root, 0, 0, x->out_len);
	} else if (p->kind == ALL_TO_ALL_V) {
		parts_all_to_all_v(x, me, n);
	} else if (p->kind >= ALL_GATHER_V) {
		parts_vectors(x, me, n);
	} else {
		parts_regular(x, me, n);
	}
}

#endif
