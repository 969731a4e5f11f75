/* SPDX-License-Identifier: Apache-2.0 */
/* Equal graphs are found equal in any order, and every difference is found; what tells machines of a kind apart does
 * not change the hash. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

static uint32_t seed = 1;

static int below(int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (int)((seed >> 8) % (uint32_t)n);
}

static struct topo *from_text(const char *text)
{
	struct topo *t = NULL;

	if (topo_from_text(&t, "text", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return t;
}

/* Its nodes and links in another order, with all that the makers of @t have given and finish() has made. */
static struct topo *permuted(const struct topo *t)
{
	int *to = calloc((size_t)t->nnodes, sizeof(*to)), added = 0;
	struct topo *p = NULL;

	assert_int_equal(topo_create(&p, "permuted"), TAUT_OK);
	for (int i = 0; i < t->nnodes; i++)
		to[i] = -1;
	while (added < t->nnodes) {
		int i = below(t->nnodes), up = t->nodes[i].parent;
		struct topo_node *n;

		if (to[i] >= 0 || (up >= 0 && to[up] < 0))
			continue;
		to[i] = topo_add_node(p, t->nodes[i].kind, up < 0 ? -1 : to[up]);
		n = &p->nodes[to[i]];
		*n = t->nodes[i];
		n->parent = up < 0 ? -1 : to[up];
		n->nlinks = 0;
		n->links = NULL;
		added++;
	}
	for (int first = below(t->nlinks), i = 0; i < t->nlinks; i++) {
		const struct topo_link *l = &t->links[(first + i) % t->nlinks];
		bool turn = below(2);

		assert_int_equal(
			topo_add_link(p, to[turn ? l->b : l->a], to[turn ? l->a : l->b], l->kind, l->count, l->bw_gbps),
			TAUT_OK);
	}
	p->iommu = t->iommu;
	p->peermem = t->peermem;
	p->vm = t->vm;
	free(to);
	assert_int_equal(topo_finish(p), TAUT_OK);
	return p;
}

static const char *const machines[] = {
	"gpu:1",
	"numa:2 gpu:8 nvlink:18 nvswitch:4 nic:8x400G",
	"numa:2 gpu:8 nvlink:6 mesh:cube nic:4x100G",
	"numa:4 gpu:4 nic:2x200G",
};
enum { NMACHINES = sizeof(machines) / sizeof(machines[0]) };

static void a_permuted_copy_is_equal(void **state)
{
	char why[256] = "";

	(void)state;
	for (int m = 0; m < NMACHINES; m++) {
		struct topo *t = from_text(machines[m]);

		for (int i = 0; i < 20; i++) {
			struct topo *p = permuted(t);

			if (!topo_equal(t, p, why, sizeof(why)) || !topo_equal(p, t, why, sizeof(why)))
				fail_msg("%s: %s", machines[m], why);
			if (topo_hash(t) != topo_hash(p))
				fail_msg("%s: another hash", machines[m]);
			topo_free(p);
		}
		topo_free(t);
	}
}

static void other_machines_are_not(void **state)
{
	(void)state;
	for (int i = 0; i < NMACHINES; i++)
		for (int j = 0; j < NMACHINES; j++) {
			struct topo *a = from_text(machines[i]), *b = from_text(machines[j]);

			assert_int_equal(topo_equal(a, b, NULL, 0), i == j);
			assert_int_equal(topo_hash(a) == topo_hash(b), i == j);
			topo_free(a);
			topo_free(b);
		}
}

static void nodes_that_nothing_tells_apart_are_paired(void **state)
{
	struct topo *t = NULL, *p;
	int cpu;

	(void)state;
	assert_int_equal(topo_create(&t, "twins"), TAUT_OK);
	cpu = topo_add_node(t, TOPO_CPU, -1);
	for (int i = 0; i < 6; i++)
		topo_add_node(t, TOPO_PCI, i < 3 ? topo_add_node(t, TOPO_PCI, cpu) : cpu);
	assert_int_equal(topo_finish(t), TAUT_OK);
	p = permuted(t);
	assert_true(topo_equal(t, p, NULL, 0));
	topo_free(p);
	topo_free(t);
}

