/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/* --- making one --- */

enum taut_status topo_create(struct topo **out, const char *source)
{
	struct topo *t = mem_calloc(1, sizeof(*t));

	if (!t)
		return fail(TAUT_ERR_NOMEM, "no memory for the graph of %s", source);
	snprintf(t->source, sizeof(t->source), "%s", source);
	t->times = 1;
	t->iommu = -1;
	t->peermem = -1;
	*out = t;
	return TAUT_OK;
}

void topo_free(struct topo *t)
{
	if (!t)
		return;
	for (int k = 0; k < TOPO_KINDS; k++)
		mem_free(t->of[k]);
	mem_free(t->link_ends);
	mem_free(t->p2p);
	mem_free(t->notes);
	mem_free(t->links);
	mem_free(t->nodes);
	mem_free(t);
}

/* Room for one more in an array that doubles at powers of two; NULL when there is none. */
static void *grow(void *array, int n, size_t size)
{
	if (n & (n - 1)) /* not a power of two: there is room */
		return array;
	return mem_realloc(array, n ? 2 * (size_t)n : 1, size);
}

static void set_unknown(struct topo_node *n)
{
	n->pci.acs = -1;
	if (n->kind == TOPO_CPU)
		n->cpu = (struct topo_cpu){ .numa = -1, .family = -1, .model = -1 };
	else if (n->kind == TOPO_GPU)
		n->gpu = (struct topo_gpu){ .dev = -1, .rank = -1, .gdr = -1, .clique = -1 };
	else if (n->kind == TOPO_NET)
		n->net = (struct topo_net){ .dev = -1, .gdr = -1, .rail = -1, .plane = -1 };
}

int topo_add_node(struct topo *t, enum topo_kind kind, int parent)
{
	struct topo_node *nodes, *n;

	if (parent < -1 || parent >= t->nnodes || t->nnodes == TOPO_MAX_NODES) {
		fail(TAUT_ERR_ARG, "%s: node %d below node %d: the graph has %d nodes and room for %d", t->source,
		     t->nnodes, parent, t->nnodes, TOPO_MAX_NODES);
		return -1;
	}
	nodes = grow(t->nodes, t->nnodes, sizeof(*nodes));
	if (!nodes) {
		fail(TAUT_ERR_NOMEM, "no memory for node %d of the graph of %s", t->nnodes, t->source);
		return -1;
	}
	t->nodes = nodes;
	n = &nodes[t->nnodes];
	memset(n, 0, sizeof(*n));
	n->kind = kind;
	n->parent = parent;
	n->machine = parent < 0 ? 0 : nodes[parent].machine;
	set_unknown(n);
	return t->nnodes++;
}

int topo_link_between(const struct topo *t, int a, int b, enum topo_link_kind kind)
{
	for (int i = t->nlinks - 1; i >= 0; i--) { /* what is added again was added lately */
		const struct topo_link *l = &t->links[i];

		if (l->kind == kind && ((l->a == a && l->b == b) || (l->a == b && l->b == a)))
			return i;
	}
	return -1;
}

enum taut_status topo_append_link(struct topo *t, int a, int b, enum topo_link_kind kind, int count, double bw_gbps)
{
	struct topo_link *links = grow(t->links, t->nlinks, sizeof(*links));

	if (!links)
		return fail(TAUT_ERR_NOMEM, "no memory for link %d of the graph of %s", t->nlinks, t->source);
	t->links = links;
	links[t->nlinks++] = (struct topo_link){ a, b, kind, count, bw_gbps > 0 ? bw_gbps : 0 };
	return TAUT_OK;
}

enum taut_status topo_add_link(struct topo *t, int a, int b, enum topo_link_kind kind, int count, double bw_gbps)
{
	struct topo_link *l;
	int old;

