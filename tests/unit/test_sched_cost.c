/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sched/cost.h"

static struct cost_machine machine; /* many cores */
static int machine_of[1 << 14];

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
	cost_machine_default(&machine);
	machine.cores = 256;
	return 0;
}

/* @nodes machines with equally many neighbours in rank order. */
static struct cost_query query(enum sched_coll coll, int nranks, int nodes, size_t bytes)
{
	for (int r = 0; r < nranks; r++)
		machine_of[r] = r / ((nranks + nodes - 1) / nodes);
	return (struct cost_query){
		.req = { .coll = coll, .nranks = nranks, .node_of = nodes > 1 ? machine_of : NULL, .nnodes = nodes },
		.bytes = bytes,
		.elem = 4,
		.machine = &machine
	};
}

static struct cost_choice chosen(const struct cost_query *q)
{
	struct cost_choice c;

	if (cost_choose(&c, q))
		fail_msg("%s", taut_error_message());
	assert_non_null(c.algo);
	assert_true(c.channels >= 1);
	assert_true(c.piece_bytes >= 1);
	assert_true(c.us >= 0 && c.us < 1e18);
	return c;
}

/* Is one of the names in @want ("a,b") chosen for all sizes of the range? */
static void assert_range(enum sched_coll coll, int nranks, int nodes, size_t lo, size_t hi, const char *want,
			 enum sched_proto proto)
{
	for (size_t bytes = lo; bytes <= hi; bytes *= 2) {
		struct cost_query q = query(coll, nranks, nodes, bytes);
		struct cost_choice c = chosen(&q);
		const char *at = strstr(want, c.algo->name);

		if (!at || (proto < PROTO_COUNT && c.proto != proto))
			fail_msg("%s %zu bytes, %d ranks, %d machines: %s %s, wanted %s", sched_coll_name(coll), bytes,
				 nranks, nodes, c.algo->name, sched_proto_name(c.proto), want);
	}
}

static void two_ranks_start_with_one_shot_and_ll(void **state)
{
	(void)state;
	assert_range(COLL_ALL_REDUCE, 2, 1, 8, 32, "one_shot", PROTO_LL);
	assert_range(COLL_ALL_REDUCE, 2, 1, 64, 512, "one_shot", PROTO_COUNT);
	assert_range(COLL_ALL_REDUCE, 2, 1, 1024, 8192, "one_shot,two_shot", PROTO_BULK);
	assert_range(COLL_ALL_REDUCE, 2, 1, 64 << 10, 1 << 28, "two_shot", PROTO_BULK);
}

static void eight_ranks_of_a_machine_go_from_one_trip_to_least_bytes(void **state)
{
	(void)state;
	assert_range(COLL_ALL_REDUCE, 8, 1, 8, 128, "one_shot,recursive_doubling", PROTO_COUNT);
	assert_range(COLL_ALL_REDUCE, 8, 1, 64 << 10, 1 << 28, "two_shot,ring,halving_doubling", PROTO_BULK);
	assert_range(COLL_BROADCAST, 8, 1, 8, 256, "one_shot,binomial", PROTO_COUNT);
	assert_range(COLL_BROADCAST, 8, 1, 1 << 20, 1 << 28, "chain,two_shot,ring", PROTO_BULK);
}

static void the_network_wants_few_messages_then_few_bytes(void **state)
{
	(void)state;
	assert_range(COLL_ALL_REDUCE, 2, 2, 8, 1024, "one_shot,recursive_doubling", PROTO_COUNT);
	assert_range(COLL_ALL_REDUCE, 8, 8, 8, 1024, "one_shot,recursive_doubling,tree", PROTO_COUNT);
	assert_range(COLL_ALL_REDUCE, 8, 8, 1 << 20, 1 << 28, "ring,two_shot", PROTO_BULK);
	assert_range(COLL_BARRIER, 8, 8, 1, 1, "one_shot,recursive_doubling,tree", PROTO_COUNT);
}

