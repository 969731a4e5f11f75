/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: making, finishing, checking, copying, asking. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

static void near(double a, double b)
{
	assert_true(fabs(a - b) < 1e-6);
}

static struct topo *made(void)
{
	struct topo *t = NULL;

	assert_int_equal(topo_create(&t, "test"), TAUT_OK);
	return t;
}

static int add(struct topo *t, enum topo_kind kind, int parent, const char *busid)
{
	int n = topo_add_node(t, kind, parent);

	assert_true(n >= 0);
	snprintf(t->nodes[n].pci.busid, sizeof(t->nodes[n].pci.busid), "%s", busid);
	return n;
}

/* Two NUMA nodes, each: a switch with two GPUs and a card of two ports. GPUs hang on one NVSwitch. Returns false when
 * memory is out. */
static bool build(struct topo *t)
{
	int nvs = topo_add_node(t, TOPO_NVS, -1);

	for (int numa = 0; numa < 2 && nvs >= 0; numa++) {
		int cpu = topo_add_node(t, TOPO_CPU, -1), sw = cpu < 0 ? -1 : topo_add_node(t, TOPO_PCI, cpu);
		int nic = sw < 0 ? -1 : topo_add_node(t, TOPO_NIC, sw);

		if (nic < 0)
			return false;
		t->nodes[cpu].cpu.numa = 1 - numa;
		snprintf(t->nodes[sw].pci.busid, sizeof(t->nodes[sw].pci.busid), "0000:%d0:00.0", numa);
		t->nodes[sw].pci.gts = 32;
		t->nodes[sw].pci.width = 16;
		snprintf(t->nodes[nic].pci.busid, sizeof(t->nodes[nic].pci.busid), "0000:%d3:00.0", numa);
		for (int i = 0; i < 2; i++) {
			int gpu = topo_add_node(t, TOPO_GPU, sw), net = gpu < 0 ? -1 : topo_add_node(t, TOPO_NET, nic);

			if (net < 0 || topo_add_link(t, nvs, gpu, LINK_NVLINK, 18, 0))
				return false;
			t->nodes[gpu].gpu.sm = 90;
			snprintf(t->nodes[gpu].pci.busid, sizeof(t->nodes[gpu].pci.busid), "0000:%d%d:00.0", numa,
				 2 - i);
			snprintf(t->nodes[net].name, sizeof(t->nodes[net].name), "mlx5_%d", 2 * numa + i);
			t->nodes[net].net.speed_mbit = 400000;
			t->nodes[net].net.port = i + 1;
		}
	}
	return nvs >= 0;
}

static struct topo *pair_of_switches(void)
{
	struct topo *t = made();

	assert_true(build(t));
	topo_note(t, "the fan of %s is loud", "GPU 0");
	assert_int_equal(topo_finish(t), TAUT_OK);
	return t;
}

static const struct topo_link *link_of(const struct topo *t, const char *a, const char *b, enum topo_link_kind kind)
{
	int l = topo_link_between(t, topo_find(t, a), topo_find(t, b), kind);

	assert_true(l >= 0);
	return &t->links[l];
}

static void a_new_node_knows_nothing(void **state)
{
	struct topo *t = made();
	int cpu = add(t, TOPO_CPU, -1, ""), nic = add(t, TOPO_NIC, cpu, ""), gpu, net;

	(void)state;
	t->nodes[nic].machine = 3;
	gpu = add(t, TOPO_GPU, cpu, "");
	net = add(t, TOPO_NET, nic, "");
	assert_int_equal(t->nodes[cpu].cpu.numa, -1);
	assert_int_equal(t->nodes[cpu].cpu.family, -1);
	assert_int_equal(t->nodes[gpu].gpu.dev, -1);
	assert_int_equal(t->nodes[gpu].gpu.gdr, -1);
	assert_int_equal(t->nodes[gpu].gpu.clique, -1);
	assert_int_equal(t->nodes[gpu].pci.acs, -1);
	assert_int_equal(t->nodes[net].net.dev, -1);
	assert_int_equal(t->nodes[net].net.rail, -1);
	assert_int_equal(t->nodes[net].machine, 3);
	assert_int_equal(topo_add_node(t, TOPO_GPU, 17), -1);
	topo_free(t);
	topo_free(NULL);
}

