/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/smi.h"
#include "topo/synthetic.h"

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static struct topo *graph_of(const char *text)
{
	struct topo *t = NULL;

	if (topo_from_text(&t, "text", text, strlen(text)))
		fail_msg("%s: %s", text, taut_error_message());
	return t;
}

static const struct topo_node *node(const struct topo *t, const char *name)
{
	int n = topo_find(t, name);

	if (n < 0)
		fail_msg("no %s", name);
	return &t->nodes[n];
}

static enum smi_class class_of(const struct topo *t, const char *a, const char *b)
{
	int nv;

	return smi_class_of(t, topo_find(t, a), topo_find(t, b), &nv);
}

static bool has_note(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return true;
	return false;
}

static void expect_error(const char *text, const char *message)
{
	struct topo *t = NULL;

	assert_int_equal(topo_from_text(&t, "text", text, strlen(text)), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(), message);
	assert_null(t);
}

static void a_line_is_a_machine(void **state)
{
	struct topo *t = graph_of("node:4 numa:2 gpu:8xh100 nvswitch:4 nic:8x400G cpu:intel memory:2T core:96");

	(void)state;
	assert_int_equal(t->times, 4);
	assert_int_equal(t->count[TOPO_GPU], 8);
	assert_int_equal(t->count[TOPO_CPU], 2);
	assert_int_equal(t->count[TOPO_NET], 8);
	assert_int_equal(t->count[TOPO_NVS], 1);
	assert_int_equal(t->nodes[t->of[TOPO_NVS][0]].switches, 4);
	assert_int_equal(node(t, "gpu3")->gpu.sm, 90);
	assert_int_equal(node(t, "gpu3")->gpu.nvlinks, 18);
	assert_string_equal(node(t, "gpu3")->name, "NVIDIA H100");
	assert_true(node(t, "gpu3")->pci.gts > 31.9 && node(t, "gpu3")->pci.width == 16);
	assert_int_equal(node(t, "mlx5_7")->net.speed_mbit, 400000);
	assert_string_equal(node(t, "mlx5_7")->net.layer, "infiniband");
	assert_int_equal(node(t, "numa1")->cpu.memory, (uint64_t)1 << 40);
	assert_int_equal(node(t, "numa1")->cpu.affinity[1], 0xffff0000);
	assert_int_equal(class_of(t, "gpu3", "mlx5_3"), SMI_NODE);
	assert_int_equal(class_of(t, "gpu3", "mlx5_4"), SMI_SYS);
	assert_int_equal(t->nnotes, 0); /* all is said */
	topo_free(t);
}

static void lines_and_comments_are_blanks(void **state)
{
	struct topo *a = graph_of("gpu:4 nvlink:6 sm:70 nic:2x100G:roce nic:1x25G:eth"),
		    *b = graph_of("\xef\xbb\xbf# a machine\ngpu:4\tnvlink:6 # of each\n\n  sm:70\r\nnic:2x100G:roce "
				  "#\nnic:1x25G:eth#");
	char why[256];

	(void)state;
	if (!topo_equal(a, b, why, sizeof(why)))
		fail_msg("%s", why);
	assert_string_equal(node(a, "mlx5_1")->net.layer, "roce");
	assert_int_equal(node(a, "eth2")->net.speed_mbit, 25000);
	topo_free(a);
	topo_free(b);
}

static void devices_are_spread_over_switches(void **state)
{
	struct topo *t = graph_of("numa:2 switch:4 gpu:8 nic:4x200G:roce rail:4 pcie:gen4x16");

	(void)state;
	assert_int_equal(class_of(t, "gpu0", "gpu1"), SMI_PIX);
	assert_int_equal(class_of(t, "gpu1", "mlx5_0"), SMI_PIX);
	assert_int_equal(class_of(t, "gpu1", "gpu2"), SMI_NODE);
	assert_int_equal(class_of(t, "gpu3", "gpu4"), SMI_SYS);
	assert_int_equal(node(t, "mlx5_3")->net.rail, 3);
	assert_true(node(t, "mlx5_3")->pci.width == 0); /* the card has it */
	assert_int_equal(t->nodes[node(t, "mlx5_3")->parent].pci.width, 16);
	topo_free(t);
}

