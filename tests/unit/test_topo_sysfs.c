/* SPDX-License-Identifier: Apache-2.0 */
/* Machines as their files describe them; tests/golden/capture. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "capture_util.h"
#include "topo/live.h"
#include "topo/paths.h"
#include "topo/reach.h"
#include "topo/sysfs.h"

static const struct topo_node *node_of(const struct topo *t, enum topo_kind kind, int i)
{
	assert_true(i < t->count[kind]);
	return &t->nodes[t->of[kind][i]];
}

static int find(const struct topo *t, const char *name)
{
	int node = topo_find(t, name);

	if (node < 0)
		print_error("no %s\n", name);
	assert_true(node >= 0);
	return node;
}

static const struct topo_net *net_of(const struct topo *t, const char *name)
{
	int node = find(t, name);

	assert_int_equal(t->nodes[node].kind, TOPO_NET);
	return &t->nodes[node].net;
}

/* A machine of a few files, as text of a capture without its first line. */
static struct topo *from_files(const char *files)
{
	char *text = mem_calloc(strlen(files) + 64, 1);
	struct topo *t = NULL;

	sprintf(text, "taut capture 1\n%s", files);
	assert_int_equal(topo_from_capture(&t, "files", text, strlen(text)), TAUT_OK);
	mem_free(text);
	return t;
}

/* --- whole machines --- */

static void a_guest_with_a_flat_tree(void **state)
{
	struct topo *t = capture_load("h200x2-guest");
	const struct topo_net *eth0 = net_of(t, "eth0");
	const struct topo_node *cpu = node_of(t, TOPO_CPU, 0);

	(void)state;
	assert_int_equal(t->count[TOPO_CPU], 1);
	assert_int_equal(t->count[TOPO_PCI], 0);
	assert_int_equal(t->count[TOPO_NET], 1); /* lo is none */
	assert_string_equal(cpu->cpu.arch, "x86_64");
	assert_string_equal(cpu->cpu.vendor, "GenuineIntel");
	assert_int_equal(cpu->cpu.family, 6);
	assert_int_equal(cpu->cpu.model, 207);
	assert_true(cpu->cpu.affinity[0] == 0xffffffff && cpu->cpu.nmask == 1);
	assert_true(cpu->cpu.memory == UINT64_C(264014532) * 1024);
	for (int i = 0; i < 2; i++) {
		const struct topo_node *gpu = node_of(t, TOPO_GPU, i);

		assert_int_equal(gpu->parent, t->of[TOPO_CPU][0]); /* numa_node is -1, but there is only one */
		assert_int_equal(gpu->pci.device, 0x2335);
		assert_int_equal(gpu->pci.subdevice, 0x18be);
		assert_int_equal(gpu->pci.root, 1);
		assert_true(gpu->pci.gts == 32);
		assert_int_equal(gpu->pci.width, 16); /* NVML's: /sys says 0 */
		assert_int_equal(gpu->gpu.gdr, 1);
		assert_int_equal(capture_link(t, t->of[TOPO_GPU][i], t->of[TOPO_NVS][0], LINK_NVLINK)->count, 18);
	}
	assert_true(eth0->is_virtual);
	assert_string_equal(eth0->driver, "virtio_net");
	assert_string_equal(eth0->state, "up");
	assert_int_equal(eth0->speed_mbit, 0);
	assert_non_null(capture_note(t, "eth0: its speed is not known"));
	assert_true(t->vm);
	assert_int_equal(t->iommu, 0);
	assert_int_equal(t->peermem, 1); /* the open driver */
	topo_free(t);
}

