/* SPDX-License-Identifier: Apache-2.0 */
/* Time of the reduction kernels and copies, one core; best of many runs, payload bytes.
 *
 *   cc -O3 -march=native -mprefer-vector-width=512 -Iinclude -Isrc bench/reduce_bench.c \
 *      build/libtaut_all.a $(pkg-config --libs libsodium jansson hwloc) -lm -o build/reduce_bench
 *   build/reduce_bench [variant]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/reduce.h"

#define MAX_BYTES ((size_t)64 << 20)

static char *dst, *dst2, *a, *b;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a compiler makes of the obvious loop: the yardstick. */
static __attribute__((noinline)) void hand(float *restrict c, const float *restrict x, const float *restrict y,
					   size_t n)
{
	for (size_t i = 0; i < n; i++)
		c[i] = x[i] + y[i];
}

enum what { HAND, MEMCPY, COPY, COPY_NT, TWO, TWO_NT, DUAL, DUAL_NT, MANY4, SCALE, DIVIDE };

static void call(enum what what, const struct reduce_kernels *k, enum taut_type type, size_t bytes)
{
	const size_t n = bytes / taut_type_size(type);
	const void *const src[] = { a, b, a, b };

	switch (what) {
	case HAND:
		hand((float *)(void *)dst, (const float *)(void *)a, (const float *)(void *)b, bytes / 4);
		break;
	case MEMCPY:
		memcpy(dst, a, bytes);
		break;
	case COPY:
		copy_bytes(dst, a, bytes);
		break;
	case COPY_NT:
		copy_bytes_nt(dst, a, bytes);
		break;
	case TWO:
		k->two(dst, a, b, n);
		break;
	case TWO_NT:
		k->two_nt(dst, a, b, n);
		break;
	case DUAL:
		k->two_dual(dst, dst2, a, b, n);
		break;
	case DUAL_NT:
		k->two_dual_nt(dst, dst2, a, b, n);
		break;
	case MANY4:
		k->many(dst, src, 4, n);
		break;
	case SCALE:
		reduce_scale(dst, a, a, n, type);
		break;
	case DIVIDE:
		reduce_divide(dst, 3, n, type);
	}
}

static void line(const char *name, enum what what, enum taut_type type, enum taut_op op)
{
	static const size_t sizes[] = { 8, 64, 1000, 4096, 32768, 262144, 2 << 20, MAX_BYTES };
	const struct reduce_kernels *k = reduce_find(type, op);

	printf("%-10s %-8s %-5s", name, taut_type_name(type), taut_op_name(op));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		int times = (int)((100 << 10) / sizes[s]) + 1, runs = sizes[s] > 1 << 20 ? 5 : 100;
		double best = 1e9;

		for (int r = 0; r < runs; r++) {
			double t = now();

			for (int i = 0; i < times; i++)
				call(what, k, type, sizes[s]);
			t = (now() - t) / times;
			best = t < best ? t : best;
		}
		if (sizes[s] < 1000)
			printf(" %6.1fns", best * 1e9);
		else
			printf(" %7.1f", (double)sizes[s] / best / 1e9);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	static const enum taut_op ops[] = { TAUT_SUM, TAUT_PROD, TAUT_MIN, TAUT_BXOR };
	char *all = aligned_alloc(2 << 20, 4 * MAX_BYTES + (2 << 20));
	size_t off = argc > 2 ? (size_t)atoi(argv[2]) : 0;

	if (!all || (argc > 1 && !reduce_use(argv[1])))
		return 1;
	dst = all + off, dst2 = all + MAX_BYTES + 4096 + off, a = all + 2 * MAX_BYTES + 8192 + off,
	b = all + 3 * MAX_BYTES + 12288 + off;
	memset(all, 1, 4 * MAX_BYTES + (2 << 20));
	printf("%s, ns or GB/s\n%26s", reduce_variant(), "");
	printf("        8       64    1000      4K     32K    256K      2M     64M\n");
	line("hand", HAND, TAUT_FLOAT32, TAUT_SUM);
	line("memcpy", MEMCPY, TAUT_UINT8, TAUT_SUM);
	line("copy", COPY, TAUT_UINT8, TAUT_SUM);
	line("copy_nt", COPY_NT, TAUT_UINT8, TAUT_SUM);
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (int i = 0; i < 4; i++)
			if (reduce_find(type, ops[i]))
				line("two", TWO, type, ops[i]);
	for (int what = TWO_NT; what <= SCALE; what++) {
		static const char *const names[] = { "two_nt", "dual", "dual_nt", "many4", "scale" };

		line(names[what - TWO_NT], what, TAUT_FLOAT32, TAUT_SUM);
		line(names[what - TWO_NT], what, TAUT_BFLOAT16, TAUT_SUM);
	}
	line("divide", DIVIDE, TAUT_INT32, TAUT_SUM);
	line("divide", DIVIDE, TAUT_INT64, TAUT_SUM);
	free(all);
	return 0;
}
