/* SPDX-License-Identifier: Apache-2.0 */
/* Two bounds, of which the smaller counts: the narrowest cut (topo/ring_cut.h), and, where rings cannot fill the
 * cuts, prices of links at which no ring is cheap (topo/ring_pack.h). docs/TOPOLOGY.md derives both. */
#include "topo/channels.h"

#include <math.h>
#include <stdio.h>

#include "topo/nvls.h"
#include "topo/ring_cut.h"
#include "topo/ring_pack.h"
#include "topo/ring_words.h"

enum { SHOWN = 4 };
/* A packing as near to the cut as this leaves nothing to prove. */
static const double near_cut = 0.995;

static bool among(const int *set, int n, int x)
{
	for (int i = 0; i < n; i++)
		if (set[i] == x)
			return true;
	return false;
}

/* The links whose prices make up most of the bound. */
static void say_prices(const struct ring_pack *pk, const struct topo *t, char *why, size_t len)
{
	const struct ring_model *m = pk->m;
	int said[SHOWN];

	snprintf(why, len, "no mix of all %s fills the links; most of the bound is ",
		 ring_is_tree(m) ? "chains" : "rings");
	for (int n = 0; n < SHOWN; n++) {
		double most = 1e-3 * pk->proof;
		int best = -1;

		for (int r = 0; r < m->nres; r++)
			if (pk->price[r] * m->cap[r] > most && !among(said, n, r)) {
				most = pk->price[r] * m->cap[r];
				best = r;
			}
		if (best < 0)
			break;
		said[n] = best;
		words_add(why, len, n ? ", " : "");
		words_arc(t, m, m->res_arc[best], why, len);
	}
}

static enum taut_status price_bound(double *bound, const struct topo *t, const struct ring_model *m, char *why,
				    size_t len)
{
	const struct ring_limits far = { PATH_DIS, PATH_DIS };
	struct ring_pack *pk;
	bool exact = false;
	enum taut_status st = ring_pack_create(&pk, m);

	if (st)
		return st;
	st = ring_pack_solve(pk, m->cap, &far, 0, near_cut * *bound);
	if (!st && pk->total < near_cut * *bound)
		st = ring_pack_prove(pk, m->cap, &far, &exact);
	if (!st && exact && pk->proof < *bound) {
		*bound = pk->proof;
		if (why && len)
			say_prices(pk, t, why, len);
	}
	ring_pack_free(pk);
	return st;
}

double channels_bound(const struct topo *t, const struct topo_paths *p, const struct channels_req *req, char *why,
		      size_t len)
{
	struct channels_req any = *req;
	struct ring_model *m;
	double bound = 0;

	if (why && len)
		snprintf(why, len, "there is no channel");
	if (req->pattern == PATTERN_NVLS)
		return nvls_bound(t, req, why, len);
	any.cross_nic = req->cross_nic != 0;
	if (ring_model_create(&m, t, p, &any))
		return 0;
	if (ring_cut_bound(&bound, t, m, why, len) || isinf(bound))
		bound = 0;
	if (bound > 0 && price_bound(&bound, t, m, why, len))
		bound = 0;
	ring_model_free(m);
	return bound;
}
