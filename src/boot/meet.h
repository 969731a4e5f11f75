/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting: how the ranks of a new group check in at rank 0, become a tree and get the
 * table of all ranks; and how a group derived from another one becomes a tree. */
#ifndef BOOT_MEET_H
#define BOOT_MEET_H

#include "boot/group.h"
#include "boot/id.h"

struct meeting {
	struct id_parts id;
	int rank, size, timeout_ms;
	const struct config *cfg;
	const struct boot_callbacks *cb;
	bool may_come;	 /* rank 0 may not be listening yet: a refusal is no answer */
	char where[512]; /* the meeting point, for messages */
	/* (optional) On rank 0, without the lock: it can be reached; all have joined; they will not. */
	enum taut_status (*ready)(void *ctx);
	void (*complete)(void *ctx);
	void (*failed)(void *ctx);
	void *ctx;
};
/* Takes over a hold of the service on success; drops it on failure. */
enum taut_status meet(struct boot **out, const struct meeting *m);

enum taut_status meet_check_args(int rank, int size, int timeout_ms);

/* Service thread: a rank checks in at @b, which is rank 0. */
void meet_checkin(struct conn *c, struct boot *b, const struct frame *payload);

/* What this process tells of itself; lock held (the service is up). */
void meet_self(struct record *out, const struct config *cfg);
/* Ranks as "3, 5-7, 9" in at most @len bytes. @missing(ctx, rank) says which; returns their number. */
int meet_ranges(char *out, size_t len, int size, bool (*missing)(const void *ctx, int rank), const void *ctx);

/* Shared by both ways of joining. Lock held. */
struct join {
	struct boot *b;
	uint64_t start, deadline;
	int timeout_ms;
	const struct boot *parent; /* of a derived group, else NULL */
	bool parent_failed;	   /* before this began, or it is to be left behind: no reason to end */
	bool sent_on;		   /* from the process that made the id to rank 0, @top */
	struct target top;
	bool mute; /* what is at rank 0's address took the connection, but said nothing */
};
/* A failure of the parent group while a new one is derived from it ends the new one. */
void join_check_parent(struct join *j);
/* Dials @rank as a tree neighbour (the lock is released meanwhile). */
int join_dial(struct join *j, int rank);
/* Tell those that the tree does not reach, without the lock. */
void join_spread(struct boot *b);
/* Rank 0: waits for all, then lets them go; the others wait for that. */
enum taut_status join_top(struct join *j, const struct meeting *m);

#endif
