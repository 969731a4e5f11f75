/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/nccl_xml.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Each GPU lists its own links, so a link between two GPUs stands in the file twice, once in each direction. */
struct direct {
	int lo, hi;		  /* nodes */
	enum topo_link_kind kind; /* NVLink or XGMI */
	int up, down;		  /* links that @lo and that @hi lists */
};

struct where { /* bus ids of a machine */
	int machine;
	enum topo_kind kind;
	int64_t key;
	int node;
};

struct links {
	struct nccl_load *l;
	struct where *index;
	int nindex;
	struct direct *direct;
	int ndirect;
	int64_t *switches; /* bus ids of the NVSwitches that are targets */
	int nswitches;
};

/* --- bus ids --- */

static int compare_where(const void *pa, const void *pb)
{
	const struct where *a = pa, *b = pb;

	if (a->machine != b->machine)
		return a->machine < b->machine ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static bool same_place(const struct where *a, const struct where *b)
{
	return a->machine == b->machine && a->kind == b->kind && a->key == b->key;
}

static void make_index(struct links *k)
{
	struct topo *t = k->l->t;

	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];
		int64_t key = topo_busid_key(n->pci.busid);

		if (key >= 0)
			k->index[k->nindex++] = (struct where){ n->machine, n->kind, key, i };
	}
	qsort(k->index, (size_t)k->nindex, sizeof(*k->index), compare_where);
	for (int i = 1; i < k->nindex; i++)
		if (same_place(&k->index[i], &k->index[i - 1]))
			topo_note(t, "several devices have the bus id %s: links between devices are the first's",
				  t->nodes[k->index[i].node].pci.busid);
}

