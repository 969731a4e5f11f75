/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two graphs are the same, and a hash for what looks the same. Both by colours: a node's first colour is what
 * it is by itself; in each round it takes in the colours of what is above, what it is linked to, and its machine, until
 * no more nodes can be told apart. Nodes of one colour then stand for each other. */
#include "topo/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- mixing --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return mix(h, 0x7e);
}

static uint64_t mix_double(uint64_t h, double d)
{
	uint64_t bits;

	d += 0.0; /* one zero */
	memcpy(&bits, &d, sizeof(bits));
	return mix(h, bits);
}

static uint64_t mix_int(uint64_t h, long v)
{
	return mix(h, (uint64_t)v);
}

/* --- what a node is by itself; @who: with what tells machines of a kind apart --- */

static uint64_t mix_pci(uint64_t h, const struct topo_pci *p, bool who)
{
	int64_t key = topo_busid_key(p->busid);

	h = key < 0 ? mix_text(h, p->busid) : mix_int(h, who ? key : key & 0xf);
	h = mix_int(h, (long)p->class);
	h = mix_int(h, (long)p->vendor << 16 | p->device);
	h = mix_int(h, (long)p->subvendor << 16 | p->subdevice);
	h = mix_double(h, p->gts);
	h = mix_int(h, p->width);
	h = mix_double(h, p->max_gts);
	h = mix_int(h, p->max_width);
	return mix_int(h, p->acs);
}

static uint64_t mix_cpu(uint64_t h, const struct topo_cpu *c, bool who)
{
	h = mix_int(h, c->numa);
	h = mix_text(h, c->arch);
	h = mix_text(h, c->vendor);
	h = mix_int(h, c->family);
	h = mix_int(h, c->model);
	h = mix_int(h, c->nmask);
	for (int i = 0; i < c->nmask; i++)
		h = mix(h, c->affinity[i]);
	/* the kernel keeps a little more or less on each boot */
	return who ? mix(mix(h, c->memory), c->host_hash) : h;
}

static uint64_t mix_gpu(uint64_t h, const struct topo_gpu *g, bool who)
{
	h = mix_int(h, g->dev);
	h = mix_int(h, g->sm);
	h = mix_int(h, g->gdr);
	h = mix_text(h, g->gcn);
	h = mix_int(h, g->arch);
	h = mix_int(h, g->listed);
	h = mix_int(h, g->nvlinks);
	h = mix_int(h, g->nvlink_version);
	h = mix(h, g->memory);
	return who ? mix_int(mix_int(mix(h, g->fabric_hash), g->clique), g->rank) : h;
}

static uint64_t mix_net(uint64_t h, const struct topo_net *n, bool who)
{
	h = mix_int(h, n->dev);
	h = mix_int(h, n->speed_mbit);
	h = mix_int(h, n->port);
	h = mix_double(h, n->latency_us);
	h = mix_int(h, n->maxconn);
	h = mix_int(h, n->gdr);
	h = mix_int(h, n->coll);
	h = mix_int(h, (long)n->listed << 2 | (long)n->keep << 1 | (long)n->is_virtual);
	h = mix_int(h, n->rail);
	h = mix_int(h, n->plane);
	h = mix_text(h, n->layer);
	h = mix_text(h, n->state);
	h = mix_text(h, n->driver);
	h = mix_text(h, n->firmware);
	h = mix_text(h, n->rdma);
	h = mix_text(h, n->gids);
	return who ? mix(h, n->guid) : h;
}

static uint64_t content(const struct topo_node *n, bool who)
{
	uint64_t h = mix_text(mix_int(1, (long)n->kind), n->name);

	h = mix_pci(h, &n->pci, who);
	switch (n->kind) {
	case TOPO_CPU:
		return mix_cpu(h, &n->cpu, who);
	case TOPO_GPU:
		return mix_gpu(h, &n->gpu, who);
	case TOPO_NET:
		return mix_net(h, &n->net, who);
	case TOPO_NVS:
		return mix_int(h, n->switches);
	default:
		return h;
	}
}

/* --- colours --- */

struct colours {
	const struct topo *t;
	uint64_t *now, *next, *sorted; /* of nodes */
	uint64_t *machine;
	int distinct, rounds;
};

static int compare_u64(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

static int count_distinct(struct colours *c)
{
	int n = 0;

	if (c->t->nnodes)
		memcpy(c->sorted, c->now, (size_t)c->t->nnodes * sizeof(*c->now));
	qsort(c->sorted, (size_t)c->t->nnodes, sizeof(*c->sorted), compare_u64);
	for (int i = 0; i < c->t->nnodes; i++)
		n += !i || c->sorted[i] != c->sorted[i - 1];
	return n;
}

/* Sums do not depend on an order. */
static void one_round(struct colours *c)
{
	const struct topo *t = c->t;

	memset(c->machine, 0, ((size_t)t->nmachines + 1) * sizeof(*c->machine));
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind != TOPO_NVS) /* of all machines */
			c->machine[t->nodes[i].machine] += mix(c->now[i], 5);
	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];

		c->next[i] = mix(c->now[i], n->kind == TOPO_NVS ? 0 : c->machine[n->machine]);
		c->next[i] = mix(c->next[i], n->parent < 0 ? 0 : c->now[n->parent]);
	}
	for (int i = 0; i < t->nlinks; i++) {
		const struct topo_link *l = &t->links[i];
		uint64_t h = mix_double(mix_int(mix_int(3, (long)l->kind), l->count), l->bw_gbps);

		c->next[l->a] += mix(h, c->now[l->b]);
		c->next[l->b] += mix(h, c->now[l->a]);
	}
	for (int i = 0; i < t->nnodes; i++)
		c->now[i] = mix(c->next[i], 7);
}

