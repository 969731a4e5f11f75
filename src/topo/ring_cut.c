/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_cut.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/ring_words.h"

/* A flow over the arcs of the model; vertices are the graph's nodes and after them the world beyond the ports
 * and one that stands for all GPUs. */
struct flow {
	const struct topo *t;
	const struct ring_model *m;
	int nvertices, world, all;
	int narcs; /* the model's, then those of the world and of all */
	int *from, *to;
	double *cap, *used;
	int *start, *at; /* the arcs that begin or end at vertex v: at[start[v]] to at[start[v + 1]] */
	int *queue, *by; /* by: arc that reached the vertex, 2 * arc + backwards; -1: not reached */
};

/* The tightest limit yet. */
struct limit {
	double total;
	char *why;
	size_t len;
};

static void arc_add(struct flow *f, int from, int to, double cap)
{
	f->from[f->narcs] = from;
	f->to[f->narcs] = to;
	f->cap[f->narcs++] = cap;
}

static void arcs_fill(struct flow *f)
{
	for (int r = 0; r < f->m->narcs; r++) {
		const struct topo_link *l = &f->t->links[f->m->arc[r] / 2];
		bool back = f->m->arc[r] & 1;

		arc_add(f, back ? l->b : l->a, back ? l->a : l->b, f->m->arc_cap[r]);
	}
	for (int k = 0; k < f->m->nports; k++) {
		arc_add(f, f->world, f->m->ports[k], INFINITY);
		arc_add(f, f->m->ports[k], f->world, INFINITY);
	}
	for (int i = 0; i < f->m->ngpus; i++) {
		arc_add(f, f->m->gpus[i], f->all, INFINITY);
		arc_add(f, f->all, f->m->gpus[i], INFINITY);
	}
}

static void arcs_index(struct flow *f)
{
	for (int arc = 0; arc < f->narcs; arc++) {
		f->start[f->from[arc] + 1]++;
		f->start[f->to[arc] + 1]++;
	}
	for (int v = 0; v < f->nvertices; v++)
		f->start[v + 1] += f->start[v];
	/* filling moves each start to the next one's; moving them back afterwards saves a copy */
	for (int arc = 0; arc < f->narcs; arc++) {
		f->at[f->start[f->from[arc]]++] = arc;
		f->at[f->start[f->to[arc]]++] = arc;
	}
	for (int v = f->nvertices; v > 0; v--)
		f->start[v] = f->start[v - 1];
	f->start[0] = 0;
}

static enum taut_status flow_init(struct flow *f, const struct topo *t, const struct ring_model *m)
{
	size_t arcs = (size_t)m->narcs + 2 * (size_t)m->nports + 2 * (size_t)m->ngpus;

	*f = (struct flow){ .t = t, .m = m, .nvertices = t->nnodes + 2, .world = t->nnodes, .all = t->nnodes + 1 };
	f->from = mem_calloc(arcs, sizeof(int));
	f->to = mem_calloc(arcs, sizeof(int));
	f->cap = mem_calloc(arcs, sizeof(double));
	f->used = mem_calloc(arcs, sizeof(double));
	f->start = mem_calloc((size_t)f->nvertices + 1, sizeof(int));
	f->at = mem_calloc(2 * arcs, sizeof(int));
	f->queue = mem_calloc((size_t)f->nvertices, sizeof(int));
	f->by = mem_calloc((size_t)f->nvertices, sizeof(int));
	if (!f->from || !f->to || !f->cap || !f->used || !f->start || !f->at || !f->queue || !f->by)
		return fail(TAUT_ERR_NOMEM, "bound of channels: no memory for %zu arcs", arcs);
	arcs_fill(f);
	arcs_index(f);
	return TAUT_OK;
}

static void flow_cleanup(struct flow *f)
{
	mem_free(f->from);
	mem_free(f->to);
	mem_free(f->cap);
	mem_free(f->used);
	mem_free(f->start);
	mem_free(f->at);
	mem_free(f->queue);
	mem_free(f->by);
}

static double arc_room(const struct flow *f, int arc, bool backwards)
{
	return backwards ? f->used[arc] : f->cap[arc] - f->used[arc];
}

/* `all` is there only for flows that end at it. The world joins the ports of a ring that may leave by another than it
 * came in; of others, and of chains, it is a part only where the flow ends there. */
static bool arc_there(const struct flow *f, int arc, int s, int t)
{
	bool at_all = f->from[arc] == f->all || f->to[arc] == f->all;
	bool at_world = f->from[arc] == f->world || f->to[arc] == f->world;

	if (at_all)
		return s == f->all || t == f->all;
	return !at_world || (f->m->cross && !ring_is_tree(f->m)) || s == f->world || t == f->world;
}

