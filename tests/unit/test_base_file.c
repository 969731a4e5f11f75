/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/taut-file-XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void the_cache_folder_is_the_standards(void **state)
{
	char path[PATH_MAX], tiny[8] = "";

	(void)state;
	setenv("HOME", "/nowhere", 1);
	setenv("XDG_CACHE_HOME", "/cache", 1);
	assert_int_equal(file_cache_path(path, sizeof(path), "x"), TAUT_OK);
	assert_string_equal(path, "/cache/taut/x");
	setenv("XDG_CACHE_HOME", "relative", 1);
	assert_int_equal(file_cache_path(path, sizeof(path), "x"), TAUT_OK);
	assert_string_equal(path, "/nowhere/.cache/taut/x");
	assert_int_equal(file_cache_path(tiny, sizeof(tiny), "x"), TAUT_ERR_CONFIG);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_int_equal(file_cache_path(path, sizeof(path), "x"), TAUT_OK);
	assert_string_equal(path, "");
}

static void what_was_written_is_read(void **state)
{
	const char *path = in_folder("a/b/file");
	char buf[8];
	size_t got;

	(void)state;
	assert_int_equal(file_read(&got, buf, sizeof(buf), path), ENOENT);
	assert_int_equal(file_can_replace(path), 0);
	assert_int_equal(file_replace(path, "first", 5), 0);
	assert_int_equal(file_replace(path, "again", 5), 0);
	assert_int_equal(file_read(&got, buf, sizeof(buf), path), 0);
	assert_int_equal(got, 5);
	assert_memory_equal(buf, "again", 5);
	assert_int_equal(file_read(&got, buf, 5, path), 0);
	assert_int_equal(file_read(&got, buf, 4, path), EFBIG);
}

static void what_is_no_file_is_refused(void **state)
{
	const char *path = in_folder("fifo");
	char buf[8];
	size_t got;

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(file_read(&got, buf, sizeof(buf), path), EINVAL);
	assert_int_equal(file_read(&got, buf, sizeof(buf), folder), EINVAL);
	assert_int_equal(file_replace(in_folder("plain"), "", 0), 0);
	assert_int_equal(file_can_replace(in_folder("plain/below")), ENOTDIR);
	assert_int_equal(file_replace(in_folder("plain/below"), "x", 1), ENOTDIR);
}

static int make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : 1;
}

static int clear(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cache_folder_is_the_standards),
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(what_is_no_file_is_refused),
	};

	return cmocka_run_group_tests(tests, make, clear);
}