static void settle(struct colours *c)
{
	int before;

	c->distinct = count_distinct(c);
	do {
		before = c->distinct;
		one_round(c);
		c->rounds++;
		c->distinct = count_distinct(c);
	} while (c->distinct > before);
}

static void colours_free(struct colours *c)
{
	mem_free(c->now);
	mem_free(c->next);
	mem_free(c->sorted);
	mem_free(c->machine);
}

/* Said when memory is out. */
static bool colours_make(struct colours *c, const struct topo *t, bool who)
{
	size_t n = (size_t)t->nnodes;

	*c = (struct colours){ .t = t };
	c->now = mem_calloc(n, sizeof(*c->now));
	c->next = mem_calloc(n, sizeof(*c->next));
	c->sorted = mem_calloc(n, sizeof(*c->sorted));
	c->machine = mem_calloc((size_t)t->nmachines + 1, sizeof(*c->machine));
	if (!c->now || !c->next || !c->sorted || !c->machine) {
		fail(TAUT_ERR_NOMEM, "no memory to compare the graph of %s", t->source);
		colours_free(c);
		return false;
	}
	for (int i = 0; i < t->nnodes; i++)
		c->now[i] = content(&t->nodes[i], who);
	return true;
}

static uint64_t hash_p2p(uint64_t h, const struct topo *t)
{
	size_t n = (size_t)t->count[TOPO_GPU];

	for (size_t i = 0; t->p2p && i < n * n; i++)
		h = mix_int(h, t->p2p[i]);
	return h;
}

uint64_t topo_hash(const struct topo *t)
{
	uint64_t h = mix_int(mix_int(mix_int(t->nmachines, t->iommu), t->peermem), t->vm);
	struct colours c;

	if (!colours_make(&c, t, false))
		return 0;
	settle(&c);
	for (int i = 0; i < t->nnodes; i++)
		h = mix(h, c.sorted[i]);
	colours_free(&c);
	return t->nmachines == 1 ? hash_p2p(h, t) : h; /* the order of machines is not fixed */
}

/* --- equality --- */

static bool differ(char *why, size_t len, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool differ(char *why, size_t len, const char *fmt, ...)
{
	va_list ap;

	if (!why)
		return false;
	va_start(ap, fmt);
	vsnprintf(why, len, fmt, ap);
	va_end(ap);
	return false;
}

static bool same_numbers(const struct topo *a, const struct topo *b, char *why, size_t len)
{
	static const char *const kinds[TOPO_KINDS] = {
		"NUMA nodes", "PCI nodes", "GPUs", "NVSwitches", "cards", "ports"
	};

	for (int k = 0; k < TOPO_KINDS; k++)
		if (a->count[k] != b->count[k])
			return differ(why, len, "%d and %d %s", a->count[k], b->count[k], kinds[k]);
	if (a->nmachines != b->nmachines)
		return differ(why, len, "%d and %d machines", a->nmachines, b->nmachines);
	if (a->nlinks != b->nlinks)
		return differ(why, len, "%d and %d links", a->nlinks, b->nlinks);
	if (a->iommu != b->iommu || a->peermem != b->peermem || a->vm != b->vm)
		return differ(why, len, "iommu %d and %d, peermem %d and %d, guest %d and %d", a->iommu, b->iommu,
			      a->peermem, b->peermem, a->vm, b->vm);
	return true;
}

/* The first node of @a whose colour @b does not have as often. */
static bool tell_colour(const struct colours *a, const struct colours *b, const char *what, char *why, size_t len)
{
	char name[96];
	int node = 0;

	for (int i = 0; i < a->t->nnodes; i++) {
		int more = 0;

		for (int j = 0; j < a->t->nnodes; j++)
			more += (a->now[j] == a->now[i]) - (b->now[j] == a->now[i]);
		if (more) {
			node = i;
			break;
		}
	}
	return differ(why, len, "%s has no equal: %s", topo_name(a->t, node, name, sizeof(name)), what);
}

static bool same_colours(const struct colours *a, const struct colours *b)
{
	return a->rounds == b->rounds &&
	       (!a->t->nnodes || !memcmp(a->sorted, b->sorted, (size_t)a->t->nnodes * sizeof(*a->sorted)));
}

static int first_with(const struct colours *c, uint64_t colour)
{
	for (int i = 0; i < c->t->nnodes; i++)
		if (c->now[i] == colour)
			return i;
	return -1;
}

static uint64_t first_twin(const struct colours *c)
{
	for (int i = 1; i < c->t->nnodes; i++)
		if (c->sorted[i] == c->sorted[i - 1])
			return c->sorted[i];
	return 0;
}

/* Gives the first node of the colour @twin one of its own; with it those that hang beside it and have no other link,
 * for they can stand for each other in any order. */
static void part(struct colours *c, uint64_t twin)
{
	const struct topo *t = c->t;
	int first = first_with(c, twin), k = 0;
	bool leaf = t->nodes[first].nlinks == 1 && t->nodes[first].parent >= 0;

	for (int i = first; i < t->nnodes; i++)
		if (c->now[i] == twin &&
		    (i == first || (leaf && t->nodes[i].nlinks == 1 && t->nodes[i].parent == t->nodes[first].parent)))
			c->now[i] = mix(mix(twin, (uint64_t)c->distinct + 11), (uint64_t)k++);
	settle(c);
}

/* Nodes that nothing tells apart are paired one by one, each pair with a colour of its own. */
static bool part_twins(struct colours *a, struct colours *b)
{
	while (a->distinct < a->t->nnodes) {
		uint64_t twin = first_twin(a);

		part(a, twin);
		part(b, twin);
		if (!same_colours(a, b))
			return false;
	}
	return true;
}

static bool same_link(const struct topo_link *l, const struct topo *b, int x, int y)
{
	const struct topo_node *n = &b->nodes[x];

	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *m = &b->links[n->links[i]];

		if (m->kind == l->kind && (m->a == x ? m->b : m->a) == y)
			return m->count == l->count && m->bw_gbps - l->bw_gbps == 0;
	}
	return false;
}

