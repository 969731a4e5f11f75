/* SPDX-License-Identifier: Apache-2.0 */
/* Inside each machine, then between machines, then inside again, with any other family for
 * either. Machines may have different numbers of ranks, and any ranks.
 *
 * A lane is one rank of each machine; lanes work side by side, each for its share of the data,
 * so that all ranks of a machine feed the network. all_reduce has as many lanes as the smallest
 * machine has ranks (or one, with a leader for each machine, if the inner family has no
 * reduce_scatter); reduce and broadcast have one. all_gather and reduce_scatter have one for
 * each rank of the largest machine, as each rank has a block of its own; where a machine has
 * no such rank, another of its ranks stands in, who has no block in that lane. */
#include "sched/families.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct group_algo *const families[] = {
	&group_one_shot,	  &group_two_shot, &group_ring,	 &group_tree, &group_recursive_doubling,
	&group_recursive_halving, &group_binomial, &group_chain, NULL,
};

struct levels {
	struct sched *s;
	const struct group_algo *inner, *outer;
	int nnodes, smallest, largest; /* machines, and ranks of one */
	const int *node_of;
	int32_t *ranks; /* by machine, ascending in each */
	int32_t *first; /* ranks[first[m]] .. ranks[first[m + 1] - 1] are on machine m */
	int32_t *lane;	/* room for a rank of each machine */
	int32_t *slots; /* room for a number for each place of a group */
	int node, me, nlocal;
};

/* --- Who is where --- */

static int node_size(const struct levels *l, int node)
{
	return l->first[node + 1] - l->first[node];
}

static int32_t local_rank(const struct levels *l, int node, int i)
{
	return l->ranks[l->first[node] + i];
}

/* Does machine @node have a rank of its own in lane @k? */
static bool owns_lane(const struct levels *l, int node, int k)
{
	return k < node_size(l, node);
}

/* Ranks of each machine, one place on in `first`. */
static enum taut_status count_ranks(struct levels *l, const struct sched_req *req)
{
	for (int r = 0; r < req->nranks; r++) {
		if (req->node_of[r] < 0 || req->node_of[r] >= req->nnodes)
			return fail(TAUT_ERR_ARG, "two_level: rank %d is on machine %d of %d: wanted 0 to %d", r,
				    req->node_of[r], req->nnodes, req->nnodes - 1);
		l->first[req->node_of[r] + 1]++;
	}
	l->smallest = req->nranks;
	for (int m = 0; m < req->nnodes; m++) {
		int n = l->first[m + 1];

		if (n == 0)
			return fail(TAUT_ERR_ARG, "two_level: machine %d of %d has no rank", m, req->nnodes);
		l->smallest = n < l->smallest ? n : l->smallest;
		l->largest = n > l->largest ? n : l->largest;
	}
	return TAUT_OK;
}

/* Sorts the ranks by machine. */
static void sort_ranks(struct levels *l, int rank, int nranks)
{
	for (int m = 0; m < l->nnodes; m++)
		l->first[m + 1] += l->first[m];
	for (int r = 0; r < nranks; r++) {
		int node = l->node_of[r];

		if (r == rank)
			l->me = l->first[node];
		l->ranks[l->first[node]++] = r;
	}
	memmove(l->first + 1, l->first, (size_t)l->nnodes * sizeof(*l->first));
	l->first[0] = 0;
	l->node = l->node_of[rank];
	l->me -= l->first[l->node];
	l->nlocal = node_size(l, l->node);
}

static enum taut_status levels_init(struct levels *l, struct sched *s, const struct sched_req *req)
{
	size_t n = (size_t)req->nranks, nodes = (size_t)req->nnodes;
	enum taut_status st;

	*l = (struct levels){ .s = s, .nnodes = req->nnodes, .node_of = req->node_of };
	l->ranks = mem_calloc(2 * n + 2 * nodes + 1, sizeof(*l->ranks));
	if (!l->ranks)
		return fail(TAUT_ERR_NOMEM, "schedule of two_level: no memory for %d ranks", req->nranks);
	l->slots = l->ranks + n;
	l->lane = l->slots + n;
	l->first = l->lane + nodes;
	st = count_ranks(l, req);
	if (st)
		goto err_free;
	sort_ranks(l, req->rank, req->nranks);
	return TAUT_OK;
err_free:
	mem_free(l->ranks);
	return st;
}

