/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm, collective, root and number of ranks. Up to 16 ranks and for two levels
 * all of it; above, roots and depths at fixed strides, unless the first argument is "full":
 * then everything, in about a minute, several times that with a sanitizer. */
#include "test_sched_util.h"

#ifdef __SANITIZE_THREAD__
#define MOST 20 /* nothing here has threads, and the thread sanitizer makes it slow */
#define LARGE 1
#define MOST_LAYOUTS 9
#else
#define MOST 64
#define LARGE 4
#define MOST_LAYOUTS 17
#endif

static bool full;

static bool in_place_exists(const struct sched_algo *algo, enum sched_coll coll)
{
	return coll != COLL_ALL_TO_ALL || algo->swaps;
}

static void verify_one(const struct all *a, const struct sched_algo *algo, int depth, bool in_place, bool hold)
{
	enum sched_coll coll = a->scheds[0]->coll;
	struct verify_opts opts = {
		.depth = depth, .in_place = in_place, .hold = hold, .vectors = algo->vectors >> coll & 1
	};

	if (verify_all(a->scheds, a->n, &opts))
		fail_msg("%s", taut_error_message());
}

/* Depths from 1 to @depth; from 2 on also with messages that keep their places. Above 16 ranks
 * less of it: at a depth of 2 only what is harder, in place and held, and of the largest
 * groups only in place. */
static void verify_depths(const struct all *a, const struct sched_algo *algo, int depth)
{
	bool placed = in_place_exists(algo, a->scheds[0]->coll), less = !full && a->n > 16;

	for (int d = 1; d <= depth; d++)
		for (int in_place = placed && less && (d > 1 || a->n > 128); in_place <= placed; in_place++)
			for (int hold = less && d > 1; hold <= (d > 1); hold++)
				verify_one(a, algo, d, in_place, hold);
}

static void verify_req(const struct sched_algo *algo, const struct sched_req *req, int depth)
{
	struct all a;

	if (!sched_algo_fits(algo, req))
		return;
	all_build(&a, algo, req);
	verify_depths(&a, algo, depth);
	all_free(&a);
}

static bool takes_root(int root, int n)
{
	return full || n <= 16 || root == 0 || root == n - 1 || root == n * 7 % 13;
}

static void verify_coll(const struct sched_algo *algo, enum sched_coll coll, int n)
{
	int roots = sched_coll_has_root(coll) ? n : 1;

	for (int root = 0; root < roots; root++) {
		struct sched_req req = { .coll = coll, .nranks = n, .root = root };

		if (takes_root(root, n))
			verify_req(algo, &req, full || n <= 16 ? 4 : 2);
	}
}

static void every_algorithm_is_right_for_each_number_of_ranks(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			for (int n = 1; n <= MOST; n++)
				verify_coll(sched_algos[i], coll, n);
}

/* At 1000 ranks, where some have millions of messages, not all in each run of the tests. */
static bool scales(const char *algo, enum sched_coll coll, int n)
{
	if (n <= 128)
		return true;
	if (full || strcmp(algo, "recursive_doubling") == 0 || sched_coll_has_root(coll))
		return true;
	if (coll == COLL_ALL_REDUCE)
		return strcmp(algo, "recursive_halving") != 0;
	return coll == COLL_ALL_TO_ALL && strcmp(algo, "pairwise") == 0;
}

static void large_groups_are_right(void **state)
{
	static const int sizes[] = { 96, 127, 128, 1000 };

	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			for (int k = 0; k < LARGE; k++) {
				int n = sizes[k];
				struct sched_req req = { .coll = coll, .nranks = n, .root = n / 3 };

				if (scales(sched_algos[i]->name, coll, n))
					verify_req(sched_algos[i], &req, full && n < 1000 ? 4 : 1);
			}
}

/* --- Two levels --- */

enum layout { PACKED, DEALT, UNEQUAL, MIXED, LAYOUTS };

/* Machines are numbered in order of their first rank. */
static int number_machines(int *node_of, int n)
{
	int seen[MANY], nodes = 0;

	for (int r = 0; r < n; r++) {
		int m = -1;

		for (int i = 0; i < nodes && m < 0; i++)
			if (seen[i] == node_of[r])
				m = i;
		if (m < 0) {
			m = nodes++;
			seen[m] = node_of[r];
		}
		node_of[r] = m;
	}
	return nodes;
}

static int lay_out(int *node_of, enum layout layout, int n, int nodes)
{
	unsigned random = (unsigned)(n * 31 + nodes);

	for (int r = 0; r < n; r++) {
		random = random * 1103515245u + 12345u;
		switch (layout) {
		case PACKED:
			node_of[r] = r * nodes / n;
			break;
		case DEALT:
			node_of[r] = r % nodes;
			break;
		case UNEQUAL: /* the first machine has most of them */
			node_of[r] = r < n - nodes + 1 ? 0 : r - (n - nodes);
			break;
		default:
			node_of[r] = (int)(random >> 16) % nodes;
		}
	}
	return number_machines(node_of, n);
}

static void verify_two_level(struct sched_req req, int n, int nodes, enum layout layout)
{
	int node_of[MANY];

	req.nranks = n;
	req.node_of = node_of;
	req.nnodes = lay_out(node_of, layout, n, nodes);
	for (req.root = 0; req.root<(sched_coll_has_root(req.coll) ? n : 1); req.root += n> 8 && !full ? 3 : 1)
		verify_req(sched_algo_find("two_level"), &req, full ? 3 : 2);
}

