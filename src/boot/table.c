/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/table.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void record_put(struct buf *b, const struct record *r)
{
	buf_text(b, r->host);
	buf_u32(b, (uint32_t)r->pid);
	buf_u32(b, (uint32_t)r->cpus);
	buf_bytes(b, r->node, NODE_BYTES);
	buf_bytes(b, r->uniq, UNIQ_BYTES);
	buf_u16(b, r->port);
	buf_u8(b, (uint8_t)r->naddr);
	for (int i = 0; i < r->naddr; i++)
		addr_put(b, &r->addrs[i]);
}

static void get_bytes(void *out, struct reader *r, size_t len)
{
	const uint8_t *p = rd_bytes(r, len);

	if (p)
		memcpy(out, p, len);
}

static bool get_addrs(struct addr *out, int n, struct reader *r)
{
	for (int i = 0; i < n; i++)
		if (!addr_get(&out[i], r))
			return false;
	return true;
}

bool record_get(struct record *out, struct reader *r)
{
	*out = (struct record){ 0 };
	rd_text(r, out->host, sizeof(out->host));
	out->pid = (int)rd_u32(r);
	out->cpus = (int)rd_u32(r);
	get_bytes(out->node, r, NODE_BYTES);
	get_bytes(out->uniq, r, UNIQ_BYTES);
	out->port = rd_u16(r);
	out->naddr = rd_u8(r);
	return !r->bad && out->naddr <= ADDR_MAX && get_addrs(out->addrs, out->naddr, r);
}

struct table *table_new(int size)
{
	struct table *t = mem_calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->proc_of = mem_calloc((size_t)size, sizeof(*t->proc_of));
	if (!t->proc_of) {
		mem_free(t);
		return NULL;
	}
	t->size = size;
	for (int i = 0; i < size; i++)
		t->proc_of[i] = -1;
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->nhosts; i++) {
		mem_free(t->hosts[i].name);
		mem_free(t->hosts[i].addrs);
	}
	mem_free(t->hosts);
	mem_free(t->procs);
	mem_free(t->proc_of);
	mem_free(t->peers);
	mem_free(t);
}

/* Room for one more in an array of @n that grows by doubling. */
static bool grow(void *array, int n, size_t size)
{
	void **p = array, *more;

	if (n & (n - 1))
		return true;
	more = mem_realloc(*p, n ? 2 * (size_t)n : 1, size);
	if (!more)
		return false;
	*p = more;
	return true;
}

static bool same_host(const struct table_host *h, const struct record *r)
{
	return !memcmp(h->node, r->node, NODE_BYTES) && !strcmp(h->name, r->host) && h->naddr == r->naddr &&
	       !memcmp(h->addrs, r->addrs, (size_t)r->naddr * sizeof(struct addr));
}

static int add_host(struct table *t, const struct record *r)
{
	struct table_host h = { .naddr = r->naddr };

	for (int i = t->nhosts - 1; i >= 0; i--)
		if (same_host(&t->hosts[i], r))
			return i;
	if (!grow(&t->hosts, t->nhosts, sizeof(h)))
		return -1;
	memcpy(h.node, r->node, NODE_BYTES);
	h.name = mem_strdup(r->host);
	h.addrs = mem_calloc((size_t)r->naddr, sizeof(struct addr));
	if (!h.name || !h.addrs) {
		mem_free(h.name);
		mem_free(h.addrs);
		return -1;
	}
	memcpy(h.addrs, r->addrs, (size_t)r->naddr * sizeof(struct addr));
	t->hosts[t->nhosts] = h;
	return t->nhosts++;
}

static int add_proc(struct table *t, const struct record *r)
{
	struct table_proc p = { .pid = r->pid, .cpus = r->cpus, .port = r->port, .host = add_host(t, r) };

	if (p.host < 0)
		return -1;
	memcpy(p.uniq, r->uniq, UNIQ_BYTES);
	/* One process may be on several emulated machines, so the host counts too. */
	for (int i = t->nprocs - 1; i >= 0; i--)
		if (!memcmp(t->procs[i].uniq, r->uniq, UNIQ_BYTES) && t->procs[i].host == p.host)
			return i;
	if (!grow(&t->procs, t->nprocs, sizeof(p)))
		return -1;
	t->procs[t->nprocs] = p;
	return t->nprocs++;
}

