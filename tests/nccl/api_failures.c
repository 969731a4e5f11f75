/* SPDX-License-Identifier: Apache-2.0 */
/* What ends badly: ranks that abort, revoke, are killed or call something else. Whoever waits gets an error with a
 * sentence, never a hang; and who is left can go on by ncclCommShrink(). */
#include "nccl/api.h"

static bool failed(ncclResult_t r)
{
	return r != ncclSuccess && r != ncclInProgress;
}

static ncclResult_t one_call(ncclComm_t comm)
{
	int x = 1, sum = 0;

	return ncclAllReduce(&x, &sum, 1, ncclInt, ncclSum, comm, NULL);
}

/* The communicator of a rank whose call failed: it says so, and can be destroyed. */
static void is_broken(ncclComm_t comm, ncclResult_t r)
{
	ncclResult_t state = ncclSuccess;

	must(failed(r));
	must(ncclGetLastError(comm)[0]);
	succeeds(ncclCommGetAsyncError(comm, &state));
	must(failed(state));
	must(failed(one_call(comm)));
}

/* --- abort by one rank while the others wait for it --- */
static void abort_others_wait(struct team *t)
{
	bool last = t->first == t->size - 1;
	ncclResult_t r;

	all_sum(t->comm[0], t->first, t->size);
	all_here(t->size);
	if (last) {
		succeeds(ncclCommAbort(t->comm[0]));
		t->comm[0] = NULL;
		return;
	}
	r = one_call(t->comm[0]);
	gives(ncclRemoteError, r);
	is_broken(t->comm[0], r);
}

/* --- abort of a communicator by another thread while this one waits in a call on it --- */
static ncclComm_t to_abort;

static void *abort_it(void *arg)
{
	ncclComm_t other = (ncclComm_t)arg;
	int got = 0;

	/* What this gets was sent by the group that now waits. */
	succeeds(ncclRecv(&got, 1, ncclInt, 0, other, NULL));
	must(got == 5);
	succeeds(ncclCommAbort(to_abort));
	succeeds(ncclCommAbort(other));
	return NULL;
}

static void abort_from_thread(int i, void *arg)
{
	struct team t = { .size = 2, .n = 2 };
	pthread_t thread;
	int five = 5, never;
	ncclUniqueId id;

	(void)i;
	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	team_join(&t, id);
	to_abort = t.comm[0];
	must(!pthread_create(&thread, NULL, abort_it, t.comm[1]));
	succeeds(ncclGroupStart());
	succeeds(ncclSend(&five, 1, ncclInt, 1, t.comm[0], NULL));
	succeeds(ncclRecv(&never, 1, ncclInt, 1, t.comm[0], NULL));
	must(failed(ncclGroupEnd()));
	must(ncclGetLastError(NULL)[0]);
	must(!pthread_join(thread, NULL));
}

/* --- a group has calls on two communicators, one of which is aborted meanwhile, or was before --- */
static ncclComm_t doomed;

static void *abort_doomed(void *arg)
{
	usleep(20000); /* the group is likely to wait by now; if not, it finds the abort there */
	succeeds(ncclCommAbort(doomed));
	return arg;
}

/* Rank 1 calls nothing on @a. What is on @b must be done. */
static void both(struct team *t, ncclComm_t a, ncclComm_t b)
{
	int x = t->first + 1, lost = 0, sum[2] = { 0, 0 }, got = 0, peer = !t->first;
	ncclResult_t r, state;

	succeeds(ncclGroupStart());
	succeeds(ncclAllReduce(&x, &sum[0], 1, ncclInt, ncclSum, b, NULL));
	if (!t->first) {
		succeeds(ncclAllReduce(&x, &lost, 1, ncclInt, ncclSum, a, NULL));
		succeeds(ncclRecv(&lost, 1, ncclInt, 1, a, NULL));
	}
	succeeds(ncclSend(&x, 1, ncclInt, peer, b, NULL));
	succeeds(ncclRecv(&got, 1, ncclInt, peer, b, NULL));
	succeeds(ncclAllReduce(&x, &sum[1], 1, ncclInt, ncclSum, b, NULL));
	r = ncclGroupEnd();
	gives(t->first ? ncclSuccess : ncclRemoteError, r);
	must(sum[0] == 3 && sum[1] == 3 && got == peer + 1);
	succeeds(ncclCommGetAsyncError(b, &state));
	must(state == ncclSuccess);
}

static void one_of_two(struct team *t, bool before)
{
	ncclComm_t a = NULL, b = t->comm[0];
	pthread_t thread;
	char name[64];

	succeeds(ncclCommSplit(b, 0, t->first, &a, NULL));
	snprintf(name, sizeof(name), "communicator %p, rank 0: rank %d aborted", (void *)a, before);
	doomed = a;
	if (before && t->first)
		succeeds(ncclCommAbort(a));
	else if (!before && !t->first)
		must(!pthread_create(&thread, NULL, abort_doomed, NULL));
	all_here(2);
	both(t, a, b);
	if (!t->first)
		must(strstr(ncclGetLastError(NULL), name));
	all_sum(b, t->first, 2);
	if (before && !t->first)
		succeeds(ncclCommAbort(a));
	if (!before && !t->first)
		must(!pthread_join(thread, NULL));
	if (!before && t->first)
		succeeds(ncclCommAbort(a));
}

