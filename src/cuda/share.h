/* SPDX-License-Identifier: Apache-2.0 */
/* Callers' buffers in the hands of peers. A buffer that taut has not seen before is published to the ranks
 * of the machine; a thread of each rank maps what it finds there; once all have, kernels work on it in
 * place. Until then, and for memory that cannot be shared, calls go by way of the stage.
 *
 * cuMemAlloc: its IPC handle; within a process as it is.
 *
 * cuMemCreate, cuMemMap: the physical allocations that a buffer spans, each as a descriptor or fabric handle where it
 * was made for that; the peer maps them anew, in one process too, at the places that they have in the owner's address
 * range. In a captured call only if it is kept: what is mapped there may be another allocation when the graph is
 * replayed.
 *
 * Memory pools: within a process, when all peers have access to the pool. Not between processes: what others have of it
 * they would have to free before the owner.
 *
 * An allocation is known by its buffer id, which the driver never uses twice, nor for two mappings: memory that was
 * freed and what is at the same address now are never taken for each other. What is gone the peers let
 * go of within about SHARE_LOOK_MS: until then its memory is not free. What is at its address by then is published when
 * they have.
 *
 * One thread calls, but for share_close(); the thread of the rank does the rest. */
#ifndef CUDA_SHARE_H
#define CUDA_SHARE_H

#include "cuda/driver.h"
#include "cuda/kernels/kernels.h"

#define SHARE_LOOK_MS 100

struct share;

/* Bytes of the table of all ranks: zeroed memory that they share. */
size_t share_table_bytes(int nranks);

struct share_peer {
	uint64_t process; /* differs between processes */
	uint64_t ctx;	  /* address in that process */
	int device;	  /* its number there */
};
struct share_args {
	const struct cuda_driver *cu;
	struct cu_ctx *ctx;
	int rank, nranks;
	struct share_peer peer[GPU_MAX_RANKS]; /* own one too */
	void *table;
	uint64_t maps;	/* device memory, [nranks][GPU_MAX_PLACES] addresses */
	uint64_t ready; /* device memory, [GPU_MAX_PLACES] words: 1 when all peers have mapped this rank's allocation */
};
enum taut_status share_open(struct share **out, const struct share_args *args);
/* Where @len bytes at @p lie among what this rank has published; number 0 where they are not to be shared
 * (now). @captured: in a graph. */
struct gpu_place share_find(struct share *s, const void *p, size_t len, bool captured);
/* The same at once, and waits at most @ms for the peers to map them: true when they have. */
bool share_publish(struct share *s, const void *p, size_t len, int ms);
/* The caller keeps these addresses mapped as they are until share_forget() of the same; one for each. */
enum taut_status share_keep(struct share *s, const void *p, size_t len);
void share_forget(struct share *s, const void *p, size_t len);
/* The peers let go of the allocation that begins at @p, before it is freed; waits at most @ms for it. */
void share_retire(struct share *s, const void *p, int ms);
/* No kernel may use the maps any more. NULL is allowed. */
void share_close(struct share *s);

#endif
