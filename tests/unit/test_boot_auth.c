/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "boot/auth.h"

static const uint8_t secret[SECRET_BYTES] = "0123456789abcdef0123456789abcde";
static const uint8_t nonce[NONCE_BYTES] = "another nonce";

static struct hello example(void)
{
	struct hello h = { .version = BOOT_VERSION, .purpose = FOR_DIAL, .to = 1, .from = 2 };

	memset(h.key, 1, sizeof(h.key));
	memset(h.nonce, 2, sizeof(h.nonce));
	return h;
}

static bool same_mac(const struct hello *a, const struct hello *b)
{
	uint8_t x[MAC_BYTES], y[MAC_BYTES];

	auth_mac(x, secret, AUTH_DIALLER, a, nonce, "pay", 3);
	auth_mac(y, secret, AUTH_DIALLER, b, nonce, "pay", 3);
	return auth_equal(x, y);
}

static void a_mac_is_bound_to_every_field_of_the_hello(void **state)
{
	struct hello h = example(), other;

	(void)state;
	other = h;
	assert_true(same_mac(&h, &other));
	other.purpose = FOR_TREE;
	assert_false(same_mac(&h, &other));
	other = h;
	other.to = 2;
	assert_false(same_mac(&h, &other));
	other = h;
	other.from = 1;
	assert_false(same_mac(&h, &other));
	other = h;
	other.key[15] ^= 1;
	assert_false(same_mac(&h, &other));
	other = h;
	other.nonce[31] ^= 1;
	assert_false(same_mac(&h, &other));
}

static void a_mac_is_bound_to_secret_role_nonce_and_payload(void **state)
{
	struct hello h = example();
	uint8_t base[MAC_BYTES], mac[MAC_BYTES], wrong[SECRET_BYTES], late[NONCE_BYTES];

	(void)state;
	auth_mac(base, secret, AUTH_DIALLER, &h, nonce, "pay", 3);
	memcpy(wrong, secret, sizeof(wrong));
	wrong[0] ^= 1;
	auth_mac(mac, wrong, AUTH_DIALLER, &h, nonce, "pay", 3);
	assert_false(auth_equal(base, mac));
	auth_mac(mac, secret, AUTH_ACCEPTOR, &h, nonce, "pay", 3);
	assert_false(auth_equal(base, mac));
	memcpy(late, nonce, sizeof(late));
	late[3] ^= 1;
	auth_mac(mac, secret, AUTH_DIALLER, &h, late, "pay", 3);
	assert_false(auth_equal(base, mac));
	auth_mac(mac, secret, AUTH_DIALLER, &h, nonce, "paz", 3);
	assert_false(auth_equal(base, mac));
	auth_mac(mac, secret, AUTH_DIALLER, &h, nonce, "pay", 2);
	assert_false(auth_equal(base, mac));
	auth_mac(mac, secret, AUTH_DIALLER, &h, nonce, NULL, 0);
	assert_false(auth_equal(base, mac));
	auth_mac(mac, secret, AUTH_DIALLER, &h, nonce, "pay", 3);
	assert_true(auth_equal(base, mac));
}

static void derived_keys_depend_on_all_of_their_inputs(void **state)
{
	uint8_t a[32], b[32];

	(void)state;
	auth_derive(a, 32, secret, "label", "data", 4);
	auth_derive(b, 32, secret, "label", "data", 4);
	assert_memory_equal(a, b, 32);
	auth_derive(b, 32, NULL, "label", "data", 4);
	assert_memory_not_equal(a, b, 32);
	auth_derive(b, 32, secret, "labe", "ldata", 5); /* the border between the two counts */
	assert_memory_not_equal(a, b, 32);
	auth_derive(b, 32, secret, "label", "date", 4);
	assert_memory_not_equal(a, b, 32);
}

static void nonces_differ(void **state)
{
	uint8_t a[NONCE_BYTES], b[NONCE_BYTES];

	(void)state;
	auth_random(a, sizeof(a));
	auth_random(b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
}

static struct frame first(const struct buf *b)
{
	struct frame f;

	assert_int_equal(frame_next(&f, b->data, b->len, FRAME_HANDSHAKE_MAX), FRAME_OK);
	return f;
}

static void challenge_and_proof_come_back_as_they_were(void **state)
{
	uint8_t mac[MAC_BYTES], got_nonce[NONCE_BYTES], got_mac[MAC_BYTES];
	struct buf b = { 0 };
	struct frame f, payload;

	(void)state;
	memset(mac, 9, sizeof(mac));
	challenge_put(&b, nonce, mac);
	f = first(&b);
	assert_true(challenge_get(got_nonce, got_mac, &f));
	assert_memory_equal(got_nonce, nonce, NONCE_BYTES);
	assert_memory_equal(got_mac, mac, MAC_BYTES);
	assert_false(proof_get(got_mac, &payload, &f));
	f.len--;
	assert_false(challenge_get(got_nonce, got_mac, &f));
	b.len = 0;
	proof_put(&b, mac, "payload", 7);
	f = first(&b);
	assert_true(proof_get(got_mac, &payload, &f));
	assert_memory_equal(got_mac, mac, MAC_BYTES);
	assert_int_equal(payload.len, 7);
	assert_memory_equal(payload.data, "payload", 7);
	f.len = MAC_BYTES - 1;
	assert_false(proof_get(got_mac, &payload, &f));
	buf_cleanup(&b);
}

static int start(void **state)
{
	(void)state;
	return auth_init() ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mac_is_bound_to_every_field_of_the_hello),
		cmocka_unit_test(a_mac_is_bound_to_secret_role_nonce_and_payload),
		cmocka_unit_test(derived_keys_depend_on_all_of_their_inputs),
		cmocka_unit_test(nonces_differ),
		cmocka_unit_test(challenge_and_proof_come_back_as_they_were),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
