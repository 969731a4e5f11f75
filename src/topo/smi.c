/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/smi.h"

#include <stdio.h>
#include <string.h>

/* NVLinks between two nodes; AMD's XGMI is the same thing. */
static int nvlinks_between(const struct topo *t, int a, int b)
{
	const struct topo_node *node = &t->nodes[a];

	for (int i = 0; i < node->nlinks; i++) {
		const struct topo_link *l = &t->links[node->links[i]];

		if ((l->kind == LINK_NVLINK || l->kind == LINK_XGMI) && (l->a == a ? l->b : l->a) == b)
			return l->count;
	}
	return 0;
}

/* Bonded links between two GPUs; by way of NVSwitches as many as the GPU with fewer has. */
static int nvlinks_of_pair(const struct topo *t, int a, int b)
{
	int n = nvlinks_between(t, a, b);

	for (int i = 0; !n && i < t->count[TOPO_NVS]; i++) {
		int na = nvlinks_between(t, a, t->of[TOPO_NVS][i]), nb = nvlinks_between(t, b, t->of[TOPO_NVS][i]);

		n = na < nb ? na : nb;
	}
	return n;
}

static int depth_of(const struct topo *t, int node)
{
	int depth = 0;

	while ((node = t->nodes[node].parent) >= 0)
		depth++;
	return depth;
}

/* Whether two topmost nodes have the same host bridge. Where that is not known, as in files of NCCL, they do when
 * they share their bus: switches below root ports of one host bridge are then taken to be apart, as they are on
 * most servers, where every root complex has one slot of 16 lanes. */
static bool same_host_bridge(const struct topo_pci *a, const struct topo_pci *b)
{
	const char *end_a = strrchr(a->busid, ':'), *end_b = strrchr(b->busid, ':');

	if (a->root && b->root)
		return a->root == b->root;
	if (!end_a || !end_b)
		return true; /* not known to be apart */
	return end_a - a->busid == end_b - b->busid && !strncmp(a->busid, b->busid, (size_t)(end_a - a->busid));
}

struct climb {
	int node;    /* where it is */
	int below;   /* where it came from */
	int bridges; /* PCI nodes entered */
};

static void climb_up(const struct topo *t, struct climb *c)
{
	c->below = c->node;
	c->node = t->nodes[c->node].parent;
	if (c->node >= 0 && t->nodes[c->node].kind == TOPO_PCI)
		c->bridges++;
}

/* Both climb to the node where they meet; that node is counted twice, if it is a bridge. */
static void climb_to_meet(const struct topo *t, struct climb *a, struct climb *b)
{
	int da = depth_of(t, a->node), db = depth_of(t, b->node);

	for (; da > db; da--)
		climb_up(t, a);
	for (; db > da; db--)
		climb_up(t, b);
	while (a->node != b->node) { /* -1 at the latest */
		climb_up(t, a);
		climb_up(t, b);
	}
}

static enum smi_class pci_class(const struct topo *t, int a, int b)
{
	struct climb ca = { .node = a, .below = a }, cb = { .node = b, .below = b };

	climb_to_meet(t, &ca, &cb);
	if (ca.node < 0)
		return SMI_SYS;
	switch (t->nodes[ca.node].kind) {
	case TOPO_PCI:
		return ca.bridges + cb.bridges <= 2 ? SMI_PIX : SMI_PXB;
	case TOPO_NIC:
		return SMI_PIX;
	case TOPO_CPU:
		if (ca.node == a || ca.node == b)
			return SMI_PHB; /* a node and what is below it */
		return same_host_bridge(&t->nodes[ca.below].pci, &t->nodes[cb.below].pci) ? SMI_PHB : SMI_NODE;
	default:
		return SMI_SYS;
	}
}

enum smi_class smi_class_of(const struct topo *t, int a, int b, int *nv)
{
	*nv = 0;
	if (a == b)
		return SMI_X;
	if (t->nodes[a].kind == TOPO_GPU && t->nodes[b].kind == TOPO_GPU) {
		*nv = nvlinks_of_pair(t, a, b);
		if (*nv)
			return SMI_NV;
	}
	return pci_class(t, a, b);
}

const char *path_smi_text(const struct path *path, char *buf, size_t len)
{
	static const char *const words[SMI_CLASSES] = { " X ", "NV", "PIX", "PXB", "PHB", "NODE", "SYS" };

	if (path->smi == SMI_NV)
		snprintf(buf, len, "NV%d", path->nv);
	else
		snprintf(buf, len, "%s", words[path->smi]);
	return buf;
}
