/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of memory from rank to rank: a datagram each, to the receiver's abstract address, with the
 * receiver's key, which only those who share the table know. */
#ifndef CUDA_SHARE_SOCKET_H
#define CUDA_SHARE_SOCKET_H

#include "base/status.h"
#include "cuda/share_table.h"

#define SHARE_STASH 64

struct share_socket {
	int in, out; /* -1: none */
	struct share_fd {
		int from, fd;
		uint32_t chunk;
		uint64_t turn;
	} stash[SHARE_STASH]; /* that have come, in any order */
	int n;
};

/* Writes address and key of @own. */
enum taut_status share_socket_open(struct share_socket *s, struct share_rank *own);
/* False: not now. */
bool share_socket_send(struct share_socket *s, const struct share_rank *to, int from, uint32_t chunk, uint64_t turn,
		       int fd);
/* The descriptor, which is the caller's, or -1 when it has not come. */
int share_socket_take(struct share_socket *s, const struct share_rank *own, int from, uint32_t chunk, uint64_t turn);
/* Closes what has come of this chunk and was not taken. */
void share_socket_drop(struct share_socket *s, const struct share_rank *own, int from, uint32_t chunk);
void share_socket_close(struct share_socket *s);

#endif
