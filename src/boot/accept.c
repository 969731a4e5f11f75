/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/accept.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/auth.h"
#include "boot/desk.h"
#include "boot/meet.h"
#include "boot/survivors.h"

#define PROVE_NS 10000000000u /* to say hello and prove it */
#define PARK_NS 30000000000u  /* for the group to appear; the dialler comes again */

/* Strangers may hold at most half of the descriptors. */
static int stranger_limit(void)
{
	struct rlimit r = { .rlim_cur = 1024 };

	getrlimit(RLIMIT_NOFILE, &r);
	return r.rlim_cur > 65536 ? 32768 : (int)r.rlim_cur / 2;
}

static void close_oldest_stranger(void)
{
	struct conn *oldest = NULL;

	for (struct conn *c = service->conns; c; c = c->next)
		if (c->state == CONN_HELLO || c->state == CONN_PROOF || c->state == CONN_PARKED)
			oldest = c; /* new ones are put in front */
	if (!oldest)
		return;
	service_reject(oldest, "too many connections that have not proven themselves");
	conn_close(oldest);
}

void accept_start(struct conn *c)
{
	if (service->nwaiting + service->nparked > stranger_limit())
		close_oldest_stranger();
	c->deadline = now_ns() + PROVE_NS;
	service_at(c->deadline);
}

void accept_refuse(struct conn *c, enum taut_status st, const char *why)
{
	struct buf b = { 0 };
	size_t at = frame_begin(&b, FRAME_REJECT);

	buf_u32(&b, st);
	buf_text(&b, why);
	frame_end(&b, at);
	conn_send(c, &b);
	conn_drain(c);
}

void accept_ok(struct conn *c, const struct buf *payload)
{
	struct buf b = { 0 };
	size_t at = frame_begin(&b, FRAME_ACCEPT);

	if (payload)
		buf_bytes(&b, payload->data, payload->len);
	frame_end(&b, at);
	conn_send(c, &b);
}

static bool may_wait(enum purpose p)
{
	return p == FOR_CHECKIN || p == FOR_TREE;
}

static void challenge(struct conn *c, const uint8_t secret[SECRET_BYTES])
{
	uint8_t mac[MAC_BYTES];
	struct buf b = { 0 };

	auth_random(c->nonce, NONCE_BYTES);
	auth_mac(mac, secret, AUTH_ACCEPTOR, &c->hello, c->nonce, NULL, 0);
	challenge_put(&b, c->nonce, mac);
	conn_state(c, CONN_PROOF);
	c->deadline = now_ns() + PROVE_NS;
	service_at(c->deadline);
	conn_send(c, &b);
}

static bool is_here(struct group *g, const struct hello *h)
{
	/* A notice is for everybody. */
	return g && (h->purpose == FOR_NOTICE || member_find(g, (int)h->to));
}

static void park(struct conn *c)
{
	conn_state(c, CONN_PARKED);
	c->was_parked = true;
	c->deadline = now_ns() + PARK_NS;
	service_at(c->deadline);
	conn_listen(c, false);
}

/* Of the group that is here, or of the id that was made here; NULL: neither. */
static const uint8_t *secret_for(const struct hello *h)
{
	struct group *g = group_find(h->key);
	struct id_hold *id;

	if (is_here(g, h))
		return g->secret;
	id = desk_find(h);
	return id ? id->secret : NULL;
}

static void go_on(struct conn *c)
{
	const uint8_t *secret = secret_for(&c->hello);
	char why[96];

	if (secret) {
		challenge(c, secret);
	} else if (may_wait(c->hello.purpose)) {
		park(c);
	} else {
		snprintf(why, sizeof(why), "rank %u of this group is not here", c->hello.to);
		accept_refuse(c, TAUT_ERR_PEER, why);
	}
}

void accept_hello(struct conn *c, const struct frame *f)
{
	char why[128];

	if (!hello_get(&c->hello, f)) {
		service_reject(c, "it did not start with a hello");
		conn_close(c);
		return;
	}
	if (c->hello.version != BOOT_VERSION) {
		snprintf(why, sizeof(why), "control protocol version %d there, %d here: use one release of taut",
			 BOOT_VERSION, c->hello.version);
		service_reject(c, "another version of the protocol");
		accept_refuse(c, TAUT_ERR_UNSUPPORTED, why);
		return;
	}
	go_on(c);
}

