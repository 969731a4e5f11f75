/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_build.h"

#include "base/mem.h"
#include "topo/paths.h"

static struct topo_paths *paths_of(const struct topo *t, bool nvb, bool pxn)
{
	struct path_rules rules = { .nvb = nvb, .pxn = pxn };
	struct topo_paths *p = NULL;

	if (paths_create(&p, t, &rules))
		fail_msg("%s", taut_error_message());
	return p;
}

/* --- what holds for every pair of every graph --- */

/* The links lead from @a to @b; returns the node where they end. */
static int walk(const struct topo *t, int a, const int *links, int n)
{
	for (int i = 0; i < n; i++) {
		const struct topo_link *l = &t->links[links[i]];

		assert_true(l->a == a || l->b == a);
		a = l->a == a ? l->b : l->a;
	}
	return a;
}

static void check_pair(const struct topo *t, const struct topo_paths *p, int a, int b)
{
	const struct path *ab = paths_get(p, a, b), *ba = paths_get(p, b, a);
	int forth[64], back[64], n = paths_links(p, a, b, forth, 64);
	double narrowest = 0;

	assert_memory_equal(ab, ba, sizeof(*ab));
	assert_int_equal(n, ab->hops);
	assert_int_equal(paths_links(p, b, a, back, 64), n);
	assert_true(n <= 64);
	if (a == b)
		assert_int_equal(ab->class, PATH_LOC);
	if (ab->class == PATH_LOC || ab->class == PATH_DIS) {
		assert_int_equal(n, 0);
		assert_int_equal(ab->bottleneck, -1);
		return;
	}
	assert_int_equal(walk(t, a, forth, n), b);
	for (int i = 0; i < n; i++) {
		double bw = t->links[forth[i]].bw_gbps;

		assert_int_equal(forth[i], back[n - 1 - i]);
		narrowest = !i || bw < narrowest ? bw : narrowest;
	}
	assert_true(ab->bw_gbps == narrowest);
	assert_true(t->links[ab->bottleneck].bw_gbps == narrowest);
	assert_int_equal(ab->via >= 0, ab->class == PATH_NVB || ab->class == PATH_PXN);
}

/* By way of a NUMA node nothing is better than what was found. */
static void check_detours(const struct topo *t, const struct topo_paths *p, int a, int b)
{
	const struct path *ab = paths_get(p, a, b);

	for (int i = 0; i < t->count[TOPO_CPU]; i++) {
		const struct path *am = paths_get(p, a, t->of[TOPO_CPU][i]), *mb = paths_get(p, t->of[TOPO_CPU][i], b);
		enum path_class class = am->class > mb->class ? am->class : mb->class;
		double bw = am->bw_gbps < mb->bw_gbps ? am->bw_gbps : mb->bw_gbps;

		if (class == PATH_LOC || ab->class == PATH_PXN)
			continue; /* wider or without the CPU, as PXN wants it */
		if (ab->class > class || (ab->class == class && ab->bw_gbps < bw * (1 - 1e-9)))
			fail_msg("%d to %d: %s %g GB/s, but by NUMA node %s %g GB/s", a, b, path_class_names[ab->class],
				 ab->bw_gbps, path_class_names[class], bw);
	}
}

static void check_all(const struct topo *t, const struct topo_paths *p)
{
	static const enum topo_kind kinds[] = { TOPO_GPU, TOPO_NET, TOPO_CPU };

	for (int ka = 0; ka < 3; ka++)
		for (int kb = 0; kb < 3; kb++)
			for (int i = 0; i < t->count[kinds[ka]]; i++)
				for (int j = 0; j < t->count[kinds[kb]]; j++) {
					check_pair(t, p, t->of[kinds[ka]][i], t->of[kinds[kb]][j]);
					check_detours(t, p, t->of[kinds[ka]][i], t->of[kinds[kb]][j]);
				}
}

static void assert_path_at(const struct topo_paths *p, int a, int b, const char *class, const char *smi, double bw,
			   int hops, int line)
{
	const struct path *path = paths_get(p, a, b);
	char text[16];

	path_smi_text(path, text, sizeof(text));
	if (strcmp(path_class_names[path->class], class) || strcmp(text, smi) || path->bw_gbps < bw - 0.001 ||
	    path->bw_gbps > bw + 0.001 || path->hops != hops)
		fail_msg("line %d: %s \"%s\" %g GB/s %d hops", line, path_class_names[path->class], text, path->bw_gbps,
			 path->hops);
}
#define assert_path(p, a, b, class, smi, bw, hops) assert_path_at(p, a, b, class, smi, bw, hops, __LINE__)

