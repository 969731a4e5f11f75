/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank remembers of its calls, so that any rank can be told who called what. */
#include <stdio.h>
#include <string.h>

#include "base/fence.h"
#include "base/time.h"
#include "comm/comm.h"

#define DOUBT_NS 120000000u /* a little more than the pause between two questions */

struct call_words {
	uint64_t seq, count;
	int coll, type, op, root, vectors;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static uint64_t signature(const struct call_words *w)
{
	uint64_t h = mix(0xcbf29ce484222325ull, w->seq);

	h = mix(h, (uint64_t)(unsigned)w->coll << 32 | (unsigned)w->type);
	h = mix(h, w->vectors ? 0 : w->count);
	return mix(h, (uint64_t)(unsigned)w->op << 32 | (uint64_t)(unsigned)w->root << 1 | (unsigned)w->vectors);
}

static void keep(struct taut_comm *comm, const struct call_words *w)
{
	struct call_record *r = &comm->calls[w->seq % COMM_CALLS];

	/* A reader that meets another seq before or after takes the record for absent. */
	atomic_store_explicit(&r->seq, 0, memory_order_relaxed);
	fence(memory_order_release);
	atomic_store_explicit(&r->coll, w->coll, memory_order_relaxed);
	atomic_store_explicit(&r->count, w->count, memory_order_relaxed);
	atomic_store_explicit(&r->type, w->type, memory_order_relaxed);
	atomic_store_explicit(&r->op, w->op, memory_order_relaxed);
	atomic_store_explicit(&r->root, w->root, memory_order_relaxed);
	atomic_store_explicit(&r->vectors, w->vectors, memory_order_relaxed);
	atomic_store_explicit(&r->seq, w->seq, memory_order_release);
}

/* The only thread that writes it. */
static uint64_t next_seq(struct taut_comm *comm)
{
	uint64_t seq = atomic_load_explicit(&comm->seq, memory_order_relaxed) + 1;

	atomic_store_explicit(&comm->seq, seq, memory_order_relaxed); /* a count alone */
	return seq;
}

uint64_t call_record(struct taut_comm *comm, const struct op *op, uint32_t *sig)
{
	struct call_words w = { .seq = next_seq(comm),
				.count = op->count,
				.coll = (int)op->coll,
				.type = (int)op->type,
				.vectors = op->vectors };

	if (sched_coll_reduces(op->coll))
		w.op = op->op >= TAUT_OP_USER ? (int)TAUT_OP_USER : (int)op->op;
	if (sched_coll_has_root(op->coll))
		w.root = op->root;
	keep(comm, &w);
	*sig = comm->cfg.check ? (uint32_t)(signature(&w) >> 32) : 0x74617574u;
	return w.seq;
}

void call_note(struct taut_comm *comm, enum comm_call call, uint64_t len)
{
	struct call_words w = { .seq = next_seq(comm), .count = len, .coll = (int)call };

	keep(comm, &w);
}

static void write_text(char *text, size_t len, const struct call_words *w)
{
	enum sched_coll coll = (enum sched_coll)w->coll;
	char count[32] = "", op[32] = "", root[32] = "";

	if (w->coll == CALL_ALLOC) {
		snprintf(text, len, "mem_alloc(%llu bytes)", (unsigned long long)w->count);
		return;
	}
	if (coll == COLL_BARRIER || w->coll == CALL_SPLIT || w->coll == CALL_DUP) {
		snprintf(text, len, "%s()",
			 w->coll == CALL_SPLIT ? "comm_split"
			 : w->coll == CALL_DUP ? "comm_dup"
					       : "barrier");
		return;
	}
	if (!w->vectors)
		snprintf(count, sizeof(count), "count %llu, ", (unsigned long long)w->count);
	if (sched_coll_reduces(coll))
		snprintf(op, sizeof(op), ", %s", taut_op_name((enum taut_op)w->op));
	if (sched_coll_has_root(coll))
		snprintf(root, sizeof(root), ", root %d", w->root);
	snprintf(text, len, "%s%s(%s%s%s%s)", sched_coll_name(coll), w->vectors ? "_v" : "", count,
		 taut_type_name((enum taut_type)w->type), op, root);
}

bool comm_describe(void *ctx, uint64_t seq, uint64_t *sig, char *text, size_t len)
{
	struct taut_comm *comm = ctx;
	struct call_record *r = &comm->calls[seq % COMM_CALLS];
	struct call_words w = { .seq = atomic_load_explicit(&r->seq, memory_order_acquire) };

	w.coll = atomic_load_explicit(&r->coll, memory_order_relaxed);
	w.count = atomic_load_explicit(&r->count, memory_order_relaxed);
	w.type = atomic_load_explicit(&r->type, memory_order_relaxed);
	w.op = atomic_load_explicit(&r->op, memory_order_relaxed);
	w.root = atomic_load_explicit(&r->root, memory_order_relaxed);
	w.vectors = atomic_load_explicit(&r->vectors, memory_order_relaxed);
	fence(memory_order_acquire);
	if (w.seq != seq || atomic_load_explicit(&r->seq, memory_order_relaxed) != seq) {
		text[0] = '\0';
		return false;
	}
	*sig = signature(&w);
	write_text(text, len, &w);
	return true;
}

/* A message of another call may belong to an older one: a rank that thought of another root, say, had
 * nothing to wait for in it. One call after the other is asked for, backwards, again and again. */
static void ask_back(struct taut_comm *comm)
{
	uint64_t now = now_ns();

	if (now < comm->doubt_at)
		return;
	if (!comm->doubt_at) {
		if (comm->seq > 1)
			boot_query_call(comm->boot, comm->seq - 1);
		boot_query_call(comm->boot, comm->seq);
		comm->doubt = comm->seq > 2 ? comm->seq - 2 : comm->seq;
	} else {
		boot_query_call(comm->boot, comm->doubt);
		comm->doubt = comm->doubt > 1 && comm->seq - comm->doubt < COMM_CALLS / 4 ? comm->doubt - 1 : comm->seq;
	}
	comm->doubt_at = now + DOUBT_NS;
}

void comm_stalled(void *ctx, bool mismatch)
{
	struct taut_comm *comm = ctx;

	if (mismatch)
		ask_back(comm);
	else if (comm->seq)
		boot_query_call(comm->boot, comm->seq);
}
