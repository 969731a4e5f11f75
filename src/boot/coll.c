/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges of small records over the tree. The thread that completes a step sends the next
 * one, be it the owner's or the service thread. Contributions travel up as the blocks of a
 * subtree in preorder, results down in rank order. */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "boot/group.h"

enum { EXCHANGE_MAX_BYTES = 65536, EXCHANGE_MAX_TOTAL = 1 << 30, EXCHANGE_HEAD = 9 };

void msg_list_free(struct msg_list *l)
{
	while (l->head) {
		struct msg *m = l->head;

		l->head = m->next;
		mem_free(m);
	}
	l->tail = &l->head;
}

static void msg_pop(struct msg_list *l)
{
	struct msg *m = l->head;

	l->head = m->next;
	if (!l->head)
		l->tail = &l->head;
	mem_free(m);
}

static const char *kind_name(int kind)
{
	static const char *const names[] = { "nothing", "all-gather", "broadcast", "barrier" };

	return kind >= 0 && kind <= EXCHANGE_BARRIER ? names[kind] : "nothing";
}

static bool fits(struct boot *b, const struct edge *e, const struct msg *m)
{
	const struct op *op = &b->op;

	if (m->seq == op->seq && m->kind == op->kind && m->each == op->each)
		return true;
	event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_MISMATCH, -1,
		   "exchange %u: rank %d does %s of %zu bytes, rank %d does %s of %u bytes (exchange %u)", op->seq,
		   b->rank, kind_name((int)op->kind), op->each, e->rank, kind_name(m->kind), m->each, m->seq);
	return false;
}

static size_t frame_open(struct buf *f, enum frame_type type, const struct op *op)
{
	size_t at = frame_begin(f, type);

	buf_u32(f, op->seq);
	buf_u8(f, (uint8_t)op->kind);
	buf_u32(f, (uint32_t)op->each);
	return at;
}

/* Blocks of the subtree of @rank to their places; what they took of @from. */
static size_t place(uint8_t *all, const uint8_t *from, size_t each, int rank, int size)
{
	size_t at = each;

	memcpy(all + each * (size_t)rank, from, each);
	for (int i = 1; i <= TREE_WIDTH && rank * TREE_WIDTH + i < size; i++)
		at += place(all, from + at, each, rank * TREE_WIDTH + i, size);
	return at;
}

static size_t subtree(int rank, int size)
{
	size_t n = 1;

	for (int i = 1; i <= TREE_WIDTH && rank * TREE_WIDTH + i < size; i++)
		n += subtree(rank * TREE_WIDTH + i, size);
	return n;
}

static bool kids_ready(struct boot *b)
{
	for (int i = 0; i < b->nstatic; i++) {
		const struct edge *e = &b->kids[i];
		const struct msg *m = e->msgs.head;

		if (!m || !fits(b, e, m))
			return false;
		if (m->len != b->op.each * subtree(e->rank, b->g->size)) {
			event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_INTERNAL, e->rank,
				   "rank %d sent %zu bytes in an exchange of %zu a rank", e->rank, m->len, b->op.each);
			return false;
		}
	}
	return true;
}

static void send_up(struct boot *b)
{
	struct buf f = { 0 };
	size_t at = frame_open(&f, FRAME_UP, &b->op);

	buf_bytes(&f, b->op.mine, b->op.each);
	for (int i = 0; i < b->nstatic; i++) {
		buf_bytes(&f, b->kids[i].msgs.head->data, b->kids[i].msgs.head->len);
		msg_pop(&b->kids[i].msgs);
	}
	frame_end(&f, at);
	b->op.sent_up = true;
	edges_send(b, &f, NULL, true, false);
}

static void send_down(struct boot *b, const void *data, size_t len)
{
	struct buf f = { 0 };
	size_t at = frame_open(&f, FRAME_DOWN, &b->op);

	buf_bytes(&f, data, len);
	frame_end(&f, at);
	edges_send(b, &f, NULL, false, true);
}

static void gather_at_top(struct boot *b)
{
	struct op *op = &b->op;

	if (op->each)
		memcpy(op->all, op->mine, op->each);
	for (int i = 0; i < b->nstatic; i++) {
		if (op->each)
			place(op->all, b->kids[i].msgs.head->data, op->each, b->kids[i].rank, b->g->size);
		msg_pop(&b->kids[i].msgs);
	}
	send_down(b, op->all, op->each * (size_t)b->g->size);
	op->done = true;
}

