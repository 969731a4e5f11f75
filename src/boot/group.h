/* SPDX-License-Identifier: Apache-2.0 */
/* Groups and their members in this process, the tree between the members, events.
 *
 * The tree: rank r hangs below (r - 1) / TREE_WIDTH. Edges always lead from a lower rank
 * (parent) to a higher one, also those that mend the tree after a rank has left.
 *
 * boot_lock covers all of it; every function here wants it held unless it says otherwise. */
#ifndef BOOT_GROUP_H
#define BOOT_GROUP_H

#include "boot/service.h"
#include "boot/table.h"

enum { TREE_WIDTH = 4 };

struct msg { /* of an exchange, waiting for its turn */
	struct msg *next;
	uint32_t seq;
	uint8_t kind;
	uint32_t each;
	size_t len;
	uint8_t data[];
};
struct msg_list {
	struct msg *head, **tail;
};

struct edge {
	struct conn *conn; /* NULL: not there yet, or gone */
	int rank;	   /* -1: none */
	bool left;	   /* closed in order; stays so when the edge is mended */
	int was;	   /* who left */
	struct msg_list msgs;
};

enum exchange { EXCHANGE_GATHER = 1, EXCHANGE_BROADCAST, EXCHANGE_BARRIER };
struct op {
	uint32_t seq;
	enum exchange kind;
	size_t each;
	const void *mine;
	void *all;
	bool active, sent_up, done;
};

struct call_entry; /* see call.c */
struct query {	   /* the question that is being answered */
	uint32_t number;
	uint64_t seq, asked_at;
	bool active;
	int waiting;		    /* answers that have not come */
	struct call_entry *entries; /* combined so far */
	int nentries;
	uint64_t again_at, again_seq; /* top: the next question, when the last one is old enough */
	uint64_t slow_seq;	      /* top: a call that some rank waits in, though no two differ ... */
	uint64_t slow_since;	      /* ... for how long */
	uint64_t slow_seen;
	bool slow_said;
};

struct survivor { /* of boot_survivors(): a connection that waits for the list */
	struct conn *conn;
	int rank;
};

struct boot {
	struct boot *next;
	struct group *g;
	int rank;
	pid_t pid;
	uint8_t node[NODE_BYTES];
	struct boot_callbacks cb;
	pthread_cond_t cond;
	uint64_t heartbeat;
	struct edge parent, *kids;
	int nkids, nstatic; /* the first nstatic kids are the tree's own, the others adopted */
	bool dialling_parent;
	bool joined;		 /* the table has come: all ranks are there */
	bool whole;		 /* rank 0: everybody hangs in the tree */
	bool told;		 /* of the event */
	struct call *event_call; /* by which the owner learns of it: made in time, for memory may be what is lacking */
	bool closing, mended;
	int pins;	 /* callbacks and menders that use this member */
	uint32_t *below; /* while joining: ranks known to hang below, this one first */
	int nbelow, nbelow_cap;
	uint8_t *seen_below; /* rank 0 while joining: bits */
	struct op op;
	struct query query;
	struct survivor *survivors;
	int nsurvivors;
	uint32_t nlists; /* of survivors, that this rank collected */
	uint64_t mend_at;
	int heir;
};

struct group {
	struct group *next;
	uint8_t key[KEY_BYTES], secret[SECRET_BYTES];
	int size, timeout_ms;
	struct table *table;
	struct boot *members;
	unsigned long rejected;	   /* connections that failed this group's challenge */
	bool has_event, event_own; /* @event_own: found here, not told by others */
	struct event_msg event;
};

static inline bool stop_wanted(const struct boot_callbacks *cb)
{
	return cb && cb->stop && atomic_load(&cb->stop->wanted);
}

static inline int tree_parent(int rank)
{
	return rank ? (rank - 1) / TREE_WIDTH : -1;
}

/* The member, registered and reachable by its peers. @table (may be NULL) is taken if the
 * group is new here. */
enum taut_status member_open(struct boot **out, const uint8_t key[KEY_BYTES], const uint8_t secret[SECRET_BYTES],
			     int rank, int size, struct table *table, const struct boot_callbacks *cb);
/* Waits for callbacks that run (the lock is released meanwhile); frees. */
void member_close(struct boot *b);
struct group *group_find(const uint8_t key[KEY_BYTES]);
struct boot *member_find(struct group *g, int rank);
struct edge *edge_find(struct boot *b, int rank);

/* A proven connection becomes the edge to @rank. False: refused, @why says it. */
bool edge_accept(struct boot *b, int rank, struct conn *c, const char **why);
/* @dialled: from here; then the first frame confirms it to the other side. */
void edge_attach(struct boot *b, struct edge *e, struct conn *c, bool dialled);
struct edge *edge_adopt(struct boot *b, int rank);
/* A frame came on an edge, or the edge closed. */
void edge_frame(struct conn *c, const struct frame *f);
void edge_closed(struct conn *c, const char *why);
/* Nothing has come on it for too long: a death, which that rank hears of too, in case it lives. */
void edge_silent(struct conn *c);
void edges_send(struct boot *b, struct buf *frame, const struct conn *except, bool up, bool down);

/* The first event of the group reaches all members here and floods on. */
enum event_from {
	EVENT_SEEN,	/* here */
	EVENT_REPORTED, /* by the owner, who has logged it */
	EVENT_TOLD,	/* by another rank */
};
void event_raise(struct group *g, const struct event_msg *e, enum event_from from);
void event_make(struct group *g, enum boot_event_kind kind, enum taut_status st, int rank, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void event_dead(struct group *g, int rank, const char *how);
void event_abort(struct boot *b); /* by this rank */
/* The event as this thread's error. */
enum taut_status event_status(const struct group *g);

/* Ranks hang in the tree below @b: tell those above. */
void joined_add(struct boot *b, const uint32_t *ranks, int n);

/* coll.c */
void msg_list_free(struct msg_list *l);
void exchange_frame(struct boot *b, struct edge *e, const struct frame *f);
void exchange_left(struct boot *b, struct edge *e);
/* Wait on b->cond, at most until @until (ns; UINT64_MAX: for ever). False: time is over. */
bool member_wait(struct boot *b, uint64_t until);

#endif