static void a_server_with_switches(void **state)
{
	struct topo *t = capture_load("dgx-h100");

	(void)state;
	assert_int_equal(t->count[TOPO_CPU], 2);
	assert_int_equal(t->count[TOPO_GPU], 8);
	assert_int_equal(t->count[TOPO_PCI], 8); /* root ports and lower ports are part of others */
	assert_int_equal(t->count[TOPO_NIC], 10);
	assert_int_equal(t->count[TOPO_NVS], 1);
	assert_int_equal(node_of(t, TOPO_NVS, 0)->switches, 4);
	assert_int_equal(t->iommu, 0); /* pass-through */
	assert_int_equal(t->peermem, 1);
	assert_false(t->vm);
	for (int i = 0; i < 8; i++) {
		const struct topo_node *gpu = node_of(t, TOPO_GPU, i), *sw = &t->nodes[gpu->parent];
		const struct topo_node *cpu = &t->nodes[sw->parent];

		assert_int_equal(sw->kind, TOPO_PCI);
		assert_int_equal(sw->pci.class >> 8, 0x0604);
		assert_int_equal(cpu->cpu.numa, i / 4);
		assert_int_equal(sw->pci.acs, i == 6);
		assert_true(gpu->pci.gts == 32); /* that of GPU 5 is asleep */
		assert_int_equal(gpu->gpu.nvlinks, i == 3 ? 17 : 18);
	}
	assert_non_null(capture_note(t, "GPU 3: 1 of its 18 NVLinks are down"));
	assert_null(capture_note(t, "ACS"));
	topo_free(t);
}

static void cards_and_ports_of_a_server(void **state)
{
	struct topo *t = capture_load("dgx-h100");
	const struct topo_net *ib = net_of(t, "mlx5_0"), *bond = net_of(t, "bond0"), *roce = net_of(t, "mlx5_bond_0");

	(void)state;
	assert_string_equal(ib->layer, "infiniband");
	assert_string_equal(ib->rdma, "ibp24s0");
	assert_string_equal(net_of(t, "ibp24s0")->rdma, "mlx5_0");
	assert_string_equal(net_of(t, "ibp24s0")->layer, "infiniband");
	assert_int_equal(ib->speed_mbit, 400000);
	assert_int_equal(ib->port, 1);
	assert_string_equal(ib->state, "up");
	assert_string_equal(ib->gids, "ib");
	assert_string_equal(ib->firmware, "28.39.1002");
	assert_int_equal(ib->gdr, 1);
	assert_int_equal(net_of(t, "ibp24s0")->gdr, 0);
	assert_string_equal(net_of(t, "mlx5_9")->state, "down");
	assert_string_equal(roce->layer, "roce");
	assert_string_equal(roce->gids, "v1 v2");
	assert_string_equal(roce->rdma, "bond0");
	assert_string_equal(bond->rdma, "mlx5_bond_0");
	assert_string_equal(bond->driver, "bonding");
	assert_int_equal(bond->speed_mbit, 200000);
	assert_false(bond->is_virtual);
	assert_int_equal(topo_find(t, "ens10f0np0"), -1); /* part of the bond */
	assert_int_equal(topo_find(t, "docker0"), -1);
	assert_int_equal(t->nodes[find(t, "bond0")].parent, t->nodes[find(t, "mlx5_bond_0")].parent);
	assert_non_null(capture_note(t, "bond0 bonds ens10f0np0 ens10f1np1: counted at the card of ens10f0np0"));
	assert_non_null(capture_note(t, "PCI 0000:3a:00.0: its link runs 8 of 16 lanes"));
	assert_string_equal(net_of(t, "eno3")->layer, "ethernet");
	topo_free(t);
}

static void a_server_whose_processors_have_nvlinks(void **state)
{
	struct topo *t = capture_load("power9-v100");

	(void)state;
	assert_int_equal(t->count[TOPO_CPU], 2); /* memory of GPUs is no place to run at */
	assert_int_equal(node_of(t, TOPO_CPU, 1)->cpu.numa, 8);
	assert_string_equal(node_of(t, TOPO_CPU, 1)->cpu.arch, "ppc64");
	assert_string_equal(node_of(t, TOPO_CPU, 1)->name, "POWER9");
	assert_int_equal(t->count[TOPO_GPU], 4);
	assert_int_equal(t->count[TOPO_PCI], 2);
	for (int i = 0; i < 4; i++) {
		int gpu = t->of[TOPO_GPU][i];

		assert_int_equal(capture_link(t, gpu, t->of[TOPO_CPU][i / 2], LINK_NVLINK)->count, 3);
		assert_int_equal(capture_link(t, gpu, t->of[TOPO_GPU][i ^ 1], LINK_NVLINK)->count, 3);
	}
	/* two functions, one card with two ports */
	assert_int_equal(t->count[TOPO_NIC], 1);
	assert_int_equal(t->nodes[find(t, "mlx5_0")].parent, t->nodes[find(t, "mlx5_1")].parent);
	assert_int_equal(t->peermem, 1); /* nv_peer_mem of old */
	assert_non_null(capture_note(t, "IOMMU: not known"));
	assert_non_null(capture_note(t, "ACS of 2 PCI switches: not known"));
	topo_free(t);
}