static void machines_of_one_nvlink_domain_are_one_system(void **state)
{
	struct topo *t = graph_of("mnnvl:18 gpu:4xgb200 nvswitch:9 numa:2 cpu:arm nic:4x400G");

	(void)state;
	assert_int_equal(t->nmachines, 18);
	assert_int_equal(t->count[TOPO_GPU], 72);
	assert_int_equal(class_of(t, "0/gpu0", "17/gpu3"), SMI_NV);
	assert_int_not_equal(node(t, "0/numa0")->cpu.host_hash, node(t, "1/numa0")->cpu.host_hash);
	topo_free(t);
}

static void models_of_amd_have_xgmi(void **state)
{
	struct topo *t = graph_of("gpu:8xmi300x mesh:full");

	(void)state;
	assert_string_equal(node(t, "gpu0")->gpu.gcn, "gfx942");
	for (int i = 0; i < t->nlinks; i++)
		assert_int_not_equal(t->links[i].kind, LINK_NVLINK);
	assert_int_equal(class_of(t, "gpu0", "gpu7"), SMI_NV);
	topo_free(t);
}

/* Every GPU has @links of them, or one less where they cannot be even. */
static void check_mesh(enum synth_mesh mesh, int n, int links, int least)
{
	for (int i = 0; i < n; i++) {
		int sum = 0;

		for (int j = 0; j < n; j++) {
			int count = synth_mesh_links(mesh, n, links, i, j);

			assert_true(count >= 0);
			assert_int_equal(count, synth_mesh_links(mesh, n, links, j, i));
			assert_true(mesh != MESH_FULL || (i == j) == (count == 0));
			sum += count;
		}
		if (sum > links || sum < least)
			fail_msg("mesh %d of %d GPUs: GPU %d has %d of %d links", (int)mesh, n, i, sum, links);
	}
}

static void meshes_use_the_links_that_gpus_have(void **state)
{
	(void)state;
	for (int n = 2; n <= 16; n++)
		for (int links = n - 1; links < 40; links++)
			check_mesh(MESH_FULL, n, links, n % 2 ? links - 1 : links);
	for (int n = 3; n <= 16; n++)
		for (int links = 2; links < 20; links++)
			check_mesh(MESH_RING, n, links, n % 2 ? links - 1 : links);
	check_mesh(MESH_RING, 2, 5, 5);
	check_mesh(MESH_PAIRS, 6, 4, 4);
	check_mesh(MESH_CUBE, 8, 4, 4);
	check_mesh(MESH_CUBE, 8, 6, 6);
}

static void links_that_lead_nowhere_are_noted(void **state)
{
	struct topo *t = graph_of("gpu:3 nvlink:5 sm:80");

	(void)state;
	assert_true(has_note(t, "1 of the 5 NVLinks of a GPU lead nowhere"));
	topo_free(t);
}

static void what_is_not_said_is_noted(void **state)
{
	struct topo *t = graph_of("gpu:8 nvlink:18 nvswitch:4 numa:2 nic:2");

	(void)state;
	assert_true(has_note(t, "the model of the GPUs is not said"));
	assert_true(has_note(t, "the PCI links are not said"));
	assert_true(has_note(t, "the processors are not said"));
	assert_true(has_note(t, "the speed of ports is not said"));
	topo_free(t);
}

