/* SPDX-License-Identifier: Apache-2.0 */
/* Distances and answers on any graph that can be made: four bytes add a node, a link or a fact. */
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "topo/paths.h"
#include "topo/reach.h"

enum { NODES = 48 };

static void add_node(struct topo *t, const uint8_t *op)
{
	int parent = op[1] < t->nnodes ? op[1] : -1, node;

	if (t->nnodes >= NODES)
		return;
	node = topo_add_node(t, (enum topo_kind)(op[2] % TOPO_KINDS), parent);
	must(node >= 0);
	t->nodes[node].pci.gts = op[3] % 5 * 8;
	t->nodes[node].pci.width = op[3] / 5 % 17;
	if (op[3] & 1)
		memcpy(t->nodes[node].pci.busid, op[3] & 2 ? "0000:01:00.0" : "0000:02:00.0", 13);
}

static void add_fact(struct topo *t, const uint8_t *op)
{
	struct topo_node *n = &t->nodes[op[1] % t->nnodes];

	n->machine = n->parent < 0 && op[3] == 255 ? op[2] % 2 : n->machine;
	n->pci.acs = op[2] % 3 - 1;
	n->pci.root = op[3] % 4;
	t->iommu = op[3] % 3 - 1;
	t->peermem = op[3] / 3 % 3 - 1;
	if (n->kind == TOPO_GPU) {
		n->gpu.gdr = op[2] / 3 % 3 - 1;
		n->gpu.fabric_hash = op[2] % 3;
		n->gpu.clique = op[3] % 3 - 1;
		n->gpu.nvlink_version = op[3] / 4 % 3;
		memcpy(n->name, op[2] & 8 ? "GeForce RTX 3090" : "H100            ", 17);
	} else if (n->kind == TOPO_NET) {
		n->net.gdr = op[2] / 3 % 3 - 1;
		n->net.port = op[2] & 1;
		n->net.is_virtual = op[2] & 2;
		n->net.speed_mbit = op[3] * 1000;
		memcpy(n->name, op[3] & 1 ? "mlx5" : "eth0", 5);
		memcpy(n->net.layer, op[3] & 2 ? "infiniband" : "ethernet\0\0", 11);
		memcpy(n->net.state, op[3] & 4 ? "down" : "up\0\0", 5);
	} else if (n->kind == TOPO_CPU) {
		n->cpu.family = op[2];
		n->cpu.model = op[3];
		memcpy(n->cpu.vendor, op[2] & 1 ? "AuthenticAMD" : "GenuineIntel", 13);
	}
}

static struct topo *build(const uint8_t *data, size_t len)
{
	struct topo *t = NULL;

	must(topo_create(&t, "fuzz") == TAUT_OK);
	for (; len >= 4; data += 4, len -= 4) {
		if (data[0] % 3 == 0 || !t->nnodes)
			add_node(t, data);
		else if (data[0] % 3 == 1)
			topo_add_link(t, data[1] % t->nnodes, data[2] % t->nnodes,
				      (enum topo_link_kind)(data[3] % LINK_KINDS), data[3] / 8 + 1, data[0] / 3);
		else
			add_fact(t, data);
	}
	if (topo_finish(t) == TAUT_OK)
		return t;
	topo_free(t);
	return NULL;
}

static void check_links(const struct topo *t, const struct topo_paths *p, int a, int b)
{
	const struct path *path = paths_get(p, a, b);
	int links[NODES], n = paths_links(p, a, b, links, NODES), at = a;
	double bw = 0;

	must(n == path->hops && n < NODES && path == paths_get(p, b, a));
	for (int i = 0; i < n; i++) {
		const struct topo_link *l = &t->links[links[i]];

		must(l->a == at || l->b == at);
		at = l->a == at ? l->b : l->a;
		bw = !i || l->bw_gbps < bw ? l->bw_gbps : bw;
	}
	must(!n || (at == b && path->bw_gbps >= bw && path->bw_gbps <= bw));
}

static void check_answers(const struct topo *t, const struct topo_paths *p, const struct reach_rules *rules, int a,
			  int b)
{
	struct reach out[REACH_WIRES];

	reach_ask(out, t, p, rules, a, b);
	for (int i = 0; i < REACH_WIRES; i++)
		must(memchr(out[i].why, '\0', sizeof(out[i].why)) && (*out[i].why != '\0') == out[i].asked &&
		     (out[i].asked || !out[i].usable));
}

static void set_p2p(struct topo *t, const uint8_t *data, size_t len)
{
	size_t n = (size_t)t->count[TOPO_GPU] * (size_t)t->count[TOPO_GPU];

	if (!n || !len || data[0] & 1)
		return;
	t->p2p = mem_calloc(n, 1);
	must(t->p2p != NULL);
	for (size_t i = 0; i < n; i++)
		t->p2p[i] = data[i % len] % (P2P_NO + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct reach_rules rules = { .p2p_level = -1, .gdr_level = -1, .strict = true };
	struct topo_paths *p = NULL;
	struct topo *t;

	log_set_sink(drop_line, NULL);
	t = build(data, len);
	if (!t)
		return 0;
	set_p2p(t, data, len);
	if (len && data[len - 1] & 1)
		rules.p2p_level = rules.gdr_level = data[len - 1] % (PATH_SYS + 1);
	rules.p2p_disable = len && data[len - 1] & 64;
	rules.ib_disable = len && data[len - 1] & 128;
	if (paths_create(&p, t, &path_rules_default) == TAUT_OK) {
		for (int a = 0; a < t->nnodes; a++)
			for (int b = 0; b < t->nnodes; b++) {
				check_links(t, p, a, b);
				check_answers(t, p, &rules, a, b);
			}
		reach_strict(t, p, &rules);
	}
	paths_free(p);
	topo_free(t);
	return 0;
}
