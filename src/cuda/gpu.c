/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gpu.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cuda/gpu_state.h"
#include "cuda/mails.h"

#define LL128_SHARE ((size_t)2 << 20) /* largest part of a message by ll128, if there is room */
#define LL128_BUDGET ((size_t)16 << 20)
#define STAGE_BYTES ((size_t)8 << 20) /* of all blocks, in and out */
#define PUSH_SLOT_MOST 4096	      /* what a warp moves in one go */
#define RELAY_SLOT_MOST (16u << 10)   /* the same by relays */
#define SHORT_MOST (128u << 10)	      /* largest short message between two ranks */

/* Bytes of a slot of a channel: the slots of all channels share the stage. */
static uint32_t push_slot_for(int n, unsigned blocks, uint32_t most)
{
	uint64_t slots = (uint64_t)blocks * RELAY_WARPS * (uint64_t)(n - 1), bytes;

	if (n < 2 || n > GPU_PUSH_RANKS)
		return 0;
	bytes = STAGE_BYTES / slots / 512 * 512;
	return bytes < most ? (uint32_t)bytes : most;
}

static struct layout layout_for(int n)
{
	struct layout l = { .ll_bytes = 2 * LL_DATA };
	uint64_t areas = 2 * (uint64_t)n, most = up(LL128_SHARE * 128 / 120, GPU_LINE) * 2;

	l.ll128_bytes = LL128_BUDGET / areas / (2 * GPU_LINE) * (2 * GPU_LINE);
	if (l.ll128_bytes > most)
		l.ll128_bytes = most;
	l.posts = up((uint64_t)n * GPU_LINE, 4096);
	l.ll = l.posts + (uint64_t)GPU_MAX_BLOCKS * GPU_MAX_RANKS * GPU_LINE;
	l.ll128 = l.ll + areas * l.ll_bytes;
	l.stage = l.ll128 + areas * l.ll128_bytes;
	l.push = l.stage + STAGE_BYTES;
	l.messages = messages_layout(n, l.push + GPU_PUSH_BYTES, SHORT_MOST);
	l.bytes = l.messages.end;
	return l;
}

bool gpu_memory(const void *p)
{
	const struct cuda_driver *cu = p ? cuda_driver_if_used() : NULL;
	int names[] = { CU_POINTER_TYPE };
	unsigned type = 0;
	void *values[] = { &type };

	return cu && !cu->pointer_attributes(1, names, values, (uint64_t)(uintptr_t)p) && type == CU_TYPE_DEVICE;
}

/* --- making --- */
static enum taut_status alloc_zeroed(uint64_t *out, struct gpu *g, size_t len, const char *what)
{
	enum taut_status st = cuda_st(g->cu->mem_alloc(out, len), what);

	if (!st)
		st = cuda_st(g->cu->memset8(*out, 0, len, g->own), what);
	return st;
}

static size_t counters_bytes(const struct gpu *g)
{
	return messages_counters(g->nranks, &g->at.messages).all * sizeof(uint64_t);
}

static enum taut_status alloc_device(struct gpu *g)
{
	enum taut_status st = alloc_zeroed(&g->mail, g, g->mail_bytes, "GPU memory for messages");

	if (!st)
		st = alloc_zeroed(&g->epochs, g, GPU_EPOCHS * sizeof(uint32_t), "GPU memory for counters");
	if (!st)
		st = alloc_zeroed(&g->maps, g, (size_t)g->nranks * GPU_MAX_PLACES * sizeof(uint64_t),
				  "GPU memory for addresses");
	if (!st)
		st = alloc_zeroed(&g->ready, g, GPU_MAX_PLACES * sizeof(uint32_t), "GPU memory for addresses");
	if (!st)
		st = alloc_zeroed(&g->counters, g, counters_bytes(g), "GPU memory for counters");
	if (!st)
		st = alloc_zeroed(&g->marks, g, (1 + 2 * HOST_LANES) * sizeof(uint64_t), "GPU memory for counters");
	return st ? st : cuda_st(g->cu->stream_sync(g->own), "clearing GPU memory");
}

static enum taut_status alloc_host(struct gpu *g)
{
	void *words = NULL;
	enum taut_status st = cuda_st(g->cu->stream_create(&g->own, CU_NON_BLOCKING), "a stream of taut's");

