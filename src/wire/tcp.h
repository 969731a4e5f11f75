/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections: what tcp.c (ops, setting up), tcp_send.c and tcp_recv.c share.
 *
 * Bytes flow from the sender to the receiver only. A message is a header and its payload;
 * ll and bulk messages are one FIFO, since both ends use the same protocol for a call and
 * one byte stream has one order anyway. With several sockets a long message is cut in parts, one a
 * socket, each with a header; part 0, and so every message, shows on socket 0.
 *
 * The sender sends by reference: up to TCP_QUEUE messages wait for room in the sockets, and
 * poll() pushes them. The receiver moves what comes straight to the buffer of a recv() that
 * waits for it; what comes before its recv() goes to a slot, for as many messages as the window
 * holds (cfg->slots rounded up to a power of two): a sender can always get rid of that
 * many, wherever the receiver's program is, as long as that polls.
 *
 * wait_fd() with several sockets names one that holds up the oldest unfinished message: the one
 * whose progress the other side can always make. */
#ifndef WIRE_TCP_H
#define WIRE_TCP_H

#include <sys/uio.h>

#include "wire/wire.h"

enum {
	TCP_QUEUE = 8,		 /* messages that wait at the sender; a power of two */
	TCP_LL = 8 << 10,	 /* ll_max: what is copied when the socket is full */
	TCP_SMALL = 16 << 10,	 /* longer ones are not read ahead with the header */
	TCP_AHEAD = 64 << 10,	 /* read in one go when messages are small */
	TCP_PART_MIN = 32 << 10, /* no socket gets less of a message than this */
	TCP_IDLE = 3,		 /* nobody waits, nothing comes: every 2^3rd poll looks */
	TCP_CALM = 16,		 /* every so many short messages acknowledgements are calmed down */
	TCP_HEAD = 16,		 /* bytes of a header on the wire */
};

/* Little endian on the wire, in this order, behind a 16-bit magic number. */
struct tcp_head {
	uint8_t part, parts;
	uint32_t len, sig, seq; /* of the whole message; seq counts messages from 0 */
};
/* Part @part of @parts of a message of @len bytes. */
struct tcp_span {
	size_t off, len;
};

struct tcp_conn {
	struct wire_conn base;
	const struct config *cfg; /* for add_socket() */
	bool sending, loopback;
	int rank, nsocks;
	char where[96]; /* "tcp to rank 3 at 10.0.0.1:4711" */
	char why[224];	/* the sentence, once base.broken or a socket has ended */
};

struct tcp_out {
	const unsigned char *buf;
	uint32_t len, sig;
	uint8_t parts, missing; /* parts that are not wholly in the kernel */
	bool in_slot;		/* of send_ptr(); else the caller's bytes, or a copy */
};
struct tcp_tx_sock {
	int fd;
	uint32_t seq; /* message whose part is next here */
	size_t done;  /* bytes of header and part that the kernel has */
};
struct tcp_tx {
	struct tcp_conn conn;
	struct tcp_tx_sock *socks;
	uint32_t head, tail; /* oldest and next message */
	struct tcp_out out[TCP_QUEUE];
	unsigned nslots, slot, composed; /* slots; next to hand out; how many are queued */
	unsigned char **slots;		 /* each allocated when first used */
	unsigned char *copies;		 /* TCP_QUEUE pieces of ll_max bytes, likewise */
};

struct tcp_in {
	bool open; /* a header has come */
	uint8_t parts, missing;
	uint32_t len, sig;
	unsigned char *dst;  /* where it goes: a recv()'s buffer or the slot; NULL: not decided yet */
	unsigned char *slot; /* allocated when first used; stays with this place in the window */
};
struct tcp_rx_sock {
	int fd;
	bool ended;	      /* closed, failed, or sent what is no header */
	bool dry;	      /* nothing more in the kernel, when last read */
	bool open;	      /* a part is arriving */
	uint32_t seq;	      /* its message; else the first that may come next here */
	size_t off, left;     /* of the part: where the next byte goes in the message, bytes to come */
	unsigned char *ahead; /* TCP_AHEAD bytes; rd..wr were read but not used */
	size_t rd, wr;
};
struct tcp_rx {
	struct tcp_conn conn;
	struct tcp_rx_sock *socks;
	uint32_t head, window; /* oldest message; how many may be open; a power of two */
	struct tcp_in *in;     /* [window] */
	bool wanted;	       /* a recv() waits: */
	void *buf;
	size_t len;
	uint32_t sig;
	size_t hint;	     /* length of the last or expected message */
	bool tried;	     /* a receive call has just found nothing: the next poll() need not look */
	unsigned idle, skip; /* polls that found nothing while nobody waited; how many to leave out now */
};

struct tcp_span tcp_part(size_t len, unsigned part, unsigned parts);
/* The sentence for why the connection is of no more use; the first one stays. */
void tcp_because(struct tcp_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets base.broken and this thread's message; returns WIRE_BROKEN. */
enum wire_result tcp_broken(struct tcp_conn *c);

static inline struct tcp_tx *tcp_tx_of(const struct wire_conn *c)
{
	return (struct tcp_tx *)(uintptr_t)c; /* base is the first member of the first */
}
static inline struct tcp_rx *tcp_rx_of(const struct wire_conn *c)
{
	return (struct tcp_rx *)(uintptr_t)c;
}

/* tcp_send.c */
enum wire_result tcp_send(struct wire_conn *c, const void *buf, size_t len, uint32_t sig);
enum wire_result tcp_send_ll(struct wire_conn *c, const void *buf, size_t len, uint32_t sig);
void *tcp_send_ptr(struct wire_conn *c);
void tcp_send_commit(struct wire_conn *c, size_t len, uint32_t sig);
bool tcp_send_idle(struct wire_conn *c);
bool tcp_tx_poll(struct tcp_tx *tx);
int tcp_tx_wait_fd(const struct tcp_tx *tx, short *events);
void tcp_tx_free(struct tcp_tx *tx);

/* tcp_recv.c */
enum wire_result tcp_recv(struct wire_conn *c, void *buf, size_t len, uint32_t sig);
enum wire_result tcp_recv_ptr(struct wire_conn *c, const void **out, size_t len, uint32_t sig);
void tcp_recv_done(struct wire_conn *c);
enum wire_result tcp_recv_peek(struct wire_conn *c, size_t *len, uint32_t *sig);
bool tcp_rx_poll(struct tcp_rx *rx);
int tcp_rx_wait_fd(const struct tcp_rx *rx, short *events);
void tcp_rx_free(struct tcp_rx *rx);

/* The bytes of a header. */
void tcp_head_put(unsigned char out[TCP_HEAD], const struct tcp_head *h);
/* False: the magic number is missing. */
bool tcp_head_get(struct tcp_head *out, const unsigned char in[TCP_HEAD]);

#endif
