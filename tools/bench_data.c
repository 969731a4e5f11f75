/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_data.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A type as the reference sees it. Floating types hold every integer up to 2^exact. */
struct form {
	bool real, is_signed;
	int exact;		/* floating: significant bits; integer: bits of a non-negative value */
	int exp_bits, man_bits; /* floating types of one and two bytes */
};

static const struct form forms[TAUT_TYPE_COUNT] = {
	[TAUT_INT8] = { .is_signed = true, .exact = 7 },
	[TAUT_UINT8] = { .exact = 8 },
	[TAUT_INT16] = { .is_signed = true, .exact = 15 },
	[TAUT_UINT16] = { .exact = 16 },
	[TAUT_INT32] = { .is_signed = true, .exact = 31 },
	[TAUT_UINT32] = { .exact = 32 },
	[TAUT_INT64] = { .is_signed = true, .exact = 63 },
	[TAUT_UINT64] = { .exact = 64 },
	[TAUT_FLOAT16] = { .real = true, .exact = 11, .exp_bits = 5, .man_bits = 10 },
	[TAUT_BFLOAT16] = { .real = true, .exact = 8, .exp_bits = 8, .man_bits = 7 },
	[TAUT_FLOAT32] = { .real = true, .exact = 24 },
	[TAUT_FLOAT64] = { .real = true, .exact = 53 },
	[TAUT_FLOAT8_E4M3] = { .real = true, .exact = 4, .exp_bits = 4, .man_bits = 3 },
	[TAUT_FLOAT8_E5M2] = { .real = true, .exact = 3, .exp_bits = 5, .man_bits = 2 },
};

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* --- Elements --- */

/* Sign, exponent and mantissa of a small floating type; toward zero where it is not exact. */
static unsigned pack_small(const struct form *f, double v)
{
	int bias = (1 << (f->exp_bits - 1)) - 1;
	unsigned sign = signbit(v) ? 1u << (f->exp_bits + f->man_bits) : 0;
	int e;
	double m = frexp(fabs(v), &e); /* 0.5 <= m < 1 */

	if (v == 0)
		return sign;
	if (e - 1 + bias <= 0) /* below the normal numbers */
		return sign | (unsigned)ldexp(fabs(v), bias - 1 + f->man_bits);
	return sign | (unsigned)(e - 1 + bias) << f->man_bits | (unsigned)ldexp(2 * m - 1, f->man_bits);
}

static double unpack_small(enum taut_type type, unsigned bits)
{
	const struct form *f = &forms[type];
	int bias = (1 << (f->exp_bits - 1)) - 1;
	int e = (int)(bits >> f->man_bits) & ((1 << f->exp_bits) - 1);
	unsigned man = bits & ((1u << f->man_bits) - 1);
	double sign = bits >> (f->exp_bits + f->man_bits) & 1 ? -1 : 1;
	bool top = e == (1 << f->exp_bits) - 1;

	if (top && type == TAUT_FLOAT8_E4M3 && man == 7)
		return NAN;
	if (top && type != TAUT_FLOAT8_E4M3) /* that one has no infinity */
		return man ? NAN : sign * INFINITY;
	if (e == 0)
		return sign * ldexp(man, 1 - bias - f->man_bits);
	return sign * ldexp((double)(man | 1u << f->man_bits), e - bias - f->man_bits);
}

static void put_real(unsigned char *p, enum taut_type type, double v)
{
	float single = (float)v;
	unsigned small;

	if (type == TAUT_FLOAT64) {
		memcpy(p, &v, sizeof(v));
	} else if (type == TAUT_FLOAT32) {
		memcpy(p, &single, sizeof(single));
	} else {
		small = pack_small(&forms[type], v);
		p[0] = (unsigned char)small;
		if (taut_type_size(type) == 2)
			p[1] = (unsigned char)(small >> 8);
	}
}

static double get_real(const unsigned char *p, enum taut_type type)
{
	double v;
	float single;

	if (type == TAUT_FLOAT64) {
		memcpy(&v, p, sizeof(v));
		return v;
	}
	if (type == TAUT_FLOAT32) {
		memcpy(&single, p, sizeof(single));
		return (double)single;
	}
	return unpack_small(type, taut_type_size(type) == 2 ? p[0] | (unsigned)p[1] << 8 : p[0]);
}

