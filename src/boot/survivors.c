/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/survivors.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "boot/accept.h"
#include "boot/dial.h"
#include "boot/meet.h"

#define MS 1000000u

enum fate { FATE_UNKNOWN, FATE_HERE, FATE_DEAD, FATE_EXCLUDED };

enum { DIAL_TRIES = 5, LOOK_MS = 100 };

struct census {
	struct boot *b;
	uint64_t deadline, connect_ns;
	uint64_t end; /* of collecting: a little before the others give up, so that they can be told */
	int timeout_ms;
	const struct boot_stop *stop; /* NULL: none */
	uint8_t *fate;		      /* by rank */
	int *list;
	int count;
	uint32_t number; /* of the list, given by the rank that collected it */
};

static bool stopped(const struct census *n)
{
	return n->stop && atomic_load(&n->stop->wanted);
}

static enum taut_status fail_stopped(const struct census *n)
{
	return fail(TAUT_ERR_ABORTED, "rank %d aborted the group of the survivors", n->b->rank);
}

/* --- The side of the rank that collects; lock held --- */

void survivors_gone(struct boot *b, struct conn *c)
{
	for (int i = 0; b && i < b->nsurvivors; i++)
		if (b->survivors[i].conn == c) {
			b->survivors[i] = b->survivors[--b->nsurvivors];
			return;
		}
}

static void drop_rank(struct boot *b, int rank)
{
	for (int i = 0; i < b->nsurvivors; i++)
		if (b->survivors[i].rank == rank) {
			struct conn *c = b->survivors[i].conn;

			survivors_gone(b, c);
			conn_close(c);
			return;
		}
}

void survivors_take(struct conn *c, struct boot *b)
{
	struct survivor *more;

	drop_rank(b, (int)c->hello.from); /* it comes again: the old connection is of no use */
	more = mem_realloc(b->survivors, (size_t)b->nsurvivors + 1, sizeof(*more));
	if (!more) {
		accept_refuse(c, TAUT_ERR_NOMEM, "no memory");
		return;
	}
	b->survivors = more;
	more[b->nsurvivors++] = (struct survivor){ c, (int)c->hello.from };
	accept_ok(c, NULL);
	conn_state(c, CONN_SURVIVOR);
	c->b = b;
	c->peer = (int)c->hello.from;
	c->deadline = 0;
	pthread_cond_broadcast(&b->cond);
}

void survivors_refuse(struct boot *b, enum taut_status st, const char *why)
{
	while (b->nsurvivors) {
		struct conn *c = b->survivors[--b->nsurvivors].conn;

		accept_refuse(c, st, why);
	}
}

/* To all that wait here; one who is not on the list learns that from it. */
static void send_list(struct boot *b, uint32_t number, const int *list, int count)
{
	struct buf f = { 0 };
	size_t at = frame_begin(&f, FRAME_LIST);

	buf_u32(&f, number);
	for (int i = 0; i < count; i++)
		buf_u32(&f, (uint32_t)list[i]);
	frame_end(&f, at);
	while (b->nsurvivors) {
		struct conn *c = b->survivors[--b->nsurvivors].conn;

		if (f.failed)
			shutdown(c->source.fd, SHUT_RDWR);
		else
			conn_write(c, f.data, f.len);
		conn_drain(c);
	}
	buf_cleanup(&f);
}

/* Lock released meanwhile. */
static void probe(struct census *n, int rank)
{
	uint64_t bound = now_ns() + n->connect_ns + 1000 * MS;
	struct dial d = { .deadline = bound < n->end ? bound : n->end, .connect_ns = n->connect_ns };
	enum dial_end end;

	dial_prepare(&d, n->b, rank, FOR_PROBE);
	pthread_mutex_unlock(&boot_lock);
	end = dial(&d);
	buf_cleanup(&d.reply);
	if (end == DIAL_OK)
		close(d.fd);
	pthread_mutex_lock(&boot_lock);
	/* Connected, but no answer in time: it lives. */
	if (end != DIAL_OK && end != DIAL_LATE && end != DIAL_CANCELLED)
		n->fate[rank] = FATE_DEAD;
}

static void mark_here(struct census *n)
{
	for (int r = 0; r < n->b->g->size; r++)
		if (n->fate[r] == FATE_HERE)
			n->fate[r] = FATE_UNKNOWN;
	n->fate[n->b->rank] = FATE_HERE;
	for (int i = 0; i < n->b->nsurvivors; i++)
		if (n->fate[n->b->survivors[i].rank] != FATE_EXCLUDED)
			n->fate[n->b->survivors[i].rank] = FATE_HERE;
}

static bool is_open(const void *ctx, int rank)
{
	const struct census *n = ctx;

	return n->fate[rank] == FATE_UNKNOWN;
}

static int count_fate(const struct census *n, enum fate f)
{
	int count = 0;

	for (int r = 0; r < n->b->g->size; r++)
		count += n->fate[r] == f;
	return count;
}

