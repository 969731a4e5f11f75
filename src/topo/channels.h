/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and trees through a system: which GPU after which, entering and leaving by which
 * port, so that the bandwidth of all channels together is as high as the links allow.
 * The search is deterministic: every rank that has the same graph finds the same channels. */
#ifndef TOPO_CHANNELS_H
#define TOPO_CHANNELS_H

#include "topo/paths.h"

/* NCCL's numbers. */
enum channel_pattern {
	PATTERN_BALANCED_TREE = 1,
	PATTERN_SPLIT_TREE = 2,
	PATTERN_TREE = 3,
	PATTERN_RING = 4,
	PATTERN_NVLS = 5,
	PATTERN_COLLNET = 6
};

enum { CHANNELS_MAX = 64 };

struct channels_req {
	enum channel_pattern pattern;
	int nnodes;    /* systems like this one in the job; 1: no port is used */
	int cross_nic; /* 0: a ring keeps its port from node to node, 1: may change, 2: changes if that is faster */
	int min_channels, max_channels; /* 0: free */
	bool pxn;
};

/* One ring, or one chain of a tree. A ring goes from gpus[0] to the last and back to the first: within the system, or
 * with ports out by net_out and into the next system by its net_in. A chain is a tree inside the system whose root is
 * gpus[0]; over several systems its root holds the link to the parent at net_in, and its first or second GPU those to
 * the children, as the pattern says (the second's port is net_out).
 *
 * Bandwidth as NCCL counts it: what a ring sends over each of its legs; of a tree what goes up and what comes down
 * together, half of it each way on each leg. An all-reduce over a tree of 20 GB/s moves 10 GB/s of its buffer. */
struct channel {
	int net_in, net_out; /* nodes; -1: none */
	double bw_gbps;	     /* 0: nothing to send (a GPU alone) */
	int *gpus;	     /* nodes in order, all GPUs once; [count[TOPO_GPU]] */
};
struct channels {
	enum channel_pattern pattern;
	int n, ngpus;
	int *gpus; /* nodes of the GPUs in the system's own order: the place is the rank within the system */
	double bw_intra, bw_inter;		/* GB/s of each channel inside the node and through its port */
	enum path_class type_intra, type_inter; /* farthest path used */
	int cross_nic;
	bool same_channels;
	double total_gbps; /* sum over channels of the bandwidth that each can have while all run */
	struct channel ch[CHANNELS_MAX];
};
/* TAUT_ERR_UNSUPPORTED when there is no way: no GPU, no path, no port that is up for @nnodes > 1. The patterns NVLS and
 * COLLNET give n 0 on a machine that has neither; NVLS is for one system. */
enum taut_status channels_find(struct channels **out, const struct topo *t, const struct topo_paths *p,
			       const struct channels_req *req);
void channels_free(struct channels *c);
/* The ring of @channel over @nnodes equal systems: @ranks[nnodes * ngpus] in ring order, system by system; rank =
 * system * ngpus + place of the GPU in c->gpus. Each border between systems is crossed once. */
void channels_ring_order(const struct channels *c, int nnodes, int channel, int *ranks);
/* Sound: every GPU once a channel, ports where asked, no link used beyond its bandwidth by all channels together. NULL,
 * or what is wrong. */
const char *channels_check(const struct channels *c, const struct topo *t, const struct topo_paths *p, char *buf,
			   size_t len);

/* An upper bound of total_gbps for that request, with what limits it in words ("GPU 3 has 6 NVLinks of 20 GB/s").
 * Derivation: docs/TOPOLOGY.md. */
double channels_bound(const struct topo *t, const struct topo_paths *p, const struct channels_req *req, char *why,
		      size_t len);

/* NCCL's graph XML (NCCL_GRAPH_DUMP_FILE): one <graph> for each of @n; *@out freed with mem_free(). */
enum taut_status channels_to_xml(char **out, const struct topo *t, const struct channels *const *c, int n);
/* NCCL_GRAPH_FILE: the graph of @pattern in @text. TAUT_ERR_ARG with line and column, or when it does not fit @t. */
enum taut_status channels_from_xml(struct channels **out, const struct topo *t, enum channel_pattern pattern,
				   const char *name, const char *text, size_t len);

#endif