	if (a < 0 || b < 0 || a >= t->nnodes || b >= t->nnodes || a == b)
		return fail(TAUT_ERR_ARG, "%s: a link between nodes %d and %d of %d", t->source, a, b, t->nnodes);
	old = topo_link_between(t, a, b, kind);
	if (old < 0)
		return topo_append_link(t, a, b, kind, count, bw_gbps);
	l = &t->links[old];
	l->count = l->count > INT32_MAX - count ? INT32_MAX : l->count + count;
	l->bw_gbps = l->bw_gbps > 0 && bw_gbps > 0 ? l->bw_gbps + bw_gbps : 0; /* half known: computed for all */
	return TAUT_OK;
}

void topo_note(struct topo *t, const char *fmt, ...)
{
	struct topo_note note = { .text = "" }, *notes;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(note.text, sizeof(note.text), fmt, ap);
	va_end(ap);
	if (t->nnotes == TOPO_MAX_NOTES)
		return; /* the last one says so */
	if (t->nnotes == TOPO_MAX_NOTES - 1)
		snprintf(note.text, sizeof(note.text), "further notes are not kept: %d are", t->nnotes);
	for (int i = 0; i < t->nnotes; i++)
		if (!strcmp(t->notes[i].text, note.text))
			return;
	notes = grow(t->notes, t->nnotes, sizeof(*notes));
	if (!notes) {
		log_warn(LOG_TOPO, "no memory for a note on %s: %s", t->source, note.text);
		return;
	}
	t->notes = notes;
	notes[t->nnotes++] = note;
}

/* --- a copy --- */

/* NULL for an empty array, and when memory is out. */
static void *copy_array(const void *from, size_t n, size_t size)
{
	void *to = from && n ? mem_calloc(n, size) : NULL;

	if (to)
		memcpy(to, from, n * size);
	return to;
}

/* What copy_array() left out for want of memory. */
static bool copy_lacks(const struct topo *to, const struct topo *from)
{
	bool lacks = (from->nodes && from->nnodes && !to->nodes) || (from->links && from->nlinks && !to->links) ||
		     (from->notes && from->nnotes && !to->notes) || (from->link_ends && from->nlinks && !to->link_ends);

	for (int k = 0; k < TOPO_KINDS; k++)
		lacks = lacks || (from->of[k] && from->count[k] && !to->of[k]);
	return lacks || (from->p2p && from->count[TOPO_GPU] && !to->p2p);
}

enum taut_status topo_copy(struct topo **out, const struct topo *t)
{
	size_t gpus = (size_t)t->count[TOPO_GPU];
	struct topo *c = mem_calloc(1, sizeof(*c));

	if (!c)
		return fail(TAUT_ERR_NOMEM, "no memory for a copy of the graph of %s", t->source);
	*c = *t;
	c->nodes = copy_array(t->nodes, (size_t)t->nnodes, sizeof(*t->nodes));
	c->links = copy_array(t->links, (size_t)t->nlinks, sizeof(*t->links));
	c->notes = copy_array(t->notes, (size_t)t->nnotes, sizeof(*t->notes));
	c->p2p = copy_array(t->p2p, gpus * gpus, 1);
	c->link_ends = copy_array(t->link_ends, 2 * (size_t)t->nlinks, sizeof(*t->link_ends));
	for (int k = 0; k < TOPO_KINDS; k++)
		c->of[k] = copy_array(t->of[k], (size_t)t->count[k], sizeof(*t->of[k]));
	if (copy_lacks(c, t)) {
		topo_free(c);
		return fail(TAUT_ERR_NOMEM, "no memory for a copy of the graph of %s", t->source);
	}
	for (int i = 0; c->link_ends && i < t->nnodes; i++)
		c->nodes[i].links = c->link_ends + (t->nodes[i].links - t->link_ends);
	*out = c;
	return TAUT_OK;
}

/* --- finishing --- */

struct key { /* of a node, for sorting */
	int machine;
	int64_t by;
	int node;
};

