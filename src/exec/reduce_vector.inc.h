/* SPDX-License-Identifier: Apache-2.0 */
/* The small floats on x86 with F16C, where a compiler does badly alone: vectors of VECTOR
 * bytes (32 or 64), in pairs, so that a pair of fp32 vectors stands for one vector of 16-bit
 * elements or half a vector of bytes. The order of elements in a pair is the type's own
 * business: loads and stores agree on it. Needs no fp32 subnormals, as half.h. */
#include <immintrin.h>

typedef float vf __attribute__((vector_size(VECTOR)));
typedef uint32_t vu __attribute__((vector_size(VECTOR)));
typedef uint16_t vh __attribute__((vector_size(VECTOR)));

struct pair {
	vf lo, hi;
};

#define PAIR (VECTOR / 2) /* elements */
#define F32_SIGN 0x80000000u

#if VECTOR == 64
#define V(name) _mm512_##name

static void stream(char *dst, const char *src, size_t len)
{
	for (size_t i = 0; i < len; i += VECTOR)
		_mm512_stream_si512((__m512i *)(dst + i), _mm512_loadu_si512(src + i));
}

INLINE __mmask32 first(size_t n)
{
	return (__mmask32)((1ull << n) - 1);
}

/* @n of PAIR elements; those beyond read as 0 and are not written. */
INLINE vh load16(const void *p, size_t n)
{
	return (vh)(n == PAIR ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(first(n), p));
}

INLINE void store16(void *p, vh v, size_t n)
{
	if (n == PAIR)
		_mm512_storeu_si512(p, (__m512i)v);
	else
		_mm512_mask_storeu_epi16(p, first(n), (__m512i)v);
}

/* With the sign in all bits of the upper byte. */
INLINE vh load8(const void *p, size_t n)
{
	return (vh)_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(first(n), p));
}

/* The upper bytes. */
INLINE void store8(void *p, vh v, size_t n)
{
	_mm256_mask_storeu_epi8(p, first(n), _mm512_cvtepi16_epi8((__m512i)(v >> 8)));
}

INLINE __m256i load_half(const void *p)
{
	return _mm256_loadu_si256(p);
}

INLINE void store_half(void *p, __m256i v)
{
	_mm256_storeu_si256(p, v);
}

INLINE vf from_f16_half(__m256i v)
{
	return (vf)_mm512_cvtph_ps(v);
}

INLINE __m256i to_f16_half(vf f)
{
	return _mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT);
}

INLINE struct pair from_f16(vh v)
{
	return (struct pair){ from_f16_half(_mm512_castsi512_si256((__m512i)v)),
			      from_f16_half(_mm512_extracti64x4_epi64((__m512i)v, 1)) };
}

INLINE vh to_f16(struct pair p)
{
	return (vh)_mm512_inserti64x4(_mm512_castsi256_si512(to_f16_half(p.lo)), to_f16_half(p.hi), 1);
}

INLINE vf if_nan(vf f, vf then, vf or_else)
{
	return (vf)_mm512_mask_mov_ps((__m512)or_else, _mm512_cmp_ps_mask((__m512)f, (__m512)f, _CMP_UNORD_Q),
				      (__m512)then);
}

/* By the processor's table of what to do with which kind of number: as it is, but of both
 * kinds of NaN, the two lowest entries, the other operand. */
INLINE vf canon(vf f)
{
	const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN));

	return (vf)_mm512_fixupimm_ps(nan, (__m512)f, _mm512_set1_epi32(0x11111100), 0);
}

/* To the nearest in the upper half of each number. */
INLINE vu bf16_round(vf f)
{
	const __m512i u = (__m512i)canon(f);
	const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
	const __m512i even = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));

	return (vu)_mm512_mask_add_epi32(even, odd, u, _mm512_set1_epi32(0x8000));
}

INLINE vf if_equal(vf f, vf other, vf then, vf or_else)
{
	return (vf)_mm512_mask_mov_ps((__m512)or_else, _mm512_cmp_ps_mask((__m512)f, (__m512)other, _CMP_EQ_OQ),
				      (__m512)then);
}

