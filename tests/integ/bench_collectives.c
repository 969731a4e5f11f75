/* SPDX-License-Identifier: Apache-2.0 */
/* `taut bench` of every collective, by processes and by threads: right elements, complete and
 * consistent JSON, CSV of the same rows, a table with nccl-tests' columns. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>

#include "run_taut.h"

static double real(json_t *row, const char *key)
{
	json_t *v = json_object_get(row, key);

	CHECK(json_is_number(v));
	return json_number_value(v);
}

static const char *text(json_t *row, const char *key)
{
	CHECK(json_is_string(json_object_get(row, key)));
	return json_string_value(json_object_get(row, key));
}

static void check_row(json_t *row, const char *coll, bool reduces)
{
	double us = real(row, "time_us"), gbps = real(row, "bytes") / 1e3 / us;

	CHECK(!strcmp(text(row, "collective"), coll));
	CHECK(!strcmp(text(row, "type"), "float"));
	CHECK(!strcmp(text(row, "op"), reduces ? "sum" : "none"));
	CHECK(!strcmp(text(row, "wire"), "shm"));
	CHECK(real(row, "ranks") == 3);
	CHECK(real(row, "root") == -1);
	CHECK(real(row, "wrong") == 0);
	CHECK(us > 0 && real(row, "min_us") <= us && us <= real(row, "max_us"));
	CHECK(fabs(real(row, "algbw_gbps") - gbps) <= 1e-3 * gbps);
	CHECK(real(row, "limit_share") > 0);
	CHECK(json_is_boolean(json_object_get(row, "in_place")));
	CHECK(text(row, "algo")[0] || !strcmp(coll, "sendrecv"));
	CHECK(json_is_string(json_object_get(row, "proto")));
	CHECK(json_object_size(row) == 18);
}

static void check_json(const char *out, const char *coll, bool reduces, bool in_place)
{
	json_error_t error;
	json_t *rows = json_loads(out, 0, &error);
	size_t sizes = strcmp(coll, "barrier") ? 3 : 1, in = 0;

	if (!rows)
		fprintf(stderr, "%s: %s\n", error.text, out);
	CHECK(rows && json_array_size(rows) == sizes * (in_place ? 2 : 1));
	for (size_t i = 0; i < json_array_size(rows); i++) {
		check_row(json_array_get(rows, i), coll, reduces);
		in += json_is_true(json_object_get(json_array_get(rows, i), "in_place"));
	}
	CHECK(in == (in_place ? sizes : 0));
	json_decref(rows);
}

static struct ran *bench(char *coll, char *mode, char *option, char *value)
{
	struct ran *r = TAUT("bench", coll, "--ranks", "3", "--mode", mode, "--sizes", "12,3000,70000", "--iters", "3",
			     "--batch", "2", "--warmup", "1", option, value);

	if (r->code)
		fprintf(stderr, "%s by %s: %s%s", coll, mode, r->err, r->out);
	CHECK(r->code == 0);
	return r;
}

static void check_table(void)
{
	struct ran *r = bench("all_reduce", "processes", "--ops", "sum,max");

	CHECK(strstr(r->out, "time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"));
	CHECK(strstr(r->out, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
	CHECK(r->out[strlen(r->out) - 1] == '\n' && !strchr(strstr(r->out, "# Avg bus"), '\0')[0]);
	CHECK(!r->err[0]);
}

static void check_csv(void)
{
	struct ran *r = bench("all_gather", "processes", "--csv", "-");
	int lines = 0;

	CHECK(!strncmp(r->out,
		       "collective,bytes,count,type,op,root,ranks,wire,algo,proto,in_place,time_us,min_us,max_us,"
		       "algbw_gbps,busbw_gbps,wrong,limit_share\n",
		       strlen("collective,bytes,count,type,op,root,ranks")));
	for (char *p = r->out; (p = strchr(p, '\n')); p++)
		lines++;
	CHECK(lines == 7);
	CHECK(strstr(r->out, "\nall_gather,3000,250,float,none,-1,3,shm,"));
}

int main(void)
{
	static const struct {
		char *name;
		bool reduces, in_place;
	} colls[] = {
		{ "all_reduce", true, true }, { "all_gather", false, true },  { "reduce_scatter", true, true },
		{ "broadcast", false, true }, { "reduce", true, true },	      { "gather", false, true },
		{ "scatter", false, true },   { "all_to_all", false, false }, { "barrier", false, false },
		{ "sendrecv", false, false },
	};

	for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++)
		for (int threads = 0; threads < 2; threads++)
			check_json(bench(colls[i].name, threads ? "threads" : "processes", "--json", "-")->out,
				   colls[i].name, colls[i].reduces, colls[i].in_place);
	check_table();
	check_csv();
	return 0;
}
