/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/group.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/auth.h"
#include "boot/call.h"
#include "boot/dial.h"
#include "boot/mend.h"
#include "boot/survivors.h"

struct group *group_find(const uint8_t key[KEY_BYTES])
{
	struct group *g = service->groups;

	while (g && memcmp(g->key, key, KEY_BYTES))
		g = g->next;
	return g;
}

struct boot *member_find(struct group *g, int rank)
{
	struct boot *b = g ? g->members : NULL;

	while (b && b->rank != rank)
		b = b->next;
	return b;
}

/* --- Opening and closing --- */

static void group_free(struct group *g)
{
	struct group **p = &service->groups;

	while (*p && *p != g)
		p = &(*p)->next;
	if (*p)
		*p = g->next;
	table_free(g->table);
	auth_wipe(g->secret, sizeof(g->secret));
	mem_free(g);
}

static struct group *group_new(const uint8_t *key, const uint8_t *secret, int size)
{
	struct group *g = mem_calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	memcpy(g->key, key, KEY_BYTES);
	memcpy(g->secret, secret, SECRET_BYTES);
	g->size = size;
	g->next = service->groups;
	service->groups = g;
	return g;
}

static void edge_init(struct edge *e, int rank)
{
	*e = (struct edge){ .rank = rank };
	e->msgs.tail = &e->msgs.head;
}

static bool member_edges(struct boot *b, int size)
{
	int first = b->rank * TREE_WIDTH + 1, n = 0;

	while (n < TREE_WIDTH && first + n < size)
		n++;
	edge_init(&b->parent, tree_parent(b->rank));
	b->kids = mem_calloc((size_t)n, sizeof(*b->kids));
	if (!b->kids)
		return false;
	for (int i = 0; i < n; i++)
		edge_init(&b->kids[i], first + i);
	b->nkids = b->nstatic = n;
	return true;
}

static struct boot *member_new(struct group *g, int rank, const struct boot_callbacks *cb)
{
	struct boot *b = mem_calloc(1, sizeof(*b));
	pthread_condattr_t attr;
	uint32_t self = (uint32_t)rank;

	if (!b)
		return NULL;
	*b = (struct boot){ .g = g, .rank = rank, .pid = getpid(), .heir = -1 };
	if (cb)
		b->cb = *cb;
	b->event_call = call_new(CALL_EVENT, b, sizeof(g->event));
	if (!b->event_call || !member_edges(b, g->size)) {
		mem_free(b->event_call);
		mem_free(b);
		return NULL;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->cond, &attr);
	pthread_condattr_destroy(&attr);
	b->next = g->members;
	g->members = b;
	if (rank == 0)
		b->seen_below = mem_calloc((size_t)g->size / 8 + 1, 1);
	joined_add(b, &self, 1);
	if (b->cb.stop)
		b->cb.stop->at = b;
	if (stop_wanted(&b->cb))
		event_abort(b);
	return b;
}

enum taut_status member_open(struct boot **out, const uint8_t key[KEY_BYTES], const uint8_t secret[SECRET_BYTES],
			     int rank, int size, struct table *table, const struct boot_callbacks *cb)
{
	struct group *g = group_find(key);

	if (g && member_find(g, rank)) {
		table_free(table);
		return fail(TAUT_ERR_ARG, "rank %d of this group is already in this process (pid %d)", rank,
			    (int)getpid());
	}
	if (g && g->size != size) {
		table_free(table);
		return fail(TAUT_ERR_ARG, "rank %d joins with size %d, another rank of this process with size %d", rank,
			    size, g->size);
	}
	if (!g)
		g = group_new(key, secret, size);
	if (g && !g->table)
		g->table = table ? table : table_new(size);
	if (g && table != g->table)
		table_free(table);
	*out = g && g->table ? member_new(g, rank, cb) : NULL;
	if (*out)
		return TAUT_OK;
	if (g && !g->members)
		group_free(g);
	return fail(TAUT_ERR_NOMEM, "a group of %d ranks", size);
}

