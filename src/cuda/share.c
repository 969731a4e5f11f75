/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

enum { EMPTY, PUBLISHED, RETIRED };
enum { NOT_MAPPED, MAPPED, CANNOT };

/* One allocation of a rank, written by that rank. */
struct entry {
	_Atomic uint32_t state;
	int32_t pid;
	uint64_t base, size;
	struct cu_ipc_handle handle;
};

struct rank_table {
	struct entry entry[GPU_MAX_PLACES];
	_Atomic uint8_t mapped[GPU_MAX_RANKS][GPU_MAX_PLACES]; /* what this rank has mapped of each rank's */
};

struct table {
	_Atomic uint32_t changes; /* counts everything that others should look at; a futex */
	_Alignas(64) struct rank_table rank[];
};

/* This rank's own view of its allocations. */
struct known {
	uint64_t id, base;
	_Atomic bool ready;
};

struct share {
	struct share_args a;
	struct table *table;
	struct rank_table *own;
	struct cu_stream *stream;
	pthread_t thread;
	_Atomic bool closing;
	struct known known[GPU_MAX_PLACES];
	uint64_t mapped_at[GPU_MAX_RANKS][GPU_MAX_PLACES];
	bool opened[GPU_MAX_RANKS][GPU_MAX_PLACES];
};

size_t share_table_bytes(int nranks)
{
	return sizeof(struct table) + (size_t)nranks * sizeof(struct rank_table);
}

