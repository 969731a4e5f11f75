/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/verify_run.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

#define MAX_CELLS (INT64_C(1) << 28)

static enum taut_status no_memory(const struct run *run)
{
	return fail(TAUT_ERR_NOMEM, "verify: no memory for schedules of %d ranks", run->n);
}

enum taut_status run_fault(const struct run *run, int rank, uint32_t step, const char *fmt, ...)
{
	const struct sched *s = run->scheds[rank];
	char what[400], line[160] = "end";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (step < s->nsteps)
		sched_print_step(s, step, line, sizeof(line));
	return fail(TAUT_ERR_INTERNAL, "schedule %s of %s, %d ranks, root %d, depth %d%s%s: rank %d step %u (%s): %s",
		    sched_coll_name(s->coll), s->algo ? s->algo : "nobody", run->n, s->root, run->opts.depth,
		    run->opts.hold ? ", held" : "", run->opts.in_place ? ", in place" : "", rank, step, line, what);
}

/* --- Memory --- */

static enum taut_status check_alike(const struct run *run, int rank)
{
	const struct sched *a = run->scheds[0], *b = run->scheds[rank];

	if (b->rank != rank || b->nranks != run->n)
		return fail(TAUT_ERR_INTERNAL, "verify: schedule number %d of %d is of rank %d of %d", rank, run->n,
			    b->rank, b->nranks);
	if (a->coll != b->coll || a->root != b->root || a->per_block != b->per_block)
		return fail(TAUT_ERR_INTERNAL,
			    "verify: rank %d has %s, root %d, %d chunks a block, rank 0 has %s, root %d, %d chunks",
			    rank, sched_coll_name(b->coll), b->root, b->per_block, sched_coll_name(a->coll), a->root,
			    a->per_block);
	return sched_check(b);
}

/* Lets IN or OUT of @r start inside the other, as sched.h says under "In place". */
static void overlap(const struct run *run, struct rank_state *r)
{
	size_t own = (size_t)r->s->rank * (size_t)run->per_block;
	bool root = r->s->rank == r->s->root;

	if (!run->opts.in_place || run->coll == COLL_BARRIER)
		return;
	if (run->coll == COLL_ALL_GATHER || (run->coll == COLL_GATHER && root))
		r->base[BUF_IN] = r->base[BUF_OUT] + own;
	else if (run->coll == COLL_REDUCE_SCATTER || (run->coll == COLL_SCATTER && root))
		r->base[BUF_OUT] = r->base[BUF_IN] + own;
	else if (run->coll == COLL_ALL_REDUCE || run->coll == COLL_BROADCAST || run->coll == COLL_REDUCE ||
		 run->coll == COLL_ALL_TO_ALL)
		r->base[BUF_OUT] = r->base[BUF_IN];
}

/* Cells for each buffer behind the other; those of one that overlaps stay unused. */
static enum taut_status lay_out(struct run *run)
{
	int64_t cells = 0;

	for (int i = 0; i < run->n; i++) {
		struct rank_state *r = run->ranks + i;

		r->s = run->scheds[i];
		r->first = (size_t)cells;
		for (int buf = BUF_IN; buf <= BUF_SCRATCH; buf++) {
			r->nchunks[buf] = sched_chunks(r->s, buf);
			r->base[buf] = (size_t)cells;
			cells += r->nchunks[buf];
		}
		r->end = (size_t)cells;
		overlap(run, r);
		if (cells > MAX_CELLS)
			return fail(TAUT_ERR_UNSUPPORTED, "verify: more than %lld chunks", (long long)MAX_CELLS);
	}
	run->ncells = (size_t)cells;
	return TAUT_OK;
}

static void define_inputs(struct run *run)
{
	for (int i = 0; i < run->n; i++)
		for (int c = 0; c < run->ranks[i].nchunks[BUF_IN]; c++)
			run->cells[run->ranks[i].base[BUF_IN] + (size_t)c] = value_leaf(&run->values, i, c);
}

/* The owner's own doing before its program starts. */
static enum taut_status init_logs(struct run *run)
{
	run->cell_logs = mem_calloc(run->ncells, sizeof(*run->cell_logs));
	if (!run->cell_logs)
		return no_memory(run);
	for (int i = 0; i < run->n; i++)
		for (size_t c = run->ranks[i].first; c < run->ranks[i].end; c++)
			run->cell_logs[c].write = (struct access){ .who = i, .epoch = 1 };
	return TAUT_OK;
}

static enum taut_status init_clocks(struct run *run)
{
	size_t n = (size_t)run->n;