/* Two rings of three and one of six look the same from every node. */
static struct topo *rings(int len)
{
	struct topo *t = NULL;
	int pci[6];

	assert_int_equal(topo_create(&t, "rings"), TAUT_OK);
	topo_add_node(t, TOPO_CPU, -1);
	for (int i = 0; i < 6; i++)
		pci[i] = topo_add_node(t, TOPO_PCI, 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(topo_add_link(t, pci[i], pci[i / len * len + (i % len + 1) % len], LINK_PCI, 1, 10),
				 TAUT_OK);
	assert_int_equal(topo_finish(t), TAUT_OK);
	return t;
}

static void what_only_looks_the_same_is_told_apart(void **state)
{
	struct topo *three = rings(3), *six = rings(6), *p = permuted(six), *q = permuted(three);

	(void)state;
	assert_false(topo_equal(three, six, NULL, 0));
	assert_true(topo_equal(six, p, NULL, 0));
	assert_true(topo_equal(three, q, NULL, 0));
	topo_free(three);
	topo_free(six);
	topo_free(p);
	topo_free(q);
}

/* --- differences --- */

static struct topo_node *node_of(struct topo *t, const char *name)
{
	int n = topo_find(t, name);

	assert_true(n >= 0);
	return &t->nodes[n];
}

typedef void change_fn(struct topo *t);

static void change_speed(struct topo *t)
{
	node_of(t, "nic0")->net.speed_mbit++;
}
static void change_width(struct topo *t)
{
	node_of(t, "gpu3")->pci.width = 4;
}
static void change_name(struct topo *t)
{
	node_of(t, "nic1")->name[0]++;
}
static void change_affinity(struct topo *t)
{
	struct topo_cpu *c = &node_of(t, "numa1")->cpu;

	c->nmask = 1;
	c->affinity[0] ^= 0x10;
}
static void change_bandwidth(struct topo *t)
{
	t->links[t->nlinks - 1].bw_gbps *= 1.0000001;
}
static void change_parent(struct topo *t)
{
	node_of(t, "gpu0")->parent = topo_find(t, "numa1");
}
static void change_end(struct topo *t)
{
	int gpu0 = topo_find(t, "gpu0"), gpu1 = topo_find(t, "gpu1");

	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == LINK_PCI && t->links[i].a == gpu0)
			t->links[i].a = gpu1;
}
static void change_iommu(struct topo *t)
{
	t->iommu = 1 - t->iommu;
}
static void change_acs(struct topo *t)
{
	node_of(t, "gpu0")->pci.acs = 1;
}
static void change_memory(struct topo *t)
{
	node_of(t, "gpu0")->gpu.memory += 1u << 30;
}

static void every_difference_is_found_and_named(void **state)
{
	static change_fn *const changes[] = { change_speed,	change_width,  change_name, change_affinity,
					      change_bandwidth, change_parent, change_end,  change_iommu,
					      change_acs,	change_memory };

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct topo *a = from_text(machines[1]), *b = from_text(machines[1]);
		char why[256] = "";

		changes[i](b);
		if (topo_equal(a, b, why, sizeof(why)) || !*why || topo_hash(a) == topo_hash(b))
			fail_msg("change %zu goes unseen: %s", i, why);
		topo_free(a);
		topo_free(b);
	}
}

static void the_difference_is_told(void **state)
{
	struct topo *a = from_text(machines[1]), *b = from_text(machines[1]), *c = from_text("gpu:4");
	char why[256] = "";

	(void)state;
	change_width(b);
	assert_false(topo_equal(a, b, why, sizeof(why)));
	assert_string_equal(why, "GPU 3 has no equal: what it is differs");
	assert_false(topo_equal(a, c, why, sizeof(why)));
	assert_string_equal(why, "2 and 1 NUMA nodes");
	topo_free(a);
	topo_free(b);
	topo_free(c);
}