	if (!st)
		st = cuda_st(g->cu->host_alloc(&words, 4096, CU_HOST_PORTABLE | CU_HOST_MAPPED),
			     "host memory that the GPU addresses");
	if (!st)
		st = cuda_st(g->cu->event_create(&g->last[0].event, CU_EVENT_NO_TIMING), "an event of taut's");
	if (!st)
		st = cuda_st(g->cu->event_create(&g->last[1].event, CU_EVENT_NO_TIMING), "an event of taut's");
	if (!st) {
		memset(words, 0, 4096);
		g->words = words;
		g->odd = (struct gpu_odd *)(g->words + WORDS_ODD);
	}
	return st;
}

/* One rank alone copies, and needs this for inputs that are multiplied only. */
static enum taut_status need_device(struct gpu *g)
{
	int relaxed = CU_CAPTURE_RELAXED;
	enum taut_status st;

	if (g->mail)
		return TAUT_OK;
	g->cu->capture_mode(&relaxed);
	st = gpu_module_get(&g->module, g->cu);
	if (!st)
		st = alloc_device(g);
	g->cu->capture_mode(&relaxed);
	g->peer[g->rank] = g->mail;
	return st;
}

/* A child of fork() has another pid, another container other random bytes. */
static uint64_t process_number(void)
{
	static _Atomic uint64_t drawn;
	uint64_t old = 0, mine;

	if (getrandom(&mine, sizeof(mine), 0) != (ssize_t)sizeof(mine))
		mine = now_ns();
	mine |= (uint64_t)1 << 63;
	if (!atomic_compare_exchange_strong(&drawn, &old, mine))
		mine = old;
	return mine ^ (uint64_t)getpid() << 16;
}

static enum taut_status fill_card(struct gpu_card *card, struct gpu *g)
{
	int device = 0;
	enum taut_status st = cuda_st(g->cu->ctx_device(&device), "the GPU of the current context");

	*card = (struct gpu_card){
		.used = 1,
		.device = device,
		.process = process_number(),
		.ctx = (uint64_t)(uintptr_t)g->ctx,
		.mail = g->mail,
	};
	if (!st)
		st = cuda_st(g->cu->device_bus_id(card->bus, sizeof(card->bus), device), "the PCI address of a GPU");
	if (!st)
		st = cuda_st(g->cu->device_attribute(&card->sms, CU_DEVICE_SMS, device), "the size of a GPU");
	card->relays = g->module && g->module->relays;
	/* Without a handle other processes go by way of host memory. */
	card->shares = g->mail && !g->cu->ipc_get(&card->handle, g->mail);
	return st;
}

enum taut_status gpu_open(struct gpu **out, struct gpu_card *card, int rank, int nranks, bool schedules)
{
	const struct cuda_driver *cu = cuda_driver_if_used();
	struct cu_ctx *ctx = NULL;
	struct gpu *g;
	enum taut_status st;

	*out = NULL;
	memset(card, 0, sizeof(*card));
	if (!cu || cu->ctx_current(&ctx) || !ctx)
		return TAUT_OK;
	if (nranks > GPU_MAX_RANKS)
		return fail(TAUT_ERR_UNSUPPORTED, "GPU memory: %d ranks, at most %d so far", nranks, GPU_MAX_RANKS);
	g = mem_calloc(1, sizeof(*g));
	if (!g)
		return fail(TAUT_ERR_NOMEM, "the GPU side of a communicator");
	*g = (struct gpu){ .cu = cu, .ctx = ctx, .rank = rank, .nranks = nranks, .at = layout_for(nranks) };
	g->mail_bytes = g->at.bytes + (schedules ? GPU_SCHEDULE_ROOM : 0);
	g->mail_messages = g->at.messages.lines;
	st = alloc_host(g);
	if (!st && nranks > 1)
		st = need_device(g);
	if (!st)
		st = fill_card(card, g);
	if (st) {
		gpu_close(g);
		return st;
	}
	*out = g;
	return TAUT_OK;
}

/* --- peers --- */
/* The driver's answer; 0: rank @r's memory is mapped. */
static int map_peer(struct gpu *g, const struct gpu_card *c, int r)
{
	int err;

	if (c->process != process_number()) {
		err = c->shares ? g->cu->ipc_open(&g->mapped[r], c->handle, CU_IPC_LAZY_PEER) : CU_NOT_SUPPORTED;
		g->opened[r] = !err;
		return err;
	}
	g->mapped[r] = c->mail;
	if ((struct cu_ctx *)(uintptr_t)c->ctx == g->ctx)
		return CU_OK;
	err = g->cu->ctx_enable_peer((struct cu_ctx *)(uintptr_t)c->ctx, 0);
	return err == CU_PEER_ENABLED ? CU_OK : err;
}

