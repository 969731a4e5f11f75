/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_pack.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "topo/ring_simplex.h"

enum { ROUNDS_MAX = 2000 };
/* Steps of one solve: a second or two. Only systems of hundreds of GPUs come here; what they have by then is good. */
static const double solve_work = 1e9;
/* Of the best total: closer than this is not looked for. */
static const double close_enough = 0.01, gain_eps = 1e-7;
/* A leg's price grows by this for each class, so that of equal routes the nearest is taken: the GPU beside the port
 * before one that PXN reaches. */
static const double far_price = 1e-7;

struct ring_work {
	struct ring_search *search;
	struct ring_prices prices;
	struct ring_simplex *simplex;
	int *first_port, *last_port; /* of each GPU: the port that its price is for */
	int *order;
	double *leg;  /* prices of legs, which those that a search uses start from */
	double steps; /* of pricing */
};

/* --- life --- */

static enum taut_status work_create(struct ring_work **out, const struct ring_model *m)
{
	size_t n = (size_t)m->ngpus;
	struct ring_work *w = mem_calloc(1, sizeof(*w));
	enum taut_status st;

	if (!w)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory");
	*out = w;
	w->prices.n = m->ngpus;
	w->prices.leg = mem_calloc(n * n, sizeof(double));
	w->leg = mem_calloc(n * n, sizeof(double));
	w->prices.first = mem_calloc(n, sizeof(double));
	w->prices.second = mem_calloc(n, sizeof(double));
	w->prices.last = mem_calloc(n, sizeof(double));
	w->first_port = mem_calloc(n, sizeof(int));
	w->last_port = mem_calloc(n, sizeof(int));
	w->order = mem_calloc(n, sizeof(int));
	if (!w->leg || !w->prices.leg || !w->prices.first || !w->prices.second || !w->prices.last || !w->first_port ||
	    !w->last_port || !w->order)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory for %d gpus", m->ngpus);
	st = ring_search_create(&w->search, m->ngpus, RING_EXACT_MAX);
	return st ? st : ring_simplex_create(&w->simplex, m->nres);
}

static void work_free(struct ring_work *w)
{
	if (!w)
		return;
	ring_search_free(w->search);
	ring_simplex_free(w->simplex);
	mem_free(w->leg);
	mem_free(w->prices.leg);
	mem_free(w->prices.first);
	mem_free(w->prices.second);
	mem_free(w->prices.last);
	mem_free(w->first_port);
	mem_free(w->last_port);
	mem_free(w->order);
	mem_free(w);
}

enum taut_status ring_pack_create(struct ring_pack **out, const struct ring_model *m)
{
	struct ring_pack *pk = mem_calloc(1, sizeof(*pk));
	enum taut_status st;

	if (!pk)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory");
	pk->m = m;
	pk->price = mem_calloc((size_t)m->nres + 1, sizeof(*pk->price));
	if (!pk->price) {
		st = fail(TAUT_ERR_NOMEM, "packing of rings: no memory for %d links", m->nres);
		goto err_free;
	}
	st = work_create(&pk->work, m);
	if (st)
		goto err_free;
	*out = pk;
	return TAUT_OK;
err_free:
	ring_pack_free(pk);
	return st;
}

void ring_pack_free(struct ring_pack *pk)
{
	if (!pk)
		return;
	work_free(pk->work);
	mem_free(pk->order);
	mem_free(pk->in);
	mem_free(pk->out);
	mem_free(pk->load);
	mem_free(pk->used);
	mem_free(pk->nused);
	mem_free(pk->rate);
	mem_free(pk->price);
	mem_free(pk);
}

double ring_pack_work(const struct ring_pack *pk)
{
	return pk->work->steps + ring_simplex_work(pk->work->simplex) + ring_search_work(pk->work->search);
}

/* --- routes --- */

static void *grown(void *array, size_t n, size_t size, bool *ok)
{
	void *bigger = mem_realloc(array, n, size);

	if (!bigger)
		*ok = false;
	return bigger ? bigger : array;
}

static enum taut_status pool_grow(struct ring_pack *pk)
{
	size_t room = pk->room ? 2 * (size_t)pk->room : 64;
	bool ok = true;

