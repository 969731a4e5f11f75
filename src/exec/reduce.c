/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/reduce.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/half.h"
#include "exec/reduce_variant.h"

#if defined(__x86_64__)
/* __builtin_cpu_supports() also asks whether the system keeps the wide registers; F16C has
 * no name in it for all compilers. */
static int has_avx2(void)
{
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static int always(void)
{
	return 1;
}

/* Best first. */
static const struct {
	const struct reduce_variant *variant;
	int (*usable)(void);
} variants[] = {
#if defined(__x86_64__)
	{ &reduce_avx512, has_avx512 },
	{ &reduce_avx2, has_avx2 },
#endif
	{ &reduce_generic, always },
};

static const struct reduce_variant *current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
	int i = 0;

	while (!variants[i].usable())
		i++;
	current = variants[i].variant;
}

static const struct reduce_variant *variant(void)
{
	pthread_once(&once, choose);
	return current;
}

const char *reduce_variant(void)
{
	return variant()->name;
}

int reduce_use(const char *name)
{
	pthread_once(&once, choose);
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		if (strcmp(variants[i].variant->name, name) || !variants[i].usable())
			continue;
		current = variants[i].variant;
		return 1;
	}
	return 0;
}

const struct reduce_kernels *reduce_find(enum taut_type type, enum taut_op op)
{
	const struct reduce_kernels *k;

	if ((unsigned)type >= TAUT_TYPE_COUNT || (unsigned)op >= TAUT_OP_COUNT)
		return NULL;
	k = &variant()->kernels[type][op];
	return k->two ? k : NULL;
}

void copy_bytes(void *dst, const void *src, size_t len)
{
	if (len)
		memcpy(dst, src, len);
}

/* What is left at both ends by plain stores. */
static void stream_bytes(const struct reduce_variant *v, char *dst, const char *src, size_t len)
{
	const size_t head = -(uintptr_t)dst % REDUCE_LINE;
	const size_t body = len > head ? (len - head) / REDUCE_LINE * REDUCE_LINE : 0;

	if (!body) {
		copy_bytes(dst, src, len);
		return;
	}
	copy_bytes(dst, src, head);
	v->stream(dst + head, src + head, body);
	copy_bytes(dst + head + body, src + head + body, len - head - body);
}

