/* SPDX-License-Identifier: Apache-2.0 */
/* Mending the tree after ranks have left in order. A rank whose parent left waits a moment
 * (mostly everybody leaves at about the same time), then dials the rank that the parent
 * named, else all lower ranks in turn; the lowest open rank becomes the top. Edges always
 * lead from lower to higher ranks, so no circle can arise. The dialling is done by a thread
 * that exists only while there is something to mend. */
#ifndef BOOT_MEND_H
#define BOOT_MEND_H

#include "boot/group.h"

/* Lock held. */
void mend_later(struct boot *b, int heir);
void mend_tick(uint64_t now);
/* Without the lock, when the service ends. */
void mend_join(void);
/* In the child of a fork, where the thread is not. */
void mend_forget(void);

#endif
