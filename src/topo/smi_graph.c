/* SPDX-License-Identifier: Apache-2.0 */
/* From the matrix of `nvidia-smi topo -m` to a graph that has that matrix again. The classes are a hierarchy: what is
 * PIX hangs below one switch, switches that are PXB below another, those that are PHB at one host bridge, those that
 * are NODE at one NUMA node. So each class gives groups of devices, those of a farther class made of those of a nearer
 * one. NV# hides what a pair is on PCI; then only third devices and the affinities tell. */
#include "topo/smi_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

enum { BY_PIX, BY_PXB, BY_PHB, BY_NODE, LEVELS };
static const enum smi_class level_class[LEVELS] = { SMI_PIX, SMI_PXB, SMI_PHB, SMI_NODE };

struct build {
	struct topo *t;
	const struct smi_matrix *m;
	int *group[LEVELS]; /* [n]: the first device of the group that each is in */
	int *node;	    /* [n]: of the GPU or NIC in the graph */
	int bridges;	    /* host bridges made */
	int placed;	    /* bus ids given below the present one */
};

static struct smi_cell cell(const struct build *b, int i, int j)
{
	return b->m->cell[i * b->m->n + j];
}

/* --- groups --- */

static void join(int *group, int n, int i, int j)
{
	int from = group[i] > group[j] ? group[i] : group[j], to = group[i] > group[j] ? group[j] : group[i];

	for (int k = 0; from != to && k < n; k++)
		if (group[k] == from)
			group[k] = to;
}

static bool on_pci(struct smi_cell c)
{
	return c.class >= SMI_PIX && c.class <= SMI_SYS;
}

static void group_by_cells(struct build *b)
{
	int n = b->m->n;

	for (int level = 0; level < LEVELS; level++) {
		for (int i = 0; i < n; i++)
			b->group[level][i] = level ? b->group[level - 1][i] : i;
		for (int i = 0; i < n; i++)
			for (int j = i + 1; j < n; j++)
				if (on_pci(cell(b, i, j)) && cell(b, i, j).class <= (int)level_class[level])
					join(b->group[level], n, i, j);
	}
}

/* Whether the text says of any two of the groups of @i and @j that they are SYS apart. */
static bool kept_apart(const struct build *b, int i, int j)
{
	const int *group = b->group[BY_NODE];

	for (int x = 0; x < b->m->n; x++)
		for (int y = 0; group[x] == group[i] && y < b->m->n; y++)
			if (group[y] == group[j] && cell(b, x, y).class == SMI_SYS)
				return true;
	return false;
}

static bool same_affinity(const struct smi_dev *a, const struct smi_dev *b)
{
	return (*a->cpus || *a->numa) && !strcmp(a->cpus, b->cpus) && !strcmp(a->numa, b->numa);
}

/* GPUs of the same processors are of one NUMA node, unless their cells say otherwise. */
static void group_by_affinity(struct build *b)
{
	const struct smi_dev *d = b->m->dev;
	int *group = b->group[BY_NODE];

	int apart_i = -1, apart_j = -1;

	for (int i = 0; i < b->m->n; i++)
		for (int j = i + 1; j < b->m->n; j++) {
			if (group[i] == group[j] || !same_affinity(&d[i], &d[j]))
				continue;
			if (!kept_apart(b, i, j)) {
				join(group, b->m->n, i, j);
			} else if (apart_i < 0) {
				apart_i = i;
				apart_j = j;
			}
		}
	if (apart_i >= 0)
		topo_note(b->t,
			  "%s and %s have the same affinity, yet the matrix sets what is near them SYS apart: they are "
			  "taken to be of two NUMA nodes",
			  d[apart_i].label, d[apart_j].label);
}

static enum smi_class class_by_groups(const struct build *b, int i, int j)
{
	for (int level = 0; level < LEVELS; level++)
		if (b->group[level][i] == b->group[level][j])
			return level_class[level];
	return SMI_SYS;
}

/* The classes of a real tree are transitive; say so when these are not. */
static void check_groups(struct build *b)
{
	static const char *const words[SMI_CLASSES] = { "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS" };
	int odd = 0, first_i = 0, first_j = 0;

	for (int i = 0; i < b->m->n; i++)
		for (int j = i + 1; j < b->m->n; j++) {
			if (!on_pci(cell(b, i, j)) || cell(b, i, j).class == (int)class_by_groups(b, i, j))
				continue;
			if (odd++ == 0) {
				first_i = i;
				first_j = j;
			}
		}
	if (odd)
		topo_note(b->t,
			  "no PCI tree has this matrix: %d pairs are nearer here than in the text, the first %s and "
			  "%s, which are "
			  "%s there and %s here",
			  odd, b->m->dev[first_i].label, b->m->dev[first_j].label,
			  words[cell(b, first_i, first_j).class], words[class_by_groups(b, first_i, first_j)]);
}

