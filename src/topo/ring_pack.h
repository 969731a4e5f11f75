/* SPDX-License-Identifier: Apache-2.0 */
/* How much each of many routes may carry so that the sum is largest: a linear program with one
 * row for each resource and one column for each route. There are too many routes to list, so columns are made when
 * they are needed: the program's dual values price the resources, and the cheapest route (topo/ring_price.h) enters
 * while it costs less than it brings. Deterministic. One thread at a time. */
#ifndef TOPO_RING_PACK_H
#define TOPO_RING_PACK_H

#include "topo/ring_model.h"
#include "topo/ring_price.h"

struct ring_limits {
	enum path_class intra, inter; /* farthest legs allowed */
};

struct ring_pack {
	const struct ring_model *m;
	/* Routes met so far; they stay from one solve to the next. */
	int nroutes, room;
	int *order; /* [route * ngpus] */
	int *in, *out;
	double *load; /* [route * nres] of one GB/s */
	int *used;    /* [route * nres] the resources with a load, */
	int *nused;   /* as many of each route */
	/* What the last solve found. */
	double *rate; /* of each route; room for more than nroutes */
	double total;
	double proof;  /* no set of routes has more, if the cheapest routes were exact; INFINITY: not known */
	double *price; /* of each resource: what proves it */
	struct ring_work *work;
};

enum taut_status ring_pack_create(struct ring_pack **out, const struct ring_model *m);
void ring_pack_free(struct ring_pack *pk);
/* Steps so far: a clock that runs the same on every rank. */
double ring_pack_work(const struct ring_pack *pk);
struct ring_route ring_pack_route(const struct ring_pack *pk, int route);
/* Within @cap of each resource and @lim. Stops early when the total reaches @enough, or when it is sure to stay below
 * @least. A total of 0: no route. */
enum taut_status ring_pack_solve(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, double least,
				 double enough);
/* Makes the proof of the last solve exact, whose @cap and @lim these are; false in *@exact: too many GPUs. */
enum taut_status ring_pack_prove(struct ring_pack *pk, const double *cap, const struct ring_limits *lim, bool *exact);

#endif
