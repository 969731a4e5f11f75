/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "boot/auth.h"
#include "boot/id.h"
#include "boot/table.h"

/* Process @p on host @h. */
static struct record record_of(int p, int h)
{
	struct record r = { .pid = 1000 + p, .cpus = 2, .port = (uint16_t)(5000 + p), .naddr = 2 };

	snprintf(r.host, sizeof(r.host), "host%d", h);
	memset(r.node, h + 1, sizeof(r.node));
	memset(r.uniq, p + 1, sizeof(r.uniq));
	r.addrs[0] = (struct addr){ .family = 4, .ip = { 10, 0, 0, (uint8_t)h } };
	r.addrs[1] = (struct addr){ .family = 6, .ip = { 0xfd, [15] = (uint8_t)h } };
	return r;
}

/* 12 ranks, two to a process, processes dealt out to three hosts. */
static struct table *example(void)
{
	struct table *t = table_new(12);

	for (int r = 11; r >= 0; r--) {
		struct record rec = record_of(r / 2, r / 2 % 3);

		assert_true(table_add(t, r, &rec));
	}
	return t;
}

static void a_record_comes_back_as_it_was(void **state)
{
	struct record r = record_of(3, 1), got;
	struct buf b = { 0 };
	struct reader in;

	(void)state;
	record_put(&b, &r);
	in = (struct reader){ .at = b.data, .left = b.len };
	assert_true(record_get(&got, &in));
	assert_int_equal(in.left, 0);
	assert_memory_equal(&got, &r, sizeof(r));
	for (size_t len = 0; len < b.len; len++) {
		in = (struct reader){ .at = b.data, .left = len };
		assert_false(record_get(&got, &in));
	}
	buf_cleanup(&b);
}

static void hosts_and_processes_are_stored_once(void **state)
{
	struct table *t = example();
	struct record r = record_of(4, 1), got;

	(void)state;
	assert_int_equal(t->nhosts, 3);
	assert_int_equal(t->nprocs, 6);
	assert_int_equal(t->known, 12);
	table_record(&got, t, 8);
	assert_memory_equal(&got, &r, sizeof(r));
	assert_true(table_add(t, 8, &r));
	assert_int_equal(t->known, 12);
	assert_int_equal(t->nprocs, 6);
	table_free(t);
}

static void peers_are_numbered_by_node_and_within(void **state)
{
	struct table *t = example();

	(void)state;
	assert_true(table_finish(t));
	assert_int_equal(t->nodes, 3);
	assert_int_equal(t->peers[0].node, 0);
	assert_int_equal(t->peers[2].node, 1);
	assert_int_equal(t->peers[5].node, 2);
	assert_int_equal(t->peers[6].node, 0);
	assert_int_equal(t->peers[6].local_rank, 2);
	assert_int_equal(t->peers[11].local_rank, 3);
	assert_int_equal(t->peers[11].pid, 1005);
	assert_string_equal(t->peers[11].host, "host2");
	assert_true(table_same_node(t, 0, 7));
	assert_false(table_same_node(t, 0, 2));
	table_free(t);
}

/* A container with a name of its own on the same node. */
static void one_node_may_have_several_host_names(void **state)
{
	struct table *t = table_new(2);
	struct record a = record_of(0, 0), b = record_of(1, 0);

	(void)state;
	strcpy(b.host, "other");
	assert_true(table_add(t, 0, &a) && table_add(t, 1, &b));
	assert_int_equal(t->nhosts, 2);
	assert_true(table_finish(t));
	assert_int_equal(t->nodes, 1);
	assert_int_equal(t->peers[1].local_rank, 1);
	assert_string_equal(t->peers[1].host, "other");
	table_free(t);
}

static void targets_are_local_on_the_same_node_only(void **state)
{
	struct table *t = example();
	struct record here = record_of(0, 1);
	struct target to;

	(void)state;
	table_target(&to, t, 2, here.node);
	assert_true(to.same_node);
	assert_int_equal(to.port, 5001);
	assert_int_equal(to.naddr, 2);
	table_target(&to, t, 0, here.node);
	assert_false(to.same_node);
	table_free(t);
}

