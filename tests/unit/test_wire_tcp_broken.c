/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_pair.h"

#include <fcntl.h>
#include <stdlib.h>

static void another_signature_or_length_is_a_mismatch_and_stays(void **state)
{
	struct pair p;
	char b[100];
	const void *ptr;
	size_t len;
	uint32_t sig;

	(void)state;
	pair_open(&p, UNIX, 1, 2, false);
	assert_int_equal(wire_tcp.recv_peek(p.rx, &len, &sig), WIRE_AGAIN);
	assert_int_equal(wire_tcp.recv(p.rx, b, 6, SIG), WIRE_AGAIN);
	assert_int_equal(wire_tcp.send(p.tx, "hello", 6, SIG + 1), WIRE_DONE);
	memset(b, 'x', sizeof(b));
	assert_int_equal(wire_tcp.recv(p.rx, b, 6, SIG), WIRE_MISMATCH);
	assert_int_equal(wire_tcp.recv(p.rx, b, 5, SIG + 1), WIRE_MISMATCH);
	assert_int_equal(wire_tcp.recv_ll(p.rx, b, 7, SIG + 1), WIRE_MISMATCH);
	assert_int_equal(wire_tcp.recv_ptr(p.rx, &ptr, 7, SIG + 1), WIRE_MISMATCH);
	assert_int_equal(b[0], 'x');
	assert_int_equal(wire_tcp.recv_peek(p.rx, &len, &sig), WIRE_DONE);
	assert_int_equal(len, 6);
	assert_int_equal(sig, SIG + 1);
	assert_int_equal(wire_tcp.recv(p.rx, b, 6, SIG + 1), WIRE_DONE);
	assert_string_equal(b, "hello");
	pair_close(&p);
}

static void what_was_sent_before_the_end_arrives(void **state)
{
	struct pair p;
	char b[8];

	(void)state;
	pair_open(&p, LOOPBACK, 1, 2, false);
	for (int i = 0; i < 5; i++)
		assert_int_equal(wire_tcp.send_ll(p.tx, "hello", 6, SIG), WIRE_DONE);
	wire_tcp.close(p.tx);
	p.tx = NULL;
	for (int i = 0; i < 5; i++)
		assert_int_equal(recv_until(&p, b, 6, SIG), WIRE_DONE);
	assert_int_equal(recv_until(&p, b, 6, SIG), WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "tcp from rank 0 at 127.0.0.1:"));
	assert_non_null(strstr(taut_error_message(), "closed"));
	assert_true(p.rx->broken);
	assert_int_equal(wire_tcp.recv(p.rx, b, 6, SIG), WIRE_BROKEN);
	assert_false(wire_tcp.poll(p.rx));
	pair_close(&p);
}

/* On several sockets the end of one may be seen before the last message on another. */
static void the_end_of_one_socket_does_not_lose_what_another_brings(void **state)
{
	struct pair p;
	unsigned char *a = malloc(SLOT), *b = malloc(SLOT);

	(void)state;
	pair_open(&p, UNIX, 3, 2, false);
	assert_int_equal(wire_tcp.send_ll(p.tx, "a", 1, SIG), WIRE_DONE);
	shutdown(tcp_tx_of(p.tx)->socks[2].fd, SHUT_WR);
	wire_tcp.poll(p.rx);
	assert_int_equal(wire_tcp.send_ll(p.tx, "b", 1, SIG), WIRE_DONE);
	assert_int_equal(recv_until(&p, b, 1, SIG), WIRE_DONE);
	assert_int_equal(recv_until(&p, b, 1, SIG), WIRE_DONE);
	assert_int_equal(b[0], 'b');
	assert_int_equal(wire_tcp.recv(p.rx, b, 1, SIG), WIRE_AGAIN);
	wire_tcp.close(p.rx);
	p.rx = NULL;
	fill(a, SLOT, 1);
	assert_int_equal(wire_tcp.send(p.tx, a, SLOT, SIG), WIRE_BROKEN);
	pair_close(&p);
	free(a);
	free(b);
}

