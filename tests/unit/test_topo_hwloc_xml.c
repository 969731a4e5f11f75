/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hwloc 1, 2 and 3 saved, of machines with NVIDIA's, AMD's and no GPUs; and files that are wrong. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/smi.h"
#include "topo/topo.h"

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static struct topo *load(const char *name)
{
	char path[512];
	char *text = calloc(1, 1 << 20);
	struct topo *t = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "tests/golden/hwloc/%s", name);
	file = fopen(path, "rb");
	assert_non_null(file);
	if (topo_from_hwloc_xml(&t, name, text, fread(text, 1, 1 << 20, file)))
		fail_msg("%s", taut_error_message());
	fclose(file);
	free(text);
	return t;
}

static const struct topo_node *node(const struct topo *t, const char *name)
{
	int n = topo_find(t, name);

	if (n < 0)
		fail_msg("no %s in %s", name, t->source);
	return &t->nodes[n];
}

static const char *words[SMI_CLASSES] = { "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS" };

static void expect_class(const struct topo *t, const char *a, const char *b, enum smi_class want, int links)
{
	int nv, node_a = topo_find(t, a), node_b = topo_find(t, b);
	enum smi_class got = node_a < 0 || node_b < 0 ? SMI_CLASSES : smi_class_of(t, node_a, node_b, &nv);

	if (got == SMI_CLASSES)
		fail_msg("%s: no %s or no %s", t->source, a, b);
	if (got != want || nv != links)
		fail_msg("%s: %s and %s are %s%d apart, %s%d was expected", t->source, a, b, words[got], nv,
			 words[want], links);
}

static bool has_note(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return true;
	return false;
}

static void expect_counts(const struct topo *t, int cpus, int switches, int gpus, int cards, int ports)
{
	const int want[TOPO_KINDS] = {
		[TOPO_CPU] = cpus, [TOPO_PCI] = switches, [TOPO_GPU] = gpus, [TOPO_NIC] = cards, [TOPO_NET] = ports
	};

	for (int k = 0; k < TOPO_KINDS; k++)
		if (k != TOPO_NVS && t->count[k] != want[k])
			fail_msg("%s: %d nodes of kind %d, %d were expected", t->source, t->count[k], k, want[k]);
}

static void a_machine_of_h200_is_read(void **state)
{
	struct topo *t = load("turin-4xH200-4xCX7.xml");
	const struct topo_node *gpu, *port;

	(void)state;
	expect_counts(t, 8, 8, 4, 6, 7);
	gpu = node(t, "0000:06:00.0");
	assert_string_equal(gpu->name, "NVIDIA H200");
	assert_int_equal(gpu->gpu.dev, 0);
	assert_int_equal(gpu->gpu.sm, 90);
	assert_int_equal(gpu->gpu.nvlinks, 18);
	assert_int_equal(gpu->gpu.memory, 146593728ULL << 10);
	assert_true(gpu->gpu.listed);
	assert_true(gpu->pci.gts > 31.9 && gpu->pci.gts < 32.1 && gpu->pci.width == 16);
	assert_int_equal(gpu->pci.class, 0x030200);
	assert_int_equal(gpu->pci.root, 1);
	port = node(t, "mlx5_4");
	assert_string_equal(port->net.layer, "infiniband");
	assert_string_equal(port->net.state, "up");
	assert_string_equal(port->net.rdma, "ib1x");
	assert_int_equal(port->net.guid, 0xb8e9240300baa4c0ULL);
	assert_string_equal(node(t, "mlx5_0")->net.state, "down");
	assert_string_equal(node(t, "mlx5_1")->net.layer, "roce");
	assert_int_equal(topo_find(t, "NIC3"), topo_find(t, "mlx5_3"));
	assert_int_equal(node(t, "numa7")->cpu.affinity[7], 0xffff0000);
	assert_string_equal(node(t, "numa7")->cpu.vendor, "AuthenticAMD");
	assert_int_equal(node(t, "numa7")->cpu.family, 26);
	assert_string_equal(node(t, "numa7")->name, "AMD EPYC 9555 64-Core Processor");
	expect_class(t, "gpu0", "mlx5_0", SMI_PXB, 0);
	expect_class(t, "gpu0", "gpu3", SMI_NV, 6);
	expect_class(t, "mlx5_1", "mlx5_2", SMI_PIX, 0); /* functions of one card */
	topo_free(t);
}

