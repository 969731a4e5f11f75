/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define MAGIC 0x7454 /* "Tt" */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

/* --- headers --- */
void tcp_head_put(unsigned char out[TCP_HEAD], const struct tcp_head *h)
{
	const uint16_t magic = htole16(MAGIC);
	const uint32_t words[3] = { htole32(h->len), htole32(h->sig), htole32(h->seq) };

	memcpy(out, &magic, 2);
	out[2] = h->part;
	out[3] = h->parts;
	memcpy(out + 4, words, sizeof(words));
}

bool tcp_head_get(struct tcp_head *out, const unsigned char in[TCP_HEAD])
{
	uint16_t magic;
	uint32_t words[3];

	memcpy(&magic, in, 2);
	memcpy(words, in + 4, sizeof(words));
	*out = (struct tcp_head){ .part = in[2],
				  .parts = in[3],
				  .len = le32toh(words[0]),
				  .sig = le32toh(words[1]),
				  .seq = le32toh(words[2]) };
	return le16toh(magic) == MAGIC;
}

struct tcp_span tcp_part(size_t len, unsigned part, unsigned parts)
{
	/* Whole cache lines, so that no two sockets write to one. */
	size_t each = ((len + parts - 1) / parts + 63) & ~(size_t)63;
	size_t off = part * each < len ? part * each : len;

	return (struct tcp_span){ off, len - off < each ? len - off : each };
}

/* --- failures --- */
void tcp_because(struct tcp_conn *c, const char *fmt, ...)
{
	char text[sizeof(c->why) - sizeof(c->where) - 4];
	va_list ap;

	if (c->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(c->why, sizeof(c->why), "%s: %s", c->where, text);
	log_debug(LOG_WIRE, "%s", c->why);
}

enum wire_result tcp_broken(struct tcp_conn *c)
{
	c->base.broken = true;
	fail_quiet(TAUT_ERR_NET, "%s", c->why);
	return WIRE_BROKEN;
}

/* --- the socket --- */
static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	if (a->any.sa_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		return a->v6.sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static bool same_address(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->any.sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

/* Do the bytes stay inside this machine's loopback device? They do also between two sockets
 * that have the same address of another device. */
static bool over_loopback(const union address *own, const union address *peer)
{
	return is_loopback(peer) || same_address(own, peer);
}

static void name_peer(char *out, size_t len, const union address *a)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (a->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof(host));
		snprintf(out, len, "%s:%d", host, ntohs(a->v4.sin_port));
	} else if (a->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof(host));
		snprintf(out, len, "[%s]:%d", host, ntohs(a->v6.sin6_port));
	} else {
		snprintf(out, len, "a Unix socket");
	}
}

/* Once a process at info, since all connections of a kind get the same. */
static void say_congestion(const struct tcp_conn *c, const char *name, const char *why)
{
	static atomic_bool said[2];

	/* Only the count matters, not what other memory the other thread saw. */
	if (atomic_exchange_explicit(&said[c->loopback], true, memory_order_relaxed))
		log_debug(LOG_WIRE, "%s: congestion control %s (%s)", c->where, name, why);
	else
		log_info(LOG_WIRE, "%s: congestion control %s (%s)", c->where, name, why);
}

/* BBR paces by a timer and by its model of the path, which costs half of the throughput where
 * the path is a memory copy. cubic and reno never see a loss there, and so never hold back;
 * reno is the one that every kernel lets everybody choose. */
static void loopback_congestion(const struct tcp_conn *c, int fd)
{
	static const char *const names[] = { "cubic", "reno" };
	char was[16] = "?", why[80];
	socklen_t len = sizeof(was);

	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, was, &len);
	was[sizeof(was) - 1] = '\0';
	for (size_t i = 0; i < 2; i++) {
		if (strcmp(was, names[i]) == 0) {
			say_congestion(c, was, "the system's own, good on loopback");
			return;
		}
	}
	for (size_t i = 0; i < 2; i++) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i], (socklen_t)strlen(names[i])))
			continue;
		snprintf(why, sizeof(why), "the system's own, %s, is made for networks, not for loopback", was);
		say_congestion(c, names[i], why);
		return;
	}
	say_congestion(c, was, "the system's own; neither cubic nor reno may be chosen, loopback may be slower");
}

