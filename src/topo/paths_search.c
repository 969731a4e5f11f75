/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/paths_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A file may describe anything: beyond these a search would take minutes. The largest NVLink
 * domain (576 GPUs) has about 3000 nodes; machines have a handful of bandwidths. */
enum { NODES_MAX = 8192, WIDTHS_MAX = 256 };

/* Classes that a single link can give to a path, near to far. */
static const enum path_class steps[] = { PATH_NVL, PATH_C2C, PATH_PIX, PATH_PXB, PATH_PHB, PATH_SYS };
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

struct edge {
	int to, link;
	int step;  /* index in steps[] */
	int width; /* rank of its bandwidth, 0: widest */
};

struct search {
	const struct topo *t;
	int nwidths;
	struct edge *edges;
	int *first;	 /* of a node's edges, [nnodes + 1] */
	bool *through;	 /* paths may lead through this node */
	bool *adds;	 /* [STEPS * nwidths]: this step and width allow a link that the ones before did not */
	double *widths;	 /* widest first */
	bool *found;	 /* nodes that have their best path */
	int *queue, *up; /* of the sweep: order of visit; edge that led to a node, -1: not visited */
	int *prev;	 /* node before */
	int *links;	 /* of the path that is handed out */
};

/* The link's own part of a path's class; the port of a card adds nothing to what is above the card, but two
 * ports of one card are as near as two cards below one bridge. */
static int step_of(const struct topo *t, const struct topo_link *l)
{
	enum topo_kind a = t->nodes[l->a].kind, b = t->nodes[l->b].kind;

	switch (l->kind) {
	case LINK_NVLINK:
	case LINK_XGMI:
		return 0;
	case LINK_C2C:
		return 1;
	case LINK_PCI:
		if (a == TOPO_CPU || b == TOPO_CPU)
			return 4;
		return a == TOPO_PCI && b == TOPO_PCI ? 3 : 2;
	case LINK_NET:
		return 2;
	default:
		return 5;
	}
}

static bool leads_through(enum topo_kind kind)
{
	return kind == TOPO_CPU || kind == TOPO_PCI || kind == TOPO_NVS || kind == TOPO_NIC;
}

/* --- bandwidths --- */