	pk->order = grown(pk->order, room * (size_t)pk->m->ngpus, sizeof(int), &ok);
	pk->in = grown(pk->in, room, sizeof(int), &ok);
	pk->out = grown(pk->out, room, sizeof(int), &ok);
	pk->load = grown(pk->load, room * (size_t)pk->m->nres, sizeof(double), &ok);
	pk->used = grown(pk->used, room * (size_t)pk->m->nres, sizeof(int), &ok);
	pk->nused = grown(pk->nused, room, sizeof(int), &ok);
	pk->rate = grown(pk->rate, room, sizeof(double), &ok);
	if (!ok)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory for %zu routes", room);
	pk->room = (int)room;
	return TAUT_OK;
}

struct ring_route ring_pack_route(const struct ring_pack *pk, int route)
{
	return (struct ring_route){ pk->in[route], pk->out[route], pk->order + (size_t)route * (size_t)pk->m->ngpus };
}

static double *load_of(const struct ring_pack *pk, int route)
{
	return pk->load + (size_t)route * (size_t)pk->m->nres;
}

static const int *used_of(const struct ring_pack *pk, int route)
{
	return pk->used + (size_t)route * (size_t)pk->m->nres;
}

static enum taut_status pool_add(struct ring_pack *pk, const struct ring_route *route)
{
	enum taut_status st = pk->nroutes == pk->room ? pool_grow(pk) : TAUT_OK;
	int k = pk->nroutes;

	if (st)
		return st;
	pk->in[k] = route->in;
	pk->out[k] = route->out;
	memcpy(pk->order + (size_t)k * (size_t)pk->m->ngpus, route->order, (size_t)pk->m->ngpus * sizeof(int));
	memset(load_of(pk, k), 0, (size_t)pk->m->nres * sizeof(double));
	ring_route_load(pk->m, route, load_of(pk, k));
	pk->nused[k] = 0;
	for (int r = 0; r < pk->m->nres; r++)
		if (load_of(pk, k)[r] > 0)
			pk->used[(size_t)k * (size_t)pk->m->nres + (size_t)pk->nused[k]++] = r;
	pk->rate[k] = 0;
	pk->nroutes++;
	return TAUT_OK;
}

static bool route_allowed(const struct ring_pack *pk, int k, const double *cap, const struct ring_limits *lim)
{
	struct ring_route route = ring_pack_route(pk, k);
	enum path_class intra = PATH_LOC, inter = PATH_LOC;

	ring_route_class(pk->m, &route, &intra, &inter);
	if (intra > lim->intra || inter > lim->inter)
		return false;
	for (int i = 0; i < pk->nused[k]; i++)
		if (cap[used_of(pk, k)[i]] <= 0)
			return false;
	return true;
}

/* --- prices --- */

static double leg_price(const struct ring_leg *leg, enum path_class limit, const double *cap, const double *price)
{
	double sum = far_price * leg->class;

	if (leg->class > limit || leg->class == PATH_DIS)
		return INFINITY;
	for (int i = 0; i < leg->nres; i++) {
		if (cap[leg->res[i]] <= 0)
			return INFINITY;
		sum += fmax(price[leg->res[i]], 0);
	}
	return sum;
}

static void price_legs(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, const double *price)
{
	const struct ring_model *m = pk->m;
	double *out = pk->work->leg;

	pk->work->steps += 2.0 * m->ngpus * m->ngpus;
	for (int i = 0; i < m->ngpus; i++)
		for (int j = 0; j < m->ngpus; j++) {
			double there = leg_price(&m->leg[i * m->ngpus + j], lim->intra, cap, price), back = there;

			if (ring_is_tree(m))
				back = leg_price(&m->leg[j * m->ngpus + i], lim->intra, cap, price);
			out[i * m->ngpus + j] = 0.5 * (there + back);
		}
}

/* Without ports a ring begins at GPU 0 and ends where it can go back to it; a chain has free ends. */
static void price_closed(struct ring_pack *pk)
{
	struct ring_prices *p = &pk->work->prices;

	for (int i = 0; i < p->n; i++) {
		bool tree = ring_is_tree(pk->m);

		p->first[i] = tree || i == 0 ? 0 : INFINITY;
		p->last[i] = tree ? 0 : p->leg[i * p->n];
		p->second[i] = 0;
		pk->work->first_port[i] = pk->work->last_port[i] = -1;
	}
}

