/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for tests, made node by node. */
#ifndef TOPO_MAKE_H
#define TOPO_MAKE_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "topo/topo.h"

struct make {
	int numas, gpus, ports; /* of the machine; spread over the NUMA nodes */
	bool nvswitch;
	uint64_t fabric;
	int clique;
	int cores;    /* of a NUMA node, numbered in order; the second processor of each follows after all cores */
	unsigned tag; /* what tells one machine of a kind from another */
};

static inline int make_cpu(struct topo *t, const struct make *m, int i)
{
	int cpu = topo_add_node(t, TOPO_CPU, -1);
	struct topo_cpu *c = &t->nodes[cpu].cpu;

	assert_true(cpu >= 0);
	*c = (struct topo_cpu){ .numa = i, .arch = "x86_64", .vendor = "GenuineIntel", .family = 6, .model = 143 };
	for (int smt = 0; smt < 2; smt++)
		for (int k = 0; k < m->cores; k++) {
			int p = smt * m->numas * m->cores + i * m->cores + k;

			c->affinity[p / 32] |= 1u << p % 32;
			c->nmask = p / 32 + 1 > c->nmask ? p / 32 + 1 : c->nmask;
		}
	return cpu;
}

static inline int make_below(struct topo *t, enum topo_kind kind, int parent, unsigned bus, unsigned class)
{
	int n = topo_add_node(t, kind, parent);

	assert_true(n >= 0);
	snprintf(t->nodes[n].pci.busid, sizeof(t->nodes[n].pci.busid), "0000:%02x:00.0", bus & 0xff);
	t->nodes[n].pci.class = class;
	t->nodes[n].pci.gts = 32;
	t->nodes[n].pci.width = 16;
	return n;
}

static inline void make_gpu(struct topo *t, const struct make *m, int i, int parent, int nvs)
{
	int n = make_below(t, TOPO_GPU, parent, 0x10u + (unsigned)i, 0x030200);
	struct topo_gpu *g = &t->nodes[n].gpu;

	g->dev = i;
	g->sm = 90;
	g->gdr = 1;
	g->listed = true;
	g->memory = UINT64_C(150) << 30;
	g->fabric_hash = m->fabric;
	g->clique = m->fabric ? m->clique : -1;
	snprintf(t->nodes[n].name, sizeof(t->nodes[n].name), "NVIDIA H200");
	if (nvs >= 0) {
		g->nvlinks = 18;
		assert_int_equal(topo_add_link(t, n, nvs, LINK_NVLINK, 18, 0), TAUT_OK);
	}
}

static inline void make_port(struct topo *t, const struct make *m, int i, int parent)
{
	int nic = make_below(t, TOPO_NIC, parent, 0x80u + (unsigned)i, 0x020700), n = topo_add_node(t, TOPO_NET, nic);
	struct topo_net *e;

	assert_true(n >= 0);
	e = &t->nodes[n].net;
	e->dev = i;
	e->speed_mbit = 400000;
	e->port = 1;
	e->latency_us = 0.5;
	e->guid = 0x1000u * (m->tag + 1) + (unsigned)i;
	e->listed = true;
	snprintf(e->layer, sizeof(e->layer), "infiniband");
	snprintf(t->nodes[n].name, sizeof(t->nodes[n].name), "mlx5_%d", i);
}

static inline struct topo *make_topo(const struct make *m)
{
	struct topo *t = NULL;
	int cpus[64], nvs = -1;

	assert_int_equal(topo_create(&t, "test"), TAUT_OK);
	for (int i = 0; i < m->numas; i++)
		cpus[i] = make_cpu(t, m, i);
	if (m->nvswitch) {
		nvs = topo_add_node(t, TOPO_NVS, -1);
		t->nodes[nvs].switches = 4;
	}
	for (int i = 0; i < m->gpus; i++)
		make_gpu(t, m, i, cpus[i * m->numas / m->gpus], nvs);
	for (int i = 0; i < m->ports; i++)
		make_port(t, m, i, cpus[i * m->numas / m->ports]);
	assert_int_equal(topo_finish(t), TAUT_OK);
	return t;
}

#endif
