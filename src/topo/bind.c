/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/bind.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/bind_memory.h"

int bind_core(int rank, int ranks, int cores)
{
	if (ranks > cores)
		return rank % cores;
	return (int)((long)rank * cores / ranks);
}

/* --- what is near a GPU --- */

int bind_near(const struct topo *t, int gpu, const cpu_set_t *allowed, cpu_set_t *out, size_t bytes)
{
	int above = topo_cpu_of(t, gpu), n = 0;
	const struct topo_cpu *c = above < 0 ? NULL : &t->nodes[above].cpu;

	CPU_ZERO_S(bytes, out);
	for (size_t p = 0; c && p < 32 * (size_t)c->nmask && p < 8 * bytes; p++) {
		if (!(c->affinity[p / 32] >> p % 32 & 1) || !CPU_ISSET_S(p, bytes, allowed))
			continue;
		CPU_SET_S(p, bytes, out);
		n++;
	}
	return n;
}

static int depth_of(const struct topo *t, int node)
{
	int depth = 0;

	for (; node >= 0; node = t->nodes[node].parent)
		depth++;
	return depth;
}

/* Depth of the lowest node that is above both; 0: none. */
static int common_depth(const struct topo *t, int a, int b)
{
	int da = depth_of(t, a), db = depth_of(t, b);

	for (; da > db; da--)
		a = t->nodes[a].parent;
	for (; db > da; db--)
		b = t->nodes[b].parent;
	for (; a != b; da--) {
		a = t->nodes[a].parent;
		b = t->nodes[b].parent;
	}
	return da;
}

int bind_port(const struct topo *t, int gpu)
{
	int best = 0, ties = 0, turn;

	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		int depth = common_depth(t, gpu, t->of[TOPO_NET][i]);

		ties = depth > best ? 1 : ties + (depth && depth == best);
		best = depth > best ? depth : best;
	}
	if (!ties)
		return -1;
	turn = t->nodes[gpu].gpu.dev % ties;
	for (int i = 0; i < t->count[TOPO_NET]; i++)
		if (common_depth(t, gpu, t->of[TOPO_NET][i]) == best && turn-- == 0)
			return t->of[TOPO_NET][i];
	return -1;
}

/* Of machine 0, where a file describes several. */
static int gpu_numbered(const struct topo *t, long dev)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		const struct topo_node *n = &t->nodes[t->of[TOPO_GPU][i]];

		if (n->machine == 0 && n->gpu.dev == dev)
			return t->of[TOPO_GPU][i];
	}
	return -1;
}

/* As the driver reads it: the list ends before the first number that is no GPU. */
int bind_visible(const struct topo *t, const char *visible, int *gpus)
{
	int n = 0;

	if (!visible) {
		for (int i = 0; i < t->count[TOPO_GPU]; i++)
			if (t->nodes[t->of[TOPO_GPU][i]].machine == 0)
				gpus[n++] = t->of[TOPO_GPU][i];
		return n;
	}
	for (char *end; *visible && n < t->count[TOPO_GPU]; visible = end + (*end == ',')) {
		long dev = strtol(visible, &end, 10);
		int gpu = gpu_numbered(t, dev);

		if (end == visible || (*end && *end != ','))
			return -1;
		if (gpu < 0)
			break;
		gpus[n++] = gpu;
	}
	return n;
}

/* --- the cores of this machine --- */

struct core {
	hwloc_bitmap_t set; /* its processors that may be used */
	int numa;	    /* -1: not known */
};
struct plan {
	struct bind *b;
	const struct bind_ask *ask;
	hwloc_bitmap_t allowed;
	struct core *cores;
	int *place;		/* of a rank: the NUMA node (of the graph) of its GPU; -1: anywhere */
	int *gpu;		/* of a rank; -1: none */
	int *list;		/* room for the numbers of all cores */
	cpu_set_t *mine, *near; /* what may be used; room for what of it is near a GPU */
	struct bind_nodes nodes;
};

