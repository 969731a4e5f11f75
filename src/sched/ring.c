/* SPDX-License-Identifier: Apache-2.0 */
/* Every member talks to its two neighbours only: the least traffic per link, n - 1 trips a
 * phase. A piece of several chunks goes round chunk by chunk, so that one free place in
 * each FIFO is enough. */
#include "sched/families.h"

/* Chunk @c of all pieces: n pieces go once round and are reduced, then once more as they are. */
static enum taut_status reduce_round(const struct group *g, int unit, int c)
{
	int left = group_wrap(g, g->me - 1), right = group_wrap(g, g->me + 1), last = 2 * g->n - 2;
	enum taut_status st = TAUT_OK;

	for (int i = 0; i <= last && !st; i++) {
		int j = group_wrap(g, (g->me - i) % g->n);

		st = group_msg(g, i < g->n ? ref_at(g->in, j * unit + c) : ref_none(),
			       i >= g->n - 1 ? ref_at(g->out, j * unit + c) : ref_none(), 1, i > 0 ? left : -1,
			       i < last ? right : -1);
	}
	return st;
}

static enum taut_status ring_all_reduce(const struct group *g)
{
	int unit = g->len / g->n;
	enum taut_status st = TAUT_OK;

	for (int c = 0; c < unit && !st; c++)
		st = reduce_round(g, unit, c);
	return st;
}

static enum taut_status gather_round(const struct group *g, int c)
{
	int left = group_wrap(g, g->me - 1), right = group_wrap(g, g->me + 1);
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me - i);

		if (group_has(g, j))
			st = group_msg(g, i == 0 ? ref_at(g->in, c) : ref_none(), group_piece(g, g->out, g->len, j, c),
				       1, i > 0 ? left : -1, i < g->n - 1 ? right : -1);
	}
	return st;
}

static enum taut_status ring_all_gather(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int c = 0; c < g->len && !st; c++)
		st = gather_round(g, c);
	return st;
}

static enum taut_status scatter_round(const struct group *g, int c)
{
	int left = group_wrap(g, g->me - 1), right = group_wrap(g, g->me + 1);
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me - 1 - i);

		if (group_has(g, j))
			st = group_msg(g, group_piece(g, g->in, g->len, j, c),
				       i == g->n - 1 ? ref_at(g->out, c) : ref_none(), 1, i > 0 ? left : -1,
				       i < g->n - 1 ? right : -1);
	}
	return st;
}

static enum taut_status ring_reduce_scatter(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int c = 0; c < g->len && !st; c++)
		st = scatter_round(g, c);
	return st;
}

static int ring_pieces(enum sched_coll coll, int n)
{
	return coll == COLL_ALL_REDUCE ? n : 1;
}

const struct group_algo group_ring = {
	.name = "ring",
	.run = {
		[COLL_ALL_REDUCE] = ring_all_reduce,
		[COLL_ALL_GATHER] = ring_all_gather,
		[COLL_REDUCE_SCATTER] = ring_reduce_scatter,
		[COLL_BROADCAST] = chain_broadcast,
		[COLL_REDUCE] = chain_reduce,
	},
	.ordered = true,
	.pieces = ring_pieces,
};

static enum taut_status build_ring(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_ring, s, req);
}

const struct sched_algo sched_ring = {
	.name = "ring",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_ALL_GATHER) | BIT(COLL_REDUCE_SCATTER) | BIT(COLL_BROADCAST) |
		 BIT(COLL_REDUCE),
	.vectors = BIT(COLL_ALL_GATHER) | BIT(COLL_REDUCE_SCATTER),
	.build = build_ring,
};
