/* SPDX-License-Identifier: Apache-2.0 */
/* Each variant this processor has against the plain reference. */
#include "exec/reduce.h"
#include "test_exec_reduce_ref.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define MAX_BYTES 14000 /* several of the blocks that kernels work in */
#define MARGIN 128	/* around what a kernel may write; holds a pattern */
#define SHORT 130	/* lengths up to this one are all tried */

static const char *const variant_names[] = { "generic", "avx2", "avx512" };

/* Sources, packed; their reduction; and room for misplaced copies of them. */
static char src_a[MAX_BYTES], src_b[MAX_BYTES], want[MAX_BYTES];
static _Alignas(64) char room[4][(MAX_BYTES + 2 * MARGIN + 64 + 63) / 64 * 64];

enum form { TWO, TWO_NT, TWO_DUAL, TWO_DUAL_NT, MANY_TWO, FORMS };

/* Values that matter, in every combination of two as the second array runs through them
 * more slowly; random bits in between. */
static size_t special_values(uint64_t out[24], enum taut_type type)
{
	static const uint64_t ints[] = { 0,	     1,		  2,	       3,	  0x7f,
					 0x80,	     0xff,	  0x7fff,      0x8000,	  0xffff,
					 0x7fffffff, 0x80000000u, 0xffffffffu, INT64_MAX, (uint64_t)INT64_MIN,
					 UINT64_MAX };
	static const double floats[] = { 0.0,	  -0.0,	 1.0,	  -1.0,	    0.5,  3.0,	 1e-40,	   -1e-7,    2e-5,
					 65504.0, 448.0, 57344.0, -60000.0, 3e38, 1e308, INFINITY, -INFINITY };
	size_t n = 0;

	if (!ref_is_float(type)) {
		memcpy(out, ints, sizeof(ints));
		return sizeof(ints) / sizeof(ints[0]);
	}
	for (; n < sizeof(floats) / sizeof(floats[0]); n++) {
		out[n] = 0;
		if (type == TAUT_FLOAT64)
			memcpy(&out[n], &floats[n], sizeof(double));
		else
			ref_store_f32(type, &out[n], (float)floats[n]);
	}
	/* NaNs: quiet and signalling, both signs, payloads */
	out[n++] = UINT64_MAX;
	out[n++] = type == TAUT_FLOAT64	  ? 0x7ff0000000000001u
		   : type == TAUT_FLOAT32 ? 0x7f800001
					  : small_refs[type].nan;
	out[n++] = type == TAUT_FLOAT64 ? 0xfff8000000000123u : type == TAUT_FLOAT32 ? 0xffc00123 : 0x7d7d;
	return n;
}

static void fill(char *out, enum taut_type type, size_t n, size_t stride, uint64_t seed)
{
	const size_t size = taut_type_size(type);
	uint64_t special[24];
	size_t count = special_values(special, type);

	for (size_t i = 0; i < n; i++) {
		uint64_t u = i % 3 && i > SHORT ? ref_random(&seed) : special[i / stride % count];

		memcpy(out + i * size, &u, size);
	}
}

static void fill_pair(enum taut_type type, enum taut_op op, size_t n)
{
	const void *const src[] = { src_a, src_b };

	fill(src_a, type, n, 1, 10 + (uint64_t)op);
	fill(src_b, type, n, 23, 20);
	ref_reduce(want, type, op, src, 2, n);
}

static void mark(char *start, size_t len)
{
	start -= MARGIN;
	for (size_t i = 0; i < len + 2 * MARGIN; i++)
		start[i] = (char)(0xa5 ^ i);
}

static void check_margins(const char *start, size_t len)
{
	start -= MARGIN;
	for (size_t i = 0; i < len + 2 * MARGIN; i++) {
		if (i == MARGIN)
			i += len;
		if (start[i] != (char)(0xa5 ^ i))
			fail_msg("byte %ld of %zu was written", (long)i - MARGIN, len);
	}
}

