/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on GPU memory: told apart by their pointers, launched on the caller's CUDA stream. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "comm/comm.h"
#include "cuda/gpu.h"
#include "cuda/share.h"

#define ASK_MS 2000			 /* for the ranks to say who called what */
#define PUBLISH_MS 1000			 /* for the peers to map new memory */
#define ISLANDS_LEAST ((size_t)64 << 10) /* by way of host memory, smaller calls are done in fewer steps */

struct comm_gpu_memory { /* of taut_mem_alloc() */
	struct comm_gpu_memory *next;
	void *p;
};

/* --- when the ranks meet --- */
static enum taut_status connect_peers(struct taut_comm *comm, const struct gpu_card *cards)
{
	enum taut_status st;

	comm->gpu_table_len = share_table_bytes(comm->size);
	st = comm_share(comm, &comm->gpu_table, comm->gpu_table_len);
	return st ? st : gpu_connect(comm->gpu, cards, comm->gpu_table);
}

/* Each rank's part lies near it, as it is the first to touch it. */
static enum taut_status connect_host(struct taut_comm *comm, const struct gpu_card *cards)
{
	enum taut_status st;
	size_t len;
	void *part;

	comm->gpu_table_len = gpu_host_bytes(comm->size);
	st = comm_share(comm, &comm->gpu_table, comm->gpu_table_len);
	if (st)
		return st;
	part = gpu_host_part(comm->gpu, comm->gpu_table, &len);
	memset(part, 0, len);
	st = boot_barrier(comm->boot);
	if (!st)
		st = gpu_connect_host(comm->gpu, cards, comm->gpu_table, comm->island_of);
	return st;
}

static enum gpu_way find_way(const struct taut_comm *comm)
{
	bool shares = !comm->cfg.shm_disable && strcasecmp(comm->cfg.wire, "tcp") != 0;

	if (comm->nislands == 1)
		return GPU_WAY_PEERS;
	return boot_nodes(comm->boot) == 1 && shares ? GPU_WAY_HOST : GPU_WAY_FAR;
}

static enum taut_status connect_by(struct taut_comm *comm, enum gpu_way way, const struct gpu_card *cards)
{
	switch (way) {
	case GPU_WAY_PEERS:
		return connect_peers(comm, cards);
	case GPU_WAY_HOST:
		return connect_host(comm, cards);
	default:
		return comm_gpu_connect_far(comm, cards);
	}
}

/* Where some GPUs address each other but not all, and where an algorithm is asked for. */
static enum taut_status allow_schedules(struct taut_comm *comm)
{
	if (comm->nislands > 1)
		return gpu_allow_schedules(comm->gpu, comm->island_of, comm->nislands, comm->order);
	if (*comm->cfg.algo)
		return gpu_allow_schedules(comm->gpu, comm->node_of, boot_nodes(comm->boot), comm->order);
	return TAUT_OK;
}

static enum taut_status connect(struct taut_comm *comm, const struct gpu_card *mine)
{
	static const char *const texts[] = { "", ", by way of host memory", ", over sockets" };
	struct gpu_card *cards = mem_calloc((size_t)comm->size, sizeof(*cards)), card = *mine;
	enum taut_status st = cards ? TAUT_OK : fail(TAUT_ERR_NOMEM, "the GPUs of %d ranks", comm->size);
	enum gpu_way way = GPU_WAY_PEERS;
	char islands[64] = "";

	card.node = comm->node_of[comm->rank];
	if (!st)
		st = boot_all_gather(comm->boot, &card, sizeof(card), cards);
	if (!st && !comm->gpu)
		st = fail(TAUT_ERR_ARG,
			  "other ranks have a current CUDA context and rank %d has none: make a GPU "
			  "current on every rank before the communicator is created, or on none, or "
			  "set TAUT_DEVICE=host",
			  comm->rank);
	if (!st)
		st = comm_check_strict(&comm->cfg);
	if (!st)
		st = gpu_check_cards(comm->gpu, cards);
	if (!st)
		st = comm_find_islands(comm, cards);
	if (!st) {
		way = find_way(comm);
		st = connect_by(comm, way, cards);
	}
	if (!st)
		st = allow_schedules(comm);
	/* What frees and maps memory may wait for all that runs on the GPU: no rank calls before all are done. */
	if (!st)
		st = boot_barrier(comm->boot);
	if (comm->nislands > 1)
		snprintf(islands, sizeof(islands), " between %d sets that address each other", comm->nislands);
	if (!st)
		log_info(LOG_COMM, "group \"%s\" rank %d: GPU %s, %zu MiB of its memory%s%s", comm->name, comm->rank,
			 mine->bus, gpu_bytes(comm->gpu) >> 20, texts[way], islands);
	mem_free(cards);
	return st;
}

