/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as bytes, whole: what one rank sends to others. Small (some KiB for a machine of 8
 * GPUs), the same on every kind of processor, and not a file form: both ends have one version. */
#ifndef TOPO_PACK_H
#define TOPO_PACK_H

#include "topo/topo.h"

enum { TOPO_PACK_MAX = 1 << 20 }; /* bytes that topo_unpack() looks at */

/* @t is finished. *@out is the caller's, freed with mem_free(). */
enum taut_status topo_pack(uint8_t **out, size_t *len, const struct topo *t);
/* The same graph, finished. @name is for messages: TAUT_ERR_ARG with the byte where they are no graph. Packing it
 * again gives the same bytes. */
enum taut_status topo_unpack(struct topo **out, const char *name, const uint8_t *bytes, size_t len);

#endif