/* --- each class --- */

static void pci_classes_count_bridges(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, "GenuineIntel"), cpu1 = build_cpu(t, 1, "GenuineIntel");
	int top = build_node(t, TOPO_PCI, cpu0, "0000:3a:00.0");
	int left = build_node(t, TOPO_PCI, top, "0000:3c:00.0"), right = build_node(t, TOPO_PCI, top, "0000:40:00.0");
	int g0 = build_gpu(t, left, "0000:3d:00.0"), g1 = build_gpu(t, left, "0000:3e:00.0");
	int g2 = build_gpu(t, right, "0000:41:00.0"), g3 = build_gpu(t, cpu0, "0000:5a:00.0");
	int g4 = build_gpu(t, cpu0, "0000:5a:01.0"), g5 = build_gpu(t, cpu1, "0000:80:01.0");
	int net = build_net(t, right, "0000:42:00.0", "mlx5_0", 100000);
	struct topo_paths *p;

	(void)state;
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g0, "LOC", " X ", 5000, 0);
	assert_path(p, g0, g1, "PIX", "PIX", 24, 2);
	assert_path(p, g0, g2, "PXB", "PXB", 24, 4);
	assert_path(p, g2, net, "PIX", "PIX", 12.5, 3);
	assert_path(p, g0, net, "PXB", "PXB", 12.5, 5);
	assert_path(p, g0, g3, "PHB", "NODE", 24, 4);
	assert_path(p, g3, g4, "PHB", "PHB", 24, 2);
	assert_path(p, g0, g5, "SYS", "SYS", 22, 5);
	assert_path(p, g3, net, "PHB", "NODE", 12.5, 5);
	assert_path(p, g0, cpu0, "PHB", "PHB", 24, 3);
	assert_path(p, g0, cpu1, "SYS", "SYS", 22, 4);
	assert_path(p, cpu0, cpu1, "SYS", "SYS", 22, 1);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

static void the_host_bridge_tells_phb_from_node(void **state)
{
	struct topo *t = build_start();
	int cpu = build_cpu(t, 0, "GenuineIntel");
	int g0 = build_gpu(t, cpu, "0000:3b:00.0"), g1 = build_gpu(t, cpu, "0000:3c:00.0");
	int g2 = build_gpu(t, cpu, "0000:5e:00.0"), g3 = build_gpu(t, cpu, "0001:5e:00.0");
	int g4 = build_gpu(t, cpu, "");
	struct topo_paths *p;

	(void)state;
	t->nodes[g0].pci.root = t->nodes[g1].pci.root = 0x3a + 1; /* two root ports of 0000:3a */
	t->nodes[g2].pci.root = 0x5d + 1;
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "PHB", "PHB", 24, 2);
	assert_path(p, g0, g2, "PHB", "NODE", 24, 2);
	assert_path(p, g0, g3, "PHB", "NODE", 24, 2);
	assert_path(p, g2, g3, "PHB", "NODE", 24, 2);
	assert_path(p, g0, g4, "PHB", "PHB", 24, 2);
	paths_free(p);
	topo_free(t);
}

static void ports_of_one_card_are_as_near_as_can_be(void **state)
{
	struct topo *t = build_start();
	int cpu = build_cpu(t, 0, "AuthenticAMD"), a = build_net(t, cpu, "0000:3d:00.0", "mlx5_0", 200000), b;
	struct topo_paths *p;

	(void)state;
	b = topo_add_node(t, TOPO_NET, t->nodes[a].parent);
	t->nodes[b].net.speed_mbit = 100000;
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, a, b, "PIX", "PIX", 12.5, 2);
	assert_path(p, a, cpu, "PHB", "PHB", 24, 2);
	paths_free(p);
	topo_free(t);
}

