/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/messages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_BUDGET ((uint64_t)11 << 18)
#define SHORT_BUDGET ((uint64_t)2 << 20)

_Static_assert(sizeof(struct gpu_messages_args) <= 4096, "what a launch can take");
_Static_assert(GPU_MESSAGES_MOST < 256 && GPU_UNITS_MOST <= 256 && GPU_MAX_RANKS <= 256, "fields of struct gpu_flow");

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* @others: the other ranks. */
static uint32_t short_lanes_for(uint64_t others, uint32_t most)
{
	uint64_t fit = others ? SHORT_BUDGET / (others * GPU_SHORT_SLOTS * GPU_SHORT_SLOT_BYTES) : 0;
	uint64_t worth = most / GPU_SHORT_LANE_LEAST;

	return (uint32_t)least(least(fit, worth), GPU_SHORT_LANES);
}

struct message_layout messages_layout(int nranks, uint64_t from, uint32_t short_most)
{
	/* A launch to and from all ranks has GPU_UNITS_MOST units at most. */
	struct message_layout l = { .lines = from, .lanes = GPU_UNITS_MOST / (2 * (uint32_t)nranks - 1) };
	uint64_t others = (uint64_t)nranks - 1, all = others * l.lanes;

	l.slots = l.lines + all * 2 * GPU_LINE;
	l.slot_bytes = all ? (uint32_t)(SLOTS_BUDGET / all / GPU_MESSAGE_SLOTS / GPU_LINE * GPU_LINE) : 0;
	l.short_lanes = short_lanes_for(others, short_most);
	l.short_most = (uint32_t)least(short_most, (uint64_t)l.short_lanes * GPU_SHORT_LANE_MOST);
	l.shorts = l.slots + all * GPU_MESSAGE_SLOTS * l.slot_bytes;
	l.credits = l.shorts + others * l.short_lanes * GPU_SHORT_SLOTS * GPU_SHORT_SLOT_BYTES;
	l.end = l.credits + (others * l.short_lanes * sizeof(uint64_t) + GPU_LINE - 1) / GPU_LINE * GPU_LINE;
	return l;
}

void messages_limit(struct message_layout *l, int nranks, int blocks)
{
	/* Every lane of a launch has a warp that runs, in half the blocks. */
	uint32_t warps = (uint32_t)(blocks / 2) * GPU_SHORT_WARPS, fit = warps / (2 * (uint32_t)nranks - 1);

	l->short_lanes = (uint32_t)least(l->short_lanes, fit);
	l->short_most = (uint32_t)least(l->short_most, (uint64_t)l->short_lanes * GPU_SHORT_LANE_MOST);
}

struct message_counters messages_counters(int nranks, const struct message_layout *l)
{
	size_t both = 2 * (size_t)nranks;
	struct message_counters c = { .shorts = both * l->lanes + GPU_COUNTERS };

	c.numbers = c.shorts + both * l->short_lanes;
	c.all = c.numbers + both * GPU_PATHS;
	return c;
}

/* --- to oneself --- */
static struct message *find_self(struct message *list, size_t n, int rank, enum gpu_flow_kind kind)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].kind == kind && list[i].peer == rank)
			return &list[i];
	return NULL;
}

static enum taut_status pair_self(struct message *recv, const struct message *send, int rank)
{
	bool any;

	if (!send || !recv)
		return fail(TAUT_ERR_ARG,
			    "rank %d %s itself: on GPU memory a send to oneself and its receive are calls of one group",
			    rank, send ? "only sends to" : "only receives from");
	any = recv->tag == GPU_TAG_ANY && send->tag >= 0;
	if (recv->bytes != send->bytes || (recv->tag != send->tag && !any))
		return fail(TAUT_ERR_MISMATCH,
			    "rank %d expects of itself %zu bytes with tag %d and sends %zu bytes with tag %d", rank,
			    recv->bytes, recv->tag, send->bytes, send->tag);
	recv->kind = GPU_FLOW_COPY;
	recv->from = send->buf;
	return TAUT_OK;
}