uint64_t gpu_reach(struct gpu *g, const struct gpu_card *cards, uint64_t allowed)
{
	uint64_t reached = 0;
	struct cu_ctx *old;

	g->cu->ctx_push(g->ctx);
	for (int r = 0; r < g->nranks; r++) {
		int err = CU_OK;

		if (cards[r].node != cards[g->rank].node || !(allowed >> r & 1))
			continue;
		if (r != g->rank)
			err = map_peer(g, &cards[r], r);
		if (err)
			log_info(LOG_CUDA, "rank %d's GPU %s cannot be addressed from rank %d's %s: driver error %d", r,
				 cards[r].bus, g->rank, cards[g->rank].bus, err);
		else
			reached |= (uint64_t)1 << r;
	}
	g->cu->ctx_pop(&old);
	return reached;
}

void gpu_unreach(struct gpu *g)
{
	struct cu_ctx *old;

	g->cu->ctx_push(g->ctx);
	for (int r = 0; r < g->nranks; r++)
		if (g->opened[r])
			g->cu->ipc_close(g->mapped[r]);
	memset(g->opened, 0, sizeof(g->opened));
	g->cu->ctx_pop(&old);
}

static bool is_linked(const struct gpu *g, const char *a, const char *b)
{
	int from, to, atomics = 0;

	if (!strcmp(a, b))
		return true;
	if (g->cu->device_by_bus(&from, a) || g->cu->device_by_bus(&to, b))
		return false;
	/* Of the links between GPUs NVLink alone has atomics. */
	return !g->cu->p2p_attribute(&atomics, CU_P2P_ATOMICS, from, to) && atomics;
}

uint64_t gpu_linked(const struct gpu *g, const struct gpu_card *cards)
{
	uint64_t linked = 0;

	for (int r = 0; r < g->nranks; r++)
		if (cards[r].node == cards[g->rank].node && is_linked(g, cards[g->rank].bus, cards[r].bus))
			linked |= (uint64_t)1 << r;
	return linked;
}

/* That rank @r has. */
static int ranks_of_gpu(const struct gpu_card *cards, int n, int r)
{
	int ranks = 0;

	for (int s = 0; s < n; s++)
		ranks += cards[r].node == cards[s].node && !strcmp(cards[r].bus, cards[s].bus);
	return ranks;
}

static int blocks_for(const struct gpu_card *cards, int n)
{
	int least = GPU_MAX_BLOCKS;

	for (int r = 0; r < n; r++) {
		int each = cards[r].sms / ranks_of_gpu(cards, n, r);

		if (each < least)
			least = each;
	}
	return least < 1 ? 1 : least;
}

void gpu_set_blocks(struct gpu *g, const struct gpu_card *cards)
{
	g->blocks = blocks_for(cards, g->nranks);
	g->long_blocks = g->blocks < 2 ? 1 : g->blocks / 2;
	g->relays = true;
	for (int r = 0; r < g->nranks; r++)
		g->relays = g->relays && cards[r].relays;
	g->alone = ranks_of_gpu(cards, g->nranks, g->rank) == 1;
	messages_limit(&g->at.messages, g->nranks, g->blocks);
}

static enum taut_status open_share(struct gpu *g, const struct gpu_card *cards, void *table)
{
	struct share_args a = { .cu = g->cu,
				.ctx = g->ctx,
				.rank = g->rank,
				.nranks = g->nranks,
				.table = table,
				.maps = g->maps,
				.ready = g->ready };

	for (int r = 0; r < g->nranks; r++)
		a.peer[r] = (struct share_peer){ cards[r].process, cards[r].ctx, cards[r].device };
	return table ? share_open(&g->share, &a) : TAUT_OK;
}

enum taut_status gpu_check_cards(const struct gpu *g, const struct gpu_card *cards)
{
	for (int r = 0; r < g->nranks; r++)
		if (!cards[r].used)
			return fail(TAUT_ERR_ARG,
				    "rank %d has no current CUDA context and rank %d has one: make a GPU "
				    "current on every rank before the communicator is created, or on none",
				    r, g->rank);
	return TAUT_OK;
}

