/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and trees on machines as they are sold, and on random ones. */
#include "topo_machines.h"

#include "topo/channels.h"

struct found {
	struct topo *t;
	struct topo_paths *p;
	struct channels *c;
	struct channels_req req;
	double bound;
	char why[320];
};

static struct found start(struct topo *t, enum channel_pattern pattern, int nnodes, int cross)
{
	struct found f = { .t = t, .req = { .pattern = pattern, .nnodes = nnodes, .cross_nic = cross, .pxn = true } };

	assert_int_equal(paths_create(&f.p, t, &path_rules_default), TAUT_OK);
	return f;
}

static void search(struct found *f)
{
	char wrong[320];
	const char *text;

	channels_free(f->c);
	if (channels_find(&f->c, f->t, f->p, &f->req))
		fail_msg("%s", taut_error_message());
	text = channels_check(f->c, f->t, f->p, wrong, sizeof(wrong));
	if (text)
		fail_msg("pattern %d, %d nodes: %s", (int)f->req.pattern, f->req.nnodes, text);
	f->bound = channels_bound(f->t, f->p, &f->req, f->why, sizeof(f->why));
	if (f->c->total_gbps > f->bound * (1 + 1e-6))
		fail_msg("pattern %d, %d nodes: %.3f GB/s above the bound of %.3f (%s)", (int)f->req.pattern,
			 f->req.nnodes, f->c->total_gbps, f->bound, f->why);
}

static void stop(struct found *f)
{
	channels_free(f->c);
	paths_free(f->p);
	topo_free(f->t);
}

static void near_bound(struct found *f, const char *machine)
{
	search(f);
	if (f->c->total_gbps < 0.95 * f->bound)
		fail_msg("%s, pattern %d, %d nodes, cross_nic %d: %.2f GB/s of %.2f (%s)", machine, (int)f->req.pattern,
			 f->req.nnodes, f->req.cross_nic, f->c->total_gbps, f->bound, f->why);
}

/* All patterns, alone and with others; the machine is released. */
static void good_on(const char *machine, struct topo *t)
{
	static const enum channel_pattern patterns[] = { PATTERN_RING, PATTERN_BALANCED_TREE, PATTERN_SPLIT_TREE,
							 PATTERN_TREE };
	struct found f = start(t, PATTERN_RING, 1, 0);

	for (int nodes = 1; nodes <= (t->count[TOPO_NET] ? 4 : 1); nodes += 3)
		for (int cross = 0; cross < (nodes > 1 ? 3 : 1); cross++)
			for (int i = 0; i < 4; i++) {
				f.req.pattern = patterns[i];
				f.req.nnodes = nodes;
				f.req.cross_nic = cross;
				near_bound(&f, machine);
			}
	stop(&f);
}

static void one_ring(struct found *f, double total, int n)
{
	search(f);
	assert_true(f->c->total_gbps > total * (1 - 1e-6));
	assert_true(f->c->total_gbps < total * (1 + 1e-6));
	assert_int_equal(f->c->n, n);
	stop(f);
}

static void two_h200_have_twelve_channels_as_in_nccl(void **state)
{
	struct found f = start(machine_nvswitch(1, 2, 18, 0, 0), PATTERN_RING, 1, 0);

	(void)state;
	one_ring(&f, 18 * 20.6, 12); /* NCCL: 12 of 30 */
}

static void a_cube_mesh_has_its_six_rings(void **state)
{
	struct found f = start(machine_dgx1v(0), PATTERN_RING, 1, 0);

	(void)state;
	one_ring(&f, 6 * 20, 6);
}

static void a_full_mesh_uses_every_link(void **state)
{
	struct found f = start(machine_full_mesh(8, 48, 0), PATTERN_RING, 1, 0);

	(void)state;
	one_ring(&f, 7 * 48, 14);
}

static void pairs_with_bridges_use_both_cards_of_a_pair(void **state)
{
	struct found f = start(machine_pairs(4, 4, 0), PATTERN_RING, 1, 0);

	(void)state;
	one_ring(&f, topo_smp_bw(&f.t->nodes[f.t->of[TOPO_CPU][0]].cpu), 2);
}

