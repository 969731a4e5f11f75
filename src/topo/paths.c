/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/paths.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "topo/paths_search.h"
#include "topo/smi.h"

const char *const path_class_names[PATH_CLASSES + 1] = { "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C",
							 "PXN", "PHB", "SYS", "NET", "DIS", NULL };
const struct path_rules path_rules_default = { .nvb = true, .pxn = true };

static const double LOC_BW = 5000; /* NCCL's figure for inside a GPU */
enum { ENDS_MAX = 4096 };	   /* pairs of these take 0.5 GB */

/* Endpoints are numbered: GPUs, then ports, then NUMA nodes. A pair is kept once, its links from the lower number
 * to the higher. */
struct topo_paths {
	int nnodes, n;
	int *index; /* of a node, -1: no endpoint */
	struct path *path;
	size_t *at; /* of a pair's links in links[] */
	int *links;
	size_t nlinks, room;
};

static const struct path apart = { .class = PATH_DIS, .smi = SMI_SYS, .bottleneck = -1, .via = -1 };

static size_t pair_of(int i, int j)
{
	size_t lo = (size_t)(i < j ? i : j), hi = (size_t)(i < j ? j : i);

	return hi * (hi + 1) / 2 + lo;
}

/* --- classes --- */

int path_class_parse(const char *text)
{
	/* NCCL's levels before they had names; higher numbers were allowed */
	static const enum path_class numbers[] = { PATH_LOC, PATH_PIX, PATH_PXB, PATH_PHB, PATH_SYS, PATH_SYS };
	const size_t last = sizeof(numbers) / sizeof(numbers[0]) - 1;
	size_t n = 0;

	for (int i = 0; i < PATH_CLASSES; i++)
		if (!strcasecmp(text, path_class_names[i]))
			return i;
	if (!*text)
		return -1;
	for (const char *s = text; *s; s++) {
		if (!isdigit((unsigned char)*s))
			return -1;
		n = n > last ? n : n * 10 + (size_t)(*s - '0');
	}
	return (int)numbers[n > last ? last : n];
}

/* --- keeping --- */

/* Keeps @links as those of pair @at, and makes from them what follows from them. */
static enum taut_status keep_links(struct topo_paths *p, const struct topo *t, size_t at, const int *links, int n)
{
	struct path *path = &p->path[at];

	if (p->nlinks + (size_t)n > p->room) {
		size_t room = 2 * p->room + (size_t)n + 256;
		int *more = mem_realloc(p->links, room, sizeof(int));

		if (!more)
			return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
		p->links = more;
		p->room = room;
	}
	p->at[at] = p->nlinks;
	path->hops = n;
	path->bottleneck = -1;
	for (int i = 0; i < n; i++) {
		double bw = t->links[links[i]].bw_gbps;

		p->links[p->nlinks++] = links[i];
		/* of equals the lowest number, which is the same in both directions */
		if (path->bottleneck < 0 || bw < path->bw_gbps ||
		    (bw <= path->bw_gbps && links[i] < path->bottleneck)) {
			path->bottleneck = links[i];
			path->bw_gbps = bw;
		}
	}
	return TAUT_OK;
}

/* Keeps the way from @a by @via to @b, both known. */
static enum taut_status keep_joined(struct topo_paths *p, const struct topo *t, int a, int via, int b,
				    enum path_class class)
{
	int na = paths_get(p, a, via)->hops, n = na + paths_get(p, via, b)->hops;
	int lo = p->index[a] < p->index[b] ? a : b, hi = lo == a ? b : a;
	int *links = mem_calloc((size_t)n, sizeof(int));
	size_t at = pair_of(p->index[a], p->index[b]);
	enum taut_status st;

	if (!links)
		return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
	na = paths_links(p, lo, via, links, n);
	paths_links(p, via, hi, links + na, n - na);
	p->path[at].class = class;
	p->path[at].via = via;
	st = keep_links(p, t, at, links, n);
	mem_free(links);
	return st;
}

