/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "wire/tcp.h"

#define SIG 0xabcd1234u
#define SLOT ((size_t)256 << 10)

enum kind { UNIX, LOOPBACK };

struct pair {
	struct config cfg;
	struct wire_conn *tx, *rx;
	int raw[2]; /* sender's and receiver's first socket; owned by tx and rx where those are made */
};

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
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	return loud;
}

static void fds_of(int fd[2], enum kind kind)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l;

	if (kind == UNIX) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		return;
	}
	l = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd[0], (struct sockaddr *)&a, sizeof(a)), 0);
	fd[1] = accept(l, NULL, NULL);
	assert_true(fd[1] >= 0);
	close(l);
}

/* Small enough that long messages are sent in many pieces. Over TCP not smaller, and not at the
 * receiver: where a window or a buffer is less than a few segments (of 64 KiB on loopback), timers run the show. */
static void small_buffers(const int fd[2], enum kind kind)
{
	int bytes = kind == UNIX ? 1 : 128 << 10;

	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

static void config_of(struct config *cfg, int sockets, int slots)
{
	assert_int_equal(config_defaults(cfg), TAUT_OK);
	cfg->slot_bytes = SLOT;
	cfg->sockets = sockets;
	cfg->slots = slots;
}

static void pair_open(struct pair *p, enum kind kind, int sockets, int slots, bool tiny)
{
	struct wire_args to = { .cfg = &p->cfg, .rank = 0, .peer = 1 }, from = { .cfg = &p->cfg, .rank = 1, .peer = 0 };

	config_of(&p->cfg, sockets, slots);
	for (int i = 0; i < sockets; i++) {
		int fd[2];

		fds_of(fd, kind);
		if (tiny)
			small_buffers(fd, kind);
		if (i == 0) {
			memcpy(p->raw, fd, sizeof(fd));
			assert_int_equal(wire_tcp.connect(&p->tx, &to, fd[0]), TAUT_OK);
			assert_int_equal(wire_tcp.accept(&p->rx, &from, fd[1]), TAUT_OK);
		} else {
			assert_int_equal(wire_tcp.add_socket(p->tx, i, fd[0]), TAUT_OK);
			assert_int_equal(wire_tcp.add_socket(p->rx, i, fd[1]), TAUT_OK);
		}
	}
}

static void pair_close(struct pair *p)
{
	wire_tcp.close(p->tx);
	wire_tcp.close(p->rx);
	config_cleanup(&p->cfg);
}

/* A receiver alone, whose peer's bytes are written by hand to raw[0]. */
static void raw_open(struct pair *p, int slots)
{
	struct wire_args from = { .cfg = &p->cfg, .rank = 1, .peer = 0 };

	p->tx = NULL;
	config_of(&p->cfg, 1, slots);
	fds_of(p->raw, UNIX);
	assert_int_equal(wire_tcp.accept(&p->rx, &from, p->raw[1]), TAUT_OK);
}

static void raw_write(struct pair *p, const void *bytes, size_t len)
{
	assert_int_equal(write(p->raw[0], bytes, len), len);
}

static void raw_head(struct pair *p, const struct tcp_head *h)
{
	unsigned char bytes[TCP_HEAD];

	tcp_head_put(bytes, h);
	raw_write(p, bytes, sizeof(bytes));
}

static unsigned char pattern(unsigned message, size_t at)
{
	return (unsigned char)(message * 131 + at * 7 + (at >> 8) * 3 + (at >> 16));
}

static void fill(unsigned char *buf, size_t len, unsigned message)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = pattern(message, i);
}

static void check(const unsigned char *buf, size_t len, unsigned message)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != pattern(message, i))
			fail_msg("message %u of %zu bytes differs at byte %zu", message, len, i);
}

static enum wire_result recv_until(struct pair *p, void *buf, size_t len, uint32_t sig)
{
	enum wire_result r;

	do {
		if (p->tx)
			wire_tcp.poll(p->tx);
		r = wire_tcp.recv(p->rx, buf, len, sig);
		wire_tcp.poll(p->rx);
	} while (r == WIRE_AGAIN);
	return r;
}

