/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any processor: SSE2 on x86-64, NEON on AArch64, by the compiler alone. */
#include "exec/reduce_variant.h"

#include "exec/reduce_loops.inc.h"

const struct reduce_variant reduce_generic = { .name = "generic", .kernels = kernels };