/* The first node of @kind with that bus id on the machine of @beside; -1: none. */
static int find(const struct links *k, int beside, enum topo_kind kind, const char *busid)
{
	struct where w = { k->l->t->nodes[beside].machine, kind, topo_busid_key(busid), -1 };
	int lo = 0, hi = k->nindex;

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;

		if (compare_where(&k->index[mid], &w) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return w.key >= 0 && lo < k->nindex && same_place(&k->index[lo], &w) ? k->index[lo].node : -1;
}

/* Not a later one of several devices with one bus id. */
static bool is_first(const struct links *k, int node)
{
	const struct topo_node *n = &k->l->t->nodes[node];

	return !*n->pci.busid || find(k, node, n->kind, n->pci.busid) == node;
}

/* --- NVLink and XGMI of one GPU --- */

struct tally {	      /* links of a GPU */
	int listed;   /* in all */
	int switches; /* to NVSwitches that are not in the file */
	int through;  /* to NVSwitches under the names of other GPUs: the most of one */
};

static void add_direct(struct links *k, int from, int to, enum topo_link_kind kind, int count)
{
	k->direct[k->ndirect++] =
		from < to ? (struct direct){ from, to, kind, count, 0 } : (struct direct){ to, from, kind, 0, count };
}

static int cpu_above(const struct topo *t, int node)
{
	while (node >= 0 && t->nodes[node].kind != TOPO_CPU)
		node = t->nodes[node].parent;
	return node;
}

static enum taut_status add_to_cpu(struct links *k, int gpu, int count)
{
	int cpu = cpu_above(k->l->t, gpu);

	return cpu < 0 ? TAUT_OK : topo_add_link(k->l->t, gpu, cpu, LINK_NVLINK, count, 0);
}

/* A target that is no GPU of the file. */
static enum taut_status add_other(struct links *k, int gpu, const char *target, uint32_t class, int count,
				  struct tally *sum)
{
	struct topo *t = k->l->t;
	int64_t key = topo_busid_key(target);

	if (nccl_xml_is_gpu_class(class)) {
		topo_note(t, "%d NVLinks of GPU %s go to a GPU that is not listed: left out", count,
			  t->nodes[gpu].pci.busid);
		return TAUT_OK;
	}
	if (class == CLASS_NPU)
		return add_to_cpu(k, gpu, count);
	sum->switches += count;
	if (key >= 0 && key != topo_busid_key(NCCL_XML_NO_TARGET))
		k->switches[k->nswitches++] = key;
	return TAUT_OK;
}

static enum taut_status add_xgmi(struct links *k, int gpu, int peer, int count)
{
	struct topo *t = k->l->t;

	if (peer < 0 || peer == gpu)
		topo_note(t, "%d XGMI links of GPU %s go to what is not listed: left out", count,
			  t->nodes[gpu].pci.busid);
	else if (is_first(k, gpu))
		add_direct(k, gpu, peer, LINK_XGMI, count);
	return TAUT_OK;
}

static enum taut_status add_nvlink(struct links *k, int gpu, int peer, int count, struct tally *sum)
{
	struct topo *t = k->l->t;

	if (peer != gpu && !is_first(k, gpu))
		return TAUT_OK;
	sum->listed += count;
	if (peer == gpu)
		topo_note(t, "GPU %s is the target of its own %d links: what they go to is not known",
			  t->nodes[gpu].pci.busid, count);
	else
		add_direct(k, gpu, peer, LINK_NVLINK, count);
	return TAUT_OK;
}

static enum taut_status load_link(struct links *k, const struct xml_elem *e, int gpu, struct tally *sum)
{
	const char *target = xml_attr(e, "target");
	uint32_t class = 0;
	long count = 1;
	int peer;

	if (xml_int(k->l->doc, e, "count", 1, 1024, &count) || nccl_xml_class(k->l, e, "tclass", &class))
		return TAUT_ERR_ARG;
	if (!target)
		return xml_bad(k->l->doc, e, "target is missing: the bus id of what the link goes to was expected");
	peer = find(k, gpu, TOPO_GPU, target);
	if (!strcmp(e->name, "xgmi"))
		return add_xgmi(k, gpu, peer, (int)count);
	if (peer < 0) {
		sum->listed += (int)count;
		return add_other(k, gpu, target, class, (int)count, sum);
	}
	if (peer == gpu || !class || nccl_xml_is_gpu_class(class))
		return add_nvlink(k, gpu, peer, (int)count, sum);
	if (count > sum->through)
		sum->through = (int)count;
	return TAUT_OK;
}

static enum taut_status load_c2c(struct links *k, const struct xml_elem *e, int gpu)
{
	int cpu = cpu_above(k->l->t, gpu);
	long count = 1, mb_s = 0;

	if (xml_int(k->l->doc, e, "count", 1, 1024, &count) || xml_int(k->l->doc, e, "bw", 0, 100000000, &mb_s))
		return TAUT_ERR_ARG;
	if (cpu < 0)
		return TAUT_OK;
	return topo_add_link(k->l->t, gpu, cpu, LINK_C2C, (int)count, (double)mb_s * (double)count / 1000.0);
}

/* The links that a machine hides behind one NVSwitch. Guests list every peer as a switch, each with all links: those
 * are the same links. */
static enum taut_status add_switches(struct links *k, int gpu, struct tally *sum)
{
	struct topo *t = k->l->t;
	int count = sum->switches ? sum->switches : sum->through;

	if (sum->through) {
		topo_note(t, "GPU %s lists other GPUs as NVSwitches: counted as %d links to one",
			  t->nodes[gpu].pci.busid, count);
		sum->listed += count - sum->switches;
	}
	if (!count)
		return TAUT_OK;
	if (k->l->nvs < 0)
		k->l->nvs = topo_add_node(t, TOPO_NVS, -1);
	return k->l->nvs < 0 ? status_last() : topo_append_link(t, k->l->nvs, gpu, LINK_NVLINK, count, 0);
}

static enum taut_status load_gpu_links(struct links *k, const struct xml_elem *e, int gpu)
{
	struct tally sum = { 0 };
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		if (!strcmp(c->name, "nvlink") || !strcmp(c->name, "xgmi"))
			st = load_link(k, c, gpu, &sum);
		else if (!strcmp(c->name, "c2c"))
			st = load_c2c(k, c, gpu);
	}
	if (!st)
		st = add_switches(k, gpu, &sum);
	k->l->t->nodes[gpu].gpu.nvlinks = sum.listed;
	return st;
}

/* Two switches that are one device (Broadcom's): each lists the other. */
static enum taut_status load_pcilink(struct links *k, const struct xml_elem *e, int pci)
{
	const char *target = xml_attr(e, "target");
	struct topo *t = k->l->t;
	int peer;

