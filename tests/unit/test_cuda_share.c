/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in the hands of peers, with a driver that is made of memory of the host: ranks are threads of one process
 * with a context each, or processes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "cuda/share.h"
#include "cuda/share_table.h"
#include "share_driver.h"
#include "unit.h"

enum { RANKS = 3 };

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
	assert_int_equal(share_keep(s[0], p, 4 * MB), TAUT_OK); /* of the same address, one in the other */
	share_forget(s[0], p, 4 * MB);
	check_all(w, s[0], p, 8 * MB, true);
	assert_int_equal(share_keep(s[0], p, 4 * MB), TAUT_OK);
	share_forget(s[0], p, 8 * MB);
	check_all(w, s[0], p, 4 * MB, true);
	assert_int_equal(share_find(s[0], p, 6 * MB, true).number, 0);
	share_forget(s[0], p, 4 * MB);
	assert_int_equal(share_find(s[0], p, MB, true).number, 0);
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

/* Its kernels would go on in memory that the peers have let go of. */
static void what_is_ready_stays_mapped_when_that_cannot_be_taken_back(void **state)
{
	struct world *w = world_create();
	const struct share_table *t = w->table;
	struct share *s[RANKS];
	char *p = get_whole(ctx_of(0), 4 * MB, 0), *other = get_whole(ctx_of(0), 4 * MB, 0);
	int k;

	(void)state;
	open_all(w, s);
	check_all(w, s[0], p, MB, false);
	k = (int)share_find(s[0], p, MB, false).number;
	atomic_store(&no_copies, ctx_of(0));
	share_retire(s[0], p, 300);
	assert_int_equal(w->ready[0][k], 1);
	for (int r = 1; r < RANKS; r++)
		assert_int_equal(atomic_load(&t->rank[r].entry_answer[0][k]), SHARE_MAPPED);
	assert_false(share_publish(s[0], other, MB, 100)); /* nor is anything new ready */
	close_all(s);
	atomic_store(&no_copies, NULL);
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
		cmocka_unit_test(what_is_ready_stays_mapped_when_that_cannot_be_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
