/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_reach_box.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"

/* --- usable --- */

static void a_sound_machine_can_do_what_it_should(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, true, "PIX, 24.0 GB/s");
	assert_why(b, REACH_SHM, true, "host memory of NUMA 0, 24.0 GB/s");
	assert_false(b.out[REACH_GDR].asked || b.out[REACH_RDMA].asked || b.out[REACH_TCP].asked);
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_SHM, true, "host memory of NUMA 0 and NUMA 1, 22.0 GB/s");
	ask(&b, b.mlx, b.g[0]);
	assert_why(b, REACH_GDR, true, "PIX, 24.0 GB/s");
	assert_why(b, REACH_RDMA, true, "infiniband, 200 Gbit/s");
	assert_why(b, REACH_TCP, true, "infiniband, 200 Gbit/s");
	assert_false(b.out[REACH_P2P].asked || b.out[REACH_SHM].asked);
	b.t->nodes[b.far].net.speed_mbit = 100000;
	ask(&b, b.far, b.mlx);
	assert_why(b, REACH_RDMA, true, "infiniband, 100 Gbit/s");
	assert_false(b.out[REACH_P2P].asked || b.out[REACH_SHM].asked || b.out[REACH_GDR].asked);
	ask(&b, b.cpu0, b.g[0]);
	assert_why(b, REACH_SHM, true, "host memory of NUMA 0, 24.0 GB/s");
	ask(&b, b.cpu0, b.mlx);
	assert_true(b.out[REACH_RDMA].asked && b.out[REACH_TCP].asked && !b.out[REACH_GDR].asked);
	for (int to = -1; to <= b.sw; to += b.sw - -1) {
		ask(&b, b.g[0], to);
		for (int i = 0; i < REACH_WIRES; i++)
			assert_false(b.out[i].asked);
	}
	ask(&b, b.g[0], b.g[0]);
	assert_false(b.out[REACH_P2P].asked);
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

static void what_is_not_known_is_said(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	b.t->iommu = b.t->nodes[b.sw].pci.acs = b.t->peermem = -1;
	build_end(b.t);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, true,
		   "PIX, 24.0 GB/s, as far as is known (not known: what the driver says, ACS, IOMMU)");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, true, "PIX, 24.0 GB/s, as far as is known (not known: ACS, IOMMU)");
	b.t->iommu = 0;
	b.t->nodes[b.far].net.speed_mbit = 0;
	*b.t->nodes[b.far].net.layer = '\0';
	ask(&b, b.cpu1, b.far);
	assert_why(b, REACH_TCP, true, "kind of port not known, speed not known");
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

static void nvlink_is_named_as_people_know_it(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	build_link(b.t, b.g[0], b.g[2], LINK_NVLINK, 4, 0);
	build_link(b.t, b.g[2], b.g[3], LINK_NVLINK, 4, 0);
	box_end(&b);
	ask(&b, b.g[0], b.g[2]);
	assert_why(b, REACH_P2P, true, "NV4, 82.4 GB/s");
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_P2P, true, "NVB by GPU 2, 82.4 GB/s");
	ask(&b, b.g[2], b.mlx);
	assert_why(b, REACH_GDR, true, "PXN by GPU 0: PIX, 24.0 GB/s");
	b.rules.p2p_disable = true; /* then the card is as far as it is */
	ask(&b, b.g[2], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPUDirect RDMA refused: GPU 2 and mlx5_0 are PHB apart, and on this machine it pays as far as P2C: "
		   "set "
		   "TAUT_NET_GDR_LEVEL=PHB to use it all the same");
	topo_free(b.t);
}

/* --- P2P --- */

static void acs_at_a_bridge_ends_p2p(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	b.t->nodes[b.sw].pci.acs = 1;
	box_end(&b);
	ask(&b, b.g[0], b.g[1]);
	assert_why(
		b, REACH_P2P, false,
		"P2P off by ACS at bridge 0000:3b:00.0 between GPU 0 and GPU 1: it sends their traffic up to the host "
		"bridge and the IOMMU, where it crawls or hangs: switch ACS off in the firmware, or at each port of "
		"the "
		"bridge with setpci -s BUSID ECAP_ACS+6.w=0000");
	assert_strict_says(&b, "P2P off by ACS at bridge 0000:3b:00.0");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPUDirect RDMA off by ACS at bridge 0000:3b:00.0 between GPU 0 and mlx5_0: it sends their traffic "
		   "up to "
		   "the host bridge and the IOMMU, where it crawls or hangs: switch ACS off in the firmware, or at "
		   "each port "
		   "of the bridge with setpci -s BUSID ECAP_ACS+6.w=0000");
	/* by the host bridge anyway, and no IOMMU there */
	ask(&b, b.g[0], b.g[2]);
	assert_why(b, REACH_P2P, true, "PHB, 24.0 GB/s");
	/* the user takes the detour */
	b.rules.p2p_level = PATH_PHB;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, true, "PIX, 24.0 GB/s");
	b.t->iommu = -1;
	ask(&b, b.g[0], b.g[2]);
	assert_false(b.out[REACH_P2P].usable);
	topo_free(b.t);
}

