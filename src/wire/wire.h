/* SPDX-License-Identifier: Apache-2.0 */
/* Transports. A wire makes connections; a connection is one direction of one channel
 * between two ranks: a FIFO of messages with credits.
 *
 * A connection is made from a socket that boot_dial() opened: the sender's side calls
 * connect(), the receiver's side accept(), each in its rank's own thread and at its own
 * time: connect() does not wait for accept(), and messages can be sent before it. The
 * sender chooses the wire.
 *
 * Protocols of a connection:
 *   ll    a message of at most ll_max bytes; payload and flag travel in the same cache line
 *   bulk  a message of at most slot_bytes in a slot with a flag
 * Both ends use the same protocol for a message (the plan says which). Messages of both
 * protocols of one connection are separate FIFOs.
 *
 * Every message carries the signature of the call it belongs to (32 bits). A receiver that
 * finds another one gets WIRE_MISMATCH.
 *
 * None of the calls below blocks. One thread at a time uses a connection. Progress of all
 * connections of one rank needs calls to poll() where it is given.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"

enum wire_result {
	WIRE_AGAIN, /* nothing there, or no credit: try again */
	WIRE_DONE,
	WIRE_MISMATCH, /* the message belongs to another call */
	WIRE_BROKEN,   /* the peer closed, or the wire failed; the sentence is set */
};

struct wire_conn {
	const struct wire_ops *ops;
	size_t slot_bytes, ll_max; /* limits of this connection */
	int peer;		   /* rank at the other end */
	bool mapped;		   /* send_ptr/recv_ptr give memory of the connection, not a copy */
	bool broken;		   /* no more can come of it: set before a call first says WIRE_BROKEN, and by
				    * send_ptr(), send_commit() and poll(), which cannot say so */
};

struct wire_args {
	const struct config *cfg;
	int rank, peer, channel;
	struct wire_bell *bell; /* this rank's; see bell.h */
};

struct wire_ops {
	const char *name; /* as in TAUT_WIRE */
	bool local;	  /* works inside a machine only and wants a Unix socket */

	/* Takes @fd in any case. */
	enum taut_status (*connect)(struct wire_conn **out, const struct wire_args *args, int fd);
	enum taut_status (*accept)(struct wire_conn **out, const struct wire_args *args, int fd);
	void (*close)(struct wire_conn *c);
	/* (optional) Connection @index (1, 2, ... below cfg->sockets, in order) of one that is spread over several
	 * sockets: on both sides, before the first use, with args->cfg still alive. Takes @fd in any case. */
	enum taut_status (*add_socket)(struct wire_conn *c, int index, int fd);

	/* --- Sending. Post a message of @len bytes from @buf; the bytes are read until
	 * send_idle(). AGAIN: no credit, nothing was taken. --- */
	enum wire_result (*send)(struct wire_conn *c, const void *buf, size_t len, uint32_t sig);
	enum wire_result (*send_ll)(struct wire_conn *c, const void *buf, size_t len, uint32_t sig);
	/* Where the next bulk message can be composed (slot_bytes long); NULL: no credit yet, or broken.
	 * send_commit() posts @len bytes of it. */
	void *(*send_ptr)(struct wire_conn *c);
	void (*send_commit)(struct wire_conn *c, size_t len, uint32_t sig);
	/* (optional) As send(), but the receiver may take the bytes straight from @buf: one copy
	 * instead of two, and send_idle() only when it has. Falls back to send(). */
	enum wire_result (*send_ref)(struct wire_conn *c, const void *buf, size_t len, uint32_t sig);
	/* (optional) Is nothing left that only poll() would send? Until then the buffers of send() are read,
	 * and a rank that stops polling keeps its peer waiting. NULL: always so, send() copies. */
	bool (*send_idle)(struct wire_conn *c);

	/* --- Receiving, in order. --- */
	/* The next bulk message lies at *@out until recv_done(). @len is the expected length. */
	enum wire_result (*recv_ptr)(struct wire_conn *c, const void **out, size_t len, uint32_t sig);
	void (*recv_done)(struct wire_conn *c);
	/* The next message into @buf; called again with the same arguments until not AGAIN: until then
	 * poll() too may write to @buf. (Who gives up earlier calls nothing but close() after that.) */
	enum wire_result (*recv)(struct wire_conn *c, void *buf, size_t len, uint32_t sig);
	enum wire_result (*recv_ll)(struct wire_conn *c, void *buf, size_t len, uint32_t sig);
	/* (optional) The length and signature of the next bulk message without taking it. */
	enum wire_result (*recv_peek)(struct wire_conn *c, size_t *len, uint32_t *sig);

	/* (optional) Move bytes in the background: queued sends, read-ahead. True: something moved. */
	bool (*poll)(struct wire_conn *c);
	/* (optional) For sleeping, asked anew before each sleep: the descriptor to wait on and the
	 * poll(2) events; -1: there is nothing to wait for now. */
	int (*wait_fd)(const struct wire_conn *c, short *events);
};

extern const struct wire_ops *const wire_table[]; /* best first, NULL-terminated */
extern const struct wire_ops wire_shm, wire_tcp;
const struct wire_ops *wire_find(const char *name);
/* Is that a value for TAUT_WIRE? TAUT_ERR_CONFIG when not. */
enum taut_status wire_check(const char *setting);

#endif
