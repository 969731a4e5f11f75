/* SPDX-License-Identifier: Apache-2.0 */
#include "test_sched_util.h"

static struct sched_req request(enum sched_coll coll, int rank, int nranks)
{
	static const int node_of[] = { 0, 1, 0, 1, 0, 1, 0 };

	return (struct sched_req){
		.coll = coll, .rank = rank, .nranks = nranks, .node_of = node_of, .nnodes = nranks > 1 ? 2 : 1
	};
}

static void collectives_have_names_and_blocks(void **state)
{
	(void)state;
	assert_string_equal(sched_coll_name(COLL_ALL_REDUCE), "all_reduce");
	assert_string_equal(sched_coll_name(COLL_BARRIER), "barrier");
	assert_string_equal(sched_coll_name(COLL_COUNT), "unknown collective");
	assert_int_equal(sched_coll_blocks(COLL_ALL_REDUCE, true, 5), 1);
	assert_int_equal(sched_coll_blocks(COLL_ALL_GATHER, true, 5), 5);
	assert_int_equal(sched_coll_blocks(COLL_ALL_GATHER, false, 5), 1);
	assert_int_equal(sched_coll_blocks(COLL_SCATTER, false, 5), 5);
	assert_int_equal(sched_coll_blocks(COLL_ALL_TO_ALL, false, 5), 5);
	for (int c = 0; c < COLL_COUNT; c++) {
		assert_int_equal(sched_coll_reduces(c),
				 c == COLL_ALL_REDUCE || c == COLL_REDUCE_SCATTER || c == COLL_REDUCE);
		assert_int_equal(sched_coll_has_root(c),
				 c == COLL_BROADCAST || c == COLL_REDUCE || c == COLL_GATHER || c == COLL_SCATTER);
	}
}

static void algorithms_are_found_by_our_names_and_nccls(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++) {
		assert_ptr_equal(sched_algo_find(sched_algos[i]->name), sched_algos[i]);
		assert_int_equal(sched_algos[i]->vectors & ~sched_algos[i]->colls, 0);
	}
	assert_ptr_equal(sched_algo_find("Ring"), sched_algo_find("ring"));
	assert_ptr_equal(sched_algo_find("TREE"), sched_algo_find("tree"));
	assert_null(sched_algo_find("rings"));
	assert_null(sched_algo_find(""));
}

static void every_collective_has_an_algorithm_with_and_without_mapping(void **state)
{
	(void)state;
	for (int c = 0; c < COLL_COUNT; c++)
		for (int n = 1; n <= 1000; n += 37) {
			struct sched_req req = request(c, 0, n);
			int plain = 0, mapped = 0;

			req.node_of = NULL;
			for (int i = 0; sched_algos[i]; i++)
				if (sched_algo_fits(sched_algos[i], &req))
					++*(sched_algos[i]->mapped ? &mapped : &plain);
			assert_true(plain > 0);
			assert_true(mapped > 0 || n > SCHED_MAX_OPERANDS);
		}
}

static void one_rank_copies_its_input(void **state)
{
	(void)state;
	for (int c = 0; c < COLL_COUNT; c++)
		for (int i = 0; sched_algos[i]; i++) {
			struct sched_req req = request(c, 0, 1);
			struct sched *s;

			if (!sched_algo_fits(sched_algos[i], &req))
				continue;
			assert_int_equal(sched_build(&s, sched_algos[i], &req), TAUT_OK);
			assert_int_equal(s->nsteps, c != COLL_BARRIER);
			assert_int_equal(s->per_block, 1);
			assert_false(s->mapped);
			sched_free(s);
		}
}