/* Only processors, cores and NUMA nodes (without groups these would be the whole machine's): what else hwloc looks for
 * takes longer than starting a rank. */
static enum taut_status load_cores(hwloc_topology_t *out)
{
	hwloc_topology_t t;

	if (hwloc_topology_init(&t))
		return errno_fail(errno, "hwloc does not start");
	hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_type_filter(t, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
	if (hwloc_topology_load(t)) {
		int err = errno;

		hwloc_topology_destroy(t);
		return errno_fail(err, "hwloc cannot read this machine");
	}
	*out = t;
	return TAUT_OK;
}

static enum taut_status find_allowed(struct plan *p, hwloc_topology_t t)
{
	int bad = p->ask->allowed ? hwloc_cpuset_from_glibc_sched_affinity(t, p->allowed, p->ask->allowed,
									   p->ask->allowed_bytes)
				  : hwloc_get_cpubind(t, p->allowed, HWLOC_CPUBIND_PROCESS);

	return bad ? errno_fail(errno, "which processors may this process use") : TAUT_OK;
}

static int numa_of(hwloc_topology_t t, hwloc_obj_t core)
{
	for (hwloc_obj_t n = NULL; (n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n));)
		if (hwloc_bitmap_isincluded(core->cpuset, n->cpuset))
			return (int)n->os_index;
	return -1;
}

/* What may be used as a set of the size of all sets. */
static enum taut_status take_mine(struct plan *p, hwloc_topology_t t)
{
	struct bind *b = p->b;

	b->set_bytes = CPU_ALLOC_SIZE((size_t)hwloc_bitmap_last(hwloc_topology_get_complete_cpuset(t)) + 1);
	p->mine = mem_calloc(1, b->set_bytes);
	p->near = mem_calloc(1, b->set_bytes);
	if (!p->mine || !p->near)
		return fail(TAUT_ERR_NOMEM, "sets of %zu processors", 8 * b->set_bytes);
	for (int cpu = -1; (cpu = hwloc_bitmap_next(p->allowed, cpu)) >= 0 && (size_t)cpu < 8 * b->set_bytes;)
		CPU_SET_S((size_t)cpu, b->set_bytes, p->mine);
	return TAUT_OK;
}

/* Those with a processor that may be used. */
static enum taut_status take_cores(struct plan *p, hwloc_topology_t t)
{
	int depth = hwloc_get_type_or_below_depth(t, HWLOC_OBJ_CORE), all = (int)hwloc_get_nbobjs_by_depth(t, depth);
	struct bind *b = p->b;

	p->cores = mem_calloc((size_t)all, sizeof(*p->cores));
	p->list = mem_calloc((size_t)all, sizeof(*p->list));
	if (!p->cores || !p->list)
		return fail(TAUT_ERR_NOMEM, "%d cores", all);
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_depth(t, depth, o));) {
		if (!hwloc_bitmap_intersects(o->cpuset, p->allowed))
			continue;
		p->cores[b->cores] = (struct core){ hwloc_bitmap_alloc(), numa_of(t, o) };
		if (!p->cores[b->cores].set)
			return fail(TAUT_ERR_NOMEM, "core %d", b->cores);
		hwloc_bitmap_and(p->cores[b->cores++].set, o->cpuset, p->allowed);
	}
	return b->cores ? TAUT_OK : fail(TAUT_ERR_SYS, "hwloc names no core that this process may use");
}

static enum taut_status read_machine(struct plan *p)
{
	hwloc_topology_t t = NULL;
	enum taut_status st = load_cores(&t);

	if (st)
		return st;
	st = find_allowed(p, t);
	if (!st)
		st = take_mine(p, t);
	if (!st)
		st = take_cores(p, t);
	if (!st)
		bind_find_nodes(&p->nodes, p->ask->nodes, hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE));
	hwloc_topology_destroy(t);
	return st;
}

