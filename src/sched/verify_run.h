/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the verifier: one run of all programs. FIFOs with blocking ends make the
 * outcome independent of the order in which ranks get their turn, so one order is enough.
 *   verify_run.c    memory and FIFOs
 *   verify_clock.c  what happened before what, and who touched which chunk
 *   verify_step.c   the meaning of the steps
 *   verify.c        turns, end of the run, results */
#ifndef SCHED_VERIFY_RUN_H
#define SCHED_VERIFY_RUN_H

#include "sched/value.h"
#include "sched/verify.h"

struct message {
	uint32_t value, key, step; /* what, of which part or block, sent by which step */
	int32_t chunk, nchunks;	   /* which of how many of the sender's run */
};
struct fifo {
	int32_t src, dst;
	uint32_t head, count;
};

/* An access to a chunk: by rank @who in its epoch @epoch, at step @step. */
struct access {
	int32_t who;
	uint32_t epoch, step, next; /* next: index + 1 in run.reads */
};
struct cell_log {
	struct access write; /* the last one */
	uint32_t reads;	     /* those since then: index + 1 of a list */
};

enum wait { WAIT_NONE, WAIT_EMPTY, WAIT_FULL, WAIT_BARRIER };

struct rank_state {
	const struct sched *s;
	uint32_t step, peer; /* where it is: step, which of its peers */
	int32_t chunk;	     /* of the run */
	bool sending;	     /* all is received, `value` known */
	bool queued, done;
	enum wait wait;
	uint32_t wait_fifo;
	uint32_t value, key;
	size_t base[4];	    /* first cell of each buffer */
	int64_t nchunks[4]; /* of each buffer */
	size_t first, end;  /* all its cells */
};

struct run {
	struct sched *const *scheds;
	struct verify_opts opts;
	enum sched_coll coll;
	int n, per_block;
	bool clocks, logs; /* happens-before is followed; accesses are written down */
	struct values values;
	struct rank_state *ranks;
	uint32_t *cells; /* values */
	size_t ncells;
	uint32_t *fifo_of; /* [src * n + dst]: index + 1 */
	struct fifo *fifos;
	struct message *slots; /* opts.depth for each fifo */
	uint32_t nfifos, cap_fifos;
	int32_t *queue; /* ranks whose turn it is, a ring of n */
	uint32_t queue_head, queue_len;
	uint32_t *met;	      /* per rank: how many wait at barriers that it leads */
	uint32_t *clock;      /* clock_words() for each rank */
	uint32_t *slot_clock; /* likewise for each slot */
	struct cell_log *cell_logs;
	struct access *reads;
	uint32_t nreads, cap_reads;
};

/* --- verify_run.c --- */
enum taut_status run_init(struct run *run, struct sched *const *scheds, int n, const struct verify_opts *opts);
void run_cleanup(struct run *run);
/* A fault of @rank at step @step: the sentence starts with what is verified and where. */
enum taut_status run_fault(const struct run *run, int rank, uint32_t step, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
enum taut_status run_fifo(uint32_t *out, struct run *run, int src, int dst);
void run_wake(struct run *run, int rank);

static inline struct message *run_slot(const struct run *run, uint32_t fifo, uint32_t i)
{
	uint32_t depth = (uint32_t)run->opts.depth;

	return run->slots + (size_t)fifo * depth + (run->fifos[fifo].head + i) % depth;
}
static inline size_t run_cell(const struct run *run, int rank, struct sched_ref r, int32_t i)
{
	return run->ranks[rank].base[r.buf] + (size_t)(r.chunk + i);
}

/* --- verify_clock.c --- */
size_t clock_words(const struct run *run);
void clock_start(struct run *run, int rank);
bool clock_heard(const struct run *run, int rank, int other);
void clock_leave(struct run *run, int rank, const struct message *slot);  /* a message is put in */
void clock_arrive(struct run *run, int rank, const struct message *slot); /* and taken out */
void clock_meet(struct run *run, const int32_t *ranks, uint32_t n);
/* @rank, at its present step, reads or writes chunk @ref + @i of @owner. */
enum taut_status touch_read(struct run *run, int rank, int owner, struct sched_ref ref, int32_t i);
enum taut_status touch_write(struct run *run, int rank, int owner, struct sched_ref ref, int32_t i);
/* All that others did to @rank's memory is over, as far as @rank knows at its end. */
enum taut_status touch_end(struct run *run, int rank);

/* --- verify_step.c --- */
/* Goes on with @rank until it is done or has to wait. */
enum taut_status run_turn(struct run *run, int rank);

#endif
