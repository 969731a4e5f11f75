/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, put in order for the kernel: src/cuda/kernels/messages.cu. */
#ifndef CUDA_MESSAGES_H
#define CUDA_MESSAGES_H

#include <stddef.h>

#include "base/status.h"
#include "cuda/kernels/kernels.h"

/* As comm gives it; the place is set by gpu.c, the last three by messages_order(). */
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
};

/* Where lanes lie in the mail, from @from on; the same on all ranks. */
struct message_layout {
	uint64_t lines, slots, end;
	uint32_t slot_bytes, lanes;
};
struct message_layout messages_layout(int nranks, uint64_t from);
/* Words of gpu_messages_args.counters. */
size_t messages_counters(int nranks, uint32_t lanes);
/* Puts @list[*n] in the order of launches; a send to oneself and its receive become one copy. TAUT_ERR_ARG when they
 * are not as many, TAUT_ERR_MISMATCH when they differ. */
enum taut_status messages_order(struct message *list, size_t *n, int rank, int nranks);
/* Fills the messages and flows of a launch from the front of @list; how many it took. All but those are set before. */
size_t messages_fill(struct gpu_messages_args *a, struct message *list, size_t n);

#endif