static void mistakes_are_told_with_the_word_that_may_be_meant(void **state)
{
	(void)state;
	expect_error("gpu:8 nvlnik:3", "text:1:7: \"nvlnik:3\" is not known: was nvlink:... meant?");
	expect_error("gpu:8\n  hello",
		     "text:2:3: \"hello\" is not known: words like gpu:8, numa:2 or nic:8x400G are wanted");
	expect_error("gpu:2xmi300y", "text:1:7: GPU model \"mi300y\" is not known: was mi300a meant?");
	expect_error("gpu:2xvoodoo",
		     "text:1:7: GPU model \"voodoo\" is not known: leave it out and give sm:N and nvlink:N");
	expect_error(" # nothing\n", "text:1:1: an empty text: words like gpu:8, numa:2 or nic:8x400G are wanted");
	expect_error("gpu:8 gpu:8", "text:1:7: gpu stands twice");
	expect_error("gpu",
		     "text:1:1: gpu without a value: gpu:VALUE, where VALUE is a number of GPUs from 0 to 4096, with a "
		     "model or not, like 8 or 8xh100");
	expect_error("numa:0", "text:1:6: numa:0: a number of NUMA nodes from 1 to 64 is wanted");
	expect_error("numa:2x", "text:1:6: numa:2x: a number of NUMA nodes from 1 to 64 is wanted");
	expect_error("numa:99999999999999999999",
		     "text:1:6: numa:99999999999999999999: a number of NUMA nodes from 1 to 64 is wanted");
	expect_error("pcie:gen5x12",
		     "text:1:6: pcie:gen5x12: a generation from 1 to 6 and lanes like gen5x16 is wanted");
	expect_error("cpu:risc", "text:1:5: cpu:risc: intel, amd, power or arm is wanted");
	expect_error("memory:12", "text:1:8: memory:12: a size like 512G or 2T is wanted");
	expect_error("nic:3x400",
		     "text:1:5: nic:3x400: a number of NICs from 0 to 1024, with speed and kind (ib, roce, eth, efa, "
		     "opa) or not, like 8x400G:roce is wanted");
}

static void what_does_not_go_together_is_told_with_the_cure(void **state)
{
	(void)state;
	expect_error("gpu:8 nvlink:4",
		     "text:1:7: nvlink:4: too few links to reach every other GPU: add nvswitch:N, or mesh:ring or "
		     "mesh:cube");
	expect_error("gpu:8 mesh:ring",
		     "text:1:7: mesh:ring: the GPUs have no NVLinks: add nvlink:N or a model, like gpu:8xv100");
	expect_error("gpu:6 nvlink:6 mesh:cube",
		     "text:1:16: mesh:cube: a cube mesh has 8 GPUs of 4 or 6 links (or a multiple)");
	expect_error("gpu:8xh100 nvswitch:4 mesh:full",
		     "text:1:23: mesh:full: with nvswitch:N all links go to the switches: leave one of the two out");
	expect_error("gpu:8 nvswitch:4",
		     "text:1:7: nvswitch:4: the GPUs have no NVLinks: add nvlink:N or a model, like gpu:8xh100");
	expect_error("mnnvl:4 gpu:4 nvlink:18",
		     "text:1:1: mnnvl:4: NVLinks between machines go through NVSwitches: add nvswitch:N");
	expect_error("mnnvl:512 gpu:9", "text:1:11: gpu:9: 4096 GPUs in all are the most");
}

static void every_failing_allocation_is_reported(void **state)
{
	const char *text = "gpu:4 nvlink:6 nic:2x100G switch:2 numa:2";
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_from_text(&t, "text", text, strlen(text));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_a_machine),
		cmocka_unit_test(lines_and_comments_are_blanks),
		cmocka_unit_test(devices_are_spread_over_switches),
		cmocka_unit_test(machines_of_one_nvlink_domain_are_one_system),
		cmocka_unit_test(models_of_amd_have_xgmi),
		cmocka_unit_test(meshes_use_the_links_that_gpus_have),
		cmocka_unit_test(links_that_lead_nowhere_are_noted),
		cmocka_unit_test(what_is_not_said_is_noted),
		cmocka_unit_test(mistakes_are_told_with_the_word_that_may_be_meant),
		cmocka_unit_test(what_does_not_go_together_is_told_with_the_cure),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	log_set_sink(drop_line, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
