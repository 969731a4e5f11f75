/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that make communicators. */
#include <string.h>

#include "base/config.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "nccl/state.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct taut_id), "an id is an id");

/* --- settings of a communicator --- */
static const struct {
	const char *name;
	size_t at;
	int lo, hi;
} ranges[] = {
#define RANGE(member, lo, hi)                                                                                          \
	{                                                                                                              \
#member, offsetof(ncclConfig_t, member), lo, hi                                                        \
	}
	RANGE(blocking, 0, 1),		 RANGE(cgaClusterSize, 0, 8),
	RANGE(minCTAs, 1, INT_MAX),	 RANGE(maxCTAs, 1, INT_MAX),
	RANGE(splitShare, 0, 1),	 RANGE(collnetEnable, 0, 1),
	RANGE(CTAPolicy, 0, 3),		 RANGE(shrinkShare, 0, 1),
	RANGE(nvlsCTAs, 1, INT_MAX),	 RANGE(nChannelsPerNetPeer, 1, INT_MAX),
	RANGE(nvlinkCentricSched, 0, 1),
#undef RANGE
};

static int member(const ncclConfig_t *c, size_t at)
{
	int v;

	memcpy(&v, (const char *)c + at, sizeof(v));
	return v;
}

static ncclResult_t check_config(const ncclConfig_t *c, const char *call)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		int v = member(c, ranges[i].at);

		if (v != NCCL_CONFIG_UNDEF_INT && (v < ranges[i].lo || v > ranges[i].hi))
			return nccl_fail(NULL, ncclInvalidArgument, "%s: config->%s is %d, wanted: %d to %d", call,
					 ranges[i].name, v, ranges[i].lo, ranges[i].hi);
	}
	if (c->minCTAs != NCCL_CONFIG_UNDEF_INT && c->maxCTAs != NCCL_CONFIG_UNDEF_INT && c->minCTAs > c->maxCTAs)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: config->minCTAs is %d, above config->maxCTAs %d", call,
				 c->minCTAs, c->maxCTAs);
	return ncclSuccess;
}

/* What is not set is @parent's. Programs built with another header have a shorter or longer one. */
static ncclResult_t read_config(ncclConfig_t *out, const ncclConfig_t *in, const struct ncclComm *parent,
				const char *call)
{
	static const ncclConfig_t unset = NCCL_CONFIG_INITIALIZER;
	size_t least = offsetof(ncclConfig_t, blocking) + sizeof(int);

	*out = unset;
	if (in) {
		if (in->magic != CONFIG_MAGIC || in->size < least)
			return nccl_fail(NULL, ncclInvalidArgument,
					 "%s: config does not begin with NCCL_CONFIG_INITIALIZER", call);
		memcpy(out, in, in->size < sizeof(*out) ? in->size : sizeof(*out));
	}
	if (out->blocking == NCCL_CONFIG_UNDEF_INT)
		out->blocking = parent ? parent->blocking : 1;
	return check_config(out, call);
}

/* --- from an id --- */

/* With NCCL_COMM_ID every rank makes the id by itself: it is the same on all, and says to meet there. */
static const ncclUniqueId meet_there = { "taut: at the rendezvous that the settings name" };

static enum taut_status make_id(ncclUniqueId *out)
{
	struct taut_id id;
	enum taut_status st;

	if (config_env("NCCL_COMM_ID")) {
		*out = meet_there;
		return TAUT_OK;
	}
	st = taut_id_create(&id);
	if (!st)
		memcpy(out, &id, sizeof(id));
	return st;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
	nccl_begin();
	nccl_calling("ncclGetUniqueId");
	if (!uniqueId)
		return nccl_fail(NULL, ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
	return nccl_status(NULL, make_id(uniqueId));
}
PROFILED(ncclGetUniqueId);

static enum taut_status make_from_id(struct taut_comm **out, const struct job *j, const struct taut_comm_opts *opts)
{
	struct taut_id id;

	if (!memcmp(&j->id, &meet_there, sizeof(meet_there)))
		return comm_create_at_rendezvous(out, j->comm->rank, j->comm->nranks, opts);
	memcpy(&id, &j->id, sizeof(id));
	return taut_comm_create(out, &id, j->comm->rank, j->comm->nranks, opts);
}

struct member { /* of a group that is to form */
	const char *call;
	int rank, nranks, device; /* @device -1: that of this thread */
	const ncclUniqueId *id;
	const ncclConfig_t *config;
};

static ncclResult_t check_member(const struct member *m, const ncclComm_t *out)
{
	if (!out || !m->id)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: %s is NULL", m->call, out ? "the id" : "comm");
	if (m->nranks < 1)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: nranks is %d, wanted: 1 or more", m->call, m->nranks);
	if (m->rank < 0 || m->rank >= m->nranks)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: rank is %d, wanted: 0 to %d", m->call, m->rank,
				 m->nranks - 1);
	return ncclSuccess;
}