static void nvswitches_are_found_by_their_links(void **state)
{
	struct topo *t = load("dgx2-16xV100-nvswitch.xml");

	(void)state;
	expect_counts(t, 2, 12, 16, 0, 0);
	assert_int_equal(t->count[TOPO_NVS], 1);
	assert_int_equal(t->nodes[t->of[TOPO_NVS][0]].switches, 12);
	expect_class(t, "gpu0", "gpu15", SMI_NV, 6);
	assert_int_equal(node(t, "gpu15")->gpu.sm, 70);
	topo_free(t);
}

static void power_has_nvlinks_to_its_processors(void **state)
{
	struct topo *t = load("power8-4xP100-nvlink.xml");
	int to_cpus = 0;

	(void)state;
	expect_counts(t, 2, 0, 4, 0, 0);
	assert_string_equal(node(t, "numa0")->cpu.arch, "ppc64");
	expect_class(t, "gpu0", "gpu1", SMI_NV, 2);
	expect_class(t, "gpu1", "gpu2", SMI_SYS, 0);
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_NVLINK && t->nodes[t->links[i].b].kind == TOPO_CPU) {
			assert_int_equal(t->links[i].count, 2);
			to_cpus++;
		}
	assert_int_equal(to_cpus, 4);
	assert_int_equal(node(t, "gpu0")->gpu.nvlinks, 4);
	topo_free(t);
}

static void xgmi_and_amds_models_are_read(void **state)
{
	struct topo *t = load("tioga-8xMI250X-4xslingshot.xml");

	(void)state;
	expect_counts(t, 4, 1, 8, 5, 5);
	assert_string_equal(node(t, "gpu0")->pci.busid, "0000:c1:00.0"); /* as ROCm SMI counts */
	assert_string_equal(node(t, "gpu0")->gpu.gcn, "gfx90a");
	assert_int_equal(topo_cpu_of(t, topo_find(t, "gpu0")), topo_find(t, "numa3"));
	expect_class(t, "gpu0", "gpu7", SMI_NV, 1);
	expect_class(t, "gpu1", "hsi0", SMI_PHB, 0); /* one host bridge */
	expect_class(t, "gpu0", "hsi0", SMI_NODE, 0);
	assert_true(has_note(t, "XGMI links between two GPUs count as one"));
	topo_free(t);
}

static void the_form_of_hwloc_1_is_read(void **state)
{
	struct topo *t = load("corona-4xMI60-cx6-hwloc1.xml");

	(void)state;
	expect_counts(t, 8, 5, 4, 2, 3);
	assert_int_equal(topo_cpu_of(t, topo_find(t, "gpu3")), topo_find(t, "numa7"));
	assert_string_equal(node(t, "gpu0")->gpu.gcn, "gfx906");
	assert_string_equal(node(t, "mlx5_0")->net.layer, "infiniband");
	assert_string_equal(node(t, "mlx5_0")->net.rdma, "hsi0");
	topo_free(t);
}

static void what_communicates_nothing_is_left_out(void **state)
{
	struct topo *t = load("cisco-usnic-manyVFs.xml");

	(void)state;
	expect_counts(t, 2, 4, 0, 5, 6);
	assert_true(has_note(t, "12 network functions are left out"));
	assert_true(topo_find(t, "usnic_0") < 0);
	topo_free(t);
	t = load("epyc-1xMI60-cx4.xml"); /* DMA channels, USB, disks */
	expect_counts(t, 4, 1, 1, 2, 2);
	topo_free(t);
	t = load("dgx-spark-gb10.xml");
	expect_counts(t, 1, 0, 0, 0, 0);
	assert_string_equal(node(t, "numa0")->cpu.arch, "arm64");
	assert_string_equal(node(t, "numa0")->cpu.vendor, "ARM");
	assert_int_equal(t->nnotes, 0);
	topo_free(t);
}

