/* SPDX-License-Identifier: Apache-2.0 */
/* `taut bench` when something goes wrong: a command line that is not understood, a file that
 * cannot be written, a size that no memory holds, a rank that is killed, bench itself killed. */
#include "run_taut.h"

static void usage(char *coll, char *option, char *value, const char *says)
{
	struct ran *r = TAUT("bench", coll, option, value);

	if (r->code != 2 || !strstr(r->err, says))
		fprintf(stderr, "%s %s %s: %d %s\n", coll, option, value, r->code, r->err);
	CHECK(r->code == 2 && strstr(r->err, says) && !r->out[0]);
}

static void fails(char *option, char *value, const char *says)
{
	struct ran *r = TAUT("bench", "all_reduce", "--ranks", "3", "--sizes", "8", option, value);

	if (r->code != 1 || !strstr(r->err, says))
		fprintf(stderr, "%s %s: %d %s\n", option, value, r->code, r->err);
	CHECK(r->code == 1 && strstr(r->err, says));
	CHECK(strchr(r->err, '\n') == r->err + strlen(r->err) - 1); /* said once */
}

/* The pids of the ranks of bench @pid; returns their number. */
static int ranks_of(pid_t pid, int *ranks, int max)
{
	char path[64];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "r");
	while (f && n < max && fscanf(f, "%d", &ranks[n]) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

static void gone(int pid)
{
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		char path[64], state = 'X';
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		f = fopen(path, "r");
		if (!f)
			return;
		if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = 'X';
		fclose(f);
		if (state == 'Z' || state == 'X') /* nobody has to reap orphans in a container */
			return;
		pause_ms(10);
	}
	fprintf(stderr, "process %d is still there\n", pid);
	exit(1);
}

/* Starts a long run and waits until its ranks measure. */
static pid_t start_long(int out, int err, int ranks[3])
{
	pid_t pid =
		TAUT_START(out, err, "bench", "all_reduce", "--ranks", "3", "--sizes", "8,16", "--iters", "1000000");

	wait_for(out, "(elements)", 1);
	CHECK(ranks_of(pid, ranks, 3) == 3);
	return pid;
}

static void a_killed_rank_ends_the_run(void)
{
	static char text[OUTPUT_MAX];
	int out = output_file(), err = output_file(), ranks[3];
	pid_t pid = start_long(out, err, ranks);

	kill(ranks[1], SIGKILL);
	CHECK(taut_wait(pid) == 1);
	output_text(err, text);
	if (!strstr(text, "rank 1 (process ") || !strstr(text, "signal 9"))
		fprintf(stderr, "%s", text);
	CHECK(strstr(text, "rank 1 (process ") && strstr(text, "signal 9"));
	for (int r = 0; r < 3; r++)
		gone(ranks[r]);
	close(out);
	close(err);
}

static void nothing_is_left_when_bench_is_killed(void)
{
	int out = output_file(), err = output_file(), ranks[3];
	pid_t pid = start_long(out, err, ranks);

	kill(pid, SIGKILL);
	CHECK(taut_wait(pid) == 128 + SIGKILL);
	for (int r = 0; r < 3; r++)
		gone(ranks[r]);
	close(out);
	close(err);
}

static void sizes_without_an_element_are_left_out(void)
{
	struct ran *r = TAUT("bench", "all_gather", "--ranks", "3", "--sizes", "8,12", "--iters", "1", "--batch", "1");

	CHECK(r->code == 0);
	CHECK(strstr(r->out, "# size 8 left out: less than one float for each of 3 ranks\n"));
}

int main(void)
{
	usage("all_reduc", "--ranks", "2", "unknown collective all_reduc: want one of all_reduce, ");
	usage("all_reduce", "--sizes", "many", "size many: want a number of bytes");
	usage("all_reduce", "--wire", "pigeon", "--wire pigeon: want auto, shm or tcp");
	fails("--json", "/nonexistent/file.json", "cannot write /nonexistent/file.json: No such file or directory");
	fails("--sizes", "200T", "use smaller --sizes or fewer ranks");
	fails("--algo", "pigeon", "no algorithm is called \"pigeon\"");
	a_killed_rank_ends_the_run();
	nothing_is_left_when_bench_is_killed();
	sizes_without_an_element_are_left_out();
	return 0;
}