static void finishing_makes_all_links(void **state)
{
	struct topo *t = pair_of_switches();

	(void)state;
	assert_int_equal(t->nmachines, 1);
	assert_int_equal(t->nlinks, 4 + 2 * (1 + 2 + 1 + 2) + 1);
	near(link_of(t, "gpu0", "nvs0", LINK_NVLINK)->bw_gbps, 18 * 20.6);
	assert_int_equal(link_of(t, "gpu0", "nvs0", LINK_NVLINK)->count, 18);
	near(link_of(t, "00:00.0", "numa1", LINK_PCI)->bw_gbps, 48);
	near(link_of(t, "00:00.0", "gpu0", LINK_PCI)->bw_gbps, 12); /* unknown: gen 3 x16 */
	assert_int_equal(link_of(t, "00:00.0", "gpu0", LINK_PCI)->count, 16);
	near(link_of(t, "mlx5_0", "03:00.0", LINK_NET)->bw_gbps, 50);
	near(link_of(t, "numa0", "numa1", LINK_SMP)->bw_gbps, 10);
	topo_free(t);
}

static void the_lists_are_sorted_and_each_node_knows_its_links(void **state)
{
	struct topo *t = pair_of_switches();
	int seen = 0;

	(void)state;
	assert_int_equal(t->count[TOPO_GPU], 4);
	assert_int_equal(t->count[TOPO_NET], 4);
	assert_int_equal(t->count[TOPO_NVS], 1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(t->nodes[t->of[TOPO_GPU][i]].gpu.dev, i);
		assert_int_equal(t->nodes[t->of[TOPO_NET][i]].net.dev, i);
	}
	assert_string_equal(t->nodes[t->of[TOPO_GPU][0]].pci.busid, "0000:01:00.0"); /* by bus id, not as added */
	assert_int_equal(t->nodes[t->of[TOPO_CPU][0]].cpu.numa, 0);
	for (int i = 0; i < t->nnodes; i++)
		for (int l = 0; l < t->nodes[i].nlinks; l++) {
			const struct topo_link *link = &t->links[t->nodes[i].links[l]];

			assert_true(link->a == i || link->b == i);
			assert_true(l == 0 || t->nodes[i].links[l] > t->nodes[i].links[l - 1]);
			seen++;
		}
	assert_int_equal(seen, 2 * t->nlinks);
	topo_free(t);
}

static void numbers_that_are_given_stay(void **state)
{
	struct topo *t = made();
	int cpu = add(t, TOPO_CPU, -1, ""), a = add(t, TOPO_GPU, cpu, "01:00.0"), b = add(t, TOPO_GPU, cpu, "02:00.0");
	int c = add(t, TOPO_GPU, cpu, "03:00.0"), d = add(t, TOPO_GPU, cpu, "");

	(void)state;
	t->nodes[a].gpu.dev = 2;
	t->nodes[c].gpu.dev = 70;
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(t->nodes[a].gpu.dev, 2);
	assert_int_equal(t->nodes[c].gpu.dev, 70);
	assert_int_equal(t->nodes[d].gpu.dev, 0);
	assert_int_equal(t->nodes[b].gpu.dev, 1);
	assert_int_equal(topo_find(t, "gpu70"), c);
	topo_free(t);
}

static void links_of_a_pair_add_up(void **state)
{
	struct topo *t = made();
	int cpu = add(t, TOPO_CPU, -1, ""), a = add(t, TOPO_GPU, cpu, ""), b = add(t, TOPO_GPU, cpu, "");

	(void)state;
	t->nodes[a].gpu.sm = 80;
	t->nodes[b].gpu.sm = 86; /* the slower one decides */
	assert_int_equal(topo_add_link(t, a, b, LINK_NVLINK, 1, 0), TAUT_OK);
	assert_int_equal(topo_add_link(t, b, a, LINK_NVLINK, 3, 100), TAUT_OK);
	assert_int_equal(topo_add_link(t, a, cpu, LINK_C2C, 2, 100), TAUT_OK);
	assert_int_equal(topo_add_link(t, a, cpu, LINK_C2C, 1, 50), TAUT_OK);
	assert_int_equal(topo_add_link(t, a, a, LINK_NVLINK, 1, 0), TAUT_ERR_ARG);
	assert_int_equal(topo_add_link(t, a, 99, LINK_NVLINK, 1, 0), TAUT_ERR_ARG);
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(t->links[0].count, 4);
	near(t->links[0].bw_gbps, 48);
	assert_int_equal(t->links[1].count, 3);
	near(t->links[1].bw_gbps, 150);
	assert_int_equal(topo_finish(t), TAUT_ERR_ARG);
	topo_free(t);
}

