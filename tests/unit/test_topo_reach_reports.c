/* SPDX-License-Identifier: Apache-2.0 */
/* What people reported about real machines: the answer names the cause. */
#include "topo_reach_box.h"

/* Two GPUs at root ports with ACS on: P2P was tried, and hung. */
static void report_of_a_hang_by_acs(void **state)
{
	struct box b = { .t = build_start(), .rules = by_machine };
	int port[2];

	(void)state;
	b.cpu0 = build_cpu(b.t, 0, "AuthenticAMD");
	for (int i = 0; i < 2; i++) {
		port[i] = build_node(b.t, TOPO_PCI, b.cpu0, i ? "0000:60:01.0" : "0000:40:01.0");
		b.t->nodes[port[i]].pci.acs = 1;
		b.t->nodes[port[i]].pci.root = 1;
		b.g[i] = build_gpu(b.t, port[i], i ? "0000:61:00.0" : "0000:41:00.0");
	}
	build_end(b.t);
	ask(&b, b.g[0], b.g[1]);
	assert_false(b.out[REACH_P2P].usable);
	assert_non_null(strstr(b.out[REACH_P2P].why, "P2P off by ACS at bridge 0000:40:01.0 between GPU 0 and GPU 1"));
	assert_true(b.out[REACH_SHM].usable);
	assert_strict_says(&b, "setpci -s BUSID ECAP_ACS+6.w=0000");
	topo_free(b.t);
}

/* Four cards, no nvidia-peermem: all traffic went through host memory at a third of the speed. */
static void report_of_gdr_off_without_peermem(void **state)
{
	struct box b = { .t = build_start(), .rules = by_machine };

	(void)state;
	b.cpu0 = build_cpu(b.t, 0, "AuthenticAMD");
	b.t->peermem = 0;
	for (int i = 0; i < 4; i++) {
		char busid[24], name[24];

		snprintf(busid, sizeof(busid), "0000:%02x:00.0", 16 * (i + 1));
		snprintf(name, sizeof(name), "mlx5_%d", i < 2 ? i : i + 2);
		b.sw = build_node(b.t, TOPO_PCI, b.cpu0, busid);
		b.g[i] = build_gpu(b.t, b.sw, busid);
		b.mlx = build_net(b.t, b.sw, busid, name, 200000);
		b.t->nodes[b.g[i]].gpu.gdr = b.t->nodes[b.mlx].net.gdr = 0;
	}
	build_end(b.t);
	ask(&b, b.g[3], b.mlx);
	assert_false(b.out[REACH_GDR].usable);
	assert_non_null(strstr(b.out[REACH_GDR].why, "between GPU 3 and mlx5_5 is off"));
	assert_non_null(strstr(b.out[REACH_GDR].why, "modprobe nvidia-peermem"));
	assert_true(b.out[REACH_RDMA].usable);
	topo_free(b.t);
}

/* A made-up switch with one lane of generation 1, and gdr 0: all that the network moves crosses that lane. */
static void report_of_a_made_up_bottleneck(void **state)
{
	struct box b = { .t = build_start(), .rules = by_machine };

	(void)state;
	b.cpu0 = build_cpu(b.t, 0, "GenuineIntel");
	b.sw = build_node(b.t, TOPO_PCI, b.cpu0, "ffff:ff:00.0");
	b.t->nodes[b.sw].pci.gts = 2.5;
	b.t->nodes[b.sw].pci.width = 1;
	b.g[0] = build_gpu(b.t, b.sw, "0000:0a:00.0");
	b.g[1] = build_gpu(b.t, b.sw, "0000:0b:00.0");
	b.mlx = build_net(b.t, b.sw, "0000:09:00.0", "mlx5_0", 100000);
	b.t->nodes[b.g[0]].gpu.gdr = b.t->nodes[b.g[1]].gpu.gdr = b.t->nodes[b.mlx].net.gdr = 0;
	build_end(b.t);
	ask(&b, b.g[0], b.g[1]);
	assert_why(b, REACH_SHM, true,
		   "host memory of NUMA 0, 0.2 GB/s; the link above PCI ffff:ff:00.0 is the narrowest");
	assert_true(b.out[REACH_P2P].usable);
	ask(&b, b.g[0], b.mlx);
	assert_non_null(strstr(b.out[REACH_GDR].why, "GPU 0 does not let cards access its memory (gdr 0)"));
	topo_free(b.t);
}

/* Two cards near GPU 0 to 3, one at a socket where no GPU is; GPU 4 to 7 have none. */
static void report_of_gpus_without_a_near_card(void **state)
{
	struct box b = { .t = build_start(), .rules = by_machine };
	int cpu[2], sw[2], gpu[8], near[2], bond, nvs = build_node(b.t, TOPO_NVS, -1, "");

	(void)state;
	for (int i = 0; i < 2; i++)
		cpu[i] = build_cpu(b.t, i, "GenuineIntel");
	for (int i = 0; i < 2; i++) {
		sw[i] = build_node(b.t, TOPO_PCI, cpu[0], i ? "0000:30:00.0" : "0000:10:00.0");
		near[i] = build_net(b.t, build_node(b.t, TOPO_PCI, sw[i], ""), "", i ? "mlx5_1" : "mlx5_0", 200000);
	}
	bond = build_net(b.t, cpu[1], "0000:90:00.0", "mlx5_bond_0", 100000);
	for (int i = 0; i < 8; i++) {
		char busid[24];

		snprintf(busid, sizeof(busid), "0000:%02x:00.0", 0xa0 + i);
		gpu[i] = build_gpu(b.t, i < 4 ? build_node(b.t, TOPO_PCI, sw[i / 2], "") : cpu[1], busid);
		build_link(b.t, gpu[i], nvs, LINK_NVLINK, 12, 0);
	}
	build_end(b.t);
	ask(&b, gpu[0], near[0]);
	assert_true(b.out[REACH_GDR].usable && !strncmp(b.out[REACH_GDR].why, "PXB, ", 5));
	for (int i = 4; i < 8; i++) {
		ask(&b, gpu[i], near[0]);
		assert_true(b.out[REACH_GDR].usable && !strncmp(b.out[REACH_GDR].why, "PXN by GPU ", 11));
	}
	ask(&b, gpu[0], bond);
	assert_non_null(strstr(b.out[REACH_GDR].why, "GPU 0 and mlx5_bond_0 are SYS apart"));
	assert_int_equal(strict(&b), TAUT_OK);
	topo_free(b.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report_of_a_hang_by_acs),
		cmocka_unit_test(report_of_gdr_off_without_peermem),
		cmocka_unit_test(report_of_a_made_up_bottleneck),
		cmocka_unit_test(report_of_gpus_without_a_near_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