static void take_out(struct message *list, size_t *n, struct message *m)
{
	size_t at = (size_t)(m - list);

	--*n;
	memmove(m, m + 1, (*n - at) * sizeof(*m));
}

static enum taut_status make_copies(struct message *list, size_t *n, int rank)
{
	struct message *send, *recv;
	enum taut_status st = TAUT_OK;

	while (!st) {
		send = find_self(list, *n, rank, GPU_FLOW_SEND);
		recv = find_self(list, *n, rank, GPU_FLOW_RECV);
		if (!send && !recv)
			break;
		st = pair_self(recv, send, rank);
		if (!st)
			take_out(list, n, send);
	}
	return st;
}

/* Nothing to copy, or in place. */
static void drop_idle_copies(struct message *list, size_t *n)
{
	for (size_t i = *n; i-- > 0;)
		if (list[i].kind == GPU_FLOW_COPY && (!list[i].bytes || list[i].buf == list[i].from))
			take_out(list, n, &list[i]);
}

/* --- order --- */
/* In turn k of a rank it sends to the rank that is k further and receives from the one that is k before: as all
 * do, what one launch sends the like launch of the peer receives, when there are more than one. */
static uint32_t turn_of(const struct message *m, int rank, int nranks)
{
	int far = m->kind == GPU_FLOW_SEND ? m->peer - rank : rank - m->peer;

	return m->index * (uint32_t)nranks + (uint32_t)((far + nranks) % nranks);
}

static int by_turn(const void *a, const void *b)
{
	const struct message *x = a, *y = b;

	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static int by_flow(const void *a, const void *b)
{
	const struct message *x = a, *y = b;

	if (x->path != y->path)
		return (int)x->path - (int)y->path;
	if (x->kind != y->kind)
		return (int)x->kind - (int)y->kind;
	if (x->peer != y->peer)
		return x->peer - y->peer;
	return x->index < y->index ? -1 : x->index > y->index;
}

enum taut_status messages_order(struct message *list, size_t *n, int rank, int nranks)
{
	uint32_t count[GPU_FLOW_COPY + 1][GPU_MAX_RANKS] = { { 0 } };
	enum taut_status st = make_copies(list, n, rank);

	if (st)
		return st;
	drop_idle_copies(list, n);
	for (size_t i = 0; i < *n; i++) {
		list[i].index = count[list[i].kind][list[i].peer]++;
		list[i].turn = turn_of(&list[i], rank, nranks);
	}
	if (*n)
		qsort(list, *n, sizeof(*list), by_turn);
	return TAUT_OK;
}

/* --- launches --- */
/* What is of one turn is never split: a send of one launch would wait for a receive of the next. */
static size_t count_of_launch(const struct message *list, size_t n)
{
	size_t k = GPU_MESSAGES_MOST;

	if (n <= k)
		return n;
	while (list[k].turn == list[k - 1].turn)
		k--;
	return k;
}

static uint64_t word_of(const struct message *m)
{
	if (m->kind == GPU_FLOW_COPY)
		return (uint64_t)(uintptr_t)m->from;
	return (uint64_t)(m->tag == GPU_TAG_CALL ? m->sig : 0) << 32 | (uint32_t)m->tag;
}

static uint32_t lanes_of(const struct gpu_messages_args *a, const struct message *m)
{
	if (m->path == GPU_PATH_SHORT)
		return GPU_SHORT_LANES_OF(m->bytes, a->short_lanes);
	return GPU_LANES_OF(m->bytes, a->lanes);
}

static void add_to_flow(struct gpu_messages_args *a, const struct message *m, size_t number)
{
	uint32_t *n = m->path == GPU_PATH_SHORT ? &a->nshort : &a->nflows;
	struct gpu_flow *f = *n ? &a->flow[a->nflows + a->nshort - 1] : NULL;
	uint32_t lanes = lanes_of(a, m);

	if (!f || f->kind != m->kind || f->peer != m->peer) {
		f = &a->flow[a->nflows + a->nshort];
		*f = (struct gpu_flow){ .kind = (uint8_t)m->kind, .peer = (uint8_t)m->peer, .first = (uint8_t)number };
		++*n;
	}
	f->count++;
	if (lanes > f->lanes)
		f->lanes = (uint8_t)lanes;
}

/* What a launch has of the messages from, or to, a rank. */
struct pair {
	uint32_t first, count; /* first: index */
};

static void count_pairs(struct pair pairs[][GPU_MAX_RANKS], const struct message *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pair *p = &pairs[list[i].kind][list[i].peer];

		if (!p->count++ || list[i].index < p->first)
			p->first = list[i].index;
	}
}

