/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to peers, made at first use: the sender dials, the receiver finds what was
 * dialled when it first waits for that peer. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "wire/fault.h"

#define MAX_SOCKETS 16

struct hello {
	uint16_t channel;
	uint8_t index; /* of the sockets of one connection */
	char wire[9];
};

#define PING "ping" /* in place of a wire: a question whether this rank is there */

void comm_on_dial(void *ctx, int from, const void *data, size_t len, int fd, bool local)
{
	struct taut_comm *comm = ctx;
	struct dialled *d = mem_calloc(1, sizeof(*d));
	struct hello h;

	if (!d || len != sizeof(h))
		goto err_close;
	memcpy(&h, data, sizeof(h));
	h.wire[sizeof(h.wire) - 1] = '\0';
	if (!strcmp(h.wire, PING)) /* that it came this far is the answer */
		goto err_close;
	*d = (struct dialled){
		.from = from, .channel = h.channel, .index = h.index, .fd = fd, .ops = wire_find(h.wire)
	};
	if (!d->ops || (d->ops->local && !local)) {
		log_warn(LOG_COMM, "rank %d dials with wire \"%s\", which cannot be used: closed", from, h.wire);
		goto err_close;
	}
	pthread_mutex_lock(&comm->lock);
	d->next = comm->dialled;
	comm->dialled = d;
	pthread_mutex_unlock(&comm->lock);
	atomic_store(&comm->any_dialled, true);
	bell_ring(comm->net.bell);
	return;
err_close:
	mem_free(d);
	close(fd);
}

/* --- the table --- */
static size_t slot_of(const struct taut_comm *comm, int peer, int channel)
{
	uint32_t h = (uint32_t)peer * 2654435761u ^ (uint32_t)channel * 40503u;
	size_t i = h % comm->link_slots;

	while (comm->link_table[i] && (comm->link_table[i]->peer != peer || comm->link_table[i]->channel != channel))
		i = (i + 1) % comm->link_slots;
	return i;
}

static bool table_grow(struct taut_comm *comm)
{
	size_t n = comm->link_slots ? comm->link_slots * 2 : 16;
	struct exec_link **table = mem_calloc(n, sizeof(*table));

	if (!table)
		return false;
	mem_free(comm->link_table);
	comm->link_table = table;
	comm->link_slots = n;
	for (size_t i = 0; i < comm->nlinks; i++)
		table[slot_of(comm, comm->links[i]->peer, comm->links[i]->channel)] = comm->links[i];
	return true;
}

static struct exec_link *link_new(struct taut_comm *comm, int peer, int channel)
{
	struct exec_link *l;

	if (comm->nlinks == comm->cap_links) {
		size_t cap = comm->cap_links ? comm->cap_links * 2 : 8;
		struct exec_link **links = mem_realloc(comm->links, cap, sizeof(struct exec_link *));

		if (!links)
			return NULL;
		comm->links = links;
		comm->cap_links = cap;
		comm->net.links = links;
	}
	l = mem_calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->peer = peer;
	l->channel = channel;
	comm->links[comm->nlinks++] = l;
	comm->net.nlinks = comm->nlinks;
	return l;
}

struct exec_link *comm_link(struct taut_comm *comm, int peer, int channel)
{
	size_t i;

	if ((comm->nlinks + 1) * 2 > comm->link_slots && !table_grow(comm))
		goto err_nomem;
	i = slot_of(comm, peer, channel);
	if (!comm->link_table[i])
		comm->link_table[i] = link_new(comm, peer, channel);
	if (comm->link_table[i])
		return comm->link_table[i];
err_nomem:
	fail(TAUT_ERR_NOMEM, "a connection to rank %d", peer);
	return NULL;
}

struct exec_inbox *comm_inbox(struct taut_comm *comm, int peer)
{
	if (!comm->inbox)
		comm->inbox = mem_calloc((size_t)comm->size, sizeof(struct exec_inbox *));
	if (!comm->inbox) {
		fail(TAUT_ERR_NOMEM, "inboxes for %d ranks", comm->size);
		return NULL;
	}
	if (!comm->inbox[peer])
		exec_inbox_create(&comm->inbox[peer]);
	return comm->inbox[peer];
}