/* --- the PCI tree --- */

/* Bus ids are made up: a domain for each host bridge; what is at the bridge itself is on bus 0, what is below
 * switches on buses of its own. */
static void place(struct build *b, int node, int slot)
{
	struct topo_pci *pci = &b->t->nodes[node].pci;
	unsigned domain = 0x1000 + (unsigned)b->bridges;

	if (slot >= 0)
		snprintf(pci->busid, sizeof(pci->busid), "%04x:00:%02x.%x", domain, (unsigned)slot % 32,
			 (unsigned)slot / 32);
	else
		snprintf(pci->busid, sizeof(pci->busid), "%04x:%02x:%02x.0", domain, 1 + (unsigned)b->placed % 255,
			 (unsigned)b->placed / 255);
	b->placed += slot < 0;
	pci->root = domain * 256 + 1;
}

static int add_switch(struct build *b, int parent, int slot)
{
	int node = topo_add_node(b->t, TOPO_PCI, parent);

	if (node >= 0) {
		b->t->nodes[node].pci.class = 0x060400;
		place(b, node, slot);
	}
	return node;
}

static int add_port(struct build *b, int i, int nic)
{
	const struct smi_dev *d = &b->m->dev[i];
	int net = topo_add_node(b->t, TOPO_NET, nic), dev = 0;

	if (net < 0)
		return -1;
	for (int k = 0; k < i; k++)
		dev += !b->m->dev[k].gpu;
	b->t->nodes[net].net.dev = dev;
	b->t->nodes[net].net.listed = true;
	snprintf(b->t->nodes[net].name, sizeof(b->t->nodes[net].name), "%s", d->name);
	return nic;
}

static int add_device(struct build *b, int i, int parent, int slot)
{
	bool gpu = b->m->dev[i].gpu;
	int node = topo_add_node(b->t, gpu ? TOPO_GPU : TOPO_NIC, parent);

	if (node < 0)
		return -1;
	b->node[i] = node;
	place(b, node, slot);
	b->t->nodes[node].pci.class = gpu ? 0x030200 : 0x020000;
	if (!gpu)
		return add_port(b, i, node);
	b->t->nodes[node].pci.vendor = 0x10de;
	b->t->nodes[node].gpu.dev = b->m->dev[i].number;
	b->t->nodes[node].gpu.listed = true;
	return node;
}

/* How many groups of @level make up the group of @upper that @i is in. */
static int count_parts(const struct build *b, int upper, int level, int i)
{
	int parts = 0;

	for (int k = 0; k < b->m->n; k++)
		parts += b->group[upper][k] == b->group[upper][i] && b->group[level][k] == k;
	return parts;
}

static int count_devices(const struct build *b, int level, int i)
{
	int n = 0;

	for (int k = 0; k < b->m->n; k++)
		n += b->group[level][k] == b->group[level][i];
	return n;
}

static bool add_members(struct build *b, int first, int parent, int slot)
{
	for (int i = first; i < b->m->n; i++)
		if (b->group[BY_PIX][i] == first && add_device(b, i, parent, slot) < 0)
			return false;
	return true;
}

/* What is PXB: a switch with switches below it; what is only PIX: one switch; one device alone: none. */
static bool add_top(struct build *b, int first, int cpu, int slot)
{
	int top = cpu;

	if (count_devices(b, BY_PXB, first) == 1)
		return add_members(b, first, cpu, slot);
	top = add_switch(b, cpu, slot);
	if (top < 0 || count_parts(b, BY_PXB, BY_PIX, first) == 1)
		return top >= 0 && add_members(b, first, top, -1);
	for (int i = first; i < b->m->n; i++) {
		int leaf;

		if (b->group[BY_PXB][i] != first || b->group[BY_PIX][i] != i)
			continue;
		leaf = add_switch(b, top, -1);
		if (leaf < 0 || !add_members(b, i, leaf, -1))
			return false;
	}
	return true;
}