/* The ranks of this process find the same key. */
void gpu_join_mails(struct gpu *g, const struct gpu_card *cards)
{
	uint64_t key = 0;
	int n = 0;

	for (int r = 0; r < g->nranks; r++) {
		if (cards[r].process != cards[g->rank].process)
			continue;
		key = key ? key : cards[r].mail;
		n++;
	}
	if (n < 2)
		return;
	g->mails = key;
	mails_join(key, n);
}

enum taut_status gpu_connect(struct gpu *g, const struct gpu_card *cards, void *table)
{
	struct cu_ctx *old;
	enum taut_status st;

	gpu_join_mails(g, cards);
	gpu_set_blocks(g, cards);
	memcpy(g->peer, g->mapped, sizeof(g->peer));
	g->peer[g->rank] = g->mail;
	g->cu->ctx_push(g->ctx);
	st = open_share(g, cards, table);
	g->cu->ctx_pop(&old);
	return st;
}

size_t gpu_bytes(const struct gpu *g)
{
	if (!g->epochs)
		return 0;
	return (g->mail ? g->mail_bytes : 0) + gpu_schedules_bytes(g) +
	       (GPU_EPOCHS + GPU_MAX_PLACES) * sizeof(uint32_t) +
	       (size_t)g->nranks * GPU_MAX_PLACES * sizeof(uint64_t) + counters_bytes(g);
}

void gpu_stop(struct gpu *g)
{
	__atomic_store_n(&g->words[WORD_STOP], 1, __ATOMIC_RELEASE);
}

enum taut_status gpu_check(const struct gpu *g, int *peer)
{
	uint32_t t = __atomic_load_n(&g->words[WORD_TROUBLE], __ATOMIC_ACQUIRE);

	*peer = (int)t - 1;
	return t ? TAUT_ERR_MISMATCH : TAUT_OK;
}

bool gpu_met_odd(const struct gpu *g, struct gpu_odd *out)
{
	if (!__atomic_load_n(&g->odd->set, __ATOMIC_ACQUIRE))
		return false;
	*out = *g->odd;
	return true;
}

void gpu_close(struct gpu *g)
{
	struct cu_ctx *old;
	bool stopped;

	if (!g)
		return;
	stopped = g->words && __atomic_load_n(&g->words[WORD_STOP], __ATOMIC_ACQUIRE);
	if (g->words)
		gpu_stop(g);
	g->cu->ctx_push(g->ctx);
	if (g->called)
		g->cu->ctx_sync(); /* the caller's streams may be gone */
	tunnel_close(g->tunnel, !stopped);
	share_close(g->share);
	gpu_unreach(g);
	gpu_close_schedules(g);
	host_mail_close(&g->host);
	if (g->mails)
		mails_leave(g->cu, g->mails, g->mail, g->ctx);
	else if (g->mail)
		g->cu->mem_free(g->mail);
	if (g->epochs)
		g->cu->mem_free(g->epochs);
	if (g->maps)
		g->cu->mem_free(g->maps);
	if (g->ready)
		g->cu->mem_free(g->ready);
	if (g->counters)
		g->cu->mem_free(g->counters);
	if (g->marks)
		g->cu->mem_free(g->marks);
	if (g->words)
		g->cu->host_free(g->words);
	for (int i = 0; i < 2; i++)
		if (g->last[i].event)
			g->cu->event_destroy(g->last[i].event);
	if (g->own)
		g->cu->stream_destroy(g->own);
	g->cu->ctx_pop(&old);
	mem_free(g);
}

/* --- calls --- */
static const uint8_t kinds[TAUT_TYPE_COUNT] = {
	[TAUT_INT8] = GPU_S8,	    [TAUT_UINT8] = GPU_U8,	   [TAUT_INT32] = GPU_S32,
	[TAUT_UINT32] = GPU_U32,    [TAUT_INT64] = GPU_S64,	   [TAUT_UINT64] = GPU_U64,
	[TAUT_FLOAT16] = GPU_F16,   [TAUT_FLOAT32] = GPU_F32,	   [TAUT_FLOAT64] = GPU_F64,
	[TAUT_BFLOAT16] = GPU_BF16, [TAUT_FLOAT8_E4M3] = GPU_E4M3, [TAUT_FLOAT8_E5M2] = GPU_E5M2,
	[TAUT_INT16] = GPU_S16,	    [TAUT_UINT16] = GPU_U16,
};
static const uint8_t operations[TAUT_OP_COUNT] = {
	[TAUT_SUM] = GPU_SUM, [TAUT_PROD] = GPU_PROD, [TAUT_MAX] = GPU_MAX, [TAUT_MIN] = GPU_MIN,
	[TAUT_AVG] = GPU_SUM, [TAUT_BAND] = GPU_AND,  [TAUT_BOR] = GPU_OR,  [TAUT_BXOR] = GPU_XOR,
};

