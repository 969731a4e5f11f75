/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: nested, of several communicators, with communicators made inside, of several threads, that fail, and that are
 * only priced. */
#include "nccl/api.h"

/* --- the inner ones do nothing --- */
static void nested(struct team *t)
{
	int in[MOST], out[MOST];

	succeeds(ncclGroupStart());
	for (int i = 0; i < t->n; i++) {
		in[i] = t->first + i + 1;
		out[i] = 0;
		succeeds(ncclGroupStart());
		succeeds(ncclGroupStart());
		succeeds(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, t->comm[i], NULL));
		succeeds(ncclGroupEnd());
		succeeds(ncclGroupEnd());
		must(out[i] == 0);
	}
	succeeds(ncclGroupEnd());
	for (int i = 0; i < t->n; i++)
		must(out[i] == t->size * (t->size + 1) / 2);
	succeeds(ncclGroupStart()); /* an empty one */
	succeeds(ncclGroupEnd());
}

/* --- many calls, in which one needs what another gives only after the group --- */
#define MANY 50

static void many(struct team *t)
{
	int in[MOST][MANY], out[MOST][MANY];

	succeeds(ncclGroupStart());
	for (int k = 0; k < t->n * MANY; k++) {
		int i = k % t->n, nr = k / t->n;

		in[i][nr] = nr * (t->first + i + 1);
		out[i][nr] = -1;
		succeeds(ncclAllReduce(&in[i][nr], &out[i][nr], 1, ncclInt, nr % 2 ? ncclSum : ncclMax, t->comm[i],
				       NULL));
	}
	succeeds(ncclGroupEnd());
	for (int k = 0; k < t->n * MANY; k++) {
		int nr = k / t->n, all = t->size * (t->size + 1) / 2;

		must(out[k % t->n][nr] == nr * (nr % 2 ? all : t->size));
	}
}

/* --- two communicators with the ranks in opposite order, both in one group --- */
static void two_comms(struct team *t)
{
	ncclComm_t back[MOST];
	int in[MOST], out[MOST][2], got[MOST];

	succeeds(ncclGroupStart());
	for (int i = 0; i < t->n; i++)
		succeeds(ncclCommSplit(t->comm[i], 0, -(t->first + i), &back[i], NULL));
	succeeds(ncclGroupEnd());
	for (int turn = 0; turn < 4; turn++) {
		succeeds(ncclGroupStart());
		for (int i = 0; i < t->n; i++) {
			int me = t->first + i, there = t->size - 1 - me;

			in[i] = me + 1;
			succeeds(ncclAllReduce(&in[i], &out[i][0], 1, ncclInt, ncclSum, t->comm[i], NULL));
			succeeds(ncclAllReduce(&in[i], &out[i][1], 1, ncclInt, ncclProd, back[i], NULL));
			succeeds(ncclSend(&in[i], 1, ncclInt, (there + 1) % t->size, back[i], NULL));
			succeeds(ncclRecv(&got[i], 1, ncclInt, (there + t->size - 1) % t->size, back[i], NULL));
		}
		succeeds(ncclGroupEnd());
		for (int i = 0; i < t->n; i++) {
			int product = 1;

			for (int r = 1; r <= t->size; r++)
				product *= r;
			must(out[i][0] == t->size * (t->size + 1) / 2 && out[i][1] == product);
			must(got[i] == (t->first + i + 1) % t->size + 1);
		}
	}
	for (int i = 0; i < t->n; i++)
		succeeds(ncclCommDestroy(back[i]));
}

/* --- communicators made in a group --- */
/* Two of them by each rank, one after the other in one order on rank 0 and in the other order on rank 1: one at a time
 * they would wait for each other for ever. */
static void crossed(struct team *t)
{
	ncclUniqueId ids[2];
	ncclComm_t comm[2];

	if (t->first == 0)
		for (int k = 0; k < 2; k++)
			succeeds(ncclGetUniqueId(&ids[k]));
	succeeds(ncclBcast(ids, sizeof(ids), ncclChar, 0, t->comm[0], NULL));
	succeeds(ncclGroupStart());
	for (int k = 0; k < 2; k++) {
		int which = t->first ? 1 - k : k;

		succeeds(ncclCommInitRank(&comm[which], t->size, ids[which], t->first));
	}
	succeeds(ncclGroupEnd());
	for (int k = 0; k < 2; k++) {
		all_sum(comm[k], t->first, t->size);
		succeeds(ncclCommDestroy(comm[k]));
	}
}

/* One thread makes all ranks of three communicators of different sizes. */
static void all_made_here(int i, void *arg)
{
	struct team t[3];
	ncclUniqueId id;

	(void)i;
	(void)arg;
	succeeds(ncclGroupStart());
	for (int k = 0; k < 3; k++) {
		t[k] = (struct team){ .size = k + 1, .n = k + 1 };
		succeeds(ncclGetUniqueId(&id));
		for (int r = 0; r <= k; r++)
			succeeds(ncclCommInitRank(&t[k].comm[r], k + 1, id, r));
	}
	succeeds(ncclGroupEnd());
	for (int k = 0; k < 3; k++)
		team_sum(&t[k]);
	succeeds(ncclGroupStart());
	for (int k = 0; k < 3; k++)
		team_leave(&t[k]);
	succeeds(ncclGroupEnd());
}

/* --- a thread's group is its own --- */
static void *other_thread(void *arg)
{
	int x = 5, sum = 0;

	succeeds(ncclAllReduce(&x, &sum, 1, ncclInt, ncclSum, (ncclComm_t)arg, NULL));
	must(sum == 5); /* run at once */
	refuses(ncclInvalidUsage, "ncclGroupEnd", ncclGroupEnd());
	return NULL;
}

