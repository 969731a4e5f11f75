/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/auth.h"

#include <sodium.h>
#include <string.h>

bool auth_init(void)
{
	return sodium_init() >= 0;
}

void auth_random(void *out, size_t len)
{
	randombytes_buf(out, len);
}

static void hash_number(crypto_generichash_state *s, uint64_t v)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v >> 8 * i);
	crypto_generichash_update(s, bytes, sizeof(bytes));
}

void auth_mac(uint8_t mac[MAC_BYTES], const uint8_t secret[SECRET_BYTES], enum auth_role role, const struct hello *h,
	      const uint8_t nonce[NONCE_BYTES], const void *payload, size_t len)
{
	static const char *const labels[] = { "taut acceptor 1", "taut dialler  1" };
	crypto_generichash_state s;

	crypto_generichash_init(&s, secret, SECRET_BYTES, MAC_BYTES);
	crypto_generichash_update(&s, (const uint8_t *)labels[role], strlen(labels[role]));
	hash_number(&s, h->purpose);
	hash_number(&s, h->to);
	hash_number(&s, h->from);
	crypto_generichash_update(&s, h->key, KEY_BYTES);
	crypto_generichash_update(&s, h->nonce, NONCE_BYTES);
	crypto_generichash_update(&s, nonce, NONCE_BYTES);
	hash_number(&s, len);
	if (len)
		crypto_generichash_update(&s, payload, len);
	crypto_generichash_final(&s, mac, MAC_BYTES);
}

bool auth_equal(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES])
{
	return sodium_memcmp(a, b, MAC_BYTES) == 0;
}

void auth_derive(uint8_t *out, size_t out_len, const uint8_t *secret, const char *label, const void *data, size_t len)
{
	crypto_generichash_state s;

	crypto_generichash_init(&s, secret, secret ? SECRET_BYTES : 0, out_len);
	hash_number(&s, strlen(label));
	crypto_generichash_update(&s, (const uint8_t *)label, strlen(label));
	if (len)
		crypto_generichash_update(&s, data, len);
	crypto_generichash_final(&s, out, out_len);
}

void auth_wipe(void *p, size_t len)
{
	sodium_memzero(p, len);
}

void challenge_put(struct buf *b, const uint8_t nonce[NONCE_BYTES], const uint8_t mac[MAC_BYTES])
{
	size_t at = frame_begin(b, FRAME_CHALLENGE);

	buf_bytes(b, nonce, NONCE_BYTES);
	buf_bytes(b, mac, MAC_BYTES);
	frame_end(b, at);
}

bool challenge_get(uint8_t nonce[NONCE_BYTES], uint8_t mac[MAC_BYTES], const struct frame *f)
{
	if (f->type != FRAME_CHALLENGE || f->len != NONCE_BYTES + MAC_BYTES)
		return false;
	memcpy(nonce, f->data, NONCE_BYTES);
	memcpy(mac, f->data + NONCE_BYTES, MAC_BYTES);
	return true;
}

void proof_put(struct buf *b, const uint8_t mac[MAC_BYTES], const void *payload, size_t len)
{
	size_t at = frame_begin(b, FRAME_PROOF);

	buf_bytes(b, mac, MAC_BYTES);
	buf_bytes(b, payload, len);
	frame_end(b, at);
}

bool proof_get(uint8_t mac[MAC_BYTES], struct frame *payload, const struct frame *f)
{
	if (f->type != FRAME_PROOF || f->len < MAC_BYTES)
		return false;
	memcpy(mac, f->data, MAC_BYTES);
	*payload = (struct frame){ .type = FRAME_PROOF, .len = f->len - MAC_BYTES, .data = f->data + MAC_BYTES };
	return true;
}