bool table_add(struct table *t, int rank, const struct record *r)
{
	int p = add_proc(t, r);

	if (p < 0)
		return false;
	t->known += t->proc_of[rank] < 0;
	t->proc_of[rank] = p;
	return true;
}

bool table_has(const struct table *t, int rank)
{
	return t && rank >= 0 && rank < t->size && t->proc_of[rank] >= 0;
}

struct table_proc *table_proc(const struct table *t, int rank)
{
	return &t->procs[t->proc_of[rank]];
}

void table_record(struct record *out, const struct table *t, int rank)
{
	const struct table_proc *p = table_proc(t, rank);
	const struct table_host *h = &t->hosts[p->host];

	*out = (struct record){ .pid = p->pid, .cpus = p->cpus, .port = p->port, .naddr = h->naddr };
	snprintf(out->host, sizeof(out->host), "%s", h->name);
	memcpy(out->node, h->node, NODE_BYTES);
	memcpy(out->uniq, p->uniq, UNIQ_BYTES);
	memcpy(out->addrs, h->addrs, (size_t)h->naddr * sizeof(struct addr));
}

void table_target(struct target *out, const struct table *t, int to, const uint8_t node[NODE_BYTES])
{
	const struct table_proc *p = table_proc(t, to);
	const struct table_host *h = &t->hosts[p->host];

	*out = (struct target){ .port = p->port, .naddr = h->naddr };
	out->same_node = !memcmp(h->node, node, NODE_BYTES);
	memcpy(out->uniq, p->uniq, UNIQ_BYTES);
	memcpy(out->addrs, h->addrs, (size_t)h->naddr * sizeof(struct addr));
}

static const uint8_t *node_of(const struct table *t, int rank)
{
	return t->hosts[table_proc(t, rank)->host].node;
}

bool table_same_node(const struct table *t, int a, int b)
{
	return !memcmp(node_of(t, a), node_of(t, b), NODE_BYTES);
}

/* Hosts of one machine may differ in name or addresses: give all of them one number. */
static void number_node(struct table *t, int *node_of_host, int host)
{
	for (int i = 0; i < t->nhosts; i++)
		if (!memcmp(t->hosts[i].node, t->hosts[host].node, NODE_BYTES))
			node_of_host[i] = t->nodes;
	t->nodes++;
}

static void fill_peers(struct table *t, int *node_of_host, int *local)
{
	for (int r = 0; r < t->size; r++) {
		const struct table_proc *p = table_proc(t, r);
		struct boot_peer *peer = &t->peers[r];

		if (node_of_host[p->host] < 0)
			number_node(t, node_of_host, p->host);
		snprintf(peer->host, sizeof(peer->host), "%s", t->hosts[p->host].name);
		peer->pid = p->pid;
		peer->cpus = p->cpus;
		peer->node = node_of_host[p->host];
		peer->local_rank = local[peer->node]++;
	}
}

bool table_finish(struct table *t)
{
	int *node_of_host, *local;

	if (t->peers)
		return true;
	t->peers = mem_calloc((size_t)t->size, sizeof(*t->peers));
	node_of_host = mem_calloc((size_t)t->nhosts, sizeof(int));
	local = mem_calloc((size_t)t->nhosts, sizeof(int));
	if (t->peers && node_of_host && local) {
		memset(node_of_host, -1, (size_t)t->nhosts * sizeof(int));
		fill_peers(t, node_of_host, local);
	} else {
		mem_free(t->peers);
		t->peers = NULL;
	}
	mem_free(node_of_host);
	mem_free(local);
	return t->peers != NULL;
}

