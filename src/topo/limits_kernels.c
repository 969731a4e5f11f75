/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/limits_kernels.h"

#include <string.h>

/* As wide as any; the compiler makes of it what the target of the function has. */
typedef float vec __attribute__((vector_size(64), may_alias));

static inline __attribute__((always_inline)) void add_body(float *c, const float *a, const float *b, size_t n)
{
	vec *vc = (vec *)c;
	const vec *va = (const vec *)a;
	const vec *vb = (const vec *)b;

	for (size_t i = 0; i < n / 16; i++)
		vc[i] = va[i] + vb[i];
}

static void add_plain(float *c, const float *a, const float *b, size_t n)
{
	add_body(c, a, b, n);
}

static void copy_plain(float *c, const float *a, const float *b, size_t n)
{
	(void)b;
	memcpy(c, a, n * sizeof(float));
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static void add_avx2(float *c, const float *a, const float *b, size_t n)
{
	add_body(c, a, b, n);
}

__attribute__((target("avx512f"))) static void add_avx512(float *c, const float *a, const float *b, size_t n)
{
	add_body(c, a, b, n);
}

/* 16-byte stores fill a write-combining line as well as wider ones do. */
static void copy_past(float *c, const float *a, const float *b, size_t n)
{
	(void)b;
	for (size_t i = 0; i < n; i += 4)
		_mm_stream_ps(c + i, _mm_load_ps(a + i));
	_mm_sfence();
}

static void add_past(float *c, const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i += 4)
		_mm_stream_ps(c + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
	_mm_sfence();
}

static limits_kernel best_add(void)
{
	if (__builtin_cpu_supports("avx512f"))
		return add_avx512;
	return __builtin_cpu_supports("avx2") ? add_avx2 : add_plain;
}
#else
#define copy_past NULL
#define add_past NULL

static limits_kernel best_add(void)
{
	return add_plain;
}
#endif

limits_kernel limits_copy_kernel(bool past)
{
	return past ? copy_past : copy_plain;
}

limits_kernel limits_reduce_kernel(bool past)
{
	return past ? add_past : best_add();
}
