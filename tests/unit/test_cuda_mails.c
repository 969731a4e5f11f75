/* SPDX-License-Identifier: Apache-2.0 */
/* Mail is freed when the last rank of the process has left. */
#include "cuda/mails.h"

#include "base/mem.h"
#include "unit.h"

static uint64_t freed;

static int count_free(uint64_t p)
{
	freed += p;
	return 0;
}

static const struct cuda_driver driver = { .mem_free = count_free };

static const struct cu_ctx *ctx_of(int rank)
{
	static char ctx[4];

	return (const struct cu_ctx *)(void *)&ctx[rank];
}

static void the_last_to_leave_frees_all(void **state)
{
	(void)state;
	freed = 0;
	mails_join(1000, 3);
	mails_leave(&driver, 1000, 1, ctx_of(0));
	mails_leave(&driver, 1000, 2, ctx_of(1)); /* before the third has joined */
	assert_int_equal(freed, 0);
	mails_join(1000, 3);
	mails_leave(&driver, 1000, 4, ctx_of(2));
	assert_int_equal(freed, 7);
	mails_join(1000, 2); /* another communicator */
	mails_leave(&driver, 1000, 1000, ctx_of(0));
	assert_int_equal(freed, 7);
	mails_leave(&driver, 1000, 2000, ctx_of(0));
	assert_int_equal(freed, 3007);
}

/* Rank 0 may run a kernel of 2000 that waits for rank 1. */
static void nobody_frees_mail_of_a_context_that_may_wait_for_it(void **state)
{
	(void)state;
	freed = 0;
	mails_join(1000, 2);
	mails_join(2000, 2);
	mails_join(3000, 2);
	mails_leave(&driver, 1000, 1, ctx_of(0));
	mails_leave(&driver, 1000, 2, ctx_of(1));
	assert_int_equal(freed, 2);
	mails_leave(&driver, 2000, 10, ctx_of(1));
	assert_int_equal(freed, 2);
	mails_leave(&driver, 2000, 20, ctx_of(0));
	assert_int_equal(freed, 23);
	mails_leave(&driver, 3000, 100, ctx_of(0));
	assert_int_equal(freed, 23);
	mails_leave(&driver, 3000, 200, ctx_of(2));
	assert_int_equal(freed, 333);
}

static void without_memory_mail_is_freed_all_the_same(void **state)
{
	(void)state;
	for (uint64_t turn = 1; turn < 20; turn++) {
		freed = 0;
		mem_fail_from(1);
		for (uint64_t key = 1; key <= 8; key++)
			mails_join(key, 2);
		for (uint64_t key = 1; key <= 8; key++)
			mails_join(key, 2);
		mem_fail_from(0);
		for (uint64_t key = 1; key <= 8; key++) {
			mails_leave(&driver, key, 1, ctx_of(0));
			assert_int_equal(freed, 2 * (key - 1));
			mails_leave(&driver, key, 1, ctx_of(0));
			assert_int_equal(freed, 2 * key);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_to_leave_frees_all),
		cmocka_unit_test(nobody_frees_mail_of_a_context_that_may_wait_for_it),
		cmocka_unit_test(without_memory_mail_is_freed_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
