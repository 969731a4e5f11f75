/* SPDX-License-Identifier: Apache-2.0 */
/* The system as one JSON object. What is not known is null. Names in it are those that topo_find() takes back. */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

/* JSON is UTF-8; names from a file may be anything. */
static json_t *text_json(const char *s)
{
	char clean[512];
	size_t n = strnlen(s, sizeof(clean) - 1);
	json_t *o;

	if (!*s)
		return json_null();
	o = json_stringn(s, n);
	if (o)
		return o;
	for (size_t i = 0; i < n; i++)
		clean[i] = (unsigned char)s[i] < 0x80 ? s[i] : '?';
	return json_stringn(clean, n);
}

static json_t *number_json(long v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

static json_t *positive_json(double v)
{
	return v > 0 ? json_real(v) : json_null();
}

static json_t *size_json(uint64_t v)
{
	return v ? json_integer((json_int_t)v) : json_null();
}

static json_t *truth_json(int v)
{
	return v < 0 ? json_null() : json_boolean(v);
}

static json_t *id_json(const struct topo *t, int node)
{
	char id[128];

	return node >= 0 ? text_json(topo_id(t, node, id, sizeof(id))) : json_null();
}

/* The number of the NUMA node above. */
static json_t *numa_json(const struct topo *t, int node)
{
	int cpu = topo_cpu_of(t, node);

	return cpu >= 0 ? number_json(t->nodes[cpu].cpu.numa) : json_null();
}

static void set(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

/* What every node has. */
static json_t *node_json(const struct topo *t, int node)
{
	json_t *o = json_object();

	set(o, "id", id_json(t, node));
	if (t->nmachines > 1)
		set(o, "machine", json_integer(t->nodes[node].machine));
	return o;
}

static void set_pci(json_t *o, const struct topo_node *n)
{
	const struct topo_pci *p = &n->pci;

	set(o, "pci", text_json(p->busid));
	set(o, "pci_gts", positive_json(p->gts));
	set(o, "pci_width", p->width > 0 ? json_integer(p->width) : json_null());
	set(o, "pci_max_gts", positive_json(p->max_gts));
	set(o, "pci_max_width", p->max_width > 0 ? json_integer(p->max_width) : json_null());
	set(o, "pci_slow", json_boolean(topo_is_slow(n)));
}

static json_t *gpu_json(const struct topo *t, int node)
{
	const struct topo_node *n = &t->nodes[node];
	json_t *o = node_json(t, node);
	char id[64];

	set(o, "name", text_json(topo_id(t, node, id, sizeof(id))));
	set(o, "dev", json_integer(n->gpu.dev));
	set(o, "numa", numa_json(t, node));
	set(o, "model", text_json(n->name));
	set(o, "sm", n->gpu.sm > 0 ? json_integer(n->gpu.sm) : json_null());
	set(o, "gcn", text_json(n->gpu.gcn));
	set(o, "memory_bytes", size_json(n->gpu.memory));
	set(o, "gdr", truth_json(n->gpu.gdr));
	set(o, "nvlinks", n->gpu.nvlinks > 0 ? json_integer(n->gpu.nvlinks) : json_null());
	set(o, "nvlink_version", n->gpu.nvlink_version > 0 ? json_integer(n->gpu.nvlink_version) : json_null());
	set_pci(o, n);
	return o;
}

static json_t *net_json(const struct topo *t, int node, int nic)
{
	const struct topo_node *n = &t->nodes[node];
	json_t *o = node_json(t, node);

	set(o, "name", text_json(n->name));
	set(o, "nic", number_json(nic));
	set(o, "numa", numa_json(t, node));
	set(o, "model", n->parent >= 0 ? text_json(t->nodes[n->parent].name) : json_null());
	set(o, "state", text_json(n->net.state));
	set(o, "speed_mbit", n->net.speed_mbit > 0 ? json_integer(n->net.speed_mbit) : json_null());
	set(o, "layer", text_json(n->net.layer));
	set(o, "port", n->net.port > 0 ? json_integer(n->net.port) : json_null());
	set(o, "rdma", json_boolean(topo_is_rdma(n)));
	set(o, "partner", text_json(n->net.rdma));
	set(o, "driver", text_json(n->net.driver));
	set(o, "firmware", text_json(n->net.firmware));
	set(o, "gids", text_json(n->net.gids));
	set(o, "virtual", json_boolean(n->net.is_virtual));
	set(o, "gdr", truth_json(n->net.gdr));
	set_pci(o, n->parent >= 0 ? &t->nodes[n->parent] : n);
	return o;
}

static json_t *cpu_json(const struct topo *t, int node)
{
	const struct topo_cpu *c = &t->nodes[node].cpu;
	json_t *o = node_json(t, node);
	char list[512];

	set(o, "numa", number_json(c->numa));
	set(o, "arch", text_json(c->arch));
	set(o, "vendor", text_json(c->vendor));
	set(o, "family", number_json(c->family));
	set(o, "model", number_json(c->model));
	set(o, "cpus", text_json(c->nmask > 0 ? topo_mask_list(c->affinity, c->nmask, list, sizeof(list)) : ""));
	set(o, "memory_bytes", size_json(c->memory));
	return o;
}

static json_t *other_json(const struct topo *t, int node)
{
	const struct topo_node *n = &t->nodes[node];
	json_t *o = node_json(t, node);

	set(o, "kind", json_string(n->kind == TOPO_NVS ? "nvswitch" : n->kind == TOPO_NIC ? "card" : "pci"));
	set(o, "parent", id_json(t, n->parent));
	if (n->kind == TOPO_NVS) {
		set(o, "switches", n->switches > 0 ? json_integer(n->switches) : json_null());
		return o;
	}
	set(o, "model", text_json(n->name));
	set(o, "acs", truth_json(n->pci.acs));
	set_pci(o, n);
	return o;
}

static json_t *link_json(const struct topo *t, int link)
{
	static const char *const kinds[LINK_KINDS] = { "pci", "nvlink", "xgmi", "c2c", "smp", "net" };
	const struct topo_link *l = &t->links[link];
	json_t *o = json_object();

	set(o, "a", id_json(t, l->a));
	set(o, "b", id_json(t, l->b));
	set(o, "kind", json_string(kinds[l->kind]));
	set(o, "count", json_integer(l->count));
	set(o, "bw_gbps", json_real(l->bw_gbps));
	return o;
}

/* --- the matrix --- */

struct rows {
	json_t *classes, *smi, *bw, *hops, *via;
};

static void append_cell(const struct topo *t, const struct path *p, const struct rows *r)
{
	char cell[16];
	const char *word = path_smi_text(p, cell, sizeof(cell));

	json_array_append_new(r->classes, json_string(path_class_names[p->class]));
	json_array_append_new(r->smi, json_string(p->smi == SMI_X ? "X" : word));
	json_array_append_new(r->bw,
			      p->class == PATH_LOC || p->class == PATH_DIS ? json_null() : json_real(p->bw_gbps));
	json_array_append_new(r->hops, p->class == PATH_DIS ? json_null() : json_integer(p->hops));
	json_array_append_new(r->via, id_json(t, p->via));
}

static void append_row(const struct topo_view *v, const int *ends, int n, int from, const struct rows *all)
{
	struct rows r = { json_array(), json_array(), json_array(), json_array(), json_array() };

	for (int i = 0; i < n; i++)
		append_cell(v->t, paths_get(v->p, from, ends[i]), &r);
	json_array_append_new(all->classes, r.classes);
	json_array_append_new(all->smi, r.smi);
	json_array_append_new(all->bw, r.bw);
	json_array_append_new(all->hops, r.hops);
	json_array_append_new(all->via, r.via);
}

/* GPUs, ports and NUMA nodes, each with each. */
static json_t *matrix_json(const struct topo_view *v)
{
	static const enum topo_kind kinds[] = { TOPO_GPU, TOPO_NET, TOPO_CPU };
	struct rows r = { json_array(), json_array(), json_array(), json_array(), json_array() };
	json_t *ids = json_array();
	const struct topo *t = v->t;
	int *ends = mem_calloc((size_t)t->nnodes + 1, sizeof(*ends)), n = 0;

	for (int k = 0; ends && k < 3; k++)
		for (int i = 0; i < t->count[kinds[k]]; i++)
			ends[n++] = t->of[kinds[k]][i];
	for (int i = 0; i < n; i++) {
		json_array_append_new(ids, id_json(t, ends[i]));
		append_row(v, ends, n, ends[i], &r);
	}
	mem_free(ends);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "ids", ids, "class", r.classes, "smi", r.smi, "bw_gbps",
			 r.bw, "hops", r.hops, "via", r.via);
}

/* --- all of it --- */

static json_t *nics_json(const struct topo *t)
{
	json_t *array = json_array();
	int *nets = mem_calloc((size_t)t->count[TOPO_NET] + 1, sizeof(*nets));
	int nnets = nets ? topo_matrix_ports(t, nets) : 0;

	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		int nic = -1;

		for (int j = 0; j < nnets; j++)
			nic = nets[j] == t->of[TOPO_NET][i] ? j : nic;
		json_array_append_new(array, net_json(t, t->of[TOPO_NET][i], nic));
	}
	mem_free(nets);
	return array;
}

