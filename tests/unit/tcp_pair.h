/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a TCP connection in one thread, for its tests; or a receiver alone, whose peer's bytes
 * the test writes. An err or warn line that the test does not take off `loud` fails it. */
#ifndef TCP_PAIR_H
#define TCP_PAIR_H

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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

static inline void count_loud(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	(void)line;
	(void)ctx;
	loud += level == LOG_ERR || level == LOG_WARN;
}

static inline int setup(void **state)
{
	(void)state;
	loud = 0;
	log_set_sink(count_loud, NULL);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	return loud;
}

static inline void fds_of(int fd[2], enum kind kind)
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
static inline void small_buffers(const int fd[2], enum kind kind)
{
	int bytes = kind == UNIX ? 1 : 128 << 10;

	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

static inline void config_of(struct config *cfg, int sockets, int slots)
{
	assert_int_equal(config_defaults(cfg), TAUT_OK);
	cfg->slot_bytes = SLOT;
	cfg->sockets = sockets;
	cfg->slots = slots;
}

static inline void pair_open(struct pair *p, enum kind kind, int sockets, int slots, bool tiny)
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

static inline void pair_close(struct pair *p)
{
	wire_tcp.close(p->tx);
	wire_tcp.close(p->rx);
	config_cleanup(&p->cfg);
}

/* A receiver alone, whose peer's bytes are written by hand to raw[0]. */
static inline void raw_open(struct pair *p, int slots)
{
	struct wire_args from = { .cfg = &p->cfg, .rank = 1, .peer = 0 };

	p->tx = NULL;
	config_of(&p->cfg, 1, slots);
	fds_of(p->raw, UNIX);
	assert_int_equal(wire_tcp.accept(&p->rx, &from, p->raw[1]), TAUT_OK);
}

static inline void raw_write(struct pair *p, const void *bytes, size_t len)
{
	assert_int_equal(write(p->raw[0], bytes, len), len);
}

static inline void raw_head(struct pair *p, const struct tcp_head *h)
{
	unsigned char bytes[TCP_HEAD];

	tcp_head_put(bytes, h);
	raw_write(p, bytes, sizeof(bytes));
}

static inline unsigned char pattern(unsigned message, size_t at)
{
	return (unsigned char)(message * 131 + at * 7 + (at >> 8) * 3 + (at >> 16));
}

static inline void fill(unsigned char *buf, size_t len, unsigned message)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = pattern(message, i);
}

static inline void check(const unsigned char *buf, size_t len, unsigned message)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != pattern(message, i))
			fail_msg("message %u of %zu bytes differs at byte %zu", message, len, i);
}

static inline enum wire_result recv_until(struct pair *p, void *buf, size_t len, uint32_t sig)
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

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
