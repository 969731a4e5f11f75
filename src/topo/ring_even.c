/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_even.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double eps = 1e-4;

/* What was taken at one stage, before the next look at what is left. */
struct stage {
	int first, batch; /* in routes[] */
	int skip;	  /* most used routes that led nowhere */
};

struct even {
	struct ring_pack *pk;
	const struct ring_limits *lim;
	double *slots;
	int n, taken, nstages;
	int *routes;
	struct stage stages[CHANNELS_MAX + 1];
};

static const double *load_of(const struct ring_pack *pk, int route)
{
	return pk->load + (size_t)route * (size_t)pk->m->nres;
}

/* Chains use halves and quarters of what they carry. */
static void cut_slots(struct even *e, double bw)
{
	double unit = ring_is_tree(e->pk->m) ? 4 : 1;

	for (int r = 0; r < e->pk->m->nres; r++)
		e->slots[r] = floor(unit * e->pk->m->cap[r] / bw + eps) / unit;
}

static bool fits(const struct even *e, int route)
{
	for (int r = 0; r < e->pk->m->nres; r++)
		if (load_of(e->pk, route)[r] > e->slots[r] + eps)
			return false;
	return true;
}

static void take(struct even *e, int route, double sign)
{
	for (int r = 0; r < e->pk->m->nres; r++) {
		e->slots[r] -= sign * load_of(e->pk, route)[r];
		if (e->slots[r] < eps)
			e->slots[r] = 0;
	}
}

/* The most used route that fits, after @skip of them; -1: none. Rates of those taken are struck out. */
static int most_used(struct even *e, int skip)
{
	for (;;) {
		int best = -1;

		for (int k = 0; k < e->pk->nroutes; k++)
			if (e->pk->rate[k] > eps && (best < 0 || e->pk->rate[k] > e->pk->rate[best] + eps))
				best = k;
		if (best < 0)
			return -1;
		if (fits(e, best) && skip-- == 0)
			return best;
		e->pk->rate[best] = 0;
	}
}

/* Takes up to stage->batch routes by the rates of the last solve; returns how many. */
static int advance(struct even *e, struct stage *s)
{
	int skip = s->skip, had = e->taken;

	s->first = e->taken;
	while (e->taken < had + s->batch) {
		int route = most_used(e, skip);

		if (route < 0)
			break;
		skip = 0;
		e->routes[e->taken++] = route;
		take(e, route, 1);
		e->pk->rate[route] -= 1;
	}
	return e->taken - had;
}

/* Gives back what the last stage took, so that it tries fewer, or another one. False: there is no last stage. */
static bool retreat(struct even *e)
{
	struct stage *s;

	if (!e->nstages)
		return false;
	s = &e->stages[--e->nstages];
	while (e->taken > s->first)
		take(e, e->routes[--e->taken], -1);
	if (s->batch > 1)
		s->batch /= 2;
	else
		s->skip++;
	return true;
}

static enum taut_status search(struct even *e, double work)
{
	double until = ring_pack_work(e->pk) + work;
	int tries = 4 * e->n + 32;
	bool back = false;

	while (e->taken < e->n && tries-- > 0) {
		struct stage *s = &e->stages[e->nstages];
		double left = e->n - e->taken, least = left * (1 - eps);
		enum taut_status st = ring_pack_solve(e->pk, e->slots, e->lim, least, left);

		if (st)
			return st;
		if (!back)
			*s = (struct stage){ .batch = (e->n - e->taken + 3) / 4 };
		back = false;
		if (e->pk->total >= least && advance(e, s)) {
			e->nstages++;
			continue;
		}
		back = true;
		if (ring_pack_work(e->pk) > until || !retreat(e))
			return TAUT_OK;
	}
	return TAUT_OK;
}

enum taut_status ring_even(struct ring_pack *pk, const struct ring_limits *lim, int n, double bw, double work,
			   int *routes, int *found)
{
	struct even e = { .pk = pk, .lim = lim, .n = n, .routes = routes };
	enum taut_status st;

	*found = 0;
	e.slots = mem_calloc((size_t)pk->m->nres + 1, sizeof(*e.slots));
	if (!e.slots)
		return fail(TAUT_ERR_NOMEM, "channels: no memory for %d links", pk->m->nres);
	cut_slots(&e, bw);
	st = search(&e, work);
	if (!st && e.taken == n)
		*found = n;
	mem_free(e.slots);
	return st;
}
