/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/nvml.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

/* Facts on their way into a graph. */
struct merge {
	struct topo *t;
	const struct nvml_facts *f;
	int node[NVML_GPUS]; /* of each GPU */
	int nvs;	     /* node of the switches; -1: none yet */
	int nvswitches;
	int hidden[NVML_GPUS]; /* links whose end does not show */
};

/* --- each GPU --- */

/* GT/s of a lane. */
static double gen_gts(int gen)
{
	static const double gts[] = { 0, 2.5, 5, 8, 16, 32, 64, 128 };

	return gen > 0 && gen < (int)(sizeof(gts) / sizeof(*gts)) ? gts[gen] : 0;
}

/* Where /sys does not say it. A GPU that does nothing runs its link slower than it can. */
static void fill_pci(struct topo_pci *pci, const struct gpu_facts *g)
{
	if (!*pci->busid)
		snprintf(pci->busid, sizeof(pci->busid), "%s", g->busid);
	if (pci->max_gts <= 0)
		pci->max_gts = gen_gts(g->pcie_max_gen);
	if (!pci->max_width)
		pci->max_width = g->pcie_max_width;
	if (pci->gts <= 0)
		pci->gts = pci->max_gts > 0 ? pci->max_gts : gen_gts(g->pcie_gen);
	if (!pci->width)
		pci->width = g->pcie_width;
}

static void fill_fabric(struct merge *m, int gpu)
{
	const struct gpu_facts *g = &m->f->gpus[gpu];

	if (g->fabric_state == 1 || g->fabric_state == 2)
		topo_note(m->t,
			  "GPU %d: its NVLink fabric is not ready (%s): P2P through NVSwitch fails until the fabric "
			  "manager "
			  "has finished",
			  gpu, g->fabric_state == 1 ? "not started" : "in progress");
	if (g->fabric_state == 3 && g->fabric_status)
		topo_note(m->t, "GPU %d: its NVLink fabric has failed (NVML status %d): see the fabric manager's log",
			  gpu, g->fabric_status);
	m->t->nodes[m->node[gpu]].gpu.fabric_hash = g->fabric_hash;
	m->t->nodes[m->node[gpu]].gpu.clique = g->clique;
}

static void fill_links(struct merge *m, int gpu)
{
	const struct gpu_facts *g = &m->f->gpus[gpu];
	struct topo_gpu *to = &m->t->nodes[m->node[gpu]].gpu;
	int down = 0;

	for (int i = 0; i < NVML_LINKS; i++) {
		to->nvlinks += g->links[i].state == 2;
		down += g->links[i].state == 1;
		if (g->links[i].version > to->nvlink_version)
			to->nvlink_version = g->links[i].version;
	}
	if (down && to->nvlinks)
		topo_note(m->t, "GPU %d: %d of its %d NVLinks are down", gpu, down, down + to->nvlinks);
}

static void fill_gpu(struct merge *m, int gpu)
{
	const struct gpu_facts *g = &m->f->gpus[gpu];
	struct topo_node *n = &m->t->nodes[m->node[gpu]];

	snprintf(n->name, sizeof(n->name), "%s", g->name);
	n->gpu.dev = gpu;
	n->gpu.sm = g->sm;
	n->gpu.memory = g->memory;
	n->gpu.listed = true;
	n->gpu.gdr = m->t->peermem;
	fill_pci(&n->pci, g);
	fill_links(m, gpu);
	fill_fabric(m, gpu);
	if (g->mig == 1)
		topo_note(m->t, "GPU %d is split into instances (MIG): NVLink and P2P do not work for them", gpu);
}

static int find_gpu(const struct topo *t, const char *busid)
{
	int64_t key = topo_busid_key(busid);

	for (int i = 0; i < t->nnodes && key >= 0; i++)
		if (t->nodes[i].kind == TOPO_GPU && topo_busid_key(t->nodes[i].pci.busid) == key)
			return i;
	return -1;
}

bool nvml_has_more(const struct topo *t, const struct nvml_facts *f)
{
	for (int i = 0; i < f->ngpus; i++)
		if (find_gpu(t, f->gpus[i].busid) < 0)
			return true;
	return false;
}

static enum taut_status place_gpu(struct merge *m, int gpu, int cpu)
{
	const struct gpu_facts *g = &m->f->gpus[gpu];
	int node = find_gpu(m->t, g->busid);

	if (node < 0) {
		node = topo_add_node(m->t, TOPO_GPU, cpu);
		topo_note(m->t, "GPU %d (%s): its place on PCI is not known, /sys does not show it", gpu, g->busid);
	}
	m->node[gpu] = node;
	if (node < 0)
		return status_last();
	fill_gpu(m, gpu);
	return TAUT_OK;
}

/* --- what links end at --- */

static int cpu_above(const struct topo *t, int node)
{
	while (node >= 0 && t->nodes[node].kind != TOPO_CPU)
		node = t->nodes[node].parent;
	return node;
}

static int facts_index(const struct nvml_facts *f, const char *busid)
{
	const struct gpu_facts *g = nvml_find(f, busid);

	return g ? (int)(g - f->gpus) : -1;
}

static int count_end(const struct gpu_facts *g, enum nvml_end end)
{
	int n = 0;

	for (int i = 0; i < NVML_LINKS; i++)
		n += g->links[i].state == 2 && g->links[i].end == end;
	return n;
}

/* Links of GPU @a that end at GPU @b. */
static int count_peer(const struct nvml_facts *f, int a, int b)
{
	int n = 0;

	for (int i = 0; i < NVML_LINKS; i++) {
		const struct nvml_link *l = &f->gpus[a].links[i];

		n += l->state == 2 && l->end == NVML_END_GPU && facts_index(f, l->busid) == b;
	}
	return n;
}

