/* SPDX-License-Identifier: Apache-2.0 */
/* Where the boxes stand. First each NUMA node for itself, from its CPU downwards; then all of them. */
#include "topo_draw.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"

/* Pixels. */
enum {
	GPU_W = 96,
	NIC_W = 88,
	LEAF_H = 62,
	BAR_H = 24,
	STEP = 48, /* between levels: two lines of text */
	GAP = 12,
	PAD = 16,
	CPU_H = 44,
	CPU_MIN_W = 196,
	NUMA_GAP = 28,
	MARGIN = 32,
	HEAD_H = 84,
	FOOT_H = 66,
	SMP_H = 40,
	SMP_SIDE = 44,
	ROW_GAP = 40,
	ROW_MAX_W = 1150, /* wider is broken into two rows */
	MIN_W = 720
};

/* What is too much for a drawing. */
enum { LEVELS_MAX = 12, NICS_MAX = 12 };

/* Something that stands below a CPU. */
struct item {
	enum draw_kind kind;
	int node;    /* -1: several cards */
	int several; /* how many */
	int above;   /* item; -1: the CPU */
	int level;
	double x, w; /* x from the left of what stands below the CPU */
	double bw;   /* of the link up, where switches with one thing below are passed over */
	bool slow;
	char how[32];
};

struct numa {
	int cpu; /* node; -1: of things whose place is not known */
	int first, last;
	int levels; /* of bars */
	double w;   /* with padding */
	double x, y, h;
	bool flip;
};

struct plan {
	const struct topo *t;
	struct topo_kids kids;
	int *below;		   /* GPUs and cards in the tree below a node, itself counted */
	int nitems, nnumas, split; /* NUMA nodes of the first row */
	struct item *items;
	struct numa *numas;
	double row_w[2], row_h[2];
};

/* --- what is drawn --- */

static bool is_leaf(const struct topo *t, int node)
{
	return t->nodes[node].kind == TOPO_GPU || t->nodes[node].kind == TOPO_NIC;
}

static void count_below(struct plan *p)
{
	for (int i = p->t->nnodes - 1; i >= 0; i--) {
		int parent = p->t->nodes[i].parent;

		p->below[i] += is_leaf(p->t, i);
		if (parent >= 0 && parent < i)
			p->below[parent] += p->below[i];
	}
}

static int only_kid(const struct plan *p, int node)
{
	int only = -1;

	for (int i = p->kids.first[node]; i >= 0; i = p->kids.next[i]) {
		if (!p->below[i])
			continue;
		if (only >= 0)
			return -1;
		only = i;
	}
	return only;
}

static void pass_link(const struct plan *p, int node, struct item *it)
{
	const struct topo_node *n = &p->t->nodes[node];
	int link = n->parent >= 0 ? topo_link_of(p->t, node, n->parent, LINK_PCI) : -1;
	double bw = link >= 0 && !topo_is_nominal(p->t, link) ? p->t->links[link].bw_gbps : 0;

	it->slow |= topo_is_slow(n);
	if (bw <= 0 || (it->bw > 0 && bw >= it->bw))
		return;
	it->bw = bw;
	topo_pci_words(n->pci.gts, n->pci.width, it->how, sizeof(it->how));
}

/* From @node down to the first that is a GPU, a card, or a switch with several things below. */
static struct item branch(const struct plan *p, int node)
{
	struct item it = { .node = node };

	pass_link(p, node, &it);
	while (p->t->nodes[it.node].kind == TOPO_PCI && only_kid(p, it.node) >= 0) {
		it.node = only_kid(p, it.node);
		pass_link(p, it.node, &it);
	}
	it.kind = p->t->nodes[it.node].kind == TOPO_GPU	  ? DRAW_GPU
		  : p->t->nodes[it.node].kind == TOPO_NIC ? DRAW_NIC
							  : DRAW_PCI;
	return it;
}

/* --- one NUMA node --- */

static double place_below(struct plan *p, int node, int above, int level, double x);

static double place_item(struct plan *p, struct item it, int above, int level, double x)
{
	int at = p->nitems++;

	it.above = above;
	it.level = level;
	it.x = x;
	it.w = it.kind == DRAW_GPU ? GPU_W : NIC_W;
	p->items[at] = it;
	if (it.kind == DRAW_PCI)
		p->items[at].w = place_below(p, it.node, at, level + 1, x);
	return p->items[at].w;
}

