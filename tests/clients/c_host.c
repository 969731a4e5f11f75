/* SPDX-License-Identifier: Apache-2.0 */
/* A program as its users write it for NCCL, on host memory: one process a rank, the id in a file. It learns a line of
 * weights from data that is dealt to the ranks, spreads heat along a rod that they share, and compares both with
 * one process doing it all. Run by c_host.sh. To run it: c_host RANK RANKS FILE, in a process for each rank. */
#include <math.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS 16
#define ROWS 64 /* of all ranks together, in each step */
#define STEPS 200
#define CELLS 40 /* of one rank */
#define TICKS 300

static void check(ncclResult_t r, const char *what)
{
	if (r == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(r), ncclGetLastError(NULL));
	exit(1);
}

static void want(int holds, const char *what, int rank)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	exit(1);
}

/* --- the id: written under another name first, so that it is whole when it is there --- */
static void put_id(const ncclUniqueId *id, const char *path)
{
	char temporary[4096];
	FILE *f;

	snprintf(temporary, sizeof(temporary), "%s.part", path);
	f = fopen(temporary, "wb");
	if (!f || fwrite(id, sizeof(*id), 1, f) != 1 || fclose(f) || rename(temporary, path)) {
		perror(temporary);
		exit(1);
	}
}

static void get_id(ncclUniqueId *id, const char *path)
{
	FILE *f;

	while (!(f = fopen(path, "rb")))
		sched_yield();
	if (fread(id, sizeof(*id), 1, f) != 1) {
		perror(path);
		exit(1);
	}
	fclose(f);
}

/* --- learning --- */
static double feature(int row, int i)
{
	return (double)((row * 37 + i * 11 + row * i) % 19 - 9) / 9;
}

static double target(int row)
{
	double y = 0;

	for (int i = 0; i < WEIGHTS; i++)
		y += feature(row, i) * (i - WEIGHTS / 2);
	return y;
}

/* Adds to @grad what rows @from, @from + @stride ... say of @w. */
static void learn_from(const double *w, double *grad, int step, int from, int stride)
{
	for (int k = from; k < ROWS; k += stride) {
		int row = step * ROWS + k;
		double off = -target(row);

		for (int i = 0; i < WEIGHTS; i++)
			off += feature(row, i) * w[i];
		for (int i = 0; i < WEIGHTS; i++)
			grad[i] += off * feature(row, i);
	}
}

static void learn(double *w, ncclComm_t comm, int rank, int ranks)
{
	double *grad, *sum;

	check(ncclMemAlloc((void **)&grad, WEIGHTS * sizeof(*grad)), "ncclMemAlloc");
	check(ncclMemAlloc((void **)&sum, WEIGHTS * sizeof(*sum)), "ncclMemAlloc");
	check(ncclBroadcast(w, w, WEIGHTS, ncclDouble, 0, comm, NULL), "ncclBroadcast");
	for (int step = 0; step < STEPS; step++) {
		memset(grad, 0, WEIGHTS * sizeof(*grad));
		learn_from(w, grad, step, rank, ranks);
		check(ncclAllReduce(grad, sum, WEIGHTS, ncclDouble, ncclSum, comm, NULL), "ncclAllReduce");
		for (int i = 0; i < WEIGHTS; i++)
			w[i] -= 0.02 * sum[i];
	}
	check(ncclMemFree(grad), "ncclMemFree");
	check(ncclMemFree(sum), "ncclMemFree");
}

