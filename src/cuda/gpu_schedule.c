/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules run by kernels/schedule.cu: built once for each algorithm, collective and root, kept in GPU memory.
 *
 * What depends on memory is decided by what the largest program of all ranks needs, so all ranks decide alike. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cuda/gpu_state.h"
#include "cuda/gpu_step.h"

#define POOL_BYTES ((size_t)512 << 10)
#define SCRATCH_BYTES ((size_t)2 << 20)
#define NEAR_SLOT_MOST ((uint64_t)64 << 10)
#define PEER_LANES 32u
#define CHANNEL_LEAST ((size_t)16 << 10) /* bytes of a block that a channel is worth */
#define THREADS 512

_Static_assert(sizeof(struct gpu_schedule_args) <= 4096, "what a launch can take");

/* One that is kept. */
struct plan {
	struct plan *next;
	const struct sched_algo *algo;
	enum sched_coll coll;
	int root;
	bool fits; /* there is such a schedule, and room for it */
	uint64_t steps, peers;
	uint32_t nsteps, per_block, scratch_chunks; /* scratch_chunks: the most of any rank */
};

struct schedules {
	const int *node_of;
	const int32_t *order;
	int nnodes;
	uint64_t pool, scratch; /* GPU memory */
	unsigned char *copy;	/* of the pool, in host memory */
	size_t used;		/* of the pool */
	uint32_t lanes;		/* of a pair of ranks, whatever its way */
	uint32_t chunk_bytes;	/* that fit all slots */
	struct plan *plans;
};

/* --- lanes --- */
struct lanes {
	uint64_t lines, slots; /* in the mails */
	uint32_t lanes, slot_bytes;
};

/* Where schedules have room in the mail in GPU memory: with islands, all but what is for messages; where all GPUs
 * address each other, behind the rest. First come lanes, at the end the pool. */
struct room {
	uint64_t at, end;
};

static struct room room_of(const struct gpu *g)
{
	struct room r = { 0, g->mail_messages };

	return g->island_of ? r : (struct room){ g->mail_bytes - GPU_SCHEDULE_ROOM, g->mail_bytes };
}

static bool has_room(const struct gpu *g)
{
	return g->island_of || gpu_way(g) == GPU_WAY_PEERS;
}

/* In the mails of an island of @n ranks. */
static struct lanes lanes_of_island(const struct gpu *g, int n)
{
	struct room room = room_of(g);
	uint64_t all = (uint64_t)(n - 1) * g->schedules->lanes, lines = up(all * 2 * GPU_LINE, 4096);
	struct lanes l = { .lanes = g->schedules->lanes, .lines = room.at, .slots = room.at + lines };
	uint64_t bytes = room.end - POOL_BYTES - SCRATCH_BYTES - l.slots;
	uint64_t each = all ? bytes / all / GPU_MESSAGE_SLOTS / GPU_LINE * GPU_LINE : 0;

	l.slot_bytes = (uint32_t)(each < NEAR_SLOT_MOST ? each : NEAR_SLOT_MOST);
	return l;
}

/* @mine, @theirs: the mails. @theirs_here: the other's place among the senders of this rank; @mine_there: likewise. */
static struct gpu_end end_of(const struct lanes *l, uint64_t mine, uint64_t theirs, int theirs_here, int mine_there)
{
	uint64_t in = (uint64_t)theirs_here * l->lanes, out = (uint64_t)mine_there * l->lanes;
	uint64_t stride = (uint64_t)GPU_MESSAGE_SLOTS * l->slot_bytes;
	char *here = (char *)(uintptr_t)mine, *there = (char *)(uintptr_t)theirs;

	return (struct gpu_end){ .tail_in = here + l->lines + 2 * in * GPU_LINE,
				 .head_in = there + l->lines + (2 * out + 1) * GPU_LINE,
				 .slots_in = here + l->slots + in * stride,
				 .tail_out = there + l->lines + 2 * out * GPU_LINE,
				 .head_out = here + l->lines + (2 * in + 1) * GPU_LINE,
				 .slots_out = there + l->slots + out * stride,
				 .slot_stride = stride };
}

/* Where all GPUs address each other they are one island. */
static bool is_near(const struct gpu *g, int a, int b)
{
	return g->island_of ? g->island_of[a] == g->island_of[b] : gpu_way(g) == GPU_WAY_PEERS;
}