static double ring_us(const struct cost_query *q)
{
	double us = 0;

	if (cost_predict(&us, q, sched_algo_find("ring"), PROTO_BULK))
		fail_msg("%s", taut_error_message());
	return us;
}

/* Ranks dealt round robin: in rank order every message of a ring goes from machine to machine. */
static void a_ring_by_machine_is_cheaper_when_ranks_are_dealt(void **state)
{
	(void)state;
	for (int n = 8; n <= 64; n *= 2) {
		int32_t order[64];
		struct cost_query q = query(COLL_ALL_REDUCE, n, 4, 64 << 20);
		double packed = ring_us(&q), dealt;

		for (int r = 0; r < n; r++) {
			machine_of[r] = r % 4;
			order[r] = r / (n / 4) + r % (n / 4) * 4;
		}
		dealt = ring_us(&q);
		q.req.order = order;
		assert_true(dealt > 1.3 * packed);
		assert_true(ring_us(&q) < 1.05 * packed);
	}
}

static void many_ranks_do_not_all_talk_to_all(void **state)
{
	(void)state;
	assert_range(COLL_ALL_REDUCE, 64, 64, 8, 1024, "recursive_doubling,tree", PROTO_COUNT);
	assert_range(COLL_BROADCAST, 64, 64, 8, 1024, "binomial,tree", PROTO_COUNT);
}

static size_t next_size(size_t bytes)
{
	return bytes < 64 ? bytes + 4 : bytes + bytes / 2 + 20;
}

/* Falls are allowed to @floor of what was: where a run becomes too long for one message it is
 * cut and pipelined, which can be faster. */
static void assert_no_fall(const struct cost_query *q, const char *name, double us, double *last, double floor)
{
	if (!(us > 0) || us < *last * floor)
		fail_msg("%s %s, %d ranks on %d: %zu bytes take %f us, fewer took %f", sched_coll_name(q->req.coll),
			 name, q->req.nranks, q->req.nnodes, q->bytes, us, *last);
	*last = us > *last ? us : *last;
}

static void assert_monotone(struct cost_query q, const struct sched_algo *algo, enum sched_proto proto)
{
	double last = 0;

	for (q.bytes = 0; q.bytes <= 1 << 27; q.bytes = next_size(q.bytes)) {
		double us;
		enum taut_status st = cost_predict(&us, &q, algo, proto);

		if (st == TAUT_ERR_UNSUPPORTED)
			return;
		assert_int_equal(st, TAUT_OK);
		assert_no_fall(&q, algo->name, us, &last, 0.5);
	}
}

static const int group_sizes[][2] = { { 2, 1 }, { 3, 1 }, { 8, 1 }, { 8, 2 }, { 9, 9 }, { 20, 1 } };
enum { GROUP_SIZES = sizeof(group_sizes) / sizeof(group_sizes[0]) };

static void more_bytes_never_take_less_time(void **state)
{
	(void)state;
	for (int c = 0; c < COLL_COUNT; c++)
		for (int n = 0; n < GROUP_SIZES; n++) {
			struct cost_query q = query((enum sched_coll)c, group_sizes[n][0], group_sizes[n][1], 0);
			double last = 0;

			q.mapped = q.req.nnodes == 1;
			for (q.bytes = 0; q.bytes <= 1 << 27; q.bytes = next_size(q.bytes))
				assert_no_fall(&q, "best", chosen(&q).us, &last, 0.98);
		}
}

static void no_algorithm_becomes_much_faster_with_more_bytes(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int n = 0; n < GROUP_SIZES - 1; n++)
			for (int p = 0; p < PROTO_COUNT; p++) {
				struct cost_query q = query(COLL_ALL_REDUCE, group_sizes[n][0], group_sizes[n][1], 0);

				assert_monotone(q, sched_algos[i], (enum sched_proto)p);
				q.req.coll = COLL_BROADCAST;
				assert_monotone(q, sched_algos[i], (enum sched_proto)p);
			}
}

