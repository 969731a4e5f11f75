/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "wire/fault.h"

#define SIG 77u

static int loud; /* err and warn lines */

static void count_loud(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	(void)line;
	(void)ctx;
	loud += level == LOG_ERR || level == LOG_WARN;
}

static int setup(void **state)
{
	(void)state;
	loud = 0;
	log_set_sink(count_loud, NULL);
	fault_reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	return loud;
}

/* A TCP connection over a socket pair, both ends of which misbehave. */
struct pair {
	struct config cfg;
	struct wire_conn *tx, *rx;
};

static void pair_open_on(struct pair *p, const char *tx_fault, const char *rx_fault)
{
	struct wire_args to = { .cfg = &p->cfg, .rank = 0, .peer = 1 }, from = { .cfg = &p->cfg, .rank = 1, .peer = 0 };
	int fd[2];

	assert_int_equal(config_defaults(&p->cfg), TAUT_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_int_equal(wire_tcp.connect(&p->tx, &to, fd[0]), TAUT_OK);
	assert_int_equal(wire_tcp.accept(&p->rx, &from, fd[1]), TAUT_OK);
	assert_int_equal(config_set(&p->cfg, "TAUT_FAULT", tx_fault), TAUT_OK);
	assert_int_equal(fault_wrap(&p->tx, &p->cfg), TAUT_OK);
	assert_int_equal(config_set(&p->cfg, "TAUT_FAULT", rx_fault), TAUT_OK);
	assert_int_equal(fault_wrap(&p->rx, &p->cfg), TAUT_OK);
}

static void pair_close(struct pair *p)
{
	p->tx->ops->close(p->tx);
	p->rx->ops->close(p->rx);
	config_cleanup(&p->cfg);
}

static enum wire_result send_until(struct wire_conn *c, const void *buf, size_t len)
{
	enum wire_result r;

	while ((r = c->ops->send(c, buf, len, SIG)) == WIRE_AGAIN)
		c->ops->poll(c);
	return r;
}

static enum wire_result recv_until(struct wire_conn *c, void *buf, size_t len)
{
	enum wire_result r;

	while ((r = c->ops->recv(c, buf, len, SIG)) == WIRE_AGAIN)
		c->ops->poll(c);
	return r;
}

static void no_fault_wraps_nothing(void **state)
{
	struct pair p;

	(void)state;
	pair_open_on(&p, "", "");
	assert_ptr_equal(p.tx->ops, &wire_tcp);
	assert_ptr_equal(p.rx->ops, &wire_tcp);
	pair_close(&p);
}

static void limits_and_name_are_those_of_the_inner_wire(void **state)
{
	struct pair p;

	(void)state;
	pair_open_on(&p, "fail:1000000", "");
	assert_ptr_not_equal(p.tx->ops, &wire_tcp);
	assert_string_equal(p.tx->ops->name, "tcp");
	assert_int_equal(p.tx->slot_bytes, p.rx->slot_bytes);
	assert_int_equal(p.tx->ll_max, p.rx->ll_max);
	assert_int_equal(p.tx->peer, 1);
	pair_close(&p);
}

static void fail_breaks_the_nth_message_for_good(void **state)
{
	struct pair p;
	char b[8];

	(void)state;
	pair_open_on(&p, "fail:3", "");
	assert_int_equal(send_until(p.tx, "a", 2), WIRE_DONE);
	assert_int_equal(p.tx->ops->send_ll(p.tx, "b", 2, SIG), WIRE_DONE);
	assert_false(p.tx->broken);
	assert_int_equal(send_until(p.tx, "c", 2), WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "message 3"));
	assert_true(p.tx->broken);
	assert_int_equal(send_until(p.tx, "d", 2), WIRE_BROKEN);
	assert_int_equal(p.tx->ops->send_ll(p.tx, "d", 2, SIG), WIRE_BROKEN);
	assert_null(p.tx->ops->send_ptr(p.tx));
	assert_true(p.tx->ops->send_idle(p.tx));
	assert_false(p.tx->ops->poll(p.tx));
	assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	pair_close(&p);
}