static struct frame frame_of(const struct buf *b)
{
	struct frame f;

	assert_int_equal(frame_next(&f, b->data, b->len, UINT32_MAX), FRAME_OK);
	return f;
}

static void a_table_comes_back_as_it_was(void **state)
{
	struct table *t = example(), *got;
	struct buf b = { 0 }, again = { 0 };
	struct frame f;

	(void)state;
	table_put(&b, t);
	f = frame_of(&b);
	got = table_get(&f);
	assert_non_null(got);
	assert_int_equal(got->known, 12);
	table_put(&again, got);
	assert_int_equal(again.len, b.len);
	assert_memory_equal(again.data, b.data, b.len);
	table_free(got);
	table_free(t);
	buf_cleanup(&b);
	buf_cleanup(&again);
}

static void a_cut_or_damaged_table_is_refused(void **state)
{
	struct table *t = example(), *got;
	struct buf b = { 0 };
	struct frame f;

	(void)state;
	table_put(&b, t);
	f = frame_of(&b);
	for (size_t len = 0; len < f.len; len++) {
		struct frame cut = { .type = f.type, .len = len, .data = f.data };

		assert_null(table_get(&cut));
	}
	for (size_t i = 0; i < f.len; i++) {
		b.data[FRAME_HEADER + i] ^= 0xff;
		got = table_get(&f); /* refused, or another table: never a wild read */
		assert_true(!got || (got->size == 12 && table_finish(got)));
		table_free(got);
		b.data[FRAME_HEADER + i] ^= 0xff;
	}
	b.data[FRAME_HEADER + 3] = 0x40; /* a billion ranks */
	assert_null(table_get(&f));
	table_free(t);
	buf_cleanup(&b);
}

static void some_ranks_make_a_table_of_their_own(void **state)
{
	static const int ranks[] = { 10, 0, 1 };
	struct table *t = example(), *got = table_pick(t, ranks, 3);
	struct record want = record_of(5, 2), have;

	(void)state;
	assert_non_null(got);
	assert_int_equal(got->size, 3);
	assert_int_equal(got->nhosts, 2);
	assert_int_equal(got->nprocs, 2);
	table_record(&have, got, 0);
	assert_memory_equal(&have, &want, sizeof(want));
	table_free(got);
	table_free(t);
}

static void names_say_what_is_known(void **state)
{
	struct table *t = table_new(2);
	struct record r = record_of(0, 0);
	char text[100];

	(void)state;
	assert_true(table_add(t, 1, &r));
	assert_string_equal(table_name(text, sizeof(text), t, 0), "rank 0");
	assert_string_equal(table_name(text, sizeof(text), t, 1), "rank 1 (host host0, pid 1000)");
	assert_string_equal(table_name(text, sizeof(text), t, 7), "rank 7");
	table_free(t);
}

static void a_table_without_memory_is_none(void **state)
{
	struct table *t = example();
	struct buf b = { 0 };
	struct frame f;

	(void)state;
	table_put(&b, t);
	f = frame_of(&b);
	for (long n = 1; n < 12; n++) {
		struct table *got;

		mem_fail_from(n);
		got = table_get(&f);
		mem_fail_from(0);
		if (n < 10)
			assert_null(got);
		table_free(got);
	}
	table_free(t);
	buf_cleanup(&b);
}

static struct id_parts id_example(void)
{
	struct id_parts p = { .meet = { .port = 4711, .naddr = 4 } };

