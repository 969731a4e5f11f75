/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

static struct tcp_in *in_at(const struct tcp_rx *rx, uint32_t seq)
{
	return &rx->in[seq & (rx->window - 1)];
}

static bool is_complete(const struct tcp_in *in)
{
	return in->open && !in->missing;
}

static bool fits_want(const struct tcp_rx *rx, const struct tcp_in *in)
{
	return rx->wanted && in->len == rx->len && in->sig == rx->sig;
}

static void end_socket(struct tcp_rx_sock *s)
{
	s->ended = true;
	s->open = false;
}

/* --- bytes from the kernel --- */

/* How much to read behind what has a place: all that is there, unless it is the payload of a
 * long message, which would have to be copied; then only the next header. */
static size_t ahead_room(const struct tcp_rx *rx, const struct tcp_rx_sock *s)
{
	return (rx->hint > TCP_SMALL ? TCP_HEAD : TCP_AHEAD) - s->wr;
}

/* One read, first to @dst (may be empty), the rest ahead. Returns the bytes read, 0 when there are none. */
static size_t read_some(struct tcp_rx *rx, struct tcp_rx_sock *s, void *dst, size_t len)
{
	struct iovec iov[2] = { { dst, len }, { s->ahead + s->wr, ahead_room(rx, s) } };
	size_t asked = len + iov[1].iov_len;
	ssize_t n;

	if (s->dry)
		return 0;
	n = len ? readv(s->fd, iov, 2) : recv(s->fd, iov[1].iov_base, asked, 0);
	s->dry = n < (ssize_t)asked;
	if (n > 0) {
		s->wr += (size_t)n > len ? (size_t)n - len : 0;
		return (size_t)n;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	tcp_because(&rx->conn, "%s", n ? strerror(errno) : "the peer has closed it");
	end_socket(s);
	return 0;
}

/* --- headers --- */
static bool garbage(struct tcp_rx *rx, struct tcp_rx_sock *s, const char *what)
{
	tcp_because(&rx->conn, "the peer sent what is no message: %s", what);
	end_socket(s);
	return false;
}

/* Nothing of a header is used before all of it is known to make sense. */
static bool check_head(struct tcp_rx *rx, struct tcp_rx_sock *s, const struct tcp_head *h, bool magic)
{
	const struct tcp_in *in = in_at(rx, h->seq);
	int index = (int)(s - rx->socks);

	if (!magic)
		return garbage(rx, s, "no header where one must be");
	if (h->len > rx->conn.base.slot_bytes) {
		tcp_because(
			&rx->conn,
			"a message of %u bytes, but slots of %zu bytes here: TAUT_SLOT_BYTES must be the same on all "
			"ranks",
			h->len, rx->conn.base.slot_bytes);
		end_socket(s);
		return false;
	}
	if (h->part != index || h->parts <= index || h->parts > rx->conn.nsocks)
		return garbage(rx, s, "a part that cannot be; TAUT_SOCKETS must be the same on all ranks");
	if ((int32_t)(h->seq - rx->head) < 0 || (int32_t)(h->seq - s->seq) < 0 || (index == 0 && h->seq != s->seq))
		return garbage(rx, s, "a message out of order");
	if (h->seq - rx->head < rx->window && in->open &&
	    (in->len != h->len || in->sig != h->sig || in->parts != h->parts))
		return garbage(rx, s, "parts of a message that differ");
	return true;
}

/* Takes the next header of socket @s. False: none there, or no place in the window yet. */
static bool take_head(struct tcp_rx *rx, struct tcp_rx_sock *s)
{
	struct tcp_head h;
	struct tcp_span part;
	struct tcp_in *in;

	if (s->wr - s->rd < TCP_HEAD) {
		memmove(s->ahead, s->ahead + s->rd, s->wr - s->rd);
		s->wr -= s->rd;
		s->rd = 0;
		return read_some(rx, s, NULL, 0) > 0;
	}
	if (!check_head(rx, s, &h, tcp_head_get(&h, s->ahead + s->rd)) || h.seq - rx->head >= rx->window)
		return false;
	s->rd += TCP_HEAD;
	in = in_at(rx, h.seq);
	if (!in->open) {
		*in = (struct tcp_in){
			.open = true, .parts = h.parts, .missing = h.parts, .len = h.len, .sig = h.sig, .slot = in->slot
		};
		rx->hint = h.len;
	}
	part = tcp_part(h.len, h.part, h.parts);
	s->open = true;
	s->seq = h.seq;
	s->off = part.off;
	s->left = part.len;
	return true;
}

/* --- payload --- */
static unsigned char *slot_of(struct tcp_rx *rx, struct tcp_in *in)
{
	if (!in->slot)
		in->slot = mem_aligned(64, rx->conn.base.slot_bytes);
	if (!in->slot)
		tcp_because(&rx->conn, "no memory for a slot of %zu bytes", rx->conn.base.slot_bytes);
	return in->slot;
}

static unsigned char *place_of(struct tcp_rx *rx, uint32_t seq, struct tcp_in *in)
{
	if (!in->dst)
		in->dst = seq == rx->head && fits_want(rx, in) ? rx->buf : slot_of(rx, in);
	return in->dst;
}

/* Moves payload of the part that is arriving on @s: what was read ahead, else straight from the kernel. */
static bool take_payload(struct tcp_rx *rx, struct tcp_rx_sock *s)
{
	unsigned char *dst = place_of(rx, s->seq, in_at(rx, s->seq));
	size_t n = s->wr - s->rd;

	if (!dst) {
		end_socket(s);
		return false;
	}
	if (n) {
		n = n < s->left ? n : s->left;
		memcpy(dst + s->off, s->ahead + s->rd, n);
		s->rd += n;
	} else {
		s->rd = s->wr = 0;
		n = read_some(rx, s, dst + s->off, s->left);
		n = n < s->left ? n : s->left;
	}
	s->off += n;
	s->left -= n;
	return n > 0;
}

static bool step_socket(struct tcp_rx *rx, struct tcp_rx_sock *s)
{
	if (!s->open)
		return take_head(rx, s);
	if (s->left && !take_payload(rx, s))
		return false;
	if (!s->left) {
		in_at(rx, s->seq)->missing--;
		s->open = false;
		s->seq++;
	}
	return true;
}

/* Moves what is there, until a message that a recv() waits for is complete. */
static bool pump(struct tcp_rx *rx)
{
	const struct tcp_in *head = in_at(rx, rx->head);
	bool moved = false;

	for (int i = 0; i < rx->conn.nsocks; i++) {
		struct tcp_rx_sock *s = &rx->socks[i];

		s->dry = false;
		while (!s->ended && !(rx->wanted && is_complete(head)) && step_socket(rx, s))
			moved = true;
	}
	return moved;
}

/* --- the oldest message --- */

/* Can the oldest message never be completed? A socket that ended does not matter to a message that is
 * on its way on another. */
static bool is_lost(const struct tcp_rx *rx)
{
	const struct tcp_in *in = in_at(rx, rx->head);

	if (!in->open)
		return rx->socks[0].ended;
	for (int i = 0; i < in->parts; i++) {
		const struct tcp_rx_sock *s = &rx->socks[i];

		if (s->ended && (int32_t)(s->seq - rx->head) <= 0)
			return true;
	}
	return false;
}

static enum wire_result head_state(struct tcp_rx *rx, size_t len, uint32_t sig)
{
	const struct tcp_in *in = in_at(rx, rx->head);

	if (in->open && (in->len != len || in->sig != sig))
		return WIRE_MISMATCH;
	if (is_complete(in))
		return WIRE_DONE;
	return is_lost(rx) ? tcp_broken(&rx->conn) : WIRE_AGAIN;
}

/* As head_state(), after a look at the sockets if need be. */
static enum wire_result head_wait(struct tcp_rx *rx, size_t len, uint32_t sig)
{
	enum wire_result r;

	if (rx->conn.base.broken)
		return tcp_broken(&rx->conn);
	rx->idle = rx->skip = 0;
	r = head_state(rx, len, sig);
	if (r != WIRE_AGAIN)
		return r;
	rx->hint = in_at(rx, rx->head)->open ? rx->hint : len;
	pump(rx);
	r = head_state(rx, len, sig);
	rx->tried = r == WIRE_AGAIN;
	return r;
}

/* Nothing flows back on this socket that could carry acknowledgements, so the kernel sends one
 * for each short message, within the call that reads it: 1.2 us of 4.4 on loopback. In its "ping-pong" mode it sends
 * one for every other message. The mode ends by itself now and then, so it is asked for again and again. */
static void calm_acknowledgements(struct tcp_rx *rx)
{
	int off = 0;

	setsockopt(rx->socks[0].fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
}

static void pop_head(struct tcp_rx *rx)
{
	struct tcp_in *in = in_at(rx, rx->head++);

	if (rx->conn.loopback && in->len <= TCP_SMALL && rx->head % TCP_CALM == 1)
		calm_acknowledgements(rx);
	in->open = false;
	in->dst = NULL;
}

/* The oldest message is arriving in its slot and somebody has come for it: the rest goes
 * straight to the caller's buffer. */
static void adopt(struct tcp_rx *rx)
{
	struct tcp_in *in = in_at(rx, rx->head);

	if (!in->open || !in->missing || !in->dst || !fits_want(rx, in))
		return;
	for (unsigned i = 0; i < in->parts; i++) {
		const struct tcp_rx_sock *s = &rx->socks[i];
		struct tcp_span part = tcp_part(in->len, i, in->parts);

		if ((int32_t)(s->seq - rx->head) < 0 || (s->seq == rx->head && !s->open))
			continue;
		if (s->seq == rx->head)
			part.len -= s->left;
		memcpy((unsigned char *)rx->buf + part.off, in->dst + part.off, part.len);
	}
	in->dst = rx->buf;
}

enum wire_result tcp_recv(struct wire_conn *c, void *buf, size_t len, uint32_t sig)
{
	struct tcp_rx *rx = tcp_rx_of(c);
	enum wire_result r;

	assert(!rx->conn.sending && (!rx->wanted || (rx->buf == buf && rx->len == len && rx->sig == sig)));
	if (c->broken) {
		rx->wanted = false;
		return tcp_broken(&rx->conn);
	}
	if (!rx->wanted) {
		rx->wanted = true;
		rx->buf = buf;
		rx->len = len;
		rx->sig = sig;
		adopt(rx);
	}
	r = head_wait(rx, len, sig);
	if (r == WIRE_AGAIN)
		return r;
	rx->wanted = false;
	if (r != WIRE_DONE)
		return r;
	if (len && in_at(rx, rx->head)->dst != buf)
		memcpy(buf, in_at(rx, rx->head)->dst, len);
	pop_head(rx);
	return WIRE_DONE;
}

enum wire_result tcp_recv_ptr(struct wire_conn *c, const void **out, size_t len, uint32_t sig)
{
	struct tcp_rx *rx = tcp_rx_of(c);
	enum wire_result r;

	assert(!rx->conn.sending && !rx->wanted);
	r = head_wait(rx, len, sig);
	if (r != WIRE_DONE)
		return r;
	*out = len ? in_at(rx, rx->head)->dst : rx->socks[0].ahead; /* an empty message has no slot */
	return WIRE_DONE;
}

void tcp_recv_done(struct wire_conn *c)
{
	assert(is_complete(in_at(tcp_rx_of(c), tcp_rx_of(c)->head)));
	pop_head(tcp_rx_of(c));
}

enum wire_result tcp_recv_peek(struct wire_conn *c, size_t *len, uint32_t *sig)
{
	struct tcp_rx *rx = tcp_rx_of(c);
	const struct tcp_in *in = in_at(rx, rx->head);
	struct tcp_rx_sock *s = &rx->socks[0];

	if (c->broken)
		return tcp_broken(&rx->conn);
	/* Headers alone: the payload can then go where it is wanted. */
	s->dry = false;
	while (!s->ended && !in->open && take_head(rx, s))
		continue;
	if (!in->open)
		return is_lost(rx) ? tcp_broken(&rx->conn) : WIRE_AGAIN;
	*len = in->len;
	*sig = in->sig;
	return WIRE_DONE;
}

/* Nobody waits for this connection: a rank with many of them must not spend its spins on looking
 * at each, but senders still get rid of their messages. */
static bool read_ahead(struct tcp_rx *rx)
{
	if (rx->skip) {
		rx->skip--;
		return false;
	}
	if (pump(rx)) {
		rx->idle = 0;
		return true;
	}
	rx->idle += rx->idle < TCP_IDLE;
	rx->skip = (1u << rx->idle) - 1;
	return false;
}

bool tcp_rx_poll(struct tcp_rx *rx)
{
	if (rx->conn.base.broken)
		return false;
	if (rx->tried) {
		rx->tried = false;
		return false;
	}
	return rx->wanted ? pump(rx) : read_ahead(rx);
}

/* The socket that holds up the oldest unfinished message; see tcp.h. */
int tcp_rx_wait_fd(const struct tcp_rx *rx, short *events)
{
	*events = POLLIN;
	for (uint32_t seq = rx->head; seq - rx->head < rx->window; seq++) {
		const struct tcp_in *in = in_at(rx, seq);
		int parts = in->open ? in->parts : 1;

		for (int i = 0; i < parts && !is_complete(in); i++) {
			const struct tcp_rx_sock *s = &rx->socks[i];

			/* A socket that ended would be readable for ever. */
			if ((int32_t)(s->seq - seq) <= 0)
				return s->ended ? -1 : s->fd;
		}
	}
	return -1;
}

void tcp_rx_free(struct tcp_rx *rx)
{
	if (!rx)
		return;
	for (int i = 0; i < rx->conn.nsocks; i++) {
		close(rx->socks[i].fd);
		mem_free(rx->socks[i].ahead);
	}
	for (uint32_t i = 0; rx->in && i < rx->window; i++)
		mem_free(rx->in[i].slot);
	mem_free(rx->in);
	mem_free(rx->socks);
	mem_free(rx);
}