static void a_container_gives_a_graph_and_says_what_is_missing(void **state)
{
	struct topo *t = capture_load("container");
	const struct topo_node *cpu = node_of(t, TOPO_CPU, 0);

	(void)state;
	assert_int_equal(t->count[TOPO_CPU], 1);
	assert_int_equal(cpu->cpu.numa, -1);
	assert_int_equal(cpu->cpu.nmask, 8);
	assert_true(cpu->cpu.memory == UINT64_C(527982180) * 1024);
	assert_int_equal(t->count[TOPO_GPU], 1);
	assert_string_equal(node_of(t, TOPO_GPU, 0)->pci.busid, "0000:c7:00.0");
	assert_true(net_of(t, "eth0")->is_virtual);
	assert_int_equal(net_of(t, "eth0")->speed_mbit, 10000);
	assert_non_null(capture_note(t, "NUMA nodes: not known"));
	assert_non_null(capture_note(t, "PCI devices: not known"));
	assert_non_null(capture_note(t, "GPU 0 (0000:c7:00.0): its place on PCI is not known"));
	assert_non_null(capture_note(t, "GPU 0: 12 NVLinks end at what is not visible here"));
	assert_non_null(capture_note(t, "GPU 0 is split into instances"));
	assert_non_null(capture_note(t, "IOMMU: not known"));
	topo_free(t);
}

static void nothing_at_all_still_gives_a_processor(void **state)
{
	struct topo *t = capture_load("nothing");

	(void)state;
	assert_int_equal(t->nnodes, 1);
	assert_int_equal(t->count[TOPO_CPU], 1);
	assert_int_equal(t->iommu, -1);
	assert_int_equal(t->peermem, -1);
	assert_false(t->vm);
	assert_non_null(capture_note(t, "processor model: not known"));
	assert_non_null(capture_note(t, "processors: not known"));
	assert_non_null(capture_note(t, "network interfaces: not known"));
	topo_free(t);
}

static void a_guest_whose_devices_have_no_numa_node(void **state)
{
	struct topo *t = capture_load("nc96-guest");
	int unknown;

	(void)state;
	assert_int_equal(t->count[TOPO_GPU], 4);
	assert_int_equal(t->count[TOPO_CPU], 5);
	unknown = t->of[TOPO_CPU][0]; /* numa -1 */
	assert_int_equal(t->nodes[unknown].cpu.numa, -1);
	/* two have processors near, of the others nothing is known */
	assert_int_equal(t->nodes[node_of(t, TOPO_GPU, 0)->parent].cpu.numa, 0);
	assert_int_equal(t->nodes[node_of(t, TOPO_GPU, 1)->parent].cpu.numa, 1);
	assert_int_equal(node_of(t, TOPO_GPU, 2)->parent, unknown);
	assert_int_equal(node_of(t, TOPO_GPU, 3)->parent, unknown);
	assert_non_null(capture_note(t, "NUMA node of 0003:00:00.0: not known"));
	assert_non_null(capture_note(t, "processors 95 are offline"));
	/* pairs, though each names itself at the ends of its links */
	assert_int_equal(capture_link(t, t->of[TOPO_GPU][0], t->of[TOPO_GPU][1], LINK_NVLINK)->count, 12);
	assert_null(capture_link(t, t->of[TOPO_GPU][0], t->of[TOPO_GPU][2], LINK_NVLINK));
	assert_int_equal(t->count[TOPO_NVS], 0);
	/* the virtual function carries the traffic of the synthetic interface */
	assert_int_equal(topo_find(t, "enP9s1"), -1);
	assert_string_equal(net_of(t, "eth0")->driver, "hv_netvsc");
	assert_true(net_of(t, "eth0")->is_virtual);
	assert_string_equal(t->nodes[t->nodes[find(t, "eth0")].parent].pci.busid, "0009:00:02.0");
	assert_int_equal(t->nodes[topo_cpu_of(t, find(t, "eth0"))].cpu.numa, 0);
	assert_true(node_of(t, TOPO_GPU, 0)->pci.width == 16);
	topo_free(t);
}

