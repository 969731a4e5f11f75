/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of the total that need no search: what the narrowest cut lets through. docs/TOPOLOGY.md derives them. */
#ifndef TOPO_RING_CUT_H
#define TOPO_RING_CUT_H

#include "topo/ring_model.h"

/* INFINITY: nothing limits (a GPU alone). @why: in words. */
enum taut_status ring_cut_bound(double *out, const struct topo *t, const struct ring_model *m, char *why, size_t len);

#endif
