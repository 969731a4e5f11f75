/* SPDX-License-Identifier: Apache-2.0 */
/* Which cores and which memory the ranks of one machine get.
 *
 * Rank i uses GPU i, where there are as many GPUs as ranks: it gets its share of the cores of
 * that GPU's NUMA node, which the ranks of the node's GPUs share out, and prefers the node's
 * memory. Without GPUs, or with fewer than ranks, a core each, spread over all cores that may
 * be used, with the memory near it. With more ranks than cores, the cores go round. */
#ifndef TOPO_BIND_H
#define TOPO_BIND_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "topo/topo.h"

enum { BIND_NODES = 1024 }; /* NUMA nodes */
struct bind_nodes {
	unsigned long bits[BIND_NODES / (8 * sizeof(unsigned long))];
};

struct bind_slot {
	cpu_set_t *set;
	char list[256]; /* "0,64" */
	int numa;	/* node whose memory it prefers; -1: none is named to the kernel */
	char near[128]; /* "GPU 4 and mlx5_4 of NUMA node 1"; "": near nothing */
};
struct bind {
	int ranks, cores;
	size_t set_bytes; /* of each slot's set */
	struct bind_slot *slots;
};

struct bind_ask {
	int ranks;
	const struct topo *topo;	/* NULL: no GPUs */
	const char *visible;		/* CUDA_VISIBLE_DEVICES: "2,3"; NULL: all */
	const cpu_set_t *allowed;	/* NULL: what this process may use */
	size_t allowed_bytes;		/* of @allowed */
	const struct bind_nodes *nodes; /* whose memory may be used; NULL: the kernel says */
};

/* What a rank wants and may not have is warned of, with the reason. */
enum taut_status bind_plan(struct bind **out, const struct bind_ask *ask);
/* Binds the calling thread as @rank; what it starts or becomes inherits both. System calls only. -1 with errno when
 * it may not have the cores; memory is bind_check()'s to find out. */
int bind_apply(const struct bind *b, int rank);
/* TAUT_ERR_SYS unless process @pid runs where the plan puts @rank; a warning if its memory does not come from there. */
enum taut_status bind_check(const struct bind *b, int rank, pid_t pid);
void bind_free(struct bind *b);

/* The processors of @gpu's NUMA node (a node of @t) that are in @allowed; both sets of @bytes. Returns their number; 0
 * also when the graph does not know the node's processors. Pure. */
int bind_near(const struct topo *t, int gpu, const cpu_set_t *allowed, cpu_set_t *out, size_t bytes);
/* The port that is nearest to @gpu; -1: none. Of several that are as near, GPUs take turns. Pure. */
int bind_port(const struct topo *t, int gpu);
/* GPUs that rank 0, 1, ... uses, as nodes, in @gpus (room for count[TOPO_GPU]); returns how many there are. -1:
 * @visible names some that @t does not know by that name. Pure. */
int bind_visible(const struct topo *t, const char *visible, int *gpus);
/* Core of @rank among @cores. Pure. */
int bind_core(int rank, int ranks, int cores);

#endif