static void an_nvswitch_gives_the_links_of_the_gpu_with_fewer(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, "GenuineIntel"), cpu1 = build_cpu(t, 1, "GenuineIntel");
	int nvs = build_node(t, TOPO_NVS, -1, "");
	int g0 = build_gpu(t, cpu0, "0000:3d:00.0"), g1 = build_gpu(t, cpu1, "0000:80:00.0");
	int g2 = build_gpu(t, cpu1, "0000:81:00.0"), links[2];
	struct topo_paths *p;

	(void)state;
	build_link(t, g0, nvs, LINK_NVLINK, 18, 0);
	build_link(t, nvs, g1, LINK_NVLINK, 16, 0);
	build_link(t, g2, nvs, LINK_NVLINK, 18, 0);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g2, "NVL", "NV18", 370.8, 2);
	assert_path(p, g0, g1, "NVL", "NV16", 329.6, 2);
	assert_int_equal(paths_get(p, g0, g1)->bottleneck, 1); /* the link of g1 */
	assert_int_equal(paths_links(p, g1, g0, links, 2), 2);
	assert_int_equal(links[0], 1);
	assert_int_equal(links[1], 0);
	assert_int_equal(paths_links(p, g1, g0, links, 1), 2); /* what has no room is counted */
	assert_path(p, g0, cpu1, "SYS", "SYS", 22, 2);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

/* Half of DGX-1V: g0 and g3 of a square have no link of their own. */
static struct topo *build_square(int g[4], int *net)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, "GenuineIntel"), cpu1 = build_cpu(t, 1, "GenuineIntel");
	int sw0 = build_node(t, TOPO_PCI, cpu0, "0000:05:00.0"), sw1 = build_node(t, TOPO_PCI, cpu1, "0000:84:00.0");

	g[0] = build_gpu(t, sw0, "0000:06:00.0");
	g[1] = build_gpu(t, sw0, "0000:07:00.0");
	g[2] = build_gpu(t, sw1, "0000:85:00.0");
	g[3] = build_gpu(t, sw1, "0000:86:00.0");
	for (int i = 0; i < 4; i++)
		t->nodes[g[i]].gpu.sm = 70;
	*net = build_net(t, sw0, "0000:08:00.0", "mlx5_0", 100000);
	build_link(t, g[0], g[1], LINK_NVLINK, 1, 0);
	build_link(t, g[0], g[2], LINK_NVLINK, 2, 0);
	build_link(t, g[1], g[3], LINK_NVLINK, 2, 0);
	build_link(t, g[2], g[3], LINK_NVLINK, 2, 0);
	build_end(t);
	return t;
}