static void check_result(const char *got, const char *expected, const char *what, enum taut_type type, enum taut_op op,
			 size_t n)
{
	const size_t size = taut_type_size(type);

	if (!memcmp(got, expected, n * size))
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t g = 0, w = 0;

		memcpy(&g, got + i * size, size);
		memcpy(&w, expected + i * size, size);
		if (g != w)
			fail_msg("%s %s %s %s: element %zu of %zu is %#lx, not %#lx (at %p)", reduce_variant(), what,
				 taut_type_name(type), taut_op_name(op), i, n, (long)g, (long)w, (const void *)got);
	}
}

static void call(enum form form, const struct reduce_kernels *k, void *dst, void *dst2, const void *a, const void *b,
		 size_t n)
{
	const void *const src[] = { a, b };

	switch (form) {
	case TWO:
		k->two(dst, a, b, n);
		break;
	case TWO_NT:
		k->two_nt(dst, a, b, n);
		break;
	case TWO_DUAL:
		k->two_dual(dst, dst2, a, b, n);
		break;
	case TWO_DUAL_NT:
		k->two_dual_nt(dst, dst2, a, b, n);
		break;
	default:
		k->many(dst, src, 2, n);
	}
}

/* The first @n elements of the prepared pair, with each array at its own alignment. @alias:
 * 1 for dst == a, 2 for dst == b, 3 and 4 for dst2 the same. */
static void check_placed(enum form form, enum taut_type type, enum taut_op op, size_t n, const size_t at[4], int alias)
{
	static const char *const names[FORMS] = { "two", "two_nt", "two_dual", "two_dual_nt", "many" };
	const struct reduce_kernels *k = reduce_find(type, op);
	const size_t len = n * taut_type_size(type);
	const int dual = form == TWO_DUAL || form == TWO_DUAL_NT;
	char *p[4];

	for (int i = 0; i < 4; i++) {
		p[i] = room[i] + MARGIN + at[i] % 64;
		mark(p[i], len);
	}
	memcpy(p[2], src_a, len);
	memcpy(p[3], src_b, len);
	if (alias)
		p[(alias - 1) / 2] = p[2 + (alias - 1) % 2];
	call(form, k, p[0], p[1], p[2], p[3], n);
	check_result(p[0], want, names[form], type, op, n);
	if (dual)
		check_result(p[1], want, names[form], type, op, n);
	for (int i = 0; i < 4; i++)
		check_margins(p[i], len);
}

static void check_all_lengths(enum taut_type type, enum taut_op op)
{
	const size_t most = MAX_BYTES / taut_type_size(type);
	const size_t longer[] = { 511, 512, 513, 1000, 4097, most - 1, most };

	for (size_t n = 0; n <= SHORT; n++)
		for (int form = 0; form < FORMS; form++) {
			size_t at[] = { n * 5 + (size_t)form * 13, n * 11 + 1, n * 7 + (size_t)form, n * 3 };

			check_placed(form, type, op, n, at, 0);
		}
	for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
		for (int form = 0; form < FORMS; form++) {
			size_t at[] = { i * 9 + (size_t)form, i * 31, i * 17 + (size_t)form * 5, i };

			if (longer[i] <= most)
				check_placed(form, type, op, longer[i], at, 0);
		}
}

static void check_all_alignments(enum taut_type type, enum taut_op op)
{
	const size_t n = 300 / taut_type_size(type);

	for (size_t d = 0; d < 64; d++)
		for (size_t other = 0; other < 64; other += 21) {
			check_placed(TWO, type, op, n, (size_t[]){ d, 0, other, other * 5 }, 0);
			check_placed(TWO, type, op, n, (size_t[]){ other, 0, d, other }, 0);
			check_placed(TWO_NT, type, op, n, (size_t[]){ d, 0, other, d + 1 }, 0);
			check_placed(TWO_DUAL, type, op, n, (size_t[]){ d, other, 0, d }, 0);
			check_placed(TWO_DUAL_NT, type, op, n, (size_t[]){ other, d, 16, 0 }, 0);
		}
}

