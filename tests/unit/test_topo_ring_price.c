/* SPDX-License-Identifier: Apache-2.0 */
/* The cheapest route: against all orders of few GPUs, and the search for many against the exact one. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>

#include "topo/ring_price.h"

enum { MAX = 12 };

struct room {
	double leg[MAX * MAX], first[MAX], second[MAX], last[MAX];
	struct ring_prices p;
};

static unsigned next(uint64_t *seed, unsigned below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % below;
}

/* Few different prices, so that there are many equal routes; one way in @holes is not allowed. */
static void fill(struct room *r, int n, uint64_t seed, unsigned holes)
{
	r->p = (struct ring_prices){ .n = n, .leg = r->leg, .first = r->first, .second = r->second, .last = r->last };
	for (int i = 0; i < n * n; i++)
		r->leg[i] = holes && !next(&seed, holes) ? INFINITY : next(&seed, 5);
	for (int i = 0; i < n; i++) {
		r->first[i] = holes && !next(&seed, holes) ? INFINITY : next(&seed, 9);
		r->second[i] = next(&seed, 3);
		r->last[i] = next(&seed, 9);
	}
}

static double cheapest_of_all(const struct ring_prices *p, int *order, int from)
{
	double best = INFINITY;

	if (from == p->n)
		return ring_cost(p, order);
	for (int i = from; i < p->n; i++) {
		int first = order[from];

		order[from] = order[i];
		order[i] = first;
		best = fmin(best, cheapest_of_all(p, order, from + 1));
		order[i] = order[from];
		order[from] = first;
	}
	return best;
}

static double ask(const struct room *r, int exact_max, int *order)
{
	struct ring_search *s;
	double cost;

	assert_int_equal(ring_search_create(&s, r->p.n, exact_max), TAUT_OK);
	cost = ring_cheapest(s, &r->p, order);
	assert_true(ring_search_work(s) > 0);
	ring_search_free(s);
	return cost;
}

static void each_gpu_once(const int *order, int n)
{
	bool seen[MAX] = { false };

	for (int i = 0; i < n; i++) {
		assert_in_range(order[i], 0, n - 1);
		assert_false(seen[order[i]]);
		seen[order[i]] = true;
	}
}

static void few_gpus_get_the_cheapest_of_all_orders(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 120; seed++) {
		int n = 1 + (int)(seed % 6), all[MAX] = { 0, 1, 2, 3, 4, 5 }, order[MAX];
		struct room r;
		double want, got;

		fill(&r, n, seed, seed % 3 ? 4 : 0);
		want = cheapest_of_all(&r.p, all, 0);
		got = ask(&r, MAX, order);
		assert_true(isinf(want) ? isinf(got) : fabs(want - got) < 1e-9);
		if (isinf(want))
			continue;
		each_gpu_once(order, n);
		assert_true(fabs(ring_cost(&r.p, order) - got) < 1e-9);
	}
}

static void many_gpus_get_a_route_that_is_nearly_the_cheapest(void **state)
{
	double sum_exact = 0, sum_near = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		int order[MAX];
		struct room r;
		double exact, near;

		fill(&r, 11, seed, seed % 2 ? 6 : 0);
		exact = ask(&r, MAX, order);
		near = ask(&r, 0, order);
		assert_true(near >= exact - 1e-9);
		if (isinf(near))
			continue;
		each_gpu_once(order, 11);
		assert_true(fabs(ring_cost(&r.p, order) - near) < 1e-9);
		sum_exact += exact;
		sum_near += near;
	}
	assert_true(sum_exact > 0 && sum_near < 1.25 * sum_exact);
}

static void equal_prices_give_the_own_order(void **state)
{
	int order[MAX];
	struct room r;

	(void)state;
	for (int exact = 0; exact < 2; exact++) {
		fill(&r, MAX, 1, 0);
		for (int i = 0; i < MAX * MAX; i++)
			r.leg[i] = 1;
		for (int i = 0; i < MAX; i++) {
			r.first[i] = i == 2 ? 0 : 1;
			r.second[i] = r.last[i] = 0;
		}
		ask(&r, exact ? MAX : 0, order);
		assert_int_equal(order[0], 2);
		for (int i = 1; i < MAX && exact; i++)
			assert_int_equal(order[i], i <= 2 ? i - 1 : i);
		for (int i = 1; i < MAX && !exact; i++)
			assert_int_equal(order[i], (2 + i) % MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_gpus_get_the_cheapest_of_all_orders),
		cmocka_unit_test(many_gpus_get_a_route_that_is_nearly_the_cheapest),
		cmocka_unit_test(equal_prices_give_the_own_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
