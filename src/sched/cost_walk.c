/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost_walk.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

enum {
	WALK_ALL = 16,	    /* groups of at most this are followed as a whole */
	WALK_MATES = 7,	    /* ranks of rank 0's machine to follow in larger ones */
	WALK_BUDGET = 8192, /* messages and steps of a slice that are followed in larger ones, or 4 a rank */
	QUEUES_MIN = 256,   /* power of two */
};

/* One rank that is followed. */
struct lane {
	struct sched *s;
	int rank, node;
	int slice;
	uint32_t pc;
	int32_t run;   /* chunk of the step's run */
	uint32_t have; /* `from` ranks whose message is known to have come */
	bool told;     /* barrier: the others have been told */
	bool queued;   /* is on the list of those that can go on */
	int waits;     /* for this rank; -1: for none */
	double now, work;
};

/* Messages from one rank to another that were not taken yet; barrier calls apart from data. */
struct queue {
	uint64_t key; /* 0: free */
	int32_t head, tail;
};
struct note {
	double at; /* when the receiver can see it */
	int32_t next;
};

struct walk {
	const struct sched_algo *algo;
	struct sched_req req;
	struct lane *lanes;
	int nlanes, cap_lanes;
	int32_t *lane_of; /* by rank, -1: not followed */
	int32_t *ready;	  /* lanes that can go on, a stack */
	int nready;
	struct queue *queues;
	size_t nqueues, cap_queues; /* cap: a power of two */
	struct note *notes;
	int32_t nnotes, cap_notes;
	int mates;			      /* ranks of rank 0's machine */
	double nic;			      /* us that their messages to other machines occupy the network */
	uint64_t spent, budget, build_weight; /* build: of one program, whatever its length */
	bool closed;			      /* nobody more is followed */
	const struct walk_price *price;
	const struct walk_size *size;
	struct walk_time *time;
	enum taut_status st;
};

static int node_of(const struct walk *w, int rank)
{
	return w->req.node_of ? w->req.node_of[rank] : 0;
}

static int link_of(const struct walk *w, const struct lane *l, int peer)
{
	return w->req.node_of && w->req.node_of[peer] != l->node;
}

/* --- What a step costs the rank that does it, besides waiting. --- */

static double take_us(const struct walk *w, int link, double bytes)
{
	return w->price->take[link] + w->price->half_byte[link] * bytes;
}

static double post_us(const struct walk *w, int link, double bytes)
{
	return w->price->post[link] + w->price->half_byte[link] * bytes;
}

/* Reductions read their operands and write one result; the price is that of two operands. */
static double value_us(const struct walk *w, const struct sched_step *p, double bytes)
{
	uint32_t operands = p->nfrom + (p->src.buf != BUF_NONE);

	if (operands > 1)
		return w->price->reduce * bytes * (operands + 1) / 3;
	if (!p->nfrom && p->dst.buf != BUF_NONE && (p->dst.buf != p->src.buf || p->dst.chunk != p->src.chunk))
		return w->price->copy * bytes;
	return 0;
}

static double barrier_us(const struct walk *w, uint32_t ranks)
{
	int rounds = 0;

	while (1u << rounds < ranks)
		rounds++;
	return w->price->barrier * rounds;
}

/* Local and mapped steps, which wait for nobody. */
static double local_us(const struct walk *w, const struct sched_step *p)
{
	double bytes = w->size->chunk * p->nchunks;

	switch (p->op) {
	case STEP_REDUCE:
		return w->price->reduce * bytes;
	case STEP_PULL:
		return w->price->map * bytes * (p->nfrom + (p->dst.buf != BUF_NONE) + p->nto);
	case STEP_PUSH:
		return w->price->map * bytes * (1 + p->nto);
	default:
		return 0;
	}
}

/* Chunks of the step's run that go as one message. */
static int32_t chunks_at_once(const struct walk *w, const struct sched_step *p)
{
	return w->size->chunk * p->nchunks <= w->size->run ? p->nchunks : 1;
}

/* In messages smaller than a block has chunks, the last chunks are empty: nothing is sent.
 * Where not all ranks are followed that is left out: the ranks then do not do the same. */
