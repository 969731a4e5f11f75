/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <unistd.h>

#include "base/log.h"

#include "../../tools/tune_fit.c"
#include "../../tools/tune_plan.c"
#include "../../tools/tune_report.c"

static const struct tune_sizes sizes = { 8, 2 << 20, 16 };
static struct tune_case two, four;
static struct tune_points points;

static int setup(void **state)
{
	(void)state;
	two = (struct tune_case){ .nranks = 2, .nodes = 1, .mapped = true };
	cost_machine_default(&two.machine);
	two.machine.cores = 8;
	four = two;
	four.nranks = 4;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tune_points_free(&points);
	return 0;
}

/* What a machine would measure whose numbers are *@m. */
static void measure(const struct cost_machine *m)
{
	for (int i = 0; i < points.n; i++) {
		struct cost_query q = tune_query(&points.p[i]);
		struct cost_machine here = tune_machine(points.p[i].at, m);

		q.machine = &here;
		assert_int_equal(cost_price(&points.p[i].us, &q, &points.p[i].way), TAUT_OK);
	}
}

static void a_plan_has_every_collective_and_size(void **state)
{
	int groups = 0;

	(void)state;
	assert_int_equal(tune_plan(&points, &four, &sizes, ~0u), TAUT_OK);
	for (int i = 0; i < points.n; i = tune_group_end(&points, i)) {
		int end = tune_group_end(&points, i);

		groups++;
		assert_true(end > i && end - i <= TUNE_WAYS);
		for (int k = i; k < end; k++) {
			assert_int_equal(points.p[k].turn, k - i);
			assert_true(points.p[k].turn < points.turns);
			assert_int_equal(points.p[k].way.algo->mapped, points.p[k].mapped);
			assert_true(points.p[k].way.us <= HOPELESS * points.p[i].way.us);
		}
	}
	/* 8 collectives of 5 sizes (8 bytes are too few for 4 blocks in 5 of them), 2 of them shared; the barrier */
	assert_int_equal(groups, 8 * 5 - 5 + 8 * 2 + 1);
}

static void a_plan_has_the_collectives_that_are_asked_for(void **state)
{
	(void)state;
	assert_int_equal(tune_plan(&points, &two, &sizes, 1u << COLL_GATHER | 1u << COLL_BARRIER), TAUT_OK);
	assert_true(points.n > 0);
	for (int i = 0; i < points.n; i++)
		assert_true(points.p[i].coll == COLL_GATHER || points.p[i].coll == COLL_BARRIER);
}

static void ranges_leave_no_size_out_and_none_twice(void **state)
{
	static const struct tune_sizes some[] = {
		{ 8, 2 << 20, 16 }, { 8, 32 << 20, 4 }, { 8, 32 << 20, 2 }, { 100, 100, 3 }
	};

	(void)state;
	for (size_t s = 0; s < sizeof(some) / sizeof(some[0]); s++) {
		struct tune_case three = two;
		size_t next = 0, lo, hi;

		three.nranks = 3;
		three.mapped = false;
		assert_int_equal(tune_plan(&points, &three, &some[s], 1u << COLL_ALL_GATHER), TAUT_OK);
		for (int i = 0; i < points.n; i = tune_group_end(&points, i)) {
			tune_range(&lo, &hi, &points.p[i], &some[s]);
			assert_true(lo == next);
			assert_true(lo <= points.p[i].bytes && points.p[i].bytes <= hi);
			next = hi + 1;
		}
		assert_true(next == 0); /* SIZE_MAX + 1 */
		tune_points_free(&points);
	}
}

static void a_fit_finds_the_machine_again(void **state)
{
	struct cost_machine truth, found;
	double error = 0;

	(void)state;
	assert_int_equal(tune_plan(&points, &two, &sizes, ~0u), TAUT_OK);
	assert_int_equal(tune_plan(&points, &four, &sizes, ~0u), TAUT_OK);
	cost_machine_default(&truth);
	truth.link[0].post_us[PROTO_BULK] *= 3;
	truth.link[0].trip_us[PROTO_LL] /= 2;
	truth.link[0].byte_us[PROTO_BULK][COST_CACHE] *= 2;
	truth.reduce_byte_us[COST_CACHE] *= 4;
	truth.barrier_us *= 5;
	measure(&truth);
	points.p[points.n / 2].us *= 100; /* the machine did something else */
	cost_machine_default(&found);
	assert_int_equal(tune_fit(&found, &error, &points), TAUT_OK);
	assert_true(error >= 1 && error < 1.1);
	assert_true(fabs(log(found.barrier_us / truth.barrier_us)) < 0.3);
	assert_true(fabs(log(found.link[0].byte_us[PROTO_BULK][COST_CACHE] /
			     truth.link[0].byte_us[PROTO_BULK][COST_CACHE])) < 0.3);
	assert_true(found.link[1].post_us[0] == truth.link[1].post_us[0]); /* nothing spoke for it */
}