static void aborted_in_a_group(struct team *t)
{
	one_of_two(t, false);
	one_of_two(t, true);
}

/* --- abort of one that is still being made: its other rank never comes --- */
static void abort_making(int i, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	ncclResult_t state;

	(void)i;
	(void)arg;
	config.blocking = 0;
	succeeds(ncclGetUniqueId(&id));
	gives(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
	succeeds(ncclCommGetAsyncError(comm, &state));
	must(state == ncclInProgress);
	succeeds(ncclCommAbort(comm));
}

/* --- revoke: calls end, later ones are refused, and the ranks can form new groups of it --- */
static void revoked(struct team *t)
{
	ncclComm_t comm = t->comm[0], child = NULL;
	int list[] = { t->size - 1 };
	ncclResult_t state;
	bool last = t->first == t->size - 1;

	all_sum(comm, t->first, t->size);
	all_here(t->size);
	if (!last) /* the last one does not come */
		must(failed(one_call(comm)));
	succeeds(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
	succeeds(ncclCommGetAsyncError(comm, &state));
	must(state == ncclSuccess);
	gives(ncclInvalidUsage, one_call(comm));
	must(strstr(ncclGetLastError(comm), "revoked"));
	gives(ncclInvalidArgument, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
	gives(ncclInvalidArgument, ncclCommFinalize(comm));
	succeeds(ncclCommSplit(comm, last, 0, &child, NULL));
	all_sum(child, last ? 0 : t->first, last ? 1 : t->size - 1);
	succeeds(ncclCommDestroy(child));
	if (last)
		return;
	succeeds(ncclCommShrink(comm, list, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
	all_sum(child, t->first, t->size - 1);
	succeeds(ncclCommDestroy(child));
}

/* --- a rank that is killed --- */
static void killed_rank(int rank, void *arg)
{
	const struct meeting *m = (const struct meeting *)arg;
	struct team t = { .size = m->size, .first = rank, .n = 1 };
	int list[] = { 1 };
	ncclComm_t child;
	ncclResult_t r = ncclSuccess;

	team_join(&t, meeting_id(m, rank));
	all_sum(t.comm[0], rank, t.size);
	all_here(t.size);
	if (rank == 1)
		raise(SIGKILL);
	while (!r)
		r = one_call(t.comm[0]);
	gives(ncclRemoteError, r);
	is_broken(t.comm[0], r);
	must(strstr(ncclGetLastError(t.comm[0]), "rank"));
	succeeds(ncclCommShrink(t.comm[0], list, 1, &child, NULL, NCCL_SHRINK_ABORT));
	sum_is(child, rank, m->size * (m->size + 1) / 2 - 2);
	succeeds(ncclCommDestroy(child));
	team_leave(&t);
}

static void killed(int size)
{
	struct meeting m;
	pid_t pid[MOST];

	meeting_open(&m, size);
	start(size, killed_rank, &m, pid);
	meeting_close(&m);
	for (int r = 0; r < size; r++)
		api_end(pid[r], r == 1 ? 128 + SIGKILL : 0, r, "a rank is killed");
}

/* Only waiting, as a watchdog does: the error shows without any call. */
static void watching_rank(int rank, void *arg)
{
	const struct meeting *m = (const struct meeting *)arg;
	struct team t = { .size = m->size, .first = rank, .n = 1 };
	ncclResult_t state = ncclSuccess;

	team_join(&t, meeting_id(m, rank));
	all_here(t.size);
	if (rank == 1)
		raise(SIGKILL);
	while (!failed(state)) {
		succeeds(ncclCommGetAsyncError(t.comm[0], &state));
		usleep(1000);
	}
	must(state == ncclRemoteError);
	must(ncclGetLastError(t.comm[0])[0]);
	succeeds(ncclCommAbort(t.comm[0]));
}

static void watched(int size)
{
	struct meeting m;
	pid_t pid[MOST];

	meeting_open(&m, size);
	start(size, watching_rank, &m, pid);
	meeting_close(&m);
	for (int r = 0; r < size; r++)
		api_end(pid[r], r == 1 ? 128 + SIGKILL : 0, r, "a rank is killed, others watch");
}

/* --- ranks that do not call the same: NCCL leaves that undefined, here it is an error on all --- */
static void mismatch(struct team *t)
{
	float in[4] = { 1, 1, 1, 1 }, out[4];
	ncclResult_t r;

	r = ncclAllReduce(in, out, t->first ? 4 : 3, ncclFloat, ncclSum, t->comm[0], NULL);
	must(failed(r));
	must(strstr(ncclGetLastError(t->comm[0]), "rank 0: ncclAllReduce(count 3"));
	is_broken(t->comm[0], r);
}

int main(void)
{
	api_begin();
	as_processes(3, abort_others_wait, "abort");
	as_threads(3, abort_others_wait, "abort, in threads");
	alone(abort_from_thread, NULL, "abort from another thread");
	as_processes(2, aborted_in_a_group, "a group of two communicators, one aborted");
	alone(abort_making, NULL, "abort of what is being made");
	as_processes(3, revoked, "revoke");
	as_threads(3, revoked, "revoke, in threads");
	killed(3);
	watched(2);
	as_processes(2, mismatch, "mismatch");
	return api_verdict("failures");
}
