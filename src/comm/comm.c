/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, deriving and ending communicators; their failure; the order of their calls. */
#include "comm/comm.h"
#include "cuda/gpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "topo/memory.h"

#define SPIN_NS 1000000u  /* with a core for every rank */
#define SPIN_SHARED_NS 0u /* with fewer: the core belongs to those who have work */
#define EVENT_MS 1500	  /* a broken connection is told by the control tree within this */
#define MASK_BYTES 128

/* --- failure --- */
void comm_set_error(struct taut_comm *comm, enum taut_status st, const char *text)
{
	pthread_mutex_lock(&comm->lock);
	if (!atomic_load(&comm->error)) {
		snprintf(comm->error_text, sizeof(comm->error_text), "%s", text);
		/* release: the sentence comes before the status */
		atomic_store_explicit(&comm->error, (int)st, memory_order_release);
	}
	comm_gpu_stop(comm);
	pthread_cond_broadcast(&comm->turn);
	pthread_mutex_unlock(&comm->lock);
	bell_ring(comm->net.bell);
}

static void on_event(void *ctx, const struct boot_event *event)
{
	comm_set_error(ctx, event->status, event->text);
}

/* The error that every call meets first anyway. Lock and turn are as the parent's threads left them:
 * they start anew, so that no call waits for a thread that is not here. */
static void on_fork(void *ctx, int parent)
{
	struct taut_comm *comm = ctx;

	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->turn, NULL);
	atomic_store(&comm->serving, atomic_load(&comm->next_ticket));
	snprintf(comm->error_text, sizeof(comm->error_text), "group \"%s\" belongs to process %d, not to its child",
		 comm->name, parent);
	atomic_store(&comm->error, TAUT_ERR_ARG);
	comm->forked = true;
}

enum taut_status comm_check(struct taut_comm *comm)
{
	int st = atomic_load_explicit(&comm->error, memory_order_acquire); /* status before sentence */

	return st ? fail_quiet((enum taut_status)st, "%s", comm->error_text) : TAUT_OK;
}

static bool only_here(enum taut_status st)
{
	return st == TAUT_ERR_ARG || st == TAUT_ERR_CONFIG || st == TAUT_ERR_UNSUPPORTED;
}

enum taut_status comm_failed(struct taut_comm *comm, enum taut_status st)
{
	return only_here(st) ? st : comm_broken(comm, st);
}

enum taut_status comm_broken(struct taut_comm *comm, enum taut_status st)
{
	uint64_t until = now_ns() + EVENT_MS * 1000000ull;
	char text[1024];

	snprintf(text, sizeof(text), "%s", taut_error_message());
	/* A connection that broke, or a death seen in a new group, where ranks have other numbers: the
	 * control tree says whose death that was. */
	while ((st == TAUT_ERR_NET || st == TAUT_ERR_PEER) && !atomic_load(&comm->error) && now_ns() < until)
		sleep_ms(1);
	if (!atomic_load(&comm->error)) {
		st = boot_report(comm->boot, st, text);
		comm_set_error(comm, st, taut_error_message());
	}
	return comm_check(comm);
}

enum taut_status taut_comm_status(struct taut_comm *comm)
{
	enum taut_status st;

	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_comm_status: comm is NULL");
	st = comm_check(comm);
	return st || !comm->gpu ? st : comm_gpu_check(comm); /* the GPU's failure may not have been looked for yet */
}

enum taut_status taut_comm_abort(struct taut_comm *comm)
{
	enum taut_status st;

	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_comm_abort: comm is NULL");
	if (comm->forked)
		return comm_check(comm);
	st = boot_abort(comm->boot);
	comm_set_error(comm, st, taut_error_message()); /* as the others hear it */
	return TAUT_OK;
}

/* --- order --- */
/* Tickets are taken by the threads that make calls, one at a time; workers only read the count. */
uint64_t comm_ticket(struct taut_comm *comm)
{
	uint64_t ticket = atomic_load_explicit(&comm->next_ticket, memory_order_relaxed);

	atomic_store_explicit(&comm->next_ticket, ticket + 1, memory_order_relaxed);
	return ticket;
}