static void stream_end(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

void copy_bytes_nt(void *dst, const void *src, size_t len)
{
	const struct reduce_variant *v = variant();

	if (!v->stream) {
		copy_bytes(dst, src, len);
		return;
	}
	stream_bytes(v, dst, src, len);
	stream_end();
}

/* Bytes of the block that starts at @dst: to the end of a cache line, if elements do. */
static size_t block_len(const char *dst, size_t left, size_t size, size_t max)
{
	size_t len = (max - (uintptr_t)dst % REDUCE_LINE) / size * size;

	return left < len ? left : len;
}

/* As fast as one loop with streaming stores, when blocks are small: with 4 KiB loads and
 * stores take turns on the memory, and it runs at 80 %. */
#define STREAM_BLOCK 1024

void reduce_blocks_nt(reduce_two_fn *two, size_t size, void *dst, const void *a, const void *b, size_t n)
{
	_Alignas(REDUCE_LINE) char block[STREAM_BLOCK];
	const struct reduce_variant *v = variant();
	char *d = dst;
	const char *x = a, *y = b;

	if (!v->stream) {
		two(dst, a, b, n);
		return;
	}
	for (size_t left = n * size, len; left; left -= len, d += len, x += len, y += len) {
		len = block_len(d, left, size, sizeof(block));
		two(block, x, y, len / size);
		stream_bytes(v, d, block, len);
	}
	stream_end();
}

void reduce_blocks_dual(reduce_two_fn *two, size_t size, void *dst, void *dst2, const void *a, const void *b, size_t n)
{
	char *d = dst, *d2 = dst2;
	const char *x = a, *y = b;

	for (size_t left = n * size, len; left; left -= len, d += len, d2 += len, x += len, y += len) {
		len = block_len(d, left, size, REDUCE_BLOCK);
		two(d, x, y, len / size);
		copy_bytes(d2, d, len);
	}
}

void reduce_blocks_dual_nt(reduce_two_fn *two, size_t size, void *dst, void *dst2, const void *a, const void *b,
			   size_t n)
{
	const struct reduce_variant *v = variant();
	char *d = dst, *d2 = dst2;
	const char *x = a, *y = b;

	if (!v->stream) {
		reduce_blocks_dual(two, size, dst, dst2, a, b, n);
		return;
	}
	for (size_t left = n * size, len; left; left -= len, d += len, d2 += len, x += len, y += len) {
		len = block_len(d2, left, size, STREAM_BLOCK);
		two(d, x, y, len / size);
		stream_bytes(v, d2, d, len);
	}
	stream_end();
}

void reduce_copy(void *dst, const void *src, size_t len)
{
	if (dst != src)
		copy_bytes(dst, src, len);
}

/* Not in @dst, which may be a source that is still to be read. */
void reduce_blocks_many(reduce_two_fn *two, size_t size, void *dst, const void *const *src, int nsrc, size_t n)
{
	_Alignas(REDUCE_LINE) char block[REDUCE_BLOCK];
	char *d = dst;

	if (nsrc == 1) {
		reduce_copy(dst, src[0], n * size);
		return;
	}
	for (size_t pos = 0, end = n * size, len; pos < end; pos += len) {
		const char *acc = (const char *)src[0] + pos;

		len = block_len(d + pos, end - pos, size, sizeof(block));
		for (int i = 1; i < nsrc; i++) {
			char *to = i < nsrc - 1 ? block : d + pos;

			two(to, acc, (const char *)src[i] + pos, len / size);
			acc = to;
		}
	}
}

void reduce_blocks_many_small(reduce_two_fn *two, const struct reduce_small *small, void *dst, const void *const *src,
			      int nsrc, size_t n)
{
	_Alignas(REDUCE_LINE) float acc[REDUCE_BLOCK / sizeof(float)], next[REDUCE_BLOCK / sizeof(float)];
	const size_t max = sizeof(acc) / sizeof(acc[0]);

	if (nsrc == 1) {
		reduce_copy(dst, src[0], n * small->size);
		return;
	}
	for (size_t pos = 0, len; pos < n; pos += len) {
		len = n - pos < max ? n - pos : max;
		small->decode(acc, (const char *)src[0] + pos * small->size, len);
		for (int i = 1; i < nsrc; i++) {
			small->decode(next, (const char *)src[i] + pos * small->size, len);
			two(acc, acc, next, len);
		}
		small->encode((char *)dst + pos * small->size, acc, len);
	}
}

/* As a product with a block of equal elements. */
void reduce_scale(void *dst, const void *src, const void *scalar, size_t n, enum taut_type type)
{
	_Alignas(REDUCE_LINE) uint64_t block[STREAM_BLOCK / sizeof(uint64_t)], word = 0;
	const struct reduce_kernels *product = reduce_find(type, TAUT_PROD);
	const size_t size = taut_type_size(type);
	char *d = dst;
	const char *s = src;

	memcpy(&word, scalar, size);
	for (size_t have = size; have < sizeof(word); have *= 2)
		word |= word << 8 * have;
	for (size_t pos = 0; pos < sizeof(block) && pos < n * size; pos += sizeof(word))
		block[pos / sizeof(word)] = word;
	for (size_t left = n * size, len; left; left -= len, d += len, s += len) {
		len = left < sizeof(block) ? left : sizeof(block);
		product->two(d, s, block, len / size);
	}
}

/* Magnitudes, for the quotient of the most negative number by -1 wraps. */
static uint64_t divide_signed(int64_t x, int64_t by)
{
	uint64_t a = x < 0 ? -(uint64_t)x : (uint64_t)x;
	uint64_t b = by < 0 ? -(uint64_t)by : (uint64_t)by;

	return (x < 0) == (by < 0) ? a / b : -(a / b);
}

static uint64_t divide_unsigned(uint64_t x, int64_t by)
{
	return by < 0 ? -(x / -(uint64_t)by) : x / (uint64_t)by;
}

/* Up to 32 bits in fp64, faster than integer division: operands that are not exact there
 * have the quotient 0, and the quotient of others never rounds up to the next integer. */
static inline __attribute__((always_inline)) void divide_loop(char *p, long long by, size_t n, int size, int is_signed)
{
	const int shift = 64 - 8 * size;

	for (; n; n--, p += size) {
		uint64_t u = 0, q;
		int64_t s;

		memcpy(&u, p, (size_t)size);
		s = is_signed ? (int64_t)(u << shift) >> shift : (int64_t)u;
		if (size <= 4)
			q = (uint64_t)(int64_t)((double)s / (double)by);
		else
			q = is_signed ? divide_signed(s, by) : divide_unsigned(u, by);
		memcpy(p, &q, (size_t)size);
	}
}

void reduce_divide(void *dst, long long by, size_t n, enum taut_type type)
{
	switch (type) {
	case TAUT_INT8:
		divide_loop(dst, by, n, 1, 1);
		break;
	case TAUT_UINT8:
		divide_loop(dst, by, n, 1, 0);
		break;
	case TAUT_INT16:
		divide_loop(dst, by, n, 2, 1);
		break;
	case TAUT_UINT16:
		divide_loop(dst, by, n, 2, 0);
		break;
	case TAUT_INT32:
		divide_loop(dst, by, n, 4, 1);
		break;
	case TAUT_UINT32:
		divide_loop(dst, by, n, 4, 0);
		break;
	case TAUT_INT64:
		divide_loop(dst, by, n, 8, 1);
		break;
	case TAUT_UINT64:
		divide_loop(dst, by, n, 8, 0);
		break;
	default:
		assert(!"an integer type");
	}
}

void reduce_reciprocal(void *out, int by, enum taut_type type)
{
	const double exact = 1.0 / by;
	const float f = (float)exact;
	const uint16_t f16 = f16_from_f32(f), bf16 = bf16_from_f32(f);
	const uint8_t e4m3 = e4m3_from_f32(f), e5m2 = e5m2_from_f32(f);

	switch (type) {
	case TAUT_FLOAT16:
		memcpy(out, &f16, sizeof(f16));
		break;
	case TAUT_BFLOAT16:
		memcpy(out, &bf16, sizeof(bf16));
		break;
	case TAUT_FLOAT32:
		memcpy(out, &f, sizeof(f));
		break;
	case TAUT_FLOAT64:
		memcpy(out, &exact, sizeof(exact));
		break;
	case TAUT_FLOAT8_E4M3:
		memcpy(out, &e4m3, sizeof(e4m3));
		break;
	case TAUT_FLOAT8_E5M2:
		memcpy(out, &e5m2, sizeof(e5m2));
		break;
	default:
		assert(!"a floating type");
	}
}
