/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's way to write many hosts or counts in short. Pure functions over text. */
#ifndef BOOT_NODELIST_H
#define BOOT_NODELIST_H

#include <stddef.h>

/* Hosts in "a[01-03,7]-b[1-2],x"; -1 when that is no host list. */
long nodelist_count(const char *list);
/* Host @index to @out; -1 when there is none or @len is too small. Leading zeros count. */
int nodelist_get(const char *list, long index, char *out, size_t len);
/* Entry @index of "2(x3),1", which is 2, 2, 2, 1; -1 when there is none. */
int nodelist_tasks(const char *counts, long index);

#endif