static bool add_bridge(struct build *b, int first, int cpu)
{
	int slot = 0;

	b->placed = 0;
	for (int i = first; i < b->m->n; i++)
		if (b->group[BY_PHB][i] == first && b->group[BY_PXB][i] == i && !add_top(b, i, cpu, slot++))
			return false;
	b->bridges++;
	return true;
}

/* --- NUMA nodes --- */

/* "0-63,128-191" into words; what does not fit is left out. */
static int mask_of(uint32_t *words, const char *list)
{
	int n = 0;

	while (*list) {
		char *end;
		long from = strtol(list, &end, 10), to = from;

		if (end != list && *end == '-')
			to = strtol(end + 1, &end, 10);
		if (end == list || from < 0)
			return n;
		for (long cpu = from; cpu <= to && cpu < 32 * TOPO_MASK_WORDS; cpu++) {
			words[cpu / 32] |= 1u << (cpu % 32);
			n = cpu / 32 >= n ? (int)(cpu / 32) + 1 : n;
		}
		list = *end == ',' ? end + 1 : end;
		if (*end && *end != ',')
			return n;
	}
	return n;
}

static bool numa_taken(const struct topo *t, long numa)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU && t->nodes[i].cpu.numa == numa)
			return true;
	return false;
}

/* Whether a group that has not been made yet claims @numa. */
static bool numa_claimed(const struct build *b, long numa)
{
	for (int i = 0; i < b->m->n; i++)
		if (*b->m->dev[i].numa && strtol(b->m->dev[i].numa, NULL, 10) == numa)
			return true;
	return false;
}

/* The number of the group's affinity; where that is missing or given away, the next free one. */
static int choose_numa(struct build *b, const struct smi_dev *d)
{
	long numa = d && *d->numa ? strtol(d->numa, NULL, 10) : -1;

	if (numa >= 0 && numa < TOPO_MAX_NUMA && !numa_taken(b->t, numa))
		return (int)numa;
	for (numa = 0; numa_taken(b->t, numa) || numa_claimed(b, numa); numa++)
		;
	topo_note(b->t, "the number of NUMA node %ld is made up: %s", numa,
		  b->m->numa_column ? "the text gives none for its devices, or one that others have"
				    : "the text has no column NUMA Affinity");
	return (int)numa;
}

static bool add_numa(struct build *b, int first)
{
	const struct smi_dev *d = NULL;
	int cpu = topo_add_node(b->t, TOPO_CPU, -1);
	struct topo_cpu *c;

	if (cpu < 0)
		return false;
	for (int i = first; i < b->m->n && !d; i++)
		if (b->group[BY_NODE][i] == first && (*b->m->dev[i].cpus || *b->m->dev[i].numa))
			d = &b->m->dev[i];
	c = &b->t->nodes[cpu].cpu;
	c->numa = choose_numa(b, d);
	if (d)
		c->nmask = mask_of(c->affinity, d->cpus);
	for (int i = first; i < b->m->n; i++)
		if (b->group[BY_NODE][i] == first && b->group[BY_PHB][i] == i && !add_bridge(b, i, cpu))
			return false;
	return true;
}

/* --- NVLinks --- */

/* More than any GPU has: where all pairs of a group show so many that a GPU would need more, they go through
 * NVSwitches. */
enum { GPU_LINKS_MAX = 18 };

/* The links of every pair of the group of @first when they are the same; else 0. */
static int same_links(const struct build *b, const int *group, int first, int *members)
{
	int nv = 0;

	*members = 0;
	for (int i = first; i < b->m->n; i++) {
		*members += group[i] == first;
		for (int j = i + 1; group[i] == first && j < b->m->n; j++) {
			if (group[j] != first)
				continue;
			if (cell(b, i, j).class != SMI_NV || (nv && cell(b, i, j).nv != nv))
				return 0;
			nv = cell(b, i, j).nv;
		}
	}
	return nv;
}

static enum taut_status link_switch(struct build *b, const int *group, int first, int nv)
{
	int nvs = topo_add_node(b->t, TOPO_NVS, -1);
	enum taut_status st = nvs < 0 ? status_last() : TAUT_OK;

	for (int i = first; i < b->m->n && !st; i++) {
		if (group[i] != first)
			continue;
		b->t->nodes[b->node[i]].gpu.nvlinks = nv;
		st = topo_add_link(b->t, b->node[i], nvs, LINK_NVLINK, nv, 0);
	}
	topo_note(b->t,
		  "all pairs of GPUs show NV%d, more than their links would give one by one: they are taken to go "
		  "through NVSwitches",
		  nv);
	return st;
}

