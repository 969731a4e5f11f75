/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/rocm_text.h"

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

	if (topo_from_smi(&t, "r.txt", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return t;
}

static bool linked(const struct topo *t, int a, int b)
{
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_XGMI && t->links[i].a + t->links[i].b == a + b &&
		    (t->links[i].a == a || t->links[i].a == b))
			return true;
	return false;
}

static void a_mesh_of_eight_is_read(void **state)
{
	FILE *file = fopen("tests/golden/rocm-smi-topo/mi300x8-showtopotype.txt", "rb");
	char *text = calloc(1, 65536);
	struct topo *t;

	(void)state;
	assert_non_null(file);
	assert_true(fread(text, 1, 65535, file) > 0);
	fclose(file);
	t = graph_of(text);
	assert_int_equal(t->count[TOPO_GPU], 8);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(t->nodes[t->of[TOPO_GPU][i]].gpu.nvlinks, 7);
		for (int j = 0; j < i; j++)
			assert_true(linked(t, t->of[TOPO_GPU][i], t->of[TOPO_GPU][j]));
	}
	topo_free(t);
	free(text);
}

static const char whole[] = "\r\n======= ROCm System Management Interface =======\n"
			    "===== Weight between two GPUs =====\n"
			    "       GPU0         GPU1         GPU2\n"
			    "GPU0   0            15           30\n"
			    "GPU1   15           0            40\n"
			    "GPU2   30           40           0\n\n"
			    "===== Hops between two GPUs =====\n"
			    "       GPU0         GPU1         GPU2\n"
			    "GPU0   0            1            2\n"
			    "GPU1   1            0            2\n"
			    "GPU2   2            2            0\n\n"
			    "===== Link Type between two GPUs =====\n"
			    "       GPU0         GPU1         GPU2\n"
			    "GPU0   0            XGMI         XGMI\n"
			    "GPU1   XGMI         0            PCIE\n"
			    "GPU2   XGMI         PCIE         0\n\n"
			    "===== Numa Nodes =====\n"
			    "GPU[0]\t\t: (Topology) Numa Node: 0\n"
			    "GPU[0]\t\t: (Topology) Numa Affinity: 0\n"
			    "GPU[1]\t\t: (Topology) Numa Node: 0\n"
			    "GPU[2]\t\t: (Topology) Numa Node: 3\n"
			    "===== End of ROCm SMI Log =====\n";

static void only_one_hop_is_a_link(void **state)
{
	struct topo *t = graph_of(whole);
	int gpu0 = topo_find(t, "gpu0"), gpu1 = topo_find(t, "gpu1"), gpu2 = topo_find(t, "gpu2");

	(void)state;
	assert_true(linked(t, gpu0, gpu1));
	assert_false(linked(t, gpu0, gpu2));
	assert_false(linked(t, gpu1, gpu2));
	assert_int_equal(t->nodes[topo_cpu_of(t, gpu1)].cpu.numa, 0);
	assert_int_equal(t->nodes[topo_cpu_of(t, gpu2)].cpu.numa, 3);
	topo_free(t);
}

static void expect_error(const char *table, const char *message)
{
	char text[512];
	struct topo *t = NULL;

	snprintf(text, sizeof(text), "= ROCm System Management Interface =\n%s", table);
	assert_int_equal(topo_from_smi(&t, "r.txt", text, strlen(text)), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(), message);
}

static void what_is_no_table_is_told_by_line_and_column(void **state)
{
	(void)state;
	expect_error(
		"GPU0\n",
		"r.txt:1:1: no table \"Link Type between two GPUs\": the output of `rocm-smi --showtopo` is wanted");
	expect_error("==== Link Type between two GPUs ====\n GPU0 GPU1\nGPU0 0 XMGI\n",
		     "r.txt:4:8: \"XMGI\" between GPU0 and GPU1: XGMI or PCIE is wanted");
	expect_error("==== Link Type between two GPUs ====\n GPU0 GPU1\nGPU0 0 XGMI XGMI\n",
		     "r.txt:4:13: more cells than the 2 GPUs of the header");
	expect_error("==== Link Type between two GPUs ====\n GPU0 GPU1\nGPU7 0 XGMI\n",
		     "r.txt:4:1: a row of a GPU that the header lacks");
	expect_error("==== Link Type between two GPUs ====\n GPU0 GPU0\n",
		     "r.txt:3:7: \"GPU0\" in the header: GPU0 GPU1 ... are wanted, the same in all tables");
	expect_error("==== Hops between two GPUs ====\n GPU0\nGPU0 -1\n",
		     "r.txt:4:6: \"-1\" between GPU0 and GPU0: a number of hops is wanted");
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_from_smi(&t, "r.txt", whole, strlen(whole));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mesh_of_eight_is_read),
		cmocka_unit_test(only_one_hop_is_a_link),
		cmocka_unit_test(what_is_no_table_is_told_by_line_and_column),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	log_set_sink(drop_line, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