/* --- the table --- */
static void announce(struct table *t)
{
	atomic_fetch_add_explicit(&t->changes, 1, memory_order_release);
	syscall(SYS_futex, &t->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_change(struct table *t, uint32_t seen)
{
	syscall(SYS_futex, &t->changes, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/* --- the thread --- */
static enum taut_status put(struct share *s, uint64_t to, const void *from, size_t len)
{
	enum taut_status st = cuda_st(s->a.cu->copy_to(to, from, len, s->stream), "an address for the GPU");

	return st ? st : cuda_st(s->a.cu->stream_sync(s->stream), "an address for the GPU");
}

static bool map(struct share *s, int r, int k)
{
	const struct entry *e = &s->table->rank[r].entry[k];
	uint64_t at = e->base, slot = s->a.maps + ((uint64_t)r * GPU_MAX_PLACES + (uint64_t)k) * sizeof(at);

	if (e->pid != (int32_t)getpid()) {
		int err = s->a.cu->ipc_open(&at, e->handle, CU_IPC_LAZY_PEER);

		if (err) {
			log_info(LOG_CUDA, "rank %d cannot map %llu bytes of rank %d: driver error %d; they are copied",
				 s->a.rank, (unsigned long long)e->size, r, err);
			return false;
		}
		s->opened[r][k] = true;
	}
	s->mapped_at[r][k] = at;
	return !put(s, slot, &at, sizeof(at));
}

static void unmap(struct share *s, int r, int k)
{
	if (s->opened[r][k])
		s->a.cu->ipc_close(s->mapped_at[r][k]);
	s->opened[r][k] = false;
}

/* Maps what is new of rank @r, lets go of what is retired. */
static bool follow(struct share *s, int r)
{
	bool changed = false;

	for (int k = 1; k < GPU_MAX_PLACES; k++) {
		uint32_t state = atomic_load_explicit(&s->table->rank[r].entry[k].state, memory_order_acquire);
		_Atomic uint8_t *mapped = &s->own->mapped[r][k];
		uint8_t now = atomic_load_explicit(mapped, memory_order_relaxed);

		if (state == PUBLISHED && now == NOT_MAPPED) {
			atomic_store_explicit(mapped, map(s, r, k) ? MAPPED : CANNOT, memory_order_release);
			changed = true;
		} else if (state == RETIRED && now != NOT_MAPPED) {
			unmap(s, r, k);
			atomic_store_explicit(mapped, NOT_MAPPED, memory_order_release);
			changed = true;
		}
	}
	return changed;
}

/* Have all peers said @what of allocation @k? */
static bool all_say(const struct share *s, int k, uint8_t what)
{
	for (int r = 0; r < s->a.nranks; r++)
		if (r != s->a.rank &&
		    atomic_load_explicit(&s->table->rank[r].mapped[s->a.rank][k], memory_order_acquire) != what)
			return false;
	return true;
}

static void settle(struct share *s)
{
	for (int k = 1; k < GPU_MAX_PLACES; k++) {
		uint32_t state = atomic_load_explicit(&s->own->entry[k].state, memory_order_acquire), one = 1;

		if (state == PUBLISHED && !s->known[k].ready && all_say(s, k, MAPPED))
			s->known[k].ready = !put(s, s->a.ready + (uint64_t)k * sizeof(one), &one, sizeof(one));
		else if (state == RETIRED && all_say(s, k, NOT_MAPPED))
			atomic_store_explicit(&s->own->entry[k].state, EMPTY, memory_order_release);
	}
}

static void *work(void *arg)
{
	struct share *s = arg;
	int relaxed = CU_CAPTURE_RELAXED; /* what this thread does is no part of anybody's graph */

	s->a.cu->ctx_push(s->a.ctx);
	s->a.cu->capture_mode(&relaxed);
	while (!atomic_load(&s->closing)) {
		uint32_t seen = atomic_load_explicit(&s->table->changes, memory_order_acquire);
		bool changed = false;

		for (int r = 0; r < s->a.nranks; r++)
			changed = (r != s->a.rank && follow(s, r)) || changed;
		settle(s);
		if (changed)
			announce(s->table);
		else
			wait_change(s->table, seen);
	}
	return NULL;
}

/* --- the caller's side --- */
struct allocation {
	uint64_t id, base, size;
};

static bool look_up(const struct share *s, struct allocation *out, const void *p)
{
	int names[] = { CU_POINTER_BUFFER_ID, CU_POINTER_START, CU_POINTER_SIZE };
	void *values[] = { &out->id, &out->base, &out->size };

	return !s->a.cu->pointer_attributes(3, names, values, (uint64_t)(uintptr_t)p) && out->base;
}

static void retire(struct share *s, int k)
{
	uint32_t zero = 0;

	put(s, s->a.ready + (uint64_t)k * sizeof(zero), &zero, sizeof(zero));
	s->known[k].id = 0;
	atomic_store(&s->known[k].ready, false);
	atomic_store_explicit(&s->own->entry[k].state, RETIRED, memory_order_release);
}

/* Allocations that are gone since: another one has their place, or nothing. */
static void retire_dead(struct share *s)
{
	for (int k = 1; k < GPU_MAX_PLACES; k++) {
		struct allocation now = { 0 };

		if (!s->known[k].id)
			continue;
		if (!look_up(s, &now, (void *)(uintptr_t)s->known[k].base) || now.id != s->known[k].id)
			retire(s, k);
	}
}

static int free_entry(const struct share *s)
{
	for (int k = 1; k < GPU_MAX_PLACES; k++)
		if (atomic_load_explicit(&s->own->entry[k].state, memory_order_acquire) == EMPTY)
			return k;
	return 0;
}

static int publish(struct share *s, const struct allocation *a)
{
	int mode = CU_CAPTURE_RELAXED, k;
	struct entry *e;
	int err;

	s->a.cu->capture_mode(&mode);
	retire_dead(s);
	k = free_entry(s);
	e = &s->own->entry[k];
	err = k ? s->a.cu->ipc_get(&e->handle, a->base) : 0;
	s->a.cu->capture_mode(&mode);
	if (!k || err)
		return 0;
	e->pid = (int32_t)getpid();
	e->base = a->base;
	e->size = a->size;
	s->known[k].id = a->id;
	s->known[k].base = a->base;
	atomic_store_explicit(&e->state, PUBLISHED, memory_order_release);
	announce(s->table);
	return k;
}

struct gpu_place share_find(struct share *s, const void *p)
{
	struct allocation a = { 0 };
	int k;

	if (!p || !look_up(s, &a, p))
		return (struct gpu_place){ 0 };
	for (k = 1; k < GPU_MAX_PLACES && s->known[k].id != a.id; k++)
		;
	if (k == GPU_MAX_PLACES)
		k = publish(s, &a);
	return (struct gpu_place){ (uint32_t)k, (uint64_t)(uintptr_t)p - a.base };
}

/* --- life --- */
enum taut_status share_open(struct share **out, const struct share_args *args)
{
	struct share *s = mem_calloc(1, sizeof(*s));
	enum taut_status st;
	int err;

	if (!s)
		return fail(TAUT_ERR_NOMEM, "the buffers of peers");
	s->a = *args;
	s->table = args->table;
	s->own = &s->table->rank[args->rank];
	st = cuda_st(args->cu->stream_create(&s->stream, CU_NON_BLOCKING), "a stream of taut's");
	if (st)
		goto err_free;
	err = pthread_create(&s->thread, NULL, work, s);
	if (err) {
		st = errno_fail(err, "a thread for the buffers of peers");
		goto err_stream;
	}
	*out = s;
	return TAUT_OK;
err_stream:
	args->cu->stream_destroy(s->stream);
err_free:
	mem_free(s);
	return st;
}

void share_close(struct share *s)
{
	if (!s)
		return;
	atomic_store(&s->closing, true);
	announce(s->table);
	pthread_join(s->thread, NULL);
	for (int r = 0; r < s->a.nranks; r++)
		for (int k = 1; k < GPU_MAX_PLACES; k++)
			unmap(s, r, k);
	s->a.cu->stream_destroy(s->stream);
	mem_free(s);
}
