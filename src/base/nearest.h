/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the known name that is nearest to a misspelt one. Pure. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* Insertions, deletions, replacements and swaps of neighbours that turn @a into @b, letter
 * case aside. Names longer than NEAREST_MAX are as far as can be (NEAREST_MAX). */
enum { NEAREST_MAX = 63 };
size_t edit_distance(const char *a, const char *b);
/* The first of the nearest among @names; NULL when none is near enough to be meant. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif
