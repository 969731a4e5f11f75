/* SPDX-License-Identifier: Apache-2.0 */
/* What the reductions must give, worked out one element at a time and by other means than
 * src/exec: small floats through a table of all values of their type. */
#ifndef TEST_EXEC_REDUCE_REF_H
#define TEST_EXEC_REDUCE_REF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "taut/taut.h"

struct small_ref {
	int exp_bits, frac_bits;
	int has_inf, saturates;
	unsigned nan; /* the one that results have */
};

static const struct small_ref small_refs[TAUT_TYPE_COUNT] = {
	[TAUT_FLOAT16] = { 5, 10, 1, 0, 0x7e00 },
	[TAUT_BFLOAT16] = { 8, 7, 1, 0, 0x7fc0 },
	[TAUT_FLOAT8_E4M3] = { 4, 3, 0, 1, 0x7f },
	[TAUT_FLOAT8_E5M2] = { 5, 2, 1, 1, 0x7e },
};

static inline int ref_is_small(enum taut_type type)
{
	return small_refs[type].exp_bits > 0;
}

static inline int ref_is_float(enum taut_type type)
{
	return ref_is_small(type) || type == TAUT_FLOAT32 || type == TAUT_FLOAT64;
}

static inline int ref_is_signed(enum taut_type type)
{
	return type == TAUT_INT8 || type == TAUT_INT16 || type == TAUT_INT32 || type == TAUT_INT64;
}

/* The value if exponents were without bound, so that infinity's pattern has one too. */
static inline double ref_magnitude(const struct small_ref *s, unsigned mag)
{
	int exp = (int)(mag >> s->frac_bits), bias = (1 << (s->exp_bits - 1)) - 1;
	unsigned frac = mag & ((1u << s->frac_bits) - 1);

	if (exp == 0)
		return ldexp(frac, 1 - bias - s->frac_bits);
	return ldexp(frac + (1u << s->frac_bits), exp - bias - s->frac_bits);
}

/* The first magnitude's pattern that is not a finite number. */
static inline unsigned ref_first_odd(const struct small_ref *s)
{
	unsigned all = (1u << (s->exp_bits + s->frac_bits)) - 1;

	return s->has_inf ? all ^ ((1u << s->frac_bits) - 1) : all;
}

static inline float ref_decode(enum taut_type type, unsigned bits)
{
	const struct small_ref *s = &small_refs[type];
	unsigned sign = 1u << (s->exp_bits + s->frac_bits), mag = bits & (sign - 1);
	double v = ref_magnitude(s, mag);

	if (mag >= ref_first_odd(s))
		v = s->has_inf && mag == ref_first_odd(s) ? INFINITY : NAN;
	return (float)(bits & sign ? -v : v);
}

static inline unsigned ref_encode(enum taut_type type, float f)
{
	const struct small_ref *s = &small_refs[type];
	unsigned sign = signbit(f) ? 1u << (s->exp_bits + s->frac_bits) : 0;
	unsigned lo = 0, hi = ref_first_odd(s);
	double v = fabs((double)f), below, above;

	if (isnan(f))
		return s->nan;
	if (isinf(f) && s->has_inf)
		return hi | sign;
	if (s->saturates && v >= ref_magnitude(s, hi - 1))
		return (hi - 1) | sign;
	if (v >= ref_magnitude(s, hi))
		return hi | sign;
	while (hi - lo > 1) {
		unsigned mid = (lo + hi) / 2;

		if (ref_magnitude(s, mid) <= v)
			lo = mid;
		else
			hi = mid;
	}
	below = v - ref_magnitude(s, lo);
	above = ref_magnitude(s, hi) - v;
	if (below == above)
		return (lo & 1 ? hi : lo) | sign;
	return (below < above ? lo : hi) | sign;
}

static inline uint64_t ref_load(enum taut_type type, const void *p)
{
	int shift = 64 - 8 * (int)taut_type_size(type);
	uint64_t u = 0;

	memcpy(&u, p, taut_type_size(type));
	return ref_is_signed(type) ? (uint64_t)((int64_t)(u << shift) >> shift) : u;
}