static void an_iommu_that_translates_ends_traffic_over_pci(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	b.t->iommu = 1;
	build_link(b.t, b.g[0], b.g[3], LINK_NVLINK, 4, 0);
	box_end(&b);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "P2P off by the IOMMU: it translates what GPU 0 and GPU 1 send each other: boot with iommu=pt, or "
		   "switch "
		   "it off in the firmware (VT-d, AMD-Vi)");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPUDirect RDMA off by the IOMMU: it translates what GPU 0 and mlx5_0 send each other: boot with "
		   "iommu=pt, or switch it off in the firmware (VT-d, AMD-Vi)");
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_P2P, true, "NV4, 82.4 GB/s");
	assert_strict_says(&b, "P2P off by the IOMMU");
	topo_free(b.t);
}

static void the_driver_has_its_say(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	snprintf(b.t->nodes[b.g[0]].name, sizeof(b.t->nodes[b.g[0]].name), "NVIDIA T400");
	box_end(&b);
	set_p2p(&b, 1, 0, P2P_CHIPSET); /* one direction is enough */
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "the driver refuses P2P between GPU 0 and GPU 1: chipset not supported: use GPUs below one PCI "
		   "switch, or "
		   "joined by NVLink");
	assert_int_equal(strict(&b), TAUT_OK); /* the machine has nothing better */
	set_p2p(&b, 0, 1, P2P_GPU);
	set_p2p(&b, 1, 0, P2P_GPU);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "the driver refuses P2P between GPU 0 and GPU 1: GPU not supported, NVIDIA T400: consumer GPUs have "
		   "it over "
		   "NVLink at most: use GPUs that have it");
	set_p2p(&b, 0, 1, P2P_TOPOLOGY);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "the driver refuses P2P between GPU 0 and GPU 1: topology not supported: use GPUs below one host "
		   "bridge "
		   "(CUDA_VISIBLE_DEVICES chooses)");
	set_p2p(&b, 0, 1, P2P_NO);
	ask(&b, b.g[0], b.g[1]);
	assert_why(
		b, REACH_P2P, false,
		"the driver refuses P2P between GPU 0 and GPU 1: not supported on this system: nvidia-smi topo -p2p r "
		"shows all pairs");
	set_p2p(&b, 0, 1, P2P_DISABLED);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "the driver refuses P2P between GPU 0 and GPU 1: disabled by a registry key: take it out of the "
		   "options of "
		   "the module nvidia (NVreg_RegistryDwords) and load the module again");
	assert_strict_says(&b, "disabled by a registry key");
	topo_free(b.t);
}

static void of_a_way_by_a_gpu_the_driver_must_allow_both_halves(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	build_link(b.t, b.g[0], b.g[2], LINK_NVLINK, 4, 0);
	build_link(b.t, b.g[2], b.g[3], LINK_NVLINK, 4, 0);
	box_end(&b);
	set_p2p(&b, 0, 3, P2P_TOPOLOGY); /* not the way that is taken */
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_P2P, true, "NVB by GPU 2, 82.4 GB/s");
	set_p2p(&b, 3, 2, P2P_DISABLED);
	ask(&b, b.g[0], b.g[3]);
	assert_non_null(strstr(b.out[REACH_P2P].why, "between GPU 2 and GPU 3: disabled"));
	topo_free(b.t);
}