/* Along each arc at @vertex, or back along it. */
static void reach_from(struct flow *f, int vertex, int *tail, int s, int t)
{
	for (int i = f->start[vertex]; i < f->start[vertex + 1]; i++) {
		int arc = f->at[i];
		bool backwards = f->to[arc] == vertex;
		int next = backwards ? f->from[arc] : f->to[arc];

		if (f->by[next] >= 0 || !arc_there(f, arc, s, t) || arc_room(f, arc, backwards) <= 1e-9)
			continue;
		f->by[next] = 2 * arc + backwards;
		f->queue[(*tail)++] = next;
	}
}

static bool reach(struct flow *f, int s, int t)
{
	int head = 0, tail = 0;

	memset(f->by, -1, (size_t)f->nvertices * sizeof(int));
	f->by[s] = 0;
	f->queue[tail++] = s;
	while (head < tail && f->by[t] < 0)
		reach_from(f, f->queue[head++], &tail, s, t);
	return f->by[t] >= 0;
}

/* Walks the way just found from its end; @add: what to send along it, or 0 to ask how much fits. */
static double walk_back(struct flow *f, int s, int t, double add)
{
	double room = INFINITY;

	for (int v = t; v != s;) {
		int arc = f->by[v] / 2;
		bool backwards = f->by[v] & 1;

		room = fmin(room, arc_room(f, arc, backwards));
		f->used[arc] += backwards ? -add : add;
		v = backwards ? f->to[arc] : f->from[arc];
	}
	return room;
}

/* Largest flow; afterwards by[] >= 0 marks the side of @s of the narrowest cut. */
static double flow_max(struct flow *f, int s, int t)
{
	double total = 0;

	memset(f->used, 0, (size_t)f->narcs * sizeof(double));
	while (reach(f, s, t)) {
		double room = walk_back(f, s, t, 0);

		walk_back(f, s, t, room);
		total += room;
	}
	return total;
}

/* --- in words --- */

/* The links of the cut that by[] marks. */
static void say_cut(const struct flow *f, double cut, char *buf, size_t len)
{
	enum { SHOWN = 4 };
	int n = 0;

	buf[0] = '\0';
	words_add(buf, len, "%.1f GB/s one way over ", cut);
	for (int arc = 0; arc < f->m->narcs; arc++) {
		if (f->by[f->from[arc]] < 0 || f->by[f->to[arc]] >= 0)
			continue;
		if (n++ >= SHOWN)
			continue;
		words_add(buf, len, n > 1 ? ", " : "");
		words_arc(f->t, f->m, arc, buf, len);
	}
	if (n > SHOWN)
		words_add(buf, len, " and %d more", n - SHOWN);
}

/* A channel of 1 GB/s crosses each cut between @s and @t with at least @share. */
static void limit_cut(struct flow *f, struct limit *l, int s, int t, double share)
{
	double cut = flow_max(f, s, t);

	if (cut / share >= l->total * (1 - 1e-9))
		return;
	l->total = cut / share;
	if (l->why && l->len)
		say_cut(f, cut, l->why, l->len);
}

/* --- the bound --- */

static void limit_both_ways(struct flow *f, struct limit *l, int s, int t, double share)
{
	limit_cut(f, l, s, t, share);
	limit_cut(f, l, t, s, share);
}

/* A chain of n GPUs leaves each end of its n - 1 legs with half of what it carries, and its ports with all. */
static void limit_ends(const struct flow *f, struct limit *l)
{
	double out = 0, ends = f->m->ngpus - !f->m->inter;

	for (int r = 0; r < f->m->narcs; r++)
		if (f->t->nodes[f->from[r]].kind == TOPO_GPU)
			out += f->m->arc_cap[r];
	if (ends < 1 || out / ends >= l->total * (1 - 1e-9))
		return;
	l->total = out / ends;
	if (l->why && l->len)
		snprintf(l->why, l->len, "%.1f GB/s leave all %d GPUs together, and a chain of 1 GB/s needs %.0f", out,
			 f->m->ngpus, ends);
}

static void limit_all(struct flow *f, struct limit *l)
{
	const struct ring_model *m = f->m;
	bool tree = ring_is_tree(m);

	for (int i = 1; i < m->ngpus; i++)
		limit_both_ways(f, l, m->gpus[0], m->gpus[i], tree ? 0.5 : 1);
	if (m->inter)
		limit_both_ways(f, l, f->world, f->all, 1);
	if (m->inter && !tree)
		limit_both_ways(f, l, f->world, m->gpus[0], 1);
	if (tree)
		limit_ends(f, l);
}

enum taut_status ring_cut_bound(double *out, const struct topo *t, const struct ring_model *m, char *why, size_t len)
{
	struct limit l = { .total = INFINITY, .why = why, .len = len };
	struct flow f;
	enum taut_status st = flow_init(&f, t, m);

	if (!st) {
		if (why && len)
			snprintf(why, len, "nothing: one GPU has no one to send to");
		limit_all(&f, &l);
		*out = l.total;
	}
	flow_cleanup(&f);
	return st;
}