/* --- the ways without a GPU in between --- */

struct from {
	struct topo_paths *p;
	const struct topo *t;
	int index; /* of the endpoint that the search starts at */
};

static enum taut_status found_one(void *ctx, int node, enum path_class class, const int *links, int nlinks)
{
	struct from *f = ctx;
	int to = f->p->index[node];

	if (to <= f->index) /* no endpoint, or found from the other side */
		return TAUT_OK;
	f->p->path[pair_of(f->index, to)].class = class;
	return keep_links(f->p, f->t, pair_of(f->index, to), links, nlinks);
}

static enum taut_status find_direct(struct topo_paths *p, struct search *s, const struct topo *t)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; !st && i < t->nnodes; i++) {
		struct from f = { .p = p, .t = t, .index = p->index[i] };

		if (f.index >= 0)
			st = search_from(s, i, found_one, &f);
	}
	return st;
}

/* --- NVLink by way of a GPU --- */

static bool gpu_neighbour(const struct topo *t, int gpu, int link, int *other)
{
	const struct topo_link *l = &t->links[link];

	*other = l->a == gpu ? l->b : l->a;
	return (l->kind == LINK_NVLINK || l->kind == LINK_XGMI) && t->nodes[*other].kind == TOPO_GPU;
}

/* The GPU between @a and @b, linked to both, that gives the widest way; -1: none. */
static int widest_between(const struct topo_paths *p, const struct topo *t, int a, int b)
{
	double best = 0;
	int via = -1;

	for (int i = 0; i < t->nodes[a].nlinks; i++) {
		const struct path *second;
		double bw = t->links[t->nodes[a].links[i]].bw_gbps;
		int mid;

		if (!gpu_neighbour(t, a, t->nodes[a].links[i], &mid) || mid == b)
			continue;
		second = paths_get(p, mid, b);
		if (second->class != PATH_NVL || second->hops != 1)
			continue;
		bw = second->bw_gbps < bw ? second->bw_gbps : bw;
		if (bw > best || (bw >= best && mid < via)) {
			best = bw;
			via = mid;
		}
	}
	return via;
}

static enum taut_status find_nvb(struct topo_paths *p, const struct topo *t)
{
	const int *gpus = t->of[TOPO_GPU];

	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		for (int j = i + 1; j < t->count[TOPO_GPU]; j++) {
			bool far = paths_get(p, gpus[i], gpus[j])->class > PATH_NVB;
			int via = far ? widest_between(p, t, gpus[i], gpus[j]) : -1;
			enum taut_status st = via < 0 ? TAUT_OK : keep_joined(p, t, gpus[i], via, gpus[j], PATH_NVB);

			if (st)
				return st;
		}
	return TAUT_OK;
}

/* --- PCI by way of the chip-to-chip link --- */

static bool starts_chip_to_chip(const struct topo_paths *p, const struct topo *t, int gpu, int net)
{
	int link;

	return paths_links(p, gpu, net, &link, 1) > 0 && t->links[link].kind == LINK_C2C;
}

/* Wider is nearer, as NCCL sees it: what a GPU reaches through a narrow bridge is not its own port. */
static bool nearer(const struct path *a, const struct path *b)
{
	return a->bw_gbps > b->bw_gbps || (a->bw_gbps >= b->bw_gbps && a->class < b->class);
}

/* Those of @from (@n nodes) to which @node is nearest, in order; returns how many. */
static int nearest_of(const struct topo_paths *p, int node, const int *from, int n, int *out)
{
	int count = 0;

	for (int i = 0; i < n; i++) {
		const struct path *path = paths_get(p, node, from[i]);

		if (path->class == PATH_DIS)
			continue;
		if (count && nearer(path, paths_get(p, node, out[0])))
			count = 0;
		if (!count || !nearer(paths_get(p, node, out[0]), path))
			out[count++] = from[i];
	}
	return count;
}

