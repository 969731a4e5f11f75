/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of taut bench: held against the library's kernels, with which it shares no code. */
#include "unit.h"

#include <stdlib.h>

#include "exec/reduce.h"

#include "../../tools/bench_data.c"

static struct bench_table tables[64], reduced;

static void small_floats_have_the_known_codes(void **state)
{
	static const struct {
		enum taut_type type;
		double value;
		unsigned bits;
	} known[] = {
		{ TAUT_FLOAT16, 1, 0x3c00 },	  { TAUT_FLOAT16, -2, 0xc000 },	    { TAUT_FLOAT16, 2048, 0x6800 },
		{ TAUT_BFLOAT16, 1, 0x3f80 },	  { TAUT_BFLOAT16, -3, 0xc040 },    { TAUT_FLOAT8_E4M3, 1, 0x38 },
		{ TAUT_FLOAT8_E4M3, 448, 0x7e },  { TAUT_FLOAT8_E5M2, 1, 0x3c },    { TAUT_FLOAT8_E5M2, 7, 0x47 },
		{ TAUT_FLOAT8_E4M3, 0x1p-9, 1 },  { TAUT_FLOAT16, 0x1p-24, 1 },	    { TAUT_FLOAT8_E5M2, 0, 0 },
		{ TAUT_FLOAT8_E4M3, -0.5, 0xb0 }, { TAUT_FLOAT16, 0x1p-14, 0x400 }, { TAUT_BFLOAT16, 256, 0x4380 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(pack_small(&forms[known[i].type], known[i].value), known[i].bits);
		assert_true(unpack_small(known[i].type, known[i].bits) == known[i].value);
	}
	assert_true(isnan(unpack_small(TAUT_FLOAT8_E4M3, 0x7f)));
	assert_true(isinf(unpack_small(TAUT_FLOAT8_E5M2, 0x7c)));
}

/* Rank order in one n-ary step, as a one-shot would. */
static size_t differences(enum taut_type type, enum taut_op op, int size)
{
	static unsigned char out[BENCH_PERIOD * 8];
	const struct reduce_kernels *k = reduce_find(type, op);
	const void *src[64];

	for (int r = 0; r < size; r++) {
		bench_input(&tables[r], type, op, r, size);
		src[r] = tables[r].bytes;
	}
	bench_reduced(&reduced, type, op, size);
	assert_true(reduced.exact);
	k->many(out, src, size, BENCH_PERIOD);
	return bench_wrong(out, &reduced, 0, BENCH_PERIOD);
}

static void the_reference_agrees_with_the_kernels(void **state)
{
	static const int sizes[] = { 1, 2, 3, 8, 31 };

	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++)
		for (int op = 0; op < TAUT_OP_COUNT; op++)
			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
				if (op != TAUT_AVG && bench_op_fits((enum taut_op)op, (enum taut_type)type))
					assert_int_equal(differences((enum taut_type)type, (enum taut_op)op, sizes[i]),
							 0);
}

/* As a ring does it: one rank after the other, rounded to the type each time. */
static void the_order_of_reduction_does_not_matter(void **state)
{
	static unsigned char acc[BENCH_PERIOD * 8];

	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++) {
		for (int size = 2; size <= 64; size += 31) {
			const struct reduce_kernels *k = reduce_find((enum taut_type)type, TAUT_SUM);

			for (int r = size - 1; r >= 0; r--) {
				bench_input(&tables[0], (enum taut_type)type, TAUT_SUM, r, size);
				if (r == size - 1)
					memcpy(acc, tables[0].bytes, sizeof(acc));
				else
					k->two(acc, tables[0].bytes, acc, BENCH_PERIOD);
			}
			bench_reduced(&reduced, (enum taut_type)type, TAUT_SUM, size);
			assert_int_equal(bench_wrong(acc, &reduced, 0, BENCH_PERIOD), 0);
		}
	}
}

static void averages_are_exact_when_the_ranks_are_a_power_of_two(void **state)
{
	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++) {
		for (int size = 1; size <= 64; size *= 2) {
			bench_reduced(&reduced, (enum taut_type)type, TAUT_AVG, size);
			assert_true(reduced.exact);
		}
	}
	bench_reduced(&reduced, TAUT_FLOAT32, TAUT_AVG, 3);
	assert_false(reduced.exact);
	bench_reduced(&reduced, TAUT_INT8, TAUT_AVG, 3);
	assert_true(reduced.exact);
}

