/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

const char *topo_number(double v, char *buf, size_t len)
{
	snprintf(buf, len, v >= 1000 ? "%.0f" : v < 1 ? "%.2g" : "%.4g", v);
	return buf;
}

const char *topo_size(uint64_t bytes, char *buf, size_t len)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	int unit = 0;

	for (; v >= 1024 && unit < 4; unit++)
		v /= 1024;
	snprintf(buf, len, v < 10 && v != (double)(int)v ? "%.1f %s" : "%.0f %s", v, units[unit]);
	return buf;
}

const char *topo_speed(long mbit, char *buf, size_t len)
{
	if (mbit >= 1000)
		snprintf(buf, len, "%g Gbit/s", (double)mbit / 1000);
	else if (mbit > 0)
		snprintf(buf, len, "%ld Mbit/s", mbit);
	else
		snprintf(buf, len, "speed not known");
	return buf;
}

static int place_of(const struct topo *t, int node)
{
	int place = 0;

	for (int i = 0; i < t->count[t->nodes[node].kind]; i++) {
		int other = t->of[t->nodes[node].kind][i];

		if (other == node)
			break;
		place += t->nodes[other].machine == t->nodes[node].machine;
	}
	return place;
}

static void id_on_machine(const struct topo *t, int node, char *buf, size_t len)
{
	const struct topo_node *n = &t->nodes[node];

	if (n->kind == TOPO_GPU)
		snprintf(buf, len, "gpu%d", n->gpu.dev);
	else if (n->kind == TOPO_CPU)
		snprintf(buf, len, "numa%d", n->cpu.numa >= 0 ? n->cpu.numa : place_of(t, node));
	else if (n->kind == TOPO_NVS)
		snprintf(buf, len, "nvs%d", place_of(t, node));
	else if (n->kind == TOPO_NET && *n->name)
		snprintf(buf, len, "%s", n->name);
	else if (n->kind == TOPO_NET)
		snprintf(buf, len, "net%d", n->net.dev);
	else if (*n->pci.busid)
		snprintf(buf, len, "%s", n->pci.busid);
	else
		snprintf(buf, len, "node%d", node);
}

const char *topo_id(const struct topo *t, int node, char *buf, size_t len)
{
	int machine = t->nodes[node].machine, at = 0;

	if (t->nmachines > 1 && machine > 0 && t->nodes[node].kind != TOPO_NVS)
		at = snprintf(buf, len, "%d/", machine);
	if ((size_t)at < len)
		id_on_machine(t, node, buf + at, len - (size_t)at);
	return buf;
}

/* The generation of PCI Express with that many GT/s a lane; 0: none. */
static int generation(double gts)
{
	static const double rates[] = { 2.5, 5, 8, 16, 32, 64, 128 };

	for (int i = 0; i < 7; i++)
		if (gts > rates[i] * 0.95 && gts < rates[i] * 1.05)
			return i + 1;
	return 0;
}

const char *topo_pci_words(double gts, int width, char *buf, size_t len)
{
	char speed[32] = "", lanes[16] = "";

	if (generation(gts))
		snprintf(speed, sizeof(speed), "gen%d", generation(gts));
	else if (gts > 0)
		snprintf(speed, sizeof(speed), "%g GT/s", gts);
	if (width > 0)
		snprintf(lanes, sizeof(lanes), "x%d", width);
	snprintf(buf, len, "%s%s%s", speed, *speed && *lanes ? " " : "", lanes);
	return buf;
}

bool topo_is_slow(const struct topo_node *n)
{
	const struct topo_pci *p = &n->pci;

	return (p->gts > 0 && p->max_gts > p->gts * 1.05) || (p->width > 0 && p->max_width > p->width);
}

int topo_link_of(const struct topo *t, int a, int b, enum topo_link_kind kind)
{
	const struct topo_node *n = &t->nodes[a];

	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *l = &t->links[n->links[i]];

		if (l->kind == kind && (l->a == b || l->b == b))
			return n->links[i];
	}
	return -1;
}

/* What AMD's tools write in place of a compute capability is the number of compute units. */
const char *topo_gpu_model(const struct topo_node *gpu, char *buf, size_t len)
{
	const struct topo_gpu *g = &gpu->gpu;

	*buf = '\0';
	if (*gpu->name)
		snprintf(buf, len, "%s", gpu->name);
	else if (*g->gcn)
		snprintf(buf, len, "%s%s", strncmp(g->gcn, "gfx", 3) ? "gfx" : "", g->gcn);
	else if (g->sm > 0 && gpu->pci.vendor != 0x1002)
		snprintf(buf, len, "sm %d.%d", g->sm / 10, g->sm % 10);
	return buf;
}

bool topo_is_nominal(const struct topo *t, int link)
{
	const struct topo_link *l = &t->links[link];

	return l->kind == LINK_PCI && l->bw_gbps >= 1000;
}

static const char *pci_link_words(const struct topo *t, const struct topo_link *l, char *buf, size_t len)
{
	int below = t->nodes[l->a].parent == l->b ? l->a : l->b;
	const struct topo_pci *p = &t->nodes[below].pci;
	char how[64];

	topo_pci_words(p->gts, p->width, how, sizeof(how));
	snprintf(buf, len, "PCIe%s%s", *how ? " " : "", how);
	return buf;
}

const char *topo_link_words(const struct topo *t, int link, char *buf, size_t len)
{
	const struct topo_link *l = &t->links[link];
	const char *s = l->count == 1 ? "" : "s";

	switch (l->kind) {
	case LINK_PCI:
		return pci_link_words(t, l, buf, len);
	case LINK_NVLINK:
		snprintf(buf, len, "%d NVLink%s", l->count, s);
		return buf;
	case LINK_XGMI:
		snprintf(buf, len, "%d XGMI link%s", l->count, s);
		return buf;
	case LINK_C2C:
		snprintf(buf, len, "chip to chip");
		return buf;
	case LINK_SMP:
		snprintf(buf, len, "between NUMA nodes");
		return buf;
	case LINK_NET:
	case LINK_KINDS:
		break;
	}
	snprintf(buf, len, "port of the card");
	return buf;
}

bool topo_has_rdma(const struct topo *t)
{
	for (int i = 0; i < t->count[TOPO_NET]; i++)
		if (topo_is_rdma(&t->nodes[t->of[TOPO_NET][i]]))
			return true;
	return false;
}

bool topo_is_twin(const struct topo_node *net)
{
	return *net->net.rdma && !topo_is_rdma(net);
}

int topo_matrix_ports(const struct topo *t, int *nets)
{
	return topo_has_rdma(t) ? topo_matrix_nets(t, nets) : 0;
}

bool topo_kids_init(struct topo_kids *k, const struct topo *t)
{
	k->first = mem_calloc((size_t)t->nnodes + 1, sizeof(*k->first));
	k->next = mem_calloc((size_t)t->nnodes + 1, sizeof(*k->next));
	if (!k->first || !k->next) {
		topo_kids_cleanup(k);
		return false;
	}
	for (int i = 0; i < t->nnodes; i++)
		k->first[i] = -1;
	for (int i = t->nnodes - 1; i >= 0; i--) {
		int parent = t->nodes[i].parent;

		k->next[i] = parent >= 0 ? k->first[parent] : -1;
		if (parent >= 0)
			k->first[parent] = i;
	}
	return true;
}

void topo_kids_cleanup(struct topo_kids *k)
{
	mem_free(k->first);
	mem_free(k->next);
	*k = (struct topo_kids){ 0 };
}
