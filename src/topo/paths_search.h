/* SPDX-License-Identifier: Apache-2.0 */
/* The search behind topo/paths.h: from one node the best way to every other, over the links
 * that its class allows. Best is NCCL's order: nearest class, then widest, then fewest links. */
#ifndef TOPO_PATHS_SEARCH_H
#define TOPO_PATHS_SEARCH_H

#include "topo/paths.h"

/* A graph and scratch room; one thread at a time. @t must outlive it. */
struct search;
enum taut_status search_create(struct search **out, const struct topo *t);
void search_free(struct search *s);

/* Called once for each node that is reached from the start, with the links from the start on. */
typedef enum taut_status search_found(void *ctx, int node, enum path_class class, const int *links, int nlinks);
/* Ways through a GPU are not looked for: NVB and PXN are joined from two ways. Fails only as @found fails. */
enum taut_status search_from(struct search *s, int start, search_found *found, void *ctx);

#endif
