/* SPDX-License-Identifier: Apache-2.0 */
/* One of two ranks has no more memory from its nth allocation on, for growing n: every call ends, with a
 * sentence on both ranks, and nothing crashes. */
#include "base/mem.h"
#include "failing.h"

#define JOIN_MS 1500
#define AT_ONCE 6

struct trial {
	long n;
	int who;
	const char *wire;
};

static enum taut_status all_calls(struct taut_comm *c, int rank)
{
	static float in[60000], out[60000];
	struct taut_comm *d = NULL;
	struct taut_stream *s = NULL;
	enum taut_status st;

	st = taut_all_reduce(in, out, 4, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	if (!st)
		st = taut_all_reduce(in, out, 60000, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	if (!st)
		st = taut_sendrecv(in, 30000, 1 - rank, 0, out, 30000, 1 - rank, 0, TAUT_FLOAT32, c, NULL);
	if (!st)
		st = rank ? taut_send(in, 3, TAUT_FLOAT32, 0, 0, c, NULL)
			  : taut_recv(in, 3, TAUT_FLOAT32, 1, 0, c, NULL);
	if (!st)
		st = taut_stream_create(&s);
	if (!st)
		st = taut_broadcast(in, out, 100, TAUT_FLOAT32, 0, c, s);
	if (s) {
		enum taut_status end = taut_stream_wait(s);

		st = st ? st : end;
		taut_stream_destroy(s);
	}
	if (!st)
		st = taut_comm_dup(&d, c, NULL);
	if (!st)
		st = taut_barrier(d, NULL);
	taut_comm_destroy(d);
	return st;
}

static void run_rank(int rank, int size, void *arg)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = JOIN_MS };
	const struct trial *t = arg;
	struct taut_comm *comm = NULL;
	enum taut_status st;

	setenv("TAUT_WIRE", t->wire, 1);
	share_id(rank);
	if (rank == t->who)
		mem_fail_from(t->n);
	st = taut_comm_create(&comm, &page->id, rank, size, &opts);
	if (!st)
		st = all_calls(comm, rank);
	say(rank, st);
	taut_comm_destroy(comm);
	mem_fail_from(0);
	CHECK(!st || page->said[rank].text[0]);
}

/* Ends with 2 when nothing failed on either rank. */
static void one(struct trial t)
{
	page = NULL;
	failures = 0;
	start(2, run_rank, &t);
	finish(2, 0, "no memory");
	if (!page->said[0].st != !page->said[1].st) {
		fprintf(stderr, "one rank alone was told: %s \"%s\", %s \"%s\"\n", taut_status_name(page->said[0].st),
			page->said[0].text, taut_status_name(page->said[1].st), page->said[1].text);
		failures++;
	}
	if (failures)
		fprintf(stderr, "no memory from allocation %ld on, on rank %d over %s\n", t.n, t.who, t.wire);
	if (getenv("SAY"))
		fprintf(stderr, "%ld: %s / %s\n", t.n, page->said[0].text, page->said[1].text);
	exit(failures ? 1 : page->said[0].st ? 0 : 2);
}

/* The number of trials that ended without any failure. */
static int await(int *running, int most)
{
	int status, clean = 0;

	for (; *running > most; --*running) {
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 1)
			failures++;
		else if (WEXITSTATUS(status) == 2)
			clean++;
	}
	return clean;
}

int main(int argc, char **argv)
{
	long step = argc > 1 ? atol(argv[1]) : 0; /* 0: grows */
	int running = 0;

	setenv("TAUT_LOG", "none", 0);
	setenv("TAUT_TUNE_FILE", "/dev/null", 0);
	fflush(NULL);
	for (int v = 0; v < 2; v++) {
		int clean = 0;

		for (long n = 1; clean < 6 && n < 5000; n += step ? step : 1 + n / 12) {
			struct trial t = { n, v, v ? "tcp" : "shm" };

			if (fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				one(t);
			}
			running++;
			clean += await(&running, AT_ONCE);
		}
		clean += await(&running, 0);
		CHECK(clean > 0); /* the end was reached */
	}
	printf("no memory: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
