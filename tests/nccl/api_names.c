/* SPDX-License-Identifier: Apache-2.0 */
/* Every call has a second name, pNAME, which does the same; so a profiler can put its own function in the place of the
 * first, as this program does, and go on through the second. */
#include <dlfcn.h>

#include "nccl/api.h"

static const char *const names[] = {
	"ncclGetVersion",
	"ncclGetErrorString",
	"ncclGetLastError",
	"ncclGetUniqueId",
	"ncclCommInitRank",
	"ncclCommInitRankConfig",
	"ncclCommInitRankScalable",
	"ncclCommInitAll",
	"ncclCommSplit",
	"ncclCommShrink",
	"ncclCommFinalize",
	"ncclCommDestroy",
	"ncclCommAbort",
	"ncclCommRevoke",
	"ncclCommGetAsyncError",
	"ncclCommCount",
	"ncclCommCuDevice",
	"ncclCommUserRank",
	"ncclAllReduce",
	"ncclBroadcast",
	"ncclBcast",
	"ncclReduce",
	"ncclAllGather",
	"ncclReduceScatter",
	"ncclAlltoAll",
	"ncclGather",
	"ncclScatter",
	"ncclSend",
	"ncclRecv",
	"ncclGroupStart",
	"ncclGroupEnd",
	"ncclGroupSimulateEnd",
	"ncclRedOpCreatePreMulSum",
	"ncclRedOpDestroy",
	"ncclMemAlloc",
	"ncclMemFree",
	"ncclCommRegister",
	"ncclCommDeregister",
	"ncclCommWindowRegister",
	"ncclCommWindowDeregister",
	"ncclResetDebugInit",
};

/* --- the profiler --- */
static int calls;

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream)
{
	calls++;
	return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

static void there(int i, void *arg)
{
	(void)i;
	(void)arg;
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		char second[64];

		snprintf(second, sizeof(second), "p%s", names[k]);
		if (dlsym(RTLD_DEFAULT, names[k]) && dlsym(RTLD_DEFAULT, second))
			continue;
		fprintf(stderr, "%s or %s is not there\n", names[k], second);
		_exit(1);
	}
}

static void profiled(struct team *t)
{
	all_sum(t->comm[0], t->first, t->size);
	all_sum(t->comm[0], t->first, t->size);
	must(calls == 2);
}

/* --- a program of second names --- */
static void collectives(ncclComm_t comm, int rank, int size)
{
	int mine = rank, all[MOST], back = -1, seven = rank ? 0 : 7, sum = 0;

	succeeds(pncclAllGather(&mine, all, 1, ncclInt, comm, NULL));
	for (int r = 0; r < size; r++)
		must(all[r] == r);
	succeeds(pncclScatter(all, &back, 1, ncclInt, 0, comm, NULL));
	must(back == rank);
	succeeds(pncclGather(&back, all, 1, ncclInt, 0, comm, NULL));
	succeeds(pncclAlltoAll(all, all + 4, 1, ncclInt, comm, NULL));
	succeeds(pncclBcast(&seven, 1, ncclInt, 0, comm, NULL));
	must(seven == 7);
	succeeds(pncclBroadcast(&mine, &back, 1, ncclInt, size - 1, comm, NULL));
	must(back == size - 1);
	succeeds(pncclReduce(&mine, &sum, 1, ncclInt, ncclMax, 0, comm, NULL));
	must(rank || sum == size - 1);
	for (int r = 0; r < size; r++)
		all[r] = 10 * r;
	succeeds(pncclReduceScatter(all, &sum, 1, ncclInt, ncclSum, comm, NULL));
	must(sum == 10 * rank * size);
}

static void message(ncclComm_t comm, int rank, int size)
{
	int got = -1, mine = rank;

	succeeds(pncclGroupStart());
	succeeds(pncclSend(&mine, 1, ncclInt, (rank + 1) % size, comm, NULL));
	succeeds(pncclRecv(&got, 1, ncclInt, (rank + size - 1) % size, comm, NULL));
	succeeds(pncclGroupEnd());
	must(got == (rank + size - 1) % size);
}

