/* SPDX-License-Identifier: Apache-2.0 */
/* The mutual keyed challenge at the start of every connection:
 *
 *   dialler  -> HELLO      group key, target rank, own rank, purpose, nonce A
 *   acceptor -> CHALLENGE  nonce B, MAC(secret, "acceptor", all of the above)
 *   dialler  -> PROOF      MAC(secret, "dialler", all of the above, payload), payload
 *   acceptor -> ACCEPT     payload; or REJECT with a status and a sentence
 *
 * Each MAC covers both nonces, so nothing can be replayed, and its role, so nothing can be
 * reflected. Pure functions over bytes; keyed BLAKE2b from libsodium. */
#ifndef BOOT_AUTH_H
#define BOOT_AUTH_H

#include "boot/frame.h"

bool auth_init(void); /* once a process before anything else here; false: no randomness */
void auth_random(void *out, size_t len);

enum auth_role { AUTH_ACCEPTOR, AUTH_DIALLER };
void auth_mac(uint8_t mac[MAC_BYTES], const uint8_t secret[SECRET_BYTES], enum auth_role role, const struct hello *h,
	      const uint8_t nonce[NONCE_BYTES], const void *payload, size_t len);
/* Constant time. */
bool auth_equal(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES]);

/* Keyed hash for deriving keys and secrets; @secret NULL: without a key. */
void auth_derive(uint8_t *out, size_t out_len, const uint8_t *secret, const char *label, const void *data, size_t len);
void auth_wipe(void *p, size_t len);

void challenge_put(struct buf *b, const uint8_t nonce[NONCE_BYTES], const uint8_t mac[MAC_BYTES]);
bool challenge_get(uint8_t nonce[NONCE_BYTES], uint8_t mac[MAC_BYTES], const struct frame *f);
void proof_put(struct buf *b, const uint8_t mac[MAC_BYTES], const void *payload, size_t len);
/* @payload points into the frame. */
bool proof_get(uint8_t mac[MAC_BYTES], struct frame *payload, const struct frame *f);

#endif
