/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges with partners at distances 1, 2, 4 ...: as few trips as can be. Doubling sends all
 * there is in every round; halving sends half of what is left, and for all_reduce gathers
 * it again on the way back.
 *
 * Members beyond a power of two first give their data to a neighbour and get the result from
 * it in the end; the others are numbered anew, in the same order, so that of two partners the
 * lower number is also the lower rank: reductions come out the same on both.
 *
 * Where a round sends several chunks, one partner sends first and the other receives first,
 * as either FIFO may hold one only. */
#include "sched/families.h"

#include "base/mem.h"

struct fold {
	int p2, extra; /* largest power of two; members beyond it */
	int v;	       /* this rank's number, -1 when it sits out */
	int mate;      /* place that sits out for it or it sits out for, -1: none */
};

static int power_below(int n)
{
	int p2 = 1;

	while (2 * p2 <= n)
		p2 *= 2;
	return p2;
}

/* Of the first 2 * extra places the odd ones sit out. */
static struct fold find_fold(const struct group *g)
{
	struct fold f = { .p2 = power_below(g->n), .mate = -1 };

	f.extra = g->n - f.p2;
	if (g->me >= 2 * f.extra) {
		f.v = g->me - f.extra;
		return f;
	}
	f.v = g->me % 2 ? -1 : g->me / 2;
	f.mate = g->me ^ 1;
	return f;
}

static int place_of(const struct fold *f, int v)
{
	return v < f->extra ? 2 * v : v + f->extra;
}

/* --- Doubling --- */

static enum taut_status double_chunk(const struct group *g, const struct fold *f, struct sched_ref in,
				     struct sched_ref out)
{
	enum taut_status st = TAUT_OK;

	if (f->mate >= 0) {
		st = group_msg(g, in, out, 1, f->mate, -1);
		in = out;
	}
	for (int d = 1; d < f->p2 && !st; d *= 2) {
		int partner = place_of(f, f->v ^ d);

		st = group_msg(g, in, ref_none(), 1, -1, partner);
		if (!st)
			st = group_msg(g, in, out, 1, partner, -1);
		in = out;
	}
	return st || f->mate < 0 ? st : group_msg(g, out, ref_none(), 1, -1, f->mate);
}

static enum taut_status doubling_all_reduce(const struct group *g)
{
	struct fold f = find_fold(g);
	enum taut_status st = TAUT_OK;

	for (int c = 0; c < g->len && !st; c++) {
		struct sched_ref in = ref_at(g->in, c), out = ref_at(g->out, c);

		if (f.v >= 0) {
			st = double_chunk(g, &f, in, out);
			continue;
		}
		st = group_msg(g, in, ref_none(), 1, -1, f.mate);
		if (!st)
			st = group_msg(g, ref_none(), out, 1, f.mate, -1);
	}
	return st;
}

/* After the round of distance d each has the pieces of the 2d members that end with itself. */
static enum taut_status gather_round(const struct group *g, int d)
{
	int count = g->n - d < d ? g->n - d : d, to = group_wrap(g, g->me + d), from = group_wrap(g, g->me - d);
	bool first = count * g->len == 1 || !(g->me / d % 2);
	enum taut_status st = TAUT_OK;

	for (int turn = 0; turn < 2 && !st; turn++) {
		if ((turn == 0) != first)
			st = group_move(g, ref_none(), g->out, group_wrap(g, from - count + 1), count, from, -1);
		else if (d > 1)
			st = group_move(g, g->out, ref_none(), group_wrap(g, g->me - count + 1), count, -1, to);
		else if (group_has(g, g->me))
			st = group_msg(g, g->in, group_piece(g, g->out, g->len, g->me, 0), g->len, -1, to);
	}
	return st;
}

static enum taut_status doubling_all_gather(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int d = 1; d < g->n && !st; d *= 2)
		st = gather_round(g, d);
	return st;
}

static enum taut_status doubling_barrier(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int d = 1; d < g->n && !st; d *= 2) {
		st = group_msg(g, g->in, ref_none(), 1, -1, group_wrap(g, g->me + d));
		if (!st)
			st = group_msg(g, ref_none(), g->out, 1, group_wrap(g, g->me - d), -1);
	}
	return st;
}

