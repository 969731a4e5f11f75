/* SPDX-License-Identifier: Apache-2.0 */
/* A drawing of a system, before it is written: boxes that do not overlap (but for those that
 * stand inside a NUMA node), lines between them, and their texts. Lengths in pixels.
 *
 * NUMA nodes stand in one row, or in two with what joins the GPUs between them; inside, from the
 * CPU towards the GPUs: PCI switches as bars, then GPUs and cards side by side. */
#ifndef TOPO_DRAW_H
#define TOPO_DRAW_H

#include <stdbool.h>

#include "topo_show.h"

enum draw_kind { DRAW_NUMA, DRAW_CPU, DRAW_PCI, DRAW_GPU, DRAW_NIC, DRAW_NVS };

enum { DRAW_LINES = 3, DRAW_TEXT = 256 };

struct draw_box {
	enum draw_kind kind;
	int node; /* -1: stands for several */
	double x, y, w, h;
	char text[DRAW_LINES][DRAW_TEXT]; /* the first is a heading */
	bool flip;			  /* stands in a row that is upside down */
};

/* A curve of degree three; of a straight line the two control points lie on it. */
struct draw_line {
	enum topo_link_kind kind;
	double x[4], y[4];
	double bw;
	int count;   /* as of a topo_link */
	bool fabric; /* between GPUs */
	bool slow;
	char label[DRAW_TEXT];
	double label_x, label_y;
	bool label_mid; /* the text is centred there; else it begins there */
};

struct drawing {
	double w, h;
	int nboxes, nlines;
	struct draw_box *boxes;
	struct draw_line *lines;
	bool nomem;	/* something is missing */
	double band[2]; /* from and to, in y: where the links between GPUs run */
};

/* *@out is the caller's. */
enum taut_status topo_draw(struct drawing **out, const struct topo_view *v);
void topo_draw_free(struct drawing *d); /* NULL is allowed */

/* --- between topo_draw.c, which places the boxes, and topo_draw_links.c, which joins GPUs and NUMA nodes --- */
struct draw_box *draw_add_box(struct drawing *d, enum draw_kind kind, int node);
struct draw_line *draw_add_line(struct drawing *d, enum topo_link_kind kind, double bw);
/* The box of that kind and node; NULL: none. Good until the next box is added. */
struct draw_box *draw_find(const struct drawing *d, enum draw_kind kind, int node);
/* How thick a line is. */
double draw_width(double bw);
void draw_straight(struct draw_line *l, double x1, double y1, double x2, double y2);
/* Height that the links between GPUs need. */
double draw_band(const struct topo *t, bool two_rows);
void draw_fabric(struct drawing *d, const struct topo *t);
/* Between NUMA nodes: lines above (or below) the rows, joined at their right. */
void draw_smp(struct drawing *d, const struct topo *t);

#endif
