/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels as functions of the processor (GPU_EMULATE), for tests: call one from as many threads
 * as it is to have blocks, each after emulate_block(). */
#ifndef CUDA_KERNELS_EMULATE_H
#define CUDA_KERNELS_EMULATE_H

#include "cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
void emulate_block(unsigned index, unsigned count);

/* F(name): the kernels that take gpu_direct_args, of a kind; those of sums. */
#define GPU_FOR_DIRECT(F, kind) F(ll_##kind) F(ll128_##kind) F(ll128_two_##kind)
#define GPU_FOR_DIRECT_SUMS(F, kind) F(ll_sum_##kind) F(ll_part_sum_##kind) F(ll128_sum_##kind) F(ll128_two_sum_##kind)

#define DIRECT(name) void name(const struct gpu_direct_args a);
#define EMULATED(kind)                                                                                                 \
	GPU_FOR_DIRECT(DIRECT, kind)                                                                                   \
	void bulk_##kind(const struct gpu_bulk_args a);                                                                \
	void host_##kind(const struct gpu_host_args a);                                                                \
	void schedule_##kind(const struct gpu_schedule_args a);
#define EMULATED_SUMS(kind) GPU_FOR_DIRECT_SUMS(DIRECT, kind)
GPU_FOR_KINDS(EMULATED)
GPU_FOR_SUM_KINDS(EMULATED_SUMS)
DIRECT(ll_copy_GPU_U64)
/* Blocks: a.long_blocks + a.nwarps. */
void messages(const struct gpu_messages_args a);
void messages_short(const struct gpu_messages_args a);
#undef EMULATED_SUMS
#undef EMULATED
#undef DIRECT
#ifdef __cplusplus
}
#endif
#endif
