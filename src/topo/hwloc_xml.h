/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader of hwloc's XML share: the tree of objects (hwloc_xml.c), devices (hwloc_devices.c) and
 * NVLinks (hwloc_links.c). */
#ifndef TOPO_HWLOC_XML_H
#define TOPO_HWLOC_XML_H

#include "topo/topo.h"
#include "topo/xml.h"

enum hwloc_osdev { OSDEV_OTHER, OSDEV_GPU, OSDEV_NET, OSDEV_RDMA };

/* An object of the file that distances may name, and what it became. */
struct hwloc_named {
	long gp_index;
	int node;
};
struct hwloc_read {
	const struct xml_doc *doc;
	struct topo *t;
	bool bits;	      /* version 3: the kinds of OSDevs are bits */
	int ncpus, *cpu_node; /* NUMA nodes, in the order of the file */
	int nnamed;
	struct hwloc_named *named; /* [elements of the file] */
	int nvswitches, nvs;	   /* PCI devices that are NVSwitches; their node once a link needs it, else -1 */
	int functions, idle;	   /* network functions left out; devices of GPUs whose PCI link slept */
};

/* Of a PCIDev, a Bridge ... */
bool hwloc_is(const struct xml_elem *e, const char *type);
/* The value of the <info name="@key"> right below; NULL: none. */
const char *hwloc_info(const struct xml_elem *e, const char *key);
enum hwloc_osdev hwloc_osdev(const struct hwloc_read *r, const struct xml_elem *e);
void hwloc_name(struct hwloc_read *r, const struct xml_elem *e, int node);

/* Whether the PCIDev @e is one that the graph shows. */
bool hwloc_wanted(const struct hwloc_read *r, const struct xml_elem *e);
bool hwloc_is_nvswitch(const struct xml_elem *e);
enum taut_status hwloc_fill_pci(const struct hwloc_read *r, struct topo_pci *pci, const struct xml_elem *e);
/* The PCIDev @e below @parent, with its ports. */
enum taut_status hwloc_add_device(struct hwloc_read *r, const struct xml_elem *e, int parent, uint32_t root);
/* An interface that is on no PCI device. */
enum taut_status hwloc_add_interface(struct hwloc_read *r, const struct xml_elem *e, int cpu);
/* The matrices of bandwidths over NVLink and XGMI. */
enum taut_status hwloc_add_links(struct hwloc_read *r);

#endif
