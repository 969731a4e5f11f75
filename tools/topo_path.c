/* SPDX-License-Identifier: Apache-2.0 */
/* The way between two nodes, and which wire works for them. */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

static const char *const class_words[PATH_CLASSES] = {
	[PATH_LOC] = "the same",
	[PATH_NVL] = "NVLink or XGMI",
	[PATH_NVB] = "NVLink by way of one GPU",
	[PATH_C2C] = "chip to chip",
	[PATH_PIX] = "at most one PCI bridge",
	[PATH_PXB] = "several PCI bridges, not through the host bridge",
	[PATH_P2C] = "PCI, then chip to chip",
	[PATH_PXN] = "NVLink to a GPU that is near the card",
	[PATH_PHB] = "through the host bridge of one NUMA node",
	[PATH_SYS] = "between NUMA nodes",
	[PATH_NET] = "the network",
	[PATH_DIS] = "not connected",
};

static void print_summary(FILE *out, const struct topo_view *v, int a, int b)
{
	const struct path *p = paths_get(v->p, a, b);
	char from[128], to[128], cell[16], number[32];

	fprintf(out, "%s to %s: %s (%s)", topo_name(v->t, a, from, sizeof(from)), topo_name(v->t, b, to, sizeof(to)),
		path_class_names[p->class], class_words[p->class]);
	if (p->class == PATH_DIS || p->class == PATH_LOC) {
		fprintf(out, "\n");
		return;
	}
	path_smi_text(p, cell, sizeof(cell));
	fprintf(out, "; in the words of nvidia-smi %s; %d link%s, %s GB/s\n", cell, p->hops, p->hops == 1 ? "" : "s",
		topo_number(p->bw_gbps, number, sizeof(number)));
	if (p->via >= 0)
		fprintf(out, "by way of %s\n", topo_name(v->t, p->via, from, sizeof(from)));
}

/* The line of a link, and the node at its other end; returns that node. */
static int print_hop(FILE *out, const struct topo_view *v, const struct path *p, int at, int link)
{
	const struct topo_link *l = &v->t->links[link];
	int next = l->a == at ? l->b : l->a;
	int below = v->t->nodes[l->a].parent == l->b ? l->a : l->b;
	char words[TOPO_WORDS], number[32], name[128];

	fprintf(out, "    | %s, %s GB/s%s%s\n", topo_link_words(v->t, link, words, sizeof(words)),
		topo_number(l->bw_gbps, number, sizeof(number)),
		l->kind == LINK_PCI && topo_is_slow(&v->t->nodes[below]) ? ", slower than both ends can do" : "",
		link == p->bottleneck && p->hops > 1 ? "   <- the narrowest" : "");
	fprintf(out, "  %s\n", topo_name(v->t, next, name, sizeof(name)));
	return next;
}

enum taut_status topo_print_path(FILE *out, const struct topo_view *v, int a, int b)
{
	const struct path *p = paths_get(v->p, a, b);
	int n = p->hops > 0 ? p->hops : 0, at = a;
	int *links = mem_calloc((size_t)n + 1, sizeof(*links));
	char name[128];

	if (!links)
		return fail(TAUT_ERR_NOMEM, "path of %d links: no memory", n);
	print_summary(out, v, a, b);
	n = paths_links(v->p, a, b, links, n);
	if (n)
		fprintf(out, "  %s\n", topo_name(v->t, a, name, sizeof(name)));
	for (int i = 0; i < n; i++)
		at = print_hop(out, v, p, at, links[i]);
	mem_free(links);
	return TAUT_OK;
}

void topo_print_why(FILE *out, const struct topo_view *v, int a, int b)
{
	struct reach reach[REACH_WIRES];
	int asked = 0;

	print_summary(out, v, a, b);
	reach_ask(reach, v->t, v->p, v->rules, a, b);
	for (int i = 0; i < REACH_WIRES; i++) {
		if (!reach[i].asked)
			continue;
		asked++;
		fprintf(out, "  %-5s %s%s%s\n", reach_wire_names[i], reach[i].usable ? "yes" : "no",
			*reach[i].why ? ": " : "", reach[i].why);
	}
	if (!asked)
		fprintf(out, "  no wire goes between these two: ask for two GPUs, a GPU and a port, or two ports\n");
}