static void a_ring_prints_as_it_runs(void **state)
{
	static const char want[] = "all_reduce by ring, rank 1 of 3, 3 chunks a block\n"
				   "   0 send in[1] to 2\n"
				   "   1 recv+reduce+send in[0] from 0 to 2\n"
				   "   2 recv+reduce+copy+send in[2] from 0 into out[2] to 2\n"
				   "   3 recv+copy+send from 0 into out[1] to 2\n"
				   "   4 recv from 0 into out[0]\n";
	struct sched_req req = request(COLL_ALL_REDUCE, 1, 3);
	struct sched *s;
	char text[400];

	(void)state;
	assert_int_equal(sched_build(&s, sched_algo_find("ring"), &req), TAUT_OK);
	assert_int_equal(sched_print(s, text, sizeof(text)), sizeof(want) - 1);
	assert_string_equal(text, want);
	assert_int_equal(sched_print(s, NULL, 0), sizeof(want) - 1);
	for (size_t len = 1; len < sizeof(want); len++) {
		memset(text, '#', sizeof(text));
		assert_int_equal(sched_print(s, text, len), sizeof(want) - 1);
		assert_int_equal(strlen(text), len - 1);
		assert_memory_equal(text, want, len - 1);
		assert_int_equal(text[len], '#');
	}
	sched_free(s);
}

static void every_kind_of_step_has_words(void **state)
{
	static const int32_t two[] = { 0, 1 };
	struct all a;
	char text[1000];

	(void)state;
	all_empty(&a, COLL_ALL_REDUCE, 2, 2, 2);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 2);
	sched_reduce(a.scheds[0], ref_out(0), ref_in(0), ref_scratch(0), 1);
	sched_barrier(a.scheds[0], two, 2);
	sched_pull(a.scheds[0], ref_in(1), ref_out(1), 1, two, 2, two + 1, 1);
	sched_push(a.scheds[0], ref_in(0), ref_scratch(0), 2, two + 1, 1);
	sched_msg(a.scheds[0], ref_in(0), ref_none(), 1, two + 1, 1, NULL, 0);
	assert_int_equal(sched_check(a.scheds[0]), TAUT_OK);
	sched_print(a.scheds[0], text, sizeof(text));
	assert_string_equal(text, "all_reduce by hand, rank 0 of 2, 2 chunks a block, 2 of scratch\n"
				  "   0 copy in[0..1] into out[0..1]\n"
				  "   1 reduce in[0] and scratch[0] into out[0]\n"
				  "   2 barrier from 0,1\n"
				  "   3 pull in[1] from 0,1 into out[1] to 1\n"
				  "   4 push in[0..1] into scratch[0..1] to 1\n"
				  "   5 recv+reduce+drop in[0] from 1\n");
	all_free(&a);
}

static void wrong_requests_are_refused_in_words(void **state)
{
	static const struct {
		struct sched_req req;
		const char *algo, *text;
	} bad[] = {
		{ { .coll = COLL_COUNT, .nranks = 2 }, "ring", "is no collective" },
		{ { .coll = COLL_ALL_REDUCE, .rank = 2, .nranks = 2 }, "ring", "rank 2 of 2 ranks: wanted 0 to 1" },
		{ { .coll = COLL_ALL_REDUCE, .rank = -1, .nranks = 2 }, "ring", "rank -1 of 2 ranks" },
		{ { .coll = COLL_ALL_REDUCE, .nranks = 0 }, "ring", "rank 0 of 0 ranks" },
		{ { .coll = COLL_BROADCAST, .nranks = 4, .root = 4 }, "chain", "root 4 of 4 ranks: wanted 0 to 3" },
		{ { .coll = COLL_ALL_TO_ALL, .nranks = 4 }, "tree", "algorithm tree has no all_to_all for 4 ranks" },
		{ { .coll = COLL_ALL_REDUCE, .nranks = 65 }, "one_shot", "algorithm one_shot has no all_reduce" },
		{ { .coll = COLL_ALL_REDUCE, .nranks = 4 }, "two_level", "on 1 machine" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sched *s = NULL;

		assert_int_equal(sched_build(&s, sched_algo_find(bad[i].algo), &bad[i].req), TAUT_ERR_ARG);
		assert_null(s);
		if (!strstr(taut_error_message(), bad[i].text))
			fail_msg("wanted \"%s\", got: %s", bad[i].text, taut_error_message());
	}
}

static void two_level_refuses_a_broken_map_of_machines(void **state)
{
	int node_of[] = { 0, 0, 2, 2 };
	struct sched_req req = { .coll = COLL_ALL_REDUCE, .nranks = 4, .node_of = node_of, .nnodes = 2 };
	struct sched *s = NULL;

	(void)state;
	assert_int_equal(sched_build(&s, sched_algo_find("two_level"), &req), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "rank 2 is on machine 2 of 2: wanted 0 to 1"));
	req.nnodes = 3;
	assert_int_equal(sched_build(&s, sched_algo_find("two_level"), &req), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "machine 1 of 3 has no rank"));
	req.nnodes = 2;
	node_of[2] = node_of[3] = 1;
	req.inner = "spiral";
	assert_false(sched_algo_fits(sched_algo_find("two_level"), &req));
	req.inner = "chain";
	req.outer = "one_shot";
	assert_true(sched_algo_fits(sched_algo_find("two_level"), &req));
	req.nnodes = 4;
	assert_false(sched_algo_fits(sched_algo_find("two_level"), &req));
}

