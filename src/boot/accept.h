/* SPDX-License-Identifier: Apache-2.0 */
/* The accepting side of the handshake (auth.h) and what a proven connection is then used
 * for. Service thread, lock held. */
#ifndef BOOT_ACCEPT_H
#define BOOT_ACCEPT_H

#include "boot/group.h"

void accept_start(struct conn *c);
void accept_hello(struct conn *c, const struct frame *f);
void accept_proof(struct conn *c, const struct frame *f);
/* Any thread: a group or rank has come; connections parked for it go on. */
void accept_unpark(const uint8_t key[KEY_BYTES]);
void accept_survivor_gone(struct conn *c);
/* Say no and close. */
void accept_refuse(struct conn *c, enum taut_status st, const char *why);
void accept_ok(struct conn *c, const struct buf *payload);

#endif
