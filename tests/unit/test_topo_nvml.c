/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "fake_nvml.h"
#include "topo/nvml.h"
#include "topo/nvml_abi.h"

/* The library stays open while a test fills in the machine that it shows. */
struct fake {
	void *library;
	struct fake_machine *m;
};

static struct fake fake_open(const char *path)
{
	struct fake f = { .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };

	assert_non_null(f.library);
	f.m = dlsym(f.library, "fake_machine");
	assert_non_null(f.m);
	*f.m = (struct fake_machine){ .init_status = 0 };
	return f;
}

static void fake_close(struct fake *f)
{
	assert_int_equal(f->m->inits, 0);
	dlclose(f->library);
}

static struct nvml_facts *load(const char *path)
{
	struct nvml_facts *f = NULL;
	char why[128];

	assert_int_equal(nvml_load(&f, path, why, sizeof(why)), TAUT_OK);
	assert_non_null(f);
	assert_string_equal(why, "");
	return f;
}

/* A graph of one NUMA node with the facts on it. */
static struct topo *merged(const struct nvml_facts *f, int nvswitches)
{
	struct topo *t = NULL;
	int cpu;

	assert_int_equal(topo_create(&t, "test"), TAUT_OK);
	cpu = topo_add_node(t, TOPO_CPU, -1);
	assert_int_equal(nvml_merge(t, f, cpu, nvswitches), TAUT_OK);
	assert_int_equal(topo_finish(t), TAUT_OK);
	return t;
}

static int lanes(const struct topo *t, int a, int b, enum topo_link_kind kind)
{
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == kind &&
		    ((t->links[i].a == a && t->links[i].b == b) || (t->links[i].a == b && t->links[i].b == a)))
			return t->links[i].count;
	return 0;
}

static bool noted(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return true;
	return false;
}

/* --- machines --- */

/* Two H200 of a guest: the switches at the ends of 18 links do not show. */
static void fill_h200(struct fake_machine *m)
{
	static const char *const busids[] = { "00000000:00:06.0", "00000000:00:07.0" };

	m->ngpus = 2;
	for (int i = 0; i < 2; i++) {
		struct fake_gpu *g = &m->gpus[i];

		*g = (struct fake_gpu){
			.busid = busids[i], .name = "NVIDIA H200", .sm = 90, .links = 18, .fabric_state = 3
		};
		for (int k = 0; k < 18; k++) {
			g->on[k] = 1;
			g->type[k] = i ? NVML_DEVICE_SWITCH : -1;
			g->remote[k] = "FFFFFFFF:FF:FF.0";
		}
	}
}

static const char *const cube_busids[] = { "00000000:06:00.0", "00000000:07:00.0", "00000000:0A:00.0",
					   "00000000:0B:00.0", "00000000:85:00.0", "00000000:86:00.0",
					   "00000000:89:00.0", "00000000:8A:00.0" };
