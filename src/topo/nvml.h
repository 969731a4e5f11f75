/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's driver says of its GPUs through NVML (libnvidia-ml.so.1, opened when asked for, so that nothing depends
 * on it): NVLinks and their ends, fabric, PCIe link, who may read whom. What it does not say stays "not known". Facts
 * can be written as text and read again, for captured machines.
 *
 * Owned by the caller; plain data. nvml_load() is the only call that talks to the driver, and blocks while that wakes.
 */
#ifndef TOPO_NVML_H
#define TOPO_NVML_H

#include "topo/topo.h"

enum { NVML_GPUS = 64, NVML_LINKS = 36 };

enum nvml_end {
	NVML_END_NONE, /* no such link, or it is down */
	NVML_END_GPU,
	NVML_END_CPU, /* POWER */
	NVML_END_SWITCH,
	NVML_END_UNKNOWN, /* up, but what is at its end does not show (a guest) */
	NVML_ENDS
};

struct nvml_link {
	uint8_t state; /* 0: no such link, or the driver does not say; 1: down; 2: up */
	uint8_t end;   /* enum nvml_end, of one that is up */
	uint8_t version;
	char busid[24]; /* of what is at its end; "": not known */
};

struct gpu_facts {
	char busid[24]; /* lower case */
	char name[64];
	int sm;		 /* 0: not known, as of all numbers here */
	uint64_t memory; /* bytes */
	int pcie_gen, pcie_width, pcie_max_gen, pcie_max_width;
	struct nvml_link links[NVML_LINKS];
	int fabric_state;	 /* 0: has none, 1: not started, 2: in progress, 3: completed; -1: not known */
	int fabric_status;	 /* of the one that is completed; 0: success */
	int clique;		 /* -1: not known */
	uint64_t fabric_hash;	 /* of the cluster's identifier; 0: none */
	int c2c_links, c2c_mbps; /* MB/s of one */
	int mig;		 /* 1: split into instances, 0: not, -1: not known */
};

struct nvml_facts {
	char driver[32];
	int ngpus;
	struct gpu_facts *gpus;
	uint8_t *read;	 /* enum topo_p2p of GPU i reading GPU j, [ngpus * ngpus] */
	uint8_t *nvlink; /* the same over NVLink */
};

/* Opens @library ("libnvidia-ml.so.1"). When there is no such library or driver *@out is NULL, and @why says it, which
 * is no failure. */
enum taut_status nvml_load(struct nvml_facts **out, const char *library, char *why, size_t len);
enum taut_status nvml_create(struct nvml_facts **out, int ngpus);
void nvml_free(struct nvml_facts *f); /* NULL is allowed */
const struct gpu_facts *nvml_find(const struct nvml_facts *f, const char *busid);

/* As text, one fact a line. Identifiers of fabrics become numbers in the order of their coming. */
enum taut_status nvml_write_text(char **out, const struct nvml_facts *f);
enum taut_status nvml_read_text(struct nvml_facts **out, const char *name, const char *text);

/* Whether there are GPUs that the graph does not have. */
bool nvml_has_more(const struct topo *t, const struct nvml_facts *f);
/* Facts onto the GPUs of a graph that is not finished yet; adds those that it does not have, below node @cpu. With
 * @nvswitches as the PCI tree shows them. */
enum taut_status nvml_merge(struct topo *t, const struct nvml_facts *f, int cpu, int nvswitches);

#endif