static bool chunk_empty(const struct walk *w, const struct lane *l, const struct sched_step *p, int32_t run)
{
	int32_t chunk = (p->src.buf != BUF_NONE ? p->src.chunk : p->dst.chunk) + run;

	if (chunks_at_once(w, p) > 1)
		return false;
	return w->req.nranks <= WALK_ALL && w->size->parts < l->s->per_block &&
	       chunk % l->s->per_block >= w->size->parts;
}

/* --- Queues of messages on the way. --- */

static uint64_t queue_key(const struct walk *w, int from, int to, bool barrier)
{
	return (((uint64_t)from * (uint64_t)w->req.nranks + (uint64_t)to) << 1 | barrier) + 1;
}

static struct queue *queue_place(struct queue *queues, size_t cap, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15u >> 32) & (cap - 1);

	while (queues[i].key && queues[i].key != key)
		i = (i + 1) & (cap - 1);
	return &queues[i];
}

static enum taut_status queues_grow(struct walk *w)
{
	size_t cap = w->cap_queues ? w->cap_queues * 2 : QUEUES_MIN;
	struct queue *queues = mem_calloc(cap, sizeof(*queues));

	if (!queues)
		return fail(TAUT_ERR_NOMEM, "cost of %s: %zu queues", w->algo->name, cap);
	for (size_t i = 0; i < w->cap_queues; i++)
		if (w->queues[i].key)
			*queue_place(queues, cap, w->queues[i].key) = w->queues[i];
	mem_free(w->queues);
	w->queues = queues;
	w->cap_queues = cap;
	return TAUT_OK;
}

static enum taut_status notes_grow(struct walk *w)
{
	int32_t cap = w->cap_notes ? w->cap_notes * 2 : QUEUES_MIN;
	struct note *notes = mem_realloc(w->notes, (size_t)cap, sizeof(*notes));

	if (!notes)
		return fail(TAUT_ERR_NOMEM, "cost of %s: %d messages", w->algo->name, cap);
	w->notes = notes;
	w->cap_notes = cap;
	return TAUT_OK;
}

static void make_ready(struct walk *w, struct lane *l)
{
	if (l->queued)
		return;
	l->queued = true;
	l->waits = -1;
	w->ready[w->nready++] = (int32_t)(l - w->lanes);
}

static void push(struct walk *w, const struct lane *l, int to, bool barrier, double at)
{
	struct queue *q;
	uint64_t key = queue_key(w, l->rank, to, barrier);

	if (!w->st && w->nqueues * 2 >= w->cap_queues)
		w->st = queues_grow(w);
	if (!w->st && w->nnotes == w->cap_notes)
		w->st = notes_grow(w);
	if (w->st)
		return;
	q = queue_place(w->queues, w->cap_queues, key);
	if (!q->key) {
		*q = (struct queue){ .key = key, .head = -1, .tail = -1 };
		w->nqueues++;
	}
	w->notes[w->nnotes] = (struct note){ .at = at, .next = -1 };
	if (q->head < 0)
		q->head = w->nnotes;
	else
		w->notes[q->tail].next = w->nnotes;
	q->tail = w->nnotes++;
	if (w->lane_of[to] >= 0 && w->lanes[w->lane_of[to]].waits == l->rank)
		make_ready(w, &w->lanes[w->lane_of[to]]);
}

static struct queue *pending(struct walk *w, int from, int to, bool barrier)
{
	struct queue *q;

	if (!w->cap_queues)
		return NULL;
	q = queue_place(w->queues, w->cap_queues, queue_key(w, from, to, barrier));
	return q->key && q->head >= 0 ? q : NULL;
}

/* --- Ranks that are followed. --- */

static uint64_t program_weight(const struct sched *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->nsteps; i++)
		sum += (uint64_t)s->steps[i].nchunks * (1 + s->steps[i].nfrom + s->steps[i].nto);
	return sum;
}

static enum taut_status lanes_grow(struct walk *w)
{
	int cap = w->cap_lanes ? w->cap_lanes * 2 : WALK_ALL;
	struct lane *lanes = mem_realloc(w->lanes, (size_t)cap, sizeof(*lanes));
	int32_t *ready;

	if (!lanes)
		return fail(TAUT_ERR_NOMEM, "cost of %s: %d ranks", w->algo->name, cap);
	w->lanes = lanes;
	ready = mem_realloc(w->ready, (size_t)cap, sizeof(*ready));
	if (!ready)
		return fail(TAUT_ERR_NOMEM, "cost of %s: %d ranks", w->algo->name, cap);
	w->ready = ready;
	w->cap_lanes = cap;
	return TAUT_OK;
}

