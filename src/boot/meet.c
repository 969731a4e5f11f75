/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/meet.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/auth.h"
#include "boot/desk.h"
#include "boot/dial.h"

#define MS 1000000u
/* How often a rank that waits looks whether those it waits for are alive. */
enum { LOOK_MS = 250, GRACE_MS = 3000, CHECKIN_ATTEMPT_MS = 10000, LINGER_MS = 1000 };

void meet_self(struct record *out, const struct config *cfg)
{
	id_self(out, cfg);
	memcpy(out->uniq, service->uniq, UNIQ_BYTES);
	out->port = service->port;
	out->naddr = service->naddr;
	memcpy(out->addrs, service->addrs, sizeof(out->addrs));
}

enum taut_status boot_id_create(struct taut_id *out, const struct config *cfg)
{
	struct id_parts p = { 0 };
	enum taut_status st = service_hold(cfg);

	if (st)
		return st;
	auth_random(p.key, sizeof(p.key));
	auth_random(p.secret, sizeof(p.secret));
	id_node(p.node, cfg);
	pthread_mutex_lock(&boot_lock);
	p.meet = (struct target){ .port = service->port, .naddr = service->naddr };
	memcpy(p.meet.uniq, service->uniq, UNIQ_BYTES);
	memcpy(p.meet.addrs, service->addrs, sizeof(p.meet.addrs));
	pthread_mutex_unlock(&boot_lock);
	st = service_hold_id(p.key, p.secret);
	if (st) {
		service_drop();
		return st;
	}
	id_pack(out, &p);
	auth_wipe(&p, sizeof(p));
	return TAUT_OK;
}

/* --- Rank 0's desk --- */

static void put_neighbour(struct buf *b, uint32_t *n, const struct table *t, int rank)
{
	struct record r;

	if (!table_has(t, rank))
		return;
	table_record(&r, t, rank);
	buf_u32(b, (uint32_t)rank);
	record_put(b, &r);
	++*n;
}

static void answer(struct conn *c, struct boot *b, int rank)
{
	const struct table *t = b->g->table;
	struct buf list = { 0 }, reply = { 0 };
	uint32_t n = 0;

	put_neighbour(&list, &n, t, tree_parent(rank));
	for (int i = 1; i <= TREE_WIDTH; i++)
		put_neighbour(&list, &n, t, rank * TREE_WIDTH + i);
	buf_u32(&reply, n);
	buf_bytes(&reply, list.data, list.len);
	reply.failed |= list.failed;
	if (reply.failed) {
		accept_refuse(c, TAUT_ERR_NOMEM, "rank 0 has no memory for the answer");
	} else {
		accept_ok(c, &reply);
		conn_drain(c);
	}
	buf_cleanup(&list);
	buf_cleanup(&reply);
}

/* The group cannot form: so says everybody. */
static void turn_away(struct conn *c, struct group *g, enum taut_status st, const char *why)
{
	event_make(g, BOOT_EVENT_FAILED, st, -1, "%s", why);
	accept_refuse(c, st, why);
}

static bool is_other(const struct table *t, int rank, const struct record *r)
{
	return table_has(t, rank) && memcmp(table_proc(t, rank)->uniq, r->uniq, UNIQ_BYTES) != 0;
}

void meet_checkin(struct conn *c, struct boot *b, const struct frame *payload)
{
	struct reader in = reader_of(payload);
	int rank = (int)c->hello.from, size = (int)rd_u32(&in);
	struct group *g = b->g;
	struct record r;
	char why[512], name[160];

	if (!record_get(&r, &in) || rank >= g->size) {
		accept_refuse(c, TAUT_ERR_INTERNAL, "the check-in cannot be read");
	} else if (g->has_event) {
		table_add(g->table, rank, &r); /* one less to linger for */
		accept_refuse(c, (enum taut_status)g->event.status, g->event.text);
	} else if (size != g->size) {
		snprintf(why, sizeof(why), "rank %d (host %s, pid %d) joins with size %d, rank 0 with size %d", rank,
			 r.host, r.pid, size, g->size);
		turn_away(c, g, TAUT_ERR_ARG, why);
	} else if (is_other(g->table, rank, &r)) {
		snprintf(why, sizeof(why), "two processes join as rank %d: %s, and host %s, pid %d", rank,
			 table_name(name, sizeof(name), g->table, rank), r.host, r.pid);
		turn_away(c, g, TAUT_ERR_ARG, why);
	} else if (!table_add(g->table, rank, &r)) {
		accept_refuse(c, TAUT_ERR_NOMEM, "rank 0 has no memory for another rank");
	} else {
		answer(c, b, rank);
	}
}

