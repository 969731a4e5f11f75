/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_model.h"

#include <string.h>

#include "base/mem.h"

enum { LEG_LINKS_MAX = 64 };

struct builder {
	const struct topo *t;
	const struct topo_paths *p;
	bool pxn;
	int *number; /* of each arc: its resource, or -1 */
	int stored;
};

static int store_size(const struct ring_model *m, const struct builder *b)
{
	int legs = m->ngpus * (m->ngpus - 1) + 2 * m->nports * m->ngpus, total = 0;
	int links[LEG_LINKS_MAX];

	for (int i = 0; i < m->ngpus; i++)
		for (int j = 0; j < m->ngpus; j++)
			total += paths_links(b->p, m->gpus[i], m->gpus[j], links, LEG_LINKS_MAX);
	for (int k = 0; k < m->nports; k++)
		for (int i = 0; i < m->ngpus; i++)
			total += 2 * paths_links(b->p, m->ports[k], m->gpus[i], links, LEG_LINKS_MAX);
	return total + legs;
}

static int number_of(struct ring_model *m, struct builder *b, int arc)
{
	if (b->number[arc] < 0) {
		b->number[arc] = m->narcs;
		m->arc[m->narcs] = arc;
		m->arc_cap[m->narcs++] = b->t->links[arc / 2].bw_gbps;
	}
	return b->number[arc];
}

/* The leg from node @from to node @to. A path that is longer than any machine's is no way. */
static void leg_fill(struct ring_model *m, struct builder *b, struct ring_leg *leg, int from, int to)
{
	const struct path *path = paths_get(b->p, from, to);
	int links[LEG_LINKS_MAX], n = 0, at = from;

	leg->class = path ? path->class : PATH_DIS;
	if (leg->class == PATH_PXN && !b->pxn)
		leg->class = PATH_DIS;
	if (leg->class != PATH_DIS)
		n = paths_links(b->p, from, to, links, LEG_LINKS_MAX);
	if (n > LEG_LINKS_MAX)
		leg->class = PATH_DIS;
	if (leg->class == PATH_DIS)
		return;
	leg->res = m->store + b->stored;
	leg->nres = n;
	for (int i = 0; i < n; i++) {
		const struct topo_link *l = &b->t->links[links[i]];
		bool forward = l->a == at;

		leg->res[i] = number_of(m, b, 2 * links[i] + !forward);
		at = forward ? l->b : l->a;
	}
	b->stored += n;
}

static void legs_fill(struct ring_model *m, struct builder *b)
{
	for (int i = 0; i < m->ngpus; i++)
		for (int j = 0; j < m->ngpus; j++) {
			struct ring_leg *leg = &m->leg[i * m->ngpus + j];

			leg->class = PATH_DIS;
			if (i != j)
				leg_fill(m, b, leg, m->gpus[i], m->gpus[j]);
		}
	for (int k = 0; k < m->nports; k++)
		for (int i = 0; i < m->ngpus; i++) {
			leg_fill(m, b, &m->in[k * m->ngpus + i], m->ports[k], m->gpus[i]);
			leg_fill(m, b, &m->out[k * m->ngpus + i], m->gpus[i], m->ports[k]);
		}
}

/* --- arcs that are always used together --- */

static int legs_of(const struct ring_model *m, int part)
{
	return part == 0 ? m->ngpus * m->ngpus : m->nports * m->ngpus;
}

static struct ring_leg *leg_at(const struct ring_model *m, int part, int i)
{
	return (part == 0 ? m->leg : part == 1 ? m->in : m->out) + i;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* A number for the set of legs that use each arc: equal for equal sets. */
static void users_fill(const struct ring_model *m, uint64_t *users)
{
	uint64_t number = 0;

	for (int part = 0; part < 3; part++)
		for (int i = 0; i < legs_of(m, part); i++) {
			const struct ring_leg *leg = leg_at(m, part, i);

			number++;
			for (int k = 0; k < leg->nres; k++)
				users[leg->res[k]] += mix(number);
		}
}

/* Gives each arc the number of its resource, or -1 where another arc stands for it. */
static void resources_number(struct ring_model *m, const uint64_t *users, int *resource)
{
	for (int a = 0; a < m->narcs; a++) {
		bool counts = true;

		for (int b = 0; b < m->narcs && counts; b++)
			if (users[a] == users[b] && a != b)
				counts = m->arc_cap[a] < m->arc_cap[b] || (m->arc_cap[a] == m->arc_cap[b] && a < b);
		resource[a] = counts ? m->nres : -1;
		if (!counts)
			continue;
		m->res_arc[m->nres] = a;
		m->cap[m->nres++] = m->arc_cap[a];
	}
}

static void legs_renumber(struct ring_model *m, const int *resource)
{
	for (int part = 0; part < 3; part++)
		for (int i = 0; i < legs_of(m, part); i++) {
			struct ring_leg *leg = leg_at(m, part, i);
			int n = 0;

			for (int k = 0; k < leg->nres; k++)
				if (resource[leg->res[k]] >= 0)
					leg->res[n++] = resource[leg->res[k]];
			leg->nres = n;
		}
}

static enum taut_status arcs_merge(struct ring_model *m, const struct topo *t)
{
	uint64_t *users = mem_calloc((size_t)m->narcs + 1, sizeof(*users));
	int *resource = mem_calloc((size_t)m->narcs + 1, sizeof(*resource));
	enum taut_status st = TAUT_OK;

