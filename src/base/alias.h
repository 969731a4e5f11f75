/* SPDX-License-Identifier: Apache-2.0 */
/* The values that NCCL's variables take, in taut's words. */
#ifndef BASE_ALIAS_H
#define BASE_ALIAS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes to @out (@len bytes, ends with a zero) what @value of NCCL's variable @alias means
 * here; what has no counterpart (LL128 in "^LL128", an algorithm of switches) is left out.
 * Variables whose values are the same are copied. -1 when @len is too small. */
int alias_value(const char *alias, const char *value, char *out, size_t len);
/* The words that @alias takes, as "A|B|C"; NULL: they are no list of words, or the same as taut's. */
const char *alias_words(const char *alias);
/* Is there a word in @value of @alias, a list of words of NCCL alone, that is none of them? alias_value() leaves it
 * out; @out (@len bytes) has the first. */
bool alias_odd_word(const char *alias, const char *value, char *out, size_t len);

#endif
