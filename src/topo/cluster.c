/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/cluster.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- machines of one NVLink domain as one system --- */

struct cluster_domain cluster_domain_of(const struct topo *t)
{
	struct cluster_domain d = { 0, -1 };

	if (t->nmachines != 1 || t->count[TOPO_NVS] != 1)
		return d;
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		const struct topo_gpu *g = &t->nodes[t->of[TOPO_GPU][i]].gpu;

		if (i && (g->fabric_hash != d.fabric || g->clique != d.clique))
			return (struct cluster_domain){ 0, -1 };
		d = (struct cluster_domain){ g->fabric_hash, g->clique };
	}
	return d;
}

/* The nodes of @t as those of machine @m of @j; their numbers there in @map. The NVSwitches are one node for all. */
static enum taut_status join_nodes(struct topo *j, const struct topo *t, int m, int *map, int *nvs)
{
	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];

		map[i] = n->kind == TOPO_NVS && *nvs >= 0 ? *nvs : topo_add_node(j, n->kind, -1);
		if (map[i] < 0)
			return TAUT_ERR_NOMEM;
		if (map[i] == *nvs)
			continue;
		j->nodes[map[i]] = *n;
		j->nodes[map[i]].machine = n->kind == TOPO_NVS ? 0 : m;
		j->nodes[map[i]].nlinks = 0;
		j->nodes[map[i]].links = NULL;
		if (n->kind == TOPO_CPU)
			j->nodes[map[i]].cpu.host_hash = (uint64_t)m + 1;
		if (n->kind == TOPO_NVS)
			*nvs = map[i];
	}
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].parent >= 0)
			j->nodes[map[i]].parent = map[t->nodes[i].parent];
	return TAUT_OK;
}

static enum taut_status join_one(struct topo *j, const struct topo *t, int m, int *nvs)
{
	int *map = mem_calloc((size_t)t->nnodes, sizeof(*map));
	enum taut_status st;

	if (!map)
		return fail(TAUT_ERR_NOMEM, "no memory to join %d nodes of a machine", t->nnodes);
	st = join_nodes(j, t, m, map, nvs);
	for (int i = 0; i < t->nlinks && !st; i++) {
		const struct topo_link *l = &t->links[i];

		st = topo_add_link(j, map[l->a], map[l->b], l->kind, l->count, l->bw_gbps);
	}
	for (int i = 0; i < t->nnotes; i++)
		topo_note(j, "%s", t->notes[i].text);
	mem_free(map);
	return st;
}

/* Known where the machines agree. */
static void join_flags(struct topo *j, const struct topo *t, bool first)
{
	j->iommu = first || j->iommu == t->iommu ? t->iommu : -1;
	j->peermem = first || j->peermem == t->peermem ? t->peermem : -1;
	j->vm = j->vm || t->vm;
}

/* Of a machine what it knows; between machines nobody has asked the driver. */
static enum taut_status join_p2p(struct topo *j, const struct topo *const *parts, int n)
{
	size_t all = (size_t)j->count[TOPO_GPU], first = 0;

	for (int m = 0; m < n; m++)
		if (!parts[m]->p2p)
			return TAUT_OK;
	j->p2p = mem_calloc(all, all); /* P2P_UNKNOWN */
	if (!j->p2p)
		return fail(TAUT_ERR_NOMEM, "no memory for the pairs of %zu GPUs", all);
	for (int m = 0; m < n; m++) {
		size_t gpus = (size_t)parts[m]->count[TOPO_GPU];

		for (size_t i = 0; i < gpus; i++)
			memcpy(j->p2p + (first + i) * all + first, parts[m]->p2p + i * gpus, gpus);
		first += gpus;
	}
	return TAUT_OK;
}

static enum taut_status join(struct topo **out, const struct topo *const *parts, int n)
{
	struct topo *j;
	int nvs = -1;
	enum taut_status st = topo_create(&j, parts[0]->source);

	if (st)
		return st;
	for (int m = 0; m < n && !st; m++) {
		join_flags(j, parts[m], m == 0);
		st = join_one(j, parts[m], m, &nvs);
	}
	if (!st)
		st = topo_finish(j);
	if (!st)
		st = join_p2p(j, parts, n);
	if (st) {
		topo_free(j);
		return st;
	}
	*out = j;
	return TAUT_OK;
}

/* --- making --- */

struct build {
	struct cluster *c;
	const struct topo *const *topos;
	uint64_t *hash; /* of a graph */
	int *like;	/* of a graph: the first that looks the same */
	int *sorted;	/* machines, those of a system together, in order */
	int *first;	/* of a system: where its machines begin in `sorted`; one more at the end */
	int *model;	/* of a kind: the system that it was made for */
	const struct topo **parts;
};

struct key {
	struct cluster_domain domain;
	int machine;
};

/* Machines of a domain together, machines without one each alone. */
static int compare_domains(const struct cluster_domain *a, const struct cluster_domain *b)
{
	if (a->fabric != b->fabric)
		return a->fabric < b->fabric ? -1 : 1;
	return a->fabric ? (a->clique > b->clique) - (a->clique < b->clique) : 0;
}

static int by_domain(const void *pa, const void *pb)
{
	const struct key *a = pa, *b = pb;
	int d = compare_domains(&a->domain, &b->domain);

	return d ? d : (a->machine > b->machine) - (a->machine < b->machine);
}

/* Each machine's leader: the first of its system; and its number in that. */
static enum taut_status find_leaders(struct cluster *c, const struct cluster_machine *machines)
{
	size_t n = (size_t)c->nmachines;
	struct key *keys = mem_calloc(n, sizeof(*keys));

	if (!keys)
		return fail(TAUT_ERR_NOMEM, "no memory to sort %zu machines", n);
	for (int i = 0; i < c->nmachines; i++)
		keys[i] = (struct key){ machines[i].domain, i };
	qsort(keys, n, sizeof(*keys), by_domain);
	for (int i = 0, first = 0; i < c->nmachines; i++) {
		if (!keys[i].domain.fabric || compare_domains(&keys[i].domain, &keys[first].domain))
			first = i;
		c->places[keys[i].machine] = (struct cluster_place){ keys[first].machine, i - first };
	}
	mem_free(keys);
	return TAUT_OK;
}

/* Leaders become numbers of systems; machines sorted by them. */
static void number_systems(struct build *b)
{
	struct cluster *c = b->c;

	for (int i = 0; i < c->nmachines; i++) {
		struct cluster_place *p = &c->places[i];

		p->system = p->machine ? c->places[p->system].system : c->nsystems++;
		b->first[p->system + 1]++;
	}
	for (int s = 0; s < c->nsystems; s++)
		b->first[s + 1] += b->first[s];
	for (int i = 0; i < c->nmachines; i++)
		b->sorted[b->first[c->places[i].system] + c->places[i].machine] = i;
}

/* Systems @x and @y have machines that look alike, one by one. */
static bool same_make(const struct build *b, const struct cluster_machine *machines, int x, int y)
{
	int n = b->first[x + 1] - b->first[x];

	if (n != b->first[y + 1] - b->first[y])
		return false;
	for (int i = 0; i < n; i++)
		if (b->like[machines[b->sorted[b->first[x] + i]].topo] !=
		    b->like[machines[b->sorted[b->first[y] + i]].topo])
			return false;
	return true;
}

static enum taut_status add_kind(struct build *b, const struct cluster_machine *machines, int system)
{
	struct cluster *c = b->c;
	int at = b->first[system], n = b->first[system + 1] - at;
	struct topo **kinds = mem_realloc(c->kinds, (size_t)c->nkinds + 1, sizeof(*kinds));
	enum taut_status st;

	if (!kinds)
		return fail(TAUT_ERR_NOMEM, "no memory for %d kinds of systems", c->nkinds + 1);
	c->kinds = kinds;
	for (int i = 0; i < n; i++)
		b->parts[i] = b->topos[b->like[machines[b->sorted[at + i]].topo]];
	st = n == 1 ? topo_copy(&kinds[c->nkinds], b->parts[0]) : join(&kinds[c->nkinds], b->parts, n);
	if (st)
		return st;
	b->model[c->nkinds++] = system;
	return TAUT_OK;
}

static enum taut_status find_kinds(struct build *b, const struct cluster_machine *machines)
{
	struct cluster *c = b->c;
	enum taut_status st = TAUT_OK;