static enum taut_status find_home(struct gpu_home *out, int device)
{
	*out = (struct gpu_home){ .device = device < 0 ? 0 : device };
	if (!nccl_gpus())
		return TAUT_OK;
	return device < 0 ? gpu_home_here(out) : gpu_home_on(out, device);
}

static ncclResult_t start_member(ncclComm_t *out, const struct member *m, const ncclConfig_t *config)
{
	struct job *j;
	ncclResult_t r = job_create(&j, m->call, NULL, config);

	if (r)
		return r;
	j->make = make_from_id;
	j->id = *m->id;
	j->out = out;
	j->comm->rank = m->rank;
	j->comm->nranks = m->nranks;
	r = nccl_status(NULL, find_home(&j->comm->home, m->device));
	if (!r)
		return job_start(j);
	job_discard(j);
	return r;
}

static ncclResult_t join(ncclComm_t *out, const struct member *m)
{
	ncclConfig_t config;
	ncclResult_t r;

	nccl_begin();
	r = check_member(m, out);
	if (!r)
		r = read_config(&config, m->config, NULL, m->call);
	if (!r)
		r = start_member(out, m, &config);
	if (r && r != ncclInProgress)
		nccl_group_spoil(r);
	return r;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	return join(comm, &(struct member){ "ncclCommInitRank", rank, nranks, -1, &commId, NULL });
}
PROFILED(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config)
{
	return join(comm, &(struct member){ "ncclCommInitRankConfig", rank, nranks, -1, &commId, config });
}
PROFILED(ncclCommInitRankConfig);

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
				      ncclConfig_t *config)
{
	const char *call = "ncclCommInitRankScalable";

	if (nId < 1 || nId > nranks) {
		nccl_begin();
		nccl_group_spoil(ncclInvalidArgument);
		return nccl_fail(NULL, ncclInvalidArgument, "%s: nId is %d, wanted: 1 to nranks, %d", call, nId,
				 nranks);
	}
	return join(newcomm, &(struct member){ call, myrank, nranks, -1, commIds, config });
}
PROFILED(ncclCommInitRankScalable);

/* --- all ranks of one process --- */
static ncclResult_t check_devices(int ndev, const int *devlist)
{
	int have = nccl_gpus();

	for (int i = 0; devlist && i < ndev; i++) {
		if (devlist[i] < 0 || (have && devlist[i] >= have))
			return nccl_fail(NULL, ncclInvalidArgument,
					 "ncclCommInitAll: devlist[%d] is %d, wanted: a device from 0 to %d", i,
					 devlist[i], have ? have - 1 : INT_MAX);
		for (int k = 0; k < i; k++)
			if (devlist[k] == devlist[i])
				return nccl_fail(NULL, ncclInvalidUsage, "ncclCommInitAll: devlist has device %d twice",
						 devlist[i]);
	}
	if (have && ndev > have)
		return nccl_fail(NULL, ncclInvalidArgument, "ncclCommInitAll: ndev is %d, this machine has %d GPUs",
				 ndev, have);
	return ncclSuccess;
}

static ncclResult_t join_all(ncclComm_t *comm, int ndev, const int *devlist)
{
	ncclUniqueId id;
	ncclResult_t r = ncclGetUniqueId(&id);

	if (r)
		return r;
	ncclGroupStart();
	for (int i = 0; i < ndev; i++)
		join(&comm[i], &(struct member){ "ncclCommInitAll", i, ndev, devlist ? devlist[i] : i, &id, NULL });
	return ncclGroupEnd();
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	ncclResult_t r;

	nccl_begin();
	if (!comm || ndev < 1)
		r = nccl_fail(NULL, ncclInvalidArgument,
			      comm ? "ncclCommInitAll: ndev is %d, wanted: 1 or more"
				   : "ncclCommInitAll: comm is NULL (ndev %d)",
			      ndev);
	else
		r = check_devices(ndev, devlist);
	if (!r)
		r = join_all(comm, ndev, devlist);
	if (r)
		nccl_group_spoil(r);
	return r;
}
PROFILED(ncclCommInitAll);

/* --- from another one --- */

