/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as a tree: NUMA nodes, PCI switches, GPUs, cards, ports; then the links that are no tree. */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

struct tree {
	FILE *out;
	const struct topo_view *v;
	struct topo_kids kids;
	int *nets, nnets; /* as the matrix numbers them */
};

/* Of a tree that is no machine's. */
enum { DEPTH_MAX = 64 };

/* --- one line --- */

static void print_cpu(const struct tree *r, const struct topo_node *n)
{
	const struct topo_cpu *c = &n->cpu;
	char text[512];

	if (*n->name)
		fprintf(r->out, ": %s", n->name);
	else if (*c->vendor || *c->arch)
		fprintf(r->out, ": %s", *c->vendor ? c->vendor : c->arch);
	if (c->family >= 0 && c->model >= 0)
		fprintf(r->out, " family %d model %d", c->family, c->model);
	if (c->nmask > 0)
		fprintf(r->out, ", cpus %s", topo_mask_list(c->affinity, c->nmask, text, sizeof(text)));
	if (c->memory)
		fprintf(r->out, ", %s", topo_size(c->memory, text, sizeof(text)));
}

static void print_gpu(const struct tree *r, const struct topo_node *n)
{
	const struct topo_gpu *g = &n->gpu;
	char text[80];

	if (*topo_gpu_model(n, text, sizeof(text)))
		fprintf(r->out, " (%s)", text);
	if (g->memory)
		fprintf(r->out, ", %s", topo_size(g->memory, text, sizeof(text)));
	if (g->gdr == 0)
		fprintf(r->out, ", no GPUDirect RDMA");
}

static void print_net(const struct tree *r, int node)
{
	const struct topo_node *n = &r->v->t->nodes[node];
	char text[40];

	for (int i = 0; i < r->nnets; i++)
		if (r->nets[i] == node)
			fprintf(r->out, " (NIC%d)", i);
	if (*n->net.state)
		fprintf(r->out, ", %s", n->net.state);
	fprintf(r->out, ", %s", topo_speed(n->net.speed_mbit, text, sizeof(text)));
	if (*n->net.layer)
		fprintf(r->out, " %s", n->net.layer);
	if (*n->net.rdma)
		fprintf(r->out, ", with %s", n->net.rdma);
	if (n->net.is_virtual)
		fprintf(r->out, ", virtual");
	if (n->net.coll == 1)
		fprintf(r->out, ", reduces in the network");
}

/* Gen and width now, what both ends could do, and the bandwidth. */
static void print_pci(const struct tree *r, int node)
{
	const struct topo *t = r->v->t;
	const struct topo_node *n = &t->nodes[node];
	int link = n->parent >= 0 ? topo_link_of(t, node, n->parent, LINK_PCI) : -1;
	char now[64], best[64], bw[32];

	topo_pci_words(n->pci.gts, n->pci.width, now, sizeof(now));
	topo_pci_words(n->pci.max_gts, n->pci.max_width, best, sizeof(best));
	if (*now)
		fprintf(r->out, ", %s", now);
	if (link >= 0 && !topo_is_nominal(t, link))
		fprintf(r->out, ", %s GB/s", topo_number(t->links[link].bw_gbps, bw, sizeof(bw)));
	if (!topo_is_slow(n))
		return;
	fprintf(r->out, "; SLOWER than %s, which both ends can do", best);
	if (n->kind == TOPO_GPU && n->pci.max_gts > n->pci.gts * 1.05)
		fprintf(r->out, " (a GPU at rest lowers its speed)");
}

static void print_bridge(const struct tree *r, const struct topo_node *n)
{
	if (n->pci.acs == 1)
		fprintf(r->out, ", ACS sends peer traffic up to the CPU");
}

static void print_node(const struct tree *r, int node, int depth)
{
	const struct topo *t = r->v->t;
	const struct topo_node *n = &t->nodes[node];
	char name[128];

	fprintf(r->out, "%*s%s", 2 * depth, "", topo_name(t, node, name, sizeof(name)));
	if (n->kind != TOPO_PCI && *n->pci.busid && !strstr(name, n->pci.busid))
		fprintf(r->out, " %s", n->pci.busid);
	if (n->kind == TOPO_CPU)
		print_cpu(r, n);
	else if (n->kind == TOPO_GPU)
		print_gpu(r, n);
	else if (n->kind == TOPO_NET)
		print_net(r, node);
	if (n->kind == TOPO_PCI || n->kind == TOPO_GPU || n->kind == TOPO_NIC)
		print_pci(r, node);
	if (n->kind == TOPO_PCI)
		print_bridge(r, n);
	fprintf(r->out, "\n");
}

static void print_below(const struct tree *r, int node, int depth)
{
	print_node(r, node, depth);
	if (depth == DEPTH_MAX && r->kids.first[node] >= 0)
		fprintf(r->out, "%*s(more)\n", 2 * depth + 2, "");
	for (int i = depth < DEPTH_MAX ? r->kids.first[node] : -1; i >= 0; i = r->kids.next[i])
		print_below(r, i, depth + 1);
}

