/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sched/cost.h"

static char lines[4096]; /* what was logged */
static struct cost_machine machine;

static void keep_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	size_t len = strlen(lines);

	(void)level;
	(void)module;
	(void)ctx;
	snprintf(lines + len, sizeof(lines) - len, "%s\n", line);
}

static int setup(void **state)
{
	(void)state;
	lines[0] = '\0';
	log_set_sink(keep_line, NULL);
	log_now.level = LOG_INFO;
	cost_machine_default(&machine);
	machine.cores = 64;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	log_now.level = LOG_WARN;
	return 0;
}

/* What is chosen for a call of 8 ranks under a filter; status in *st. */
static struct cost_choice choice(enum taut_status *st, enum sched_coll coll, size_t bytes, const char *algo,
				 const char *proto)
{
	struct cost_choice c = { .algo = NULL };
	struct cost_filter *f;
	struct cost_query q = { .req = { .coll = coll, .nranks = 8 }, .bytes = bytes, .elem = 4, .machine = &machine };

	*st = cost_filter_parse(&f, algo, proto);
	if (*st)
		return c;
	q.filter = f;
	*st = cost_choose(&c, &q);
	cost_filter_free(f);
	return c;
}

static void assert_algo(enum sched_coll coll, const char *filter, const char *want)
{
	for (size_t bytes = 8; bytes <= 1 << 26; bytes *= 8) {
		enum taut_status st;
		struct cost_choice c = choice(&st, coll, bytes, filter, "");

		assert_int_equal(st, TAUT_OK);
		assert_string_equal(c.algo->name, want);
	}
}

static void assert_proto(const char *filter, enum sched_proto want)
{
	for (size_t bytes = 8; bytes <= 1 << 26; bytes *= 8) {
		enum taut_status st;
		struct cost_choice c = choice(&st, COLL_ALL_REDUCE, bytes, "", filter);

		assert_int_equal(st, TAUT_OK);
		assert_int_equal(c.proto, want);
	}
}

/* The algorithms that a filter leaves, seen over sizes: is @name ever chosen? */
static bool ever_chosen(const char *filter, const char *name)
{
	bool ever = false;

	for (size_t bytes = 8; bytes <= 1 << 28; bytes *= 2) {
		enum taut_status st;
		struct cost_choice c = choice(&st, COLL_ALL_REDUCE, bytes, filter, "");

		assert_int_equal(st, TAUT_OK);
		ever = ever || !strcmp(c.algo->name, name);
	}
	return ever;
}

static void assert_bad(const char *algo, const char *proto, const char *part)
{
	struct cost_filter *f = NULL;

	assert_int_equal(cost_filter_parse(&f, algo, proto), TAUT_ERR_CONFIG);
	assert_null(f);
	if (!strstr(taut_error_message(), part))
		fail_msg("\"%s\" is not in: %s", part, taut_error_message());
	lines[0] = '\0';
}

static void one_name_is_all_that_is_left(void **state)
{
	(void)state;
	assert_algo(COLL_ALL_REDUCE, "ring", "ring");
	assert_algo(COLL_ALL_REDUCE, " one_shot ", "one_shot");
	assert_algo(COLL_ALL_REDUCE, "two_shot;", "two_shot");
}

static void names_of_nccl_and_any_case_are_known(void **state)
{
	(void)state;
	assert_algo(COLL_ALL_REDUCE, "Ring", "ring");
	assert_algo(COLL_ALL_REDUCE, "allreduce:RING", "ring");
	assert_algo(COLL_ALL_REDUCE, "AllReduce:ring", "ring");
	assert_algo(COLL_ALL_REDUCE, "nvls,collnetdirect,ring", "ring");
	assert_algo(COLL_ALL_REDUCE, "tree;allreduce:ring", "ring");
	assert_proto("Simple", PROTO_BULK);
	assert_proto("simple,LL128", PROTO_BULK);
	assert_proto("LL", PROTO_LL);
	assert_proto("^Simple", PROTO_LL);
}

static void caret_leaves_out(void **state)
{
	(void)state;
	assert_false(ever_chosen("^two_shot", "two_shot"));
	assert_false(ever_chosen("^ two_shot,ring", "two_shot"));
	assert_false(ever_chosen("all_reduce:^one_shot", "one_shot"));
	assert_true(ever_chosen("^ring", "two_shot") || ever_chosen("^ring", "one_shot"));
}

static void a_list_for_a_collective_counts_for_it_alone(void **state)
{
	(void)state;
	assert_algo(COLL_ALL_REDUCE, "all_reduce:ring;broadcast:one_shot", "ring");
	assert_algo(COLL_BROADCAST, "all_reduce:ring;broadcast:one_shot", "one_shot");
	assert_algo(COLL_ALL_REDUCE, "all_reduce:ring;one_shot", "ring");
	assert_algo(COLL_ALL_REDUCE, "one_shot;all_reduce:ring", "ring");
	assert_algo(COLL_ALL_GATHER, "all_reduce:one_shot;ring", "ring");
	assert_algo(COLL_ALL_REDUCE, "all_reduce:one_shot;all_reduce:ring", "ring");
}