static void nvb_takes_the_widest_gpu_in_between(void **state)
{
	int g[4], net, links[4];
	struct topo *t = build_square(g, &net);
	struct topo_paths *p = paths_of(t, true, true);

	(void)state;
	assert_path(p, g[0], g[3], "NVB", "SYS", 40, 2); /* by g2: by g1 it would be 20 */
	assert_int_equal(paths_get(p, g[0], g[3])->via, g[2]);
	assert_int_equal(paths_links(p, g[3], g[0], links, 4), 2);
	assert_int_equal(walk(t, g[3], links, 1), g[2]);
	assert_path(p, g[1], g[2], "NVB", "SYS", 40, 2);
	assert_int_equal(paths_get(p, g[1], g[2])->via, g[3]);
	assert_path(p, g[0], g[1], "NVL", "NV1", 20, 1);
	check_all(t, p);
	paths_free(p);
	p = paths_of(t, false, false);
	assert_path(p, g[0], g[3], "SYS", "SYS", 22, 5);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

static void pxn_goes_by_the_gpu_near_the_card(void **state)
{
	int g[4], net;
	struct topo *t = build_square(g, &net);
	struct topo_paths *p = paths_of(t, true, true);

	(void)state;
	assert_path(p, g[0], net, "PIX", "PIX", 12.5, 3);
	assert_path(p, g[1], net, "PIX", "PIX", 12.5, 3);
	assert_path(p, g[2], net, "PXN", "SYS", 12.5, 4);
	assert_int_equal(paths_get(p, g[2], net)->via, g[0]);
	/* g0 has no NVLink to g3, but g1 is as near */
	assert_path(p, g[3], net, "PXN", "SYS", 12.5, 4);
	assert_int_equal(paths_get(p, g[3], net)->via, g[1]);
	check_all(t, p);
	paths_free(p);
	p = paths_of(t, true, false);
	assert_path(p, g[2], net, "SYS", "SYS", 12.5, 6);
	paths_free(p);
	topo_free(t);
}

static void pxn_needs_cards_that_reach_gpu_memory(void **state)
{
	int g[4], net;
	struct topo *t = build_square(g, &net);
	struct topo_paths *p;

	(void)state;
	t->nodes[g[0]].gpu.gdr = t->nodes[g[1]].gpu.gdr = 0;
	p = paths_of(t, true, true);
	assert_path(p, g[2], net, "SYS", "SYS", 12.5, 6);
	paths_free(p);
	t->nodes[g[0]].gpu.gdr = t->nodes[g[1]].gpu.gdr = 1;
	t->nodes[net].net.gdr = 0;
	p = paths_of(t, true, true);
	assert_path(p, g[2], net, "SYS", "SYS", 12.5, 6);
	paths_free(p);
	topo_free(t);
}

static void two_cards_below_a_switch_have_a_relay_each(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, "AuthenticAMD"), cpu1 = build_cpu(t, 1, "AuthenticAMD");
	int sw = build_node(t, TOPO_PCI, cpu0, "0000:05:00.0"), nvs = build_node(t, TOPO_NVS, -1, "");
	int g0 = build_gpu(t, sw, "0000:06:00.0"), g1 = build_gpu(t, sw, "0000:07:00.0");
	int g2 = build_gpu(t, cpu1, "0000:85:00.0");
	int n0 = build_net(t, sw, "0000:08:00.0", "mlx5_0", 100000);
	int n1 = build_net(t, sw, "0000:09:00.0", "mlx5_1", 100000);
	struct topo_paths *p;

	(void)state;
	build_link(t, g0, nvs, LINK_NVLINK, 12, 0);
	build_link(t, g1, nvs, LINK_NVLINK, 12, 0);
	build_link(t, g2, nvs, LINK_NVLINK, 12, 0);
	build_end(t);
	p = paths_of(t, true, true);
	assert_int_equal(paths_get(p, g2, n0)->via, g0);
	assert_int_equal(paths_get(p, n1, g2)->via, g1);
	assert_path(p, g1, n0, "PIX", "PIX", 12.5, 3); /* as near as the relay: no detour */
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

/* Half of a GB200 tray: two GPUs with chip-to-chip links, cards at the CPU and, far off, at the other. */
static void chip_to_chip_and_the_pci_behind_it(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, ""), cpu1 = build_cpu(t, 1, "");
	int g0 = build_gpu(t, cpu0, "0008:01:00.0"), g1 = build_gpu(t, cpu0, "0009:01:00.0");
	int n0 = build_net(t, cpu0, "0000:03:00.0", "mlx5_0", 400000);
	int n1 = build_net(t, cpu1, "0010:03:00.0", "mlx5_1", 400000);
	struct topo_paths *p;

	(void)state;
	t->nodes[t->nodes[n0].parent].pci.gts = t->nodes[t->nodes[n1].parent].pci.gts = 32;
	snprintf(t->nodes[cpu0].cpu.arch, 16, "arm64");
	snprintf(t->nodes[cpu1].cpu.arch, 16, "arm64");
	build_link(t, g0, cpu0, LINK_C2C, 10, 0);
	build_link(t, g1, cpu0, LINK_C2C, 10, 0);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, cpu0, "C2C", "PHB", 447, 1);
	assert_path(p, g0, g1, "C2C", "NODE", 447, 2);
	assert_path(p, g0, n0, "P2C", "NODE", 48, 3);
	assert_path(p, g0, n1, "SYS", "SYS", 6, 4);
	paths_free(p);
	topo_free(t);
}

static void power_reaches_its_cpu_over_nvlink(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, ""), cpu1 = build_cpu(t, 8, "");
	int g0 = build_gpu(t, cpu0, "0004:04:00.0"), g1 = build_gpu(t, cpu0, "0004:05:00.0");
	int g2 = build_gpu(t, cpu1, "0035:03:00.0"), g3 = build_gpu(t, cpu0, "0006:01:00.0");
	struct topo_paths *p;

	(void)state;
	snprintf(t->nodes[cpu0].cpu.arch, 16, "ppc64");
	snprintf(t->nodes[cpu1].cpu.arch, 16, "ppc64");
	build_link(t, g0, cpu0, LINK_NVLINK, 3, 60);
	build_link(t, g1, cpu0, LINK_NVLINK, 3, 60);
	build_link(t, g2, cpu1, LINK_NVLINK, 3, 60);
	build_link(t, g0, g1, LINK_NVLINK, 3, 60);
	build_link(t, g1, g3, LINK_NVLINK, 3, 60);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "NVL", "NV3", 60, 1);
	assert_path(p, g0, cpu0, "NVL", "PHB", 60, 1);
	assert_path(p, g0, g2, "SYS", "SYS", 32, 3);
	assert_path(p, g0, g3, "NVB", "NODE", 60, 2);
	/* by way of a GPU only another GPU is reached */
	assert_path(p, g3, cpu0, "PHB", "PHB", 24, 1);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