/* --- Words for what is missing --- */

int meet_ranges(char *out, size_t len, int size, bool (*missing)(const void *ctx, int rank), const void *ctx)
{
	size_t at = 0;
	int n = 0;

	out[0] = '\0';
	for (int r = 0; r < size; r++) {
		int first = r;

		if (!missing(ctx, r))
			continue;
		while (r + 1 < size && missing(ctx, r + 1))
			r++;
		n += r - first + 1;
		if (at + 32 >= len)
			at = len - 4 + (size_t)(at < len - 4 ? snprintf(out + len - 4, 4, "...") : 0);
		else if (first == r)
			at += (size_t)snprintf(out + at, len - at, "%s%d", at ? ", " : "", r);
		else
			at += (size_t)snprintf(out + at, len - at, "%s%d-%d", at ? ", " : "", first, r);
	}
	return n;
}

static bool in_tree(const struct boot *b, int rank)
{
	return b->seen_below[rank / 8] >> rank % 8 & 1;
}

static bool never_came(const void *ctx, int rank)
{
	const struct boot *b = ctx;

	return !table_has(b->g->table, rank) && !in_tree(b, rank);
}

/* They are known, but hang in nobody's tree, though their parent is there. */
static bool cut_off(const void *ctx, int rank)
{
	const struct boot *b = ctx;

	return !in_tree(b, rank) && in_tree(b, tree_parent(rank)) && table_has(b->g->table, rank);
}

static void name_hosts(char *out, size_t len, const struct boot *b)
{
	size_t at = 0;
	char name[160];

	out[0] = '\0';
	for (int r = 1; r < b->g->size && at + 200 < len; r++)
		if (cut_off(b, r))
			at += (size_t)snprintf(out + at, len - at, "%s%s", at ? ", " : ": ",
					       table_name(name, sizeof(name), b->g->table, r));
}

static void fail_missing(struct join *j)
{
	struct group *g = j->b->g;
	char ranks[512], extra[96] = "", hosts[600] = "";
	int n = meet_ranges(ranks, sizeof(ranks), g->size, never_came, j->b);

	if (!n) {
		n = meet_ranges(ranks, sizeof(ranks), g->size, cut_off, j->b);
		name_hosts(hosts, sizeof(hosts), j->b);
	}
	if (g->rejected)
		snprintf(extra, sizeof(extra),
			 "; %lu connections failed the challenge: is the secret the same everywhere?", g->rejected);
	event_make(g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, -1,
		   "%d of %d ranks did not join within %d ms: %s%s (TAUT_JOIN_TIMEOUT_MS)%s", n, g->size, j->timeout_ms,
		   hosts[0] ? hosts + 2 : ranks, "", extra);
}

/* --- Dialling neighbours --- */

int join_dial(struct join *j, int rank)
{
	struct boot *b = j->b;
	bool up = rank == b->parent.rank;
	struct dial d = { .deadline = j->deadline, .stop_on_event = true };
	enum dial_end end;
	struct conn *c;

	dial_prepare(&d, b, rank, FOR_TREE);
	b->dialling_parent |= up;
	pthread_mutex_unlock(&boot_lock);
	end = dial(&d);
	buf_cleanup(&d.reply);
	pthread_mutex_lock(&boot_lock);
	if (up)
		b->dialling_parent = false;
	if (end) {
		log_debug(LOG_BOOT, "rank %d dials rank %d: %s", b->rank, rank, d.why);
		return end;
	}
	c = conn_new(d.fd, d.local);
	if (!c)
		return DIAL_UNREACHED;
	edge_attach(b, edge_find(b, rank), c, true);
	return DIAL_OK;
}