/* Sends one message each way of sending, and receives each way of receiving. */
static void round_trip(struct pair *p, size_t len, unsigned char *a, unsigned char *b, unsigned *n)
{
	for (int way = 0; way < 6; way++, (*n)++) {
		const void *got = b;
		enum wire_result r;

		memset(b, 0xee, len);
		fill(a, len, *n);
		if (way % 3 == 0) {
			assert_int_equal(wire_tcp.send(p->tx, a, len, SIG + *n), WIRE_DONE);
		} else if (way % 3 == 1 && len <= p->tx->ll_max) {
			assert_int_equal(wire_tcp.send_ll(p->tx, a, len, SIG + *n), WIRE_DONE);
			memset(a, 0x55, len); /* must be free at once */
		} else {
			void *slot = wire_tcp.send_ptr(p->tx);

			assert_non_null(slot);
			memcpy(slot, a, len);
			wire_tcp.send_commit(p->tx, len, SIG + *n);
		}
		if (way < 3) {
			r = recv_until(p, b, len, SIG + *n);
		} else {
			do {
				wire_tcp.poll(p->tx);
				r = wire_tcp.recv_ptr(p->rx, &got, len, SIG + *n);
				wire_tcp.poll(p->rx);
			} while (r == WIRE_AGAIN);
		}
		assert_int_equal(r, WIRE_DONE);
		assert_non_null(got);
		check(got, len, *n);
		if (way >= 3)
			wire_tcp.recv_done(p->rx);
		assert_true(wire_tcp.send_idle(p->tx));
	}
}

static void all_sizes(enum kind kind, int sockets, bool tiny)
{
	static const size_t sizes[] = { 0,     1,     2,     3,	    15,	    16,	    17,	       63,	 64,
					65,    4095,  8191,  8192,  8193,   16367,  16384,     16385,	 32767,
					65520, 65536, 65537, 98303, 131071, 131072, SLOT - 65, SLOT - 1, SLOT };
	unsigned char *a = malloc(SLOT), *b = malloc(SLOT);
	unsigned n = 0;
	struct pair p;

	pair_open(&p, kind, sockets, 2, tiny);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		round_trip(&p, sizes[i], a, b, &n);
	pair_close(&p);
	free(a);
	free(b);
}

static void every_size_arrives_over_a_unix_socket(void **state)
{
	(void)state;
	all_sizes(UNIX, 1, false);
	all_sizes(UNIX, 1, true);
}

static void every_size_arrives_over_tcp(void **state)
{
	(void)state;
	all_sizes(LOOPBACK, 1, false);
	all_sizes(LOOPBACK, 1, true);
}

static void every_size_arrives_over_several_sockets(void **state)
{
	(void)state;
	for (int sockets = 2; sockets <= 5; sockets++)
		all_sizes(UNIX, sockets, sockets % 2);
	all_sizes(LOOPBACK, 3, false);
	all_sizes(LOOPBACK, 16, false);
}

static void limits_are_those_of_the_settings(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, UNIX, 1, 2, false);
	assert_int_equal(p.tx->slot_bytes, SLOT);
	assert_int_equal(p.rx->slot_bytes, SLOT);
	assert_int_equal(p.tx->ll_max, TCP_LL);
	assert_int_equal(p.tx->peer, 1);
	assert_int_equal(p.rx->peer, 0);
	assert_false(p.tx->mapped || p.rx->mapped || p.tx->broken || p.rx->broken);
	pair_close(&p);
}

/* The promise that makes sends by reference free of deadlock. */
static void as_many_messages_as_slots_leave_without_a_recv(void **state)
{
	unsigned char *a = malloc(8 * SLOT), *b = malloc(SLOT);

	(void)state;
	for (int sockets = 1; sockets <= 3; sockets++) {
		struct pair p;

		pair_open(&p, UNIX, sockets, 4, true);
		for (unsigned i = 0; i < 8; i++) {
			fill(a + i * SLOT, SLOT, i);
			assert_int_equal(wire_tcp.send(p.tx, a + i * SLOT, SLOT, SIG), WIRE_DONE);
		}
		for (int i = 0; i < 20000; i++) {
			wire_tcp.poll(p.tx);
			wire_tcp.poll(p.rx);
		}
		/* 4 are in the window; the buffers are small, so the rest is not idle. */
		assert_true(tcp_tx_of(p.tx)->head >= 4);
		assert_false(wire_tcp.send_idle(p.tx));
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(recv_until(&p, b, SLOT, SIG), WIRE_DONE);
			check(b, SLOT, i);
		}
		assert_true(wire_tcp.send_idle(p.tx));
		pair_close(&p);
	}
	free(a);
	free(b);
}

