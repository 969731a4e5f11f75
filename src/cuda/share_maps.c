/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/share_maps.h"

#include <unistd.h>

#include "base/log.h"

bool share_same_process(const struct share_args *a, int r)
{
	return a->peer[r].process == a->peer[a->rank].process;
}

bool share_same_context(const struct share_args *a, int r)
{
	return share_same_process(a, r) && a->peer[r].ctx == a->peer[a->rank].ctx;
}

enum taut_status share_put(const struct share_args *a, struct cu_stream *stream, uint64_t to, const void *from,
			   size_t len)
{
	int err = a->cu->copy_to(to, from, len, stream);

	if (!err)
		err = a->cu->stream_sync(stream);
	return err ? fail(TAUT_ERR_SYS, "rank %d: a word for its GPU: driver error %d", a->rank, err) : TAUT_OK;
}

static bool refuse(const struct share_maps *m, int r, uint64_t size, const char *call, int err)
{
	log_info(LOG_CUDA, "rank %d cannot map %llu bytes of rank %d: %s: driver error %d; they are copied", m->a->rank,
		 (unsigned long long)size, r, call, err);
	return false;
}

/* --- entries --- */
static bool open_whole(struct share_maps *m, int r, const struct share_entry *e, struct share_map *map)
{
	int err;

	map->at = e->base;
	if (share_same_process(m->a, r))
		return true;
	err = m->a->cu->ipc_open(&map->at, e->handle, CU_IPC_LAZY_PEER);
	map->opened = !err;
	return !err || refuse(m, r, e->size, "cuIpcOpenMemHandle", err);
}

static bool open_window(struct share_maps *m, int r, const struct share_entry *e, struct share_map *map)
{
	int err;

	map->at = e->base;
	if (share_same_context(m->a, r))
		return true;
	err = m->a->cu->address_reserve(&map->at, e->size, 0, 0, 0);
	map->reserved = err ? 0 : e->size;
	return !err || refuse(m, r, e->size, "cuMemAddressReserve", err);
}

static bool open_entry(struct share_maps *m, int r, int k)
{
	const struct share_entry *e = &m->table->rank[r].entry[k];
	uint64_t slot = m->a->maps + ((uint64_t)r * GPU_MAX_PLACES + (uint64_t)k) * sizeof(uint64_t);
	struct share_map *map = &m->map[r][k];
	bool ok;

	*map = (struct share_map){ 0 };
	if (e->kind == SHARE_WHOLE)
		ok = open_whole(m, r, e, map);
	else
		ok = e->kind == SHARE_POOL || open_window(m, r, e, map);
	return ok && !share_put(m->a, m->stream, slot, &map->at, sizeof(map->at));
}

static void close_entry(struct share_maps *m, int r, int k)
{
	struct share_map *map = &m->map[r][k];

	if (map->opened)
		m->a->cu->ipc_close(map->at);
	if (map->reserved)
		m->a->cu->address_free(map->at, map->reserved);
	*map = (struct share_map){ 0 };
}

/* --- chunks --- */
static bool map_handle(struct share_maps *m, int r, const struct share_chunk *c, uint64_t handle)
{
	struct cu_access mine = { CU_LOCATION_DEVICE, m->a->peer[m->a->rank].device, CU_ACCESS_READ_WRITE };
	uint64_t at = m->map[r][c->entry].at + c->at;
	int err = m->a->cu->mem_map(at, c->size, 0, handle, 0);

	if (err)
		return refuse(m, r, c->size, "cuMemMap", err);
	err = m->a->cu->set_access(at, c->size, &mine, 1);
	if (!err)
		return true;
	m->a->cu->mem_unmap(at, c->size);
	return refuse(m, r, c->size, "cuMemSetAccess", err);
}

/* @from, @kind: as the driver wants them. */
static bool import(struct share_maps *m, int r, const struct share_chunk *c, void *from, int kind)
{
	uint64_t handle;
	int err = m->a->cu->mem_import(&handle, from, kind);
	bool ok;

	if (err)
		return refuse(m, r, c->size, "cuMemImportFromShareableHandle", err);
	ok = map_handle(m, r, c, handle);
	m->a->cu->mem_release(handle); /* the mapping keeps the memory */
	return ok;
}

/* SHARE_UNSEEN: it has not come yet. */
static enum share_answer import_descriptor(struct share_maps *m, int r, uint32_t i)
{
	const struct share_chunk *c = &m->table->rank[r].chunk[i];
	int fd = share_socket_take(m->socket, &m->table->rank[m->a->rank], r, i, c->turn);
	bool ok;

