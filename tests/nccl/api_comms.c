/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: the ways to make them, what they say of themselves, split and shrink, and their end. */
#include "nccl/api.h"

/* --- what they say --- */
static void says_device(ncclComm_t comm, int rank, int size, int wanted)
{
	ncclResult_t state = ncclInternalError;
	int got = -1, count = -1, device = -1;

	succeeds(ncclCommUserRank(comm, &got));
	succeeds(ncclCommCount(comm, &count));
	succeeds(ncclCommCuDevice(comm, &device));
	succeeds(ncclCommGetAsyncError(comm, &state));
	must(got == rank && count == size && device == wanted);
	must(state == ncclSuccess);
}

static void says(ncclComm_t comm, int rank, int size)
{
	says_device(comm, rank, size, 0);
}

static void ask(struct team *t)
{
	for (int i = 0; i < t->n; i++)
		says(t->comm[i], t->first + i, t->size);
	team_sum(t);
}

/* --- ncclCommInitAll --- */
static void init_all_of(int n, const int *devices)
{
	struct team t = { .size = n, .n = n };

	succeeds(ncclCommInitAll(t.comm, n, devices));
	for (int i = 0; i < n; i++)
		says_device(t.comm[i], i, n, devices ? devices[i] : i);
	team_sum(&t);
	for (int i = n - 1; i >= 0; i--)
		succeeds(ncclCommDestroy(t.comm[i]));
}

static void init_all(int i, void *arg)
{
	static const int devices[] = { 2, 0, 3, 1 };

	(void)i;
	(void)arg;
	init_all_of(4, NULL);
	init_all_of(1, NULL);
	init_all_of(4, devices);
	init_all_of(2, devices + 2);
}

/* --- a communicator that does not block --- */
static ncclConfig_t not_blocking(const char *name)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = 0;
	config.commName = name;
	return config;
}

/* Rank 1 comes only when rank 0 has seen that it is waited for, and that nothing can be done before. */
struct late {
	struct meeting meeting;
	int go[2];
};

static void too_early(ncclComm_t comm)
{
	ncclResult_t state;
	int x = 0;

	succeeds(ncclCommGetAsyncError(comm, &state));
	must(state == ncclInProgress);
	refuses(ncclInvalidArgument, "ncclAllReduce", ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, NULL));
	refuses(ncclInvalidArgument, "ncclCommCount", ncclCommCount(comm, &x));
}

static void late_rank(int rank, void *arg)
{
	const struct late *l = (const struct late *)arg;
	ncclConfig_t config = not_blocking("late");
	ncclUniqueId id = meeting_id(&l->meeting, rank);
	ncclComm_t comm = NULL, child = NULL;
	ncclResult_t r, state;
	char go = 0;

	if (rank)
		must(read(l->go[0], &go, 1) == 1);
	r = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
	must(comm && (r == ncclInProgress || (rank && r == ncclSuccess)));
	if (!rank) {
		too_early(comm);
		must(write(l->go[1], &go, 1) == 1);
	}
	succeeds(settled(comm, r));
	says(comm, rank, 2);
	all_sum(comm, rank, 2);
	succeeds(settled(comm, ncclCommSplit(comm, 0, -rank, &child, NULL)));
	must(child);
	succeeds(ncclCommGetAsyncError(child, &state)); /* NCCL's programs ask the parent only */
	must(state == ncclSuccess);
	says(child, 1 - rank, 2);
	all_sum(child, rank, 2);
	succeeds(settled(child, ncclCommFinalize(child)));
	succeeds(ncclCommDestroy(child));
	succeeds(settled(comm, ncclCommFinalize(comm)));
	succeeds(ncclCommDestroy(comm));
}

static void late(void)
{
	struct late l;
	pid_t pid[2];

	meeting_open(&l.meeting, 2);
	if (pipe(l.go))
		exit(1);
	start(2, late_rank, &l, pid);
	meeting_close(&l.meeting);
	end(2, pid, "a rank that comes late");
	close(l.go[0]);
	close(l.go[1]);
}

/* Several ranks of one thread, without a group: no call waits, so all may be made in a row. */
static void in_a_row(int i, void *arg)
{
	ncclConfig_t config = not_blocking(NULL);
	struct team t = { .size = 4, .n = 4 };
	ncclUniqueId id;

	(void)i;
	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	for (int r = 0; r < 4; r++) {
		ncclResult_t got = ncclCommInitRankConfig(&t.comm[r], 4, id, r, &config);

		must(got == ncclInProgress || got == ncclSuccess);
	}
	for (int r = 0; r < 4; r++)
		succeeds(settled(t.comm[r], ncclInProgress));
	for (int r = 0; r < 4; r++)
		says(t.comm[r], r, 4);
	for (int r = 0; r < 4; r++)
		succeeds(ncclCommDestroy(t.comm[r]));
}