static void the_choice_is_the_cheapest_prediction(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 1 << 24; bytes *= 16) {
		struct cost_query q = query(COLL_ALL_REDUCE, 8, 1, bytes);
		struct cost_choice c = chosen(&q);

		for (int i = 0; sched_algos[i]; i++)
			for (int p = 0; p < PROTO_COUNT; p++) {
				double us;

				if (!cost_predict(&us, &q, sched_algos[i], (enum sched_proto)p))
					assert_true(us >= c.us * 0.999);
			}
	}
}

static void the_asking_rank_does_not_matter(void **state)
{
	(void)state;
	for (int nodes = 1; nodes <= 8; nodes *= 2)
		for (size_t bytes = 4; bytes <= 1 << 26; bytes *= 4) {
			struct cost_query q = query(COLL_BROADCAST, 24, nodes, bytes);
			struct cost_choice a, b;

			q.req.root = 5;
			a = chosen(&q);
			q.req.rank = 17;
			b = chosen(&q);
			assert_memory_equal(&a, &b, sizeof(a));
		}
}

static void ranks_that_share_cores_take_longer(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 1 << 26; bytes *= 8) {
		struct cost_query q = query(COLL_ALL_REDUCE, 8, 1, bytes);
		struct cost_machine few = machine;
		double alone, shared;
		const struct sched_algo *ring = sched_algo_find("ring");

		few.cores = 2;
		assert_int_equal(cost_predict(&alone, &q, ring, PROTO_BULK), TAUT_OK);
		q.machine = &few;
		assert_int_equal(cost_predict(&shared, &q, ring, PROTO_BULK), TAUT_OK);
		assert_true(shared > 2 * alone);
	}
}

static void only_what_serves_different_lengths_is_chosen_for_them(void **state)
{
	(void)state;
	for (int c = COLL_ALL_GATHER; c <= COLL_ALL_TO_ALL; c++)
		for (size_t bytes = 8; bytes <= 1 << 26 && c != COLL_BROADCAST && c != COLL_REDUCE; bytes *= 8) {
			struct cost_query q = query((enum sched_coll)c, 6, 1, bytes);

			q.vectors = true;
			assert_true(chosen(&q).algo->vectors >> c & 1);
		}
}

static void mapped_schedules_need_mapped_buffers(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 1 << 26; bytes *= 8) {
		struct cost_query q = query(COLL_ALL_REDUCE, 4, 1, bytes);

		assert_false(chosen(&q).algo->mapped);
	}
}

static void settings_bound_channels_and_pieces(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 8, 2, 1 << 26);

	(void)state;
	q.channels = 3;
	assert_int_equal(chosen(&q).channels, 3);
	machine.link[0].slot_bytes = 20000;
	assert_true(chosen(&q).piece_bytes <= 20000);
	machine.link[1].slot_bytes = 10000;
	assert_true(chosen(&q).piece_bytes <= 10000);
	machine.link[1].ll_max = 100;
	q.bytes = 8;
	q.channels = 0;
	if (chosen(&q).proto == PROTO_LL)
		assert_true(chosen(&q).piece_bytes <= 100);
}

static void without_ll_on_a_link_in_use_bulk_is_left(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 8, 2, 8);
	double us;

	(void)state;
	machine.link[1].ll_max = 0;
	assert_int_equal(chosen(&q).proto, PROTO_BULK);
	assert_int_equal(cost_predict(&us, &q, sched_algo_find("ring"), PROTO_LL), TAUT_ERR_UNSUPPORTED);
	q = query(COLL_ALL_REDUCE, 8, 1, 8);
	assert_int_equal(chosen(&q).proto, PROTO_LL);
}

static void one_wire_costs_what_the_network_costs(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 1 << 24; bytes *= 8) {
		struct cost_query near = query(COLL_ALL_REDUCE, 4, 1, bytes), far = query(COLL_ALL_REDUCE, 4, 4, bytes);
		struct cost_machine one = machine;
		const struct sched_algo *ring = sched_algo_find("ring");
		double a, b;

		one.one_wire = true;
		one.cores = 4;
		near.machine = &one;
		assert_int_equal(cost_predict(&a, &far, ring, PROTO_BULK), TAUT_OK);
		assert_int_equal(cost_predict(&b, &near, ring, PROTO_BULK), TAUT_OK);
		assert_true(b > a * 0.999 && b < a * 1.001);
	}
}

