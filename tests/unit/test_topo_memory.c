/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "topo/memory.h"

static const struct memory_speed two = { .cores = 2, .one = 10.5, .all = 16 };

static void what_is_printed_is_parsed(void **state)
{
	char text[512];
	struct memory_speed s = { 0 };

	(void)state;
	assert_true(memory_speed_print(text, sizeof(text), &two, "a cpu, cpus 0-1") < sizeof(text));
	assert_true(memory_speed_parse(&s, text, "a cpu, cpus 0-1"));
	assert_int_equal(s.cores, 2);
	assert_true(s.one == 10.5 && s.all == 16);
	assert_false(memory_speed_parse(&s, text, "a cpu, cpus 0-2"));
	assert_false(memory_speed_parse(&s, text, "a cpu"));
}

static void what_is_broken_is_not_taken(void **state)
{
	static const char *const broken[] = {
		"",
		"taut.memory 1\n",
		"taut.memory 2\nmachine m\ncores 2\none_mbps 5\nall_mbps 5\n",
		"taut.memory 1\n#",
		"taut.memory 1\nmachine m\ncores 0\none_mbps 5\nall_mbps 5\n",
		"taut.memory 1\nmachine m\ncores 2\none_mbps -5\nall_mbps 5\n",
		"taut.memory 1\nmachine m\ncores 2\none_mbps 5\nall_mbps 99999999999999999999\n",
		"taut.memory 1\nmachine m\ncores 2\none_mbps 5\nall_mbps 5",
		"taut.memory 1\nmachine m\ncores 2\none_mbps 5\nall_mbps 5\nmore\n",
	};
	struct memory_speed s = two;

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		assert_false(memory_speed_parse(&s, broken[i], "m"));
	assert_true(memory_speed_parse(&s, "taut.memory 1\nmachine m\ncores 2\none_mbps 5\nall_mbps 6\n", "m"));
	assert_true(s.one == 0.005 && s.all == 0.006);
}

static void a_measurement_has_figures(void **state)
{
	struct memory_speed s;

	(void)state;
	assert_int_equal(memory_speed_measure(&s), TAUT_OK);
	assert_true(s.cores > 0 && s.one > 0 && s.all > 0);
}

static void cores_that_copy_at_once_share_the_memory(void **state)
{
	const struct memory_speed one = { .cores = 1, .one = 5, .all = 5 };

	(void)state;
	assert_true(memory_speed_each(&two, 1) == 10.5);
	assert_true(memory_speed_each(&two, 2) == 8);
	assert_true(memory_speed_each(&two, 7) == 8);
	assert_true(memory_speed_each(&one, 1) == 5);
	assert_true(memory_speed_each(&one, 2) == 5);
}

static void remove_folder(const char *folder)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	assert_int_equal(system(command), 0);
}

static void it_is_measured_once(void **state)
{
	char folder[] = "/tmp/taut-memory-XXXXXX", note[1024];
	struct memory_speed first, again;

	(void)state;
	assert_non_null(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	if (!memory_speed_get(&first, note, sizeof(note))) {
		remove_folder(folder);
		assert_non_null(strstr(note, "the machine is busy (load "));
		skip();
	}
	assert_non_null(strstr(note, "kept in "));
	assert_true(first.cores > 0 && first.one > 0 && first.all > 0);
	assert_true(memory_speed_get(&again, note, sizeof(note)));
	assert_non_null(strstr(note, "from /tmp/taut-memory-"));
	assert_int_equal(again.cores, first.cores);
	assert_float_equal(again.all, first.all, 1.1e-3);
	remove_folder(folder);
}

static void what_cannot_be_kept_is_not_measured(void **state)
{
	struct memory_speed s = { .cores = 77 };
	char note[1024];

	(void)state;
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	assert_false(memory_speed_get(&s, note, sizeof(note)));
	assert_non_null(strstr(note, "/dev/null/taut/memory-"));
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_false(memory_speed_get(&s, note, sizeof(note)));
	assert_non_null(strstr(note, "XDG_CACHE_HOME"));
	assert_int_equal(s.cores, 77);
}

static void the_key_names_processor_and_cores(void **state)
{
	char key[1200], tiny[10];

	(void)state;
	memory_speed_key(key, sizeof(key));
	assert_non_null(strstr(key, ", cpus "));
	assert_non_null(strstr(key, ", taut "));
	assert_null(strchr(key, '\n'));
	memory_speed_key(tiny, sizeof(tiny));
	assert_true(strlen(tiny) < sizeof(tiny));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_is_parsed),
		cmocka_unit_test(what_is_broken_is_not_taken),
		cmocka_unit_test(cores_that_copy_at_once_share_the_memory),
		cmocka_unit_test(a_measurement_has_figures),
		cmocka_unit_test(it_is_measured_once),
		cmocka_unit_test(what_cannot_be_kept_is_not_measured),
		cmocka_unit_test(the_key_names_processor_and_cores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