static void machines_of_an_nvlink_domain_share_nothing_else(void **state)
{
	struct topo *t = build_start();
	int cpu0 = build_cpu(t, 0, ""), cpu1 = build_cpu(t, 0, ""), nvs = build_node(t, TOPO_NVS, -1, "");
	int g0, g1, n1;
	struct topo_paths *p;

	(void)state;
	t->nodes[cpu1].machine = 1;
	g0 = build_gpu(t, cpu0, "0008:01:00.0");
	g1 = build_gpu(t, cpu1, "0008:01:00.0");
	n1 = build_net(t, cpu1, "0000:03:00.0", "mlx5_0", 400000);
	build_link(t, g0, nvs, LINK_NVLINK, 18, 0);
	build_link(t, g1, nvs, LINK_NVLINK, 18, 0);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "NVL", "NV18", 370.8, 2);
	assert_path(p, g0, n1, "DIS", "SYS", 0, 0);
	assert_path(p, g0, cpu1, "DIS", "SYS", 0, 0);
	assert_path(p, g0, nvs, "DIS", "SYS", 0, 0); /* no endpoint */
	assert_path(p, g0, -1, "DIS", "SYS", 0, 0);
	assert_path(p, g0, 4711, "DIS", "SYS", 0, 0);
	assert_int_equal(paths_links(p, g0, n1, NULL, 0), 0);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

/* Nearest class first: a wide way over the other socket does not win over a narrow bridge. Then the widest way. */
static void near_comes_before_wide_and_wide_before_short(void **state)
{
	struct topo *t = build_start();
	int cpu = build_cpu(t, 0, "GenuineIntel"), sw0 = build_node(t, TOPO_PCI, cpu, "0000:05:00.0");
	int sw1 = build_node(t, TOPO_PCI, cpu, "0000:15:00.0"), sw2 = build_node(t, TOPO_PCI, cpu, "0000:25:00.0");
	int g0 = build_gpu(t, sw0, "0000:06:00.0"), g1 = build_gpu(t, sw1, "0000:16:00.0");
	struct topo_paths *p;

	(void)state;
	build_link(t, sw0, sw1, LINK_PCI, 4, 3);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "PXB", "NODE", 3, 3);
	paths_free(p);
	topo_free(t);

	t = build_start();
	cpu = build_cpu(t, 0, "GenuineIntel");
	sw0 = build_node(t, TOPO_PCI, cpu, "0000:05:00.0");
	sw1 = build_node(t, TOPO_PCI, cpu, "0000:15:00.0");
	sw2 = build_node(t, TOPO_PCI, cpu, "0000:25:00.0");
	g0 = build_gpu(t, sw0, "0000:06:00.0");
	g1 = build_gpu(t, sw1, "0000:16:00.0");
	build_link(t, sw0, sw1, LINK_PCI, 4, 3);
	build_link(t, sw0, sw2, LINK_PCI, 16, 24);
	build_link(t, sw2, sw1, LINK_PCI, 16, 24);
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "PXB", "NODE", 24, 4);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

static void what_has_no_parent_is_not_connected(void **state)
{
	struct topo *t = build_start();
	int g0 = build_gpu(t, -1, ""), g1 = build_gpu(t, -1, "");
	struct topo_paths *p;

	(void)state;
	build_end(t);
	p = paths_of(t, true, true);
	assert_path(p, g0, g1, "DIS", "SYS", 0, 0);
	assert_int_equal(paths_get(p, g0, g1)->via, -1);
	paths_free(p);
	paths_free(NULL);
	topo_free(t);
}

/* --- any machine --- */

struct dice {
	uint64_t x;
};

static int roll(struct dice *d, int n)
{
	d->x ^= d->x << 13;
	d->x ^= d->x >> 7;
	d->x ^= d->x << 17;
	return (int)(d->x % (uint64_t)n);
}

