/* SPDX-License-Identifier: Apache-2.0 */
/* taut_comm_shrink() from every state: the group of the survivors works, in the old order,
 * and the old one can be destroyed before or after it. */
#include "phases.h"

enum state {
	AFTER_KILL, /* between calls */
	IN_CALL,    /* the kill comes while all are in calls */
	NOTHING_FAILED,
	AFTER_ABORT,
	AFTER_MISMATCH,
	STATES
};
static const char *const state_names[STATES] = { "after a kill", "inside calls", "nothing failed", "after an abort",
						 "after a mismatch" };

struct trial {
	enum state state;
	int size;
	unsigned dead, excluded; /* bit masks of ranks */
	bool twice;		 /* in a row */
	bool old_first;		 /* destroy the old group before the new one is used */
	enum phase phase;	 /* IN_CALL: which */
};

static int list_of(unsigned mask, int size, int *ranks)
{
	int n = 0;

	for (int r = 0; r < size; r++)
		if (mask >> r & 1)
			ranks[n++] = r;
	return n;
}

static void die(const struct trial *t, int rank)
{
	if (t->dead >> rank & 1)
		raise(SIGKILL);
}

/* Brings the group into the state; the dead do not come back from it. */
static void reach(struct taut_comm *comm, const struct trial *t, int rank, int size)
{
	enum taut_status st = TAUT_OK;
	float x[9] = { 0 };

	switch (t->state) {
	case AFTER_KILL:
		die(t, rank);
		break;
	case IN_CALL:
		/* The parent kills. */
		while (!st)
			st = once(comm, t->phase);
		CHECK(st == TAUT_ERR_PEER);
		break;
	case AFTER_ABORT:
		if (rank == size - 1)
			CHECK(taut_comm_abort(comm) == TAUT_OK);
		die(t, rank);
		break;
	case AFTER_MISMATCH:
		st = taut_all_reduce(x, x, rank ? 8 : 9, TAUT_FLOAT32, TAUT_SUM, comm, NULL);
		CHECK(st == TAUT_ERR_MISMATCH);
		die(t, rank);
		break;
	default:
		break;
	}
}

static struct taut_comm *shrink(struct taut_comm *comm, unsigned excluded, int size)
{
	int ranks[MOST];
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = 20000, .exclude = ranks };
	struct taut_comm *out = NULL;

	opts.num_exclude = list_of(excluded, size, ranks);
	CHECK(taut_comm_shrink(&out, comm, excluded ? &opts : NULL) == TAUT_OK);
	return out;
}

static void check_group(struct taut_comm *c, unsigned members, int rank, int size)
{
	int ranks[MOST], n = list_of(members, size, ranks);

	CHECK(taut_comm_size(c) == n);
	CHECK(taut_comm_rank(c) >= 0 && ranks[taut_comm_rank(c)] == rank);
	for (int i = 0; i < 3; i++)
		CHECK(all_reduce_ok(c, taut_comm_rank(c), n));
	CHECK(once(c, LARGE) == TAUT_OK && messages(c) == TAUT_OK && taut_barrier(c, NULL) == TAUT_OK);
}

static void run_rank(int rank, int size, void *arg)
{
	const struct trial *t = arg;
	struct taut_comm *comm = join_all(rank, size), *less, *again = NULL;
	unsigned members = ((1u << size) - 1) & ~t->dead & ~t->excluded;

	CHECK(all_reduce_ok(comm, rank, size));
	atomic_fetch_add(&page->here, 1);
	wait_for(&page->here, 2 * size); /* all are out of it */
	reach(comm, t, rank, size);
	if (t->excluded >> rank & 1) {
		/* Waits until the others are done: it lives, and is left out all the same. */
		wait_for(&page->gate, __builtin_popcount(members));
		taut_comm_destroy(comm);
		return;
	}
	less = shrink(comm, t->excluded, size);
	if (!less)
		exit(1);
	if (t->old_first)
		taut_comm_destroy(comm);
	check_group(less, members, rank, size);
	if (t->twice) {
		again = shrink(less, 0, size);
		check_group(again, members, rank, size);
		CHECK(all_reduce_ok(less, taut_comm_rank(less), taut_comm_size(less)));
	}
	if (!t->old_first)
		taut_comm_destroy(comm);
	CHECK(all_reduce_ok(less, taut_comm_rank(less), taut_comm_size(less)));
	taut_comm_destroy(less);
	taut_comm_destroy(again);
	atomic_fetch_add(&page->gate, 1);
}

static void one(struct trial t)
{
	char name[160];

	snprintf(name, sizeof(name), "shrink %s, %d ranks, dead 0x%x, excluded 0x%x%s", state_names[t.state], t.size,
		 t.dead, t.excluded, t.twice ? ", twice" : "");
	start(t.size, run_rank, &t);
	if (t.state == IN_CALL) {
		wait_for(&page->here, 2 * t.size);
		sleep_ms(30);
		for (int r = 0; r < t.size; r++)
			if (t.dead >> r & 1)
				kill(page->pid[r], SIGKILL);
	}
	finish(t.size, t.dead, name);
}