static void a_full_queue_says_again(void **state)
{
	unsigned char *a = calloc(1, SLOT);
	struct pair p;
	int n = 0;

	(void)state;
	pair_open(&p, UNIX, 1, 2, true);
	while (wire_tcp.send(p.tx, a, SLOT, SIG) == WIRE_DONE)
		n++;
	assert_in_range(n, TCP_QUEUE, TCP_QUEUE + 1);
	assert_int_equal(wire_tcp.send_ll(p.tx, a, 1, SIG), WIRE_AGAIN);
	assert_null(wire_tcp.send_ptr(p.tx));
	assert_false(p.tx->broken);
	for (int i = 0; i < n; i++)
		assert_int_equal(recv_until(&p, a, SLOT, SIG), WIRE_DONE);
	assert_int_equal(wire_tcp.recv(p.rx, a, SLOT, SIG), WIRE_AGAIN);
	pair_close(&p);
	free(a);
}

static void slots_to_compose_in_are_limited(void **state)
{
	unsigned char *b = malloc(SLOT);
	struct pair p;
	void *slot;
	unsigned n = 0;

	(void)state;
	pair_open(&p, UNIX, 1, 2, true);
	while ((slot = wire_tcp.send_ptr(p.tx))) {
		assert_ptr_equal(slot, wire_tcp.send_ptr(p.tx));
		fill(slot, SLOT, n++);
		wire_tcp.send_commit(p.tx, SLOT, SIG);
	}
	assert_int_equal(n, 2);
	assert_true(wire_tcp.send_idle(p.tx)); /* no buffer of the caller is in use */
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(recv_until(&p, b, SLOT, SIG), WIRE_DONE);
		check(b, SLOT, i);
	}
	assert_non_null(wire_tcp.send_ptr(p.tx));
	pair_close(&p);
	free(b);
}

static void one_byte_at_a_time_makes_the_same_messages(void **state)
{
	static const size_t sizes[] = { 5, 0, 20000, 1, 300 };
	static unsigned char bytes[20000], got[20000];
	struct pair p;

	(void)state;
	raw_open(&p, 2);
	for (unsigned m = 0; m < 5; m++) {
		struct tcp_head h = { .parts = 1, .len = (uint32_t)sizes[m], .sig = SIG, .seq = m };
		unsigned char head[TCP_HEAD];
		const void *ptr;

		tcp_head_put(head, &h);
		fill(bytes, sizes[m], m);
		for (size_t i = 0; i < TCP_HEAD + sizes[m]; i++) {
			if (m % 2)
				assert_int_equal(wire_tcp.recv_ptr(p.rx, &ptr, sizes[m], SIG), WIRE_AGAIN);
			else if (i >= TCP_HEAD + sizes[m] / 2) /* the first half goes to a slot */
				assert_int_equal(wire_tcp.recv(p.rx, got, sizes[m], SIG), WIRE_AGAIN);
			raw_write(&p, i < TCP_HEAD ? &head[i] : &bytes[i - TCP_HEAD], 1);
			wire_tcp.poll(p.rx);
		}
		if (m % 2) {
			assert_int_equal(wire_tcp.recv_ptr(p.rx, &ptr, sizes[m], SIG), WIRE_DONE);
			check(ptr, sizes[m], m);
			wire_tcp.recv_done(p.rx);
		} else {
			assert_int_equal(wire_tcp.recv(p.rx, got, sizes[m], SIG), WIRE_DONE);
			check(got, sizes[m], m);
		}
	}
	close(p.raw[0]);
	pair_close(&p);
}

static void many_messages_in_one_read_stay_apart(void **state)
{
	struct pair p;
	unsigned char a[300], b[300];

	(void)state;
	pair_open(&p, UNIX, 1, 2, false);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned m = 0; m < 100; m++) {
			fill(a, m, m);
			assert_int_equal(wire_tcp.send_ll(p.tx, a, m, m), WIRE_DONE);
		}
		for (unsigned m = 0; m < 100; m++) {
			assert_int_equal(recv_until(&p, b, m, m), WIRE_DONE);
			check(b, m, m);
		}
	}
	pair_close(&p);
}

static unsigned long rng = 1;

static unsigned draw(unsigned below)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(rng >> 33) % below;
}

static size_t draw_size(void)
{
	switch (draw(4)) {
	case 0:
		return draw(65);
	case 1:
		return draw(TCP_LL + 1);
	case 2:
		return draw(70000);
	default:
		return draw((unsigned)SLOT + 1);
	}
}

/* Messages of a run: sizes and ways are drawn at the sender and looked up at the receiver. */
enum { RUN = 400 };
struct run {
	struct pair p;
	size_t sizes[RUN];
	unsigned char *bufs[RUN]; /* by reference: alive until idle */
	unsigned sent, got;
	unsigned char *dst;
};

