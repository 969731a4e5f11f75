/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/call.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum { RANK_LIMIT = 1 << 24 };	/* more than there can be: sums stay in an int */
#define PAUSE_NS 100000000u	/* between questions */
#define PATIENCE_NS 2000000000u /* for an answer, before the next question replaces it */
#define SLOW_NS 3000000000u	/* a call that waits this long is worth a line, or has lost a rank */

/* --- Entries --- */

static void add_range(struct call_entry *e, int lo, int hi)
{
	int at = 0, end;

	while (at < e->nranges && e->ranges[at].hi + 1 < lo)
		at++;
	/* Swallow what touches it. */
	for (end = at; end < e->nranges && e->ranges[end].lo <= hi + 1; end++) {
		lo = e->ranges[end].lo < lo ? e->ranges[end].lo : lo;
		hi = e->ranges[end].hi > hi ? e->ranges[end].hi : hi;
	}
	if (end == at && e->nranges == CALL_RANGES)
		return; /* e->ranks still counts them */
	memmove(&e->ranges[at + 1], &e->ranges[end], (size_t)(e->nranges - end) * sizeof(e->ranges[0]));
	e->nranges += 1 - (end - at);
	e->ranges[at].lo = lo;
	e->ranges[at].hi = hi;
}

static bool same_call(const struct call_entry *a, const struct call_entry *b)
{
	if (!a->made || !b->made)
		return a->made == b->made;
	return a->other == b->other && (a->other || (a->sig == b->sig && !strcmp(a->text, b->text)));
}

static void take_in(struct call_entry *at, const struct call_entry *e)
{
	if (!e->made && strcmp(at->text, e->text) != 0)
		at->text[0] = '\0';
	at->ranks = at->ranks + e->ranks < RANK_LIMIT ? at->ranks + e->ranks : RANK_LIMIT;
	for (int k = 0; k < e->nranges; k++)
		add_range(at, e->ranges[k].lo, e->ranges[k].hi);
}

static struct call_entry *find_other(struct call_entry *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i].other)
			return &list[i];
	return NULL;
}

void entry_merge(struct call_entry *list, int *n, const struct call_entry *e)
{
	struct call_entry *other = find_other(list, *n);
	int made = 0, i;

	for (i = 0; i < *n && !same_call(&list[i], e); i++)
		made += list[i].made;
	if (i < *n) {
		take_in(&list[i], e);
	} else if (e->made && other && made >= CALL_ENTRIES - 1) {
		take_in(other, e);
	} else {
		list[i] = *e;
		++*n;
		/* The last place is for all that come from here on. */
		if (e->made && !other && made == CALL_ENTRIES - 2) {
			list[i].other = true;
			snprintf(list[i].text, sizeof(list[i].text), "other calls");
		}
	}
}

void entry_put(struct buf *b, const struct call_entry *e)
{
	buf_u8(b, (uint8_t)(e->made | e->other << 1));
	buf_u64(b, e->sig);
	buf_text(b, e->text);
	buf_u32(b, (uint32_t)e->ranks);
	buf_u8(b, (uint8_t)e->nranges);
	for (int i = 0; i < e->nranges; i++) {
		buf_u32(b, (uint32_t)e->ranges[i].lo);
		buf_u32(b, (uint32_t)e->ranges[i].hi);
	}
}

bool entry_get(struct call_entry *out, struct reader *r)
{
	int n, last = -1;

	*out = (struct call_entry){ 0 };
	n = rd_u8(r);
	out->made = n & 1;
	out->other = n == 3;
	out->sig = rd_u64(r);
	rd_text(r, out->text, sizeof(out->text));
	out->ranks = (int)(rd_u32(r) % RANK_LIMIT);
	n = rd_u8(r);
	if (r->bad || n > CALL_RANGES)
		return false;
	for (int i = 0; i < n; i++) {
		uint32_t lo = rd_u32(r), hi = rd_u32(r);

		if (r->bad || hi >= RANK_LIMIT || lo > hi || (int)lo <= last)
			return false;
		out->ranges[i].lo = (int)lo;
		out->ranges[i].hi = last = (int)hi;
	}
	out->nranges = n;
	return true;
}

static size_t ranks_text(char *out, size_t len, const struct call_entry *e)
{
	size_t at = (size_t)snprintf(out, len, e->ranks == 1 ? "rank " : "ranks ");
	int named = 0;

	for (int i = 0; i < e->nranges && at + 32 < len; i++) {
		at += (size_t)snprintf(out + at, len - at, "%s%d", i ? "," : "", e->ranges[i].lo);
		if (e->ranges[i].hi > e->ranges[i].lo)
			at += (size_t)snprintf(out + at, len - at, "-%d", e->ranges[i].hi);
		named += e->ranges[i].hi - e->ranges[i].lo + 1;
	}
	if (named < e->ranks && at + 32 < len)
		at += (size_t)snprintf(out + at, len - at, " and %d more", e->ranks - named);
	return at;
}

