/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "../../tools/bench_coll.c"
#include "../../tools/bench_limit.c"

/* Copies at 1 GB/s by each of two cores, trips of 0.5 us. */
static const struct limits machine = {
	.cores = 2,
	.copy = { .n = 1, .p = { { .bytes = 4096, .one = 1, .all = 2 } } },
	.tcp = { .n = 1, .p = { { .bytes = 4096, .one = 0.5, .all = 0.5 } } },
	.trip_us = 0.5,
	.tcp_trip_us = 10,
};

static double limit(const char *coll, size_t bytes, int ranks, bool tcp)
{
	const struct bench_opts opts = { .coll = bench_coll_find(coll) };

	assert_non_null(opts.coll);
	return bench_limit_us(&machine, &opts, bytes, ranks, false, tcp);
}

static void the_limit_is_a_copy_and_a_trip(void **state)
{
	(void)state;
	/* Two ranks read and write 4000 bytes each, as two copies at once do. */
	assert_true(limit("all_reduce", 4000, 2, false) > 4.49 && limit("all_reduce", 4000, 2, false) < 4.51);
	assert_true(limit("all_reduce", 4000, 2, true) > 10);
	assert_true(limit("broadcast", 4000, 2, false) < limit("all_reduce", 4000, 2, false));
}

static void a_group_of_one_has_no_limit(void **state)
{
	(void)state;
	assert_true(limit("all_reduce", 4000, 1, false) == 0);
	assert_true(limit("all_gather", 4000, 1, true) == 0);
	assert_true(limit("barrier", 0, 1, false) == 0);
}

static void a_call_without_bytes_has_no_limit_but_the_barrier(void **state)
{
	(void)state;
	assert_true(limit("all_reduce", 0, 2, false) == 0);
	assert_true(limit("all_to_all", 0, 2, true) == 0);
	assert_true(limit("barrier", 0, 2, false) == 0.5);
	assert_true(limit("barrier", 0, 2, true) == 10);
}

static void nothing_is_measured_for_one_rank(void **state)
{
	const struct bench_opts opts = { .coll = bench_coll_find("all_reduce") };
	struct limits l = { .cores = 77 };

	(void)state;
	assert_int_equal(bench_limit_measure(&l, &opts, 1, false, false), TAUT_OK);
	assert_int_equal(l.cores, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_is_a_copy_and_a_trip),
		cmocka_unit_test(a_group_of_one_has_no_limit),
		cmocka_unit_test(a_call_without_bytes_has_no_limit_but_the_barrier),
		cmocka_unit_test(nothing_is_measured_for_one_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