static void run_send(struct run *r)
{
	size_t len = r->sizes[r->sent];
	unsigned char *buf = r->bufs[r->sent];
	enum wire_result res = WIRE_AGAIN;
	void *slot;

	switch (draw(3)) {
	case 0:
		res = wire_tcp.send(r->p.tx, buf, len, r->sent);
		break;
	case 1:
		if (len <= r->p.tx->ll_max)
			res = wire_tcp.send_ll(r->p.tx, buf, len, r->sent);
		if (res == WIRE_DONE)
			memset(buf, 0, len);
		break;
	default:
		slot = wire_tcp.send_ptr(r->p.tx);
		if (!slot)
			break;
		memcpy(slot, buf, len);
		wire_tcp.send_commit(r->p.tx, len, r->sent);
		res = WIRE_DONE;
	}
	assert_in_range(res, WIRE_AGAIN, WIRE_DONE);
	r->sent += res == WIRE_DONE;
}

static void run_recv(struct run *r)
{
	size_t len = r->sizes[r->got], peeked;
	const void *ptr = r->dst;
	enum wire_result res;
	uint32_t sig;

	if (draw(2) && !tcp_rx_of(r->p.rx)->wanted && wire_tcp.recv_peek(r->p.rx, &peeked, &sig) == WIRE_DONE) {
		assert_int_equal(peeked, len);
		assert_int_equal(sig, r->got);
	}
	if (tcp_rx_of(r->p.rx)->wanted || draw(2)) {
		res = wire_tcp.recv(r->p.rx, r->dst, len, r->got);
	} else {
		res = wire_tcp.recv_ptr(r->p.rx, &ptr, len, r->got);
		if (res == WIRE_DONE)
			memcpy(r->dst, ptr, len);
		if (res == WIRE_DONE)
			wire_tcp.recv_done(r->p.rx);
	}
	assert_in_range(res, WIRE_AGAIN, WIRE_DONE);
	if (res != WIRE_DONE)
		return;
	check(r->dst, len, r->got);
	r->got++;
}

static void random_run(enum kind kind, int sockets, int slots, bool tiny, unsigned long seed)
{
	struct run r = { .dst = malloc(SLOT) };

	rng = seed;
	pair_open(&r.p, kind, sockets, slots, tiny);
	for (unsigned i = 0; i < RUN; i++) {
		r.sizes[i] = draw_size();
		r.bufs[i] = malloc(r.sizes[i] + 1);
		fill(r.bufs[i], r.sizes[i], i);
	}
	while (r.got < RUN) {
		switch (draw(4)) {
		case 0:
			if (r.sent < RUN)
				run_send(&r);
			break;
		case 1:
			run_recv(&r);
			break;
		case 2:
			wire_tcp.poll(r.p.tx);
			break;
		default:
			wire_tcp.poll(r.p.rx);
		}
	}
	assert_true(wire_tcp.send_idle(r.p.tx));
	pair_close(&r.p);
	for (unsigned i = 0; i < RUN; i++)
		free(r.bufs[i]);
	free(r.dst);
}

static void random_orders_of_calls_lose_nothing(void **state)
{
	(void)state;
	random_run(UNIX, 1, 1, false, 1);
	random_run(UNIX, 1, 2, true, 2);
	random_run(UNIX, 3, 1, true, 3);
	random_run(UNIX, 4, 5, false, 4);
	random_run(LOOPBACK, 1, 2, false, 5);
	random_run(LOOPBACK, 4, 2, false, 6);
}

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

