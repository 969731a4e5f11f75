/* SPDX-License-Identifier: Apache-2.0 */
/* Callers' buffers in the hands of peers. A buffer that taut has not seen before is published: its
 * allocation's handle goes to a table in host memory that the ranks of the machine share; a thread of
 * each rank maps what it finds there; once all have, the allocation is ready, and kernels work on it in place.
 * Until then, and for memory that has no handle (memory pools), calls go by way of the stage.
 *
 * An allocation is known by its buffer id, which the driver never uses twice: memory that was freed
 * and an allocation at the same address are never taken for each other.
 *
 * share_find() is for the calling thread of the rank; the thread of the rank does the rest. */
#ifndef CUDA_SHARE_H
#define CUDA_SHARE_H

#include "cuda/driver.h"
#include "cuda/kernels/kernels.h"

struct share;

/* Bytes of the table of all ranks: zeroed memory that they share. */
size_t share_table_bytes(int nranks);

struct share_args {
	const struct cuda_driver *cu;
	struct cu_ctx *ctx;
	int rank, nranks;
	void *table;
	uint64_t maps;	/* device memory, [nranks][GPU_MAX_PLACES] addresses */
	uint64_t ready; /* device memory, [GPU_MAX_PLACES] words: 1 when all peers have mapped this rank's allocation */
};
enum taut_status share_open(struct share **out, const struct share_args *args);
/* Where @p lies among what this rank has published; number 0 where it is not to be shared. */
struct gpu_place share_find(struct share *s, const void *p);
/* No kernel may use the maps any more. NULL is allowed. */
void share_close(struct share *s);

#endif