static void gpus_of_amd_and_their_links(void **state)
{
	struct topo *t = capture_load("mi250-xgmi");
	static const int lanes[4][4] = { { 0, 4, 2, 0 }, { 4, 0, 1, 2 }, { 2, 1, 0, 4 }, { 0, 2, 4, 0 } };

	(void)state;
	assert_int_equal(t->count[TOPO_GPU], 4);
	for (int i = 0; i < 4; i++) {
		const struct topo_node *gpu = node_of(t, TOPO_GPU, i);

		assert_string_equal(gpu->gpu.gcn, "gfx90a");
		assert_string_equal(gpu->name, "aldebaran");
		assert_true(gpu->gpu.listed);
		assert_true(gpu->gpu.memory == UINT64_C(68702699520));
		assert_int_equal(gpu->gpu.gdr, 1);
		assert_int_equal(t->nodes[gpu->parent].cpu.numa, i / 2);
		for (int j = 0; j < 4; j++) {
			const struct topo_link *l = capture_link(t, t->of[TOPO_GPU][i], t->of[TOPO_GPU][j], LINK_XGMI);

			assert_int_equal(l ? l->count : 0, lanes[i][j]); /* 0 and 3 are two hops apart */
		}
	}
	assert_null(capture_note(t, "NVIDIA"));
	topo_free(t);
}

static void ports_without_a_place(void **state)
{
	struct topo *t = capture_load("h100-infiniband");

	(void)state;
	assert_int_equal(t->count[TOPO_NET], 9);
	assert_int_equal(net_of(t, "mlx5_0")->speed_mbit, 400000);
	assert_string_equal(net_of(t, "mlx5_9")->layer, "infiniband");
	assert_string_equal(net_of(t, "mlx5_9")->firmware, "28.41.1000");
	assert_non_null(capture_note(t, "mlx5_0: its place on PCI is not known"));
	assert_int_equal(node_of(t, TOPO_NET, 2)->net.dev, 2);
	assert_string_equal(net_of(t, "mlx5_bond_0")->layer, "roce");
	topo_free(t);
}

/* As nvidia-smi topo -m writes a cell. */
static void cell_is(const struct topo *t, const struct topo_paths *p, const char *a, const char *b,
		    const char *expected)
{
	char cell[16];

	path_smi_text(paths_get(p, find(t, a), find(t, b)), cell, sizeof(cell));
	if (strcmp(cell, expected) != 0)
		print_error("%s to %s: %s\n", a, b, cell);
	assert_string_equal(cell, expected);
}

static void cells_are(const char *machine, const char *const (*cells)[3], int n)
{
	struct topo *t = capture_load(machine);
	struct topo_paths *p = NULL;

	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	for (int i = 0; i < n; i++)
		cell_is(t, p, cells[i][0], cells[i][1], cells[i][2]);
	paths_free(p);
	topo_free(t);
}

static void distances_are_those_of_nvidia_smi(void **state)
{
	static const char *const guest[][3] = { { "gpu0", "gpu1", "NV18" }, { "gpu1", "gpu0", "NV18" } };
	static const char *const server[][3] = {
		{ "gpu0", "gpu7", "NV18" },    { "gpu0", "gpu3", "NV17" },	  { "gpu0", "mlx5_0", "PIX" },
		{ "gpu7", "mlx5_9", "PIX" },   { "gpu0", "mlx5_1", "NODE" },	  { "gpu0", "mlx5_6", "SYS" },
		{ "gpu4", "mlx5_6", "PIX" },   { "gpu0", "bond0", "NODE" },	  { "mlx5_0", "mlx5_3", "NODE" },
		{ "mlx5_0", "mlx5_9", "SYS" }, { "bond0", "mlx5_bond_0", "PIX" },
	};
	static const char *const power9[][3] = { { "gpu0", "gpu1", "NV3" },
						 { "gpu0", "gpu2", "SYS" },
						 { "gpu0", "mlx5_0", "NODE" },
						 { "gpu2", "mlx5_0", "SYS" } };

	(void)state;
	cells_are("h200x2-guest", guest, sizeof(guest) / sizeof(*guest));
	cells_are("dgx-h100", server, sizeof(server) / sizeof(*server));
	cells_are("power9-v100", power9, sizeof(power9) / sizeof(*power9));
}

