/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise kernels of the host: reductions of every type and operation, scaling, and
 * copies. Chosen once per process for the processor at hand (generic, AVX2, AVX-512; NEON
 * through the compiler); TAUT's public types and operations without TAUT_AVG (which is a
 * sum with a scale before or a division after) and user operations.
 *
 * @n counts elements, any alignment; sources may equal a destination exactly but not
 * overlap it otherwise. The result of a kernel depends on the values alone: not on alignment,
 * length or position, and all processors' variants give the same bits. fp16, bf16 and fp8
 * are computed in fp32 and rounded once (to nearest even) at the end of the call, also with
 * many sources. fp8 overflow saturates to the largest finite value (an infinity stays one in
 * e5m2); a NaN result is the type's quiet NaN without sign or payload. min and max of floats:
 * a NaN operand gives NaN, and -0 is less than +0. A copy (`many` of one source) is a copy.
 */
#ifndef EXEC_REDUCE_H
#define EXEC_REDUCE_H

#include <stddef.h>

#include "base/status.h"

#define REDUCE_MAX_SRC 64

struct reduce_kernels {
	/* dst[i] = a[i] op b[i] */
	void (*two)(void *dst, const void *a, const void *b, size_t n);
	/* the same with stores past the caches, for results that do not fit them */
	void (*two_nt)(void *dst, const void *a, const void *b, size_t n);
	/* dst[i] = dst2[i] = a[i] op b[i]; one pass */
	void (*two_dual)(void *dst, void *dst2, const void *a, const void *b, size_t n);
	/* dst by cached stores, dst2 past the caches */
	void (*two_dual_nt)(void *dst, void *dst2, const void *a, const void *b, size_t n);
	/* dst[i] = src[0][i] op src[1][i] op ... in this order; 1 <= nsrc <= REDUCE_MAX_SRC */
	void (*many)(void *dst, const void *const *src, int nsrc, size_t n);
};

/* NULL when the operation does not exist for the type (bit operations on floats). */
const struct reduce_kernels *reduce_find(enum taut_type type, enum taut_op op);
/* dst[i] = src[i] * *scalar (an element of the same type); integers wrap. */
void reduce_scale(void *dst, const void *src, const void *scalar, size_t n, enum taut_type type);
/* dst[i] /= by, towards zero; integer types only. */
void reduce_divide(void *dst, long long by, size_t n, enum taut_type type);
/* Writes the element that stands for 1 / @by (floating types). */
void reduce_reciprocal(void *out, int by, enum taut_type type);

/* Plain copies; copy_nt stores past the caches. No overlap. */
void copy_bytes(void *dst, const void *src, size_t len);
void copy_bytes_nt(void *dst, const void *src, size_t len);

/* "avx512", "avx2", "generic": what is in use. Tests may force one with reduce_use();
 * false when this processor lacks it. Not thread-safe. */
const char *reduce_variant(void);
int reduce_use(const char *variant);

#endif