/* Is the process of @rank there? Lock released meanwhile. */
static enum dial_end look(struct join *j, int rank, char *why, size_t len)
{
	struct dial d = { .deadline = now_ns() + 2000 * MS, .connect_ns = 1000 * MS, .stop_on_event = true };
	enum dial_end end;

	dial_prepare(&d, j->b, rank, FOR_PROBE);
	pthread_mutex_unlock(&boot_lock);
	end = dial(&d);
	buf_cleanup(&d.reply);
	if (end == DIAL_OK)
		close(d.fd);
	snprintf(why, len, "%s", d.why);
	pthread_mutex_lock(&boot_lock);
	return end;
}

static void look_around(struct join *j)
{
	struct group *g = j->b->g;
	char why[256];
	int looks = 8;

	for (int r = 1; r < g->size && looks && !g->has_event; r++) {
		if (!cut_off(j->b, r))
			continue;
		looks--;
		if (look(j, r, why, sizeof(why)) == DIAL_GONE && cut_off(j->b, r))
			event_dead(g, r, why);
	}
}

static void spread_to(struct boot *b, int rank, uint64_t until)
{
	struct dial d = { .deadline = until, .connect_ns = 500 * MS };
	struct buf f = { 0 };

	dial_prepare(&d, b, rank, FOR_NOTICE);
	d.b = NULL; /* the event itself must not stop it */
	event_put(&f, &b->g->event);
	pthread_mutex_unlock(&boot_lock);
	d.payload = f.data;
	d.len = f.len;
	if (!f.failed && dial(&d) == DIAL_OK)
		close(d.fd);
	buf_cleanup(&d.reply);
	buf_cleanup(&f);
	pthread_mutex_lock(&boot_lock);
}

/* Once a process, not to the dead. */
static bool spread_wants(const struct boot *b, int rank)
{
	const struct table *t = b->g->table;

	if (!table_has(t, rank) || rank == b->g->event.rank)
		return false;
	if (!memcmp(table_proc(t, rank)->uniq, service->uniq, UNIQ_BYTES))
		return false;
	for (int r = rank - 1; r >= 0; r--)
		if (t->proc_of[r] == t->proc_of[rank])
			return false;
	return true;
}

void join_spread(struct boot *b)
{
	uint64_t until = now_ns() + 2000 * MS;
	int last = b->rank ? 1 : b->g->size;

	/* Rank 0 knows everybody; the others tell rank 0 what they found out themselves. */
	if (b->rank && !b->g->event_own)
		return;
	for (int r = 0; r < last && now_ns() < until; r++)
		if (r != b->rank && spread_wants(b, r))
			spread_to(b, r, until);
}

/* --- Rank 0 --- */

/* The group will not form, and some ranks have not checked in yet: stay a little to tell
 * them why, since this process mostly ends next. */
static void linger(struct boot *b)
{
	uint64_t until = now_ns() + LINGER_MS * MS;

	if (b->g->event.status == TAUT_ERR_TIMEOUT)
		return;
	while (b->g->table->known < b->g->size && now_ns() < until)
		member_wait(b, now_ns() + 10 * MS);
}

static enum taut_status let_go(struct join *j, bool with_table)
{
	struct boot *b = j->b;
	struct buf f = { 0 };

	if (!table_finish(b->g->table)) {
		event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_NOMEM, 0, "rank 0 has no memory for the table of %d ranks",
			   b->g->size);
		return event_status(b->g);
	}
	b->joined = true;
	if (with_table)
		table_put(&f, b->g->table);
	else
		frame_end(&f, frame_begin(&f, FRAME_TABLE));
	edges_send(b, &f, NULL, false, true);
	pthread_cond_broadcast(&b->cond);
	return TAUT_OK;
}

void join_check_parent(struct join *j)
{
	const struct event_msg *e;

	if (!j->parent || j->parent_failed || !j->parent->g->has_event)
		return;
	e = &j->parent->g->event;
	event_make(j->b->g, BOOT_EVENT_FAILED, (enum taut_status)e->status, -1, "the parent group failed: %s", e->text);
}

