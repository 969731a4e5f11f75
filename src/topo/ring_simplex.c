/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_simplex.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double pivot_eps = 1e-9, price_eps = 1e-9;

struct ring_simplex {
	int rows;
	double *inverse; /* of the basis, [rows * rows] */
	double *level;	 /* what the column of each row has */
	int *basis;	 /* column of each row: an id, or -1 - resource for what is left free of it */
	double *price, *along;
	int *nonzero; /* of the row that is changed */
	double work;
};

enum taut_status ring_simplex_create(struct ring_simplex **out, int rows)
{
	size_t n = (size_t)rows + 1;
	struct ring_simplex *s = mem_calloc(1, sizeof(*s));

	if (!s)
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory");
	s->rows = rows;
	s->inverse = mem_calloc(n * n, sizeof(double));
	s->level = mem_calloc(n, sizeof(double));
	s->basis = mem_calloc(n, sizeof(int));
	s->price = mem_calloc(n, sizeof(double));
	s->along = mem_calloc(n, sizeof(double));
	s->nonzero = mem_calloc(n, sizeof(int));
	if (!s->inverse || !s->level || !s->basis || !s->price || !s->along || !s->nonzero) {
		ring_simplex_free(s);
		return fail(TAUT_ERR_NOMEM, "packing of rings: no memory for %d links", rows);
	}
	*out = s;
	return TAUT_OK;
}

void ring_simplex_free(struct ring_simplex *s)
{
	if (!s)
		return;
	mem_free(s->inverse);
	mem_free(s->level);
	mem_free(s->basis);
	mem_free(s->price);
	mem_free(s->along);
	mem_free(s->nonzero);
	mem_free(s);
}

/* Machines are full of equal links, and a simplex among equals goes round in circles: each capacity is made a
 * little smaller than the last. */
static double nudge(double cap, int row)
{
	return cap * (1 - 1e-6 * fmod((row + 1) * 0.6180339887498949, 1));
}

void ring_simplex_begin(struct ring_simplex *s, const double *cap)
{
	memset(s->inverse, 0, (size_t)s->rows * (size_t)s->rows * sizeof(double));
	for (int i = 0; i < s->rows; i++) {
		s->inverse[i * s->rows + i] = 1;
		s->level[i] = nudge(cap[i], i);
		s->basis[i] = -1 - i;
	}
	memset(s->price, 0, (size_t)s->rows * sizeof(double));
}

const double *ring_simplex_prices(const struct ring_simplex *s)
{
	return s->price;
}

/* The row whose column reaches zero first; -1: none. Of equals that with the largest pivot. */
static int leaving_row(const struct ring_simplex *s)
{
	double best = INFINITY;
	int row = -1;

	for (int i = 0; i < s->rows; i++) {
		double ratio;

		if (s->along[i] <= pivot_eps)
			continue;
		ratio = fmax(s->level[i], 0) / s->along[i];
		if (ratio < best || (ratio == best && s->along[i] > s->along[row])) {
			best = ratio;
			row = i;
		}
	}
	return row;
}

/* Scales the pivot's row and notes where it is not zero, which is in few places at first; returns in how many. */
static int scale_row(struct ring_simplex *s, double *line, double by, double gain)
{
	int count = 0;

	for (int r = 0; r < s->rows; r++) {
		if (line[r] == 0)
			continue;
		line[r] *= by;
		s->price[r] += gain * line[r];
		s->nonzero[count++] = r;
	}
	return count;
}

/* @gain: what one more GB/s of the entering column brings. */
static bool pivot(struct ring_simplex *s, int id, double gain)
{
	int row = leaving_row(s), n = s->rows, count;
	double step, *line;

	if (row < 0)
		return false;
	line = s->inverse + row * n;
	step = fmax(s->level[row], 0) / s->along[row];
	count = scale_row(s, line, 1 / s->along[row], gain);
	s->work += (double)n * count;
	for (int i = 0; i < n; i++) {
		double along = s->along[i], *other = s->inverse + i * n;

		if (i == row || along == 0)
			continue;
		for (int k = 0; k < count; k++)
			other[s->nonzero[k]] -= along * line[s->nonzero[k]];
		s->level[i] = fmax(s->level[i] - step * along, 0);
	}
	s->level[row] = step;
	s->basis[row] = id;
	return true;
}

bool ring_simplex_enter(struct ring_simplex *s, int id, const double *load)
{
	double gain = 1;

	memset(s->along, 0, (size_t)s->rows * sizeof(double));
	for (int r = 0; r < s->rows; r++) {
		if (load[r] == 0)
			continue;
		gain -= s->price[r] * load[r];
		for (int i = 0; i < s->rows; i++)
			s->along[i] += s->inverse[i * s->rows + r] * load[r];
	}
	return pivot(s, id, gain);
}

bool ring_simplex_release(struct ring_simplex *s)
{
	const double *price = s->price;
	double least = -price_eps;
	int resource = -1;

	for (int r = 0; r < s->rows; r++)
		if (price[r] < least) {
			least = price[r];
			resource = r;
		}
	if (resource < 0)
		return false;
	for (int i = 0; i < s->rows; i++)
		s->along[i] = s->inverse[i * s->rows + resource];
	return pivot(s, -1 - resource, -least);
}

double ring_simplex_work(const struct ring_simplex *s)
{
	return s->work;
}

double ring_simplex_total(const struct ring_simplex *s)
{
	double sum = 0;

	for (int i = 0; i < s->rows; i++)
		sum += s->basis[i] >= 0 ? s->level[i] : 0;
	return sum;
}

void ring_simplex_rates(const struct ring_simplex *s, double *rate, int n)
{
	memset(rate, 0, (size_t)n * sizeof(*rate));
	for (int i = 0; i < s->rows; i++)
		if (s->basis[i] >= 0 && s->basis[i] < n)
			rate[s->basis[i]] = s->level[i];
}
