/* SPDX-License-Identifier: Apache-2.0 */
/* The two lines of a lane, a queue of GPU_MESSAGE_SLOTS slots from one rank to another:
 *
 *   at the receiver  "tail": slots written, and for each slot what it holds
 *   at the sender    "head": slots taken, and the invitation to the message that the receiver is at */
#ifndef CUDA_KERNELS_LANES_H
#define CUDA_KERNELS_LANES_H

#include "cuda/kernels/call.cuh"

enum line { LINE_TAIL, LINE_HEAD, LINES };
enum {
	TAIL_OFFERED = 1, /* 1 + count at which a long message begins */
	TAIL_HEADERS
};				       /* words of the tail's line */
enum { HEAD_INVITED = 2, HEAD_PLACE }; /* words of the head's: 1 + count at which the message begins; and its place */

DEVICE uint64_t *header_at(uint64_t *tail, uint64_t count)
{
	return tail + TAIL_HEADERS + count % GPU_MESSAGE_SLOTS * 2;
}

/* The first word of a long message's header: 48 bits of length, the end of the number. */
DEVICE uint64_t header_word(uint64_t bytes, uint32_t number)
{
	return bytes | (uint64_t)number << 48;
}

#endif
