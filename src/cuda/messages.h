/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, put in order for the kernel: src/cuda/kernels/messages.cu. */
#ifndef CUDA_MESSAGES_H
#define CUDA_MESSAGES_H

#include <stddef.h>

#include "base/status.h"
#include "cuda/kernels/kernels.h"

/* As comm gives it; the place is set by gpu.c, the three after it by messages_order(). */
struct message {
	void *buf; /* read only of a send */
	size_t bytes;
	int peer, tag;		 /* tag: GPU_TAG_ANY of a receive, GPU_TAG_CALL of both ends in a collective */
	uint32_t sig;		 /* of the collective */
	enum gpu_flow_kind kind; /* GPU_FLOW_SEND or GPU_FLOW_RECV */
	uint64_t place;		 /* of a receive: GPU_PLACE(), or 0 */
	const void *from;	 /* of a copy */
	uint32_t index;		 /* among those of its kind and peer */
	uint32_t turn;
	enum gpu_path path; /* set by messages_fill() */
};

/* Where lanes lie in the mail, from @from on; the same on all ranks. */
struct message_layout {
	uint64_t lines, slots, shorts, credits, end;
	uint32_t slot_bytes, lanes;
	uint32_t short_lanes, short_most; /* short_most: bytes of a short message */
};
struct message_layout messages_layout(int nranks, uint64_t from, uint32_t short_most);
/* For launches of @blocks at most; the same on all ranks. */
void messages_limit(struct message_layout *l, int nranks, int blocks);
/* Words of gpu_messages_args.counters, of which short_counters and numbers are parts. */
struct message_counters {
	size_t shorts, numbers, all;
};
struct message_counters messages_counters(int nranks, const struct message_layout *l);
/* Puts @list[*n] in the order of launches; a send to oneself and its receive become one copy. TAUT_ERR_ARG when they
 * are not as many, TAUT_ERR_MISMATCH when they differ. */
enum taut_status messages_order(struct message *list, size_t *n, int rank, int nranks);
/* What all launches have in common. */
void messages_begin(struct gpu_messages_args *a, int nranks, const struct message_layout *l, uint64_t *counters);
/* Fills the messages and flows of a launch from the front of @list; how many it took. All but those are set before. */
size_t messages_fill(struct gpu_messages_args *a, struct message *list, size_t n);
struct message_grid {
	unsigned blocks, threads;
};
/* @most: blocks. Sets a->long_blocks. */
struct message_grid messages_grid(struct gpu_messages_args *a, unsigned most);

#endif