static void consumer_gpus_have_no_p2p_over_pci(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	for (int i = 0; i < 4; i++)
		snprintf(b.t->nodes[b.g[i]].name, sizeof(b.t->nodes[b.g[i]].name), "NVIDIA GeForce RTX 3090");
	build_link(b.t, b.g[1], b.g[2], LINK_NVLINK, 4, 0);
	box_end(&b);
	set_p2p(&b, 0, 1, P2P_UNKNOWN);
	set_p2p(&b, 1, 0, P2P_UNKNOWN);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "GPU 0 is a NVIDIA GeForce RTX 3090, a consumer GPU: the driver has no P2P over PCI for it: join "
		   "the GPUs by "
		   "NVLink if they can be, or use data center GPUs");
	ask(&b, b.g[1], b.g[2]);
	assert_why(b, REACH_P2P, true, "NV4, 82.4 GB/s");
	ask(&b, b.g[0], b.g[2]); /* a driver that has it */
	assert_why(b, REACH_P2P, true, "PHB, 24.0 GB/s");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPU 0 is a NVIDIA GeForce RTX 3090, a consumer GPU without GPUDirect RDMA: use data center GPUs; "
		   "these send "
		   "through host memory");
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

static void levels_keep_the_far_apart(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_P2P, false,
		   "P2P refused: GPU 0 and GPU 3 are SYS apart, and on this machine it pays as far as PHB: set "
		   "TAUT_P2P_LEVEL=SYS to use it all the same");
	assert_int_equal(strict(&b), TAUT_OK);
	b.rules.p2p_level = PATH_SYS;
	ask(&b, b.g[0], b.g[3]);
	assert_why(b, REACH_P2P, true, "SYS, 22.0 GB/s");
	b.rules.p2p_level = PATH_NVL;
	ask(&b, b.g[0], b.g[1]);
	assert_why(
		b, REACH_P2P, false,
		"P2P refused: GPU 0 and GPU 1 are PIX apart, and the level is NVL: set TAUT_P2P_LEVEL=PIX to allow it");
	assert_strict_says(&b, "the level is NVL");
	topo_free(b.t);
}

static void the_level_follows_the_host_bridge(void **state)
{
	struct box b = box_start("GenuineIntel");
	struct topo *two = build_start();
	int cpu0 = build_cpu(two, 0, "AuthenticAMD"), cpu1 = build_cpu(two, 1, "AuthenticAMD");
	struct box pair = { .t = two, .rules = by_machine };

	(void)state;
	b.t->nodes[b.cpu0].cpu.model = 0x4f; /* Broadwell */
	box_end(&b);
	ask(&b, b.g[0], b.g[2]);
	assert_non_null(strstr(b.out[REACH_P2P].why, "are PHB apart, and on this machine it pays as far as PXB"));
	topo_free(b.t);
	pair.g[0] = build_gpu(two, cpu0, "0000:01:00.0");
	pair.g[1] = build_gpu(two, cpu1, "0000:81:00.0");
	build_end(two);
	ask(&pair, pair.g[0], pair.g[1]);
	assert_true(pair.out[REACH_P2P].usable);
	topo_free(two);
	b = box_start("AuthenticAMD"); /* four GPUs; cards may be as far as the host bridge */
	b.t->nodes[b.cpu0].cpu.family = 25;
	box_end(&b);
	ask(&b, b.g[0], b.g[3]);
	assert_false(b.out[REACH_P2P].usable);
	ask(&b, b.g[2], b.mlx);
	assert_why(b, REACH_GDR, true, "PHB, 24.0 GB/s");
	topo_free(b.t);
}

static void settings_switch_p2p_and_shm_off(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	b.rules.p2p_disable = true;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "P2P between GPU 0 and GPU 1 is off by TAUT_P2P_DISABLE=1: unset that (and NCCL_P2P_DISABLE) to use "
		   "it");
	assert_strict_says(&b, "TAUT_P2P_DISABLE=1");
	b.rules = by_machine;
	b.rules.shm_disable = true;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_SHM, false,
		   "shared memory between GPU 0 and GPU 1 is off by TAUT_SHM_DISABLE=1: unset that (and "
		   "NCCL_SHM_DISABLE) to "
		   "use it");
	/* GPU 0 and 3 have nothing better */
	assert_strict_says(&b, "shared memory between GPU 0 and GPU 3 is off");
	topo_free(b.t);
}

static void nvlink_joins_one_generation(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	b.t->nodes[b.g[0]].gpu.nvlink_version = 3;
	b.t->nodes[b.g[1]].gpu.nvlink_version = 4;
	build_link(b.t, b.g[0], b.g[1], LINK_NVLINK, 4, 0);
	box_end(&b);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "GPU 0 has NVLink of generation 3 and GPU 1 of generation 4: links between generations do not come "
		   "up: join "
		   "GPUs of one generation; these exchange data through host memory");
	b.t->nodes[b.g[1]].gpu.nvlink_version = 0;
	ask(&b, b.g[0], b.g[1]);
	assert_true(b.out[REACH_P2P].usable);
	topo_free(b.t);
}