void comm_lock(struct taut_comm *comm, uint64_t ticket)
{
	/* acquire, with the release in comm_unlock(): what the call before wrote in @comm is seen by the next */
	if (atomic_load_explicit(&comm->serving, memory_order_acquire) == ticket)
		return;
	pthread_mutex_lock(&comm->lock);
	atomic_fetch_add_explicit(&comm->waiters, 1, memory_order_relaxed);
	/* As in comm_unlock(): one of the two sees the other. */
	fence(memory_order_seq_cst);
	while (atomic_load_explicit(&comm->serving, memory_order_acquire) != ticket)
		pthread_cond_wait(&comm->turn, &comm->lock);
	atomic_fetch_sub_explicit(&comm->waiters, 1, memory_order_relaxed);
	pthread_mutex_unlock(&comm->lock);
}

void comm_unlock(struct taut_comm *comm)
{
	uint64_t next = atomic_load_explicit(&comm->serving, memory_order_relaxed) + 1;

	atomic_store_explicit(&comm->serving, next, memory_order_release);
	/* A call on a stream may wait for this one. Without streams nobody can. */
	if (!atomic_load_explicit(&comm->streams_used, memory_order_relaxed))
		return;
	fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&comm->waiters, memory_order_relaxed))
		return;
	pthread_mutex_lock(&comm->lock);
	pthread_cond_broadcast(&comm->turn);
	pthread_mutex_unlock(&comm->lock);
}

/* --- making --- */
static void free_parts(struct taut_comm *comm)
{
	comm_gpu_close(comm);
	comm_links_cleanup(comm);
	plans_free(comm);
	mem_cleanup(comm);
	tune_free(comm->tune);
	cost_filter_free(comm->filter);
	mem_free(comm->premul);
	mem_free(comm->scratch);
	mem_free(comm->temp);
	if (comm->task)
		exec_task_cleanup(comm->task);
	mem_free(comm->task);
	mem_free(comm->node_of);
	mem_free(comm->order);
	bell_destroy(comm->net.bell);
	config_cleanup(&comm->cfg);
	pthread_cond_destroy(&comm->turn);
	pthread_mutex_destroy(&comm->lock);
	mem_free(comm);
}

/* @cfg: copied, or NULL to read the settings. */
static enum taut_status comm_new(struct taut_comm **out, const struct config *cfg, const struct taut_comm_opts *opts)
{
	struct taut_comm *comm = mem_calloc(1, sizeof(*comm));
	enum taut_status st;

	if (!comm)
		return fail(TAUT_ERR_NOMEM, "a communicator");
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->turn, NULL);
	snprintf(comm->name, sizeof(comm->name), "%s", opts && opts->name ? opts->name : "world");
	st = cfg ? config_copy(&comm->cfg, cfg) : config_load(&comm->cfg);
	if (st)
		goto err_free;
	log_init(&comm->cfg);
	st = bell_create(&comm->net.bell);
	if (st)
		goto err_free;
	comm->task = mem_calloc(1, sizeof(*comm->task));
	if (!comm->task) {
		st = fail(TAUT_ERR_NOMEM, "a communicator");
		goto err_free;
	}
	*out = comm;
	return TAUT_OK;
err_free:
	free_parts(comm);
	return st;
}

static _Thread_local struct boot_stop *stop;

void comm_stop_with(struct boot_stop *with)
{
	stop = with;
}

static struct boot_callbacks callbacks(struct taut_comm *comm)
{
	return (struct boot_callbacks){ .ctx = comm,
					.on_dial = comm_on_dial,
					.on_event = on_event,
					.describe = comm_describe,
					.on_fork = on_fork,
					.stop = stop };
}

static int timeout_of(const struct taut_comm *comm, const struct taut_comm_opts *opts)
{
	return opts && opts->timeout_ms > 0 ? opts->timeout_ms : comm->cfg.join_timeout_ms;
}

/* --- what all ranks must hold alike --- */
static enum taut_status set_text(struct config *cfg, const char *name, const char *value)
{
	return config_set(cfg, name, value);
}