static struct gpu_shape shape_of(const struct gpu_request *op)
{
	switch (op->coll) {
	case COLL_ALL_GATHER:
		return (struct gpu_shape){ 0, 0, -1, -1 };
	case COLL_REDUCE_SCATTER:
		return (struct gpu_shape){ 1, 1, -1, -1 };
	case COLL_BROADCAST:
		return (struct gpu_shape){ 0, 0, op->root, -1 };
	case COLL_REDUCE:
		return (struct gpu_shape){ 1, 0, -1, op->root };
	case COLL_GATHER:
		return (struct gpu_shape){ 0, 0, -1, op->root };
	case COLL_SCATTER:
		return (struct gpu_shape){ 0, 1, op->root, -1 };
	case COLL_ALL_TO_ALL:
		return (struct gpu_shape){ 0, 1, -1, -1 };
	default:
		return (struct gpu_shape){ 1, 0, -1, -1 };
	}
}

/* Copies go by words, whatever the type. */
static struct gpu_value value_of(const struct gpu_request *op, const struct gpu_shape *shape, int nranks)
{
	struct gpu_value v = { .kind = GPU_U64, .op = GPU_COPY };

	if (!shape->reduces)
		return v;
	v.kind = kinds[op->type];
	v.op = operations[op->op < TAUT_OP_COUNT ? op->op : TAUT_SUM];
	v.scaled = op->scaled;
	memcpy(&v.scalar, op->scalar, sizeof(op->scalar));
	v.divide = op->op == TAUT_AVG && !op->scaled ? (uint32_t)nranks : 0;
	return v;
}

static void fill_call(struct gpu_call *c, const struct gpu *g, uint32_t sig)
{
	*c = (struct gpu_call){ .rank = g->rank,
				.nranks = g->nranks,
				.sig = sig,
				.epochs = (uint32_t *)(uintptr_t)g->epochs,
				.stop = &g->words[WORD_STOP],
				.trouble = &g->words[WORD_TROUBLE],
				.acks = g->at.acks,
				.posts = g->at.posts,
				.ll = g->at.ll,
				.ll128 = g->at.ll128,
				.ll_bytes = g->at.ll_bytes,
				.ll128_bytes = g->at.ll128_bytes };
	for (int r = 0; r < g->nranks; r++)
		c->mail[r] = (char *)(uintptr_t)g->peer[r];
}

/* Number of the graph that @stream is being captured into, 0: none. */
static uint64_t capture_of(const struct gpu *g, void *stream)
{
	int status = CU_CAPTURE_NONE;
	uint64_t id = 0;

	g->cu->capture_info(stream, &status, &id, NULL, NULL, NULL);
	return status == CU_CAPTURE_NONE ? 0 : id;
}

/* No other thread has or had it. */
static uint64_t thread_number(void)
{
	static _Atomic uint64_t last;
	static _Thread_local uint64_t mine;

	if (!mine)
		mine = ++last;
	return mine;
}

/* What tells a stream from others of the same handle: those before it, which were destroyed, and the default streams of
 * threads. The driver must not be asked while a stream is captured: that would spoil the capture. */
static uint64_t id_of(const struct gpu *g, void *stream, bool captured)
{
	uint64_t id = 0;

	if ((uintptr_t)stream == CU_STREAM_PER_THREAD)
		return thread_number();
	if ((uintptr_t)stream > CU_STREAM_PER_THREAD && !captured)
		g->cu->stream_id(stream, &id);
	return id;
}

/* The calls of a communicator run one after the other, whatever their streams: what a graph holds follows
 * the rest of that graph only. */
