/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fault.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"

struct fault_spec {
	unsigned long fail, truncate; /* 0: never */
	unsigned long delay_us, percent;
	unsigned long seed;
	bool delay, shuffle;
};

struct fault_conn {
	struct wire_conn base;
	struct wire_conn *inner;
	struct wire_ops ops; /* slots that the inner wire lacks are NULL here too */
	struct fault_spec spec;
	uint64_t random;
	bool rolled; /* for this message it is decided whether it waits */
	uint64_t until_ns;
	bool lent; /* recv_ptr() has given a message that recv_done() has not returned */
	bool truncated;
	size_t cut_len; /* what recv_peek() says of the truncated message */
	uint32_t cut_sig;
	unsigned long failed; /* number of the message that broke it; 0: none */
	int ready_fd;	      /* always readable; -1: not needed */
};

/* Of all wrapped connections. Only the numbers matter, so that relaxed order will do. */
static atomic_ulong messages, received, conns;

void fault_reset(void)
{
	atomic_store_explicit(&messages, 0, memory_order_relaxed);
	atomic_store_explicit(&received, 0, memory_order_relaxed);
	atomic_store_explicit(&conns, 0, memory_order_relaxed);
}

static unsigned long next_of(atomic_ulong *count)
{
	return atomic_fetch_add_explicit(count, 1, memory_order_relaxed) + 1;
}

static struct fault_conn *fault_of(const struct wire_conn *c)
{
	return (struct fault_conn *)(uintptr_t)c; /* base is the first member */
}

/* --- reading TAUT_FAULT --- */
static enum taut_status bad_spec(const char *all, const char *at, const char *wanted)
{
	return fail(TAUT_ERR_CONFIG, "TAUT_FAULT=%s: column %d: \"%.20s\" where %s is wanted", all, (int)(at - all) + 1,
		    at, wanted);
}

/* A number from @lo to @hi at *@at, which moves behind it. */
static enum taut_status read_number(unsigned long *out, const char *all, const char **at, unsigned long lo,
				    unsigned long hi, const char *wanted)
{
	char *end;
	unsigned long n;

	if (**at < '0' || **at > '9')
		return bad_spec(all, *at, wanted);
	errno = 0;
	n = strtoul(*at, &end, 10);
	if (errno || n < lo || n > hi)
		return bad_spec(all, *at, wanted);
	*out = n;
	*at = end;
	return TAUT_OK;
}

static enum taut_status read_delay(struct fault_spec *out, const char *all, const char **at)
{
	enum taut_status st = read_number(&out->delay_us, all, at, 0, 1000000000, "a time in us, at most 1000000000,");

	out->delay = true;
	out->percent = 10;
	if (st || **at != ':')
		return st;
	(*at)++;
	return read_number(&out->percent, all, at, 1, 100, "a percentage from 1 to 100");
}

static bool starts(const char **at, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*at, word, len) != 0)
		return false;
	*at += len;
	return true;
}

static enum taut_status read_item(struct fault_spec *out, const char *all, const char **at)
{
	if (starts(at, "fail:"))
		return read_number(&out->fail, all, at, 1, LONG_MAX, "a number from 1");
	if (starts(at, "truncate:"))
		return read_number(&out->truncate, all, at, 1, LONG_MAX, "a number from 1");
	if (starts(at, "delay:"))
		return read_delay(out, all, at);
	if (starts(at, "shuffle:")) {
		out->shuffle = true;
		return read_number(&out->seed, all, at, 0, LONG_MAX, "a number");
	}
	return bad_spec(all, *at, "fail:N, truncate:N, delay:US[:PERCENT] or shuffle:SEED");
}

static enum taut_status read_spec(struct fault_spec *out, const char *text)
{
	const char *at = text;
	enum taut_status st;

	*out = (struct fault_spec){ .seed = 1 };
	do {
		st = read_item(out, text, &at);
		if (st)
			return st;
	} while (*at == ',' && *++at);
	return *at || at[-1] == ',' ? bad_spec(text, at, "a comma and another fault, or the end,") : TAUT_OK;
}

/* --- deciding --- */
static unsigned draw(struct fault_conn *f, unsigned below)
{
	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(f->random >> 33) % below;
}

