/* SPDX-License-Identifier: Apache-2.0 */
/* Two binary trees, each for half of the chunks. A member that has children in one tree is a
 * leaf of the other, so that all send and receive about the same, and the number of trips
 * grows with the logarithm only.
 *
 * In a tree, place 0 is on top and has one child: the tree of the range 1 to n - 1. On top of
 * a range is its member divisible by the highest power of two; the rest of it to the left and
 * to the right are the ranges of its children. So odd numbers are leaves, and the second tree
 * is the first over numbers in which odd and even ones have changed places. */
#include "sched/families.h"

struct links {
	int parent, child[2]; /* places; -1: none */
};

static int top_of(int lo, int hi)
{
	int x = hi - 1;

	while ((x & (x - 1)) >= lo)
		x &= x - 1;
	return x;
}

static struct links find_links(int n, int v)
{
	struct links l = { 0, { -1, -1 } };
	int lo = 1, hi = n, top;

	if (v == 0)
		return (struct links){ -1, { top_of(1, n), -1 } };
	while ((top = top_of(lo, hi)) != v) {
		l.parent = top;
		if (v < top)
			hi = top;
		else
			lo = top + 1;
	}
	if (lo < top)
		l.child[0] = top_of(lo, top);
	if (top + 1 < hi)
		l.child[1] = top_of(top + 1, hi);
	return l;
}

/* The number in the second tree of place @v. Without a root all places change between odd and
 * even: mirrored, or moved on by one where mirroring would not do it. With a root, 0 stays. */
static int twist(const struct group *g, bool rooted, int v)
{
	int n = g->n;

	if (!rooted)
		return n % 2 ? (v + n - 1) % n : n - 1 - v;
	if (v == 0)
		return 0;
	return n % 2 ? n - v : (v + n - 3) % (n - 1) + 1;
}

static int untwist(const struct group *g, bool rooted, int v)
{
	int n = g->n;

	if (!rooted)
		return n % 2 ? (v + 1) % n : n - 1 - v;
	if (v == 0)
		return 0;
	return n % 2 ? n - v : v % (n - 1) + 1;
}

static int place_of(const struct group *g, bool rooted, int tree, int v)
{
	if (v < 0)
		return -1;
	if (tree)
		v = untwist(g, rooted, v);
	return rooted ? (v + g->root) % g->n : v;
}

/* Neighbours of this rank in tree 0 or 1, as places. */
static struct links links_of(const struct group *g, bool rooted, int tree)
{
	int v = rooted ? group_wrap(g, g->me - g->root) : g->me;
	struct links l = find_links(g->n, tree ? twist(g, rooted, v) : v);

	l.parent = place_of(g, rooted, tree, l.parent);
	l.child[0] = place_of(g, rooted, tree, l.child[0]);
	l.child[1] = place_of(g, rooted, tree, l.child[1]);
	return l;
}

static int child_ranks(const struct group *g, const struct links *l, int32_t ranks[2])
{
	int n = 0;

	for (int i = 0; i < 2; i++)
		if (l->child[i] >= 0)
			ranks[n++] = group_rank(g, l->child[i]);
	if (n == 2 && ranks[0] > ranks[1]) {
		int32_t first = ranks[1];

		ranks[1] = ranks[0];
		ranks[0] = first;
	}
	return n;
}

static enum taut_status reduce_up(const struct group *g, const struct links *l, int tree)
{
	int half = g->len / 2;
	int32_t from[2], to = l->parent < 0 ? -1 : group_rank(g, l->parent);
	int nfrom = child_ranks(g, l, from);

	return group_step(g, ref_at(g->in, tree * half), l->parent < 0 ? ref_at(g->out, tree * half) : ref_none(), half,
			  from, nfrom, &to, l->parent >= 0);
}

static enum taut_status send_down(const struct group *g, const struct links *l, int tree, struct sched_ref top)
{
	int half = g->len / 2;
	int32_t to[2], from = l->parent < 0 ? -1 : group_rank(g, l->parent);
	int nto = child_ranks(g, l, to);

	return group_step(g, l->parent < 0 ? ref_at(top, tree * half) : ref_none(), ref_at(g->out, tree * half), half,
			  &from, l->parent >= 0, to, nto);
}

/* All ranks go through the four passes in one order, or messages of one pass would meet those
 * of another in a FIFO; so the top does not send down what it has just received. */
static enum taut_status tree_all_reduce(const struct group *g)
{
	struct links l[2] = { links_of(g, false, 0), links_of(g, false, 1) };
	enum taut_status st = TAUT_OK;

	for (int tree = 0; tree < 2 && !st; tree++)
		st = reduce_up(g, &l[tree], tree);
	for (int tree = 0; tree < 2 && !st; tree++)
		st = send_down(g, &l[tree], tree, g->out);
	return st;
}

static enum taut_status tree_broadcast(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int tree = 0; tree < 2 && !st; tree++) {
		struct links l = links_of(g, true, tree);

		st = send_down(g, &l, tree, g->in);
	}
	return st;
}

static enum taut_status tree_reduce(const struct group *g)
{
	enum taut_status st = TAUT_OK;

	for (int tree = 0; tree < 2 && !st; tree++) {
		struct links l = links_of(g, true, tree);

		st = reduce_up(g, &l, tree);
	}
	return st;
}

static int tree_pieces(enum sched_coll coll, int n)
{
	(void)coll;
	(void)n;
	return 2;
}

const struct group_algo group_tree = {
	.name = "tree",
	.run = {
		[COLL_ALL_REDUCE] = tree_all_reduce,
		[COLL_BROADCAST] = tree_broadcast,
		[COLL_REDUCE] = tree_reduce,
	},
	.pieces = tree_pieces,
};

static enum taut_status build_tree(struct sched *s, const struct sched_req *req)
{
	return group_build(&group_tree, s, req);
}

const struct sched_algo sched_tree = {
	.name = "tree",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_BROADCAST) | BIT(COLL_REDUCE),
	.build = build_tree,
};