static enum taut_status follow_last(struct gpu *g, void *stream)
{
	uint64_t capture = capture_of(g, stream), id = id_of(g, stream, capture);
	struct last_call *last = &g->last[capture != 0];
	bool follows = last->recorded && last->capture == capture && (stream != last->stream || id != last->id);
	enum taut_status st = TAUT_OK;

	__atomic_store_n(&g->calls, g->calls + 1, __ATOMIC_RELAXED);
	if (capture)
		__atomic_store_n(&g->graphs, true, __ATOMIC_RELAXED);
	if (follows)
		st = cuda_st(g->cu->stream_wait_event(stream, last->event, 0), "waiting for the last call");
	last->stream = stream;
	last->id = id;
	last->capture = capture;
	g->now = last;
	g->called = true;
	return st;
}

/* For the next call: it may be on another stream, when this one is destroyed. */
static enum taut_status end_call(struct gpu *g, enum taut_status st)
{
	if (st)
		return st;
	g->now->recorded = true;
	return cuda_st(g->cu->event_record(g->now->event, g->now->stream), "the end of a call");
}

/* May peers work on the buffers where they are? An all-to-all in place goes by way of the stage, on all ranks when on
 * one: each part is read before it is overwritten. */
static bool may_share(const struct gpu *g, const struct gpu_request *op)
{
	return g->share && !(op->coll == COLL_ALL_TO_ALL && op->in == op->out);
}

/* What each kernel takes begins alike. */
union collective_args {
	struct gpu_direct_args direct;
	struct gpu_bulk_args bulk;
	struct gpu_host_args host;
};

static void find_bulk_places(struct gpu *g, struct gpu_bulk_args *a)
{
	const struct gpu_shape *s = &a->direct.shape;
	size_t bytes = a->direct.bytes, all = bytes * (size_t)g->nranks;
	bool captured = g->now->capture;

	a->in = share_find(g->share, a->direct.in, s->scatters ? all : bytes, captured);
	a->out = share_find(g->share, a->direct.out, s->reduces || s->scatters || s->from >= 0 ? bytes : all, captured);
}

static void fill_bulk(struct gpu_bulk_args *a, struct gpu *g, const struct gpu_request *op, struct gpu_grid grid)
{
	a->maps = (const uint64_t *)(uintptr_t)g->maps;
	a->ready = (const uint32_t *)(uintptr_t)g->ready;
	a->stage = g->at.stage;
	a->stage_bytes = STAGE_BYTES / 2 / grid.blocks / GPU_LINE * GPU_LINE;
	a->push = g->at.push;
	a->relays = grid.shared_bytes > 0;
	a->core = grid.core;
	a->push_slot = push_slot_for(g->nranks, grid.blocks, a->relays ? RELAY_SLOT_MOST : PUSH_SLOT_MOST);
	if (may_share(g, op))
		find_bulk_places(g, a);
}

static void fill_host(struct gpu_host_args *a, const struct gpu *g)
{
	a->lines = g->at.host_lines;
	a->slots = g->at.host_slots;
	a->slot_bytes = g->at.host_slot_bytes;
	a->nslots = HOST_SLOTS;
	a->labels = g->tunnel != NULL;
	a->marks = (uint64_t *)(uintptr_t)g->marks;
}

static enum taut_status launch(struct gpu *g, const struct gpu_request *op, size_t bytes, void *stream)
{
	union collective_args a = { 0 };
	enum gpu_kernel k = gpu_choose(g, op, bytes);
	struct gpu_grid grid = gpu_grid_of(g, k, op, bytes);
	bool done;

	fill_call(&a.direct.call, g, op->sig);
	a.direct.shape = shape_of(op);
	a.direct.value = value_of(op, &a.direct.shape, g->nranks);
	a.direct.in = op->in;
	a.direct.out = op->out;
	a.direct.bytes = bytes;
	if (g->schedules && op->algo) {
		enum taut_status st = gpu_run_schedule(&done, g, op, &a.direct, stream);

		if (st || done)
			return st;
	}
	if (k == KERNEL_BULK)
		fill_bulk(&a.bulk, g, op, grid);
	else if (k == KERNEL_HOST)
		fill_host(&a.host, g);
	k = gpu_lean(k, g, &a.direct);
	return gpu_module_launch(g->module, g->cu, g->module->f[k][a.direct.value.kind], grid, &a, stream);
}