/* Ranks before @end of the island of @p. */
static int count_island(const struct gpu *g, int p, int end)
{
	int n = 0;

	for (int r = 0; r < end; r++)
		n += is_near(g, r, p);
	return n;
}

static int among_others(int place, int own)
{
	return place - (place > own);
}

static struct gpu_end near_end(const struct gpu *g, int p, uint64_t counters)
{
	struct lanes l = lanes_of_island(g, count_island(g, p, g->nranks));
	int mine = count_island(g, p, g->rank), theirs = count_island(g, p, p);
	struct gpu_end e = end_of(&l, g->mail, g->mapped[p], among_others(theirs, mine), among_others(mine, theirs));

	e.taken = (uint64_t *)(uintptr_t)counters + (size_t)p * l.lanes;
	e.sent = e.taken + (size_t)g->nranks * l.lanes;
	return e;
}

/* The lanes of messages, which have the same counters. */
static struct gpu_end message_end(const struct gpu *g, int p)
{
	const struct message_layout *m = &g->at.messages;
	struct lanes l = { m->lines, m->slots, m->lanes, m->slot_bytes };
	struct gpu_end e = end_of(&l, g->peer[g->rank], g->peer[p], among_others(p, g->rank), among_others(g->rank, p));

	e.taken = (uint64_t *)(uintptr_t)g->counters + (size_t)p * l.lanes;
	e.sent = e.taken + (size_t)g->nranks * l.lanes;
	return e;
}

/* The same on all ranks. */
static uint32_t chunk_that_fits(const struct gpu *g)
{
	uint32_t least = gpu_way(g) == GPU_WAY_PEERS ? UINT32_MAX : g->at.messages.slot_bytes;

	for (int r = 0; r < g->nranks && has_room(g); r++) {
		int n = count_island(g, r, g->nranks);
		uint32_t slot = lanes_of_island(g, n).slot_bytes;

		if (n > 1 && slot < least)
			least = slot;
	}
	return least;
}

/* --- what is in GPU memory --- */
/* The next @len bytes of the pool; the caller has seen to it that there are as many. */
static uint64_t take_pool(struct schedules *s, size_t len, unsigned char **copy)
{
	uint64_t at = s->pool + s->used;

	*copy = s->copy + s->used;
	s->used += up(len, GPU_LINE);
	return at;
}

static enum taut_status write_pool(const struct gpu *g, size_t from)
{
	const struct schedules *s = g->schedules;
	int relaxed = CU_CAPTURE_RELAXED;
	enum taut_status st;

	g->cu->capture_mode(&relaxed);
	st = cuda_st(g->cu->copy_to(s->pool + from, s->copy + from, s->used - from, g->own), "a schedule for the GPU");
	if (!st)
		st = cuda_st(g->cu->stream_sync(g->own), "a schedule for the GPU");
	g->cu->capture_mode(&relaxed);
	return st;
}

static enum taut_status write_ends(struct gpu *g)
{
	struct schedules *s = g->schedules;
	size_t counters = 2 * (size_t)g->nranks * s->lanes * sizeof(uint64_t);
	unsigned char *ends, *zeros;
	uint64_t words;

	take_pool(s, (size_t)g->nranks * sizeof(struct gpu_end), &ends);
	words = take_pool(s, counters, &zeros);
	memset(zeros, 0, counters);
	for (int p = 0; p < g->nranks; p++) {
		struct gpu_end e = { 0 };

		if (p != g->rank)
			e = is_near(g, p, g->rank) ? near_end(g, p, words) : message_end(g, p);
		memcpy(ends + (size_t)p * sizeof(e), &e, sizeof(e));
	}
	return write_pool(g, 0);
}

static enum taut_status find_pool(struct schedules *s, const struct gpu *g)
{
	if (has_room(g)) {
		s->pool = g->mail + room_of(g).end - POOL_BYTES - SCRATCH_BYTES;
		return TAUT_OK;
	}
	return cuda_st(g->cu->mem_alloc(&s->pool, POOL_BYTES + SCRATCH_BYTES), "GPU memory for schedules");
}

enum taut_status gpu_allow_schedules(struct gpu *g, const int *node_of, int nnodes, const int32_t *order)
{
	struct schedules *s = mem_calloc(1, sizeof(*s));
	struct cu_ctx *old;
	enum taut_status st;
	void *copy = NULL;

