/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_thread_fence(), also under the thread sanitizer, which knows no fences (gcc refuses to compile them): there a
 * read-modify-write in sequential order, which orders at least as much. */
#ifndef BASE_FENCE_H
#define BASE_FENCE_H

#include <stdatomic.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FENCE_BY_WORD 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define FENCE_BY_WORD 1
#endif

#ifdef FENCE_BY_WORD
static inline void fence(memory_order order)
{
	static _Atomic unsigned word;

	(void)order;
	atomic_fetch_add(&word, 0);
}
#else
static inline void fence(memory_order order)
{
	atomic_thread_fence(order);
}
#endif

#endif