static struct group local_group(const struct levels *l)
{
	return (struct group){
		.s = l->s, .n = l->nlocal, .me = l->me, .ranks = l->ranks + l->first[l->node], .len = l->s->per_block
	};
}

static int by_rank(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int place_in(const int32_t *ranks, int n, int32_t rank)
{
	const int32_t *found = bsearch(&rank, ranks, (size_t)n, sizeof(rank), by_rank);

	return found ? (int)(found - ranks) : -1;
}

/* The ranks in l->lane, one of each machine, become a group. */
static struct group lane_group(const struct levels *l, int32_t rank)
{
	qsort(l->lane, (size_t)l->nnodes, sizeof(*l->lane), by_rank);
	return (struct group){ .s = l->s,
			       .n = l->nnodes,
			       .me = place_in(l->lane, l->nnodes, rank),
			       .ranks = l->lane,
			       .len = l->s->per_block };
}

static struct group find_lane(const struct levels *l, int k)
{
	for (int m = 0; m < l->nnodes; m++)
		l->lane[m] = local_rank(l, m, k % node_size(l, m));
	return lane_group(l, l->s->rank);
}

/* The inner family where it can, on this machine; no other machine needs to know. */
static enum taut_status run_inner(const struct levels *l, enum sched_coll coll, const struct group *g)
{
	const struct group_algo *algo = l->inner;

	if (!group_fits(algo, coll, g->n) || g->len % group_pieces(algo, coll, g->n))
		algo = coll == COLL_REDUCE || coll == COLL_BROADCAST ? &group_binomial : &group_ring;
	return group_run(algo, coll, g);
}

/* --- all_reduce --- */

static enum taut_status reduce_by_lanes(const struct levels *l, int lanes)
{
	struct group in = local_group(l), out;
	int unit = l->s->per_block / lanes;
	enum taut_status st;

	for (int i = 0; i < l->nlocal; i++)
		l->slots[i] = i < lanes ? i : -1;
	in.pos = l->slots;
	in.len = unit;
	in.in = ref_in(0);
	in.out = ref_out(l->me < lanes ? l->me * unit : 0);
	st = run_inner(l, COLL_REDUCE_SCATTER, &in);
	if (!st && l->me < lanes) {
		out = find_lane(l, l->me);
		out.in = out.out = in.out;
		out.len = unit;
		st = group_run(l->outer, COLL_ALL_REDUCE, &out);
	}
	in.in = in.out;
	in.out = ref_out(0);
	return st ? st : run_inner(l, COLL_ALL_GATHER, &in);
}

static enum taut_status reduce_by_leaders(const struct levels *l)
{
	struct group in = local_group(l), out;
	enum taut_status st;

	in.in = ref_in(0);
	in.out = ref_out(0);
	st = run_inner(l, COLL_REDUCE, &in);
	if (!st && l->me == 0) {
		out = find_lane(l, 0);
		out.in = out.out = ref_out(0);
		st = group_run(l->outer, COLL_ALL_REDUCE, &out);
	}
	in.in = ref_out(0);
	return st ? st : run_inner(l, COLL_BROADCAST, &in);
}

static bool has_lanes(const struct group_algo *inner)
{
	return inner->run[COLL_REDUCE_SCATTER] && inner->run[COLL_ALL_GATHER];
}

static enum taut_status two_all_reduce(const struct levels *l)
{
	if (l->smallest > 1 && has_lanes(l->inner))
		return reduce_by_lanes(l, l->smallest);
	return l->inner->run[COLL_REDUCE] ? reduce_by_leaders(l) : reduce_by_lanes(l, 1);
}

/* --- reduce, broadcast, barrier: one leader a machine, the root for its own --- */

static struct group leaders(const struct levels *l)
{
	int root = l->s->root;
	struct group g;

	for (int m = 0; m < l->nnodes; m++)
		l->lane[m] = m == l->node_of[root] ? root : local_rank(l, m, 0);
	g = lane_group(l, l->s->rank);
	g.root = place_in(l->lane, l->nnodes, root);
	return g;
}

static struct group led_group(const struct levels *l)
{
	struct group g = local_group(l);

	if (l->node == l->node_of[l->s->root])
		g.root = place_in(g.ranks, g.n, l->s->root);
	return g;
}

/* Only the root has an output: other leaders keep the sum of their machine in scratch. */
static enum taut_status two_reduce(const struct levels *l)
{
	struct group in = led_group(l), out = leaders(l);
	enum taut_status st = TAUT_OK;

	in.in = ref_in(0);
	if (l->s->rank == l->s->root)
		in.out = ref_out(0);
	else if (in.me == in.root && in.n > 1)
		in.out = group_scratch(&in, l->s->per_block);
	if (in.n > 1)
		st = run_inner(l, COLL_REDUCE, &in);
	out.in = in.n > 1 ? in.out : ref_in(0);
	out.out = ref_out(0);
	return st || out.me < 0 ? st : group_run(l->outer, COLL_REDUCE, &out);
}

static enum taut_status two_broadcast(const struct levels *l)
{
	struct group in = led_group(l), out = leaders(l);
	enum taut_status st = TAUT_OK;

	out.in = ref_in(0);
	out.out = in.in = in.out = ref_out(0);
	if (out.me >= 0)
		st = group_run(l->outer, COLL_BROADCAST, &out);
	return st ? st : run_inner(l, COLL_BROADCAST, &in);
}

static enum taut_status call_in(const struct group *g, bool release)
{
	enum taut_status st = TAUT_OK;

	if (g->me)
		return release ? group_msg(g, ref_none(), ref_out(0), 1, 0, -1)
			       : group_msg(g, ref_in(0), ref_none(), 1, -1, 0);
	for (int i = 1; i < g->n && !st; i++)
		st = release ? group_msg(g, ref_in(0), ref_none(), 1, -1, i)
			     : group_msg(g, ref_none(), ref_out(0), 1, i, -1);
	return st;
}

static enum taut_status two_barrier(const struct levels *l)
{
	struct group in = local_group(l), out;
	enum taut_status st = call_in(&in, false);

	if (!st && l->me == 0) {
		out = find_lane(l, 0);
		out.in = ref_in(0);
		out.out = ref_out(0);
		st = group_run(l->outer, COLL_BARRIER, &out);
	}
	return st ? st : call_in(&in, true);
}

/* --- all_gather, reduce_scatter --- */

/* Own machine's members as a group in which each has the block, if there is one, of the lane
 * that it serves in round @round on machine @node. */
static struct group lane_blocks(const struct levels *l, int round, int node)
{
	struct group g = local_group(l);

	for (int i = 0; i < l->nlocal; i++) {
		int k = round * l->nlocal + i;

		l->slots[i] = owns_lane(l, node, k) ? local_rank(l, node, k) : -1;
	}
	g.pos = l->slots;
	return g;
}

/* First each lane between machines: a rank serves every nlocal-th lane. */
static enum taut_status gather_lanes(const struct levels *l)
{
	enum taut_status st = TAUT_OK;

	for (int k = l->me; k < l->largest && !st; k += l->nlocal) {
		struct group g = find_lane(l, k);

		for (int i = 0; i < g.n; i++)
			l->slots[i] = owns_lane(l, l->node_of[g.ranks[i]], k) ? g.ranks[i] : -1;
		g.pos = l->slots;
		g.in = ref_in(0);
		g.out = ref_out(0);
		st = group_run(l->outer, COLL_ALL_GATHER, &g);
	}
	return st;
}

static enum taut_status two_all_gather(const struct levels *l)
{
	enum taut_status st = gather_lanes(l);

	for (int round = 0; round * l->nlocal < l->largest; round++)
		for (int m = 0; m < l->nnodes && !st; m++) {
			struct group g = lane_blocks(l, round, m);

			g.out = ref_out(0);
			g.in = group_piece(&g, g.out, g.len, g.me, 0);
			st = run_inner(l, COLL_ALL_GATHER, &g);
		}
	return st;
}

/* The machine's sums for lane k (a rank serves every nlocal-th) and machine m are kept at
 * place k / nlocal * nnodes + m of scratch. */
static enum taut_status scatter_lanes(const struct levels *l, struct sched_ref sums)
{
	enum taut_status st = TAUT_OK;

	for (int k = l->me; k < l->largest && !st; k += l->nlocal) {
		struct group g = find_lane(l, k);

		for (int i = 0; i < g.n; i++) {
			int m = l->node_of[g.ranks[i]];

			l->slots[i] = owns_lane(l, m, k) ? k / l->nlocal * l->nnodes + m : -1;
		}
		g.pos = l->slots;
		g.in = sums;
		g.out = ref_out(0);
		st = group_run(l->outer, COLL_REDUCE_SCATTER, &g);
	}
	return st;
}

static enum taut_status two_reduce_scatter(const struct levels *l)
{
	struct group all = local_group(l);
	int rounds = (l->largest + l->nlocal - 1) / l->nlocal;
	struct sched_ref sums = group_scratch(&all, rounds * l->nnodes * all.len);
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < rounds * l->nnodes && !st; i++) {
		struct group g = lane_blocks(l, i / l->nnodes, i % l->nnodes);

		g.in = ref_in(0);
		g.out = ref_at(sums, i * g.len);
		st = run_inner(l, COLL_REDUCE_SCATTER, &g);
	}
	return st ? st : scatter_lanes(l, sums);
}

