/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share.h"

#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "cuda/share_maps.h"

#define WINDOW_BYTES ((uint64_t)16 << 30) /* of a larger address range: addresses are not endless either */
#define GRAIN ((uint64_t)2 << 20)	  /* chunks begin at multiples of it */
#define CHUNK_MOST ((uint64_t)1 << 30)	  /* with larger ones a window is the whole range */
#define REFUSED 64
#define FOREVER_MS 3600000
#define CLOSE_MS 1000

/* What the driver says of an address. */
struct allocation {
	uint64_t id, start, size;
	unsigned handles; /* kinds that it may be exported as */
	void *pool, *ctx;
};

/* This rank's own view of its entries and chunks. @dying: its owner has freed it; the thread takes it back. */
struct known {
	uint64_t id; /* 0: not in use. A window: 1; a pool: its handle */
	uint64_t base, size;
	enum share_kind kind;
	bool ready, dying;
	uint32_t chunks; /* of a window, not empty */
	uint16_t *index; /* of a window: by GRAIN from its base, 1 + the chunk that begins there */
};
struct own_chunk {
	uint64_t id, base, handle;
	uint64_t given; /* by rank: has been sent the descriptor */
	int fd;
	bool held; /* handle */
	bool ready, dying;
};
struct kept {
	struct kept *next;
	uint64_t base, size;
};
/* What has been said once, by kind. */
enum said { SAID_POOL, SAID_HANDLE, SAID_GRAPH, SAID_FULL, SAIDS };

struct share {
	struct share_args a;
	struct share_table *table;
	struct share_rank *own;
	struct cu_stream *stream;
	struct share_socket socket;
	struct share_maps maps;
	pthread_t thread;
	_Atomic bool closing, look;
	uint64_t foreign; /* by rank: in another process */

	pthread_mutex_t lock; /* of what follows */
	struct known known[GPU_MAX_PLACES];
	struct own_chunk chunk[SHARE_CHUNKS];
	uint64_t turns; /* counts what has been published or found dead */
	unsigned used;	/* entries */
	struct kept *kept;
	uint64_t refused[REFUSED]; /* ids, in a ring */
	unsigned nrefused;
	bool said[SAIDS];
};

size_t share_table_bytes(int nranks)
{
	return sizeof(struct share_table) + (size_t)nranks * sizeof(struct share_rank);
}

static bool look_up(const struct share *s, struct allocation *out, uint64_t p)
{
	int names[] = { CU_POINTER_BUFFER_ID, CU_POINTER_START, CU_POINTER_SIZE,
			CU_POINTER_HANDLES,   CU_POINTER_POOL,	CU_POINTER_CONTEXT };
	void *values[] = { &out->id, &out->start, &out->size, &out->handles, &out->pool, &out->ctx };

	*out = (struct allocation){ 0 };
	return !s->a.cu->pointer_attributes(6, names, values, p) && out->id;
}

