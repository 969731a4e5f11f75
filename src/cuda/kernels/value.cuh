/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of 8-byte words of elements: what exec/reduce.h does on the host, with the same
 * bits. Small floats are summed up in fp32 and rounded once. */
#ifndef CUDA_KERNELS_VALUE_H
#define CUDA_KERNELS_VALUE_H

#include "base/half.h"
#include "cuda/kernels/device.cuh"

/* E: element in memory. A: in which it is computed. */
template <int K> struct of_kind;
#define OF_KIND(kind, elem, acc)                                                                                       \
	template <> struct of_kind<kind> {                                                                             \
		typedef elem E;                                                                                        \
		typedef acc A;                                                                                         \
	};
OF_KIND(GPU_U8, uint8_t, uint8_t)
OF_KIND(GPU_U16, uint16_t, uint16_t)
OF_KIND(GPU_U32, uint32_t, uint32_t)
OF_KIND(GPU_U64, uint64_t, uint64_t)
OF_KIND(GPU_S8, int8_t, int8_t)
OF_KIND(GPU_S16, int16_t, int16_t)
OF_KIND(GPU_S32, int32_t, int32_t)
OF_KIND(GPU_S64, int64_t, int64_t)
OF_KIND(GPU_F16, uint16_t, float)
OF_KIND(GPU_BF16, uint16_t, float)
OF_KIND(GPU_F32, float, float)
OF_KIND(GPU_F64, double, double)
OF_KIND(GPU_E4M3, uint8_t, float)
OF_KIND(GPU_E5M2, uint8_t, float)

#ifdef GPU_EMULATE
DEVICE float widen_f16(uint16_t e)
{
	return f16_to_f32(e);
}
DEVICE uint16_t narrow_f16(float a)
{
	return f16_from_f32(a);
}
DEVICE uint16_t narrow_bf16(float a)
{
	return bf16_from_f32(a);
}
#else
DEVICE float widen_f16(uint16_t e)
{
	float f;

	asm("cvt.f32.f16 %0,%1;" : "=f"(f) : "h"(e));
	return f;
}
DEVICE uint16_t narrow_f16(float a)
{
	uint16_t e;

	asm("cvt.rn.f16.f32 %0,%1;" : "=h"(e) : "f"(a));
	return a != a ? 0x7e00 : e;
}
DEVICE uint16_t narrow_bf16(float a)
{
	uint16_t e;

	asm("cvt.rn.bf16.f32 %0,%1;" : "=h"(e) : "f"(a));
	return a != a ? F32_NAN >> 16 : e;
}
#endif

template <int K> DEVICE typename of_kind<K>::A widen_elem(typename of_kind<K>::E e)
{
	return e;
}
template <> SPECIAL float widen_elem<GPU_F16>(uint16_t e)
{
	return widen_f16(e);
}
template <> SPECIAL float widen_elem<GPU_BF16>(uint16_t e)
{
	return bf16_to_f32(e);
}
template <> SPECIAL float widen_elem<GPU_E4M3>(uint8_t e)
{
	return e4m3_to_f32(e);
}
template <> SPECIAL float widen_elem<GPU_E5M2>(uint8_t e)
{
	return e5m2_to_f32(e);
}

template <int K> DEVICE typename of_kind<K>::E narrow_elem(typename of_kind<K>::A a)
{
	return a;
}
/* One quiet NaN, as on the host. */
template <> SPECIAL float narrow_elem<GPU_F32>(float a)
{
	return f32_from_bits(a != a ? F32_NAN : f32_bits(a));
}
template <> SPECIAL double narrow_elem<GPU_F64>(double a)
{
	uint64_t u;

	memcpy(&u, &a, 8);
	u = a != a ? 0x7ff8000000000000u : u;
	memcpy(&a, &u, 8);
	return a;
}
template <> SPECIAL uint16_t narrow_elem<GPU_F16>(float a)
{
	return narrow_f16(a);
}
template <> SPECIAL uint16_t narrow_elem<GPU_BF16>(float a)
{
	return narrow_bf16(a);
}
template <> SPECIAL uint8_t narrow_elem<GPU_E4M3>(float a)
{
	return e4m3_from_f32(a);
}
template <> SPECIAL uint8_t narrow_elem<GPU_E5M2>(float a)
{
	return e5m2_from_f32(a);
}

/* --- one element --- */
/* Of equal operands the bitwise one does nothing; of zeros min takes -0 and max +0; a NaN stays one. */
DEVICE float pick(float x, float y, bool max)
{
	uint32_t a = f32_bits(x), b = f32_bits(y);

	if (x != x || y != y)
		return f32_from_bits(F32_NAN);
	if (x == y)
		return f32_from_bits(max ? a & b : a | b);
	return (x < y) != max ? x : y;
}
DEVICE double pick(double x, double y, bool max)
{
	uint64_t a, b;

	memcpy(&a, &x, 8);
	memcpy(&b, &y, 8);
	if (x != x || y != y)
		a = 0x7ff8000000000000u;
	else if (x == y)
		a = max ? a & b : a | b;
	else
		a = (x < y) != max ? a : b;
	memcpy(&x, &a, 8);
	return x;
}
template <typename A> DEVICE A pick(A x, A y, bool max)
{
	return (x < y) != max ? x : y;
}

template <typename A> struct is_float {
	enum { value = 0 };
};
template <> struct is_float<float> {
	enum { value = 1 };
};
template <> struct is_float<double> {
	enum { value = 1 };
};

