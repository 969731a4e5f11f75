/* SPDX-License-Identifier: Apache-2.0 */
/* Between ranks that share no memory: each has a copy of the mail of all in its own host memory, which its GPU
 * addresses. What the kernels write there for others (host.cu, messages.cu) is found by threads that look for it, sent
 * over sockets and written to the other's copy, data before the marks that tell of it. The kernels know nothing of
 * that.
 *
 * What is carried from rank a to rank b:
 *   of large messages   "begun" of a, "written" of a's lanes with what b wants of the slot, "read" of b's lanes by a
 *   of messages         slots and "tail" of what a sends to b, "head" of what a receives from b
 *
 * Lanes are dealt to pairs of threads: one finds and sends, one receives. A sender may block, as a receiver never does
 * but for bytes: there is always room for them, since the kernels keep account of their slots. */
#ifndef CUDA_TUNNEL_H
#define CUDA_TUNNEL_H

#include <stdbool.h>

#include "cuda/messages.h"

enum { TUNNEL_THREADS = 4 }; /* at most */

struct tunnel;

/* Where things lie in the mail of a rank. */
struct tunnel_layout {
	uint64_t lines, slots, bytes; /* bytes: of a rank's mail */
	uint32_t lanes, nslots, slot_bytes;
	struct message_layout messages;
};

struct tunnel_args {
	int rank, nranks, threads;
	unsigned char *mem; /* the mails, by rank */
	struct tunnel_layout at;
	const int *out, *in; /* [threads][nranks] connected sockets, in blocking mode; -1: this rank itself */
	uint32_t spin_ns;    /* how long to look for work before sleeping between looks */
	uint32_t *stop;	     /* set when a connection breaks */
};

/* Of what is not opened. */
void tunnel_close_sockets(const struct tunnel_args *args);
/* The sockets are its own from then on, in any case. */
enum taut_status tunnel_open(struct tunnel **out, const struct tunnel_args *args);
/* There will be work soon. */
void tunnel_wake(struct tunnel *t);
/* The rank to which the connection broke, with why in @why; -1: none did. */
int tunnel_broken(const struct tunnel *t, char *why, size_t len);
/* No kernel writes any more. @flush: what has been written still reaches the others, if they take it in time. NULL is
 * allowed. */
void tunnel_close(struct tunnel *t, bool flush);

#endif