void accept_unpark(const uint8_t key[KEY_BYTES])
{
	struct conn *c, *next;

	for (c = service->conns; c && service->nparked; c = next) {
		next = c->next;
		if (c->state == CONN_PARKED && !memcmp(c->hello.key, key, KEY_BYTES) && secret_for(&c->hello)) {
			conn_listen(c, true);
			go_on(c);
		}
	}
}

static void take_tree(struct conn *c, struct boot *b)
{
	const char *why = NULL;

	if (!edge_accept(b, (int)c->hello.from, c, &why))
		accept_refuse(c, TAUT_ERR_BUSY, why);
}

static void take_dial(struct conn *c, struct boot *b, const struct frame *payload)
{
	struct call *call = call_new(CALL_DIAL, b, payload->len);

	if (!call) {
		accept_refuse(c, TAUT_ERR_NOMEM, "no memory");
		return;
	}
	memcpy(call->data, payload->data, payload->len);
	call->from = (int)c->hello.from;
	call->local = c->local;
	accept_ok(c, NULL);
	call->fd = conn_take(c);
	fcntl(call->fd, F_SETFL, fcntl(call->fd, F_GETFL) & ~O_NONBLOCK);
	call_queue(call);
}

static void take_notice(struct conn *c, struct group *g, const struct frame *payload)
{
	struct frame f = *payload, inner;
	struct event_msg e;

	accept_ok(c, NULL);
	conn_drain(c);
	if (frame_next(&inner, f.data, f.len, f.len) == FRAME_OK && inner.type == FRAME_EVENT && event_get(&e, &inner))
		event_raise(g, &e, EVENT_TOLD);
}

static void take(struct conn *c, struct group *g, const struct frame *payload)
{
	struct boot *b = member_find(g, (int)c->hello.to);

	c->deadline = 0;
	if (!b && c->hello.purpose != FOR_NOTICE) {
		accept_refuse(c, TAUT_ERR_PEER, "that rank has left");
		return;
	}
	switch (c->hello.purpose) {
	case FOR_CHECKIN:
		meet_checkin(c, b, payload);
		break;
	case FOR_TREE:
	case FOR_ADOPT:
		take_tree(c, b);
		break;
	case FOR_DIAL:
		take_dial(c, b, payload);
		break;
	case FOR_PROBE:
		accept_ok(c, NULL);
		conn_drain(c);
		break;
	case FOR_SURVIVE:
		survivors_take(c, b);
		break;
	case FOR_NOTICE:
		take_notice(c, g, payload);
		break;
	case FOR_DESK: /* found nobody who has made this id */
		accept_refuse(c, TAUT_ERR_PEER, "this process has not made the id");
		break;
	}
}

static bool refused_us(const struct frame *f)
{
	return f->type == FRAME_REJECT;
}

void accept_proof(struct conn *c, const struct frame *f)
{
	struct group *g = group_find(c->hello.key);
	struct id_hold *id = is_here(g, &c->hello) ? NULL : desk_find(&c->hello);
	uint8_t mac[MAC_BYTES], want[MAC_BYTES];
	struct frame payload;

	if (!g && !id) {
		accept_refuse(c, TAUT_ERR_PEER, "that group has ended");
		return;
	}
	if (proof_get(mac, &payload, f)) {
		auth_mac(want, id ? id->secret : g->secret, AUTH_DIALLER, &c->hello, c->nonce, payload.data,
			 payload.len);
		if (auth_equal(mac, want) && id) {
			desk_take(c, id, &payload);
			return;
		}
		if (auth_equal(mac, want) && (int)c->hello.from < g->size) {
			take(c, g, &payload);
			return;
		}
	}
	if (g)
		g->rejected++;
	service_reject(c, refused_us(f) ? "its secret is another one" : "it failed the challenge");
	conn_close(c);
}

void accept_survivor_gone(struct conn *c)
{
	survivors_gone(c->b, c);
}