static void nvswitch_machines_are_near_the_bound(void **state)
{
	(void)state;
	good_on("2 gpus", machine_nvswitch(1, 2, 18, 0, 0));
	good_on("5 gpus", machine_nvswitch(1, 5, 12, 3, 200000));
	good_on("8 gpus 1 port", machine_nvswitch(2, 8, 18, 1, 400000));
	good_on("8 gpus 3 ports", machine_nvswitch(2, 8, 18, 3, 400000));
	good_on("8 gpus 8 ports", machine_nvswitch(2, 8, 18, 8, 400000));
	good_on("8 gpus 10 ports", machine_nvswitch(2, 8, 18, 10, 400000));
	good_on("16 gpus", machine_nvswitch(2, 16, 6, 8, 100000));
	good_on("72 gpus", machine_nvswitch(4, 72, 18, 0, 0));
}

static void meshes_are_near_the_bound(void **state)
{
	(void)state;
	good_on("dgx-1v", machine_dgx1v(4));
	good_on("full 2", machine_full_mesh(2, 48, 1));
	good_on("full 3", machine_full_mesh(3, 48, 1));
	good_on("full 4", machine_full_mesh(4, 48, 2));
	good_on("full 6", machine_full_mesh(6, 48, 1));
	good_on("full 8", machine_full_mesh(8, 48, 4));
	good_on("partial 8", machine_partial(8, 2, 2));
	good_on("pairs 4", machine_pairs(4, 4, 1));
	good_on("pairs 8", machine_pairs(8, 4, 2));
}

static void pci_machines_are_near_the_bound(void **state)
{
	(void)state;
	good_on("flat", machine_pci(1, 8, 0, 1, 100000));
	good_on("flat, two cpus", machine_pci(2, 8, 0, 2, 100000));
	good_on("four cpus", machine_pci(4, 8, 2, 8, 200000));
	good_on("two switches", machine_pci(2, 8, 4, 4, 100000));
	good_on("one gpu", machine_pci(1, 1, 0, 2, 100000));
	good_on("three gpus", machine_pci(2, 3, 0, 1, 25000));
	for (int ports = 1; ports <= 10; ports += 3)
		good_on("any number of ports", machine_pci(2, 8, 2, ports, 100000));
}

static void a_partial_mesh_of_16_is_near_the_bound(void **state)
{
	struct found f = start(machine_partial(16, 3, 4), PATTERN_RING, 1, 0);

	(void)state;
	near_bound(&f, "partial 16");
	f.req.nnodes = 2;
	near_bound(&f, "partial 16");
	stop(&f);
}

static void random_machines_keep_the_rules(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		good_on("random", machine_chance(seed, 2 + (int)(seed % 7)));
}

static void near_ports_come_first(void **state)
{
	struct found f = start(machine_nvswitch(2, 8, 18, 8, 200000), PATTERN_RING, 2, 0);

	(void)state;
	search(&f);
	assert_int_equal(f.c->n, 8);
	for (int i = 0; i < f.c->n; i++) {
		const struct channel *ch = &f.c->ch[i];

		assert_int_equal(ch->net_in, ch->net_out);
		assert_int_equal(paths_get(f.p, ch->net_in, ch->gpus[0])->class, PATH_PIX);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(ch->net_in, f.c->ch[j].net_in);
	}
	assert_int_equal(f.c->type_intra, PATH_NVL);
	assert_int_equal(f.c->type_inter, PATH_PXN);
	stop(&f);
}

static void without_pxn_a_ring_leaves_over_pci(void **state)
{
	struct found f = start(machine_nvswitch(2, 8, 18, 8, 200000), PATTERN_RING, 2, 0);
	struct path_rules rules = { .nvb = true, .pxn = false };

	(void)state;
	paths_free(f.p);
	assert_int_equal(paths_create(&f.p, f.t, &rules), TAUT_OK);
	f.req.pxn = false;
	near_bound(&f, "without pxn");
	assert_int_not_equal(f.c->type_inter, PATH_PXN);
	stop(&f);
}