/* Cards beyond NICS_MAX share a box. */
static double place_cards(struct plan *p, int node, int above, int level, double x)
{
	struct item rest = { .kind = DRAW_NIC, .node = -1 };
	double from = x;
	int n = 0;

	for (int i = p->kids.first[node]; i >= 0; i = p->kids.next[i]) {
		struct item it = { 0 };

		if (p->below[i])
			it = branch(p, i);
		if (!p->below[i] || it.kind != DRAW_NIC)
			continue;
		if (++n > NICS_MAX)
			rest.several++;
		else
			x += place_item(p, it, above, level, x) + GAP;
	}
	if (rest.several)
		x += place_item(p, rest, above, level, x) + GAP;
	return x - from;
}

/* Switches and GPUs first, then cards. Returns the width. */
static double place_below(struct plan *p, int node, int above, int level, double x)
{
	double from = x;

	for (int i = level < LEVELS_MAX ? p->kids.first[node] : -1; i >= 0; i = p->kids.next[i]) {
		struct item it = { 0 };

		if (p->below[i])
			it = branch(p, i);
		if (p->below[i] && it.kind != DRAW_NIC)
			x += place_item(p, it, above, level, x) + GAP;
	}
	x += place_cards(p, node, above, level, x);
	return x > from ? x - from - GAP : NIC_W;
}

static void place_numa(struct plan *p, int cpu)
{
	struct numa *n = &p->numas[p->nnumas++];
	double w = 0;

	n->cpu = cpu;
	n->first = p->nitems;
	if (cpu >= 0)
		w = p->below[cpu] ? place_below(p, cpu, -1, 0, 0) : 0;
	for (int i = 0; cpu < 0 && i < p->t->nnodes; i++)
		if (p->t->nodes[i].parent < 0 && p->t->nodes[i].kind != TOPO_CPU && p->below[i])
			w += place_item(p, branch(p, i), -1, 0, w) + GAP;
	n->last = p->nitems;
	if (w < CPU_MIN_W)
		for (int i = n->first; i < n->last; i++)
			p->items[i].x += (CPU_MIN_W - w) / 2;
	n->w = (w < CPU_MIN_W ? CPU_MIN_W : w) + 2 * PAD;
	for (int i = n->first; i < n->last; i++)
		if (p->items[i].kind == DRAW_PCI && p->items[i].level >= n->levels)
			n->levels = p->items[i].level + 1;
}

static void place_numas(struct plan *p)
{
	bool lost = false;

	for (int i = 0; i < p->t->count[TOPO_CPU]; i++) {
		int cpu = p->t->of[TOPO_CPU][i];

		/* One without number stands for what is near to none. */
		if (p->below[cpu] || p->t->nodes[cpu].cpu.numa >= 0 || p->t->count[TOPO_CPU] == 1)
			place_numa(p, cpu);
	}
	for (int i = 0; i < p->t->nnodes; i++)
		lost |= p->t->nodes[i].parent < 0 && p->t->nodes[i].kind != TOPO_CPU && p->below[i];
	if (lost)
		place_numa(p, -1);
}

/* --- rows --- */

static double width_of(const struct plan *p, int from, int to)
{
	double w = 0;

	for (int i = from; i < to; i++)
		w += p->numas[i].w + (i > from ? NUMA_GAP : 0);
	return w;
}

static double height_of(const struct plan *p, int from, int to)
{
	int levels = 0, leaves = 0;

	for (int i = from; i < to; i++) {
		levels = p->numas[i].levels > levels ? p->numas[i].levels : levels;
		leaves += p->numas[i].last - p->numas[i].first;
	}
	return 2 * PAD + CPU_H + (leaves ? STEP + levels * (BAR_H + STEP) + LEAF_H : 0);
}