static enum taut_status take_agreed(struct taut_comm *comm, const struct comm_agreed *a)
{
	enum taut_status st;

	comm->cfg.slot_bytes = a->slot_bytes;
	comm->cfg.slots = (int)a->slots;
	comm->cfg.sockets = (int)a->sockets;
	comm->cfg.check = a->check;
	comm->cfg.channels = a->channels;
	comm->cfg.shm_disable = a->shm_disable;
	comm->memory_byte_us = a->memory_byte_us;
	st = set_text(&comm->cfg, "TAUT_WIRE", a->wire);
	if (!st)
		st = set_text(&comm->cfg, "TAUT_ALGO", a->algo);
	return st ? st : set_text(&comm->cfg, "TAUT_PROTO", a->proto);
}

static enum taut_status put_agreed(struct comm_agreed *a, const struct taut_comm *comm)
{
	const struct config *cfg = &comm->cfg;
	enum taut_status st = wire_check(cfg->wire);

	if (st)
		return st;
	if (strlen(cfg->algo) >= sizeof(a->algo) || strlen(cfg->proto) >= sizeof(a->proto) ||
	    strlen(cfg->wire) >= sizeof(a->wire))
		return fail(TAUT_ERR_CONFIG, "TAUT_ALGO, TAUT_PROTO or TAUT_WIRE is longer than %zu, %zu or %zu bytes",
			    sizeof(a->algo) - 1, sizeof(a->proto) - 1, sizeof(a->wire) - 1);
	a->slot_bytes = cfg->slot_bytes;
	a->slots = (uint64_t)cfg->slots;
	a->sockets = (uint64_t)cfg->sockets;
	a->check = cfg->check;
	a->channels = cfg->channels;
	a->shm_disable = cfg->shm_disable;
	strcpy(a->wire, cfg->wire);
	strcpy(a->algo, cfg->algo);
	strcpy(a->proto, cfg->proto);
	return TAUT_OK;
}

static int node_ranks(const struct taut_comm *comm, int node)
{
	int n = 0;

	for (int r = 0; r < comm->size; r++)
		n += comm->node_of[r] == node;
	return n;
}

/* Of rank 0's machine. The others wait meanwhile, so that it is quiet for a measurement. */
static double memory_byte_us(const struct taut_comm *comm)
{
	struct memory_speed speed;
	char note[1024];
	int ranks = node_ranks(comm, comm->node_of[0]);
	double each;

	if (!memory_speed_get(&speed, note, sizeof(note))) {
		log_info(LOG_COMM, "group \"%s\": memory: figures of a usual server, %s", comm->name, note);
		return 0;
	}
	each = memory_speed_each(&speed, ranks);
	log_info(LOG_COMM, "group \"%s\": memory: copies of %.1f GB/s on each of %d cores, %s", comm->name, each,
		 ranks < speed.cores ? ranks : speed.cores, note);
	return 1e-3 / each;
}

/* Rank 0's tuning file goes to all; without one, how fast its memory is. */
static enum taut_status agree_tune(struct taut_comm *comm, struct comm_agreed *a)
{
	struct tune *t = NULL;
	char *text = NULL;
	size_t len = 0;
	enum taut_status st = TAUT_OK;

	if (comm->rank == 0) {
		st = tune_load(&t, comm->cfg.tune_file);
		if (!st && t)
			st = tune_text(&text, &len, t);
		if (st)
			log_warn(LOG_COMM, "group \"%s\" goes on without a tuning file", comm->name);
		else if (t)
			log_info(LOG_COMM, "group \"%s\": memory: figures of the tuning file", comm->name);
		else if (comm->size > 1)
			a->memory_byte_us = memory_byte_us(comm);
		tune_free(t);
		a->tune_len = st ? 0 : len;
	}
	st = boot_broadcast(comm->boot, a, sizeof(*a));
	if (!st && a->tune_len && comm->rank != 0) {
		text = mem_calloc(1, a->tune_len + 1);
		st = text ? TAUT_OK
			  : fail(TAUT_ERR_NOMEM, "a tuning file of %llu bytes", (unsigned long long)a->tune_len);
	}
	for (size_t at = 0; !st && at < a->tune_len; at += 32768)
		st = boot_broadcast(comm->boot, text + at, a->tune_len - at < 32768 ? a->tune_len - at : 32768);
	if (!st && a->tune_len)
		st = tune_parse(&comm->tune, "rank 0's tuning file", text, a->tune_len);
	mem_free(text);
	return st;
}

