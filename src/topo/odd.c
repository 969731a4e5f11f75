/* SPDX-License-Identifier: Apache-2.0 */
/* What looks wrong in a description of a machine, as notes. */
#include "topo/graph.h"

#include <stdio.h>
#include <string.h>

/* Links that do not say how fast they are, in one sentence. */
static void note_unknown_links(struct topo *t)
{
	int width = 0, speed = 0, first_width = -1, first_speed = -1;
	char name[96];

	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];

		if (!*n->pci.busid || n->parent < 0)
			continue;
		if (n->pci.width <= 0 && !width++)
			first_width = i;
		if (!(n->pci.gts > 0) && !speed++)
			first_speed = i;
	}
	if (width)
		topo_note(t, "link width is not known of %d PCI devices (%s first): counted as x16", width,
			  topo_name(t, first_width, name, sizeof(name)));
	if (speed)
		topo_note(t, "link speed is not known of %d PCI devices (%s first): counted as 8 GT/s", speed,
			  topo_name(t, first_speed, name, sizeof(name)));
}

static double own_bw(const struct topo_node *n)
{
	return topo_pci_bw(n->pci.gts, n->pci.width);
}

/* The bridge above @node that is far narrower than the link of @node itself; -1: none. Real bridges have half or a
 * quarter. */
static int narrow_above(const struct topo *t, int node)
{
	for (int up = t->nodes[node].parent; up >= 0 && t->nodes[up].kind == TOPO_PCI; up = t->nodes[up].parent)
		if (own_bw(&t->nodes[up]) * 8 <= own_bw(&t->nodes[node]))
			return up;
	return -1;
}

/* A made-up bridge with a guessed link, or one that tells less than it can do. Of each the first device below is told.
 */
static void note_narrow_bridges(struct topo *t)
{
	char above[96], below[96];
	int last = -1;

	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];
		int up = *n->pci.busid && (n->kind == TOPO_GPU || n->kind == TOPO_NIC) ? narrow_above(t, i) : -1;

		if (up < 0 || up == last)
			continue;
		last = up;
		topo_note(t,
			  "the link above %s is %g GT/s x%d (%.1f GB/s), that of %s below it carries %.1f GB/s: if the "
			  "bridge is made up, correct its link_speed and link_width",
			  topo_name(t, up, above, sizeof(above)), t->nodes[up].pci.gts, t->nodes[up].pci.width,
			  own_bw(&t->nodes[up]), topo_name(t, i, below, sizeof(below)), own_bw(n));
	}
}

static bool same_affinity(const struct topo_cpu *a, const struct topo_cpu *b)
{
	return a->nmask == b->nmask && !memcmp(a->affinity, b->affinity, (size_t)a->nmask * sizeof(a->affinity[0]));
}

static void note_affinity(struct topo *t)
{
	int n = t->count[TOPO_CPU], same = 0;

	for (int i = 1; i < n; i++) {
		const struct topo_node *a = &t->nodes[t->of[TOPO_CPU][i - 1]], *b = &t->nodes[t->of[TOPO_CPU][i]];

		same += b->cpu.nmask && a->machine == b->machine && same_affinity(&a->cpu, &b->cpu);
	}
	if (n > 1 && same == n - 1)
		topo_note(t, "all %d NUMA nodes have the same processors: affinity cannot be right", n);
	else if (same)
		topo_note(t, "some NUMA nodes have the same processors: affinity cannot be right");
}

/* Of one port, or of the ports of a card together. */
static bool is_link_rate(long mbit)
{
	static const long rates[] = { 10,    100,   1000,  2500,  5000,	 8000,	 10000,	 14000,	 16000,	 20000,	 25000,
				      32000, 40000, 50000, 54000, 56000, 100000, 200000, 400000, 800000, 1600000 };

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (mbit == rates[i] || mbit == 2 * rates[i] || mbit == 4 * rates[i])
			return true;
	return false;
}

static void note_speeds(struct topo *t)
{
	char name[96];

	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		long mbit = t->nodes[t->of[TOPO_NET][i]].net.speed_mbit;
		int same = 0;
		bool first = true;

		for (int j = 0; j < t->count[TOPO_NET]; j++)
			if (t->nodes[t->of[TOPO_NET][j]].net.speed_mbit == mbit) {
				first = first && j >= i;
				same++;
			}
		if (!first || (mbit > 0 && is_link_rate(mbit)))
			continue;
		topo_name(t, t->of[TOPO_NET][i], name, sizeof(name));
		if (mbit > 0)
			topo_note(t, "%d ports (%s first) have %ld Mbit/s, which is no rate of a link: taken as it is",
				  same, name, mbit);
		else
			topo_note(t, "the speed of %d ports (%s first) is not known: counted as 10 Gbit/s", same, name);
	}
}

static void note_gpus(struct topo *t)
{
	int listed = 0;

	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		listed += t->nodes[t->of[TOPO_GPU][i]].gpu.listed;
	if (!t->count[TOPO_GPU])
		topo_note(t, "no GPU is described: NCCL adds those of the machine to such a file");
	else if (!listed)
		topo_note(t, "GPUs are known by their PCI class only: their kind and their NVLinks are not described");
	if (!t->count[TOPO_NET])
		topo_note(t, "no network port is described");
}

void topo_note_odd(struct topo *t)
{
	note_gpus(t);
	note_affinity(t);
	note_unknown_links(t);
	note_narrow_bridges(t);
	note_speeds(t);
}