static void say_leave(struct boot *b)
{
	int heir = b->parent.conn ? b->parent.rank : -1;
	struct buf f = { 0 };
	size_t at = frame_begin(&f, FRAME_LEAVE);

	for (int i = 0; heir < 0 && i < b->nkids; i++)
		if (b->kids[i].conn)
			heir = b->kids[i].rank;
	buf_u32(&f, (uint32_t)heir);
	frame_end(&f, at);
	edges_send(b, &f, NULL, true, true);
}

static void edge_end(struct edge *e)
{
	if (e->conn)
		conn_drain(e->conn);
	e->conn = NULL;
	msg_list_free(&e->msgs);
}

static void unlink_member(struct boot *b)
{
	struct boot **p = &b->g->members;

	while (*p != b)
		p = &(*p)->next;
	*p = b->next;
	if (!b->g->members)
		group_free(b->g);
}

void member_close(struct boot *b)
{
	b->closing = true;
	if (b->cb.stop && b->cb.stop->at == b)
		b->cb.stop->at = NULL;
	call_cancel(b);
	dial_cancel(b->g, b);
	while (b->pins)
		pthread_cond_wait(&b->cond, &boot_lock);
	call_cancel(b);
	say_leave(b);
	edge_end(&b->parent);
	for (int i = 0; i < b->nkids; i++)
		edge_end(&b->kids[i]);
	survivors_refuse(b, TAUT_ERR_PEER, "that rank has left");
	unlink_member(b);
	query_cleanup(b);
	pthread_cond_destroy(&b->cond);
	mem_free(b->event_call);
	mem_free(b->kids);
	mem_free(b->below);
	mem_free(b->seen_below);
	mem_free(b->survivors);
	mem_free(b);
}

bool member_wait(struct boot *b, uint64_t until)
{
	struct timespec t = { .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };

	if (until == UINT64_MAX)
		return pthread_cond_wait(&b->cond, &boot_lock) == 0;
	return pthread_cond_timedwait(&b->cond, &boot_lock, &t) != ETIMEDOUT;
}

/* --- Edges --- */

struct edge *edge_find(struct boot *b, int rank)
{
	if (b->parent.rank == rank)
		return &b->parent;
	for (int i = 0; i < b->nkids; i++)
		if (b->kids[i].rank == rank)
			return &b->kids[i];
	return NULL;
}

struct edge *edge_adopt(struct boot *b, int rank)
{
	struct edge *kids = mem_realloc(b->kids, (size_t)b->nkids + 1, sizeof(*kids));

	if (!kids)
		return NULL;
	/* A list's tail points into the edge itself while it is empty. */
	for (int i = 0; i < b->nkids; i++)
		if (!kids[i].msgs.head)
			kids[i].msgs.tail = &kids[i].msgs.head;
	b->kids = kids;
	edge_init(&kids[b->nkids], rank);
	b->mended = true;
	return &kids[b->nkids++];
}

static void send_event(struct boot *b, struct conn *c)
{
	struct buf f = { 0 };

	if (!b->g->has_event)
		return;
	event_put(&f, &b->g->event);
	conn_send(c, &f);
}

static void send_joined(struct boot *b, const uint32_t *ranks, int n)
{
	struct buf f = { 0 };
	size_t at = frame_begin(&f, FRAME_JOINED);

	for (int i = 0; i < n; i++)
		buf_u32(&f, ranks[i]);
	frame_end(&f, at);
	conn_send(b->parent.conn, &f);
}

void edge_attach(struct boot *b, struct edge *e, struct conn *c, bool dialled)
{
	const struct table *t = b->g->table;
	struct buf f = { 0 };

	if (e->conn)
		conn_close(e->conn); /* the other side knows that this one is dead */
	e->conn = c;
	conn_state(c, CONN_EDGE);
	c->b = b;
	c->peer = e->rank;
	c->deadline = 0;
	if (!c->local && !(table_has(t, e->rank) && table_has(t, b->rank) && table_same_node(t, e->rank, b->rank))) {
		c->heartbeat = b->heartbeat;
		service_at(now_ns() + c->heartbeat);
	}
	if (dialled) {
		c->confirmed = true;
		frame_end(&f, frame_begin(&f, FRAME_BEAT));
		conn_send(c, &f);
	}
	send_event(b, c);
	if (e == &b->parent && !b->joined)
		send_joined(b, b->below, b->nbelow);
	pthread_cond_broadcast(&b->cond);
}