static void links_that_are_given_are_not_made_again(void **state)
{
	struct topo *t = made();
	int a = add(t, TOPO_CPU, -1, ""), b = add(t, TOPO_CPU, -1, ""), c = add(t, TOPO_CPU, -1, "");
	int gpu = add(t, TOPO_GPU, a, ""), nic = add(t, TOPO_NIC, b, ""), net = add(t, TOPO_NET, nic, "");

	(void)state;
	assert_int_equal(topo_add_link(t, b, a, LINK_SMP, 1, 77), TAUT_OK);
	assert_int_equal(topo_add_link(t, a, gpu, LINK_PCI, 4, 3), TAUT_OK);
	assert_int_equal(topo_add_link(t, net, nic, LINK_NET, 1, 25), TAUT_OK);
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(t->nlinks, 3 + 1 + 2);
	near(t->links[topo_link_between(t, a, b, LINK_SMP)].bw_gbps, 77);
	near(t->links[topo_link_between(t, a, c, LINK_SMP)].bw_gbps, 10);
	near(t->links[topo_link_between(t, gpu, a, LINK_PCI)].bw_gbps, 3);
	near(t->links[topo_link_between(t, nic, b, LINK_PCI)].bw_gbps, 5000); /* a card without a slot */
	topo_free(t);
}

static void machines_are_apart(void **state)
{
	struct topo *t = made();
	char name[64];

	(void)state;
	for (int m = 0; m < 2; m++) {
		int cpu = add(t, TOPO_CPU, -1, "");

		t->nodes[cpu].machine = m;
		t->nodes[cpu].cpu.numa = 0;
		add(t, TOPO_GPU, cpu, "0000:01:00.0");
		add(t, TOPO_CPU, -1, "");
		t->nodes[t->nnodes - 1].machine = m;
	}
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(t->nmachines, 2);
	assert_int_equal(t->nlinks, 4); /* no SMP link from machine to machine */
	assert_int_equal(topo_find(t, "gpu0"), topo_find(t, "0/gpu0"));
	assert_int_equal(topo_find(t, "1/01:00.0"), topo_find(t, "1/gpu0"));
	assert_int_not_equal(topo_find(t, "1/gpu0"), topo_find(t, "0/gpu0"));
	assert_int_equal(topo_find(t, "2/gpu0"), -1);
	assert_int_equal(topo_find(t, "x/gpu0"), -1);
	assert_string_equal(topo_name(t, topo_find(t, "1/gpu0"), name, sizeof(name)), "GPU 0 of machine 1");
	topo_free(t);
}

static void nodes_are_found_by_the_names_that_people_use(void **state)
{
	struct topo *t = pair_of_switches();
	char name[64];

	(void)state;
	assert_int_equal(topo_find(t, "GPU3"), t->of[TOPO_GPU][3]);
	assert_int_equal(topo_find(t, "nic2"), topo_find(t, "mlx5_2"));
	assert_int_equal(topo_find(t, "mlx5_1:2"), topo_find(t, "mlx5_1"));
	assert_int_equal(topo_find(t, "mlx5_1:1"), -1);
	assert_int_equal(topo_find(t, "cpu1"), topo_find(t, "NUMA1"));
	assert_int_equal(topo_find(t, "00000000:12:00.0"), topo_find(t, "gpu3"));
	assert_int_equal(topo_find(t, "NVSwitch"), 0);
	assert_int_equal(topo_find(t, "gpu4"), -1);
	assert_int_equal(topo_find(t, "gpu"), -1);
	assert_int_equal(topo_find(t, "gpu99999999999999"), -1);
	assert_int_equal(topo_find(t, ""), -1);
	assert_string_equal(topo_name(t, topo_find(t, "numa1"), name, sizeof(name)), "NUMA 1");
	assert_string_equal(topo_name(t, topo_find(t, "gpu2"), name, sizeof(name)), "GPU 2");
	assert_string_equal(topo_name(t, topo_find(t, "00:00.0"), name, sizeof(name)), "PCI 0000:00:00.0");
	assert_string_equal(topo_name(t, topo_find(t, "13:00.0"), name, sizeof(name)), "NIC 0000:13:00.0");
	assert_string_equal(topo_name(t, topo_find(t, "mlx5_3"), name, sizeof(name)), "mlx5_3");
	assert_string_equal(topo_name(t, -1, name, sizeof(name)), "nothing");
	assert_int_equal(topo_cpu_of(t, topo_find(t, "mlx5_0")), topo_find(t, "numa1"));
	assert_int_equal(topo_cpu_of(t, topo_find(t, "nvs0")), -1);
	topo_free(t);
}

