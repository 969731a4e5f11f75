/* SPDX-License-Identifier: Apache-2.0 */
/* Test data and an independent reference for every type and operation: what a rank puts
 * in, and what must come out, element by element. Shares no code with the library's own
 * reductions. Data repeat with a period that is a prime, so that they cost little to make
 * and no block boundary falls on it.
 *
 * Values are chosen so that the result is exact in the element type whatever the order of
 * reduction, and is compared bit for bit; only where an average cannot be exact (ranks
 * not a power of two, floating types) a tolerance of the type's rounding is allowed. */
#ifndef TOOLS_BENCH_DATA_H
#define TOOLS_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>

#include "taut/taut.h"

#define BENCH_PERIOD 4093
#define BENCH_POISON 0xa5 /* byte that buffers hold where nothing was written */

/* One period of elements. */
struct bench_table {
	enum taut_type type;
	bool exact;
	unsigned char bytes[BENCH_PERIOD * 8];
	double want[BENCH_PERIOD], slack[BENCH_PERIOD]; /* used when not exact */
};

/* TAUT_OP_USER stands for the pre-multiplied sum. @op TAUT_OP_COUNT: no reduction. */
bool bench_op_fits(enum taut_op op, enum taut_type type);
/* Writes the scalar with which @rank multiplies its input in a pre-multiplied sum. */
void bench_scalar(void *out, enum taut_type type, int rank);
/* What @rank of @size puts in. */
void bench_input(struct bench_table *out, enum taut_type type, enum taut_op op, int rank, int size);
/* What the reduction over all @size ranks gives. */
void bench_reduced(struct bench_table *out, enum taut_type type, enum taut_op op, int size);

/* @count elements, of which the first is element @start of the endless repetition. */
void bench_fill(void *dst, const struct bench_table *t, size_t start, size_t count);
/* How many of the elements at @got differ. */
size_t bench_wrong(const void *got, const struct bench_table *t, size_t start, size_t count);
/* How many of the @len bytes are no longer BENCH_POISON. */
size_t bench_touched(const void *p, size_t len);

#endif