static bool shuffled(struct fault_conn *f)
{
	return f->spec.shuffle && draw(f, 2);
}

/* Is it for this call to say AGAIN? Whether a message waits is drawn once, not at each call that asks for it. */
static bool held_back(struct fault_conn *f)
{
	if (shuffled(f))
		return true;
	if (!f->spec.delay)
		return false;
	if (f->rolled)
		return f->until_ns && now_ns() < f->until_ns;
	f->rolled = true;
	f->until_ns = draw(f, 100) < f->spec.percent ? now_ns() + f->spec.delay_us * 1000 : 0;
	return f->until_ns;
}

static enum wire_result broken(struct fault_conn *f)
{
	f->base.broken = true;
	fail_quiet(TAUT_ERR_NET, "%s wire of rank %d broke at message %lu of this process, as TAUT_FAULT says",
		   f->ops.name, f->base.peer, f->failed);
	return WIRE_BROKEN;
}

/* True: the inner wire must not be asked, the answer is *@r. After a failure it never is: the
 * caller's buffers are gone. */
static bool refused(struct fault_conn *f, enum wire_result *r)
{
	if (f->failed)
		*r = broken(f);
	else if (f->truncated)
		*r = WIRE_MISMATCH;
	else if (held_back(f))
		*r = WIRE_AGAIN;
	else
		return false;
	return true;
}

/* Counts a message that is through; true: it is the one that fails. */
static bool strikes(struct fault_conn *f)
{
	unsigned long n = next_of(&messages);

	f->rolled = false;
	if (n != f->spec.fail)
		return false;
	f->failed = n;
	return true;
}

static enum wire_result sent(struct fault_conn *f, enum wire_result r)
{
	f->base.broken |= f->inner->broken;
	return r == WIRE_DONE && strikes(f) ? broken(f) : r;
}

static enum wire_result came(struct fault_conn *f, enum wire_result r, size_t len, uint32_t sig)
{
	f->base.broken |= f->inner->broken;
	if (r != WIRE_DONE)
		return r;
	f->truncated = next_of(&received) == f->spec.truncate;
	f->cut_len = len / 2;
	f->cut_sig = sig;
	if (strikes(f))
		return broken(f);
	return f->truncated ? WIRE_MISMATCH : WIRE_DONE;
}

/* --- ops --- */
static enum wire_result fault_send(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	return refused(f, &r) ? r : sent(f, f->inner->ops->send(f->inner, buf, len, sig));
}

static enum wire_result fault_send_ref(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	return refused(f, &r) ? r : sent(f, f->inner->ops->send_ref(f->inner, buf, len, sig));
}

static enum wire_result fault_send_ll(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	return refused(f, &r) ? r : sent(f, f->inner->ops->send_ll(f->inner, buf, len, sig));
}

static void *fault_send_ptr(struct wire_conn *c)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;
	void *slot = refused(f, &r) ? NULL : f->inner->ops->send_ptr(f->inner);

	f->base.broken |= f->inner->broken;
	return slot;
}

static void fault_send_commit(struct wire_conn *c, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);

	if (f->failed)
		return;
	if (strikes(f)) {
		broken(f);
		return;
	}
	f->inner->ops->send_commit(f->inner, len, sig);
	f->base.broken |= f->inner->broken;
}

static bool fault_send_idle(struct wire_conn *c)
{
	struct fault_conn *f = fault_of(c);

	return f->failed || (!shuffled(f) && f->inner->ops->send_idle(f->inner));
}

static enum wire_result fault_recv_ptr(struct wire_conn *c, const void **out, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	if (f->lent && !f->failed && !f->truncated)
		return f->inner->ops->recv_ptr(f->inner, out, len, sig);
	if (refused(f, &r))
		return r;
	r = came(f, f->inner->ops->recv_ptr(f->inner, out, len, sig), len, sig);
	f->lent = r == WIRE_DONE;
	return r;
}

static void fault_recv_done(struct wire_conn *c)
{
	struct fault_conn *f = fault_of(c);

	f->lent = false;
	f->inner->ops->recv_done(f->inner);
}

static enum wire_result fault_recv(struct wire_conn *c, void *buf, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	return refused(f, &r) ? r : came(f, f->inner->ops->recv(f->inner, buf, len, sig), len, sig);
}

