/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a drawing as SVG: text stays text, one font family, colours that a printer can show. */
#include "topo_draw.h"

#include <stdlib.h>
#include <string.h>

static const char style[] =
	"  <style>\n"
	"    text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif; "
	"fill: #1f2933; }\n"
	"    .title { font-size: 21px; font-weight: 600; }\n"
	"    .sub { font-size: 12px; fill: #52606d; }\n"
	"    .head { font-size: 13px; font-weight: 600; text-anchor: middle; }\n"
	"    .body { font-size: 10.5px; fill: #3e4c59; text-anchor: middle; }\n"
	"    .label { font-size: 9.5px; fill: #52606d; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; "
	"stroke-linejoin: round; }\n"
	"    .mid { text-anchor: middle; }\n"
	"    .light { fill: #ffffff; }\n"
	"    .legend { font-size: 11px; fill: #3e4c59; }\n"
	"    .numa { fill: #f7f9fb; stroke: #cbd2d9; }\n"
	"    .cpu { fill: #dceefb; stroke: #4098d7; }\n"
	"    .pci { fill: #e4e7eb; stroke: #7b8794; }\n"
	"    .gpu { fill: #e6f4d7; stroke: #5c8f18; }\n"
	"    .nic { fill: #fdf0d5; stroke: #cb8a14; }\n"
	"    .nvs { fill: #5c8f18; stroke: #3f6212; }\n"
	"    path { fill: none; stroke-linecap: butt; }\n"
	"    .link-pci { stroke: #7b8794; }\n"
	"    .link-nvlink { stroke: #6fa51e; }\n"
	"    .link-xgmi { stroke: #d64545; }\n"
	"    .link-c2c { stroke: #8850b8; }\n"
	"    .link-smp { stroke: #4098d7; stroke-linecap: round; }\n"
	"    .slow { stroke: #e66a00; stroke-dasharray: 5 3; }\n"
	"  </style>\n";

static const char *const box_classes[] = { "numa", "cpu", "pci", "gpu", "nic", "nvs" };
static const char *const link_classes[LINK_KINDS] = { "link-pci", "link-nvlink", "link-xgmi",
						      "link-c2c", "link-smp",	 "link-pci" };
static const char *const link_words[LINK_KINDS] = {
	"PCIe", "NVLink", "XGMI", "chip to chip", "between NUMA nodes", ""
};

/* Bytes of the UTF-8 character at @s; 0: not one, or one that XML does not allow. */
static int character(const unsigned char *s)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
	unsigned code = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : 0;

	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (!n || code < least[n] || code < 0x20 || code == 0x7f || (code >= 0xd800 && code < 0xe000) ||
	    (code & 0xfffe) == 0xfffe || code > 0x10ffff)
		return 0;
	return n;
}

/* At most @max characters, the last of more an ellipsis. */
static void put_text(FILE *out, const char *s, int max)
{
	for (int i = 0; *s; i++) {
		int n = character((const unsigned char *)s);

		if (i == max - 1 && s[n ? n : 1]) {
			fputs("\342\200\246", out);
			return;
		}
		if (*s == '&' || *s == '<' || *s == '>' || *s == '"')
			fprintf(out, "&#%d;", *s);
		else
			fprintf(out, "%.*s", n ? n : 1, n ? s : "?");
		s += n ? n : 1;
	}
}

/* --- boxes --- */

static void put_line(FILE *out, const struct draw_box *b, const char *class, double y, const char *text, double char_w)
{
	fprintf(out, "  <text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, b->x + b->w / 2, y);
	put_text(out, text, (int)((b->w - 8) / char_w));
	fprintf(out, "</text>\n");
}

static void put_box(FILE *out, const struct draw_box *b)
{
	int lines = 0;
	double y;

	fprintf(out, "  <rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>\n",
		box_classes[b->kind], b->x, b->y, b->w, b->h, b->kind == DRAW_NUMA ? 10 : 5);
	for (int i = 0; i < DRAW_LINES; i++)
		lines += *b->text[i] != 0;
	y = b->y + b->h / 2 - (lines - 1) * 7.5 + 4;
	for (int i = 0; i < DRAW_LINES; i++) {
		if (!*b->text[i])
			continue;
		if (b->kind == DRAW_PCI)
			put_line(out, b, "body", y, b->text[i], 6);
		else
			put_line(out, b,
				 i		       ? "body"
				 : b->kind == DRAW_NVS ? "head light"
						       : "head",
				 y, b->text[i], i ? 5.8 : 7.2);
		y += 15;
	}
}

/* --- lines --- */

static void put_curve(FILE *out, const struct draw_line *l)
{
	fprintf(out, "  <path class=\"%s%s\" stroke-width=\"%.2f\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n",
		link_classes[l->kind], l->slow ? " slow" : "", draw_width(l->bw), l->x[0], l->y[0], l->x[1], l->y[1],
		l->x[2], l->y[2], l->x[3], l->y[3]);
}

static void put_label(FILE *out, const struct draw_line *l)
{
	const char *second = strchr(l->label, '\n');
	char first[DRAW_TEXT];

	if (!*l->label)
		return;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(l->label, "\n"), l->label);
	fprintf(out, "  <text class=\"label%s\" x=\"%.1f\" y=\"%.1f\">", l->label_mid ? " mid" : "", l->label_x,
		l->label_y + (second ? -2 : 3.5));
	put_text(out, first, DRAW_TEXT);
	fprintf(out, "</text>\n");
	if (!second)
		return;
	fprintf(out, "  <text class=\"label\" x=\"%.1f\" y=\"%.1f\">", l->label_x, l->label_y + 10);
	put_text(out, second + 1, DRAW_TEXT);
	fprintf(out, "</text>\n");
}