/* --- details --- */

static void the_processors_of_arm(void **state)
{
	struct topo *t = from_files("/proc/cpuinfo: |4\n"
				    "processor\t: 0\n"
				    "CPU implementer\t: 0x41\n"
				    "CPU part\t: 0xd4f\n"
				    "Serial\t: 1\n"
				    "/sys/class/dmi/id/product_name: KVM Virtual Machine\n");
	const struct topo_cpu *cpu = &node_of(t, TOPO_CPU, 0)->cpu;

	(void)state;
	assert_string_equal(cpu->arch, "arm64");
	assert_string_equal(cpu->vendor, "ARM");
	assert_int_equal(cpu->model, 0xd4f);
	assert_true(t->vm); /* by its board: the processor does not say */
	topo_free(t);
}

static void a_metal_server_of_a_cloud_is_no_guest(void **state)
{
	struct topo *t = from_files("/proc/cpuinfo: |2\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n"
				    "/sys/class/dmi/id/sys_vendor: Amazon EC2\n"
				    "/sys/class/dmi/id/product_name: p5.metal\n");

	(void)state;
	assert_false(t->vm);
	topo_free(t);
}

static void switches_on_the_way_are_kept_and_their_ports_are_not(void **state)
{
	static const char deep[] = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:13:00.0/"
				   "0000:14:04.0/0000:15:00.0";
	char files[2048];
	struct topo *t;
	int gpu, low, high;

	(void)state;
	snprintf(files, sizeof(files),
		 "/sys/bus/pci/devices/0000:15:00.0 -> ../../..%s\n"
		 "%s/class: 0x030200\n%s/vendor: 0x10de\n"
		 "acs/0000:12:02.0: 0x0000\nacs/0000:14:04.0: 0x000c\n",
		 deep + 4, deep, deep);
	t = from_files(files);
	gpu = find(t, "15:00.0");
	low = t->nodes[gpu].parent;
	high = t->nodes[low].parent;
	assert_string_equal(t->nodes[low].pci.busid, "0000:13:00.0");
	assert_string_equal(t->nodes[high].pci.busid, "0000:11:00.0");
	assert_int_equal(t->nodes[t->nodes[high].parent].kind, TOPO_CPU);
	assert_int_equal(t->nodes[low].pci.acs, 1);
	assert_int_equal(t->nodes[high].pci.acs, 0);
	assert_int_equal(t->nodes[gpu].pci.root, 0x10 + 1);
	assert_false(t->nodes[gpu].gpu.listed);
	assert_non_null(capture_note(t, "NVLink, compute capability and P2P of NVIDIA GPUs: not known"));
	topo_free(t);
}

static void a_group_that_translates_is_seen(void **state)
{
	struct topo *t =
		from_files("/sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n"
			   "/sys/devices/pci0000:00/0000:01:00.0/class: 0x030000\n"
			   "/sys/devices/pci0000:00/0000:01:00.0/vendor: 0x10de\n"
			   "/sys/devices/pci0000:00/0000:01:00.0/iommu_group -> ../../../kernel/iommu_groups/7\n"
			   "/sys/kernel/iommu_groups/7/type: DMA-FQ\n"
			   "/sys/class/iommu/dmar0/\n");

	(void)state;
	assert_int_equal(t->iommu, 1);
	topo_free(t);
}