/* Of all ports from @port on, or of that one. */
static void price_ports(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, const double *price,
			int port)
{
	const struct ring_model *m = pk->m;
	struct ring_prices *p = &pk->work->prices;
	double share = ring_first_share(m);
	int end = m->cross ? m->nports : port + 1;

	for (int i = 0; i < m->ngpus; i++) {
		p->first[i] = p->last[i] = INFINITY;
		for (int k = port; k < end; k++) {
			double in = leg_price(&m->in[k * m->ngpus + i], lim->inter, cap, price);
			double out = leg_price(&m->out[k * m->ngpus + i], lim->inter, cap, price);

			if (ring_is_tree(m))
				in = out = in + out;
			/* the side that is near is better the one that waits for the network */
			in += far_price * m->in[k * m->ngpus + i].class;
			if (in < p->first[i]) {
				p->first[i] = in;
				pk->work->first_port[i] = k;
			}
			if (out < p->last[i]) {
				p->last[i] = out;
				pk->work->last_port[i] = k;
			}
		}
		p->second[i] = 0;
		if (!ring_is_tree(m))
			continue;
		p->second[i] = share < 1 ? (1 - share) * p->last[i] : 0;
		p->first[i] *= share;
		p->last[i] = 0;
	}
}

/* Ports whose routes are searched one by one; 1 where routes may mix ports or use none. */
static int ports_apart(const struct ring_model *m)
{
	return m->inter && !m->cross ? m->nports : 1;
}

/* What a search through @port needs besides the prices of legs. */
static void price_ends(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, const double *price,
		       int port)
{
	size_t n = (size_t)pk->m->ngpus;

	pk->work->steps += (double)(n * n) / 4;
	memcpy(pk->work->prices.leg, pk->work->leg, n * n * sizeof(double));
	if (pk->m->inter)
		price_ports(pk, cap, lim, price, port);
	else
		price_closed(pk);
}

static double route_price(const struct ring_pack *pk, int route, const double *price)
{
	const double *load = load_of(pk, route);
	double sum = 0;

	for (int i = 0; i < pk->nused[route]; i++)
		sum += price[used_of(pk, route)[i]] * load[used_of(pk, route)[i]];
	return sum;
}

/* Makes the legs of the last route dearer, so that the next one is another. */
static void price_up(struct ring_pack *pk)
{
	struct ring_prices *p = &pk->work->prices;

	for (int i = 0; i + 1 < p->n; i++) {
		int a = pk->work->order[i], b = pk->work->order[i + 1];

		p->leg[a * p->n + b] = 1.5 * p->leg[a * p->n + b] + 0.02;
		if (ring_is_tree(pk->m))
			p->leg[b * p->n + a] = p->leg[a * p->n + b];
	}
}

/* The cheapest route with the work's prices; it joins the pool when at @price it costs less than it brings. *@cost is
 * what it costs with the work's. */
static enum taut_status try_route(struct ring_pack *pk, const double *price, double *cost, bool *joined)
{
	struct ring_work *w = pk->work;
	int leave = ring_is_tree(pk->m) ? (pk->m->ngpus > 1) : pk->m->ngpus - 1;
	struct ring_route route = { .order = w->order };
	enum taut_status st;

	*joined = false;
	*cost = ring_cheapest(w->search, &w->prices, w->order);
	if (isinf(*cost))
		return TAUT_OK;
	route.in = w->first_port[w->order[0]];
	route.out = w->last_port[w->order[leave]];
	if (ring_is_tree(pk->m) && ring_first_share(pk->m) == 1)
		route.out = route.in;
	st = pool_add(pk, &route);
	if (st)
		return st;
	*joined = route_price(pk, pk->nroutes - 1, price) < 1 - gain_eps;
	if (!*joined)
		pk->nroutes--;
	return TAUT_OK;
}

/* Routes that would bring more than they cost at these prices join the pool: the cheapest, and a few that differ from
 * it, which saves rounds. */
static enum taut_status make_routes(struct ring_pack *pk, const double *cap, const struct ring_limits *lim,
				    const double *price, double *cheapest)
{
	int tries = ports_apart(pk->m);
	int variants = tries > 1 ? 2 : 6;

	*cheapest = INFINITY;
	price_legs(pk, cap, lim, price);
	for (int k = 0; k < tries; k++) {
		bool joined = true;

		price_ends(pk, cap, lim, price, k);
		for (int v = 0; v < variants && joined; v++) {
			double cost;
			enum taut_status st = try_route(pk, price, &cost, &joined);

			if (st)
				return st;
			if (v == 0)
				*cheapest = fmin(*cheapest, cost);
			price_up(pk);
		}
	}
	return TAUT_OK;
}

/* --- the program --- */

