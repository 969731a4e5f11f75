/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for x86 with AVX512; compiled with the flags that cmake/exec.cmake gives. */
#include "exec/reduce_variant.h"

#if defined(__x86_64__)
#define VECTOR 64 /* bytes */
#include "exec/reduce_loops.inc.h"

const struct reduce_variant reduce_avx512 = { .name = "avx512", .kernels = kernels, .stream = stream };
#endif