static void take_down(struct boot *b)
{
	struct msg *m = b->parent.msgs.head;
	size_t want = b->op.kind == EXCHANGE_GATHER ? b->op.each * (size_t)b->g->size : b->op.each;

	if (!m || !fits(b, &b->parent, m) || m->len != want)
		return;
	if (want)
		memcpy(b->op.all, m->data, want);
	msg_pop(&b->parent.msgs);
	b->op.done = true;
}

static void progress(struct boot *b)
{
	struct op *op = &b->op;

	if (!op->active || op->done)
		return;
	if (op->kind == EXCHANGE_BROADCAST && b->rank == 0) {
		send_down(b, op->mine, op->each);
		op->done = true;
	} else if (op->kind != EXCHANGE_BROADCAST && !op->sent_up && kids_ready(b)) {
		if (b->rank == 0)
			gather_at_top(b);
		else
			send_up(b);
	}
	if (b->rank && !op->done)
		take_down(b);
	if (op->done)
		pthread_cond_broadcast(&b->cond);
}

void exchange_frame(struct boot *b, struct edge *e, const struct frame *f)
{
	struct reader r = reader_of(f);
	struct msg *m = f->len < EXCHANGE_HEAD ? NULL : mem_calloc(1, sizeof(*m) + f->len - EXCHANGE_HEAD);
	struct buf copy = { 0 };

	if (!m) {
		event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_NOMEM, b->rank,
			   "rank %d: no memory for an exchange of %zu bytes", b->rank, f->len);
		return;
	}
	m->seq = rd_u32(&r);
	m->kind = rd_u8(&r);
	m->each = rd_u32(&r);
	m->len = r.left;
	memcpy(m->data, r.at, r.left);
	*e->msgs.tail = m;
	e->msgs.tail = &m->next;
	if (f->type == FRAME_DOWN) {
		buf_bytes(&copy, f->data - FRAME_HEADER, FRAME_HEADER + f->len);
		edges_send(b, &copy, NULL, false, true);
	}
	progress(b);
}

static void fail_left(struct boot *b, const struct edge *e)
{
	event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_PEER, e->was,
		   "rank %d left the group while rank %d waits for it in an exchange", e->was, b->rank);
}

/* Somebody who left will not do its part. */
void exchange_left(struct boot *b, struct edge *e)
{
	if (b->op.active && !b->op.done && !e->msgs.head)
		fail_left(b, e);
}

static bool missing(struct boot *b)
{
	if (b->parent.left && !b->parent.msgs.head) {
		fail_left(b, &b->parent);
		return true;
	}
	for (int i = 0; i < b->nstatic; i++)
		if (b->kids[i].left && !b->kids[i].msgs.head) {
			fail_left(b, &b->kids[i]);
			return true;
		}
	return false;
}

static enum taut_status exchange(struct boot *b, enum exchange kind, const void *mine, size_t each, void *all)
{
	struct group *g = b->g;
	enum taut_status st = TAUT_OK;

	if (b->pid != getpid())
		return fail(TAUT_ERR_ARG, "this group belongs to process %d, not to its child %d", (int)b->pid,
			    (int)getpid());
	if (each > EXCHANGE_MAX_BYTES || each * (size_t)g->size > EXCHANGE_MAX_TOTAL)
		return fail(TAUT_ERR_ARG,
			    "an exchange of %zu bytes among %d ranks: at most %d bytes a rank and 1 GiB in all", each,
			    g->size, EXCHANGE_MAX_BYTES);
	pthread_mutex_lock(&boot_lock);
	b->op = (struct op){
		.seq = b->op.seq + 1, .kind = kind, .each = each, .mine = mine, .all = all, .active = true
	};
	if (!g->has_event)
		progress(b);
	if (!g->has_event && !b->op.done)
		missing(b);
	while (!b->op.done && !g->has_event)
		member_wait(b, UINT64_MAX);
	if (!b->op.done)
		st = event_status(g);
	b->op.active = false;
	pthread_mutex_unlock(&boot_lock);
	return st;
}

enum taut_status boot_all_gather(struct boot *b, const void *mine, size_t len, void *all)
{
	return exchange(b, EXCHANGE_GATHER, mine, len, all);
}

enum taut_status boot_broadcast(struct boot *b, void *buf, size_t len)
{
	return exchange(b, EXCHANGE_BROADCAST, buf, len, buf);
}

enum taut_status boot_barrier(struct boot *b)
{
	return exchange(b, EXCHANGE_BARRIER, NULL, 0, NULL);
}
