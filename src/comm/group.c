/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: the calls of one thread between start and end. */
#include <stdio.h>

#include "base/mem.h"
#include "comm/comm.h"

struct group {
	int depth;
	struct op *ops;
	void **streams;
	size_t n, cap;
	enum taut_status st; /* of the first call that could not be added */
};
static _Thread_local struct group group;

bool group_open(void)
{
	return group.depth > 0;
}

void group_spoil(enum taut_status st)
{
	if (!group.st)
		group.st = st;
}

enum taut_status taut_group_start(void)
{
	group.depth++;
	return TAUT_OK;
}

static enum taut_status group_grow(void)
{
	size_t cap = group.cap ? group.cap * 2 : 16;
	struct op *ops = mem_realloc(group.ops, cap, sizeof(*ops));
	void **streams;

	if (!ops)
		return fail(TAUT_ERR_NOMEM, "a group of %zu calls", cap);
	group.ops = ops;
	streams = mem_realloc(group.streams, cap, sizeof(*streams));
	if (!streams)
		return fail(TAUT_ERR_NOMEM, "a group of %zu calls", cap);
	group.streams = streams;
	group.cap = cap;
	return TAUT_OK;
}

enum taut_status group_add(const struct op *op, void *stream)
{
	enum taut_status st = group.n == group.cap ? group_grow() : TAUT_OK;

	if (!st) {
		group.ops[group.n] = *op;
		st = op_own(&group.ops[group.n]);
	}
	if (st) {
		group_spoil(st);
		return st;
	}
	group.streams[group.n++] = stream;
	return TAUT_OK;
}

static void take_tickets(struct op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = op_first(ops, i);

		ops[i].ticket = k < i ? ops[k].ticket : comm_ticket(ops[i].comm);
	}
}

/* The calls on @stream, moved to the front of @ops in their order; the number of them. */
static size_t gather_stream(struct op *ops, void **streams, size_t n, void *stream)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		struct op op = ops[i];

		if (streams[i] != stream)
			continue;
		for (size_t j = i; j > k; j--) {
			ops[j] = ops[j - 1];
			streams[j] = streams[j - 1];
		}
		ops[k] = op;
		streams[k++] = stream;
	}
	return k;
}

static enum taut_status run_part(struct op *ops, size_t n, void *stream)
{
	enum taut_status st = stream ? stream_check(stream) : TAUT_OK;

	if (!st)
		take_tickets(ops, n);
	if (!st && stream) {
		for (size_t i = 0; i < n; i++)
			atomic_store_explicit(&ops[i].comm->streams_used, true, memory_order_relaxed);
		return stream_add(stream, ops, n);
	}
	if (!st)
		st = ops_run(ops, n);
	for (size_t i = 0; i < n; i++)
		op_release(&ops[i]);
	return st;
}

/* Is it a send or receive of GPU memory of the same communicator and stream as call @of? */
static bool goes_with(const struct op *ops, void *const *streams, size_t i, size_t of)
{
	return ops[i].gpu && ops[i].kind != OP_COLL && ops[i].comm == ops[of].comm && streams[i] == streams[of];
}

static enum taut_status launch_messages(struct op *ops, void **streams, size_t n, size_t first)
{
	struct op **list;
	enum taut_status st;
	size_t k = 0;

	for (size_t i = 0; i < first; i++)
		if (goes_with(ops, streams, i, first))
			return TAUT_OK; /* went with that one */
	list = mem_calloc(n - first, sizeof(*list));
	if (!list)
		return fail(TAUT_ERR_NOMEM, "a group of %zu calls", n);
	for (size_t i = first; i < n; i++)
		if (goes_with(ops, streams, i, first))
			list[k++] = &ops[i];
	st = comm_gpu_messages(list, k, streams[first]);
	mem_free(list);
	return st;
}

/* The first failure of some launches, of one communicator or several. */
struct failure {
	enum taut_status st;
	bool stop; /* it was not that of a communicator that failed as a whole: no more is launched */
	char text[1024];
};