static enum taut_status link_pairs(struct build *b, const int *group, int first)
{
	enum taut_status st = TAUT_OK;

	for (int i = first; i < b->m->n && !st; i++)
		for (int j = i + 1; group[i] == first && j < b->m->n && !st; j++) {
			int nv = cell(b, i, j).nv;

			if (cell(b, i, j).class != SMI_NV)
				continue;
			b->t->nodes[b->node[i]].gpu.nvlinks += nv;
			b->t->nodes[b->node[j]].gpu.nvlinks += nv;
			st = topo_add_link(b->t, b->node[i], b->node[j], LINK_NVLINK, nv, 0);
		}
	return st;
}

static enum taut_status link_gpus(struct build *b)
{
	int *group = b->group[BY_PIX], n = b->m->n; /* has served */
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < n; i++)
		group[i] = i;
	for (int i = 0; i < n; i++)
		for (int j = i + 1; j < n; j++)
			if (cell(b, i, j).class == SMI_NV)
				join(group, n, i, j);
	for (int i = 0; i < n && !st; i++) {
		int members, nv = group[i] == i ? same_links(b, group, i, &members) : 0;

		if (nv && nv * (members - 1) > GPU_LINKS_MAX)
			st = link_switch(b, group, i, nv);
		else if (group[i] == i)
			st = link_pairs(b, group, i);
		if (!st && nv && members == 2)
			topo_note(b->t,
				  "NV%d between two GPUs: the text does not tell whether NVSwitches are on the way",
				  nv);
	}
	return st;
}

/* --- the whole --- */

static void say_what_is_missing(struct build *b)
{
	const struct smi_matrix *m = b->m;
	int nics = 0, unnamed = 0;

	for (int i = 0; i < m->n; i++) {
		nics += !m->dev[i].gpu;
		unnamed += !m->dev[i].gpu && !m->dev[i].listed;
	}
	topo_note(b->t, "bus ids are made up: the text of nvidia-smi has none");
	topo_note(b->t,
		  "the model of the GPUs%s are not in the text: NVLinks count as those of an A100, "
		  "PCI links as generation 3 with 16 lanes",
		  nics ? ", speeds of PCI and of ports" : " and speeds of PCI");
	if (unnamed)
		topo_note(b->t, "%d NICs have no name: the text has no NIC Legend", unnamed);
	if (m->filled)
		topo_note(b->t, "%d cells that the text lacks are taken from the other half of the matrix", m->filled);
	if (m->unknown)
		topo_note(b->t,
			  "%d pairs are in neither half of the matrix (cut?): they are placed by what else is "
			  "known, SYS apart where nothing is",
			  m->unknown);
	if (*m->odd)
		topo_note(b->t, "%s", m->odd);
	if (m->second)
		topo_note(b->t, "the text has a second matrix, which is not read");
}

static enum taut_status make_room(struct build *b)
{
	int n = b->m->n;

	b->node = mem_calloc((size_t)n, sizeof(*b->node));
	for (int level = 0; level < LEVELS; level++) {
		b->group[level] = mem_calloc((size_t)n, sizeof(*b->group[level]));
		if (!b->group[level])
			return fail(TAUT_ERR_NOMEM, "no memory to group %d devices", n);
	}
	return b->node ? TAUT_OK : fail(TAUT_ERR_NOMEM, "no memory to place %d devices", n);
}

static enum taut_status build(struct build *b)
{
	enum taut_status st = make_room(b);

	if (st)
		return st;
	group_by_cells(b);
	group_by_affinity(b);
	check_groups(b);
	for (int i = 0; i < b->m->n; i++)
		if (b->group[BY_NODE][i] == i && !add_numa(b, i))
			return status_last();
	st = link_gpus(b);
	if (st)
		return st;
	say_what_is_missing(b);
	return topo_finish(b->t);
}

enum taut_status smi_to_graph(struct topo **out, const char *name, const struct smi_matrix *m)
{
	struct build b = { .m = m };
	enum taut_status st = topo_create(&b.t, name);

	if (st)
		return st;
	st = build(&b);
	for (int level = 0; level < LEVELS; level++)
		mem_free(b.group[level]);
	mem_free(b.node);
	if (st)
		topo_free(b.t);
	else
		*out = b.t;
	return st;
}
