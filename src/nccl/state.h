/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind NCCL's handles. A public call checks as NCCL does, keeps a sentence for what is wrong, and
 * becomes a call of taut.h. */
#ifndef NCCL_STATE_H
#define NCCL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "boot/boot.h"
#include "cuda/home.h"
#include "nccl.h"
#include "taut/taut.h"

#define COMM_MAGIC 0x74617574636f6d6dull
#define CONFIG_MAGIC 0xcafebeefu
#define SIM_MAGIC 0x74685283u

struct ncclComm {
	_Atomic uint64_t magic; /* COMM_MAGIC while the handle is the user's */
	struct taut_comm *taut; /* NULL: not made yet, or it could not be */
	struct gpu_home home;
	int rank, nranks;
	bool blocking;
	_Atomic bool finalized, revoked;
	_Atomic int state; /* ncclResult_t of its making; what it wrote is seen by who has read ncclSuccess here */
	/* Others that are made from this one without blocking. Calls are refused while one is @busy, which ends just
	 * before the other one says ncclSuccess; this one says so when @making has ended, just after: whichever the
	 * program waits for, it can use both. */
	_Atomic int busy, making;
	_Atomic int users;     /* the handle, calls, and the job that makes it: the last one frees */
	struct boot_stop stop; /* ends its making */
	char name[64];
	pthread_mutex_t lock; /* text, registered */
	char text[1024];      /* of the last failure */
	struct registered *registered;
};

/* Defines pNAME as another name of the function just defined. */
#define PROFILED(name) extern __typeof__(name) p##name __attribute__((alias(#name)))

/* --- errors.c --- */
ncclResult_t nccl_code(enum taut_status st);
/* Logs the sentence and keeps it for ncclGetLastError(@comm), which may be NULL; returns @r. */
ncclResult_t nccl_fail(struct ncclComm *comm, ncclResult_t r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Keeps it only. */
void nccl_keep(struct ncclComm *comm, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A failure that another thread had on @comm is told to this one, for ncclGetLastError(NULL). */
void nccl_adopt(struct ncclComm *comm);
/* Keeps this thread's sentence; ncclSuccess for TAUT_OK. */
ncclResult_t nccl_status(struct ncclComm *comm, enum taut_status st);

/* --- words.c --- */
/* For sentences: @call, which stays, is what this thread is in from here on. */
void nccl_calling(const char *call);
/* @text in NCCL's words, cut to @len bytes. */
void nccl_words(char *out, size_t len, const char *text);

/* --- comms.c --- */
/* The first public call of this process: how lines look, and what is said once. */
void nccl_begin(void);
/* GPUs to work on: none where the user has said that there is only host memory (TAUT_DEVICE). */
int nccl_gpus(void);
/* ncclSuccess when @comm is one, and then @call holds it until nccl_drop(). */
ncclResult_t nccl_hold(struct ncclComm *comm, const char *call);
/* The same, and it is made and can take calls. */
ncclResult_t nccl_hold_ready(struct ncclComm *comm, const char *call);
void nccl_drop(struct ncclComm *comm);
/* Takes the handle from the user: true for the one caller that is to drop it. */
bool nccl_take(struct ncclComm *comm);

/* --- make.c: communicators are made by jobs, as they wait for other ranks --- */
struct job {
	struct job *next, *next_chain;
	const char *call; /* the public one */
	enum taut_status (*make)(struct taut_comm **out, const struct job *j, const struct taut_comm_opts *opts);
	struct ncclComm *comm;	 /* to be made; held */
	struct ncclComm *parent; /* held; NULL: none */
	ncclComm_t *out;	 /* the user's */
	ncclUniqueId id;
	int color, key;
	int *exclude, nexclude;
	bool outside; /* this rank will be in no new group: no handle */
	ncclResult_t result;
	pthread_t thread;
	bool started, apart;
};
/* @parent may be NULL; *@out has a blank communicator. */
ncclResult_t job_create(struct job **out, const char *call, struct ncclComm *parent, const ncclConfig_t *config);
/* One that was not started; its handle is gone too. */
void job_discard(struct job *j);
/* Runs it, now, on a thread of its own, or at the end of this thread's group; @j is gone then. */
ncclResult_t job_start(struct job *j);
/* The jobs of a group, side by side: each may need another to come. First failure; ncclInProgress when they go on,
 * which those from a parent do not when @calls follow, as these may be on the parent. */
ncclResult_t jobs_run(struct job *list, bool calls);
/* They will not run. */
void jobs_cancel(struct job *list);

/* --- group.c --- */
bool nccl_group_open(void);
void nccl_group_add(struct job *j);
/* Is @comm made at the end of this thread's group? */
bool nccl_group_makes(const struct ncclComm *comm);
/* The group of this thread fails with @r at its end; no effect outside of one. */
void nccl_group_spoil(ncclResult_t r);
/* Holds @comm until the group has ended: nccl_drop() is the group's. */
void nccl_group_keep(struct ncclComm *comm);

/* --- memory.c --- */
/* What the program has left registered. */
void nccl_forget(struct ncclComm *comm);

/* --- lines.c: what NCCL's users look for in the log --- */
void line_start(const struct ncclComm *comm, const struct ncclComm *parent, const char *call);
void line_complete(const struct ncclComm *comm, const char *call);

#endif