/* --- making connections --- */
bool comm_same_machine(const struct taut_comm *comm, int peer)
{
	return boot_peer(comm->boot, peer)->node == boot_peer(comm->boot, comm->rank)->node;
}

static const struct wire_ops *choose_wire(const struct taut_comm *comm, int peer)
{
	bool shm = comm_same_machine(comm, peer) && !comm->cfg.shm_disable && strcasecmp(comm->cfg.wire, "tcp") != 0;

	return shm ? &wire_shm : &wire_tcp;
}

static enum taut_status check_wire(const struct taut_comm *comm, const struct wire_ops *ops, int peer)
{
	if (ops == &wire_shm || strcasecmp(comm->cfg.wire, "shm") != 0)
		return TAUT_OK;
	if (comm_same_machine(comm, peer))
		return fail(TAUT_ERR_CONFIG, "TAUT_WIRE=shm and TAUT_SHM_DISABLE=1 leave no wire to rank %d", peer);
	return fail(TAUT_ERR_CONFIG, "rank %d is on host %s, where TAUT_WIRE=shm does not reach: use auto", peer,
		    boot_peer(comm->boot, peer)->host);
}

static struct wire_args args_for(const struct taut_comm *comm, const struct exec_link *l)
{
	return (struct wire_args){
		.cfg = &comm->cfg, .rank = comm->rank, .peer = l->peer, .channel = l->channel, .bell = comm->net.bell
	};
}

static enum taut_status dial(struct taut_comm *comm, const struct exec_link *l, const struct wire_ops *ops, int index,
			     int *fd)
{
	struct hello h = { .channel = (uint16_t)l->channel, .index = (uint8_t)index };

	memcpy(h.wire, ops->name, strlen(ops->name) < sizeof(h.wire) ? strlen(ops->name) : sizeof(h.wire) - 1);
	return boot_dial(fd, comm->boot, l->peer, &h, sizeof(h), ops->local);
}

static int sockets_of(const struct taut_comm *comm, const struct wire_ops *ops)
{
	return ops->add_socket ? comm->cfg.sockets : 1;
}

/* Common end of both sides: @c is in use from here, or closed. */
static enum taut_status finish(struct taut_comm *comm, struct wire_conn **slot, struct wire_conn *c)
{
	enum taut_status st = fault_wrap(&c, &comm->cfg);

	if (st) {
		c->ops->close(c);
		return st;
	}
	if (c->ops->poll)
		comm->net.polls = true;
	*slot = c;
	return TAUT_OK;
}

enum taut_status comm_attach_tx(void *ctx, struct exec_link *l)
{
	struct taut_comm *comm = ctx;
	const struct wire_ops *ops = choose_wire(comm, l->peer);
	struct wire_args args = args_for(comm, l);
	struct wire_conn *c;
	enum taut_status st = check_wire(comm, ops, l->peer);
	int fd;

	if (!st)
		st = dial(comm, l, ops, 0, &fd);
	if (!st)
		st = ops->connect(&c, &args, fd);
	if (st)
		return st;
	for (int i = 1; i < sockets_of(comm, ops); i++) {
		st = dial(comm, l, ops, i, &fd);
		if (!st)
			st = ops->add_socket(c, i, fd);
		if (st)
			goto err_close;
	}
	log_info(LOG_WIRE, "rank %d -> rank %d, connection %d: %s", comm->rank, l->peer, l->channel, ops->name);
	return finish(comm, &l->tx, c);
err_close:
	ops->close(c);
	return st;
}

/* Takes socket @index of the link out of the list; NULL: not there yet. */
static struct dialled *find_dialled(struct taut_comm *comm, const struct exec_link *l, int index)
{
	struct dialled *d, **at;

	pthread_mutex_lock(&comm->lock);
	for (at = &comm->dialled; *at; at = &(*at)->next)
		if ((*at)->from == l->peer && (*at)->channel == l->channel && (*at)->index == index)
			break;
	d = *at;
	if (d)
		*at = d->next;
	atomic_store(&comm->any_dialled, comm->dialled != NULL);
	pthread_mutex_unlock(&comm->lock);
	return d;
}

static void put_back(struct taut_comm *comm, struct dialled *d)
{
	pthread_mutex_lock(&comm->lock);
	d->next = comm->dialled;
	comm->dialled = d;
	atomic_store(&comm->any_dialled, true);
	pthread_mutex_unlock(&comm->lock);
}

