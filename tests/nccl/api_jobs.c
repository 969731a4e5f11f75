/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators in the making, several at once, and given up in the middle. */
#include <dirent.h>

#include "nccl/api.h"

#define ROUNDS 10

static ncclConfig_t not_blocking(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = 0;
	return config;
}

static void started(ncclResult_t r)
{
	must(r == ncclSuccess || r == ncclInProgress);
}

/* The ranks of @t, whose communicators block, as one that does not. */
static ncclComm_t loose(const struct team *t)
{
	ncclConfig_t config = not_blocking();
	ncclComm_t comm = NULL;

	started(ncclCommSplit(t->comm[0], 0, t->first, &comm, &config));
	succeeds(settled(t->comm[0], ncclSuccess));
	return comm;
}

static void two_of_one_parent(struct team *t)
{
	ncclComm_t comm = loose(t), half, back;
	int me = t->first, count;

	for (int i = 0; i < ROUNDS; i++) {
		bool grouped = i % 2;

		if (grouped)
			succeeds(ncclGroupStart());
		started(ncclCommSplit(comm, me % 2, me, &half, NULL));
		if (!grouped)
			succeeds(settled(comm, ncclSuccess));
		started(ncclCommSplit(comm, 0, -me, &back, NULL));
		if (grouped)
			started(ncclGroupEnd());
		succeeds(settled(comm, ncclSuccess));
		succeeds(ncclCommCount(half, &count));
		must(count == t->size / 2);
		sum_is(back, me, t->size * (t->size + 1) / 2);
		succeeds(ncclCommDestroy(half));
		succeeds(ncclCommDestroy(back));
	}
	succeeds(ncclCommDestroy(comm));
}

/* The parent is asked for more while its first child waits for rank 1. */
static void parent_is_busy(struct team *t)
{
	ncclComm_t comm = loose(t), child = NULL;
	int x = 1;

	if (t->first)
		all_here(2);
	started(ncclCommSplit(comm, 0, 0, &child, NULL));
	if (!t->first) {
		refuses(ncclInvalidArgument, "still being made from this one",
			ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, NULL));
		all_here(2);
	}
	succeeds(settled(comm, ncclSuccess));
	sum_is(child, t->first, 3);
	succeeds(ncclCommDestroy(child));
	succeeds(ncclCommDestroy(comm));
}

static void given_up_in_a_group_that_fails(int i, void *arg)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	float x = 1;

	(void)i;
	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	for (int k = 0; k < ROUNDS; k++) {
		succeeds(ncclGroupStart());
		succeeds(ncclCommInitRank(&comm, 1, id, 0));
		gives(ncclInvalidArgument, ncclAllReduce(&x, &x, 1, ncclNumTypes, ncclSum, comm, NULL));
		succeeds(ncclCommDestroy(comm));
		must(ncclGroupEnd() != ncclSuccess);
	}
}

/* --- a watchdog ends an init that blocks --- */
#ifndef __SANITIZE_THREAD__ /* the program reads its handle while the library writes it: that is the point */
static ncclComm_t watched;

static void *watchdog(void *arg)
{
	ncclComm_t comm;

	while (!(comm = __atomic_load_n(&watched, __ATOMIC_ACQUIRE)))
		sched_yield();
	succeeds(ncclCommAbort(comm));
	return arg;
}

static void ended_by_a_watchdog(int i, void *arg)
{
	ncclUniqueId id;
	pthread_t thread;

	(void)i;
	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	must(!pthread_create(&thread, NULL, watchdog, NULL));
	must(ncclCommInitRank(&watched, 2, id, 0) != ncclSuccess);
	must(!pthread_join(thread, NULL));
}
#endif

/* --- aborted while others are waited for, who never come: the time for that is ten minutes --- */
static int threads_here(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int n = -2; /* . and .. */

	must(tasks);
	while (readdir(tasks))
		n++;
	closedir(tasks);
	return n;
}

