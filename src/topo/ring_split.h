/* SPDX-License-Identifier: Apache-2.0 */
/* From rates of routes to channels: as few as carry the rates, all of one bandwidth where that loses
 * next to nothing, so that equal shares of a job end together. */
#ifndef TOPO_RING_SPLIT_H
#define TOPO_RING_SPLIT_H

#include "topo/ring_pack.h"

struct ring_set {
	int n;
	int route[CHANNELS_MAX]; /* of the pack */
	double bw[CHANNELS_MAX];
	double total;
};
struct ring_split_rules {
	int min, max;		   /* channels */
	double widest;		   /* GB/s that one channel should move at most */
	struct ring_limits limits; /* of legs */
};
/* Of what the last solve of @pk found, which is lost. */
enum taut_status ring_split(struct ring_set *out, struct ring_pack *pk, const struct ring_split_rules *rules);

#endif
