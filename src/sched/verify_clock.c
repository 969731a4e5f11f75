/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks. A rank's own entry counts its epochs, which end where others can learn of
 * what it did: at a message sent and at a barrier. An access of rank q in epoch e is over
 * for rank r when r's entry for q is at least e.
 *
 * Where no accesses are followed (a barrier by messages) it only matters whom a rank has heard
 * of: a bit each. */
#include "sched/verify_run.h"

#include <string.h>

#include "base/mem.h"

enum { BITS = 32 };

size_t clock_words(const struct run *run)
{
	return run->logs ? (size_t)run->n : ((size_t)run->n + BITS - 1) / BITS;
}

static uint32_t *clock_of(const struct run *run, int rank)
{
	return run->clock + (size_t)rank * clock_words(run);
}

static uint32_t *clock_in(const struct run *run, const struct message *slot)
{
	return run->slot_clock + (size_t)(slot - run->slots) * clock_words(run);
}

void clock_start(struct run *run, int rank)
{
	if (run->logs)
		clock_of(run, rank)[rank] = 1;
	else
		clock_of(run, rank)[rank / BITS] |= UINT32_C(1) << rank % BITS;
}

bool clock_heard(const struct run *run, int rank, int other)
{
	if (run->logs)
		return clock_of(run, rank)[other] > 0;
	return clock_of(run, rank)[other / BITS] >> other % BITS & 1;
}

static void join(const struct run *run, uint32_t *clock, const uint32_t *other)
{
	size_t n = clock_words(run);

	for (size_t i = 0; i < n; i++)
		if (!run->logs)
			clock[i] |= other[i];
		else if (clock[i] < other[i])
			clock[i] = other[i];
}

void clock_leave(struct run *run, int rank, const struct message *slot)
{
	uint32_t *mine = clock_of(run, rank);

	memcpy(clock_in(run, slot), mine, clock_words(run) * sizeof(*mine));
	if (run->logs)
		mine[rank]++;
}

void clock_arrive(struct run *run, int rank, const struct message *slot)
{
	join(run, clock_of(run, rank), clock_in(run, slot));
}

/* Only mapped schedules have barriers, so clocks count. */
void clock_meet(struct run *run, const int32_t *ranks, uint32_t n)
{
	uint32_t *first = clock_of(run, ranks[0]);

	for (uint32_t i = 1; i < n; i++)
		join(run, first, clock_of(run, ranks[i]));
	for (uint32_t i = 1; i < n; i++)
		memcpy(clock_of(run, ranks[i]), first, (size_t)run->n * sizeof(*first));
	for (uint32_t i = 0; i < n; i++)
		clock_of(run, ranks[i])[ranks[i]]++;
}

static bool over(const struct run *run, const struct access *a, int rank)
{
	return a->who == rank || clock_of(run, rank)[a->who] >= a->epoch;
}

static enum taut_status race(const struct run *run, int rank, int owner, struct sched_ref ref, int32_t i, bool writes,
			     const struct access *a, bool wrote)
{
	static const char *const names[] = { "none", "in", "out", "scratch" };

	return run_fault(run, rank, run->ranks[rank].step,
			 "%s %s[%d] of rank %d with no barrier since rank %d %s it (its step %u)",
			 writes ? "writes" : "reads", names[ref.buf], ref.chunk + i, owner, a->who,
			 wrote ? "wrote" : "read", a->step);
}

enum taut_status touch_read(struct run *run, int rank, int owner, struct sched_ref ref, int32_t i)
{
	struct cell_log *log = run->cell_logs + run_cell(run, owner, ref, i);
	struct access *last = log->reads ? run->reads + (log->reads - 1) : NULL;

	if (!over(run, &log->write, rank))
		return race(run, rank, owner, ref, i, false, &log->write, true);
	if (!last || last->who != rank) {
		if (run->nreads == run->cap_reads) {
			uint32_t cap = run->cap_reads ? 2 * run->cap_reads : 256;
			void *p = mem_realloc(run->reads, cap, sizeof(*run->reads));

			if (!p)
				return fail(TAUT_ERR_NOMEM, "verify: no memory for %u accesses", cap);
			run->reads = p;
			run->cap_reads = cap;
		}
		last = run->reads + run->nreads++;
		last->who = rank;
		last->next = log->reads;
		log->reads = run->nreads;
	}
	last->epoch = clock_of(run, rank)[rank];
	last->step = run->ranks[rank].step;
	return TAUT_OK;
}

enum taut_status touch_write(struct run *run, int rank, int owner, struct sched_ref ref, int32_t i)
{
	struct cell_log *log = run->cell_logs + run_cell(run, owner, ref, i);

	if (!over(run, &log->write, rank))
		return race(run, rank, owner, ref, i, true, &log->write, true);
	for (uint32_t at = log->reads; at; at = run->reads[at - 1].next)
		if (!over(run, run->reads + (at - 1), rank))
			return race(run, rank, owner, ref, i, true, run->reads + (at - 1), false);
	log->reads = 0;
	log->write = (struct access){ .who = rank, .epoch = clock_of(run, rank)[rank], .step = run->ranks[rank].step };
	return TAUT_OK;
}

static enum taut_status late(const struct run *run, int owner, size_t cell, const struct access *a)
{
	static const char *const names[] = { "none", "in", "out", "scratch" };
	const struct rank_state *r = run->ranks + owner;

	for (int buf = BUF_SCRATCH; buf >= BUF_IN; buf--)
		if (cell >= r->base[buf] && cell - r->base[buf] < (size_t)r->nchunks[buf])
			return run_fault(run, a->who, a->step,
					 "touches %s[%zu] of rank %d, which may have ended its program by then",
					 names[buf], cell - r->base[buf], owner);
	return run_fault(run, a->who, a->step, "touches memory of rank %d after its end", owner);
}

enum taut_status touch_end(struct run *run, int rank)
{
	const struct rank_state *r = run->ranks + rank;

	for (size_t c = r->first; c < r->end; c++) {
		const struct cell_log *log = run->cell_logs + c;

		if (!over(run, &log->write, rank))
			return late(run, rank, c, &log->write);
		for (uint32_t at = log->reads; at; at = run->reads[at - 1].next)
			if (!over(run, run->reads + (at - 1), rank))
				return late(run, rank, c, run->reads + (at - 1));
	}
	return TAUT_OK;
}
