/* SPDX-License-Identifier: Apache-2.0 */
/* A message step of a schedule as the kernel takes it. */
#ifndef CUDA_GPU_STEP_H
#define CUDA_GPU_STEP_H

#include "cuda/kernels/kernels.h"
#include "sched/sched.h"

_Static_assert((int)GPU_BUF_IN == BUF_IN && (int)GPU_BUF_OUT == BUF_OUT && (int)GPU_BUF_SCRATCH == BUF_SCRATCH, "");

/* Its peers are those of the schedule. */
static inline struct gpu_step gpu_step_of(const struct sched_step *t)
{
	return (struct gpu_step){ .src = t->src.buf,
				  .dst = t->dst.buf,
				  .nfrom = (uint8_t)t->nfrom,
				  .nto = (uint8_t)t->nto,
				  .from = t->from,
				  .to = t->to,
				  .src_chunk = t->src.chunk,
				  .dst_chunk = t->dst.chunk,
				  .nchunks = t->nchunks };
}

#endif