static void learning(ncclComm_t comm, int rank, int ranks)
{
	double w[WEIGHTS], alone[WEIGHTS] = { 0 }, *all = malloc((size_t)ranks * sizeof(w));
	double off = 0;

	for (int i = 0; i < WEIGHTS; i++)
		w[i] = rank; /* rank 0's count */
	learn(w, comm, rank, ranks);
	for (int step = 0; step < STEPS; step++) {
		double grad[WEIGHTS] = { 0 };

		learn_from(alone, grad, step, 0, 1);
		for (int i = 0; i < WEIGHTS; i++)
			alone[i] -= 0.02 * grad[i];
	}
	for (int i = 0; i < WEIGHTS; i++) {
		off = fmax(off, fabs(w[i] - alone[i]));
		want(fabs(alone[i] - (i - WEIGHTS / 2)) < 0.01, "one process alone does not learn", rank);
	}
	want(off < 1e-9, "the ranks together learn something else than one process", rank);
	want(all != NULL, "no memory", rank);
	check(ncclAllGather(w, all, WEIGHTS, ncclDouble, comm, NULL), "ncclAllGather");
	for (int r = 0; r < ranks; r++)
		want(!memcmp(all + (size_t)r * WEIGHTS, w, sizeof(w)), "weights differ between ranks", rank);
	free(all);
}

/* --- heat: each rank has CELLS cells and one more on each side, its neighbour's --- */
static void tick(double *to, const double *from, int cells)
{
	for (int i = 1; i <= cells; i++)
		to[i] = from[i] + 0.25 * (from[i - 1] - 2 * from[i] + from[i + 1]);
}

static void swap_edges(double *cell, ncclComm_t comm, int rank, int ranks)
{
	check(ncclGroupStart(), "ncclGroupStart");
	if (rank > 0) {
		check(ncclSend(cell + 1, 1, ncclDouble, rank - 1, comm, NULL), "ncclSend");
		check(ncclRecv(cell, 1, ncclDouble, rank - 1, comm, NULL), "ncclRecv");
	}
	if (rank < ranks - 1) {
		check(ncclSend(cell + CELLS, 1, ncclDouble, rank + 1, comm, NULL), "ncclSend");
		check(ncclRecv(cell + CELLS + 1, 1, ncclDouble, rank + 1, comm, NULL), "ncclRecv");
	}
	check(ncclGroupEnd(), "ncclGroupEnd");
}

static void heat(ncclComm_t comm, int rank, int ranks)
{
	size_t all = (size_t)ranks * CELLS + 2;
	double cell[2][CELLS + 2] = { { 0 } }, *rod[2] = { calloc(all, sizeof(double)), calloc(all, sizeof(double)) };

	want(rod[0] && rod[1], "no memory", rank);
	rod[0][all / 2] = 1000;
	memcpy(cell[0] + 1, rod[0] + 1 + rank * CELLS, CELLS * sizeof(double));
	for (int t = 0; t < TICKS; t++) {
		swap_edges(cell[t % 2], comm, rank, ranks);
		tick(cell[1 - t % 2], cell[t % 2], CELLS);
		tick(rod[1 - t % 2], rod[t % 2], (int)all - 2);
	}
	want(!memcmp(cell[TICKS % 2] + 1, rod[TICKS % 2] + 1 + rank * CELLS, CELLS * sizeof(double)),
	     "heat spreads otherwise than in one process", rank);
	free(rod[0]);
	free(rod[1]);
}

int main(int argc, char **argv)
{
	int rank, ranks, size, version;
	ncclUniqueId id;
	ncclComm_t comm;

	if (argc != 4) {
		fprintf(stderr, "usage: c_host RANK RANKS FILE\n");
		return 1;
	}
	rank = atoi(argv[1]);
	ranks = atoi(argv[2]);
	check(ncclGetVersion(&version), "ncclGetVersion");
	if (rank == 0) {
		check(ncclGetUniqueId(&id), "ncclGetUniqueId");
		put_id(&id, argv[3]);
	} else {
		get_id(&id, argv[3]);
	}
	check(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
	check(ncclCommCount(comm, &size), "ncclCommCount");
	want(size == ranks, "a communicator of another size", rank);
	learning(comm, rank, ranks);
	heat(comm, rank, ranks);
	check(ncclCommFinalize(comm), "ncclCommFinalize");
	check(ncclCommDestroy(comm), "ncclCommDestroy");
	printf("rank %d of %d: ok, NCCL %d\n", rank, ranks, version);
	return 0;
}