bool edge_accept(struct boot *b, int rank, struct conn *c, const char **why)
{
	struct edge *e = edge_find(b, rank);

	if (!e && c->hello.purpose == FOR_ADOPT && rank > b->rank)
		e = edge_adopt(b, rank);
	*why = "not a neighbour in the tree";
	if (!e)
		return false;
	/* The child decides which of two connections is the edge. */
	*why = "the edge is there already";
	if (e == &b->parent && (e->conn || b->dialling_parent))
		return false;
	accept_ok(c, NULL);
	edge_attach(b, e, c, false);
	return true;
}

void edges_send(struct boot *b, struct buf *frame, const struct conn *except, bool up, bool down)
{
	if (up && b->parent.conn && b->parent.conn != except)
		conn_write(b->parent.conn, frame->data, frame->failed ? 0 : frame->len);
	for (int i = 0; down && i < b->nkids; i++)
		if (b->kids[i].conn && b->kids[i].conn != except)
			conn_write(b->kids[i].conn, frame->data, frame->failed ? 0 : frame->len);
	buf_cleanup(frame);
}

void edge_closed(struct conn *c, const char *why)
{
	struct boot *b = c->b;
	struct edge *e = edge_find(b, c->peer);

	if (!e || e->conn != c)
		return;
	e->conn = NULL;
	/* A dial that was given up, by the living too. If it was a death, others see it as well. */
	if (!c->confirmed)
		pthread_cond_broadcast(&b->cond);
	else if (!b->closing)
		event_dead(b->g, c->peer, why);
}

void edge_silent(struct conn *c)
{
	static const char why[] = "its host has been silent for five heartbeats (TAUT_HEARTBEAT_MS)";

	/* Before the connection closes: a process that goes on after a long stop would take that for
	 * the death of others. */
	if (c->confirmed && !c->b->closing)
		event_dead(c->b->g, c->peer, why);
	conn_lost(c, why);
}

static void edge_left(struct boot *b, struct edge *e, struct conn *c, const struct frame *f)
{
	struct reader r = reader_of(f);
	int heir = (int)rd_u32(&r);

	e->conn = NULL;
	e->left = true;
	e->was = e->rank;
	conn_close(c);
	if (b->closing || b->g->has_event)
		return;
	exchange_left(b, e);
	/* Also when this rank is the heir: the parent may have been an orphan, not the top. */
	if (e == &b->parent)
		mend_later(b, heir);
}

/* --- Joining --- */

/* False: known before, or no rank. */
static bool note_below(struct boot *b, uint32_t rank)
{
	uint8_t bit = (uint8_t)(1 << rank % 8);
	uint32_t *more;

	if (rank >= (uint32_t)b->g->size)
		return false;
	if (b->seen_below) {
		if (b->seen_below[rank / 8] & bit)
			return false;
		b->seen_below[rank / 8] |= bit;
		b->nbelow++;
		return true;
	}
	if (b->nbelow == b->nbelow_cap) {
		more = mem_realloc(b->below, b->nbelow_cap ? 2 * (size_t)b->nbelow_cap : 1, sizeof(*more));
		if (!more)
			return false;
		b->below = more;
		b->nbelow_cap = b->nbelow_cap ? 2 * b->nbelow_cap : 1;
	}
	b->below[b->nbelow++] = rank;
	return true;
}

void joined_add(struct boot *b, const uint32_t *ranks, int n)
{
	for (int i = 0; i < n; i++)
		note_below(b, ranks[i]);
	if (b->parent.conn)
		send_joined(b, ranks, n);
	if (b->rank == 0 && b->nbelow == b->g->size) {
		b->whole = true;
		pthread_cond_broadcast(&b->cond);
	}
}

static void frame_joined(struct boot *b, const struct frame *f)
{
	struct reader r = reader_of(f);
	uint32_t ranks[256];
	int n = 0;

	while (r.left >= 4) {
		ranks[n++] = rd_u32(&r);
		if (n == 256 || r.left < 4) {
			joined_add(b, ranks, n);
			n = 0;
		}
	}
}

