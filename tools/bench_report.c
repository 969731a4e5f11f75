/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

struct bench_report {
	const struct bench_opts *opts;
	int ranks;
	char wire[16];
	FILE *json, *csv;
	json_t *rows;
	bool table, progress;
	double bus_sum;
	int bus_count;
	long long wrong;
};

static enum taut_status open_file(FILE **out, const char *path)
{
	if (!path)
		return TAUT_OK;
	*out = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (!*out)
		return errno_fail(errno, "cannot write %s", path);
	return TAUT_OK;
}

static void close_file(FILE *f)
{
	if (f && f != stdout)
		fclose(f);
}

static void print_head(const char *about)
{
	static const char side_names[] = "     time   algbw   busbw  #wrong";
	static const char side_units[] = "     (us)  (GB/s)  (GB/s)        ";

	printf("# taut %d.%d.%d %s\n#\n", TAUT_VERSION_MAJOR, TAUT_VERSION_MINOR, TAUT_VERSION_PATCH, about);
	printf("#%56s%-33s%-33s\n", "", "             out-of-place", "               in-place");
	printf("#%11s  %12s  %8s  %10s  %6s%s%s  %-24s %s\n", "size", "count", "type", "redop", "root", side_names,
	       side_names, "algorithm", "limit");
	printf("#%11s  %12s  %8s  %10s  %6s%s%s  %-24s %s\n", "(B)", "(elements)", "", "", "", side_units, side_units,
	       "", "(%)");
	fflush(stdout);
}

enum taut_status bench_report_create(struct bench_report **out, const struct bench_opts *opts, int ranks,
				     const char *wire, const char *about)
{
	struct bench_report *r = mem_calloc(1, sizeof(*r));
	enum taut_status st;

	if (!r)
		return fail(TAUT_ERR_NOMEM, "no memory for the report");
	r->opts = opts;
	r->ranks = ranks;
	snprintf(r->wire, sizeof(r->wire), "%s", wire);
	st = open_file(&r->json, opts->json);
	if (!st)
		st = open_file(&r->csv, opts->csv);
	if (st)
		goto err_free;
	r->rows = json_array();
	if (!r->rows) {
		st = fail(TAUT_ERR_NOMEM, "no memory for the report");
		goto err_free;
	}
	r->table = !opts->quiet && r->json != stdout && r->csv != stdout;
	r->progress = r->table && isatty(STDERR_FILENO);
	if (r->csv)
		fprintf(r->csv, "collective,bytes,count,type,op,root,ranks,wire,algo,proto,in_place,time_us,min_us,"
				"max_us,algbw_gbps,busbw_gbps,wrong,limit_share\n");
	if (r->table)
		print_head(about);
	*out = r;
	return TAUT_OK;
err_free:
	close_file(r->json);
	close_file(r->csv);
	mem_free(r);
	return st;
}

void bench_report_progress(struct bench_report *r, const char *what)
{
	if (r->progress)
		fprintf(stderr, "\r\033[K%s", what);
}

void bench_report_note(struct bench_report *r, const char *text)
{
	bench_report_progress(r, "");
	if (r->table)
		printf("# %s\n", text);
	fflush(stdout);
}

static double alg_gbps(const struct bench_row *row, const struct bench_side *s)
{
	return s->median_us > 0 ? (double)row->bytes / s->median_us / 1e3 : 0;
}

static double bus_gbps(const struct bench_report *r, const struct bench_row *row, const struct bench_side *s)
{
	return alg_gbps(row, s) * bench_bus_factor(r->opts->coll, r->ranks);
}

static double share(const struct bench_side *s)
{
	return s->median_us > 0 ? s->limit_us / s->median_us : 0;
}

/* --- The table --- */

