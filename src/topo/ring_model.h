/* SPDX-License-Identifier: Apache-2.0 */
/* What a search of channels needs of a system: which GPU can follow which, over which links,
 * and how a channel loads them. An arc is one direction of one link that some leg uses; of arcs that are always used
 * together (a card's slot and its port) the narrowest is a resource, and the others are not counted. Read by any
 * thread once made. */
#ifndef TOPO_RING_MODEL_H
#define TOPO_RING_MODEL_H

#include "topo/channels.h"

enum { RING_GPUS_MAX = 1024 };

/* From one place to the next: the resources on the way. */
struct ring_leg {
	enum path_class class; /* PATH_DIS: no way */
	int nres;
	int *res;
};

struct ring_model {
	enum channel_pattern pattern;
	bool inter, cross; /* through ports; may leave by another port than it came in */
	int ngpus, nports, narcs, nres;
	int *gpus, *ports;    /* nodes of the graph */
	int *arc;	      /* of each arc: 2 * link, + 1 from b to a */
	double *arc_cap;      /* GB/s */
	double *cap;	      /* of each resource, GB/s */
	int *res_arc;	      /* of each resource: number of its arc */
	struct ring_leg *leg; /* [from * ngpus + to] */
	struct ring_leg *in;  /* [port * ngpus + gpu] from the port */
	struct ring_leg *out; /* [port * ngpus + gpu] to the port */
	int *store;	      /* what the legs' res point into */
};

/* One channel: GPUs in order, by their place in model->gpus, and ports, by theirs in model->ports; -1: none. */
struct ring_route {
	int in, out;
	const int *order;
};

enum taut_status ring_model_create(struct ring_model **out, const struct topo *t, const struct topo_paths *p,
				   const struct channels_req *req);
void ring_model_free(struct ring_model *m);
bool ring_is_tree(const struct ring_model *m);
/* A tree's port traffic at the first GPU of its chain; the rest enters at the second. */
double ring_first_share(const struct ring_model *m);
/* Adds what one GB/s of @route puts on each resource. */
void ring_route_load(const struct ring_model *m, const struct ring_route *route, double *load);
/* Farthest leg between GPUs and between port and GPU. */
void ring_route_class(const struct ring_model *m, const struct ring_route *route, enum path_class *intra,
		      enum path_class *inter);

#endif