static void fail_strikes_composed_and_received_messages_too(void **state)
{
	struct pair p;
	const void *ptr;
	char b[8];

	(void)state;
	pair_open_on(&p, "fail:2", "");
	for (int i = 0; i < 2; i++) {
		char *slot = p.tx->ops->send_ptr(p.tx);

		assert_non_null(slot);
		memcpy(slot, "x", 2);
		p.tx->ops->send_commit(p.tx, 2, SIG);
		assert_int_equal(p.tx->broken, i == 1);
	}
	assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	assert_int_equal(p.rx->ops->recv(p.rx, b, 2, SIG), WIRE_AGAIN); /* the second never left */
	pair_close(&p);

	fault_reset();
	pair_open_on(&p, "", "fail:3");
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.tx->ops->send_ll(p.tx, "x", 2, SIG), WIRE_DONE);
	assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	assert_int_equal(p.rx->ops->recv_ptr(p.rx, &ptr, 2, SIG), WIRE_DONE);
	assert_int_equal(p.rx->ops->recv_ptr(p.rx, &ptr, 2, SIG), WIRE_DONE); /* the same message, counted once */
	p.rx->ops->recv_done(p.rx);
	assert_int_equal(p.rx->ops->recv_ll(p.rx, b, 2, SIG), WIRE_BROKEN);
	assert_int_equal(p.rx->ops->recv_ptr(p.rx, &ptr, 2, SIG), WIRE_BROKEN);
	pair_close(&p);
}

static void messages_are_counted_over_all_connections(void **state)
{
	struct pair p, q;

	(void)state;
	pair_open_on(&p, "fail:4", "");
	pair_open_on(&q, "fail:4", "");
	for (int i = 0; i < 3; i++)
		assert_int_equal(send_until(i % 2 ? p.tx : q.tx, "x", 2), WIRE_DONE);
	assert_int_equal(send_until(p.tx, "x", 2), WIRE_BROKEN);
	assert_int_equal(send_until(q.tx, "x", 2), WIRE_DONE);
	assert_false(q.tx->broken);
	pair_close(&p);
	pair_close(&q);
}

static void truncate_makes_the_nth_received_message_a_mismatch(void **state)
{
	struct pair p;
	const void *ptr;
	uint32_t sig;
	size_t len;
	char b[10];

	(void)state;
	for (int way = 0; way < 2; way++) {
		fault_reset();
		pair_open_on(&p, "", "truncate:2");
		assert_int_equal(p.tx->ops->send_ll(p.tx, "abcdefghi", 10, SIG), WIRE_DONE);
		assert_int_equal(p.tx->ops->send_ll(p.tx, "abcdefghi", 10, SIG), WIRE_DONE);
		assert_int_equal(recv_until(p.rx, b, 10), WIRE_DONE);
		assert_int_equal(p.rx->ops->recv_peek(p.rx, &len, &sig), WIRE_DONE);
		assert_int_equal(len, 10);
		assert_int_equal(way ? recv_until(p.rx, b, 10) : p.rx->ops->recv_ptr(p.rx, &ptr, 10, SIG),
				 WIRE_MISMATCH);
		assert_int_equal(recv_until(p.rx, b, 10), WIRE_MISMATCH);
		assert_int_equal(p.rx->ops->recv_peek(p.rx, &len, &sig), WIRE_DONE);
		assert_int_equal(len, 5);
		assert_int_equal(sig, SIG);
		assert_false(p.rx->broken);
		pair_close(&p);
	}
}

static void delay_holds_messages_back_for_its_time(void **state)
{
	struct pair p;
	uint64_t t = now_ns();
	char b[2];

	(void)state;
	pair_open_on(&p, "delay:2000:100", "");
	for (int i = 0; i < 5; i++) {
		assert_int_equal(p.tx->ops->send(p.tx, "x", 2, SIG), WIRE_AGAIN);
		assert_int_equal(send_until(p.tx, "x", 2), WIRE_DONE);
		assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	}
	assert_true(now_ns() - t >= 10000000);
	pair_close(&p);
}

