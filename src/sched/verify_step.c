/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/verify_run.h"

#include <string.h>

static const char *const buf_names[] = { "none", "in", "out", "scratch" };

static const struct sched_step *step_of(const struct run *run, int rank)
{
	const struct rank_state *r = run->ranks + rank;

	return r->s->steps + r->step;
}

static enum taut_status fault_here(const struct run *run, int rank, const char *what, int owner, struct sched_ref ref,
				   int32_t i)
{
	return run_fault(run, rank, run->ranks[rank].step, "%s %s[%d] of rank %d", what, buf_names[ref.buf],
			 ref.chunk + i, owner);
}

/* --- Chunks --- */

static enum taut_status check_owner(const struct run *run, int rank, int owner, struct sched_ref ref, int32_t i)
{
	if ((int64_t)ref.chunk + i < run->ranks[owner].nchunks[ref.buf])
		return TAUT_OK;
	return fault_here(run, rank, "there is no", owner, ref, i);
}

static enum taut_status read_chunk(uint32_t *out, struct run *run, int rank, int owner, struct sched_ref ref, int32_t i)
{
	enum taut_status st = check_owner(run, rank, owner, ref, i);

	if (!st && run->logs)
		st = touch_read(run, rank, owner, ref, i);
	if (st)
		return st;
	*out = run->cells[run_cell(run, owner, ref, i)];
	return *out ? TAUT_OK : fault_here(run, rank, "reads before it is written:", owner, ref, i);
}

static enum taut_status write_chunk(struct run *run, int rank, int owner, struct sched_ref ref, int32_t i,
				    uint32_t value)
{
	enum taut_status st = check_owner(run, rank, owner, ref, i);

	if (!st && run->logs)
		st = touch_write(run, rank, owner, ref, i);
	if (!st)
		run->cells[run_cell(run, owner, ref, i)] = value;
	return st;
}

/* A run goes chunk by chunk, or all at once where an executor merges it: the same only if
 * what it reads and what it writes are one place or two. */
static enum taut_status check_shift(const struct run *run, int rank, int owner, struct sched_ref src)
{
	const struct sched_step *p = step_of(run, rank);
	size_t a, b;

	if (p->nchunks == 1 || src.buf == BUF_NONE || p->dst.buf == BUF_NONE)
		return TAUT_OK;
	a = run_cell(run, owner, src, 0);
	b = run_cell(run, owner, p->dst, 0);
	if (a == b || (a < b ? b - a : a - b) >= (size_t)p->nchunks)
		return TAUT_OK;
	return fault_here(run, rank, "writes over what the same run reads:", owner, p->dst, 0);
}

/* --- Which part, or with blocks of different lengths which block, a chunk belongs to --- */

static uint32_t block_of(const struct run *run, int owner, struct sched_ref ref, int32_t i)
{
	uint32_t block = (uint32_t)((ref.chunk + i) / run->per_block), n = (uint32_t)run->n, r = (uint32_t)owner;

	switch (run->coll) {
	case COLL_ALL_GATHER:
	case COLL_GATHER:
		return ref.buf == BUF_IN ? r : block;
	case COLL_REDUCE_SCATTER:
	case COLL_SCATTER:
		return ref.buf == BUF_IN ? block : r;
	case COLL_ALL_TO_ALL:
		return ref.buf == BUF_IN ? r * n + block : block * n + r;
	default:
		return 0;
	}
}

static uint32_t key_of(const struct run *run, int owner, struct sched_ref ref, int32_t i)
{
	uint32_t part = (uint32_t)((ref.chunk + i) % run->per_block);

	return run->opts.vectors ? block_of(run, owner, ref, i) * (uint32_t)run->per_block + part : part;
}

/* Scratch tells nothing of lengths when blocks have different ones. */
static bool tells(const struct run *run, struct sched_ref ref)
{
	return ref.buf != BUF_NONE && !(run->opts.vectors && ref.buf == BUF_SCRATCH);
}

