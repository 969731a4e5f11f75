/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_fit.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

enum {
	SAMPLES = 240, /* points that the fit looks at */
	PASSES = 8,
	NUMBERS = 24,
};
/* How much a number resists: far below one measured point. */
#define INERTIA 0.01
/* Deviations far above this (as a logarithm) are taken for disturbances and hardly pull. */
#define USUAL 0.3

struct fit {
	const struct tune_point *sample[SAMPLES];
	int n;
	double *number[NUMBERS], start[NUMBERS];
	int numbers;
	struct cost_machine *m;
	enum taut_status st;
};

static void list_numbers(struct fit *f)
{
	for (int k = 0; k < 2; k++)
		for (int p = 0; p < PROTO_COUNT; p++) {
			struct cost_link *l = &f->m->link[k];

			f->number[f->numbers++] = &l->post_us[p];
			f->number[f->numbers++] = &l->trip_us[p];
			f->number[f->numbers++] = &l->byte_us[p][COST_CACHE];
			f->number[f->numbers++] = &l->byte_us[p][COST_MEMORY];
		}
	for (int level = 0; level < COST_LEVELS; level++) {
		f->number[f->numbers++] = &f->m->copy_byte_us[level];
		f->number[f->numbers++] = &f->m->reduce_byte_us[level];
		f->number[f->numbers++] = &f->m->map_byte_us[level];
	}
	f->number[f->numbers++] = &f->m->barrier_us;
	f->number[f->numbers++] = &f->m->switch_us;
	for (int i = 0; i < f->numbers; i++)
		f->start[i] = *f->number[i];
}

/* Evenly spread over all that were measured. */
static void take_samples(struct fit *f, const struct tune_points *points)
{
	int measured = 0, seen = 0;

	for (int i = 0; i < points->n; i++)
		measured += points->p[i].us > 0;
	for (int i = 0; i < points->n; i++) {
		if (points->p[i].us <= 0)
			continue;
		if ((int64_t)seen * SAMPLES / (measured > SAMPLES ? measured : SAMPLES) >= f->n && f->n < SAMPLES)
			f->sample[f->n++] = &points->p[i];
		seen++;
	}
}

/* By sample: the logarithm of model over measurement. */
static void deviations(double off[SAMPLES], struct fit *f)
{

	for (int i = 0; i < f->n && !f->st; i++) {
		struct cost_query q = tune_query(f->sample[i]);
		struct cost_machine numbers = tune_machine(f->sample[i]->at, f->m);
		double us;

		q.machine = &numbers;
		f->st = cost_price(&us, &q, &f->sample[i]->way);
		off[i] = f->st ? 0 : log(us / f->sample[i]->us);
	}
}

/* Grows with the square of small deviations, and ever slower with that of large ones. */
static double misfit(struct fit *f)
{
	double off[SAMPLES] = { 0 }, sum = 0;

	deviations(off, f);
	for (int i = 0; i < f->n; i++)
		sum += log1p(off[i] * off[i] / (USUAL * USUAL));
	return sum;
}

static int by_size(const void *a, const void *b)
{
	double x = fabs(*(const double *)a), y = fabs(*(const double *)b);

	return (x > y) - (x < y);
}

/* The factor by which the model is off for the median sample. */
static double typical_error(struct fit *f)
{
	double off[SAMPLES] = { 0 };

	deviations(off, f);
	qsort(off, (size_t)f->n, sizeof(off[0]), by_size);
	return exp(fabs(off[f->n / 2]));
}

static double inertia(const struct fit *f)
{
	double sum = 0;

	for (int i = 0; i < f->numbers; i++) {
		double off = log(*f->number[i] / f->start[i]);

		sum += INERTIA * off * off;
	}
	return sum;
}

/* Multiplies number @i by @factor as long as that helps. */
static double follow(struct fit *f, int i, double factor, double best)
{
	for (int n = 0; n < 16; n++) {
		double before = *f->number[i], now;

		*f->number[i] = before * factor;
		now = misfit(f) + inertia(f);
		if (f->st || now >= best) {
			*f->number[i] = before;
			return best;
		}
		best = now;
	}
	return best;
}

/* Memory is not faster than a cache. */
static void keep_order(struct cost_machine *m)
{
	for (int k = 0; k < 2; k++)
		for (int p = 0; p < PROTO_COUNT; p++)
			m->link[k].byte_us[p][COST_MEMORY] =
				fmax(m->link[k].byte_us[p][COST_MEMORY], m->link[k].byte_us[p][COST_CACHE]);
	m->copy_byte_us[COST_MEMORY] = fmax(m->copy_byte_us[COST_MEMORY], m->copy_byte_us[COST_CACHE]);
	m->reduce_byte_us[COST_MEMORY] = fmax(m->reduce_byte_us[COST_MEMORY], m->reduce_byte_us[COST_CACHE]);
	m->map_byte_us[COST_MEMORY] = fmax(m->map_byte_us[COST_MEMORY], m->map_byte_us[COST_CACHE]);
}

enum taut_status tune_fit(struct cost_machine *m, double *error, const struct tune_points *points)
{
	static const double factors[PASSES] = { 2, 1.5, 1.5, 1.25, 1.25, 1.1, 1.1, 1.05 };
	struct cost_machine fitted = *m;
	struct fit f = { .m = &fitted };
	double best;

	list_numbers(&f);
	take_samples(&f, points);
	if (!f.n)
		return fail(TAUT_ERR_INTERNAL, "nothing was measured");
	best = misfit(&f) + inertia(&f);
	for (int pass = 0; pass < PASSES && !f.st; pass++)
		for (int i = 0; i < f.numbers && !f.st; i++) {
			best = follow(&f, i, factors[pass], best);
			best = follow(&f, i, 1 / factors[pass], best);
		}
	keep_order(&fitted);
	*error = typical_error(&f);
	if (!f.st)
		*m = fitted;
	return f.st;
}
