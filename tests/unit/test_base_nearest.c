/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "base/nearest.h"

static void distances_count_edits(void **state)
{
	char far[100];

	(void)state;
	assert_int_equal(edit_distance("", ""), 0);
	assert_int_equal(edit_distance("abc", ""), 3);
	assert_int_equal(edit_distance("", "abc"), 3);
	assert_int_equal(edit_distance("abc", "ABC"), 0);
	assert_int_equal(edit_distance("abc", "abd"), 1);
	assert_int_equal(edit_distance("abc", "acb"), 1);
	assert_int_equal(edit_distance("abc", "abcd"), 1);
	assert_int_equal(edit_distance("kitten", "sitting"), 3);
	memset(far, 'x', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	assert_int_equal(edit_distance(far, "x"), NEAREST_MAX);
	assert_int_equal(edit_distance("x", far), NEAREST_MAX);
	far[NEAREST_MAX] = '\0';
	assert_int_equal(edit_distance(far, far), 0);
}

static void only_a_near_name_is_meant(void **state)
{
	static const char *const names[] = { "run", "bench", "settings", "topo" };

	(void)state;
	assert_string_equal(nearest_name("rnu", names, 4), "run");
	assert_string_equal(nearest_name("benhc", names, 4), "bench");
	assert_string_equal(nearest_name("setings", names, 4), "settings");
	assert_null(nearest_name("quit", names, 4));
	assert_null(nearest_name("", names, 4));
	assert_null(nearest_name("x", names, 4));
	assert_null(nearest_name("run", names, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances_count_edits),
		cmocka_unit_test(only_a_near_name_is_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
