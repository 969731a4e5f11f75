/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation with one place to make it fail: tests set mem_fail_after. Any thread. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Zeroed; NULL when there is none (the caller says for what with fail()). */
void *mem_calloc(size_t n, size_t size);
/* Contents kept; the new part is not zeroed. */
void *mem_realloc(void *p, size_t n, size_t size);
char *mem_strdup(const char *s);
/* @align a power of two; freed with mem_free(). Not zeroed. */
void *mem_aligned(size_t align, size_t len);
void mem_free(void *p);

/* Tests: allocation number @n from now (1 is the next) and all after it fail; 0: none. */
void mem_fail_from(long n);

#endif
