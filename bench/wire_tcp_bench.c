/* SPDX-License-Identifier: Apache-2.0 */
/* What the TCP wire can do on loopback: two pinned processes, each sends S bytes while it receives
 * S bytes (the traffic of a two-rank all-reduce), in pieces of a slot, spinning; and 8 bytes to and
 * fro. Printed: bytes, then best, quartile and median in us. "raw" is a bare loop over one socket for the same traffic:
 * the limit to compare with.
 *
 * Use: wire_tcp_bench [-p piece] [-n slots] [-k sockets] [-c congestion] [-w sndbuf] [-r rcvbuf] [-m wire|raw|both]
 *      [-s max size] [-u: receive into slots] [-1: one socket for both ways] */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "wire/wire.h"

enum { MOST = 4000 };

struct options {
	struct config cfg;
	int sndbuf, rcvbuf;
	const char *mode;
	size_t max;
	bool slots; /* recv_ptr() and a copy in place of recv() */
	bool one;   /* both directions on one socket */
};

struct side {
	struct options *o;
	int me;
	struct wire_conn *tx, *rx;
	int raw; /* one socket, both ways */
	unsigned char *in, *out;
};

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : taut_error_message());
	exit(1);
}

static void pair_of_sockets(int fd[2], const struct options *o)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	if (o->rcvbuf)
		setsockopt(l, SOL_SOCKET, SO_RCVBUF, &o->rcvbuf, sizeof(o->rcvbuf));
	if (bind(l, (struct sockaddr *)&a, sizeof(a)) || listen(l, 1) || getsockname(l, (struct sockaddr *)&a, &len))
		die("listen");
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (o->sndbuf)
		setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &o->sndbuf, sizeof(o->sndbuf));
	if (connect(fd[0], (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	fd[1] = accept(l, NULL, NULL);
	close(l);
}

static void set_raw(int fd, const struct options *o)
{
	int one = 1;

	if (strcmp(o->cfg.tcp_congestion, "auto") != 0)
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->cfg.tcp_congestion,
			   (socklen_t)strlen(o->cfg.tcp_congestion));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void exchange_raw(struct side *s, size_t len)
{
	size_t sent = 0, got = 0;

	while (sent < len || got < len) {
		ssize_t n = sent < len ? send(s->raw, s->out + sent, len - sent, MSG_NOSIGNAL) : 0;

		sent += n > 0 ? (size_t)n : 0;
		n = got < len ? recv(s->raw, s->in + got, len - got, 0) : 0;
		got += n > 0 ? (size_t)n : 0;
	}
}

static size_t piece(size_t len, size_t at, size_t max)
{
	return len - at < max ? len - at : max;
}

static size_t recv_piece(struct side *s, size_t at, size_t n)
{
	const void *slot;
	enum wire_result r;

	if (!s->o->slots) {
		r = wire_tcp.recv(s->rx, s->in + at, n, 1);
	} else {
		r = wire_tcp.recv_ptr(s->rx, &slot, n, 1);
		if (r == WIRE_DONE) {
			memcpy(s->in + at, slot, n);
			wire_tcp.recv_done(s->rx);
		}
	}
	if (r > WIRE_DONE)
		die("recv");
	return r == WIRE_DONE ? n : 0;
}

static void exchange_wire(struct side *s, size_t len)
{
	size_t sent = 0, got = 0, max = s->tx->slot_bytes;

	if (len <= s->tx->ll_max) {
		while (wire_tcp.send_ll(s->tx, s->out, len, 1) == WIRE_AGAIN)
			wire_tcp.poll(s->tx);
		while (wire_tcp.recv_ll(s->rx, s->in, len, 1) == WIRE_AGAIN)
			wire_tcp.poll(s->tx);
		return;
	}
	while (sent < len || got < len || !wire_tcp.send_idle(s->tx)) {
		if (sent < len && wire_tcp.send(s->tx, s->out + sent, piece(len, sent, max), 1) == WIRE_DONE)
			sent += piece(len, sent, max);
		if (got < len)
			got += recv_piece(s, got, piece(len, got, max));
		wire_tcp.poll(s->tx);
	}
}

static void ping_wire(struct side *s)
{
	for (int turn = 0; turn < 2; turn++) {
		if (turn == s->me)
			while (wire_tcp.send_ll(s->tx, s->out, 8, 1) == WIRE_AGAIN)
				continue;
		else
			while (wire_tcp.recv_ll(s->rx, s->in, 8, 1) == WIRE_AGAIN)
				cpu_relax();
	}
}

static void ping_raw(struct side *s)
{
	for (int turn = 0; turn < 2; turn++) {
		if (turn == s->me)
			(void)!send(s->raw, s->out, 8, MSG_NOSIGNAL);
		else
			while (recv(s->raw, s->in, 8, 0) < 0)
				cpu_relax();
	}
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Best, lower quartile and median: on a machine that others use, the median says little. */
struct figures {
	double best, quarter, median;
};

/* @n rounds of one kind, in us. */
static struct figures measure(struct side *s, size_t len, bool wire, int n)
{
	static double us[MOST];

	for (int i = -n / 5 - 1; i < n; i++) {
		uint64_t t = now_ns();

		if (len && wire)
			exchange_wire(s, len);
		else if (len)
			exchange_raw(s, len);
		else if (wire)
			ping_wire(s);
		else
			ping_raw(s);
		if (i >= 0)
			us[i] = (double)(now_ns() - t) / 1000 / (len ? 1 : 2);
	}
	qsort(us, (size_t)n, sizeof(*us), by_value);
	return (struct figures){ us[0], us[n / 4], us[n / 2] };
}

static void print_figures(const char *name, struct figures f)
{
	printf("  %s %.1f %.1f %.1f", name, f.best, f.quarter, f.median);
}

static void run(struct side *s)
{
	static const size_t sizes[] = { 0,	 8,	   4096,     32768,	262144,	  1048576,
					2097152, 16777216, 67108864, 134217728, 268435456 };
	const bool wire = strcmp(s->o->mode, "raw") != 0, raw = strcmp(s->o->mode, "wire") != 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= s->o->max; i++) {
		int n = sizes[i] < 100000 ? MOST : (int)(2000000000 / sizes[i] / 4);
		struct figures f;

		n = n > 400 && sizes[i] > 100000 ? 400 : n < 5 ? 5 : n;
		if (s->me == 0)
			printf("%zu%s", sizes[i] ? sizes[i] : 8, sizes[i] ? "" : " to and fro");
		if (raw) {
			f = measure(s, sizes[i], false, n);
			if (s->me == 0)
				print_figures("raw", f);
		}
		if (wire) {
			f = measure(s, sizes[i], true, n);
			if (s->me == 0)
				print_figures("wire", f);
		}
		if (s->me == 0)
			printf("\n");
		fflush(stdout);
	}
}

static void connect_sides(struct side s[2], struct options *o)
{
	struct wire_args args = { .cfg = &o->cfg };
	int fd[2];

	pair_of_sockets(fd, o);
	s[0].raw = fd[0];
	s[1].raw = fd[1];
	set_raw(fd[0], o);
	set_raw(fd[1], o);
	if (o->one) {
		pair_of_sockets(fd, o);
		for (int me = 0; me < 2; me++)
			if (wire_tcp.connect(&s[me].tx, &args, fd[me]) ||
			    wire_tcp.accept(&s[me].rx, &args, dup(fd[me])))
				die("connect");
	}
	for (int way = 0; way < 2 && !o->one; way++) {
		for (int i = 0; i < o->cfg.sockets; i++) {
			pair_of_sockets(fd, o);
			if (i == 0 &&
			    (wire_tcp.connect(&s[way].tx, &args, fd[0]) || wire_tcp.accept(&s[!way].rx, &args, fd[1])))
				die("connect");
			if (i > 0 &&
			    (wire_tcp.add_socket(s[way].tx, i, fd[0]) || wire_tcp.add_socket(s[!way].rx, i, fd[1])))
				die("add socket");
		}
	}
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void read_options(struct options *o, int argc, char **argv)
{
	int c;

	*o = (struct options){ .mode = "both", .max = 16777216 };
	if (config_defaults(&o->cfg))
		die("config");
	while ((c = getopt(argc, argv, "p:n:k:c:w:r:m:s:u1")) != -1) {
		if (c == 'p')
			o->cfg.slot_bytes = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			o->cfg.slots = atoi(optarg);
		else if (c == 'k')
			o->cfg.sockets = atoi(optarg);
		else if (c == 'c')
			config_set(&o->cfg, "TAUT_TCP_CONGESTION", optarg);
		else if (c == 'w')
			o->sndbuf = atoi(optarg);
		else if (c == 'r')
			o->rcvbuf = atoi(optarg);
		else if (c == 'm')
			o->mode = optarg;
		else if (c == 's')
			o->max = strtoull(optarg, NULL, 0);
		else if (c == '1')
			o->one = true;
		else if (c == 'u')
			o->slots = true;
		else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o;
	struct side s[2];
	pid_t child;

	read_options(&o, argc, argv);
	memset(s, 0, sizeof(s));
	connect_sides(s, &o);
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct side *mine = &s[child == 0];

	mine->o = &o;
	mine->me = child == 0;
	pin(mine->me);
	mine->in = malloc(o.max + 8);
	mine->out = malloc(o.max + 8);
	memset(mine->in, 1, o.max + 8);
	memset(mine->out, 2, o.max + 8);
	run(mine);
	if (child > 0)
		waitpid(child, NULL, 0);
	return 0;
}
