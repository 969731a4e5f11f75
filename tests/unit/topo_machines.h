/* SPDX-License-Identifier: Apache-2.0 */
/* Machines as they are sold, and random ones, for tests of channels. Each function gives a finished graph. */
#ifndef TOPO_MACHINES_H
#define TOPO_MACHINES_H

#include "topo_build.h"

static inline const char *machine_bus(char buf[16], int kind, int i)
{
	snprintf(buf, 16, "%04x:%02x:00.0", kind, i + 1);
	return buf;
}

/* @gpus below @cpus NUMA nodes, each behind its own switch with as many ports as there are for it; @links of @bw each
 * to an NVSwitch (0: no NVLink). */
static inline struct topo *machine_nvswitch(int cpus, int gpus, int links, int ports, long mbit)
{
	struct topo *t = build_start();
	int cpu[8], nvs = -1, port = 0;
	char bus[16];

	for (int i = 0; i < cpus; i++)
		cpu[i] = build_cpu(t, i, "GenuineIntel");
	if (links) {
		nvs = topo_add_node(t, TOPO_NVS, -1);
		assert_true(nvs >= 0);
	}
	for (int i = 0; i < gpus; i++) {
		int sw = build_node(t, TOPO_PCI, cpu[i * cpus / gpus], machine_bus(bus, 1, i));
		int gpu = build_gpu(t, sw, machine_bus(bus, 2, i));

		if (links)
			build_link(t, gpu, nvs, LINK_NVLINK, links, 0);
		for (; port < (i + 1) * ports / gpus; port++) {
			char name[16];

			snprintf(name, sizeof(name), "mlx5_%d", port);
			build_net(t, sw, machine_bus(bus, 3, port), name, mbit);
		}
	}
	build_end(t);
	return t;
}

/* GPUs with links between them: @count[gpus * gpus] links of @bw. Two GPUs a switch, half of them below each CPU; one
 * port a switch for the first @ports of them. */
static inline struct topo *machine_mesh(int gpus, const int *count, enum topo_link_kind kind, double bw, int ports,
					long mbit)
{
	struct topo *t = build_start();
	int cpu[2] = { build_cpu(t, 0, "GenuineIntel"), build_cpu(t, 1, "GenuineIntel") };
	int gpu[64], sw = -1;
	char bus[16], name[16];

	for (int i = 0; i < gpus; i++) {
		if (i % 2 == 0)
			sw = build_node(t, TOPO_PCI, cpu[2 * i / gpus], machine_bus(bus, 1, i));
		gpu[i] = build_gpu(t, sw, machine_bus(bus, 2, i));
		t->nodes[gpu[i]].gpu.sm = kind == LINK_XGMI ? 0 : 70;
		snprintf(name, sizeof(name), "mlx5_%d", i / 2);
		if (i % 2 && i / 2 < ports)
			build_net(t, sw, machine_bus(bus, 3, i), name, mbit);
	}
	for (int i = 0; i < gpus; i++)
		for (int j = i + 1; j < gpus; j++)
			if (count[i * gpus + j])
				build_link(t, gpu[i], gpu[j], kind, count[i * gpus + j], bw * count[i * gpus + j]);
	build_end(t);
	return t;
}

static inline struct topo *machine_dgx1v(int ports)
{
	static const int links[64] = {
		0, 1, 1, 2, 2, 0, 0, 0, /* */
		1, 0, 2, 1, 0, 2, 0, 0, /* */
		1, 2, 0, 2, 0, 0, 1, 0, /* */
		2, 1, 2, 0, 0, 0, 0, 1, /* */
		2, 0, 0, 0, 0, 1, 1, 2, /* */
		0, 2, 0, 0, 1, 0, 2, 1, /* */
		0, 0, 1, 0, 1, 2, 0, 2, /* */
		0, 0, 0, 1, 2, 1, 2, 0, /* */
	};

	return machine_mesh(8, links, LINK_NVLINK, 20, ports, 100000);
}

static inline struct topo *machine_full_mesh(int gpus, double bw, int ports)
{
	int *links = test_calloc((size_t)(gpus * gpus), sizeof(int));
	struct topo *t;

	for (int i = 0; i < gpus * gpus; i++)
		links[i] = i / gpus != i % gpus;
	t = machine_mesh(gpus, links, LINK_XGMI, bw, ports, 200000);
	test_free(links);
	return t;
}

/* Bridges between 0 and 1, 2 and 3 ...; the rest over PCI. */
static inline struct topo *machine_pairs(int gpus, int count, int ports)
{
	int *links = test_calloc((size_t)(gpus * gpus), sizeof(int));
	struct topo *t;

	for (int i = 0; i < gpus; i += 2)
		links[i * gpus + i + 1] = links[(i + 1) * gpus + i] = count;
	t = machine_mesh(gpus, links, LINK_NVLINK, 20, ports, 100000);
	test_free(links);
	return t;
}

/* A ring of GPUs with one more link across for every @cross-th: a mesh without much symmetry. */
static inline struct topo *machine_partial(int gpus, int cross, int ports)
{
	int *links = test_calloc((size_t)(gpus * gpus), sizeof(int));
	struct topo *t;

	for (int i = 0; i < gpus; i++) {
		int next = (i + 1) % gpus, far = (i + gpus / 2 + i % 3) % gpus;

		links[i * gpus + next] = links[next * gpus + i] = 2;
		if (i % cross == 0 && far != next && far != i)
			links[i * gpus + far] = links[far * gpus + i] = 1;
	}
	t = machine_mesh(gpus, links, LINK_NVLINK, 20, ports, 100000);
	test_free(links);
	return t;
}

/* No links but PCI: @gpus on @cpus, @per below each switch (0: right below the CPU), and @ports spread over the
 * switches. */
static inline struct topo *machine_pci(int cpus, int gpus, int per, int ports, long mbit)
{
	struct topo *t = build_start();
	int cpu[8], sw = -1, port = 0;
	char bus[16], name[16];

	for (int i = 0; i < cpus; i++)
		cpu[i] = build_cpu(t, i, "AuthenticAMD");
	for (int i = 0; i < gpus; i++) {
		if (!per || i % per == 0)
			sw = per ? build_node(t, TOPO_PCI, cpu[i * cpus / gpus], machine_bus(bus, 1, i))
				 : cpu[i * cpus / gpus];
		build_gpu(t, sw, machine_bus(bus, 2, i));
		for (; port < (i + 1) * ports / gpus; port++) {
			snprintf(name, sizeof(name), "mlx5_%d", port);
			build_net(t, sw, machine_bus(bus, 3, port), name, mbit);
		}
	}
	build_end(t);
	return t;
}

/* A generator of numbers that is the same everywhere. */
static inline unsigned machine_random(uint64_t *seed, unsigned below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % below;
}

/* Links where chance puts them, ports too; PCI joins all. */
static inline struct topo *machine_chance(uint64_t seed, int gpus)
{
	int *links = test_calloc((size_t)(gpus * gpus), sizeof(int));
	int density = 1 + (int)machine_random(&seed, 4);
	struct topo *t;

	for (int i = 0; i < gpus; i++)
		for (int j = i + 1; j < gpus; j++)
			if ((int)machine_random(&seed, 4) < density)
				links[i * gpus + j] = links[j * gpus + i] = 1 + (int)machine_random(&seed, 3);
	t = machine_mesh(gpus, links, machine_random(&seed, 2) ? LINK_NVLINK : LINK_XGMI, 20,
			 (int)machine_random(&seed, 4), 100000);
	test_free(links);
	return t;
}

#endif