static void say(struct share *s, enum said what, const char *text)
{
	if (!s->said[what])
		log_info(LOG_CUDA, "rank %d: %s", s->a.rank, text);
	s->said[what] = true;
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
	if (state != SHARE_PUBLISHED)
		return false;
	if (own->dying && !own->chunks) {
		set_ready(s, k, 0);
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

	return !look_up(s, &now, base) || now.id != id;
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
		if (atomic_exchange(&s->look, false) || now_ns() - looked >= SHARE_LOOK_MS * 1000000ull) {
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

/* --- the caller's side: publishing --- */
static bool is_refused(const struct share *s, uint64_t id)
{
	for (unsigned i = 0; i < REFUSED; i++)
		if (s->refused[i] == id)
			return true;
	return false;
}

static void refuse(struct share *s, uint64_t id)
{
	s->refused[s->nrefused++ % REFUSED] = id;
}

static int new_entry(struct share *s, struct known what, const struct cu_ipc_handle *handle)
{
	struct share_entry *e;
	int k = 1;

	while (k < GPU_MAX_PLACES && (s->known[k].id || atomic_load(&s->own->entry[k].state) != SHARE_EMPTY))
		k++;
	if (k == GPU_MAX_PLACES) {
		say(s, SAID_FULL, "its peers have mapped as many of its allocations as they can; others are copied");
		return 0;
	}
	e = &s->own->entry[k];
	s->known[k] = what;
	s->used++;
	e->kind = what.kind;
	e->base = what.base;
	e->size = what.size;
	if (handle)
		e->handle = *handle;
	atomic_store_explicit(&e->state, SHARE_PUBLISHED, memory_order_release); /* after the entry */
	return k;
}

static int find_known(const struct share *s, enum share_kind kind, uint64_t id, uint64_t base)
{
	for (int k = 1; k < GPU_MAX_PLACES; k++)
		if (s->known[k].id == id && s->known[k].kind == kind && s->known[k].base == base && !s->known[k].dying)
			return k;
	return 0;
}

/* Do all ranks of this process that have another context reach memory of @ctx? */
static bool is_reached(const struct share *s, const void *ctx)
{
	for (int r = 0; r < s->a.nranks; r++)
		if (share_same_process(&s->a, r) && !share_same_context(&s->a, r) && ctx != s->a.ctx)
			return false;
	return true;
}

/* Is something published that was there before? While a peer has it open, its driver may take the new handle for it. */
static bool is_left(struct share *s, const struct allocation *a)
{
	bool left = false;

	for (int k = 1; k < GPU_MAX_PLACES; k++) {
		struct known *own = &s->known[k];

		if (own->kind != SHARE_WHOLE || own->base >= a->start + a->size || a->start >= own->base + own->size)
			continue;
		s->turns += !own->dying;
		own->dying = left = true;
	}
	return left;
}

static int find_whole(struct share *s, const struct allocation *a)
{
	int k = find_known(s, SHARE_WHOLE, a->id, a->start);
	struct cu_ipc_handle handle;

	if (k || is_refused(s, a->id) || is_left(s, a))
		return k;
	if (!is_reached(s, a->ctx) || s->a.cu->ipc_get(&handle, a->start)) {
		refuse(s, a->id);
		return 0;
	}
	return new_entry(s, (struct known){ .id = a->id, .base = a->start, .size = a->size, .kind = SHARE_WHOLE },
			 &handle);
}

/* --- pools --- */
static bool give_access(const struct share *s, void *pool, int device)
{
	struct cu_access a = { CU_LOCATION_DEVICE, device, CU_ACCESS_READ_WRITE };
	unsigned now = 0;

	return (!s->a.cu->pool_get_access(&now, pool, &a) && now == CU_ACCESS_READ_WRITE) ||
	       !s->a.cu->pool_set_access(pool, &a, 1);
}

/* Asked at every call: a pool may end, and another have its handle. */
static int find_pool(struct share *s, const struct allocation *a)
{
	int k;

	if (s->foreign) {
		say(s, SAID_POOL, "memory of pools (cudaMallocAsync) is copied between processes");
		return 0;
	}
	for (int r = 0; r < s->a.nranks; r++)
		if (s->a.peer[r].device != s->a.peer[s->a.rank].device && !give_access(s, a->pool, s->a.peer[r].device))
			return 0;
	k = find_known(s, SHARE_POOL, (uint64_t)(uintptr_t)a->pool, 0);
	return k ? k : new_entry(s, (struct known){ .id = (uint64_t)(uintptr_t)a->pool, .kind = SHARE_POOL }, NULL);
}

/* --- address ranges --- */
static uint32_t new_chunk(struct share *s)
{
	uint32_t n = atomic_load_explicit(&s->own->chunks, memory_order_relaxed), i = 0;

	while (i < n && atomic_load(&s->own->chunk[i].state) != SHARE_EMPTY)
		i++;
	return i;
}

/* Is something else published that was mapped there before? The peers have to let go of it first. */
static bool is_taken(struct share *s, int k, uint64_t at, uint64_t size)
{
	uint32_t n = atomic_load_explicit(&s->own->chunks, memory_order_relaxed);
	bool taken = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct share_chunk *c = &s->own->chunk[i];

		if (atomic_load(&c->state) == SHARE_EMPTY || c->entry != (uint32_t)k || c->at >= at + size ||
		    at >= c->at + c->size)
			continue;
		s->chunk[i].dying = true;
		s->chunk[i].ready = false;
		taken = true;
	}
	s->turns += taken;
	return taken;
}

/* The allocation of @a, mapped at @base; of entry @k. */
static void publish_chunk(struct share *s, const struct allocation *a, int k, uint64_t base, uint64_t size)
{
	uint32_t i = new_chunk(s);
	uint64_t handle;
	bool fabric;

	if (is_taken(s, k, base - s->known[k].base, size))
		return;
	if (i == SHARE_CHUNKS) {
		say(s, SAID_FULL, "its peers have mapped as many of its allocations as they can; others are copied");
		return;
	}
	if (s->a.cu->mem_retain(&handle, (void *)(uintptr_t)base)) {
		refuse(s, a->id);
		return;
	}
	fabric = s->foreign && !(a->handles & CU_HANDLE_FD);
	if (fabric && s->a.cu->mem_export(&s->own->chunk[i].fabric_handle, handle, CU_HANDLE_FABRIC, 0)) {
		s->a.cu->mem_release(handle);
		refuse(s, a->id);
		return;
	}
	s->chunk[i] = (struct own_chunk){ .id = a->id, .base = base, .handle = handle, .fd = -1, .held = true };
	s->known[k].index[(base - s->known[k].base) / GRAIN] = (uint16_t)(i + 1);
	s->known[k].chunks++;
	s->own->chunk[i].entry = (uint32_t)k;
	s->own->chunk[i].turn = ++s->turns;
	s->own->chunk[i].at = base - s->known[k].base;
	s->own->chunk[i].size = size;
	s->own->chunk[i].handle = handle;
	s->own->chunk[i].fabric = fabric;
	atomic_store_explicit(&s->own->chunk[i].state, SHARE_PUBLISHED, memory_order_release); /* after the chunk */
	if (i == atomic_load_explicit(&s->own->chunks, memory_order_relaxed))
		atomic_store_explicit(&s->own->chunks, i + 1, memory_order_release); /* after its state */
}

static bool is_kept(const struct share *s, uint64_t p, uint64_t len)
{
	for (const struct kept *k = s->kept; k; k = k->next)
		if (p >= k->base && p + len <= k->base + k->size)
			return true;
	return false;
}

/* The part of the reserved range where @p is; @chunk: bytes of what is mapped there. */
static void window_of(const struct allocation *a, uint64_t p, uint64_t chunk, uint64_t *base, uint64_t *size)
{
	*base = a->start;
	*size = a->size;
	if (a->size <= WINDOW_BYTES || chunk > CHUNK_MOST)
		return;
	*base += (p - a->start) / WINDOW_BYTES * WINDOW_BYTES;
	*size = a->start + a->size - *base < WINDOW_BYTES ? a->start + a->size - *base : WINDOW_BYTES;
}

static int find_window(struct share *s, const struct allocation *a, uint64_t p, uint64_t chunk)
{
	uint64_t base, size;
	uint16_t *index;
	int k;

	window_of(a, p, chunk, &base, &size);
	k = find_known(s, SHARE_WINDOW, 1, base);
	if (k)
		return s->known[k].size == size ? k : 0;
	index = mem_calloc(size / GRAIN + 1, sizeof(*index));
	if (!index)
		return 0;
	k = new_entry(s, (struct known){ .id = 1, .base = base, .size = size, .kind = SHARE_WINDOW, .index = index },
		      NULL);
	if (!k)
		mem_free(index);
	return k;
}

/* Is what is mapped at @at mapped by all? *@end: of it. Published if it is new; false then. */
static bool chunk_ready(struct share *s, int k, uint64_t at, uint64_t *end)
{
	struct known *w = &s->known[k];
	struct allocation a;
	uint64_t base;
	size_t size;
	unsigned i;

	*end = UINT64_MAX;
	if (s->a.cu->address_range(&base, &size, at) || !look_up(s, &a, at) || base < w->base ||
	    base + size > w->base + w->size || base % GRAIN || is_refused(s, a.id))
		return false;
	*end = base + size;
	i = w->index[(base - w->base) / GRAIN];
	if (i && s->chunk[i - 1].id == a.id)
		return s->chunk[i - 1].ready;
	publish_chunk(s, &a, k, base, size);
	return false;
}

static int find_mapped(struct share *s, const struct allocation *a, uint64_t p, size_t len, bool captured)
{
	uint64_t base, end;
	bool ready = true;
	size_t chunk;
	int k;

	if (s->foreign && !(a->handles & (CU_HANDLE_FD | CU_HANDLE_FABRIC))) {
		say(s, SAID_HANDLE,
		    "memory of cuMemCreate() that cannot be exported is copied between processes: set "
		    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR where it is made");
		return 0;
	}
	if (is_refused(s, a->id) || s->a.cu->address_range(&base, &chunk, p))
		return 0;
	if (captured && !is_kept(s, p, len)) {
		say(s, SAID_GRAPH, "memory of cuMemMap() in a graph is copied: register it (ncclCommRegister)");
		return 0;
	}
	k = find_window(s, a, p, chunk);
	if (!k || p + len > s->known[k].base + s->known[k].size)
		return 0;
	for (uint64_t at = p; at < p + len; at = end)
		ready = chunk_ready(s, k, at, &end) && ready;
	return ready ? k : 0;
}

/* --- the caller's side: finding --- */
/* By cuMemMap()? */
static bool is_mapped(const struct share *s, uint64_t p)
{
	uint64_t handle;

	return !s->a.cu->mem_retain(&handle, (void *)(uintptr_t)p) && !s->a.cu->mem_release(handle);
}

static struct gpu_place find(struct share *s, uint64_t p, size_t len, bool captured)
{
	struct allocation a;
	int k;

	if (!look_up(s, &a, p))
		return (struct gpu_place){ 0 };
	if (a.pool)
		k = find_pool(s, &a);
	else if (is_mapped(s, p))
		k = find_mapped(s, &a, p, len ? len : 1, captured);
	else
		k = find_whole(s, &a);
	return k ? (struct gpu_place){ (uint32_t)k, p - s->known[k].base } : (struct gpu_place){ 0 };
}

struct gpu_place share_find(struct share *s, const void *p, size_t len, bool captured)
{
	int mode = CU_CAPTURE_RELAXED;
	struct gpu_place place;
	uint64_t turns;
	unsigned entries;

	if (!p)
		return (struct gpu_place){ 0 };
	s->a.cu->capture_mode(&mode);
	pthread_mutex_lock(&s->lock);
	turns = s->turns;
	entries = s->used;
	place = find(s, (uint64_t)(uintptr_t)p, len, captured);
	turns -= s->turns;
	entries -= s->used;
	pthread_mutex_unlock(&s->lock);
	s->a.cu->capture_mode(&mode);
	if (turns || entries)
		share_announce(s->table);
	return place;
}

static bool is_ready(struct share *s, struct gpu_place place)
{
	bool ready;

	pthread_mutex_lock(&s->lock);
	ready = place.number && s->known[place.number].ready;
	pthread_mutex_unlock(&s->lock);
	return ready;
}

bool share_publish(struct share *s, const void *p, size_t len, int ms)
{
	uint64_t until = now_ns() + (uint64_t)ms * 1000000;

	for (;;) {
		uint32_t seen = atomic_load_explicit(&s->table->changes, memory_order_acquire);

		if (is_ready(s, share_find(s, p, len, false)))
			return true;
		if (now_ns() >= until)
			return false;
		share_wait(s->table, seen, 1);
	}
}

/* --- what is kept --- */
enum taut_status share_keep(struct share *s, const void *p, size_t len)
{
	struct kept *k = mem_calloc(1, sizeof(*k));

	if (!k)
		return fail(TAUT_ERR_NOMEM, "a registration of GPU memory");
	pthread_mutex_lock(&s->lock);
	*k = (struct kept){ s->kept, (uint64_t)(uintptr_t)p, len };
	s->kept = k;
	pthread_mutex_unlock(&s->lock);
	return TAUT_OK;
}

void share_forget(struct share *s, const void *p)
{
	struct kept **at, *k;

	pthread_mutex_lock(&s->lock);
	for (at = &s->kept; *at && (*at)->base != (uint64_t)(uintptr_t)p; at = &(*at)->next)
		;
	k = *at;
	if (k)
		*at = k->next;
	pthread_mutex_unlock(&s->lock);
	mem_free(k);
}

static int find_base(struct share *s, uint64_t base)
{
	int k = 1;

	pthread_mutex_lock(&s->lock);
	while (k < GPU_MAX_PLACES && !(s->known[k].id && s->known[k].kind == SHARE_WHOLE && s->known[k].base == base))
		k++;
	if (k < GPU_MAX_PLACES)
		s->known[k].dying = true;
	pthread_mutex_unlock(&s->lock);
	return k < GPU_MAX_PLACES ? k : 0;
}

void share_retire(struct share *s, const void *p, int ms)
{
	uint64_t until = now_ns() + (uint64_t)ms * 1000000;
	int k = find_base(s, (uint64_t)(uintptr_t)p);

	if (!k)
		return;
	share_announce(s->table);
	while (now_ns() < until && find_base(s, (uint64_t)(uintptr_t)p) == k)
		share_wait(s->table, atomic_load(&s->table->changes), 1);
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