static inline uint64_t ref_int_op(enum taut_type type, enum taut_op op, uint64_t a, uint64_t b)
{
	int less = ref_is_signed(type) ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case TAUT_SUM:
		return a + b;
	case TAUT_PROD:
		return a * b;
	case TAUT_MIN:
		return less ? a : b;
	case TAUT_MAX:
		return less ? b : a;
	case TAUT_BAND:
		return a & b;
	case TAUT_BOR:
		return a | b;
	default:
		return a ^ b;
	}
}

static inline int ref_takes_first(enum taut_op op, double a, double b)
{
	if (a == b)
		return (op == TAUT_MIN) == !!signbit(a);
	return (op == TAUT_MIN) == (a < b);
}

static inline float ref_f32_op(enum taut_op op, float a, float b)
{
	if (op == TAUT_SUM)
		return a + b;
	if (op == TAUT_PROD)
		return a * b;
	if (isnan(a) || isnan(b))
		return NAN;
	return ref_takes_first(op, a, b) ? a : b;
}

static inline double ref_f64_op(enum taut_op op, double a, double b)
{
	if (op == TAUT_SUM)
		return a + b;
	if (op == TAUT_PROD)
		return a * b;
	if (isnan(a) || isnan(b))
		return NAN;
	return ref_takes_first(op, a, b) ? a : b;
}

static inline float ref_load_f32(enum taut_type type, const void *p)
{
	float f;

	if (type != TAUT_FLOAT32)
		return ref_decode(type, (unsigned)ref_load(type, p));
	memcpy(&f, p, sizeof(f));
	return f;
}

static inline void ref_store_f32(enum taut_type type, void *p, float f)
{
	unsigned u = type == TAUT_FLOAT32 ? 0x7fc00000 : ref_is_small(type) ? ref_encode(type, f) : 0;

	if (type == TAUT_FLOAT32 && !isnan(f))
		memcpy(&u, &f, sizeof(u));
	memcpy(p, &u, taut_type_size(type));
}

static inline void ref_f64(void *out, enum taut_op op, const void *const *src, int nsrc)
{
	uint64_t nan = 0x7ff8000000000000u;
	double acc, x;

	memcpy(&acc, src[0], sizeof(acc));
	for (int i = 1; i < nsrc; i++) {
		memcpy(&x, src[i], sizeof(x));
		acc = ref_f64_op(op, acc, x);
	}
	memcpy(out, isnan(acc) ? (void *)&nan : (void *)&acc, sizeof(acc));
}

/* One element from one element each of @nsrc >= 2 sources. */
static inline void ref_element(void *out, enum taut_type type, enum taut_op op, const void *const *src, int nsrc)
{
	if (type == TAUT_FLOAT64) {
		ref_f64(out, op, src, nsrc);
	} else if (ref_is_float(type)) {
		float acc = ref_load_f32(type, src[0]);

		for (int i = 1; i < nsrc; i++)
			acc = ref_f32_op(op, acc, ref_load_f32(type, src[i]));
		ref_store_f32(type, out, acc);
	} else {
		uint64_t acc = ref_load(type, src[0]);

		for (int i = 1; i < nsrc; i++)
			acc = ref_int_op(type, op, acc, ref_load(type, src[i]));
		memcpy(out, &acc, taut_type_size(type));
	}
}

/* Arrays of @n elements; with one source a copy. */
static inline void ref_reduce(void *out, enum taut_type type, enum taut_op op, const void *const *src, int nsrc,
			      size_t n)
{
	const size_t size = taut_type_size(type);
	const void *at[64];

	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < nsrc; k++)
			at[k] = (const char *)src[k] + i * size;
		if (nsrc == 1)
			memcpy((char *)out + i * size, at[0], size);
		else
			ref_element((char *)out + i * size, type, op, at, nsrc);
	}
}

static inline uint64_t ref_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