	if (!s)
		return fail(TAUT_ERR_NOMEM, "schedules for a GPU");
	*s = (struct schedules){ .node_of = node_of,
				 .nnodes = nnodes,
				 .order = order,
				 .lanes = gpu_way(g) == GPU_WAY_PEERS ? PEER_LANES : g->at.messages.lanes };
	g->schedules = s;
	g->cu->ctx_push(g->ctx);
	st = find_pool(s, g);
	if (!st)
		st = cuda_st(g->cu->host_alloc(&copy, POOL_BYTES, CU_HOST_PORTABLE), "host memory for schedules");
	s->copy = copy;
	s->scratch = s->pool + POOL_BYTES;
	s->chunk_bytes = chunk_that_fits(g);
	if (!st)
		st = write_ends(g);
	g->cu->ctx_pop(&old);
	return st;
}

void gpu_close_schedules(struct gpu *g)
{
	struct schedules *s = g->schedules;

	if (!s)
		return;
	while (s->plans) {
		struct plan *p = s->plans;

		s->plans = p->next;
		mem_free(p);
	}
	if (s->pool && !has_room(g))
		g->cu->mem_free(s->pool);
	if (s->copy)
		g->cu->host_free(s->copy);
	mem_free(s);
	g->schedules = NULL;
}

size_t gpu_schedules_bytes(const struct gpu *g)
{
	return g->schedules && !has_room(g) ? POOL_BYTES + SCRATCH_BYTES : 0;
}

/* --- plans --- */
static size_t bytes_of(const struct sched *s)
{
	return up(s->nsteps * sizeof(struct gpu_step), GPU_LINE) + up(s->npeers, GPU_LINE);
}

/* Into the pool, where there is room. */
static enum taut_status write_plan(struct plan *p, const struct gpu *g, const struct sched *s)
{
	size_t from = g->schedules->used;
	unsigned char *steps, *peers;

	p->steps = take_pool(g->schedules, s->nsteps * sizeof(struct gpu_step), &steps);
	p->peers = take_pool(g->schedules, s->npeers, &peers);
	p->nsteps = s->nsteps;
	p->per_block = (uint32_t)s->per_block;
	for (uint32_t i = 0; i < s->nsteps; i++) {
		struct gpu_step step = gpu_step_of(&s->steps[i]);

		memcpy(steps + i * sizeof(step), &step, sizeof(step));
	}
	for (uint32_t i = 0; i < s->npeers; i++)
		peers[i] = (uint8_t)s->peers[i];
	return write_pool(g, from);
}

/* The largest of what the ranks need. */
struct need {
	size_t bytes;
	int scratch_chunks;
	bool others; /* steps that are no messages */
};

static void add_need(struct need *n, const struct sched *s)
{
	n->bytes = bytes_of(s) > n->bytes ? bytes_of(s) : n->bytes;
	n->scratch_chunks = s->scratch_chunks > n->scratch_chunks ? s->scratch_chunks : n->scratch_chunks;
	for (uint32_t i = 0; i < s->nsteps; i++)
		n->others = n->others || s->steps[i].op != STEP_MSG;
}

/* The programs of all ranks, one after the other. */
static enum taut_status find_need(struct need *n, const struct sched_algo *algo, struct sched_req req, int nranks)
{
	struct sched *s;

	*n = (struct need){ 0 };
	for (req.rank = 0; req.rank < nranks; req.rank++) {
		enum taut_status st = sched_build(&s, algo, &req);

		if (st)
			return st;
		add_need(n, s);
		sched_free(s);
	}
	return TAUT_OK;
}

static enum taut_status plan_init(struct plan *p, struct gpu *g)
{
	struct schedules *s = g->schedules;
	struct sched_req req = { .coll = p->coll,
				 .nranks = g->nranks,
				 .root = p->root,
				 .node_of = s->node_of,
				 .nnodes = s->nnodes,
				 .order = s->order };
	enum taut_status st;
	struct sched *own;
	struct need n;