static void crossing_ports_saves_the_way_back(void **state)
{
	struct found f = start(machine_pci(2, 8, 4, 2, 200000), PATTERN_RING, 2, 0);
	double same;

	(void)state;
	search(&f);
	assert_int_equal(f.c->cross_nic, 0);
	same = f.c->total_gbps;
	f.req.cross_nic = 2;
	search(&f);
	assert_int_equal(f.c->cross_nic, 1);
	assert_true(f.c->total_gbps > 1.2 * same);
	stop(&f);
}

static void more_nodes_give_the_same_channels(void **state)
{
	struct found a = start(machine_dgx1v(4), PATTERN_RING, 2, 0),
		     b = start(machine_dgx1v(4), PATTERN_RING, 1000, 0);

	(void)state;
	search(&a);
	search(&b);
	assert_int_equal(a.c->n, b.c->n);
	for (int i = 0; i < a.c->n; i++) {
		assert_memory_equal(a.c->ch[i].gpus, b.c->ch[i].gpus, 8 * sizeof(int));
		assert_int_equal(a.c->ch[i].net_in, b.c->ch[i].net_in);
		assert_memory_equal(&a.c->ch[i].bw_gbps, &b.c->ch[i].bw_gbps, sizeof(double));
	}
	stop(&a);
	stop(&b);
}

static void numbers_of_channels_are_kept(void **state)
{
	struct found f = start(machine_dgx1v(4), PATTERN_RING, 1, 0);

	(void)state;
	for (int n = 1; n <= CHANNELS_MAX; n += 7) {
		f.req.min_channels = f.req.max_channels = n;
		search(&f);
		assert_int_equal(f.c->n, n);
	}
	f.req.min_channels = 9;
	f.req.max_channels = 8;
	assert_int_equal(channels_find(&f.c, f.t, f.p, &f.req), TAUT_ERR_ARG);
	stop(&f);
}

static void a_gpu_alone_has_an_empty_channel(void **state)
{
	struct found f = start(machine_pci(1, 1, 0, 0, 0), PATTERN_RING, 1, 0);

	(void)state;
	search(&f);
	assert_int_equal(f.c->n, 1);
	assert_true(f.c->total_gbps == 0);
	f.req.nnodes = 2;
	assert_int_equal(channels_find(&f.c, f.t, f.p, &f.req), TAUT_ERR_UNSUPPORTED);
	assert_non_null(strstr(taut_error_message(), "no network port"));
	stop(&f);
}

static void ports_that_are_down_are_not_used(void **state)
{
	struct topo *t = machine_nvswitch(2, 8, 18, 8, 200000);
	int down = t->of[TOPO_NET][3];
	struct found f = start(t, PATTERN_RING, 2, 0);

	(void)state;
	snprintf(t->nodes[down].net.state, sizeof(t->nodes[down].net.state), "down");
	search(&f);
	for (int i = 0; i < f.c->n; i++)
		assert_int_not_equal(f.c->ch[i].net_in, down);
	stop(&f);
}

static void reductions_in_switches_are_only_where_the_machine_has_them(void **state)
{
	struct found f = start(machine_nvswitch(2, 8, 18, 8, 400000), PATTERN_NVLS, 1, 0);

	(void)state;
	search(&f);
	assert_int_equal(f.c->n, 8);
	assert_true(f.c->total_gbps > 329.5 && f.c->total_gbps < 329.7); /* 370.8 * 8 / 9 */
	for (int i = 0; i < 8; i++)
		assert_int_equal(f.c->ch[i].gpus[0], f.t->of[TOPO_GPU][i]);
	f.req.nnodes = 2;
	search(&f);
	assert_int_equal(f.c->n, 0);
	f.req.pattern = PATTERN_COLLNET;
	search(&f);
	assert_int_equal(f.c->n, 0);
	f.t->nodes[f.t->of[TOPO_NET][2]].net.coll = 1;
	search(&f);
	assert_int_equal(f.c->n, 1);
	assert_int_equal(f.c->ch[0].net_in, f.t->of[TOPO_NET][2]);
	stop(&f);
	f = start(machine_dgx1v(0), PATTERN_NVLS, 1, 0);
	search(&f);
	assert_int_equal(f.c->n, 0);
	stop(&f);
}