static void a_message_cut_by_the_end_is_broken(void **state)
{
	static const size_t cuts[] = { 1, TCP_HEAD - 1, TCP_HEAD, TCP_HEAD + 1, TCP_HEAD + 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		unsigned char bytes[TCP_HEAD + 100] = { 0 }, b[100];
		struct pair p;

		raw_open(&p, 2);
		tcp_head_put(bytes, &(struct tcp_head){ .parts = 1, .len = 100, .sig = SIG });
		raw_write(&p, bytes, cuts[i]);
		assert_int_equal(wire_tcp.recv(p.rx, b, 100, SIG), WIRE_AGAIN);
		close(p.raw[0]);
		assert_int_equal(recv_until(&p, b, 100, SIG), WIRE_BROKEN);
		memset(b, 0x77, sizeof(b)); /* the buffer of the failed call is no longer the wire's */
		assert_int_equal(wire_tcp.recv(p.rx, bytes, 100, SIG), WIRE_BROKEN);
		assert_int_equal(b[0], 0x77);
		assert_int_equal(wire_tcp.recv(p.rx, b, 100, SIG), WIRE_BROKEN);
		pair_close(&p);
	}
}

static void garbage_for_a_header_is_broken(void **state)
{
	static const struct {
		struct tcp_head head;
		const char *word;
	} cases[] = {
		{ { .parts = 1, .len = SLOT + 1, .sig = SIG }, "TAUT_SLOT_BYTES" },
		{ { .parts = 1, .len = UINT32_MAX, .sig = SIG }, "TAUT_SLOT_BYTES" },
		{ { .parts = 0, .len = 1, .sig = SIG }, "TAUT_SOCKETS" },
		{ { .parts = 2, .len = 1, .sig = SIG }, "TAUT_SOCKETS" },
		{ { .parts = 255, .part = 255, .len = 1, .sig = SIG }, "TAUT_SOCKETS" },
		{ { .parts = 1, .part = 1, .len = 1, .sig = SIG }, "TAUT_SOCKETS" },
		{ { .parts = 1, .len = 1, .sig = SIG, .seq = 1 }, "order" },
		{ { .parts = 1, .len = 1, .sig = SIG, .seq = UINT32_MAX }, "order" },
	};
	char b[8];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair p;

		raw_open(&p, 2);
		raw_head(&p, &cases[i].head);
		assert_int_equal(recv_until(&p, b, 1, SIG), WIRE_BROKEN);
		if (!strstr(taut_error_message(), cases[i].word))
			fail_msg("case %zu: %s", i, taut_error_message());
		close(p.raw[0]);
		pair_close(&p);
	}
}

static void no_magic_number_is_broken_after_the_messages_before_it(void **state)
{
	struct pair p;
	char b[8];

	(void)state;
	raw_open(&p, 2);
	raw_head(&p, &(struct tcp_head){ .parts = 1, .len = 3, .sig = SIG });
	raw_write(&p, "abcGET / HTTP/1.1\r\n\r\n", 21);
	wire_tcp.poll(p.rx);
	assert_int_equal(recv_until(&p, b, 3, SIG), WIRE_DONE);
	assert_memory_equal(b, "abc", 3);
	assert_int_equal(recv_until(&p, b, 3, SIG), WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "no header"));
	close(p.raw[0]);
	pair_close(&p);
}

static void a_closed_receiver_breaks_the_sender(void **state)
{
	unsigned char *a = calloc(1, SLOT);
	struct pair p;
	enum wire_result r;

	(void)state;
	pair_open(&p, LOOPBACK, 1, 2, false);
	assert_int_equal(wire_tcp.send(p.tx, a, 10, SIG), WIRE_DONE);
	wire_tcp.close(p.rx);
	p.rx = NULL;
	do {
		r = wire_tcp.send(p.tx, a, SLOT, SIG);
		wire_tcp.poll(p.tx);
	} while (r == WIRE_DONE || r == WIRE_AGAIN);
	assert_int_equal(r, WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "tcp to rank 1 at 127.0.0.1:"));
	assert_true(p.tx->broken);
	assert_null(wire_tcp.send_ptr(p.tx));
	assert_int_equal(wire_tcp.send_ll(p.tx, a, 1, SIG), WIRE_BROKEN);
	assert_true(wire_tcp.send_idle(p.tx));
	assert_false(wire_tcp.poll(p.tx));
	pair_close(&p);
	free(a);
}