/* The key of the present chunk of a step on own memory. */
static enum taut_status find_key(uint32_t *out, const struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	const struct sched_ref refs[] = { p->src, p->src2, p->dst };
	bool known = false;

	*out = 0;
	for (int k = 0; k < 3; k++) {
		uint32_t key;

		if (!tells(run, refs[k]))
			continue;
		key = key_of(run, rank, refs[k], run->ranks[rank].chunk);
		if (known && key != *out)
			return fault_here(run, rank, "another block than that of", rank, refs[k],
					  run->ranks[rank].chunk);
		*out = key;
		known = true;
	}
	if (!known && run->opts.vectors)
		return run_fault(run, rank, run->ranks[rank].step, "the length does not follow from any block");
	return TAUT_OK;
}

/* --- Message steps --- */

static void wait_for(struct run *run, int rank, enum wait wait, uint32_t fifo)
{
	run->ranks[rank].wait = wait;
	run->ranks[rank].wait_fifo = fifo;
}

/* Are all messages of the step there? If not, the rank waits. */
static enum taut_status await_all(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;

	for (; r->peer < p->nfrom; r->peer++) {
		uint32_t f;
		enum taut_status st = run_fifo(&f, run, r->s->peers[p->from + r->peer], rank);

		if (st)
			return st;
		if (run->fifos[f].count)
			continue;
		wait_for(run, rank, WAIT_EMPTY, f);
		return TAUT_OK;
	}
	r->peer = 0;
	return TAUT_OK;
}

static enum taut_status take(uint32_t *out, struct run *run, int rank, int from)
{
	const struct rank_state *r = run->ranks + rank;
	const struct message *m;
	uint32_t f;
	enum taut_status st = run_fifo(&f, run, from, rank);

	if (st)
		return st;
	m = run_slot(run, f, 0);
	if (m->key != r->key)
		return run_fault(run, rank, r->step,
				 "chunk %d of the run meets a chunk of another %s, sent by rank %d step %u", r->chunk,
				 run->opts.vectors ? "block or part" : "part", from, m->step);
	if (m->chunk != r->chunk || m->nchunks != step_of(run, rank)->nchunks)
		return run_fault(run, rank, r->step,
				 "chunk %d of the run meets chunk %d of a run of %d, sent by rank %d step %u", r->chunk,
				 m->chunk, m->nchunks, from, m->step);
	if (run->clocks)
		clock_arrive(run, rank, m);
	*out = m->value;
	return TAUT_OK;
}

static enum taut_status free_places(struct run *run, int rank, const struct sched_step *p)
{
	for (uint32_t i = 0; i < p->nfrom; i++) {
		int from = run->ranks[rank].s->peers[p->from + i];
		struct rank_state *sender = run->ranks + from;
		uint32_t f;
		enum taut_status st = run_fifo(&f, run, from, rank);

		if (st)
			return st;
		run->fifos[f].head = (run->fifos[f].head + 1) % (uint32_t)run->opts.depth;
		run->fifos[f].count--;
		if (sender->wait == WAIT_FULL && sender->wait_fifo == f)
			run_wake(run, from);
	}
	return TAUT_OK;
}

/* V of sched.h: own chunk and messages in rank order. */
static enum taut_status step_value(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;
	uint32_t operands[SCHED_MAX_OPERANDS + 1] = { 0 }, n = 0, own = 0;
	enum taut_status st = TAUT_OK;

	if (p->src.buf != BUF_NONE)
		st = read_chunk(&own, run, rank, rank, p->src, r->chunk);
	for (uint32_t i = 0; i < p->nfrom && !st; i++) {
		int from = r->s->peers[p->from + i];

		if (own && from > rank) {
			operands[n++] = own;
			own = 0;
		}
		st = take(&operands[n++], run, rank, from);
	}
	if (st)
		return st;
	if (own)
		operands[n++] = own;
	r->value = operands[0];
	return n > 1 ? value_reduce(&r->value, &run->values, operands, n) : TAUT_OK;
}

static enum taut_status store_value(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	const struct rank_state *r = run->ranks + rank;

	if (p->dst.buf == BUF_NONE)
		return TAUT_OK;
	if (p->nfrom == 0 && run_cell(run, rank, p->src, 0) == run_cell(run, rank, p->dst, 0))
		return TAUT_OK; /* onto itself: not done */
	return write_chunk(run, rank, rank, p->dst, r->chunk, r->value);
}