static void other_machines_are_read(void **state)
{
	struct topo *t = load("lassen-p9-4xV100-2xEDR.xml");

	(void)state;
	expect_counts(t, 2, 2, 4, 3, 6);
	assert_true(topo_find(t, "numa8") >= 0);
	assert_true(has_note(t, "NVLinks (XGMI) of 4 GPUs are not in the file"));
	topo_free(t);
	t = load("pascal-2xP100-cx5.xml");
	expect_counts(t, 2, 1, 2, 2, 3);
	expect_class(t, "gpu0", "mlx5_0", SMI_PIX, 0);
	assert_false(has_note(t, "NVLinks")); /* PCIe cards */
	topo_free(t);
	t = load("quartz-omnipath.xml");
	expect_counts(t, 2, 0, 0, 3, 5);
	assert_string_equal(node(t, "hfi1_0")->net.layer, "omnipath");
	topo_free(t);
	t = load("aws-g4dn.metal-8xT4-efa.xml");
	expect_counts(t, 2, 1, 8, 2, 2);
	assert_string_equal(node(t, "rdmap197s0")->net.layer, "efa");
	expect_class(t, "gpu0", "gpu1", SMI_PHB, 0);
	topo_free(t);
	t = load("fermi-3gpu-2socket.xml");
	expect_counts(t, 2, 0, 3, 2, 5);
	assert_true(has_note(t, "the PCI links of 3 GPUs slept"));
	topo_free(t);
	t = load("kepler-3gpu-cx4-wholeio.xml");
	expect_counts(t, 2, 0, 4, 2, 3);
	topo_free(t);
}

/* --- small and wrong files --- */

#define HEAD                                                                                                           \
	"<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"             \
	"<object type=\"Machine\" cpuset=\"0xf\" nodeset=\"0x3\">\n"
#define NUMA0 "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\"/>\n"
#define NUMA1 "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0xc\" nodeset=\"0x2\"/>\n"
#define GPU(bus, gp)                                                                                                   \
	"<object type=\"PCIDev\" pci_busid=\"0000:" bus ":00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\">"        \
	"<object type=\"OSDev\" gp_index=\"" gp "\" name=\"nvml" gp "\" osdev_type=\"1\">"                             \
	"<info name=\"GPUModel\" value=\"NVIDIA H100\"/></object></object>\n"
#define TAIL "</object></topology>\n"

static struct topo *graph_of(const char *text)
{
	struct topo *t = NULL;

