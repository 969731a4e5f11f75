/* SPDX-License-Identifier: Apache-2.0 */
/* Random decisions that every rank makes alike, and the numbers of the random calls: a value for
 * each (call, rank, index) that is exact in its type, so that results have one right answer. Written without the
 * library's own conversions and reductions. */
#ifndef INTEG_RANDOM_VALUES_H
#define INTEG_RANDOM_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "taut/taut.h"

struct rng {
	uint64_t state;
};

static inline uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline uint64_t draw(struct rng *r)
{
	return scramble(r->state += 0x9e3779b97f4a7c15ull);
}

static inline size_t below(struct rng *r, size_t n)
{
	return (size_t)(draw(r) % n);
}

static inline bool chance(struct rng *r, unsigned percent)
{
	return draw(r) % 100 < percent;
}

/* What the values of a call depend on. */
struct numbers {
	uint64_t salt;
	enum taut_type type;
	enum taut_op op; /* TAUT_OP_USER: premultiplied sum */
	int size;
	bool rough;	   /* any floats: the result is not exact */
	int64_t scalar[8]; /* by rank */
};

static inline bool is_float(enum taut_type t)
{
	return t >= TAUT_FLOAT16 && t <= TAUT_FLOAT8_E5M2;
}

static inline bool is_signed(enum taut_type t)
{
	return t == TAUT_INT8 || t == TAUT_INT16 || t == TAUT_INT32 || t == TAUT_INT64;
}

/* Bits of exponent and of mantissa. */
static inline void format_of(enum taut_type t, int *e, int *m)
{
	*e = t == TAUT_FLOAT16 || t == TAUT_FLOAT8_E5M2 ? 5 : t == TAUT_FLOAT8_E4M3 ? 4 : t == TAUT_FLOAT64 ? 11 : 8;
	*m = t == TAUT_FLOAT16	     ? 10
	     : t == TAUT_BFLOAT16    ? 7
	     : t == TAUT_FLOAT32     ? 23
	     : t == TAUT_FLOAT64     ? 52
	     : t == TAUT_FLOAT8_E4M3 ? 3
				     : 2;
}

/* @v cut to the type's precision; it must be a normal number of it, or zero. */
static inline uint64_t float_bits(enum taut_type t, double v)
{
	uint64_t d;
	int e, m;

	memcpy(&d, &v, sizeof(d));
	if (t == TAUT_FLOAT64)
		return d;
	format_of(t, &e, &m);
	if (!(d << 1))
		return d >> 63 << (e + m);
	return d >> 63 << (e + m) | ((d >> 52 & 2047) - 1023 + (1u << (e - 1)) - 1) << m |
	       (d & 0xfffffffffffffull) >> (52 - m);
}

static inline double float_value(enum taut_type t, uint64_t bits)
{
	uint64_t exponent, mantissa, d;
	double v;
	int e, m;

	format_of(t, &e, &m);
	exponent = bits >> m & ((1u << e) - 1);
	mantissa = bits & (((uint64_t)1 << m) - 1);
	if (!exponent) { /* subnormal */
		v = (double)mantissa / (double)((uint64_t)1 << m);
		for (int i = (1 << (e - 1)) - 2; i > 0; i--)
			v /= 2;
		return bits >> (e + m) & 1 ? -v : v;
	}
	d = (bits >> (e + m) & 1) << 63 | (exponent - ((1u << (e - 1)) - 1) + 1023) << 52 | mantissa << (52 - m);
	memcpy(&v, &d, sizeof(v));
	return v;
}

static inline double epsilon_of(enum taut_type t)
{
	int e, m;

	format_of(t, &e, &m);
	return 1.0 / (double)((uint64_t)1 << m);
}

static inline uint64_t cut(enum taut_type t, uint64_t v)
{
	size_t bits = taut_type_size(t) * 8;

	return bits == 64 ? v : v & (((uint64_t)1 << bits) - 1);
}

static inline int64_t extend(enum taut_type t, uint64_t v)
{
	int shift = 64 - (int)taut_type_size(t) * 8;

	return is_signed(t) ? (int64_t)(v << shift) >> shift : (int64_t)cut(t, v);
}