static enum taut_status receive(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;
	enum taut_status st = TAUT_OK;

	if (r->chunk == 0)
		st = check_shift(run, rank, rank, p->src);
	if (!st)
		st = await_all(run, rank);
	if (!st && r->wait == WAIT_NONE)
		st = find_key(&r->key, run, rank);
	if (st || r->wait != WAIT_NONE)
		return st;
	st = step_value(run, rank);
	if (!st)
		st = store_value(run, rank);
	if (!st && !run->opts.hold)
		st = free_places(run, rank, p);
	r->sending = true;
	return st;
}

static enum taut_status send_value(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;

	for (; r->peer < p->nto; r->peer++) {
		int to = r->s->peers[p->to + r->peer];
		struct rank_state *receiver = run->ranks + to;
		struct message *m;
		uint32_t f;
		enum taut_status st = run_fifo(&f, run, rank, to);

		if (st)
			return st;
		if (run->fifos[f].count == (uint32_t)run->opts.depth) {
			wait_for(run, rank, WAIT_FULL, f);
			return TAUT_OK;
		}
		m = run_slot(run, f, run->fifos[f].count++);
		*m = (struct message){ r->value, r->key, r->step, r->chunk, p->nchunks };
		if (run->clocks)
			clock_leave(run, rank, m);
		if (receiver->wait == WAIT_EMPTY && receiver->wait_fifo == f)
			run_wake(run, to);
	}
	return TAUT_OK;
}

static void next_chunk(struct run *run, int rank)
{
	struct rank_state *r = run->ranks + rank;

	r->sending = false;
	r->peer = 0;
	if (++r->chunk < step_of(run, rank)->nchunks)
		return;
	r->chunk = 0;
	r->step++;
}

static enum taut_status do_msg(struct run *run, int rank)
{
	struct rank_state *r = run->ranks + rank;
	enum taut_status st = TAUT_OK;

	if (!r->sending)
		st = receive(run, rank);
	if (!st && r->sending)
		st = send_value(run, rank);
	if (st || r->wait != WAIT_NONE)
		return st;
	if (run->opts.hold)
		st = free_places(run, rank, step_of(run, rank));
	next_chunk(run, rank);
	return st;
}

static enum taut_status do_reduce(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;
	uint32_t operands[2];
	enum taut_status st = check_shift(run, rank, rank, p->src);

	if (!st)
		st = check_shift(run, rank, rank, p->src2);
	if (!st)
		st = find_key(&r->key, run, rank);
	if (!st)
		st = read_chunk(&operands[0], run, rank, rank, p->src, r->chunk);
	if (!st)
		st = read_chunk(&operands[1], run, rank, rank, p->src2, r->chunk);
	if (!st)
		st = value_reduce(&r->value, &run->values, operands, 2);
	if (!st)
		st = write_chunk(run, rank, rank, p->dst, r->chunk, r->value);
	next_chunk(run, rank);
	return st;
}

/* --- Mapped steps --- */

/* Are all ranks of @rank's barrier at a barrier of the same ranks? */
static bool all_met(const struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	const int32_t *members = run->ranks[rank].s->peers + p->from;

	for (uint32_t i = 0; i < p->nfrom; i++) {
		const struct rank_state *r = run->ranks + members[i];
		const struct sched_step *q;

		if (members[i] == rank)
			continue;
		if (r->wait != WAIT_BARRIER)
			return false;
		q = step_of(run, members[i]);
		if (q->nfrom != p->nfrom || memcmp(r->s->peers + q->from, members, p->nfrom * sizeof(*members)) != 0)
			return false;
	}
	return true;
}

static enum taut_status do_barrier(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	const int32_t *members = run->ranks[rank].s->peers + p->from;
	uint32_t n = p->nfrom;

	run->met[members[0]]++;
	wait_for(run, rank, WAIT_BARRIER, 0);
	if (run->met[members[0]] < n || !all_met(run, rank))
		return TAUT_OK;
	run->met[members[0]] -= n;
	clock_meet(run, members, n);
	for (uint32_t i = 0; i < n; i++) {
		next_chunk(run, members[i]);
		run_wake(run, members[i]);
	}
	return TAUT_OK;
}

/* With blocks of different lengths a rank knows where a block lies in another rank's memory
 * only if all ranks have the same counts. */
static enum taut_status mapped_key(const struct run *run, int rank, int owner, struct sched_ref ref, uint32_t key)
{
	const struct rank_state *r = run->ranks + rank;

