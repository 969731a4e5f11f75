/* SPDX-License-Identifier: Apache-2.0 */
/* The small floating types as bit patterns, to fp32 (exact) and back (to nearest even).
 * No branches, so that loops over them become vector code.
 *
 * NaN becomes the type's one quiet NaN without sign. fp16 and bf16 overflow to infinity;
 * fp8 saturates to the largest finite value, except that an infinity stays one in e5m2
 * (e4m3 has none). Needs the default rounding mode.
 */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* The kernels of the GPU use the same code: the same bits on both. */
#if defined(__CUDACC__)
#define HALF_INLINE static __host__ __device__ inline
#else
#define HALF_INLINE static inline
#endif

#define F32_NAN 0x7fc00000u
#define F32_INF 0x7f800000u

HALF_INLINE uint32_t f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

HALF_INLINE float f32_from_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

HALF_INLINE float bf16_to_f32(uint16_t h)
{
	return f32_from_bits((uint32_t)h << 16);
}

HALF_INLINE uint16_t bf16_from_f32(float f)
{
	uint32_t u = f32_bits(f);
	uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;

	return (uint16_t)(f != f ? F32_NAN >> 16 : r);
}

/* @mag: a small float's magnitude without the exponents of infinity and NaN, moved so that
 * its fraction stands where that of fp32 does. No fp32 subnormals on the way: they are slow,
 * and a program may have them flushed. */
HALF_INLINE uint32_t widen(uint32_t mag, int bias)
{
	uint32_t norm = mag + ((uint32_t)(127 - bias) << 23);
	uint32_t one = 1u << 23;
	float sub = f32_from_bits(norm + one) - f32_from_bits((uint32_t)(128 - bias) << 23);

	return mag < one ? f32_bits(sub) : norm;
}

HALF_INLINE float f16_to_f32(uint16_t h)
{
	uint32_t mag = (uint32_t)(h & 0x7fff) << 13;
	uint32_t r = mag >= 0x1fu << 23 ? mag | F32_INF : widen(mag, 15);

	return f32_from_bits(r | (uint32_t)(h & 0x8000) << 16);
}

HALF_INLINE float e5m2_to_f32(uint8_t b)
{
	return f16_to_f32((uint16_t)(b << 8));
}

HALF_INLINE float e4m3_to_f32(uint8_t b)
{
	uint32_t mag = (uint32_t)(b & 0x7f) << 20;
	uint32_t r = mag == 0x7fu << 20 ? F32_NAN : widen(mag, 7);

	return f32_from_bits(r | (uint32_t)(b & 0x80) << 24);
}

/* @mag, a finite magnitude, as a float with @bits of fraction and the exponent bias @bias. */
HALF_INLINE uint32_t narrow(uint32_t mag, int bits, int bias)
{
	const int drop = 23 - bits;
	const uint32_t smallest = (uint32_t)(128 - bias) << 23; /* normal number */
	/* Adding the power of two whose last place is the smallest subnormal rounds to it. */
	const uint32_t magic = (uint32_t)(128 - bias + drop) << 23;
	uint32_t sub = f32_bits(f32_from_bits(mag) + f32_from_bits(magic)) - magic;
	uint32_t norm = (mag + (1u << (drop - 1)) - 1 + (mag >> drop & 1)) >> drop;

	return mag < smallest ? sub : norm - ((uint32_t)(127 - bias) << bits);
}

HALF_INLINE uint16_t f16_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffff;
	uint32_t r = mag >= f32_bits(65520.0f) ? 0x7c00 : narrow(mag, 10, 15);

	return (uint16_t)(mag > F32_INF ? 0x7e00 : r | (u >> 16 & 0x8000));
}

HALF_INLINE uint8_t e5m2_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffff;
	uint32_t r = mag >= f32_bits(57344.0f) ? 0x7b + (mag == F32_INF) : narrow(mag, 2, 15);

	return (uint8_t)(mag > F32_INF ? 0x7e : r | (u >> 24 & 0x80));
}

HALF_INLINE uint8_t e4m3_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffff;
	uint32_t r = mag >= f32_bits(448.0f) ? 0x7e : narrow(mag, 3, 7);

	return (uint8_t)(mag > F32_INF ? 0x7f : r | (u >> 24 & 0x80));
}

#endif