static int lowest(const struct call_entry *list, int n, int above)
{
	int best = -1;

	for (int i = 0; i < n; i++)
		if (list[i].nranges && list[i].ranges[0].lo > above &&
		    (best < 0 || list[i].ranges[0].lo < list[best].ranges[0].lo))
			best = i;
	return best;
}

void entries_text(char *out, size_t len, const struct call_entry *list, int n)
{
	char ranks[200];
	size_t at = 0;

	out[0] = '\0';
	for (int i = lowest(list, n, -1); i >= 0 && at < len; i = lowest(list, n, list[i].ranges[0].lo)) {
		ranks_text(ranks, sizeof(ranks), &list[i]);
		at += (size_t)snprintf(out + at, len - at, "%s%s: %s%s", at ? "; " : "", ranks,
				       list[i].made ? "" : "not there yet", list[i].made ? list[i].text : "");
		if (!list[i].made && list[i].text[0] && at < len)
			at += (size_t)snprintf(out + at, len - at, " (%s)", list[i].text);
	}
}

/* --- Asking and answering --- */

void query_cleanup(struct boot *b)
{
	mem_free(b->query.entries);
	b->query.entries = NULL;
	b->query.nentries = 0;
}

static void ask(struct boot *b, uint32_t number, uint64_t seq)
{
	struct query *q = &b->query;
	struct buf f = { 0 };
	size_t at = frame_begin(&f, FRAME_ASK);
	struct call *c = call_new(CALL_DESCRIBE, b, sizeof(struct call_entry));

	buf_u32(&f, number);
	buf_u64(&f, seq);
	frame_end(&f, at);
	q->nentries = 0;
	if (!q->entries)
		q->entries = mem_calloc(CALL_ENTRIES + 1, sizeof(*q->entries));
	if (!q->entries || !c) {
		mem_free(c);
		buf_cleanup(&f);
		return; /* no answer: no difference is found this time */
	}
	q->number = number;
	q->seq = seq;
	q->asked_at = now_ns();
	q->active = true;
	q->waiting = 1;
	for (int i = 0; i < b->nkids; i++)
		q->waiting += b->kids[i].conn != NULL;
	edges_send(b, &f, NULL, false, true);
	c->question = number;
	c->seq = seq;
	call_queue(c);
}

void query_tick(struct boot *b, uint64_t now)
{
	struct query *q = &b->query;

	if (!q->again_at)
		return;
	if (now < q->again_at) {
		service_at(q->again_at);
		return;
	}
	q->again_at = 0;
	query_start(b, q->again_seq);
}

/* Not now: the earliest call of those that are asked for, a little later. */
static void put_off(struct boot *b, uint64_t seq, uint64_t until)
{
	struct query *q = &b->query;

	q->again_seq = q->again_at && q->again_seq < seq ? q->again_seq : seq;
	q->again_at = until;
	service_at(until);
}

void query_start(struct boot *b, uint64_t seq)
{
	struct query *q = &b->query;
	uint64_t free_at = q->asked_at ? q->asked_at + (q->active ? PATIENCE_NS : PAUSE_NS) : 0;
	struct buf f = { 0 };
	size_t at;

	if (b->closing || b->g->has_event || !b->joined)
		return;
	if (b->parent.conn) {
		at = frame_begin(&f, FRAME_QUERY);
		buf_u64(&f, seq);
		frame_end(&f, at);
		edges_send(b, &f, NULL, true, false);
	} else if (now_ns() < free_at) {
		put_off(b, seq, q->active ? now_ns() + PAUSE_NS : free_at);
	} else {
		ask(b, q->number + 1, seq);
	}
}

/* Two calls that are known to differ. */
static bool differ(const struct query *q)
{
	for (int i = 0; i < q->nentries; i++)
		for (int k = 0; k < i; k++) {
			const struct call_entry *a = &q->entries[i], *b = &q->entries[k];

			if (a->made && b->made && !a->other && !b->other && a->sig != b->sig)
				return true;
		}
	return false;
}

/* The lowest rank of the smallest party; -1 when there are several smallest ones. */
static int culprit(const struct query *q)
{
	int least = INT32_MAX, rank = -1;

	for (int i = 0; i < q->nentries; i++) {
		const struct call_entry *e = &q->entries[i];

		if (!e->made || e->ranks > least)
			continue;
		rank = e->ranks < least && e->nranges ? e->ranges[0].lo : -1;
		least = e->ranks;
	}
	return rank;
}

/* --- Calls that nobody answers --- */

/* The lowest rank from @rank on that no answer names. */
static int next_absent(const struct query *q, int rank)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (int i = 0; i < q->nentries; i++)
			for (int k = 0; k < q->entries[i].nranges; k++)
				if (q->entries[i].ranges[k].lo <= rank && q->entries[i].ranges[k].hi >= rank) {
					rank = q->entries[i].ranges[k].hi + 1;
					moved = true;
				}
	}
	return rank;
}

/* Ranks that gave an answer; *@named of them by their number. */
static int answers(const struct query *q, int *named)
{
	int n = 0;

	*named = 0;
	for (int i = 0; i < q->nentries; i++) {
		n += q->entries[i].ranks;
		for (int k = 0; k < q->entries[i].nranges; k++)
			*named += q->entries[i].ranges[k].hi - q->entries[i].ranges[k].lo + 1;
	}
	return n;
}