static void operation(ncclComm_t comm, int rank, int size)
{
	int two = 2, out = 0;
	ncclRedOp_t op;

	succeeds(pncclRedOpCreatePreMulSum(&op, &two, ncclInt, ncclScalarHostImmediate, comm));
	succeeds(pncclAllReduce(&rank, &out, 1, ncclInt, op, comm, NULL));
	must(out == size * (size - 1));
	succeeds(pncclRedOpDestroy(op, comm));
}

static void memory(ncclComm_t comm)
{
	ncclWindow_t win;
	void *p, *handle;

	succeeds(pncclMemAlloc(&p, 8192));
	succeeds(pncclCommRegister(comm, p, 8192, &handle));
	succeeds(pncclCommDeregister(comm, handle));
	succeeds(pncclCommWindowRegister(comm, p, 8192, &win, NCCL_WIN_COLL_SYMMETRIC));
	succeeds(pncclCommWindowDeregister(comm, win));
	succeeds(pncclMemFree(p));
}

static void second_rank(int rank, void *arg)
{
	const struct meeting *m = (const struct meeting *)arg;
	ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
	int count, got, device, v;
	ncclComm_t comm, child, fewer;
	ncclResult_t state;
	int last[] = { m->size - 1 };

	succeeds(pncclGetVersion(&v));
	must(v == NCCL_VERSION_CODE);
	succeeds(pncclCommInitRank(&comm, m->size, meeting_id(m, rank), rank));
	succeeds(pncclCommCount(comm, &count));
	succeeds(pncclCommUserRank(comm, &got));
	succeeds(pncclCommCuDevice(comm, &device));
	succeeds(pncclCommGetAsyncError(comm, &state));
	must(count == m->size && got == rank && state == ncclSuccess);
	collectives(comm, rank, m->size);
	message(comm, rank, m->size);
	operation(comm, rank, m->size);
	memory(comm);
	succeeds(pncclCommSplit(comm, 0, 0, &child, NULL));
	message(child, rank, m->size);
	succeeds(pncclCommFinalize(child));
	succeeds(pncclCommDestroy(child));
	if (rank != last[0]) {
		succeeds(pncclCommShrink(comm, last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
		message(fewer, rank, m->size - 1);
		succeeds(pncclCommDestroy(fewer));
	}
	succeeds(pncclGroupStart());
	succeeds(pncclGroupSimulateEnd(&sim));
	must(!strcmp(pncclGetErrorString(ncclInvalidUsage), ncclGetErrorString(ncclInvalidUsage)));
	must(pncclGroupEnd() == ncclInvalidUsage && pncclGetLastError(NULL)[0]);
	pncclResetDebugInit();
	all_here(m->size);
	succeeds(pncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
	succeeds(pncclCommAbort(comm));
}

static void other_ways(int i, void *arg)
{
	ncclUniqueId id;
	ncclComm_t comm;

	(void)i;
	(void)arg;
	succeeds(pncclCommInitAll(&comm, 1, NULL));
	succeeds(pncclCommDestroy(comm));
	succeeds(pncclGetUniqueId(&id));
	succeeds(pncclCommInitRankConfig(&comm, 1, id, 0, NULL));
	succeeds(pncclCommDestroy(comm));
	succeeds(pncclGetUniqueId(&id));
	succeeds(pncclCommInitRankScalable(&comm, 1, 0, 1, &id, NULL));
	message(comm, 0, 1);
	succeeds(pncclCommDestroy(comm));
}

static void second(int size)
{
	struct meeting m;
	pid_t pid[MOST];

	meeting_open(&m, size);
	start(size, second_rank, &m, pid);
	meeting_close(&m);
	end(size, pid, "second names");
}

int main(void)
{
	api_begin();
	alone(there, NULL, "all names");
	as_processes(2, profiled, "profiled");
	second(3);
	alone(other_ways, NULL, "second names of the other ways to begin");
	return api_verdict("names");
}
