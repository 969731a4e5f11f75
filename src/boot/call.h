/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing calls: the top of the tree asks, every rank describes, answers are combined on
 * the way up: equal descriptions become one entry with ranges of ranks. */
#ifndef BOOT_CALL_H
#define BOOT_CALL_H

#include "boot/group.h"

enum { CALL_TEXT = 200, CALL_RANGES = 32, CALL_ENTRIES = 8 };

struct call_entry {
	bool made;  /* false: not made yet, then sig does not count; one entry for all of them */
	bool other; /* several calls for which there was no room */
	uint64_t sig;
	char text[CALL_TEXT];
	int nranges, ranks; /* ranks: how many, also of ranges that had no room */
	struct {
		int lo, hi;
	} ranges[CALL_RANGES]; /* ascending, apart */
};
/* Adds @e to the @n entries of @list, which has room for CALL_ENTRIES and one for "not made".
 * The calls that find no room share an entry. */
void entry_merge(struct call_entry *list, int *n, const struct call_entry *e);
void entry_put(struct buf *b, const struct call_entry *e);
bool entry_get(struct call_entry *out, struct reader *r);
/* "ranks 0-2: TEXT; rank 3: TEXT" */
void entries_text(char *out, size_t len, const struct call_entry *list, int n);

/* On the service thread, without the lock: asks the owner. */
void query_describe(struct call *c);
/* Lock held from here on. */
void query_described(struct call *c);
void query_frame(struct boot *b, struct edge *e, const struct frame *f);
void query_start(struct boot *b, uint64_t seq);
void query_tick(struct boot *b, uint64_t now);
void query_cleanup(struct boot *b);

#endif