static enum taut_status set_congestion(const struct tcp_conn *c, int fd)
{
	const char *name = c->cfg->tcp_congestion;
	char was[16] = "?";
	socklen_t len = sizeof(was);

	if (name && *name && strcmp(name, "auto") != 0) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)))
			return fail(TAUT_ERR_CONFIG,
				    "TAUT_TCP_CONGESTION: the kernel does not let this process use \"%s\" (%s); see "
				    "/proc/sys/net/ipv4/tcp_allowed_congestion_control, or say auto",
				    name, strerror(errno));
		say_congestion(c, name, "as TAUT_TCP_CONGESTION says");
		return TAUT_OK;
	}
	if (c->loopback) {
		loopback_congestion(c, fd);
		return TAUT_OK;
	}
	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, was, &len);
	was[sizeof(was) - 1] = '\0';
	say_congestion(c, was, "the system's own");
	return TAUT_OK;
}

/* Names the connection after its first socket and makes @fd ready. Buffer sizes stay the kernel's: it tunes
 * them up to tcp_wmem and tcp_rmem, and a size that is set would be cut to the (lower) wmem_max and rmem_max. */
static enum taut_status prepare_socket(struct tcp_conn *c, int fd)
{
	union address own = { 0 }, peer = { 0 };
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	int flags = fcntl(fd, F_GETFL), one = 1;
	char host[64];

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return errno_fail(errno, "tcp to rank %d: cannot make the socket non-blocking", c->base.peer);
	if (getpeername(fd, &peer.any, &peer_len) || getsockname(fd, &own.any, &own_len))
		return errno_fail(errno, "tcp to rank %d: cannot tell the addresses of the socket", c->base.peer);
	if (!c->where[0]) {
		name_peer(host, sizeof(host), &peer);
		snprintf(c->where, sizeof(c->where), "tcp %s rank %d at %s", c->sending ? "to" : "from", c->base.peer,
			 host);
	}
	if (peer.any.sa_family != AF_INET && peer.any.sa_family != AF_INET6)
		return TAUT_OK;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return errno_fail(errno, "%s: cannot set TCP_NODELAY", c->where);
	c->loopback = over_loopback(&own, &peer);
	return c->sending ? set_congestion(c, fd) : TAUT_OK;
}

/* --- making connections --- */
static unsigned char *ahead_buffer(void)
{
	return mem_aligned(64, TCP_AHEAD);
}

static void init_conn(struct tcp_conn *c, const struct wire_args *args, bool sending)
{
	const struct config *cfg = args->cfg;

	c->base = (struct wire_conn){ .ops = &wire_tcp,
				      .peer = args->peer,
				      .slot_bytes = cfg->slot_bytes,
				      .ll_max = cfg->slot_bytes < TCP_LL ? cfg->slot_bytes : TCP_LL };
	c->cfg = cfg;
	c->rank = args->rank;
	c->sending = sending;
}

static enum taut_status add_socket(struct tcp_conn *c, int fd)
{
	enum taut_status st = prepare_socket(c, fd);

	if (st)
		goto err_close;
	if (c->sending) {
		tcp_tx_of(&c->base)->socks[c->nsocks++] = (struct tcp_tx_sock){ .fd = fd };
		return TAUT_OK;
	}
	tcp_rx_of(&c->base)->socks[c->nsocks] = (struct tcp_rx_sock){ .fd = fd, .ahead = ahead_buffer() };
	if (!tcp_rx_of(&c->base)->socks[c->nsocks].ahead) {
		st = fail(TAUT_ERR_NOMEM, "%s: %d bytes to read ahead", c->where, TCP_AHEAD);
		goto err_close;
	}
	c->nsocks++;
	return TAUT_OK;
err_close:
	close(fd);
	return st;
}

static int socket_limit(const struct config *cfg)
{
	return cfg->sockets > 1 ? cfg->sockets : 1;
}

