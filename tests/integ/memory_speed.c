/* SPDX-License-Identifier: Apache-2.0 */
/* A group knows how fast rank 0's memory is: measured by the first one, kept for the next; a tuning file goes before
 * it, and where nothing can be kept the group works without. */
#include "run_taut.h"

static struct ran *bench(void)
{
	struct ran *r = TAUT("bench", "all_reduce", "--ranks", "2", "--sizes", "8", "--iters", "2", "--warmup", "1");

	if (r->code)
		fprintf(stderr, "%s%s", r->out, r->err);
	CHECK(r->code == 0);
	return r;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fputs(text, f) >= 0);
	fclose(f);
}

static void remove_folder(const char *folder)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK(system(command) == 0);
}

int main(void)
{
	char folder[] = "/tmp/taut-speed-XXXXXX", path[128];
	struct ran *r;

	CHECK(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	setenv("TAUT_LOG", "info", 1);
	unsetenv("TAUT_TUNE_FILE");
	r = bench();
	if (strstr(r->err, "the machine is busy")) {
		printf("skipped: the machine is too busy to be measured\n");
		remove_folder(folder);
		return 77;
	}
	CHECK(strstr(r->err, "memory: copies of ") && strstr(r->err, "measured in ") && strstr(r->err, "kept in "));
	r = bench();
	CHECK(strstr(r->err, "memory: copies of ") && strstr(r->err, ", from ") && !strstr(r->err, "measured in "));

	snprintf(path, sizeof(path), "%s/taut/taut.tune", folder);
	write_file(path, "taut.tune 1\n");
	r = bench();
	CHECK(strstr(r->err, "memory: figures of the tuning file") && !strstr(r->err, "copies of "));

	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	r = bench();
	CHECK(strstr(r->err, "memory: figures of a usual server, not measured, as /dev/null/taut/"));
	remove_folder(folder);
	return 0;
}
