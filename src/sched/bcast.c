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

/* The pieces of virtual places from @v on, @count of them, kept at @base: a piece each, in
 * virtual order if @base is scratch, else at their slots. They go in at most two runs, cut
 * where slots start again from 0, alike at both ends. */
static enum taut_status move_range(const struct group *g, struct sched_ref base, int v, int count, int from, int to)
{
	enum taut_status st = TAUT_OK;

	for (int done = 0, n; done < count && !st; done += n) {
		int place = place_of(g, v + done), left = count - done;
		struct sched_ref ref = ref_at(base, (base.buf == BUF_SCRATCH ? done : place) * g->len);

		n = left < g->n - place ? left : g->n - place;
		if (from >= 0)
			st = group_msg(g, ref_none(), ref, n * g->len, from, -1);
		else
			st = group_msg(g, ref, ref_none(), n * g->len, -1, to);
	}
	return st;
}

/* Members below this one, itself included. */
static int subtree_size(const struct group *g, const struct node *node)
{
	int last = node->nchildren - 1;

	return last < 0 ? 1 : (1 << last) + child_size(g, node, last);
}

static enum taut_status gather_at_root(const struct group *g, const struct node *node)
{
	enum taut_status st = group_copy(g, group_piece(g, g->out, g->len, g->me, 0), g->in, g->len);

	for (int i = 0; i < node->nchildren && !st; i++)
		st = move_range(g, g->out, 1 << i, child_size(g, node, i), child_place(g, node, i), -1);
	return st;
}

/* Each collects what is below it, in virtual order, and sends it up at once. */
static enum taut_status binomial_gather(const struct group *g)
{
	struct node node = find_node(g);
	int size = subtree_size(g, &node);
	struct sched_ref all;
	enum taut_status st;

	if (node.v == 0)
		return gather_at_root(g, &node);
	if (size == 1)
		return group_msg(g, g->in, ref_none(), g->len, -1, node.parent);
	all = group_scratch(g, size * g->len);
	st = group_copy(g, all, g->in, g->len);
	for (int i = 0; i < node.nchildren && !st; i++)
		st = move_range(g, ref_at(all, (1 << i) * g->len), node.v + (1 << i), child_size(g, &node, i),
				child_place(g, &node, i), -1);
	return st ? st : move_range(g, all, node.v, size, -1, node.parent);
}

static enum taut_status scatter_at_root(const struct group *g, const struct node *node)
{
	enum taut_status st = TAUT_OK;

	for (int i = node->nchildren - 1; i >= 0 && !st; i--)
		st = move_range(g, g->in, 1 << i, child_size(g, node, i), -1, child_place(g, node, i));
	return st ? st : group_copy(g, g->out, group_piece(g, g->in, g->len, g->me, 0), g->len);
}

/* The way back: all that is for the subtree comes at once. */
static enum taut_status binomial_scatter(const struct group *g)
{
	struct node node = find_node(g);
	int size = subtree_size(g, &node);
	struct sched_ref all;
	enum taut_status st;

	if (node.v == 0)
		return scatter_at_root(g, &node);
	if (size == 1)
		return group_msg(g, ref_none(), g->out, g->len, node.parent, -1);
	all = group_scratch(g, size * g->len);
	st = move_range(g, all, node.v, size, node.parent, -1);
	for (int i = node.nchildren - 1; i >= 0 && !st; i--)
		st = move_range(g, ref_at(all, (1 << i) * g->len), node.v + (1 << i), child_size(g, &node, i), -1,
				child_place(g, &node, i));
	return st ? st : group_copy(g, g->out, all, g->len);
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
	.ordered = true,
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