/* --- Which families, which pieces --- */

static const struct group_algo *find_family(const char *name)
{
	for (int i = 0; families[i]; i++)
		if (strcmp(families[i]->name, name) == 0)
			return families[i];
	return NULL;
}

static const struct group_algo *pick_inner(const struct sched_req *req)
{
	return req->inner ? find_family(req->inner) : &group_one_shot;
}

/* A ring has the least traffic, but as many trips as machines. */
static const struct group_algo *pick_outer(const struct sched_req *req)
{
	enum { LONG_RING = 8 };

	if (req->outer)
		return find_family(req->outer);
	if (req->coll == COLL_BARRIER)
		return &group_recursive_doubling;
	if (req->coll == COLL_ALL_GATHER || req->coll == COLL_REDUCE_SCATTER || req->nnodes <= LONG_RING)
		return &group_ring;
	return &group_tree;
}

static bool inner_fits(const struct group_algo *inner, enum sched_coll coll)
{
	if (coll == COLL_ALL_REDUCE)
		return has_lanes(inner) || (inner->run[COLL_REDUCE] && inner->run[COLL_BROADCAST]);
	return coll == COLL_BARRIER || inner->run[coll];
}

static bool two_level_fits(const struct sched_req *req)
{
	const struct group_algo *inner = pick_inner(req), *outer = pick_outer(req);

	if (!req->node_of || req->nnodes < 2 || req->nnodes >= req->nranks)
		return false;
	return inner && outer && inner_fits(inner, req->coll) && group_fits(outer, req->coll, req->nnodes);
}