static struct topo *random_machine(struct dice *d)
{
	struct topo *t = build_start();
	int spots[24], nspots = 0, gpus[16], ngpus = roll(d, 12) + 1, nvs = -1;
	char busid[24];

	for (int i = roll(d, 4) + 1; i > 0; i--)
		spots[nspots++] = build_cpu(t, i, roll(d, 2) ? "GenuineIntel" : "AuthenticAMD");
	for (int i = roll(d, 12); i > 0; i--) {
		snprintf(busid, sizeof(busid), "0000:%02x:00.0", 16 + nspots);
		spots[nspots] = build_node(t, TOPO_PCI, spots[roll(d, nspots)], busid);
		t->nodes[spots[nspots]].pci.width = 1 << roll(d, 5);
		nspots++;
	}
	for (int i = 0; i < ngpus; i++) {
		snprintf(busid, sizeof(busid), "0001:%02x:00.0", 16 + i);
		gpus[i] = build_gpu(t, spots[roll(d, nspots)], busid);
		t->nodes[gpus[i]].pci.width = 1 << roll(d, 5);
		t->nodes[gpus[i]].gpu.gdr = roll(d, 3) - 1;
	}
	for (int i = roll(d, 12); i > 0; i--) {
		snprintf(busid, sizeof(busid), "0002:%02x:00.0", 16 + i);
		build_net(t, spots[roll(d, nspots)], busid, "mlx5", 25000 << roll(d, 5));
	}
	if (roll(d, 3) == 0)
		nvs = build_node(t, TOPO_NVS, -1, "");
	for (int i = 0; i < ngpus; i++) {
		if (nvs >= 0 && roll(d, 4))
			build_link(t, gpus[i], nvs, LINK_NVLINK, roll(d, 18) + 1, 0);
		for (int j = 0; j < i; j++)
			if (roll(d, 4) == 0)
				build_link(t, gpus[i], gpus[j], LINK_NVLINK, roll(d, 4) + 1, 0);
		if (roll(d, 8) == 0)
			build_link(t, gpus[i], spots[0], roll(d, 2) ? LINK_C2C : LINK_NVLINK, 4, 0);
	}
	build_end(t);
	return t;
}

static enum path_class class_of_link(const struct topo *t, const struct topo_link *l)
{
	int cpus = (t->nodes[l->a].kind == TOPO_CPU) + (t->nodes[l->b].kind == TOPO_CPU);
	int bridges = (t->nodes[l->a].kind == TOPO_PCI) + (t->nodes[l->b].kind == TOPO_PCI);

	if (l->kind == LINK_NVLINK || l->kind == LINK_C2C)
		return l->kind == LINK_C2C ? PATH_C2C : PATH_NVL;
	if (l->kind == LINK_SMP)
		return PATH_SYS;
	return cpus ? PATH_PHB : bridges == 2 ? PATH_PXB : PATH_PIX;
}

/* How many links from @a to @b over those of at most @class and at least @bw, not through GPUs and ports; -1: no way.
 */
static int fewest_links(const struct topo *t, int a, int b, enum path_class class, double bw)
{
	int far[128];

	for (int i = 0; i < 128; i++)
		far[i] = i == a ? 0 : -1;
	for (int round = 0; round < t->nnodes && far[b] < 0; round++)
		for (int i = 0; i < t->nlinks; i++)
			for (int end = 0; end < 2; end++) {
				const struct topo_link *l = &t->links[i];
				int from = end ? l->b : l->a, to = end ? l->a : l->b;
				bool leaf = t->nodes[from].kind == TOPO_GPU || t->nodes[from].kind == TOPO_NET;

				if (far[from] == round && far[to] < 0 && (from == a || !leaf) &&
				    class_of_link(t, l) <= class && l->bw_gbps >= bw)
					far[to] = round + 1;
			}
	return far[b];
}

/* Nearest class, then widest, then shortest: nothing that would come first exists. */
static void check_best(const struct topo *t, const struct topo_paths *p, int a, int b)
{
	const struct path *ab = paths_get(p, a, b);
	enum path_class class = ab->class == PATH_P2C ? PATH_PHB : ab->class == PATH_DIS ? PATH_SYS : ab->class;

	assert_true(t->nnodes < 128);
	if (class > PATH_NVL)
		assert_int_equal(fewest_links(t, a, b, (enum path_class)(class - (ab->class != PATH_DIS)), 0), -1);
	if (ab->class == PATH_DIS)
		return;
	assert_int_equal(fewest_links(t, a, b, class, ab->bw_gbps * (1 + 1e-6)), -1);
	assert_int_equal(fewest_links(t, a, b, class, ab->bw_gbps), ab->hops);
}