static enum taut_status agree(struct taut_comm *comm)
{
	struct comm_agreed a = { 0 };
	enum taut_status st = put_agreed(&a, comm);

	if (!st)
		st = agree_tune(comm, &a);
	if (!st)
		st = take_agreed(comm, &a);
	if (!st)
		st = cost_filter_parse(&comm->filter, comm->cfg.algo, comm->cfg.proto);
	return st;
}

/* --- cores --- */
static int count_bits(const unsigned char *mask)
{
	int n = 0;

	for (int i = 0; i < MASK_BYTES; i++)
		n += __builtin_popcount(mask[i]);
	return n;
}

/* What each rank says of itself: the processors that it may use, and in the last byte whether it has a GPU. */
enum { SAYS = MASK_BYTES + 1 };

/* Cores that the ranks of @node may use between them. */
static int node_cores(const struct taut_comm *comm, const unsigned char *says, int node)
{
	unsigned char all[MASK_BYTES] = { 0 };

	for (int r = 0; r < comm->size; r++)
		for (int i = 0; comm->node_of[r] == node && i < MASK_BYTES; i++)
			all[i] |= says[(size_t)r * SAYS + (size_t)i];
	return count_bits(all) ? count_bits(all) : 1;
}

static void use_cores(struct taut_comm *comm, const unsigned char *says)
{
	int node = comm->node_of[comm->rank];
	bool enough = node_ranks(comm, node) <= node_cores(comm, says, node);

	comm->machine.cores = node_cores(comm, says, comm->node_of[0]);
	comm->net.spin_ns = enough ? SPIN_NS : SPIN_SHARED_NS;
	if (comm->cfg.spin_us >= 0)
		comm->net.spin_ns = (uint32_t)comm->cfg.spin_us * 1000u;
}

static bool any_gpu(const struct taut_comm *comm, const unsigned char *says)
{
	bool any = false;

	for (int r = 0; r < comm->size; r++)
		any = any || says[(size_t)r * SAYS + MASK_BYTES];
	return any;
}

static enum taut_status know_ranks(struct taut_comm *comm)
{
	unsigned char mine[SAYS] = { 0 }, *says = mem_calloc((size_t)comm->size, SAYS);
	struct gpu_card card;
	enum taut_status st;

	if (!says)
		return fail(TAUT_ERR_NOMEM, "processor masks of %d ranks", comm->size);
	sched_getaffinity(0, MASK_BYTES, (cpu_set_t *)(void *)mine);
	st = comm_gpu_open(comm, &card);
	mine[MASK_BYTES] = (unsigned char)card.used;
	if (!st)
		st = boot_all_gather(comm->boot, mine, sizeof(mine), says);
	if (!st) {
		use_cores(comm, says);
		st = comm_gpu_connect(comm, &card, any_gpu(comm, says));
	}
	mem_free(says);
	return st;
}

/* --- after the ranks have met --- */
static void set_machine(struct taut_comm *comm)
{
	struct cost_machine *m = &comm->machine;

	for (int i = 0; i < 2; i++) {
		m->link[i].slot_bytes = comm->cfg.slot_bytes;
		if (m->link[i].ll_max > 4096)
			m->link[i].ll_max = 4096;
	}
	if (comm->memory_byte_us > 0)
		cost_machine_memory(m, comm->memory_byte_us);
	tune_apply(comm->tune, m);
	m->one_wire = comm->cfg.shm_disable || !strcmp(comm->cfg.wire, "tcp");
}

