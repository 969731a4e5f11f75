/* SPDX-License-Identifier: Apache-2.0 */
/* Inside reduce: what one processor's variant of the kernels consists of. reduce_loops.inc.h
 * is compiled once for each, with other compiler flags (cmake/exec.cmake). */
#ifndef EXEC_REDUCE_VARIANT_H
#define EXEC_REDUCE_VARIANT_H

#include "exec/reduce.h"

/* Bytes of a stack buffer that stays in the first-level cache. */
#define REDUCE_BLOCK 4096
#define REDUCE_LINE 64 /* bytes of a cache line */

typedef void reduce_two_fn(void *dst, const void *a, const void *b, size_t n);

/* A type that is computed in fp32. */
struct reduce_small {
	void (*decode)(float *dst, const void *src, size_t n);
	void (*encode)(void *dst, const float *src, size_t n);
	size_t size;
};

struct reduce_variant {
	const char *name;
	/* [op] is empty where the type lacks the operation */
	const struct reduce_kernels (*kernels)[TAUT_OP_COUNT];
	/* (optional) copy whole cache lines past the caches to @dst, which begins one; to be
	 * ordered by a store fence */
	void (*stream)(char *dst, const char *src, size_t len);
};

extern const struct reduce_variant reduce_generic;
extern const struct reduce_variant reduce_avx2;
extern const struct reduce_variant reduce_avx512;

/* Nothing when they are the same. */
void reduce_copy(void *dst, const void *src, size_t len);

/* The other kernels, made of a variant's `two` block by block; @size is the element's. */
void reduce_blocks_nt(reduce_two_fn *two, size_t size, void *dst, const void *a, const void *b, size_t n);
void reduce_blocks_dual(reduce_two_fn *two, size_t size, void *dst, void *dst2, const void *a, const void *b, size_t n);
void reduce_blocks_dual_nt(reduce_two_fn *two, size_t size, void *dst, void *dst2, const void *a, const void *b,
			   size_t n);
void reduce_blocks_many(reduce_two_fn *two, size_t size, void *dst, const void *const *src, int nsrc, size_t n);
/* Sums up in fp32: @two is that of fp32. */
void reduce_blocks_many_small(reduce_two_fn *two, const struct reduce_small *small, void *dst, const void *const *src,
			      int nsrc, size_t n);

#endif
