/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in the hands of peers, with a driver that is made of memory of the host: ranks are threads of one process
 * with a context each, or processes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "cuda/share.h"
#include "unit.h"

#define MB ((size_t)1 << 20)
enum { RANKS = 3, AREAS = 256 };

/* --- the driver: "GPU memory" is memfds, one a physical allocation --- */
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

static int fake_copy(uint64_t to, const void *from, size_t len, struct cu_stream *s)
{
	(void)s;
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

static char *get_whole(struct cu_ctx *ctx, size_t len, uint64_t hint)
{
	int fd = new_allocation(len);
	uint64_t p = map_fd(fd, hint, len);

	pthread_mutex_lock(&fake.lock);
	area_new((struct area){
		.kind = AREA_WHOLE, .base = p, .size = len, .start = p, .range = len, .fd = fd, .ctx = ctx });
	pthread_mutex_unlock(&fake.lock);
	return (char *)(uintptr_t)p;
}

static void map_new(uint64_t p, size_t len)
{
	int fd = new_allocation(len);

	fake_map(p, len, 0, (uint64_t)fd, 0);
	close(fd);
}

/* --- ranks --- */
struct world {
	void *table;
	uint64_t maps[RANKS][RANKS * GPU_MAX_PLACES];
	uint32_t ready[RANKS][GPU_MAX_PLACES];
	_Atomic int step[RANKS]; /* of each rank, for processes */
	struct gpu_place place;
	_Atomic int bad;
};

static struct world *world_create(void)
{
	size_t len = share_table_bytes(RANKS);
	struct world *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(w != MAP_FAILED);
	w->table = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return w;
}

static void world_destroy(struct world *w)
{
	munmap(w->table, share_table_bytes(RANKS));
	munmap(w, sizeof(*w));
}

static struct cu_ctx *ctx_of(int rank)
{
	return (struct cu_ctx *)(uintptr_t)(100 + rank);
}

static struct share *join(struct world *w, int rank, bool processes)
{
	struct share_args a = { .cu = &driver,
				.ctx = ctx_of(rank),
				.rank = rank,
				.nranks = RANKS,
				.table = w->table,
				.maps = (uint64_t)(uintptr_t)w->maps[rank],
				.ready = (uint64_t)(uintptr_t)w->ready[rank] };
	struct share *s;

	for (int r = 0; r < RANKS; r++)
		a.peer[r] = (struct share_peer){ processes ? (uint64_t)r + 1 : 1, (uint64_t)(uintptr_t)ctx_of(r), r };
	assert_int_equal(share_open(&s, &a), TAUT_OK);
	return s;
}

/* The owner knows that @rank has mapped it; the lock tells this thread. */
static char *seen_by(struct world *w, int rank, int owner, struct gpu_place place)
{
	uint64_t *at = &w->maps[rank][owner * GPU_MAX_PLACES + (int)place.number];

	pthread_mutex_lock(&fake.lock);
	pthread_mutex_unlock(&fake.lock);
	return (char *)(uintptr_t)(__atomic_load_n(at, __ATOMIC_ACQUIRE) + place.offset);
}

/* Is @p of rank 0 the same memory for the others? */
static void check_all(struct world *w, struct share *s, char *p, size_t len, bool captured)
{
	struct gpu_place place;

	assert_true(share_publish(s, p, len, 5000));
	place = share_find(s, p, len, captured);
	assert_true(place.number && w->ready[0][place.number]);
	for (int r = 1; r < RANKS; r++) {
		char *q = seen_by(w, r, 0, place);

		p[0] = (char)(r + 1);
		p[len - 1] = (char)(r + 2);
		assert_int_equal(q[0], r + 1);
		assert_int_equal(q[len - 1], r + 2);
		q[len / 2] = (char)(r + 3);
		assert_int_equal(p[len / 2], r + 3);
	}
}

static void open_all(struct world *w, struct share *s[RANKS])
{
	for (int r = 0; r < RANKS; r++)
		s[r] = join(w, r, false);
}

static void close_all(struct share *s[RANKS])
{
	for (int r = 0; r < RANKS; r++)
		share_close(s[r]);
}

static void whole_allocations_are_shared_in_a_process(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	char *p = get_whole(ctx_of(0), 8 * MB, 0), *other = get_whole(ctx_of(1), 2 * MB, 0);

	(void)state;
	open_all(w, s);
	check_all(w, s[0], p + 1000, 3 * MB, false);
	assert_false(share_publish(s[0], other, MB, 50)); /* of a context that the others have no access to */
	assert_int_equal(share_find(s[0], state, 8, false).number, 0);
	assert_int_equal(share_find(s[0], NULL, 8, false).number, 0);
	close_all(s);
	world_destroy(w);
}

/* A range of 40 MiB with chunks of 4, 2 and 6 MiB, one after the other. */
static uint64_t make_range(void)
{
	uint64_t range;

	fake_reserve(&range, 40 * MB, 0, 0, 0);
	map_new(range, 4 * MB);
	map_new(range + 4 * MB, 2 * MB);
	map_new(range + 6 * MB, 6 * MB);
	return range;
}

static void buffers_span_allocations_of_a_range(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	uint64_t range = make_range();
	char *p = (char *)(uintptr_t)range;

	(void)state;
	open_all(w, s);
	check_all(w, s[0], p + MB, MB, false);
	check_all(w, s[0], p + MB, 10 * MB, false);
	assert_false(share_publish(s[0], p + MB, 12 * MB, 50)); /* its end is not mapped */
	map_new(range + 12 * MB, 2 * MB);			/* the range grows */
	check_all(w, s[0], p + MB, 12 * MB, false);
	close_all(s);
	world_destroy(w);
}

static void what_is_mapped_anew_is_not_mistaken(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	uint64_t range = make_range();
	char *p = (char *)(uintptr_t)range;

	(void)state;
	open_all(w, s);
	for (int i = 0; i < 5; i++) {
		check_all(w, s[0], p + 4096, 9 * MB, false);
		fake_unmap(range + 4 * MB, 2 * MB);
		map_new(range + 4 * MB, 2 * MB);
		assert_int_equal(share_find(s[0], p + 4096, 9 * MB, false).number, 0);
		assert_int_not_equal(share_find(s[0], p + 4096, MB, false).number, 0);
	}
	close_all(s);
	world_destroy(w);
}

/* One allocation in the place of three, which are let go of first. */
static void allocations_of_other_sizes_take_their_place(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	uint64_t range = make_range();
	char *p = (char *)(uintptr_t)range;

	(void)state;
	open_all(w, s);
	for (int i = 0; i < 5; i++) {
		check_all(w, s[0], p + 4096, 11 * MB, false);
		fake_unmap(range, 4 * MB);
		fake_unmap(range + 4 * MB, 2 * MB);
		fake_unmap(range + 6 * MB, 6 * MB);
		map_new(range, 12 * MB);
		check_all(w, s[0], p + 2 * MB, 9 * MB, false);
		fake_unmap(range, 12 * MB);
		map_new(range + 6 * MB, 6 * MB);
		check_all(w, s[0], p + 7 * MB, 4 * MB, false);
		map_new(range + 4 * MB, 2 * MB);
		map_new(range, 4 * MB);
	}
	close_all(s);
	world_destroy(w);
}

/* A thread that has just looked whether it is to end, and has nothing to do, hears of it too. */
static void threads_end_whenever_they_are_told(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];

	(void)state;
	for (int i = 0; i < 1500; i++) {
		open_all(w, s);
		close_all(s);
	}
	world_destroy(w);
}

