/* SPDX-License-Identifier: Apache-2.0 */
/* Verification of `taut bench`: one call on data of which every element is known. */
#ifndef TOOLS_BENCH_CHECK_H
#define TOOLS_BENCH_CHECK_H

#include "bench_coll.h"
#include "bench_data.h"

#define BENCH_GUARD 64 /* bytes behind a buffer that must stay as they were */

/* A rank's buffers. Out of place: a is the input, b the output; in place all is in b. Each
 * has BENCH_GUARD more bytes. */
struct bench_buffers {
	unsigned char *a, *b;
	size_t a_len, b_len;
};

/* Points the call's in and out into @b. */
void bench_place(struct bench_call *c, const struct bench_buffers *b, bool in_place);
/* Collective. *@wrong: elements on this rank that are not what they must be; to these count an
 * output that must not be written, an input that must not change, and bytes behind the
 * output. */
enum taut_status bench_check(size_t *wrong, struct bench_table *scratch, const struct bench_call *c,
			     const struct bench_buffers *b, int root, bool in_place);

#endif
