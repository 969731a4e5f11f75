/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_report.h"

#include <jansson.h>
#include <stdio.h>

/* The model's choice is kept when the measured best beats it by less than this. */
#define CLEARLY 1.02

/* One collective and size: the best point, and the one the model would have taken. */
struct finding {
	const struct tune_point *best, *second, *model;
	double model_us; /* what the model expects of the best */
};

/* The measured point that is the model's choice: of the same algorithm and protocol the nearest piece. */
static const struct tune_point *point_of(const struct tune_report *r, int from, int to, const struct cost_choice *c)
{
	const struct tune_point *found = NULL;

	for (int i = from; i < to; i++) {
		const struct tune_point *p = &r->points->p[i];

		if (p->us <= 0 || p->way.algo != c->algo || p->way.proto != c->proto || p->way.channels != c->channels)
			continue;
		if (!found || p->way.piece_bytes == c->piece_bytes ||
		    (!p->way.piece_bytes && found->way.piece_bytes != c->piece_bytes))
			found = p;
	}
	return found;
}

/* The choice of the fitted model for the group that begins at @i. */
static enum taut_status ask_model(struct finding *f, const struct tune_report *r, int i, int end, int plain)
{
	struct cost_query q = tune_query(&r->points->p[i]);
	struct cost_machine m = tune_machine(r->points->p[i].at, &r->machine);
	struct cost_choice c;
	enum taut_status st;

	q.machine = &m;
	st = cost_choose(&c, &q);
	if (st)
		return st;
	f->model = point_of(r, i, end, &c);
	if (!f->model && plain >= 0)
		f->model = point_of(r, plain, tune_group_end(r->points, plain), &c);
	q.mapped = f->best->mapped;
	return cost_price(&f->model_us, &q, &f->best->way);
}

/* Takes the two fastest of the points of a group into *f. */
static void fastest(struct finding *f, const struct tune_report *r, int from, int to)
{
	for (int i = from; i < to; i++) {
		const struct tune_point *p = &r->points->p[i];

		if (p->us <= 0)
			continue;
		if (!f->best || p->us < f->best->us) {
			f->second = f->best;
			f->best = p;
		} else if (!f->second || p->us < f->second->us) {
			f->second = p;
		}
	}
}

/* The group without shared buffers that belongs to the one with them at @i, or -1. */
static int plain_group(const struct tune_report *r, int i)
{
	const struct tune_point *p = &r->points->p[i];

	for (int k = 0; k < r->points->n && p->mapped; k++) {
		const struct tune_point *q = &r->points->p[k];

		if (q->at == p->at && q->coll == p->coll && q->bytes == p->bytes && !q->mapped)
			return k;
	}
	return -1;
}

/* f->best NULL: nothing of the group was measured. */
static enum taut_status find(struct finding *f, const struct tune_report *r, int i)
{
	int end = tune_group_end(r->points, i), plain = plain_group(r, i);
	enum taut_status st;

	*f = (struct finding){ 0 };
	fastest(f, r, i, end);
	if (!f->best)
		return TAUT_OK;
	if (plain >= 0)
		fastest(f, r, plain, tune_group_end(r->points, plain));
	st = ask_model(f, r, i, end, plain);
	if (!st && f->model && f->model != f->best && f->model->us < f->best->us * CLEARLY) {
		f->second = f->best;
		f->best = f->model;
	}
	return st;
}

/* --- The file. --- */

static bool was_measured(const struct tune_report *r, const struct tune_best *line)
{
	for (int i = 0; i < r->points->n; i++) {
		const struct tune_case *c = r->points->p[i].at;

		if (r->points->p[i].coll == line->coll && c->nranks == line->nranks &&
		    (c->machine.one_wire ? c->nranks : c->nodes) == line->nodes)
			return true;
	}
	return false;
}

static enum taut_status keep_lines(struct tune *t, const struct tune_report *r, const struct tune *old)
{
	enum taut_status st = TAUT_OK;

	for (size_t i = 0; old && tune_line(old, i) && !st; i++)
		if (!was_measured(r, tune_line(old, i)))
			st = tune_add(t, tune_line(old, i));
	return st;
}

static struct tune_best line_of(const struct tune_report *r, const struct tune_point *p)
{
	struct tune_best b = { .coll = p->coll,
			       .nranks = p->at->nranks,
			       .nodes = p->at->machine.one_wire ? p->at->nranks : p->at->nodes,
			       .mapped = p->mapped,
			       .algo = p->way.algo,
			       .proto = p->way.proto,
			       .channels = p->way.channels,
			       .piece_bytes = p->way.piece_bytes };

	tune_range(&b.lo, &b.hi, p, r->sizes);
	return b;
}

/* Does @b go on where @a ends, with the same way? */
static bool continues(const struct tune_best *a, const struct tune_best *b)
{
	return a->algo && a->coll == b->coll && a->nranks == b->nranks && a->nodes == b->nodes &&
	       a->mapped == b->mapped && a->algo == b->algo && a->proto == b->proto && a->channels == b->channels &&
	       a->piece_bytes == b->piece_bytes && a->hi != SIZE_MAX && a->hi + 1 == b->lo;
}

static enum taut_status add_lines(struct tune *t, const struct tune_report *r)
{
	struct tune_best last = { .algo = NULL };
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < r->points->n && !st; i = tune_group_end(r->points, i)) {
		struct finding f;
		struct tune_best b;

		st = find(&f, r, i);
		if (st || !f.best)
			continue;
		b = line_of(r, f.best);
		b.mapped = r->points->p[i].mapped;
		if (continues(&last, &b)) {
			last.hi = b.hi;
			continue;
		}
		if (last.algo)
			st = tune_add(t, &last);
		last = b;
	}
	return !st && last.algo ? tune_add(t, &last) : st;
}

