/* SPDX-License-Identifier: Apache-2.0 */
/* What share.c, whose thread serves the peers, and share_find.c, where the caller publishes and finds, both know. */
#ifndef CUDA_SHARE_STATE_H
#define CUDA_SHARE_STATE_H

#include <pthread.h>

#include "cuda/share_maps.h"
#include "cuda/share_table.h"

#define GRAIN ((uint64_t)2 << 20) /* chunks begin at multiples of it */
#define REFUSED 64

/* What the driver says of an address. */
struct allocation {
	uint64_t id, start, size;
	unsigned handles; /* kinds that it may be exported as */
	void *pool, *ctx;
};

/* This rank's own view of its entries and chunks. @dying: its owner has freed it; the thread takes it back. */
struct known {
	uint64_t id; /* 0: not in use. A window: 1; a pool: its handle */
	uint64_t base, size;
	enum share_kind kind;
	bool ready, dying;
	uint32_t chunks; /* of a window, not empty */
	uint16_t *index; /* of a window: by GRAIN from its base, 1 + the chunk that begins there */
};
struct own_chunk {
	uint64_t id, base, handle;
	uint64_t given; /* by rank: has been sent the descriptor */
	int fd;
	bool held; /* handle */
	bool ready, dying;
};
struct kept {
	struct kept *next;
	uint64_t base, size;
};
/* What has been said once, by kind. */
enum said { SAID_POOL, SAID_HANDLE, SAID_GRAPH, SAID_FULL, SAIDS };

struct share {
	struct share_args a;
	struct share_table *table;
	struct share_rank *own;
	struct cu_stream *stream;
	struct share_socket socket;
	struct share_maps maps;
	pthread_t thread;
	_Atomic bool closing;
	uint64_t foreign; /* by rank: in another process */

	pthread_mutex_t lock; /* of what follows */
	struct known known[GPU_MAX_PLACES];
	struct own_chunk chunk[SHARE_CHUNKS];
	uint64_t turns; /* counts what has been published or found dead */
	unsigned used;	/* entries */
	struct kept *kept;
	uint64_t refused[REFUSED]; /* ids, in a ring */
	unsigned nrefused;
	bool said[SAIDS];
	bool stuck; /* its GPU takes no word any more: what is ready stays so, and mapped */
};

/* False where the driver knows nothing at @p. */
bool share_look_up(const struct share *s, struct allocation *out, uint64_t p);

#endif
