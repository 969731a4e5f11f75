/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce in a bare loop: what a program of one's own sees, against which bench/peers
 * holds `taut bench`. Processes of this machine, each on one processor; float, sum.
 *   bare_loop RANKS SIZES SECONDS     comma list of bytes; one JSON object a line
 * Links to libtaut only. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <taut/taut.h>

#define MAX_REPS 201

static int rank, size;
static struct taut_comm *comm;

static void need(enum taut_status st)
{
	if (!st)
		return;
	fprintf(stderr, "bare_loop: rank %d: %s\n", rank, taut_error_message());
	exit(EXIT_FAILURE);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void slowest(double *t, int n)
{
	need(taut_all_reduce(t, t, (size_t)n, TAUT_FLOAT64, TAUT_MAX, comm, NULL));
}

static double loop(const float *in, float *out, size_t n, int calls)
{
	enum taut_status st = TAUT_OK;
	double start;

	need(taut_barrier(comm, NULL));
	need(taut_barrier(comm, NULL));
	start = now();
	for (int i = 0; i < calls; i++)
		st |= taut_all_reduce(in, out, n, TAUT_FLOAT32, TAUT_SUM, comm, NULL);
	start = now() - start;
	need(st);
	return start;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const float *in, float *out, size_t bytes, double seconds)
{
	double t[MAX_REPS], est = 0;
	int calls = 3, reps;

	do { /* warm up */
		calls *= 4;
		est = loop(in, out, bytes / 4, calls);
		slowest(&est, 1);
	} while (est < 0.02);
	est /= calls;
	calls = (int)(2e-3 / est);
	calls = calls > 4000 ? 4000 : calls < 1 ? 1 : calls;
	if (bytes <= 32768 && calls < 10)
		calls = 10;
	reps = (int)(seconds / (est * calls));
	reps = reps < 7 ? 7 : reps > MAX_REPS ? MAX_REPS : reps;
	for (int i = 0; i < reps; i++)
		t[i] = loop(in, out, bytes / 4, calls) / calls;
	slowest(t, reps);
	qsort(t, (size_t)reps, sizeof(t[0]), by_value);
	if (rank == 0)
		printf("{\"collective\": \"all_reduce\", \"bytes\": %zu, \"ranks\": %d, \"time_us\": %.4f, \"min_us\": "
		       "%.4f, "
		       "\"max_us\": %.4f, \"wrong\": 0}\n",
		       bytes, size, t[reps / 2] * 1e6, t[0] * 1e6, t[reps - 1] * 1e6);
	fflush(stdout);
}

static void bind_to(int n)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < size)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static int run_rank(int pipe_fds[2], char *sizes, double seconds)
{
	struct taut_id id;
	float *in, *out;
	size_t max = 0;
	ssize_t moved = sizeof(id);

	bind_to(rank);
	if (rank == 0)
		need(taut_id_create(&id));
	for (int r = 1; r < size && rank == 0; r++)
		moved = write(pipe_fds[1], &id, sizeof(id));
	if (rank)
		moved = read(pipe_fds[0], &id, sizeof(id));
	if (moved != sizeof(id))
		return EXIT_FAILURE;
	need(taut_comm_create(&comm, &id, rank, size, NULL));
	for (char *p = sizes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		max = strtoull(p, NULL, 10) > max ? strtoull(p, NULL, 10) : max;
	if (posix_memalign((void **)&in, 4096, max) || posix_memalign((void **)&out, 4096, max))
		return EXIT_FAILURE;
	memset(in, 0, max);
	memset(out, 0, max);
	for (char *p = sizes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		measure(in, out, strtoull(p, NULL, 10), seconds);
	need(taut_barrier(comm, NULL));
	taut_comm_destroy(comm);
	free(in);
	free(out);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	int fds[2], status, bad = 0;

	if (argc != 4 || (size = atoi(argv[1])) < 1 || pipe(fds)) {
		fprintf(stderr, "usage: bare_loop RANKS SIZES SECONDS\n");
		return 2;
	}
	for (rank = 0; rank < size; rank++)
		if (fork() == 0)
			return run_rank(fds, argv[2], atof(argv[3]));
	while (wait(&status) > 0)
		bad |= status;
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
