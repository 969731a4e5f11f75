/* SPDX-License-Identifier: Apache-2.0 */
/* Every member talks to every other at once: one trip (one_shot), or two with less traffic
 * (two_shot). All first send and then receive, chunk by chunk, so that one free place in
 * each FIFO is enough; each starts with its next neighbour, so that no member is hit by all
 * others at once. */
#include "sched/families.h"

#include "base/mem.h"

/* Who takes part besides this rank: in rank order, and from the next place round. */
struct others {
	int32_t *sorted, *rotated;
	int n;
};

static enum taut_status others_init(struct others *o, const struct group *g)
{
	enum taut_status st;

	o->n = g->n - 1;
	st = group_others(&o->sorted, g, false);
	if (st)
		return st;
	st = group_others(&o->rotated, g, true);
	if (st)
		mem_free(o->sorted);
	return st;
}

static void others_cleanup(struct others *o)
{
	mem_free(o->sorted);
	mem_free(o->rotated);
}

/* --- One shot --- */

static enum taut_status one_shot_all_reduce(const struct group *g)
{
	struct others o;
	enum taut_status st = others_init(&o, g);

	if (st)
		return st;
	for (int c = 0; c < g->len && !st; c++) {
		struct sched_ref in = ref_at(g->in, c);

		st = group_step(g, in, ref_none(), 1, NULL, 0, o.rotated, o.n);
		if (!st)
			st = group_step(g, in, ref_at(g->out, c), 1, o.sorted, o.n, NULL, 0);
	}
	others_cleanup(&o);
	return st;
}

/* Own piece to all, then everybody else's. */
static enum taut_status exchange_pieces(const struct group *g, const struct others *o, int c)
{
	enum taut_status st = TAUT_OK;

	if (group_has(g, g->me))
		st = group_step(g, ref_at(g->in, c), group_piece(g, g->out, g->len, g->me, c), 1, NULL, 0, o->rotated,
				o->n);
	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me - i);

		if (group_has(g, j))
			st = group_msg(g, ref_none(), group_piece(g, g->out, g->len, j, c), 1, j, -1);
	}
	return st;
}

static enum taut_status one_shot_all_gather(const struct group *g)
{
	struct others o;
	enum taut_status st = others_init(&o, g);

	if (st)
		return st;
	for (int c = 0; c < g->len && !st; c++)
		st = exchange_pieces(g, &o, c);
	others_cleanup(&o);
	return st;
}

/* Everybody gets its piece from here; then this rank reduces its own. */
static enum taut_status scatter_pieces(const struct group *g, const struct others *o, int unit, int c,
				       struct sched_ref out, bool share)
{
	enum taut_status st = TAUT_OK;

	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me + i);

		if (group_has(g, j))
			st = group_msg(g, group_piece(g, g->in, unit, j, c), ref_none(), 1, -1, j);
	}
	if (st || !group_has(g, g->me))
		return st;
	return group_step(g, group_piece(g, g->in, unit, g->me, c), out, 1, o->sorted, o->n, o->rotated,
			  share ? o->n : 0);
}

static enum taut_status one_shot_reduce_scatter(const struct group *g)
{
	struct others o;
	enum taut_status st = others_init(&o, g);

	if (st)
		return st;
	for (int c = 0; c < g->len && !st; c++)
		st = scatter_pieces(g, &o, g->len, c, ref_at(g->out, c), false);
	others_cleanup(&o);
	return st;
}

static enum taut_status one_shot_broadcast(const struct group *g)
{
	int32_t *to;
	enum taut_status st;

	if (g->me != g->root)
		return group_msg(g, ref_none(), g->out, g->len, g->root, -1);
	st = group_others(&to, g, true);
	if (st)
		return st;
	st = group_step(g, g->in, g->out, g->len, NULL, 0, to, g->n - 1);
	mem_free(to);
	return st;
}

static enum taut_status one_shot_reduce(const struct group *g)
{
	int32_t *from;
	enum taut_status st;

	if (g->me != g->root)
		return group_msg(g, g->in, ref_none(), g->len, -1, g->root);
	st = group_others(&from, g, false);
	if (st)
		return st;
	st = group_step(g, g->in, g->out, g->len, from, g->n - 1, NULL, 0);
	mem_free(from);
	return st;
}

static enum taut_status one_shot_gather(const struct group *g)
{
	enum taut_status st;

	if (g->me != g->root)
		return group_msg(g, g->in, ref_none(), g->len, -1, g->root);
	st = group_copy(g, group_piece(g, g->out, g->len, g->me, 0), g->in, g->len);
	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me + i);

		st = group_msg(g, ref_none(), group_piece(g, g->out, g->len, j, 0), g->len, j, -1);
	}
	return st;
}

static enum taut_status one_shot_scatter(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	if (g->me != g->root)
		return group_msg(g, ref_none(), g->out, g->len, g->root, -1);
	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me + i);

		st = group_msg(g, group_piece(g, g->in, g->len, j, 0), ref_none(), g->len, -1, j);
	}
	return st ? st : group_copy(g, g->out, group_piece(g, g->in, g->len, g->me, 0), g->len);
}