	if (users && resource) {
		users_fill(m, users);
		resources_number(m, users, resource);
		legs_renumber(m, resource);
	} else {
		st = fail(TAUT_ERR_NOMEM, "channels of %s: no memory for %d links", t->source, m->narcs);
	}
	mem_free(users);
	mem_free(resource);
	return st;
}

/* --- nodes --- */

static bool port_serves(const struct topo *t, int node, enum channel_pattern pattern, bool with_virtual)
{
	const struct topo_net *net = &t->nodes[node].net;

	if (!strcmp(net->state, "down") || (net->is_virtual && !with_virtual))
		return false;
	return pattern != PATTERN_COLLNET || net->coll == 1;
}

/* Ports that are up, and cards' own ones before what software made (bridges, veth). */
static void ports_choose(struct ring_model *m, const struct topo *t)
{
	int n = topo_matrix_nets(t, m->ports);

	for (int with_virtual = 0; with_virtual < 2 && !m->nports; with_virtual++) {
		int nets = n;

		for (int i = 0; i < nets; i++)
			if (port_serves(t, m->ports[i], m->pattern, with_virtual))
				m->nports++;
		if (!m->nports)
			continue;
		m->nports = 0;
		for (int i = 0; i < nets; i++)
			if (port_serves(t, m->ports[i], m->pattern, with_virtual))
				m->ports[m->nports++] = m->ports[i];
	}
}

static enum taut_status model_nodes(struct ring_model *m, const struct topo *t)
{
	m->ngpus = t->count[TOPO_GPU];
	m->gpus = mem_calloc((size_t)m->ngpus, sizeof(*m->gpus));
	m->ports = mem_calloc((size_t)t->count[TOPO_NET] + 1, sizeof(*m->ports));
	if (!m->gpus || !m->ports)
		return fail(TAUT_ERR_NOMEM, "channels of %s: no memory for %d gpus", t->source, m->ngpus);
	memcpy(m->gpus, t->of[TOPO_GPU], (size_t)m->ngpus * sizeof(*m->gpus));
	if (m->inter)
		ports_choose(m, t);
	return TAUT_OK;
}

static enum taut_status model_legs(struct ring_model *m, struct builder *b)
{
	size_t arcs = 2 * (size_t)b->t->nlinks + 1, gpus = (size_t)m->ngpus;