static void one_waits_for_what_can_come(void **state)
{
	unsigned char *a = calloc(1, SLOT);
	struct pair p;
	short events;

	(void)state;
	pair_open(&p, UNIX, 1, 2, true);
	assert_int_equal(wire_tcp.wait_fd(p.tx, &events), -1);
	assert_int_equal(wire_tcp.wait_fd(p.rx, &events), p.raw[1]);
	assert_int_equal(events, POLLIN);
	for (int i = 0; i < 4; i++)
		assert_int_equal(wire_tcp.send(p.tx, a, SLOT, SIG), WIRE_DONE);
	assert_int_equal(wire_tcp.wait_fd(p.tx, &events), p.raw[0]);
	assert_int_equal(events, POLLOUT);
	for (int i = 0; i < 20000; i++) {
		wire_tcp.poll(p.tx);
		wire_tcp.poll(p.rx);
	}
	/* Both slots are full: more cannot be taken, and to wait for it would return at once. */
	assert_int_equal(wire_tcp.wait_fd(p.rx, &events), -1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(recv_until(&p, a, SLOT, SIG), WIRE_DONE);
	assert_int_equal(wire_tcp.wait_fd(p.tx, &events), -1);
	wire_tcp.close(p.tx);
	p.tx = NULL;
	wire_tcp.poll(p.rx);
	wire_tcp.poll(p.rx);
	assert_int_equal(wire_tcp.wait_fd(p.rx, &events), -1);
	pair_close(&p);
	free(a);
}

/* Both ends sleep on what wait_fd() says whenever nothing moves; a wrong choice shows as a time-out. */
static void sleeping_on_wait_fd_never_stalls(void **state)
{
	unsigned char *a = malloc(SLOT), *b = malloc(SLOT);

	(void)state;
	fill(a, SLOT, 7);
	for (int sockets = 1; sockets <= 4; sockets++) {
		struct pair p;
		int sent = 0, got = 0;

		pair_open(&p, LOOPBACK, sockets, 2, true);
		while (got < 60) {
			struct pollfd fds[2] = { 0 };
			size_t len = got % 3 ? SLOT : 100;
			enum wire_result r = wire_tcp.recv(p.rx, b, len, SIG);

			assert_in_range(r, WIRE_AGAIN, WIRE_DONE);
			if (r == WIRE_DONE)
				check(b, len, 7);
			got += r == WIRE_DONE;
			while (sent < 60 && wire_tcp.send(p.tx, a, sent % 3 ? SLOT : 100, SIG) == WIRE_DONE)
				sent++;
			if (r == WIRE_DONE || wire_tcp.poll(p.tx) || wire_tcp.poll(p.rx))
				continue;
			fds[0].fd = wire_tcp.wait_fd(p.tx, &fds[0].events);
			fds[1].fd = wire_tcp.wait_fd(p.rx, &fds[1].events);
			assert_true(poll(fds, 2, 20000) > 0);
		}
		pair_close(&p);
	}
	free(a);
	free(b);
}

static void the_sockets_become_fit_for_data(void **state)
{
	char name[16] = "";
	socklen_t len = sizeof(name);
	int v = 0;
	socklen_t vlen = sizeof(v);
	struct pair p;

	(void)state;
	pair_open(&p, LOOPBACK, 1, 2, false);
	assert_int_equal(getsockopt(p.raw[0], IPPROTO_TCP, TCP_NODELAY, &v, &vlen), 0);
	assert_true(v);
	assert_true(fcntl(p.raw[0], F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(p.raw[1], F_GETFL) & O_NONBLOCK);
	assert_int_equal(getsockopt(p.raw[0], IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	assert_true(strcmp(name, "cubic") == 0 || strcmp(name, "reno") == 0);
	pair_close(&p);
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

static void unix_and_ipv6_peers_have_names(void **state)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct wire_conn *c;
	struct config cfg;
	struct wire_args args = { .cfg = &cfg, .peer = 1 };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET6, SOCK_STREAM, 0), fd;

	(void)state;
	if (l < 0 || bind(l, (struct sockaddr *)&a, sizeof(a)))
		skip(); /* no IPv6 here */
	config_of(&cfg, 1, 2);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(wire_tcp.connect(&c, &args, fd), TAUT_OK);
	assert_non_null(strstr(tcp_tx_of(c)->conn.where, "tcp to rank 1 at [::1]:"));
	wire_tcp.close(c);
	wire_tcp.close(NULL);
	close(l);
	config_cleanup(&cfg);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(limits_are_those_of_the_settings),
		T(every_size_arrives_over_a_unix_socket),
		T(every_size_arrives_over_tcp),
		T(every_size_arrives_over_several_sockets),
		T(as_many_messages_as_slots_leave_without_a_recv),
		T(a_full_queue_says_again),
		T(slots_to_compose_in_are_limited),
		T(one_byte_at_a_time_makes_the_same_messages),
		T(many_messages_in_one_read_stay_apart),
		T(random_orders_of_calls_lose_nothing),
		T(another_signature_or_length_is_a_mismatch_and_stays),
		T(what_was_sent_before_the_end_arrives),
		T(the_end_of_one_socket_does_not_lose_what_another_brings),
		T(a_message_cut_by_the_end_is_broken),
		T(garbage_for_a_header_is_broken),
		T(no_magic_number_is_broken_after_the_messages_before_it),
		T(a_closed_receiver_breaks_the_sender),
		T(one_waits_for_what_can_come),
		T(sleeping_on_wait_fd_never_stalls),
		T(the_sockets_become_fit_for_data),
		T(a_congestion_control_that_is_not_there_is_an_error),
		T(sockets_come_in_order_and_number),
		T(no_memory_is_said_and_leaks_nothing),
		T(no_memory_for_a_slot_breaks_the_connection),
		T(unix_and_ipv6_peers_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
