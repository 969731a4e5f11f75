/* SPDX-License-Identifier: Apache-2.0 */
/* A given number of channels, all of one bandwidth, that fill the links: links are cut into slots of
 * that bandwidth, and routes are taken one after another, those first that the packing of what is left uses most. */
#ifndef TOPO_RING_EVEN_H
#define TOPO_RING_EVEN_H

#include "topo/ring_pack.h"

/* Looks for @n channels of @bw GB/s. *@found is n with the routes in @routes[n], or 0 when none were found within
 * @work multiplications. What the last solve of @pk found is lost. */
enum taut_status ring_even(struct ring_pack *pk, const struct ring_limits *lim, int n, double bw, double work,
			   int *routes, int *found);

#endif
