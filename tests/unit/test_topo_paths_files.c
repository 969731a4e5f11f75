/* SPDX-License-Identifier: Apache-2.0 */
/* Distances on machines that are described in NCCL's XML: what follows from the file by hand. */
#include "topo_build.h"

#include "topo/paths.h"

struct pair {
	const char *a, *b, *class, *smi;
	double bw_gbps;
	int hops;
};

static void load(struct topo **t, struct topo_paths **p, const char *path)
{
	if (topo_read_file(t, path, TOPO_FORM_AUTO) || paths_create(p, *t, &path_rules_default))
		fail_msg("%s", taut_error_message());
}

static void check_file(const char *name, const struct pair *pairs, size_t n)
{
	struct topo_paths *p = NULL;
	struct topo *t = NULL;
	char path[128], smi[16];

	snprintf(path, sizeof(path), "tests/golden/nccl-topo/%s", name);
	load(&t, &p, path);
	for (size_t i = 0; i < n; i++) {
		const struct pair *want = &pairs[i];
		const struct path *found = paths_get(p, topo_find(t, want->a), topo_find(t, want->b));

		path_smi_text(found, smi, sizeof(smi));
		if (strcmp(path_class_names[found->class], want->class) || strcmp(smi, want->smi) ||
		    found->hops != want->hops || found->bw_gbps < want->bw_gbps - 0.001 ||
		    found->bw_gbps > want->bw_gbps + 0.001)
			fail_msg("%s: %s to %s: %s %s %g GB/s %d links", name, want->a, want->b,
				 path_class_names[found->class], smi, found->bw_gbps, found->hops);
	}
	paths_free(p);
	topo_free(t);
}
#define CHECK(name, pairs) check_file(name, pairs, sizeof(pairs) / sizeof(pairs[0]))

static void two_h200_of_a_guest(void **state)
{
	static const struct pair pairs[] = {
		{ "gpu0", "gpu1", "NVL", "NV18", 18 * 20.6, 2 },
		{ "gpu0", "gpu0", "LOC", " X ", 5000, 0 },
		{ "gpu0", "eth0", "PHB", "PHB", 1.25, 3 }, /* 10 Gbit/s, without a PCI device */
	};

	(void)state;
	CHECK("own-h200x2.xml", pairs);
}

/* The same machine as NCCL and as nvidia-smi topo -m describe it. */
static void the_matrix_is_that_of_nvidia_smi(void **state)
{
	struct topo_paths *pn = NULL, *ps = NULL;
	struct topo *nccl = NULL, *smi = NULL;

	(void)state;
	load(&nccl, &pn, "tests/golden/nccl-topo/own-h200x2.xml");
	load(&smi, &ps, "tests/golden/nvidia-smi-topo/h200x2-vm.txt");
	assert_int_equal(nccl->count[TOPO_GPU], 2);
	assert_int_equal(smi->count[TOPO_GPU], 2);
	for (int i = 0; i < 4; i++) {
		int a = i / 2, b = i % 2;
		char from_nccl[16], from_smi[16];

		path_smi_text(paths_get(pn, nccl->of[TOPO_GPU][a], nccl->of[TOPO_GPU][b]), from_nccl, 16);
		path_smi_text(paths_get(ps, smi->of[TOPO_GPU][a], smi->of[TOPO_GPU][b]), from_smi, 16);
		assert_string_equal(from_nccl, from_smi);
	}
	paths_free(pn);
	paths_free(ps);
	topo_free(nccl);
	topo_free(smi);
}

/* Two levels of switches: each GPU and its card hang from two lower switches of one upper. Ports of 180 Gbit/s. */
static void eight_h100_with_two_levels_of_switches(void **state)
{
	static const struct pair pairs[] = {
		{ "gpu0", "gpu7", "NVL", "NV18", 18 * 20.6, 2 },
		{ "gpu0", "mlx5_0", "PXB", "PXB", 22.5, 5 },
		{ "gpu7", "mlx5_17", "PXB", "PXB", 22.5, 5 },
		{ "gpu1", "mlx5_0", "PXN", "NODE", 22.5, 7 }, /* by GPU 0 */
		{ "gpu7", "mlx5_0", "PXN", "SYS", 22.5, 7 },
	};

	(void)state;
	CHECK("oci-bm.gpu.h100.8.xml", pairs);
}

/* No NVLink is described; sockets of Skylake are 10 GB/s apart; the port is 56 Gbit/s. */
static void eight_3090_and_one_card(void **state)
{
	static const struct pair pairs[] = {
		{ "gpu0", "gpu3", "PIX", "PIX", 24, 2 },  { "gpu0", "gpu4", "SYS", "SYS", 10, 5 },
		{ "gpu4", "mlx5_0", "PIX", "PIX", 7, 3 }, { "gpu0", "mlx5_0", "SYS", "SYS", 7, 6 },
		{ "gpu0", "numa0", "PHB", "PHB", 24, 2 },
	};

	(void)state;
	CHECK("8x3090-fdr-ib.xml", pairs);
}

/* Two squares of XGMI, one link a side; between them the host bridge. */
static void two_hives_of_four_amd_gpus(void **state)
{
	static const struct pair pairs[] = {
		{ "gpu0", "gpu1", "NVL", "NV1", 24, 1 },    { "gpu0", "gpu3", "NVB", "PXB", 24, 2 },
		{ "gpu0", "gpu4", "PHB", "NODE", 12, 6 },   { "gpu0", "mlx5_0", "PXB", "PXB", 12, 4 },
		{ "gpu0", "mlx5_1", "PHB", "NODE", 12, 6 }, { "gpu4", "mlx5_1", "PXB", "PXB", 12, 4 },
	};

	(void)state;
	CHECK("rocm-4p2h_2nic.xml", pairs);
}

/* 12 links of an A100 side by side; PCI without speed or width counts as generation 3 with 16 lanes. */
static void two_a100_side_by_side(void **state)
{
	static const struct pair pairs[] = {
		{ "gpu0", "gpu1", "NVL", "NV12", 240, 1 },
		{ "gpu0", "numa0", "PHB", "PHB", 12, 1 },
		{ "gpu1", "numa0", "SYS", "SYS", 12, 2 },
	};

	(void)state;
	CHECK("azure-nc48v4-2xA100.xml", pairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_h200_of_a_guest),
		cmocka_unit_test(the_matrix_is_that_of_nvidia_smi),
		cmocka_unit_test(eight_h100_with_two_levels_of_switches),
		cmocka_unit_test(eight_3090_and_one_card),
		cmocka_unit_test(two_hives_of_four_amd_gpus),
		cmocka_unit_test(two_a100_side_by_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