/* The cube mesh of a DGX-1V: NVLinks between each pair. */
static const int cube[8][8] = {
	{ 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
	{ 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

static void fill_cube(struct fake_machine *m, bool types)
{
	m->ngpus = 8;
	for (int i = 0; i < 8; i++) {
		struct fake_gpu *g = &m->gpus[i];

		*g = (struct fake_gpu){ .busid = cube_busids[i], .name = "Tesla V100-SXM2-16GB", .sm = 70 };
		for (int j = 0; j < 8; j++) {
			g->p2p[j] = cube[i][j] ? NVML_P2P_OK : NVML_P2P_TOPOLOGY;
			for (int k = 0; k < cube[i][j]; k++) {
				g->on[g->links] = 1;
				g->type[g->links] = types ? NVML_DEVICE_GPU : -1;
				g->remote[g->links++] = cube_busids[j];
			}
		}
	}
}

/* --- tests --- */

static void two_gpus_behind_switches(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fill_h200(fake.m);
	f = load(FAKE_NVML);
	assert_int_equal(f->ngpus, 2);
	assert_string_equal(f->driver, "580.159.04");
	assert_string_equal(f->gpus[1].busid, "0000:00:07.0");
	assert_int_equal(f->gpus[0].links[17].end, NVML_END_SWITCH);
	assert_int_equal(f->gpus[1].links[17].end, NVML_END_SWITCH);
	assert_int_equal(f->gpus[1].links[18].state, 0);
	assert_int_equal(f->gpus[0].mig, -1);
	t = merged(f, 0);
	assert_int_equal(t->count[TOPO_GPU], 2);
	assert_int_equal(t->count[TOPO_NVS], 1);
	for (int i = 0; i < 2; i++) {
		const struct topo_node *n = &t->nodes[t->of[TOPO_GPU][i]];

		assert_int_equal(lanes(t, t->of[TOPO_GPU][i], t->of[TOPO_NVS][0], LINK_NVLINK), 18);
		assert_string_equal(n->name, "NVIDIA H200");
		assert_int_equal(n->gpu.sm, 90);
		assert_int_equal(n->gpu.nvlinks, 18);
		assert_int_equal(n->gpu.nvlink_version, 4);
		assert_true(n->gpu.listed);
		assert_true(n->gpu.memory == UINT64_C(1) << 37);
		assert_int_equal(n->gpu.clique, 0);
		assert_true(n->gpu.fabric_hash == 0); /* an identifier of zeros is none */
		assert_true(n->pci.gts == 32);	      /* though it sleeps */
		assert_int_equal(n->pci.width, 16);
	}
	assert_int_equal(t->p2p[1], P2P_OK);
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

static void eight_gpus_in_a_cube_mesh(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);

	(void)state;
	for (int types = 0; types < 2; types++) { /* with the types of ends, and as drivers of old gave them */
		struct nvml_facts *f;
		struct topo *t;

		fill_cube(fake.m, types);
		f = load(FAKE_NVML);
		t = merged(f, 0);
		assert_int_equal(t->count[TOPO_NVS], 0);
		for (int i = 0; i < 8; i++)
			for (int j = 0; j < 8; j++) {
				assert_int_equal(lanes(t, t->of[TOPO_GPU][i], t->of[TOPO_GPU][j], LINK_NVLINK),
						 cube[i][j]);
				assert_int_equal(t->p2p[i * 8 + j], cube[i][j] || i == j ? P2P_OK : P2P_TOPOLOGY);
			}
		assert_int_equal(t->nodes[t->of[TOPO_GPU][3]].gpu.nvlinks, 6);
		topo_free(t);
		nvml_free(f);
	}
	fake_close(&fake);
}

static void a_link_that_is_down_is_noted(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fill_h200(fake.m);
	fake.m->gpus[1].on[3] = 0;
	f = load(FAKE_NVML);
	t = merged(f, 4);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][1], t->of[TOPO_NVS][0], LINK_NVLINK), 17);
	assert_int_equal(t->nodes[t->of[TOPO_NVS][0]].switches, 4);
	assert_true(noted(t, "GPU 1: 1 of its 18 NVLinks are down"));
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

/* A guest's GPUs that name themselves at the ends of their links: the driver knows who is reached. */
static void hidden_ends_are_found_by_who_is_reached(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fill_cube(fake.m, true);
	for (int i = 0; i < 8; i++) {
		struct fake_gpu *g = &fake.m->gpus[i];

		for (int k = 0; k < g->links; k++)
			g->remote[k] = i < 4 ? cube_busids[i] : NULL;
		for (int j = 0; j < 8; j++) /* 0-1 and 2-3 are pairs, 4 to 7 all, but 7 is reached by none */
			g->nvlink[j] = (i < 4 ? (i ^ 1) == j : i < 7 && j >= 4 && j < 7) ? NVML_P2P_OK
											 : NVML_P2P_NOT_SUPPORTED;
	}
	f = load(FAKE_NVML);
	t = merged(f, 0);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][0], t->of[TOPO_GPU][1], LINK_NVLINK), 6);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][2], t->of[TOPO_GPU][3], LINK_NVLINK), 6);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][0], t->of[TOPO_GPU][2], LINK_NVLINK), 0);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][4], t->of[TOPO_NVS][0], LINK_NVLINK), 6);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][7], t->of[TOPO_NVS][0], LINK_NVLINK), 0);
	assert_true(noted(t, "GPU 7: 6 NVLinks end at what is not visible here"));
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

