/* SPDX-License-Identifier: Apache-2.0 */
/* The table in host memory by which the ranks of a machine know each other's buffers. A rank writes its own
 * part; the others write in it only what they have mapped.
 *
 * An entry is an allocation, or a window of a reserved address range whose chunks (a physical allocation mapped there)
 * come and go. States go round: empty, published, retired, and empty again once every other rank has seen that it
 * is retired, so that nobody reads an entry while it is written. */
#ifndef CUDA_SHARE_TABLE_H
#define CUDA_SHARE_TABLE_H

#include <stdatomic.h>

#include "cuda/driver.h"
#include "cuda/kernels/kernels.h"

#define SHARE_CHUNKS 4096 /* of a rank */
#define SHARE_KEY 16

enum share_state { SHARE_EMPTY, SHARE_PUBLISHED, SHARE_RETIRED };
enum share_answer { SHARE_UNSEEN, SHARE_MAPPED, SHARE_CANNOT, SHARE_GONE };
enum share_kind {
	SHARE_WHOLE, /* cuMemAlloc: an IPC handle */
	SHARE_WINDOW,
	SHARE_POOL, /* all memory of a pool, in one process: base is 0 */
};

struct share_entry {
	_Atomic uint32_t state;
	uint32_t kind;
	uint64_t base, size;
	struct cu_ipc_handle handle;
};

struct share_chunk {
	_Atomic uint32_t state;
	uint32_t entry;
	uint64_t turn;	   /* tells it from earlier ones in its place */
	uint64_t at, size; /* at: from the entry's base */
	uint64_t handle;   /* of the owner's process */
	uint32_t fabric;   /* 1: for other processes it is fabric_handle, else a descriptor */
	struct cu_fabric_handle fabric_handle;
};

struct share_rank {
	_Atomic uint32_t address_len; /* 0: no socket (yet) */
	unsigned char address[32];    /* an abstract Unix address */
	unsigned char key[SHARE_KEY]; /* with every message to it */
	_Atomic uint32_t closed;
	_Atomic uint32_t chunks; /* that have ever been used */
	struct share_entry entry[GPU_MAX_PLACES];
	struct share_chunk chunk[SHARE_CHUNKS];
	/* what this rank says of each rank's */
	_Atomic uint8_t entry_answer[GPU_MAX_RANKS][GPU_MAX_PLACES];
	_Atomic uint8_t chunk_answer[GPU_MAX_RANKS][SHARE_CHUNKS];
};

struct share_table {
	_Atomic uint32_t changes; /* counts everything that others should look at; a futex */
	_Alignas(64) struct share_rank rank[];
};

void share_announce(struct share_table *t);
/* Until there is more than @seen changes, at most @ms. */
void share_wait(struct share_table *t, uint32_t seen, int ms);

#endif
