/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "boot/nodelist.h"

/* All hosts of @list, joined by spaces. */
static const char *expand(const char *list)
{
	static char text[1024];
	char host[64];

	text[0] = '\0';
	for (long i = 0; !nodelist_get(list, i, host, sizeof(host)); i++) {
		strcat(text, i ? " " : "");
		strcat(text, host);
	}
	return text;
}

static void lists_are_expanded(void **state)
{
	(void)state;
	assert_string_equal(expand("x"), "x");
	assert_string_equal(expand("a,b.example.org,c-1"), "a b.example.org c-1");
	assert_string_equal(expand("node[01-03,7],x"), "node01 node02 node03 node7 x");
	assert_string_equal(expand("x,node[9-11]"), "x node9 node10 node11");
	assert_string_equal(expand("node[099-101]"), "node099 node100 node101");
	assert_string_equal(expand("r[1-2]n[01,5]-ib"), "r1n01-ib r1n5-ib r2n01-ib r2n5-ib");
	assert_int_equal(nodelist_count("r[1-2]n[01,5]-ib,y"), 5);
	assert_int_equal(nodelist_count("n[0-9][0-9]"), 100);
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   ",",
					   "a,,b",
					   "a[",
					   "a]",
					   "a[]",
					   "a[x]",
					   "a[3-1]",
					   "a[1-]",
					   "a[-1]",
					   "[1-2]",
					   "a[1-2",
					   "a]1[",
					   "a[1,]x[",
					   "a b",
					   "a[1-99999999]",
					   "a[1--2]",
					   "a[0-99999][0-99999]",
					   "a[1][1][1][1][1][1][1][1][1][1]" };
	char host[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (nodelist_count(bad[i]) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_int_equal(nodelist_get(bad[i], 0, host, sizeof(host)), -1);
	}
}

static void a_host_that_does_not_fit_is_refused(void **state)
{
	char host[7];

	(void)state;
	assert_int_equal(nodelist_get("node[01-03]", 0, host, 7), 0);
	assert_string_equal(host, "node01");
	assert_int_equal(nodelist_get("node[01-03]", 0, host, 6), -1);
	assert_int_equal(nodelist_get("node[01-03]", 0, host, 4), -1);
	assert_int_equal(nodelist_get("node[01-03]x", 0, host, 7), -1);
	assert_int_equal(nodelist_get("node[01-03]", 3, host, 7), -1);
	assert_int_equal(nodelist_get("node[01-03]", -1, host, 7), -1);
}

static void task_counts_are_expanded(void **state)
{
	(void)state;
	assert_int_equal(nodelist_tasks("2(x3),1", 0), 2);
	assert_int_equal(nodelist_tasks("2(x3),1", 2), 2);
	assert_int_equal(nodelist_tasks("2(x3),1", 3), 1);
	assert_int_equal(nodelist_tasks("2(x3),1", 4), -1);
	assert_int_equal(nodelist_tasks("4", 0), 4);
	assert_int_equal(nodelist_tasks("", 0), -1);
	assert_int_equal(nodelist_tasks("x", 0), -1);
	assert_int_equal(nodelist_tasks("2(x", 0), -1);
	assert_int_equal(nodelist_tasks("2(x3", 0), -1);
	assert_int_equal(nodelist_tasks("2(y3)", 0), -1);
	assert_int_equal(nodelist_tasks("4", -1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_expanded),
		cmocka_unit_test(what_is_no_list_is_refused),
		cmocka_unit_test(a_host_that_does_not_fit_is_refused),
		cmocka_unit_test(task_counts_are_expanded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