static void processors_by_nvlink_and_chip_to_chip(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fake.m->ngpus = 2;
	fake.m->gpus[0] = (struct fake_gpu){
		.busid = "00000009:01:00.0", .name = "GH200", .sm = 90, .c2c_links = 10, .c2c_mbps = 45000
	};
	fake.m->gpus[1] = (struct fake_gpu){ .busid = "00000004:04:00.0",
					     .name = "V100",
					     .sm = 70,
					     .links = 3,
					     .on = { 1, 1, 1 },
					     .type = { 1, 1, 1 } };
	f = load(FAKE_NVML);
	t = merged(f, 0);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][0], t->of[TOPO_CPU][0], LINK_C2C), 1);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][1], t->of[TOPO_CPU][0], LINK_NVLINK), 3);
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_C2C)
			assert_true(t->links[i].bw_gbps == 450);
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

static void a_fabric_that_is_not_ready_is_noted(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fill_h200(fake.m);
	fake.m->gpus[0].fabric_state = 2;
	fake.m->gpus[1].clique = 7;
	memset(fake.m->gpus[1].uuid, 0xab, 16);
	f = load(FAKE_NVML);
	t = merged(f, 0);
	assert_true(noted(t, "GPU 0: its NVLink fabric is not ready (in progress)"));
	assert_int_equal(t->nodes[t->of[TOPO_GPU][0]].gpu.clique, -1);
	assert_int_equal(t->nodes[t->of[TOPO_GPU][1]].gpu.clique, 7);
	assert_true(t->nodes[t->of[TOPO_GPU][1]].gpu.fabric_hash != 0);
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

static void a_library_that_lacks_most_calls_still_names_the_gpus(void **state)
{
	struct fake fake = fake_open(FAKE_NVML_OLD);
	struct nvml_facts *f;
	struct topo *t;

	(void)state;
	fill_cube(fake.m, true);
	f = load(FAKE_NVML_OLD);
	assert_int_equal(f->ngpus, 8);
	assert_string_equal(f->driver, "");
	assert_int_equal(f->gpus[0].sm, 0);
	assert_int_equal(f->gpus[0].fabric_state, -1);
	assert_int_equal(f->read[1], P2P_UNKNOWN);
	t = merged(f, 0);
	assert_int_equal(lanes(t, t->of[TOPO_GPU][0], t->of[TOPO_GPU][3], LINK_NVLINK), 2);
	assert_int_equal(t->nodes[t->of[TOPO_GPU][0]].gpu.nvlink_version, 0);
	topo_free(t);
	nvml_free(f);
	fake_close(&fake);
}

static void no_library_and_no_driver_are_no_failure(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f = NULL;
	char why[128];

	(void)state;
	assert_int_equal(nvml_load(&f, "libno-such-library.so.1", why, sizeof(why)), TAUT_OK);
	assert_null(f);
	assert_non_null(strstr(why, "libno-such-library.so.1"));
	fake.m->init_status = 9;
	assert_int_equal(nvml_load(&f, FAKE_NVML, why, sizeof(why)), TAUT_OK);
	assert_null(f);
	assert_string_equal(why, "NVIDIA's driver does not answer: Driver Not Loaded");
	fake_close(&fake);
}

static char said[512];

static void keep_said(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)ctx;
	snprintf(said, sizeof(said), "%s", line);
}

static void a_gpu_that_does_not_open_is_left_out(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f;

	(void)state;
	fill_cube(fake.m, true);
	fake.m->gpus[2].busid = NULL;
	log_set_sink(keep_said, NULL);
	f = load(FAKE_NVML);
	log_set_sink(NULL, NULL);
	assert_non_null(strstr(said, "GPU 2 does not open"));
	assert_int_equal(f->ngpus, 7);
	assert_string_equal(f->gpus[2].busid, "0000:0b:00.0");
	nvml_free(f);
	fake_close(&fake);
}

