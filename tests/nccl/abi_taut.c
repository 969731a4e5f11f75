/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with include/nccl.h. */
#include "nccl/abi.h"

#ifndef TAUT_NCCL
#error "nccl.h is not taut's"
#endif

int abi_of_taut(struct abi_entry *out)
{
	return abi_fill(out);
}