/* Lets routes of the pool enter until none gains. */
static void pool_enter(struct ring_pack *pk, const bool *allowed)
{
	struct ring_simplex *sx = pk->work->simplex;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		const double *price = ring_simplex_prices(sx);
		double best = gain_eps;
		int enter = -1;

		if (ring_simplex_release(sx))
			continue;
		for (int k = 0; k < pk->nroutes; k++) {
			double gain = allowed[k] ? 1 - route_price(pk, k, price) : 0;

			if (gain > best) {
				best = gain;
				enter = k;
			}
		}
		if (enter < 0 || !ring_simplex_enter(sx, enter, load_of(pk, enter)))
			return;
	}
}

static enum taut_status allow(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, bool **allowed)
{
	bool ok = true;

	*allowed = grown(*allowed, (size_t)pk->room + 1, sizeof(bool), &ok);
	if (!ok)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory for %d routes", pk->nroutes);
	for (int k = 0; k < pk->nroutes; k++)
		(*allowed)[k] = route_allowed(pk, k, cap, lim);
	return TAUT_OK;
}

static double worth(const struct ring_pack *pk, const double *cap, const double *price)
{
	double sum = 0;

	for (int r = 0; r < pk->m->nres; r++)
		sum += fmax(price[r], 0) * cap[r];
	return sum;
}

/* What far_price adds to a route at most. */
static double far_most(const struct ring_model *m)
{
	return far_price * PATH_CLASSES * (m->ngpus + 3);
}

/* Scaled so that no route costs less than 1, prices are a proof: each route of 1 GB/s takes capacity of that worth. */
static void keep_proof(struct ring_pack *pk, const double *cap, const double *price, double cheapest)
{
	double total;

	cheapest -= far_most(pk->m);
	total = worth(pk, cap, price) / cheapest;
	if (isinf(cheapest) || cheapest <= 0 || !(total < pk->proof))
		return;
	pk->proof = total;
	for (int r = 0; r < pk->m->nres; r++)
		pk->price[r] = fmax(price[r], 0) / cheapest;
}

enum taut_status ring_pack_solve(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, double least,
				 double enough)
{
	struct ring_simplex *sx = pk->work->simplex;
	enum taut_status st = TAUT_OK;
	double until = ring_pack_work(pk) + solve_work;
	bool *allowed = NULL;

	ring_simplex_begin(sx, cap);
	pk->proof = INFINITY;
	for (int round = 0; round < ROUNDS_MAX && !st; round++) {
		int had = pk->nroutes;
		double cheapest;
		const double *price;

		st = allow(pk, cap, lim, &allowed);
		if (st)
			break;
		pool_enter(pk, allowed);
		if (ring_simplex_total(sx) >= enough || (round > 0 && ring_pack_work(pk) > until))
			break;
		price = ring_simplex_prices(sx);
		st = make_routes(pk, cap, lim, price, &cheapest);
		keep_proof(pk, cap, price, cheapest);
		if (pk->nroutes == had || pk->proof < least || ring_simplex_total(sx) >= pk->proof * (1 - close_enough))
			break;
	}
	pk->total = ring_simplex_total(sx);
	if (!st && pk->nroutes)
		ring_simplex_rates(sx, pk->rate, pk->nroutes);
	mem_free(allowed);
	return st;
}

enum taut_status ring_pack_prove(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, bool *exact)
{
	struct ring_search *fast = pk->work->search;
	struct ring_search *slow;
	double cheapest = INFINITY;
	enum taut_status st;

	*exact = pk->m->ngpus <= RING_EXACT_MAX;
	if (*exact || pk->m->ngpus > RING_PROOF_MAX || isinf(pk->proof))
		return TAUT_OK;
	st = ring_search_create(&slow, pk->m->ngpus, RING_PROOF_MAX);
	if (st)
		return st;
	pk->work->search = slow;
	price_legs(pk, cap, lim, pk->price);
	for (int k = 0; k < ports_apart(pk->m); k++) {
		price_ends(pk, cap, lim, pk->price, k);
		cheapest = fmin(cheapest, ring_cheapest(slow, &pk->work->prices, pk->work->order));
	}
	pk->work->search = fast;
	ring_search_free(slow);
	cheapest -= far_most(pk->m);
	*exact = cheapest > 0;
	if (!*exact)
		return TAUT_OK;
	pk->proof /= cheapest;
	for (int r = 0; r < pk->m->nres; r++)
		pk->price[r] /= cheapest;
	return TAUT_OK;
}