static void what_is_attached_to_nothing_is_told(void **state)
{
	struct box b = { .t = build_start(), .rules = by_machine };

	(void)state;
	b.g[0] = build_gpu(b.t, -1, "");
	b.g[1] = build_gpu(b.t, -1, "");
	build_end(b.t);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "nothing is known to connect GPU 0 and GPU 1: test does not say what they are attached to: describe "
		   "the "
		   "machine better, or let taut look at it itself");
	assert_why(b, REACH_SHM, true, "host memory");
	topo_free(b.t);
}

/* --- several machines --- */

static struct box two_machines(bool nvlink)
{
	struct box b = { .t = build_start(), .rules = by_machine };
	int nvs = nvlink ? build_node(b.t, TOPO_NVS, -1, "") : -1;

	b.cpu0 = build_cpu(b.t, 0, "");
	b.cpu1 = build_cpu(b.t, 0, "");
	b.t->nodes[b.cpu1].machine = 1;
	b.g[0] = build_gpu(b.t, b.cpu0, "0008:01:00.0");
	b.g[1] = build_gpu(b.t, b.cpu1, "0008:01:00.0");
	b.mlx = build_net(b.t, b.cpu1, "0000:03:00.0", "mlx5_0", 400000);
	for (int i = 0; i < 2; i++) {
		b.t->nodes[b.g[i]].gpu.fabric_hash = 77;
		b.t->nodes[b.g[i]].gpu.clique = 3;
		if (nvlink)
			build_link(b.t, b.g[i], nvs, LINK_NVLINK, 18, 0);
	}
	build_end(b.t);
	return b;
}

static void one_nvlink_domain_spans_machines(void **state)
{
	struct box b = two_machines(true);

	(void)state;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, true, "NV18, 370.8 GB/s");
	assert_why(b, REACH_SHM, false,
		   "GPU 0 of machine 0 and GPU 0 of machine 1 are in different machines: shared memory ends at the "
		   "machine: "
		   "use the network between them");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPU 0 of machine 0 and mlx5_0 of machine 1 are in different machines: use a port of machine 0");
	assert_false(b.out[REACH_TCP].usable);
	b.t->nodes[b.g[1]].gpu.clique = 4;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "GPU 0 of machine 0 is in clique 3 of its NVLink domain and GPU 0 of machine 1 in clique 4: only "
		   "GPUs of one "
		   "clique reach each other: use GPUs of one partition, or have the partitions changed");
	assert_int_equal(strict(&b), TAUT_OK);
	b.t->nodes[b.g[1]].gpu.fabric_hash = 78;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "GPU 0 of machine 0 and GPU 0 of machine 1 belong to different NVLink domains (their fabric "
		   "identifiers "
		   "differ), so NVLink does not join them: use the network, or have both put into one domain");
	b.t->nodes[b.g[1]].machine = 0; /* of one machine: somebody has partitioned it */
	assert_strict_says(&b, "different NVLink domains");
	topo_free(b.t);
}

static void without_one_the_network_remains(void **state)
{
	struct box b = two_machines(false);

	(void)state;
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_P2P, false,
		   "GPU 0 of machine 0 and GPU 0 of machine 1 are in different machines, and no NVLink domain joins "
		   "these: use "
		   "the network between them");
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

/* --- ports --- */

static void gdr_needs_driver_gpu_and_card(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	b.t->peermem = 0;
	b.t->nodes[b.g[0]].gpu.gdr = 0; /* follows */
	ask(&b, b.g[0], b.mlx);
	assert_why(
		b, REACH_GDR, false,
		"GPUDirect RDMA between GPU 0 and mlx5_0 is off: the GPU driver does not hand its memory to cards (no "
		"nvidia-peermem, no dma-buf): modprobe nvidia-peermem, or use the open kernel modules and Linux 5.12 "
		"or "
		"later");
	assert_true(b.out[REACH_RDMA].usable);
	assert_strict_says(&b, "modprobe nvidia-peermem");
	snprintf(b.t->nodes[b.g[0]].gpu.gcn, sizeof(b.t->nodes[b.g[0]].gpu.gcn), "gfx942");
	ask(&b, b.g[0], b.mlx);
	assert_non_null(strstr(b.out[REACH_GDR].why, "load the driver amdgpu"));
	b.t->peermem = 1;
	snprintf(b.t->nodes[b.g[0]].name, sizeof(b.t->nodes[b.g[0]].name), "Some GPU");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "GPU 0 does not let cards access its memory (gdr 0): Some GPU: GPUDirect RDMA needs a data center "
		   "GPU and its "
		   "driver; data goes through host memory");
	b.t->nodes[b.g[0]].gpu.gdr = 1;
	b.t->nodes[b.mlx].net.gdr = 0;
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_GDR, false,
		   "mlx5_0 does not access GPU memory (gdr 0): load nvidia-peermem (modprobe nvidia-peermem) or use a "
		   "driver of "
		   "the card with dma-buf");
	assert_strict_says(&b, "mlx5_0 does not access GPU memory");
	topo_free(b.t);
}

