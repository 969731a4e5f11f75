/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's interface for communication from inside of a user's kernels. Its structures are those of one version of NCCL,
 * in memory that those kernels read: taut refuses them, with a sentence. Teams are arithmetic, and right. Prototypes
 * are those of NCCL's nccl_device.h, which programs that use it include. */
#include "nccl/state.h"

struct team {
	int nranks, rank, stride;
};

#define DEVICE_API(result, name, params)                                                                               \
	TAUT_NCCL_API result name params;                                                                              \
	TAUT_NCCL_API result p##name params;                                                                           \
	result name params

static ncclResult_t refuse(struct ncclComm *comm, const char *call)
{
	bool is = comm && comm->magic == COMM_MAGIC;

	return nccl_fail(is ? comm : NULL, ncclInvalidUsage,
			 "%s: taut has no communicators inside of kernels: use the calls of nccl.h, or NCCL", call);
}

DEVICE_API(ncclResult_t, ncclDevCommCreate, (ncclComm_t comm, const void *requirements, void *out))
{
	(void)requirements;
	(void)out;
	return refuse(comm, "ncclDevCommCreate");
}
PROFILED(ncclDevCommCreate);

DEVICE_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const void *dev))
{
	(void)dev;
	return refuse(comm, "ncclDevCommDestroy");
}
PROFILED(ncclDevCommDestroy);

DEVICE_API(ncclResult_t, ncclLsaBarrierCreateRequirement, (struct team team, int n, void *handle, void *out))
{
	(void)team, (void)n, (void)handle, (void)out;
	return refuse(NULL, "ncclLsaBarrierCreateRequirement");
}
PROFILED(ncclLsaBarrierCreateRequirement);

DEVICE_API(ncclResult_t, ncclGinBarrierCreateRequirement,
	   (ncclComm_t comm, struct team team, int n, void *handle, void *out))
{
	(void)team, (void)n, (void)handle, (void)out;
	return refuse(comm, "ncclGinBarrierCreateRequirement");
}
PROFILED(ncclGinBarrierCreateRequirement);

DEVICE_API(ncclResult_t, ncclLLA2ACreateRequirement, (int blocks, int slots, void *handle, void *out))
{
	(void)blocks, (void)slots, (void)handle, (void)out;
	return refuse(NULL, "ncclLLA2ACreateRequirement");
}
PROFILED(ncclLLA2ACreateRequirement);

/* Has no way to say no: none. */
DEVICE_API(int, ncclLLA2ACalcSlots, (int elements, int size))
{
	(void)elements, (void)size;
	refuse(NULL, "ncclLLA2ACalcSlots");
	return 0;
}
PROFILED(ncclLLA2ACalcSlots);

/* --- teams --- */
DEVICE_API(struct team, ncclTeamWorld, (ncclComm_t comm))
{
	struct team t = { 0, 0, 1 };

	if (nccl_hold_ready(comm, "ncclTeamWorld"))
		return t;
	t.nranks = comm->nranks;
	t.rank = comm->rank;
	nccl_drop(comm);
	return t;
}
PROFILED(ncclTeamWorld);

/* Ranks that read each other's memory: those of this machine, where each has as many, numbered on. */
DEVICE_API(struct team, ncclTeamLsa, (ncclComm_t comm))
{
	struct team t = { 1, 0, 1 };
	int local, n;

	if (nccl_hold_ready(comm, "ncclTeamLsa"))
		return t;
	local = taut_comm_local_rank(comm->taut);
	n = taut_comm_local_size(comm->taut);
	if (comm->nranks % n == 0 && comm->rank % n == local)
		t = (struct team){ n, local, 1 };
	nccl_drop(comm);
	return t;
}
PROFILED(ncclTeamLsa);

/* One rank of each such team. */
DEVICE_API(struct team, ncclTeamRail, (ncclComm_t comm))
{
	struct team inner = ncclTeamLsa(comm), world = ncclTeamWorld(comm);

	return (struct team){ world.nranks / inner.nranks, world.rank / inner.nranks, inner.nranks };
}
PROFILED(ncclTeamRail);

DEVICE_API(int, ncclTeamRankToWorld, (ncclComm_t comm, struct team team, int rank))
{
	return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
PROFILED(ncclTeamRankToWorld);

DEVICE_API(int, ncclTeamRankToLsa, (ncclComm_t comm, struct team team, int rank))
{
	return ncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}
PROFILED(ncclTeamRankToLsa);

/* --- no part of the interface any more, but exported --- */
void ncclResetDebugInit(void)
{
}
PROFILED(ncclResetDebugInit);

TAUT_NCCL_API void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void)
{
}