/* No fused or reordered arithmetic: products are rounded by themselves. */
#ifdef GPU_EMULATE
DEVICE float times(float x, float y)
{
	return x * y;
}
DEVICE double times(double x, double y)
{
	return x * y;
}
#else
DEVICE float times(float x, float y)
{
	return __fmul_rn(x, y);
}
DEVICE double times(double x, double y)
{
	return __dmul_rn(x, y);
}
#endif
template <typename A> DEVICE A times(A x, A y)
{
	return (A)((uint64_t)x * (uint64_t)y);
}
template <typename A> DEVICE A plus(A x, A y)
{
	return (A)((uint64_t)x + (uint64_t)y);
}
DEVICE float plus(float x, float y)
{
	return x + y;
}
DEVICE double plus(double x, double y)
{
	return x + y;
}

template <typename A> DEVICE A bits_of(int op, A x, A y)
{
	return op == GPU_AND ? (A)(x & y) : op == GPU_OR ? (A)(x | y) : (A)(x ^ y);
}
DEVICE float bits_of(int, float x, float)
{
	return x;
}
DEVICE double bits_of(int, double x, double)
{
	return x;
}

template <typename A> DEVICE A apply(int op, A x, A y)
{
	switch (op) {
	case GPU_SUM:
		return plus(x, y);
	case GPU_PROD:
		return times(x, y);
	case GPU_MAX:
		return pick(x, y, true);
	case GPU_MIN:
		return pick(x, y, false);
	default:
		return bits_of(op, x, y);
	}
}

template <typename A> DEVICE A quotient(A x, uint32_t by)
{
	return by ? (A)(x / (A)by) : x;
}
DEVICE int8_t quotient(int8_t x, uint32_t by)
{
	return by ? (int8_t)(x / (int64_t)by) : x;
}
DEVICE uint8_t quotient(uint8_t x, uint32_t by)
{
	return by ? (uint8_t)(x / by) : x;
}
DEVICE int16_t quotient(int16_t x, uint32_t by)
{
	return by ? (int16_t)(x / (int64_t)by) : x;
}
DEVICE uint16_t quotient(uint16_t x, uint32_t by)
{
	return by ? (uint16_t)(x / by) : x;
}
DEVICE int32_t quotient(int32_t x, uint32_t by)
{
	return by ? (int32_t)(x / (int64_t)by) : x;
}
DEVICE float quotient(float x, uint32_t)
{
	return x;
}
DEVICE double quotient(double x, uint32_t)
{
	return x;
}

/* --- a word of elements --- */
template <int K> struct pack {
	enum { N = 8 / sizeof(typename of_kind<K>::E) };
	typename of_kind<K>::A a[N];
};

template <int K> DEVICE pack<K> pack_of(uint64_t word)
{
	typename of_kind<K>::E e[pack<K>::N];
	pack<K> p;

	memcpy(e, &word, 8);
#pragma unroll
	for (int i = 0; i < pack<K>::N; i++)
		p.a[i] = widen_elem<K>(e[i]);
	return p;
}

template <int K> DEVICE uint64_t word_of(const pack<K> &p, const gpu_value &v)
{
	typename of_kind<K>::E e[pack<K>::N];
	uint64_t word;

#pragma unroll
	for (int i = 0; i < pack<K>::N; i++)
		e[i] = narrow_elem<K>(quotient(p.a[i], v.divide));
	memcpy(&word, e, 8);
	return word;
}

/* @OP: known when compiled, for loops that must be fast; ANY: v.op. */
enum { ANY = -1 };

template <int K, int OP> DEVICE void pack_add(pack<K> &p, uint64_t word, const gpu_value &v)
{
	pack<K> q = pack_of<K>(word);

#pragma unroll
	for (int i = 0; i < pack<K>::N; i++)
		p.a[i] = apply(OP == ANY ? (int)v.op : OP, p.a[i], q.a[i]);
}

/* The sum of U pieces of 16 bytes of @n sources, in their order: @read(r) puts those of source @r into @v. */
template <int K, int OP, int U, typename F> DEVICE void sum_some(vec16 *v, int n, const gpu_value &value, const F &read)
{
	pack<K> lo[U], hi[U];

	read(0);
#pragma unroll
	for (int u = 0; u < U; u++) {
		lo[u] = pack_of<K>(v[u].x);
		hi[u] = pack_of<K>(v[u].y);
	}
#pragma unroll 1
	for (int r = 1; r < n; r++) {
		read(r);
#pragma unroll
		for (int u = 0; u < U; u++) {
			pack_add<K, OP>(lo[u], v[u].x, value);
			pack_add<K, OP>(hi[u], v[u].y, value);
		}
	}
#pragma unroll
	for (int u = 0; u < U; u++)
		v[u] = { word_of(lo[u], value), word_of(hi[u], value) };
}

/* This rank's input as it goes into the reduction. */
template <int K> DEVICE uint64_t scaled_word(uint64_t word, uint64_t scalar)
{
	typename of_kind<K>::E e[pack<K>::N], s;

	memcpy(e, &word, 8);
	memcpy(&s, &scalar, sizeof(s));
#pragma unroll
	for (int i = 0; i < pack<K>::N; i++)
		e[i] = narrow_elem<K>(times(widen_elem<K>(e[i]), widen_elem<K>(s)));
	memcpy(&word, e, 8);
	return word;
}

/* The same for block_copy(). */
template <int K> struct multiplied {
	uint64_t scalar;

	SPECIAL uint64_t operator()(uint64_t w) const
	{
		return scaled_word<K>(w, scalar);
	}
};

#endif
