/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share.h"

#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "cuda/share_state.h"

#define FOREVER_MS 3600000
#define CLOSE_MS 1000

size_t share_table_bytes(int nranks)
{
	return sizeof(struct share_table) + (size_t)nranks * sizeof(struct share_rank);
}

/* --- answers of the others --- */
static bool all_answer(const struct share *s, int k, enum share_answer what)
{
	for (int r = 0; r < s->a.nranks; r++)
		if (r != s->a.rank &&
		    atomic_load_explicit(&s->table->rank[r].entry_answer[s->a.rank][k], memory_order_acquire) != what)
			return false;
	return true;
}

/* How many of the others say @what of chunk @i. */
static int count_answers(const struct share *s, uint32_t i, enum share_answer what)
{
	int n = 0;

	for (int r = 0; r < s->a.nranks; r++)
		n += r != s->a.rank &&
		     atomic_load_explicit(&s->table->rank[r].chunk_answer[s->a.rank][i], memory_order_acquire) == what;
	return n;
}

/* --- the thread: chunks --- */
static void let_go(struct share *s, struct own_chunk *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->held)
		s->a.cu->mem_release(c->handle);
	c->fd = -1;
	c->held = false;
}

/* To those who have not got it; the others come again. */
static bool send_chunk(struct share *s, uint32_t i)
{
	struct own_chunk *c = &s->chunk[i];
	bool sent = false;

	if (c->given == s->foreign || c->dying || s->own->chunk[i].fabric)
		return false;
	if (c->fd < 0 && s->a.cu->mem_export(&c->fd, c->handle, CU_HANDLE_FD, 0)) {
		c->fd = -1;
		c->dying = true;
		return false;
	}
	for (int r = 0; r < s->a.nranks; r++) {
		if (!((s->foreign & ~c->given) >> r & 1) ||
		    !share_socket_send(&s->socket, &s->table->rank[r], s->a.rank, i, s->own->chunk[i].turn, c->fd))
			continue;
		c->given |= (uint64_t)1 << r;
		sent = true;
	}
	return sent;
}

static void chunk_is_over(struct share *s, uint32_t i)
{
	struct known *k = &s->known[s->own->chunk[i].entry];
	uint16_t *at = &k->index[s->own->chunk[i].at / GRAIN];

	let_go(s, &s->chunk[i]);
	if (*at == i + 1)
		*at = 0;
	k->chunks--;
	atomic_store_explicit(&s->own->chunk[i].state, SHARE_EMPTY, memory_order_release);
}

static bool settle_chunk(struct share *s, uint32_t i)
{
	struct own_chunk *c = &s->chunk[i];
	uint32_t state = atomic_load_explicit(&s->own->chunk[i].state, memory_order_acquire);
	int others = s->a.nranks - 1, mapped;

	if (state == SHARE_RETIRED && count_answers(s, i, SHARE_GONE) == others)
		chunk_is_over(s, i);
	if (state != SHARE_PUBLISHED)
		return false;
	if (c->dying) {
		c->ready = false;
		atomic_store_explicit(&s->own->chunk[i].state, SHARE_RETIRED, memory_order_release);
		return true;
	}
	mapped = count_answers(s, i, SHARE_MAPPED);
	c->ready = mapped == others;
	if (mapped + count_answers(s, i, SHARE_CANNOT) == others)
		let_go(s, c);
	return c->held && send_chunk(s, i);
}

/* --- the thread: entries --- */
static void entry_is_over(struct share *s, int k)
{
	mem_free(s->known[k].index);
	s->known[k] = (struct known){ 0 };
	s->used--;
	atomic_store_explicit(&s->own->entry[k].state, SHARE_EMPTY, memory_order_release);
}

static void set_ready(struct share *s, int k, uint32_t value)
{
	enum taut_status st;

	pthread_mutex_unlock(&s->lock); /* the copy may take its time, and a call must not wait for it */
	st = share_put(&s->a, s->stream, s->a.ready + (uint64_t)k * sizeof(value), &value, sizeof(value));
	pthread_mutex_lock(&s->lock);
	s->stuck = st;
	if (st)
		return;
	s->known[k].ready = value;
	if (value)
		log_debug(LOG_CUDA, "rank %d: entry %d, %llu bytes at %llx, is mapped by all", s->a.rank, k,
			  (unsigned long long)s->known[k].size, (unsigned long long)s->known[k].base);
}

static bool settle_entry(struct share *s, int k)
{
	struct known *own = &s->known[k];
	uint32_t state = atomic_load_explicit(&s->own->entry[k].state, memory_order_acquire);

	if (state == SHARE_RETIRED && all_answer(s, k, SHARE_GONE))
		entry_is_over(s, k);
	if (state != SHARE_PUBLISHED || s->stuck)
		return false;
	if (own->dying && !own->chunks) {
		set_ready(s, k, 0);
		if (s->stuck) /* kernels may go on using it: nobody lets go */
			return false;
		atomic_store_explicit(&s->own->entry[k].state, SHARE_RETIRED, memory_order_release);
		return true;
	}
	if (!own->dying && !own->ready && all_answer(s, k, SHARE_MAPPED))
		set_ready(s, k, 1);
	return false;
}