/* --- sharing them out --- */

static bool core_is_near(const struct plan *p, const struct core *core)
{
	for (int cpu = -1; (cpu = hwloc_bitmap_next(core->set, cpu)) >= 0;)
		if (CPU_ISSET_S((size_t)cpu, p->b->set_bytes, p->near))
			return true;
	return false;
}

/* Fills p->list with the cores for @rank's GPU, or any; returns how many. A NUMA node whose processors the graph does
 * not know has those of its number. */
static int cores_for(struct plan *p, int rank)
{
	const struct topo *t = p->ask->topo;
	const struct topo_cpu *c = p->place[rank] < 0 ? NULL : &t->nodes[p->place[rank]].cpu;
	int n = 0;

	if (c)
		bind_near(t, p->gpu[rank], p->mine, p->near, p->b->set_bytes);
	for (int i = 0; i < p->b->cores; i++) {
		const struct core *core = &p->cores[i];

		if (!c || (c->nmask ? core_is_near(p, core) : core->numa >= 0 && core->numa == c->numa))
			p->list[n++] = i;
	}
	return n;
}

static void find_places(struct plan *p, const int *gpus, int n)
{
	const struct topo *t = p->ask->topo;

	for (int r = 0; r < p->b->ranks && n >= p->b->ranks; r++) {
		p->gpu[r] = gpus[r];
		p->place[r] = topo_cpu_of(t, gpus[r]);
		if (p->place[r] < 0 || cores_for(p, r))
			continue;
		log_warn(
			LOG_TOPO,
			"rank %d: GPU %d is near NUMA node %d, none of whose cores this process may use (does a cpuset "
			"or taskset leave them out?): any cores are taken",
			r, t->nodes[gpus[r]].gpu.dev, t->nodes[p->place[r]].cpu.numa);
		p->place[r] = -1;
	}
}

static enum taut_status find_gpus(struct plan *p)
{
	const struct topo *t = p->ask->topo;
	int n = 0, *gpus = t && t->count[TOPO_GPU] ? mem_calloc((size_t)t->count[TOPO_GPU], sizeof(*gpus)) : NULL;

	for (int r = 0; r < p->b->ranks; r++)
		p->place[r] = p->gpu[r] = -1;
	if (!t || !t->count[TOPO_GPU])
		return TAUT_OK;
	if (!gpus)
		return fail(TAUT_ERR_NOMEM, "%d GPUs", t->count[TOPO_GPU]);
	n = bind_visible(t, p->ask->visible, gpus);
	if (n < 0)
		log_warn(LOG_TOPO,
			 "CUDA_VISIBLE_DEVICES=%s: only numbers (0,1) tell which GPU a rank has: ranks are bound as "
			 "without GPUs",
			 p->ask->visible);
	find_places(p, gpus, n);
	mem_free(gpus);
	return TAUT_OK;
}

/* Cores @from to @to of p->list become those of @rank. */
static void take_share(struct plan *p, int rank, int *from, int *to)
{
	int before = 0, all = 0, n = cores_for(p, rank);

	for (int r = 0; r < p->b->ranks; r++) {
		before += r < rank && p->place[r] == p->place[rank];
		all += p->place[r] == p->place[rank];
	}
	*from = bind_core(before, all, n);
	*to = *from + 1;
	if (p->place[rank] >= 0 && all < n)
		*to = bind_core(before + 1, all, n);
}

static void describe(struct plan *p, int rank)
{
	struct bind_slot *slot = &p->b->slots[rank];
	const struct topo *t = p->ask->topo;
	int net = p->place[rank] < 0 ? -1 : bind_port(t, p->gpu[rank]);
	char gpu[64], port[96];

	if (p->place[rank] < 0)
		return;
	snprintf(slot->near, sizeof(slot->near), "%.40s%s%.40s of NUMA node %d",
		 topo_name(t, p->gpu[rank], gpu, sizeof(gpu)), net < 0 ? "" : " and ",
		 net < 0 ? "" : topo_name(t, net, port, sizeof(port)), t->nodes[p->place[rank]].cpu.numa);
}

