/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_split.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "topo/ring_even.h"

/* Of what the rates add up to: what equal channels must reach, to stop at once, and to be taken at all. */
static const double equal_good = 0.985, equal_enough = 0.975;
/* For the search of even channels, in steps: some 20 ms, and 100 where there are more GPUs than most have. */
static const double even_work = 2e7, even_work_many = 1e8;
enum { MANY_GPUS = 9 };

struct splitter {
	struct ring_pack *pk;
	const struct ring_split_rules *rules;
	int nrated;		       /* routes that may have a rate */
	double *rate;		       /* what the packing found, kept */
	double total;		       /* of it */
	double *load;		       /* of one GB/s on each channel */
	int *count;		       /* channels of each route in the trial */
	int best[CHANNELS_MAX], nbest; /* routes of the best trial */
	double best_total;
};

static const double *load_of(const struct ring_pack *pk, int route)
{
	return pk->load + (size_t)route * (size_t)pk->m->nres;
}

static void load_clear(struct splitter *sp)
{
	memset(sp->load, 0, (size_t)sp->pk->m->nres * sizeof(*sp->load));
}

static void load_add(struct splitter *sp, int route, double rate)
{
	for (int r = 0; r < sp->pk->m->nres; r++)
		sp->load[r] += rate * load_of(sp->pk, route)[r];
}

/* The fullest resource when @route (-1: none) is there once more. */
static double fullest(const struct splitter *sp, int route)
{
	double max = 0;

	for (int r = 0; r < sp->pk->m->nres; r++) {
		double load = sp->load[r] + (route < 0 ? 0 : load_of(sp->pk, route)[r]);

		if (load > 0)
			max = fmax(max, load / sp->pk->m->cap[r]);
	}
	return max;
}

/* Keeps @n @routes if they carry more, all at one bandwidth, than what is kept; each of them as several channels when
 * that is too wide for one. */
static void keep_better(struct splitter *sp, const int *routes, int n)
{
	double total;
	int pieces;

	load_clear(sp);
	for (int i = 0; i < n; i++)
		load_add(sp, routes[i], 1);
	total = n / fullest(sp, -1);
	if (total <= sp->best_total * (1 + 1e-6))
		return;
	pieces = (int)ceil(total / n / sp->rules->widest - 0.05);
	if (pieces * n < sp->rules->min)
		pieces = (sp->rules->min + n - 1) / n;
	if (pieces * n > sp->rules->max)
		pieces = sp->rules->max / n;
	if (pieces < 1 || pieces * n < sp->rules->min)
		return;
	sp->best_total = total;
	sp->nbest = 0;
	for (int i = 0; i < pieces * n; i++)
		sp->best[sp->nbest++] = routes[i % n];
}

/* --- rates rounded --- */

/* The route that most lacks its share among those that fill the links least. */
static int next_route(const struct splitter *sp, int n)
{
	double best = INFINITY, lack_most = 0;
	int chosen = -1;

	for (int k = 0; k < sp->nrated; k++) {
		double full, lack = sp->rate[k] * n / sp->total - sp->count[k];

		if (sp->rate[k] <= 0)
			continue;
		full = fullest(sp, k);
		if (full < best * (1 - 1e-6) || (full < best * (1 + 1e-6) && lack > lack_most + 1e-6)) {
			best = full;
			lack_most = lack;
			chosen = k;
		}
	}
	return chosen;
}

/* @n channels of equal bandwidth, in the rates' proportion. */
static void try_rounded(struct splitter *sp, int n)
{
	int routes[CHANNELS_MAX], made = 0;

	load_clear(sp);
	for (int k = 0; k < sp->nrated; k++) {
		int share = (int)floor(sp->rate[k] * n / sp->total + 1e-4);

		for (sp->count[k] = 0; sp->count[k] < share && made < n; sp->count[k]++)
			routes[made++] = k;
		load_add(sp, k, sp->count[k]);
	}
	while (made < n) {
		int k = next_route(sp, n);

		sp->count[k]++;
		load_add(sp, k, 1);
		routes[made++] = k;
	}
	keep_better(sp, routes, n);
}

