/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/bind.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include "base/mem.h"

int bind_core(int rank, int ranks, int cores)
{
	if (ranks > cores)
		return rank % cores;
	return (int)((long)rank * cores / ranks);
}

/* Only processors and cores: what else hwloc looks for takes longer than starting a rank. */
static enum taut_status load_cores(hwloc_topology_t *out)
{
	hwloc_topology_t t;

	if (hwloc_topology_init(&t))
		return errno_fail(errno, "hwloc does not start");
	hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
	if (hwloc_topology_load(t)) {
		int err = errno;

		hwloc_topology_destroy(t);
		return errno_fail(err, "hwloc cannot read this machine");
	}
	*out = t;
	return TAUT_OK;
}

/* The @index-th core that shares a processor with @mine; its part of @mine to @set. */
static int usable_core(hwloc_topology_t t, hwloc_const_bitmap_t mine, int index, hwloc_bitmap_t set)
{
	int depth = hwloc_get_type_or_below_depth(t, HWLOC_OBJ_CORE), seen = 0;

	for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_depth(t, depth, core));) {
		hwloc_bitmap_and(set, core->cpuset, mine);
		if (!hwloc_bitmap_iszero(set) && seen++ == index)
			return 0;
	}
	return -1;
}

static int usable_cores(hwloc_topology_t t, hwloc_const_bitmap_t mine, hwloc_bitmap_t scratch)
{
	int n = 0;

	while (!usable_core(t, mine, n, scratch))
		n++;
	return n;
}

static enum taut_status fill_slot(struct bind *b, int rank, hwloc_topology_t t, hwloc_const_bitmap_t mine,
				  hwloc_bitmap_t set)
{
	struct bind_slot *slot = &b->slots[rank];

	slot->set = mem_calloc(1, b->set_bytes);
	if (!slot->set)
		return fail(TAUT_ERR_NOMEM, "cores of rank %d", rank);
	if (usable_core(t, mine, bind_core(rank, b->ranks, b->cores), set) ||
	    hwloc_cpuset_to_glibc_sched_affinity(t, set, slot->set, b->set_bytes))
		return fail(TAUT_ERR_INTERNAL, "no core for rank %d of %d on %d cores", rank, b->ranks, b->cores);
	hwloc_bitmap_list_snprintf(slot->list, sizeof(slot->list), set);
	return TAUT_OK;
}

static enum taut_status fill(struct bind *b, hwloc_topology_t t, hwloc_bitmap_t mine, hwloc_bitmap_t set)
{
	enum taut_status st = TAUT_OK;

	if (hwloc_get_cpubind(t, mine, HWLOC_CPUBIND_PROCESS))
		return errno_fail(errno, "which processors may this process use");
	b->cores = usable_cores(t, mine, set);
	if (!b->cores)
		return fail(TAUT_ERR_SYS, "hwloc names no core that this process may use");
	b->set_bytes = CPU_ALLOC_SIZE((size_t)hwloc_bitmap_last(hwloc_topology_get_complete_cpuset(t)) + 1);
	b->slots = mem_calloc((size_t)b->ranks, sizeof(*b->slots));
	if (!b->slots)
		return fail(TAUT_ERR_NOMEM, "cores of %d ranks", b->ranks);
	for (int rank = 0; rank < b->ranks && !st; rank++)
		st = fill_slot(b, rank, t, mine, set);
	return st;
}

enum taut_status bind_plan(struct bind **out, int ranks)
{
	struct bind *b = mem_calloc(1, sizeof(*b));
	hwloc_bitmap_t mine = hwloc_bitmap_alloc(), set = hwloc_bitmap_alloc();
	hwloc_topology_t t = NULL;
	enum taut_status st;

	if (!b || !mine || !set) {
		st = fail(TAUT_ERR_NOMEM, "cores of %d ranks", ranks);
		goto out_free;
	}
	b->ranks = ranks;
	st = load_cores(&t);
	if (!st)
		st = fill(b, t, mine, set);
	if (st)
		goto out_free;
	*out = b;
	b = NULL;
out_free:
	if (t)
		hwloc_topology_destroy(t);
	hwloc_bitmap_free(mine);
	hwloc_bitmap_free(set);
	bind_free(b);
	return st;
}

enum taut_status bind_check(const struct bind *b, int rank, pid_t pid)
{
	enum taut_status st = TAUT_OK;
	cpu_set_t *now = mem_calloc(1, b->set_bytes);

	if (!now)
		return fail(TAUT_ERR_NOMEM, "cores of rank %d", rank);
	if (sched_getaffinity(pid, b->set_bytes, now))
		st = errno_fail(errno, "rank %d (pid %d): which processors may it use", rank, (int)pid);
	else if (!CPU_EQUAL_S(b->set_bytes, now, b->slots[rank].set))
		st = fail(TAUT_ERR_SYS,
			  "rank %d (pid %d) is not bound to cpu %s as it was told: does a container or "
			  "cgroup change it?",
			  rank, (int)pid, b->slots[rank].list);
	mem_free(now);
	return st;
}

void bind_free(struct bind *b)
{
	if (!b)
		return;
	for (int i = 0; b->slots && i < b->ranks; i++)
		mem_free(b->slots[i].set);
	mem_free(b->slots);
	mem_free(b);
}
