/* SPDX-License-Identifier: Apache-2.0 */
/* Element kinds and operations of the kernels as the host knows them, and values at random; for test_cuda_*.c. */
#ifndef TEST_CUDA_VALUES_H
#define TEST_CUDA_VALUES_H

#include <stdbool.h>

#include "cuda/kernels/kernels.h"
#include "exec/reduce.h"

static const enum taut_type types[GPU_KINDS] = {
	[GPU_U8] = TAUT_UINT8,	       [GPU_U16] = TAUT_UINT16,	      [GPU_U32] = TAUT_UINT32,
	[GPU_U64] = TAUT_UINT64,       [GPU_S8] = TAUT_INT8,	      [GPU_S16] = TAUT_INT16,
	[GPU_S32] = TAUT_INT32,	       [GPU_S64] = TAUT_INT64,	      [GPU_F16] = TAUT_FLOAT16,
	[GPU_BF16] = TAUT_BFLOAT16,    [GPU_F32] = TAUT_FLOAT32,      [GPU_F64] = TAUT_FLOAT64,
	[GPU_E4M3] = TAUT_FLOAT8_E4M3, [GPU_E5M2] = TAUT_FLOAT8_E5M2,
};
static const enum taut_op ops[] = {
	[GPU_SUM] = TAUT_SUM,  [GPU_PROD] = TAUT_PROD, [GPU_MAX] = TAUT_MAX, [GPU_MIN] = TAUT_MIN,
	[GPU_AND] = TAUT_BAND, [GPU_OR] = TAUT_BOR,    [GPU_XOR] = TAUT_BXOR
};

static unsigned seed = 1;
static inline unsigned rnd(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static inline bool is_int(int kind)
{
	return kind < GPU_F16;
}

/* Values whose sums are no NaN: the bits of those may differ. */
static inline void fill(unsigned char *p, size_t bytes, enum taut_type type)
{
	static const unsigned char halves[] = { 0x3c, 0xbc, 0x40, 0x38, 0x34, 0xc1 };

	for (size_t i = 0; i < bytes; i++)
		p[i] = (unsigned char)rnd(256);
	if (type == TAUT_FLOAT16 || type == TAUT_BFLOAT16)
		for (size_t i = 1; i < bytes; i += 2)
			p[i] = halves[rnd(6)];
	if (type == TAUT_FLOAT32)
		for (size_t i = 3; i < bytes; i += 4)
			p[i] = halves[rnd(6)];
	if (type == TAUT_FLOAT64)
		for (size_t i = 7; i < bytes; i += 8)
			p[i] = rnd(2) ? 0x3f : 0xbf;
	if (type == TAUT_FLOAT8_E4M3 || type == TAUT_FLOAT8_E5M2)
		for (size_t i = 0; i < bytes; i++)
			p[i] = (unsigned char)(rnd(0x70) | (rnd(2) << 7));
}

#endif