static void gdr_has_levels(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	ask(&b, b.g[0], b.far);
	assert_why(b, REACH_GDR, false,
		   "GPUDirect RDMA refused: GPU 0 and mlx5_1 are SYS apart, and on this machine it pays as far as P2C: "
		   "set "
		   "TAUT_NET_GDR_LEVEL=SYS to use it all the same");
	b.rules.gdr_level = PATH_PHB;
	ask(&b, b.g[0], b.far);
	assert_why(b, REACH_GDR, false,
		   "GPUDirect RDMA refused: GPU 0 and mlx5_1 are SYS apart, and the level is PHB: set "
		   "TAUT_NET_GDR_LEVEL=SYS to "
		   "allow it");
	b.rules.gdr_level = PATH_SYS;
	ask(&b, b.g[0], b.far);
	assert_why(b, REACH_GDR, true, "SYS, 22.0 GB/s");
	b.rules.gdr_level = PATH_LOC;
	assert_strict_says(&b, "GPU 0 and mlx5_0 are PIX apart, and the level is LOC");
	topo_free(b.t);
}

static void rdma_needs_verbs(void **state)
{
	struct box b = box_start("GenuineIntel");
	struct topo_node *port;

	(void)state;
	box_end(&b);
	port = &b.t->nodes[b.mlx];
	snprintf(port->name, sizeof(port->name), "eth0");
	snprintf(port->net.layer, sizeof(port->net.layer), "ethernet");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_RDMA, false,
		   "eth0 has no verbs device: RDMA needs a card that has one and its driver (rdma link lists them); "
		   "over this "
		   "port TCP remains");
	assert_string_equal(b.out[REACH_GDR].why, b.out[REACH_RDMA].why);
	assert_why(b, REACH_TCP, true, "ethernet, 200 Gbit/s");
	port->net.is_virtual = true;
	snprintf(port->net.driver, sizeof(port->net.driver), "virtio_net");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_RDMA, false,
		   "eth0 is a virtual port of driver virtio_net without verbs: RDMA needs a card or a function of one: "
		   "pass one "
		   "into the container or guest (/dev/infiniband)");
	snprintf(port->net.rdma, sizeof(port->net.rdma), "mlx5_4");
	ask(&b, b.mlx, b.far);
	assert_why(b, REACH_RDMA, false,
		   "eth0 is the network interface of mlx5_4 and does not speak verbs itself: use mlx5_4");
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

static void rdma_can_be_switched_off(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	b.rules.ib_disable = true;
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_RDMA, false,
		   "RDMA over mlx5_0 is off by TAUT_IB_DISABLE=1: unset that (and NCCL_IB_DISABLE) to use it");
	assert_string_equal(b.out[REACH_GDR].why, b.out[REACH_RDMA].why);
	assert_true(b.out[REACH_TCP].usable);
	assert_strict_says(&b, "TAUT_IB_DISABLE=1");
	topo_free(b.t);
}

static void a_port_must_be_up(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	snprintf(b.t->nodes[b.mlx].net.state, sizeof(b.t->nodes[b.mlx].net.state), "down");
	ask(&b, b.mlx, b.far);
	assert_why(
		b, REACH_RDMA, false,
		"mlx5_0 is down: look at its cable and switch, and whether a subnet manager runs (ibstat, rdma link)");
	assert_string_equal(b.out[REACH_TCP].why, b.out[REACH_RDMA].why);
	assert_strict_says(&b, "mlx5_0 is down");
	snprintf(b.t->nodes[b.mlx].name, sizeof(b.t->nodes[b.mlx].name), "eth0");
	snprintf(b.t->nodes[b.mlx].net.layer, sizeof(b.t->nodes[b.mlx].net.layer), "ethernet");
	ask(&b, b.g[0], b.mlx);
	assert_why(b, REACH_TCP, false, "eth0 is down: look at its cable and switch (ip link)");
	topo_free(b.t);
}