enum taut_status comm_gpu_open(struct taut_comm *comm, struct gpu_card *card)
{
	struct gpu *gpu;
	enum taut_status st;

	memset(card, 0, sizeof(*card));
	if (comm->cfg.device == DEVICE_HOST)
		return TAUT_OK;
	st = gpu_open(&gpu, card, comm->rank, comm->size, *comm->cfg.algo);
	/* A failure of the group may come meanwhile, on another thread. */
	pthread_mutex_lock(&comm->lock);
	comm->gpu = gpu;
	if (gpu && atomic_load(&comm->error))
		gpu_stop(gpu);
	pthread_mutex_unlock(&comm->lock);
	return st;
}

enum taut_status comm_gpu_connect(struct taut_comm *comm, const struct gpu_card *card, bool any)
{
	if (!any)
		return TAUT_OK;
	return comm->size > 1 ? connect(comm, card) : gpu_connect(comm->gpu, card, NULL);
}

/* --- calls --- */
/* A rank that has nothing in a call with a count for every rank has no part in it. */
bool comm_gpu_call(const struct op *op)
{
	return op->comm->gpu && (gpu_memory(op->in) || gpu_memory(op->out) || (op->vectors && !op->in && !op->out));
}

static enum taut_status check_memory(const struct op *op)
{
	bool in = gpu_memory(op->in), out = gpu_memory(op->out);

	if ((op->in && !in) || (op->out && !out))
		return fail(TAUT_ERR_ARG,
			    "in is %s memory and out is %s memory: both must be of the GPU, or of the host",
			    in ? "GPU" : "host", out ? "GPU" : "host");
	return TAUT_OK;
}

static void describe(char *text, size_t len, uint64_t bytes, uint64_t word)
{
	int tag = (int)(uint32_t)word;

	if (tag == GPU_TAG_CALL)
		snprintf(text, len, "%llu bytes of a collective", (unsigned long long)bytes);
	else if (tag == GPU_TAG_ANY)
		snprintf(text, len, "%llu bytes with any tag", (unsigned long long)bytes);
	else
		snprintf(text, len, "%llu bytes with tag %d", (unsigned long long)bytes, tag);
}

static enum taut_status odd_message(const struct taut_comm *comm, const struct gpu_odd *odd)
{
	char want[64], came[64];

	describe(want, sizeof(want), odd->want_bytes, odd->want_word);
	describe(came, sizeof(came), odd->bytes, odd->word);
	return fail(TAUT_ERR_MISMATCH,
		    "rank %d expects %s from rank %d, which sent %s: on GPU memory the messages between two ranks are "
		    "matched in the order of the calls",
		    comm->rank, want, (int)odd->peer, came);
}

/* Are both of a collective, but not of the same? */
static bool is_other_call(const struct gpu_odd *odd)
{
	return (int)(uint32_t)odd->word == GPU_TAG_CALL && (int)(uint32_t)odd->want_word == GPU_TAG_CALL &&
	       odd->word != odd->want_word;
}

/* The sentence that all ranks get, who called what; one of this rank's if none comes. */
static enum taut_status other_call(struct taut_comm *comm, int peer)
{
	for (int ms = 0; ms < ASK_MS && !atomic_load(&comm->error); ms++) {
		comm_stalled(comm, true);
		sleep_ms(1);
	}
	if (atomic_load(&comm->error))
		return comm_check(comm);
	return comm_failed(comm, fail(TAUT_ERR_MISMATCH, "rank %d made another call than rank %d", peer, comm->rank));
}

enum taut_status comm_gpu_check(struct taut_comm *comm)
{
	struct gpu_odd odd;
	char why[160];
	int peer = gpu_broken(comm->gpu, why, sizeof(why));
	bool met = gpu_met_odd(comm->gpu, &odd);

	if (peer >= 0)
		return comm_failed(comm,
				   fail(TAUT_ERR_NET, "the connection of GPU memory from rank %d on host %s broke: %s",
					peer, boot_peer(comm->boot, peer)->host, why));
	if (met && !is_other_call(&odd))
		return comm_failed(comm, odd_message(comm, &odd));
	if (met)
		peer = (int)odd.peer;
	else if (!gpu_check(comm->gpu, &peer))
		return TAUT_OK;
	return other_call(comm, peer);
}

/* When the GPU does not take work any more, the others would wait for this rank. */
static enum taut_status launched(struct taut_comm *comm, enum taut_status st)
{
	return st == TAUT_ERR_SYS ? comm_failed(comm, st) : st;
}

