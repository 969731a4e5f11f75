/* SPDX-License-Identifier: Apache-2.0 */
/* The desk: an id names the process that made it, which need not be rank 0, nor a rank at all. Rank 0 then tells that
 * process where it is, and ranks that check in there are sent on to it. */
#ifndef BOOT_DESK_H
#define BOOT_DESK_H

#include "boot/meet.h"

/* Service thread. The id of this process that @h is about and that the desk can serve now; NULL: none. */
struct id_hold *desk_find(const struct hello *h);
/* A proven connection for desk_find()'s id. */
void desk_take(struct conn *c, struct id_hold *id, const struct frame *payload);

/* Rank 0, without the lock: tells the maker of the id, until @deadline; nothing to do where that is this process. */
enum taut_status desk_announce(const struct meeting *m, uint64_t deadline);
/* Is this the answer of a desk? Then *@top is rank 0; else @r stays where it is. */
bool desk_sends_on(struct record *top, struct reader *r);

#endif
