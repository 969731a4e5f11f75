/* SPDX-License-Identifier: Apache-2.0 */
/* Distances: for every pair of GPUs, ports and NUMA nodes the best path: its class as NCCL and
 * as nvidia-smi name it, its bandwidth, and the links on the way. The same for the same graph and rules;
 * both directions of a pair take the same links. Owned by the caller; read by any thread. */
#ifndef TOPO_PATHS_H
#define TOPO_PATHS_H

#include "topo/topo.h"

/* From near to far, NCCL's order. */
enum path_class {
	PATH_LOC, /* the same */
	PATH_NVL, /* NVLink (or XGMI), through NVSwitch or not */
	PATH_NVB, /* NVLink by way of one GPU */
	PATH_C2C, /* chip to chip */
	PATH_PIX, /* at most one PCI bridge */
	PATH_PXB, /* several PCI bridges, no host bridge */
	PATH_P2C, /* PCI, then chip to chip */
	PATH_PXN, /* NVLink to a GPU that is near the card */
	PATH_PHB, /* the host bridge of one NUMA node */
	PATH_SYS, /* between NUMA nodes */
	PATH_NET,
	PATH_DIS, /* not connected */
	PATH_CLASSES
};
extern const char *const path_class_names[PATH_CLASSES + 1]; /* "LOC", "NVL" ... */

/* nvidia-smi's words: "X", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS". */
enum smi_class { SMI_X, SMI_NV, SMI_PIX, SMI_PXB, SMI_PHB, SMI_NODE, SMI_SYS, SMI_CLASSES };

struct path {
	enum path_class class;
	enum smi_class smi;
	int nv;		/* NVLinks of the narrowest link, when smi is SMI_NV */
	double bw_gbps; /* of the narrowest link; LOC: 5000, NCCL's figure; DIS: 0 */
	int hops;	/* links */
	int bottleneck; /* number of the narrowest link, of equals the lowest; -1 on LOC and DIS */
	int via;	/* NVB, PXN: the GPU on the way; else -1 */
};

struct path_rules {
	bool nvb; /* allow NVLink by way of a GPU */
	bool pxn; /* allow PXN between GPUs and ports */
};
extern const struct path_rules path_rules_default; /* both */

struct topo_paths;
enum taut_status paths_create(struct topo_paths **out, const struct topo *t, const struct path_rules *rules);
void paths_free(struct topo_paths *p);
/* @a, @b: node numbers of GPUs, NETs or CPUs; of anything else: DIS. The topo is no longer needed. */
const struct path *paths_get(const struct topo_paths *p, int a, int b);
/* The links from @a to @b in order; returns how many (at most @max are written). */
int paths_links(const struct topo_paths *p, int a, int b, int *links, int max);
/* The cell of the matrix: "NV18", "PIX", " X ". */
const char *path_smi_text(const struct path *path, char *buf, size_t len);
/* "PHB", "phb", or the numbers that NCCL's levels once were: 0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS; -1: none. */
int path_class_parse(const char *text);

#endif