/* Rank 0 is followed whatever it costs. Lanes may move in memory. */
static enum taut_status follow(struct walk *w, int rank)
{
	struct sched_req req = w->req;
	struct sched *s;
	enum taut_status st;

	if (w->closed || w->lane_of[rank] >= 0)
		return TAUT_OK;
	if (w->nlanes == w->cap_lanes) {
		st = lanes_grow(w);
		if (st)
			return st;
	}
	req.rank = rank;
	st = sched_build(&s, w->algo, &req);
	if (st)
		return st;
	w->spent += program_weight(s) + w->build_weight;
	w->closed = w->req.nranks > WALK_ALL && w->spent > w->budget;
	if (w->closed && w->nlanes) {
		sched_free(s);
		return TAUT_OK;
	}
	w->lane_of[rank] = w->nlanes;
	w->lanes[w->nlanes++] = (struct lane){ .s = s, .rank = rank, .node = node_of(w, rank), .waits = -1 };
	return TAUT_OK;
}

static enum taut_status follow_mates(struct walk *w)
{
	int mates = 0;
	enum taut_status st = TAUT_OK;

	for (int r = 1; r < w->req.nranks && mates < WALK_MATES && !w->closed && !st; r++) {
		if (node_of(w, r) != node_of(w, 0))
			continue;
		st = follow(w, r);
		mates++;
	}
	return st;
}

static enum taut_status follow_first(struct walk *w)
{
	int n = w->req.nranks;
	const int some[] = { w->req.root, n / 2, n - 1 };
	enum taut_status st = TAUT_OK;

	for (int r = 1; r < n && n <= WALK_ALL && !st; r++)
		st = follow(w, r);
	if (n > WALK_ALL && w->req.nnodes > 1)
		st = follow_mates(w);
	for (int i = 0; i < 3 && n > WALK_ALL && !st; i++)
		st = follow(w, some[i]);
	return st;
}

/* Starts to follow @rank in the middle of a run. @l is where *l has moved to. */
static struct lane *follow_late(struct walk *w, struct lane *l, int rank)
{
	ptrdiff_t at = l - w->lanes;

	w->st = follow(w, rank);
	if (!w->st && w->lane_of[rank] >= 0)
		make_ready(w, &w->lanes[w->lane_of[rank]]);
	return &w->lanes[at];
}

/* --- Running the programs. --- */

/* Has every rank of the step's `from` sent? If not, *l is left waiting for one. */
static bool all_sent(struct walk *w, struct lane **l, const struct sched_step *p, bool barrier)
{
	const int32_t *from = (*l)->s->peers + p->from;

	for (; (*l)->have < p->nfrom; (*l)->have++) {
		int peer = from[(*l)->have];

		if (peer == (*l)->rank)
			continue;
		if (w->lane_of[peer] < 0)
			*l = follow_late(w, *l, peer);
		if (w->st)
			return false;
		if (w->lane_of[peer] >= 0 && !pending(w, peer, (*l)->rank, barrier)) {
			(*l)->waits = peer;
			return false;
		}
	}
	return true;
}

/* When the next message of @peer is here. */
static double arrival(struct walk *w, const struct lane *l, int peer, bool barrier)
{
	struct queue *q;
	double at;

	if (w->lane_of[peer] < 0)
		return l->now + (barrier ? 0 : w->price->trip[link_of(w, l, peer)]);
	q = pending(w, peer, l->rank, barrier);
	at = w->notes[q->head].at;
	q->head = w->notes[q->head].next;
	return at;
}

static void spend(struct lane *l, double us)
{
	l->now += us;
	l->work += us;
}

static void wait_all(struct walk *w, struct lane *l, const struct sched_step *p, bool barrier)
{
	double latest = l->now;

	for (uint32_t i = 0; i < p->nfrom; i++) {
		int peer = l->s->peers[p->from + i];
		double at = peer == l->rank ? 0 : arrival(w, l, peer, barrier);

		if (at > latest)
			latest = at;
	}
	l->now = latest;
	l->have = 0;
}

