/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the programs of some ranks through time, for the cost model.
 *
 * In a small group all ranks are followed. In a large one: rank 0, the root, one in the
 * middle, the last, some that share rank 0's machine, and whoever these wait for, as long
 * as the programs followed stay short in sum. A rank that is not followed is taken to send
 * when the one that waits for it begins to wait: right for algorithms in which all ranks do
 * the same. One walk serves one algorithm and request; it may be run many times. */
#ifndef SCHED_COST_WALK_H
#define SCHED_COST_WALK_H

#include "sched/sched.h"

/* Slices that are followed one by one; what comes after them is extrapolated. */
enum { WALK_SLICES = 3 };

/* Prices of one run; index: the link, 0 inside a machine, 1 between machines. */
struct walk_price {
	double post[2], take[2], trip[2]; /* us a message */
	double half_byte[2];		  /* us a byte, at each of the two ends */
	double copy, reduce, map;	  /* us a byte */
	double barrier;			  /* us, of two ranks */
};
struct walk_size {
	double chunk; /* bytes of one chunk of one slice */
	int parts;    /* chunks of a block that are not empty */
	int slices;   /* 1..WALK_SLICES */
	double run;   /* runs of chunks up to so many bytes go as one message; 0: each chunk by itself */
};
struct walk_time {
	double end[WALK_SLICES]; /* us until the slowest rank has done this many slices */
	double work;		 /* us a slice that the busiest rank works, not waits */
};

struct walk;
enum taut_status walk_create(struct walk **out, const struct sched_algo *algo, const struct sched_req *req);
void walk_free(struct walk *w);
int walk_per_block(const struct walk *w);
/* A lower bound of a slice's time, without following anybody: the work of rank 0. */
double walk_bound(const struct walk *w, const struct walk_price *price, const struct walk_size *size);
/* TAUT_ERR_INTERNAL, not logged, when the programs wait for each other in a circle. */
enum taut_status walk_run(struct walk_time *out, struct walk *w, const struct walk_price *price,
			  const struct walk_size *size);

#endif