static void tcp_close(struct wire_conn *c)
{
	if (!c)
		return;
	if (tcp_tx_of(c)->conn.sending)
		tcp_tx_free(tcp_tx_of(c));
	else
		tcp_rx_free(tcp_rx_of(c));
}

static enum taut_status tcp_connect(struct wire_conn **out, const struct wire_args *args, int fd)
{
	struct tcp_tx *tx = mem_calloc(1, sizeof(*tx));
	enum taut_status st;

	if (!tx)
		goto err_memory;
	init_conn(&tx->conn, args, true);
	tx->nslots = args->cfg->slots > 0 ? (unsigned)args->cfg->slots : 1;
	tx->socks = mem_calloc((size_t)socket_limit(args->cfg), sizeof(*tx->socks));
	tx->slots = mem_calloc(tx->nslots, sizeof(*tx->slots));
	if (!tx->socks || !tx->slots)
		goto err_memory;
	st = add_socket(&tx->conn, fd);
	if (st) {
		tcp_tx_free(tx);
		return st;
	}
	*out = &tx->conn.base;
	return TAUT_OK;
err_memory:
	tcp_tx_free(tx);
	close(fd);
	return fail(TAUT_ERR_NOMEM, "tcp connection to rank %d", args->peer);
}

static enum taut_status tcp_accept(struct wire_conn **out, const struct wire_args *args, int fd)
{
	struct tcp_rx *rx = mem_calloc(1, sizeof(*rx));
	enum taut_status st;

	if (!rx)
		goto err_memory;
	init_conn(&rx->conn, args, false);
	rx->window = 1;
	while ((int)rx->window < args->cfg->slots)
		rx->window *= 2;
	rx->socks = mem_calloc((size_t)socket_limit(args->cfg), sizeof(*rx->socks));
	rx->in = mem_calloc(rx->window, sizeof(*rx->in));
	if (!rx->socks || !rx->in)
		goto err_memory;
	st = add_socket(&rx->conn, fd);
	if (st) {
		tcp_rx_free(rx);
		return st;
	}
	*out = &rx->conn.base;
	return TAUT_OK;
err_memory:
	tcp_rx_free(rx);
	close(fd);
	return fail(TAUT_ERR_NOMEM, "tcp connection from rank %d", args->peer);
}

static enum taut_status tcp_add_socket(struct wire_conn *c, int index, int fd)
{
	struct tcp_conn *conn = &tcp_tx_of(c)->conn;

	if (index == conn->nsocks && index < socket_limit(conn->cfg))
		return add_socket(conn, fd);
	close(fd);
	return fail(TAUT_ERR_INTERNAL, "%s: socket %d comes as number %d of at most %d", conn->where, index,
		    conn->nsocks, socket_limit(conn->cfg));
}

/* --- progress --- */
static bool tcp_poll(struct wire_conn *c)
{
	return tcp_tx_of(c)->conn.sending ? tcp_tx_poll(tcp_tx_of(c)) : tcp_rx_poll(tcp_rx_of(c));
}

static int tcp_wait_fd(const struct wire_conn *c, short *events)
{
	*events = 0;
	return tcp_tx_of(c)->conn.sending ? tcp_tx_wait_fd(tcp_tx_of(c), events) : tcp_rx_wait_fd(tcp_rx_of(c), events);
}

const struct wire_ops wire_tcp = {
	.name = "tcp",
	.connect = tcp_connect,
	.accept = tcp_accept,
	.close = tcp_close,
	.add_socket = tcp_add_socket,
	.send = tcp_send,
	.send_ll = tcp_send_ll,
	.send_ptr = tcp_send_ptr,
	.send_commit = tcp_send_commit,
	.send_idle = tcp_send_idle,
	.recv_ptr = tcp_recv_ptr,
	.recv_done = tcp_recv_done,
	.recv = tcp_recv,
	.recv_ll = tcp_recv,
	.recv_peek = tcp_recv_peek,
	.poll = tcp_poll,
	.wait_fd = tcp_wait_fd,
};
