/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: who holds them, what they are asked, their end. */
#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "nccl/state.h"

static bool host_only; /* written once, before any use */

static void begin(void)
{
	struct config cfg;

	log_set_form(LOG_FORM_NCCL);
	log_set_words(nccl_words);
	if (config_load(&cfg))
		return; /* the communicator's making says what is wrong */
	host_only = cfg.device == DEVICE_HOST;
	log_init(&cfg);
	config_check_nccl_names();
	config_cleanup(&cfg);
}

void nccl_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
}

int nccl_gpus(void)
{
	nccl_begin();
	return host_only ? 0 : gpu_count();
}

ncclResult_t ncclGetVersion(int *version)
{
	if (!version)
		return nccl_fail(NULL, ncclInvalidArgument, "ncclGetVersion: version is NULL");
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}
PROFILED(ncclGetVersion);

/* --- holding --- */
ncclResult_t nccl_hold(struct ncclComm *comm, const char *call)
{
	nccl_calling(call);
	if (!comm)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: comm is NULL", call);
	if (comm->magic != COMM_MAGIC)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: comm is no communicator, or one that was destroyed",
				 call);
	atomic_fetch_add(&comm->users, 1);
	return ncclSuccess;
}

static ncclResult_t check_made(struct ncclComm *comm, const char *call)
{
	int state = atomic_load(&comm->state);

	if (state == ncclInProgress)
		return nccl_fail(comm, ncclInvalidArgument, "%s: the communicator is %s", call,
				 nccl_group_makes(comm) ? "made by the ncclGroupEnd() of this group: call after it"
							: "still being made: wait until ncclCommGetAsyncError() says "
							  "ncclSuccess");
	if (state)
		return nccl_fail(NULL, (ncclResult_t)state, "%s: the communicator could not be made: %.800s", call,
				 comm->text);
	return ncclSuccess;
}

static ncclResult_t hold_made(struct ncclComm *comm, const char *call)
{
	ncclResult_t r = nccl_hold(comm, call);

	if (r)
		return r;
	r = check_made(comm, call);
	if (r)
		nccl_drop(comm);
	return r;
}

static ncclResult_t hold_open(struct ncclComm *comm, const char *call)
{
	ncclResult_t r = hold_made(comm, call);

	if (r || !comm->finalized)
		return r;
	r = nccl_fail(comm, ncclInvalidUsage, "%s: the communicator was finalized", call);
	nccl_drop(comm);
	return r;
}

ncclResult_t nccl_hold_ready(struct ncclComm *comm, const char *call)
{
	ncclResult_t r = hold_open(comm, call);

	if (r || !atomic_load(&comm->busy))
		return r;
	r = nccl_fail(comm, ncclInvalidArgument,
		      "%s: another communicator is still being made from this one: wait until ncclCommGetAsyncError() "
		      "says ncclSuccess",
		      call);
	nccl_drop(comm);
	return r;
}

bool nccl_take(struct ncclComm *comm)
{
	return atomic_exchange(&comm->magic, 0) == COMM_MAGIC;
}

void nccl_drop(struct ncclComm *comm)
{
	if (!comm || atomic_fetch_sub(&comm->users, 1) > 1)
		return;
	if (comm->taut && gpu_home_enter(&comm->home) == TAUT_OK) {
		taut_comm_destroy(comm->taut);
		gpu_home_leave(&comm->home);
	}
	gpu_home_cleanup(&comm->home);
	nccl_forget(comm);
	pthread_mutex_destroy(&comm->lock);
	comm->magic = 0;
	mem_free(comm);
}

/* --- what it is asked --- */
static ncclResult_t ask(ncclComm_t comm, const int *out, const char *call)
{
	if (!out)
		return nccl_fail(NULL, ncclInvalidArgument, "%s: the place for the answer is NULL", call);
	return hold_made(comm, call);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	ncclResult_t r = ask(comm, count, "ncclCommCount");

	if (r)
		return r;
	*count = comm->nranks;
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommCount);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	ncclResult_t r = ask(comm, rank, "ncclCommUserRank");

	if (r)
		return r;
	*rank = comm->rank;
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommUserRank);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	ncclResult_t r = ask(comm, device, "ncclCommCuDevice");

	if (r)
		return r;
	*device = comm->home.device;
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommCuDevice);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	ncclResult_t r;

	if (!asyncError)
		return nccl_fail(NULL, ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
	r = nccl_hold(comm, "ncclCommGetAsyncError");
	if (r)
		return r;
	*asyncError = atomic_load(&comm->making) ? ncclInProgress : (ncclResult_t)atomic_load(&comm->state);
	if (*asyncError != ncclSuccess && *asyncError != ncclInProgress)
		nccl_adopt(comm);
	/* What was revoked has nothing left that could fail. */
	if (*asyncError == ncclSuccess && !atomic_load(&comm->revoked))
		*asyncError = nccl_status(comm, taut_comm_status(comm->taut));
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommGetAsyncError);

/* --- its end --- */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t r;

	if (!comm)
		return ncclSuccess;
	r = nccl_hold(comm, "ncclCommFinalize");
	if (r)
		return r;
	if (comm->finalized || atomic_load(&comm->revoked))
		r = nccl_fail(comm, ncclInvalidArgument, "ncclCommFinalize: the communicator was %s before",
			      comm->finalized ? "finalized" : "revoked");
	else
		comm->finalized = true; /* calls end on their streams without the library's doing */
	nccl_drop(comm);
	return r;
}
PROFILED(ncclCommFinalize);

/* The handle is no more the user's; a call that still runs holds the rest until it returns. */
static void give_up(struct ncclComm *comm)
{
	if (!nccl_take(comm))
		return;
	if (nccl_group_open())
		nccl_group_keep(comm); /* the group's calls come first */
	else
		nccl_drop(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	ncclResult_t r;

	if (!comm)
		return ncclSuccess;
	r = nccl_hold(comm, "ncclCommDestroy");
	if (r)
		return r;
	give_up(comm);
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommDestroy);

static void end_calls(struct ncclComm *comm)
{
	if (atomic_load(&comm->state) == ncclSuccess)
		taut_comm_abort(comm->taut);
	else
		boot_stop(&comm->stop);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	ncclResult_t r;

	if (!comm)
		return ncclSuccess;
	r = nccl_hold(comm, "ncclCommAbort");
	if (r)
		return r;
	end_calls(comm);
	give_up(comm);
	nccl_drop(comm);
	return ncclSuccess;
}
PROFILED(ncclCommAbort);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
	ncclResult_t r;

	if (!comm)
		return ncclSuccess;
	r = hold_open(comm, "ncclCommRevoke");
	if (r)
		return r;
	if (revokeFlags != NCCL_REVOKE_DEFAULT)
		r = nccl_fail(comm, ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d, wanted: 0", revokeFlags);
	else if (atomic_exchange(&comm->revoked, true))
		r = nccl_fail(comm, ncclInvalidArgument, "ncclCommRevoke: the communicator was revoked before");
	else
		end_calls(comm);
	nccl_drop(comm);
	return r;
}
PROFILED(ncclCommRevoke);