static void gpus_that_the_driver_does_not_show_are_left_out(void **state)
{
	struct topo *t = from_files("/sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n"
				    "/sys/devices/pci0000:00/0000:01:00.0/class: 0x030200\n"
				    "/sys/devices/pci0000:00/0000:01:00.0/vendor: 0x10de\n"
				    "/sys/bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:02:00.0\n"
				    "/sys/devices/pci0000:00/0000:02:00.0/class: 0x030200\n"
				    "/sys/devices/pci0000:00/0000:02:00.0/vendor: 0x10de\n"
				    "nvml: |2\ngpu 0000:02:00.0\nsm 80\n");

	(void)state;
	assert_int_equal(t->count[TOPO_GPU], 1);
	assert_string_equal(node_of(t, TOPO_GPU, 0)->pci.busid, "0000:02:00.0");
	assert_non_null(capture_note(t, "1 NVIDIA GPU is left out"));
	topo_free(t);
}

/* Some drivers name a member at the port of a bond's RDMA device. */
static void the_rdma_device_of_a_member_is_the_bonds(void **state)
{
	struct topo *t =
		from_files("/sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n"
			   "/sys/class/net/bond0 -> ../../devices/virtual/net/bond0\n"
			   "/sys/devices/virtual/net/bond0/bonding/slaves: eth0\n"
			   "/sys/class/net/eth0 -> ../../devices/pci0000:00/0000:01:00.0/net/eth0\n"
			   "/sys/devices/pci0000:00/0000:01:00.0/net/eth0/device -> ../../../0000:01:00.0\n"
			   "/sys/devices/pci0000:00/0000:01:00.0/net/eth0/master -> ../../../../virtual/net/bond0\n"
			   "/sys/class/infiniband/mlx5_0/device -> ../../../devices/pci0000:00/0000:01:00.0\n"
			   "/sys/class/infiniband/mlx5_0/ports/1/link_layer: Ethernet\n"
			   "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1: eth0\n");

	(void)state;
	assert_int_equal(t->count[TOPO_NET], 2);
	assert_string_equal(net_of(t, "mlx5_0")->rdma, "bond0");
	assert_string_equal(net_of(t, "bond0")->rdma, "mlx5_0");
	assert_int_equal(t->count[TOPO_NIC], 1);
	topo_free(t);
}

static void cards_without_an_interface_are_noted(void **state)
{
	struct topo *t = from_files("/sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n"
				    "/sys/devices/pci0000:00/0000:01:00.0/class: 0x020700\n"
				    "/sys/bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:02:00.0\n"
				    "/sys/devices/pci0000:00/0000:02:00.0/class: 0x020000\n"
				    "/sys/bus/pci/devices/0000:02:00.1 -> ../../../devices/pci0000:00/0000:02:00.1\n"
				    "/sys/devices/pci0000:00/0000:02:00.1/class: 0x020000\n"
				    "/sys/class/net/eth0 -> ../../devices/pci0000:00/0000:02:00.1/net/eth0\n"
				    "/sys/devices/pci0000:00/0000:02:00.1/net/eth0/device -> ../../../0000:02:00.1\n");

	(void)state;
	assert_int_equal(t->count[TOPO_NIC], 1);
	assert_non_null(capture_note(t, "1 network card left out (0000:01:00.0)"));
	topo_free(t);
}