/* One dies, all shrink, another dies, all shrink: the second time from the new group. */
static void run_dying(int rank, int size, void *arg)
{
	struct taut_comm *comm = join_all(rank, size), *less;
	unsigned members = (1u << size) - 1;
	int done = 0;

	(void)arg;
	for (int victim = 0; victim < size - 1; victim++) {
		enum taut_status st = TAUT_OK;

		if (rank == victim)
			raise(SIGKILL);
		members &= ~(1u << victim);
		while (!st)
			st = once(comm, SMALL);
		CHECK(st == TAUT_ERR_PEER);
		less = shrink(comm, 0, size);
		if (!less)
			exit(1);
		taut_comm_destroy(comm);
		comm = less;
		check_group(comm, members, rank, size);
		/* All are out of it before the next one dies. */
		done += size - 1 - victim;
		atomic_fetch_add(&page->gate, 1);
		wait_for(&page->gate, done);
	}
	taut_comm_destroy(comm);
}

/* Each time others are left out, and then the same again: ranks have been in different numbers of shrinks before. */
static void run_in_turns(int rank, int size, void *arg)
{
	static const unsigned excluded[] = { 1 << 3, 1 << 0 | 1 << 2, 1 << 3, 1 << 0, 1 << 3, 0 };
	struct taut_comm *comm = join_all(rank, size);

	(void)arg;
	for (int i = 0; i < 6; i++) {
		unsigned members = ((1u << size) - 1) & ~excluded[i];
		struct taut_comm *less;

		if (members >> rank & 1) {
			less = shrink(comm, excluded[i], size);
			if (!less)
				exit(1);
			check_group(less, members, rank, size);
			taut_comm_destroy(less);
		}
		CHECK(all_reduce_ok(comm, rank, size));
	}
	taut_comm_destroy(comm);
}

static void bad_arguments(int rank, int size, void *arg)
{
	struct taut_comm *comm = join_all(rank, size), *out;
	struct taut_comm_opts opts = { .size = sizeof(opts), .exclude = &rank, .num_exclude = 1 };

	(void)arg;
	CHECK(taut_comm_shrink(&out, comm, &opts) == TAUT_ERR_ARG);
	CHECK(taut_comm_shrink(NULL, comm, NULL) == TAUT_ERR_ARG);
	CHECK(taut_comm_shrink(&out, NULL, NULL) == TAUT_ERR_ARG);
	opts.size = 3;
	CHECK(taut_comm_shrink(&out, comm, &opts) == TAUT_ERR_ARG);
	CHECK(all_reduce_ok(comm, rank, size));
	taut_comm_destroy(comm);
}

int main(void)
{
	static const struct trial trials[] = {
		{ .state = AFTER_KILL, .size = 3, .dead = 1 << 2 },
		{ .state = AFTER_KILL, .size = 4, .dead = 1 << 0, .old_first = true },
		{ .state = AFTER_KILL, .size = 5, .dead = 1 << 1 | 1 << 3, .twice = true },
		{ .state = AFTER_KILL, .size = 4, .dead = 0x7 },
		{ .state = AFTER_KILL, .size = 4, .dead = 0xe, .old_first = true },
		{ .state = AFTER_KILL, .size = 5, .dead = 1 << 0, .excluded = 1 << 4 },
		{ .state = IN_CALL, .size = 3, .dead = 1 << 1, .phase = SMALL },
		{ .state = IN_CALL, .size = 4, .dead = 1 << 0, .phase = LARGE, .old_first = true },
		{ .state = IN_CALL, .size = 4, .dead = 1 << 0 | 1 << 2, .phase = MESSAGES },
		{ .state = IN_CALL, .size = 3, .dead = 1 << 2, .phase = DUP },
		{ .state = IN_CALL, .size = 3, .dead = 1 << 0, .phase = STREAM, .twice = true },
		{ .state = IN_CALL, .size = 4, .dead = 1 << 3, .phase = MAPPED },
		{ .state = IN_CALL, .size = 4, .dead = 1 << 0, .phase = ALLOC },
		{ .state = IN_CALL, .size = 4, .dead = 0x7, .phase = SMALL },
		{ .state = NOTHING_FAILED, .size = 3, .twice = true },
		{ .state = NOTHING_FAILED, .size = 4, .excluded = 1 << 0 },
		{ .state = NOTHING_FAILED, .size = 4, .excluded = 1 << 1 | 1 << 3, .old_first = true },
		{ .state = NOTHING_FAILED, .size = 1 },
		{ .state = AFTER_ABORT, .size = 3 },
		{ .state = AFTER_ABORT, .size = 4, .dead = 1 << 1, .old_first = true },
		{ .state = AFTER_MISMATCH, .size = 3, .twice = true },
		{ .state = AFTER_MISMATCH, .size = 4, .dead = 1 << 0 },
	};

	setenv("TAUT_LOG", "none", 0);
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		one(trials[i]);
	start(5, run_dying, NULL);
	finish(5, 0xf, "one after the other dies");
	start(4, run_in_turns, NULL);
	finish(4, 0, "others left out each time");
	start(2, bad_arguments, NULL);
	finish(2, 0, "bad arguments");
	printf("shrink: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