static void ports_of_two_kinds_do_not_meet(void **state)
{
	struct box b = box_start("GenuineIntel");

	(void)state;
	box_end(&b);
	snprintf(b.t->nodes[b.far].net.layer, sizeof(b.t->nodes[b.far].net.layer), "roce");
	ask(&b, b.mlx, b.far);
	assert_false(b.out[REACH_RDMA].usable);
	assert_non_null(strstr(b.out[REACH_RDMA].why, "ports of different kinds do not reach each other"));
	topo_free(b.t);
}

/* --- settings --- */

static void rules_come_from_the_settings(void **state)
{
	struct reach_rules r;
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	r = reach_rules_from(&cfg);
	assert_int_equal(r.p2p_level, -1);
	assert_int_equal(r.gdr_level, -1);
	assert_false(r.p2p_disable || r.shm_disable || r.ib_disable || r.strict);
	assert_int_equal(config_set(&cfg, "NCCL_P2P_LEVEL", "pxb"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "NCCL_NET_GDR_LEVEL", "4"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_P2P_DISABLE", "1"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_SHM_DISABLE", "1"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_IB_DISABLE", "1"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_STRICT", "1"), TAUT_OK);
	r = reach_rules_from(&cfg);
	assert_int_equal(r.p2p_level, PATH_PXB);
	assert_int_equal(r.gdr_level, PATH_SYS);
	assert_true(r.p2p_disable && r.shm_disable && r.ib_disable && r.strict);
	config_cleanup(&cfg);
}

static void every_level_that_the_settings_take_is_a_class(void **state)
{
	const struct setting *s = config_setting(0);
	struct config cfg;
	char *words, *next;
	int n = 0;

	(void)state;
	for (size_t i = 0; strcmp(s->name, "TAUT_P2P_LEVEL") != 0; i++)
		s = config_setting(i);
	words = strdup(s->limits);
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	for (char *word = strtok_r(words, "|", &next); word; word = strtok_r(NULL, "|", &next), n++) {
		assert_int_equal(config_set(&cfg, "TAUT_P2P_LEVEL", word), TAUT_OK);
		assert_int_equal(config_set(&cfg, "TAUT_NET_GDR_LEVEL", word), TAUT_OK);
		assert_true(reach_rules_from(&cfg).p2p_level >= 0 && reach_rules_from(&cfg).p2p_level <= PATH_SYS);
		assert_int_equal(reach_rules_from(&cfg).p2p_level, reach_rules_from(&cfg).gdr_level);
	}
	assert_int_equal(n, PATH_SYS + 1 + 6);
	config_cleanup(&cfg);
	free(words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_machine_can_do_what_it_should),
		cmocka_unit_test(what_is_not_known_is_said),
		cmocka_unit_test(nvlink_is_named_as_people_know_it),
		cmocka_unit_test(acs_at_a_bridge_ends_p2p),
		cmocka_unit_test(an_iommu_that_translates_ends_traffic_over_pci),
		cmocka_unit_test(the_driver_has_its_say),
		cmocka_unit_test(of_a_way_by_a_gpu_the_driver_must_allow_both_halves),
		cmocka_unit_test(consumer_gpus_have_no_p2p_over_pci),
		cmocka_unit_test(levels_keep_the_far_apart),
		cmocka_unit_test(the_level_follows_the_host_bridge),
		cmocka_unit_test(settings_switch_p2p_and_shm_off),
		cmocka_unit_test(nvlink_joins_one_generation),
		cmocka_unit_test(what_is_attached_to_nothing_is_told),
		cmocka_unit_test(one_nvlink_domain_spans_machines),
		cmocka_unit_test(without_one_the_network_remains),
		cmocka_unit_test(gdr_needs_driver_gpu_and_card),
		cmocka_unit_test(gdr_has_levels),
		cmocka_unit_test(rdma_needs_verbs),
		cmocka_unit_test(rdma_can_be_switched_off),
		cmocka_unit_test(a_port_must_be_up),
		cmocka_unit_test(ports_of_two_kinds_do_not_meet),
		cmocka_unit_test(rules_come_from_the_settings),
		cmocka_unit_test(every_level_that_the_settings_take_is_a_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
