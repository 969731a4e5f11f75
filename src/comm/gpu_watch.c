/* SPDX-License-Identifier: Apache-2.0 */
/* A thread for each communicator on GPU memory, for what nobody else sees: a kernel that waits for a rank that
 * never comes or has made another call, a GPU that does not work any more. It looks every TAUT_STALL_MS while calls
 * are made. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm/comm.h"
#include "cuda/gpu.h"

#define ASK_ALL 10 /* stalled looks from one question whether the others are there to the next */

struct comm_watch {
	struct taut_comm *comm;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t end;
	bool ending;
	uint64_t calls; /* when nothing was waiting */
	bool waiting;
	unsigned stalled;
	struct gpu_progress last;
};

static bool is_waiting(const struct gpu_progress *p)
{
	return p->begun != p->ended || p->messages_begun != p->messages_ended;
}

static bool same(const struct gpu_progress *a, const struct gpu_progress *b)
{
	return a->begun == b->begun && a->ended == b->ended && a->messages_begun == b->messages_begun &&
	       a->messages_ended == b->messages_ended;
}

/* One that has left in order, or has died. */
static void ask_all(struct taut_comm *comm)
{
	for (int r = 0; r < comm->size && !atomic_load(&comm->error); r++)
		if (r != comm->rank)
			comm_quiet(comm, r);
}

static void stalled(struct comm_watch *w)
{
	comm_stalled(w->comm, false);
	if (++w->stalled % ASK_ALL == 3)
		ask_all(w->comm);
}

static void look(struct comm_watch *w)
{
	struct taut_comm *comm = w->comm;
	struct gpu_progress now = w->last;
	bool known, graphs;
	uint64_t calls = gpu_calls(comm->gpu, &graphs);
	enum taut_status st;

	if (calls == w->calls && !w->waiting && !graphs)
		return;
	st = gpu_look(comm->gpu, &now, &known);
	if (st) {
		comm_broken(comm, st);
		return;
	}
	if (w->waiting && same(&now, &w->last))
		stalled(w);
	else
		w->stalled = 0;
	w->waiting = !known || is_waiting(&now);
	w->calls = calls;
	w->last = now;
}

static void pause_for(struct comm_watch *w)
{
	uint64_t ns = w->comm->net.stall_ms * 1000000ull;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000u);
	until.tv_nsec = (long)(ns % 1000000000u);
	while (!w->ending && !pthread_cond_timedwait(&w->end, &w->lock, &until))
		;
}

static void *work(void *arg)
{
	struct comm_watch *w = arg;

	pthread_mutex_lock(&w->lock);
	while (!w->ending && !atomic_load(&w->comm->error)) {
		pause_for(w);
		pthread_mutex_unlock(&w->lock);
		if (!atomic_load(&w->comm->error) && !comm_gpu_check(w->comm))
			look(w);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

enum taut_status comm_watch_open(struct taut_comm *comm)
{
	struct comm_watch *w = mem_calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int err;

	if (!w)
		return fail(TAUT_ERR_NOMEM, "a thread that watches a GPU");
	w->comm = comm;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->end, &attr);
	pthread_condattr_destroy(&attr);
	err = thread_start(&w->thread, "taut-watch", work, w);
	if (err) {
		pthread_cond_destroy(&w->end);
		pthread_mutex_destroy(&w->lock);
		mem_free(w);
		return errno_fail(err, "a thread that watches a GPU");
	}
	comm->watch = w;
	return TAUT_OK;
}

void comm_watch_close(struct taut_comm *comm)
{
	struct comm_watch *w = comm->watch;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_broadcast(&w->end);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->end);
	pthread_mutex_destroy(&w->lock);
	mem_free(w);
	comm->watch = NULL;
}
