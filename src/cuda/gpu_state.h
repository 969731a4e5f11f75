/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank holds of its GPU; for gpu*.c alone. */
#ifndef CUDA_GPU_STATE_H
#define CUDA_GPU_STATE_H

#include "cuda/gpu.h"
#include "cuda/host_mail.h"
#include "cuda/module.h"
#include "cuda/share.h"

#define GPU_SCHEDULE_ROOM ((uint64_t)32 << 20) /* in the mail, where schedules are asked for */
#define LL_DATA ((size_t)64 << 10)	       /* largest message by ll */
#define HOST_LANES 32			       /* by way of host memory: pairs of blocks */
#define HOST_SLOTS 4			       /* of a lane */
#define HOST_LL_DATA ((size_t)2 << 10)	       /* largest message by ll there */

/* Where things lie in the mail; the same on every rank. */
struct layout {
	uint64_t acks, posts, ll, ll128, stage, push, bytes;
	uint64_t host_lines, host_slots;
	uint32_t host_lanes, host_slot_bytes;
	uint64_t ll_bytes, ll128_bytes; /* of an area */
	struct message_layout messages;
};

/* So that the next call can follow it. */
struct last_call {
	void *stream;
	uint64_t id;	  /* of the stream */
	uint64_t capture; /* 0: none */
	struct cu_event *event;
	bool recorded;
};

struct gpu {
	const struct cuda_driver *cu;
	const struct gpu_module *module;
	struct cu_ctx *ctx;
	struct cu_stream *own; /* for set-up */
	int rank, nranks;
	int blocks;	 /* that may run at once */
	int long_blocks; /* of a call that may last */
	bool relays;	 /* large messages may go by relay.cuh, on all ranks */
	bool alone;	 /* no other rank has this GPU: a launch may wait on it while the one before runs */
	struct layout at;
	uint64_t mail, epochs, maps, ready; /* device memory */
	uint64_t mail_bytes, mail_messages; /* of the mail there; messages: where its lanes of messages begin */
	uint64_t mails;			    /* key of mails.h; 0: no other rank in this process */
	uint64_t counters;		    /* of messages */
	uint64_t marks;			    /* of lanes, by way of host memory */
	struct host_mail host;		    /* the mail of all ranks, where GPUs do not address each other */
	struct tunnel *tunnel;		    /* that mail is this rank's alone */
	struct share *share;		    /* NULL: one rank alone */
	uint64_t peer[GPU_MAX_RANKS];	    /* each rank's mail as addressed here */
	uint64_t mapped[GPU_MAX_RANKS];	    /* that in its GPU's memory; 0: not mapped */
	bool opened[GPU_MAX_RANKS];
	const int *island_of;		/* by way of host memory or sockets: of each rank; NULL: there are none */
	uint64_t near;			/* bit r: rank r is of this rank's island */
	struct schedules *schedules;	/* NULL: none are run */
	uint32_t *words;		/* host memory: stop, trouble */
	struct gpu_odd *odd;		/* after them */
	uint64_t calls;			/* written by the calling thread */
	bool called, graphs;		/* graphs: a call was captured */
	struct last_call last[2], *now; /* on a stream; in a graph that is captured. now: that of the call at hand */
};

enum { WORD_STOP, WORD_TROUBLE, WORDS_ODD = 32, WORDS_LOOK = 64 };

static inline uint64_t up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

/* The kernel for a collective of pieces of @bytes, all ranks the same. */
enum gpu_kernel gpu_choose(const struct gpu *g, const struct gpu_request *op, size_t bytes);
/* The same as @k, with less code where there is such a one. */
enum gpu_kernel gpu_lean(enum gpu_kernel k, const struct gpu *g, const struct gpu_direct_args *a);
struct gpu_grid gpu_grid_of(const struct gpu *g, enum gpu_kernel k, const struct gpu_request *op, size_t bytes);

/* @d: the call as the kernels take it. *@done false: op->algo has no schedule for it, on no rank, and nothing was done.
 */
enum taut_status gpu_run_schedule(bool *done, struct gpu *g, const struct gpu_request *op,
				  const struct gpu_direct_args *d, void *stream);
void gpu_close_schedules(struct gpu *g);
size_t gpu_schedules_bytes(const struct gpu *g);
/* With the other ranks of this process, so that none frees its mail before all are done. */
void gpu_join_mails(struct gpu *g, const struct gpu_card *cards);

/* Blocks of a launch: all ranks of a GPU must fit it at once, and all ranks take the same number. */
void gpu_set_blocks(struct gpu *g, const struct gpu_card *cards);

#endif