	for (int i = 0; i < run->n; i++)
		run->logs |= run->scheds[i]->mapped;
	run->clocks = run->logs || run->coll == COLL_BARRIER;
	if (!run->clocks)
		return TAUT_OK;
	run->clock = mem_calloc(n * clock_words(run), sizeof(*run->clock));
	run->met = mem_calloc(n, sizeof(*run->met));
	if (!run->clock || !run->met)
		return no_memory(run);
	for (int i = 0; i < run->n; i++)
		clock_start(run, i);
	return run->logs ? init_logs(run) : TAUT_OK;
}

static enum taut_status init_memory(struct run *run)
{
	size_t n = (size_t)run->n;
	int64_t inputs = (int64_t)sched_coll_blocks(run->coll, false, run->n) * run->per_block;
	enum taut_status st;

	if (inputs * run->n > MAX_CELLS)
		return fail(TAUT_ERR_UNSUPPORTED, "verify: more than %lld chunks", (long long)MAX_CELLS);
	st = values_init(&run->values, run->n, (int)inputs);
	if (st)
		return st;
	run->ranks = mem_calloc(n, sizeof(*run->ranks));
	run->fifo_of = mem_calloc(n * n, sizeof(*run->fifo_of));
	run->queue = mem_calloc(n, sizeof(*run->queue));
	if (!run->ranks || !run->fifo_of || !run->queue)
		return no_memory(run);
	st = lay_out(run);
	if (st)
		return st;
	run->cells = mem_calloc(run->ncells, sizeof(*run->cells));
	if (!run->cells)
		return no_memory(run);
	define_inputs(run);
	return init_clocks(run);
}

enum taut_status run_init(struct run *run, struct sched *const *scheds, int n, const struct verify_opts *opts)
{
	*run = (struct run){ .scheds = scheds, .opts = *opts, .n = n };
	if (n < 1 || opts->depth < 1)
		return fail(TAUT_ERR_ARG, "verify: %d ranks, depth %d: wanted at least 1 of each", n, opts->depth);
	run->coll = scheds[0]->coll;
	run->per_block = scheds[0]->per_block;
	for (int i = 0; i < n; i++) {
		enum taut_status st = check_alike(run, i);

		if (st)
			return st;
	}
	return init_memory(run);
}

void run_cleanup(struct run *run)
{
	values_cleanup(&run->values);
	mem_free(run->ranks);
	mem_free(run->cells);
	mem_free(run->fifo_of);
	mem_free(run->fifos);
	mem_free(run->slots);
	mem_free(run->queue);
	mem_free(run->met);
	mem_free(run->clock);
	mem_free(run->slot_clock);
	mem_free(run->cell_logs);
	mem_free(run->reads);
}

/* --- FIFOs and turns --- */

static enum taut_status grow_fifos(struct run *run)
{
	uint32_t cap = run->cap_fifos ? 2 * run->cap_fifos : 16;
	size_t slots = (size_t)cap * (size_t)run->opts.depth;
	void *p = mem_realloc(run->fifos, cap, sizeof(*run->fifos));

	if (!p)
		return no_memory(run);
	run->fifos = p;
	p = mem_realloc(run->slots, slots, sizeof(*run->slots));
	if (!p)
		return no_memory(run);
	run->slots = p;
	if (run->clocks) {
		p = mem_realloc(run->slot_clock, slots, clock_words(run) * sizeof(*run->slot_clock));
		if (!p)
			return no_memory(run);
		run->slot_clock = p;
	}
	run->cap_fifos = cap;
	return TAUT_OK;
}

/* Most pairs never talk: a FIFO is made when one of the two ends first asks for it. */
enum taut_status run_fifo(uint32_t *out, struct run *run, int src, int dst)
{
	uint32_t *slot = run->fifo_of + (size_t)src * (size_t)run->n + (size_t)dst;

	if (!*slot) {
		enum taut_status st = run->nfifos == run->cap_fifos ? grow_fifos(run) : TAUT_OK;

		if (st)
			return st;
		run->fifos[run->nfifos++] = (struct fifo){ .src = src, .dst = dst };
		*slot = run->nfifos;
	}
	*out = *slot - 1;
	return TAUT_OK;
}

void run_wake(struct run *run, int rank)
{
	struct rank_state *r = run->ranks + rank;

	r->wait = WAIT_NONE;
	if (r->queued)
		return;
	r->queued = true;
	run->queue[(run->queue_head + run->queue_len++) % (uint32_t)run->n] = rank;
}