	for (int s = 0; s < c->nsystems && !st; s++) {
		int k = 0;

		while (k < c->nkinds && !same_make(b, machines, b->model[k], s))
			k++;
		if (k == c->nkinds)
			st = add_kind(b, machines, s);
		c->kind_of[s] = k;
		if (!st)
			c->ngpus += c->kinds[k]->count[TOPO_GPU];
	}
	return st;
}

/* topo_equal() would tell machines of a kind apart by their bus numbers and guids; the hash does not. */
static bool alike(const struct build *b, int x, int y)
{
	const struct topo *t = b->topos[x], *u = b->topos[y];

	return b->hash[x] == b->hash[y] && t->nlinks == u->nlinks && !memcmp(t->count, u->count, sizeof(t->count));
}

static enum taut_status find_alike(struct build *b, int ntopos)
{
	for (int i = 0; i < ntopos; i++) {
		b->hash[i] = topo_hash(b->topos[i]);
		if (!b->hash[i])
			return TAUT_ERR_NOMEM;
		while (b->like[i] < i && (b->like[b->like[i]] != b->like[i] || !alike(b, b->like[i], i)))
			b->like[i]++;
	}
	return TAUT_OK;
}

static enum taut_status fill(struct cluster *c, const struct topo *const *topos, int ntopos,
			     const struct cluster_machine *machines)
{
	size_t n = (size_t)c->nmachines;
	struct build b = { .c = c,
			   .topos = topos,
			   .hash = mem_calloc((size_t)ntopos, sizeof(*b.hash)),
			   .like = mem_calloc((size_t)ntopos, sizeof(int)),
			   .sorted = mem_calloc(n, sizeof(int)),
			   .first = mem_calloc(n + 1, sizeof(int)),
			   .model = mem_calloc(n, sizeof(int)),
			   .parts = mem_calloc(n, sizeof(*b.parts)) };
	enum taut_status st = TAUT_OK;

	if (!b.hash || !b.like || !b.sorted || !b.first || !b.model || !b.parts || !c->kind_of || !c->places)
		st = fail(TAUT_ERR_NOMEM, "no memory for a cluster of %zu machines", n);
	if (!st)
		st = find_leaders(c, machines);
	if (!st)
		st = find_alike(&b, ntopos);
	if (!st) {
		number_systems(&b);
		st = find_kinds(&b, machines);
	}
	mem_free(b.parts);
	mem_free(b.model);
	mem_free(b.first);
	mem_free(b.sorted);
	mem_free(b.like);
	mem_free(b.hash);
	return st;
}

static enum taut_status check_arguments(const struct topo *const *topos, int ntopos,
					const struct cluster_machine *machines, int nmachines)
{
	if (nmachines < 1)
		return fail(TAUT_ERR_ARG, "a cluster of %d machines: 1 at least", nmachines);
	for (int i = 0; i < nmachines; i++)
		if (machines[i].topo < 0 || machines[i].topo >= ntopos)
			return fail(TAUT_ERR_ARG, "machine %d of a cluster looks like graph %d of %d", i,
				    machines[i].topo, ntopos);
	for (int i = 0; i < ntopos; i++)
		if (topos[i]->nmachines > 1)
			return fail(TAUT_ERR_ARG, "%s has %d machines already: a cluster is made of single ones",
				    topos[i]->source, topos[i]->nmachines);
	return TAUT_OK;
}

enum taut_status cluster_create(struct cluster **out, const struct topo *const *topos, int ntopos,
				const struct cluster_machine *machines, int nmachines)
{
	enum taut_status st = check_arguments(topos, ntopos, machines, nmachines);
	struct cluster *c;

	if (st)
		return st;
	c = mem_calloc(1, sizeof(*c));
	if (!c)
		return fail(TAUT_ERR_NOMEM, "no memory for a cluster of %d machines", nmachines);
	c->nmachines = nmachines;
	c->kind_of = mem_calloc((size_t)nmachines, sizeof(*c->kind_of));
	c->places = mem_calloc((size_t)nmachines, sizeof(*c->places));
	st = fill(c, topos, ntopos, machines);
	if (st) {
		cluster_free(c);
		return st;
	}
	*out = c;
	return TAUT_OK;
}

void cluster_free(struct cluster *c)
{
	if (!c)
		return;
	for (int k = 0; k < c->nkinds; k++)
		topo_free(c->kinds[k]);
	mem_free(c->kinds);
	mem_free(c->kind_of);
	mem_free(c->places);
	mem_free(c);
}
