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

#define EMULATED(kind)                                                                                                 \
	void ll_##kind(const struct gpu_direct_args a);                                                                \
	void ll128_##kind(const struct gpu_direct_args a);                                                             \
	void ll128_two_##kind(const struct gpu_direct_args a);                                                         \
	void bulk_##kind(const struct gpu_bulk_args a);
EMULATED(GPU_U8)
EMULATED(GPU_U16)
EMULATED(GPU_U32)
EMULATED(GPU_U64)
EMULATED(GPU_S8)
EMULATED(GPU_S16)
EMULATED(GPU_S32)
EMULATED(GPU_S64)
EMULATED(GPU_F16)
EMULATED(GPU_BF16)
EMULATED(GPU_F32)
EMULATED(GPU_F64)
EMULATED(GPU_E4M3)
EMULATED(GPU_E5M2)
#undef EMULATED
void messages(const struct gpu_messages_args a);
void ll_sum_GPU_F16(const struct gpu_direct_args a);
void ll_sum_GPU_BF16(const struct gpu_direct_args a);
void ll_sum_GPU_F32(const struct gpu_direct_args a);
#ifdef __cplusplus
}
#endif
#endif