static void print_side(const struct bench_report *r, const struct bench_row *row, const struct bench_side *s)
{
	int digits = s->median_us < 10 ? 3 : s->median_us < 100 ? 2 : s->median_us < 10000 ? 1 : 0;

	if (!s->done) {
		printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	printf("  %7.*f  %6.2f  %6.2f", digits, s->median_us, alg_gbps(row, s), bus_gbps(r, row, s));
	if (s->wrong < 0)
		printf("  %6s", "N/A");
	else
		printf("  %6lld", s->wrong);
}

static void print_choice(const struct bench_row *row)
{
	const struct bench_side *a = &row->side[0], *b = &row->side[1];
	char name[160] = "-", limit[32] = "";

	for (const struct bench_side *s = b; s >= a; s--)
		if (s->done && s->algo[0])
			snprintf(name, sizeof(name), "%s%s%s", s->algo, s->proto[0] ? "/" : "", s->proto);
	for (const struct bench_side *s = a; s <= b; s++)
		if (s->done && s->limit_us > 0)
			snprintf(limit + strlen(limit), sizeof(limit) - strlen(limit), "%s%.*f", limit[0] ? "/" : "",
				 share(s) < 0.1 ? 1 : 0, 100 * share(s));
	printf("  %-24s %s\n", name, limit[0] ? limit : "-");
}

static void print_row(struct bench_report *r, const struct bench_row *row)
{
	const struct bench_coll *c = r->opts->coll;
	char root[16] = "-1";

	bench_report_progress(r, "");
	if (c->rooted && row->root == BENCH_ALL_ROOTS)
		strcpy(root, "all");
	else
		snprintf(root, sizeof(root), "%d", row->root);
	printf("%12zu  %12zu  %8s  %10s  %6s", row->bytes, row->count, taut_type_name(row->type),
	       c->reduces ? taut_op_name(row->op) : "none", root);
	print_side(r, row, &row->side[0]);
	print_side(r, row, &row->side[1]);
	print_choice(row);
	fflush(stdout);
}

/* --- Files --- */

static json_t *side_json(const struct bench_report *r, const struct bench_row *row, int place)
{
	const struct bench_coll *c = r->opts->coll;
	const struct bench_side *s = &row->side[place];

	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:o, s:o}",
			 "collective", c->name, "bytes", (json_int_t)row->bytes, "count", (json_int_t)row->count,
			 "type", taut_type_name(row->type), "op", c->reduces ? taut_op_name(row->op) : "none", "root",
			 row->root, "ranks", r->ranks, "wire", r->wire, "algo", s->algo, "proto", s->proto, "in_place",
			 place, "time_us", s->median_us, "min_us", s->min_us, "max_us", s->max_us, "algbw_gbps",
			 alg_gbps(row, s), "busbw_gbps", bus_gbps(r, row, s), "wrong",
			 s->wrong < 0 ? json_null() : json_integer(s->wrong), "limit_share",
			 s->limit_us > 0 ? json_real(share(s)) : json_null());
}

static void write_csv(const struct bench_report *r, const struct bench_row *row, int place)
{
	const struct bench_coll *c = r->opts->coll;
	const struct bench_side *s = &row->side[place];

	fprintf(r->csv, "%s,%zu,%zu,%s,%s,%d,%d,%s,%s,%s,%d,%.4f,%.4f,%.4f,%.6g,%.6g,", c->name, row->bytes, row->count,
		taut_type_name(row->type), c->reduces ? taut_op_name(row->op) : "none", row->root, r->ranks, r->wire,
		s->algo, s->proto, place, s->median_us, s->min_us, s->max_us, alg_gbps(row, s), bus_gbps(r, row, s));
	if (s->wrong >= 0)
		fprintf(r->csv, "%lld", s->wrong);
	if (s->limit_us > 0)
		fprintf(r->csv, ",%.4g\n", share(s));
	else
		fprintf(r->csv, ",\n");
}

enum taut_status bench_report_row(struct bench_report *r, const struct bench_row *row)
{
	for (int place = 0; place < 2; place++) {
		const struct bench_side *s = &row->side[place];

		if (!s->done)
			continue;
		r->bus_sum += bus_gbps(r, row, s);
		r->bus_count++;
		r->wrong += s->wrong > 0 ? s->wrong : 0;
		if (r->json && json_array_append_new(r->rows, side_json(r, row, place)))
			return fail(TAUT_ERR_NOMEM, "no memory for the report");
		if (r->csv)
			write_csv(r, row, place);
	}
	if (r->table)
		print_row(r, row);
	return TAUT_OK;
}

enum taut_status bench_report_finish(struct bench_report *r, bool complete)
{
	enum taut_status st = TAUT_OK;

	if (!r)
		return TAUT_OK;
	bench_report_progress(r, "");
	if (r->json && (json_dumpf(r->rows, r->json, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) ||
			putc('\n', r->json) < 0 || fflush(r->json)))
		st = errno_fail(errno, "cannot write %s", r->opts->json);
	if (r->csv && fflush(r->csv))
		st = errno_fail(errno, "cannot write %s", r->opts->csv);
	if (r->table && complete) {
		printf("# Out of bounds values : %lld %s\n", r->wrong,
		       !r->opts->check ? "(not checked)"
		       : r->wrong      ? "FAILED"
				       : "OK");
		printf("# Avg bus bandwidth    : %g\n", r->bus_count ? r->bus_sum / r->bus_count : 0);
	}
	if (r->table && (fflush(stdout) || ferror(stdout)) && errno != EPIPE)
		st = errno_fail(errno, "standard output");
	close_file(r->json);
	close_file(r->csv);
	json_decref(r->rows);
	mem_free(r);
	return st;
}
