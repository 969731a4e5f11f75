/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_make.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/cluster.h"

static const struct make h200 = { .numas = 2, .gpus = 8, .ports = 8, .nvswitch = true, .cores = 48 };
static const struct make pcie = { .numas = 1, .gpus = 2, .ports = 1, .cores = 16 };
static const struct make gb200 = { .numas = 2, .gpus = 4, .ports = 4, .nvswitch = true, .cores = 72, .fabric = 0xfab };

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static struct cluster *create(struct topo **topos, int ntopos, const struct cluster_machine *machines, int n)
{
	struct cluster *c = NULL;

	if (cluster_create(&c, (const struct topo *const *)topos, ntopos, machines, n))
		fail_msg("%s", taut_error_message());
	return c;
}

static struct topo *tagged(struct make m, unsigned tag)
{
	m.tag = tag;
	return make_topo(&m);
}

static void systems_that_look_the_same_share_a_graph(void **state)
{
	/* three of a kind that differ in guids, memory and buses, and one of another */
	struct topo *t[] = { tagged(h200, 0), tagged(pcie, 1), tagged(h200, 2), tagged(h200, 3) };
	struct cluster_machine machines[] = { { 0, { 0, -1 } }, { 1, { 0, -1 } }, { 2, { 0, -1 } }, { 3, { 0, -1 } } };
	struct cluster *c;

	(void)state;
	t[2]->nodes[t[2]->of[TOPO_CPU][0]].cpu.memory = 1 << 30;
	snprintf(t[3]->nodes[t[3]->of[TOPO_GPU][0]].pci.busid, sizeof(t[3]->nodes[0].pci.busid), "0001:e0:00.0");
	c = create(t, 4, machines, 4);
	assert_int_equal(c->nsystems, 4);
	assert_int_equal(c->nkinds, 2);
	assert_int_equal(c->nmachines, 4);
	assert_int_equal(c->ngpus, 26);
	assert_ptr_equal(cluster_topo(c, 0), cluster_topo(c, 3));
	assert_ptr_equal(cluster_topo(c, 0), cluster_topo(c, 2));
	assert_int_equal(cluster_topo(c, 1)->count[TOPO_GPU], 2);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(c->places[i].system, i);
		assert_int_equal(c->places[i].machine, 0);
		topo_free(t[i]);
	}
	assert_int_equal(cluster_topo(c, 3)->count[TOPO_NET], 8); /* nothing of the arguments is kept */
	cluster_free(c);
	cluster_free(NULL);
}

/* A port that is down, a card less: another kind. */
static void a_difference_that_matters_makes_a_kind(void **state)
{
	struct topo *t[] = { make_topo(&h200), make_topo(&h200) };
	struct cluster_machine machines[] = { { 0, { 0, -1 } }, { 1, { 0, -1 } }, { 0, { 0, -1 } } };
	struct cluster *c;

	(void)state;
	snprintf(t[1]->nodes[t[1]->of[TOPO_NET][3]].net.state, sizeof(t[1]->nodes[0].net.state), "down");
	c = create(t, 2, machines, 3);
	assert_int_equal(c->nkinds, 2);
	assert_int_equal(c->kind_of[0], c->kind_of[2]);
	assert_int_not_equal(c->kind_of[0], c->kind_of[1]);
	cluster_free(c);
	topo_free(t[0]);
	topo_free(t[1]);
}

static void a_machine_is_repeated(void **state)
{
	struct cluster_machine machines[1000] = { 0 };
	struct topo *t = make_topo(&h200);
	struct cluster *c = create(&t, 1, machines, 1000);

	(void)state;
	assert_int_equal(c->nsystems, 1000);
	assert_int_equal(c->nkinds, 1);
	assert_int_equal(c->ngpus, 8000);
	assert_int_equal(c->places[999].system, 999);
	cluster_free(c);
	topo_free(t);
}

static void a_machine_belongs_to_the_domain_of_all_its_gpus(void **state)
{
	struct topo *t = make_topo(&gb200);
	struct cluster_domain d = cluster_domain_of(t);

	(void)state;
	assert_int_equal(d.fabric, 0xfab);
	assert_int_equal(d.clique, 0);
	t->nodes[t->of[TOPO_GPU][2]].gpu.clique = 1;
	assert_int_equal(cluster_domain_of(t).fabric, 0);
	topo_free(t);
	t = make_topo(&h200);
	assert_int_equal(cluster_domain_of(t).fabric, 0);
	topo_free(t);
}

/* --- NVLink domains over several machines --- */

static void check_joined(const struct topo *t, int machines)
{
	char why[256];

	assert_null(topo_check(t, why, sizeof(why)));
	assert_int_equal(t->nmachines, machines);
	assert_int_equal(t->count[TOPO_NVS], 1);
	assert_int_equal(t->count[TOPO_GPU], 4 * machines);
	assert_int_equal(t->count[TOPO_NET], 4 * machines);
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		const struct topo_node *g = &t->nodes[t->of[TOPO_GPU][i]];
		int cpu = topo_cpu_of(t, t->of[TOPO_GPU][i]);

		assert_int_equal(g->machine, i / 4);
		assert_int_equal(g->gpu.dev, i % 4);
		assert_int_equal(t->nodes[cpu].machine, i / 4);
		assert_int_equal(t->nodes[cpu].cpu.host_hash, i / 4 + 1);
	}
	assert_int_equal(t->nodes[t->of[TOPO_NVS][0]].nlinks, 4 * machines);
}