static void graphs_use_kept_ranges_only(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	uint64_t range = make_range();
	char *p = (char *)(uintptr_t)range;

	(void)state;
	open_all(w, s);
	check_all(w, s[0], p, 6 * MB, false);
	assert_int_equal(share_find(s[0], p, 6 * MB, true).number, 0);
	assert_int_equal(share_keep(s[0], p, 8 * MB), TAUT_OK);
	check_all(w, s[0], p, 8 * MB, true);
	assert_int_equal(share_find(s[0], p + MB, 8 * MB, true).number, 0);
	share_forget(s[0], p);
	assert_int_equal(share_find(s[0], p, 6 * MB, true).number, 0);
	close_all(s);
	world_destroy(w);
}

static void pools_are_shared_in_a_process(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	char *p = get_whole(NULL, 4 * MB, 0);

	(void)state;
	area_at((uint64_t)(uintptr_t)p, false)->kind = AREA_POOL;
	open_all(w, s);
	check_all(w, s[0], p + 512, MB, true);
	assert_int_equal(fake.pool_access, CU_ACCESS_READ_WRITE);
	close_all(s);
	world_destroy(w);
}

/* --- processes --- */
static void wait_step(struct world *w, int rank, int step)
{
	while (atomic_load(&w->step[rank]) < step)
		sleep_ms(1);
}

/* What rank 0 has put there is what a peer sees. */
static void look_at(struct world *w, int rank, int step, size_t len)
{
	char *q;

	wait_step(w, 0, step);
	q = seen_by(w, rank, 0, w->place);
	if (q[0] != (char)step || q[len - 1] != (char)(step + 1))
		atomic_store(&w->bad, step);
	atomic_store(&w->step[rank], step);
}

static void show(struct world *w, struct share *s, char *p, size_t len, int step)
{
	assert_true(share_publish(s, p, len, 10000));
	w->place = share_find(s, p, len, false);
	assert_int_not_equal(w->place.number, 0);
	p[0] = (char)step;
	p[len - 1] = (char)(step + 1);
	atomic_store(&w->step[0], step);
	for (int r = 1; r < RANKS; r++)
		wait_step(w, r, step);
	assert_int_equal(atomic_load(&w->bad), 0);
}

