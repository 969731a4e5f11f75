/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators in the making, several at once, and given up in the middle. */
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
	setenv("TAUT_JOIN_TIMEOUT_MS", "300", 1);
	succeeds(ncclGetUniqueId(&id));
	must(!pthread_create(&thread, NULL, watchdog, NULL));
	must(ncclCommInitRank(&watched, 2, id, 0) != ncclSuccess);
	must(!pthread_join(thread, NULL));
}
#endif

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
	alone(keeps_its_sentence, NULL, "a sentence that stays");
	return api_verdict("jobs");
}