/* Where the first row ends: all of them if they fit, else so that both rows are of like width. */
static void break_rows(struct plan *p)
{
	double best = width_of(p, 0, p->nnumas);

	p->split = p->nnumas;
	for (int i = 1; best > ROW_MAX_W && i < p->nnumas; i++) {
		double a = width_of(p, 0, i), b = width_of(p, i, p->nnumas);

		if ((a > b ? a : b) < best || p->split == p->nnumas) {
			best = a > b ? a : b;
			p->split = i;
		} else {
			break;
		}
	}
	p->row_w[0] = width_of(p, 0, p->split);
	p->row_w[1] = width_of(p, p->split, p->nnumas);
	p->row_h[0] = height_of(p, 0, p->split);
	p->row_h[1] = p->split < p->nnumas ? height_of(p, p->split, p->nnumas) : 0;
}

static void place_row(struct plan *p, int row, double x, double y, bool flip)
{
	int from = row ? p->split : 0, to = row ? p->nnumas : p->split;

	for (int i = from; i < to; i++) {
		p->numas[i].x = x;
		p->numas[i].y = y;
		p->numas[i].h = p->row_h[row];
		p->numas[i].flip = flip;
		x += p->numas[i].w + NUMA_GAP;
	}
}

static void place_rows(struct plan *p, struct drawing *d)
{
	bool two = p->split < p->nnumas, smp = p->t->nmachines < p->t->count[TOPO_CPU];
	double band = draw_band(p->t, two), wide = p->row_w[0] > p->row_w[1] ? p->row_w[0] : p->row_w[1];
	double y = MARGIN + HEAD_H + (smp ? SMP_H : 0);

	d->w = wide + 2 * MARGIN + (two && smp ? SMP_SIDE : 0);
	d->w = d->w < MIN_W ? MIN_W : d->w;
	place_row(p, 0, (d->w - (two && smp ? SMP_SIDE : 0) - p->row_w[0]) / 2, y, false);
	y += p->row_h[0];
	d->band[0] = y;
	y += band > 0 ? band : two ? ROW_GAP + (smp ? SMP_H : 0) : 0;
	d->band[1] = y;
	if (two)
		place_row(p, 1, (d->w - (smp ? SMP_SIDE : 0) - p->row_w[1]) / 2, y, band > 0);
}

/* --- boxes --- */

