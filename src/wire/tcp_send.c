/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

static struct tcp_out *out_at(struct tcp_tx *tx, uint32_t seq)
{
	return &tx->out[seq % TCP_QUEUE];
}

static bool is_full(const struct tcp_tx *tx)
{
	return tx->tail - tx->head == TCP_QUEUE;
}

static unsigned parts_of(const struct tcp_tx *tx, size_t len)
{
	size_t most = len / TCP_PART_MIN;

	if (most <= 1)
		return 1;
	return most < (size_t)tx->conn.nsocks ? (unsigned)most : (unsigned)tx->conn.nsocks;
}

/* Bytes of message @o on socket @i; 0: no part of it goes there. */
static size_t part_bytes(const struct tcp_out *o, unsigned i)
{
	return i < o->parts ? TCP_HEAD + tcp_part(o->len, i, o->parts).len : 0;
}

/* What is still to be sent on socket @i, as a list for sendmsg(). */
struct tcp_batch {
	struct iovec iov[2 * TCP_QUEUE];
	unsigned char heads[TCP_QUEUE][TCP_HEAD];
	size_t n, bytes;
};

static void batch_add(struct tcp_batch *b, const void *p, size_t len, size_t skip)
{
	if (skip >= len)
		return;
	b->iov[b->n++] = (struct iovec){ (unsigned char *)(uintptr_t)p + skip, len - skip };
	b->bytes += len - skip;
}

static void batch_message(struct tcp_batch *b, const struct tcp_out *o, uint32_t seq, unsigned i, size_t done)
{
	unsigned char *bytes = b->heads[seq % TCP_QUEUE];
	struct tcp_span part = tcp_part(o->len, i, o->parts);
	struct tcp_head h = { .part = (uint8_t)i, .parts = o->parts, .len = o->len, .sig = o->sig, .seq = seq };

	tcp_head_put(bytes, &h);
	batch_add(b, bytes, TCP_HEAD, done);
	if (part.len)
		batch_add(b, o->buf + part.off, part.len, done > TCP_HEAD ? done - TCP_HEAD : 0);
}

static void batch_fill(struct tcp_batch *b, struct tcp_tx *tx, unsigned i)
{
	struct tcp_tx_sock *s = &tx->socks[i];

	b->n = b->bytes = 0;
	/* A socket that had no part of the last messages may have fallen behind the queue. */
	if ((int32_t)(s->seq - tx->head) < 0)
		s->seq = tx->head;
	for (uint32_t seq = s->seq; seq != tx->tail; seq++) {
		const struct tcp_out *o = out_at(tx, seq);

		if (i < o->parts)
			batch_message(b, o, seq, i, seq == s->seq ? s->done : 0);
	}
}

/* The kernel took @n bytes on socket @i. */
static void batch_taken(struct tcp_tx *tx, unsigned i, size_t n)
{
	struct tcp_tx_sock *s = &tx->socks[i];

	for (; s->seq != tx->tail; s->seq++) {
		struct tcp_out *o = out_at(tx, s->seq);
		size_t left = part_bytes(o, i) - s->done;

		if (n < left) {
			s->done += n;
			return;
		}
		n -= left;
		s->done = 0;
		if (i < o->parts)
			o->missing--;
	}
}

static void pop_sent(struct tcp_tx *tx)
{
	for (; tx->head != tx->tail && !out_at(tx, tx->head)->missing; tx->head++) {
		if (out_at(tx, tx->head)->in_slot)
			tx->composed--;
	}
}

/* What the kernel takes of @iov: 0 when it has no room. -1: broken, and the reason is kept. */
static ssize_t write_some(struct tcp_tx *tx, int fd, struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent >= 0)
		return sent;
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return 0;
	tcp_because(&tx->conn, "%s", errno == EPIPE ? "the peer has closed it" : strerror(errno));
	tx->conn.base.broken = true;
	return -1;
}

static bool push_socket(struct tcp_tx *tx, unsigned i)
{
	struct tcp_batch b;
	ssize_t sent;

	batch_fill(&b, tx, i);
	if (!b.bytes)
		return false;
	sent = write_some(tx, tx->socks[i].fd, b.iov, b.n);
	if (sent <= 0)
		return false;
	batch_taken(tx, i, (size_t)sent);
	return true;
}

bool tcp_tx_poll(struct tcp_tx *tx)
{
	bool moved = false;

	if (tx->head == tx->tail)
		return false;
	for (unsigned i = 0; i < (unsigned)tx->conn.nsocks && !tx->conn.base.broken; i++)
		moved |= push_socket(tx, i);
	pop_sent(tx);
	return moved;
}

/* Queues and, when nothing waits before it, sends at once what the sockets take. */
static void enqueue(struct tcp_tx *tx, const struct tcp_out *o)
{
	bool first = tx->head == tx->tail;

	*out_at(tx, tx->tail++) = *o;
	if (first)
		tcp_tx_poll(tx);
}

enum wire_result tcp_send(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	struct tcp_tx *tx = tcp_tx_of(c);
	unsigned parts = parts_of(tx, len);

	assert(tx->conn.sending && len <= c->slot_bytes);
	if (c->broken)
		return tcp_broken(&tx->conn);
	if (is_full(tx))
		return WIRE_AGAIN;
	enqueue(tx, &(struct tcp_out){ .buf = buf,
				       .len = (uint32_t)len,
				       .sig = sig,
				       .parts = (uint8_t)parts,
				       .missing = (uint8_t)parts });
	return c->broken ? tcp_broken(&tx->conn) : WIRE_DONE;
}

