/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a schedule: runs the programs of all ranks symbolically over FIFOs of finite
 * depth, following which contributions each chunk holds, and checks
 *   - every output chunk holds exactly the right contributions, once each;
 *   - the reduction tree of a chunk is the same on every rank that holds the result;
 *   - no deadlock, with FIFOs of @depth messages, and no message left over;
 *   - mapped accesses of different ranks that conflict have a barrier between them;
 *   - with @in_place, all that with IN and OUT overlapping as sched.h says;
 *   - a chunk moves only to a chunk of the same part number (chunk % per_block), and from a
 *     run only to a run of the same length;
 *   - no chunk is read before it is written, none that the rank does not have is touched;
 *   - with @vectors, the length of every message follows at both ends from the blocks that
 *     the steps name;
 *   - mapped accesses stay between the moments when their owner starts and ends its program.
 * Sends wait for a free place in the FIFO; a step with several `from` takes its messages
 * together, when all have come: that is the weakest executor allowed. With @hold a message
 * moreover keeps its place until the step has sent its value on, as when an executor copies
 * from slot to slot: such executors need a depth of 2. */
#ifndef SCHED_VERIFY_H
#define SCHED_VERIFY_H

#include "sched/sched.h"

struct verify_opts {
	int depth;     /* messages a FIFO holds, at least 1 */
	bool in_place; /* of all_to_all: what an algorithm's `swaps` promises */
	bool hold;     /* a message's place is free only after the sends of the step */
	bool vectors;  /* blocks of different lengths; what an algorithm's `vectors` promises */
};

/* TAUT_OK, or TAUT_ERR_INTERNAL with a sentence that names rank, step and chunk. */
enum taut_status verify_all(struct sched *const *scheds, int nranks, const struct verify_opts *opts);
/* Builds all ranks' schedules of @algo for @req (its rank field is ignored) and verifies. */
enum taut_status verify_algo(const struct sched_algo *algo, const struct sched_req *req,
			     const struct verify_opts *opts);

#endif