enum taut_status join_top(struct join *j, const struct meeting *m)
{
	struct boot *b = j->b;

	while (!b->whole && !b->g->has_event) {
		uint64_t now = now_ns(), next = now + LOOK_MS * MS;

		if (now >= j->deadline) {
			fail_missing(j);
			break;
		}
		if (!member_wait(b, next < j->deadline ? next : j->deadline) && now_ns() < j->deadline)
			look_around(j);
		join_check_parent(j);
	}
	if (b->g->has_event)
		return event_status(b->g);
	if (m && m->complete) {
		pthread_mutex_unlock(&boot_lock);
		m->complete(m->ctx);
		pthread_mutex_lock(&boot_lock);
	}
	return let_go(j, m != NULL);
}

/* --- The others --- */

static void put_checkin(struct buf *b, const struct meeting *m)
{
	struct record r;

	meet_self(&r, m->cfg);
	buf_u32(b, (uint32_t)m->size);
	record_put(b, &r);
}

static bool take_reply(struct join *j, const struct buf *reply)
{
	struct reader r = { .at = reply->data, .left = reply->len };
	struct boot *b = j->b;
	struct record rec;
	uint32_t n;

	if (desk_sends_on(&rec, &r)) {
		j->sent_on = table_add(b->g->table, 0, &rec);
		if (j->sent_on)
			table_target(&j->top, b->g->table, 0, b->node);
		return false;
	}
	n = rd_u32(&r);
	for (uint32_t i = 0; i < n && !r.bad; i++) {
		uint32_t rank = rd_u32(&r);

		if (!record_get(&rec, &r) || rank >= (uint32_t)b->g->size)
			break;
		if (!table_has(b->g->table, (int)rank) && !table_add(b->g->table, (int)rank, &rec))
			break;
	}
	return true;
}

/* With whoever is known to be rank 0: the maker of the id, or, once that has said so, another process. */
static enum dial_end checkin_at(struct join *j, const struct meeting *m, struct dial *d, bool *answered)
{
	uint64_t attempt = now_ns() + (uint64_t)CHECKIN_ATTEMPT_MS * MS;
	struct buf payload = { 0 };
	enum dial_end end;

	*d = (struct dial){ .stop_on_event = true, .deadline = attempt < j->deadline ? attempt : j->deadline };
	dial_prepare(d, j->b, 0, FOR_CHECKIN);
	d->target = j->sent_on ? j->top : m->id.meet;
	put_checkin(&payload, m);
	pthread_mutex_unlock(&boot_lock);
	d->payload = payload.data;
	d->len = payload.len;
	end = payload.failed ? DIAL_UNREACHED : dial(d);
	buf_cleanup(&payload);
	if (end == DIAL_OK)
		close(d->fd);
	pthread_mutex_lock(&boot_lock);
	*answered = end == DIAL_OK && take_reply(j, &d->reply);
	buf_cleanup(&d->reply);
	return end;
}

static enum dial_end checkin_once(struct join *j, const struct meeting *m, struct dial *d)
{
	bool answered;
	enum dial_end end = checkin_at(j, m, d, &answered);

	if (end == DIAL_OK && !answered && j->sent_on)
		end = checkin_at(j, m, d, &answered);
	return end;
}

static void fail_checkin(struct join *j, const struct meeting *m, enum dial_end end, const struct dial *d)
{
	struct group *g = j->b->g;

	if (end == DIAL_REJECTED)
		event_make(g, BOOT_EVENT_FAILED, d->status, -1, "%s", d->why);
	else if (end == DIAL_AUTH)
		event_make(g, BOOT_EVENT_FAILED, TAUT_ERR_AUTH, 0,
			   "rank 0 at %s and rank %d have different secrets (TAUT_SECRET, TAUT_SECRET_FILE or the id)",
			   m->where, m->rank);
	else if (end == DIAL_GONE && !m->may_come)
		event_make(g, BOOT_EVENT_DEAD, TAUT_ERR_PEER, 0,
			   "rank 0 is gone (dead, or it has given up): the process that made the id no longer listens "
			   "at %s: %s",
			   m->where, d->why);
	else
		event_make(g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, 0,
			   "rank 0 at %s did not answer within %d ms (TAUT_JOIN_TIMEOUT_MS)%s: %s", m->where,
			   j->timeout_ms, j->mute ? ", or has another secret (TAUT_SECRET)" : "",
			   d->why[0] ? d->why : "it has not joined");
}