static enum taut_status copy(struct gpu *g, void *to, const void *from, size_t bytes, void *stream)
{
	if (to == from || !bytes)
		return TAUT_OK;
	return cuda_st(g->cu->copy_within((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream),
		       "a copy in GPU memory");
}

/* One rank alone: any result is its input. */
static enum taut_status launch_alone(struct gpu *g, const struct gpu_request *op, size_t bytes, void *stream)
{
	enum taut_status st;

	if (!op->scaled)
		return copy(g, op->out, op->in, bytes, stream);
	st = need_device(g);
	return st ? st : launch(g, op, bytes, stream);
}

enum taut_status gpu_collective(struct gpu *g, const struct gpu_request *op, void *stream)
{
	size_t bytes = op->count * taut_type_size(op->type);
	struct cu_ctx *old;
	enum taut_status st;

	if (!bytes)
		return TAUT_OK;
	g->cu->ctx_push(g->ctx);
	st = follow_last(g, stream);
	if (!st)
		st = (g->nranks > 1 ? launch : launch_alone)(g, op, bytes, stream);
	st = end_call(g, st);
	g->cu->ctx_pop(&old);
	if (g->tunnel)
		tunnel_wake(g->tunnel);
	return st;
}

/* --- messages --- */
/* In the mails of an island the lanes lie elsewhere than in those of all, but alike. */
static void fill_near(struct gpu_messages_args *a, const struct gpu *g)
{
	uint64_t from = g->mail_messages - g->at.messages.lines;

	a->near = g->near;
	a->near_mail = (char *)(uintptr_t)(g->mail + from);
	for (int r = 0; r < g->nranks; r++)
		if (g->near >> r & 1)
			a->call.mail[r] = (char *)(uintptr_t)(g->mapped[r] + from);
}

static enum taut_status launch_messages(struct gpu *g, struct message *list, size_t n, void *stream)
{
	struct gpu_messages_args a = { .odd = g->odd,
				       .maps = (const uint64_t *)(uintptr_t)g->maps,
				       .ready = (const uint32_t *)(uintptr_t)g->ready };
	enum taut_status st = TAUT_OK;

	for (size_t i = 0; i < n && !st && g->nranks == 1; i++)
		st = copy(g, list[i].buf, list[i].from, list[i].bytes, stream);
	if (g->nranks == 1)
		return st;
	fill_call(&a.call, g, 0);
	fill_near(&a, g);
	messages_begin(&a, g->nranks, &g->at.messages, (uint64_t *)(uintptr_t)g->counters);
	for (size_t at = 0; at < n && !st;) {
		struct message_grid m;

		at += messages_fill(&a, list + at, n - at);
		m = messages_grid(&a, (unsigned)g->long_blocks);
		st = gpu_module_launch(g->module, g->cu, a.nunits ? g->module->messages : g->module->messages_short,
				       (struct gpu_grid){ .blocks = m.blocks, .threads = m.threads, .early = g->alone },
				       &a, stream);
	}
	return st;
}

/* Where peers may write what is received. */
static void find_places(const struct gpu *g, struct message *list, size_t n)
{
	for (size_t i = 0; i < n && g->share; i++) {
		struct gpu_place p;

		if (list[i].kind != GPU_FLOW_RECV || list[i].bytes < GPU_DIRECT_LEAST)
			continue;
		p = share_find(g->share, list[i].buf, list[i].bytes, g->now->capture);
		list[i].place = p.number ? GPU_PLACE(p.number, p.offset) : 0;
	}
}

enum taut_status gpu_messages(struct gpu *g, struct message *list, size_t n, void *stream)
{
	struct cu_ctx *old;
	enum taut_status st = messages_order(list, &n, g->rank, g->nranks);

	if (st || !n)
		return st;
	g->cu->ctx_push(g->ctx);
	st = follow_last(g, stream);
	find_places(g, list, n);
	if (!st)
		st = launch_messages(g, list, n, stream);
	st = end_call(g, st);
	g->cu->ctx_pop(&old);
	if (g->tunnel)
		tunnel_wake(g->tunnel);
	return st;
}

enum taut_status gpu_wait(struct gpu *g, void *stream)
{
	struct cu_ctx *old;
	enum taut_status st;

	g->cu->ctx_push(g->ctx);
	st = cuda_st(g->cu->stream_sync(stream), "waiting for a collective");
	g->cu->ctx_pop(&old);
	return st;
}