static void who_a_machine_is_does_not_change_its_hash(void **state)
{
	struct topo *a = from_text(machines[1]), *b = from_text(machines[1]);

	(void)state;
	node_of(b, "nic0")->net.guid = 77;
	node_of(b, "numa0")->cpu.host_hash = 78;
	node_of(b, "gpu0")->gpu.rank = 5;
	node_of(b, "gpu0")->gpu.fabric_hash = 6;
	for (int i = 0; i < b->nnodes; i++)
		if (*b->nodes[i].pci.busid)
			snprintf(b->nodes[i].pci.busid, sizeof(b->nodes[i].pci.busid), "0007:%02x:00.%c", i,
				 a->nodes[i].pci.busid[strlen(a->nodes[i].pci.busid) - 1]);
	snprintf(b->source, sizeof(b->source), "other");
	topo_note(b, "a note");
	assert_int_equal(topo_hash(a), topo_hash(b));
	assert_false(topo_equal(a, b, NULL, 0));
	topo_free(a);
	topo_free(b);
}

static void peer_access_counts(void **state)
{
	struct topo *a = from_text("gpu:2"), *b = from_text("gpu:2");

	(void)state;
	a->p2p = mem_calloc(4, 1);
	assert_false(topo_equal(a, b, NULL, 0));
	assert_int_not_equal(topo_hash(a), topo_hash(b));
	b->p2p = mem_calloc(4, 1);
	assert_true(topo_equal(a, b, NULL, 0));
	b->p2p[1] = P2P_OK;
	assert_false(topo_equal(a, b, NULL, 0));
	topo_free(a);
	topo_free(b);
}

static void machines_in_another_order_are_equal(void **state)
{
	static const char text[] =
		"<system version='1'><cpu host_hash='0x%x' numaid='0'><pci busid='1:0.0'><gpu dev='0' "
		"sm='%d'/></pci></cpu><cpu host_hash='0x%x' numaid='0'><pci busid='1:0.0'><gpu "
		"dev='0' sm='%d'/></pci></cpu></system>";
	struct topo *a = NULL, *b = NULL;
	char xml[512];

	(void)state;
	snprintf(xml, sizeof(xml), text, 1, 80, 2, 90);
	assert_int_equal(topo_from_nccl_xml(&a, "a", xml, strlen(xml)), TAUT_OK);
	snprintf(xml, sizeof(xml), text, 2, 90, 1, 80);
	assert_int_equal(topo_from_nccl_xml(&b, "b", xml, strlen(xml)), TAUT_OK);
	assert_int_equal(a->nmachines, 2);
	assert_true(topo_equal(a, b, NULL, 0));
	assert_int_equal(topo_hash(a), topo_hash(b));
	topo_free(a);
	topo_free(b);
}

static void a_lack_of_memory_is_no_equality(void **state)
{
	struct topo *a = from_text("gpu:2"), *b = from_text("gpu:2");
	bool same = false;
	char why[64];
	long n;

	(void)state;
	for (n = 1; !same; n++) {
		mem_fail_from(n);
		same = topo_equal(a, b, why, sizeof(why));
		assert_true(same || !strcmp(why, "no memory to compare"));
	}
	assert_int_equal(n, 11);
	mem_fail_from(1);
	assert_int_equal(topo_hash(a), 0);
	mem_fail_from(0);
	topo_free(a);
	topo_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_permuted_copy_is_equal),
		cmocka_unit_test(other_machines_are_not),
		cmocka_unit_test(nodes_that_nothing_tells_apart_are_paired),
		cmocka_unit_test(what_only_looks_the_same_is_told_apart),
		cmocka_unit_test(every_difference_is_found_and_named),
		cmocka_unit_test(the_difference_is_told),
		cmocka_unit_test(who_a_machine_is_does_not_change_its_hash),
		cmocka_unit_test(peer_access_counts),
		cmocka_unit_test(machines_in_another_order_are_equal),
		cmocka_unit_test(a_lack_of_memory_is_no_equality),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