/* --- configurations --- */
static void configured(struct team *t)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId ids[2];
	ncclComm_t comm;

	if (t->first == 0)
		for (int k = 0; k < 2; k++)
			succeeds(ncclGetUniqueId(&ids[k]));
	succeeds(ncclBcast(ids, sizeof(ids), ncclChar, 0, t->comm[0], NULL));
	config.blocking = 1;
	config.minCTAs = 1;
	config.maxCTAs = 8;
	config.cgaClusterSize = 2;
	config.splitShare = 1;
	config.netName = "Socket";
	config.commName = "configured";
	succeeds(ncclCommInitRankConfig(&comm, t->size, ids[0], t->first, &config));
	says(comm, t->first, t->size);
	all_sum(comm, t->first, t->size);
	succeeds(ncclCommDestroy(comm));
	succeeds(ncclCommInitRankConfig(&comm, t->size, ids[1], t->first, NULL));
	all_sum(comm, t->first, t->size);
	succeeds(ncclCommDestroy(comm));
}

static void scalable(struct team *t)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	for (int n = 1; n <= 2; n++) {
		ncclUniqueId ids[2];
		ncclComm_t comm;

		for (int k = 0; k < n; k++) { /* each made by another rank */
			if (t->first == t->size - 1 - k)
				succeeds(ncclGetUniqueId(&ids[k]));
			succeeds(ncclBcast(&ids[k], sizeof(ids[k]), ncclChar, t->size - 1 - k, t->comm[0], NULL));
		}
		succeeds(ncclCommInitRankScalable(&comm, t->size, t->first, n, ids, n == 1 ? NULL : &config));
		says(comm, t->first, t->size);
		all_sum(comm, t->first, t->size);
		succeeds(ncclCommDestroy(comm));
	}
}

/* Any process may make the id, and for more than one communicator: here the last rank for three at once. */
static void id_of_another(struct team *t)
{
	int last = t->size - 1;
	ncclUniqueId ids[3];
	ncclComm_t comm[3];

	for (int k = 0; k < 3 && t->first == last; k++)
		succeeds(ncclGetUniqueId(&ids[k]));
	succeeds(ncclBcast(ids, sizeof(ids), ncclUint8, last, t->comm[0], NULL));
	for (int k = 0; k < 3; k++)
		succeeds(ncclCommInitRank(&comm[k], t->size, ids[k], (t->first + k) % t->size));
	for (int k = 0; k < 3; k++) {
		says(comm[k], (t->first + k) % t->size, t->size);
		all_sum(comm[k], t->first, t->size);
		succeeds(ncclCommDestroy(comm[k]));
	}
}

/* --- split --- */
/* Odd and even ranks apart, the odd ones backwards; the child lives on when its parent is gone. */
static void odd_and_even(struct team *t)
{
	ncclComm_t child[MOST];
	int in[MOST], out[MOST];

	team_begin(t);
	for (int i = 0; i < t->n; i++) {
		int me = t->first + i;

		succeeds(ncclCommSplit(t->comm[i], me % 2, me % 2 ? -me : me, &child[i], NULL));
	}
	team_end(t);
	for (int i = 0; i < t->n; i++) {
		succeeds(ncclCommDestroy(t->comm[i]));
		t->comm[i] = NULL;
	}
	team_begin(t);
	for (int i = 0; i < t->n; i++) {
		int me = t->first + i, odd = me % 2, size = (t->size + !odd) / 2;

		says(child[i], odd ? size - 1 - me / 2 : me / 2, size);
		in[i] = me;
		succeeds(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, child[i], NULL));
	}
	team_end(t);
	for (int i = 0; i < t->n; i++) {
		int n = (t->size + !((t->first + i) % 2)) / 2;

		must(out[i] == ((t->first + i) % 2 ? n * n : n * (n - 1)));
		succeeds(ncclCommDestroy(child[i]));
	}
}

