/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a graph is sound. Each check gives NULL or a sentence. */
#include "topo/graph.h"

#include <stdio.h>
#include <string.h>

/* Which kinds may stand above which. */
static bool may_be_above(enum topo_kind above, enum topo_kind below)
{
	switch (below) {
	case TOPO_CPU:
	case TOPO_NVS:
		return false;
	case TOPO_NET:
		return above == TOPO_NIC;
	default:
		return above == TOPO_CPU || above == TOPO_PCI;
	}
}

static const char *check_parent(const struct topo *t, int node, char *buf, size_t len)
{
	const struct topo_node *n = &t->nodes[node];
	char a[96], b[96];
	int steps = 0;

	if (n->machine < 0 || n->machine >= t->nmachines) {
		snprintf(buf, len, "%s is of machine %d of %d", topo_name(t, node, a, sizeof(a)), n->machine,
			 t->nmachines);
		return buf;
	}
	if (n->parent < 0 && n->kind == TOPO_NET) {
		snprintf(buf, len, "port %s has no card above it", topo_name(t, node, a, sizeof(a)));
		return buf;
	}
	if (n->parent < 0)
		return NULL;
	if (!may_be_above(t->nodes[n->parent].kind, n->kind) || t->nodes[n->parent].machine != n->machine) {
		snprintf(buf, len, "%s cannot be below %s", topo_name(t, node, a, sizeof(a)),
			 topo_name(t, n->parent, b, sizeof(b)));
		return buf;
	}
	if (n->parent < node)
		return NULL; /* a circle has a node whose parent was added later */
	for (int up = n->parent; up >= 0; up = t->nodes[up].parent)
		if (++steps > t->nnodes || up == node) {
			snprintf(buf, len, "%s is below itself", topo_name(t, node, a, sizeof(a)));
			return buf;
		}
	return NULL;
}

/* Whether a link of @kind may join the nodes @a and @b, in this order. */
static bool may_join(const struct topo *t, enum topo_link_kind kind, int a, int b)
{
	enum topo_kind ka = t->nodes[a].kind, kb = t->nodes[b].kind;
	bool same = t->nodes[a].machine == t->nodes[b].machine;

	switch (kind) {
	case LINK_PCI:
		return same && (kb == TOPO_CPU || kb == TOPO_PCI) && ka != TOPO_NET && ka != TOPO_NVS && ka != TOPO_CPU;
	case LINK_NVLINK:
	case LINK_XGMI:
		return ka == TOPO_GPU && (kb == TOPO_GPU || kb == TOPO_NVS || (kb == TOPO_CPU && same));
	case LINK_C2C:
		return same && ka == TOPO_GPU && kb == TOPO_CPU;
	case LINK_SMP:
		return same && ka == TOPO_CPU && kb == TOPO_CPU;
	case LINK_NET:
		return ka == TOPO_NET && t->nodes[a].parent == b && kb == TOPO_NIC;
	default:
		return false;
	}
}

static const char *check_link(const struct topo *t, const struct topo_link *l, char *buf, size_t len)
{
	char a[96], b[96];

	topo_name(t, l->a, a, sizeof(a));
	topo_name(t, l->b, b, sizeof(b));
	if (!may_join(t, l->kind, l->a, l->b) && !may_join(t, l->kind, l->b, l->a)) {
		snprintf(buf, len, "%s and %s cannot be joined by a link of kind %d", a, b, (int)l->kind);
		return buf;
	}
	if (!(l->bw_gbps > 0) || l->bw_gbps > 1e6 || l->count < 1) {
		snprintf(buf, len, "the link between %s and %s has %d lanes and %g GB/s", a, b, l->count, l->bw_gbps);
		return buf;
	}
	return NULL;
}

static int dev(const struct topo_node *n)
{
	return n->kind == TOPO_GPU ? n->gpu.dev : n->net.dev;
}

/* The lists are sorted by machine and number. */
static const char *check_devs(const struct topo *t, enum topo_kind kind, char *buf, size_t len)
{
	char a[96], b[96];

	for (int i = 1; i < t->count[kind]; i++) {
		const struct topo_node *n = &t->nodes[t->of[kind][i - 1]], *m = &t->nodes[t->of[kind][i]];

		if (n->machine == m->machine && dev(n) == dev(m)) {
			snprintf(buf, len, "%s and %s have the same number %d",
				 topo_name(t, t->of[kind][i - 1], a, sizeof(a)),
				 topo_name(t, t->of[kind][i], b, sizeof(b)), dev(n));
			return buf;
		}
	}
	return NULL;
}

const char *topo_check(const struct topo *t, char *buf, size_t len)
{
	const char *wrong = NULL;

	for (int i = 0; i < t->nnodes && !wrong; i++)
		wrong = check_parent(t, i, buf, len);
	for (int i = 0; i < t->nlinks && !wrong; i++)
		wrong = check_link(t, &t->links[i], buf, len);
	if (!wrong)
		wrong = check_devs(t, TOPO_GPU, buf, len);
	return wrong ? wrong : check_devs(t, TOPO_NET, buf, len);
}