static void check_in_place(enum taut_type type, enum taut_op op)
{
	const size_t lengths[] = { 1, 7, 100, 700, MAX_BYTES / 8 };

	for (int form = 0; form < FORMS; form++)
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			for (int alias = 1; alias <= (form == TWO_DUAL || form == TWO_DUAL_NT ? 4 : 2); alias++)
				check_placed(form, type, op, lengths[i], (size_t[]){ i, 60, 16 * i, 4 * i }, alias);
}

/* Arrays that begin or end where memory does. */
static char *guarded[4];

static void check_edges(enum taut_type type, enum taut_op op)
{
	const struct reduce_kernels *k = reduce_find(type, op);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t n = 0; n <= SHORT; n++)
		for (int form = 0; form < FORMS; form++)
			for (int at_end = 0; at_end < 2; at_end++) {
				const size_t len = n * taut_type_size(type);
				char *p[4];

				for (int i = 0; i < 4; i++)
					p[i] = guarded[i] + (at_end ? page - len : 0);
				memcpy(p[2], src_a, len);
				memcpy(p[3], src_b, len);
				call(form, k, p[0], p[1], p[2], p[3], n);
				check_result(p[0], want, "at the edge", type, op, n);
			}
}

static void check_with_every_variant(void (*check)(enum taut_type type, enum taut_op op))
{
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (int op = 0; op < TAUT_OP_COUNT; op++) {
			if (!reduce_find(type, op))
				continue;
			fill_pair(type, op, MAX_BYTES / taut_type_size(type));
			for (size_t v = 0; v < sizeof(variant_names) / sizeof(variant_names[0]); v++)
				if (reduce_use(variant_names[v]))
					check(type, op);
		}
}

static void every_length_gives_the_reference(void **state)
{
	(void)state;
	check_with_every_variant(check_all_lengths);
}

static void every_alignment_gives_the_reference(void **state)
{
	(void)state;
	check_with_every_variant(check_all_alignments);
}

static void a_destination_may_be_a_source(void **state)
{
	(void)state;
	check_with_every_variant(check_in_place);
}