static void unknown_names_are_told_with_the_nearest(void **state)
{
	(void)state;
	assert_bad("rign", "", "TAUT_ALGO=rign: no algorithm is called \"rign\"; did you mean ring?");
	assert_bad("ring,xylophone", "", "no algorithm is called \"xylophone\"; known: ");
	assert_bad("all_redcue:ring", "", "no collective is called \"all_redcue\"; did you mean all_reduce?");
	assert_bad("", "bluk", "TAUT_PROTO=bluk: no protocol is called \"bluk\"; did you mean bulk?; known: ll, bulk");
	assert_bad("ring,", "", "a name is missing");
	assert_bad("^", "", "a name is missing");
	assert_bad("all_reduce:", "", "a name is missing");
	assert_bad(":ring", "", "no collective is called \"\"");
	assert_bad("^^ring", "", "no algorithm is called \"^ring\"");
	assert_bad("ring:ring:ring", "", "no collective is called \"ring\"");
	assert_bad("ring ring", "", "no algorithm is called \"ring ring\"");
}

static void an_endless_name_is_refused(void **state)
{
	char name[4000];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_bad(name, "", "TAUT_ALGO=xxx");
	name[2000] = ':';
	assert_bad(name, "", "TAUT_ALGO=xxx");
}

static void empty_is_no_filter(void **state)
{
	static const char *const empty[] = { "", ";", " ; ;", NULL };

	(void)state;
	for (int i = 0; i < 4; i++) {
		enum taut_status st;
		struct cost_choice c = choice(&st, COLL_ALL_REDUCE, 8, empty[i], empty[i]), free_choice;

		free_choice = choice(&st, COLL_ALL_REDUCE, 8, "", "");
		assert_ptr_equal(c.algo, free_choice.algo);
		assert_string_equal(lines, "");
	}
}

static void a_wish_that_fits_no_algorithm_leaves_the_choice_free(void **state)
{
	enum taut_status st;
	struct cost_choice c;

	(void)state;
	c = choice(&st, COLL_SCATTER, 4096, "ring", "");
	assert_int_equal(st, TAUT_OK);
	assert_non_null(c.algo);
	assert_non_null(strstr(lines, "TAUT_ALGO=ring allows no algorithm that does "));
	assert_non_null(strstr(lines, "scatter"));
	assert_null(strstr(lines, "all_reduce"));
	lines[0] = '\0';
	choice(&st, COLL_ALL_REDUCE, 4096, "NVLS", "LL128");
	assert_int_equal(st, TAUT_OK);
	assert_non_null(strstr(lines, "taut has no algorithm NVLS"));
	assert_non_null(strstr(lines, "taut has no protocol LL128"));
}

static void an_order_that_leaves_nothing_is_an_error(void **state)
{
	enum taut_status st;

	(void)state;
	choice(&st, COLL_SCATTER, 4096, "scatter:ring", "");
	assert_int_equal(st, TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(),
			       "TAUT_ALGO=scatter:ring leaves nothing for scatter of 8 ranks on 1 machine"));
	assert_non_null(strstr(taut_error_message(), "would fit: one_shot"));
	choice(&st, COLL_ALL_REDUCE, 4096, "", "all_reduce:LL128");
	assert_int_equal(st, TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "would fit: ll, bulk"));
	choice(&st, COLL_ALL_REDUCE, 4096, "", "all_reduce:^ll,bulk");
	assert_int_equal(st, TAUT_ERR_CONFIG);
	choice(&st, COLL_BROADCAST, 4096, "scatter:ring", "all_reduce:LL128");
	assert_int_equal(st, TAUT_OK);
}

static void an_order_that_fits_the_collective_but_not_the_call_is_an_error(void **state)
{
	enum taut_status st;

	(void)state;
	machine.link[0].ll_max = 0;
	choice(&st, COLL_ALL_REDUCE, 64, "", "all_reduce:ll");
	assert_int_equal(st, TAUT_ERR_CONFIG);
	lines[0] = '\0';
	assert_int_equal(choice(&st, COLL_ALL_REDUCE, 64, "", "ll").proto, PROTO_BULK);
	assert_int_equal(st, TAUT_OK);
	assert_non_null(strstr(lines, "TAUT_PROTO=ll fits no all_reduce of 8 ranks"));
}

static void no_memory_is_an_error_and_nothing_leaks(void **state)
{
	(void)state;
	for (long n = 1;; n++) {
		struct cost_filter *f = NULL;
		enum taut_status st;

		mem_fail_from(n);
		st = cost_filter_parse(&f, "all_reduce:ring;^ring", "ll");
		mem_fail_from(0);
		cost_filter_free(f);
		if (!st)
			break;
		assert_int_equal(st, TAUT_ERR_NOMEM);
		assert_null(f);
		assert_true(n < 10);
	}
	cost_filter_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_name_is_all_that_is_left, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_nccl_and_any_case_are_known, setup, teardown),
		cmocka_unit_test_setup_teardown(caret_leaves_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_for_a_collective_counts_for_it_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_names_are_told_with_the_nearest, setup, teardown),
		cmocka_unit_test_setup_teardown(an_endless_name_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_is_no_filter, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wish_that_fits_no_algorithm_leaves_the_choice_free, setup, teardown),
		cmocka_unit_test_setup_teardown(an_order_that_leaves_nothing_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(an_order_that_fits_the_collective_but_not_the_call_is_an_error, setup,
						teardown),
		cmocka_unit_test_setup_teardown(no_memory_is_an_error_and_nothing_leaks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
