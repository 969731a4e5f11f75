/* SPDX-License-Identifier: Apache-2.0 */
/* A collective as data: what one rank does, step by step, over numbered chunks.
 *
 * An algorithm (one file, one entry of sched_algos[]) builds the program of one rank; it
 * is read by the verifier (verify.h), the cost model (cost.h) and the executors. This
 * room includes nothing but base and knows no wire and no device.
 *
 * Buffers. Each of IN, OUT and SCRATCH is a row of blocks, each block of `per_block`
 * equal chunks. What a block is follows from the collective:
 *   all_reduce, broadcast, reduce, barrier   IN and OUT: one block (the whole vector)
 *   all_gather, gather                       IN: one block, OUT: a block per rank
 *   reduce_scatter, scatter                  IN: a block per rank, OUT: one block
 *   all_to_all                               IN and OUT: a block per rank
 * SCRATCH is scratch_chunks chunks. Chunk c of a buffer is part c % per_block of block
 * c / per_block, SCRATCH included: parts of one number have one length, parts of different
 * numbers may differ (the last ones of a block may be short or empty). So a chunk only ever
 * moves to, or is reduced with, a chunk of the same part number, on every rank; the verifier
 * checks it. Every message step names a chunk.
 *
 * Who has which buffer: IN of broadcast and scatter and OUT of reduce and gather exist on
 * the root only. IN is never written. barrier moves one dummy element.
 *
 * Slices. The executor repeats the program over slices of every block, so that a chunk of
 * one slice fits a connection's slot. Slice by slice, chunk pieces are disjoint; a piece
 * past the end of its block is empty and then nothing is sent, on both sides.
 *
 * Channels. Each channel has its own program and its own FIFO between every pair of
 * ranks; channels take disjoint ranges of every block and know nothing of each other.
 * A schedule is built for one channel; the executor runs it on each.
 *
 * In place: IN and OUT may be the same memory (IN chunk c == OUT chunk c for all_reduce,
 * broadcast, reduce; IN == block `rank` of OUT for all_gather and root's gather; OUT ==
 * block `rank` of IN for reduce_scatter and root's scatter). Every algorithm must give the
 * right result then too, but for all_to_all, where only those that swap blocks do. A store of a chunk onto itself (src
 * is dst, nothing received) is not done.
 *
 * Different lengths (v-forms): each block has a length of its own, scratch chunks have that
 * of the largest. A message's length then follows at both ends from the block that the step
 * names, so nothing travels from or to SCRATCH.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum sched_coll {
	COLL_ALL_REDUCE,
	COLL_ALL_GATHER,
	COLL_REDUCE_SCATTER,
	COLL_BROADCAST,
	COLL_REDUCE,
	COLL_GATHER,
	COLL_SCATTER,
	COLL_ALL_TO_ALL,
	COLL_BARRIER,
	COLL_COUNT,
};
const char *sched_coll_name(enum sched_coll coll); /* "all_reduce" ... */
bool sched_coll_reduces(enum sched_coll coll);
bool sched_coll_has_root(enum sched_coll coll);
/* Blocks of IN (@out false) or OUT (@out true) for @nranks. */
int sched_coll_blocks(enum sched_coll coll, bool out, int nranks);

/* Operands of one reduction, own one included, and ranks that one mapped step stores to; a
 * builder that would need more does not fit. */
#define SCHED_MAX_OPERANDS 64

enum sched_buf { BUF_NONE, BUF_IN, BUF_OUT, BUF_SCRATCH };

struct sched_ref {
	uint8_t buf; /* enum sched_buf */
	int32_t chunk;
};

/* Message steps. Let V be
 *     nothing received: src;
 *     received and src is BUF_NONE: the message (exactly one `from`);
 *     received and src is given: src and the messages, reduced in the order of their rank
 *     numbers, src standing at this rank's own number, all in one n-ary reduction.
 * V is stored to dst unless that is BUF_NONE, and sent to every rank in `to`.
 * So: send, recv, recv+reduce, recv+copy+send, recv+reduce+send, recv+reduce+copy+send and
 * copy are one form. An n-ary reduction of 16- and 8-bit floats accumulates in fp32.
 * A step with neither src nor dst passes messages on; its run begins with part 0 of a block.
 * STEP_REDUCE is the local reduction dst = a op b (a is `src`, b is `src2`, in this order).
 * A run of nchunks consecutive chunks is handled chunk by chunk, in order, as nchunks
 * messages. What is sent as a run is received as a run of the same length, so that an executor
 * may make one message of it where it is contiguous.
 *
 * Mapped steps, for ranks that can address each other's buffers:
 * STEP_BARRIER        all ranks in `from` (which includes this rank) meet
 * STEP_PULL           chunk src of buffer src.buf of every rank in `from` (which may include
 *                     this rank), reduced in rank order if several, stored to dst of this rank
 *                     and of every rank in `to`
 * STEP_PUSH           src of this rank is stored to dst of every rank in `to`
 * Between conflicting accesses of different ranks there must be a barrier. */