static enum wire_result fault_recv_ll(struct wire_conn *c, void *buf, size_t len, uint32_t sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	return refused(f, &r) ? r : came(f, f->inner->ops->recv_ll(f->inner, buf, len, sig), len, sig);
}

static enum wire_result fault_recv_peek(struct wire_conn *c, size_t *len, uint32_t *sig)
{
	struct fault_conn *f = fault_of(c);
	enum wire_result r;

	if (f->truncated && !f->failed) {
		*len = f->cut_len;
		*sig = f->cut_sig;
		return WIRE_DONE;
	}
	if (refused(f, &r))
		return r;
	r = f->inner->ops->recv_peek(f->inner, len, sig);
	f->base.broken |= f->inner->broken;
	return r;
}

static bool fault_poll(struct wire_conn *c)
{
	struct fault_conn *f = fault_of(c);
	bool moved = !f->failed && !shuffled(f) && f->inner->ops->poll(f->inner);

	f->base.broken |= f->inner->broken;
	return moved;
}

static int fault_wait_fd(const struct wire_conn *c, short *events)
{
	const struct fault_conn *f = fault_of(c);

	if (f->ready_fd < 0)
		return f->inner->ops->wait_fd(f->inner, events);
	*events = POLLIN;
	return f->ready_fd;
}

static enum taut_status fault_add_socket(struct wire_conn *c, int index, int fd)
{
	return fault_of(c)->inner->ops->add_socket(fault_of(c)->inner, index, fd);
}

static void fault_close(struct wire_conn *c)
{
	struct fault_conn *f = fault_of(c);

	if (!f)
		return;
	f->inner->ops->close(f->inner);
	if (f->ready_fd >= 0)
		close(f->ready_fd);
	mem_free(f);
}

/* --- wrapping --- */
static struct wire_ops ops_around(const struct wire_ops *in)
{
	struct wire_ops ops = *in; /* name, local, connect and accept stay */

	ops.close = fault_close;
	ops.add_socket = in->add_socket ? fault_add_socket : NULL;
	ops.send = in->send ? fault_send : NULL;
	ops.send_ref = in->send_ref ? fault_send_ref : NULL;
	ops.send_ll = in->send_ll ? fault_send_ll : NULL;
	ops.send_ptr = in->send_ptr ? fault_send_ptr : NULL;
	ops.send_commit = in->send_commit ? fault_send_commit : NULL;
	ops.send_idle = in->send_idle ? fault_send_idle : NULL;
	ops.recv_ptr = in->recv_ptr ? fault_recv_ptr : NULL;
	ops.recv_done = in->recv_done ? fault_recv_done : NULL;
	ops.recv = in->recv ? fault_recv : NULL;
	ops.recv_ll = in->recv_ll ? fault_recv_ll : NULL;
	ops.recv_peek = in->recv_peek ? fault_recv_peek : NULL;
	ops.poll = in->poll ? fault_poll : NULL;
	ops.wait_fd = in->wait_fd ? fault_wait_fd : NULL;
	return ops;
}

enum taut_status fault_wrap(struct wire_conn **inout, const struct config *cfg)
{
	struct wire_conn *inner = *inout;
	struct fault_spec spec;
	struct fault_conn *f;
	enum taut_status st;

	if (!cfg->fault || !*cfg->fault)
		return TAUT_OK;
	st = read_spec(&spec, cfg->fault);
	if (st)
		return st;
	f = mem_calloc(1, sizeof(*f));
	if (!f)
		return fail(TAUT_ERR_NOMEM, "faults for the wire of rank %d", inner->peer);
	f->base = *inner;
	f->ops = ops_around(inner->ops);
	f->base.ops = &f->ops;
	f->inner = inner;
	f->spec = spec;
	f->random = spec.seed + next_of(&conns) * 0x9e3779b97f4a7c15u;
	f->ready_fd = -1;
	if (inner->ops->wait_fd && (spec.delay || spec.shuffle)) {
		f->ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		if (f->ready_fd < 0)
			goto err_free;
	}
	*inout = &f->base;
	return TAUT_OK;
err_free:
	st = errno_fail(errno, "descriptor for the faults of the wire of rank %d", inner->peer);
	mem_free(f);
	return st;
}
