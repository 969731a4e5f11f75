/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of any MPI on host memory, timed as `taut bench` times taut's: warm-up of at
 * least 20 ms; a repetition is a batch of back-to-back calls of about 2 ms (ten at least up to
 * 32 KiB) between barriers, its time the slowest rank's; then one verified call. float, sum.
 * Built and run by bench/peers:
 *   peer_mpi COLLECTIVES SIZES SECONDS     comma lists; one JSON object a line on standard output
 *   peer_mpi startup                       the clock when the first all-reduce is done
 * A size is the larger buffer of a rank. broadcast is in place, as MPI has it, and takes
 * another root each call. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_REPS 201

enum coll { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL, COLLS };
static const char *const names[COLLS] = { "all_reduce", "all_gather", "reduce_scatter", "broadcast",
					  "reduce",	"gather",     "scatter",	"all_to_all" };

static int rank, size;
static float *in, *out;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* @n: floats of the larger buffer. */
static void call(enum coll c, int n, int root)
{
	MPI_Comm w = MPI_COMM_WORLD;
	int block = n / size;

	switch (c) {
	case ALL_REDUCE:
		MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, w);
		break;
	case ALL_GATHER:
		MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, w);
		break;
	case REDUCE_SCATTER:
		MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, w);
		break;
	case BROADCAST:
		MPI_Bcast(out, n, MPI_FLOAT, root, w);
		break;
	case REDUCE:
		MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, root, w);
		break;
	case GATHER:
		MPI_Gather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, root, w);
		break;
	case SCATTER:
		MPI_Scatter(in, block, MPI_FLOAT, out, block, MPI_FLOAT, root, w);
		break;
	case ALL_TO_ALL:
		MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, w);
		break;
	default:
		break;
	}
}

/* --- Verification --- */

static float input(int i, int r)
{
	return (float)(i % 1021 + 3 * r + 1);
}

static float sum(int i)
{
	return (float)(size * (i % 1021 + 1) + 3 * size * (size - 1) / 2);
}

static float expected(enum coll c, int i, int n, int root)
{
	int block = n / size;

	switch (c) {
	case ALL_REDUCE:
	case REDUCE:
		return sum(i);
	case ALL_GATHER:
	case GATHER:
		return input(i % block, i / block);
	case REDUCE_SCATTER:
		return sum(rank * block + i);
	case SCATTER:
		return input(rank * block + i, root);
	case ALL_TO_ALL:
		return input(rank * block + i % block, i / block);
	default:
		return input(i, root);
	}
}

static long wrong(enum coll c, int n)
{
	int root = size - 1, count = c == REDUCE_SCATTER || c == SCATTER ? n / size : n;
	int has_output = (c != REDUCE && c != GATHER) || rank == root;
	long bad = 0;

	for (int i = 0; i < n; i++) {
		in[i] = input(i, rank);
		out[i] = c == BROADCAST && rank == root ? input(i, rank) : -1;
	}
	call(c, n, root);
	for (int i = 0; i < count && has_output; i++)
		bad += out[i] != expected(c, i, n, root);
	MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return bad;
}

/* --- Timing --- */

static double batch(enum coll c, int n, int calls)
{
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	start = now();
	for (int i = 0; i < calls; i++)
		call(c, n, i % size);
	return now() - start;
}

static double slowest(double t)
{
	MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return t;
}

/* The best time of a call, after at least 20 ms. */
static double warm_up(enum coll c, int n)
{
	double best = 1e9;
	int calls = 3;

	for (int round = 0; round < 12; round++) {
		double t = slowest(batch(c, n, calls));

		best = t / calls < best ? t / calls : best;
		if (t > 0.02 && round > 0)
			break;
		if (t <= 0.02)
			calls *= 4;
	}
	return best;
}

static int clamp(double v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : (int)v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(enum coll c, size_t bytes, double seconds)
{
	static double t[MAX_REPS];
	int n = (int)(bytes / sizeof(float));
	double est = warm_up(c, n);
	int calls = clamp(2e-3 / est, bytes <= 32768 ? 10 : 1, 4000);
	int reps = clamp(seconds / (est * calls), 7, MAX_REPS);
	long bad;

	for (int r = 0; r < reps; r++)
		t[r] = batch(c, n, calls) / calls;
	MPI_Allreduce(MPI_IN_PLACE, t, reps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(t, (size_t)reps, sizeof(t[0]), by_value);
	bad = wrong(c, n);
	if (rank == 0)
		printf("{\"collective\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"time_us\": %.4f, \"min_us\": %.4f, "
		       "\"max_us\": %.4f, \"wrong\": %ld}\n",
		       names[c], bytes, size, t[reps / 2] * 1e6, t[0] * 1e6, t[reps - 1] * 1e6, bad);
	fflush(stdout);
}

static int listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, name, len) && (p[len] == ',' || !p[len]))
			return 1;
	return 0;
}

static void measure_sizes(enum coll c, const char *sizes, double seconds)
{
	for (const char *p = sizes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		size_t bytes = strtoull(p, NULL, 10);
		int blocks = c == ALL_REDUCE || c == BROADCAST || c == REDUCE ? 1 : size;

		if (bytes && bytes % (sizeof(float) * (size_t)blocks) == 0)
			measure(c, bytes, seconds);
	}
}

static size_t largest(const char *sizes)
{
	size_t max = 0;

	for (const char *p = sizes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strtoull(p, NULL, 10) > max)
			max = strtoull(p, NULL, 10);
	return max;
}

static void startup(void)
{
	float v = 1;
	double t;

	MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	t = slowest(now());
	if (rank == 0)
		printf("{\"ranks\": %d, \"clock\": %.6f, \"wrong\": %d}\n", size, t, v != (float)size);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc == 2 && !strcmp(argv[1], "startup")) {
		startup();
	} else if (argc == 4) {
		size_t max = largest(argv[2]);

		if (posix_memalign((void **)&in, 4096, max) || posix_memalign((void **)&out, 4096, max))
			MPI_Abort(MPI_COMM_WORLD, 1);
		memset(in, 0, max);
		memset(out, 0, max);
		for (int c = 0; c < COLLS; c++)
			if (listed(argv[1], names[c]))
				measure_sizes((enum coll)c, argv[2], atof(argv[3]));
	} else {
		fprintf(stderr, "usage: peer_mpi COLLECTIVES SIZES SECONDS | peer_mpi startup\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Finalize();
	return 0;
}