static bool settle(struct share *s)
{
	uint32_t chunks = atomic_load_explicit(&s->own->chunks, memory_order_relaxed); /* written under the lock */
	bool changed = false;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < chunks; i++)
		changed = settle_chunk(s, i) || changed;
	for (int k = 1; k < GPU_MAX_PLACES && s->used; k++)
		changed = settle_entry(s, k) || changed;
	pthread_mutex_unlock(&s->lock);
	return changed;
}

/* --- the thread: what is gone --- */
static bool is_gone(const struct share *s, uint64_t base, uint64_t id)
{
	struct allocation now;

	return !share_look_up(s, &now, base) || now.id != id;
}

static bool look_for_dead(struct share *s)
{
	uint32_t chunks = atomic_load_explicit(&s->own->chunks, memory_order_relaxed);
	bool found = false;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < chunks; i++) {
		struct own_chunk *c = &s->chunk[i];

		if (atomic_load(&s->own->chunk[i].state) != SHARE_PUBLISHED || c->dying)
			continue;
		c->dying = is_gone(s, c->base, c->id);
		c->ready = c->ready && !c->dying;
		found = found || c->dying;
	}
	for (int k = 1; k < GPU_MAX_PLACES; k++) {
		struct known *own = &s->known[k];

		if (!own->id || own->dying || own->kind == SHARE_POOL)
			continue;
		own->dying = own->kind == SHARE_WHOLE ? is_gone(s, own->base, own->id) : !own->chunks;
		found = found || own->dying;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

static unsigned used(struct share *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->used;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void *work(void *arg)
{
	struct share *s = arg;
	int relaxed = CU_CAPTURE_RELAXED; /* what this thread does is no part of anybody's graph */
	uint64_t looked = now_ns();

	s->a.cu->ctx_push(s->a.ctx);
	s->a.cu->capture_mode(&relaxed);
	for (;;) {
		uint32_t seen = atomic_load(&s->table->changes); /* before what it counts: closing too */
		bool changed = false;

		if (atomic_load(&s->closing))
			break;
		for (int r = 0; r < s->a.nranks; r++)
			changed = (r != s->a.rank && share_maps_follow(&s->maps, r)) || changed;
		if (now_ns() - looked >= SHARE_LOOK_MS * 1000000ull) {
			looked = now_ns();
			changed = (used(s) && look_for_dead(s)) || changed;
		}
		changed = settle(s) || changed;
		if (changed)
			share_announce(s->table);
		else
			share_wait(s->table, seen, used(s) ? SHARE_LOOK_MS : FOREVER_MS);
	}
	return NULL;
}

/* --- life --- */
/* Without one, descriptors do not come, and what needs them is copied. */
static void open_socket(struct share *s)
{
	s->socket = (struct share_socket){ .in = -1, .out = -1 };
	for (int r = 0; r < s->a.nranks; r++)
		s->foreign |= (uint64_t)!share_same_process(&s->a, r) << r;
	if (s->foreign && share_socket_open(&s->socket, s->own))
		log_warn(LOG_CUDA, "rank %d: memory of cuMemCreate() is copied", s->a.rank);
}

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
	pthread_mutex_init(&s->lock, NULL);
	st = cuda_st(args->cu->stream_create(&s->stream, CU_NON_BLOCKING), "a stream of taut's");
	if (st)
		goto err_free;
	open_socket(s);
	s->maps.a = &s->a;
	s->maps.table = s->table;
	s->maps.stream = s->stream;
	s->maps.socket = &s->socket;
	err = thread_start(&s->thread, "taut-share", work, s);
	if (err) {
		st = errno_fail(err, "a thread for the buffers of peers");
		goto err_socket;
	}
	*out = s;
	return TAUT_OK;
err_socket:
	share_socket_close(&s->socket);
	args->cu->stream_destroy(s->stream);
err_free:
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
	return st;
}

/* Ranks of this process may be about to map @i by its handle. */
static bool is_awaited(const struct share *s, uint32_t i)
{
	for (int r = 0; r < s->a.nranks; r++) {
		const struct share_rank *peer = &s->table->rank[r];
		uint8_t answer = atomic_load(&peer->chunk_answer[s->a.rank][i]);

		if (r != s->a.rank && share_same_process(&s->a, r) && !atomic_load(&peer->closed) &&
		    (answer == SHARE_UNSEEN || answer == SHARE_GONE))
			return true;
	}
	return false;
}

static void release_chunks(struct share *s)
{
	uint64_t until = now_ns() + CLOSE_MS * 1000000ull;

	for (uint32_t i = 0; i < atomic_load(&s->own->chunks); i++) {
		while (s->chunk[i].held && is_awaited(s, i) && now_ns() < until)
			share_wait(s->table, atomic_load(&s->table->changes), 1);
		if (atomic_load(&s->own->chunk[i].state) != SHARE_EMPTY)
			let_go(s, &s->chunk[i]);
	}
}

void share_close(struct share *s)
{
	if (!s)
		return;
	atomic_store(&s->closing, true);
	share_announce(s->table);
	pthread_join(s->thread, NULL);
	atomic_store(&s->own->closed, 1);
	share_announce(s->table);
	release_chunks(s);
	share_maps_close(&s->maps);
	share_socket_close(&s->socket);
	s->a.cu->stream_destroy(s->stream);
	for (int k = 1; k < GPU_MAX_PLACES; k++)
		mem_free(s->known[k].index);
	while (s->kept) {
		struct kept *k = s->kept;

		s->kept = k->next;
		mem_free(k);
	}
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}
