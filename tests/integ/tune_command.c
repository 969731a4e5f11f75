/* SPDX-License-Identifier: Apache-2.0 */
/* `taut tune` measures, prints and writes; a group follows what a tuning file asks for; old
 * lines stay; what is wrong is told. */
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "run_taut.h"
#include "sched/cost.h"

static char folder[64], file[96];

static void cleanup(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command))
		fprintf(stderr, "%s is left\n", folder);
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	CHECK(f && fputs(text, f) >= 0);
	fclose(f);
}

static struct tune *load(void)
{
	struct tune *t = NULL;

	CHECK(tune_load(&t, file) == TAUT_OK && t);
	return t;
}

static int lines_of(const struct tune *t, enum sched_coll coll, int nranks, int nodes)
{
	int n = 0;

	for (size_t i = 0; tune_line(t, i); i++)
		n += tune_line(t, i)->coll == coll && tune_line(t, i)->nranks == nranks &&
		     tune_line(t, i)->nodes == nodes;
	return n;
}

static void must(struct ran *r, int code)
{
	if (r->code != code)
		fprintf(stderr, "status %d: %s%s", r->code, r->err, r->out);
	CHECK(r->code == code);
}

static void check_row(json_t *row)
{
	const char *coll = json_string_value(json_object_get(row, "collective"));

	CHECK(coll && (!strcmp(coll, "all_reduce") || !strcmp(coll, "broadcast")));
	CHECK(json_number_value(json_object_get(row, "time_us")) > 0);
	CHECK(json_number_value(json_object_get(row, "model_us")) > 0);
	CHECK(sched_algo_find(json_string_value(json_object_get(row, "algo"))));
	CHECK(json_integer_value(json_object_get(row, "ranks")) == 2);
}

static void check_json(const char *text)
{
	json_t *all = json_loads(text, 0, NULL), *best = json_object_get(all, "best"), *row;
	size_t i;

	CHECK(all && !strcmp(json_string_value(json_object_get(all, "file")), file));
	CHECK(json_number_value(json_object_get(all, "model_error")) >= 1);
	CHECK(json_array_size(best) >= 10);
	json_array_foreach(best, i, row) check_row(row);
	json_decref(all);
}

/* Over both wires; lines for three ranks were there before. */
static void measures_and_writes(void)
{
	struct ran *r;
	struct tune *t;

	write_file("taut.tune 1\nbest all_reduce 3 1 0 * 0 ring bulk 1 0\nbest all_reduce 2 1 0 * 0 ring bulk 9 0\n");
	r = TAUT("tune", "--ranks", "2", "--quick", "--time", "0.1", "--collectives", "all_reduce,bcast", "--out", file,
		 "--json");
	must(r, 0);
	check_json(r->out);
	t = load();
	CHECK(lines_of(t, COLL_ALL_REDUCE, 2, 1) && lines_of(t, COLL_ALL_REDUCE, 2, 2));
	CHECK(lines_of(t, COLL_BROADCAST, 2, 1) && lines_of(t, COLL_BROADCAST, 2, 2));
	CHECK(lines_of(t, COLL_ALL_REDUCE, 3, 1) == 1 && !lines_of(t, COLL_ALL_GATHER, 2, 1));
	for (size_t i = 0; tune_line(t, i); i++)
		CHECK(tune_line(t, i)->channels != 9);
	tune_free(t);
}

static void prints_a_table(void)
{
	struct ran *r = TAUT("tune", "-n", "3", "-q", "-t", "0.1", "-c", "barrier", "-w", "auto", "-o", file);

	must(r, 0);
	CHECK(strstr(r->out, "barrier, 3 ranks\n"));
	CHECK(strstr(r->out, "the model is off by a factor of "));
	CHECK(strstr(r->out, file));
	CHECK(!*r->err);
}

/* Which algorithm a group of @ranks takes for an all-reduce of 4 KiB. */
static void bench_takes(const char *ranks, const char *algo)
{
	struct ran *r = TAUT("bench", "all_reduce", "--ranks", (char *)ranks, "--sizes", "4096", "--iters", "1",
			     "--batch", "1", "--warmup", "1", "--json", "-");
	json_t *rows;

	must(r, 0);
	rows = json_loads(r->out, 0, NULL);
	CHECK(json_array_size(rows) == 2);
	for (size_t i = 0; i < 2; i++)
		CHECK(!strcmp(json_string_value(json_object_get(json_array_get(rows, i), "algo")), algo));
	json_decref(rows);
}

static void groups_follow_the_file(void)
{
	setenv("TAUT_TUNE_FILE", file, 1);
	write_file("taut.tune 1\nbest all_reduce 2 1 0 * 0 ring bulk 1 0\n");
	bench_takes("2", "ring");
	bench_takes("3", "ring");
	write_file("taut.tune 1\nbest all_reduce 3 1 4000 5000 0 tree ll 1 0\n");
	bench_takes("3", "tree");
	unsetenv("TAUT_TUNE_FILE");
}

static void a_broken_file_is_written_anew(void)
{
	write_file("taut.tune 1\nbest all_reduce\n");
	must(TAUT("tune", "-n", "2", "-q", "-t", "0.1", "-c", "barrier", "-w", "auto", "-o", file), 0);
	tune_free(load());
}

static void what_is_wrong_is_told(void)
{
	static char *const bad[][2] = { { "--ranks", "1" },	 { "--ranks", "2,,4" },
					{ "--ranks", "x" },	 { "--ranks", "2000" },
					{ "--wire", "ib" },	 { "--collectives", "all_rduce" },
					{ "--collectives", "" }, { "--time", "0" },
					{ "--time", "1x" },	 { "--quick", "more" },
					{ "--nonsense", "1" } };
	struct ran *r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		r = TAUT("tune", bad[i][0], bad[i][1]);
		must(r, 2);
		CHECK(strstr(r->err, "taut tune"));
	}
	r = TAUT("tune", "-n", "2", "-q", "-t", "0.1", "-c", "barrier", "-w", "auto", "-o", "/dev/null/x/y.tune");
	must(r, 1);
	CHECK(strstr(r->err, "/dev/null"));
	setenv("TAUT_SLOTS", "many", 1);
	must(TAUT("tune", "-n", "2"), 1);
	unsetenv("TAUT_SLOTS");
}

/* The ranks of a launcher are measured as they are. */
static void a_job_is_measured(void)
{
	struct tune *t;

	must(TAUT("run", "-n", "3", taut_command(), "tune", "-q", "-t", "0.1", "-c", "barrier", "-o", file), 0);
	t = load();
	CHECK(lines_of(t, COLL_BARRIER, 3, 1) == 1);
	tune_free(t);
	must(TAUT("run", "-n", "2", taut_command(), "tune", "--ranks", "2"), 2);
}

int main(void)
{
	taut_command(); /* or skip */
	snprintf(folder, sizeof(folder), "/tmp/taut-test-tune-command-%d", (int)getpid());
	snprintf(file, sizeof(file), "%s/x.tune", folder);
	CHECK(mkdir(folder, 0700) == 0);
	atexit(cleanup);
	setenv("XDG_CACHE_HOME", folder, 1);
	measures_and_writes();
	prints_a_table();
	groups_follow_the_file();
	a_broken_file_is_written_anew();
	what_is_wrong_is_told();
	a_job_is_measured();
	return 0;
}