/* Among sets of GPUs that address each other. */
static const struct sched_algo *algo_of_islands(enum sched_coll coll)
{
	switch (coll) {
	case COLL_ALL_TO_ALL:
		return sched_algo_find("pairwise");
	case COLL_GATHER:
	case COLL_SCATTER:
		return sched_algo_find("one_shot");
	default:
		return sched_algo_find("two_level");
	}
}

/* What leaves a machine is dear. Within one, two levels by PCIe put as much on it as host memory does. */
static bool goes_by_islands(const struct taut_comm *comm, size_t bytes)
{
	if (comm->nislands < 2)
		return false;
	return gpu_way(comm->gpu) == GPU_WAY_FAR || (comm->islands_linked && bytes >= ISLANDS_LEAST);
}

/* May the call be done so? An all-to-all may be in place, on some ranks or on all. */
static bool suits(const struct sched_algo *algo, const struct op *op)
{
	return algo && (op->coll != COLL_ALL_TO_ALL || algo->swaps);
}

/* NULL: what the kernels do by themselves. */
static enum taut_status find_algo(const struct sched_algo **out, const struct op *op)
{
	const struct taut_comm *comm = op->comm;
	const struct sched_algo *algo = NULL;
	enum taut_status st = TAUT_OK;

	*out = NULL;
	if (*comm->cfg.algo)
		st = plan_asked(&algo, op);
	if (!algo && goes_by_islands(comm, op_bytes(op))) {
		algo = algo_of_islands(op->coll);
		algo = cost_filter_allows(comm->filter, op->coll, algo) ? algo : NULL;
	}
	if (!st && suits(algo, op))
		*out = algo;
	return st;
}

static enum taut_status launch(struct op *op, void *stream)
{
	struct gpu_request r = { .coll = op->coll,
				 .in = op->in,
				 .out = op->out,
				 .count = op->count,
				 .type = op->type,
				 .op = op->op,
				 .root = op->root,
				 .scaled = op->scaled };
	enum taut_status st = find_algo(&r.algo, op);

	memcpy(r.scalar, op->scalar, sizeof(r.scalar));
	call_record(op->comm, op, &r.sig);
	return st ? st : gpu_collective(op->comm->gpu, &r, stream);
}

/* --- with a count for every rank --- */
/* One reduction after the other, each to its rank. */
static enum taut_status reduce_blocks(struct op *op, void *stream)
{
	struct gpu_request r = {
		.coll = COLL_REDUCE, .out = op->out, .type = op->type, .op = op->op, .scaled = op->scaled
	};
	enum taut_status st = TAUT_OK;
	uint32_t sig;

	memcpy(r.scalar, op->scalar, sizeof(r.scalar));
	call_record(op->comm, op, &sig);
	for (int k = 0; k < op->comm->size && !st; k++) {
		if (!op->in_counts[k])
			continue;
		r.root = k;
		r.in = (const char *)op->in + op->in_displs[k] * taut_type_size(op->type);
		r.count = op->in_counts[k];
		r.sig = sig ^ (uint32_t)r.count * 0x9e3779b1u; /* counts are the same on all ranks */
		st = gpu_collective(op->comm->gpu, &r, stream);
	}
	return st;
}

static bool sends_to(const struct op *op, int peer)
{
	return (op->coll != COLL_GATHER || peer == op->root) &&
	       (op->coll != COLL_SCATTER || op->comm->rank == op->root);
}

static bool receives_from(const struct op *op, int peer)
{
	return (op->coll != COLL_GATHER || op->comm->rank == op->root) &&
	       (op->coll != COLL_SCATTER || peer == op->root);
}

static void add_block(struct message *list, size_t *n, const struct op *op, int peer, bool send)
{
	const size_t *counts = send ? op->in_counts : op->out_counts, *displs = send ? op->in_displs : op->out_displs;
	char *buf = send ? (char *)(uintptr_t)op->in : op->out;
	size_t elem = taut_type_size(op->type), count = counts ? counts[peer] : op->count;

	if (!count)
		return;
	list[(*n)++] = (struct message){ .buf = buf + (counts ? displs[peer] * elem : 0),
					 .bytes = count * elem,
					 .peer = peer,
					 .tag = GPU_TAG_CALL,
					 .kind = send ? GPU_FLOW_SEND : GPU_FLOW_RECV };
}

static enum taut_status exchange_blocks(struct op *op, void *stream)
{
	struct message *list = mem_calloc(2 * (size_t)op->comm->size, sizeof(*list));
	enum taut_status st;
	uint32_t sig;
	size_t n = 0;

	if (!list)
		return fail(TAUT_ERR_NOMEM, "messages for %d ranks", op->comm->size);
	call_record(op->comm, op, &sig);
	for (int r = 0; r < op->comm->size; r++) {
		if (sends_to(op, r))
			add_block(list, &n, op, r, true);
		if (receives_from(op, r))
			add_block(list, &n, op, r, false);
	}
	for (size_t i = 0; i < n; i++)
		list[i].sig = sig;
	st = gpu_messages(op->comm->gpu, list, n, stream);
	mem_free(list);
	return st;
}