/* Those who wait here hear it too. */
static enum taut_status fail_silent(const struct census *n)
{
	char ranks[512];
	int count = meet_ranges(ranks, sizeof(ranks), n->b->g->size, is_open, n);
	enum taut_status st =
		fail(TAUT_ERR_TIMEOUT, "%d of %d ranks live, but did not ask for the survivors within %d ms: %s", count,
		     n->b->g->size, n->timeout_ms, ranks);

	survivors_refuse(n->b, st, taut_error_message());
	return st;
}

static enum taut_status collect(struct census *n)
{
	struct boot *b = n->b;
	uint64_t look_at = now_ns() + 20 * MS;

	for (;;) {
		mark_here(n);
		if (!count_fate(n, FATE_UNKNOWN))
			break;
		if (now_ns() >= n->end)
			return fail_silent(n);
		if (stopped(n)) {
			enum taut_status st = fail_stopped(n);

			survivors_refuse(b, st, taut_error_message());
			return st;
		}
		if (member_wait(b, look_at < n->end ? look_at : n->end) || now_ns() < look_at)
			continue;
		for (int r = 0; r < b->g->size && now_ns() < n->end; r++)
			if (n->fate[r] == FATE_UNKNOWN) {
				probe(n, r);
				if (n->fate[r] == FATE_UNKNOWN)
					mark_here(n);
			}
		look_at = now_ns() + 250 * MS;
	}
	for (int r = 0; r < b->g->size; r++)
		if (n->fate[r] == FATE_HERE)
			n->list[n->count++] = r;
	n->number = ++b->nlists;
	send_list(b, n->number, n->list, n->count);
	return TAUT_OK;
}

/* --- The side of the others --- */

/* Without the lock. 1: @len bytes came; 0: closed; -1: time is over, or it was stopped. */
static int get(const struct census *n, int fd, void *out, size_t len)
{
	size_t at = 0;

	while (at < len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = now_ns();
		ssize_t got = recv(fd, (char *)out + at, len - at, MSG_DONTWAIT);

		if (got > 0)
			at += (size_t)got;
		else if (got == 0 || (errno != EAGAIN && errno != EINTR))
			return 0;
		else if (now >= n->deadline || stopped(n))
			return -1;
		else
			poll(&p, 1, n->deadline - now < LOOK_MS * MS ? (int)((n->deadline - now) / MS) + 1 : LOOK_MS);
	}
	return 1;
}

static int get_u32(const struct census *n, int fd, uint32_t *out)
{
	uint8_t bytes[4];
	struct reader r = { .at = bytes, .left = sizeof(bytes) };
	int got = get(n, fd, bytes, sizeof(bytes));

	if (got > 0)
		*out = rd_u32(&r);
	return got;
}

enum verdict { VERDICT_LATE = -2, VERDICT_FAILED = -1, VERDICT_GONE, VERDICT_LIST };

/* The collector's sentence. */
static enum verdict get_refusal(const struct census *n, const struct frame *f, int fd, enum taut_status *st)
{
	uint8_t bytes[1024];
	struct reader r = { .at = bytes, .left = f->len };
	char text[1000];

	if (f->len > sizeof(bytes) || get(n, fd, bytes, f->len) <= 0)
		return VERDICT_GONE;
	*st = (enum taut_status)rd_u32(&r);
	rd_text(&r, text, sizeof(text));
	/* It leaves the group: then it is as good as dead. */
	if (*st == TAUT_ERR_PEER || *st == TAUT_OK || *st > TAUT_ERR_INTERNAL)
		return VERDICT_GONE;
	*st = fail(*st, "%s", text);
	return VERDICT_FAILED;
}

static enum verdict get_list(struct census *n, int fd, enum taut_status *st)
{
	uint8_t head[FRAME_HEADER];
	struct frame f;
	int got = get(n, fd, head, sizeof(head));

	if (got <= 0)
		return got ? VERDICT_LATE : VERDICT_GONE;
	if (frame_next(&f, head, sizeof(head), 4 * (size_t)n->b->g->size + 1024) == FRAME_BAD)
		return VERDICT_GONE;
	if (f.type == FRAME_REJECT)
		return get_refusal(n, &f, fd, st);
	if (f.type != FRAME_LIST || f.len < 4 || f.len / 4 - 1 > (size_t)n->b->g->size)
		return VERDICT_GONE;
	got = get_u32(n, fd, &n->number);
	n->count = 0;
	for (size_t i = 1; got > 0 && i < f.len / 4; i++) {
		uint32_t rank;

		got = get_u32(n, fd, &rank);
		if (got > 0)
			n->list[n->count++] = (int)rank;
	}
	return got > 0 ? VERDICT_LIST : got ? VERDICT_LATE : VERDICT_GONE;
}

static bool listed(const struct census *n, int rank)
{
	for (int i = 0; i < n->count; i++)
		if (n->list[i] == rank)
			return true;
	return false;
}

