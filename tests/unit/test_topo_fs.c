/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/fs.h"

/* A folder in which the same things stand as in pack_text. */
static char root[] = "/tmp/taut_fs_XXXXXX";

static const char pack_text[] = "taut capture 1\n"
				"# a remark\n"
				"\n"
				"/a/file: one line\n"
				"/a/lines: |2\n"
				"first\n"
				"# second\n"
				"/a/number: 0x1f\n"
				"/a/link -> file\n"
				"/a/out -> ../../../../a/file\n"
				"/a/absolute -> /a/sub\n"
				"/a/circle -> circle\n"
				"/a/nothing -> missing\n"
				"/a/sub/n10: x\n"
				"/a/sub/n9: x\n"
				"/a/sub-way: x\n"
				"/a/sub/deep/x: x\n"
				"/empty/\n"
				"fact: known\n";

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_folder(const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_int_equal(mkdir(full, 0700), 0);
}

static void put_link(const char *path, const char *target)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_int_equal(symlink(target, full), 0);
}

static int make_root(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root));
	put_folder("/a");
	put_folder("/a/sub");
	put_folder("/a/sub/deep");
	put_folder("/empty");
	put("/a/file", "one line\n");
	put("/a/lines", "first\n# second\n");
	put("/a/number", "0x1f\n");
	put("/a/sub/n9", "x\n");
	put("/a/sub/n10", "x\n");
	put("/a/sub-way", "x\n");
	put("/a/sub/deep/x", "x\n");
	put_link("/a/link", "file");
	put_link("/a/out", "../../../../a/file");
	put_link("/a/absolute", "/a/sub");
	put_link("/a/circle", "circle");
	put_link("/a/nothing", "missing");
	return 0;
}

static int remove_root(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static struct topo_fs *open_kind(int kind)
{
	struct topo_fs *fs = NULL;

	if (kind)
		assert_int_equal(fs_pack_read(&fs, "pack", pack_text, strlen(pack_text)), TAUT_OK);
	else
		assert_int_equal(fs_dir_open(&fs, root), TAUT_OK);
	return fs;
}

static void a_folder_and_a_capture_read_alike(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct topo_fs *fs = open_kind(kind);
		char line[32], path[FS_PATH], *text;
		size_t len;

		assert_true(fs_line(fs, line, sizeof(line), "/%s/file", "a"));
		assert_string_equal(line, "one line");
		assert_true(fs_line(fs, line, 4, "/a/file"));
		assert_string_equal(line, "one");
		assert_int_equal(fs_number(fs, -1, "/a/number"), 0x1f);
		assert_int_equal(fs_number(fs, -1, "/a/file"), -1);
		assert_int_equal(fs_number(fs, -7, "/a/none"), -7);
		text = fs_read(fs, &len, "/a/lines");
		assert_non_null(text);
		assert_string_equal(text, "first\n# second\n");
		assert_int_equal(len, strlen(text));
		mem_free(text);
		assert_null(fs_read(fs, NULL, "/a"));
		assert_null(fs_read(fs, NULL, "a/file"));
		assert_null(fs_read(fs, NULL, "/a/file/x"));
		assert_true(fs_real(fs, path, sizeof(path), "/a/sub/../link"));
		assert_string_equal(path, "/a/file");
		assert_int_equal(fs_kind_of(fs, "/empty"), FS_DIR);
		assert_int_equal(fs_kind_of(fs, "/"), FS_DIR);
		assert_int_equal(fs_kind_of(fs, "//a/./sub//"), FS_DIR);
		assert_int_equal(fs_kind_of(fs, "/a/file"), FS_FILE);
		assert_int_equal(fs_kind_of(fs, "/a/su"), FS_NONE);
		fs_close(fs);
	}
	fs_close(NULL);
}

static void links_stay_inside_and_end(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct topo_fs *fs = open_kind(kind);
		char path[FS_PATH];

		assert_true(fs_real(fs, path, sizeof(path), "/a/out"));
		assert_string_equal(path, "/a/file");
		assert_true(fs_real(fs, path, sizeof(path), "/a/absolute/deep/x"));
		assert_string_equal(path, "/a/sub/deep/x");
		assert_false(fs_real(fs, path, sizeof(path), "/a/circle"));
		assert_false(fs_real(fs, path, sizeof(path), "/a/nothing"));
		assert_false(fs_real(fs, path, 5, "/a/out"));
		fs_close(fs);
	}
}

static void names_come_in_the_order_of_their_numbers(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct topo_fs *fs = open_kind(kind);
		struct fs_names names;

		assert_int_equal(fs_list(fs, &names, "/a/absolute"), 3);
		assert_string_equal(names.name[0], "deep");
		assert_string_equal(names.name[1], "n9");
		assert_string_equal(names.name[2], "n10");
		fs_names_free(&names);
		assert_int_equal(fs_list(fs, &names, "/a"), 10);
		fs_names_free(&names);
		assert_int_equal(fs_list(fs, &names, "/empty"), 0);
		assert_int_equal(fs_list(fs, &names, "/a/file"), -1);
		assert_int_equal(fs_list(fs, &names, "/none"), -1);
		fs_close(fs);
	}
}

static void only_captures_hold_facts(void **state)
{
	struct topo_fs *dir = open_kind(0), *pack = open_kind(1);
	char *text = fs_fact(pack, "fact");

	(void)state;
	assert_non_null(text);
	assert_string_equal(text, "known");
	mem_free(text);
	assert_null(fs_fact(dir, "a/file"));
	assert_null(fs_fact(pack, "/a/file"));
	fs_close(dir);
	fs_close(pack);
}