static void frame_table(struct boot *b, const struct frame *f, const struct conn *c)
{
	struct group *g = b->g;
	struct buf copy = { 0 };
	struct table *t;

	if (b->joined)
		return;
	/* Ranks of one process share what the first of them got. */
	if (!g->table->peers && f->len) {
		t = table_get(f);
		if (!t || t->size != g->size || !table_finish(t)) {
			table_free(t);
			event_make(g, BOOT_EVENT_FAILED, TAUT_ERR_NOMEM, b->rank,
				   "rank %d could not read the table of ranks", b->rank);
			return;
		}
		table_free(g->table);
		g->table = t;
	}
	b->joined = true;
	buf_bytes(&copy, f->data - FRAME_HEADER, FRAME_HEADER + f->len);
	edges_send(b, &copy, c, false, true);
	pthread_cond_broadcast(&b->cond);
}

void edge_frame(struct conn *c, const struct frame *f)
{
	struct boot *b = c->b;
	struct edge *e = edge_find(b, c->peer);
	struct event_msg event;

	if (!e || e->conn != c)
		return;
	c->confirmed = true;
	switch (f->type) {
	case FRAME_JOINED:
		frame_joined(b, f);
		break;
	case FRAME_TABLE:
		frame_table(b, f, c);
		break;
	case FRAME_UP:
	case FRAME_DOWN:
		exchange_frame(b, e, f);
		break;
	case FRAME_EVENT:
		if (event_get(&event, f))
			event_raise(b->g, &event, EVENT_TOLD);
		break;
	case FRAME_LEAVE:
		edge_left(b, e, c, f);
		break;
	case FRAME_QUERY:
	case FRAME_ASK:
	case FRAME_ANSWER:
		query_frame(b, e, f);
		break;
	default: /* a sign of life, or something newer than this release */
		break;
	}
}

/* --- Events --- */

static void tell(struct boot *b)
{
	struct buf f = { 0 };

	event_put(&f, &b->g->event);
	edges_send(b, &f, NULL, true, true);
	pthread_cond_broadcast(&b->cond);
	/* Before the table has come the owner learns it from boot_create(). */
	if (b->told || !b->joined || b->closing)
		return;
	b->told = true;
	memcpy(b->event_call->data, &b->g->event, sizeof(b->g->event));
	call_queue(b->event_call);
	b->event_call = NULL; /* told once */
}

void event_raise(struct group *g, const struct event_msg *e, enum event_from from)
{
	if (g->has_event)
		return;
	g->event = *e;
	g->has_event = true;
	g->event_own = from != EVENT_TOLD;
	/* Loud where it was seen: elsewhere the owner's call says it. */
	log_at(from == EVENT_SEEN && e->kind != BOOT_EVENT_ABORT ? LOG_ERR : LOG_INFO, LOG_BOOT, "%s%s", g->event.text,
	       from == EVENT_TOLD ? " (told by another rank)" : "");
	for (struct boot *b = g->members; b; b = b->next)
		tell(b);
	dial_cancel(g, NULL);
}

void event_make(struct group *g, enum boot_event_kind kind, enum taut_status st, int rank, const char *fmt, ...)
{
	struct event_msg e = { .kind = (uint8_t)kind, .status = (uint8_t)st, .rank = rank };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.text, sizeof(e.text), fmt, ap);
	va_end(ap);
	event_raise(g, &e, EVENT_SEEN);
}

void event_dead(struct group *g, int rank, const char *how)
{
	char name[160];

	event_make(g, BOOT_EVENT_DEAD, TAUT_ERR_PEER, rank, "%s is dead: %s",
		   table_name(name, sizeof(name), g->table, rank), how);
}

void event_abort(struct boot *b)
{
	event_make(b->g, BOOT_EVENT_ABORT, TAUT_ERR_ABORTED, b->rank, "rank %d aborted the group", b->rank);
}

enum taut_status event_status(const struct group *g)
{
	return fail_quiet((enum taut_status)g->event.status, "%s", g->event.text);
}
