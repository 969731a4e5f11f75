/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that is made of memory of the host, for one test program; a thread's context is the one it pushed last. */
#ifndef SHARE_DRIVER_H
#define SHARE_DRIVER_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "unit.h"

#define MB ((size_t)1 << 20)
enum { AREAS = 256 };

/* "GPU memory" is memfds, one a physical allocation. */
enum kind { AREA_WHOLE = 1, AREA_MAPPED, AREA_RANGE, AREA_POOL };
struct area {
	enum kind kind;
	uint64_t base, size, id, start, range; /* start, range: of the reservation */
	int fd;				       /* a duplicate of the allocation's, which is the handle */
	unsigned handles;		       /* kinds that it may be exported as */
	void *ctx;
};
static struct {
	pthread_mutex_t lock;
	struct area area[AREAS];
	uint64_t ids;
	unsigned opened, imported;
	unsigned pool_access;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local struct cu_ctx *current;

static struct area *area_at(uint64_t p, bool range)
{
	for (int i = 0; i < AREAS; i++) {
		struct area *a = &fake.area[i];

		if (a->kind && (a->kind == AREA_RANGE) == range && p >= a->base && p < a->base + a->size)
			return a;
	}
	return NULL;
}

static struct area *area_new(struct area what)
{
	int i = 0;