static const struct call_entry *late_entry(const struct query *q)
{
	for (int i = 0; i < q->nentries; i++)
		if (!q->entries[i].made)
			return &q->entries[i];
	return NULL;
}

/* Where many ranks share a processor, one that has all it waits for may not run for long. */
static uint64_t patience(const struct boot *b)
{
	const struct boot_peer *me = boot_peer(b, b->rank);
	int size = b->g->size, ranks = 0, cpus = me->cpus > 0 ? me->cpus : 1;

	for (int r = 0; r < size; r++)
		ranks += boot_peer(b, r)->node == me->node;
	return SLOW_NS * (uint64_t)(1 + ranks / cpus / 8);
}

/* True once the same call has waited for @limit, by answers that came all the time. The earliest call
 * counts when ranks wait in several. */
static bool is_slow(struct query *q, uint64_t limit)
{
	uint64_t now = now_ns();

	if (q->seq > q->slow_seq && q->slow_seq && now - q->slow_seen < SLOW_NS / 2)
		return false;
	if (q->seq != q->slow_seq || now - q->slow_seen > SLOW_NS / 2) {
		q->slow_said = q->slow_said && q->seq == q->slow_seq;
		q->slow_seq = q->seq;
		q->slow_since = now;
	}
	q->slow_seen = now;
	return now - q->slow_since >= limit;
}

/* No two calls differ: a rank is late, which is its right, or has left, and then the others would wait for ever. */
static void judge_slow(struct boot *b)
{
	struct query *q = &b->query;
	const struct call_entry *late = late_entry(q);
	int named, count = answers(q, &named), gone = next_absent(q, 0);
	char text[800], name[160];

	if (!is_slow(q, patience(b)))
		return;
	entries_text(text, sizeof(text), q->entries, q->nentries);
	if (late && late->nranges && !q->slow_said) {
		q->slow_said = true;
		log_warn(LOG_BOOT, "call %llu waits for %s: %s", (unsigned long long)q->seq,
			 table_name(name, sizeof(name), b->g->table, late->ranges[0].lo), text);
	} else if (!late && count < b->g->size && count == named && gone < b->g->size) {
		event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_PEER, gone,
			   "%s has left the group; call %llu waits for it: %s",
			   table_name(name, sizeof(name), b->g->table, gone), (unsigned long long)q->seq, text);
	}
}

static void judge(struct boot *b)
{
	struct query *q = &b->query;
	char text[900];

	if (!differ(q)) {
		judge_slow(b);
		return;
	}
	entries_text(text, sizeof(text), q->entries, q->nentries);
	event_make(b->g, BOOT_EVENT_MISMATCH, TAUT_ERR_MISMATCH, culprit(q), "call %llu differs: %s",
		   (unsigned long long)q->seq, text);
}

static void answered(struct boot *b)
{
	struct query *q = &b->query;
	struct buf f = { 0 };
	size_t at;

	if (--q->waiting)
		return;
	q->active = false;
	if (!b->parent.conn) {
		judge(b);
		return;
	}
	at = frame_begin(&f, FRAME_ANSWER);
	buf_u32(&f, q->number);
	for (int i = 0; i < q->nentries; i++)
		entry_put(&f, &q->entries[i]);
	frame_end(&f, at);
	edges_send(b, &f, NULL, true, false);
}

void query_describe(struct call *c)
{
	struct call_entry e = { .ranks = 1, .nranges = 1, .ranges[0] = { c->b->rank, c->b->rank } };

	if (c->b->cb.describe)
		e.made = c->b->cb.describe(c->b->cb.ctx, c->seq, &e.sig, e.text, sizeof(e.text));
	memcpy(c->data, &e, sizeof(e));
}

void query_described(struct call *c)
{
	struct query *q = &c->b->query;
	struct call_entry e;

	if (!q->active || q->number != c->question || c->b->g->has_event)
		return;
	memcpy(&e, c->data, sizeof(e));
	entry_merge(q->entries, &q->nentries, &e);
	answered(c->b);
}

static void take_answer(struct boot *b, struct reader *r)
{
	struct query *q = &b->query;
	struct call_entry e;

	if (!q->active || rd_u32(r) != q->number)
		return;
	while (r->left && entry_get(&e, r))
		entry_merge(q->entries, &q->nentries, &e);
	answered(b);
}

void query_frame(struct boot *b, struct edge *e, const struct frame *f)
{
	struct reader r = reader_of(f);
	uint32_t number;
	uint64_t seq;

	if (b->g->has_event || b->closing)
		return;
	if (f->type == FRAME_QUERY) {
		seq = rd_u64(&r);
		if (!r.bad)
			query_start(b, seq);
	} else if (f->type == FRAME_ASK && e == &b->parent) {
		number = rd_u32(&r);
		seq = rd_u64(&r);
		if (!r.bad)
			ask(b, number, seq);
	} else if (f->type == FRAME_ANSWER) {
		take_answer(b, &r);
	}
}