/* --- Halving --- */

/* One exchange: @send leaves @src, and what comes is reduced with @own into @dst. */
struct trade {
	struct sched_ref send, own, dst;
	int nsend, nrecv;
	int partner;
	bool lower;
};

static enum taut_status trade(const struct group *g, const struct trade *t)
{
	bool first = t->lower || t->nsend == 1;
	enum taut_status st = TAUT_OK;

	if (first)
		st = group_msg(g, t->send, ref_none(), t->nsend, -1, t->partner);
	if (!st)
		st = group_msg(g, t->own, t->dst, t->nrecv, t->partner, -1);
	if (!st && !first)
		st = group_msg(g, t->send, ref_none(), t->nsend, -1, t->partner);
	return st;
}

/* Of the pieces of `2 * half` numbers from @base on keeps the half where its own is. */
static enum taut_status halve(const struct group *g, const struct fold *f, int half, struct sched_ref in)
{
	int unit = g->len / f->p2, base = f->v & ~(2 * half - 1);
	bool lower = !(f->v & half);
	int keep = lower ? base : base + half, give = lower ? base + half : base;
	struct trade t = {
		.send = ref_at(in, give * unit),
		.own = ref_at(in, keep * unit),
		.dst = ref_at(g->out, keep * unit),
		.nsend = half * unit,
		.nrecv = half * unit,
		.partner = place_of(f, f->v ^ half),
		.lower = lower,
	};

	return trade(g, &t);
}

static enum taut_status regain(const struct group *g, const struct fold *f, int half)
{
	int unit = g->len / f->p2, mine = f->v & ~(half - 1);
	struct trade t = {
		.send = ref_at(g->out, mine * unit),
		.dst = ref_at(g->out, (mine ^ half) * unit),
		.nsend = half * unit,
		.nrecv = half * unit,
		.partner = place_of(f, f->v ^ half),
		.lower = !(f->v & half),
	};

	return trade(g, &t);
}

static enum taut_status halving_all_reduce(const struct group *g)
{
	struct fold f = find_fold(g);
	struct sched_ref in = g->in;
	enum taut_status st = TAUT_OK;

	if (f.v < 0) {
		st = group_msg(g, in, ref_none(), g->len, -1, f.mate);
		return st ? st : group_msg(g, ref_none(), g->out, g->len, f.mate, -1);
	}
	if (f.mate >= 0) {
		st = group_msg(g, in, g->out, g->len, f.mate, -1);
		in = g->out;
	}
	for (int half = f.p2 / 2; half >= 1 && !st; half /= 2) {
		st = halve(g, &f, half, in);
		in = g->out;
	}
	for (int half = 1; half < f.p2 && !st; half *= 2)
		st = regain(g, &f, half);
	return st || f.mate < 0 ? st : group_msg(g, g->out, ref_none(), g->len, -1, f.mate);
}

/* reduce_scatter keeps partial sums of piece j at place j of scratch; at first they are the
 * input, at the piece's slot. */
struct partial {
	const struct group *g;
	struct fold f;
	bool in_scratch;
	struct sched_ref scratch;
};

static struct sched_ref partial_ref(const struct partial *p, int j)
{
	return p->in_scratch ? ref_at(p->scratch, j * p->g->len) : group_piece(p->g, p->g->in, p->g->len, j, 0);
}

/* Messages for the pieces of places @lo to @hi - 1, in runs of at most @most: given away, or
 * (@take) reduced into scratch. */
static enum taut_status pass_partials(const struct partial *p, int lo, int hi, int most, int partner, bool take)
{
	const struct group *g = p->g;
	enum taut_status st = TAUT_OK;

	for (int j = lo, n; j < hi && !st; j += n) {
		n = group_span(g, j, hi - j < most ? hi - j : most);
		if (!group_has(g, j))
			continue;
		st = group_msg(g, partial_ref(p, j), take ? ref_at(p->scratch, j * g->len) : ref_none(), n * g->len,
			       take ? partner : -1, take ? -1 : partner);
	}
	return st;
}

