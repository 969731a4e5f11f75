/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/mend.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "boot/call.h"
#include "boot/dial.h"

#define WAIT_NS 300000000u /* in a usual end everybody is gone by then */
#define ATTEMPT_NS 2000000000u

struct job {
	struct job *next;
	struct boot *b; /* pinned */
};
static struct job *jobs;
static pthread_t thread;
static bool running, unjoined;

void mend_later(struct boot *b, int heir)
{
	b->heir = heir;
	b->mend_at = now_ns() + WAIT_NS;
	service_at(b->mend_at);
}

static bool wanted(const struct boot *b)
{
	return !b->closing && !b->g->has_event && !b->parent.conn;
}

/* Lock held; released meanwhile. */
static bool hang_below(struct boot *b, int rank)
{
	struct dial d = { .deadline = now_ns() + ATTEMPT_NS, .connect_ns = ATTEMPT_NS / 2, .stop_on_event = true };
	enum dial_end end;
	struct conn *c;

	dial_prepare(&d, b, rank, FOR_ADOPT);
	pthread_mutex_unlock(&boot_lock);
	end = dial(&d);
	buf_cleanup(&d.reply);
	pthread_mutex_lock(&boot_lock);
	if (end)
		return false;
	c = conn_new(d.fd, d.local);
	if (!c || !wanted(b)) {
		if (c)
			conn_close(c);
		return false;
	}
	b->parent.rank = rank;
	edge_attach(b, &b->parent, c, true);
	log_debug(LOG_BOOT, "rank %d hangs below rank %d now", b->rank, rank);
	return true;
}

static void mend(struct boot *b)
{
	int heir = b->heir;

	if (heir >= 0 && heir < b->rank && wanted(b) && hang_below(b, heir))
		return;
	for (int r = 0; r < b->rank && wanted(b); r++)
		if (r != heir && r != b->parent.was && hang_below(b, r))
			return;
}

static void *run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&boot_lock);
	while (jobs) {
		struct job *j = jobs;

		jobs = j->next;
		mend(j->b);
		if (!--j->b->pins && j->b->closing)
			pthread_cond_broadcast(&j->b->cond);
		mem_free(j);
	}
	running = false; /* the lock is not taken again from here on */
	pthread_mutex_unlock(&boot_lock);
	return NULL;
}

static void start(struct boot *b)
{
	struct job *j = mem_calloc(1, sizeof(*j));

	b->mend_at = 0;
	if (!j)
		return;
	*j = (struct job){ .next = jobs, .b = b };
	if (!running) {
		if (unjoined)
			pthread_join(thread, NULL);
		running = unjoined = !thread_start(&thread, "taut-mend", run, NULL);
	}
	if (!running) {
		mem_free(j);
		return;
	}
	jobs = j;
	b->pins++;
}

void mend_tick(uint64_t now)
{
	for (struct group *g = service->groups; g; g = g->next)
		for (struct boot *b = g->members; b; b = b->next) {
			query_tick(b, now);
			if (b->mend_at && now < b->mend_at)
				service_at(b->mend_at);
			else if (b->mend_at && wanted(b))
				start(b);
		}
}

void mend_join(void)
{
	pthread_t last;
	bool was;

	pthread_mutex_lock(&boot_lock);
	was = unjoined;
	last = thread;
	unjoined = false;
	pthread_mutex_unlock(&boot_lock);
	if (was)
		pthread_join(last, NULL);
}

void mend_forget(void)
{
	jobs = NULL;
	running = unjoined = false;
}
