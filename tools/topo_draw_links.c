/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a drawing that are no tree: between GPUs, to NVSwitches, between NUMA nodes. */
#include "topo_draw.h"

#include <string.h>

#include "base/mem.h"

enum {
	TO_BAR = 52, /* from a GPU to the NVSwitch: two lines of text */
	BAR_H = 36,
	BAND_ARCS = 150,
	BAND_CROSS = 230,
	BUS_AWAY = 20,	 /* of the line between NUMA nodes from their boxes */
	LABELS_MAX = 16, /* more are no help */
	SLOTS_MAX = 512	 /* links of one GPU that get a place of their own */
};

static bool is_direct(const struct topo *t, const struct topo_link *l)
{
	return (l->kind == LINK_NVLINK || l->kind == LINK_XGMI || l->kind == LINK_C2C) &&
	       t->nodes[l->a].kind == TOPO_GPU && t->nodes[l->b].kind == TOPO_GPU;
}

static int count_direct(const struct topo *t)
{
	int n = 0;

	for (int i = 0; i < t->nlinks; i++)
		n += is_direct(t, &t->links[i]);
	return n;
}

double draw_band(const struct topo *t, bool two_rows)
{
	if (count_direct(t))
		return two_rows ? BAND_CROSS : BAND_ARCS;
	if (t->count[TOPO_NVS])
		return two_rows ? 2 * TO_BAR + BAR_H : TO_BAR + BAR_H;
	return 0;
}

/* The edge of a GPU that looks to the links between GPUs. */
static double edge(const struct draw_box *b)
{
	return b->flip ? b->y : b->y + b->h;
}

/* --- NVSwitches --- */

/* From where to where the NUMA nodes reach that have a GPU on @nvs; false: there is none. */
static bool span(const struct drawing *d, const struct topo *t, int nvs, double *from, double *to)
{
	const struct draw_box *cpu = NULL;
	bool any = false;

	for (int i = 0; i < d->nboxes; i++) {
		const struct draw_box *b = &d->boxes[i];

		if (b->kind == DRAW_CPU)
			cpu = b;
		if (b->kind != DRAW_GPU || !cpu || topo_link_of(t, b->node, nvs, LINK_NVLINK) < 0)
			continue;
		*from = any && *from < cpu->x ? *from : cpu->x;
		*to = any && *to > cpu->x + cpu->w ? *to : cpu->x + cpu->w;
		any = true;
	}
	return any;
}

static void to_switch(struct drawing *d, const struct topo *t, const struct draw_box *gpu, const struct draw_box *bar)
{
	int link = topo_link_of(t, gpu->node, bar->node, LINK_NVLINK);
	struct draw_line *l = link >= 0 ? draw_add_line(d, LINK_NVLINK, t->links[link].bw_gbps) : NULL;
	double x = gpu->x + gpu->w / 2, y = gpu->flip ? bar->y + bar->h : bar->y;
	char words[TOPO_WORDS], bw[32];

	if (!l)
		return;
	draw_straight(l, x, edge(gpu), x, y);
	l->fabric = true;
	l->count = t->links[link].count;
	snprintf(l->label, sizeof(l->label), "%.24s\n%s GB/s", topo_link_words(t, link, words, sizeof(words)),
		 topo_number(l->bw, bw, sizeof(bw)));
	l->label_x = x + 9;
	l->label_y = (edge(gpu) + y) / 2 + (gpu->flip ? -3 : 3);
}

static void draw_switch(struct drawing *d, const struct topo *t, int nvs)
{
	double from = 0, to = 0, single = d->band[0] + TO_BAR, middle = (d->band[0] + d->band[1] - BAR_H) / 2;
	struct draw_box bar, *b = span(d, t, nvs, &from, &to) ? draw_add_box(d, DRAW_NVS, nvs) : NULL;

	if (!b)
		return;
	b->x = from;
	b->w = to - from;
	b->y = d->band[1] - d->band[0] > TO_BAR + BAR_H ? middle : single;
	b->h = BAR_H;
	if (t->nodes[nvs].switches > 1)
		snprintf(b->text[0], sizeof(b->text[0]), "%d NVSwitches", t->nodes[nvs].switches);
	else
		snprintf(b->text[0], sizeof(b->text[0]), "NVSwitch");
	bar = *b;
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		const struct draw_box *gpu = draw_find(d, DRAW_GPU, t->of[TOPO_GPU][i]);

		if (gpu)
			to_switch(d, t, gpu, &bar);
	}
}

/* --- from GPU to GPU --- */

struct wire {
	int link;
	struct draw_box *a, *b;
	double xa, xb;
};

static bool same_row(const struct wire *w)
{
	return w->a->y == w->b->y;
}

/* Where along the edge of @from its end of @w belongs, so that few lines cross: near ones on the left, those to
 * the other row, near ones on the right; far ones further in. */
