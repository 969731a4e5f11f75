/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sched/cost.h"

static char folder[64];

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/taut-test-tune-%d", (int)getpid());
	assert_int_equal(mkdir(folder, 0700), 0);
	log_set_sink(drop_line, NULL);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static struct tune *parsed(const char *text)
{
	struct tune *t = NULL;

	if (tune_parse(&t, "x.tune", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return t;
}

static void assert_broken(const char *text, const char *want)
{
	struct tune *t = NULL;

	assert_int_equal(tune_parse(&t, "x.tune", text, strlen(text)), TAUT_ERR_CONFIG);
	assert_null(t);
	if (strncmp(taut_error_message(), want, strlen(want)))
		fail_msg("wanted: %s\nhave:   %s", want, taut_error_message());
}

static void the_text_of_all_numbers_reads_back_to_the_same(void **state)
{
	struct cost_machine m, back;
	struct tune *t, *again;
	char *text, *second;
	size_t len, len2;

	(void)state;
	cost_machine_default(&m);
	m.switch_us = 1.123456789;
	m.link[1].trip_us[PROTO_BULK] = 999999.5;
	m.barrier_us = 0;
	assert_int_equal(tune_create(&t), TAUT_OK);
	tune_set(t, &m);
	assert_int_equal(tune_text(&text, &len, t), TAUT_OK);
	assert_int_equal(strlen(text), len);
	again = parsed(text);
	memset(&back, 0, sizeof(back));
	back.cores = m.cores;
	back.link[0].slot_bytes = m.link[0].slot_bytes;
	back.link[0].ll_max = m.link[0].ll_max;
	back.link[1].slot_bytes = m.link[1].slot_bytes;
	back.link[1].ll_max = m.link[1].ll_max;
	tune_apply(again, &back);
	assert_memory_equal(&m, &back, sizeof(m));
	assert_int_equal(tune_text(&second, &len2, again), TAUT_OK);
	assert_string_equal(text, second);
	mem_free(text);
	mem_free(second);
	tune_free(t);
	tune_free(again);
}

static void settings_are_not_taken_from_the_machine(void **state)
{
	struct cost_machine m, other;
	struct tune *t;

	(void)state;
	cost_machine_default(&m);
	other = m;
	other.cores = 77;
	other.link[0].ll_max = 1;
	other.link[1].slot_bytes = 2;
	assert_int_equal(tune_create(&t), TAUT_OK);
	tune_set(t, &m);
	tune_apply(t, &other);
	assert_int_equal(other.cores, 77);
	assert_int_equal(other.link[0].ll_max, 1);
	assert_int_equal(other.link[1].slot_bytes, 2);
	tune_apply(NULL, &other);
	tune_free(t);
	tune_free(NULL);
}

static void odd_numbers_are_written_as_what_can_be_read(void **state)
{
	struct cost_machine m;
	struct tune *t;
	char *text;
	size_t len;

	(void)state;
	cost_machine_default(&m);
	m.switch_us = -1;
	m.barrier_us = 1e300;
	m.map_byte_us[0] = nan("");
	assert_int_equal(tune_create(&t), TAUT_OK);
	tune_set(t, &m);
	assert_int_equal(tune_text(&text, &len, t), TAUT_OK);
	tune_free(parsed(text));
	assert_non_null(strstr(text, "machine switch_us 0.0\n"));
	assert_non_null(strstr(text, "machine barrier_us 1000000.0\n"));
	mem_free(text);
	tune_free(t);
}

static void best_lines_read_back_to_the_same(void **state)
{
	static const char *const lines = "best all_reduce 8 1 0 1024 0 one_shot ll 1 0\n"
					 "best all_reduce 8 2 1025 * 0 ring bulk 4 65536\n"
					 "best broadcast 3 1 7 7 0 one_shot bulk 64 1\n";
	char text[512], *back;
	struct tune *t;
	size_t len;

	(void)state;
	snprintf(text, sizeof(text), "taut.tune 1\n%s", lines);
	t = parsed(text);
	assert_int_equal(tune_text(&back, &len, t), TAUT_OK);
	assert_string_equal(back + len - strlen(lines), lines);
	mem_free(back);
	tune_free(t);
}

static void blanks_comments_and_a_missing_last_newline_do_not_matter(void **state)
{
	struct cost_machine m = { .cores = 1 };
	struct tune *t = parsed(
		"# mine\n\n  taut.tune\t1 # version\r\n\n machine  switch_us\t0.5#half\n#\nmachine barrier_us 2");

	(void)state;
	tune_apply(t, &m);
	assert_true(m.switch_us == 0.5);
	assert_true(m.barrier_us == 2);
	tune_free(t);
}

static void broken_files_are_told_by_line_and_column(void **state)
{
#define V "taut.tune 1\n"
	(void)state;
	assert_broken("", "x.tune:1:1: empty, wanted \"taut.tune 1\"");
	assert_broken("\n# x\n", "x.tune:3:1: empty");
	assert_broken("{}", "x.tune:1:1: \"{}\", wanted \"taut.tune 1\" as the first line");
	assert_broken("taut.tune", "x.tune:1:10: the version is missing");
	assert_broken("taut.tune 2\n", "x.tune:1:11: version 2, this library reads version 1");
	assert_broken("taut.tune one\n", "x.tune:1:11: the version is \"one\", wanted a whole number");
	assert_broken("taut.tune 1 1\n", "x.tune:1:13: \"1\" is too much");
	assert_broken(V "machin x 1", "x.tune:2:1: \"machin\", wanted \"machine\" or \"best\"");
	assert_broken(V "\n machine", "x.tune:3:9: the name of a number is missing");
	assert_broken(V "machine swich_us 1",
		      "x.tune:2:9: no number of a machine is called \"swich_us\"; did you mean switch_us?");
	assert_broken(V "machine switch_us", "x.tune:2:18: the value is missing");
	assert_broken(V "machine switch_us x", "x.tune:2:19: the value is \"x\", wanted a number from 0 to 1000000");
	assert_broken(V "machine switch_us -1", "x.tune:2:19: the value is \"-1\"");
	assert_broken(V "machine switch_us 1e3", "x.tune:2:19: the value is \"1e3\"");
	assert_broken(V "machine switch_us 1000000.1", "x.tune:2:19: ");
	assert_broken(V
		      "machine switch_us 99999999999999999999999999999999999999999999999999999999999999999999999999999",
		      "x.tune:2:19: ");
	assert_broken(V "machine switch_us 1.0000000001", "x.tune:2:19: ");
	assert_broken(V "machine switch_us 1,5", "x.tune:2:19: ");
	assert_broken(V "machine switch_us 1 2", "x.tune:2:21: \"2\" is too much");
	assert_broken(V "machine switch_us 1\nmachine switch_us 1", "x.tune:3:9: switch_us is given twice");
	assert_broken(V "machine cache_bytes 1.5", "x.tune:2:21: the value is \"1.5\", wanted a whole number");
	assert_broken(V "machine cache_bytes 99999999999999999999", "x.tune:2:21: ");
	assert_broken(V "best", "x.tune:2:5: the collective is missing");
	assert_broken(V "best all_redcue",
		      "x.tune:2:6: no collective is called \"all_redcue\"; did you mean all_reduce?");
	assert_broken(V "best all_reduce", "x.tune:2:16: the number of ranks is missing");
	assert_broken(V "best all_reduce 0",
		      "x.tune:2:17: the number of ranks is \"0\", wanted a whole number from 1 to");
	assert_broken(V "best all_reduce 8 9",
		      "x.tune:2:19: the number of machines is \"9\", wanted a whole number from 1 to 8");
	assert_broken(V "best all_reduce 8 1 10 9 0", "x.tune:2:24: the largest size 9 is below the smallest 10");
	assert_broken(V "best all_reduce 8 1 10 *9 0", "x.tune:2:24: \"*\" stands alone");
	assert_broken(V "best all_reduce 8 1 * 9 0", "x.tune:2:21: the smallest size is \"*\"");
	assert_broken(V "best all_reduce 8 1 0 * 2", "x.tune:2:25: mapped is \"2\"");
	assert_broken(V "best all_reduce 8 1 0 * 0 rung", "x.tune:2:27: no algorithm is called \"rung\"");
	assert_broken(V "best scatter 8 1 0 * 0 ring", "x.tune:2:24: ring does no scatter");
	assert_broken(V "best all_reduce 8 1 0 * 0 ring lll",
		      "x.tune:2:32: the protocol is \"lll\", wanted ll or bulk");
	assert_broken(V "best all_reduce 8 1 0 * 0 ring ll 0", "x.tune:2:35: the number of channels is \"0\"");
	assert_broken(V "best all_reduce 8 1 0 * 0 ring ll 1", "x.tune:2:36: the piece is missing");
	assert_broken(V "best all_reduce 8 1 0 * 0 ring ll 1 0 0", "x.tune:2:39: \"0\" is too much");
	assert_broken(V "best all_reduce 8 1 0 * 0 ring ll 1 99999999999999999999999", "x.tune:2:37: the piece is");
	assert_broken(V "best \x01\x02 8", "x.tune:2:6: no collective is called \"??\"");
#undef V
}

static void a_zero_byte_is_no_end(void **state)
{
	static const char text[] = "taut.tune 1\nmachine switch_us 1\0 2\n";
	struct tune *t = NULL;

	(void)state;
	assert_int_equal(tune_parse(&t, "x", text, sizeof(text) - 1), TAUT_ERR_CONFIG);
	assert_null(t);
}

static void a_text_beyond_the_limit_is_refused(void **state)
{
	char *text = mem_calloc(TUNE_FILE_MAX + 1, 1);
	struct tune *t = NULL;

	(void)state;
	memset(text, '\n', TUNE_FILE_MAX + 1);
	memcpy(text, "taut.tune 1", 11);
	assert_int_equal(tune_parse(&t, "x", text, TUNE_FILE_MAX + 1), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "1048577 bytes"));
	assert_int_equal(tune_parse(&t, "x", text, TUNE_FILE_MAX), TAUT_OK);
	tune_free(t);
	mem_free(text);
}

/* --- Lines that win over the model. --- */

static struct cost_choice choice_of(const struct tune *t, int nranks, size_t bytes, const char *filter)
{
	struct cost_machine m;
	struct cost_choice c;
	struct cost_filter *f;
	struct cost_query q = { .req = { .coll = COLL_ALL_REDUCE, .nranks = nranks },
				.bytes = bytes,
				.elem = 4,
				.machine = &m,
				.tune = t };

	cost_machine_default(&m);
	m.cores = 64;
	assert_int_equal(cost_filter_parse(&f, filter, ""), TAUT_OK);
	q.filter = f;
	assert_int_equal(cost_choose(&c, &q), TAUT_OK);
	cost_filter_free(f);
	return c;
}

static void a_measured_best_wins_in_its_range(void **state)
{
	struct tune *t = parsed("taut.tune 1\nbest all_reduce 8 1 100 200 0 ring bulk 3 4096\n");
	struct cost_choice c = choice_of(t, 8, 100, "");

	(void)state;
	assert_true(c.measured);
	assert_string_equal(c.algo->name, "ring");
	assert_int_equal(c.proto, PROTO_BULK);
	assert_int_equal(c.channels, 3);
	assert_int_equal(c.piece_bytes, 4096);
	assert_true(c.us > 0);
	assert_true(choice_of(t, 8, 200, "").measured);
	assert_false(choice_of(t, 8, 99, "").measured);
	assert_false(choice_of(t, 8, 201, "").measured);
	assert_false(choice_of(t, 8, 150, "^ring").measured);
	tune_free(t);
}

static void the_nearest_rank_count_wins(void **state)
{
	struct tune *t = parsed("taut.tune 1\n"
				"best all_reduce 16 1 0 * 0 two_shot bulk 16 0\n"
				"best all_reduce 8 1 0 * 0 one_shot bulk 8 0\n"
				"best all_reduce 8 1 0 * 0 ring bulk 9 0\n"
				"best all_reduce 8 2 0 * 0 ring bulk 10 0\n"
				"best all_reduce 8 1 0 * 1 ring bulk 11 0\n"
				"best all_gather 7 1 0 * 0 ring bulk 12 0\n");

	(void)state;
	assert_int_equal(choice_of(t, 8, 64, "").channels, 8);
	assert_int_equal(choice_of(t, 7, 64, "").channels, 8);
	assert_int_equal(choice_of(t, 4, 64, "").channels, 8);
	assert_false(choice_of(t, 3, 64, "").measured);
	assert_int_equal(choice_of(t, 11, 64, "").channels, 8);	 /* 11/8 < 16/11 */
	assert_int_equal(choice_of(t, 12, 64, "").channels, 16); /* 16/12 < 12/8 */
	assert_int_equal(choice_of(t, 32, 64, "").channels, 16);
	assert_false(choice_of(t, 33, 64, "").measured);
	assert_int_equal(choice_of(t, 8, 64, "ring").channels, 9);
	assert_int_equal(choice_of(t, 8, 64, "two_shot").channels, 16);
	tune_free(t);
}

static void lines_of_the_other_wire_do_not_count(void **state)
{
	struct tune *t = parsed("taut.tune 1\n"
				"best all_reduce 8 1 0 * 0 ring bulk 1 4096\n"
				"best all_reduce 8 8 0 * 0 ring bulk 1 8192\n");
	struct cost_machine m;
	struct cost_choice c;
	struct cost_query q = {
		.req = { .coll = COLL_ALL_REDUCE, .nranks = 8 }, .bytes = 1 << 20, .elem = 4, .machine = &m, .tune = t
	};

	(void)state;
	cost_machine_default(&m);
	assert_int_equal(cost_choose(&c, &q), TAUT_OK);
	assert_int_equal(c.piece_bytes, 4096);
	m.one_wire = true;
	assert_int_equal(cost_choose(&c, &q), TAUT_OK);
	assert_int_equal(c.piece_bytes, 8192);
	tune_free(t);
}

static void equal_distance_goes_to_the_smaller_count(void **state)
{
	struct tune *t = parsed("taut.tune 1\n"
				"best all_reduce 16 1 0 * 0 ring bulk 16 0\n"
				"best all_reduce 4 1 0 * 0 ring bulk 4 0\n");

	(void)state;
	assert_int_equal(choice_of(t, 8, 64, "").channels, 4);
	tune_free(t);
}

static void a_piece_never_exceeds_what_the_link_takes(void **state)
{
	struct tune *t = parsed("taut.tune 1\nbest all_reduce 8 1 0 * 0 ring bulk 1 999999999\n");

	(void)state;
	assert_int_equal(choice_of(t, 8, 1 << 20, "").piece_bytes, 512 << 10);
	tune_free(t);
}

/* --- Files. --- */

static void a_saved_file_loads_again(void **state)
{
	char path[128];
	struct tune *t = parsed("taut.tune 1\nmachine switch_us 3.25\n"), *back = NULL;
	struct cost_machine m = { .cores = 1 };

	(void)state;
	snprintf(path, sizeof(path), "%s/a/b/c.tune", folder);
	assert_int_equal(tune_save(t, path), TAUT_OK);
	assert_int_equal(tune_save(t, path), TAUT_OK);
	assert_int_equal(tune_load(&back, path), TAUT_OK);
	assert_non_null(back);
	tune_apply(back, &m);
	assert_true(m.switch_us == 3.25);
	tune_free(t);
	tune_free(back);
}

static void the_default_file_lies_in_the_cache_folder(void **state)
{
	char want[PATH_MAX], have[PATH_MAX];
	struct tune *t = parsed("taut.tune 1\n"), *back = (struct tune *)&want;

	(void)state;
	setenv("XDG_CACHE_HOME", folder, 1);
	setenv("HOME", "/nowhere", 1);
	assert_int_equal(tune_load(&back, ""), TAUT_OK);
	assert_null(back);
	snprintf(want, sizeof(want), "%s/taut/taut.tune", folder);
	assert_int_equal(tune_path(have, sizeof(have), ""), TAUT_OK);
	assert_string_equal(have, want);
	assert_int_equal(tune_save(t, ""), TAUT_OK);
	assert_int_equal(tune_load(&back, ""), TAUT_OK);
	assert_non_null(back);
	tune_free(back);
	setenv("XDG_CACHE_HOME", "relative", 1);
	assert_int_equal(tune_path(have, sizeof(have), ""), TAUT_OK);
	assert_string_equal(have, "/nowhere/.cache/taut/taut.tune");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_int_equal(tune_load(&back, ""), TAUT_OK);
	assert_null(back);
	assert_int_equal(tune_save(t, ""), TAUT_ERR_CONFIG);
	tune_free(t);
}

static void a_named_file_must_be_there_and_be_one(void **state)
{
	char path[128];
	struct tune *t = NULL;

	(void)state;
	snprintf(path, sizeof(path), "%s/none.tune", folder);
	assert_int_equal(tune_load(&t, path), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "none.tune"));
	assert_int_equal(tune_load(&t, folder), TAUT_ERR_CONFIG);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(tune_load(&t, path), TAUT_ERR_CONFIG);
	assert_null(t);
}