static bool is_final(enum dial_end end, const struct dial *d)
{
	return end == DIAL_AUTH || end == DIAL_CANCELLED || (end == DIAL_REJECTED && d->status != TAUT_ERR_PEER);
}

/* Until rank 0 has answered once. */
static enum taut_status checkin(struct join *j, const struct meeting *m)
{
	struct group *g = j->b->g;
	/* On this machine a refusal comes at once and costs little, and a job's start waits for the last. */
	uint64_t most = (m->id.meet.same_node ? 20 + (uint64_t)m->size / 8 : 200) * MS, pause = 5 * MS;
	struct dial d;
	int refused = 0;

	for (;;) {
		enum dial_end end = checkin_once(j, m, &d);

		if (end == DIAL_OK)
			return TAUT_OK;
		j->mute |= strstr(d.why, "handshake") != NULL;
		refused = end == DIAL_GONE ? refused + 1 : 0;
		if (refused && !m->may_come)
			pause = 5 * MS;
		if (!g->has_event &&
		    (is_final(end, &d) || now_ns() + pause >= j->deadline || (refused > 3 && !m->may_come)))
			fail_checkin(j, m, end, &d);
		if (g->has_event)
			return event_status(g);
		member_wait(j->b, now_ns() + pause);
		pause = 2 * pause < most ? 2 * pause : most;
	}
}

static void dial_neighbours(struct join *j)
{
	struct boot *b = j->b;

	if (table_has(b->g->table, b->parent.rank) && !b->parent.conn)
		join_dial(j, b->parent.rank);
	for (int i = 0; i < b->nkids && !b->g->has_event; i++)
		if (table_has(b->g->table, b->kids[i].rank) && !b->kids[i].conn)
			join_dial(j, b->kids[i].rank);
}

/* No parent yet: it has not come, or could not dial us. Rank 0 knows; and is it alive? */
static void ask_again(struct join *j, const struct meeting *m, int *refused)
{
	struct group *g = j->b->g;
	struct dial d;
	enum dial_end end = checkin_once(j, m, &d);

	*refused = end == DIAL_GONE ? *refused + 1 : 0;
	if (g->has_event)
		return;
	if (*refused > 1)
		event_dead(g, 0, d.why);
	else if (is_final(end, &d))
		fail_checkin(j, m, end, &d);
	else if (end == DIAL_OK && table_has(g->table, j->b->parent.rank) && !j->b->parent.conn)
		join_dial(j, j->b->parent.rank);
}

static void fail_alone(struct join *j)
{
	struct boot *b = j->b;

	if (!b->parent.conn)
		event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, b->parent.rank,
			   "rank %d, which rank %d hangs below, did not join within %d ms (TAUT_JOIN_TIMEOUT_MS)",
			   b->parent.rank, b->rank, j->timeout_ms);
	else
		event_make(
			b->g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, -1,
			"not all of %d ranks joined within %d ms, and rank 0 does not say which (TAUT_JOIN_TIMEOUT_MS)",
			b->g->size, j->timeout_ms);
}

static enum taut_status join_below(struct join *j, const struct meeting *m)
{
	struct boot *b = j->b;
	uint64_t end = j->deadline + (uint64_t)GRACE_MS * MS;
	/* So that many waiting ranks do not storm rank 0. */
	uint64_t pause = (LOOK_MS + (uint64_t)m->size) * MS;
	int refused = 0;
	enum taut_status st = checkin(j, m);