	if (topo_from_hwloc_xml(&t, "h.xml", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return t;
}

static void expect_error(const char *text, const char *message)
{
	struct topo *t = NULL;

	assert_int_equal(topo_from_hwloc_xml(&t, "h.xml", text, strlen(text)), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(), message);
	assert_null(t);
}

static void a_machine_without_numa_nodes_is_one(void **state)
{
	struct topo *t = graph_of(HEAD TAIL);

	(void)state;
	expect_counts(t, 1, 0, 0, 0, 0);
	assert_int_equal(node(t, "numa0")->cpu.affinity[0], 0xf);
	assert_true(has_note(t, "the file has no NUMA node"));
	topo_free(t);
}

static void devices_of_no_numa_node_are_noted(void **state)
{
	struct topo *t = graph_of(HEAD NUMA0 NUMA1 GPU("03", "1") TAIL);

	(void)state;
	assert_true(has_note(
		t, "the file does not tell which of 2 NUMA nodes some devices are near to: the first is taken, "
		   "NUMA 0"));
	topo_free(t);
}

static void memory_without_processors_is_left_out(void **state)
{
	struct topo *t = graph_of(HEAD NUMA0 "<object type=\"NUMANode\" os_index=\"252\" cpuset=\"0x0\"/>\n" TAIL);

	(void)state;
	expect_counts(t, 1, 0, 0, 0, 0);
	assert_true(has_note(t, "NUMA node 252 has memory but no processors"));
	topo_free(t);
}

static void what_is_wrong_is_told_by_line_and_column(void **state)
{
	(void)state;
	expect_error("<system version=\"1\"/>", "h.xml:1:1: <system>: <topology> is wanted: this is no file of hwloc");
	expect_error("<topology version=\"7.0\"/>",
		     "h.xml:1:1: <topology>: version 7.0 of hwloc's form: 1, 2 and 3 are known");
	expect_error("<topology/>", "h.xml:1:1: <topology>: no object of type Machine: this is no topology of hwloc");
	expect_error(HEAD NUMA0 NUMA0 TAIL, "h.xml:6:1: <object>: NUMA node 0 stands twice");
	expect_error(HEAD "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0xg\"/>" TAIL,
		     "h.xml:5:1: <object>: cpuset is \"0xg\": words like 0x0000ffff,0x00000000 are wanted, 64 at most");
	expect_error(HEAD "<object type=\"NUMANode\" os_index=\"9999\"/>" TAIL,
		     "h.xml:5:1: <object>: os_index is \"9999\": a whole number from 0 to 1023 was expected");
	expect_error(HEAD GPU("xx", "1") TAIL,
		     "h.xml:5:1: <object>: pci_busid is \"0000:xx:00.0\": an address like 0000:3b:00.0 is "
		     "wanted");
	expect_error(HEAD "<object", "h.xml:5:1: not XML: unclosed token inside <object>");
	expect_error("<!DOCTYPE topology [<!ENTITY a \"b\">]>\n<topology/>",
		     "h.xml:1:32: entity a is declared: write what it stands for in its place");
}

#define MATRIX(n, indexes, values)                                                                                     \
	HEAD NUMA0 GPU("03", "1") GPU("04", "2") "</object>\n<distances2 type=\"OSDev\" nbobjs=\"" n                   \
						 "\" name=\"NVLinkBandwidth\" indexing=\"gp\"><indexes>" indexes       \
						 "</indexes>\n<u64values>" values                                      \
						 "</u64values></distances2></topology>"

static void wrong_distances_are_told(void **state)
{
	struct topo *t = graph_of(MATRIX("2", "1 2", "1000000 450000 425000 1000000"));

	(void)state;
	expect_class(t, "gpu1", "gpu2", SMI_NV, 18); /* the better of the two directions */
	topo_free(t);
	expect_error(MATRIX("2", "1 2", "1 2 3"), "h.xml:9:1: <distances2>: 3 numbers in <u64values>: 4 are wanted");
	expect_error(MATRIX("2", "1 2", "1 2 3 4 5"),
		     "h.xml:10:1: <u64values>: \"5\" is number 5: 4 whole numbers are wanted");
	expect_error(MATRIX("2", "1 -2", "1 2 3 4"),
		     "h.xml:9:74: <indexes>: \"-2\" is number 2: 2 whole numbers are wanted");
	expect_error(MATRIX("4000", "1", "1"),
		     "h.xml:9:1: <distances2>: nbobjs is \"4000\": a whole number from 1 to 160 was expected");
	t = graph_of(MATRIX("2", "1 77", "0 25000 25000 0"));
	assert_true(has_note(t, "1 of 2 objects are no GPUs of this file"));
	topo_free(t);
	t = graph_of(MATRIX("2", "1 2", "0 99999999 0 0"));
	assert_true(has_note(t, "is no number of NVLinks"));
	topo_free(t);
}

static void every_failing_allocation_is_reported(void **state)
{
	const char *text = MATRIX("2", "1 2", "1000000 450000 425000 1000000");
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_from_hwloc_xml(&t, "h.xml", text, strlen(text));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_of_h200_is_read),
		cmocka_unit_test(nvswitches_are_found_by_their_links),
		cmocka_unit_test(power_has_nvlinks_to_its_processors),
		cmocka_unit_test(xgmi_and_amds_models_are_read),
		cmocka_unit_test(the_form_of_hwloc_1_is_read),
		cmocka_unit_test(what_communicates_nothing_is_left_out),
		cmocka_unit_test(other_machines_are_read),
		cmocka_unit_test(a_machine_without_numa_nodes_is_one),
		cmocka_unit_test(devices_of_no_numa_node_are_noted),
		cmocka_unit_test(memory_without_processors_is_left_out),
		cmocka_unit_test(what_is_wrong_is_told_by_line_and_column),
		cmocka_unit_test(wrong_distances_are_told),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	log_set_sink(drop_line, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