	m->store = mem_calloc((size_t)store_size(m, b) + 1, sizeof(*m->store));
	m->cap = mem_calloc(arcs, sizeof(*m->cap));
	m->res_arc = mem_calloc(arcs, sizeof(*m->res_arc));
	m->arc_cap = mem_calloc(arcs, sizeof(*m->arc_cap));
	m->arc = mem_calloc(arcs, sizeof(*m->arc));
	m->leg = mem_calloc(gpus * gpus, sizeof(*m->leg));
	m->in = mem_calloc((size_t)m->nports * gpus + 1, sizeof(*m->in));
	m->out = mem_calloc((size_t)m->nports * gpus + 1, sizeof(*m->out));
	b->number = mem_calloc(arcs, sizeof(*b->number));
	if (!m->store || !m->cap || !m->res_arc || !m->arc_cap || !m->arc || !m->leg || !m->in || !m->out || !b->number)
		return fail(TAUT_ERR_NOMEM, "channels of %s: no memory for the legs of %d gpus", b->t->source,
			    m->ngpus);
	memset(b->number, -1, arcs * sizeof(*b->number));
	legs_fill(m, b);
	return arcs_merge(m, b->t);
}

enum taut_status ring_model_create(struct ring_model **out, const struct topo *t, const struct topo_paths *p,
				   const struct channels_req *req)
{
	struct builder b = { .t = t, .p = p, .pxn = req->pxn };
	struct ring_model *m;
	enum taut_status st;

	if (t->count[TOPO_GPU] > RING_GPUS_MAX)
		return fail(TAUT_ERR_UNSUPPORTED, "%s has %d GPUs: channels are searched for %d at most", t->source,
			    t->count[TOPO_GPU], RING_GPUS_MAX);
	m = mem_calloc(1, sizeof(*m));
	if (!m)
		return fail(TAUT_ERR_NOMEM, "channels of %s: no memory", t->source);
	m->pattern = req->pattern;
	m->inter = req->nnodes > 1;
	m->cross = m->inter && req->cross_nic == 1;
	st = model_nodes(m, t);
	if (!st)
		st = model_legs(m, &b);
	mem_free(b.number);
	if (st)
		goto err_free;
	*out = m;
	return TAUT_OK;
err_free:
	ring_model_free(m);
	return st;
}

void ring_model_free(struct ring_model *m)
{
	if (!m)
		return;
	mem_free(m->gpus);
	mem_free(m->ports);
	mem_free(m->cap);
	mem_free(m->arc_cap);
	mem_free(m->res_arc);
	mem_free(m->arc);
	mem_free(m->leg);
	mem_free(m->in);
	mem_free(m->out);
	mem_free(m->store);
	mem_free(m);
}

bool ring_is_tree(const struct ring_model *m)
{
	return m->pattern != PATTERN_RING;
}

/* In a double binary tree a node is inner in one tree of a pair and leaf in the other: four streams each way at its
 * ports, of which the pattern puts the parent's, and one child's or both, at the first GPU. */
double ring_first_share(const struct ring_model *m)
{
	if (m->ngpus == 1)
		return 1;
	switch (m->pattern) {
	case PATTERN_BALANCED_TREE:
		return 0.75;
	case PATTERN_SPLIT_TREE:
		return 0.5;
	default:
		return 1;
	}
}

static void leg_load(const struct ring_leg *leg, double share, double *load)
{
	for (int i = 0; i < leg->nres; i++)
		load[leg->res[i]] += share;
}

static void port_load(const struct ring_model *m, int port, int gpu, double share, double *load)
{
	leg_load(&m->in[port * m->ngpus + gpu], share, load);
	leg_load(&m->out[port * m->ngpus + gpu], share, load);
}

static void tree_load(const struct ring_model *m, const struct ring_route *route, double *load)
{
	const int *o = route->order;
	double first = ring_first_share(m);

	for (int i = 0; i + 1 < m->ngpus; i++) {
		leg_load(&m->leg[o[i] * m->ngpus + o[i + 1]], 0.5, load);
		leg_load(&m->leg[o[i + 1] * m->ngpus + o[i]], 0.5, load);
	}
	if (!m->inter)
		return;
	port_load(m, route->in, o[0], first, load);
	if (first < 1)
		port_load(m, route->out, o[1], 1 - first, load);
}

void ring_route_load(const struct ring_model *m, const struct ring_route *route, double *load)
{
	const int *o = route->order;
	int last = m->ngpus - 1;

	if (ring_is_tree(m)) {
		tree_load(m, route, load);
		return;
	}
	for (int i = 0; i < last; i++)
		leg_load(&m->leg[o[i] * m->ngpus + o[i + 1]], 1, load);
	if (m->inter) {
		leg_load(&m->in[route->in * m->ngpus + o[0]], 1, load);
		leg_load(&m->out[route->out * m->ngpus + o[last]], 1, load);
	} else if (last > 0) {
		leg_load(&m->leg[o[last] * m->ngpus + o[0]], 1, load);
	}
}

static void class_max(enum path_class *max, enum path_class class)
{
	if (class > *max)
		*max = class;
}

void ring_route_class(const struct ring_model *m, const struct ring_route *route, enum path_class *intra,
		      enum path_class *inter)
{
	const int *o = route->order;
	int n = m->ngpus, last = n - 1, leave = ring_is_tree(m) ? (ring_first_share(m) < 1) : last;

	for (int i = 0; i < last; i++)
		class_max(intra, m->leg[o[i] * n + o[i + 1]].class);
	if (m->inter) {
		class_max(inter, m->in[route->in * n + o[0]].class);
		class_max(inter, m->out[route->out * n + o[leave]].class);
	} else if (last > 0 && !ring_is_tree(m)) {
		class_max(intra, m->leg[o[last] * n + o[0]].class);
	}
}