static void a_ring_over_systems_crosses_each_border_once(void **state)
{
	struct found f = start(machine_dgx1v(4), PATTERN_RING, 3, 0);

	(void)state;
	search(&f);
	for (int c = 0; c < f.c->n; c++) {
		int ranks[24], borders = 0;
		bool seen[24] = { false };

		channels_ring_order(f.c, 3, c, ranks);
		for (int i = 0; i < 24; i++) {
			assert_in_range(ranks[i], 0, 23);
			assert_false(seen[ranks[i]]);
			seen[ranks[i]] = true;
			borders += ranks[i] / 8 != ranks[(i + 1) % 24] / 8;
		}
		assert_int_equal(borders, 3);
		assert_int_equal(f.t->of[TOPO_GPU][ranks[0]], f.c->ch[c].gpus[0]);
	}
	stop(&f);
}

/* The check must see what it is there for. */
static void the_check_sees_what_is_wrong(void **state)
{
	struct found f = start(machine_dgx1v(4), PATTERN_RING, 2, 0);
	char buf[320];
	int gpu;

	(void)state;
	search(&f);
	gpu = f.c->ch[1].gpus[2];
	f.c->ch[1].gpus[2] = f.c->ch[1].gpus[3];
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "twice"));
	f.c->ch[1].gpus[2] = f.c->ch[0].net_in;
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "not a gpu"));
	f.c->ch[1].gpus[2] = gpu;
	f.c->ch[1].net_out = gpu;
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "not both ports"));
	f.c->ch[1].net_out = f.c->ch[1].net_in == f.t->of[TOPO_NET][0] ? f.t->of[TOPO_NET][1] : f.t->of[TOPO_NET][0];
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "without cross_nic"));
	f.c->ch[1].net_out = f.c->ch[1].net_in;
	assert_null(channels_check(f.c, f.t, f.p, buf, sizeof(buf)));
	for (int i = 0; i < f.c->n; i++)
		f.c->ch[i].bw_gbps *= 1.01;
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "total"));
	f.c->total_gbps *= 1.01;
	assert_non_null(strstr(channels_check(f.c, f.t, f.p, buf, sizeof(buf)), "over a link of"));
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_h200_have_twelve_channels_as_in_nccl),
		cmocka_unit_test(a_cube_mesh_has_its_six_rings),
		cmocka_unit_test(a_full_mesh_uses_every_link),
		cmocka_unit_test(pairs_with_bridges_use_both_cards_of_a_pair),
		cmocka_unit_test(nvswitch_machines_are_near_the_bound),
		cmocka_unit_test(meshes_are_near_the_bound),
		cmocka_unit_test(pci_machines_are_near_the_bound),
		cmocka_unit_test(a_partial_mesh_of_16_is_near_the_bound),
		cmocka_unit_test(random_machines_keep_the_rules),
		cmocka_unit_test(near_ports_come_first),
		cmocka_unit_test(without_pxn_a_ring_leaves_over_pci),
		cmocka_unit_test(crossing_ports_saves_the_way_back),
		cmocka_unit_test(more_nodes_give_the_same_channels),
		cmocka_unit_test(numbers_of_channels_are_kept),
		cmocka_unit_test(a_gpu_alone_has_an_empty_channel),
		cmocka_unit_test(ports_that_are_down_are_not_used),
		cmocka_unit_test(reductions_in_switches_are_only_where_the_machine_has_them),
		cmocka_unit_test(a_ring_over_systems_crosses_each_border_once),
		cmocka_unit_test(the_check_sees_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
