/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in a context: loaded once for each context of the process, all at once, since to load one
 * while another waits for a peer could wait for ever. Kept until the process ends. Any thread. */
#ifndef CUDA_MODULE_H
#define CUDA_MODULE_H

#include "cuda/driver.h"
#include "cuda/kernels/kernels.h"

enum gpu_kernel {
	KERNEL_LL,
	KERNEL_LL128,
	KERNEL_LL128_TWO,
	KERNEL_BULK,
	KERNEL_HOST,
	KERNEL_SCHEDULE,
	KERNEL_LL_SUM,
	KERNEL_LL_PART_SUM,
	KERNEL_LL128_SUM,
	KERNEL_LL128_TWO_SUM,
	KERNEL_LL_COPY,
	KERNELS_COUNT
};

enum { GPU_IMAGES = 8 };

struct gpu_module {
	struct gpu_module *next;
	struct cu_ctx *ctx;
	int nimages;
	struct cu_module *images[GPU_IMAGES];
	struct cu_function *f[KERNELS_COUNT][GPU_KINDS]; /* NULL: no such kernel for the kind */
	struct cu_function *messages, *messages_short;
	bool relays; /* the kernels for large messages may have GPU_RELAY_BYTES of shared memory */
	bool early;  /* kernels wait for the one before by themselves, and so may be launched before it is over */
};

/* Of the current context. TAUT_ERR_UNSUPPORTED when this build has no kernels or none for the GPU. */
enum taut_status gpu_module_get(const struct gpu_module **out, const struct cuda_driver *cu);
struct gpu_grid {
	unsigned blocks, threads; /* threads: of a block */
	unsigned shared_bytes;	  /* of a block */
	bool early;		  /* small enough to be resident beside the kernel before */
	unsigned core;		  /* as in gpu_bulk_args */
};
enum taut_status gpu_module_launch(const struct gpu_module *m, const struct cuda_driver *cu, struct cu_function *f,
				   struct gpu_grid grid, void *args, void *stream);
/* False: built without nvcc. */
bool gpu_module_built(void);

#endif