static void send_one(struct walk *w, struct lane *l, int to, double bytes)
{
	int link = link_of(w, l, to);

	spend(l, post_us(w, link, bytes));
	if (link && l->node == w->lanes[0].node)
		w->nic += w->price->half_byte[link] * bytes;
	push(w, l, to, false, l->now + w->price->trip[link]);
}

/* False: *l waits. */
static bool step_msg(struct walk *w, struct lane **lane, const struct sched_step *p)
{
	int32_t n = chunks_at_once(w, p);
	double bytes = w->size->chunk * n;

	for (; (*lane)->run < p->nchunks; (*lane)->run += n) {
		struct lane *l;

		if (chunk_empty(w, *lane, p, (*lane)->run))
			continue;
		if (!all_sent(w, lane, p, false))
			return false;
		l = *lane;
		wait_all(w, l, p, false);
		for (uint32_t i = 0; i < p->nfrom; i++)
			spend(l, take_us(w, link_of(w, l, l->s->peers[p->from + i]), bytes));
		spend(l, value_us(w, p, bytes));
		for (uint32_t i = 0; i < p->nto; i++)
			send_one(w, l, l->s->peers[p->to + i], bytes);
	}
	(*lane)->run = 0;
	return true;
}

static bool step_barrier(struct walk *w, struct lane **lane, const struct sched_step *p)
{
	struct lane *l = *lane;

	for (uint32_t i = 0; i < p->nfrom && !l->told; i++)
		if (l->s->peers[p->from + i] != l->rank)
			push(w, l, l->s->peers[p->from + i], true, l->now);
	l->told = true;
	if (!all_sent(w, lane, p, true))
		return false;
	l = *lane;
	wait_all(w, l, p, true);
	spend(l, barrier_us(w, p->nfrom));
	l->told = false;
	return true;
}

static bool step(struct walk *w, struct lane **l)
{
	const struct sched_step *p = &(*l)->s->steps[(*l)->pc];

	if (p->op == STEP_MSG)
		return step_msg(w, l, p);
	if (p->op == STEP_BARRIER)
		return step_barrier(w, l, p);
	spend(*l, local_us(w, p));
	return true;
}

static void lane_run(struct walk *w, struct lane *l)
{
	l->queued = false;
	for (; l->slice < w->size->slices; l->slice++) {
		for (; l->pc < l->s->nsteps; l->pc++)
			if (!step(w, &l) || w->st)
				return;
		l->pc = 0;
		if (l->now > w->time->end[l->slice])
			w->time->end[l->slice] = l->now;
	}
	if (l->work / w->size->slices > w->time->work)
		w->time->work = l->work / w->size->slices;
}

static void rewind_all(struct walk *w)
{
	for (int i = 0; i < w->nlanes; i++) {
		struct lane *l = &w->lanes[i];

		*l = (struct lane){ .s = l->s, .rank = l->rank, .node = l->node, .waits = -1 };
	}
	if (w->nqueues)
		memset(w->queues, 0, w->cap_queues * sizeof(*w->queues));
	w->nqueues = 0;
	w->nnotes = 0;
	w->nready = 0;
	for (int i = w->nlanes; i-- > 0;)
		make_ready(w, &w->lanes[i]);
	w->nic = 0;
	w->st = TAUT_OK;
}

static enum taut_status stuck(const struct walk *w)
{
	for (int i = 0; i < w->nlanes; i++)
		if (w->lanes[i].slice < w->size->slices)
			return fail_quiet(TAUT_ERR_INTERNAL,
					  "schedule %s of %s, %d ranks: rank %d waits for rank %d for ever at step %u",
					  w->algo->name, sched_coll_name(w->req.coll), w->req.nranks, w->lanes[i].rank,
					  w->lanes[i].waits, w->lanes[i].pc);
	return TAUT_OK;
}

/* Ranks of a machine share its way out: no slice ends before it has carried their messages.
 * Looked at for rank 0's machine; those that are not followed there are like those that are. */
static void wait_for_nic(struct walk *w)
{
	int followed = 0;
	double busy;

	for (int i = 0; i < w->nlanes; i++)
		followed += w->lanes[i].node == w->lanes[0].node;
	busy = w->nic * w->mates / followed;
	for (int s = 0; s < w->size->slices && busy > 0; s++) {
		double least = busy * (s + 1) / w->size->slices + w->price->trip[1];

		if (w->time->end[s] < least)
			w->time->end[s] = least;
	}
}

