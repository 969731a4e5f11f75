/* SPDX-License-Identifier: Apache-2.0 */
/* The cheapest route through all GPUs when each leg has a price: what tells the packing
 * (topo/ring_pack.h) which channel to try next. Exact up to a number of GPUs (dynamic programming over sets), else
 * the best of several starts after moving pieces. Equal prices: the order of the GPUs' numbers. */
#ifndef TOPO_RING_PRICE_H
#define TOPO_RING_PRICE_H

#include "base/status.h"

enum {
	RING_EXACT_MAX = 10, /* fast enough to ask again and again */
	RING_PROOF_MAX = 16, /* for once: 2^16 sets of 16 GPUs take 8 MB and some 50 ms */
};

/* INFINITY: not allowed. */
struct ring_prices {
	int n;
	double *leg;	/* [from * n + to] */
	double *first;	/* of beginning there */
	double *second; /* of standing second */
	double *last;	/* of ending there */
};

struct ring_search; /* working memory */
/* @exact_max: up to so many GPUs the answer is exact. */
enum taut_status ring_search_create(struct ring_search **out, int n, int exact_max);
void ring_search_free(struct ring_search *s);
/* Steps since it was created: a clock that runs the same on every rank. */
double ring_search_work(const struct ring_search *s);
double ring_cost(const struct ring_prices *p, const int *order);
/* Fills @order[n]; returns its cost, INFINITY when there is no allowed route (or none was found). */
double ring_cheapest(struct ring_search *s, const struct ring_prices *p, int *order);

#endif
