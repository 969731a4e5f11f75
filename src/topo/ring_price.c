/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_price.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

/* Prices that differ by less are equal: sums of the same prices in another order. */
static const double price_eps = 1e-11;

struct ring_search {
	int n;
	double *table; /* [set * n + gpu]: cheapest way from gpu, which is in the set, through the rest to the end */
	int *trial, *best;
	bool *used;
	double work;
};

double ring_search_work(const struct ring_search *s)
{
	return s->work;
}

enum taut_status ring_search_create(struct ring_search **out, int n, int exact_max)
{
	struct ring_search *s = mem_calloc(1, sizeof(*s));

	if (!s)
		return fail(TAUT_ERR_NOMEM, "search of rings: no memory");
	s->n = n;
	s->trial = mem_calloc((size_t)n, sizeof(*s->trial));
	s->best = mem_calloc((size_t)n, sizeof(*s->best));
	s->used = mem_calloc((size_t)n, sizeof(*s->used));
	if (n <= exact_max)
		s->table = mem_calloc((size_t)n << n, sizeof(*s->table));
	if (!s->trial || !s->best || !s->used || (n <= exact_max && !s->table)) {
		ring_search_free(s);
		return fail(TAUT_ERR_NOMEM, "search of rings: no memory for %d gpus", n);
	}
	*out = s;
	return TAUT_OK;
}

void ring_search_free(struct ring_search *s)
{
	if (!s)
		return;
	mem_free(s->table);
	mem_free(s->trial);
	mem_free(s->best);
	mem_free(s->used);
	mem_free(s);
}

double ring_cost(const struct ring_prices *p, const int *order)
{
	double sum = p->first[order[0]] + p->last[order[p->n - 1]];

	if (p->n > 1)
		sum += p->second[order[1]];
	for (int i = 0; i + 1 < p->n; i++)
		sum += p->leg[order[i] * p->n + order[i + 1]];
	return sum;
}

/* --- exact --- */

/* Of going on from @gpu to @next when @set is behind us. */
static double step_cost(const struct ring_search *s, const struct ring_prices *p, uint32_t set, int gpu, int next)
{
	bool alone = !(set & (set - 1));

	return p->leg[gpu * p->n + next] + (alone ? p->second[next] : 0) +
	       s->table[(set | 1U << next) * (uint32_t)p->n + (uint32_t)next];
}

static void table_fill(struct ring_search *s, const struct ring_prices *p)
{
	uint32_t n = (uint32_t)p->n, full = (1U << n) - 1;

	for (uint32_t set = full; set > 0; set--)
		for (int gpu = 0; gpu < p->n; gpu++) {
			double best = set == full ? p->last[gpu] : INFINITY;

			if (!(set >> gpu & 1))
				continue;
			for (int next = 0; next < p->n; next++)
				if (!(set >> next & 1))
					best = fmin(best, step_cost(s, p, set, gpu, next));
			s->table[set * n + (uint32_t)gpu] = best;
		}
}

/* The first GPU by number among those that are cheapest now. */
static int choose(const struct ring_search *s, const struct ring_prices *p, uint32_t set, int gpu)
{
	double best = INFINITY;
	int chosen = -1;

	for (int next = 0; next < p->n; next++) {
		double cost;

		if (set >> next & 1)
			continue;
		cost = gpu < 0 ? p->first[next] + s->table[(1U << next) * (uint32_t)p->n + (uint32_t)next]
			       : step_cost(s, p, set, gpu, next);
		if (cost < best - price_eps) {
			best = cost;
			chosen = next;
		}
	}
	return chosen;
}

static double cheapest_exact(struct ring_search *s, const struct ring_prices *p, int *order)
{
	uint32_t set = 0;
	int gpu = -1;

	s->work += (double)p->n * p->n * (1 << p->n);
	table_fill(s, p);
	for (int i = 0; i < p->n; i++) {
		gpu = choose(s, p, set, gpu);
		if (gpu < 0)
			return INFINITY;
		order[i] = gpu;
		set |= 1U << gpu;
	}
	return ring_cost(p, order);
}

/* --- many GPUs --- */

static void follow_nearest(struct ring_search *s, const struct ring_prices *p, int start)
{
	s->work += (double)p->n * p->n;
	memset(s->used, 0, (size_t)p->n * sizeof(*s->used));
	s->trial[0] = start;
	s->used[start] = true;
	for (int i = 1; i < p->n; i++) {
		int from = s->trial[i - 1], chosen = -1;

		/* Round from where we are, so that equal prices give the GPUs' own order. */
		for (int k = 1; k < p->n; k++) {
			int to = (from + k) % p->n;

			if (!s->used[to] &&
			    (chosen < 0 || p->leg[from * p->n + to] < p->leg[from * p->n + chosen] - price_eps))
				chosen = to;
		}
		s->trial[i] = chosen;
		s->used[chosen] = true;
	}
}