	if (st)
		return st;
	j->deadline = end; /* rank 0 is the one that says who is missing: give it the time */
	dial_neighbours(j);
	while (!b->joined && !b->g->has_event) {
		uint64_t now = now_ns();

		if (now >= end)
			fail_alone(j);
		else if (!member_wait(b, now + pause < end ? now + pause : end) && !b->parent.conn)
			ask_again(j, m, &refused);
	}
	return b->joined ? TAUT_OK : event_status(b->g);
}

static enum taut_status join(struct boot *b, const struct meeting *m)
{
	struct join j = { .b = b, .start = now_ns(), .timeout_ms = m->timeout_ms };

	j.deadline = j.start + (uint64_t)m->timeout_ms * MS;
	if (m->rank)
		return join_below(&j, m);
	if (m->ready) {
		enum taut_status st;

		pthread_mutex_unlock(&boot_lock);
		st = m->ready(m->ctx);
		pthread_mutex_lock(&boot_lock);
		if (st)
			return st;
	}
	return join_top(&j, m);
}

static enum taut_status open_member(struct boot **out, const struct meeting *m)
{
	struct record self;
	enum taut_status st;

	meet_self(&self, m->cfg);
	st = member_open(out, m->id.key, m->id.secret, m->rank, m->size, NULL, m->cb);
	if (st)
		return st;
	memcpy((*out)->node, self.node, NODE_BYTES);
	(*out)->heartbeat = (uint64_t)m->cfg->heartbeat_ms * MS;
	if (!table_add((*out)->g->table, m->rank, &self)) {
		member_close(*out);
		return fail(TAUT_ERR_NOMEM, "a group of %d ranks", m->size);
	}
	accept_unpark(m->id.key);
	return TAUT_OK;
}

enum taut_status meet(struct boot **out, const struct meeting *m)
{
	enum taut_status st;
	struct boot *b;

	pthread_mutex_lock(&boot_lock);
	st = open_member(&b, m);
	if (!st) {
		st = join(b, m);
		if (st && b->g->has_event)
			join_spread(b);
		if (st && b->g->has_event && m->rank == 0)
			linger(b);
		if (st)
			member_close(b);
	}
	pthread_mutex_unlock(&boot_lock);
	if (m->rank == 0 && st && m->failed)
		m->failed(m->ctx);
	if (m->rank == 0)
		service_take_id(m->id.key);
	if (st)
		service_drop();
	else
		*out = b;
	return st;
}

enum taut_status meet_check_args(int rank, int size, int timeout_ms)
{
	if (size < 1)
		return fail(TAUT_ERR_ARG, "size %d: want at least 1", size);
	if (rank < 0 || rank >= size)
		return fail(TAUT_ERR_ARG, "rank %d: want 0 to %d (size %d)", rank, size - 1, size);
	if (timeout_ms < 1)
		return fail(TAUT_ERR_ARG, "timeout of %d ms: want at least 1", timeout_ms);
	return TAUT_OK;
}

enum taut_status boot_create(struct boot **out, const struct taut_id *id, int rank, int size, int timeout_ms,
			     const struct config *cfg, const struct boot_callbacks *cb)
{
	struct meeting m = { .rank = rank, .size = size, .timeout_ms = timeout_ms, .cfg = cfg, .cb = cb };
	enum taut_status st = meet_check_args(rank, size, timeout_ms);
	uint8_t node[NODE_BYTES];
	char text[ADDR_TEXT] = "an unknown address";

	if (!st)
		st = id_unpack(&m.id, id);
	if (!st)
		st = service_hold(cfg);
	if (st)
		return st;
	id_node(node, cfg);
	m.id.meet.same_node = !memcmp(node, m.id.node, NODE_BYTES);
	if (m.id.meet.naddr)
		addr_text(text, &m.id.meet.addrs[0], m.id.meet.port);
	snprintf(m.where, sizeof(m.where), "%s", text);
	st = rank ? TAUT_OK : desk_announce(&m, now_ns() + (uint64_t)timeout_ms * MS);
	if (st)
		service_drop();
	else
		st = meet(out, &m);
	auth_wipe(&m.id, sizeof(m.id));
	return st;
}