	if (fd < 0)
		return SHARE_UNSEEN;
	ok = import(m, r, c, (void *)(intptr_t)fd, CU_HANDLE_FD);
	close(fd);
	return ok ? SHARE_MAPPED : SHARE_CANNOT;
}

static enum share_answer map_chunk(struct share_maps *m, int r, uint32_t i)
{
	const struct share_chunk *c = &m->table->rank[r].chunk[i];
	const struct share_rank *own = &m->table->rank[m->a->rank];
	enum share_answer entry =
		atomic_load_explicit(&own->entry_answer[r][c->entry], memory_order_relaxed); /* of this thread */
	struct cu_fabric_handle fabric;

	if (entry != SHARE_MAPPED)
		return entry == SHARE_CANNOT ? SHARE_CANNOT : SHARE_UNSEEN;
	if (share_same_context(m->a, r))
		return SHARE_MAPPED;
	if (share_same_process(m->a, r))
		return map_handle(m, r, c, c->handle) ? SHARE_MAPPED : SHARE_CANNOT;
	if (!c->fabric)
		return import_descriptor(m, r, i);
	fabric = c->fabric_handle;
	return import(m, r, c, &fabric, CU_HANDLE_FABRIC) ? SHARE_MAPPED : SHARE_CANNOT;
}

static void unmap_chunk(struct share_maps *m, int r, uint32_t i)
{
	const struct share_chunk *c = &m->table->rank[r].chunk[i];

	if (!share_same_context(m->a, r))
		m->a->cu->mem_unmap(m->map[r][c->entry].at + c->at, c->size);
}

/* --- following --- */
static bool is_open(uint8_t answer)
{
	return answer == SHARE_UNSEEN || answer == SHARE_GONE;
}

static bool follow_entry(struct share_maps *m, int r, int k)
{
	_Atomic uint8_t *answer = &m->table->rank[m->a->rank].entry_answer[r][k];
	/* acquire: the entry is written before its state */
	uint32_t state = atomic_load_explicit(&m->table->rank[r].entry[k].state, memory_order_acquire);
	uint8_t now = atomic_load_explicit(answer, memory_order_relaxed);

	if (state == SHARE_PUBLISHED && is_open(now)) {
		now = open_entry(m, r, k) ? SHARE_MAPPED : SHARE_CANNOT;
	} else if (state == SHARE_RETIRED && now != SHARE_GONE) {
		close_entry(m, r, k);
		now = SHARE_GONE;
	} else {
		return false;
	}
	atomic_store_explicit(answer, now, memory_order_release); /* after the work */
	return true;
}

static bool follow_chunk(struct share_maps *m, int r, uint32_t i)
{
	_Atomic uint8_t *answer = &m->table->rank[m->a->rank].chunk_answer[r][i];
	/* acquire: the chunk is written before its state */
	uint32_t state = atomic_load_explicit(&m->table->rank[r].chunk[i].state, memory_order_acquire);
	uint8_t now = atomic_load_explicit(answer, memory_order_relaxed), was = now;

	if (state == SHARE_PUBLISHED && is_open(now)) {
		enum share_answer next = map_chunk(m, r, i);

		now = next == SHARE_UNSEEN ? was : (uint8_t)next;
	} else if (state == SHARE_RETIRED && now != SHARE_GONE) {
		if (now == SHARE_MAPPED)
			unmap_chunk(m, r, i);
		share_socket_drop(m->socket, &m->table->rank[m->a->rank], r, i);
		now = SHARE_GONE;
	}
	if (now != was)
		atomic_store_explicit(answer, now, memory_order_release); /* after the work */
	return now != was;
}

bool share_maps_follow(struct share_maps *m, int r)
{
	/* acquire: with the states that were stored before it */
	uint32_t chunks = atomic_load_explicit(&m->table->rank[r].chunks, memory_order_acquire);
	bool changed = false;

	for (int k = 1; k < GPU_MAX_PLACES; k++)
		changed = follow_entry(m, r, k) || changed;
	for (uint32_t i = 0; i < chunks; i++)
		changed = follow_chunk(m, r, i) || changed;
	return changed;
}

void share_maps_close(struct share_maps *m)
{
	struct share_rank *own = &m->table->rank[m->a->rank];

	for (int r = 0; r < m->a->nranks; r++) {
		uint32_t chunks = atomic_load(&m->table->rank[r].chunks);

		for (uint32_t i = 0; r != m->a->rank && i < chunks; i++)
			if (atomic_load(&own->chunk_answer[r][i]) == SHARE_MAPPED)
				unmap_chunk(m, r, i);
		for (int k = 1; r != m->a->rank && k < GPU_MAX_PLACES; k++)
			close_entry(m, r, k);
	}
}