static void number_units(struct gpu_flow *f, uint32_t n, uint32_t *units, struct pair pairs[][GPU_MAX_RANKS])
{
	*units = 0;
	for (uint32_t i = 0; i < n; i++) {
		f[i].unit = (uint16_t)*units;
		f[i].total = (uint8_t)pairs[f[i].kind][f[i].peer].count;
		*units += f[i].lanes;
	}
}

void messages_begin(struct gpu_messages_args *a, int nranks, const struct message_layout *l, uint64_t *counters)
{
	struct message_counters c = messages_counters(nranks, l);

	a->lines = l->lines;
	a->slots = l->slots;
	a->slot_bytes = l->slot_bytes;
	a->lanes = l->lanes;
	a->shorts = l->shorts;
	a->credits = l->credits;
	a->short_lanes = l->short_lanes;
	a->short_most = l->short_most;
	a->counters = counters;
	a->short_counters = counters + c.shorts;
	a->numbers = counters + c.numbers;
}

size_t messages_fill(struct gpu_messages_args *a, struct message *list, size_t n)
{
	struct pair pairs[GPU_FLOW_COPY + 1][GPU_MAX_RANKS] = { { { 0, 0 } } };
	size_t k = count_of_launch(list, n);

	for (size_t i = 0; i < k; i++)
		list[i].path = a->short_lanes && list[i].bytes <= a->short_most ? GPU_PATH_SHORT : GPU_PATH_LONG;
	qsort(list, k, sizeof(*list), by_flow);
	count_pairs(pairs, list, k);
	a->nflows = a->nshort = 0;
	for (size_t i = 0; i < k; i++) {
		a->message[i] = (struct gpu_message){ list[i].buf, list[i].bytes, word_of(&list[i]), list[i].place };
		a->number[i] = (uint8_t)(list[i].index - pairs[list[i].kind][list[i].peer].first);
		add_to_flow(a, &list[i], i);
	}
	number_units(a->flow, a->nflows, &a->nunits, pairs);
	number_units(a->flow + a->nflows, a->nshort, &a->nwarps, pairs);
	return k;
}

/* --- blocks --- */
static unsigned blocks_of(uint32_t units, unsigned each)
{
	return (units + each - 1) / each;
}

/* Of a block, when all are short: few, as those of many blocks move more. */
static unsigned short_warps(uint32_t warps, unsigned most)
{
	unsigned each = 4;

	while (each < GPU_SHORT_WARPS && blocks_of(warps, each) > most)
		each *= 2;
	return warps < each ? warps : each;
}

struct message_grid messages_grid(struct gpu_messages_args *a, unsigned most)
{
	unsigned each = a->nunits ? GPU_SHORT_WARPS : short_warps(a->nwarps, most);
	unsigned behind = blocks_of(a->nwarps, each);

	a->long_blocks = (uint32_t)least(a->nunits, behind < most ? most - behind : 1);
	return (struct message_grid){ a->long_blocks + behind, each * 32 };
}
