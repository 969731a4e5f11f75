/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "boot/frame.h"

static void a_frame_is_found_when_all_of_it_is_there(void **state)
{
	struct buf b = { 0 };
	size_t at = frame_begin(&b, FRAME_TABLE);
	struct frame f;

	(void)state;
	buf_bytes(&b, "hello", 5);
	frame_end(&b, at);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(frame_next(&f, b.data, len, 100), FRAME_MORE);
	assert_int_equal(f.len, 5); /* known before it is all there */
	assert_int_equal(frame_next(&f, b.data, b.len, 100), FRAME_OK);
	assert_int_equal(f.type, FRAME_TABLE);
	assert_memory_equal(f.data, "hello", 5);
	buf_cleanup(&b);
}

static void too_long_and_reserved_bytes_are_bad(void **state)
{
	uint8_t head[FRAME_HEADER] = { 101, 0, 0, 0, FRAME_HELLO };
	struct frame f;

	(void)state;
	assert_int_equal(frame_next(&f, head, sizeof(head), 100), FRAME_BAD);
	assert_int_equal(frame_next(&f, head, sizeof(head), 101), FRAME_MORE);
	for (int i = 5; i < 8; i++) {
		head[i] = 1;
		assert_int_equal(frame_next(&f, head, sizeof(head), 101), FRAME_BAD);
		head[i] = 0;
	}
	memset(head, 0xff, 4);
	assert_int_equal(frame_next(&f, head, sizeof(head), 101), FRAME_BAD);
}

static void numbers_keep_their_value_and_order(void **state)
{
	const uint8_t want[] = { 1, 2, 1, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1 };
	struct buf b = { 0 };
	struct reader r;

	(void)state;
	buf_u8(&b, 1);
	buf_u16(&b, 0x0102);
	buf_u32(&b, 0x01020304);
	buf_u64(&b, 0x0102030405060708);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	r = (struct reader){ .at = b.data, .left = b.len };
	assert_int_equal(rd_u8(&r), 1);
	assert_int_equal(rd_u16(&r), 0x0102);
	assert_int_equal(rd_u32(&r), 0x01020304);
	assert_true(rd_u64(&r) == 0x0102030405060708);
	assert_false(r.bad);
	assert_int_equal(rd_u8(&r), 0);
	assert_true(r.bad);
	buf_cleanup(&b);
}

static void a_reader_that_ran_out_stays_bad(void **state)
{
	const uint8_t two[2] = { 1, 2 };
	struct reader r = { .at = two, .left = 2 };

	(void)state;
	assert_int_equal(rd_u32(&r), 0);
	assert_true(r.bad);
	assert_int_equal(rd_u8(&r), 0); /* though a byte is left */
	assert_null(rd_bytes(&r, 0));
}

static void texts_are_cut_and_made_printable(void **state)
{
	struct buf b = { 0 };
	struct reader r;
	char text[6];

	(void)state;
	buf_text(&b, "a\nb\033cdefg");
	buf_text(&b, "xy");
	r = (struct reader){ .at = b.data, .left = b.len };
	rd_text(&r, text, sizeof(text));
	assert_string_equal(text, "a?b?c");
	rd_text(&r, text, sizeof(text));
	assert_string_equal(text, "xy");
	assert_false(r.bad);
	b.data[0] = 200; /* longer than what is there */
	r = (struct reader){ .at = b.data, .left = b.len };
	rd_text(&r, text, sizeof(text));
	assert_true(r.bad);
	assert_string_equal(text, "");
	buf_cleanup(&b);
}

static void a_buffer_without_memory_says_so_and_does_nothing(void **state)
{
	struct buf b = { 0 };
	size_t at;

	(void)state;
	mem_fail_from(1);
	at = frame_begin(&b, FRAME_BEAT);
	buf_u64(&b, 7);
	frame_end(&b, at);
	mem_fail_from(0);
	assert_true(b.failed);
	assert_int_equal(b.len, 0);
	buf_u8(&b, 1);
	assert_int_equal(b.len, 0);
	buf_cleanup(&b);
	buf_u8(&b, 1);
	assert_int_equal(b.len, 1);
	buf_cleanup(&b);
}

static struct hello example(void)
{
	struct hello h = { .version = BOOT_VERSION, .purpose = FOR_DIAL, .to = 3, .from = 70000 };

	memset(h.key, 5, sizeof(h.key));
	memset(h.nonce, 6, sizeof(h.nonce));
	return h;
}