/* A buffer as big as a core's own cache leaves it before anybody reads it: stores past the caches
 * spare the reading of what is overwritten (2 MiB all-reduce of two ranks: 297 us, not 328). */
static size_t nt_bytes(void)
{
	long own = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return own > 0 ? (size_t)own : (size_t)2 << 20;
}

static void set_net(struct taut_comm *comm)
{
	comm->nt_bytes = nt_bytes();
	comm->net.rank = comm->rank;
	comm->net.nranks = comm->size;
	comm->net.error = &comm->error;
	comm->net.ctx = comm;
	comm->net.attach_tx = comm_attach_tx;
	comm->net.attach_rx = comm_attach_rx;
	comm->net.stalled = comm_stalled;
	comm->net.quiet = comm_quiet;
	comm->net.stall_ms = (uint32_t)comm->cfg.stall_ms;
}

static enum taut_status finish_create(struct taut_comm *comm)
{
	enum taut_status st;

	comm->rank = boot_rank(comm->boot);
	comm->size = boot_size(comm->boot);
	comm->node_of = mem_calloc((size_t)comm->size, sizeof(*comm->node_of));
	if (!comm->node_of)
		return fail(TAUT_ERR_NOMEM, "the machines of %d ranks", comm->size);
	for (int r = 0; r < comm->size; r++)
		comm->node_of[r] = boot_peer(comm->boot, r)->node;
	st = comm_find_order(comm);
	if (!st)
		st = agree(comm);
	cost_machine_default(&comm->machine);
	if (!st)
		st = know_ranks(comm);
	if (st)
		return st;
	set_machine(comm);
	set_net(comm);
	st = comm->gpu && comm->size > 1 ? comm_watch_open(comm) : TAUT_OK;
	if (st)
		return st;
	log_info(LOG_COMM, "group \"%s\": rank %d of %d, %d machines, %d cores", comm->name, comm->rank, comm->size,
		 boot_nodes(comm->boot), comm->machine.cores);
	return TAUT_OK;
}

static enum taut_status give_or_end(struct taut_comm **out, struct taut_comm *comm, enum taut_status st)
{
	if (!st)
		st = finish_create(comm);
	if (st) {
		comm_watch_close(comm);
		boot_close(comm->boot);
		free_parts(comm);
		return st;
	}
	*out = comm;
	return TAUT_OK;
}

static enum taut_status give_created(struct taut_comm **out, struct taut_comm *comm, enum taut_status st)
{
	st = give_or_end(out, comm, st);
	if (!st)
		comm_dump_topology(comm);
	return st;
}

static enum taut_status check_opts(const char *call, const void *out, const struct taut_comm_opts *opts)
{
	if (!out)
		return fail(TAUT_ERR_ARG, "%s: out is NULL", call);
	if (opts && opts->size != sizeof(*opts))
		return fail(TAUT_ERR_ARG, "%s: opts->size is %zu, this library's is %zu: set it to sizeof(*opts)", call,
			    opts->size, sizeof(*opts));
	if (opts && opts->timeout_ms < 0)
		return fail(TAUT_ERR_ARG,
			    "%s: opts->timeout_ms is %d, wanted: 1 or more, or 0 for TAUT_JOIN_TIMEOUT_MS", call,
			    opts->timeout_ms);
	return TAUT_OK;
}

enum taut_status taut_id_create(struct taut_id *out)
{
	struct config cfg;
	enum taut_status st;

	if (!out)
		return fail(TAUT_ERR_ARG, "taut_id_create: out is NULL");
	st = config_load(&cfg);
	if (st)
		return st;
	log_init(&cfg);
	st = boot_id_create(out, &cfg);
	config_cleanup(&cfg);
	return st;
}

