/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that `taut bench` measures: names, buffers, one call, and what the
 * figures mean (nccl-tests' conventions). Constant data and pure functions. */
#ifndef TOOLS_BENCH_COLL_H
#define TOOLS_BENCH_COLL_H

#include <stdbool.h>
#include <stddef.h>

#include "taut/taut.h"

enum bench_kind {
	BENCH_ALL_REDUCE,
	BENCH_ALL_GATHER,
	BENCH_REDUCE_SCATTER,
	BENCH_BROADCAST,
	BENCH_REDUCE,
	BENCH_GATHER,
	BENCH_SCATTER,
	BENCH_ALL_TO_ALL,
	BENCH_BARRIER,
	BENCH_SENDRECV,
};

struct bench_coll {
	const char *name;
	enum bench_kind kind;
	bool reduces, rooted;
	bool in_place;	 /* exists in place */
	bool in_blocks;	 /* the input has a block per rank, else one */
	bool out_blocks; /* likewise the output */
};

/* Takes NCCL's and MPI's spellings too; NULL when unknown. */
const struct bench_coll *bench_coll_find(const char *name);
const struct bench_coll *bench_coll_at(int i); /* NULL past the last */

/* One call as a rank makes it. @count is what the call takes: elements of one block. */
struct bench_call {
	const struct bench_coll *coll;
	struct taut_comm *comm;
	int rank, size;
	const void *in;
	void *out;
	size_t count;
	enum taut_type type;
	enum taut_op op;
};
enum taut_status bench_call_run(const struct bench_call *c, int root);

size_t bench_in_blocks(const struct bench_coll *c, int size);
size_t bench_out_blocks(const struct bench_coll *c, int size);
/* Elements of one block when the larger buffer of a rank has @bytes bytes. */
size_t bench_count(const struct bench_coll *c, size_t bytes, enum taut_type type, int size);
/* Bytes of the larger buffer: what the "size" column says. */
size_t bench_bytes(const struct bench_coll *c, size_t count, enum taut_type type, int size);
/* Bus bandwidth divided by algorithm bandwidth. */
double bench_bus_factor(const struct bench_coll *c, int size);
/* Bytes that all ranks together must read from their inputs, write to their outputs, and
 * send each other, at least; @bytes as in the "size" column. */
double bench_read_bytes(const struct bench_coll *c, double bytes, int size);
double bench_write_bytes(const struct bench_coll *c, double bytes, int size, bool in_place);
double bench_sent_bytes(const struct bench_coll *c, double bytes, int size);

#endif
