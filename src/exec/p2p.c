/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives. A message is an ll line with a header (tag, length, the first bytes
 * of the payload), then the rest of the payload: by ll if it fits one ll message, else in
 * bulk pieces. A message whose receive has not been posted is taken to an inbox as soon as a later
 * one is wanted; a send to this rank itself goes straight to the inbox. */
#include <string.h>

#include "base/mem.h"
#include "exec/exec.h"

#define HEAD_BYTES 56
#define INLINE_BYTES (HEAD_BYTES - 16)
#define LL_REST 2048 /* payload beyond the header that still goes by ll */
#define SIG 0x70327032u

struct head {
	int32_t tag;
	int32_t pad;
	uint64_t len;
	unsigned char data[INLINE_BYTES];
};
_Static_assert(sizeof(struct head) == HEAD_BYTES, "one ll line");

struct inbox_msg {
	struct inbox_msg *next;
	int tag;
	size_t len;
	unsigned char data[];
};
struct exec_inbox {
	struct inbox_msg *first, **last;
	struct inbox_msg *filling; /* comes in; not yet in the list */
	size_t at;
	bool have_head; /* a header was taken and its receive not found yet */
	struct head head;
	struct exec_task *owner;  /* whose payload is being received into its own buffer */
	struct exec_task *posted; /* receives that wait for their message, in order */
};

enum taut_status exec_inbox_create(struct exec_inbox **out)
{
	struct exec_inbox *box = mem_calloc(1, sizeof(*box));

	if (!box)
		return fail(TAUT_ERR_NOMEM, "an inbox for messages");
	box->last = &box->first;
	*out = box;
	return TAUT_OK;
}

void exec_inbox_destroy(struct exec_inbox *box)
{
	if (!box)
		return;
	while (box->first) {
		struct inbox_msg *m = box->first;

		box->first = m->next;
		mem_free(m);
	}
	mem_free(box->filling);
	mem_free(box);
}

static void task_init(struct exec_task *t, enum exec_kind kind, struct exec_net *net, const struct exec_msg *msg)
{
	t->kind = kind;
	t->net = net;
	t->after = NULL;
	t->msg = *msg;
	t->npending = 0;
	t->done = false;
	t->call.sig = SIG;
}

void exec_send_init(struct exec_task *t, struct exec_net *net, const struct exec_msg *msg)
{
	task_init(t, EXEC_SEND, net, msg);
}

void exec_recv_init(struct exec_task *t, struct exec_net *net, const struct exec_msg *msg)
{
	struct exec_task **at = &msg->inbox->posted;

	task_init(t, EXEC_RECV, net, msg);
	while (*at)
		at = &(*at)->msg.next;
	t->msg.next = NULL;
	*at = t;
}

/* A receive that will not run, or no longer, waits for nothing. */
static void unpost(struct exec_inbox *box, struct exec_task *t)
{
	struct exec_task **at = &box->posted;

	while (*at && *at != t)
		at = &(*at)->msg.next;
	if (*at)
		*at = t->msg.next;
}