static int wider_first(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Sums of the same links in another order differ in the last bits: these are no other width. */
static bool same_width(double a, double b)
{
	return a - b <= a * 1e-9;
}

static enum taut_status rank_widths(struct search *s)
{
	const struct topo *t = s->t;
	int n = 0;

	for (int i = 0; i < t->nlinks; i++)
		s->widths[i] = t->links[i].bw_gbps;
	qsort(s->widths, (size_t)t->nlinks, sizeof(double), wider_first);
	for (int i = 0; i < t->nlinks; i++)
		if (!n || !same_width(s->widths[n - 1], s->widths[i]))
			s->widths[n++] = s->widths[i];
	if (n > WIDTHS_MAX)
		return fail(TAUT_ERR_ARG, "%s: links of %d different bandwidths; paths are computed for up to %d",
			    t->source, n, WIDTHS_MAX);
	s->nwidths = n;
	return TAUT_OK;
}

static int width_of(const struct search *s, double bw)
{
	int lo = 0, hi = s->nwidths - 1;

	while (lo < hi) { /* first that is not wider than @bw */
		int mid = (lo + hi) / 2;

		if (s->widths[mid] > bw && !same_width(s->widths[mid], bw))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- making one --- */

static void fill_edges(struct search *s)
{
	const struct topo *t = s->t;
	int n = 0;

	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *node = &t->nodes[i];

		s->through[i] = leads_through(node->kind);
		s->first[i] = n;
		for (int k = 0; k < node->nlinks; k++) {
			const struct topo_link *l = &t->links[node->links[k]];

			s->edges[n++] = (struct edge){ .to = l->a == i ? l->b : l->a,
						       .link = node->links[k],
						       .step = step_of(t, l),
						       .width = width_of(s, l->bw_gbps) };
		}
	}
	s->first[t->nnodes] = n;
}

/* A sweep that may use no link more than the sweep of the class before, or of the width before, finds nothing new. */
static void fill_adds(struct search *s)
{
	bool has[STEPS][WIDTHS_MAX] = { { false } };

	for (int i = 0; i < s->first[s->t->nnodes]; i++)
		has[s->edges[i].step][s->edges[i].width] = true;
	for (int step = 0; step < STEPS; step++) {
		bool wider = false; /* links of this step that are at least as wide */

		for (int w = 0; w < s->nwidths; w++) {
			bool nearer = false; /* links of this width that are at least as near */

			wider = wider || has[step][w];
			for (int k = 0; k <= step; k++)
				nearer = nearer || has[k][w];
			s->adds[step * s->nwidths + w] = wider && nearer;
		}
	}
}

static bool alloc_search(struct search *s)
{
	size_t n = (size_t)s->t->nnodes + 1, ends = 2 * (size_t)s->t->nlinks + 1;

	s->edges = mem_calloc(ends, sizeof(*s->edges));
	s->widths = mem_calloc(ends, sizeof(*s->widths));
	s->first = mem_calloc(n, sizeof(int));
	s->through = mem_calloc(n, sizeof(bool));
	s->found = mem_calloc(n, sizeof(bool));
	s->queue = mem_calloc(n, sizeof(int));
	s->up = mem_calloc(n, sizeof(int));
	s->prev = mem_calloc(n, sizeof(int));
	s->links = mem_calloc(n, sizeof(int));
	s->adds = mem_calloc(STEPS * WIDTHS_MAX, sizeof(bool));
	return s->edges && s->widths && s->first && s->through && s->found && s->queue && s->up && s->prev &&
	       s->links && s->adds;
}

enum taut_status search_create(struct search **out, const struct topo *t)
{
	struct search *s;
	enum taut_status st;

	if (t->nnodes > NODES_MAX)
		return fail(TAUT_ERR_ARG, "%s: %d nodes; paths are computed for up to %d", t->source, t->nnodes,
			    NODES_MAX);
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
	s->t = t;
	if (!alloc_search(s)) {
		st = fail(TAUT_ERR_NOMEM, "no memory for the paths of %s: %d nodes", t->source, t->nnodes);
		goto err_free;
	}
	st = rank_widths(s);
	if (st)
		goto err_free;
	fill_edges(s);
	fill_adds(s);
	*out = s;
	return TAUT_OK;
err_free:
	search_free(s);
	return st;
}

void search_free(struct search *s)
{
	if (!s)
		return;
	mem_free(s->edges);
	mem_free(s->widths);
	mem_free(s->first);
	mem_free(s->through);
	mem_free(s->found);
	mem_free(s->queue);
	mem_free(s->up);
	mem_free(s->prev);
	mem_free(s->links);
	mem_free(s->adds);
	mem_free(s);
}

/* --- searching --- */

/* Breadth first over links that are near and wide enough; returns how many nodes were reached. */
static int sweep(struct search *s, int start, int step, int width)
{
	int n = 1;

	memset(s->up, 0xff, (size_t)s->t->nnodes * sizeof(int));
	s->queue[0] = start;
	for (int i = 0; i < n; i++) {
		int node = s->queue[i];

		if (i && !s->through[node])
			continue;
		for (int e = s->first[node]; e < s->first[node + 1]; e++) {
			const struct edge *to = &s->edges[e];

			if (to->step > step || to->width > width || s->up[to->to] >= 0 || to->to == start)
				continue;
			s->up[to->to] = e;
			s->prev[to->to] = node;
			s->queue[n++] = to->to;
		}
	}
	return n;
}

static enum taut_status hand_out(struct search *s, int start, int node, enum path_class class, search_found *found,
				 void *ctx)
{
	int n = 0;

	for (int at = node; at != start; at = s->prev[at])
		n++;
	for (int at = node, i = n; at != start; at = s->prev[at])
		s->links[--i] = s->edges[s->up[at]].link;
	return found(ctx, node, class, s->links, n);
}

/* Near classes first, in each the widest links first, in each the fewest links: the first sweep that reaches a
 * node has its best path. */
enum taut_status search_from(struct search *s, int start, search_found *found, void *ctx)
{
	memset(s->found, 0, (size_t)s->t->nnodes * sizeof(bool));
	s->found[start] = true;
	for (int k = 0; k < STEPS * s->nwidths; k++) {
		int n = s->adds[k] ? sweep(s, start, k / s->nwidths, k % s->nwidths) : 0;

		for (int i = 1; i < n; i++) {
			int node = s->queue[i];
			enum taut_status st;

			if (s->found[node])
				continue;
			s->found[node] = true;
			st = hand_out(s, start, node, steps[k / s->nwidths], found, ctx);
			if (st)
				return st;
		}
	}
	return TAUT_OK;
}