static void the_matrix_shows_ports_with_rdma_else_all(void **state)
{
	struct topo *t = made();
	int cpu = add(t, TOPO_CPU, -1, ""), nic = add(t, TOPO_NIC, cpu, ""), eth = add(t, TOPO_NET, nic, "");
	int ib = add(t, TOPO_NET, nic, ""), nets[2];

	(void)state;
	snprintf(t->nodes[eth].name, sizeof(t->nodes[eth].name), "eth0");
	snprintf(t->nodes[ib].name, sizeof(t->nodes[ib].name), "ibp3s0");
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(topo_matrix_nets(t, nets), 2);
	t->nodes[ib].net.guid = 5; /* a socket's in NCCL's files */
	assert_int_equal(topo_matrix_nets(t, nets), 2);
	t->nodes[ib].net.port = 1;
	assert_int_equal(topo_matrix_nets(t, nets), 1);
	assert_int_equal(nets[0], ib);
	assert_int_equal(topo_matrix_nets(t, NULL), 1);
	assert_int_equal(topo_find(t, "nic0"), ib);
	assert_int_equal(topo_find(t, "nic1"), -1);
	topo_free(t);
}

static void notes_are_kept_once(void **state)
{
	struct topo *t = made();

	(void)state;
	topo_note(t, "%s", "one");
	topo_note(t, "%s", "two");
	topo_note(t, "%s", "one");
	assert_int_equal(t->nnotes, 2);
	for (int i = 0; i < 1000; i++)
		topo_note(t, "%d %0300d", i, 0); /* cut */
	assert_int_equal(t->nnotes, TOPO_MAX_NOTES);
	assert_string_equal(t->notes[TOPO_MAX_NOTES - 1].text, "further notes are not kept: 255 are");
	topo_free(t);
}

/* Each case spoils a sound graph and is told so. */
static void refuses(struct topo *t, const char *words)
{
	char buf[256];
	const char *wrong = topo_check(t, buf, sizeof(buf));

	assert_non_null(wrong);
	if (!strstr(wrong, words))
		fail_msg("\"%s\" instead of \"%s\"", wrong, words);
	topo_free(t);
}

static void what_is_not_sound_is_named(void **state)
{
	struct topo *t = pair_of_switches();
	char buf[256];

	(void)state;
	assert_null(topo_check(t, buf, sizeof(buf)));
	t->nodes[topo_find(t, "mlx5_0")].parent = topo_find(t, "numa0");
	refuses(t, "mlx5_0 cannot be below NUMA 0");
	t = pair_of_switches();
	t->nodes[topo_find(t, "mlx5_0")].parent = -1;
	refuses(t, "port mlx5_0 has no card above it");
	t = pair_of_switches();
	t->nodes[topo_find(t, "00:00.0")].parent = topo_find(t, "gpu0");
	refuses(t, "PCI 0000:00:00.0 cannot be below GPU 0");
	t = pair_of_switches();
	t->nodes[topo_find(t, "00:00.0")].parent = topo_find(t, "10:00.0");
	t->nodes[topo_find(t, "10:00.0")].parent = topo_find(t, "00:00.0");
	refuses(t, "is below itself");
	t = pair_of_switches();
	t->nodes[topo_find(t, "gpu1")].gpu.dev = 0;
	refuses(t, "GPU 0 and GPU 0 have the same number 0");
	t = pair_of_switches();
	t->links[2].bw_gbps = -1;
	refuses(t, "GB/s");
	t = pair_of_switches();
	t->links[2].bw_gbps = NAN;
	refuses(t, "GB/s");
	t = pair_of_switches();
	t->links[2].b = topo_find(t, "mlx5_1");
	refuses(t, "cannot be joined");
	t = pair_of_switches();
	t->nodes[topo_find(t, "gpu1")].machine = 1;
	refuses(t, "GPU 1 is of machine 1 of 1");
}