	if (p->algo->mapped || !sched_algo_fits(p->algo, &req))
		return TAUT_OK;
	st = find_need(&n, p->algo, req, g->nranks);
	if (st || n.others)
		return st;
	/* The pool is as full on all ranks: each takes what the largest program takes. */
	if (s->used + n.bytes > POOL_BYTES) {
		log_info(LOG_CUDA, "%s of %s: no room for another schedule in GPU memory", p->algo->name,
			 sched_coll_name(p->coll));
		return TAUT_OK;
	}
	req.rank = g->rank;
	st = sched_build(&own, p->algo, &req);
	if (st)
		return st;
	p->fits = true;
	p->scratch_chunks = (uint32_t)n.scratch_chunks;
	n.bytes += s->used;
	st = write_plan(p, g, own);
	s->used = n.bytes;
	sched_free(own);
	return st;
}

static enum taut_status find_plan(const struct plan **out, struct gpu *g, const struct gpu_request *op)
{
	struct plan *p = g->schedules->plans;
	int root = sched_coll_has_root(op->coll) ? op->root : 0;
	enum taut_status st;

	while (p && (p->algo != op->algo || p->coll != op->coll || p->root != root))
		p = p->next;
	*out = p;
	if (p)
		return TAUT_OK;
	p = mem_calloc(1, sizeof(*p));
	if (!p)
		return fail(TAUT_ERR_NOMEM, "a schedule for a GPU");
	*p = (struct plan){ .algo = op->algo, .coll = op->coll, .root = root };
	st = plan_init(p, g);
	if (st) {
		mem_free(p);
		return st;
	}
	p->next = g->schedules->plans;
	g->schedules->plans = p;
	*out = p;
	return TAUT_OK;
}

/* --- calls --- */
/* Channels, and the length of their chunks; no channel: there is too little room for what the schedule keeps. */
struct cut {
	uint32_t channels, chunk_bytes;
};

static struct cut cut_of(const struct gpu *g, const struct plan *p, size_t bytes)
{
	size_t most = g->schedules->lanes, want = (bytes + CHANNEL_LEAST - 1) / CHANNEL_LEAST;
	uint64_t each, chunk, room;

	most = most < (size_t)g->long_blocks ? most : (size_t)g->long_blocks;
	want = want < most ? want : most;
	each = (bytes + want - 1) / want;
	chunk = up((each + p->per_block - 1) / p->per_block, GPU_LINE);
	chunk = chunk < g->schedules->chunk_bytes ? chunk : g->schedules->chunk_bytes;
	room = p->scratch_chunks ? SCRATCH_BYTES / p->scratch_chunks / want / GPU_LINE * GPU_LINE : chunk;
	chunk = chunk < room ? chunk : room;
	return (struct cut){ chunk ? (uint32_t)want : 0, (uint32_t)chunk };
}

enum taut_status gpu_run_schedule(bool *done, struct gpu *g, const struct gpu_request *op,
				  const struct gpu_direct_args *d, void *stream)
{
	struct schedules *s = g->schedules;
	struct gpu_schedule_args a = {
		.call = d->call, .value = d->value, .in = d->in, .out = d->out, .bytes = d->bytes
	};
	uint64_t *counters = (uint64_t *)(uintptr_t)g->counters + 2 * (size_t)g->nranks * g->at.messages.lanes;
	const struct plan *p;
	enum taut_status st = find_plan(&p, g, op);
	struct cut cut;

	*done = false;
	if (st || !p->fits)
		return st;
	cut = cut_of(g, p, d->bytes);
	if (!cut.channels)
		return TAUT_OK;
	*done = true;
	a.scratch = (char *)(uintptr_t)s->scratch;
	a.per_block = p->per_block;
	a.nsteps = p->nsteps;
	a.scratch_chunks = p->scratch_chunks;
	a.chunk_bytes = cut.chunk_bytes;
	a.steps = (const struct gpu_step *)(uintptr_t)p->steps;
	a.peers = (const uint8_t *)(uintptr_t)p->peers;
	a.ends = (const struct gpu_end *)(uintptr_t)s->pool;
	a.begun = counters + GPU_COUNTER_BEGUN;
	a.ended = counters + GPU_COUNTER_ENDED;
	/* What is divided is the result, where it is. */
	if (d->shape.to >= 0 && d->shape.to != g->rank)
		a.value.divide = 0;
	return gpu_module_launch(g->module, g->cu, g->module->f[KERNEL_SCHEDULE][a.value.kind],
				 (struct gpu_grid){ .blocks = cut.channels, .threads = THREADS }, &a, stream);
}