static void print_roots(const struct tree *r)
{
	const struct topo *t = r->v->t;
	int last = -1;

	for (int i = 0; i < t->count[TOPO_CPU]; i++) {
		int cpu = t->of[TOPO_CPU][i];

		if (t->nmachines > 1 && t->nodes[cpu].machine != last)
			fprintf(r->out, "machine %d\n", t->nodes[cpu].machine);
		last = t->nodes[cpu].machine;
		print_below(r, cpu, t->nmachines > 1);
	}
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].parent < 0 && t->nodes[i].kind != TOPO_CPU && t->nodes[i].kind != TOPO_NVS)
			print_below(r, i, 0);
}

/* --- links that are no tree --- */

static bool is_fabric(const struct topo_link *l)
{
	return l->kind == LINK_NVLINK || l->kind == LINK_XGMI || l->kind == LINK_C2C;
}

static int other_end(const struct topo_link *l, int node)
{
	return l->a == node ? l->b : l->a;
}

/* Both have the same links, all of them to switches. */
static bool same_links(const struct topo *t, int a, int b)
{
	const struct topo_node *x = &t->nodes[a], *y = &t->nodes[b];
	int nx = 0, ny = 0;

	for (int i = 0; i < x->nlinks; i++)
		nx += is_fabric(&t->links[x->links[i]]);
	for (int i = 0; i < y->nlinks; i++) {
		const struct topo_link *l = &t->links[y->links[i]];
		int peer, at;

		if (!is_fabric(l))
			continue;
		ny++;
		peer = other_end(l, b);
		at = t->nodes[peer].kind == TOPO_NVS ? topo_link_of(t, a, peer, l->kind) : -1;
		if (at < 0 || t->links[at].count != l->count || t->links[at].bw_gbps != l->bw_gbps)
			return false;
	}
	return nx == ny;
}

static void print_links_of(const struct tree *r, int gpu)
{
	const struct topo *t = r->v->t;
	const struct topo_node *n = &t->nodes[gpu];
	const char *sep = "";
	char words[TOPO_WORDS], name[128], bw[32];

	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *l = &t->links[n->links[i]];

		if (!is_fabric(l))
			continue;
		fprintf(r->out, "%s%s to %s (%s GB/s)", sep, topo_link_words(t, n->links[i], words, sizeof(words)),
			topo_name(t, other_end(l, gpu), name, sizeof(name)), topo_number(l->bw_gbps, bw, sizeof(bw)));
		sep = ", ";
	}
	fprintf(r->out, "\n");
}

static bool has_fabric(const struct topo *t, int node)
{
	for (int i = 0; i < t->nodes[node].nlinks; i++)
		if (is_fabric(&t->links[t->nodes[node].links[i]]))
			return true;
	return false;
}

/* GPUs that follow each other and have the same links to a switch share a line. */
static void print_fabric(const struct tree *r)
{
	const struct topo *t = r->v->t;
	const int *gpus = t->of[TOPO_GPU];
	char name[128];

	for (int i = 0, next; i < t->count[TOPO_GPU]; i = next) {
		for (next = i + 1; next < t->count[TOPO_GPU] && same_links(t, gpus[i], gpus[next]); next++)
			;
		if (!has_fabric(t, gpus[i]))
			continue;
		fprintf(r->out, "%s%s", next > i + 1 ? "each of " : "", topo_name(t, gpus[i], name, sizeof(name)));
		if (next > i + 1)
			fprintf(r->out, " to %s", topo_name(t, gpus[next - 1], name, sizeof(name)));
		fprintf(r->out, ": ");
		print_links_of(r, gpus[i]);
	}
}

static void print_smp(const struct tree *r)
{
	const struct topo *t = r->v->t;
	char a[128], b[128], bw[32];

	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_SMP)
			fprintf(r->out, "%s to %s: %s GB/s\n", topo_name(t, t->links[i].a, a, sizeof(a)),
				topo_name(t, t->links[i].b, b, sizeof(b)),
				topo_number(t->links[i].bw_gbps, bw, sizeof(bw)));
}

enum taut_status topo_print_tree(FILE *out, const struct topo_view *v)
{
	struct tree r = { .out = out, .v = v };

	enum taut_status st = TAUT_OK;

	r.nets = mem_calloc((size_t)v->t->count[TOPO_NET] + 1, sizeof(*r.nets));
	if (r.nets && topo_kids_init(&r.kids, v->t)) {
		r.nnets = topo_matrix_ports(v->t, r.nets);
		print_roots(&r);
		print_smp(&r);
		print_fabric(&r);
	} else {
		st = fail(TAUT_ERR_NOMEM, "tree of %d nodes: no memory", v->t->nnodes);
	}
	topo_kids_cleanup(&r.kids);
	mem_free(r.nets);
	return st;
}
