/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/boot.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "boot/call.h"
#include "boot/dial.h"
#include "boot/group.h"

#define DIAL_NS 30000000000u   /* a service thread that does not answer in this time is stuck */
#define VERDICT_NS 1000000000u /* for the tree to tell of a death that a dial has met */
enum { HELLO_MAX = 256 };

int boot_rank(const struct boot *b)
{
	return b->rank;
}

int boot_size(const struct boot *b)
{
	return b->g->size;
}

int boot_nodes(const struct boot *b)
{
	return b->g->table->nodes;
}

const struct boot_peer *boot_peer(const struct boot *b, int rank)
{
	return rank < 0 || rank >= b->g->size ? NULL : &b->g->table->peers[rank];
}

static bool is_child(const struct boot *b)
{
	return b->pid != getpid();
}

static enum taut_status belongs_elsewhere(const struct boot *b)
{
	return fail(TAUT_ERR_ARG, "this group belongs to process %d, not to its child", (int)b->pid);
}

void boot_close(struct boot *b)
{
	/* In a child of fork the group is not there: its memory belongs to the parent's story. */
	if (!b || is_child(b))
		return;
	pthread_mutex_lock(&boot_lock);
	member_close(b);
	pthread_mutex_unlock(&boot_lock);
	service_drop();
}

static enum taut_status dial_failed(struct boot *b, int rank, enum dial_end end, const struct dial *d)
{
	uint64_t until = now_ns() + VERDICT_NS;
	enum taut_status st;
	char name[160];

	pthread_mutex_lock(&boot_lock);
	/* A refusal is mostly a death that the tree is about to tell of in better words. */
	while (end == DIAL_GONE && !b->g->has_event && member_wait(b, until))
		;
	table_name(name, sizeof(name), b->g->table, rank);
	if (b->g->has_event)
		st = event_status(b->g);
	else if (end == DIAL_REJECTED)
		st = fail(d->status, "%s refuses a connection: %s", name, d->why);
	else if (end == DIAL_LATE)
		st = fail(TAUT_ERR_TIMEOUT, "%s does not answer a connection within %u s: %s", name,
			  (unsigned)(DIAL_NS / 1000000000u), d->why);
	else
		st = fail(end == DIAL_AUTH ? TAUT_ERR_AUTH : TAUT_ERR_NET, "%s cannot be reached: %s", name, d->why);
	pthread_mutex_unlock(&boot_lock);
	return st;
}

enum taut_status boot_dial(int *fd, struct boot *b, int rank, const void *hello, size_t len, bool local)
{
	struct dial d = { .payload = hello, .len = len, .tcp = !local, .stop_on_event = true };
	enum dial_end end;

	if (is_child(b))
		return belongs_elsewhere(b);
	if (rank < 0 || rank >= b->g->size || len > HELLO_MAX)
		return fail(TAUT_ERR_ARG, "dial rank %d of %d with %zu bytes (at most %d)", rank, b->g->size, len,
			    HELLO_MAX);
	pthread_mutex_lock(&boot_lock);
	dial_prepare(&d, b, rank, FOR_DIAL);
	pthread_mutex_unlock(&boot_lock);
	if (local && !d.target.same_node)
		return fail(TAUT_ERR_ARG, "rank %d is on another machine: no local connection to it", rank);
	d.deadline = now_ns() + DIAL_NS;
	end = dial(&d);
	buf_cleanup(&d.reply);
	if (end)
		return dial_failed(b, rank, end, &d);
	fcntl(d.fd, F_SETFL, fcntl(d.fd, F_GETFL) & ~O_NONBLOCK);
	*fd = d.fd;
	return TAUT_OK;
}

enum taut_status boot_abort(struct boot *b)
{
	enum taut_status st;

	if (is_child(b))
		return belongs_elsewhere(b);
	pthread_mutex_lock(&boot_lock);
	event_abort(b);
	st = event_status(b->g);
	pthread_mutex_unlock(&boot_lock);
	return st;
}

void boot_stop(struct boot_stop *s)
{
	pthread_mutex_lock(&boot_lock);
	atomic_store(&s->wanted, true);
	if (s->at)
		event_abort(s->at);
	pthread_mutex_unlock(&boot_lock);
}

enum taut_status boot_stop_aim(struct boot_stop *s, struct boot *b)
{
	bool late = false;

	if (!s)
		return TAUT_OK;
	pthread_mutex_lock(&boot_lock);
	late = b && atomic_load(&s->wanted);
	if (!late)
		s->at = b;
	pthread_mutex_unlock(&boot_lock);
	return late ? fail(TAUT_ERR_ABORTED, "rank %d aborted the group that was to be made", b->rank) : TAUT_OK;
}

enum taut_status boot_report(struct boot *b, enum taut_status st, const char *text)
{
	struct event_msg e = { .kind = BOOT_EVENT_FAILED, .rank = b->rank };

	if (is_child(b))
		return belongs_elsewhere(b);
	e.status = (uint8_t)(st ? st : TAUT_ERR_INTERNAL);
	snprintf(e.text, sizeof(e.text), "%s", text);
	pthread_mutex_lock(&boot_lock);
	event_raise(b->g, &e, EVENT_REPORTED);
	st = event_status(b->g);
	pthread_mutex_unlock(&boot_lock);
	return st;
}

void boot_query_call(struct boot *b, uint64_t seq)
{
	if (is_child(b))
		return;
	pthread_mutex_lock(&boot_lock);
	query_start(b, seq);
	pthread_mutex_unlock(&boot_lock);
}