static void check_all_best(const struct topo *t, const struct topo_paths *p)
{
	for (int a = 0; a < t->nnodes; a++)
		for (int b = 0; b < t->nnodes; b++) {
			enum topo_kind ka = t->nodes[a].kind, kb = t->nodes[b].kind;

			if (a != b && (ka == TOPO_GPU || ka == TOPO_NET || ka == TOPO_CPU) &&
			    (kb == TOPO_GPU || kb == TOPO_NET || kb == TOPO_CPU))
				check_best(t, p, a, b);
		}
}

/* GPU pairs without a way of class NVL: no GPU with links to both gives a wider one. */
static void check_nvb(const struct topo *t, const struct topo_paths *p)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		for (int j = 0; j < t->count[TOPO_GPU]; j++)
			for (int k = 0; k < t->count[TOPO_GPU]; k++) {
				int a = t->of[TOPO_GPU][i], b = t->of[TOPO_GPU][j], m = t->of[TOPO_GPU][k];
				const struct path *ab = paths_get(p, a, b), *am = paths_get(p, a, m),
						  *mb = paths_get(p, m, b);

				if (am->class != PATH_NVL || mb->class != PATH_NVL || am->hops > 1 || mb->hops > 1)
					continue;
				assert_true(ab->class <= PATH_NVB);
				if (ab->class == PATH_NVB)
					assert_true(ab->bw_gbps >= am->bw_gbps || ab->bw_gbps >= mb->bw_gbps);
			}
}

/* A GPU over NVLink from one that is near the card, and of the same machine, is no farther than PXN. */
static void check_pxn(const struct topo *t, const struct topo_paths *p, const struct topo_paths *plain)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		for (int j = 0; j < t->count[TOPO_GPU]; j++)
			for (int k = 0; k < t->count[TOPO_NET]; k++) {
				int gpu = t->of[TOPO_GPU][i], mid = t->of[TOPO_GPU][j], net = t->of[TOPO_NET][k];

				if (i != j && paths_get(plain, gpu, mid)->class == PATH_NVL &&
				    paths_get(plain, mid, net)->class <= PATH_PXB && t->nodes[mid].gpu.gdr &&
				    paths_get(p, mid, net)->class != PATH_PXN)
					assert_true(paths_get(p, gpu, net)->class <= PATH_PXN);
			}
}

static void random_machines_keep_the_rules(void **state)
{
	struct dice d = { 20250611 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct topo *t = random_machine(&d);
		struct topo_paths *p = paths_of(t, true, true), *plain = paths_of(t, false, false);

		check_all(t, p);
		check_all(t, plain);
		check_all_best(t, plain);
		check_nvb(t, p);
		check_pxn(t, p, plain);
		for (int a = 0; a < t->nnodes; a++)
			for (int b = 0; b < t->nnodes; b++) {
				const struct path *with = paths_get(p, a, b), *without = paths_get(plain, a, b);

				assert_int_equal(with->smi, without->smi);
				assert_true(with->class != PATH_PXN || with->bw_gbps > without->bw_gbps ||
					    without->class > PATH_PXN);
				assert_true(with->class == PATH_PXN || with->class <= without->class);
			}
		paths_free(p);
		paths_free(plain);
		topo_free(t);
	}
}

/* --- size --- */

static struct topo *build_rack(int gpus)
{
	struct topo *t = build_start();
	int nvs = build_node(t, TOPO_NVS, -1, "");
	char busid[24];

	for (int i = 0; i < gpus; i += 4) {
		int cpu[2];

		for (int k = 0; k < 2; k++) {
			cpu[k] = build_cpu(t, k, "");
			t->nodes[cpu[k]].machine = i / 4;
		}
		for (int k = 0; k < 4; k++) {
			int gpu;

			snprintf(busid, sizeof(busid), "%04x:01:00.0", k);
			gpu = build_gpu(t, cpu[k / 2], busid);
			build_link(t, gpu, nvs, LINK_NVLINK, 18, 0);
			build_link(t, gpu, cpu[k / 2], LINK_C2C, 10, 0);
			snprintf(busid, sizeof(busid), "%04x:03:00.0", 16 + k);
			build_net(t, cpu[k / 2], busid, "mlx5", 400000);
		}
	}
	build_end(t);
	return t;
}