/* Ways that are not allowed count, so that each repair is seen. */
static double trial_cost(const struct ring_prices *p, const int *order)
{
	const double forbidden = 1e6;
	double sum = 0, part[3] = { p->first[order[0]], p->last[order[p->n - 1]], p->second[order[1]] };

	for (int i = 0; i < 3; i++)
		sum += isinf(part[i]) ? forbidden : part[i];
	for (int i = 0; i + 1 < p->n; i++) {
		double leg = p->leg[order[i] * p->n + order[i + 1]];

		sum += isinf(leg) ? forbidden : leg;
	}
	return sum;
}

/* @order with its piece of @len at @at moved to @to of what remains. */
static void move_piece(const int *order, int n, int at, int len, int to, int *out)
{
	int k = 0;

	for (int i = 0; i <= n; i++) {
		if (k == to)
			for (int j = 0; j < len; j++)
				out[k++] = order[at + j];
		if (i < n && (i < at || i >= at + len))
			out[k++] = order[i];
	}
}

static void turn_piece(const int *order, int n, int at, int len, int *out)
{
	memcpy(out, order, (size_t)n * sizeof(*out));
	for (int j = 0; j < len; j++)
		out[at + j] = order[at + len - 1 - j];
}

static bool take_if_cheaper(struct ring_search *s, const struct ring_prices *p, double *cost)
{
	double trial = trial_cost(p, s->trial);

	if (trial >= *cost - price_eps)
		return false;
	*cost = trial;
	memcpy(s->best, s->trial, (size_t)p->n * sizeof(*s->best));
	return true;
}

static bool improve(struct ring_search *s, const struct ring_prices *p, double *cost)
{
	bool better = false;

	s->work += 4.0 * p->n * p->n * p->n;
	for (int len = 1; len < p->n; len++)
		for (int at = 0; at + len <= p->n; at++) {
			for (int to = 0; to + len <= p->n && 2 * len <= p->n; to++) {
				if (to == at)
					continue;
				move_piece(s->best, p->n, at, len, to, s->trial);
				better = take_if_cheaper(s, p, cost) || better;
			}
			if (len > 1) {
				turn_piece(s->best, p->n, at, len, s->trial);
				better = take_if_cheaper(s, p, cost) || better;
			}
		}
	return better;
}

/* No route costs less. */
static double floor_of(const struct ring_prices *p)
{
	double first = INFINITY, last = INFINITY, second = INFINITY, legs = 0, dearest = 0;

	for (int i = 0; i < p->n; i++) {
		double least = INFINITY;

		for (int j = 0; j < p->n; j++)
			if (j != i)
				least = fmin(least, p->leg[i * p->n + j]);
		legs += least;
		dearest = fmax(dearest, least);
		first = fmin(first, p->first[i]);
		second = fmin(second, p->second[i]);
		last = fmin(last, p->last[i]);
	}
	return first + second + last + legs - dearest; /* one GPU has no next */
}

/* The GPU to begin at after @start: the next by price, then by number; -1: no more. */
static int next_start(const struct ring_prices *p, int start)
{
	int next = -1;

	for (int i = 0; i < p->n; i++) {
		double first = p->first[i];
		bool later = start < 0 || first > p->first[start] || (first == p->first[start] && i > start);

		if (later && !isinf(first) && (next < 0 || first < p->first[next]))
			next = i;
	}
	return next;
}

/* The starts whose first step costs least are worth the work; the others rarely win. */
static double cheapest_near(struct ring_search *s, const struct ring_prices *p, int *order)
{
	enum { STARTS = 4, IMPROVED_MAX = 32 };
	double best = INFINITY, least = floor_of(p);
	int start = -1;

	for (int k = 0; k < STARTS && best > least + price_eps; k++) {
		double cost = INFINITY;

		start = next_start(p, start);
		if (start < 0)
			break;
		follow_nearest(s, p, start);
		take_if_cheaper(s, p, &cost);
		while (p->n <= IMPROVED_MAX && cost > least + price_eps && improve(s, p, &cost))
			;
		cost = ring_cost(p, s->best);
		if (cost < best - price_eps) {
			best = cost;
			memcpy(order, s->best, (size_t)p->n * sizeof(*order));
		}
	}
	return best;
}

double ring_cheapest(struct ring_search *s, const struct ring_prices *p, int *order)
{
	return s->table ? cheapest_exact(s, p, order) : cheapest_near(s, p, order);
}