static void aborted_alone(int rank, void *arg)
{
	ncclConfig_t config = not_blocking();
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	int before;

	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	before = threads_here();
	gives(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, rank, &config));
	succeeds(ncclCommAbort(comm));
	while (threads_here() > before)
		usleep(1000);
}

/* Rank 2 never comes; rank 0 gives up, and rank 1 hears of it. */
static void abort_ends_the_others(int rank, void *arg)
{
	const struct meeting *m = (const struct meeting *)arg;
	ncclConfig_t config = not_blocking();
	ncclUniqueId id = meeting_id(m, rank);
	ncclComm_t comm = NULL;

	gives(ncclInProgress, ncclCommInitRankConfig(&comm, 3, id, rank, &config));
	all_here(2);
	if (rank)
		must(settled(comm, ncclInProgress) == ncclRemoteError);
	succeeds(ncclCommAbort(comm));
	all_here(2);
}

static void aborted_by_one(void)
{
	struct meeting m;
	pid_t pid[2];

	meeting_open(&m, 2);
	start(2, abort_ends_the_others, &m, pid);
	meeting_close(&m);
	end(2, pid, "aborted by one");
}

/* Rank 1 never comes to the split. It was a call of the parent, which ends with it. */
static void split_aborted(struct team *t)
{
	ncclComm_t comm = loose(t), child = NULL;
	ncclResult_t r = ncclInProgress;

	if (!t->first) {
		started(ncclCommSplit(comm, 0, 0, &child, NULL));
		succeeds(ncclCommAbort(child));
	}
	while (r != ncclRemoteError)
		succeeds(ncclCommGetAsyncError(comm, &r));
	must(strstr(ncclGetLastError(comm), "rank 0 aborted the group"));
	all_here(2);
	succeeds(ncclCommAbort(comm));
}

/* Rank 0, which would collect the survivors, or rank 1, which asks it for them: the parent lives on. */
static void shrink_aborted(struct team *t)
{
	ncclComm_t comm = loose(t), child = NULL;
	int last = 2;

	for (int k = 0; k < 2; k++) {
		if (t->first == k) {
			started(ncclCommShrink(comm, &last, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
			succeeds(ncclCommAbort(child));
			succeeds(settled(comm, ncclInProgress));
		}
		all_here(3);
	}
	all_sum(comm, t->first, 3);
	succeeds(ncclCommDestroy(comm));
}

/* What could not be made says why, however often it is asked. */
static void keeps_its_sentence(int i, void *arg)
{
	ncclConfig_t config = not_blocking();
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	char first[1024];
	int n;

	(void)i;
	(void)arg;
	setenv("TAUT_JOIN_TIMEOUT_MS", "200", 1);
	succeeds(ncclGetUniqueId(&id));
	gives(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
	must(settled(comm, ncclInProgress) == ncclRemoteError);
	snprintf(first, sizeof(first), "%s", ncclGetLastError(comm));
	for (int k = 0; k < 3; k++)
		gives(ncclRemoteError, ncclCommCount(comm, &n));
	must(!strcmp(first, ncclGetLastError(comm)));
	succeeds(ncclCommAbort(comm));
}

int main(void)
{
	api_begin();
	as_threads(4, two_of_one_parent, "two of one parent");
	as_processes(4, two_of_one_parent, "two of one parent");
	as_processes(2, parent_is_busy, "a busy parent");
	alone(given_up_in_a_group_that_fails, NULL, "given up in a group that fails");
#ifndef __SANITIZE_THREAD__
	alone(ended_by_a_watchdog, NULL, "ended by a watchdog");
#endif
	alone(aborted_alone, NULL, "rank 0 aborted");
	api_end(api_fork(aborted_alone, 1, NULL), 0, 1, "rank 1 aborted");
	aborted_by_one();
	as_processes(2, split_aborted, "a split that is aborted");
	as_processes(3, shrink_aborted, "a shrink that is aborted");
	alone(keeps_its_sentence, NULL, "a sentence that stays");
	return api_verdict("jobs");
}