	if (!target)
		return xml_bad(k->l->doc, e, "target is missing: the bus id of another switch was expected");
	peer = find(k, pci, TOPO_PCI, target);
	if (peer < 0 || peer == pci) {
		topo_note(t, "PCI %s is linked to %.32s, which is no other switch: left out", t->nodes[pci].pci.busid,
			  target);
		return TAUT_OK;
	}
	if (t->nodes[peer].parent == pci || t->nodes[pci].parent == peer || !is_first(k, pci) ||
	    topo_link_between(t, pci, peer, LINK_PCI) >= 0)
		return TAUT_OK;
	return topo_add_link(t, pci, peer, LINK_PCI, 0, 0);
}

static enum taut_status walk(struct links *k, const struct xml_elem *e)
{
	int node = k->l->node_of[e->number];
	enum taut_status st = TAUT_OK;

	if (!strcmp(e->name, "gpu") && node >= 0)
		return load_gpu_links(k, e, node);
	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		if (strcmp(c->name, "pcilink"))
			st = walk(k, c);
		else if (node >= 0 && k->l->t->nodes[node].kind == TOPO_PCI)
			st = load_pcilink(k, c, node);
	}
	return st;
}

/* --- both directions --- */

static int compare_direct(const void *pa, const void *pb)
{
	const struct direct *a = pa, *b = pb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	if (a->hi != b->hi)
		return a->hi < b->hi ? -1 : 1;
	return a->kind < b->kind ? -1 : a->kind > b->kind;
}

static enum taut_status add_pair(struct topo *t, const struct direct *d)
{
	int count = d->up < d->down ? d->up : d->down;

	if (d->up != d->down)
		topo_note(t, "GPU %s lists %d links to GPU %s, which lists %d: counted as %d",
			  t->nodes[d->lo].pci.busid, d->up, t->nodes[d->hi].pci.busid, d->down,
			  count ? count : d->up + d->down);
	return topo_append_link(t, d->lo, d->hi, d->kind, count ? count : d->up + d->down, 0);
}

static enum taut_status add_pairs(struct links *k)
{
	enum taut_status st = TAUT_OK;
	struct direct *d = k->direct;
	int n = 0;

	qsort(d, (size_t)k->ndirect, sizeof(*d), compare_direct);
	for (int i = 0; i < k->ndirect; i++) {
		if (n && !compare_direct(&d[n - 1], &d[i])) {
			d[n - 1].up += d[i].up;
			d[n - 1].down += d[i].down;
		} else {
			d[n++] = d[i];
		}
	}
	for (int i = 0; i < n && !st; i++)
		st = add_pair(k->l->t, &d[i]);
	return st;
}

/* A GPU has at least the links that others list to it. */
static enum taut_status count_links(struct topo *t)
{
	int *sum = mem_calloc((size_t)t->nnodes, sizeof(*sum));

	if (!sum)
		return fail(TAUT_ERR_NOMEM, "%s: no memory for its links", t->source);
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_NVLINK) {
			sum[t->links[i].a] += t->links[i].count;
			sum[t->links[i].b] += t->links[i].count;
		}
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_GPU && sum[i] > t->nodes[i].gpu.nvlinks)
			t->nodes[i].gpu.nvlinks = sum[i];
	mem_free(sum);
	return TAUT_OK;
}

static int compare_keys(const void *pa, const void *pb)
{
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

	return a < b ? -1 : a > b;
}

static void count_switches(struct links *k)
{
	qsort(k->switches, (size_t)k->nswitches, sizeof(*k->switches), compare_keys);
	for (int i = 0; k->l->nvs >= 0 && i < k->nswitches; i++)
		k->l->t->nodes[k->l->nvs].switches += !i || k->switches[i] != k->switches[i - 1];
}

enum taut_status nccl_xml_links(struct nccl_load *l)
{
	size_t n = (size_t)xml_count(l->doc);
	struct links k = { .l = l };
	enum taut_status st;

	k.index = mem_calloc((size_t)l->t->nnodes, sizeof(*k.index));
	k.direct = mem_calloc(n, sizeof(*k.direct));
	k.switches = mem_calloc(n, sizeof(*k.switches));
	if (k.index && k.direct && k.switches) {
		make_index(&k);
		st = walk(&k, xml_root(l->doc));
	} else {
		st = fail(TAUT_ERR_NOMEM, "%s: no memory for its links", l->t->source);
	}
	if (!st)
		st = add_pairs(&k);
	if (!st)
		st = count_links(l->t);
	if (!st)
		count_switches(&k);
	mem_free(k.switches);
	mem_free(k.direct);
	mem_free(k.index);
	return st;
}
