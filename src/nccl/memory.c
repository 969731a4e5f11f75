/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, and its registration, which taut does by itself at first sight: the calls check and keep what they
 * were given, so that what is wrong is told where it is wrong. */
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cuda/gpu.h"
#include "nccl/state.h"

#define PAGE 4096
#define WINDOW_MS 1000 /* for the peers to map a window */

/* One registration; a window is one too. */
struct registered {
	struct registered *next; /* of the communicator */
	void *buff;
	size_t size;
	bool kept; /* of the GPU */
};

/* What ncclMemAlloc() gave of host memory: ncclMemFree() has to know it from what is not its to free. */
static struct given {
	struct given *next;
	void *ptr;
} * all_given;
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;

static bool give(void **out, size_t size)
{
	struct given *g = mem_calloc(1, sizeof(*g));

	*out = g ? mem_aligned(PAGE, size) : NULL;
	if (!*out) {
		mem_free(g);
		return false;
	}
	pthread_mutex_lock(&given_lock);
	*g = (struct given){ all_given, *out };
	all_given = g;
	pthread_mutex_unlock(&given_lock);
	return true;
}

static bool take_given(const void *ptr)
{
	struct given **at = &all_given, *g;
	bool found;

	pthread_mutex_lock(&given_lock);
	while (*at && (*at)->ptr != ptr)
		at = &(*at)->next;
	g = *at;
	found = g;
	if (found)
		*at = g->next;
	pthread_mutex_unlock(&given_lock);
	mem_free(g);
	return found;
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
	nccl_begin();
	if (!ptr)
		return nccl_fail(NULL, ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
	*ptr = NULL;
	if (!size)
		return ncclSuccess;
	if (nccl_gpus())
		return nccl_status(NULL, gpu_mem_get(ptr, size));
	return give(ptr, size) ? ncclSuccess
			       : nccl_fail(NULL, ncclSystemError, "ncclMemAlloc: no memory for %zu bytes", size);
}
PROFILED(ncclMemAlloc);

ncclResult_t ncclMemFree(void *ptr)
{
	if (ptr && gpu_memory(ptr))
		return nccl_status(NULL, gpu_mem_put(ptr));
	if (ptr && !take_given(ptr))
		return nccl_fail(NULL, ncclInvalidArgument,
				 "ncclMemFree: %p is not from ncclMemAlloc(), or is freed already", ptr);
	mem_free(ptr);
	return ncclSuccess;
}
PROFILED(ncclMemFree);

static ncclResult_t enter(struct registered **out, struct ncclComm *comm, void *buff, size_t size, const char *call)
{
	struct registered *g;

	*out = NULL;
	if (!buff || !size)
		return nccl_fail(comm, ncclInvalidArgument, "%s: buff is %p, size %zu: nothing to register", call, buff,
				 size);
	g = mem_calloc(1, sizeof(*g));
	if (!g)
		return nccl_fail(comm, ncclSystemError, "%s: no memory for a registration", call);
	pthread_mutex_lock(&comm->lock);
	*g = (struct registered){ .next = comm->registered, .buff = buff, .size = size };
	comm->registered = g;
	pthread_mutex_unlock(&comm->lock);
	log_info(LOG_WIRE, "%s: %zu bytes at %p: noted (taut shares what it can at first sight)", call, size, buff);
	*out = g;
	return ncclSuccess;
}

static ncclResult_t take_back(struct ncclComm *comm, struct registered *g, const char *call)
{
	struct registered **at = &comm->registered;
	bool found;

	if (!g)
		return ncclSuccess;
	pthread_mutex_lock(&comm->lock);
	while (*at && *at != g)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = g->next;
	pthread_mutex_unlock(&comm->lock);
	if (!found)
		return nccl_fail(comm, ncclInvalidArgument, "%s: %p is no registration of this communicator", call,
				 (void *)g);
	if (g->kept && comm->taut && comm->taut->gpu)
		comm_gpu_forget(comm->taut, g->buff, g->size);
	mem_free(g);
	return ncclSuccess;
}

/* The peers map GPU memory before its first call, and may go on using it in graphs. After a failure @g is gone. */
static ncclResult_t keep(struct ncclComm *comm, struct registered *g, int ms, const char *call)
{
	ncclResult_t r;

	if (!comm->taut || !comm->taut->gpu || !gpu_memory(g->buff))
		return ncclSuccess;
	r = nccl_status(comm, comm_gpu_keep(comm->taut, g->buff, g->size, ms));
	g->kept = !r;
	if (r)
		take_back(comm, g, call);
	return r;
}

void nccl_forget(struct ncclComm *comm)
{
	while (comm->registered) {
		struct registered *g = comm->registered;

		comm->registered = g->next;
		mem_free(g);
	}
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
	ncclResult_t r = nccl_hold_ready(comm, "ncclCommRegister");
	struct registered *g = NULL;

	if (r) {
		nccl_group_spoil(r);
		return r;
	}
	if (!handle)
		r = nccl_fail(comm, ncclInvalidArgument, "ncclCommRegister: handle is NULL");
	else
		r = enter(&g, comm, buff, size, "ncclCommRegister");
	if (!r)
		r = keep(comm, g, 0, "ncclCommRegister");
	if (!r)
		*handle = g;
	else
		nccl_group_spoil(r);
	nccl_drop(comm);
	return r;
}
PROFILED(ncclCommRegister);

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	ncclResult_t r = nccl_hold(comm, "ncclCommDeregister");

	if (r)
		return r;
	r = take_back(comm, handle, "ncclCommDeregister");
	nccl_drop(comm);
	return r;
}
PROFILED(ncclCommDeregister);

static ncclResult_t check_window(struct ncclComm *comm, const void *buff, const ncclWindow_t *win, int flags)
{
	const char *call = "ncclCommWindowRegister";

	if (!win)
		return nccl_fail(comm, ncclInvalidArgument, "%s: win is NULL", call);
	if (flags & ~NCCL_WIN_COLL_SYMMETRIC)
		return nccl_fail(comm, ncclInvalidArgument,
				 "%s: winFlags is %d, wanted: NCCL_WIN_DEFAULT or NCCL_WIN_COLL_SYMMETRIC", call,
				 flags);
	if (flags & NCCL_WIN_COLL_SYMMETRIC && (uintptr_t)buff % NCCL_WIN_REQUIRED_ALIGNMENT)
		return nccl_fail(comm, ncclInvalidArgument,
				 "%s: buff %p is not aligned to %d bytes, as a symmetric window has to be", call, buff,
				 NCCL_WIN_REQUIRED_ALIGNMENT);
	return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags)
{
	ncclResult_t r = nccl_hold_ready(comm, "ncclCommWindowRegister");
	struct registered *g = NULL;

	if (!r) {
		r = check_window(comm, buff, win, winFlags);
		if (!r)
			r = enter(&g, comm, buff, size, "ncclCommWindowRegister");
		if (!r)
			r = keep(comm, g, WINDOW_MS, "ncclCommWindowRegister");
		if (!r)
			*win = (ncclWindow_t)(void *)g;
		nccl_drop(comm);
	}
	if (r)
		nccl_group_spoil(r);
	return r;
}
PROFILED(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
	ncclResult_t r = nccl_hold(comm, "ncclCommWindowDeregister");

	if (r)
		return r;
	r = take_back(comm, (struct registered *)(void *)win, "ncclCommWindowDeregister");
	nccl_drop(comm);
	return r;
}
PROFILED(ncclCommWindowDeregister);