static void a_file_that_cannot_be_written_is_told(void **state)
{
	char path[128];
	struct tune *t = parsed("taut.tune 1\n");

	(void)state;
	snprintf(path, sizeof(path), "%s/x", folder);
	fclose(fopen(path, "w"));
	snprintf(path, sizeof(path), "%s/x/y.tune", folder);
	assert_int_not_equal(tune_save(t, path), TAUT_OK);
	assert_non_null(strstr(taut_error_message(), folder));
	assert_int_not_equal(tune_save_check(path), TAUT_OK);
	assert_int_not_equal(tune_save(t, folder), TAUT_OK);
	tune_free(t);
}

/* As root, a device would be lost. */
static void only_a_regular_file_is_replaced(void **state)
{
	char path[128];
	struct tune *t = parsed("taut.tune 1\n");
	struct stat sb;

	(void)state;
	snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(tune_save_check(path), TAUT_ERR_CONFIG);
	assert_int_equal(tune_save(t, path), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "no regular file"));
	assert_int_equal(stat(path, &sb), 0);
	assert_true(S_ISFIFO(sb.st_mode));
	tune_free(t);
}

static void no_memory_is_an_error_and_nothing_leaks(void **state)
{
	static const char text[] = "taut.tune 1\nmachine switch_us 1\nbest all_reduce 8 1 0 * 0 ring bulk 1 0\n";
	enum taut_status st = TAUT_ERR_NOMEM;

	(void)state;
	for (long n = 1; st; n++) {
		struct tune *t = NULL;
		char *out = NULL;
		size_t len;

		mem_fail_from(n);
		st = tune_parse(&t, "x", text, sizeof(text) - 1);
		if (!st)
			st = tune_text(&out, &len, t);
		mem_fail_from(0);
		mem_free(out);
		tune_free(t);
		assert_true(!st || st == TAUT_ERR_NOMEM);
		assert_true(n < 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_of_all_numbers_reads_back_to_the_same),
		cmocka_unit_test(settings_are_not_taken_from_the_machine),
		cmocka_unit_test(odd_numbers_are_written_as_what_can_be_read),
		cmocka_unit_test(best_lines_read_back_to_the_same),
		cmocka_unit_test(blanks_comments_and_a_missing_last_newline_do_not_matter),
		cmocka_unit_test(broken_files_are_told_by_line_and_column),
		cmocka_unit_test(a_zero_byte_is_no_end),
		cmocka_unit_test(a_text_beyond_the_limit_is_refused),
		cmocka_unit_test(a_measured_best_wins_in_its_range),
		cmocka_unit_test(the_nearest_rank_count_wins),
		cmocka_unit_test(lines_of_the_other_wire_do_not_count),
		cmocka_unit_test(equal_distance_goes_to_the_smaller_count),
		cmocka_unit_test(a_piece_never_exceeds_what_the_link_takes),
		cmocka_unit_test(a_saved_file_loads_again),
		cmocka_unit_test(the_default_file_lies_in_the_cache_folder),
		cmocka_unit_test(a_named_file_must_be_there_and_be_one),
		cmocka_unit_test(a_file_that_cannot_be_written_is_told),
		cmocka_unit_test(only_a_regular_file_is_replaced),
		cmocka_unit_test(no_memory_is_an_error_and_nothing_leaks),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
