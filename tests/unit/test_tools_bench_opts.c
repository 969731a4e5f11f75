/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "../../tools/bench_coll.c"
#include "../../tools/bench_data.c"
#include "../../tools/bench_opts.c"

static enum taut_status parse(struct bench_opts *o, const char *line)
{
	static char copy[512];
	char *args[32], *rest = copy;
	int n = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strsep(&rest, " "); word && n < 32; word = strsep(&rest, " "))
		args[n++] = word;
	return bench_opts_parse(o, n, args);
}

static void sizes_are(const char *text, size_t n, const size_t *want)
{
	struct bench_opts o;
	char line[256];

	snprintf(line, sizeof(line), "all_reduce --sizes %s", text);
	assert_int_equal(parse(&o, line), TAUT_OK);
	assert_int_equal(o.nsizes, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(o.sizes[i], want[i]);
	bench_opts_cleanup(&o);
}

static void sizes_are_lists_and_ranges(void **state)
{
	(void)state;
	sizes_are("8", 1, (size_t[]){ 8 });
	sizes_are("8,4K,1M,2GiB,1.5k,0", 6, (size_t[]){ 8, 4096, 1 << 20, (size_t)2 << 30, 1536, 0 });
	sizes_are("8:64:x2", 4, (size_t[]){ 8, 16, 32, 64 });
	sizes_are("8:64", 4, (size_t[]){ 8, 16, 32, 64 });
	sizes_are("8:100:x4,1K", 3, (size_t[]){ 8, 32, 1024 });
	sizes_are("8:64:4", 2, (size_t[]){ 8, 32 });
	sizes_are("0:30:+10", 4, (size_t[]){ 0, 10, 20, 30 });
	sizes_are("7:7:x2", 1, (size_t[]){ 7 });
}

static void the_defaults_are_what_the_help_says(void **state)
{
	struct bench_opts o;

	(void)state;
	assert_int_equal(parse(&o, "all_reduce"), TAUT_OK);
	assert_int_equal(o.nsizes, 13);
	assert_int_equal(o.sizes[0], 8);
	assert_int_equal(o.sizes[12], 128 << 20);
	assert_int_equal(o.ntypes, 1);
	assert_int_equal(o.types[0], TAUT_FLOAT32);
	assert_int_equal(o.nops, 1);
	assert_int_equal(o.root, BENCH_ALL_ROOTS);
	assert_true(o.check && o.in_place && o.out_of_place && !o.shared && !o.threads);
	bench_opts_cleanup(&o);
}

static void values_come_after_a_space_or_an_equals_sign(void **state)
{
	struct bench_opts o;

	(void)state;
	assert_int_equal(
		parse(&o, "bcast --ranks=5 --root 4 --types fp16,int8,half --time=0.5 --json=x --mode threads"),
		TAUT_OK);
	assert_int_equal(o.ranks, 5);
	assert_int_equal(o.root, 4);
	assert_int_equal(o.ntypes, 2); /* fp16 and half are one */
	assert_true(o.seconds == 0.5 && o.threads);
	assert_string_equal(o.json, "x");
	bench_opts_cleanup(&o);
}

static void all_means_every_type_and_operation(void **state)
{
	struct bench_opts o;

	(void)state;
	assert_int_equal(parse(&o, "reduce --types all --ops all"), TAUT_OK);
	assert_int_equal(o.ntypes, TAUT_TYPE_COUNT);
	assert_int_equal(o.nops, TAUT_OP_COUNT + 1);
	assert_int_equal(o.ops[TAUT_OP_COUNT], TAUT_OP_USER);
	bench_opts_cleanup(&o);
}

static void mistakes_are_named_with_what_is_allowed(void **state)
{
	static const char *const mistakes[][2] = {
		{ "all_reduc", "unknown collective all_reduc: want one of all_reduce" },
		{ "all_reduce --ranks x", "--ranks x: want a whole number from 1 to 4096" },
		{ "all_reduce --ranks 4097", "--ranks 4097: want a whole number" },
		{ "all_reduce --sizes 8q", "size 8q: want a number of bytes" },
		{ "all_reduce --sizes -8", "size -8: want a number of bytes" },
		{ "all_reduce --sizes 1000T", "below 256T" },
		{ "all_reduce --sizes 8:4", "--sizes 8:4: want MIN:MAX:xFACTOR" },
		{ "all_reduce --sizes 8:64:x1", "--sizes 8:64:x1: want" },
		{ "all_reduce --sizes 0:64:x2", "--sizes 0:64:x2: want" },
		{ "all_reduce --sizes 8:9M:+0", "--sizes 8:9M:+0: want" },
		{ "all_reduce --sizes 0:9M:+1", "more than 4096 sizes" },
		{ "all_reduce --sizes ", "an empty size: want" },
		{ "all_reduce --sizes", "--sizes wants a value" },
		{ "all_reduce --types int7", "--types int7: want a comma list of int8" },
		{ "all_reduce --ops plus", "--ops plus: want a comma list of sum" },
		{ "all_reduce --ops band --types float", "--ops band does not exist for --types float" },
		{ "all_reduce --root 0", "--root 0: all_reduce has no root" },
		{ "reduce --ranks 2 --root 2", "--root 2: want a rank below --ranks 2" },
		{ "alltoall --in-place", "--in-place: all_to_all does not exist in place" },
		{ "all_reduce --wire pigeon", "--wire pigeon: want auto, shm or tcp" },
		{ "all_reduce --bind 3", "--bind 3: want auto, none or cores" },
		{ "all_reduce --mode fork", "--mode fork: want processes or threads" },
		{ "all_reduce --time 0", "--time 0: want seconds" },
		{ "all_reduce --time nan", "--time nan: want seconds" },
		{ "all_reduce --quiet=1", "--quiet takes no value" },
		{ "all_reduce --siz 8", "unknown option --siz" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct bench_opts o;

		assert_int_equal(parse(&o, mistakes[i][0]), TAUT_ERR_ARG);
		if (!strstr(taut_error_message(), mistakes[i][1]))
			fail_msg("%s: %s", mistakes[i][0], taut_error_message());
	}
}

static void a_barrier_has_one_row(void **state)
{
	struct bench_opts o;

	(void)state;
	assert_int_equal(parse(&o, "barrier --sizes 8,16,32"), TAUT_OK);
	assert_int_equal(o.nsizes, 1);
	assert_int_equal(o.sizes[0], 0);
	assert_false(o.in_place);
	bench_opts_cleanup(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_lists_and_ranges),
		cmocka_unit_test(the_defaults_are_what_the_help_says),
		cmocka_unit_test(values_come_after_a_space_or_an_equals_sign),
		cmocka_unit_test(all_means_every_type_and_operation),
		cmocka_unit_test(mistakes_are_named_with_what_is_allowed),
		cmocka_unit_test(a_barrier_has_one_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
