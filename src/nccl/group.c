/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of one thread. Collectives and messages are kept by taut's own group; communicators that are to be made are
 * jobs, which go first. */
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "nccl/state.h"

static _Thread_local struct {
	int depth;
	struct job *jobs, **last;
	struct ncclComm **kept;
	size_t nkept, cap;
	ncclResult_t failed; /* first of the calls in it */
} group;

bool nccl_group_open(void)
{
	return group.depth > 0;
}

void nccl_group_add(struct job *j)
{
	*group.last = j;
	group.last = &j->next;
}

bool nccl_group_makes(const struct ncclComm *comm)
{
	struct job *j = group.depth ? group.jobs : NULL;

	while (j && j->comm != comm)
		j = j->next;
	return j;
}

void nccl_group_spoil(ncclResult_t r)
{
	if (group.depth && !group.failed)
		group.failed = r;
}

void nccl_group_keep(struct ncclComm *comm)
{
	if (group.nkept == group.cap) {
		size_t cap = group.cap ? 2 * group.cap : 16;
		struct ncclComm **kept = mem_realloc(group.kept, cap, sizeof(*kept));

		if (!kept) { /* what is held stays: not freed, but never used after it was */
			nccl_group_spoil(nccl_fail(NULL, ncclSystemError, "no memory for a group of %zu calls", cap));
			return;
		}
		group.kept = kept;
		group.cap = cap;
	}
	group.kept[group.nkept++] = comm;
}

ncclResult_t ncclGroupStart(void)
{
	nccl_begin();
	if (!group.depth++) {
		group.jobs = NULL;
		group.last = &group.jobs;
		group.failed = ncclSuccess;
		taut_group_start();
	}
	return ncclSuccess;
}
PROFILED(ncclGroupStart);

static void drop_kept(void)
{
	struct ncclComm **kept = group.kept;
	size_t n = group.nkept;

	group.kept = NULL;
	group.nkept = group.cap = 0;
	for (size_t i = 0; i < n; i++)
		nccl_drop(kept[i]);
	mem_free(kept);
}

/* Each communicator that failed can be asked for its own sentence; where none did, the first for that of the group. */
static ncclResult_t run_calls(void)
{
	ncclResult_t r = nccl_status(group.nkept ? group.kept[0] : NULL, taut_group_end());

	for (size_t i = group.nkept; r && i-- > 0;)
		if (taut_comm_status(group.kept[i]->taut))
			nccl_keep(group.kept[i], "communicator %p, rank %d: %.900s", (void *)group.kept[i],
				  group.kept[i]->rank, taut_error_message());
	return r;
}

static void discard_calls(void)
{
	group_spoil(TAUT_ERR_ARG);
	taut_group_end();
}

static ncclResult_t leave(const char *call)
{
	nccl_calling(call);
	if (!group.depth)
		return nccl_fail(NULL, ncclInvalidUsage, "%s without ncclGroupStart", call);
	group.depth--;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t r = leave("ncclGroupEnd"), made = ncclSuccess;
	struct job *jobs = group.jobs;

	if (r || group.depth)
		return r;
	group.jobs = NULL;
	r = group.failed;
	if (r)
		jobs_cancel(jobs);
	else
		made = jobs_run(jobs, group.nkept > 0);
	if (made != ncclInProgress)
		r = r ? r : made;
	if (r)
		discard_calls();
	else
		r = run_calls();
	drop_kept();
	return r ? r : made;
}
PROFILED(ncclGroupEnd);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
	ncclResult_t r = leave("ncclGroupSimulateEnd");
	double us = 0;

	if (r || group.depth)
		return r;
	jobs_cancel(group.jobs);
	group.jobs = NULL;
	r = group.failed;
	if (!r && simInfo && simInfo->magic != SIM_MAGIC)
		r = nccl_fail(NULL, ncclInvalidArgument,
			      "ncclGroupSimulateEnd: simInfo does not begin with NCCL_SIM_INFO_INITIALIZER");
	if (!r)
		r = nccl_status(NULL, group_price(&us));
	discard_calls();
	drop_kept();
	if (!r && simInfo && simInfo->size >= offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float))
		simInfo->estimatedTime = (float)us;
	return r;
}
PROFILED(ncclGroupSimulateEnd);