static void note(struct failure *f, struct taut_comm *comm, enum taut_status st)
{
	if (!st)
		return;
	f->stop = f->stop || !atomic_load(&comm->error);
	if (f->st)
		return;
	f->st = st;
	snprintf(f->text, sizeof(f->text), "%s", taut_error_message());
}

/* Calls on GPU memory are launched: first the messages, all of a communicator and stream at once, then collectives in
 * their order; those on the default stream are waited for once all are launched, as they may need each other. */
static enum taut_status launch_gpu(struct op *ops, void **streams, size_t n)
{
	struct failure f = { 0 };

	for (size_t i = 0; i < n && !f.stop; i++)
		if (goes_with(ops, streams, i, i))
			note(&f, ops[i].comm, launch_messages(ops, streams, n, i));
	for (size_t i = 0; i < n && !f.stop; i++)
		if (ops[i].gpu && ops[i].kind == OP_COLL)
			note(&f, ops[i].comm, comm_gpu_launch(&ops[i], streams[i]));
	for (size_t i = 0; i < n && !f.stop; i++)
		if (ops[i].gpu && !streams[i])
			note(&f, ops[i].comm, comm_gpu_wait(ops[i].comm));
	if (f.st)
		fail_quiet(f.st, "%s", f.text);
	return f.st;
}

/* The calls on host memory, moved to the front; the number of them. */
static size_t keep_host(struct op *ops, void **streams, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (ops[i].gpu) {
			op_release(&ops[i]);
			continue;
		}
		ops[kept] = ops[i];
		streams[kept++] = streams[i];
	}
	return kept;
}

/* Streams first: they run on while this thread works through the rest. */
static enum taut_status run_parts(struct op *ops, void **streams, size_t n)
{
	enum taut_status first = TAUT_OK;
	size_t at = 0, direct = gather_stream(ops, streams, n, NULL);

	for (at = direct; at < n;) {
		void *stream = streams[at];
		size_t k = gather_stream(ops + at, streams + at, n - at, stream);
		enum taut_status st = run_part(ops + at, k, stream);

		first = first ? first : st;
		at += k;
	}
	if (direct) {
		enum taut_status st = run_part(ops, direct, NULL);

		first = first ? first : st;
	}
	return first;
}

/* Is call @i a message of the same communicator as one before it? */
static bool goes_along(size_t i)
{
	for (size_t k = 0; k < i && group.ops[i].kind != OP_COLL; k++)
		if (group.ops[k].kind != OP_COLL && group.ops[k].comm == group.ops[i].comm)
			return true;
	return false;
}

/* Call @i, or with the first message of a communicator the longest of them. */
static enum taut_status price_from(double *us, size_t i)
{
	enum taut_status st = plan_price(us, &group.ops[i]);

	for (size_t k = i + 1; k < group.n && !st && group.ops[i].kind != OP_COLL; k++) {
		double one = 0;

		if (group.ops[k].kind == OP_COLL || group.ops[k].comm != group.ops[i].comm)
			continue;
		st = plan_price(&one, &group.ops[k]);
		*us = one > *us ? one : *us;
	}
	return st;
}

enum taut_status group_price(double *us)
{
	enum taut_status st = TAUT_OK;

	*us = 0;
	for (size_t i = 0; i < group.n && !st; i++) {
		double one = 0;

		if (goes_along(i))
			continue;
		st = price_from(&one, i);
		*us += one;
	}
	return st;
}

enum taut_status taut_group_end(void)
{
	struct group g = group;
	enum taut_status st;

	if (!g.depth)
		return fail(TAUT_ERR_ARG, "taut_group_end() without taut_group_start()");
	if (--group.depth)
		return TAUT_OK;
	group = (struct group){ 0 }; /* calls made from here on are not of this group */
	st = g.st;
	if (!st && g.n) {
		enum taut_status gpu = launch_gpu(g.ops, g.streams, g.n);
		size_t n = keep_host(g.ops, g.streams, g.n);

		st = n ? run_parts(g.ops, g.streams, n) : TAUT_OK;
		st = gpu ? gpu : st;
	} else {
		for (size_t i = 0; i < g.n; i++)
			op_release(&g.ops[i]);
	}
	mem_free(g.ops);
	mem_free(g.streams);
	return st;
}
