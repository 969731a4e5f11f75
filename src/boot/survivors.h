/* SPDX-License-Identifier: Apache-2.0 */
/* Who is left: the lowest living rank collects the others. */
#ifndef BOOT_SURVIVORS_H
#define BOOT_SURVIVORS_H

#include "boot/group.h"

/* Lock held. A rank's connection waits at @b for the list. */
void survivors_take(struct conn *c, struct boot *b);
void survivors_gone(struct boot *b, struct conn *c);
void survivors_refuse(struct boot *b, enum taut_status st, const char *why);

#endif
