/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_pair.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>

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
	assert_false(wire_tcp.send_idle(p.tx)); /* who leaves now, and polls no more, would leave the peer waiting */
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
		T(one_waits_for_what_can_come),
		T(sleeping_on_wait_fd_never_stalls),
		T(the_sockets_become_fit_for_data),
		T(unix_and_ipv6_peers_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