static void two_levels_are_right_on_any_layout(void **state)
{
	int top = full ? 40 : MOST_LAYOUTS;

	(void)state;
	for (int coll = 0; coll < COLL_COUNT; coll++)
		for (int n = 3; n <= top; n++)
			for (int nodes = 2; nodes<n; nodes += n> 9 && !full ? 3 : 1)
				for (int layout = 0; layout < LAYOUTS; layout++)
					verify_two_level((struct sched_req){ .coll = coll }, n, nodes, layout);
}

static void two_levels_take_any_pair_of_families(void **state)
{
	static const char *const names[] = { "one_shot",	   "two_shot",		"ring",	    "tree",
					     "recursive_doubling", "recursive_halving", "binomial", "chain" };
	int fitting = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			for (int layout = 0; layout < LAYOUTS; layout++) {
				int node_of[MANY] = { 0, 1 };
				struct sched_req req = { .coll = coll,
							 .inner = names[i / 8],
							 .outer = names[i % 8],
							 .nranks = 11,
							 .node_of = node_of,
							 .nnodes = 2 };

				fitting += sched_algo_fits(sched_algo_find("two_level"), &req);
				verify_two_level(req, 11, 3, layout);
				if (LARGE == 1)
					continue;
				verify_two_level(req, 12, 4, layout);
				verify_two_level(req, 13, 5, layout);
			}
	/* all_reduce: 7 inside by 6 between; all_gather and reduce_scatter: 4 by 4; broadcast: 6 by 6;
	 * reduce: 5 by 5; barrier: any by 2 */
	assert_int_equal(fitting, 4 * (7 * 6 + 4 * 4 + 4 * 4 + 6 * 6 + 5 * 5 + 8 * 2));
}

static void two_levels_are_right_for_large_groups(void **state)
{
	(void)state;
	for (int coll = 0; coll < COLL_COUNT; coll++) {
		int node_of[MANY];
		struct sched_req req = { .coll = coll, .nranks = 128, .root = 77, .node_of = node_of };

		for (int nodes = 2; nodes <= 32; nodes *= 4) {
			req.nnodes = lay_out(node_of, MIXED, 128, nodes);
			verify_req(sched_algo_find("two_level"), &req, 1);
		}
		req.nranks = 1000;
		req.nnodes = lay_out(node_of, PACKED, 1000, 125);
		if (full || (coll != COLL_ALL_GATHER && coll != COLL_REDUCE_SCATTER))
			verify_req(sched_algo_find("two_level"), &req, 1);
	}
}

/* --- Rings and chains in any order of the ranks --- */

static void shuffle(int32_t *order, int n)
{
	static unsigned random = 4711;

	for (int i = 0; i < n; i++) {
		int j;

		random = random * 1103515245u + 12345u;
		j = (int)((random >> 16) % (unsigned)(i + 1));
		order[i] = order[j];
		order[j] = i;
	}
}

/* Ranks at both ends of each message stand next to each other. */
static void check_neighbours(const struct all *a, const int32_t *order)
{
	int place[MANY];

	for (int i = 0; i < a->n; i++)
		place[order[i]] = i;
	for (int r = 0; r < a->n; r++)
		for (uint32_t i = 0; i < a->scheds[r]->npeers; i++) {
			int way = (place[a->scheds[r]->peers[i]] - place[r] + a->n) % a->n;

			assert_true(way == 1 || way == a->n - 1);
		}
}

static void verify_order(const struct sched_algo *algo, enum sched_coll coll, int n, int root)
{
	bool round = strcmp(algo->name, "ring") == 0 || strcmp(algo->name, "chain") == 0;
	int32_t order[MANY];
	struct sched_req req = { .coll = coll, .nranks = n, .root = root, .order = order };
	struct all a;

	shuffle(order, n);
	if (!sched_algo_fits(algo, &req))
		return;
	all_build(&a, algo, &req);
	if (round)
		check_neighbours(&a, order);
	verify_depths(&a, algo, n <= 16 ? 3 : 1);
	all_free(&a);
}

static void rings_and_chains_take_any_order(void **state)
{
	static const int sizes[] = { 1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 100 };

	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
				for (int turn = 0; turn < 4; turn++)
					verify_order(sched_algos[i], coll, sizes[k], turn * 7 % sizes[k]);
}

static void an_order_without_a_rank_is_refused(void **state)
{
	static const int32_t order[] = { 2, 0, 2, 1 };
	struct sched_req req = { .coll = COLL_BROADCAST, .rank = 3, .nranks = 4, .order = order };
	struct sched *s;

	(void)state;
	quiet(NULL);
	assert_int_equal(sched_build(&s, sched_algo_find("ring"), &req), TAUT_ERR_ARG);
	req.rank = 0;
	req.root = 3;
	assert_int_equal(sched_build(&s, sched_algo_find("chain"), &req), TAUT_ERR_ARG);
	loud(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_is_right_for_each_number_of_ranks),
		cmocka_unit_test(large_groups_are_right),
		cmocka_unit_test(two_levels_are_right_on_any_layout),
		cmocka_unit_test(two_levels_take_any_pair_of_families),
		cmocka_unit_test(two_levels_are_right_for_large_groups),
		cmocka_unit_test(rings_and_chains_take_any_order),
		cmocka_unit_test(an_order_without_a_rank_is_refused),
	};

	full = argc > 1 && strcmp(argv[1], "full") == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
