/* SPDX-License-Identifier: Apache-2.0 */
/* For every pair one answer for every wire: can it be used, and if not, why not and what
 * would cure it, in one sentence. Pure: from the graph, its paths and the settings. */
#ifndef TOPO_REACH_H
#define TOPO_REACH_H

#include "topo/paths.h"

enum reach_wire {
	REACH_P2P,  /* a GPU reads and writes another GPU's memory */
	REACH_SHM,  /* through host memory of one machine */
	REACH_GDR,  /* a card reads and writes GPU memory (GPUDirect RDMA) */
	REACH_RDMA, /* the port speaks verbs */
	REACH_TCP,  /* the port carries TCP */
	REACH_WIRES
};
extern const char *const reach_wire_names[REACH_WIRES + 1]; /* "p2p" ... */

struct reach_rules {
	int p2p_level; /* enum path_class: farthest pair that uses P2P; -1: by the machine (PHB; PXB on old Intel; SYS
			  on AMD with two GPUs) */
	int gdr_level; /* farthest GPU and card; -1: by the machine (PXB; PHB inside one NUMA node where the chip
			  allows) */
	bool p2p_disable, shm_disable, ib_disable;
	bool strict; /* a pair that falls back is an error */
};
/* From TAUT_P2P_LEVEL, TAUT_NET_GDR_LEVEL, ..., TAUT_STRICT of @cfg. */
struct config;
struct reach_rules reach_rules_from(const struct config *cfg);

struct reach {
	bool asked; /* false: the question makes no sense for the pair (two cards and p2p) */
	bool usable;
	char why[320]; /* not usable: "P2P off by ACS at bridge 0000:3b:00.0: ...: cure"; usable: over what: "NV18,
			  370.8 GB/s" */
};
void reach_ask(struct reach out[REACH_WIRES], const struct topo *t, const struct topo_paths *p,
	       const struct reach_rules *rules, int a, int b);
/* With rules->strict: TAUT_ERR_UNSUPPORTED with the sentence of the first pair of GPUs, or of GPU and nearest card,
 * whose best wire by the machine is not usable; else TAUT_OK. */
enum taut_status reach_strict(const struct topo *t, const struct topo_paths *p, const struct reach_rules *rules);

#endif