static enum taut_status fill_slot(struct plan *p, int rank, hwloc_bitmap_t set)
{
	struct bind_slot *slot = &p->b->slots[rank];
	int from, to, numa;

	take_share(p, rank, &from, &to);
	hwloc_bitmap_zero(set);
	for (int i = from; i < to; i++)
		hwloc_bitmap_or(set, set, p->cores[p->list[i]].set);
	numa = p->place[rank] < 0 ? p->cores[p->list[from]].numa : p->ask->topo->nodes[p->place[rank]].cpu.numa;
	slot->numa = bind_node_allowed(&p->nodes, rank, numa) ? numa : -1;
	slot->set = mem_calloc(1, p->b->set_bytes);
	if (!slot->set)
		return fail(TAUT_ERR_NOMEM, "cores of rank %d", rank);
	for (int cpu = -1; (cpu = hwloc_bitmap_next(set, cpu)) >= 0;)
		CPU_SET_S((size_t)cpu, p->b->set_bytes, slot->set);
	hwloc_bitmap_list_snprintf(slot->list, sizeof(slot->list), set);
	describe(p, rank);
	return TAUT_OK;
}

static enum taut_status fill(struct plan *p)
{
	size_t ranks = (size_t)p->b->ranks;
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	enum taut_status st = TAUT_OK;

	p->b->slots = mem_calloc(ranks, sizeof(*p->b->slots));
	p->place = mem_calloc(ranks, sizeof(*p->place));
	p->gpu = mem_calloc(ranks, sizeof(*p->gpu));
	p->allowed = hwloc_bitmap_alloc();
	if (!set || !p->b->slots || !p->place || !p->gpu || !p->allowed)
		st = fail(TAUT_ERR_NOMEM, "cores of %zu ranks", ranks);
	if (!st)
		st = read_machine(p);
	if (!st)
		st = find_gpus(p);
	for (int rank = 0; rank < p->b->ranks && !st; rank++)
		st = fill_slot(p, rank, set);
	hwloc_bitmap_free(set);
	return st;
}

static void plan_cleanup(struct plan *p)
{
	for (int i = 0; p->cores && i < p->b->cores; i++)
		hwloc_bitmap_free(p->cores[i].set);
	mem_free(p->cores);
	mem_free(p->list);
	mem_free(p->mine);
	mem_free(p->near);
	mem_free(p->place);
	mem_free(p->gpu);
	hwloc_bitmap_free(p->allowed);
}

enum taut_status bind_plan(struct bind **out, const struct bind_ask *ask)
{
	struct plan p = { .b = mem_calloc(1, sizeof(*p.b)), .ask = ask };
	enum taut_status st;

	if (!p.b)
		return fail(TAUT_ERR_NOMEM, "cores of %d ranks", ask->ranks);
	p.b->ranks = ask->ranks;
	st = fill(&p);
	plan_cleanup(&p);
	if (st) {
		bind_free(p.b);
		return st;
	}
	*out = p.b;
	return TAUT_OK;
}

/* --- doing it --- */

int bind_apply(const struct bind *b, int rank)
{
	if (b->slots[rank].numa >= 0)
		bind_prefer_node(b->slots[rank].numa);
	return sched_setaffinity(0, b->set_bytes, b->slots[rank].set);
}

static void check_memory(const struct bind_slot *slot, int rank, pid_t pid)
{
	char policy[64];

	if (slot->numa < 0 || bind_prefers_node(pid, slot->numa, policy, sizeof(policy)))
		return;
	log_warn(LOG_TOPO, "rank %d (pid %d): its memory was to come from NUMA node %d, but its policy is %s", rank,
		 (int)pid, slot->numa, policy);
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
	else
		check_memory(&b->slots[rank], rank, pid);
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