/* No call goes over a revoked one any more: it is a copy that is split. */
static enum taut_status split_copy(struct taut_comm **out, const struct job *j, const struct taut_comm_opts *opts)
{
	struct taut_comm *copy;
	enum taut_status st = taut_comm_shrink(&copy, j->parent->taut, opts);

	if (st)
		return st;
	st = taut_comm_split(out, copy, j->color, j->key, opts);
	taut_comm_destroy(copy);
	return st;
}

static enum taut_status make_split(struct taut_comm **out, const struct job *j, const struct taut_comm_opts *opts)
{
	if (atomic_load(&j->parent->revoked))
		return split_copy(out, j, opts);
	return taut_comm_split(out, j->parent->taut, j->color, j->key, opts);
}

static enum taut_status make_shrunk(struct taut_comm **out, const struct job *j, const struct taut_comm_opts *opts)
{
	return taut_comm_shrink(out, j->parent->taut, opts);
}

/* A job on @parent, which is held by the caller. */
static ncclResult_t derive(struct job **out, ncclComm_t *newcomm, struct ncclComm *parent, const ncclConfig_t *config,
			   const char *call)
{
	ncclConfig_t c;
	ncclResult_t r;

	if (!newcomm)
		return nccl_fail(parent, ncclInvalidArgument, "%s: newcomm is NULL", call);
	r = read_config(&c, config, parent, call);
	if (!r)
		r = job_create(out, call, parent, &c);
	if (r)
		return r;
	(*out)->out = newcomm;
	r = nccl_status(parent, gpu_home_of(&(*out)->comm->home, &parent->home));
	if (!r)
		return ncclSuccess;
	job_discard(*out);
	return r;
}

static ncclResult_t derived(struct ncclComm *parent, ncclResult_t r)
{
	nccl_drop(parent);
	if (r && r != ncclInProgress)
		nccl_group_spoil(r);
	return r;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	ncclResult_t r = nccl_hold_ready(comm, "ncclCommSplit");
	struct job *j;

	if (r) {
		nccl_group_spoil(r);
		return r;
	}
	if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
		r = nccl_fail(comm, ncclInvalidArgument,
			      "ncclCommSplit: color is %d, wanted: 0 or more, or NCCL_SPLIT_NOCOLOR", color);
	else
		r = derive(&j, newcomm, comm, config, "ncclCommSplit");
	if (!r) {
		j->make = make_split;
		j->color = color;
		j->outside = color == NCCL_SPLIT_NOCOLOR;
		j->key = key;
		r = job_start(j);
	}
	return derived(comm, r);
}
PROFILED(ncclCommSplit);

static ncclResult_t check_excluded(struct ncclComm *comm, const int *list, int n)
{
	if (n < 1 || !list)
		return nccl_fail(comm, ncclInvalidArgument,
				 "ncclCommShrink: no rank to leave out (excludeRanksCount is %d)", n);
	for (int i = 0; i < n; i++)
		if (list[i] < 0 || list[i] >= comm->nranks || list[i] == comm->rank)
			return nccl_fail(
				comm, ncclInvalidArgument,
				"ncclCommShrink: excludeRanksList[%d] is %d, wanted: a rank from 0 to %d other "
				"than this one",
				i, list[i], comm->nranks - 1);
	return ncclSuccess;
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
			    ncclConfig_t *config, int shrinkFlags)
{
	ncclResult_t r = nccl_hold_ready(comm, "ncclCommShrink");
	struct job *j;

	if (r) {
		nccl_group_spoil(r);
		return r;
	}
	if (shrinkFlags & ~NCCL_SHRINK_ABORT)
		r = nccl_fail(comm, ncclInvalidArgument,
			      "ncclCommShrink: shrinkFlags is %d, wanted: NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT",
			      shrinkFlags);
	if (!r)
		r = check_excluded(comm, excludeRanksList, excludeRanksCount);
	if (!r)
		r = derive(&j, newcomm, comm, config, "ncclCommShrink");
	if (r)
		return derived(comm, r);
	j->make = make_shrunk;
	j->exclude = mem_calloc((size_t)excludeRanksCount, sizeof(*j->exclude));
	if (!j->exclude) {
		job_discard(j);
		return derived(comm, nccl_fail(comm, ncclSystemError,
					       "ncclCommShrink: no memory for a list of %d ranks", excludeRanksCount));
	}
	memcpy(j->exclude, excludeRanksList, (size_t)excludeRanksCount * sizeof(int));
	j->nexclude = excludeRanksCount;
	if (shrinkFlags & NCCL_SHRINK_ABORT)
		taut_comm_abort(comm->taut);
	return derived(comm, job_start(j));
}
PROFILED(ncclCommShrink);