	if (!tells(run, ref))
		return TAUT_OK;
	if (run->opts.vectors && owner != rank && run->coll != COLL_ALL_GATHER && run->coll != COLL_REDUCE_SCATTER)
		return fault_here(run, rank, "cannot know the place of", owner, ref, r->chunk);
	if (key_of(run, owner, ref, r->chunk) != key)
		return fault_here(run, rank, "another block than that of", owner, ref, r->chunk);
	return TAUT_OK;
}

static bool pulls_from(const struct run *run, int rank, int owner)
{
	const struct sched_step *p = step_of(run, rank);
	const int32_t *from = run->ranks[rank].s->peers + p->from;
	uint32_t lo = 0, hi = p->nfrom;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (from[mid] < owner)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->nfrom && from[lo] == owner;
}

/* Stores the pulled or pushed value in the memory of @owner. */
static enum taut_status store_at(struct run *run, int rank, int owner)
{
	const struct sched_step *p = step_of(run, rank);
	const struct rank_state *r = run->ranks + rank;
	bool reads = p->op == STEP_PULL && pulls_from(run, rank, owner);
	enum taut_status st = mapped_key(run, rank, owner, p->dst, r->key);

	if (!st && reads && r->chunk == 0)
		st = check_shift(run, rank, owner, p->src);
	if (st)
		return st;
	if (reads && p->nfrom == 1 && run_cell(run, owner, p->src, 0) == run_cell(run, owner, p->dst, 0))
		return TAUT_OK;
	return write_chunk(run, rank, owner, p->dst, r->chunk, r->value);
}

static enum taut_status store_all(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	const struct rank_state *r = run->ranks + rank;
	enum taut_status st = TAUT_OK;

	if (p->op == STEP_PULL)
		st = store_at(run, rank, rank);
	for (uint32_t i = 0; i < p->nto && !st; i++)
		st = store_at(run, rank, r->s->peers[p->to + i]);
	return st;
}

static uint32_t pull_key(const struct run *run, int rank, const struct sched_step *p)
{
	const struct rank_state *r = run->ranks + rank;

	if (tells(run, p->dst))
		return key_of(run, rank, p->dst, r->chunk);
	return key_of(run, r->s->peers[p->from], p->src, r->chunk);
}

static enum taut_status do_pull(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;
	uint32_t operands[SCHED_MAX_OPERANDS] = { 0 };
	enum taut_status st = TAUT_OK;

	r->key = pull_key(run, rank, p);
	for (uint32_t i = 0; i < p->nfrom && !st; i++) {
		int from = r->s->peers[p->from + i];

		st = mapped_key(run, rank, from, p->src, r->key);
		if (!st)
			st = read_chunk(&operands[i], run, rank, from, p->src, r->chunk);
	}
	if (st)
		return st;
	r->value = operands[0];
	if (p->nfrom > 1)
		st = value_reduce(&r->value, &run->values, operands, p->nfrom);
	if (!st)
		st = store_all(run, rank);
	next_chunk(run, rank);
	return st;
}

static enum taut_status do_push(struct run *run, int rank)
{
	const struct sched_step *p = step_of(run, rank);
	struct rank_state *r = run->ranks + rank;
	enum taut_status st = read_chunk(&r->value, run, rank, rank, p->src, r->chunk);

	r->key = tells(run, p->src) ? key_of(run, rank, p->src, r->chunk)
				    : key_of(run, r->s->peers[p->to], p->dst, r->chunk);
	if (!st)
		st = store_all(run, rank);
	next_chunk(run, rank);
	return st;
}

enum taut_status run_turn(struct run *run, int rank)
{
	static enum taut_status (*const kinds[])(struct run *, int) = {
		[STEP_MSG] = do_msg,   [STEP_REDUCE] = do_reduce, [STEP_BARRIER] = do_barrier,
		[STEP_PULL] = do_pull, [STEP_PUSH] = do_push,
	};
	struct rank_state *r = run->ranks + rank;
	enum taut_status st = TAUT_OK;

	while (!st && r->wait == WAIT_NONE && r->step < r->s->nsteps)
		st = kinds[r->s->steps[r->step].op](run, rank);
	return st;
}
