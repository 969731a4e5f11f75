/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long left; /* allocations until the failing one; 0: none fails */

void mem_fail_from(long n)
{
	atomic_store(&left, n);
}

static bool denied(void)
{
	long n = atomic_load_explicit(&left, memory_order_relaxed); /* a test knob: no order needed */

	if (n == 0)
		return false;
	if (n == 1)
		return true;
	return atomic_fetch_sub(&left, 1) <= 1;
}

void *mem_calloc(size_t n, size_t size)
{
	return denied() ? NULL : calloc(n ? n : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t n, size_t size)
{
	if (denied() || (size && n > SIZE_MAX / size))
		return NULL;
	return realloc(p, n && size ? n * size : 1);
}

char *mem_strdup(const char *s)
{
	return denied() ? NULL : strdup(s);
}

void *mem_aligned(size_t align, size_t len)
{
	void *p;

	if (denied() || posix_memalign(&p, align, len ? len : 1))
		return NULL;
	return p;
}

void mem_free(void *p)
{
	free(p);
}
