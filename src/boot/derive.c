/* SPDX-License-Identifier: Apache-2.0 */
/* Groups made of ranks of another group: key and secret follow from the parent's secret,
 * the tag and the members; addresses are in the parent's table; children dial parents. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/auth.h"
#include "boot/dial.h"
#include "boot/meet.h"

#define MS 1000000u
enum { ATTEMPT_MS = 5000, LOOK_MS = 250, GRACE_MS = 3000 };

struct names {
	uint8_t key[KEY_BYTES], secret[SECRET_BYTES];
};

static enum taut_status name_group(struct names *out, const struct boot *parent, const int *ranks, int size,
				   uint64_t tag)
{
	struct buf b = { 0 };
	enum taut_status st = TAUT_OK;

	buf_bytes(&b, parent->g->key, KEY_BYTES);
	buf_u64(&b, tag);
	for (int i = 0; i < size; i++)
		buf_u32(&b, (uint32_t)ranks[i]);
	if (b.failed) {
		st = fail(TAUT_ERR_NOMEM, "a group of %d ranks", size);
	} else {
		auth_derive(out->key, KEY_BYTES, parent->g->secret, "taut derived key", b.data, b.len);
		auth_derive(out->secret, SECRET_BYTES, parent->g->secret, "taut derived secret", b.data, b.len);
	}
	buf_cleanup(&b);
	return st;
}

static enum taut_status open_derived(struct boot **out, struct boot *parent, const int *ranks, int size, int rank,
				     uint64_t tag, const struct boot_callbacks *cb)
{
	struct names names;
	struct group *g;
	struct table *t = NULL;
	enum taut_status st = name_group(&names, parent, ranks, size, tag);

	if (st)
		return st;
	g = group_find(names.key);
	if (!g) {
		t = table_pick(parent->g->table, ranks, size);
		if (!t || !table_finish(t)) {
			table_free(t);
			return fail(TAUT_ERR_NOMEM, "a group of %d ranks", size);
		}
	}
	st = member_open(out, names.key, names.secret, rank, size, t, cb);
	auth_wipe(&names, sizeof(names));
	if (st)
		return st;
	memcpy((*out)->node, parent->node, NODE_BYTES);
	(*out)->heartbeat = parent->heartbeat;
	accept_unpark((*out)->g->key);
	return TAUT_OK;
}

/* Its service may have the connection parked until it derives the group too. */
static enum taut_status hang_below(struct join *j)
{
	struct boot *b = j->b;
	uint64_t deadline = j->deadline;
	int gone = 0;
	char name[160];

	while (!b->parent.conn && !b->g->has_event) {
		uint64_t attempt = now_ns() + (uint64_t)ATTEMPT_MS * MS;
		int end;

		j->deadline = attempt < deadline ? attempt : deadline;
		end = join_dial(j, b->parent.rank);
		j->deadline = deadline;
		gone = end == DIAL_GONE ? gone + 1 : 0;
		join_check_parent(j);
		if (gone > 1)
			event_dead(b->g, b->parent.rank, "its listener is gone");
		else if (end && now_ns() >= deadline)
			event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, b->parent.rank,
				   "%s did not join the new group within %d ms",
				   table_name(name, sizeof(name), b->g->table, b->parent.rank), j->timeout_ms);
		else if (end)
			member_wait(b, now_ns() + 20 * MS);
	}
	return b->parent.conn ? TAUT_OK : event_status(b->g);
}

static enum taut_status derive_below(struct join *j)
{
	struct boot *b = j->b;
	/* Rank 0 says who is missing: give it the time. */
	uint64_t end = j->deadline + (uint64_t)GRACE_MS * MS;
	enum taut_status st = hang_below(j);

	while (!st && !b->joined) {
		uint64_t now = now_ns();

		if (now >= end)
			event_make(b->g, BOOT_EVENT_FAILED, TAUT_ERR_TIMEOUT, -1,
				   "not all of %d ranks joined the new group within %d ms", b->g->size, j->timeout_ms);
		if (b->g->has_event)
			return event_status(b->g);
		member_wait(b, now + LOOK_MS * MS < end ? now + LOOK_MS * MS : end);
		join_check_parent(j);
	}
	return st;
}

static int own_index(const struct boot *parent, const int *ranks, int size)
{
	int at = -1;

	for (int i = 0; i < size; i++) {
		if (ranks[i] < 0 || ranks[i] >= parent->g->size)
			return -1;
		if (ranks[i] == parent->rank)
			at = i;
	}
	return at;
}

enum taut_status boot_derive(struct boot **out, struct boot *parent, const int *ranks, int size, uint64_t tag,
			     int timeout_ms, const struct boot_callbacks *cb)
{
	struct join j = { .parent = parent, .start = now_ns(), .timeout_ms = timeout_ms };
	int rank = own_index(parent, ranks, size);
	enum taut_status st;

	if (parent->pid != getpid())
		return fail(TAUT_ERR_ARG, "the parent group belongs to process %d, not to its child", (int)parent->pid);
	if (rank < 0)
		return fail(TAUT_ERR_ARG,
			    "rank %d is not among the %d members of the new group, or one of them is not among the %d "
			    "of its parent",
			    parent->rank, size, parent->g->size);
	j.deadline = j.start + (uint64_t)timeout_ms * MS;
	st = service_hold(NULL);
	if (st)
		return st;
	pthread_mutex_lock(&boot_lock);
	j.parent_failed = parent->g->has_event || tag & BOOT_TAG_SURVIVORS;
	st = open_derived(&j.b, parent, ranks, size, rank, tag, cb);
	if (!st) {
		st = rank ? derive_below(&j) : join_top(&j, NULL);
		if (st && j.b->g->has_event)
			join_spread(j.b);
		if (st)
			member_close(j.b);
	}
	pthread_mutex_unlock(&boot_lock);
	if (st)
		service_drop();
	else
		*out = j.b;
	return st;
}