static void an_inexact_average_allows_rounding_and_no_more(void **state)
{
	float got[BENCH_PERIOD];

	(void)state;
	bench_reduced(&reduced, TAUT_FLOAT32, TAUT_AVG, 3);
	for (int i = 0; i < BENCH_PERIOD; i++)
		got[i] = (float)reduced.want[i];
	got[7] = nextafterf(got[7], INFINITY);
	assert_int_equal(bench_wrong(got, &reduced, 0, BENCH_PERIOD), 0);
	got[7] *= 1.00001f;
	got[8] = NAN;
	assert_int_equal(bench_wrong(got, &reduced, 0, BENCH_PERIOD), 2);
}

static void every_wrong_element_counts_once(void **state)
{
	enum { N = 3 * BENCH_PERIOD + 100 };
	static const size_t at[] = { 0, 1, BENCH_PERIOD - 1, BENCH_PERIOD, 2 * BENCH_PERIOD + 5, N - 1 };
	uint16_t *buf = malloc(N * sizeof(*buf));

	(void)state;
	bench_input(&tables[0], TAUT_BFLOAT16, TAUT_OP_COUNT, 3, 5);
	bench_fill(buf, &tables[0], 17, N);
	assert_int_equal(bench_wrong(buf, &tables[0], 17, N), 0);
	for (size_t i = 0; i < 6; i++)
		buf[at[i]] ^= 0x10;
	assert_int_equal(bench_wrong(buf, &tables[0], 17, N), 6);
	free(buf);
}

static void data_of_another_place_or_rank_are_wrong(void **state)
{
	enum { N = 2000 };
	static int32_t buf[N];

	(void)state;
	bench_input(&tables[0], TAUT_INT32, TAUT_OP_COUNT, 0, 2);
	bench_input(&tables[1], TAUT_INT32, TAUT_OP_COUNT, 1, 2);
	bench_fill(buf, &tables[0], 0, N);
	assert_true(bench_wrong(buf, &tables[0], 1, N) > N - 10);
	assert_true(bench_wrong(buf, &tables[0], N, N) > N - 10);
	assert_true(bench_wrong(buf, &tables[1], 0, N) > N - 10);
}

static void a_zero_may_have_either_sign(void **state)
{
	float zero = -0.0f;

	(void)state;
	memset(&tables[0], 0, sizeof(tables[0]));
	tables[0].type = TAUT_FLOAT32;
	tables[0].exact = true;
	assert_int_equal(bench_wrong(&zero, &tables[0], 0, 1), 0);
}

static void a_missing_rank_changes_every_kind_of_result(void **state)
{
	(void)state;
	for (int type = 0; type < TAUT_TYPE_COUNT; type++) {
		for (int op = 0; op <= TAUT_PROD; op++) {
			bench_reduced(&reduced, (enum taut_type)type, (enum taut_op)op, 5);
			bench_reduced(&tables[0], (enum taut_type)type, (enum taut_op)op, 4);
			assert_true(bench_wrong(tables[0].bytes, &reduced, 0, BENCH_PERIOD) > BENCH_PERIOD / 10);
		}
	}
}

static void touched_bytes_are_counted(void **state)
{
	unsigned char buf[100];

	(void)state;
	memset(buf, BENCH_POISON, sizeof(buf));
	assert_int_equal(bench_touched(buf, sizeof(buf)), 0);
	buf[99] = 0;
	buf[3] = 1;
	assert_int_equal(bench_touched(buf, sizeof(buf)), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_floats_have_the_known_codes),
		cmocka_unit_test(the_reference_agrees_with_the_kernels),
		cmocka_unit_test(the_order_of_reduction_does_not_matter),
		cmocka_unit_test(averages_are_exact_when_the_ranks_are_a_power_of_two),
		cmocka_unit_test(an_inexact_average_allows_rounding_and_no_more),
		cmocka_unit_test(every_wrong_element_counts_once),
		cmocka_unit_test(data_of_another_place_or_rank_are_wrong),
		cmocka_unit_test(a_zero_may_have_either_sign),
		cmocka_unit_test(a_missing_rank_changes_every_kind_of_result),
		cmocka_unit_test(touched_bytes_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
