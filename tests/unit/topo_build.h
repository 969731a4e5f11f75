/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs by hand, for tests. Every function fails the test where the graph does. */
#ifndef TOPO_BUILD_H
#define TOPO_BUILD_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "topo/topo.h"

static inline struct topo *build_start(void)
{
	struct topo *t = NULL;

	assert_int_equal(topo_create(&t, "test"), TAUT_OK);
	return t;
}

static inline int build_node(struct topo *t, enum topo_kind kind, int parent, const char *busid)
{
	int node = topo_add_node(t, kind, parent);

	assert_true(node >= 0);
	snprintf(t->nodes[node].pci.busid, sizeof(t->nodes[node].pci.busid), "%s", busid);
	t->nodes[node].pci.gts = 16;
	t->nodes[node].pci.width = 16;
	return node;
}

static inline int build_cpu(struct topo *t, int numa, const char *vendor)
{
	int node = topo_add_node(t, TOPO_CPU, -1);
	struct topo_cpu *cpu;

	assert_true(node >= 0);
	cpu = &t->nodes[node].cpu;
	cpu->numa = numa;
	cpu->family = 6;
	cpu->model = 143;
	snprintf(cpu->arch, sizeof(cpu->arch), "x86_64");
	snprintf(cpu->vendor, sizeof(cpu->vendor), "%s", vendor);
	return node;
}

static inline int build_gpu(struct topo *t, int parent, const char *busid)
{
	int node = build_node(t, TOPO_GPU, parent, busid);

	t->nodes[node].gpu.sm = 90;
	t->nodes[node].gpu.listed = true;
	return node;
}

/* A card with one RDMA port; returns the port. */
static inline int build_net(struct topo *t, int parent, const char *busid, const char *name, long mbit)
{
	int nic = build_node(t, TOPO_NIC, parent, busid), net = topo_add_node(t, TOPO_NET, nic);

	assert_true(net >= 0);
	snprintf(t->nodes[net].name, sizeof(t->nodes[net].name), "%s", name);
	snprintf(t->nodes[net].net.layer, sizeof(t->nodes[net].net.layer), "infiniband");
	t->nodes[net].net.speed_mbit = mbit;
	t->nodes[net].net.port = 1;
	t->nodes[net].net.guid = 1 + (uint64_t)net;
	t->nodes[net].net.listed = true;
	return net;
}

static inline void build_link(struct topo *t, int a, int b, enum topo_link_kind kind, int count, double bw)
{
	assert_int_equal(topo_add_link(t, a, b, kind, count, bw), TAUT_OK);
}

static inline void build_end(struct topo *t)
{
	if (topo_finish(t))
		fail_msg("%s", taut_error_message());
}

#endif