enum taut_status taut_comm_create(struct taut_comm **out, const struct taut_id *id, int rank, int size,
				  const struct taut_comm_opts *opts)
{
	enum taut_status st = check_opts("taut_comm_create", out, opts);
	struct boot_callbacks cb;
	struct taut_comm *comm;

	if (st)
		return st;
	if (!id)
		return fail(TAUT_ERR_ARG, "taut_comm_create: id is NULL");
	if (size < 1 || size > 1 << 20)
		return fail(TAUT_ERR_ARG, "taut_comm_create: size is %d, wanted: 1 to %d", size, 1 << 20);
	if (rank < 0 || rank >= size)
		return fail(TAUT_ERR_ARG, "taut_comm_create: rank is %d, wanted: 0 to %d", rank, size - 1);
	st = comm_new(&comm, NULL, opts);
	if (st)
		return st;
	cb = callbacks(comm);
	st = boot_create(&comm->boot, id, rank, size, timeout_of(comm, opts), &comm->cfg, &cb);
	return give_created(out, comm, st);
}

/* By launcher or settings; of comm->cfg. */
static enum taut_status create_found(struct taut_comm **out, struct taut_comm *comm, const struct taut_comm_opts *opts)
{
	struct boot_callbacks cb = callbacks(comm);
	struct boot_env env;
	enum taut_status st = boot_env_detect(&env, &comm->cfg);

	if (!st)
		st = boot_create_env(&comm->boot, &env, timeout_of(comm, opts), &comm->cfg, &cb);
	return give_created(out, comm, st);
}

enum taut_status taut_comm_create_env(struct taut_comm **out, const struct taut_comm_opts *opts)
{
	enum taut_status st = check_opts("taut_comm_create_env", out, opts);
	struct taut_comm *comm;

	if (!st)
		st = comm_new(&comm, NULL, opts);
	return st ? st : create_found(out, comm, opts);
}

enum taut_status comm_create_at_rendezvous(struct taut_comm **out, int rank, int size,
					   const struct taut_comm_opts *opts)
{
	struct taut_comm *comm = NULL;
	enum taut_status st = comm_new(&comm, NULL, opts);

	if (st)
		return st;
	comm->cfg.rank = rank;
	comm->cfg.size = size;
	return create_found(out, comm, opts);
}

/* --- groups of groups --- */
static enum taut_status derive(struct taut_comm **out, struct taut_comm *parent, const int *ranks, int size,
			       uint64_t tag, const struct taut_comm_opts *opts)
{
	struct boot_callbacks cb;
	struct taut_comm *comm;
	enum taut_status st = comm_new(&comm, &parent->cfg, opts);

	if (st)
		return st;
	if (!opts || !opts->name)
		snprintf(comm->name, sizeof(comm->name), "%.48s/%llu", parent->name,
			 (unsigned long long)tag & 0xffffffff);
	cb = callbacks(comm);
	st = boot_derive(&comm->boot, parent->boot, ranks, size, tag, timeout_of(comm, opts), &cb);
	return give_or_end(out, comm, st);
}

struct split_entry {
	int color, key;
};
/* A split, or what is one under another name. */
struct split {
	const char *name; /* for its sentences */
	enum comm_call call;
	struct split_entry mine;
	const struct taut_comm_opts *opts;
};

/* Ranks of @color by key, then by rank: an insertion into the list as ranks come. */
static int members(const struct split_entry *all, int n, int color, int *ranks)
{
	int count = 0;

	for (int r = 0; r < n; r++) {
		int at = count;

		if (all[r].color != color)
			continue;
		for (; at > 0 && all[ranks[at - 1]].key > all[r].key; at--)
			ranks[at] = ranks[at - 1];
		ranks[at] = r;
		count++;
	}
	return count;
}

static enum taut_status derive_members(struct taut_comm **out, struct taut_comm *comm, const struct split *s,
				       const struct split_entry *all, int *ranks, uint64_t tag)
{
	int n = members(all, comm->size, s->mine.color, ranks);
	enum taut_status st = derive(out, comm, ranks, n, tag, s->opts);

	/* Its sentence may speak of ranks by their new numbers. */
	return st ? fail_quiet(st, "%s: %s", s->name, taut_error_message()) : TAUT_OK;
}

static enum taut_status split_locked(struct taut_comm **out, struct taut_comm *comm, const struct split *s)
{
	struct split_entry *all = mem_calloc((size_t)comm->size, sizeof(*all));
	int *ranks = mem_calloc((size_t)comm->size, sizeof(*ranks));
	uint64_t tag = ++comm->derived;
	enum taut_status st = comm_check(comm);

