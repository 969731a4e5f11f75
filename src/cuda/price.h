/* SPDX-License-Identifier: Apache-2.0 */
/* What calls on GPU memory take, for programs that ask before they call: a start and a rate, from what two H200 joined
 * by NVLink were measured at (docs/BENCHMARKS.md). Nothing is chosen by it. Pure. */
#ifndef CUDA_PRICE_H
#define CUDA_PRICE_H

#include <stddef.h>

#include "sched/sched.h"

/* In us. @bytes: of a rank's piece, as the call's count has it. */
double gpu_price(enum sched_coll coll, int nranks, size_t bytes);
double gpu_price_message(size_t bytes);

#endif
