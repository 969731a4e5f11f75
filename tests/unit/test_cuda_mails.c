/* SPDX-License-Identifier: Apache-2.0 */
/* Mail is freed when the last rank of the process has left. */
#include "cuda/mails.h"
#include "unit.h"

static uint64_t freed;

static int count_free(uint64_t p)
{
	freed += p;
	return 0;
}

static const struct cuda_driver driver = { .mem_free = count_free };

static void the_last_to_leave_frees_all(void **state)
{
	(void)state;
	mails_join(1000, 3);
	mails_join(2000, 2);
	mails_join(1000, 3);
	mails_leave(&driver, 1000, 1);
	mails_leave(&driver, 2000, 100);
	mails_leave(&driver, 1000, 2); /* before the third has joined */
	assert_int_equal(freed, 0);
	mails_join(1000, 3);
	mails_leave(&driver, 1000, 4);
	assert_int_equal(freed, 7);
	mails_join(1000, 2); /* another communicator */
	mails_leave(&driver, 2000, 200);
	assert_int_equal(freed, 307);
	mails_leave(&driver, 1000, 1000);
	assert_int_equal(freed, 307);
	mails_leave(&driver, 1000, 2000);
	assert_int_equal(freed, 3307);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_last_to_leave_frees_all) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