static double rank_of(const struct wire *w, const struct draw_box *from)
{
	const struct draw_box *to = w->a == from ? w->b : w->a;
	double dx = to->x - from->x;

	if (!same_row(w))
		return 1e6 + to->x;
	return dx < 0 ? -dx : 3e6 - dx;
}

static void set_end(struct wire *w, const struct draw_box *from, double x)
{
	if (w->a == from)
		w->xa = x;
	else
		w->xb = x;
}

static void spread_ends(struct wire *wires, int n, const struct draw_box *gpu)
{
	struct wire *mine[SLOTS_MAX];
	int count = 0;

	for (int i = 0; i < n && count < SLOTS_MAX; i++) {
		int at = count;

		if (wires[i].a != gpu && wires[i].b != gpu)
			continue;
		for (; at > 0 && rank_of(mine[at - 1], gpu) > rank_of(&wires[i], gpu); at--)
			mine[at] = mine[at - 1];
		mine[at] = &wires[i];
		count++;
	}
	for (int i = 0; i < count; i++)
		set_end(mine[i], gpu, gpu->x + gpu->w * (i + 1) / (count + 1));
}

static void curve(struct draw_line *l, const struct wire *w, double band, bool two)
{
	double ya = edge(w->a), yb = edge(w->b), dx = w->xb > w->xa ? w->xb - w->xa : w->xa - w->xb;
	double most = (two ? band * 0.42 : band - 22) / 0.75, bend = 28 + dx * (two ? 0.16 : 0.26);

	if (bend > most)
		bend = most;
	if (!same_row(w))
		bend = band * 0.45;
	l->x[0] = l->x[1] = w->xa;
	l->x[2] = l->x[3] = w->xb;
	l->y[0] = ya;
	l->y[1] = ya + (w->a->flip ? -bend : bend);
	l->y[2] = yb + (w->b->flip ? -bend : bend);
	l->y[3] = yb;
}

/* Point of the curve at @t. */
static double at(const double c[4], double t)
{
	double u = 1 - t;

	return u * u * u * c[0] + 3 * u * u * t * c[1] + 3 * u * t * t * c[2] + t * t * t * c[3];
}

static void draw_wire(struct drawing *d, const struct topo *t, const struct wire *w, int i, int n)
{
	/* Labels of lines that cross in the middle stand at different heights. */
	static const double places[] = { 0.3, 0.5, 0.7, 0.4, 0.6 };
	const struct topo_link *link = &t->links[w->link];
	struct draw_line *l = draw_add_line(d, link->kind, link->bw_gbps);
	double place = same_row(w) ? 0.5 : places[i % 5];

	if (!l)
		return;
	curve(l, w, d->band[1] - d->band[0], d->band[1] - d->band[0] > BAND_ARCS);
	l->count = link->count;
	l->fabric = true;
	/* Beside the line: one that is thick would hide it. */
	l->label_mid = same_row(w);
	l->label_x = at(l->x, place) + (same_row(w) ? 0 : draw_width(l->bw) / 2 + 4);
	l->label_y = at(l->y, place);
	if (!same_row(w)) /* away from where a slanting line goes */
		l->label_y += (w->xb > w->xa) == (edge(w->b) > edge(w->a)) ? -6 : 6;
	else
		l->label_y += (w->a->flip ? -1 : 1) * (draw_width(l->bw) / 2 + 7);
	if (n <= LABELS_MAX)
		snprintf(l->label, sizeof(l->label), "%d\303\227", link->count); /* multiplication sign */
}

static void draw_direct(struct drawing *d, const struct topo *t)
{
	int n = 0, most = count_direct(t);
	struct wire *wires = most ? mem_calloc((size_t)most, sizeof(*wires)) : NULL;

	d->nomem |= most && !wires;
	for (int i = 0; wires && i < t->nlinks; i++) {
		struct wire w = { .link = i };

		if (!is_direct(t, &t->links[i]))
			continue;
		w.a = draw_find(d, DRAW_GPU, t->links[i].a);
		w.b = draw_find(d, DRAW_GPU, t->links[i].b);
		if (w.a && w.b)
			wires[n++] = w;
	}
	for (int i = 0; i < d->nboxes; i++)
		if (d->boxes[i].kind == DRAW_GPU)
			spread_ends(wires, n, &d->boxes[i]);
	for (int i = 0; i < n; i++)
		draw_wire(d, t, &wires[i], i, n);
	mem_free(wires);
}

/* --- from GPU to CPU, besides PCI --- */

static void draw_up(struct drawing *d, const struct topo *t, int link)
{
	const struct topo_link *l = &t->links[link];
	int gpu = t->nodes[l->a].kind == TOPO_GPU ? l->a : l->b, cpu = gpu == l->a ? l->b : l->a;
	const struct draw_box *g = draw_find(d, DRAW_GPU, gpu), *c = draw_find(d, DRAW_CPU, cpu);
	struct draw_line *line;

	if (!g || !c || topo_cpu_of(t, gpu) != cpu)
		return;
	line = draw_add_line(d, l->kind, l->bw_gbps);
	if (!line)
		return;
	draw_straight(line, g->x + 8, g->flip ? c->y : c->y + c->h, g->x + 8, g->flip ? g->y + g->h : g->y);
	line->fabric = true; /* the legend tells its bandwidth: there is no room beside it */
	line->count = l->count;
}