static enum taut_status one_shot_all_to_all(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me + i);

		st = group_msg(g, group_piece(g, g->in, g->len, j, 0), ref_none(), g->len, -1, j);
	}
	if (!st)
		st = group_copy(g, group_piece(g, g->out, g->len, g->me, 0), group_piece(g, g->in, g->len, g->me, 0),
				g->len);
	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me - i);

		st = group_msg(g, ref_none(), group_piece(g, g->out, g->len, j, 0), g->len, j, -1);
	}
	return st;
}

static enum taut_status one_shot_barrier(const struct group *g)
{
	int32_t *to;
	enum taut_status st = group_others(&to, g, true);

	if (st)
		return st;
	st = group_step(g, g->in, ref_none(), 1, NULL, 0, to, g->n - 1);
	for (int i = 1; i < g->n && !st; i++)
		st = group_msg(g, ref_none(), g->out, 1, group_wrap(g, g->me - i), -1);
	mem_free(to);
	return st;
}

/* --- Two shots --- */

static enum taut_status two_shot_chunk(const struct group *g, const struct others *o, int unit, int c)
{
	enum taut_status st = scatter_pieces(g, o, unit, c, group_piece(g, g->out, unit, g->me, c), true);

	for (int i = 1; i < g->n && !st; i++) {
		int j = group_wrap(g, g->me - i);

		st = group_msg(g, ref_none(), group_piece(g, g->out, unit, j, c), 1, j, -1);
	}
	return st;
}

static enum taut_status two_shot_all_reduce(const struct group *g)
{
	struct others o;
	enum taut_status st = others_init(&o, g);

	if (st)
		return st;
	for (int c = 0; c < g->len / g->n && !st; c++)
		st = two_shot_chunk(g, &o, g->len / g->n, c);
	others_cleanup(&o);
	return st;
}

/* Chunk @c: the root gives each other member its piece; each gives it to the rest. */
static enum taut_status share_chunk(const struct group *g, const int32_t *rest, int unit, int c)
{
	int n = g->n - 1, v = group_wrap(g, g->me - g->root) - 1;
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < n && v < 0 && !st; i++)
		st = group_msg(g, ref_at(g->in, i * unit + c), ref_at(g->out, i * unit + c), 1, -1,
			       group_wrap(g, g->root + 1 + i));
	if (v < 0)
		return st;
	st = group_step(g, ref_none(), ref_at(g->out, v * unit + c), 1, &(int32_t){ group_rank(g, g->root) }, 1, rest,
			n - 1);
	for (int i = 1; i < n && !st; i++) {
		int j = (v - i + n) % n;

		st = group_msg(g, ref_none(), ref_at(g->out, j * unit + c), 1, group_wrap(g, g->root + 1 + j), -1);
	}
	return st;
}

static enum taut_status two_shot_broadcast(const struct group *g)
{
	int unit = g->len / (g->n - 1), kept = 0;
	int32_t *rest;
	enum taut_status st = group_others(&rest, g, true);

	if (st)
		return st;
	for (int i = 0; i < g->n - 1; i++)
		if (rest[i] != group_rank(g, g->root))
			rest[kept++] = rest[i];
	for (int c = 0; c < unit && !st; c++)
		st = share_chunk(g, rest, unit, c);
	mem_free(rest);
	return st;
}

/* --- What they can do --- */

static bool direct_fits(enum sched_coll coll, int n)
{
	return !sched_coll_reduces(coll) || n <= SCHED_MAX_OPERANDS;
}

static int two_shot_pieces(enum sched_coll coll, int n)
{
	return coll == COLL_ALL_REDUCE ? n : n - 1;
}

const struct group_algo group_one_shot = {
	.name = "one_shot",
	.run = {
		[COLL_ALL_REDUCE] = one_shot_all_reduce,
		[COLL_ALL_GATHER] = one_shot_all_gather,
		[COLL_REDUCE_SCATTER] = one_shot_reduce_scatter,
		[COLL_BROADCAST] = one_shot_broadcast,
		[COLL_REDUCE] = one_shot_reduce,
		[COLL_GATHER] = one_shot_gather,
		[COLL_SCATTER] = one_shot_scatter,
		[COLL_ALL_TO_ALL] = one_shot_all_to_all,
		[COLL_BARRIER] = one_shot_barrier,
	},
	.fits = direct_fits,
};

const struct group_algo group_two_shot = {
	.name = "two_shot",
	.run = {
		[COLL_ALL_REDUCE] = two_shot_all_reduce,
		[COLL_BROADCAST] = two_shot_broadcast,
	},
	.pieces = two_shot_pieces,
	.fits = direct_fits,
};

static bool req_fits(const struct sched_req *req)
{
	return direct_fits(req->coll, req->nranks);
}

static enum taut_status build_one_shot(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_one_shot, s, req);
}

static enum taut_status build_two_shot(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_two_shot, s, req);
}

const struct sched_algo sched_one_shot = {
	.name = "one_shot",
	.colls = BIT(COLL_COUNT) - 1,
	.vectors = BIT(COLL_ALL_GATHER) | BIT(COLL_REDUCE_SCATTER) | BIT(COLL_GATHER) | BIT(COLL_SCATTER) |
		   BIT(COLL_ALL_TO_ALL),
	.fits = req_fits,
	.build = build_one_shot,
};

const struct sched_algo sched_two_shot = {
	.name = "two_shot",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_BROADCAST),
	.fits = req_fits,
	.build = build_two_shot,
};
