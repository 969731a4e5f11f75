/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk holds, as a number: 0 nothing; a leaf, which is a chunk of a rank's input; or a
 * reduction of other values in a given order. Equal reductions have equal numbers, other
 * orders other ones. One thread. */
#ifndef SCHED_VALUE_H
#define SCHED_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct value_node {
	uint32_t first, n; /* children[first .. first + n - 1] */
	uint32_t leaves;   /* leaves below, UINT32_MAX when more than fit */
	uint32_t good_for; /* input chunk for which it is known to be the whole sum, plus 1 */
};
struct values {
	int nranks, per_rank; /* leaves: chunk c of rank r is 1 + r * per_rank + c */
	uint32_t nleaves;
	struct value_node *nodes;
	uint32_t nnodes, cap_nodes;
	uint32_t *children;
	uint32_t nchildren, cap_children;
	uint32_t *table; /* open addressing; node index + 1 */
	uint32_t cap_table;
	uint32_t *stack, cap_stack;
	uint32_t *seen; /* per rank: number of the last check that met it */
	uint32_t check;
};

/* @per_rank input chunks a rank; nranks * per_rank below 2^31. */
enum taut_status values_init(struct values *v, int nranks, int per_rank);
void values_cleanup(struct values *v); /* fine on a zeroed one */

static inline uint32_t value_leaf(const struct values *v, int rank, int chunk)
{
	return 1 + (uint32_t)rank * (uint32_t)v->per_rank + (uint32_t)chunk;
}
enum taut_status value_reduce(uint32_t *out, struct values *v, const uint32_t *operands, uint32_t n);

/* Is @id the reduction of input chunk @chunk of every rank, each once? If not, *@why is -1, or
 * names a rank that is missing or (@twice) there more than once. */
enum taut_status value_is_sum(bool *out, struct values *v, uint32_t id, int chunk, int *why, bool *twice);
/* "in[2] of rank 1", "a reduction of 7 inputs", "nothing"; @buf at least 64 bytes. */
const char *value_text(const struct values *v, uint32_t id, char *buf, size_t len);

#endif