static int compare_keys(const void *pa, const void *pb)
{
	const struct key *a = pa, *b = pb;

	if (a->machine != b->machine)
		return a->machine < b->machine ? -1 : 1;
	if (a->by != b->by)
		return a->by < b->by ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static int *dev_of(struct topo_node *n)
{
	return n->kind == TOPO_GPU ? &n->gpu.dev : &n->net.dev;
}

/* GPUs without a number get the free ones in the order of their bus ids, as the driver counts; ports as added. The
 * first nodes of @keys are those of @kind. */
static enum taut_status number_devs(struct topo *t, const struct key *keys, int n)
{
	char *used = mem_calloc((size_t)n, 1); /* of the present machine; a number of n or more is no obstacle */
	int next = 0;

	if (!used)
		return fail(TAUT_ERR_NOMEM, "no memory to number the devices of %s", t->source);
	for (int i = 0; i < n; i++) {
		int *dev = dev_of(&t->nodes[keys[i].node]);

		if (i == 0 || keys[i].machine != keys[i - 1].machine) {
			memset(used, 0, (size_t)n);
			next = 0;
			for (int j = i; j < n && keys[j].machine == keys[i].machine; j++) {
				int d = *dev_of(&t->nodes[keys[j].node]);

				if (d >= 0 && d < n)
					used[d] = 1;
			}
		}
		if (*dev >= 0)
			continue;
		while (used[next])
			next++;
		*dev = next++;
	}
	mem_free(used);
	return TAUT_OK;
}

static int64_t sort_by(const struct topo_node *n, bool numbered)
{
	switch (n->kind) {
	case TOPO_CPU:
		return n->cpu.numa;
	case TOPO_GPU:
		return numbered ? n->gpu.dev : topo_busid_key(n->pci.busid);
	case TOPO_NET:
		return numbered ? n->net.dev : 0;
	default:
		return 0;
	}
}

static int collect(const struct topo *t, enum topo_kind kind, bool numbered, struct key *keys)
{
	int n = 0;

	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == kind)
			keys[n++] = (struct key){ t->nodes[i].machine, sort_by(&t->nodes[i], numbered), i };
	qsort(keys, (size_t)n, sizeof(*keys), compare_keys);
	return n;
}

static enum taut_status list_kind(struct topo *t, enum topo_kind kind, struct key *keys)
{
	int n = collect(t, kind, false, keys);

	if (n && (kind == TOPO_GPU || kind == TOPO_NET)) {
		if (number_devs(t, keys, n))
			return TAUT_ERR_NOMEM;
		n = collect(t, kind, true, keys);
	}
	t->of[kind] = mem_calloc((size_t)n, sizeof(*t->of[kind]));
	if (!t->of[kind])
		return fail(TAUT_ERR_NOMEM, "no memory for the lists of the graph of %s", t->source);
	t->count[kind] = n;
	for (int i = 0; i < n; i++)
		t->of[kind][i] = keys[i].node;
	return TAUT_OK;
}

static enum taut_status list_nodes(struct topo *t)
{
	struct key *keys = mem_calloc((size_t)t->nnodes, sizeof(*keys));
	enum taut_status st = TAUT_OK;

	if (!keys)
		return fail(TAUT_ERR_NOMEM, "no memory to sort the nodes of %s", t->source);
	for (int k = 0; k < TOPO_KINDS && !st; k++)
		st = list_kind(t, (enum topo_kind)k, keys);
	mem_free(keys);
	return st;
}

static bool links_up(const struct topo *t, const struct topo_link *l, int child)
{
	bool ends =
		(l->a == child && l->b == t->nodes[child].parent) || (l->b == child && l->a == t->nodes[child].parent);

	return ends && l->kind == (t->nodes[child].kind == TOPO_NET ? LINK_NET : LINK_PCI);
}

static enum taut_status link_parents(struct topo *t)
{
	char *has = mem_calloc((size_t)t->nnodes, 1);
	enum taut_status st = TAUT_OK;