static int delayed_of(int n, const char *spec)
{
	struct pair p;
	int delayed = 0;
	char b[2];

	fault_reset();
	pair_open_on(&p, spec, "");
	for (int i = 0; i < n; i++) {
		enum wire_result r = p.tx->ops->send_ll(p.tx, "x", 2, SIG);

		delayed += r == WIRE_AGAIN;
		while (r == WIRE_AGAIN)
			r = p.tx->ops->send_ll(p.tx, "x", 2, SIG);
		assert_int_equal(r, WIRE_DONE);
		assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	}
	pair_close(&p);
	return delayed;
}

static void delay_strikes_its_share_of_the_messages(void **state)
{
	int few = delayed_of(500, "delay:100"), many = delayed_of(500, "delay:100:60");

	(void)state;
	assert_in_range(few, 20, 90);
	assert_in_range(many, 250, 350);
}

/* What shuffle answers to @n sends, one bit each. */
static void shuffle_trace(unsigned char *out, int n, const char *spec)
{
	struct pair p;
	char b[2];

	fault_reset();
	pair_open_on(&p, spec, "");
	for (int i = 0; i < n; i++) {
		out[i] = p.tx->ops->send_ll(p.tx, "x", 2, SIG) == WIRE_DONE;
		if (out[i])
			assert_int_equal(recv_until(p.rx, b, 2), WIRE_DONE);
	}
	pair_close(&p);
}

static void shuffle_follows_from_its_seed(void **state)
{
	unsigned char a[200], b[200], c[200];
	int done = 0;

	(void)state;
	shuffle_trace(a, 200, "shuffle:5");
	shuffle_trace(b, 200, "shuffle:5");
	shuffle_trace(c, 200, "shuffle:6");
	assert_memory_equal(a, b, 200);
	assert_memory_not_equal(a, c, 200);
	for (int i = 0; i < 200; i++)
		done += a[i];
	assert_in_range(done, 60, 140);
}

static void shuffle_loses_and_reorders_nothing(void **state)
{
	struct pair p;
	unsigned sent = 0, got = 0;
	unsigned values[1000], b = 0;

	(void)state;
	pair_open_on(&p, "shuffle:1,delay:10:5", "delay:10,shuffle:2");
	while (got < 1000) {
		if (sent < 1000) {
			values[sent] = sent;
			sent += p.tx->ops->send(p.tx, &values[sent], sizeof(unsigned), SIG) == WIRE_DONE;
		}
		if (p.rx->ops->recv(p.rx, &b, sizeof(b), SIG) == WIRE_DONE)
			assert_int_equal(b, got++);
		p.tx->ops->poll(p.tx);
		p.rx->ops->poll(p.rx);
	}
	while (!p.tx->ops->send_idle(p.tx))
		p.tx->ops->poll(p.tx);
	pair_close(&p);
}

/* Else a sleeper would wait for what is already there. */
static void a_wire_that_says_again_falsely_is_always_ready(void **state)
{
	struct pair p;
	struct pollfd fd = { 0 };

	(void)state;
	pair_open_on(&p, "shuffle:1", "delay:1");
	fd.fd = p.tx->ops->wait_fd(p.tx, &fd.events);
	assert_int_equal(poll(&fd, 1, 0), 1);
	fd.fd = p.rx->ops->wait_fd(p.rx, &fd.events);
	assert_int_equal(poll(&fd, 1, 0), 1);
	pair_close(&p);
	pair_open_on(&p, "fail:9", "truncate:9");
	assert_int_equal(p.tx->ops->wait_fd(p.tx, &fd.events), -1);
	fd.fd = p.rx->ops->wait_fd(p.rx, &fd.events);
	assert_int_equal(poll(&fd, 1, 0), 0);
	pair_close(&p);
}

static void a_broken_inner_wire_shows(void **state)
{
	struct pair p;
	char b[2];

	(void)state;
	pair_open_on(&p, "", "shuffle:3");
	p.tx->ops->close(p.tx);
	assert_int_equal(recv_until(p.rx, b, 2), WIRE_BROKEN);
	assert_non_null(strstr(taut_error_message(), "closed"));
	assert_true(p.rx->broken);
	p.rx->ops->close(p.rx);
	config_cleanup(&p.cfg);
}

/* --- a wire with no optional op --- */
static int closed;