	while (i < AREAS && fake.area[i].kind)
		i++;
	assert_true(i < AREAS);
	fake.area[i] = what;
	fake.area[i].id = ++fake.ids;
	return &fake.area[i];
}

static int fake_attributes(unsigned n, int *names, void **values, uint64_t p)
{
	struct area none = { 0 }, *a;

	pthread_mutex_lock(&fake.lock);
	a = area_at(p, false);
	if (!a)
		a = &none;
	for (unsigned i = 0; i < n; i++) {
		if (names[i] == CU_POINTER_BUFFER_ID)
			*(uint64_t *)values[i] = a->id;
		else if (names[i] == CU_POINTER_START)
			*(uint64_t *)values[i] = a->start;
		else if (names[i] == CU_POINTER_SIZE)
			*(uint64_t *)values[i] = a->range;
		else if (names[i] == CU_POINTER_HANDLES)
			*(unsigned *)values[i] = a->handles;
		else if (names[i] == CU_POINTER_POOL)
			*(void **)values[i] = a->kind == AREA_POOL ? &fake.pool_access : NULL;
		else
			*(void **)values[i] = a->ctx;
	}
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_range(uint64_t *base, size_t *len, uint64_t p)
{
	struct area *a;

	pthread_mutex_lock(&fake.lock);
	a = area_at(p, false);
	if (a) {
		*base = a->base;
		*len = a->size;
	}
	pthread_mutex_unlock(&fake.lock);
	return a ? 0 : 500;
}

static int fake_ipc_get(struct cu_ipc_handle *out, uint64_t p)
{
	struct area *a;

	pthread_mutex_lock(&fake.lock);
	a = area_at(p, false);
	memset(out, 0, sizeof(*out));
	if (a && a->kind == AREA_WHOLE)
		snprintf(out->bytes, sizeof(out->bytes), "/proc/%d/fd/%d", (int)getpid(), a->fd);
	pthread_mutex_unlock(&fake.lock);
	return out->bytes[0] ? 0 : 1;
}

static uint64_t map_fd(int fd, uint64_t at, size_t len)
{
	void *p = mmap((void *)(uintptr_t)at, len, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	assert_true(p != MAP_FAILED);
	return (uint64_t)(uintptr_t)p;
}

/* What this process has opened. A handle that is open gives what it gave before, whatever is there by now. */
static struct opened {
	struct cu_ipc_handle handle;
	uint64_t at;
} opened[AREAS];

static struct opened *opened_new(struct cu_ipc_handle h)
{
	struct opened *unused = NULL;

	for (int i = 0; i < AREAS; i++) {
		if (!opened[i].at)
			unused = &opened[i];
		else if (!memcmp(&opened[i].handle, &h, sizeof(h)))
			return &opened[i];
	}
	assert_non_null(unused);
	unused->handle = h;
	return unused;
}

static int fake_ipc_open(uint64_t *out, struct cu_ipc_handle h, unsigned flags)
{
	int fd = open(h.bytes, O_RDWR);
	off_t len = lseek(fd, 0, SEEK_END);
	struct opened *o = opened_new(h);

	(void)flags;
	if (fd < 0)
		return 1;
	if (!o->at)
		o->at = map_fd(fd, 0, (size_t)len);
	*out = o->at;
	close(fd);
	fake.opened++;
	return 0;
}

static int fake_ipc_close(uint64_t p)
{
	for (int i = 0; i < AREAS; i++)
		if (opened[i].at == p)
			opened[i].at = 0;
	fake.opened--;
	return 0;
}

static int fake_reserve(uint64_t *out, size_t len, size_t align, uint64_t hint, unsigned long long flags)
{
	void *p = mmap(NULL, len + 2 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)align, (void)hint, (void)flags;
	assert_true(p != MAP_FAILED);
	*out = ((uint64_t)(uintptr_t)p + 2 * MB - 1) / (2 * MB) * (2 * MB);
	pthread_mutex_lock(&fake.lock);
	area_new((struct area){ .kind = AREA_RANGE, .base = *out, .size = len });
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int drop(uint64_t p, size_t len, bool range)
{
	struct area *a;

	pthread_mutex_lock(&fake.lock);
	a = area_at(p, range);
	assert_true(a && a->base == p && a->size == len);
	if (!range)
		close(a->fd);
	a->kind = 0;
	mmap((void *)(uintptr_t)p, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_address_free(uint64_t p, size_t len)
{
	return drop(p, len, true);
}

static int fake_unmap(uint64_t p, size_t len)
{
	return drop(p, len, false);
}

static int fake_map(uint64_t p, size_t len, size_t offset, uint64_t handle, unsigned long long flags)
{
	struct area *range;

	(void)offset, (void)flags;
	pthread_mutex_lock(&fake.lock);
	range = area_at(p, true);
	assert_true(range && p + len <= range->base + range->size);
	assert_true(!area_at(p, false) && !area_at(p + len - 1, false));
	map_fd((int)handle, p, len);
	area_new((struct area){ .kind = AREA_MAPPED,
				.base = p,
				.size = len,
				.start = range->base,
				.range = range->size,
				.handles = CU_HANDLE_FD,
				.fd = dup((int)handle) });
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int fake_set_access(uint64_t p, size_t len, const struct cu_access *list, size_t n)
{
	(void)p, (void)len, (void)list, (void)n;
	return 0;
}

static int fake_retain(uint64_t *handle, void *p)
{
	struct area *a;

	pthread_mutex_lock(&fake.lock);
	a = area_at((uint64_t)(uintptr_t)p, false);
	if (a && a->kind != AREA_MAPPED)
		a = NULL;
	*handle = a ? (uint64_t)dup(a->fd) : 0;
	pthread_mutex_unlock(&fake.lock);
	return !a;
}

static int fake_release(uint64_t handle)
{
	return close((int)handle);
}

static int fake_export(void *out, uint64_t handle, int kind, unsigned long long flags)
{
	(void)flags;
	if (kind == CU_HANDLE_FABRIC)
		snprintf(out, sizeof(struct cu_fabric_handle), "/proc/%d/fd/%d", (int)getpid(), dup((int)handle));
	else
		*(int *)out = dup((int)handle);
	return 0;
}

static int fake_import(uint64_t *handle, void *from, int kind)
{
	*handle = (uint64_t)(kind == CU_HANDLE_FABRIC ? open(from, O_RDWR) : dup((int)(intptr_t)from));
	return 0;
}

static int fake_pool_get(unsigned *flags, void *pool, struct cu_access *place)
{
	(void)pool, (void)place;
	*flags = fake.pool_access;
	return 0;
}

static int fake_pool_set(void *pool, const struct cu_access *list, size_t n)
{
	(void)pool, (void)n;
	fake.pool_access = list->flags;
	return 0;
}

static int fake_push(struct cu_ctx *ctx)
{
	current = ctx;
	return 0;
}

static int fake_mode(int *mode)
{
	(void)mode;
	return 0;
}

static struct cu_ctx *_Atomic no_copies; /* fail in this context */

static int fake_copy(uint64_t to, const void *from, size_t len, struct cu_stream *s)
{
	(void)s;
	if (current && current == atomic_load(&no_copies))
		return 700;
	for (size_t i = 0; i < len / 4; i++)
		__atomic_store_n((uint32_t *)(uintptr_t)to + i, ((const uint32_t *)from)[i], __ATOMIC_SEQ_CST);
	return 0;
}

static int fake_stream(struct cu_stream **out, unsigned flags)
{
	(void)flags;
	*out = NULL;
	return 0;
}

static int fake_nothing(struct cu_stream *s)
{
	(void)s;
	return 0;
}

static const struct cuda_driver driver = {
	.pointer_attributes = fake_attributes,
	.address_range = fake_range,
	.ipc_get = fake_ipc_get,
	.ipc_open = fake_ipc_open,
	.ipc_close = fake_ipc_close,
	.address_reserve = fake_reserve,
	.address_free = fake_address_free,
	.mem_map = fake_map,
	.mem_unmap = fake_unmap,
	.set_access = fake_set_access,
	.mem_retain = fake_retain,
	.mem_release = fake_release,
	.mem_export = fake_export,
	.mem_import = fake_import,
	.pool_get_access = fake_pool_get,
	.pool_set_access = fake_pool_set,
	.ctx_push = fake_push,
	.capture_mode = fake_mode,
	.copy_to = fake_copy,
	.stream_create = fake_stream,
	.stream_destroy = fake_nothing,
	.stream_sync = fake_nothing,
};

/* --- what its users call --- */
static int new_allocation(size_t len)
{
	int fd = memfd_create("gpu", 0);

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)len));
	return fd;
}

static inline char *get_whole(struct cu_ctx *ctx, size_t len, uint64_t hint)
{
	int fd = new_allocation(len);
	uint64_t p = map_fd(fd, hint, len);

	pthread_mutex_lock(&fake.lock);
	area_new((struct area){
		.kind = AREA_WHOLE, .base = p, .size = len, .start = p, .range = len, .fd = fd, .ctx = ctx });
	pthread_mutex_unlock(&fake.lock);
	return (char *)(uintptr_t)p;
}

static inline void map_new(uint64_t p, size_t len)
{
	int fd = new_allocation(len);

	fake_map(p, len, 0, (uint64_t)fd, 0);
	close(fd);
}

#endif