static void a_path_that_is_too_long_is_not_there(void **state)
{
	struct topo_fs *fs = open_kind(1);
	char path[2 * FS_PATH];

	(void)state;
	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(fs_kind_of(fs, path), FS_NONE);
	memset(path + 1, 'x', FS_PATH - 4);
	path[FS_PATH - 3] = '\0';
	assert_int_equal(fs_kind_of(fs, path), FS_NONE);
	fs_close(fs);
}

static void what_is_written_reads_as_the_same(void **state)
{
	struct topo_fs *fs = open_kind(1);
	char *once, *twice;

	(void)state;
	assert_int_equal(fs_pack_write(&once, fs), TAUT_OK);
	fs_close(fs);
	assert_int_equal(fs_pack_read(&fs, "once", once, strlen(once)), TAUT_OK);
	assert_int_equal(fs_pack_write(&twice, fs), TAUT_OK);
	assert_string_equal(once, twice);
	assert_non_null(strstr(once, "\n/a/lines: |2\nfirst\n# second\n/"));
	fs_close(fs);
	mem_free(once);
	mem_free(twice);
}

/* --- hostile --- */

static char said[512];

static void keep_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)ctx;
	snprintf(said, sizeof(said), "%s", line);
}

static void a_link_is_one_line_whatever_it_starts_with(void **state)
{
	static const char text[] = "taut capture 1\n/a -> |1\n/b: 2\n";
	struct topo_fs *fs = NULL;
	char target[64];

	(void)state;
	assert_int_equal(fs_pack_read(&fs, "pack", text, strlen(text)), TAUT_OK);
	assert_int_equal(fs->ops->look(fs, "/a", target, sizeof(target)), FS_LINK);
	assert_string_equal(target, "|1");
	assert_int_equal(fs->ops->look(fs, "/b", target, sizeof(target)), FS_FILE);
	fs_close(fs);
}

static void bad_captures_are_refused_with_line_and_column(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "bad:1:1: want \"taut capture 1\"" },
		{ "taut capture 2\n", "bad:1:1: want" },
		{ "taut capture 1\n/a: 1\nnonsense\n", "bad:3:1: no entry" },
		{ "taut capture 1\n/a//b: 1\n", "bad:2:1: a path with an empty name in it" },
		{ "taut capture 1\n/a/../b: 1\n", "bad:2:1: a path with . or .. in it" },
		{ "taut capture 1\n/a/: 1\n", "bad:2:1: a path with an empty name in it" },
		{ "taut capture 1\n: 1\n", "bad:2:1: a path with an empty name in it" },
		{ "taut capture 1\n/: 1\n", "bad:2:1: a path with an empty name in it" },
		{ "taut capture 1\n/a: |x\n", "bad:2:5: no number of lines" },
		{ "taut capture 1\n/a: |\n", "bad:2:5: no number of lines" },
		{ "taut capture 1\n/a: |-1\n", "bad:2:5: no number of lines" },
		{ "taut capture 1\n/a: |3\nx\ny\n", "fewer lines of text than it counts" },
		{ "taut capture 1\n/a: |9999999999\nx\n", "fewer lines of text than it counts" },
		{ "taut capture 1\n/a: 1\n/b: 2\n/a: 3\n", "1 entries are there twice" },
	};

	(void)state;
	log_set_sink(keep_line, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct topo_fs *fs = NULL;

		said[0] = '\0';
		assert_int_equal(fs_pack_read(&fs, "bad", bad[i].text, strlen(bad[i].text)), TAUT_ERR_ARG);
		if (!strstr(said, bad[i].says))
			print_error("%s: %s\n", bad[i].text, said);
		assert_non_null(strstr(said, bad[i].says));
	}
	log_set_sink(NULL, NULL);
}

static void a_zero_byte_and_a_long_path_are_refused(void **state)
{
	static const char zero[] = "taut capture 1\n/a\0b: 1\n";
	char *text = mem_calloc(2 * FS_PATH, 1);
	struct topo_fs *fs = NULL;

	(void)state;
	log_set_sink(keep_line, NULL);
	assert_int_equal(fs_pack_read(&fs, "bad", zero, sizeof(zero) - 1), TAUT_ERR_ARG);
	snprintf(text, 2 * FS_PATH, "taut capture 1\n/%0*d: 1\n", FS_PATH, 0);
	assert_int_equal(fs_pack_read(&fs, "bad", text, strlen(text)), TAUT_ERR_ARG);
	log_set_sink(NULL, NULL);
	mem_free(text);
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo_fs *fs = NULL;

	(void)state;
	log_set_sink(keep_line, NULL);
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = fs_pack_read(&fs, "pack", pack_text, strlen(pack_text));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(1);
	assert_null(fs_read(fs, NULL, "/a/file"));
	assert_true(fs->no_memory);
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	fs_close(fs);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
	struct topo_fs *fs = NULL;

	(void)state;
	log_set_sink(keep_line, NULL);
	assert_int_not_equal(fs_dir_open(&fs, "/no/such/folder"), TAUT_OK);
	assert_non_null(strstr(said, "folder /no/such/folder"));
	log_set_sink(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_and_a_capture_read_alike),
		cmocka_unit_test(links_stay_inside_and_end),
		cmocka_unit_test(names_come_in_the_order_of_their_numbers),
		cmocka_unit_test(only_captures_hold_facts),
		cmocka_unit_test(a_path_that_is_too_long_is_not_there),
		cmocka_unit_test(what_is_written_reads_as_the_same),
		cmocka_unit_test(a_link_is_one_line_whatever_it_starts_with),
		cmocka_unit_test(bad_captures_are_refused_with_line_and_column),
		cmocka_unit_test(a_zero_byte_and_a_long_path_are_refused),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