static void machines_of_a_domain_become_one_system(void **state)
{
	struct topo *t = make_topo(&gb200);
	/* two racks, their machines dealt; one that is not in a domain; another clique of rack 1 */
	struct cluster_machine machines[] = { { 0, { 1, 0 } },	{ 0, { 2, 0 } }, { 0, { 1, 0 } },
					      { 0, { 0, -1 } }, { 0, { 2, 0 } }, { 0, { 1, 1 } },
					      { 0, { 1, 0 } },	{ 0, { 2, 0 } }, { 0, { 0, -1 } } };
	static const struct cluster_place want[] = { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 2, 0 }, { 1, 1 },
						     { 3, 0 }, { 0, 2 }, { 1, 2 }, { 4, 0 } };
	struct cluster *c = create(&t, 1, machines, 9);

	(void)state;
	assert_int_equal(c->nsystems, 5);
	assert_int_equal(c->nkinds, 2); /* three machines, one machine */
	assert_int_equal(c->ngpus, 36);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(c->places[i].system, want[i].system);
		assert_int_equal(c->places[i].machine, want[i].machine);
	}
	assert_ptr_equal(cluster_topo(c, 0), cluster_topo(c, 1));
	assert_ptr_equal(cluster_topo(c, 2), cluster_topo(c, 3));
	check_joined(cluster_topo(c, 0), 3);
	cluster_free(c);
	topo_free(t);
}

static void what_the_driver_said_of_pairs_stays_with_its_machine(void **state)
{
	struct topo *t = make_topo(&gb200);
	struct cluster_machine machines[] = { { 0, { 1, 0 } }, { 0, { 1, 0 } } };
	const struct topo *j;
	struct cluster *c;

	(void)state;
	t->p2p = mem_calloc(16, 1);
	memset(t->p2p, P2P_OK, 16);
	t->p2p[1 * 4 + 2] = P2P_CHIPSET;
	c = create(&t, 1, machines, 2);
	j = cluster_topo(c, 0);
	assert_int_equal(j->p2p[0 * 8 + 3], P2P_OK);
	assert_int_equal(j->p2p[1 * 8 + 2], P2P_CHIPSET);
	assert_int_equal(j->p2p[5 * 8 + 6], P2P_CHIPSET);
	assert_int_equal(j->p2p[1 * 8 + 6], P2P_UNKNOWN);
	cluster_free(c);
	topo_free(t);
}

static void a_rack_of_72_and_many_of_them_stay_small(void **state)
{
	enum { RACKS = 64, EACH = 18 };
	struct topo *t = make_topo(&gb200);
	struct cluster_machine *machines = calloc(RACKS * EACH, sizeof(*machines));
	struct cluster *c;

	(void)state;
	for (int i = 0; i < RACKS * EACH; i++)
		machines[i].domain = (struct cluster_domain){ 1 + (uint64_t)(i % RACKS), 0 };
	c = create(&t, 1, machines, RACKS * EACH);
	assert_int_equal(c->nsystems, RACKS);
	assert_int_equal(c->nkinds, 1);
	assert_int_equal(c->ngpus, 72 * RACKS);
	check_joined(c->kinds[0], EACH);
	cluster_free(c);
	free(machines);
	topo_free(t);
}

static void arguments_out_of_range_and_want_of_memory_are_said(void **state)
{
	struct topo *t[] = { make_topo(&gb200), make_topo(&pcie) };
	struct cluster_machine machines[] = { { 0, { 1, 0 } }, { 1, { 0, -1 } }, { 0, { 1, 0 } } };
	struct cluster_machine none = { 2, { 0, -1 } };
	enum taut_status st = TAUT_ERR_NOMEM;
	struct cluster *c = NULL;

	(void)state;
	log_set_sink(drop_line, NULL);
	assert_int_equal(cluster_create(&c, (const struct topo *const *)t, 2, &none, 1), TAUT_ERR_ARG);
	assert_int_equal(cluster_create(&c, (const struct topo *const *)t, 2, machines, 0), TAUT_ERR_ARG);
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = cluster_create(&c, (const struct topo *const *)t, 2, machines, 3);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	cluster_free(c);
	topo_free(t[0]);
	topo_free(t[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(systems_that_look_the_same_share_a_graph),
		cmocka_unit_test(a_difference_that_matters_makes_a_kind),
		cmocka_unit_test(a_machine_is_repeated),
		cmocka_unit_test(a_machine_belongs_to_the_domain_of_all_its_gpus),
		cmocka_unit_test(machines_of_a_domain_become_one_system),
		cmocka_unit_test(what_the_driver_said_of_pairs_stays_with_its_machine),
		cmocka_unit_test(a_rack_of_72_and_many_of_them_stay_small),
		cmocka_unit_test(arguments_out_of_range_and_want_of_memory_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