/* Only to the ports that are nearest to the GPU: from the others PXN may be the better way. */
static void name_p2c(struct topo_paths *p, const struct topo *t, int *scratch)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		int gpu = t->of[TOPO_GPU][i], n;

		n = nearest_of(p, gpu, t->of[TOPO_NET], t->count[TOPO_NET], scratch);
		for (int k = 0; k < n; k++) {
			struct path *path = &p->path[pair_of(p->index[gpu], p->index[scratch[k]])];

			if (path->class == PATH_PHB && starts_chip_to_chip(p, t, gpu, scratch[k]))
				path->class = PATH_P2C;
		}
	}
}

/* --- NVLink to a GPU that is near the port --- */

/* The GPU that relays for @net: of the nearest ones that which relays for the fewest ports so far; -1: none. @load
 * counts by endpoint number. */
static int choose_relay(const struct topo_paths *p, const struct topo *t, int net, int *scratch, int *load)
{
	int n = nearest_of(p, net, t->of[TOPO_GPU], t->count[TOPO_GPU], scratch), best = -1;

	for (int i = 0; i < n; i++)
		if (best < 0 || load[p->index[scratch[i]]] < load[p->index[best]])
			best = scratch[i];
	if (best >= 0)
		load[p->index[best]]++;
	return best;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* NCCL's conditions, but the way over NVLink counts as well: it must not be the narrower one. Where it is not known
 * whether cards may access the GPU, they may. */
static bool can_relay(const struct topo_paths *p, const struct topo *t, int gpu, int relay, int net)
{
	const struct path *own = paths_get(p, gpu, net), *near = paths_get(p, relay, net),
			  *nvlink = paths_get(p, gpu, relay);

	return gpu != relay && near->class <= PATH_P2C && t->nodes[relay].gpu.gdr != 0 && t->nodes[net].net.gdr != 0 &&
	       nvlink->class <= PATH_NVL && t->nodes[gpu].machine == t->nodes[relay].machine &&
	       (smaller(near->bw_gbps, nvlink->bw_gbps) > own->bw_gbps || own->class > PATH_PXN);
}

/* Where the port's own relay has no NVLink to the GPU, another near GPU may: the one that gives the widest way; -1. */
static int other_relay(const struct topo_paths *p, const struct topo *t, int gpu, int net)
{
	double best_bw = 0;
	int best = -1;

	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		int relay = t->of[TOPO_GPU][i];
		double bw = smaller(paths_get(p, gpu, relay)->bw_gbps, paths_get(p, relay, net)->bw_gbps);

		if (bw > best_bw && can_relay(p, t, gpu, relay, net)) {
			best_bw = bw;
			best = relay;
		}
	}
	return best;
}

static enum taut_status find_pxn(struct topo_paths *p, const struct topo *t, int *scratch, int *load)
{
	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		int net = t->of[TOPO_NET][i], relay = choose_relay(p, t, net, scratch, load);

		for (int k = 0; relay >= 0 && k < t->count[TOPO_GPU]; k++) {
			int gpu = t->of[TOPO_GPU][k], via = relay;
			enum taut_status st = TAUT_OK;

			if (t->nodes[gpu].machine != t->nodes[net].machine)
				continue;
			if (!can_relay(p, t, gpu, relay, net))
				via = other_relay(p, t, gpu, net);
			if (via >= 0)
				st = keep_joined(p, t, gpu, via, net, PATH_PXN);
			if (st)
				return st;
		}
	}
	return TAUT_OK;
}

static enum taut_status find_relayed(struct topo_paths *p, const struct topo *t, const struct path_rules *rules)
{
	int *scratch = mem_calloc(2 * (size_t)p->n + 1, sizeof(int));
	enum taut_status st = TAUT_OK;