static void own_group(int i, void *arg)
{
	ncclComm_t comm;
	pthread_t thread;

	(void)i;
	(void)arg;
	succeeds(ncclCommInitAll(&comm, 1, NULL));
	succeeds(ncclGroupStart());
	must(!pthread_create(&thread, NULL, other_thread, comm));
	must(!pthread_join(thread, NULL));
	succeeds(ncclGroupEnd());
	succeeds(ncclCommDestroy(comm));
}

/* --- a wrong call spoils its group: none of it runs --- */
static void spoiled(struct team *t)
{
	int in = 1, out = 0;

	for (int depth = 0; depth < 2; depth++) {
		succeeds(ncclGroupStart());
		if (depth)
			succeeds(ncclGroupStart());
		succeeds(ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, t->comm[0], NULL));
		refuses(ncclInvalidArgument, "99", ncclBcast(&out, 1, ncclInt, 99, t->comm[0], NULL));
		if (depth)
			(void)ncclGroupEnd(); /* with or without the error: NCCL tells at the outermost */
		gives(ncclInvalidArgument, ncclGroupEnd());
		must(strstr(ncclGetLastError(NULL), "99"));
		must(out == 0);
	}
	all_sum(t->comm[0], t->first, t->size);
	refuses(ncclInvalidUsage, "ncclGroupStart", ncclGroupEnd());
}

static void spoiled_by_a_registration(struct team *t)
{
	int in = 1, out = 0;
	void *handle;

	succeeds(ncclGroupStart());
	succeeds(ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, t->comm[0], NULL));
	refuses(ncclInvalidArgument, "nothing to register", ncclCommRegister(t->comm[0], &in, 0, &handle));
	gives(ncclInvalidArgument, ncclGroupEnd());
	must(out == 0);
	all_sum(t->comm[0], t->first, t->size);
}

/* A communicator that the group itself is to make. */
static void used_too_early(int i, void *arg)
{
	ncclComm_t comm;
	ncclUniqueId id;
	int n;

	(void)i;
	(void)arg;
	succeeds(ncclGetUniqueId(&id));
	succeeds(ncclGroupStart());
	succeeds(ncclCommInitRank(&comm, 1, id, 0));
	refuses(ncclInvalidArgument, "made by the ncclGroupEnd() of this group", ncclCommCount(comm, &n));
	succeeds(ncclGroupEnd());
	succeeds(ncclCommCount(comm, &n));
	succeeds(ncclCommDestroy(comm));
}

/* --- what would it take --- */
static void priced(struct team *t)
{
	ncclSimInfo_t small = NCCL_SIM_INFO_INITIALIZER, large = NCCL_SIM_INFO_INITIALIZER;
	int *buf = (int *)api_alloc(4 << 20);

	buf[0] = 3;
	for (int k = 0; k < 2; k++) {
		succeeds(ncclGroupStart());
		for (int i = 0; i < t->n; i++)
			succeeds(ncclAllReduce(buf, buf, k ? 1 << 20 : 1, ncclInt, ncclSum, t->comm[i], NULL));
		succeeds(ncclGroupSimulateEnd(k ? &large : &small));
	}
	must(small.estimatedTime > 0 && large.estimatedTime > small.estimatedTime);
	must(buf[0] == 3); /* not run */
	succeeds(ncclGroupStart());
	succeeds(ncclGroupSimulateEnd(NULL));
	refuses(ncclInvalidUsage, "ncclGroupSimulateEnd", ncclGroupSimulateEnd(&small));
	small.magic = 0;
	succeeds(ncclGroupStart());
	refuses(ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER", ncclGroupSimulateEnd(&small));
	refuses(ncclInvalidUsage, "ncclGroupEnd", ncclGroupEnd());
	free(buf);
	team_sum(t);
}

/* Messages take time too, and go beside each other. */
static void priced_messages(struct team *t)
{
	float last = 0;
	char *buf = (char *)api_alloc(8 << 20);

	for (int k = 0; k < 4; k++) {
		ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
		size_t len = k < 2 ? 1 : 4 << 20;

		succeeds(ncclGroupStart());
		for (int twice = 0; twice <= k % 2; twice++)
			for (int i = 0; i < t->n; i++) {
				int peer = (t->first + i + 1) % t->size;

				succeeds(ncclSend(buf, len, ncclChar, peer, t->comm[i], NULL));
				succeeds(ncclRecv(buf, len, ncclChar, peer, t->comm[i], NULL));
			}
		succeeds(ncclGroupSimulateEnd(&sim));
		must(k % 2 ? sim.estimatedTime == last : sim.estimatedTime > last);
		last = sim.estimatedTime;
	}
	free(buf);
	team_sum(t); /* none of it was sent */
}

int main(void)
{
	api_begin();
	each_way(3, nested, "nested");
	each_way(4, many, "many");
	each_way(3, two_comms, "two communicators");
	as_processes(2, crossed, "made crosswise");
	as_threads(2, crossed, "made crosswise by threads");
	alone(all_made_here, NULL, "three made by one thread");
	alone(own_group, NULL, "a thread's own group");
	as_processes(2, spoiled, "spoiled");
	as_processes(2, spoiled_by_a_registration, "spoiled by a registration");
	alone(used_too_early, NULL, "used too early");
	each_way(2, priced, "priced");
	each_way(2, priced_messages, "priced messages");
	return api_verdict("groups");
}