enum taut_status comm_gpu_launch(struct op *op, void *stream)
{
	struct taut_comm *comm = op->comm;
	enum taut_status st = check_memory(op);

	if (st)
		return st;
	if (op->kind != OP_COLL)
		return comm_gpu_messages(&op, 1, stream);
	comm_lock(comm, comm_ticket(comm));
	st = comm_check(comm);
	if (!st)
		st = comm_gpu_check(comm);
	if (!st && op->vectors)
		st = op->coll == COLL_REDUCE_SCATTER ? reduce_blocks(op, stream) : exchange_blocks(op, stream);
	else if (!st)
		st = launch(op, stream);
	st = launched(comm, st);
	comm_unlock(comm);
	return st;
}

/* --- messages --- */
_Static_assert(TAUT_ANY_TAG == GPU_TAG_ANY, "tags of kernels");

static void fill_messages(struct message *list, struct op *const *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct op *op = ops[i];
		bool send = op->kind == OP_SEND;

		list[i] = (struct message){ .buf = send ? (void *)(uintptr_t)op->in : op->out,
					    .bytes = op->count * taut_type_size(op->type),
					    .peer = op->root,
					    .tag = op->tag,
					    .kind = send ? GPU_FLOW_SEND : GPU_FLOW_RECV };
	}
}

enum taut_status comm_gpu_messages(struct op *const *ops, size_t n, void *stream)
{
	struct taut_comm *comm = ops[0]->comm;
	struct message *list = mem_calloc(n, sizeof(*list));
	enum taut_status st;

	if (!list)
		return fail(TAUT_ERR_NOMEM, "a group of %zu messages", n);
	fill_messages(list, ops, n);
	comm_lock(comm, comm_ticket(comm));
	st = comm_check(comm);
	if (!st)
		st = comm_gpu_check(comm);
	if (!st)
		st = launched(comm, gpu_messages(comm->gpu, list, n, stream));
	comm_unlock(comm);
	mem_free(list);
	return st;
}

enum taut_status comm_gpu_wait(struct taut_comm *comm)
{
	enum taut_status st = launched(comm, gpu_wait(comm->gpu, NULL));

	if (!st)
		st = comm_check(comm);
	return st ? st : comm_gpu_check(comm);
}

/* --- memory --- */
enum taut_status comm_gpu_alloc(void **out, size_t len, struct taut_comm *comm)
{
	struct comm_gpu_memory *m = mem_calloc(1, sizeof(*m));
	enum taut_status st = m ? TAUT_OK : fail(TAUT_ERR_NOMEM, "taut_mem_alloc: memory of a GPU");

	if (!st)
		st = gpu_segment_alloc(comm->gpu, &m->p, len ? len : 1, PUBLISH_MS);
	if (st) {
		mem_free(m);
		return comm_failed(comm, st);
	}
	m->next = comm->gpu_memory;
	comm->gpu_memory = m;
	*out = m->p;
	return TAUT_OK;
}

enum taut_status comm_gpu_free(void *p, struct taut_comm *comm)
{
	struct comm_gpu_memory **at = &comm->gpu_memory, *m;

	while (*at && (*at)->p != p)
		at = &(*at)->next;
	m = *at;
	if (!m)
		return fail(TAUT_ERR_ARG, "taut_mem_free: %p is not from taut_mem_alloc() of this communicator", p);
	*at = m->next;
	gpu_segment_free(comm->gpu, p);
	mem_free(m);
	return TAUT_OK;
}

enum taut_status comm_gpu_keep(struct taut_comm *comm, const void *p, size_t len, int ms)
{
	enum taut_status st = gpu_keep(comm->gpu, p, len);

	if (!st)
		gpu_publish(comm->gpu, p, len, ms);
	return st;
}

void comm_gpu_forget(struct taut_comm *comm, const void *p, size_t len)
{
	gpu_forget(comm->gpu, p, len);
}

void comm_gpu_stop(struct taut_comm *comm)
{
	if (comm->gpu)
		gpu_stop(comm->gpu);
}

void comm_gpu_close(struct taut_comm *comm)
{
	while (comm->gpu_memory)
		comm_gpu_free(comm->gpu_memory->p, comm);
	gpu_close(comm->gpu);
	comm->gpu = NULL;
	mem_free(comm->island_of);
	comm->island_of = NULL;
	if (comm->gpu_table)
		munmap(comm->gpu_table, comm->gpu_table_len);
	comm->gpu_table = NULL;
}