/* The low bytes, as little-endian machines keep them (those that taut runs on). */
static void put_int(unsigned char *p, enum taut_type type, uint64_t v)
{
	for (size_t i = 0; i < taut_type_size(type); i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

/* As the type sees it: cut to its width, with its sign. */
static int64_t wrap(enum taut_type type, uint64_t v)
{
	unsigned bits = 8 * (unsigned)taut_type_size(type);
	uint64_t low = bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);

	if (forms[type].is_signed && bits < 64 && low >> (bits - 1))
		low |= ~UINT64_C(0) << bits;
	return (int64_t)low;
}

/* --- What a rank puts in --- */

/* Small numbers whose sum over all ranks stays within @limit; never negative when unsigned. */
static int64_t sum_term(const struct form *f, uint64_t h, int64_t limit, int rank, int size, size_t i)
{
	int64_t k = limit / size;
	int64_t every = (size + limit - 1) / limit; /* more ranks than units: some ranks put in zero */
	int64_t v;

	if (k > 1 << 20)
		k = 1 << 20;
	if (k >= 1)
		v = (int64_t)(h % (uint64_t)(k + 1));
	else
		v = ((int64_t)i + rank) % every == 0;
	return f->is_signed || f->real ? (h >> 40 & 1 ? -v : v) : v;
}

static int64_t real_value(const struct form *f, enum taut_op op, uint64_t h, int rank, int size, size_t i)
{
	int64_t limit = INT64_C(1) << (f->exact < 24 ? f->exact : 24);
	int twos = size > 3 ? size / 3 : 1; /* a product of at most 4 twos */

	switch (op) {
	case TAUT_SUM:
	case TAUT_AVG:
		return sum_term(f, h, limit, rank, size, i);
	case TAUT_OP_USER: /* scalars are 1 and 2 */
		return sum_term(f, h, limit / 2, rank, size, i);
	case TAUT_PROD:
		return ((i + (size_t)rank) % (size_t)twos == 0 ? 2 : 1) * (h >> 40 & 1 ? -1 : 1);
	default:
		return (int64_t)(h % (uint64_t)(2 * limit + 1)) - limit;
	}
}

static int64_t int_value(const struct form *f, enum taut_op op, uint64_t h, int rank, int size, size_t i)
{
	int width = f->exact + f->is_signed;

	switch (op) {
	case TAUT_AVG:
		return sum_term(f, h, (INT64_C(1) << (f->exact > 40 ? 40 : f->exact)) - 1, rank, size, i);
	case TAUT_PROD:
		return (int64_t)(h | 1); /* odd: the product of many does not become zero */
	case TAUT_BAND:
		return (int64_t) ~(UINT64_C(1) << (h % (uint64_t)width));
	case TAUT_BOR:
		return (int64_t)(UINT64_C(1) << (h % (uint64_t)width));
	default:
		return (int64_t)h;
	}
}

static int64_t value(enum taut_type type, enum taut_op op, int rank, int size, size_t i)
{
	const struct form *f = &forms[type];
	uint64_t h = mix(mix((uint64_t)i) ^ (uint64_t)rank * 0x632be59bd9b4e019u);

	if (f->real)
		return real_value(f, op, h, rank, size, i);
	return wrap(type, (uint64_t)int_value(f, op, h, rank, size, i));
}

static int scalar(int rank)
{
	return 1 + rank % 2;
}

void bench_scalar(void *out, enum taut_type type, int rank)
{
	if (forms[type].real)
		put_real(out, type, scalar(rank));
	else
		put_int(out, type, (uint64_t)scalar(rank));
}

bool bench_op_fits(enum taut_op op, enum taut_type type)
{
	return !forms[type].real || (op != TAUT_BAND && op != TAUT_BOR && op != TAUT_BXOR);
}

void bench_input(struct bench_table *out, enum taut_type type, enum taut_op op, int rank, int size)
{
	size_t width = taut_type_size(type);

	out->type = type;
	out->exact = true;
	for (size_t i = 0; i < BENCH_PERIOD; i++) {
		int64_t v = value(type, op, rank, size, i);

		if (forms[type].real)
			put_real(out->bytes + i * width, type, (double)v);
		else
			put_int(out->bytes + i * width, type, (uint64_t)v);
	}
}

/* --- What comes out --- */

static int64_t combine(enum taut_type type, enum taut_op op, int64_t a, int64_t b)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;
	bool less = forms[type].is_signed || forms[type].real ? a < b : x < y;

	switch (op) {
	case TAUT_PROD:
		return wrap(TAUT_INT64, x * y);
	case TAUT_MAX:
		return less ? b : a;
	case TAUT_MIN:
		return less ? a : b;
	case TAUT_BAND:
		return (int64_t)(x & y);
	case TAUT_BOR:
		return (int64_t)(x | y);
	case TAUT_BXOR:
		return (int64_t)(x ^ y);
	default:
		return (int64_t)(x + y);
	}
}

