/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/verify.h"

#include <stdio.h>

#include "base/mem.h"
#include "sched/verify_run.h"

/* --- The end of the run --- */

static int waited_for(const struct run *run, int rank)
{
	const struct rank_state *r = run->ranks + rank;
	const struct sched_step *p = r->s->steps + r->step;

	if (r->wait == WAIT_EMPTY)
		return run->fifos[r->wait_fifo].src;
	if (r->wait == WAIT_FULL)
		return run->fifos[r->wait_fifo].dst;
	for (uint32_t i = 0; i < p->nfrom; i++)
		if (run->ranks[r->s->peers[p->from + i]].wait != WAIT_BARRIER)
			return r->s->peers[p->from + i];
	return r->s->peers[p->from];
}

/* The first stuck rank, and whom each waits for in turn. */
static enum taut_status deadlock(const struct run *run, int rank)
{
	static const char *const why[] = { "", "a message of", "room towards", "a barrier with" };
	const struct rank_state *first = run->ranks + rank;
	char text[320];
	size_t used = 0;
	int at = rank;

	for (int i = 0; i < 5 && run->ranks[at].wait != WAIT_NONE && used < sizeof(text); i++) {
		const struct rank_state *r = run->ranks + at;
		int next = waited_for(run, at);

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%srank %d (step %u) waits for %s rank %d",
					 i ? ", " : "", at, r->step, why[r->wait], next);
		at = next;
	}
	return run_fault(run, rank, first->step, "chunk %d of the run: deadlock: %s%s", first->chunk, text,
			 run->ranks[at].wait == WAIT_NONE ? ", which has ended" : "");
}

static enum taut_status check_ended(const struct run *run)
{
	for (int i = 0; i < run->n; i++)
		if (run->ranks[i].step < run->ranks[i].s->nsteps)
			return deadlock(run, i);
	for (uint32_t f = 0; f < run->nfifos; f++) {
		const struct fifo *fifo = run->fifos + f;
		char text[64];

		if (fifo->count)
			return run_fault(run, fifo->src, run_slot(run, f, 0)->step,
					 "nobody takes its message to rank %d (%s)", fifo->dst,
					 value_text(&run->values, run_slot(run, f, 0)->value, text, sizeof(text)));
	}
	return TAUT_OK;
}

/* --- Results --- */

static enum taut_status wrong(const struct run *run, int rank, int c, uint32_t seen, const char *wanted)
{
	char text[64];

	return run_fault(run, rank, run->scheds[rank]->nsteps, "out[%d] holds %s, wanted %s", c,
			 value_text(&run->values, seen, text, sizeof(text)), wanted);
}

static enum taut_status check_sum(struct run *run, int rank, int c, int in_chunk)
{
	uint32_t seen = run->cells[run_cell(run, rank, ref_out(c), 0)];
	char wanted[120];
	bool good, twice;
	int why;
	enum taut_status st = value_is_sum(&good, &run->values, seen, in_chunk, &why, &twice);

	if (st || good)
		return st;
	if (why < 0)
		snprintf(wanted, sizeof(wanted), "the reduction of in[%d] of all ranks and nothing else", in_chunk);
	else
		snprintf(wanted, sizeof(wanted), "in[%d] of every rank once: rank %d is %s", in_chunk, why,
			 twice ? "there twice" : "missing");
	return wrong(run, rank, c, seen, wanted);
}

static enum taut_status check_leaf(const struct run *run, int rank, int c, int from, int in_chunk)
{
	uint32_t seen = run->cells[run_cell(run, rank, ref_out(c), 0)];
	uint32_t leaf = value_leaf(&run->values, from, in_chunk);
	char text[64];

	if (seen == leaf)
		return TAUT_OK;
	return wrong(run, rank, c, seen, value_text(&run->values, leaf, text, sizeof(text)));
}

/* All ranks must have reduced in one order, or rounding would differ. */
static enum taut_status check_order(const struct run *run, int rank, int c)
{
	if (run->cells[run_cell(run, rank, ref_out(c), 0)] == run->cells[run_cell(run, 0, ref_out(c), 0)])
		return TAUT_OK;
	return run_fault(run, rank, run->scheds[rank]->nsteps, "out[%d] is reduced in another order than on rank 0", c);
}

static enum taut_status check_chunk(struct run *run, int rank, int c)
{
	int p = run->per_block, root = run->scheds[0]->root;
	enum taut_status st;

	switch (run->coll) {
	case COLL_ALL_REDUCE:
		st = check_sum(run, rank, c, c);
		return st ? st : check_order(run, rank, c);
	case COLL_REDUCE:
		return check_sum(run, rank, c, c);
	case COLL_REDUCE_SCATTER:
		return check_sum(run, rank, c, rank * p + c);
	case COLL_BROADCAST:
		return check_leaf(run, rank, c, root, c);
	case COLL_SCATTER:
		return check_leaf(run, rank, c, root, rank * p + c);
	case COLL_ALL_GATHER:
	case COLL_GATHER:
		return check_leaf(run, rank, c, c / p, c % p);
	case COLL_ALL_TO_ALL:
		return check_leaf(run, rank, c, c / p, rank * p + c % p);
	default:
		return TAUT_OK;
	}
}

static enum taut_status check_heard(const struct run *run, int rank)
{
	for (int i = 0; i < run->n; i++)
		if (!clock_heard(run, rank, i))
			return run_fault(run, rank, run->scheds[rank]->nsteps,
					 "leaves the barrier without word of rank %d", i);
	return TAUT_OK;
}

static enum taut_status check_rank(struct run *run, int rank)
{
	enum taut_status st = TAUT_OK;

	if (run->coll == COLL_BARRIER)
		return check_heard(run, rank);
	for (int c = 0; c < run->ranks[rank].nchunks[BUF_OUT] && !st; c++)
		st = check_chunk(run, rank, c);
	if (!st && run->logs)
		st = touch_end(run, rank);
	return st;
}

/* --- The run --- */

static enum taut_status run_all(struct run *run)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < run->n; i++)
		run_wake(run, i);
	while (run->queue_len && !st) {
		int rank = run->queue[run->queue_head];

		run->queue_head = (run->queue_head + 1) % (uint32_t)run->n;
		run->queue_len--;
		run->ranks[rank].queued = false;
		st = run_turn(run, rank);
	}
	if (!st)
		st = check_ended(run);
	for (int i = 0; i < run->n && !st; i++)
		st = check_rank(run, i);
	return st;
}

enum taut_status verify_all(struct sched *const *scheds, int nranks, const struct verify_opts *opts)
{
	struct run run;
	enum taut_status st = run_init(&run, scheds, nranks, opts);

	if (!st)
		st = run_all(&run);
	run_cleanup(&run);
	return st;
}

enum taut_status verify_algo(const struct sched_algo *algo, const struct sched_req *req, const struct verify_opts *opts)
{
	struct sched **scheds = mem_calloc(req->nranks > 0 ? (size_t)req->nranks : 1, sizeof(struct sched *));
	struct sched_req mine = *req;
	enum taut_status st = TAUT_OK;

	if (!scheds)
		return fail(TAUT_ERR_NOMEM, "verify: no memory for schedules of %d ranks", req->nranks);
	for (mine.rank = 0; mine.rank < req->nranks && !st; mine.rank++)
		st = sched_build(&scheds[mine.rank], algo, &mine);
	if (!st)
		st = verify_all(scheds, req->nranks, opts);
	for (int i = 0; i < req->nranks; i++)
		sched_free(scheds[i]);
	mem_free(scheds);
	return st;
}