static void a_graph_that_is_not_sound_is_refused(void **state)
{
	struct topo *t = made();
	int cpu = add(t, TOPO_CPU, -1, "");

	(void)state;
	add(t, TOPO_NET, cpu, "");
	assert_int_equal(topo_finish(t), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "test: the graph is not sound: port 0 cannot be below"));
	topo_free(t);
}

static void a_copy_stands_alone(void **state)
{
	struct topo *t = pair_of_switches(), *c = NULL;
	char buf[256];

	(void)state;
	t->p2p = mem_calloc(16, 1);
	t->p2p[5] = P2P_OK;
	assert_int_equal(topo_copy(&c, t), TAUT_OK);
	assert_int_equal(c->nlinks, t->nlinks);
	assert_memory_equal(c->links, t->links, (size_t)t->nlinks * sizeof(*t->links));
	for (int i = 0; i < t->nnodes; i++) {
		assert_int_equal(c->nodes[i].nlinks, t->nodes[i].nlinks);
		assert_memory_equal(c->nodes[i].links, t->nodes[i].links, (size_t)t->nodes[i].nlinks * sizeof(int));
	}
	topo_free(t);
	assert_null(topo_check(c, buf, sizeof(buf)));
	assert_int_equal(c->p2p[5], P2P_OK);
	assert_int_equal(c->nodes[topo_find(c, "gpu3")].gpu.sm, 90);
	assert_string_equal(c->notes[0].text, "the fan of GPU 0 is loud");
	topo_free(c);
}

static enum taut_status make_all(struct topo **out)
{
	enum taut_status st = topo_create(out, "test");

	if (st)
		return st;
	st = build(*out) ? topo_finish(*out) : TAUT_ERR_NOMEM;
	if (st) {
		topo_free(*out);
		*out = NULL;
	}
	return st;
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL, *c = NULL;
	long n;