static void the_price_of_a_way_is_that_of_the_choice(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 1 << 26; bytes *= 8) {
		struct cost_query q = query(COLL_BROADCAST, 8, 1, bytes);
		struct cost_choice c = chosen(&q);
		double us;

		assert_int_equal(cost_price(&us, &q, &c), TAUT_OK);
		assert_true(us >= c.us * 0.999 && us <= c.us * 1.05);
	}
}

static void one_rank_and_no_bytes_are_choices_too(void **state)
{
	(void)state;
	for (int c = 0; c < COLL_COUNT; c++)
		for (int n = 1; n <= 3; n++) {
			struct cost_query q = query((enum sched_coll)c, n, 1, 0);

			chosen(&q);
			q.elem = 0;
			q.bytes = 1;
			chosen(&q);
		}
}

static void thousands_of_ranks_have_a_price(void **state)
{
	struct cost_query q;

	(void)state;
	for (int c = 0; c < COLL_COUNT; c++) {
		q = query((enum sched_coll)c, 2000, 250, 1 << 20);
		chosen(&q);
	}
}

static void sizes_up_to_the_end_have_a_price(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 8, 1, SIZE_MAX);

	(void)state;
	chosen(&q);
	q.elem = 1;
	chosen(&q);
	q.req.coll = COLL_ALL_TO_ALL;
	chosen(&q);
}

static void a_query_that_is_none_is_refused(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 8, 1, 8);
	struct cost_choice c;

	(void)state;
	log_set_sink(drop_line, NULL);
	q.req.root = 8;
	assert_int_equal(cost_choose(&c, &q), TAUT_ERR_INTERNAL);
	q.req.root = 0;
	q.req.nranks = 0;
	assert_int_equal(cost_choose(&c, &q), TAUT_ERR_INTERNAL);
	q.req.nranks = 2;
	q.req.coll = COLL_COUNT;
	assert_int_equal(cost_choose(&c, &q), TAUT_ERR_INTERNAL);
	log_set_sink(NULL, NULL);
}

static void the_line_for_the_log_names_choice_time_and_runner_up(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 4, 1, 1 << 20);
	char line[256], algo[32], proto[16], next[32], next_proto[16];
	double us, next_us, again;
	struct cost_choice c = chosen(&q);
	size_t len;

	(void)state;
	len = cost_explain(line, sizeof(line), &q);
	assert_int_equal(len, strlen(line));
	assert_int_equal(
		sscanf(line,
		       "all_reduce 1048576 bytes, 4 ranks: %31s %15[^,], %lf us predicted (next: %31s %15s %lf us)",
		       algo, proto, &us, next, next_proto, &next_us),
		6);
	assert_string_equal(algo, c.algo->name);
	assert_true(us <= next_us * 1.001 + 1);
	assert_int_equal(
		cost_predict(&again, &q, sched_algo_find(next), strcmp(next_proto, "ll") ? PROTO_BULK : PROTO_LL),
		TAUT_OK);
	assert_true(again > next_us - 1 && again < next_us + 1);
}

static void the_line_is_cut_where_it_must_be(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 4, 1, 1 << 20);
	char line[256], cut[16] = "xxxxxxxxxxxxxxx";
	size_t len = cost_explain(line, sizeof(line), &q);

	(void)state;
	assert_int_equal(cost_explain(cut, 8, &q), len);
	assert_string_equal(cut, "all_red");
	assert_int_equal(cost_explain(NULL, 0, &q), len);
}

static void no_memory_is_an_error_and_nothing_leaks(void **state)
{
	struct cost_query q = query(COLL_ALL_REDUCE, 6, 3, 1 << 20);
	enum taut_status st = TAUT_ERR_NOMEM;
	long n = 1;

	(void)state;
	log_set_sink(drop_line, NULL);
	for (; st; n++) {
		struct cost_choice c;

		mem_fail_from(n);
		st = cost_choose(&c, &q);
		mem_fail_from(0);
		assert_true(!st || st == TAUT_ERR_NOMEM);
		assert_true(n < 10000);
	}
	assert_true(n > 10);
	log_set_sink(NULL, NULL);
}

