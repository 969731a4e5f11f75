/* SPDX-License-Identifier: Apache-2.0 */
/* The text of `rocm-smi --showtopo` (or --showtopotype): which GPUs XGMI joins, and the NUMA node of each. */
#ifndef TOPO_ROCM_TEXT_H
#define TOPO_ROCM_TEXT_H

#include "topo/topo.h"

/* Whether the text is of rocm-smi. */
bool rocm_is_text(const char *text, size_t len);
enum taut_status rocm_read(struct topo **out, const char *name, const char *text, size_t len);

#endif