/* Element @i reduced over all ranks, before an average divides; *@weight: the sum of absolute values. */
static int64_t reduce_one(enum taut_type type, enum taut_op op, int size, size_t i, double *weight)
{
	int64_t acc = 0;

	*weight = 0;
	for (int r = 0; r < size; r++) {
		int64_t v = value(type, op, r, size, i);

		if (op == TAUT_OP_USER)
			v = (int64_t)((uint64_t)v * (uint64_t)scalar(r));
		acc = r ? combine(type, op, acc, v) : v;
		if (!forms[type].real)
			acc = wrap(type, (uint64_t)acc);
		*weight += fabs((double)v);
	}
	return acc;
}

static void put_average(struct bench_table *out, int size, size_t i, int64_t sum, double weight)
{
	const struct form *f = &forms[out->type];
	unsigned char *p = out->bytes + i * taut_type_size(out->type);
	double v = (double)sum / size;

	put_real(p, out->type, v);
	out->want[i] = v;
	/* Every rank's term and every partial sum may be rounded once; the last part is for results
	 * below the normal numbers of fp8. */
	out->slack[i] = ldexp((size + 1) * weight / size, -f->exact) + (f->exact <= 4 ? ldexp(size, -9) : 0);
	if (get_real(p, out->type) != v || (size & (size - 1)) || size > 256)
		out->exact = false;
}

void bench_reduced(struct bench_table *out, enum taut_type type, enum taut_op op, int size)
{
	size_t width = taut_type_size(type);

	out->type = type;
	out->exact = true;
	for (size_t i = 0; i < BENCH_PERIOD; i++) {
		double weight;
		int64_t v = reduce_one(type, op, size, i, &weight);

		if (!forms[type].real)
			put_int(out->bytes + i * width, type, (uint64_t)(op == TAUT_AVG ? v / size : v));
		else if (op == TAUT_AVG)
			put_average(out, size, i, v, weight);
		else
			put_real(out->bytes + i * width, type, (double)v);
	}
}

/* --- Whole buffers --- */

void bench_fill(void *dst, const struct bench_table *t, size_t start, size_t count)
{
	size_t width = taut_type_size(t->type);
	unsigned char *p = dst;

	for (size_t pos = start % BENCH_PERIOD; count; pos = 0) {
		size_t n = BENCH_PERIOD - pos < count ? BENCH_PERIOD - pos : count;

		memcpy(p, t->bytes + pos * width, n * width);
		p += n * width;
		count -= n;
	}
}

static bool same(const unsigned char *got, const struct bench_table *t, size_t i)
{
	size_t width = taut_type_size(t->type);
	const unsigned char *want = t->bytes + i * width;

	if (!memcmp(got, want, width))
		return true;
	if (!forms[t->type].real)
		return false;
	if (t->exact) /* a zero may have either sign */
		return get_real(got, t->type) == get_real(want, t->type);
	return fabs(get_real(got, t->type) - t->want[i]) <= t->slack[i];
}

size_t bench_wrong(const void *got, const struct bench_table *t, size_t start, size_t count)
{
	size_t width = taut_type_size(t->type);
	const unsigned char *p = got;
	size_t wrong = 0;

	for (size_t pos = start % BENCH_PERIOD; count; pos = 0) {
		size_t n = BENCH_PERIOD - pos < count ? BENCH_PERIOD - pos : count;

		if (!t->exact || memcmp(p, t->bytes + pos * width, n * width)) {
			for (size_t i = 0; i < n; i++)
				wrong += !same(p + i * width, t, pos + i);
		}
		p += n * width;
		count -= n;
	}
	return wrong;
}

size_t bench_touched(const void *p, size_t len)
{
	const unsigned char *b = p;
	size_t touched = 0;

	for (size_t i = 0; i < len; i++)
		touched += b[i] != BENCH_POISON;
	return touched;
}
