/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one type, included for each by reduce_loops.inc.h with
 *   TYPE   prefix of the names
 *   ELEM   element in memory
 *   WRAP   integers: unsigned type to compute in
 *   APPLY  floats: the operation
 *   STORE  floats: from what APPLY gives to ELEM
 *   LOAD   small floats: from ELEM to fp32
 */
#if defined(WRAP)
#define APPLY INT_APPLY
#define STORE
#endif
#if !defined(LOAD)
#define LOAD
#define PLAIN
#endif

#if defined(VECTOR) && !defined(PLAIN)
/* @n elements of a pair of vectors from each of @nsrc sources, @pos bytes into each. */
INLINE void NAME(_step)(enum taut_op op, char *dst, const void *const *src, int nsrc, size_t pos, size_t n)
{
	struct pair acc = NAME(_load)((const char *)src[0] + pos, n);

	for (int i = 1; i < nsrc; i++)
		acc = pair_apply(op, acc, NAME(_load)((const char *)src[i] + pos, n));
	NAME(_store)(dst + pos, acc, n);
}

INLINE void NAME(_loop_many)(enum taut_op op, void *dst, const void *const *src, int nsrc, size_t n)
{
	size_t pos = 0;

	if (nsrc == 1) {
		reduce_copy(dst, src[0], n * sizeof(ELEM));
		return;
	}
	for (; n >= PAIR; n -= PAIR, pos += PAIR * sizeof(ELEM))
		NAME(_step)(op, dst, src, nsrc, pos, PAIR);
	if (n)
		NAME(_step)(op, dst, src, nsrc, pos, n);
}

INLINE void NAME(_loop)(enum taut_op op, void *dst, const void *a, const void *b, size_t n)
{
	const void *const src[] = { a, b };

	NAME(_loop_many)(op, dst, src, 2, n);
}

#define MANY(op, ...) NAME(_loop_many)(TAUT_##op, __VA_ARGS__)
#else
typedef ELEM NAME(_elem) __attribute__((aligned(1), may_alias));

INLINE void NAME(_loop)(enum taut_op op, void *dst, const void *a, const void *b, size_t n)
{
	NAME(_elem) *d = dst;
	const NAME(_elem) *x = a, *y = b;

	INDEPENDENT
	for (size_t i = 0; i < n; i++)
		d[i] = STORE(APPLY(op, LOAD(x[i]), LOAD(y[i])));
}

#if defined(PLAIN)
#define MANY(op, ...) reduce_blocks_many(NAME(_two_##op), sizeof(ELEM), __VA_ARGS__)
#else
static void NAME(_decode)(float *dst, const void *src, size_t n)
{
	const NAME(_elem) *s = src;

	INDEPENDENT
	for (size_t i = 0; i < n; i++)
		dst[i] = LOAD(s[i]);
}

static void NAME(_encode)(void *dst, const float *src, size_t n)
{
	NAME(_elem) *d = dst;

	INDEPENDENT
	for (size_t i = 0; i < n; i++)
		d[i] = STORE(src[i]);
}

static const struct reduce_small NAME(_small) = { NAME(_decode), NAME(_encode), sizeof(ELEM) };

#define MANY(op, ...) reduce_blocks_many_small(f32_two_##op, &NAME(_small), __VA_ARGS__)
#endif
#endif

#define KERNELS(op)                                                                                                    \
	static void NAME(_two_##op)(void *dst, const void *a, const void *b, size_t n)                                 \
	{                                                                                                              \
		NAME(_loop)(TAUT_##op, dst, a, b, n);                                                                  \
	}                                                                                                              \
	static void NAME(_two_nt_##op)(void *dst, const void *a, const void *b, size_t n)                              \
	{                                                                                                              \
		reduce_blocks_nt(NAME(_two_##op), sizeof(ELEM), dst, a, b, n);                                         \
	}                                                                                                              \
	static void NAME(_two_dual_##op)(void *dst, void *dst2, const void *a, const void *b, size_t n)                \
	{                                                                                                              \
		reduce_blocks_dual(NAME(_two_##op), sizeof(ELEM), dst, dst2, a, b, n);                                 \
	}                                                                                                              \
	static void NAME(_two_dual_nt_##op)(void *dst, void *dst2, const void *a, const void *b, size_t n)             \
	{                                                                                                              \
		reduce_blocks_dual_nt(NAME(_two_##op), sizeof(ELEM), dst, dst2, a, b, n);                              \
	}                                                                                                              \
	static void NAME(_many_##op)(void *dst, const void *const *src, int nsrc, size_t n)                            \
	{                                                                                                              \
		MANY(op, dst, src, nsrc, n);                                                                           \
	}

KERNELS(SUM)
KERNELS(PROD)
KERNELS(MIN)
KERNELS(MAX)
#if defined(WRAP)
KERNELS(BAND)
KERNELS(BOR)
KERNELS(BXOR)
#endif

#undef KERNELS
#undef MANY
#undef PLAIN
#undef LOAD
#undef STORE
#undef APPLY
#undef WRAP
#undef ELEM
#undef TYPE
