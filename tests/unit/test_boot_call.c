/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "boot/call.h"

static struct call_entry entry(int rank, bool made, uint64_t sig, const char *text)
{
	struct call_entry e = { .made = made, .sig = sig, .ranks = 1, .nranges = 1, .ranges[0] = { rank, rank } };

	snprintf(e.text, sizeof(e.text), "%s", text);
	return e;
}

static void add(struct call_entry *list, int *n, int rank, bool made, uint64_t sig, const char *text)
{
	struct call_entry e = entry(rank, made, sig, text);

	entry_merge(list, n, &e);
}

static void equal_calls_become_one_entry_with_ranges(void **state)
{
	static const int order[] = { 5, 0, 2, 9, 1, 7, 8 };
	struct call_entry list[CALL_ENTRIES + 1];
	char text[300];
	int n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		add(list, &n, order[i], true, 1, "all_reduce(count 8)");
	assert_int_equal(n, 1);
	assert_int_equal(list[0].ranks, 7);
	assert_int_equal(list[0].nranges, 3);
	entries_text(text, sizeof(text), list, n);
	assert_string_equal(text, "ranks 0-2,5,7-9: all_reduce(count 8)");
}

static void entries_are_told_in_order_of_rank(void **state)
{
	struct call_entry list[CALL_ENTRIES + 1];
	char text[300];
	int n = 0;

	(void)state;
	add(list, &n, 3, true, 2, "broadcast(root 0)");
	add(list, &n, 4, false, 0, "computes");
	add(list, &n, 0, true, 1, "barrier()");
	add(list, &n, 1, true, 1, "barrier()");
	entries_text(text, sizeof(text), list, n);
	assert_string_equal(text, "ranks 0-1: barrier(); rank 3: broadcast(root 0); rank 4: not there yet (computes)");
}

static void calls_not_made_share_an_entry_whatever_they_say(void **state)
{
	struct call_entry list[CALL_ENTRIES + 1];
	char text[300];
	int n = 0;

	(void)state;
	add(list, &n, 0, false, 1, "computes");
	add(list, &n, 1, false, 2, "sleeps");
	assert_int_equal(n, 1);
	entries_text(text, sizeof(text), list, n);
	assert_string_equal(text, "ranks 0-1: not there yet");
}

static void calls_without_room_share_an_entry(void **state)
{
	struct call_entry list[CALL_ENTRIES + 1];
	char text[900], words[32];
	int n = 0, ranks = 0;

	(void)state;
	for (int r = 0; r < 40; r++) {
		snprintf(words, sizeof(words), "call %d", r);
		add(list, &n, r, true, (uint64_t)r, words);
	}
	add(list, &n, 40, false, 0, "");
	add(list, &n, 3, true, 3, "call 3");
	assert_true(n <= CALL_ENTRIES + 1);
	for (int i = 0; i < n; i++)
		ranks += list[i].ranks;
	assert_int_equal(ranks, 42);
	entries_text(text, sizeof(text), list, n);
	assert_non_null(strstr(text, "ranks 6-39: other calls"));
	assert_non_null(strstr(text, "rank 40: not there yet"));
}

static void ranges_without_room_are_counted(void **state)
{
	struct call_entry list[CALL_ENTRIES + 1];
	char text[900];
	int n = 0;

	(void)state;
	for (int r = 0; r < 200; r += 2)
		add(list, &n, r, true, 1, "x");
	assert_int_equal(n, 1);
	assert_int_equal(list[0].nranges, CALL_RANGES);
	assert_int_equal(list[0].ranks, 100);
	entries_text(text, sizeof(text), list, n);
	assert_non_null(strstr(text, "ranks 0,2,4,"));
	assert_non_null(strstr(text, " more: x"));
}

static void an_entry_comes_back_as_it_was(void **state)
{
	struct call_entry list[CALL_ENTRIES + 1], got;
	struct buf b = { 0 };
	struct reader r;
	int n = 0;

	(void)state;
	memset(list, 0, sizeof(list));
	add(list, &n, 3, true, 77, "text");
	add(list, &n, 9, true, 77, "text");
	entry_put(&b, &list[0]);
	r = (struct reader){ .at = b.data, .left = b.len };
	assert_true(entry_get(&got, &r));
	assert_int_equal(got.made, true);
	assert_true(got.sig == 77);
	assert_int_equal(got.ranks, 2);
	assert_int_equal(got.nranges, 2);
	assert_int_equal(got.ranges[1].lo, 9);
	assert_string_equal(got.text, "text");
	for (size_t len = 0; len < b.len; len++) {
		r = (struct reader){ .at = b.data, .left = len };
		assert_false(entry_get(&got, &r));
	}
	buf_cleanup(&b);
}

static void ranges_out_of_order_are_refused(void **state)
{
	struct call_entry e = entry(5, true, 1, ""), got;
	struct buf b = { 0 };
	struct reader r;

	(void)state;
	e.nranges = 2;
	e.ranges[1].lo = 4;
	e.ranges[1].hi = 6;
	entry_put(&b, &e);
	r = (struct reader){ .at = b.data, .left = b.len };
	assert_false(entry_get(&got, &r));
	buf_cleanup(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_calls_become_one_entry_with_ranges),
		cmocka_unit_test(entries_are_told_in_order_of_rank),
		cmocka_unit_test(calls_not_made_share_an_entry_whatever_they_say),
		cmocka_unit_test(calls_without_room_share_an_entry),
		cmocka_unit_test(ranges_without_room_are_counted),
		cmocka_unit_test(an_entry_comes_back_as_it_was),
		cmocka_unit_test(ranges_out_of_order_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
