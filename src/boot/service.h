/* SPDX-License-Identifier: Apache-2.0 */
/* The service thread: one a process, one epoll set, the listeners and all control
 * connections that are not being dialled.
 *
 * boot_lock covers everything in this header and in group.h. Threads of the owner take it
 * for the length of a boot_* call and may then write to connections themselves; only the
 * service thread reads from them and frees them. Callbacks of the owner run on the service
 * thread without the lock.
 *
 * Interfaces and address family are those of the configuration that started the service.
 *
 * fork(): the child closes its copies of all descriptors here (else they would keep dead
 * connections open) and starts anew at its next boot call. */
#ifndef BOOT_SERVICE_H
#define BOOT_SERVICE_H

#include <pthread.h>
#include <sys/types.h>

#include "boot/addr.h"
#include "boot/boot.h"
#include "boot/frame.h"
#include "boot/table.h"

struct group;
struct dial;
struct call;

/* An id that was made here, until rank 0 of its group has joined here. */
struct id_hold {
	struct id_hold *next;
	uint8_t key[KEY_BYTES], secret[SECRET_BYTES];
	bool elsewhere;	   /* rank 0 is in another process, */
	struct record top; /* this one */
};

extern pthread_mutex_t boot_lock;

enum conn_state {
	CONN_HELLO,    /* accepted, nothing known */
	CONN_PARKED,   /* its group or rank is not here yet */
	CONN_PROOF,    /* challenged */
	CONN_EDGE,     /* of the tree */
	CONN_SURVIVOR, /* waits for the list of survivors */
	CONN_DRAIN,    /* closes when what is queued has gone out */
	CONN_CLOSED,   /* freed by the service thread when it comes round */
};

enum source_kind { SOURCE_WAKE, SOURCE_TCP, SOURCE_UNIX, SOURCE_CONN };
struct source { /* what an epoll event points to */
	enum source_kind kind;
	int fd;
};

struct conn {
	struct source source; /* first */
	struct conn *prev, *next;
	enum conn_state state;
	bool local, want_out, was_parked;
	struct hello hello;
	uint8_t nonce[NONCE_BYTES];
	struct buf in, out;
	size_t out_at;
	uint64_t deadline;   /* 0: none */
	uint64_t seen, sent; /* when bytes last came and went */
	struct boot *b;	     /* EDGE, SURVIVOR: the rank here */
	int peer;	     /* EDGE, SURVIVOR: the rank there */
	bool confirmed;	     /* EDGE: the dialler has it too; it may give up after our ACCEPT */
	uint64_t heartbeat;  /* ns between signs of life; 0: same machine */
};

struct listener {
	struct source source; /* first */
	struct listener *next;
};

struct service {
	pid_t pid;
	int epoll, spare; /* @spare: given up to accept and refuse when descriptors run out */
	struct source wake;
	struct listener tcp, unix_; /* the list of those of rendezvous hangs on tcp.next */
	uint8_t uniq[UNIQ_BYTES];
	uint16_t port;
	int naddr;
	struct addr addrs[ADDR_MAX];
	struct addr *only; /* of the interfaces asked for; what comes to another address is refused */
	int nonly;
	int refs;
	bool stop;
	pthread_t thread;
	struct conn *conns, *closed;
	int nparked, nwaiting; /* connections in PARKED; in HELLO and PROOF */
	struct group *groups;
	struct dial *dials;
	struct call *calls, **calls_tail;
	struct id_hold *holds;
	uint64_t tick; /* when timers must be looked at; UINT64_MAX: never */
	uint64_t late; /* ns by which the thread came too late, since it last looked */
	uint8_t *scratch;
};
enum { SCRATCH_BYTES = 65536 };
extern struct service *service; /* of this process; NULL when there is none */

/* Start the service, or share it. Without the lock. */
enum taut_status service_hold(const struct config *cfg);
void service_drop(void);
/* An id made here keeps the service up until rank 0 of that group takes over. */
enum taut_status service_hold_id(const uint8_t key[KEY_BYTES], const uint8_t secret[SECRET_BYTES]);
void service_take_id(const uint8_t key[KEY_BYTES]);

/* All below: lock held. */
struct id_hold *service_find_id(const uint8_t key[KEY_BYTES]);
/* A listener of its own for a rendezvous, on @port or (not "") on the abstract Unix socket
 * @name; closed with service_unlisten(). @setting is @text, for errors. */
enum taut_status service_listen(struct listener **out, uint16_t port, const char *name, const char *setting,
				const char *text);
void service_unlisten(struct listener *l);
void service_wake(void);
void service_at(uint64_t when);				    /* look at the timers then */
void service_reject(const struct conn *c, const char *why); /* counts */

/* Takes @fd (any mode); NULL: no memory, fd closed. */
struct conn *conn_new(int fd, bool local);
void conn_close(struct conn *c);
int conn_take(struct conn *c); /* closes all but the descriptor, which is the caller's */
/* Queue bytes and send what the socket takes. */
void conn_write(struct conn *c, const void *data, size_t len);
void conn_send(struct conn *c, struct buf *b); /* empties @b */
void conn_drain(struct conn *c);
void conn_state(struct conn *c, enum conn_state s);
/* Stop reading (parked connections hold no memory for their peers). */
void conn_listen(struct conn *c, bool in);

/* Work for the owner's callbacks, in order, without the lock. */
enum call_kind { CALL_DIAL, CALL_EVENT, CALL_DESCRIBE };
struct call {
	struct call *next;
	enum call_kind kind;
	struct boot *b;
	int from, fd; /* DIAL */
	bool local;
	uint32_t question; /* DESCRIBE */
	uint64_t seq;
	size_t len;
	uint8_t data[];
};
struct call *call_new(enum call_kind kind, struct boot *b, size_t len); /* NULL: no memory */
void call_queue(struct call *c);
/* @b is going: drop what is queued for it. */
void call_cancel(const struct boot *b);

/* --- Between service.c and the files that hold its parts --- */
void service_watch(struct source *s, uint32_t events, int op); /* epoll_ctl() */
/* conn.c */
void conn_event(struct conn *c, uint32_t events);
void conn_lost(struct conn *c, const char *why);
void conn_free_closed(void);
/* listen.c: IPv6 that takes IPv4 too where there is IPv6; @port 0: any. -1: errno says why. */
int listen_tcp(uint16_t *port, int family);
int listen_unix(const struct sockaddr_storage *sa, socklen_t len);
void listen_accept(struct source *s);
void listen_free(struct listener *l);
/* owner.c */
void call_run_all(void);

#endif