static void nothing_measured_is_told(void **state)
{
	struct cost_machine m;
	double error;

	(void)state;
	cost_machine_default(&m);
	assert_int_equal(tune_plan(&points, &two, &sizes, 1), TAUT_OK);
	log_now.level = LOG_NONE;
	assert_int_equal(tune_fit(&m, &error, &points), TAUT_ERR_INTERNAL);
	log_now.level = LOG_WARN;
}

static struct tune *old_file(void)
{
	static const char text[] = "taut.tune 1\n"
				   "best all_reduce 2 1 0 * 0 ring bulk 7 0\n"
				   "best all_reduce 3 1 0 * 0 ring bulk 8 0\n"
				   "best broadcast 2 1 0 * 0 one_shot bulk 9 0\n";
	struct tune *t = NULL;

	assert_int_equal(tune_parse(&t, "old", text, sizeof(text) - 1), TAUT_OK);
	return t;
}

/* The line for all_reduce of @bytes, by its channels. */
static const struct tune_best *line_for(const struct tune *t, enum sched_coll coll, int nranks, size_t bytes,
					bool mapped)
{
	for (size_t i = 0; tune_line(t, i); i++) {
		const struct tune_best *b = tune_line(t, i);

		if (b->coll == coll && b->nranks == nranks && b->lo <= bytes && bytes <= b->hi && b->mapped == mapped)
			return b;
	}
	return NULL;
}

static void the_file_has_the_fastest_ways_and_what_it_had(void **state)
{
	struct tune_report r = { .points = &points, .sizes = &sizes, .error = 1 };
	struct tune *old = old_file(), *back = NULL;
	char path[64];
	int odd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/taut-test-tools-tune-%d", (int)getpid());
	r.path = path;
	assert_int_equal(tune_plan(&points, &two, &sizes, 1u << COLL_ALL_REDUCE), TAUT_OK);
	cost_machine_default(&r.machine);
	measure(&r.machine);
	odd = tune_group_end(&points, 0) - 1; /* the way that the model likes least, at 8 bytes */
	points.p[odd].us = points.p[0].us / 10;
	assert_int_equal(tune_report_save(&r, old), TAUT_OK);
	assert_int_equal(tune_load(&back, path), TAUT_OK);
	unlink(path);
	assert_ptr_equal(line_for(back, COLL_ALL_REDUCE, 2, 8, false)->algo, points.p[odd].way.algo);
	assert_true(line_for(back, COLL_ALL_REDUCE, 2, 8, false)->channels != 7);
	assert_true(line_for(back, COLL_ALL_REDUCE, 2, 1 << 20, true)->algo->mapped);
	assert_non_null(line_for(back, COLL_ALL_REDUCE, 2, SIZE_MAX, false));
	assert_int_equal(line_for(back, COLL_ALL_REDUCE, 3, 8, false)->channels, 8);
	assert_int_equal(line_for(back, COLL_BROADCAST, 2, 8, false)->channels, 9);
	tune_free(old);
	tune_free(back);
}

static void shared_buffers_that_do_not_help_are_not_used(void **state)
{
	struct tune_report r = { .points = &points, .sizes = &sizes, .error = 1 };
	struct tune *t;
	const struct tune_best *shared, *private;

	(void)state;
	assert_int_equal(tune_plan(&points, &two, &sizes, 1u << COLL_ALL_REDUCE), TAUT_OK);
	cost_machine_default(&r.machine);
	measure(&r.machine);
	for (int i = 0; i < points.n; i++)
		points.p[i].us *= points.p[i].mapped ? 1000 : 1;
	assert_int_equal(tune_create(&t), TAUT_OK);
	assert_int_equal(add_lines(t, &r), TAUT_OK);
	shared = line_for(t, COLL_ALL_REDUCE, 2, 1 << 20, true);
	private = line_for(t, COLL_ALL_REDUCE, 2, 1 << 20, false);
	assert_false(shared->algo->mapped);
	assert_ptr_equal(shared->algo, private->algo);
	tune_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_plan_has_every_collective_and_size, setup, teardown),
		cmocka_unit_test_setup_teardown(a_plan_has_the_collectives_that_are_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_leave_no_size_out_and_none_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(a_fit_finds_the_machine_again, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_measured_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(the_file_has_the_fastest_ways_and_what_it_had, setup, teardown),
		cmocka_unit_test_setup_teardown(shared_buffers_that_do_not_help_are_not_used, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