static void text(struct draw_box *b, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void text(struct draw_box *b, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(b->text[line], sizeof(b->text[line]), fmt, ap);
	va_end(ap);
}

static const char *short_busid(const char *busid)
{
	return strncmp(busid, "0000:", 5) ? busid : busid + 5;
}

static void write_cpu(const struct topo *t, int cpu, struct draw_box *b)
{
	const struct topo_node *n = cpu >= 0 ? &t->nodes[cpu] : NULL;
	char list[512], number[16] = "";

	if (!n) {
		text(b, 0, "place not known");
		return;
	}
	if (n->cpu.numa >= 0)
		snprintf(number, sizeof(number), " %d", n->cpu.numa);
	if (t->nmachines > 1)
		text(b, 0, "Machine %d, NUMA%s", n->machine, number);
	else
		text(b, 0, *number ? "NUMA%s" : "CPU%s", number);
	if (n->cpu.nmask > 0)
		text(b, 1, "cpus %s", topo_mask_list(n->cpu.affinity, n->cpu.nmask, list, sizeof(list)));
	else
		text(b, 1, "%s", *n->name ? n->name : *n->cpu.vendor ? n->cpu.vendor : n->cpu.arch);
}

/* Without the name of its maker, for which there is no room. */
static const char *short_model(const char *name)
{
	static const char *const makers[] = { "NVIDIA ", "AMD Instinct ", "AMD " };

	for (int i = 0; i < 3; i++)
		if (!strncmp(name, makers[i], strlen(makers[i])))
			return name + strlen(makers[i]);
	return name;
}

static void write_gpu(const struct topo *t, int node, struct draw_box *b)
{
	const struct topo_node *n = &t->nodes[node];
	char model[80];

	text(b, 0, "GPU %d", n->gpu.dev);
	text(b, 1, "%s", short_model(topo_gpu_model(n, model, sizeof(model))));
	text(b, 2, "%s", short_busid(n->pci.busid));
}

struct ports {
	int n, first, second;
	long mbit; /* 0: they differ, or it is not known */
};

static struct ports ports_of(const struct plan *p, int card)
{
	struct ports s = { .first = -1, .second = -1 };

	for (int i = p->kids.first[card]; i >= 0; i = p->kids.next[i]) {
		long mbit = p->t->nodes[i].net.speed_mbit;

		if (topo_is_twin(&p->t->nodes[i]))
			continue;
		s.mbit = s.n && mbit != s.mbit ? 0 : mbit;
		s.first = s.n ? s.first : i;
		s.second = s.n == 1 ? i : s.second;
		s.n++;
	}
	return s;
}

static void write_ports(const struct topo *t, const struct ports *s, const char *busid, struct draw_box *b)
{
	text(b, 0, "%s", *t->nodes[s->first].name ? t->nodes[s->first].name : "port");
	if (s->n == 1) {
		if (s->mbit > 0)
			text(b, 1, "%g Gb/s", (double)s->mbit / 1000);
		text(b, 2, "%s", short_busid(busid));
		return;
	}
	if (s->n == 2)
		text(b, 1, "%s", t->nodes[s->second].name);
	else
		text(b, 1, "and %d more", s->n - 1);
	if (s->mbit > 0)
		text(b, 2, "%d\303\227%g Gb/s", s->n, (double)s->mbit / 1000);
	else
		text(b, 2, "%d ports", s->n);
}

static void write_nic(const struct plan *p, const struct item *it, struct draw_box *b)
{
	struct ports ports;

	if (it->node < 0) {
		text(b, 0, "%d more", it->several);
		text(b, 1, "cards");
		return;
	}
	ports = ports_of(p, it->node);
	if (ports.n) {
		write_ports(p->t, &ports, p->t->nodes[it->node].pci.busid, b);
		return;
	}
	text(b, 0, "card");
	text(b, 2, "%s", short_busid(p->t->nodes[it->node].pci.busid));
}

static void write_item(const struct plan *p, const struct item *it, struct draw_box *b)
{
	const struct topo_node *n = it->node >= 0 ? &p->t->nodes[it->node] : NULL;

	if (it->kind == DRAW_GPU)
		write_gpu(p->t, it->node, b);
	else if (it->kind == DRAW_NIC)
		write_nic(p, it, b);
	else
		text(b, 0, "PCIe switch %s", short_busid(n->pci.busid));
}

/* In a row that is upside down what is near the CPU is near the bottom. */
static double level_y(const struct numa *n, double y, double h)
{
	return n->flip ? n->y + n->h - y - h : n->y + y;
}

static double item_y(const struct numa *n, const struct item *it)
{
	if (it->kind == DRAW_PCI)
		return PAD + CPU_H + STEP + it->level * (BAR_H + STEP);
	return n->h - PAD - LEAF_H;
}

static void add_item(struct plan *p, struct drawing *d, const struct numa *n, const struct item *it)
{
	double h = it->kind == DRAW_PCI ? BAR_H : LEAF_H, y = item_y(n, it), x = n->x + PAD + it->x, top;
	const struct item *up = it->above >= 0 ? &p->items[it->above] : NULL;
	struct draw_box *b = draw_add_box(d, it->kind, it->node);
	struct draw_line *l = draw_add_line(d, LINK_PCI, it->bw);
	char bw[32];

	if (!b || !l)
		return;
	b->x = x;
	b->y = level_y(n, y, h);
	b->w = it->w;
	b->h = h;
	b->flip = n->flip;
	write_item(p, it, b);
	top = up ? item_y(n, up) + BAR_H : PAD + CPU_H;
	draw_straight(l, x + it->w / 2, level_y(n, top, 0), x + it->w / 2, level_y(n, y, 0));
	l->slow = it->slow;
	l->label_x = x + it->w / 2 + 6;
	l->label_y = level_y(n, y - STEP / 2.0, 0);
	if (it->bw > 0)
		snprintf(l->label, sizeof(l->label), "%s%s%s GB/s", it->how, *it->how ? "\n" : "",
			 topo_number(it->bw, bw, sizeof(bw)));
}

static void add_numa(struct plan *p, struct drawing *d, const struct numa *n)
{
	struct draw_box *b = draw_add_box(d, DRAW_NUMA, n->cpu);

	if (!b)
		return;
	b->x = n->x;
	b->y = n->y;
	b->w = n->w;
	b->h = n->h;
	b->flip = n->flip;
	b = draw_add_box(d, DRAW_CPU, n->cpu);
	if (!b)
		return;
	b->x = n->x + PAD;
	b->y = level_y(n, PAD, CPU_H);
	b->w = n->w - 2 * PAD;
	b->h = CPU_H;
	b->flip = n->flip;
	write_cpu(p->t, n->cpu, b);
	for (int i = n->first; i < n->last; i++)
		add_item(p, d, n, &p->items[i]);
}

/* --- all of it --- */

struct draw_box *draw_add_box(struct drawing *d, enum draw_kind kind, int node)
{
	struct draw_box *boxes = mem_realloc(d->boxes, (size_t)d->nboxes + 1, sizeof(*boxes));

	if (!boxes) {
		d->nomem = true;
		return NULL;
	}
	d->boxes = boxes;
	boxes[d->nboxes] = (struct draw_box){ .kind = kind, .node = node };
	return &boxes[d->nboxes++];
}

struct draw_line *draw_add_line(struct drawing *d, enum topo_link_kind kind, double bw)
{
	struct draw_line *lines = mem_realloc(d->lines, (size_t)d->nlines + 1, sizeof(*lines));

	if (!lines) {
		d->nomem = true;
		return NULL;
	}
	d->lines = lines;
	lines[d->nlines] = (struct draw_line){ .kind = kind, .bw = bw };
	return &lines[d->nlines++];
}

struct draw_box *draw_find(const struct drawing *d, enum draw_kind kind, int node)
{
	for (int i = 0; i < d->nboxes; i++)
		if (d->boxes[i].kind == kind && d->boxes[i].node == node)
			return &d->boxes[i];
	return NULL;
}

/* The root makes both an NVLink domain and a slow port visible. */
double draw_width(double bw)
{
	double w = 0.5 * sqrt(bw);

	return w < 1.2 ? 1.2 : w > 11 ? 11 : w;
}

void draw_straight(struct draw_line *l, double x1, double y1, double x2, double y2)
{
	for (int i = 0; i < 4; i++) {
		l->x[i] = x1 + (x2 - x1) * i / 3;
		l->y[i] = y1 + (y2 - y1) * i / 3;
	}
}

static bool plan_init(struct plan *p, const struct topo *t)
{
	size_t n = (size_t)t->nnodes + 1;

	p->t = t;
	p->below = mem_calloc(n, sizeof(*p->below));
	p->items = mem_calloc(2 * n, sizeof(*p->items));
	p->numas = mem_calloc(n, sizeof(*p->numas));
	return topo_kids_init(&p->kids, t) && p->below && p->items && p->numas;
}

static void plan_cleanup(struct plan *p)
{
	topo_kids_cleanup(&p->kids);
	mem_free(p->numas);
	mem_free(p->items);
	mem_free(p->below);
}

/* The height that is needed: links between GPUs may end above what was kept for them. */
static void fit_height(struct drawing *d)
{
	double low = 0;

	for (int i = 0; i < d->nboxes; i++)
		low = fmax(low, d->boxes[i].y + d->boxes[i].h);
	for (int i = 0; i < d->nlines; i++) {
		const double *y = d->lines[i].y;

		/* The middle of the curve: all curves here are mirror images of themselves. */
		low = fmax(low, (y[0] + 3 * y[1] + 3 * y[2] + y[3]) / 8 + 12);
	}
	d->h = low + FOOT_H + MARGIN;
}

enum taut_status topo_draw(struct drawing **out, const struct topo_view *v)
{
	struct plan p = { 0 };
	struct drawing *d = mem_calloc(1, sizeof(*d));
	bool whole = d && plan_init(&p, v->t);

	if (whole) {
		count_below(&p);
		place_numas(&p);
		break_rows(&p);
		place_rows(&p, d);
		for (int i = 0; i < p.nnumas; i++)
			add_numa(&p, d, &p.numas[i]);
		draw_fabric(d, v->t);
		draw_smp(d, v->t);
		fit_height(d);
		whole = !d->nomem;
	}
	plan_cleanup(&p);
	if (!whole) {
		topo_draw_free(d);
		return fail(TAUT_ERR_NOMEM, "drawing of %d nodes: no memory", v->t->nnodes);
	}
	*out = d;
	return TAUT_OK;
}

void topo_draw_free(struct drawing *d)
{
	if (!d)
		return;
	mem_free(d->lines);
	mem_free(d->boxes);
	mem_free(d);
}
