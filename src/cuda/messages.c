/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/messages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_BUDGET ((uint64_t)4 << 20)

_Static_assert(sizeof(struct gpu_messages_args) <= 4096, "what a launch can take");
_Static_assert(GPU_MESSAGES_MOST < 256 && GPU_UNITS_MOST <= 256 && GPU_MAX_RANKS <= 256, "fields of struct gpu_flow");

struct message_layout messages_layout(int nranks, uint64_t from)
{
	/* A launch to and from all ranks has GPU_UNITS_MOST units at most. */
	struct message_layout l = { .lines = from, .lanes = GPU_UNITS_MOST / (2 * (uint32_t)nranks - 1) };
	uint64_t all = (uint64_t)(nranks - 1) * l.lanes;

	l.slots = l.lines + all * 2 * GPU_LINE;
	l.slot_bytes = all ? (uint32_t)(SLOTS_BUDGET / all / GPU_MESSAGE_SLOTS / GPU_LINE * GPU_LINE) : 0;
	l.end = l.slots + all * GPU_MESSAGE_SLOTS * l.slot_bytes;
	return l;
}

size_t messages_counters(int nranks, uint32_t lanes)
{
	return 2 * (size_t)nranks * lanes + GPU_COUNTERS;
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

static void add_to_flow(struct gpu_messages_args *a, const struct message *m, size_t number)
{
	struct gpu_flow *f = a->nflows ? &a->flow[a->nflows - 1] : NULL;
	uint32_t lanes = GPU_LANES_OF(m->bytes, a->lanes);

	if (!f || f->kind != m->kind || f->peer != m->peer) {
		f = &a->flow[a->nflows++];
		*f = (struct gpu_flow){ .kind = (uint8_t)m->kind, .peer = (uint8_t)m->peer, .first = (uint8_t)number };
	}
	f->count++;
	if (lanes > f->lanes)
		f->lanes = (uint8_t)lanes;
}

size_t messages_fill(struct gpu_messages_args *a, struct message *list, size_t n)
{
	size_t k = count_of_launch(list, n);

	qsort(list, k, sizeof(*list), by_flow);
	a->nflows = a->nunits = 0;
	for (size_t i = 0; i < k; i++) {
		a->message[i] = (struct gpu_message){ list[i].buf, list[i].bytes, word_of(&list[i]), list[i].place };
		add_to_flow(a, &list[i], i);
	}
	for (uint32_t f = 0; f < a->nflows; f++) {
		a->flow[f].unit = (uint8_t)a->nunits;
		a->nunits += a->flow[f].lanes;
	}
	return k;
}
