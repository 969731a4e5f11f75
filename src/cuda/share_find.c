/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of share.h: what is at an address, whether the peers have it, and publishing what is new. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cuda/share_state.h"

#define WINDOW_BYTES ((uint64_t)16 << 30) /* of a larger address range: addresses are not endless either */
#define CHUNK_MOST ((uint64_t)1 << 30)	  /* with larger ones a window is the whole range */

bool share_look_up(const struct share *s, struct allocation *out, uint64_t p)
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

/* --- publishing --- */
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
	if (s->a.cu->address_range(&base, &size, at) || !share_look_up(s, &a, at) || base < w->base ||
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

/* --- finding --- */
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

	if (!share_look_up(s, &a, p))
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

void share_forget(struct share *s, const void *p, size_t len)
{
	struct kept **at, *k;

	pthread_mutex_lock(&s->lock);
	for (at = &s->kept; *at && ((*at)->base != (uint64_t)(uintptr_t)p || (*at)->size != len); at = &(*at)->next)
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
