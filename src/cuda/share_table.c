/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share_table.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void share_announce(struct share_table *t)
{
	atomic_fetch_add_explicit(&t->changes, 1, memory_order_release); /* what is announced comes before */
	syscall(SYS_futex, &t->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void share_wait(struct share_table *t, uint32_t seen, int ms)
{
	struct timespec most = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	syscall(SYS_futex, &t->changes, FUTEX_WAIT, seen, &most, NULL, 0);
}