static void facts_as_text_are_the_same_facts(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	struct nvml_facts *f, *g = NULL;
	char *once, *twice;

	(void)state;
	fill_cube(fake.m, true);
	fake.m->gpus[1].on[1] = 0;
	fake.m->gpus[2].c2c_links = 4;
	fake.m->gpus[2].c2c_mbps = 100;
	fake.m->gpus[3].fabric_state = fake.m->gpus[4].fabric_state = fake.m->gpus[5].fabric_state = 3;
	fake.m->gpus[3].uuid[0] = fake.m->gpus[5].uuid[0] = 9;
	fake.m->gpus[4].uuid[0] = 8;
	f = load(FAKE_NVML);
	assert_int_equal(nvml_write_text(&once, f), TAUT_OK);
	assert_int_equal(nvml_read_text(&g, "once", once), TAUT_OK);
	assert_true(g->gpus[3].fabric_hash == 1 && g->gpus[4].fabric_hash == 2 && g->gpus[5].fabric_hash == 1);
	for (int i = 0; i < 8; i++)
		g->gpus[i].fabric_hash = f->gpus[i].fabric_hash;
	assert_int_equal(g->ngpus, 8);
	for (int i = 0; i < 8; i++)
		assert_memory_equal(&f->gpus[i], &g->gpus[i], sizeof(f->gpus[i]));
	assert_memory_equal(f->read, g->read, 64);
	assert_memory_equal(f->nvlink, g->nvlink, 64);
	assert_int_equal(nvml_write_text(&twice, g), TAUT_OK);
	assert_string_equal(once, twice);
	mem_free(once);
	mem_free(twice);
	nvml_free(f);
	nvml_free(g);
	fake_close(&fake);
}

static void bad_facts_are_refused_with_their_line(void **state)
{
	static const char *const bad[] = {
		"name x\n",
		"gpu 0000:01:00.0\ngpu\n",
		"gpu nonsense\n",
		"gpu -\nlink 36 gpu 1\n",
		"gpu -\nlink -1 gpu 1\n",
		"gpu -\nlink 0 none 1\n",
		"gpu -\nlink 0 gpu\n",
		"gpu -\nlink 0 gpu 256\n",
		"gpu -\nlink 0 gpu 1 xyz\n",
		"gpu -\nsm -1\n",
		"gpu -\nmemory x\n",
		"gpu -\npcie 1 2 3\n",
		"gpu -\nfabric 3 0 0\n",
		"gpu -\nread 0 11\n",
		"gpu -\nread 1 1\n",
		"gpu -\nread 0 7\n",
		"gpu -\nwhat 1\n",
	};

	(void)state;
	log_set_sink(keep_said, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct nvml_facts *f = NULL;

		assert_int_equal(nvml_read_text(&f, "bad", bad[i]), TAUT_ERR_ARG);
		assert_non_null(strstr(said, "bad: NVML's facts, line "));
	}
	log_set_sink(NULL, NULL);
}

static void every_failing_allocation_is_reported(void **state)
{
	struct fake fake = fake_open(FAKE_NVML);
	enum taut_status st = TAUT_ERR_NOMEM;
	struct nvml_facts *f = NULL;
	char why[128];

	(void)state;
	fill_h200(fake.m);
	log_set_sink(keep_said, NULL);
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = nvml_load(&f, FAKE_NVML, why, sizeof(why));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	nvml_free(f);
	nvml_free(NULL);
	fake_close(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_gpus_behind_switches),
		cmocka_unit_test(eight_gpus_in_a_cube_mesh),
		cmocka_unit_test(a_link_that_is_down_is_noted),
		cmocka_unit_test(hidden_ends_are_found_by_who_is_reached),
		cmocka_unit_test(processors_by_nvlink_and_chip_to_chip),
		cmocka_unit_test(a_fabric_that_is_not_ready_is_noted),
		cmocka_unit_test(a_library_that_lacks_most_calls_still_names_the_gpus),
		cmocka_unit_test(no_library_and_no_driver_are_no_failure),
		cmocka_unit_test(a_gpu_that_does_not_open_is_left_out),
		cmocka_unit_test(facts_as_text_are_the_same_facts),
		cmocka_unit_test(bad_facts_are_refused_with_their_line),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