/* One wrong field each. */
static void the_form_is_checked(void **state)
{
	static const struct {
		struct sched_step step;
		const char *text;
	} bad[] = {
		{ { .op = 9, .nchunks = 1 }, "no known kind of step" },
		{ { .op = STEP_MSG, .nchunks = 1 }, "no known kind of step" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1 }, "no known kind of step" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 0, .nto = 1 }, "run of no chunks" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1, .nto = 9 }, "peers out of range" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1, .to = UINT32_MAX, .nto = 2 },
		  "peers out of range" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1, .to = 1, .nto = 1 },
		  "peer is the rank itself" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1, .to = 2, .nto = 1 }, "peer is no rank" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .nchunks = 1, .from = 3, .nfrom = 2 }, "not in rank order" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 2 }, .nchunks = 1, .nto = 1 }, "past the end of its buffer" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 1 }, .nchunks = 2, .nto = 1 }, "past the end of its buffer" },
		{ { .op = STEP_MSG, .src = { BUF_IN, INT32_MAX }, .nchunks = INT32_MAX, .nto = 1 }, "past the end" },
		{ { .op = STEP_MSG, .src = { BUF_SCRATCH, 0 }, .nchunks = 1, .nto = 1 }, "past the end of its buffer" },
		{ { .op = STEP_MSG, .src = { BUF_IN, -1 }, .nchunks = 1, .nto = 1 }, "chunk below 0" },
		{ { .op = STEP_MSG, .src = { 7, 0 }, .nchunks = 1, .nto = 1 }, "unknown buffer" },
		{ { .op = STEP_MSG, .dst = { BUF_IN, 0 }, .nchunks = 1, .nfrom = 1 }, "writes the input" },
		{ { .op = STEP_MSG, .src = { BUF_IN, 0 }, .dst = { BUF_OUT, 1 }, .nchunks = 1 }, "different parts" },
		{ { .op = STEP_MSG, .nchunks = 1, .nfrom = 1, .nto = 1 }, "names no chunk" },
		{ { .op = STEP_BARRIER, .nchunks = 1, .nfrom = 1 }, "mapped step in a schedule that is not" },
	};
	struct all a;

	(void)state;
	all_empty(&a, COLL_ALL_REDUCE, 3, 2, 0);
	a.scheds[1]->peers = mem_calloc(5, sizeof(int32_t));
	a.scheds[1]->npeers = 5;
	memcpy(a.scheds[1]->peers, (int32_t[]){ 0, 1, 3, 2, 0 }, 5 * sizeof(int32_t));
	a.scheds[1]->steps = mem_calloc(1, sizeof(struct sched_step));
	a.scheds[1]->nsteps = 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.scheds[1]->steps[0] = bad[i].step;
		assert_int_equal(sched_check(a.scheds[1]), TAUT_ERR_INTERNAL);
		if (!strstr(taut_error_message(), bad[i].text) || !strstr(taut_error_message(), "rank 1 step 0"))
			fail_msg("wanted \"%s\", got: %s", bad[i].text, taut_error_message());
	}
	a.scheds[1]->mapped = true;
	a.scheds[1]->steps[0] = (struct sched_step){ .op = STEP_BARRIER, .nchunks = 1, .nfrom = 1 };
	assert_int_equal(sched_check(a.scheds[1]), TAUT_ERR_INTERNAL);
	assert_non_null(strstr(taut_error_message(), "barrier without the rank itself"));
	all_free(&a);
}

