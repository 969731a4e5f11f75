/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU that a rank works on, where a thread other than the program's makes its communicator, and memory there. */
#ifndef CUDA_HOME_H
#define CUDA_HOME_H

#include "cuda/driver.h"

/* No context: no GPU, and the calls below do nothing. */
struct gpu_home {
	struct cu_ctx *ctx;
	int device;
	bool held; /* the primary context is kept for this rank */
};

/* GPUs that the driver has; 0 without one. Loads the driver. */
int gpu_count(void);
/* The GPU of the context that is current in this thread; where there is none, the first GPU, as the CUDA
 * runtime has it. */
enum taut_status gpu_home_here(struct gpu_home *out);
enum taut_status gpu_home_on(struct gpu_home *out, int device);
/* The same GPU once more. */
enum taut_status gpu_home_of(struct gpu_home *out, const struct gpu_home *p);
/* Makes it this thread's current context, until gpu_home_leave(). */
enum taut_status gpu_home_enter(const struct gpu_home *p);
void gpu_home_leave(const struct gpu_home *p);
void gpu_home_cleanup(struct gpu_home *p);

/* On the current context's GPU. */
enum taut_status gpu_mem_get(void **out, size_t len);
enum taut_status gpu_mem_put(void *p);
/* From GPU memory to the host's, once all that is queued on the GPU is done. */
enum taut_status gpu_mem_read(void *to, const void *from, size_t len);

#endif