static void bare_close(struct wire_conn *c)
{
	(void)c;
	closed++;
}

static enum wire_result bare_send(struct wire_conn *c, const void *buf, size_t len, uint32_t sig)
{
	(void)c;
	(void)buf;
	(void)len;
	(void)sig;
	return WIRE_DONE;
}

static const struct wire_ops bare = { .name = "bare", .local = true, .close = bare_close, .send = bare_send };

static void what_the_inner_wire_lacks_stays_null(void **state)
{
	struct wire_conn conn = { .ops = &bare, .slot_bytes = 5, .ll_max = 3, .peer = 9, .mapped = true }, *c = &conn;
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_FAULT", "shuffle:1,delay:1,fail:1"), TAUT_OK);
	assert_int_equal(fault_wrap(&c, &cfg), TAUT_OK);
	assert_true(c->ops->local && c->mapped);
	assert_int_equal(c->peer, 9);
	assert_null(c->ops->send_idle);
	assert_null(c->ops->recv_peek);
	assert_null(c->ops->poll);
	assert_null(c->ops->wait_fd);
	assert_null(c->ops->add_socket);
	assert_null(c->ops->send_ll);
	while (c->ops->send(c, NULL, 0, 0) == WIRE_AGAIN)
		continue;
	assert_true(c->broken);
	c->ops->close(c);
	assert_int_equal(closed, 1);
	config_cleanup(&cfg);
}

static void a_bad_setting_is_an_error_with_its_column(void **state)
{
	static const struct {
		const char *text, *column;
	} cases[] = {
		{ "fail", "column 1:" },
		{ "fail:", "column 6:" },
		{ "fail:0", "column 6:" },
		{ "fail:-1", "column 6:" },
		{ "fail:99999999999999999999", "column 6:" },
		{ "fail:1x", "column 7:" },
		{ "fail:1,", "column 8:" },
		{ ",fail:1", "column 1:" },
		{ "fail:1,,fail:2", "column 8:" },
		{ "fail:1,truncate:x", "column 17:" },
		{ "delay:1:0", "column 9:" },
		{ "delay:1:101", "column 9:" },
		{ "delay:1:", "column 9:" },
		{ "delay:2000000000", "column 7:" },
		{ "shuffle:-", "column 9:" },
		{ "explode:1", "column 1:" },
		{ "fail:1 ", "column 7:" },
	};
	struct wire_conn conn = { .ops = &bare }, *c = &conn;
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(config_set(&cfg, "TAUT_FAULT", cases[i].text), TAUT_OK);
		assert_int_equal(fault_wrap(&c, &cfg), TAUT_ERR_CONFIG);
		assert_ptr_equal(c, &conn);
		if (!strstr(taut_error_message(), cases[i].column))
			fail_msg("%s: %s", cases[i].text, taut_error_message());
		loud--;
	}
	config_cleanup(&cfg);
}

static void no_memory_leaves_the_wire_as_it_was(void **state)
{
	struct wire_conn conn = { .ops = &bare }, *c = &conn;
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_FAULT", "fail:1"), TAUT_OK);
	mem_fail_from(1);
	assert_int_equal(fault_wrap(&c, &cfg), TAUT_ERR_NOMEM);
	assert_ptr_equal(c, &conn);
	loud--;
	config_cleanup(&cfg);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(no_fault_wraps_nothing),
		T(limits_and_name_are_those_of_the_inner_wire),
		T(fail_breaks_the_nth_message_for_good),
		T(fail_strikes_composed_and_received_messages_too),
		T(messages_are_counted_over_all_connections),
		T(truncate_makes_the_nth_received_message_a_mismatch),
		T(delay_holds_messages_back_for_its_time),
		T(delay_strikes_its_share_of_the_messages),
		T(shuffle_follows_from_its_seed),
		T(shuffle_loses_and_reorders_nothing),
		T(a_wire_that_says_again_falsely_is_always_ready),
		T(a_broken_inner_wire_shows),
		T(what_the_inner_wire_lacks_stays_null),
		T(a_bad_setting_is_an_error_with_its_column),
		T(no_memory_leaves_the_wire_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
