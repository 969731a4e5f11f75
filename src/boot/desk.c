/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/desk.h"

#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "boot/accept.h"
#include "boot/dial.h"

#define SENT_ON UINT32_MAX /* in the place of the number of neighbours */
#define PAUSE_MS 50

struct id_hold *desk_find(const struct hello *h)
{
	struct id_hold *id;

	if (h->purpose != FOR_DESK && h->purpose != FOR_CHECKIN)
		return NULL;
	id = service_find_id(h->key);
	return id && (h->purpose == FOR_DESK || id->elsewhere) ? id : NULL;
}

static void send_on(struct conn *c, const struct id_hold *id)
{
	struct buf reply = { 0 };

	buf_u32(&reply, SENT_ON);
	record_put(&reply, &id->top);
	if (reply.failed)
		accept_refuse(c, TAUT_ERR_NOMEM, "the process that made the id has no memory for the answer");
	else
		accept_ok(c, &reply);
	buf_cleanup(&reply);
}

void desk_take(struct conn *c, struct id_hold *id, const struct frame *payload)
{
	struct reader in = reader_of(payload);
	struct record top;

	c->deadline = 0;
	if (c->hello.purpose == FOR_CHECKIN) {
		send_on(c, id);
		conn_drain(c);
	} else if (!record_get(&top, &in)) {
		accept_refuse(c, TAUT_ERR_INTERNAL, "the record of rank 0 cannot be read");
	} else {
		id->top = top;
		id->elsewhere = true;
		accept_ok(c, NULL);
		conn_drain(c);
		accept_unpark(id->key);
	}
}

static enum dial_end announce_once(struct dial *d, const struct meeting *m, uint64_t deadline)
{
	struct buf payload = { 0 };
	struct record self;
	enum dial_end end;

	*d = (struct dial){ .target = m->id.meet, .deadline = deadline };
	d->hello = (struct hello){ .version = BOOT_VERSION, .purpose = FOR_DESK };
	memcpy(d->hello.key, m->id.key, KEY_BYTES);
	memcpy(d->secret, m->id.secret, SECRET_BYTES);
	pthread_mutex_lock(&boot_lock);
	meet_self(&self, m->cfg);
	pthread_mutex_unlock(&boot_lock);
	record_put(&payload, &self);
	d->payload = payload.data;
	d->len = payload.len;
	end = payload.failed ? DIAL_UNREACHED : dial(d);
	buf_cleanup(&payload);
	buf_cleanup(&d->reply);
	if (end == DIAL_OK)
		close(d->fd);
	return end;
}

enum taut_status desk_announce(const struct meeting *m, uint64_t deadline)
{
	struct dial d;

	pthread_mutex_lock(&boot_lock);
	if (!memcmp(m->id.meet.uniq, service->uniq, UNIQ_BYTES)) {
		pthread_mutex_unlock(&boot_lock);
		return TAUT_OK;
	}
	pthread_mutex_unlock(&boot_lock);
	for (;;) {
		enum dial_end end = announce_once(&d, m, deadline);

		if (end == DIAL_OK)
			return TAUT_OK;
		if (end == DIAL_AUTH)
			return fail(TAUT_ERR_AUTH, "the process at %s has another secret than the id", m->where);
		if (end == DIAL_GONE || end == DIAL_REJECTED || now_ns() >= deadline)
			return fail(
				end == DIAL_GONE || end == DIAL_REJECTED ? TAUT_ERR_PEER : TAUT_ERR_TIMEOUT,
				"rank 0 is another process than the one that made the id, at %s, and cannot tell it "
				"so: %s; that process has to live until all ranks have joined",
				m->where, d.why);
		if (stop_wanted(m->cb))
			return fail(TAUT_ERR_ABORTED, "rank 0 aborted the group");
		sleep_ms(PAUSE_MS);
	}
}

bool desk_sends_on(struct record *top, struct reader *r)
{
	struct reader ahead = *r;

	return rd_u32(&ahead) == SENT_ON && !ahead.bad && record_get(top, &ahead);
}