static void the_figures_of_memory_follow_a_measured_copy(void **state)
{
	struct cost_machine usual = machine;

	(void)state;
	cost_machine_memory(&machine, usual.copy_byte_us[COST_MEMORY]);
	assert_memory_equal(&machine, &usual, sizeof(usual));
	cost_machine_memory(&machine, 2 * usual.copy_byte_us[COST_MEMORY]);
	assert_float_equal(machine.copy_byte_us[COST_MEMORY], 2 * usual.copy_byte_us[COST_MEMORY], 1e-9);
	assert_float_equal(machine.reduce_byte_us[COST_MEMORY], 2 * usual.reduce_byte_us[COST_MEMORY], 1e-9);
	assert_float_equal(machine.link[0].byte_us[PROTO_BULK][COST_MEMORY],
			   2 * usual.link[0].byte_us[PROTO_BULK][COST_MEMORY], 1e-9);
	assert_memory_equal(&machine.link[1], &usual.link[1], sizeof(usual.link[1]));
	assert_true(machine.copy_byte_us[COST_CACHE] == usual.copy_byte_us[COST_CACHE]);
	/* Memory is not faster than the caches, whatever was measured. */
	cost_machine_memory(&machine, 1e-12);
	assert_true(machine.copy_byte_us[COST_MEMORY] == usual.copy_byte_us[COST_CACHE]);
	cost_machine_memory(&machine, INFINITY);
	assert_true(isfinite(machine.copy_byte_us[COST_MEMORY]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(two_ranks_start_with_one_shot_and_ll, setup),
		cmocka_unit_test_setup(eight_ranks_of_a_machine_go_from_one_trip_to_least_bytes, setup),
		cmocka_unit_test_setup(the_network_wants_few_messages_then_few_bytes, setup),
		cmocka_unit_test_setup(a_ring_by_machine_is_cheaper_when_ranks_are_dealt, setup),
		cmocka_unit_test_setup(many_ranks_do_not_all_talk_to_all, setup),
		cmocka_unit_test_setup(more_bytes_never_take_less_time, setup),
		cmocka_unit_test_setup(no_algorithm_becomes_much_faster_with_more_bytes, setup),
		cmocka_unit_test_setup(the_choice_is_the_cheapest_prediction, setup),
		cmocka_unit_test_setup(the_asking_rank_does_not_matter, setup),
		cmocka_unit_test_setup(ranks_that_share_cores_take_longer, setup),
		cmocka_unit_test_setup(only_what_serves_different_lengths_is_chosen_for_them, setup),
		cmocka_unit_test_setup(mapped_schedules_need_mapped_buffers, setup),
		cmocka_unit_test_setup(settings_bound_channels_and_pieces, setup),
		cmocka_unit_test_setup(without_ll_on_a_link_in_use_bulk_is_left, setup),
		cmocka_unit_test_setup(one_wire_costs_what_the_network_costs, setup),
		cmocka_unit_test_setup(the_price_of_a_way_is_that_of_the_choice, setup),
		cmocka_unit_test_setup(one_rank_and_no_bytes_are_choices_too, setup),
		cmocka_unit_test_setup(thousands_of_ranks_have_a_price, setup),
		cmocka_unit_test_setup(sizes_up_to_the_end_have_a_price, setup),
		cmocka_unit_test_setup(a_query_that_is_none_is_refused, setup),
		cmocka_unit_test_setup(the_line_for_the_log_names_choice_time_and_runner_up, setup),
		cmocka_unit_test_setup(the_line_is_cut_where_it_must_be, setup),
		cmocka_unit_test_setup(the_figures_of_memory_follow_a_measured_copy, setup),
		cmocka_unit_test_setup(no_memory_is_an_error_and_nothing_leaks, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