enum taut_status walk_run(struct walk_time *out, struct walk *w, const struct walk_price *price,
			  const struct walk_size *size)
{
	struct walk_time time = { .work = 0 };

	if (w->nlanes == 1) {
		enum taut_status st = follow_first(w);

		if (st)
			return st;
	}
	w->price = price;
	w->size = size;
	w->time = &time;
	rewind_all(w);
	while (w->nready && !w->st)
		lane_run(w, &w->lanes[w->ready[--w->nready]]);
	if (!w->st)
		w->st = stuck(w);
	if (w->st)
		return w->st;
	wait_for_nic(w);
	*out = time;
	return TAUT_OK;
}

/* What a message step costs without waiting. */
static double msg_work(const struct walk *w, const struct lane *l, const struct sched_step *p)
{
	int32_t n = chunks_at_once(w, p);
	double bytes = w->size->chunk * n, once = value_us(w, p, bytes), sum = 0;

	for (uint32_t k = 0; k < p->nfrom; k++)
		once += take_us(w, link_of(w, l, l->s->peers[p->from + k]), bytes);
	for (uint32_t k = 0; k < p->nto; k++)
		once += post_us(w, link_of(w, l, l->s->peers[p->to + k]), bytes);
	for (int32_t c = 0; c < p->nchunks; c += n)
		sum += chunk_empty(w, l, p, c) ? 0 : once;
	return sum;
}

double walk_bound(const struct walk *w, const struct walk_price *price, const struct walk_size *size)
{
	struct walk view = *w;
	const struct lane *l = &w->lanes[0];
	double sum = 0;

	view.price = price;
	view.size = size;
	for (uint32_t i = 0; i < l->s->nsteps; i++) {
		const struct sched_step *p = &l->s->steps[i];

		if (p->op == STEP_MSG)
			sum += msg_work(&view, l, p);
		else
			sum += p->op == STEP_BARRIER ? barrier_us(&view, p->nfrom) : local_us(&view, p);
	}
	return sum;
}

int walk_per_block(const struct walk *w)
{
	return w->lanes[0].s->per_block;
}

/* What does not fit one machine groups the ranks by machine: it looks at all of them for each
 * program. In units of the budget. */
static uint64_t build_weight(const struct sched_algo *algo, const struct sched_req *req)
{
	struct sched_req flat = *req;

	flat.node_of = NULL;
	flat.nnodes = 1;
	return sched_algo_fits(algo, &flat) ? 0 : (uint64_t)req->nranks / 16;
}

static int count_mates(const struct sched_req *req)
{
	int n = 0;

	if (!req->node_of || req->nnodes <= 1)
		return req->nranks;
	for (int r = 0; r < req->nranks; r++)
		n += req->node_of[r] == req->node_of[0];
	return n;
}

enum taut_status walk_create(struct walk **out, const struct sched_algo *algo, const struct sched_req *req)
{
	struct walk *w = mem_calloc(1, sizeof(*w));
	enum taut_status st;

	if (!w)
		return fail(TAUT_ERR_NOMEM, "cost of %s", algo->name);
	w->algo = algo;
	w->req = *req;
	w->budget = 4 * (uint64_t)req->nranks > WALK_BUDGET ? 4 * (uint64_t)req->nranks : WALK_BUDGET;
	w->lane_of = mem_calloc((size_t)req->nranks, sizeof(*w->lane_of));
	if (!w->lane_of) {
		st = fail(TAUT_ERR_NOMEM, "cost of %s: %d ranks", algo->name, req->nranks);
		goto err_free;
	}
	for (int r = 0; r < req->nranks; r++)
		w->lane_of[r] = -1;
	w->mates = count_mates(req);
	w->build_weight = build_weight(algo, req);
	st = follow(w, 0);
	if (st)
		goto err_free;
	*out = w;
	return TAUT_OK;
err_free:
	walk_free(w);
	return st;
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	for (int i = 0; i < w->nlanes; i++)
		sched_free(w->lanes[i].s);
	mem_free(w->lanes);
	mem_free(w->lane_of);
	mem_free(w->ready);
	mem_free(w->queues);
	mem_free(w->notes);
	mem_free(w);
}