void exec_recv_cleanup(struct exec_task *t)
{
	if (t->done)
		return;
	unpost(t->msg.inbox, t);
	if (t->msg.inbox->owner == t)
		t->msg.inbox->owner = NULL;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Length of the part that starts at @at, and whether it goes by ll. */
static size_t part_len(const struct wire_conn *c, size_t len, size_t at, bool *ll)
{
	*ll = len - INLINE_BYTES <= LL_REST;
	return *ll ? len - at : min_size(len - at, c->slot_bytes);
}

static void deliver(struct exec_inbox *box, struct inbox_msg *m)
{
	m->next = NULL;
	*box->last = m;
	box->last = &m->next;
}

static struct inbox_msg *inbox_new(int tag, size_t len)
{
	struct inbox_msg *m = mem_realloc(NULL, 1, sizeof(*m) + len);

	if (!m) {
		fail(TAUT_ERR_NOMEM, "%zu bytes for a message that no receive waits for", len);
		return NULL;
	}
	m->tag = tag;
	m->len = len;
	return m;
}

/* --- sending --- */
static enum exec_step send_self(struct exec_task *t)
{
	struct inbox_msg *m = inbox_new(t->msg.tag, t->msg.len);

	if (!m)
		return EXEC_FAILED;
	if (t->msg.len)
		memcpy(m->data, t->msg.buf, t->msg.len);
	deliver(t->msg.inbox, m);
	t->done = true;
	return EXEC_MOVED;
}

static enum wire_result send_head(struct exec_task *t, struct wire_conn *tx)
{
	struct head h = { .tag = t->msg.tag, .len = t->msg.len };
	size_t n = min_size(t->msg.len, INLINE_BYTES);
	enum wire_result r;

	if (n)
		memcpy(h.data, t->msg.buf, n);
	r = tx->ops->send_ll(tx, &h, sizeof(h), SIG);
	if (r == WIRE_DONE) {
		t->msg.started = true;
		t->msg.at = n;
	}
	return r;
}

static enum wire_result send_part(struct exec_task *t, struct wire_conn *tx)
{
	bool ll;
	size_t n = part_len(tx, t->msg.len, t->msg.at, &ll);
	const unsigned char *p = (const unsigned char *)t->msg.buf + t->msg.at;
	bool ref = n >= EXEC_REF_BYTES && tx->ops->send_ref;
	enum wire_result r = (ll ? tx->ops->send_ll : ref ? tx->ops->send_ref : tx->ops->send)(tx, p, n, SIG);

	if (r == WIRE_DONE)
		t->msg.at += n;
	return r;
}

static bool posted(const struct exec_task *t)
{
	return t->msg.started && t->msg.at == t->msg.len;
}

/* Messages of a link go one after the other, in the order of their tasks. */
static enum wire_result post_message(struct exec_task *t, struct exec_link *l, bool *moved)
{
	enum wire_result r = WIRE_DONE;

	if (l->sender && l->sender != t)
		return WIRE_AGAIN;
	l->sender = t;
	while (r == WIRE_DONE && !posted(t)) {
		r = t->msg.started ? send_part(t, l->tx) : send_head(t, l->tx);
		*moved |= r == WIRE_DONE;
	}
	if (r == WIRE_DONE)
		l->sender = NULL;
	return r;
}

static enum exec_step advance_send(struct exec_task *t)
{
	struct exec_link *l = t->msg.link;
	enum wire_result r = WIRE_DONE;
	bool moved = false;

	if (!l)
		return send_self(t);
	if (!l->tx && t->net->attach_tx(t->net->ctx, l))
		return EXEC_FAILED;
	if (!posted(t))
		r = post_message(t, l, &moved);
	if (r == WIRE_BROKEN)
		return EXEC_FAILED;
	if (r == WIRE_DONE && (!l->tx->ops->send_idle || l->tx->ops->send_idle(l->tx))) {
		t->done = true;
		return EXEC_MOVED;
	}
	return moved ? EXEC_MOVED : EXEC_BLOCKED;
}

/* --- receiving --- */
static bool wants(const struct exec_task *t, int tag)
{
	return t->msg.tag == tag || t->msg.tag < 0;
}

/* The message goes to the receive that was posted first of those that want it. */
static struct exec_task *first_wanting(const struct exec_inbox *box, int tag)
{
	struct exec_task *t = box->posted;

	while (t && !wants(t, tag))
		t = t->msg.next;
	return t;
}

static enum exec_step wrong_length(const struct exec_task *t, size_t len, enum taut_status *st)
{
	*st = fail(TAUT_ERR_MISMATCH,
		   "rank %d expects a message of %zu bytes with tag %d from rank %d, which sent %zu bytes",
		   t->net->rank, t->msg.len, t->msg.tag, t->msg.link ? t->msg.link->peer : t->net->rank, len);
	return EXEC_FAILED;
}

static enum exec_step take_delivered(struct exec_task *t, enum taut_status *st)
{
	struct exec_inbox *box = t->msg.inbox;

	for (struct inbox_msg **at = &box->first; *at; at = &(*at)->next) {
		struct inbox_msg *m = *at;

		if (first_wanting(box, m->tag) != t)
			continue;
		if (m->len != t->msg.len)
			return wrong_length(t, m->len, st);
		if (m->len)
			memcpy(t->msg.buf, m->data, m->len);
		*at = m->next;
		if (box->last == &m->next)
			box->last = at;
		mem_free(m);
		unpost(box, t);
		t->done = true;
		return EXEC_MOVED;
	}
	return EXEC_BLOCKED;
}

/* More of a payload of @len bytes into @buf, @*at of it there already. */
static enum wire_result recv_rest(struct wire_conn *rx, unsigned char *buf, size_t len, size_t *at)
{
	enum wire_result r = WIRE_DONE;

	while (*at < len && r == WIRE_DONE) {
		bool ll;
		size_t n = part_len(rx, len, *at, &ll);

		r = (ll ? rx->ops->recv_ll : rx->ops->recv)(rx, buf + *at, n, SIG);
		if (r == WIRE_DONE)
			*at += n;
	}
	return r;
}

static enum exec_step from_wire(enum wire_result r)
{
	if (r == WIRE_MISMATCH)
		fail(TAUT_ERR_INTERNAL, "a message between two ranks is not of the form expected");
	return r == WIRE_DONE ? EXEC_MOVED : r == WIRE_AGAIN ? EXEC_BLOCKED : EXEC_FAILED;
}

/* Goes on with the message that is being stored for later. */
static enum exec_step fill_inbox(struct exec_inbox *box, struct wire_conn *rx)
{
	struct inbox_msg *m = box->filling;
	enum wire_result r = recv_rest(rx, m->data, m->len, &box->at);

	if (r != WIRE_DONE)
		return from_wire(r);
	deliver(box, m);
	box->filling = NULL;
	return EXEC_MOVED;
}

static enum exec_step start_own(struct exec_task *t, enum taut_status *st)
{
	struct exec_inbox *box = t->msg.inbox;
	size_t n = min_size(box->head.len, INLINE_BYTES);

	if (box->head.len != t->msg.len)
		return wrong_length(t, box->head.len, st);
	if (n)
		memcpy(t->msg.buf, box->head.data, n);
	t->msg.started = true;
	t->msg.at = n;
	unpost(box, t);
	box->owner = t;
	box->have_head = false;
	return EXEC_MOVED;
}

static enum exec_step start_filling(struct exec_inbox *box)
{
	size_t n = min_size(box->head.len, INLINE_BYTES);

	box->filling = inbox_new(box->head.tag, box->head.len);
	if (!box->filling)
		return EXEC_FAILED;
	memcpy(box->filling->data, box->head.data, n);
	box->at = n;
	box->have_head = false;
	return EXEC_MOVED;
}

static enum exec_step own_payload(struct exec_task *t, struct wire_conn *rx)
{
	size_t before = t->msg.at;
	enum wire_result r = recv_rest(rx, t->msg.buf, t->msg.len, &t->msg.at);

	if (r == WIRE_DONE) {
		t->msg.inbox->owner = NULL;
		t->done = true;
		return EXEC_MOVED;
	}
	return r == WIRE_AGAIN && t->msg.at > before ? EXEC_MOVED : from_wire(r);
}

static enum exec_step recv_step(struct exec_task *t, enum taut_status *st)
{
	struct exec_inbox *box = t->msg.inbox;
	struct exec_link *l = t->msg.link;
	enum exec_step r;

	if (t->msg.started)
		return own_payload(t, l->rx);
	r = take_delivered(t, st);
	if (r != EXEC_BLOCKED || !l)
		return r;
	if (!l->rx && t->net->attach_rx(t->net->ctx, l))
		return EXEC_FAILED;
	if (!l->rx || box->owner)
		return EXEC_BLOCKED;
	if (box->filling)
		return fill_inbox(box, l->rx);
	if (!box->have_head) {
		r = from_wire(l->rx->ops->recv_ll(l->rx, &box->head, sizeof(box->head), SIG));
		if (r != EXEC_MOVED)
			return r;
		box->have_head = true;
	}
	t = first_wanting(box, box->head.tag);
	return t ? start_own(t, st) : start_filling(box);
}

enum exec_step exec_p2p(struct exec_task *t, enum taut_status *st)
{
	enum exec_step r;
	bool moved = false;

	*st = TAUT_ERR_NET;
	if (t->kind == EXEC_SEND)
		return advance_send(t);
	do {
		r = recv_step(t, st);
		moved |= r == EXEC_MOVED;
	} while (r == EXEC_MOVED && !t->done);
	return r == EXEC_BLOCKED && moved ? EXEC_MOVED : r;
}