enum taut_status tune_report_save(const struct tune_report *r, const struct tune *old)
{
	struct tune *t;
	enum taut_status st = tune_create(&t);

	if (st)
		return st;
	tune_set(t, &r->machine);
	st = add_lines(t, r);
	if (!st)
		st = keep_lines(t, r, old);
	if (!st)
		st = tune_save(t, r->path);
	tune_free(t);
	return st;
}

/* --- For a person. --- */

static const char *proto_of(const struct cost_choice *w)
{
	return w->algo->mapped ? "mapped" : sched_proto_name(w->proto);
}

static void name_way(char buf[64], const struct cost_choice *w)
{
	int n = snprintf(buf, 64, "%s %s", w->algo->name, proto_of(w));

	if (w->channels > 1)
		n += snprintf(buf + n, 64 - (size_t)n, " x%d", w->channels);
	if (w->piece_bytes && !w->algo->mapped)
		snprintf(buf + n, 64 - (size_t)n, w->piece_bytes < 1024 ? " %zu" : " %zuK",
			 w->piece_bytes < 1024 ? w->piece_bytes : w->piece_bytes >> 10);
}

static void print_head(const struct tune_point *p)
{
	const struct tune_case *c = p->at;

	printf("\n%s, %d ranks", sched_coll_name(p->coll), c->nranks);
	if (c->nodes > 1)
		printf(" on %d machines", c->nodes);
	printf("%s%s\n", c->machine.one_wire ? " over tcp" : "", p->mapped ? ", shared buffers" : "");
	printf("%10s  %-32s %10s %7s  %-34s %s\n", "bytes", "best", "us", "model", "next", "the model would take");
}

static void print_row(const struct finding *f)
{
	char best[64], next[64] = "-", model[64] = "the same", after[96] = "-";

	name_way(best, &f->best->way);
	if (f->second) {
		name_way(next, &f->second->way);
		snprintf(after, sizeof(after), "%s +%.0f %%", next, 100 * (f->second->us / f->best->us - 1));
	}
	printf("%10zu  %-32s %10.2f %+6.0f%%  %-34s ", f->best->bytes, best, f->best->us,
	       100 * (f->model_us / f->best->us - 1), after);
	if (!f->model)
		printf("one that was not measured\n");
	else if (f->model == f->best)
		printf("%s\n", model);
	else {
		name_way(model, &f->model->way);
		printf("%s +%.0f %%\n", model, 100 * (f->model->us / f->best->us - 1));
	}
}

static bool new_table(const struct tune_point *a, const struct tune_point *b)
{
	return !a || a->at != b->at || a->coll != b->coll || a->mapped != b->mapped;
}

enum taut_status tune_report_text(const struct tune_report *r)
{
	const struct tune_point *last = NULL;
	int measured = 0;

	for (int i = 0; i < r->points->n; i = tune_group_end(r->points, i)) {
		struct finding f;
		enum taut_status st = find(&f, r, i);

		if (st)
			return st;
		if (!f.best)
			continue;
		if (new_table(last, &r->points->p[i]))
			print_head(&r->points->p[i]);
		print_row(&f);
		last = &r->points->p[i];
	}
	for (int i = 0; i < r->points->n; i++)
		measured += r->points->p[i].us > 0;
	if (measured < r->points->n)
		printf("\n%d of %d ways were measured: there was no time for more, or the group did not do as asked\n",
		       measured, r->points->n);
	printf("\nthe model is off by a factor of %.2f (median)\nwritten: %s\n", r->error, r->path);
	return TAUT_OK;
}

/* --- JSON. --- */

static json_t *json_row(const struct finding *f, bool mapped)
{
	const struct tune_point *p = f->best;
	json_t *o = json_pack("{s:s, s:i, s:i, s:b, s:b, s:I, s:s, s:s, s:i, s:I, s:f, s:f}", "collective",
			      sched_coll_name(p->coll), "ranks", p->at->nranks, "nodes", p->at->nodes, "one_wire",
			      p->at->machine.one_wire, "mapped", mapped, "bytes", (json_int_t)p->bytes, "algo",
			      p->way.algo->name, "proto", proto_of(&p->way), "channels", p->way.channels, "piece_bytes",
			      (json_int_t)(p->way.algo->mapped ? 0 : p->way.piece_bytes), "time_us", p->us, "model_us",
			      f->model_us);

	if (o && f->model) {
		json_object_set_new(o, "model_algo", json_string(f->model->way.algo->name));
		json_object_set_new(o, "model_proto", json_string(proto_of(&f->model->way)));
		json_object_set_new(o, "model_choice_us", json_real(f->model->us));
	}
	return o;
}

static enum taut_status json_rows(json_t *rows, const struct tune_report *r)
{
	for (int i = 0; i < r->points->n; i = tune_group_end(r->points, i)) {
		struct finding f;
		enum taut_status st = find(&f, r, i);

		if (st)
			return st;
		if (f.best && json_array_append_new(rows, json_row(&f, r->points->p[i].mapped)))
			return fail(TAUT_ERR_NOMEM, "JSON of the results");
	}
	return TAUT_OK;
}

enum taut_status tune_report_json(const struct tune_report *r)
{
	json_t *rows = json_array(), *all;
	enum taut_status st = rows ? json_rows(rows, r) : fail(TAUT_ERR_NOMEM, "JSON of the results");

	all = json_pack("{s:s, s:f, s:o*}", "file", r->path, "model_error", r->error, "best", rows);
	if (!st && (!all || json_dumpf(all, stdout, JSON_INDENT(2)) || putchar('\n') == EOF))
		st = fail(TAUT_ERR_SYS, "JSON of the results");
	json_decref(all);
	return st;
}
