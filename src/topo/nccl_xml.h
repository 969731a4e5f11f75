/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files that read NCCL's topology XML share: nccl_xml.c makes the nodes, nccl_xml_links.c the links
 * between GPUs, switches and NUMA nodes. */
#ifndef TOPO_NCCL_XML_H
#define TOPO_NCCL_XML_H

#include "topo/graph.h"
#include "topo/xml.h"

/* The target that stands for an NVSwitch which the machine does not show, and its class. */
#define NCCL_XML_NO_TARGET "fffffff:ff:ff.0"
enum { CLASS_NVSWITCH = 0x068000, CLASS_NPU = 0x068001, CLASS_BRIDGE = 0x060400, CLASS_GPU = 0x030200 };

struct nccl_load {
	const struct xml_doc *doc;
	struct topo *t;
	int *node_of; /* of elements by number; -1: none */
	int nvs;      /* the switches; -1: none yet */
};

/* 24 bits; where fewer digits are given ("0x03") they are the upper ones. */
enum taut_status nccl_xml_class(const struct nccl_load *l, const struct xml_elem *e, const char *key, uint32_t *out);
bool nccl_xml_is_gpu_class(uint32_t class);
/* nvlink, xgmi, c2c and pcilink, after all nodes are there. */
enum taut_status nccl_xml_links(struct nccl_load *l);

#endif
