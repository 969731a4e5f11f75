/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators in the making. Each is a job: it waits for other ranks, some of which may be other jobs of the same
 * group of calls, so those run on threads of their own; so does that of a communicator that must not block. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "nccl/state.h"

/* NCCL has no limit; programs come to their first collective minutes apart. */
#define JOIN_MS 600000

ncclResult_t job_create(struct job **out, const char *call, struct ncclComm *parent, const ncclConfig_t *config)
{
	struct job *j = mem_calloc(1, sizeof(*j));
	struct ncclComm *comm = mem_calloc(1, sizeof(*comm));

	if (!j || !comm) {
		mem_free(j);
		mem_free(comm);
		return nccl_fail(parent, ncclSystemError, "%s: no memory for a communicator", call);
	}
	comm->magic = COMM_MAGIC;
	comm->state = ncclInProgress;
	comm->users = 2; /* the handle, the job */
	comm->blocking = config->blocking != 0;
	pthread_mutex_init(&comm->lock, NULL);
	if (config->commName)
		snprintf(comm->name, sizeof(comm->name), "%s", config->commName);
	j->call = call;
	j->comm = comm;
	j->parent = parent;
	if (parent)
		atomic_fetch_add(&parent->users, 1);
	*out = j;
	return ncclSuccess;
}

static void job_free(struct job *j)
{
	nccl_drop(j->comm);
	nccl_drop(j->parent);
	mem_free(j->exclude);
	mem_free(j);
}

void job_discard(struct job *j)
{
	nccl_drop(j->comm);
	job_free(j);
}

static struct taut_comm_opts options_of(const struct job *j)
{
	struct taut_comm_opts o = { .size = sizeof(o), .exclude = j->exclude, .num_exclude = j->nexclude };

	if (j->comm->name[0])
		o.name = j->comm->name;
	if (!config_env("TAUT_JOIN_TIMEOUT_MS"))
		o.timeout_ms = JOIN_MS;
	return o;
}

static void job_run(struct job *j)
{
	const struct taut_comm_opts opts = options_of(j);
	struct ncclComm *comm = j->comm;
	enum taut_status st = gpu_home_enter(&comm->home);

	nccl_calling(j->call);
	line_start(comm, j->parent, j->call);
	if (!st) {
		comm_stop_with(&comm->stop);
		st = j->make(&comm->taut, j, &opts);
		comm_stop_with(NULL);
		gpu_home_leave(&comm->home);
	}
	if (comm->taut) {
		comm->rank = taut_comm_rank(comm->taut);
		comm->nranks = taut_comm_size(comm->taut);
		line_complete(comm, j->call);
	}
	j->result = nccl_status(comm, st);
	if (j->apart && j->parent)
		atomic_fetch_sub(&j->parent->busy, 1);
	atomic_store(&comm->state, j->result);
	if (j->apart && j->parent)
		atomic_fetch_sub(&j->parent->making, 1);
}

/* A handle that the user never got, or that is taken back. */
static ncclResult_t job_end(struct job *j)
{
	ncclResult_t r = j->result;

	if (!j->comm->taut) {
		*j->out = NULL;
		if (nccl_take(j->comm)) /* else given up before */
			nccl_drop(j->comm);
	}
	job_free(j);
	return r;
}

/* --- one that does not block --- */
static void *run_apart(void *arg)
{
	struct job *next;

	pthread_detach(pthread_self());
	for (struct job *j = arg; j; j = next) {
		next = j->next;
		job_run(j);
		if (j->outside)
			nccl_drop(j->comm);
		job_free(j);
	}
	return NULL;
}

static void mark_apart(struct job *chain, bool apart)
{
	for (struct job *j = chain; j; j = j->next) {
		j->apart = apart;
		if (!j->parent)
			continue;
		atomic_fetch_add(&j->parent->busy, apart ? 1 : -1);
		atomic_fetch_add(&j->parent->making, apart ? 1 : -1);
	}
}

/* The handles, where there are some, stay with their user, whatever comes of it. */
static ncclResult_t start_apart(struct job *chain)
{
	pthread_t thread; /* not in @chain, which may be gone by then */
	int err;

	mark_apart(chain, true);
	err = thread_start(&thread, "taut-make", run_apart, chain);
	if (!err)
		return ncclInProgress;
	mark_apart(chain, false);
	nccl_fail(chain->parent, ncclSystemError, "a thread that makes a communicator: %s", strerror(err));
	jobs_cancel(chain);
	return ncclSystemError;
}

ncclResult_t job_start(struct job *j)
{
	*j->out = j->outside ? NULL : j->comm;
	if (nccl_group_open()) {
		nccl_group_add(j);
		return ncclSuccess;
	}
	if (!j->comm->blocking)
		return start_apart(j);
	job_run(j);
	return job_end(j);
}

/* --- those of a group --- */

/* The jobs on @parent are calls of one communicator: in their order. */
static struct job *take_chain(struct job **list)
{
	struct job *chain = *list, **last = &chain->next, **at;

	*list = chain->next;
	*last = NULL;
	for (at = list; chain->parent && *at;) {
		struct job *j = *at;

		if (j->parent != chain->parent) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		j->next = NULL;
		*last = j;
		last = &j->next;
	}
	return chain;
}

static void *run_chain(void *arg)
{
	for (struct job *j = arg; j; j = j->next)
		job_run(j);
	return NULL;
}

/* @first: the result of the chains before this; the first failure is the one that the caller is told. */
static ncclResult_t end_chain(struct job *chain, ncclResult_t first)
{
	while (chain) {
		struct job *next = chain->next;

		if (!first && chain->result)
			nccl_adopt(chain->comm);
		first = first ? first : chain->result;
		job_end(chain);
		chain = next;
	}
	return first;
}

static void start_chain(struct job *chain)
{
	int err = thread_start(&chain->thread, "taut-make", run_chain, chain);

	chain->started = !err;
	if (!err)
		return;
	nccl_fail(chain->parent, ncclSystemError, "a thread that makes a communicator: %s", strerror(err));
	for (struct job *j = chain; j; j = j->next)
		j->result = ncclSystemError;
}

static ncclResult_t run_chains(struct job *chains)
{
	ncclResult_t first = ncclSuccess;

	for (struct job *chain = chains; chain; chain = chain->next_chain)
		if (chain->next_chain)
			start_chain(chain);
		else
			run_chain(chain); /* the last one needs no thread */
	while (chains) {
		struct job *chain = chains;

		chains = chain->next_chain;
		if (chain->started)
			pthread_join(chain->thread, NULL);
		first = end_chain(chain, first);
	}
	return first;
}

static bool goes_on(const struct job *chain, bool calls)
{
	if (chain->parent && calls)
		return false;
	while (chain && !chain->comm->blocking)
		chain = chain->next;
	return !chain;
}

ncclResult_t jobs_run(struct job *list, bool calls)
{
	struct job *chains = NULL, **last = &chains;
	ncclResult_t apart = ncclSuccess, r = ncclSuccess;

	while (list) {
		struct job *chain = take_chain(&list);

		if (!goes_on(chain, calls)) {
			*last = chain;
			last = &chain->next_chain;
			continue;
		}
		apart = start_apart(chain);
		r = apart == ncclInProgress ? r : apart;
	}
	if (!r) {
		r = run_chains(chains);
		return r ? r : apart;
	}
	while (chains) {
		struct job *chain = chains;

		chains = chain->next_chain;
		jobs_cancel(chain);
	}
	return r;
}

void jobs_cancel(struct job *list)
{
	while (list) {
		struct job *j = list;

		list = j->next;
		job_end(j);
	}
}