static int common_multiple(int a, int b)
{
	int x = a, y = b;

	while (y) {
		int rest = x % y;

		x = y;
		y = rest;
	}
	return a / x * b;
}

static int count_pieces(const struct levels *l, enum sched_coll coll)
{
	int outer = group_pieces(l->outer, coll, l->nnodes);

	if (coll != COLL_ALL_REDUCE && coll != COLL_REDUCE && coll != COLL_BROADCAST)
		return 1;
	if (coll != COLL_ALL_REDUCE)
		return common_multiple(outer, group_pieces(l->inner, coll, l->largest));
	if (l->smallest > 1 && has_lanes(l->inner))
		return outer * l->smallest;
	if (!l->inner->run[COLL_REDUCE])
		return outer;
	outer = common_multiple(outer, group_pieces(l->inner, COLL_REDUCE, l->largest));
	return common_multiple(outer, group_pieces(l->inner, COLL_BROADCAST, l->largest));
}

static enum taut_status build_two_level(struct sched *s, const struct sched_req *req)
{
	static enum taut_status (*const builders[COLL_COUNT])(const struct levels *) = {
		[COLL_ALL_REDUCE] = two_all_reduce,
		[COLL_ALL_GATHER] = two_all_gather,
		[COLL_REDUCE_SCATTER] = two_reduce_scatter,
		[COLL_BROADCAST] = two_broadcast,
		[COLL_REDUCE] = two_reduce,
		[COLL_BARRIER] = two_barrier,
	};
	struct levels l;
	enum taut_status st = levels_init(&l, s, req);

	if (st)
		return st;
	l.inner = pick_inner(req);
	l.outer = pick_outer(req);
	s->per_block = count_pieces(&l, req->coll);
	st = builders[req->coll](&l);
	mem_free(l.ranks);
	return st;
}

const struct sched_algo sched_two_level = {
	.name = "two_level",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_ALL_GATHER) | BIT(COLL_REDUCE_SCATTER) | BIT(COLL_BROADCAST) |
		 BIT(COLL_REDUCE) | BIT(COLL_BARRIER),
	.vectors = BIT(COLL_ALL_GATHER),
	.fits = two_level_fits,
	.build = build_two_level,
};