INLINE vh if_equal16(vh v, vh other, vh then, vh or_else)
{
	return (vh)_mm512_mask_mov_epi16((__m512i)or_else, _mm512_cmpeq_epi16_mask((__m512i)v, (__m512i)other),
					 (__m512i)then);
}
#else
#define V(name) _mm256_##name

static void stream(char *dst, const char *src, size_t len)
{
	for (size_t i = 0; i < len; i += VECTOR)
		_mm256_stream_si256((__m256i *)(dst + i), _mm256_loadu_si256((const __m256i *)(src + i)));
}

/* At most VECTOR bytes, without a call. */
INLINE void copy_few(char *dst, const char *src, size_t len)
{
	size_t pos;

	if (len & 32)
		memcpy(dst, src, 32);
	if (len & 16)
		memcpy(dst, src, 16);
	pos = len & 16;
	if (len & 8)
		memcpy(dst + pos, src + pos, 8);
	pos += len & 8;
	if (len & 4)
		memcpy(dst + pos, src + pos, 4);
	pos += len & 4;
	if (len & 2)
		memcpy(dst + pos, src + pos, 2);
	pos += len & 2;
	if (len & 1)
		dst[pos] = src[pos];
}

INLINE vh load16(const void *p, size_t n)
{
	vh v = { 0 };

	copy_few((char *)&v, p, n * 2);
	return v;
}

INLINE void store16(void *p, vh v, size_t n)
{
	copy_few(p, (const char *)&v, n * 2);
}

INLINE vh load8(const void *p, size_t n)
{
	__m128i v = _mm_setzero_si128();

	copy_few((char *)&v, p, n);
	return (vh)_mm256_cvtepi8_epi16(v);
}

INLINE void store8(void *p, vh v, size_t n)
{
	__m256i bytes = (__m256i)(v >> 8);
	__m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));

	copy_few(p, (const char *)&packed, n);
}

INLINE __m128i load_half(const void *p)
{
	return _mm_loadu_si128(p);
}

INLINE void store_half(void *p, __m128i v)
{
	_mm_storeu_si128(p, v);
}

INLINE vf from_f16_half(__m128i v)
{
	return (vf)_mm256_cvtph_ps(v);
}

INLINE __m128i to_f16_half(vf f)
{
	return _mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT);
}

INLINE struct pair from_f16(vh v)
{
	return (struct pair){ from_f16_half(_mm256_castsi256_si128((__m256i)v)),
			      from_f16_half(_mm256_extracti128_si256((__m256i)v, 1)) };
}

INLINE vh to_f16(struct pair p)
{
	return (vh)_mm256_set_m128i(to_f16_half(p.hi), to_f16_half(p.lo));
}

INLINE vf if_nan(vf f, vf then, vf or_else)
{
	return (vf)_mm256_blendv_ps((__m256)or_else, (__m256)then, _mm256_cmp_ps((__m256)f, (__m256)f, _CMP_UNORD_Q));
}

INLINE vf canon(vf f)
{
	return if_nan(f, (vf)_mm256_castsi256_ps(_mm256_set1_epi32(F32_NAN)), f);
}

INLINE vu bf16_round(vf f)
{
	vu u = (vu)canon(f);

	return u + 0x7fff + (u >> 16 & 1);
}

INLINE vf if_equal(vf f, vf other, vf then, vf or_else)
{
	return (vf)_mm256_blendv_ps((__m256)or_else, (__m256)then, _mm256_cmp_ps((__m256)f, (__m256)other, _CMP_EQ_OQ));
}

INLINE vh if_equal16(vh v, vh other, vh then, vh or_else)
{
	return (vh)_mm256_blendv_epi8((__m256i)or_else, (__m256i)then, _mm256_cmpeq_epi16((__m256i)v, (__m256i)other));
}
#endif

/* An operand that is NaN or equal to the other: the second. */
INLINE vf min2(vf a, vf b)
{
	return (vf)V(min_ps)(a, b);
}

INLINE vf max2(vf a, vf b)
{
	return (vf)V(max_ps)(a, b);
}

INLINE vf all(float f)
{
	return (vf)V(set1_ps)(f);
}

INLINE vh all16(uint16_t u)
{
	return (vh)V(set1_epi16)((short)u);
}