	if (!has)
		return fail(TAUT_ERR_NOMEM, "no memory to link the nodes of %s", t->source);
	for (int i = 0; i < t->nlinks; i++)
		for (int end = 0; end < 2; end++) {
			int child = end ? t->links[i].b : t->links[i].a;

			has[child] = has[child] || links_up(t, &t->links[i], child);
		}
	for (int i = 0; i < t->nnodes && !st; i++) {
		const struct topo_node *n = &t->nodes[i];

		if (n->parent >= 0 && !has[i])
			st = topo_append_link(t, i, n->parent, n->kind == TOPO_NET ? LINK_NET : LINK_PCI, 0, 0);
	}
	mem_free(has);
	return st;
}

/* Every NUMA node reaches every other of its machine. */
static enum taut_status link_cpus(struct topo *t)
{
	int n = t->count[TOPO_CPU], given = t->nlinks;
	const int *cpus = t->of[TOPO_CPU];
	char *has = mem_calloc((size_t)t->nnodes, 1); /* of the present node */
	enum taut_status st = TAUT_OK;

	if (!has)
		return fail(TAUT_ERR_NOMEM, "no memory to link the NUMA nodes of %s", t->source);
	for (int i = 0; i < n && !st; i++) {
		memset(has, 0, (size_t)t->nnodes);
		for (int l = 0; l < given; l++)
			if (t->links[l].kind == LINK_SMP && (t->links[l].a == cpus[i] || t->links[l].b == cpus[i]))
				has[t->links[l].a] = has[t->links[l].b] = 1;
		for (int j = i + 1; j < n && !st; j++)
			if (!has[cpus[j]] && t->nodes[cpus[i]].machine == t->nodes[cpus[j]].machine)
				st = topo_append_link(t, cpus[i], cpus[j], LINK_SMP, 1, 0);
	}
	mem_free(has);
	return st;
}

static enum taut_status index_links(struct topo *t)
{
	int *at;

	t->link_ends = mem_calloc(2 * (size_t)t->nlinks, sizeof(*t->link_ends));
	if (!t->link_ends)
		return fail(TAUT_ERR_NOMEM, "no memory for the links of %s", t->source);
	for (int i = 0; i < t->nlinks; i++) {
		t->nodes[t->links[i].a].nlinks++;
		t->nodes[t->links[i].b].nlinks++;
	}
	at = t->link_ends;
	for (int i = 0; i < t->nnodes; i++) {
		t->nodes[i].links = at;
		at += t->nodes[i].nlinks;
		t->nodes[i].nlinks = 0;
	}
	for (int i = 0; i < t->nlinks; i++)
		for (int end = 0; end < 2; end++) {
			struct topo_node *n = &t->nodes[end ? t->links[i].b : t->links[i].a];

			t->link_ends[n->links - t->link_ends + n->nlinks++] = i;
		}
	return TAUT_OK;
}

static void count_machines(struct topo *t)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].machine >= t->nmachines && t->nodes[i].machine < INT32_MAX)
			t->nmachines = t->nodes[i].machine + 1;
}

enum taut_status topo_finish(struct topo *t)
{
	enum taut_status st;
	char why[256];
	const char *wrong;

	if (t->link_ends)
		return fail(TAUT_ERR_ARG, "%s: the graph has been finished before", t->source);
	st = list_nodes(t);
	if (!st && t->count[TOPO_CPU] > TOPO_MAX_NUMA)
		st = fail(TAUT_ERR_ARG, "%s: %d NUMA nodes: %d at most", t->source, t->count[TOPO_CPU], TOPO_MAX_NUMA);
	if (!st)
		st = link_parents(t);
	if (!st)
		st = link_cpus(t);
	if (st)
		return st;
	for (int i = 0; i < t->nlinks; i++)
		topo_link_figures(t, &t->links[i]);
	count_machines(t);
	st = index_links(t);
	if (st)
		return st;
	wrong = topo_check(t, why, sizeof(why));
	return wrong ? fail(TAUT_ERR_ARG, "%s: the graph is not sound: %s", t->source, wrong) : TAUT_OK;
}