/* The last rank is in no group; the others have equal keys, and so keep their order. */
static void no_color(struct team *t)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t child[MOST];
	int last = t->size - 1;

	config.commName = "all but one";
	team_begin(t);
	for (int i = 0; i < t->n; i++) {
		child[i] = t->comm[i]; /* must be overwritten, with NULL too */
		succeeds(ncclCommSplit(t->comm[i], t->first + i == last ? NCCL_SPLIT_NOCOLOR : 3, 7, &child[i],
				       &config));
	}
	team_end(t);
	for (int i = 0; i < t->n; i++) {
		if (t->first + i == last)
			must(child[i] == NCCL_COMM_NULL);
		else
			says(child[i], t->first + i, last);
		succeeds(ncclCommDestroy(child[i]));
	}
	team_sum(t);
}

/* Children of children, and all alive and used at once. */
static void deep(struct team *t)
{
	ncclComm_t line[6];

	line[0] = t->comm[0];
	for (int k = 1; k < 6; k++)
		succeeds(ncclCommSplit(line[k - 1], 0, k % 2 ? -t->first : t->first, &line[k], NULL));
	for (int turn = 0; turn < 3; turn++)
		for (int k = 0; k < 6; k++)
			all_sum(line[k], t->first, t->size);
	for (int k = 1; k < 6; k++)
		succeeds(ncclCommDestroy(line[k]));
	all_sum(line[0], t->first, t->size);
}

/* --- shrink: the excluded ranks do not call --- */
static void without(struct team *t, const int *gone, int n, int flags)
{
	int me = t->first, before = 0, sum = 0, list[MOST];
	ncclComm_t child;

	for (int k = 0; k < n; k++) {
		if (gone[k] == me)
			return;
		before += gone[k] < me;
		sum += gone[k] + 1;
		list[k] = gone[k];
	}
	succeeds(ncclCommShrink(t->comm[0], list, n, &child, NULL, flags));
	says(child, me - before, t->size - n);
	sum_is(child, me, t->size * (t->size + 1) / 2 - sum);
	succeeds(ncclCommDestroy(child));
}

static void shrink(struct team *t)
{
	static const int last[] = { 3 }, some[] = { 2, 0 };

	without(t, last, 1, NCCL_SHRINK_DEFAULT);
	all_sum(t->comm[0], t->first, t->size); /* the parent stays whole */
	without(t, some, 2, NCCL_SHRINK_DEFAULT);
}

static void shrink_abort(struct team *t)
{
	static const int first[] = { 0 };

	all_sum(t->comm[0], t->first, t->size);
	all_here(t->size); /* nothing runs that could be aborted */
	without(t, first, 1, NCCL_SHRINK_ABORT);
}

/* --- their end --- */
static void finalize(struct team *t)
{
	team_sum(t);
	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclCommFinalize(t->comm[i]));
	team_end(t);
	for (int i = 0; i < t->n; i++) {
		says(t->comm[i], t->first + i, t->size);
		gives(ncclInvalidArgument, ncclCommFinalize(t->comm[i]));
	}
}

/* Made and destroyed again and again, the last one without any call. */
static void again(struct team *t)
{
	for (int k = 0; k < 8; k++) {
		ncclUniqueId id;
		ncclComm_t comm;

		if (t->first == 0)
			succeeds(ncclGetUniqueId(&id));
		succeeds(ncclBcast(&id, sizeof(id), ncclUint8, 0, t->comm[0], NULL));
		succeeds(ncclCommInitRank(&comm, t->size, id, t->first));
		if (k < 7)
			all_sum(comm, t->first, t->size);
		succeeds(ncclCommDestroy(comm));
	}
}

static void version(int i, void *arg)
{
	int v = 0;

	(void)i;
	(void)arg;
	succeeds(ncclGetVersion(&v));
	must(v == NCCL_VERSION_CODE && v == NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
	ncclResetDebugInit();
}

int main(void)
{
	api_begin();
	alone(version, NULL, "the version");
	each_way(1, ask, "one rank");
	each_way(4, ask, "4 ranks");
	alone(init_all, NULL, "ncclCommInitAll");
	late();
	alone(in_a_row, NULL, "one thread, no group");
	as_processes(2, configured, "configured");
	as_processes(3, scalable, "several ids");
	as_threads(3, scalable, "several ids, in threads");
	as_processes(3, id_of_another, "the id of another");
	as_threads(3, id_of_another, "the id of another, in threads");
	each_way(5, odd_and_even, "odd and even");
	each_way(3, no_color, "no color");
	as_processes(3, deep, "deep");
	as_threads(2, deep, "deep, in threads");
	as_processes(4, shrink, "shrink");
	as_threads(4, shrink, "shrink, in threads");
	as_processes(3, shrink_abort, "shrink with abort");
	each_way(3, finalize, "finalize");
	as_processes(2, again, "again and again");
	return api_verdict("communicators");
}