/* A dial that the event of a death cut short, or that was closed in the middle, says nothing of
 * @rank: only a refusal, or silence again and again, does. Lock released meanwhile. */
static enum dial_end dial_living(struct census *n, struct dial *d, int rank)
{
	enum dial_end end = DIAL_UNREACHED;

	for (int i = 0; i < DIAL_TRIES && (end == DIAL_UNREACHED || end == DIAL_CANCELLED); i++) {
		*d = (struct dial){ .deadline = n->deadline, .connect_ns = n->connect_ns };
		dial_prepare(d, n->b, rank, FOR_SURVIVE);
		pthread_mutex_unlock(&boot_lock);
		if (i)
			sleep_ms(20);
		end = dial(d);
		buf_cleanup(&d->reply);
		pthread_mutex_lock(&boot_lock);
	}
	return end;
}

/* GONE: @rank does not collect, on to the next. FAILED: @st is the error. */
static enum verdict ask(struct census *n, int rank, enum taut_status *st)
{
	enum verdict v = VERDICT_GONE;
	char name[160];
	struct dial d;
	enum dial_end end = dial_living(n, &d, rank);

	table_name(name, sizeof(name), n->b->g->table, rank);
	if (end == DIAL_OK) {
		pthread_mutex_unlock(&boot_lock);
		v = get_list(n, d.fd, st);
		close(d.fd);
		pthread_mutex_lock(&boot_lock);
	}
	if (v == VERDICT_LIST && !listed(n, n->b->rank)) {
		*st = fail(TAUT_ERR_PEER, "%s did not find rank %d among the survivors", name, n->b->rank);
		return VERDICT_FAILED;
	}
	if (stopped(n)) {
		*st = fail_stopped(n);
		return VERDICT_FAILED;
	}
	if (v == VERDICT_LATE || end == DIAL_LATE) {
		*st = fail(TAUT_ERR_TIMEOUT, "%s lives, but did not collect the survivors within %d ms", name,
			   n->timeout_ms);
		return VERDICT_FAILED;
	}
	if (v == VERDICT_GONE && end == DIAL_OK)
		return ask(n, rank, st); /* it closed: is it dead? */
	return v;
}

static enum taut_status census(struct census *n)
{
	enum taut_status st = TAUT_OK;

	for (int r = 0; r < n->b->g->size; r++) {
		enum verdict v;

		if (n->fate[r] != FATE_UNKNOWN)
			continue;
		if (r == n->b->rank)
			return collect(n);
		v = ask(n, r, &st);
		if (v == VERDICT_FAILED) {
			survivors_refuse(n->b, st, taut_error_message());
			return st;
		}
		if (v == VERDICT_LIST) {
			send_list(n->b, n->number, n->list, n->count); /* for those who took this rank for the lowest */
			return TAUT_OK;
		}
		n->fate[r] = FATE_DEAD;
	}
	return fail(TAUT_ERR_ARG, "rank %d leaves itself out of the survivors", n->b->rank);
}

static void prepare(struct census *n, const int *exclude, int nexclude)
{
	const struct group *g = n->b->g;

	if (g->has_event && g->event.kind == BOOT_EVENT_DEAD && g->event.rank >= 0 && g->event.rank < g->size)
		n->fate[g->event.rank] = FATE_DEAD;
	for (int i = 0; i < nexclude; i++)
		if (exclude[i] >= 0 && exclude[i] < g->size)
			n->fate[exclude[i]] = FATE_EXCLUDED;
}

enum taut_status boot_survivors(int **ranks, int *count, uint32_t *number, struct boot *parent, const int *exclude,
				int nexclude, int timeout_ms, const struct boot_stop *stop)
{
	struct census n = { .b = parent, .timeout_ms = timeout_ms, .stop = stop };
	enum taut_status st;

	if (parent->pid != getpid())
		return fail(TAUT_ERR_ARG, "this group belongs to process %d, not to its child", (int)parent->pid);
	n.deadline = now_ns() + (uint64_t)timeout_ms * MS;
	n.end = n.deadline - (uint64_t)(timeout_ms < 8000 ? timeout_ms / 8 : 1000) * MS;
	n.connect_ns = 5 * parent->heartbeat;
	n.fate = mem_calloc((size_t)parent->g->size, 1);
	n.list = mem_calloc((size_t)parent->g->size, sizeof(int));
	if (!n.fate || !n.list) {
		st = fail(TAUT_ERR_NOMEM, "the survivors of %d ranks", parent->g->size);
		goto out;
	}
	pthread_mutex_lock(&boot_lock);
	prepare(&n, exclude, nexclude);
	st = census(&n);
	pthread_mutex_unlock(&boot_lock);
	if (!st) {
		*ranks = n.list;
		*count = n.count;
		*number = n.number;
		n.list = NULL;
	}
out:
	mem_free(n.fate);
	mem_free(n.list);
	return st;
}