/* What comes last, piece by piece, is complete: own is stored, that of the mate goes on to it. */
static enum taut_status finish_partials(const struct partial *p, int partner)
{
	const struct group *g = p->g;
	enum taut_status st = TAUT_OK;

	if (group_has(g, g->me))
		st = group_msg(g, partial_ref(p, g->me), g->out, g->len, partner, -1);
	if (!st && p->f.mate >= 0 && group_has(g, p->f.mate))
		st = group_msg(g, partial_ref(p, p->f.mate), ref_none(), g->len, partner, p->f.mate);
	return st;
}

static enum taut_status scatter_round(struct partial *p, int half)
{
	const struct fold *f = &p->f;
	int base = f->v & ~(2 * half - 1), partner = place_of(f, f->v ^ half);
	int lo = place_of(f, base), mid = place_of(f, base + half);
	int hi = base + 2 * half < f->p2 ? place_of(f, base + 2 * half) : p->g->n;
	bool lower = !(f->v & half), first = lower || (mid - lo) * p->g->len == 1;
	enum taut_status st = TAUT_OK;

	for (int turn = 0; turn < 2 && !st; turn++) {
		if ((turn == 0) == first)
			st = pass_partials(p, lower ? mid : lo, lower ? hi : mid, half > 1 ? p->g->n : 1, partner,
					   false);
		else if (half > 1)
			st = pass_partials(p, lower ? lo : mid, lower ? mid : hi, p->g->n, partner, true);
		else
			st = finish_partials(p, partner);
	}
	p->in_scratch = true;
	return st;
}

static enum taut_status halving_reduce_scatter(const struct group *g)
{
	struct partial p = { .g = g, .f = find_fold(g) };
	enum taut_status st = TAUT_OK;

	if (p.f.v < 0) {
		st = pass_partials(&p, 0, g->n, g->n, p.f.mate, false);
		return st || !group_has(g, g->me) ? st : group_msg(g, ref_none(), g->out, g->len, p.f.mate, -1);
	}
	if (p.f.mate >= 0 || p.f.p2 > 2)
		p.scratch = group_scratch(g, g->n * g->len);
	if (p.f.mate >= 0) {
		st = pass_partials(&p, 0, g->n, g->n, p.f.mate, true);
		p.in_scratch = true;
	}
	for (int half = p.f.p2 / 2; half >= 1 && !st; half /= 2)
		st = scatter_round(&p, half);
	return st;
}

static int halving_pieces(enum sched_coll coll, int n)
{
	return coll == COLL_ALL_REDUCE ? power_below(n) : 1;
}

/* Each also has the counterpart of the other, for two_level. */
const struct group_algo group_recursive_doubling = {
	.name = "recursive_doubling",
	.run = {
		[COLL_ALL_REDUCE] = doubling_all_reduce,
		[COLL_ALL_GATHER] = doubling_all_gather,
		[COLL_REDUCE_SCATTER] = halving_reduce_scatter,
		[COLL_BARRIER] = doubling_barrier,
	},
};

const struct group_algo group_recursive_halving = {
	.name = "recursive_halving",
	.run = {
		[COLL_ALL_REDUCE] = halving_all_reduce,
		[COLL_ALL_GATHER] = doubling_all_gather,
		[COLL_REDUCE_SCATTER] = halving_reduce_scatter,
	},
	.pieces = halving_pieces,
};

static enum taut_status build_doubling(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_recursive_doubling, s, req);
}

static enum taut_status build_halving(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_recursive_halving, s, req);
}

const struct sched_algo sched_recursive_doubling = {
	.name = "recursive_doubling",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_ALL_GATHER) | BIT(COLL_BARRIER),
	.vectors = BIT(COLL_ALL_GATHER),
	.build = build_doubling,
};

const struct sched_algo sched_recursive_halving = {
	.name = "recursive_halving",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_REDUCE_SCATTER),
	.build = build_halving,
};
