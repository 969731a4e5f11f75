/* SPDX-License-Identifier: Apache-2.0 */
/* What /sys and /proc say of a machine, put into a graph: NUMA nodes, the PCI tree as far as it leads to GPUs and
 * network cards, ports, IOMMU. Any file may be missing: then the graph says what is not known.
 *
 * Of a PCI switch the port towards the processor stands for all of it, root ports are part of their host bridge: as in
 * NCCL's files. One thread; works on the file system of the scan only. */
#ifndef TOPO_SYSFS_H
#define TOPO_SYSFS_H

#include "topo/fs.h"
#include "topo/nvml.h"
#include "topo/topo.h"

struct scan {
	struct topo *t;
	struct topo_fs *fs;
	const struct nvml_facts *gpus; /* NULL: the driver does not say */
	bool is_guest;		       /* by the processor's flags */
	int nvswitches;		       /* that the PCI tree shows */
};

/* True, and noted, when there is more than any machine has: what somebody sent as a capture may claim anything. */
bool sysfs_full(struct scan *s);

/* All of it; NOMEM is the only failure. topo_finish() is the caller's. */
enum taut_status sysfs_scan(struct scan *s);

/* The parts, in their order. */
enum taut_status sysfs_cpus(struct scan *s);
enum taut_status sysfs_gpus(struct scan *s);
enum taut_status sysfs_amd(struct scan *s);
enum taut_status sysfs_rdma(struct scan *s);
enum taut_status sysfs_nets(struct scan *s);
enum taut_status sysfs_host(struct scan *s);

/* NUMA node of the device in folder @path (without links), "" of one that has no place; -1: no memory. */
int sysfs_cpu_of(struct scan *s, const char *path);

/* --- PCI --- */
bool pci_is_busid(const char *name, size_t len);
/* The part of @path that ends in the deepest PCI device; false: none. */
bool pci_device_path(char *out, size_t len, const char *path);
/* All that its folder says. */
void pci_fill(struct scan *s, struct topo_pci *pci, const char *path);
/* The node above the PCI device in folder @path: made, with all above it, where it is not there yet; -1: no memory. */
int pci_parent(struct scan *s, const char *path);
/* Root ports are left out, as in NCCL's files: each joins the host bridge and what is below it, no more. This puts
 * those into the tree that hand the traffic of peers to an IOMMU which is not known to let it pass. */
enum taut_status pci_root_ports(struct scan *s);
/* The node of a device; -1: none. */
int pci_node(const struct topo *t, const char *busid);

/* The card whose function or port is in folder @path ("" of an interface without a card), made where it is not there
 * yet; -1: no memory. */
int sysfs_card(struct scan *s, const char *path);
/* Whether it has been made; @path is that of a PCI function. */
bool sysfs_has_card(struct scan *s, const char *path);

#endif