	(void)state;
	for (n = 1; st; n++) {
		mem_fail_from(n);
		st = make_all(&t);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	assert_true(n > 20);
	st = TAUT_ERR_NOMEM;
	for (n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_copy(&c, t);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	assert_true(n > 8);
	mem_fail_from(1);
	topo_note(c, "lost");
	mem_fail_from(0);
	assert_int_equal(c->nnotes, 0);
	topo_free(t);
	topo_free(c);
}

static void figures_are_those_of_the_field(void **state)
{
	struct topo_cpu cpu = { .arch = "x86_64", .vendor = "GenuineIntel", .family = 6, .model = 0xcf };

	(void)state;
	near(topo_pci_bw(0, 0), 12);
	near(topo_pci_bw(2.5, 1), 15 / 80.0);
	near(topo_pci_bw(5, 16), 6);
	near(topo_pci_bw(8, 16), 12);
	near(topo_pci_bw(16, 8), 12);
	near(topo_pci_bw(32, 16), 48);
	near(topo_pci_bw(64, 16), 96);
	near(topo_nvlink_bw(60), 18);
	near(topo_nvlink_bw(70), 20);
	near(topo_nvlink_bw(86), 12);
	near(topo_nvlink_bw(90), 20.6);
	near(topo_nvlink_bw(103), 40.1);
	near(topo_xgmi_bw("gfx942"), 48);
	near(topo_xgmi_bw("910"), 36);
	near(topo_xgmi_bw("gfx90a"), 36);
	near(topo_xgmi_bw("908"), 24);
	near(topo_smp_bw(&cpu), 40);
	cpu.model = 0x8f;
	near(topo_smp_bw(&cpu), 22);
	cpu.model = 106;
	near(topo_smp_bw(&cpu), 10);
	cpu.model = 79;
	near(topo_smp_bw(&cpu), 6);
	snprintf(cpu.vendor, sizeof(cpu.vendor), "AuthenticAMD");
	near(topo_smp_bw(&cpu), 16);
	snprintf(cpu.arch, sizeof(cpu.arch), "ppc64");
	near(topo_smp_bw(&cpu), 32);
	snprintf(cpu.arch, sizeof(cpu.arch), "arm64");
	near(topo_smp_bw(&cpu), 6);
}

static void link_speeds_are_read_in_all_spellings(void **state)
{
	(void)state;
	near(topo_parse_gts("16 GT/s"), 16);
	near(topo_parse_gts("32.0 GT/s PCIe"), 32);
	near(topo_parse_gts("32 GT/s PCIe/s"), 32);
	near(topo_parse_gts("2.5GT/s"), 2.5);
	near(topo_parse_gts(""), 0);
	near(topo_parse_gts("Unknown"), 0);
	near(topo_parse_gts("16"), 0);
	near(topo_parse_gts("99999999999999999999 GT/s"), 0);
}

static void masks_are_read_from_the_right(void **state)
{
	uint32_t w[TOPO_MASK_WORDS];
	char text[32];

	(void)state;
	assert_int_equal(topo_parse_mask(w, TOPO_MASK_WORDS, "0003ff,f0003fff"), 2);
	assert_int_equal(w[0], 0xf0003fff);
	assert_int_equal(w[1], 0x3ff);
	assert_string_equal(topo_mask_list(w, 2, text, sizeof(text)), "0-13,28-41");
	assert_string_equal(topo_mask_list(w, 2, text, 5), "0-13");
	assert_int_equal(topo_parse_mask(w, TOPO_MASK_WORDS, "c0C0"), 1);
	assert_string_equal(topo_mask_list(w, 1, text, sizeof(text)), "6-7,14-15");
	assert_int_equal(topo_parse_mask(w, 2, "1,0,0"), -1);
	assert_int_equal(topo_parse_mask(w, 2, "123456789"), -1);
	assert_int_equal(topo_parse_mask(w, 2, "12,"), -1);
	assert_int_equal(topo_parse_mask(w, 2, ",12"), -1);
	assert_int_equal(topo_parse_mask(w, 2, "xy"), -1);
	assert_int_equal(topo_parse_mask(w, 2, ""), -1);
	assert_int_equal(topo_parse_mask(w, 2, "ffffffff,80000000"), 2);
	assert_string_equal(topo_mask_list(w, 2, text, sizeof(text)), "31-63");
}

static void bus_ids_are_one_whatever_their_spelling(void **state)
{
	char id[24];

	(void)state;
	assert_int_equal(topo_busid_key("3b:00.0"), topo_busid_key("00000000:3B:00.0"));
	assert_true(topo_busid_key("0001:00:00.0") > topo_busid_key("ff:1f.7"));
	assert_true(topo_busid_key("fffffff:ff:ff.0") > 0);
	assert_int_equal(topo_busid_key("3b:00"), -1);
	assert_int_equal(topo_busid_key("3b"), -1);
	assert_int_equal(topo_busid_key("123456789:00:00.0"), -1);
	assert_int_equal(topo_busid_key("0:0:0:0.0"), -1);
	assert_int_equal(topo_busid_key("0000:3b:00.0x"), -1);
	assert_true(topo_busid_normal(id, sizeof(id), "3B:00.1"));
	assert_string_equal(id, "0000:3b:00.1");
	assert_false(topo_busid_normal(id, sizeof(id), "eth0"));
	assert_string_equal(id, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_node_knows_nothing),
		cmocka_unit_test(finishing_makes_all_links),
		cmocka_unit_test(the_lists_are_sorted_and_each_node_knows_its_links),
		cmocka_unit_test(numbers_that_are_given_stay),
		cmocka_unit_test(links_of_a_pair_add_up),
		cmocka_unit_test(links_that_are_given_are_not_made_again),
		cmocka_unit_test(machines_are_apart),
		cmocka_unit_test(nodes_are_found_by_the_names_that_people_use),
		cmocka_unit_test(the_matrix_shows_ports_with_rdma_else_all),
		cmocka_unit_test(notes_are_kept_once),
		cmocka_unit_test(what_is_not_sound_is_named),
		cmocka_unit_test(a_graph_that_is_not_sound_is_refused),
		cmocka_unit_test(a_copy_stands_alone),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(figures_are_those_of_the_field),
		cmocka_unit_test(link_speeds_are_read_in_all_spellings),
		cmocka_unit_test(masks_are_read_from_the_right),
		cmocka_unit_test(bus_ids_are_one_whatever_their_spelling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
