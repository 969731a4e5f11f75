/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank has mapped of the others' memory. For its thread of share.c alone; its context is current. */
#ifndef CUDA_SHARE_MAPS_H
#define CUDA_SHARE_MAPS_H

#include "cuda/share.h"
#include "cuda/share_socket.h"

struct share_maps {
	const struct share_args *a;
	struct share_table *table;
	struct cu_stream *stream;
	struct share_socket *socket;
	struct share_map {
		uint64_t at;	   /* its base here */
		uint64_t reserved; /* bytes of addresses; 0: none, or the owner's own */
		bool opened;	   /* by its IPC handle */
	} map[GPU_MAX_RANKS][GPU_MAX_PLACES];
};

/* Maps what is new of rank @r and lets go of what is retired. True when an answer has changed. */
bool share_maps_follow(struct share_maps *m, int r);
/* Lets go of all. */
void share_maps_close(struct share_maps *m);
/* To device memory, there on return. */
enum taut_status share_put(const struct share_args *a, struct cu_stream *stream, uint64_t to, const void *from,
			   size_t len);
/* Are ranks @r and own threads of one process? Then, also of one context? */
bool share_same_process(const struct share_args *a, int r);
bool share_same_context(const struct share_args *a, int r);

#endif