static enum taut_status join_switch(struct merge *m, int gpu, int count)
{
	if (!count)
		return TAUT_OK;
	if (m->nvs < 0) {
		m->nvs = topo_add_node(m->t, TOPO_NVS, -1);
		if (m->nvs < 0)
			return status_last();
		m->t->nodes[m->nvs].switches = m->nvswitches;
	}
	return topo_add_link(m->t, m->node[gpu], m->nvs, LINK_NVLINK, count, 0);
}

static enum taut_status join_cpu(struct merge *m, int gpu)
{
	const struct gpu_facts *g = &m->f->gpus[gpu];
	int cpu = cpu_above(m->t, m->node[gpu]), links = count_end(g, NVML_END_CPU);
	enum taut_status st = TAUT_OK;

	if (cpu < 0)
		return TAUT_OK;
	if (links)
		st = topo_add_link(m->t, m->node[gpu], cpu, LINK_NVLINK, links, 0);
	if (!st && g->c2c_links > 0 && g->c2c_mbps > 0)
		st = topo_add_link(m->t, m->node[gpu], cpu, LINK_C2C, 1, g->c2c_links * (double)g->c2c_mbps / 1000);
	return st;
}

static enum taut_status join_pair(struct merge *m, int a, int b)
{
	int there = count_peer(m->f, a, b), back = count_peer(m->f, b, a), count = there > back ? there : back;

	if (there != back)
		topo_note(m->t, "NVLinks between GPU %d and GPU %d: %d seen from the one, %d from the other", a, b,
			  there, back);
	return count ? topo_add_link(m->t, m->node[a], m->node[b], LINK_NVLINK, count, 0) : TAUT_OK;
}

/* --- ends that do not show --- */

/* Links that are up, to the GPU itself (what some guests show), to a GPU that is not here, or to nobody knows what. */
static int count_hidden(const struct nvml_facts *f, int gpu)
{
	int n = count_end(&f->gpus[gpu], NVML_END_UNKNOWN);

	for (int i = 0; i < NVML_LINKS; i++) {
		const struct nvml_link *l = &f->gpus[gpu].links[i];
		int peer = l->state == 2 && l->end == NVML_END_GPU ? facts_index(f, l->busid) : NVML_GPUS;

		n += peer < 0 || peer == gpu;
	}
	return n;
}

/* How many GPUs the driver reaches over NVLink from @gpu; *@peer is the last. */
static int count_reached(const struct nvml_facts *f, int gpu, int *peer)
{
	int n = 0;

	for (int j = 0; j < f->ngpus; j++)
		if (j != gpu && f->nvlink[gpu * f->ngpus + j] == P2P_OK) {
			*peer = j;
			n++;
		}
	return n;
}

/* The driver knows who is reached over NVLink: one GPU is at the other end, several are behind switches. */
static enum taut_status join_hidden(struct merge *m, int gpu)
{
	int peer = -1, count = m->hidden[gpu], reached = count ? count_reached(m->f, gpu, &peer) : 0;

	if (!count)
		return TAUT_OK;
	if (!reached)
		topo_note(m->t, "GPU %d: %d NVLinks end at what is not visible here", gpu, count);
	if (reached > 1)
		return join_switch(m, gpu, count);
	if (reached == 1 && m->hidden[peer] > 0 &&
	    topo_link_between(m->t, m->node[gpu], m->node[peer], LINK_NVLINK) < 0)
		return topo_add_link(m->t, m->node[gpu], m->node[peer], LINK_NVLINK,
				     count < m->hidden[peer] ? count : m->hidden[peer], 0);
	return TAUT_OK;
}

static enum taut_status join(struct merge *m)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < m->f->ngpus && !st; i++) {
		m->hidden[i] = count_hidden(m->f, i);
		st = join_switch(m, i, count_end(&m->f->gpus[i], NVML_END_SWITCH));
		if (!st)
			st = join_cpu(m, i);
		for (int j = 0; j < i && !st; j++)
			st = join_pair(m, j, i);
	}
	for (int i = 0; i < m->f->ngpus && !st; i++)
		st = join_hidden(m, i);
	return st;
}

/* --- who reads whom --- */

/* GPUs that NVML does not know are numbered after those it does. */
static int number_others(struct topo *t, int next)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_GPU && t->nodes[i].gpu.dev < 0)
			t->nodes[i].gpu.dev = next++;
	return next;
}

static enum taut_status fill_p2p(struct merge *m)
{
	int n = m->f->ngpus, all = number_others(m->t, n);

	m->t->p2p = mem_calloc((size_t)all, (size_t)all);
	if (!m->t->p2p)
		return fail(TAUT_ERR_NOMEM, "%s: P2P of %d GPUs", m->t->source, all);
	for (int i = 0; i < all; i++)
		for (int j = 0; j < all; j++)
			m->t->p2p[i * all + j] = i < n && j < n ? m->f->read[i * n + j] : P2P_UNKNOWN;
	return TAUT_OK;
}

enum taut_status nvml_merge(struct topo *t, const struct nvml_facts *f, int cpu, int nvswitches)
{
	struct merge m = { .t = t, .f = f, .nvs = -1, .nvswitches = nvswitches };
	enum taut_status st = TAUT_OK;

	if (f->ngpus > NVML_GPUS)
		return fail(TAUT_ERR_ARG, "%s: NVML's facts of %d GPUs: %d at most", t->source, f->ngpus, NVML_GPUS);
	for (int i = 0; i < f->ngpus && !st; i++)
		st = place_gpu(&m, i, cpu);
	if (!st)
		st = join(&m);
	return st || !f->ngpus ? st : fill_p2p(&m);
}