	if (!scratch)
		return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
	name_p2c(p, t, scratch);
	if (rules->nvb)
		st = find_nvb(p, t);
	if (!st && rules->pxn)
		st = find_pxn(p, t, scratch, scratch + p->n);
	mem_free(scratch);
	return st;
}

/* --- the whole --- */

static void number_endpoints(struct topo_paths *p, const struct topo *t)
{
	static const enum topo_kind kinds[] = { TOPO_GPU, TOPO_NET, TOPO_CPU };

	for (int i = 0; i < t->nnodes; i++)
		p->index[i] = -1;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (int i = 0; i < t->count[kinds[k]]; i++)
			p->index[t->of[kinds[k]][i]] = p->n++;
}

static void start_pairs(struct topo_paths *p, const struct topo *t)
{
	for (int a = 0; a < t->nnodes; a++)
		for (int b = 0; p->index[a] >= 0 && b <= a; b++) {
			struct path *path;

			if (p->index[b] < 0)
				continue;
			path = &p->path[pair_of(p->index[a], p->index[b])];
			*path = apart;
			path->smi = smi_class_of(t, a, b, &path->nv);
			if (a == b) {
				path->class = PATH_LOC;
				path->bw_gbps = LOC_BW;
			}
		}
}

static enum taut_status alloc_pairs(struct topo_paths *p, const struct topo *t)
{
	size_t pairs;

	p->nnodes = t->nnodes;
	p->index = mem_calloc((size_t)t->nnodes + 1, sizeof(int));
	if (!p->index)
		return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
	number_endpoints(p, t);
	if (p->n > ENDS_MAX)
		return fail(TAUT_ERR_ARG, "%s: %d GPUs, ports and NUMA nodes; paths are computed for up to %d",
			    t->source, p->n, ENDS_MAX);
	pairs = pair_of(0, p->n) + 1;
	p->path = mem_calloc(pairs, sizeof(*p->path));
	p->at = mem_calloc(pairs, sizeof(*p->at));
	if (!p->path || !p->at)
		return fail(TAUT_ERR_NOMEM, "no memory for the paths of %s: %d GPUs, ports and NUMA nodes", t->source,
			    p->n);
	return TAUT_OK;
}

enum taut_status paths_create(struct topo_paths **out, const struct topo *t, const struct path_rules *rules)
{
	struct topo_paths *p = NULL;
	struct search *s = NULL;
	enum taut_status st = search_create(&s, t); /* first: it refuses what is too large */

	if (st)
		return st;
	p = mem_calloc(1, sizeof(*p));
	st = p ? alloc_pairs(p, t) : fail(TAUT_ERR_NOMEM, "no memory for the paths of %s", t->source);
	if (st)
		goto err_free;
	start_pairs(p, t);
	st = find_direct(p, s, t);
	if (!st)
		st = find_relayed(p, t, rules);
	if (st)
		goto err_free;
	search_free(s);
	*out = p;
	return TAUT_OK;
err_free:
	search_free(s);
	paths_free(p);
	return st;
}

void paths_free(struct topo_paths *p)
{
	if (!p)
		return;
	mem_free(p->index);
	mem_free(p->path);
	mem_free(p->at);
	mem_free(p->links);
	mem_free(p);
}

static bool endpoint(const struct topo_paths *p, int node)
{
	return node >= 0 && node < p->nnodes && p->index[node] >= 0;
}

const struct path *paths_get(const struct topo_paths *p, int a, int b)
{
	if (!endpoint(p, a) || !endpoint(p, b))
		return &apart;
	return &p->path[pair_of(p->index[a], p->index[b])];
}

int paths_links(const struct topo_paths *p, int a, int b, int *links, int max)
{
	int n = paths_get(p, a, b)->hops;
	const int *at;

	if (!n)
		return 0;
	at = p->links + p->at[pair_of(p->index[a], p->index[b])];
	for (int i = 0; i < n && i < max; i++)
		links[i] = p->index[a] < p->index[b] ? at[i] : at[n - 1 - i];
	return n;
}
