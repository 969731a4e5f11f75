/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/price.h"
#include "unit.h"

static void all_reduces_of_two_are_near_what_was_measured(void **state)
{
	static const struct {
		size_t bytes;
		double us;
	} measured[] = { { 8, 2.68 },	     { 32 << 10, 2.9 },	 { 512 << 10, 5.04 },
			 { 8 << 20, 34.17 }, { 128 << 20, 399 }, { 512 << 20, 1566 } };

	(void)state;
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		double us = gpu_price(COLL_ALL_REDUCE, 2, measured[i].bytes);

		assert_true(us > 0.75 * measured[i].us && us < 1.25 * measured[i].us);
	}
}

static void more_bytes_and_ranks_take_longer(void **state)
{
	(void)state;
	for (int coll = 0; coll < COLL_BARRIER; coll++) {
		enum sched_coll c = (enum sched_coll)coll;

		assert_true(gpu_price(c, 1, 1000) <= 0 && gpu_price(c, 2, 0) <= 0);
		assert_true(gpu_price(c, 2, 1 << 20) < gpu_price(c, 2, 2 << 20));
		assert_true(gpu_price(c, 2, 1 << 20) < gpu_price(c, 8, 1 << 20));
	}
	assert_true(gpu_price(COLL_ALL_REDUCE, 8, 64 << 20) < gpu_price(COLL_ALL_GATHER, 8, 64 << 20));
	assert_true(gpu_price_message(8) < gpu_price_message(1 << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_reduces_of_two_are_near_what_was_measured),
					    cmocka_unit_test(more_bytes_and_ranks_take_longer) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
