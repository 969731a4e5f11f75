/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling: connect and prove, in the calling thread, without the lock. */
#ifndef BOOT_DIAL_H
#define BOOT_DIAL_H

#include "boot/addr.h"
#include "boot/group.h"

enum dial_end {
	DIAL_OK,
	DIAL_GONE,	/* every address refused: the process is not there */
	DIAL_UNREACHED, /* no answer, no route, or closed in the middle */
	DIAL_REJECTED,	/* the other side said no: status and why */
	DIAL_AUTH,	/* it does not know the secret, or we have another one */
	DIAL_CANCELLED, /* an event of the group, or its member closes */
	DIAL_LATE,
};

struct dial {
	/* in */
	struct target target;
	struct hello hello; /* key, to, from, purpose */
	uint8_t secret[SECRET_BYTES];
	const void *payload;
	size_t len;
	bool tcp;	      /* not through the Unix listener */
	const struct boot *b; /* (optional) whose closing cancels */
	bool stop_on_event;   /* and an event of whose group does */
	uint64_t deadline;    /* ns */
	uint64_t connect_ns;  /* for each address; 0: 3 s */
	/* out */
	int fd; /* non-blocking */
	bool local;
	struct buf reply; /* the caller's to clean up */
	enum taut_status status;
	char why[256];
	/* own */
	struct dial *prev, *next;
	bool cancelled;
};

enum dial_end dial(struct dial *d);
/* Fill in, hello and secret, for member @b of a group towards @to; lock held. */
void dial_prepare(struct dial *d, const struct boot *b, int to, enum purpose purpose);
/* Lock held: @b or (NULL) all dials of @g that stop on an event. */
void dial_cancel(const struct group *g, const struct boot *b);
void dial_close_all(void); /* in the child of a fork */

#endif
