/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that a user names. */
#ifndef TOPO_ENDS_H
#define TOPO_ENDS_H

#include "topo/topo.h"

/* The GPU, port or NUMA node that @word means: of a card its first port. -1: none, and @why, which has room
 * for TOPO_ENDS_WHY bytes, says what is known. */
enum { TOPO_ENDS_WHY = 1024 };
int topo_end(const struct topo *t, const char *word, char *why);

#endif