void draw_fabric(struct drawing *d, const struct topo *t)
{
	draw_direct(d, t);
	for (int i = 0; i < t->count[TOPO_NVS]; i++)
		draw_switch(d, t, t->of[TOPO_NVS][i]);
	for (int i = 0; i < t->nlinks; i++) {
		const struct topo_link *l = &t->links[i];
		bool ends = (t->nodes[l->a].kind == TOPO_CPU) != (t->nodes[l->b].kind == TOPO_CPU);

		if (ends && (l->kind == LINK_NVLINK || l->kind == LINK_C2C || l->kind == LINK_XGMI))
			draw_up(d, t, i);
	}
}

/* --- between NUMA nodes --- */

struct bus {
	int n; /* NUMA nodes on it */
	double x1, x2, y, right;
};

static void stub(struct drawing *d, const struct draw_box *c, double y, double bw)
{
	struct draw_line *l = draw_add_line(d, LINK_SMP, bw);

	if (l)
		draw_straight(l, c->x + c->w / 2, c->flip ? c->y + c->h : c->y, c->x + c->w / 2, y);
}

/* The line above (below, where it is upside down) the NUMA nodes of @machine in the row at @row_y. */
static struct bus draw_bus(struct drawing *d, const struct topo *t, int machine, double row_y, double bw)
{
	struct bus b = { 0 };

	for (int i = 0; i + 1 < d->nboxes; i++) {
		const struct draw_box *n = &d->boxes[i], *c = &d->boxes[i + 1];

		if (n->kind != DRAW_NUMA || n->node < 0 || n->y != row_y || t->nodes[n->node].machine != machine)
			continue;
		b.y = n->flip ? n->y + n->h + BUS_AWAY : n->y - BUS_AWAY;
		b.x1 = b.n ? b.x1 : c->x + c->w / 2;
		b.x2 = c->x + c->w / 2;
		b.n++;
		stub(d, c, b.y, bw);
	}
	return b;
}

static void bus_line(struct drawing *d, double x1, double y1, double x2, double y2, double bw)
{
	struct draw_line *l = draw_add_line(d, LINK_SMP, bw);

	if (l)
		draw_straight(l, x1, y1, x2, y2);
}

static void label_bus(struct drawing *d, const struct bus *b, double least, double most)
{
	struct draw_line *l = d->nlines ? &d->lines[d->nlines - 1] : NULL;
	char low[32], high[32];

	if (!l)
		return;
	snprintf(l->label, sizeof(l->label), "between NUMA nodes: %s%s%s GB/s", topo_number(least, low, sizeof(low)),
		 most > least ? " to " : "", most > least ? topo_number(most, high, sizeof(high)) : "");
	l->label_mid = true;
	l->label_x = (b->x1 + b->x2) / 2;
	l->label_y = b->y - 11;
}

static void draw_machine_bus(struct drawing *d, const struct topo *t, int machine, double least, double most)
{
	double y[2] = { 0 }, right = 0;
	struct bus bus[2] = { { 0 } };
	int rows = 0;

	for (int i = 0; i < d->nboxes; i++) {
		const struct draw_box *b = &d->boxes[i];

		if (b->kind != DRAW_NUMA)
			continue;
		right = b->x + b->w > right ? b->x + b->w : right;
		if (!rows || (rows == 1 && b->y != y[0]))
			y[rows++] = b->y;
	}
	for (int i = 0; i < rows; i++)
		bus[i] = draw_bus(d, t, machine, y[i], most);
	right += BUS_AWAY;
	for (int i = 0; i < rows; i++)
		if (bus[i].n > 1 || (bus[i].n && bus[!i].n))
			bus_line(d, bus[i].x1, bus[i].y, bus[!i].n ? right : bus[i].x2, bus[i].y, most);
	if (bus[0].n && bus[1].n)
		bus_line(d, right, bus[0].y, right, bus[1].y, most);
	if (bus[0].n && bus[0].n + bus[1].n > 1) {
		if (bus[1].n)
			bus[0].x2 = right;
		label_bus(d, &bus[0], least, most);
	}
}

void draw_smp(struct drawing *d, const struct topo *t)
{
	double least = 0, most = 0;

	for (int i = 0; i < t->nlinks; i++) {
		double bw = t->links[i].bw_gbps;

		if (t->links[i].kind != LINK_SMP)
			continue;
		least = least <= 0 || bw < least ? bw : least;
		most = bw > most ? bw : most;
	}
	for (int m = 0; most > 0 && m < t->nmachines; m++)
		draw_machine_bus(d, t, m, least, most);
}
