/* SPDX-License-Identifier: Apache-2.0 */
/* Wires that misbehave (TAUT_FAULT) under the public calls: a failure on one rank is an error on all of
 * them; delays and AGAIN for no reason change no result. */
#include "phases.h"

/* --- results --- */
static int32_t value(int rank, size_t i)
{
	return (int32_t)(i % 1009) + 1000 * rank;
}

static void fill(int32_t *p, int rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = value(rank, i);
}

/* Block @from of @rank's numbers. */
static void check_block(const int32_t *p, int rank, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value(rank, from + i)) {
			fprintf(stderr, "element %zu is %d, wanted %d\n", i, (int)p[i], (int)value(rank, from + i));
			exit(1);
		}
}

static void check_sum(const int32_t *p, int size, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (int32_t)((from + i) % 1009) * size + 1000 * (size * (size - 1) / 2)) {
			fprintf(stderr, "sum %zu is %d\n", i, (int)p[i]);
			exit(1);
		}
}

static void reductions(struct taut_comm *c, const int32_t *in, int32_t *out, size_t n, int rank, int size)
{
	int root = size - 1;

	CHECK(taut_all_reduce(in, out, n, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
	check_sum(out, size, 0, n);
	CHECK(taut_reduce_scatter(in, out, n, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
	check_sum(out, size, (size_t)rank * n, n);
	CHECK(taut_reduce(in, out, n, TAUT_INT32, TAUT_SUM, root, c, NULL) == TAUT_OK);
	if (rank == root)
		check_sum(out, size, 0, n);
}

static void moves(struct taut_comm *c, const int32_t *in, int32_t *out, size_t n, int rank, int size)
{
	size_t counts[MOST];

	for (int r = 0; r < size; r++)
		counts[r] = n;
	for (int v = 0; v < 2; v++) {
		enum taut_status st = v ? taut_all_gather_v(in, out, counts, NULL, TAUT_INT32, c, NULL)
					: taut_all_gather(in, out, n, TAUT_INT32, c, NULL);

		CHECK(st == TAUT_OK);
		for (int r = 0; r < size; r++)
			check_block(out + (size_t)r * n, r, 0, n);
	}
	CHECK(taut_all_to_all(in, out, n, TAUT_INT32, c, NULL) == TAUT_OK);
	for (int r = 0; r < size; r++)
		check_block(out + (size_t)r * n, r, (size_t)rank * n, n);
	CHECK(taut_broadcast(in, out, n, TAUT_INT32, 0, c, NULL) == TAUT_OK);
	check_block(out, 0, 0, n);
	CHECK(taut_scatter(in, out, n, TAUT_INT32, 0, c, NULL) == TAUT_OK);
	check_block(out, 0, (size_t)rank * n, n);
	CHECK(taut_gather(in, out, n, TAUT_INT32, 0, c, NULL) == TAUT_OK);
	for (int r = 0; r < size && rank == 0; r++)
		check_block(out + (size_t)r * n, r, 0, n);
	CHECK(taut_sendrecv(in, n, (rank + 1) % size, 3, out, n, (rank + size - 1) % size, 3, TAUT_INT32, c, NULL) ==
	      TAUT_OK);
	check_block(out, (rank + size - 1) % size, 0, n);
	CHECK(taut_barrier(c, NULL) == TAUT_OK);
}

struct trial {
	char fault[32];
	const char *wire;
	int size, who; /* who: the rank whose wires fail; -1: all */
};

static void set_trial(const struct trial *t, int rank)
{
	setenv("TAUT_WIRE", t->wire, 1);
	if (t->who < 0 || rank == t->who)
		setenv("TAUT_FAULT", t->fault, 1);
}

static void results(int rank, int size, void *arg)
{
	static const size_t counts[] = { 1, 300, 9000, 70000 };
	struct taut_comm *comm;

	set_trial(arg, rank);
	comm = join_all(rank, size);
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		size_t len = counts[k] * (size_t)size;
		int32_t *in = malloc(len * 4), *out = malloc(len * 4);

		fill(in, rank, len);
		reductions(comm, in, out, counts[k], rank, size);
		moves(comm, in, out, counts[k], rank, size);
		free(in);
		free(out);
	}
	CHECK(messages(comm) == TAUT_OK);
	taut_comm_destroy(comm);
}

/* --- failures --- */
static enum taut_status mix(struct taut_comm *c, int i)
{
	static float in[80000], out[80000];
	size_t n = i % 2 ? 20000 : 5;

	switch (i % 6) {
	case 0:
	case 1:
		return taut_all_reduce(in, out, n, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	case 2:
	case 3:
		return taut_all_to_all(in, out, n, TAUT_FLOAT32, c, NULL);
	case 4:
		return messages(c);
	default:
		return taut_broadcast(in, out, n, TAUT_FLOAT32, 1, c, NULL);
	}
}

static void failing(int rank, int size, void *arg)
{
	struct taut_comm *comm;
	enum taut_status st = TAUT_OK;

	set_trial(arg, rank);
	comm = join_all(rank, size);
	for (int i = 0; i < 400 && !st; i++)
		st = mix(comm, i);
	say(rank, st);
	CHECK(st != TAUT_OK && page->said[rank].text[0]);
	CHECK(taut_barrier(comm, NULL) == st);
	taut_comm_destroy(comm);
}

/* A process of its own for each trial: most of the time goes by with waiting. */
static pid_t begin(struct trial t, rank_fn fn)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	page = NULL;
	failures = 0;
	start(t.size, fn, &t);
	finish(t.size, 0, t.fault);
	if (failures)
		fprintf(stderr, "%s on rank %d of %d over %s\n", t.fault, t.who, t.size, t.wire);
	if (getenv("SAY"))
		fprintf(stderr, "%s %s: %s / %s\n", t.wire, t.fault, page->said[0].text, page->said[1].text);
	exit(failures != 0);
}

static void await(int *running, int most)
{
	int status;

	for (; *running > most; --*running)
		if (wait(&status) < 0 || status)
			failures++;
}

int main(void)
{
	static const char *const wires[] = { "shm", "tcp" };
	static const char *const harmless[] = { "shuffle:1", "shuffle:77", "delay:300:20", "delay:2000:2" };
	static const int numbers[] = { 1, 2, 3, 4, 5, 7, 10, 14, 20, 29, 41, 60, 90 };
	int running = 0;

	setenv("TAUT_LOG", "none", 0);
	fflush(NULL);
	for (int w = 0; w < 2; w++)
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			struct trial t = { .wire = wires[w], .size = 2 + (int)i % 3, .who = (int)i % 2 };

			snprintf(t.fault, sizeof(t.fault), "fail:%d", numbers[i]);
			begin(t, failing);
			snprintf(t.fault, sizeof(t.fault), "truncate:%d", numbers[i]);
			running++;
			if (i % 3 == 0) {
				begin(t, failing);
				running++;
			}
			await(&running, 7);
		}
	for (int w = 0; w < 2; w++)
		for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
			struct trial t = { .wire = wires[w], .size = 2 + (int)i % 3, .who = -1 };

			snprintf(t.fault, sizeof(t.fault), "%s", harmless[i]);
			begin(t, results);
			running++;
			await(&running, 3);
		}
	await(&running, 0);
	printf("faults: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
