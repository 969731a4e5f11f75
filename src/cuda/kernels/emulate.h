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
	void bulk_##kind(const struct gpu_bulk_args a);                                                                \
	void host_##kind(const struct gpu_host_args a);
GPU_FOR_KINDS(EMULATED)
#undef EMULATED
void ll_copy_GPU_U64(const struct gpu_direct_args a);
void messages(const struct gpu_messages_args a);
#define EMULATED_SUM(kind)                                                                                             \
	void ll_sum_##kind(const struct gpu_direct_args a);                                                            \
	void ll_part_sum_##kind(const struct gpu_direct_args a);                                                       \
	void ll128_sum_##kind(const struct gpu_direct_args a);                                                         \
	void ll128_two_sum_##kind(const struct gpu_direct_args a);
GPU_FOR_SUM_KINDS(EMULATED_SUM)
#undef EMULATED_SUM
#ifdef __cplusplus
}
#endif
#endif