static void nothing_outside_the_arrays_is_read(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map = mmap(NULL, 9 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(map != MAP_FAILED);
	for (size_t i = 0; i < 4; i++) {
		guarded[i] = map + (2 * i + 1) * page;
		assert_int_equal(mprotect(guarded[i], page, PROT_READ | PROT_WRITE), 0);
	}
	check_with_every_variant(check_edges);
	munmap(map, 9 * page);
}

static void operations_exist_for_the_right_types(void **state)
{
	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (int op = 0; op < TAUT_OP_COUNT; op++) {
			int bits = op == TAUT_BAND || op == TAUT_BOR || op == TAUT_BXOR;

			assert_int_equal(!reduce_find(type, op), op == TAUT_AVG || (bits && ref_is_float(type)));
		}
	assert_null(reduce_find(TAUT_TYPE_COUNT, TAUT_SUM));
	assert_null(reduce_find((enum taut_type) - 1, TAUT_SUM));
	assert_null(reduce_find(TAUT_INT8, TAUT_OP_USER));
	assert_null(reduce_find(TAUT_INT8, (enum taut_op) - 1));
}

/* @which: source that is the destination too, or -1. */
static void check_many(enum taut_type type, enum taut_op op, int nsrc, size_t n, int which)
{
	const size_t size = taut_type_size(type);
	static char copies[REDUCE_MAX_SRC][MAX_BYTES + 64];
	const void *src[REDUCE_MAX_SRC];
	char *dst = room[0] + MARGIN + n % 64;

	for (int i = 0; i < nsrc; i++) {
		char *at = copies[i] + i * 7 % 64;

		fill(at, type, n, (size_t[]){ 1, 23, 5, 7 }[i % 4], (uint64_t)i * 77);
		src[i] = at;
	}
	ref_reduce(want, type, op, src, nsrc, n);
	mark(dst, n * size);
	if (which >= 0)
		dst = copies[which] + which * 7 % 64;
	reduce_find(type, op)->many(dst, src, nsrc, n);
	check_result(dst, want, "many", type, op, n);
	if (which < 0)
		check_margins(dst, n * size);
}

static void check_numbers_of_sources(enum taut_type type, enum taut_op op)
{
	for (int nsrc = 1; nsrc <= 9; nsrc++) {
		check_many(type, op, nsrc, 37, -1);
		check_many(type, op, nsrc, 37, nsrc / 2);
	}
	check_many(type, op, 3, MAX_BYTES / taut_type_size(type), -1);
	check_many(type, op, 4, MAX_BYTES / taut_type_size(type), 3);
	check_many(type, op, REDUCE_MAX_SRC, 150, 20);
	check_many(type, op, 5, 0, -1);
}

static void many_sources_are_reduced_in_order(void **state)
{
	(void)state;
	check_with_every_variant(check_numbers_of_sources);
}

/* Both operands run through all values; for 16 bits the second through some. */
static void check_all_values(enum taut_type type, enum taut_op op)
{
	static uint16_t a[65536], b[65536], out[65536], ref[65536];
	const struct reduce_kernels *k = reduce_find(type, op);
	const int bytes = (int)taut_type_size(type);

	for (uint32_t i = 0; i < 65536; i++) {
		uint8_t lo = (uint8_t)i, hi = (uint8_t)(i >> 8);

		memcpy((char *)a + i * (size_t)bytes, bytes == 1 ? (void *)&lo : (void *)&(uint16_t){ (uint16_t)i },
		       (size_t)bytes);
		memcpy((char *)b + i * (size_t)bytes,
		       bytes == 1 ? (void *)&hi : (void *)&(uint16_t){ (uint16_t)(i * 40503) }, (size_t)bytes);
	}
	ref_reduce(ref, type, op, (const void *[]){ a, b }, 2, 65536);
	for (size_t v = 0; v < sizeof(variant_names) / sizeof(variant_names[0]); v++)
		if (reduce_use(variant_names[v])) {
			k = reduce_find(type, op);
			k->two(out, a, b, 65536);
			check_result((char *)out, (char *)ref, "two", type, op, 65536);
		}
}

static void small_floats_are_right_for_all_values(void **state)
{
	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (int op = 0; op < TAUT_AVG; op++)
			if (ref_is_small(type))
				check_all_values(type, op);
}

static void check_scale(enum taut_type type, enum taut_op op)
{
	const size_t size = taut_type_size(type), n = 5000 / size;
	static char same[5000];
	char *dst = room[0] + MARGIN + 3;

	if (op != TAUT_PROD)
		return;
	for (size_t s = 0; s < 24; s++) {
		for (size_t i = 0; i < n; i++)
			memcpy(same + i * size, src_b + s * 23 * size, size);
		ref_reduce(want, type, op, (const void *[]){ src_a, same }, 2, n);
		mark(dst, n * size);
		reduce_scale(dst, src_a, same, n, type);
		check_result(dst, want, "scale", type, op, n);
		check_margins(dst, n * size);
		memcpy(dst, src_a, n * size);
		reduce_scale(dst, dst, same, n, type);
		check_result(dst, want, "scale in place", type, op, n);
	}
	reduce_scale(dst, src_a, same, 0, type);
}

static void scaling_multiplies_and_wraps(void **state)
{
	(void)state;
	check_with_every_variant(check_scale);
}

static void check_divide(enum taut_type type, long long by)
{
	const size_t size = taut_type_size(type), n = 3000 / size;
	char *p = room[0] + MARGIN + 1;

	fill(src_a, type, n, 1, 5);
	mark(p, n * size);
	memcpy(p, src_a, n * size);
	for (size_t i = 0; i < n; i++) {
		uint64_t u = ref_load(type, src_a + i * size);
		__extension__ __int128 x = ref_is_signed(type) ? (__int128)(int64_t)u : (__int128)u;

		x /= by;
		memcpy(want + i * size, &x, size);
	}
	reduce_divide(p, by, n, type);
	check_result(p, want, "divide", type, TAUT_AVG, n);
	check_margins(p, n * size);
}

static void division_goes_towards_zero(void **state)
{
	static const long long by[] = { 1,	   2,
					3,	   7,
					8,	   255,
					1000003,   -1,
					-2,	   -3,
					INT32_MAX, (1LL << 32) - 1,
					1LL << 32, (1LL << 53) + 1,
					127,	   128,
					INT64_MAX, INT64_MIN };

	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (size_t i = 0; i < sizeof(by) / sizeof(by[0]) && !ref_is_float(type); i++)
			check_divide(type, by[i]);
}

static void reciprocals_are_rounded_once(void **state)
{
	(void)state;
	for (int by = 1; by < 3000; by++) {
		double d = 0;
		float f = 0;

		reduce_reciprocal(&d, by, TAUT_FLOAT64);
		assert_true(d == 1.0 / by);
		reduce_reciprocal(&f, by, TAUT_FLOAT32);
		assert_true(f == 1.0f / (float)by);
		for (int type = 0; type < TAUT_TYPE_COUNT; type++) {
			uint16_t got = 0;

			if (!ref_is_small(type))
				continue;
			reduce_reciprocal(&got, by, type);
			assert_int_equal(got, ref_encode(type, 1.0f / (float)by));
		}
	}
}

static void copies_copy_and_touch_nothing_else(void **state)
{
	static const size_t lengths[] = { 0,  1,   2,	3,   7,	  8,   15,  16,	  17,	31,   33,   63,	  64,
					  65, 100, 127, 128, 129, 255, 256, 1000, 1024, 4095, 4097, 9999, 13333 };

	(void)state;
	for (size_t i = 0; i < MAX_BYTES; i++)
		src_a[i] = (char)(i * 7 + i / 256);
	for (size_t v = 0; v < sizeof(variant_names) / sizeof(variant_names[0]); v++)
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && reduce_use(variant_names[v]); i++)
			for (size_t at = 0; at < 64; at++)
				for (int nt = 0; nt < 2; nt++) {
					char *p = room[0] + MARGIN + at;

					mark(p, lengths[i]);
					(nt ? copy_bytes_nt : copy_bytes)(p, src_a + at * 5 % 64, lengths[i]);
					assert_memory_equal(p, src_a + at * 5 % 64, lengths[i]);
					check_margins(p, lengths[i]);
				}
	copy_bytes(NULL, NULL, 0);
	copy_bytes_nt(NULL, NULL, 0);
}

static void unknown_variants_are_refused(void **state)
{
	(void)state;
	assert_true(reduce_use("generic"));
	assert_string_equal(reduce_variant(), "generic");
	assert_false(reduce_use("avx1024"));
	assert_false(reduce_use(""));
	assert_string_equal(reduce_variant(), "generic");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_exist_for_the_right_types),
		cmocka_unit_test(every_length_gives_the_reference),
		cmocka_unit_test(every_alignment_gives_the_reference),
		cmocka_unit_test(nothing_outside_the_arrays_is_read),
		cmocka_unit_test(a_destination_may_be_a_source),
		cmocka_unit_test(many_sources_are_reduced_in_order),
		cmocka_unit_test(small_floats_are_right_for_all_values),
		cmocka_unit_test(scaling_multiplies_and_wraps),
		cmocka_unit_test(division_goes_towards_zero),
		cmocka_unit_test(reciprocals_are_rounded_once),
		cmocka_unit_test(copies_copy_and_touch_nothing_else),
		cmocka_unit_test(unknown_variants_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
