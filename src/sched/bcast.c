/* SPDX-License-Identifier: Apache-2.0 */
/* Rooted collectives along a binomial tree (fewest trips) or a chain (every link carries the
 * data once; the pieces of a slice, and slices, follow each other).
 *
 * Virtual places count from the root. In the binomial tree the parent of v is v without its
 * lowest bit, so the subtree of v is the range from v on, as long as that bit. */
#include "sched/families.h"

enum { CHAIN_PIECES = 8, MAX_CHILDREN = 31 };

struct node {
	int v, parent; /* parent: place, -1 for the root */
	int nchildren; /* child i is v + (1 << i) */
};

static int place_of(const struct group *g, int v)
{
	return (g->root + v) % g->n;
}

static struct node find_node(const struct group *g)
{
	struct node node = { .v = group_wrap(g, g->me - g->root), .parent = -1 };

	if (node.v)
		node.parent = place_of(g, node.v & (node.v - 1));
	while (node.v + (1 << node.nchildren) < g->n && !(node.v & (1 << node.nchildren)))
		node.nchildren++;
	return node;
}

static int child_place(const struct group *g, const struct node *node, int i)
{
	return place_of(g, node->v + (1 << i));
}

/* Members below child @i, itself included. */
static int child_size(const struct group *g, const struct node *node, int i)
{
	int rest = g->n - node->v - (1 << i);

	return rest < 1 << i ? rest : 1 << i;
}

/* The largest subtree first: it has the longest way to go. */
static enum taut_status binomial_broadcast(const struct group *g)
{
	struct node node = find_node(g);
	int32_t to[MAX_CHILDREN], from = node.parent < 0 ? -1 : group_rank(g, node.parent);

	for (int i = 0; i < node.nchildren; i++)
		to[i] = group_rank(g, child_place(g, &node, node.nchildren - 1 - i));
	return group_step(g, node.v ? ref_none() : g->in, g->out, g->len, &from, node.v != 0, to, node.nchildren);
}

static void insert_sorted(int32_t *list, int n, int32_t rank)
{
	for (; n > 0 && list[n - 1] > rank; n--)
		list[n] = list[n - 1];
	list[n] = rank;
}

static enum taut_status binomial_reduce(const struct group *g)
{
	struct node node = find_node(g);
	int32_t from[MAX_CHILDREN], to = node.parent < 0 ? -1 : group_rank(g, node.parent);

	for (int i = 0; i < node.nchildren; i++)
		insert_sorted(from, i, group_rank(g, child_place(g, &node, i)));
	return group_step(g, g->in, node.v ? ref_none() : g->out, g->len, from, node.nchildren, &to, node.v != 0);
}

/* Pieces go up in virtual order: own, then those of each child, which are only handed on. */
static enum taut_status binomial_gather(const struct group *g)
{
	struct node node = find_node(g);
	enum taut_status st;

	if (node.v)
		st = group_msg(g, g->in, ref_none(), g->len, -1, node.parent);
	else
		st = group_copy(g, group_piece(g, g->out, g->len, g->me, 0), g->in, g->len);
	for (int i = 0; i < node.nchildren && !st; i++) {
		int child = child_place(g, &node, i), size = child_size(g, &node, i);

		if (node.v)
			st = group_msg(g, ref_none(), ref_none(), size * g->len, child, node.parent);
		else
			st = group_move(g, ref_none(), g->out, child, size, child, -1);
	}
	return st;
}

/* Pieces come down in virtual order: own, then those of each child. */
static enum taut_status binomial_scatter(const struct group *g)
{
	struct node node = find_node(g);
	enum taut_status st = TAUT_OK;

	if (node.v)
		st = group_msg(g, ref_none(), g->out, g->len, node.parent, -1);
	for (int i = 0; i < node.nchildren && node.v && !st; i++)
		st = group_msg(g, ref_none(), ref_none(), child_size(g, &node, i) * g->len, node.parent,
			       child_place(g, &node, i));
	for (int i = node.nchildren - 1; i >= 0 && !node.v && !st; i--) {
		int child = child_place(g, &node, i);

		st = group_move(g, g->in, ref_none(), child, child_size(g, &node, i), -1, child);
	}
	if (!st && !node.v)
		st = group_copy(g, g->out, group_piece(g, g->in, g->len, g->me, 0), g->len);
	return st;
}

enum taut_status chain_broadcast(const struct group *g)
{
	int v = group_wrap(g, g->me - g->root);

	return group_msg(g, v ? ref_none() : g->in, g->out, g->len, v ? group_wrap(g, g->me - 1) : -1,
			 v < g->n - 1 ? group_wrap(g, g->me + 1) : -1);
}

/* The one after the root begins. */
enum taut_status chain_reduce(const struct group *g)
{
	int v = group_wrap(g, g->me - g->root);

	return group_msg(g, g->in, v ? ref_none() : g->out, g->len, v == 1 ? -1 : group_wrap(g, g->me - 1),
			 v ? group_wrap(g, g->me + 1) : -1);
}

static int chain_pieces(enum sched_coll coll, int n)
{
	(void)coll;
	(void)n;
	return CHAIN_PIECES;
}

const struct group_algo group_binomial = {
	.name = "binomial",
	.run = {
		[COLL_BROADCAST] = binomial_broadcast,
		[COLL_REDUCE] = binomial_reduce,
		[COLL_GATHER] = binomial_gather,
		[COLL_SCATTER] = binomial_scatter,
	},
};

const struct group_algo group_chain = {
	.name = "chain",
	.run = {
		[COLL_BROADCAST] = chain_broadcast,
		[COLL_REDUCE] = chain_reduce,
	},
	.pieces = chain_pieces,
};

static enum taut_status build_binomial(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_binomial, s, req);
}

static enum taut_status build_chain(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_chain, s, req);
}

const struct sched_algo sched_binomial = {
	.name = "binomial",
	.colls = BIT(COLL_BROADCAST) | BIT(COLL_REDUCE) | BIT(COLL_GATHER) | BIT(COLL_SCATTER),
	.build = build_binomial,
};

const struct sched_algo sched_chain = {
	.name = "chain",
	.colls = BIT(COLL_BROADCAST) | BIT(COLL_REDUCE),
	.build = build_chain,
};