static void append_all(json_t *array, const struct topo *t, enum topo_kind kind,
		       json_t *(*one)(const struct topo *t, int node))
{
	for (int i = 0; i < t->count[kind]; i++)
		json_array_append_new(array, one(t, t->of[kind][i]));
}

static json_t *array_json(const struct topo *t, enum topo_kind kind, json_t *(*one)(const struct topo *t, int node))
{
	json_t *array = json_array();

	append_all(array, t, kind, one);
	return array;
}

static json_t *others_json(const struct topo *t)
{
	json_t *array = array_json(t, TOPO_PCI, other_json);

	append_all(array, t, TOPO_NIC, other_json);
	append_all(array, t, TOPO_NVS, other_json);
	return array;
}

static json_t *links_json(const struct topo *t)
{
	json_t *array = json_array();

	for (int i = 0; i < t->nlinks; i++)
		json_array_append_new(array, link_json(t, i));
	return array;
}

static json_t *notes_json(const struct topo *t)
{
	json_t *array = json_array();

	for (int i = 0; i < t->nnotes; i++)
		json_array_append_new(array, text_json(t->notes[i].text));
	return array;
}

json_t *topo_json(const struct topo_view *v)
{
	const struct topo *t = v->t;
	json_t *o = json_object();

	if (!o)
		return NULL;
	set(o, "source", text_json(t->source));
	set(o, "nodes", json_integer(v->nodes));
	set(o, "machines", json_integer(t->nmachines));
	if (v->m)
		topo_json_machine(o, v->m);
	set(o, "vm", json_boolean(t->vm));
	set(o, "iommu", truth_json(t->iommu));
	set(o, "peermem", truth_json(t->peermem));
	set(o, "gpus", array_json(t, TOPO_GPU, gpu_json));
	set(o, "nics", nics_json(t));
	set(o, "numa", array_json(t, TOPO_CPU, cpu_json));
	set(o, "others", others_json(t));
	set(o, "links", links_json(t));
	set(o, "paths", matrix_json(v));
	set(o, "notes", notes_json(t));
	return o;
}
