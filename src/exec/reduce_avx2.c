/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for x86 with AVX2; compiled with the flags that cmake/exec.cmake gives. */
#include "exec/reduce_variant.h"

#if defined(__x86_64__)
#define VECTOR 32 /* bytes */
#include "exec/reduce_loops.inc.h"

const struct reduce_variant reduce_avx2 = { .name = "avx2", .kernels = kernels, .stream = stream };
#endif