void table_put(struct buf *b, const struct table *t)
{
	size_t at = frame_begin(b, FRAME_TABLE);

	buf_u32(b, (uint32_t)t->size);
	buf_u32(b, (uint32_t)t->nhosts);
	buf_u32(b, (uint32_t)t->nprocs);
	for (int i = 0; i < t->nhosts; i++) {
		const struct table_host *h = &t->hosts[i];

		buf_bytes(b, h->node, NODE_BYTES);
		buf_text(b, h->name);
		buf_u8(b, (uint8_t)h->naddr);
		for (int k = 0; k < h->naddr; k++)
			addr_put(b, &h->addrs[k]);
	}
	for (int i = 0; i < t->nprocs; i++) {
		const struct table_proc *p = &t->procs[i];

		buf_bytes(b, p->uniq, UNIQ_BYTES);
		buf_u32(b, (uint32_t)p->host);
		buf_u32(b, (uint32_t)p->pid);
		buf_u32(b, (uint32_t)p->cpus);
		buf_u16(b, p->port);
	}
	for (int i = 0; i < t->size; i++)
		buf_u32(b, (uint32_t)t->proc_of[i]);
	frame_end(b, at);
}

static bool get_host(struct table *t, struct reader *r)
{
	struct table_host *h = &t->hosts[t->nhosts];
	char name[64];
	int naddr;

	get_bytes(h->node, r, NODE_BYTES);
	rd_text(r, name, sizeof(name));
	naddr = rd_u8(r);
	if (r->bad || naddr > ADDR_MAX)
		return false;
	h->name = mem_strdup(name);
	h->addrs = mem_calloc((size_t)naddr, sizeof(struct addr));
	h->naddr = naddr;
	t->nhosts++; /* table_free() releases it from here on */
	return h->name && h->addrs && get_addrs(h->addrs, naddr, r);
}

static bool get_proc(struct table *t, struct reader *r)
{
	struct table_proc *p = &t->procs[t->nprocs++];
	uint32_t host;

	get_bytes(p->uniq, r, UNIQ_BYTES);
	host = rd_u32(r);
	p->pid = (int)rd_u32(r);
	p->cpus = (int)rd_u32(r);
	p->port = rd_u16(r);
	p->host = (int)host;
	return !r->bad && host < (uint32_t)t->nhosts;
}

static bool get_ranks(struct table *t, struct reader *r)
{
	for (int i = 0; i < t->size; i++) {
		uint32_t p = rd_u32(r);

		if (p >= (uint32_t)t->nprocs)
			return false;
		t->proc_of[i] = (int)p;
	}
	t->known = t->size;
	return !r->bad && !r->left;
}

static bool get_parts(struct table *t, uint32_t nhosts, uint32_t nprocs, struct reader *r)
{
	t->hosts = mem_calloc(nhosts, sizeof(*t->hosts));
	t->procs = mem_calloc(nprocs, sizeof(*t->procs));
	if (!t->hosts || !t->procs)
		return false;
	for (uint32_t i = 0; i < nhosts; i++)
		if (!get_host(t, r))
			return false;
	for (uint32_t i = 0; i < nprocs; i++)
		if (!get_proc(t, r))
			return false;
	return get_ranks(t, r);
}

struct table *table_get(const struct frame *f)
{
	struct reader r = reader_of(f);
	uint32_t size = rd_u32(&r), nhosts = rd_u32(&r), nprocs = rd_u32(&r);
	struct table *t;

	/* Every rank takes four bytes, every host and process more. */
	if (r.bad || !size || size > r.left / 4 || nhosts > size || nprocs > size)
		return NULL;
	t = table_new((int)size);
	if (t && !get_parts(t, nhosts, nprocs, &r)) {
		table_free(t);
		return NULL;
	}
	return t;
}

struct table *table_pick(const struct table *t, const int *ranks, int size)
{
	struct table *out = table_new(size);
	struct record r;

	for (int i = 0; out && i < size; i++) {
		table_record(&r, t, ranks[i]);
		if (!table_add(out, i, &r)) {
			table_free(out);
			return NULL;
		}
	}
	return out;
}

const char *table_name(char *out, size_t len, const struct table *t, int rank)
{
	if (table_has(t, rank))
		snprintf(out, len, "rank %d (host %s, pid %d)", rank, t->hosts[table_proc(t, rank)->host].name,
			 table_proc(t, rank)->pid);
	else
		snprintf(out, len, "rank %d", rank);
	return out;
}