static void a_congestion_control_that_is_not_there_is_an_error(void **state)
{
	struct wire_conn *c = NULL;
	struct wire_args args = { .peer = 1 };
	struct config cfg;
	int fd[2];

	(void)state;
	config_of(&cfg, 1, 2);
	args.cfg = &cfg;
	assert_int_equal(config_set(&cfg, "TAUT_TCP_CONGESTION", "nonesuch"), TAUT_OK);
	fds_of(fd, LOOPBACK);
	assert_int_equal(wire_tcp.connect(&c, &args, fd[0]), TAUT_ERR_CONFIG);
	assert_null(c);
	assert_non_null(strstr(taut_error_message(), "nonesuch"));
	assert_int_equal(fcntl(fd[0], F_GETFD), -1);
	assert_int_equal(loud, 1);
	loud = 0;
	close(fd[1]);
	config_cleanup(&cfg);
}

static void sockets_come_in_order_and_number(void **state)
{
	struct pair p;
	int fd[2];

	(void)state;
	pair_open(&p, UNIX, 2, 2, false);
	for (int index = 1; index <= 3; index++) {
		fds_of(fd, UNIX);
		assert_int_equal(wire_tcp.add_socket(p.tx, index, fd[0]), TAUT_ERR_INTERNAL);
		assert_int_equal(fcntl(fd[0], F_GETFD), -1);
		close(fd[1]);
	}
	assert_int_equal(loud, 3);
	loud = 0;
	pair_close(&p);
}

static void no_memory_is_said_and_leaks_nothing(void **state)
{
	struct wire_conn *c = NULL;
	struct config cfg;
	struct wire_args args = { .cfg = &cfg, .peer = 1 };
	enum taut_status st = TAUT_ERR_NOMEM;
	int fd[2];

	(void)state;
	config_of(&cfg, 1, 2);
	for (int n = 1; st; n++) {
		fds_of(fd, UNIX);
		mem_fail_from(n);
		st = n % 2 ? wire_tcp.connect(&c, &args, fd[0]) : wire_tcp.accept(&c, &args, fd[0]);
		mem_fail_from(0);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
		assert_true(!st || fcntl(fd[0], F_GETFD) == -1);
		close(fd[1]);
	}
	wire_tcp.close(c);
	assert_true(loud >= 3);
	loud = 0;
	config_cleanup(&cfg);
}

static void no_memory_for_a_slot_breaks_the_connection(void **state)
{
	struct pair p;
	char a[100] = "x", b[100];
	const void *ptr;

	(void)state;
	pair_open(&p, UNIX, 1, 2, false);
	mem_fail_from(1);
	assert_null(wire_tcp.send_ptr(p.tx));
	assert_true(p.tx->broken);
	mem_fail_from(0);
	pair_close(&p);

	pair_open(&p, UNIX, 1, 2, false);
	assert_int_equal(wire_tcp.send(p.tx, a, 100, SIG), WIRE_DONE);
	mem_fail_from(1);
	assert_int_equal(wire_tcp.recv(p.rx, b, 100, SIG), WIRE_DONE); /* needs no slot */
	assert_int_equal(wire_tcp.send(p.tx, a, 100, SIG), WIRE_DONE);
	assert_int_equal(wire_tcp.recv_ptr(p.rx, &ptr, 100, SIG), WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "memory"));
	mem_fail_from(0);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(another_signature_or_length_is_a_mismatch_and_stays),
		T(what_was_sent_before_the_end_arrives),
		T(the_end_of_one_socket_does_not_lose_what_another_brings),
		T(a_message_cut_by_the_end_is_broken),
		T(garbage_for_a_header_is_broken),
		T(no_magic_number_is_broken_after_the_messages_before_it),
		T(a_closed_receiver_breaks_the_sender),
		T(a_congestion_control_that_is_not_there_is_an_error),
		T(sockets_come_in_order_and_number),
		T(no_memory_is_said_and_leaks_nothing),
		T(no_memory_for_a_slot_breaks_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