static void a_rack_of_72_gpus_is_one_system(void **state)
{
	struct topo *t = build_rack(72);
	struct topo_paths *p = paths_of(t, true, true);
	const int *gpus = t->of[TOPO_GPU], *nets = t->of[TOPO_NET];

	(void)state;
	assert_path(p, gpus[0], gpus[71], "NVL", "NV18", 370.8, 2);
	assert_path(p, gpus[0], nets[1], "P2C", "NODE", 24, 3);
	assert_path(p, gpus[0], nets[2], "PXN", "SYS", 24, 5); /* GPU, NVSwitch, GPU, NUMA node, card, port */
	assert_path(p, gpus[0], nets[71], "DIS", "SYS", 0, 0);
	check_all(t, p);
	paths_free(p);
	topo_free(t);
}

static void many_nodes_or_bandwidths_are_refused(void **state)
{
	struct topo *t = build_start();
	struct topo_paths *p = NULL;
	int cpu = build_cpu(t, 0, ""), below = cpu;

	(void)state;
	for (int i = 0; i < 300; i++) {
		below = build_node(t, TOPO_PCI, below, "");
		build_link(t, below, t->nodes[below].parent, LINK_PCI, 16, 1 + i);
	}
	build_end(t);
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "300 different bandwidths"));
	topo_free(t);
	t = build_start();
	cpu = build_cpu(t, 0, "");
	for (int i = 0; i < 5000; i++)
		build_gpu(t, cpu, "");
	build_end(t);
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "5001 GPUs"));
	assert_null(p);
	topo_free(t);
}

static void every_failing_allocation_is_reported(void **state)
{
	int g[4], net;
	struct topo *t = build_square(g, &net);
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo_paths *p = NULL;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = paths_create(&p, t, &path_rules_default);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	paths_free(p);
	topo_free(t);
}

static void classes_are_read_as_names_and_old_numbers(void **state)
{
	static const struct {
		const char *text;
		int class;
	} cases[] = { { "PHB", PATH_PHB }, { "phb", PATH_PHB }, { "Loc", PATH_LOC },
		      { "dis", PATH_DIS }, { "0", PATH_LOC },	{ "1", PATH_PIX },
		      { "2", PATH_PXB },   { "3", PATH_PHB },	{ "4", PATH_SYS },
		      { "5", PATH_SYS },   { "6", PATH_SYS },	{ "99999999999999999999", PATH_SYS },
		      { "", -1 },	   { "-1", -1 },	{ "3x", -1 },
		      { "PHBX", -1 },	   { " PHB", -1 },	{ "NODE", -1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(path_class_parse(cases[i].text), cases[i].class);
	assert_string_equal(path_class_names[PATH_PXN], "PXN");
	assert_null(path_class_names[PATH_CLASSES]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pci_classes_count_bridges),
		cmocka_unit_test(the_host_bridge_tells_phb_from_node),
		cmocka_unit_test(ports_of_one_card_are_as_near_as_can_be),
		cmocka_unit_test(an_nvswitch_gives_the_links_of_the_gpu_with_fewer),
		cmocka_unit_test(nvb_takes_the_widest_gpu_in_between),
		cmocka_unit_test(pxn_goes_by_the_gpu_near_the_card),
		cmocka_unit_test(pxn_needs_cards_that_reach_gpu_memory),
		cmocka_unit_test(two_cards_below_a_switch_have_a_relay_each),
		cmocka_unit_test(chip_to_chip_and_the_pci_behind_it),
		cmocka_unit_test(power_reaches_its_cpu_over_nvlink),
		cmocka_unit_test(machines_of_an_nvlink_domain_share_nothing_else),
		cmocka_unit_test(near_comes_before_wide_and_wide_before_short),
		cmocka_unit_test(what_has_no_parent_is_not_connected),
		cmocka_unit_test(random_machines_keep_the_rules),
		cmocka_unit_test(a_rack_of_72_gpus_is_one_system),
		cmocka_unit_test(many_nodes_or_bandwidths_are_refused),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(classes_are_read_as_names_and_old_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
