/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to the owner of a group. */
#include "boot/service.h"

#include <unistd.h>

#include "base/mem.h"
#include "boot/call.h"
#include "boot/group.h"

struct call *call_new(enum call_kind kind, struct boot *b, size_t len)
{
	struct call *c = mem_calloc(1, sizeof(*c) + len);

	if (c)
		*c = (struct call){ .kind = kind, .b = b, .fd = -1, .len = len };
	return c;
}

void call_queue(struct call *c)
{
	*service->calls_tail = c;
	service->calls_tail = &c->next;
	if (!pthread_equal(pthread_self(), service->thread))
		service_wake();
}

void call_cancel(const struct boot *b)
{
	struct call **p = &service->calls;

	while (*p) {
		struct call *c = *p;

		if (c->b != b) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		if (c->fd >= 0)
			close(c->fd);
		mem_free(c);
	}
	service->calls_tail = p;
}

static void run_event(const struct call *c)
{
	const struct event_msg *m = (const void *)c->data;
	struct boot_event e = { .kind = m->kind, .status = m->status, .rank = m->rank, .text = m->text };

	c->b->cb.on_event(c->b->cb.ctx, &e);
}

static void run_call(struct call *c)
{
	struct boot *b = c->b;

	b->pins++;
	pthread_mutex_unlock(&boot_lock);
	if (c->kind == CALL_DIAL && b->cb.on_dial)
		b->cb.on_dial(b->cb.ctx, c->from, c->data, c->len, c->fd, c->local);
	else if (c->kind == CALL_DIAL)
		close(c->fd);
	else if (c->kind == CALL_EVENT && b->cb.on_event)
		run_event(c);
	else if (c->kind == CALL_DESCRIBE)
		query_describe(c);
	pthread_mutex_lock(&boot_lock);
	if (c->kind == CALL_DESCRIBE)
		query_described(c);
	b->pins--;
	if (!b->pins && b->closing)
		pthread_cond_broadcast(&b->cond);
	mem_free(c);
}

void call_run_all(void)
{
	while (service->calls) {
		struct call *c = service->calls;

		service->calls = c->next;
		if (!c->next)
			service->calls_tail = &service->calls;
		run_call(c);
	}
}