enum sched_op { STEP_MSG, STEP_REDUCE, STEP_BARRIER, STEP_PULL, STEP_PUSH };

struct sched_step {
	uint8_t op; /* enum sched_op */
	struct sched_ref src, src2, dst;
	int32_t nchunks;      /* run length, at least 1 */
	uint32_t from, nfrom; /* slice of sched.peers, ascending rank order */
	uint32_t to, nto;     /* likewise, in order of sending */
};

struct sched {
	enum sched_coll coll;
	const char *algo;
	int rank, nranks, root;
	int per_block;	    /* chunks of a block, the same on every rank */
	int scratch_chunks; /* of this rank */
	bool mapped;	    /* has mapped steps */
	struct sched_step *steps;
	uint32_t nsteps, cap_steps;
	int32_t *peers;
	uint32_t npeers, cap_peers;
};

/* What is asked of an algorithm. */
struct sched_req {
	enum sched_coll coll;
	int rank, nranks, root;
	/* node_of[r]: which machine rank r is on, numbered from 0 in order of first rank; NULL:
	 * all on one. Ranks of a machine need not be neighbours in rank order. */
	const int *node_of;
	int nnodes;
	/* order[i]: the rank at place i of rings and chains, each rank once; NULL: rank order. The same on all ranks.
	 * Algorithms with an order of their own pay no heed to it. */
	const int32_t *order;
	const char *inner, *outer; /* two_level: names of the algorithms inside and between; NULL: its choice */
};

struct sched_algo {
	const char *name;
	uint32_t colls;	  /* bit 1 << enum sched_coll for each it can do */
	uint32_t vectors; /* likewise: those of which it can do the v-form */
	bool mapped;	  /* its schedules have mapped steps */
	bool swaps;	  /* its all_to_all is right in place, on whichever ranks: IN chunk c == OUT chunk c */
	/* (optional) false where it has no schedule: two_level on one machine, powers of two ... */
	bool (*fits)(const struct sched_req *req);
	/* Appends the program of req->rank to the empty @s. Cost near the number of its steps:
	 * no loop over all ranks beyond that. */
	enum taut_status (*build)(struct sched *s, const struct sched_req *req);
};

extern const struct sched_algo *const sched_algos[];	    /* NULL-terminated, table.c */
const struct sched_algo *sched_algo_find(const char *name); /* NCCL's names too; NULL: unknown */
/* Does @algo have a schedule for @req? */
bool sched_algo_fits(const struct sched_algo *algo, const struct sched_req *req);
/* And one that serves the v-form? */
bool sched_algo_fits_vectors(const struct sched_algo *algo, const struct sched_req *req);

/* Builds and checks the form (indices in range); on success *@out is the caller's. A
 * group of one rank gives a schedule that copies IN to OUT. */
enum taut_status sched_build(struct sched **out, const struct sched_algo *algo, const struct sched_req *req);
void sched_free(struct sched *s); /* NULL is allowed */
/* Chunks that @s->rank has in @buf; 0 where it has no such buffer. */
int64_t sched_chunks(const struct sched *s, enum sched_buf buf);
/* The form alone: every index in range, every step one of the kinds above. TAUT_ERR_INTERNAL
 * names rank and step. */
enum taut_status sched_check(const struct sched *s);

/* --- For builders. All return a status so that memory failure is passed on. --- */
static inline struct sched_ref ref_none(void)
{
	return (struct sched_ref){ BUF_NONE, 0 };
}
static inline struct sched_ref ref_in(int chunk)
{
	return (struct sched_ref){ BUF_IN, chunk };
}
static inline struct sched_ref ref_out(int chunk)
{
	return (struct sched_ref){ BUF_OUT, chunk };
}
static inline struct sched_ref ref_scratch(int chunk)
{
	return (struct sched_ref){ BUF_SCRATCH, chunk };
}
enum taut_status sched_send(struct sched *s, struct sched_ref src, int n, int to);
enum taut_status sched_recv(struct sched *s, struct sched_ref dst, int n, int from);
enum taut_status sched_copy(struct sched *s, struct sched_ref dst, struct sched_ref src, int n);
enum taut_status sched_reduce(struct sched *s, struct sched_ref dst, struct sched_ref a, struct sched_ref b, int n);
/* The general message step; @from and @to are copied. */
enum taut_status sched_msg(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *from,
			   uint32_t nfrom, const int32_t *to, uint32_t nto);
enum taut_status sched_barrier(struct sched *s, const int32_t *ranks, uint32_t n);
enum taut_status sched_pull(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *from,
			    uint32_t nfrom, const int32_t *to, uint32_t nto);
enum taut_status sched_push(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *to,
			    uint32_t nto);

/* One line a step, for logs, tests and `taut` tools; @buf is cut, never overrun. Returns the
 * length that the whole text has. */
size_t sched_print(const struct sched *s, char *buf, size_t len);
size_t sched_print_step(const struct sched *s, uint32_t i, char *buf, size_t len); /* step @i alone */

#endif