/* The report of a hang: GPUs below root ports that hand their traffic to the IOMMU. */
static void root_ports_with_acs_are_kept_where_an_iommu_translates(void **state)
{
	static const char *const types[] = { "DMA-FQ", "identity" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct reach_rules rules = { .p2p_level = -1, .gdr_level = -1 };
		struct reach r[REACH_WIRES];
		struct topo_paths *p;
		char files[2048];
		struct topo *t;
		int a, b;

		snprintf(files, sizeof(files),
			 "/sys/bus/pci/devices/0000:41:00.0 -> ../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0\n"
			 "/sys/bus/pci/devices/0000:61:00.0 -> ../../../devices/pci0000:60/0000:60:01.1/0000:61:00.0\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/class: 0x030200\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/vendor: 0x10de\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/max_link_speed: 16.0 GT/s PCIe\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/current_link_speed: 2.5 GT/s PCIe\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/current_link_width: 16\n"
			 "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/iommu_group/type: %s\n"
			 "/sys/devices/pci0000:60/0000:60:01.1/0000:61:00.0/class: 0x030200\n"
			 "/sys/devices/pci0000:60/0000:60:01.1/0000:61:00.0/vendor: 0x10de\n"
			 "acs/0000:40:01.1: 0x001d\nacs/0000:60:01.1: 0x001d\n",
			 types[i]);
		t = from_files(files);
		a = find(t, "41:00.0");
		b = find(t, "61:00.0");
		assert_int_equal(t->nodes[t->nodes[a].parent].kind, i ? TOPO_CPU : TOPO_PCI);
		assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
		assert_int_equal(paths_get(p, a, b)->class, PATH_PHB);
		reach_ask(r, t, p, &rules, a, b);
		assert_int_equal(r[REACH_P2P].usable, i);
		if (!i) {
			assert_non_null(strstr(r[REACH_P2P].why, "ACS at bridge 0000:40:01.1"));
			assert_int_equal(t->nodes[t->nodes[a].parent].pci.width, 16);
			assert_true(t->nodes[t->nodes[a].parent].pci.gts > 15);
		}
		paths_free(p);
		topo_free(t);
	}
}

/* Configuration space as a folder holds it: ACS behind another capability. */
static void acs_is_read_from_configuration_space(void **state)
{
	char root[] = "/tmp/taut_acs_XXXXXX", command[2048];
	struct topo *t = NULL;

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(command, sizeof(command),
		 "cd %s && d=sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0 && "
		 "mkdir -p $d/0000:03:00.0 sys/bus/pci/devices && echo 0x030200 >$d/0000:03:00.0/class && "
		 "echo 0x10de >$d/0000:03:00.0/vendor && "
		 "ln -s ../../../../$d/0000:03:00.0 sys/bus/pci/devices/0000:03:00.0 && "
		 "{ head -c 256 /dev/zero; printf '\\001\\000\\001\\040'; head -c 252 /dev/zero; "
		 "printf '\\015\\000\\001\\000\\000\\000\\035\\000'; head -c 3576 /dev/zero; } >$d/config",
		 root);
	assert_int_equal(system(command), 0);
	assert_int_equal(topo_from_root(&t, root), TAUT_OK);
	assert_int_equal(t->nodes[find(t, "01:00.0")].pci.acs, 1);
	topo_free(t);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static void every_failing_allocation_is_reported(void **state)
{
	char *text = capture_text("h200x2-guest");
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;

	(void)state;
	log_set_sink(drop_line, NULL);
	for (long n = 1; st; n += 1 + n / 16) {
		mem_fail_from(n);
		st = topo_from_capture(&t, "machine", text, strlen(text));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	topo_free(t);
	mem_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_guest_with_a_flat_tree),
		cmocka_unit_test(a_server_with_switches),
		cmocka_unit_test(cards_and_ports_of_a_server),
		cmocka_unit_test(a_server_whose_processors_have_nvlinks),
		cmocka_unit_test(a_container_gives_a_graph_and_says_what_is_missing),
		cmocka_unit_test(nothing_at_all_still_gives_a_processor),
		cmocka_unit_test(a_guest_whose_devices_have_no_numa_node),
		cmocka_unit_test(gpus_of_amd_and_their_links),
		cmocka_unit_test(ports_without_a_place),
		cmocka_unit_test(distances_are_those_of_nvidia_smi),
		cmocka_unit_test(the_processors_of_arm),
		cmocka_unit_test(a_metal_server_of_a_cloud_is_no_guest),
		cmocka_unit_test(switches_on_the_way_are_kept_and_their_ports_are_not),
		cmocka_unit_test(a_group_that_translates_is_seen),
		cmocka_unit_test(gpus_that_the_driver_does_not_show_are_left_out),
		cmocka_unit_test(the_rdma_device_of_a_member_is_the_bonds),
		cmocka_unit_test(cards_without_an_interface_are_noted),
		cmocka_unit_test(root_ports_with_acs_are_kept_where_an_iommu_translates),
		cmocka_unit_test(acs_is_read_from_configuration_space),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