/* The common case of small messages: nothing waits, and the socket takes it all. Returns
 * how much of header and message it took, or -1. */
static ssize_t write_ll(struct tcp_tx *tx, const void *buf, size_t len, uint32_t sig)
{
	const struct tcp_head h = { .parts = 1, .len = (uint32_t)len, .sig = sig, .seq = tx->tail };
	unsigned char bytes[TCP_HEAD];
	struct iovec iov[2] = { { bytes, TCP_HEAD }, { (void *)(uintptr_t)buf, len } };

	tcp_head_put(bytes, &h);
	return write_some(tx, tx->socks[0].fd, iov, 2);
}

/* Keeps a copy in the queue; @done bytes of header and message are out. */
static enum wire_result queue_copy(struct tcp_tx *tx, const void *buf, size_t len, uint32_t sig, size_t done)
{
	size_t max = tx->conn.base.ll_max;
	unsigned char *copy;

	if (!tx->copies)
		tx->copies = mem_aligned(64, TCP_QUEUE * max);
	if (!tx->copies) {
		tcp_because(&tx->conn, "no memory to queue a message of %zu bytes", len);
		return tcp_broken(&tx->conn);
	}
	copy = tx->copies + tx->tail % TCP_QUEUE * max;
	if (len)
		memcpy(copy, buf, len);
	if (done) {
		tx->socks[0].seq = tx->tail;
		tx->socks[0].done = done;
	}
	*out_at(tx, tx->tail++) =
		(struct tcp_out){ .buf = copy, .len = (uint32_t)len, .sig = sig, .parts = 1, .missing = 1 };
	return WIRE_DONE;
}

enum wire_result tcp_send_ll(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	struct tcp_tx *tx = tcp_tx_of(c);
	ssize_t done = 0;

	assert(tx->conn.sending && len <= c->ll_max);
	if (c->broken)
		return tcp_broken(&tx->conn);
	if (is_full(tx))
		return WIRE_AGAIN;
	if (tx->head == tx->tail)
		done = write_ll(tx, buf, len, sig);
	if (done < 0)
		return tcp_broken(&tx->conn);
	if ((size_t)done < TCP_HEAD + len)
		return queue_copy(tx, buf, len, sig, (size_t)done);
	tx->head = ++tx->tail;
	return WIRE_DONE;
}

void *tcp_send_ptr(struct wire_conn *c)
{
	struct tcp_tx *tx = tcp_tx_of(c);
	unsigned char **slot = &tx->slots[tx->slot];

	if (c->broken)
		tcp_broken(&tx->conn); /* the sentence */
	if (c->broken || is_full(tx) || tx->composed == tx->nslots)
		return NULL;
	if (!*slot)
		*slot = mem_aligned(64, c->slot_bytes);
	if (!*slot) {
		tcp_because(&tx->conn, "no memory for a slot of %zu bytes", c->slot_bytes);
		tcp_broken(&tx->conn);
	}
	return *slot;
}

void tcp_send_commit(struct wire_conn *c, size_t len, uint32_t sig)
{
	struct tcp_tx *tx = tcp_tx_of(c);
	unsigned parts = parts_of(tx, len);

	assert(tx->conn.sending && len <= c->slot_bytes && tx->composed < tx->nslots && !is_full(tx));
	if (c->broken)
		return;
	tx->composed++;
	enqueue(tx, &(struct tcp_out){ .buf = tx->slots[tx->slot],
				       .len = (uint32_t)len,
				       .sig = sig,
				       .parts = (uint8_t)parts,
				       .missing = (uint8_t)parts,
				       .in_slot = true });
	tx->slot = (tx->slot + 1) % tx->nslots;
	if (c->broken)
		tcp_broken(&tx->conn);
}

bool tcp_send_idle(struct wire_conn *c)
{
	return tcp_tx_of(c)->head == tcp_tx_of(c)->tail || c->broken; /* a broken one reads no buffers */
}

/* The oldest message that is not wholly sent is the one that the receiver waits for, or
 * will read ahead next; later ones on other sockets may have no place there yet. */
int tcp_tx_wait_fd(const struct tcp_tx *tx, short *events)
{
	uint32_t ahead = UINT32_MAX;
	int fd = -1;

	if (tx->head == tx->tail || tx->conn.base.broken)
		return -1;
	for (int i = 0; i < tx->conn.nsocks; i++) {
		const struct tcp_tx_sock *s = &tx->socks[i];
		uint32_t seq = (int32_t)(s->seq - tx->head) < 0 ? tx->head : s->seq;

		while (seq != tx->tail && (unsigned)i >= tx->out[seq % TCP_QUEUE].parts)
			seq++;
		if (seq == tx->tail || seq - tx->head >= ahead)
			continue;
		ahead = seq - tx->head;
		fd = s->fd;
	}
	*events = POLLOUT;
	return fd;
}

void tcp_tx_free(struct tcp_tx *tx)
{
	if (!tx)
		return;
	for (int i = 0; i < tx->conn.nsocks; i++)
		close(tx->socks[i].fd);
	for (unsigned i = 0; tx->slots && i < tx->nslots; i++)
		mem_free(tx->slots[i]);
	mem_free(tx->slots);
	mem_free(tx->copies);
	mem_free(tx->socks);
	mem_free(tx);
}
