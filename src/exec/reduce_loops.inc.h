/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one variant: compiled as a whole by reduce_generic.c, reduce_avx2.c and
 * reduce_avx512.c. Plain loops, which the compiler turns into vector code, but for
 * the small floats where VECTOR is defined: reduce_vector.inc.h. */
#include "base/half.h"
#include "exec/reduce_variant.h"

/* A destination may equal a source, and overlaps none otherwise: nothing depends on an
 * earlier pass of the loop. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave_count(2)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define INLINE static inline __attribute__((always_inline))
#define CAT2(a, b) a##b
#define CAT(a, b) CAT2(a, b)
#define NAME(suffix) CAT(TYPE, suffix)

/* Sums and products without sign, for they wrap. */
#define INT_APPLY(op, a, b)                                                                                            \
	(ELEM)((op) == TAUT_SUM	   ? (WRAP)(a) + (WRAP)(b)                                                             \
	       : (op) == TAUT_PROD ? (WRAP)(a) * (WRAP)(b)                                                             \
	       : (op) == TAUT_MIN  ? (WRAP)((a) < (b) ? (a) : (b))                                                     \
	       : (op) == TAUT_MAX  ? (WRAP)((a) > (b) ? (a) : (b))                                                     \
	       : (op) == TAUT_BAND ? (WRAP)(a) & (WRAP)(b)                                                             \
	       : (op) == TAUT_BOR  ? (WRAP)(a) | (WRAP)(b)                                                             \
				   : (WRAP)(a) ^ (WRAP)(b))

/* A NaN's sign and payload depend on the order in which the processor takes the operands,
 * which is the compiler's choice: the one quiet NaN instead. */
INLINE float f32_canon(float f)
{
	return f32_from_bits(f != f ? F32_NAN : f32_bits(f));
}

INLINE uint64_t f64_bits(double f)
{
	uint64_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

INLINE double f64_from_bits(uint64_t u)
{
	double f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

INLINE double f64_canon(double f)
{
	return f64_from_bits(f != f ? 0x7ff8000000000000u : f64_bits(f));
}

/* The bitwise or does nothing to equal operands, makes -0 of zeros of both signs, and keeps
 * a NaN a NaN. */
INLINE float f32_min(float a, float b)
{
	return f32_from_bits(f32_bits(a < b ? a : b) | f32_bits(b < a ? b : a));
}

INLINE double f64_min(double a, double b)
{
	return f64_from_bits(f64_bits(a < b ? a : b) | f64_bits(b < a ? b : a));
}

INLINE float f32_apply(enum taut_op op, float a, float b)
{
	switch (op) {
	case TAUT_SUM:
		return a + b;
	case TAUT_PROD:
		return a * b;
	case TAUT_MIN:
		return f32_min(a, b);
	default:
		return -f32_min(-a, -b);
	}
}

INLINE double f64_apply(enum taut_op op, double a, double b)
{
	switch (op) {
	case TAUT_SUM:
		return a + b;
	case TAUT_PROD:
		return a * b;
	case TAUT_MIN:
		return f64_min(a, b);
	default:
		return -f64_min(-a, -b);
	}
}

#if defined(VECTOR)
#include "exec/reduce_vector.inc.h"
#endif

#define TYPE i8
#define ELEM int8_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE u8
#define ELEM uint8_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE i16
#define ELEM int16_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE u16
#define ELEM uint16_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE i32
#define ELEM int32_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE u32
#define ELEM uint32_t
#define WRAP uint32_t
#include "exec/reduce_type.inc.h"
#define TYPE i64
#define ELEM int64_t
#define WRAP uint64_t
#include "exec/reduce_type.inc.h"
#define TYPE u64
#define ELEM uint64_t
#define WRAP uint64_t
#include "exec/reduce_type.inc.h"
#define TYPE f32
#define ELEM float
#define APPLY f32_apply
#define STORE f32_canon
#include "exec/reduce_type.inc.h"
#define TYPE f64
#define ELEM double
#define APPLY f64_apply
#define STORE f64_canon
#include "exec/reduce_type.inc.h"
#define TYPE f16
#define ELEM uint16_t
#define APPLY f32_apply
#define LOAD f16_to_f32
#define STORE f16_from_f32
#include "exec/reduce_type.inc.h"
#define TYPE bf16
#define ELEM uint16_t
#define APPLY f32_apply
#define LOAD bf16_to_f32
#define STORE bf16_from_f32
#include "exec/reduce_type.inc.h"
#define TYPE e4m3
#define ELEM uint8_t
#define APPLY f32_apply
#define LOAD e4m3_to_f32
#define STORE e4m3_from_f32
#include "exec/reduce_type.inc.h"
#define TYPE e5m2
#define ELEM uint8_t
#define APPLY f32_apply
#define LOAD e5m2_to_f32
#define STORE e5m2_from_f32
#include "exec/reduce_type.inc.h"

#define ENTRY(type, op)                                                                                                \
	[TAUT_##op] = { type##_two_##op, type##_two_nt_##op, type##_two_dual_##op, type##_two_dual_nt_##op,            \
			type##_many_##op }
#define FLOAT_ENTRIES(type) ENTRY(type, SUM), ENTRY(type, PROD), ENTRY(type, MIN), ENTRY(type, MAX)
#define INT_ENTRIES(type) FLOAT_ENTRIES(type), ENTRY(type, BAND), ENTRY(type, BOR), ENTRY(type, BXOR)

static const struct reduce_kernels kernels[TAUT_TYPE_COUNT][TAUT_OP_COUNT] = {
	[TAUT_INT8] = { INT_ENTRIES(i8) },
	[TAUT_UINT8] = { INT_ENTRIES(u8) },
	[TAUT_INT16] = { INT_ENTRIES(i16) },
	[TAUT_UINT16] = { INT_ENTRIES(u16) },
	[TAUT_INT32] = { INT_ENTRIES(i32) },
	[TAUT_UINT32] = { INT_ENTRIES(u32) },
	[TAUT_INT64] = { INT_ENTRIES(i64) },
	[TAUT_UINT64] = { INT_ENTRIES(u64) },
	[TAUT_FLOAT16] = { FLOAT_ENTRIES(f16) },
	[TAUT_FLOAT32] = { FLOAT_ENTRIES(f32) },
	[TAUT_FLOAT64] = { FLOAT_ENTRIES(f64) },
	[TAUT_BFLOAT16] = { FLOAT_ENTRIES(bf16) },
	[TAUT_FLOAT8_E4M3] = { FLOAT_ENTRIES(e4m3) },
	[TAUT_FLOAT8_E5M2] = { FLOAT_ENTRIES(e5m2) },
};
