/* SPDX-License-Identifier: Apache-2.0 */
/* Where GPUs do not address each other: the mail of all ranks in host memory, shared, or carried over sockets. */
#include "cuda/gpu_state.h"

#define HOST_SLOT_MOST ((size_t)128 << 10)
#define HOST_BUDGET ((uint64_t)256 << 20) /* slots of all ranks */
#define HOST_SHORT_MOST (4u << 10)	  /* largest short message between two ranks */
#define FAR_LANES 8			  /* between ranks that share no memory */
#define FAR_SLOT_MOST ((size_t)512 << 10)
#define FAR_BUDGET ((uint64_t)64 << 20) /* of all ranks, in the memory of each */

/* By way of host memory: @l says how. */
static struct layout lay_out_host(struct layout l, int n, uint32_t short_most)
{
	l.ll = up((uint64_t)n * GPU_LINE, 4096);
	l.host_lines = l.ll + 2 * (uint64_t)n * l.ll_bytes;
	l.host_slots = l.host_lines + up((1 + l.host_lanes * (uint64_t)(n + 1)) * GPU_LINE, 4096);
	l.messages =
		messages_layout(n, l.host_slots + (uint64_t)l.host_lanes * HOST_SLOTS * l.host_slot_bytes, short_most);
	l.bytes = up(l.messages.end, (uint64_t)2 << 20);
	return l;
}

static uint32_t slot_bytes(uint64_t budget, int n, uint32_t lanes, size_t most)
{
	uint64_t slot = budget / (uint64_t)n / lanes / HOST_SLOTS / 4096 * 4096;

	return (uint32_t)(slot < most ? slot : most);
}

static struct layout layout_for_host(int n)
{
	struct layout l = { .ll_bytes = 2 * HOST_LL_DATA, .host_lanes = HOST_LANES };

	l.host_slot_bytes = slot_bytes(HOST_BUDGET, n, HOST_LANES, HOST_SLOT_MOST);
	return lay_out_host(l, n, HOST_SHORT_MOST);
}

/* Each rank has the mail of all. */
static struct layout layout_for_far(int n)
{
	struct layout l = { .host_lanes = FAR_LANES };

	l.host_slot_bytes = slot_bytes(FAR_BUDGET, n, FAR_LANES, FAR_SLOT_MOST);
	return lay_out_host(l, n, 0); /* the tunnel carries lines and slots alone */
}

/* --- by way of host memory --- */
size_t gpu_host_bytes(int nranks)
{
	return (size_t)nranks * layout_for_host(nranks).bytes;
}

void *gpu_host_part(const struct gpu *g, void *mem, size_t *len)
{
	*len = layout_for_host(g->nranks).bytes;
	return (char *)mem + (size_t)g->rank * *len;
}

/* Its mail in GPU memory is not needed. */
static void drop_mail(struct gpu *g)
{
	g->cu->mem_free(g->mail);
	g->mail = 0;
}

/* What the ranks of an island exchange goes through their mails in GPU memory. */
static void use_islands(struct gpu *g, const struct gpu_card *cards, const int *island_of)
{
	gpu_join_mails(g, cards);
	g->island_of = island_of;
	for (int r = 0; r < g->nranks; r++)
		if (r != g->rank && island_of[r] == island_of[g->rank])
			g->near |= (uint64_t)1 << r;
}

static enum taut_status use_host_mail(struct gpu *g, const struct gpu_card *cards, void *mem, struct layout at,
				      const int *island_of)
{
	struct cu_ctx *old;
	enum taut_status st;

	g->at = at;
	gpu_set_blocks(g, cards);
	g->cu->ctx_push(g->ctx);
	if (island_of)
		use_islands(g, cards, island_of);
	else
		drop_mail(g);
	st = host_mail_open(&g->host, g->cu, mem, (size_t)g->nranks * at.bytes);
	for (int r = 0; r < g->nranks; r++)
		g->peer[r] = g->host.gpu + (uint64_t)r * g->at.bytes;
	g->cu->ctx_pop(&old);
	return st;
}

enum taut_status gpu_connect_host(struct gpu *g, const struct gpu_card *cards, void *mem, const int *island_of)
{
	return use_host_mail(g, cards, mem, layout_for_host(g->nranks), island_of);
}

/* --- over sockets --- */
size_t gpu_far_bytes(int nranks)
{
	return (size_t)nranks * layout_for_far(nranks).bytes;
}

enum taut_status gpu_connect_far(struct gpu *g, const struct gpu_card *cards, void *mem, struct tunnel_args *t,
				 const int *island_of)
{
	enum taut_status st = use_host_mail(g, cards, mem, layout_for_far(g->nranks), island_of);

	t->rank = g->rank;
	t->nranks = g->nranks;
	t->mem = mem;
	t->at = (struct tunnel_layout){ .lines = g->at.host_lines,
					.slots = g->at.host_slots,
					.bytes = g->at.bytes,
					.lanes = g->at.host_lanes,
					.nslots = HOST_SLOTS,
					.slot_bytes = g->at.host_slot_bytes,
					.messages = g->at.messages };
	t->stop = &g->words[WORD_STOP];
	if (!st)
		return tunnel_open(&g->tunnel, t);
	tunnel_close_sockets(t);
	return st;
}

enum gpu_way gpu_way(const struct gpu *g)
{
	return g->tunnel ? GPU_WAY_FAR : g->host.base ? GPU_WAY_HOST : GPU_WAY_PEERS;
}

int gpu_broken(const struct gpu *g, char *why, size_t len)
{
	return g->tunnel ? tunnel_broken(g->tunnel, why, len) : -1;
}
