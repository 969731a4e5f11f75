/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "topo/limits.h"
#include "topo/limits_kernels.h"

static const struct limits_curve curve = { 3, { { 1024, 100, 200 }, { 8192, 50, 80 }, { 65536, 10, 20 } } };

static void the_rate_between_two_points_lies_between_theirs(void **state)
{
	(void)state;
	assert_float_equal(limits_rate(&curve, 1024, 4, 4), 200, 1e-9);
	assert_float_equal(limits_rate(&curve, 8192, 4, 4), 80, 1e-9);
	assert_float_equal(limits_rate(&curve, 65536, 1, 4), 10, 1e-9);
	/* 2048 is a third of the way from 1024 to 8192 on a logarithmic scale. */
	assert_float_equal(limits_rate(&curve, 2048, 4, 4), 160, 1e-9);
}

static void outside_the_points_the_rate_stays(void **state)
{
	(void)state;
	assert_float_equal(limits_rate(&curve, 0, 4, 4), 200, 1e-9);
	assert_float_equal(limits_rate(&curve, 8, 1, 4), 100, 1e-9);
	assert_float_equal(limits_rate(&curve, SIZE_MAX, 4, 4), 20, 1e-9);
}

static void fewer_cores_get_their_part_of_the_rate(void **state)
{
	(void)state;
	assert_float_equal(limits_rate(&curve, 1024, 2, 3), 150, 1e-9);
	assert_float_equal(limits_rate(&curve, 1024, 9, 3), 200, 1e-9);
	assert_float_equal(limits_rate(&curve, 1024, 1, 1), 200, 1e-9);
}

static void a_curve_that_was_not_measured_gives_no_rate(void **state)
{
	struct limits_curve none = { 0 };

	(void)state;
	assert_float_equal(limits_rate(&none, 1024, 1, 1), 0, 0);
}

static void what_is_asked_for_is_measured(void **state)
{
	struct limits_opts o = { .what = LIMITS_ALL, .min_bytes = 4096, .max_bytes = 40960, .point_ms = 0.1 };
	struct limits l = { 0 };

	(void)state;
	assert_int_equal(limits_measure(&l, &o), TAUT_OK);
	assert_int_equal(l.copy.n, 3);
	assert_int_equal(l.copy.p[1].bytes, 32768);
	assert_int_equal(l.copy.p[2].bytes, 40960);
	for (int i = 0; i < 3; i++) {
		assert_true(l.copy.p[i].one > 0 && l.copy.p[i].all > 0);
		assert_true(l.reduce.p[i].one > 0 && l.reduce.p[i].all > 0);
		assert_true(l.tcp.p[i].all > 0);
	}
	assert_true(l.tcp_trip_us > 0);
	assert_true(l.cores == 1 || l.trip_us > 0);
}

static void what_is_not_asked_for_stays_zero(void **state)
{
	struct limits_opts o = { .what = LIMITS_TRIP };
	struct limits l;

	(void)state;
	assert_int_equal(limits_measure(&l, &o), TAUT_OK);
	assert_int_equal(l.copy.n, 0);
	assert_int_equal(l.tcp.n, 0);
	assert_true(l.tcp_trip_us == 0);
}

static void a_range_that_is_none_is_refused(void **state)
{
	struct limits_opts o = { .what = LIMITS_COPY, .min_bytes = 8192, .max_bytes = 4096 };
	struct limits l;

	(void)state;
	assert_int_equal(limits_measure(&l, &o), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "8192 to 4096"));
}

static void memory_that_cannot_be_had_is_an_error(void **state)
{
	struct limits_opts o = { .what = LIMITS_COPY, .min_bytes = 4096, .max_bytes = (size_t)1 << 50, .point_ms = 1 };
	struct limits l;

	(void)state;
	assert_int_equal(limits_measure(&l, &o), TAUT_ERR_NOMEM);
}

static void the_kernels_do_what_they_say(void **state)
{
	enum { N = 64 };
	float *m = aligned_alloc(64, 3 * N * sizeof(float)), *a = m + N, *b = m + 2 * N;

	(void)state;
	for (int past = 0; past < 2; past++) {
		limits_kernel copy = limits_copy_kernel(past), add = limits_reduce_kernel(past);

		for (int i = 0; i < N; i++) {
			a[i] = (float)i;
			b[i] = 1000;
		}
		if (copy)
			copy(m, a, b, N);
		for (int i = 0; copy && i < N; i++)
			assert_true(m[i] == (float)i);
		if (add)
			add(m, a, b, N);
		for (int i = 0; add && i < N; i++)
			assert_true(m[i] == (float)i + 1000);
	}
	free(m);
}

static void a_pinned_thread_may_run_there(void **state)
{
	int cpus[LIMITS_MAX_CORES];
	int n = limits_cpus(cpus, LIMITS_MAX_CORES);

	(void)state;
	assert_true(n >= 1);
	for (int i = 1; i < n; i++)
		assert_true(cpus[i] > cpus[i - 1]);
	assert_false(limits_pin(-1));
}

static void a_bound_thread_can_measure_the_whole_machine(void **state)
{
	int all[LIMITS_MAX_CORES], bound[LIMITS_MAX_CORES];
	int n = limits_cpus(all, LIMITS_MAX_CORES);

	(void)state;
	assert_true(limits_pin(all[n - 1]));
	assert_true(limits_machine_cpus(bound, LIMITS_MAX_CORES) >= n);
	assert_int_equal(limits_cpus(bound, LIMITS_MAX_CORES), 1); /* still bound */
	assert_int_equal(bound[0], all[n - 1]);
}

static void ignore(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rate_between_two_points_lies_between_theirs),
		cmocka_unit_test(outside_the_points_the_rate_stays),
		cmocka_unit_test(fewer_cores_get_their_part_of_the_rate),
		cmocka_unit_test(a_curve_that_was_not_measured_gives_no_rate),
		cmocka_unit_test(what_is_asked_for_is_measured),
		cmocka_unit_test(what_is_not_asked_for_stays_zero),
		cmocka_unit_test(a_range_that_is_none_is_refused),
		cmocka_unit_test(memory_that_cannot_be_had_is_an_error),
		cmocka_unit_test(the_kernels_do_what_they_say),
		cmocka_unit_test(a_pinned_thread_may_run_there),
		cmocka_unit_test(a_bound_thread_can_measure_the_whole_machine),
	};

	log_set_sink(ignore, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