/* As f32_min(). */
INLINE vf vf_min(vf a, vf b)
{
	return (vf)((vu)min2(a, b) | (vu)min2(b, a));
}

INLINE vf vf_apply(enum taut_op op, vf a, vf b)
{
	switch (op) {
	case TAUT_SUM:
		return a + b;
	case TAUT_PROD:
		return a * b;
	case TAUT_MIN:
		return vf_min(a, b);
	default:
		return (vf)((vu)vf_min((vf)((vu)a ^ F32_SIGN), (vf)((vu)b ^ F32_SIGN)) ^ F32_SIGN);
	}
}

INLINE struct pair pair_apply(enum taut_op op, struct pair a, struct pair b)
{
	return (struct pair){ vf_apply(op, a.lo, b.lo), vf_apply(op, a.hi, b.hi) };
}

/* Whole vectors in halves, which spares shuffles. */
INLINE struct pair f16_load(const void *p, size_t n)
{
	const char *half = (const char *)p + VECTOR / 2;

	if (n < PAIR)
		return from_f16(load16(p, n));
	return (struct pair){ from_f16_half(load_half(p)), from_f16_half(load_half(half)) };
}

INLINE void f16_store(void *p, struct pair v, size_t n)
{
	v = (struct pair){ canon(v.lo), canon(v.hi) };
	if (n < PAIR) {
		store16(p, to_f16(v), n);
		return;
	}
	store_half(p, to_f16_half(v.lo));
	store_half((char *)p + VECTOR / 2, to_f16_half(v.hi));
}

/* Even elements in the lower vector: no shuffles. */
INLINE struct pair bf16_load(const void *p, size_t n)
{
	vu u = (vu)load16(p, n);

	return (struct pair){ (vf)(u << 16), (vf)(u & 0xffff0000u) };
}

INLINE void bf16_store(void *p, struct pair v, size_t n)
{
	store16(p, (vh)(bf16_round(v.lo) >> 16 | (bf16_round(v.hi) & 0xffff0000u)), n);
}

/* To the nearest with @bits of fraction, but not finer than in @smallest, the least normal
 * number: by adding a number whose last place has that value. */
INLINE vf round_fraction(vf mag, int bits, float smallest)
{
	vu exp = (vu)max2((vf)((vu)mag & F32_INF), all(smallest));
	vf magic = (vf)(exp + ((uint32_t)(23 - bits) << 23));

	return (mag + magic) - magic;
}

/* e5m2 is the upper byte of fp16. */
INLINE struct pair e5m2_load(const void *p, size_t n)
{
	return from_f16(load8(p, n) << 8);
}

INLINE vf e5m2_round(vf f)
{
	vu u = (vu)canon(f);
	vf mag = (vf)(u & ~F32_SIGN), inf = all(f32_from_bits(F32_INF));

	mag = if_equal(mag, inf, inf, min2(all(57344.0f), mag));
	return (vf)((vu)round_fraction(mag, 2, 0x1p-14f) | (u & F32_SIGN));
}

INLINE void e5m2_store(void *p, struct pair v, size_t n)
{
	store8(p, to_f16((struct pair){ e5m2_round(v.lo), e5m2_round(v.hi) }), n);
}

/* e4m3 is fp16 with a narrower exponent: of values 2^8 times as large. NaN is what would be
 * 480. */
INLINE struct pair e4m3_load(const void *p, size_t n)
{
	vh h = load8(p, n) << 7 & 0xbf80;
	struct pair v = from_f16(if_equal16(h & 0x7fff, all16(0x3f80), all16(0x7e00), h));

	return (struct pair){ v.lo * 0x1p8f, v.hi * 0x1p8f };
}

INLINE vf e4m3_round(vf f)
{
	vf mag = round_fraction(min2(all(448.0f), (vf)((vu)f & ~F32_SIGN)), 3, 0x1p-6f);

	return if_nan(f, all(480.0f * 0x1p-8f), (vf)((vu)(mag * 0x1p-8f) | ((vu)f & F32_SIGN)));
}

INLINE void e4m3_store(void *p, struct pair v, size_t n)
{
	vh h = to_f16((struct pair){ e4m3_round(v.lo), e4m3_round(v.hi) });

	store8(p, h + (h & 0x7fff), n);
}
