/* SPDX-License-Identifier: Apache-2.0 */
/* taut_comm_abort() from a thread of one rank, in every state: all calls on all ranks end, later
 * ones too, and the communicator can be destroyed. */
#include <pthread.h>

#include "phases.h"

#define BUFFER 1000000

static float in[BUFFER], out[BUFFER];

/* --- waiting for a rank that does not come --- */
typedef enum taut_status (*call_fn)(struct taut_comm *c, int last);

static enum taut_status wait_sum(struct taut_comm *c, int last)
{
	(void)last;
	return taut_all_reduce(in, out, 5, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status wait_big_sum(struct taut_comm *c, int last)
{
	(void)last;
	return taut_all_reduce(in, out, BUFFER, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status wait_recv(struct taut_comm *c, int last)
{
	return taut_recv(in, 8, TAUT_FLOAT32, last, 0, c, NULL);
}

static enum taut_status wait_send(struct taut_comm *c, int last)
{
	enum taut_status st = TAUT_OK;

	while (!st) /* until there is no credit left */
		st = taut_send(in, BUFFER, TAUT_FLOAT32, last, 0, c, NULL);
	return st;
}

static enum taut_status wait_group(struct taut_comm *c, int last)
{
	taut_group_start();
	taut_all_reduce(in, out, 5, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	taut_recv(in + 10, 8, TAUT_FLOAT32, last, 0, c, NULL);
	taut_send(out + 100, BUFFER - 100, TAUT_FLOAT32, last, 0, c, NULL);
	return taut_group_end();
}

static enum taut_status wait_stream(struct taut_comm *c, int last)
{
	(void)last;
	return on_stream(c);
}

static enum taut_status wait_split(struct taut_comm *c, int last)
{
	struct taut_comm *d;

	(void)last;
	return taut_comm_split(&d, c, 0, 0, NULL);
}

static enum taut_status wait_alloc(struct taut_comm *c, int last)
{
	void *p;

	(void)last;
	return taut_mem_alloc(&p, 100, c);
}

static const struct {
	const char *name;
	call_fn fn;
} waits[] = { { "all_reduce", wait_sum }, { "big all_reduce", wait_big_sum },
	      { "recv", wait_recv },	  { "send", wait_send },
	      { "group", wait_group },	  { "stream", wait_stream },
	      { "split", wait_split },	  { "mem_alloc", wait_alloc } };
#define WAITS (int)(sizeof(waits) / sizeof(waits[0]))

/* --- one trial --- */
struct trial {
	enum phase phase;
	int wait; /* -1: none, all are in @phase */
	bool tcp;
	int by; /* who aborts; -1: all at once */
};

static void *abort_soon(void *arg)
{
	wait_for(&page->gate, 1);
	CHECK(taut_comm_abort(arg) == TAUT_OK);
	CHECK(taut_comm_abort(arg) == TAUT_OK);
	return NULL;
}

static enum taut_status work(struct taut_comm *comm, const struct trial *t, int rank, int size)
{
	enum taut_status st = TAUT_OK;

	if (t->wait >= 0 && rank != size - 1)
		return waits[t->wait].fn(comm, size - 1);
	while (!st)
		st = once(comm, t->wait >= 0 ? IDLE : t->phase);
	return st;
}

static void later_calls(struct taut_comm *comm)
{
	struct taut_comm *d;
	void *p;

	CHECK(taut_comm_status(comm) == TAUT_ERR_ABORTED);
	CHECK(wait_sum(comm, 0) == TAUT_ERR_ABORTED && taut_error_message()[0]);
	CHECK(messages(comm) == TAUT_ERR_ABORTED);
	CHECK(on_stream(comm) == TAUT_ERR_ABORTED);
	CHECK(taut_comm_dup(&d, comm, NULL) == TAUT_ERR_ABORTED);
	CHECK(taut_mem_alloc(&p, 10, comm) == TAUT_ERR_ABORTED);
	CHECK(taut_comm_abort(comm) == TAUT_OK);
}

static void run_rank(int rank, int size, void *arg)
{
	const struct trial *t = arg;
	bool mine = t->by == rank || t->by < 0;
	struct taut_comm *comm;
	pthread_t thread;

	set_wire(t->phase);
	if (t->tcp)
		setenv("TAUT_WIRE", "tcp", 1);
	comm = join_all(rank, size);
	if (mine)
		CHECK(!pthread_create(&thread, NULL, abort_soon, comm));
	say(rank, work(comm, t, rank, size));
	if (mine)
		pthread_join(thread, NULL);
	later_calls(comm);
	taut_comm_destroy(comm);
}

static void one(const struct trial *t, int size, const char *name)
{
	start(size, run_rank, (void *)(uintptr_t)t);
	wait_for(&page->here, size);
	sleep_ms(10);
	atomic_store(&page->gate, 1);
	if (!finish(size, 0, name))
		return;
	for (int r = 0; r < size; r++)
		if (page->said[r].st != TAUT_ERR_ABORTED || !strstr(page->said[r].text, "rank ")) {
			fprintf(stderr, "abort in %s: rank %d of %d was told %s \"%s\"\n", name, r, size,
				taut_status_name(page->said[r].st), page->said[r].text);
			failures++;
		}
	if (t->by >= 0)
		all_told(size, 0, TAUT_ERR_ABORTED, name);
}

/* Nobody else knows of it yet. */
static void alone(int rank, int size, void *arg)
{
	struct taut_comm *comm = join_all(rank, size);

	(void)arg;
	CHECK(taut_comm_abort(comm) == TAUT_OK && taut_comm_abort(comm) == TAUT_OK);
	later_calls(comm);
	taut_comm_destroy(comm);
	CHECK(taut_comm_abort(NULL) == TAUT_ERR_ARG);
}

int main(void)
{
	setenv("TAUT_LOG", "none", 0);
	for (int p = IDLE; p < PHASES; p++) {
		struct trial t = { .phase = (enum phase)p, .wait = -1, .by = p % 3 - (p % 5 == 0) };

		one(&t, 2 + p % 3 - (p % 3 == 2), phase_names[p]);
	}
	for (int w = 0; w < 2 * WAITS; w++) {
		struct trial t = { .wait = w % WAITS, .tcp = w >= WAITS, .by = w % 2 ? 2 : 0 };

		if (t.tcp && !strcmp(waits[t.wait].name, "mem_alloc"))
			continue; /* waits for nobody there */
		one(&t, 3, waits[t.wait].name);
	}
	start(1, alone, NULL);
	finish(1, 0, "a group of one");
	start(2, alone, NULL);
	finish(2, 0, "at once");
	printf("abort: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