static bool parse(struct hello *out, const struct buf *b)
{
	struct frame f;

	return frame_next(&f, b->data, b->len, FRAME_HANDSHAKE_MAX) == FRAME_OK && hello_get(out, &f);
}

static void a_hello_comes_back_as_it_was(void **state)
{
	struct hello h = example(), got;
	struct buf b = { 0 };

	(void)state;
	hello_put(&b, &h);
	assert_int_equal(b.len, FRAME_HEADER + FRAME_HELLO_BYTES);
	assert_true(parse(&got, &b));
	assert_int_equal(got.version, h.version);
	assert_int_equal(got.purpose, h.purpose);
	assert_int_equal(got.to, h.to);
	assert_int_equal(got.from, h.from);
	assert_memory_equal(got.key, h.key, KEY_BYTES);
	assert_memory_equal(got.nonce, h.nonce, NONCE_BYTES);
	buf_cleanup(&b);
}

static void a_hello_of_another_version_is_told_by_its_version(void **state)
{
	struct hello h = example(), got;
	struct buf b = { 0 };

	(void)state;
	h.version = 9;
	hello_put(&b, &h);
	assert_true(parse(&got, &b));
	assert_int_equal(got.version, 9);
	assert_int_equal(got.from, 0); /* nothing else was read */
	buf_cleanup(&b);
}

/* Changes one byte; the hello must not be taken. */
static void refuse(size_t at, uint8_t value)
{
	struct hello h = example(), got;
	struct buf b = { 0 };

	hello_put(&b, &h);
	b.data[FRAME_HEADER + at] = value;
	assert_false(parse(&got, &b));
	buf_cleanup(&b);
}

static void what_is_no_hello_is_refused(void **state)
{
	struct hello h = example(), got;
	struct buf b = { 0 };

	(void)state;
	refuse(0, 'X'); /* magic */
	refuse(6, 0);	/* purpose */
	refuse(6, FOR_LAST + 1);
	refuse(7, 1);
	refuse(27, 0x80); /* a rank above 2^31 */
	refuse(31, 0xff);
	hello_put(&b, &h);
	b.data[4] = FRAME_PROOF;
	assert_false(parse(&got, &b));
	b.data[4] = FRAME_HELLO;
	b.data[0]--;
	assert_false(parse(&got, &b));
	buf_cleanup(&b);
}

static void an_event_comes_back_as_it_was(void **state)
{
	struct event_msg e = { .kind = 2, .status = TAUT_ERR_MISMATCH, .rank = -1, .text = "call 7 differs" }, got;
	struct buf b = { 0 };
	struct frame f;

	(void)state;
	event_put(&b, &e);
	assert_int_equal(frame_next(&f, b.data, b.len, 2000), FRAME_OK);
	assert_true(event_get(&got, &f));
	assert_int_equal(got.kind, 2);
	assert_int_equal(got.status, TAUT_ERR_MISMATCH);
	assert_int_equal(got.rank, -1);
	assert_string_equal(got.text, e.text);
	f.len--;
	assert_false(event_get(&got, &f));
	buf_cleanup(&b);
}

static void an_event_with_odd_values_is_refused(void **state)
{
	struct event_msg e = { .kind = 1, .status = TAUT_OK, .rank = 0, .text = "x" }, got;
	struct buf b = { 0 };
	struct frame f;

	(void)state;
	event_put(&b, &e);
	assert_int_equal(frame_next(&f, b.data, b.len, 2000), FRAME_OK);
	assert_false(event_get(&got, &f));
	b.data[FRAME_HEADER + 1] = TAUT_ERR_INTERNAL + 1;
	assert_false(event_get(&got, &f));
	b.data[FRAME_HEADER + 1] = TAUT_ERR_PEER;
	assert_true(event_get(&got, &f));
	b.data[FRAME_HEADER] = 4; /* no such kind */
	assert_false(event_get(&got, &f));
	buf_cleanup(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_found_when_all_of_it_is_there),
		cmocka_unit_test(too_long_and_reserved_bytes_are_bad),
		cmocka_unit_test(numbers_keep_their_value_and_order),
		cmocka_unit_test(a_reader_that_ran_out_stays_bad),
		cmocka_unit_test(texts_are_cut_and_made_printable),
		cmocka_unit_test(a_buffer_without_memory_says_so_and_does_nothing),
		cmocka_unit_test(a_hello_comes_back_as_it_was),
		cmocka_unit_test(a_hello_of_another_version_is_told_by_its_version),
		cmocka_unit_test(what_is_no_hello_is_refused),
		cmocka_unit_test(an_event_comes_back_as_it_was),
		cmocka_unit_test(an_event_with_odd_values_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
