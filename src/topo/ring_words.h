/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences about links, piece by piece into a buffer; cut to fit. */
#ifndef TOPO_RING_WORDS_H
#define TOPO_RING_WORDS_H

#include "topo/ring_model.h"

void words_add(char *buf, size_t len, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "GPU 0 to GPU 3 (2 NVLink, 40.0 GB/s)" */
void words_arc(const struct topo *t, const struct ring_model *m, int arc, char *buf, size_t len);

#endif