/* Each allocation of a build fails once, with all after it. */
static void fail_each_allocation(const struct sched_algo *algo, const struct sched_req *req)
{
	struct sched *s = NULL;
	enum taut_status st;
	long n = 0;

	do {
		mem_fail_from(++n);
		st = sched_build(&s, algo, req);
		mem_fail_from(0);
		if (st) {
			assert_int_equal(st, TAUT_ERR_NOMEM);
			assert_null(s);
			assert_non_null(strstr(taut_error_message(), "no memory"));
		}
	} while (st);
	assert_true(n > 1);
	sched_free(s);
}

static void a_build_survives_every_failed_allocation(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int c = 0; c < COLL_COUNT; c++)
			for (int rank = 0; rank < 7; rank++) {
				struct sched_req req = request(c, rank, 7);

				if (sched_algo_fits(sched_algos[i], &req))
					fail_each_allocation(sched_algos[i], &req);
			}
}

static void a_verification_survives_every_failed_allocation(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int c = 0; c < COLL_COUNT; c++) {
			struct sched_req req = request(c, 0, 7);
			struct verify_opts opts = { .depth = 2 };
			enum taut_status st = TAUT_ERR_NOMEM;

			if (!sched_algo_fits(sched_algos[i], &req))
				continue;
			for (long n = 1; st == TAUT_ERR_NOMEM; n += 1 + n / 16) {
				mem_fail_from(n);
				st = verify_algo(sched_algos[i], &req, &opts);
				mem_fail_from(0);
			}
			assert_int_equal(st, TAUT_OK);
		}
}

/* Partners that stay the same are kept once. */
static void steps_in_a_row_share_their_peers(void **state)
{
	struct sched_req req = request(COLL_ALL_REDUCE, 3, 500);
	struct sched *s;

	(void)state;
	req.node_of = NULL;
	assert_int_equal(sched_build(&s, sched_algo_find("ring"), &req), TAUT_OK);
	assert_int_equal(s->nsteps, 2 * 500 - 1);
	assert_true(s->npeers <= 4);
	sched_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_have_names_and_blocks),
		cmocka_unit_test(algorithms_are_found_by_our_names_and_nccls),
		cmocka_unit_test(every_collective_has_an_algorithm_with_and_without_mapping),
		cmocka_unit_test(one_rank_copies_its_input),
		cmocka_unit_test(a_ring_prints_as_it_runs),
		cmocka_unit_test(every_kind_of_step_has_words),
		cmocka_unit_test(wrong_requests_are_refused_in_words),
		cmocka_unit_test(two_level_refuses_a_broken_map_of_machines),
		cmocka_unit_test(the_form_is_checked),
		cmocka_unit_test(a_build_survives_every_failed_allocation),
		cmocka_unit_test(a_verification_survives_every_failed_allocation),
		cmocka_unit_test(steps_in_a_row_share_their_peers),
	};

	return cmocka_run_group_tests(tests, quiet, loud);
}