/* --- around it --- */

/* The headline without its source, which is the line below it; smaller where it would not fit. */
static void put_title(FILE *out, const struct topo_view *v, double w)
{
	char *text = NULL;
	size_t len = 0, skip = strlen(v->t->source) + 2;
	FILE *f = open_memstream(&text, &len);
	double size = 21;

	if (f)
		topo_print_headline(f, v);
	if (!f || fclose(f) || !text)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (size * 0.62 * (double)(len - skip) > w - 64)
		size = (w - 64) / 0.62 / (double)(len - skip);
	fprintf(out, "  <text class=\"title\" style=\"font-size: %.1fpx\" x=\"32\" y=\"50\">", size);
	put_text(out, text + skip, 256);
	fprintf(out, "</text>\n  <text class=\"sub\" x=\"32\" y=\"72\">");
	put_text(out, v->t->source, 64);
	fprintf(out, " \302\267 bandwidths of one direction</text>\n");
	free(text);
}

struct legend {
	FILE *out;
	double x, y;
};

static void legend_entry(struct legend *g, const char *class, double width, const char *text)
{
	fprintf(g->out, "  <path class=\"%s\" stroke-width=\"%.2f\" d=\"M%.1f %.1fh28\"/>\n", class, width, g->x, g->y);
	fprintf(g->out, "  <text class=\"legend\" x=\"%.1f\" y=\"%.1f\">", g->x + 35, g->y + 4);
	put_text(g->out, text, DRAW_TEXT);
	fprintf(g->out, "</text>\n");
	g->x += 35 + 22 + 6.3 * (double)strlen(text);
}

/* A line of each kind, of links between GPUs one of each number and bandwidth. */
static bool seen(const struct drawing *d, int line)
{
	const struct draw_line *l = &d->lines[line];

	for (int i = 0; i < line; i++) {
		const struct draw_line *k = &d->lines[i];

		if (k->kind == l->kind && k->slow == l->slow && k->fabric == l->fabric &&
		    (!l->fabric || (k->count == l->count && k->bw == l->bw)))
			return true;
	}
	return false;
}

static void kind_entry(struct legend *g, const struct draw_line *l)
{
	char text[DRAW_TEXT], class[40], bw[32];

	if (l->fabric)
		snprintf(text, sizeof(text), "%s %d\303\227, %s GB/s", link_words[l->kind], l->count,
			 topo_number(l->bw, bw, sizeof(bw)));
	else
		snprintf(text, sizeof(text), "%s%s", link_words[l->kind],
			 l->slow ? ", slower than both ends can do" : "");
	snprintf(class, sizeof(class), "%s%s", link_classes[l->kind], l->slow ? " slow" : "");
	legend_entry(g, class, l->fabric ? draw_width(l->bw) : 3, text);
}

/* What the colours mean, and the widths up to the first above all that are drawn. */
static void put_legend(FILE *out, const struct drawing *d)
{
	static const double widths[] = { 12, 50, 200, 450 };
	struct legend g = { out, 32, d->h - 46 };
	double most = 0;
	char text[40];

	for (int i = 0, entries = 0; i < d->nlines && entries < 7; i++) {
		most = d->lines[i].bw > most ? d->lines[i].bw : most;
		if (d->lines[i].bw <= 0 || seen(d, i))
			continue;
		entries++;
		kind_entry(&g, &d->lines[i]);
	}
	g = (struct legend){ out, 32, d->h - 24 };
	for (int i = 0; i < 4 && most > (i ? widths[i - 1] : 0); i++) {
		snprintf(text, sizeof(text), "%g GB/s%s", widths[i], i == 3 ? " and more" : "");
		legend_entry(&g, "link-pci", draw_width(widths[i]), text);
	}
}

enum taut_status topo_print_svg(FILE *out, const struct topo_view *v)
{
	struct drawing *d;
	enum taut_status st = topo_draw(&d, v);

	if (st)
		return st;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
		"%s  <rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
		d->w, d->h, d->w, d->h, style, d->w, d->h);
	put_title(out, v, d->w);
	for (int i = 0; i < d->nboxes; i++)
		if (d->boxes[i].kind == DRAW_NUMA)
			put_box(out, &d->boxes[i]);
	for (int i = 0; i < d->nlines; i++)
		put_curve(out, &d->lines[i]);
	for (int i = 0; i < d->nboxes; i++)
		if (d->boxes[i].kind != DRAW_NUMA)
			put_box(out, &d->boxes[i]);
	for (int i = 0; i < d->nlines; i++)
		put_label(out, &d->lines[i]);
	put_legend(out, d);
	fprintf(out, "</svg>\n");
	topo_draw_free(d);
	return TAUT_OK;
}