static int place_of(const struct topo *t, int gpu)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		if (t->of[TOPO_GPU][i] == gpu)
			return i;
	return 0;
}

static bool same_p2p(const struct topo *a, const struct topo *b, const int *map)
{
	int n = a->count[TOPO_GPU];

	if (!a->p2p || !b->p2p)
		return !a->p2p == !b->p2p;
	for (int i = 0; i < n; i++) {
		int bi = place_of(b, map[a->of[TOPO_GPU][i]]);

		for (int j = 0; j < n; j++)
			if (a->p2p[i * n + j] != b->p2p[bi * n + place_of(b, map[a->of[TOPO_GPU][j]])])
				return false;
	}
	return true;
}

/* @map: node of @b for each of @a. */
static bool same_by(const struct topo *a, const struct topo *b, const int *map, char *why, size_t len)
{
	char name[96];

	for (int i = 0; i < a->nnodes; i++) {
		int up = a->nodes[i].parent;

		if (content(&a->nodes[i], true) != content(&b->nodes[map[i]], true) ||
		    b->nodes[map[i]].parent != (up < 0 ? -1 : map[up]))
			return differ(why, len, "%s has no equal at its place", topo_name(a, i, name, sizeof(name)));
	}
	for (int i = 0; i < a->nlinks; i++)
		if (!same_link(&a->links[i], b, map[a->links[i].a], map[a->links[i].b]))
			return differ(why, len, "a link of %s differs",
				      topo_name(a, a->links[i].a, name, sizeof(name)));
	return same_p2p(a, b, map) || differ(why, len, "peer access between GPUs differs");
}

static bool match(struct colours *a, struct colours *b, char *why, size_t len)
{
	int *map = mem_calloc((size_t)a->t->nnodes, sizeof(*map));
	bool same;

	if (!map) {
		fail(TAUT_ERR_NOMEM, "no memory to compare the graph of %s", a->t->source);
		return differ(why, len, "no memory to compare");
	}
	for (int i = 0; i < a->t->nnodes; i++)
		map[i] = first_with(b, a->now[i]);
	same = same_by(a->t, b->t, map, why, len);
	mem_free(map);
	return same;
}

static bool compare(struct colours *a, struct colours *b, char *why, size_t len)
{
	a->distinct = count_distinct(a);
	b->distinct = count_distinct(b);
	if (!same_colours(a, b))
		return tell_colour(a, b, "what it is differs", why, len);
	settle(a);
	settle(b);
	if (!same_colours(a, b))
		return tell_colour(a, b, "its place or its links differ", why, len);
	if (!part_twins(a, b))
		return tell_colour(a, b, "its links differ", why, len);
	return match(a, b, why, len);
}

bool topo_equal(const struct topo *a, const struct topo *b, char *why, size_t len)
{
	struct colours ca, cb;
	bool same;

	if (!same_numbers(a, b, why, len))
		return false;
	if (!colours_make(&ca, a, true))
		return differ(why, len, "no memory to compare");
	if (!colours_make(&cb, b, true)) {
		colours_free(&ca);
		return differ(why, len, "no memory to compare");
	}
	same = compare(&ca, &cb, why, len);
	colours_free(&cb);
	colours_free(&ca);
	return same;
}
