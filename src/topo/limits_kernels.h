/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that limits.c times, with the widest vectors that this processor has. No state. */
#ifndef TOPO_LIMITS_KERNELS_H
#define TOPO_LIMITS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* @n floats, a multiple of 16; the buffers are aligned to 64 bytes and apart. A copy takes no @b. */
typedef void (*limits_kernel)(float *c, const float *a, const float *b, size_t n);

/* @past: with stores past the caches; NULL where there are none. */
limits_kernel limits_copy_kernel(bool past);
limits_kernel limits_reduce_kernel(bool past);

#endif