/* --- equal or not --- */

static enum taut_status try_equal(struct splitter *sp)
{
	double until = ring_pack_work(sp->pk) + (sp->pk->m->ngpus < MANY_GPUS ? even_work : even_work_many);
	enum taut_status st = TAUT_OK;

	for (int n = 1; n <= sp->rules->max && sp->best_total < equal_good * sp->total && !st; n++) {
		double left = until - ring_pack_work(sp->pk);
		int routes[CHANNELS_MAX], found = 0;

		try_rounded(sp, n);
		if (sp->best_total >= equal_good * sp->total || left <= 0)
			continue;
		st = ring_even(sp->pk, &sp->rules->limits, n, sp->total / n, left / 2, routes, &found);
		if (found)
			keep_better(sp, routes, n);
	}
	return st;
}

/* Each route at its own rate, the widest in pieces. */
static void split_own(struct splitter *sp, struct ring_set *out)
{
	double scale;

	load_clear(sp);
	for (int k = 0; k < sp->nrated && out->n < sp->rules->max; k++) {
		int pieces = (int)ceil(sp->rate[k] / sp->rules->widest - 1e-6);

		if (sp->rate[k] < 1e-3 * sp->total)
			continue;
		if (pieces > sp->rules->max - out->n)
			pieces = sp->rules->max - out->n;
		load_add(sp, k, sp->rate[k]);
		for (int i = 0; i < pieces; i++) {
			out->route[out->n] = k;
			out->bw[out->n++] = sp->rate[k] / pieces;
		}
	}
	scale = 1 / fullest(sp, -1);
	for (int i = 0; i < out->n; i++) {
		out->bw[i] *= scale;
		out->total += out->bw[i];
	}
}

static bool dealt(const struct ring_set *out, int from, int route)
{
	for (int i = from; i < out->n; i++)
		if (out->route[i] == route)
			return true;
	return false;
}

/* One of each route in turn, so that the first channels already spread over the ports. */
static void deal(struct splitter *sp, struct ring_set *out)
{
	while (out->n < sp->nbest) {
		int from = out->n;

		for (int i = 0; i < sp->nbest; i++) {
			if (sp->best[i] < 0 || dealt(out, from, sp->best[i]))
				continue;
			out->route[out->n] = sp->best[i];
			out->bw[out->n++] = sp->best_total / sp->nbest;
			sp->best[i] = -1;
		}
	}
	out->total = sp->best_total;
}

static enum taut_status split(struct splitter *sp, struct ring_set *out)
{
	const struct ring_split_rules *rules = sp->rules;
	enum taut_status st = try_equal(sp);

	if (st)
		return st;
	if (sp->best_total < equal_enough * sp->total)
		split_own(sp, out);
	if (out->n >= rules->min && out->total > sp->best_total)
		return TAUT_OK;
	memset(out, 0, sizeof(*out));
	deal(sp, out);
	return TAUT_OK;
}

enum taut_status ring_split(struct ring_set *out, struct ring_pack *pk, const struct ring_split_rules *rules)
{
	struct splitter sp = { .pk = pk, .rules = rules, .nrated = pk->nroutes, .total = pk->total };
	enum taut_status st = TAUT_OK;

	memset(out, 0, sizeof(*out));
	sp.rate = mem_calloc((size_t)pk->nroutes, sizeof(*sp.rate));
	sp.count = mem_calloc((size_t)pk->nroutes, sizeof(*sp.count));
	sp.load = mem_calloc((size_t)pk->m->nres, sizeof(*sp.load));
	if (sp.rate && sp.count && sp.load) {
		memcpy(sp.rate, pk->rate, (size_t)pk->nroutes * sizeof(*sp.rate));
		st = split(&sp, out);
	} else {
		st = fail(TAUT_ERR_NOMEM, "channels: no memory for %d routes", pk->nroutes);
	}
	mem_free(sp.rate);
	mem_free(sp.count);
	mem_free(sp.load);
	return st;
}