enum { STEPS = 40 };
static size_t len_of(int step)
{
	return step % 3 == 1 ? 3 * MB : step % 3 == 2 ? 9 * MB : 5 * MB;
}

static void run_peer(struct world *w, int rank)
{
	struct share *s = join(w, rank, true);

	for (int step = 1; step <= STEPS; step++)
		look_at(w, rank, step, len_of(step));
	wait_step(w, 0, STEPS + 1);
	share_close(s);
	_exit(0);
}

static void run_owner(struct world *w)
{
	struct share *s = join(w, 0, true);
	uint64_t range = make_range();
	char *whole = get_whole(ctx_of(0), 4 * MB, 0), *pool = get_whole(NULL, 4 * MB, 0);

	area_at((uint64_t)(uintptr_t)pool, false)->kind = AREA_POOL;
	assert_false(share_publish(s, pool, MB, 20));
	for (int step = 1; step <= STEPS; step++) {
		if (step % 3 == 1)
			show(w, s, whole + 64, len_of(step), step);
		else
			show(w, s, (char *)(uintptr_t)range + 4096, len_of(step), step);
		if (step % 3 == 0) { /* freed, and another one at the same address */
			fake_unmap((uint64_t)(uintptr_t)whole, 4 * MB);
			whole = get_whole(ctx_of(0), 4 * MB, (uint64_t)(uintptr_t)whole);
			fake_unmap(range, 4 * MB);
			map_new(range, 4 * MB);
			area_at(range, false)->handles = step % 2 ? CU_HANDLE_FD : CU_HANDLE_FABRIC;
		}
	}
	area_at(range, false)->handles = 0;
	assert_false(share_publish(s, (char *)(uintptr_t)range, MB, 20));
	atomic_store(&w->step[0], STEPS + 1);
	share_close(s);
}

static void memory_is_shared_between_processes(void **state)
{
	struct world *w = world_create();
	pid_t pid[RANKS];

	(void)state;
	for (int r = 1; r < RANKS; r++) {
		pid[r] = fork();
		if (!pid[r])
			run_peer(w, r);
	}
	run_owner(w);
	for (int r = 1; r < RANKS; r++) {
		int status;

		waitpid(pid[r], &status, 0);
		assert_int_equal(status, 0);
	}
	world_destroy(w);
}

/* --- many at once: more descriptors than a socket's queue takes --- */
static void a_buffer_of_many_allocations(void **state)
{
	struct world *w = world_create();
	struct share *s;
	uint64_t range;
	pid_t pid[RANKS];

	(void)state;
	for (int r = 1; r < RANKS; r++) {
		pid[r] = fork();
		if (!pid[r]) {
			s = join(w, r, true);
			look_at(w, r, 1, 200 * MB);
			wait_step(w, 0, 2);
			share_close(s);
			_exit(0);
		}
	}
	fake_reserve(&range, 200 * MB, 0, 0, 0);
	for (size_t i = 0; i < 100; i++)
		map_new(range + i * 2 * MB, 2 * MB);
	s = join(w, 0, true);
	show(w, s, (char *)(uintptr_t)range, 200 * MB, 1);
	atomic_store(&w->step[0], 2);
	share_close(s);
	for (int r = 1; r < RANKS; r++)
		waitpid(pid[r], NULL, 0);
	world_destroy(w);
}

static void memory_is_let_go_of_before_it_is_freed(void **state)
{
	struct world *w = world_create();
	struct share *s[RANKS];
	char *p = get_whole(ctx_of(0), 4 * MB, 0);
	uint64_t begun;
	int k;

	(void)state;
	open_all(w, s);
	check_all(w, s[0], p, MB, false);
	k = (int)share_find(s[0], p, MB, false).number;
	begun = now_ns();
	share_retire(s[0], p, 5000);
	assert_true(now_ns() - begun < 4000000000u);
	assert_int_equal(w->ready[0][k], 0);
	share_retire(s[0], p, 5000);
	close_all(s);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_allocations_are_shared_in_a_process),
		cmocka_unit_test(buffers_span_allocations_of_a_range),
		cmocka_unit_test(what_is_mapped_anew_is_not_mistaken),
		cmocka_unit_test(allocations_of_other_sizes_take_their_place),
		cmocka_unit_test(threads_end_whenever_they_are_told),
		cmocka_unit_test(graphs_use_kept_ranges_only),
		cmocka_unit_test(pools_are_shared_in_a_process),
		cmocka_unit_test(memory_is_shared_between_processes),
		cmocka_unit_test(a_buffer_of_many_allocations),
		cmocka_unit_test(memory_is_let_go_of_before_it_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