/* All sockets of the connection, or none. */
static int collect(struct taut_comm *comm, const struct exec_link *l, struct dialled *list[MAX_SOCKETS])
{
	int n = 0, want = 1;

	while (n < want) {
		list[n] = find_dialled(comm, l, n);
		if (!list[n])
			break;
		want = sockets_of(comm, list[0]->ops);
		n++;
	}
	if (n == want)
		return n;
	while (n > 0)
		put_back(comm, list[--n]);
	return 0;
}

/* A peer that shares memory passes it after it has dialled, when it gets the processor. */
static bool has_come(const struct dialled *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };

	return !d->ops->local || poll(&p, 1, 0) > 0;
}

enum taut_status comm_attach_rx(void *ctx, struct exec_link *l)
{
	struct taut_comm *comm = ctx;
	struct wire_args args = args_for(comm, l);
	struct dialled *list[MAX_SOCKETS];
	struct wire_conn *c = NULL;
	enum taut_status st;
	int n;

	if (!atomic_load_explicit(&comm->any_dialled, memory_order_relaxed)) /* a hint; the caller asks again */
		return TAUT_OK;
	n = collect(comm, l, list);
	if (!n)
		return TAUT_OK;
	if (!has_come(list[0])) {
		while (n > 0)
			put_back(comm, list[--n]);
		return TAUT_OK;
	}
	st = list[0]->ops->accept(&c, &args, list[0]->fd);
	for (int i = 1; i < n; i++) {
		if (!st)
			st = list[i]->ops->add_socket(c, i, list[i]->fd);
		else
			close(list[i]->fd);
	}
	for (int i = 0; i < n; i++)
		mem_free(list[i]);
	if (!st)
		return finish(comm, &l->rx, c);
	if (c)
		c->ops->close(c);
	return st;
}

void comm_quiet(void *ctx, int peer)
{
	struct taut_comm *comm = ctx;
	struct hello h = { .wire = PING };
	enum taut_status st;
	int fd;

	st = boot_dial(&fd, comm->boot, peer, &h, sizeof(h), comm_same_machine(comm, peer));
	if (!st)
		close(fd);
	/* Gone, or left in order; a rank that is merely slow to answer is neither. */
	if (st == TAUT_ERR_PEER || st == TAUT_ERR_NET) {
		char text[1024];

		snprintf(text, sizeof(text), "a message waits for a rank that is not there: %s", taut_error_message());
		st = boot_report(comm->boot, TAUT_ERR_PEER, text);
		comm_set_error(comm, st, taut_error_message());
	}
}

enum taut_status comm_dial_channel(struct taut_comm *comm, int peer, int channel, int *fd)
{
	struct exec_link l = { .peer = peer, .channel = channel };

	return dial(comm, &l, &wire_shm, 0, fd);
}

enum taut_status comm_dial_plain(struct taut_comm *comm, int peer, int channel, int *fd)
{
	struct exec_link l = { .peer = peer, .channel = channel };
	const struct wire_ops *ops = choose_wire(comm, peer);
	enum taut_status st = check_wire(comm, ops, peer);

	return st ? st : dial(comm, &l, ops, 0, fd);
}

int comm_take_dialled(struct taut_comm *comm, const struct exec_link *l)
{
	struct dialled *d = find_dialled(comm, l, 0);
	int fd = d ? d->fd : -1;

	mem_free(d);
	return fd;
}

void comm_links_cleanup(struct taut_comm *comm)
{
	for (size_t i = 0; i < comm->nlinks; i++) {
		struct exec_link *l = comm->links[i];

		if (l->tx)
			l->tx->ops->close(l->tx);
		if (l->rx)
			l->rx->ops->close(l->rx);
		mem_free(l);
	}
	mem_free(comm->links);
	mem_free(comm->link_table);
	for (int i = 0; comm->inbox && i < comm->size; i++)
		exec_inbox_destroy(comm->inbox[i]);
	mem_free(comm->inbox);
	while (comm->dialled) {
		struct dialled *d = comm->dialled;

		comm->dialled = d->next;
		close(d->fd);
		mem_free(d);
	}
}