	memset(p.key, 1, sizeof(p.key));
	memset(p.secret, 2, sizeof(p.secret));
	memset(p.node, 3, sizeof(p.node));
	memset(p.meet.uniq, 4, sizeof(p.meet.uniq));
	p.meet.addrs[0] = (struct addr){ .family = 4, .ip = { 10, 0, 0, 1 } };
	p.meet.addrs[1] = (struct addr){ .family = 6, .ip = { 0xfd, [15] = 1 } };
	p.meet.addrs[2] = (struct addr){ .family = 4, .ip = { 127, 0, 0, 1 } };
	p.meet.addrs[3] = (struct addr){ .family = 6, .ip = { [15] = 1 } };
	return p;
}

static void an_id_holds_all_four_addresses(void **state)
{
	struct id_parts p = id_example(), got;
	struct taut_id id;

	(void)state;
	id_pack(&id, &p);
	assert_int_equal(id_unpack(&got, &id), TAUT_OK);
	assert_memory_equal(got.key, p.key, KEY_BYTES);
	assert_memory_equal(got.secret, p.secret, SECRET_BYTES);
	assert_memory_equal(got.node, p.node, NODE_BYTES);
	assert_memory_equal(&got.meet, &p.meet, sizeof(p.meet));
}

static void what_does_not_fit_in_an_id_is_left_out(void **state)
{
	struct id_parts p = id_example(), got;
	struct taut_id id;

	(void)state;
	for (int i = 0; i < 4; i++)
		p.meet.addrs[i] = (struct addr){ .family = 6, .ip = { (uint8_t)i } };
	p.meet.addrs[3].family = 4;
	id_pack(&id, &p);
	assert_int_equal(id_unpack(&got, &id), TAUT_OK);
	assert_int_equal(got.meet.naddr, 3); /* two of IPv6, one of IPv4 */
	assert_int_equal(got.meet.addrs[2].family, 4);
}

static void any_changed_byte_of_an_id_is_found(void **state)
{
	struct id_parts p = id_example(), got;
	struct taut_id id;

	(void)state;
	id_pack(&id, &p);
	for (int i = 0; i < TAUT_ID_BYTES; i++) {
		id.bytes[i] ^= 0x10;
		assert_int_equal(id_unpack(&got, &id), TAUT_ERR_ARG);
		id.bytes[i] ^= 0x10;
	}
	assert_int_equal(id_unpack(&got, &id), TAUT_OK);
}

static void a_host_text_takes_the_place_of_the_machine(void **state)
{
	uint8_t a[NODE_BYTES], b[NODE_BYTES], c[NODE_BYTES];
	char text[] = "one", none[] = "";
	struct config cfg = { 0 };

	(void)state;
	cfg.host_id = none;
	id_node(a, &cfg);
	id_node(b, &cfg);
	assert_memory_equal(a, b, NODE_BYTES);
	cfg.host_id = text;
	id_node(b, &cfg);
	assert_memory_not_equal(a, b, NODE_BYTES);
	text[0] = 'x';
	id_node(c, &cfg);
	assert_memory_not_equal(b, c, NODE_BYTES);
}

static int start(void **state)
{
	(void)state;
	log_now.level = LOG_NONE;
	return auth_init() ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_comes_back_as_it_was),
		cmocka_unit_test(hosts_and_processes_are_stored_once),
		cmocka_unit_test(peers_are_numbered_by_node_and_within),
		cmocka_unit_test(one_node_may_have_several_host_names),
		cmocka_unit_test(targets_are_local_on_the_same_node_only),
		cmocka_unit_test(a_table_comes_back_as_it_was),
		cmocka_unit_test(a_cut_or_damaged_table_is_refused),
		cmocka_unit_test(some_ranks_make_a_table_of_their_own),
		cmocka_unit_test(names_say_what_is_known),
		cmocka_unit_test(a_table_without_memory_is_none),
		cmocka_unit_test(an_id_holds_all_four_addresses),
		cmocka_unit_test(what_does_not_fit_in_an_id_is_left_out),
		cmocka_unit_test(any_changed_byte_of_an_id_is_found),
		cmocka_unit_test(a_host_text_takes_the_place_of_the_machine),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