static inline uint64_t noise(const struct numbers *n, int rank, size_t i)
{
	return scramble(n->salt + (uint64_t)rank * 0x632be59bd9b4e019ull + (uint64_t)i * 0x9e3779b97f4a7c15ull);
}

/* The largest integer that each rank gives: sums of 6 of them are exact. */
static inline int most_of(enum taut_type t)
{
	return t == TAUT_FLOAT8_E5M2   ? 1
	       : t == TAUT_FLOAT8_E4M3 ? 2
	       : t == TAUT_BFLOAT16    ? 20
	       : t == TAUT_FLOAT16     ? 100
				       : 1000;
}

static inline double input_float(const struct numbers *n, int rank, size_t i)
{
	static const double factors[4] = { 1, -1, 2, -2 };
	uint64_t h = noise(n, rank, i);
	int most = most_of(n->type);

	if (n->rough && taut_type_size(n->type) > 1) {
		double v = (double)((int64_t)(h >> 34) - (1 << 29)) / (1 << 20) + 0.25;

		return float_value(n->type, float_bits(n->type, v < 0.01 && v > -0.01 ? 0.5 : v));
	}
	if (n->op == TAUT_PROD)
		return factors[h & 3];
	return (double)((int)(h >> 8 & 0xffffff) % (2 * most + 1) - most);
}

static inline uint64_t input_bits(const struct numbers *n, int rank, size_t i)
{
	uint64_t h;

	if (is_float(n->type))
		return float_bits(n->type, input_float(n, rank, i));
	h = noise(n, rank, i);
	if (n->op != TAUT_AVG)
		return cut(n->type, h);
	/* An average of a sum that does not wrap. */
	return cut(n->type, is_signed(n->type) ? h % 31 - 15 : h % 31);
}

static inline uint64_t combine_ints(const struct numbers *n, uint64_t a, uint64_t b)
{
	int64_t x = extend(n->type, a), y = extend(n->type, b);
	bool less = is_signed(n->type) ? x < y : (uint64_t)x < (uint64_t)y;

	switch (n->op) {
	case TAUT_PROD:
		return a * b;
	case TAUT_MAX:
		return less ? b : a;
	case TAUT_MIN:
		return less ? a : b;
	case TAUT_BAND:
		return a & b;
	case TAUT_BOR:
		return a | b;
	case TAUT_BXOR:
		return a ^ b;
	default:
		return a + b;
	}
}

static inline uint64_t reduced_int(const struct numbers *n, size_t i)
{
	bool user = n->op == TAUT_OP_USER;
	uint64_t v = 0;

	for (int r = 0; r < n->size; r++) {
		uint64_t x = input_bits(n, r, i) * (user ? (uint64_t)n->scalar[r] : 1);

		v = r ? combine_ints(n, v, x) : x;
	}
	if (n->op == TAUT_AVG)
		v = (uint64_t)(extend(n->type, v) / n->size);
	return cut(n->type, v);
}

/* @sum_abs: of the inputs' absolute values, for a tolerance. */
static inline double reduced_float(const struct numbers *n, size_t i, double *sum_abs)
{
	double v = 0;

	*sum_abs = 0;
	for (int r = 0; r < n->size; r++) {
		double x = input_float(n, r, i) * (n->op == TAUT_OP_USER ? (double)n->scalar[r] : 1);

		*sum_abs += x < 0 ? -x : x;
		if (!r)
			v = x;
		else if (n->op == TAUT_PROD)
			v *= x;
		else if (n->op == TAUT_MAX || n->op == TAUT_MIN)
			v = (v < x) == (n->op == TAUT_MAX) ? x : v;
		else
			v += x;
	}
	return n->op == TAUT_AVG ? v / n->size : v;
}

static inline uint64_t reduced_bits(const struct numbers *n, size_t i)
{
	double unused;

	return is_float(n->type) ? float_bits(n->type, reduced_float(n, i, &unused)) : reduced_int(n, i);
}

#endif