	if (!st)
		call_note(comm, s->call, 0);
	if (!st && (!all || !ranks))
		st = fail(TAUT_ERR_NOMEM, "%s: a table of %d ranks", s->name, comm->size);
	if (!st)
		st = boot_stop_aim(stop, comm->boot);
	if (!st)
		st = boot_all_gather(comm->boot, &s->mine, sizeof(s->mine), all);
	boot_stop_aim(stop, NULL);
	if (!st && s->mine.color == TAUT_NO_COLOR)
		*out = NULL;
	else if (!st)
		st = derive_members(out, comm, s, all, ranks, tag);
	mem_free(ranks);
	mem_free(all);
	/* The others wait for this rank, in the exchange or in the new group. */
	return st ? comm_failed(comm, st) : TAUT_OK;
}

static enum taut_status split(struct taut_comm **out, struct taut_comm *comm, const struct split *s)
{
	enum taut_status st = check_opts(s->name, out, s->opts);

	if (st)
		return st;
	comm_lock(comm, comm_ticket(comm));
	st = split_locked(out, comm, s);
	comm_unlock(comm);
	return st;
}

enum taut_status taut_comm_split(struct taut_comm **out, struct taut_comm *comm, int color, int key,
				 const struct taut_comm_opts *opts)
{
	const struct split s = { "taut_comm_split", CALL_SPLIT, { color, key }, opts };

	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_comm_split: comm is NULL");
	if (color < 0 && color != TAUT_NO_COLOR)
		return fail(TAUT_ERR_ARG, "taut_comm_split: color is %d, wanted: 0 or more, or TAUT_NO_COLOR", color);
	return split(out, comm, &s);
}

enum taut_status taut_comm_dup(struct taut_comm **out, struct taut_comm *comm, const struct taut_comm_opts *opts)
{
	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_comm_dup: comm is NULL");
	return split(out, comm, &(struct split){ "taut_comm_dup", CALL_DUP, { 0, comm->rank }, opts });
}

enum taut_status taut_comm_shrink(struct taut_comm **out, struct taut_comm *comm, const struct taut_comm_opts *opts)
{
	enum taut_status st = check_opts("taut_comm_shrink", out, opts);
	int *ranks, count;
	uint32_t number;

	if (st)
		return st;
	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_comm_shrink: comm is NULL");
	for (int i = 0; opts && i < opts->num_exclude; i++)
		if (opts->exclude[i] == comm->rank)
			return fail(TAUT_ERR_ARG, "taut_comm_shrink: rank %d is itself in opts->exclude", comm->rank);
	st = boot_survivors(&ranks, &count, &number, comm->boot, opts ? opts->exclude : NULL,
			    opts ? opts->num_exclude : 0, timeout_of(comm, opts), stop);
	if (st)
		return st;
	/* The list itself goes into the new group's key; the number tells two shrinks to one list apart. */
	st = derive(out, comm, ranks, count, BOOT_TAG_SURVIVORS | number, opts);
	mem_free(ranks);
	return st;
}

void taut_comm_destroy(struct taut_comm *comm)
{
	/* A child's copy is left alone: to close its connections would end those of the parent. */
	if (!comm || comm->forked)
		return;
	comm_lock(comm, comm_ticket(comm)); /* after what streams still hold */
	comm_watch_close(comm);
	boot_close(comm->boot);
	free_parts(comm);
}

/* --- queries --- */
int taut_comm_rank(const struct taut_comm *comm)
{
	return comm ? comm->rank : -1;
}

int taut_comm_size(const struct taut_comm *comm)
{
	return comm ? comm->size : -1;
}

int taut_comm_local_rank(const struct taut_comm *comm)
{
	return comm ? boot_peer(comm->boot, comm->rank)->local_rank : -1;
}

int taut_comm_local_size(const struct taut_comm *comm)
{
	return comm ? node_ranks(comm, comm->node_of[comm->rank]) : -1;
}
