/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/emulate.h"
#include "cuda/kernels/device.cuh"

thread_local emulated_block emulated;

void emulate_block(unsigned index, unsigned count)
{
	emulated.index = index;
	emulated.count = count;
}
