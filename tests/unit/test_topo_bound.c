/* SPDX-License-Identifier: Apache-2.0 */
/* The bound against all rings of small machines: rings are filled one after another in every order that chance gives,
 * and no filling may carry more than the bound, or much more than the search found. */
#include "topo_machines.h"

#include "topo/channels.h"

enum { GPUS_MAX = 5, RINGS_MAX = 24 * 4, LINKS_MAX = 64, FILLINGS = 400 };

struct all_rings {
	struct topo *t;
	struct topo_paths *p;
	int n, inter;
	double *load[RINGS_MAX]; /* [2 * nlinks] of one GB/s */
};

static void add_way(struct all_rings *a, double *load, int from, int to)
{
	int links[LINKS_MAX], n = paths_links(a->p, from, to, links, LINKS_MAX), at = from;

	assert_in_range(n, 1, LINKS_MAX);
	for (int i = 0; i < n; i++) {
		const struct topo_link *l = &a->t->links[links[i]];

		load[2 * links[i] + (l->a != at)] += 1;
		at = l->a == at ? l->b : l->a;
	}
}

static void add_ring(struct all_rings *a, const int *order, int port)
{
	int ngpus = a->t->count[TOPO_GPU];
	double *load = test_calloc(2 * (size_t)a->t->nlinks, sizeof(double));

	assert_true(a->n < RINGS_MAX);
	a->load[a->n++] = load;
	for (int i = 0; i + 1 < ngpus; i++)
		add_way(a, load, order[i], order[i + 1]);
	if (port < 0) {
		add_way(a, load, order[ngpus - 1], order[0]);
		return;
	}
	add_way(a, load, port, order[0]);
	add_way(a, load, order[ngpus - 1], port);
}

/* All orders of the places from @from on. */
static void add_orders(struct all_rings *a, int *order, int from, int port)
{
	int ngpus = a->t->count[TOPO_GPU];

	if (from == ngpus) {
		add_ring(a, order, port);
		return;
	}
	for (int i = from; i < ngpus; i++) {
		int first = order[from];

		order[from] = order[i];
		order[i] = first;
		add_orders(a, order, from + 1, port);
		order[i] = order[from];
		order[from] = first;
	}
}

/* As much of a ring as fits, or a part of it. */
static double fill(const struct all_rings *a, int ring, double part, double *left)
{
	double rate = 1e9;

	for (int arc = 0; arc < 2 * a->t->nlinks; arc++)
		if (a->load[ring][arc] > 0 && left[arc] / a->load[ring][arc] < rate)
			rate = left[arc] / a->load[ring][arc];
	rate = rate > 0 ? rate * part : 0;
	for (int arc = 0; arc < 2 * a->t->nlinks; arc++)
		left[arc] -= rate * a->load[ring][arc];
	return rate;
}

static double best_filling(const struct all_rings *a, uint64_t seed)
{
	double *left = test_calloc(2 * (size_t)a->t->nlinks, sizeof(double)), best = 0;

	for (int filling = 0; filling < FILLINGS; filling++) {
		double total = 0;

		for (int arc = 0; arc < 2 * a->t->nlinks; arc++)
			left[arc] = a->t->links[arc / 2].bw_gbps;
		for (int k = 0; k < 3 * a->n; k++)
			total += fill(a, (int)machine_random(&seed, (unsigned)a->n),
				      (1 + machine_random(&seed, 2)) / 2.0, left);
		for (int k = 0; k < a->n; k++)
			total += fill(a, k, 1, left);
		best = total > best ? total : best;
	}
	test_free(left);
	return best;
}

static void compare(struct all_rings *a, const struct channels_req *req, uint64_t seed)
{
	double bound, best = best_filling(a, seed);
	struct channels *c;
	char why[320];

	bound = channels_bound(a->t, a->p, req, why, sizeof(why));
	assert_int_equal(channels_find(&c, a->t, a->p, req), TAUT_OK);
	if (best > bound * (1 + 1e-6))
		fail_msg("seed %d, %d nodes: a filling carries %.3f GB/s, the bound is %.3f (%s)", (int)seed,
			 req->nnodes, best, bound, why);
	if (c->total_gbps < 0.97 * best)
		fail_msg("seed %d, %d nodes: found %.3f GB/s, a filling carries %.3f", (int)seed, req->nnodes,
			 c->total_gbps, best);
	channels_free(c);
}

static void compare_all(uint64_t seed, int ngpus, int nnodes)
{
	struct channels_req req = { .pattern = PATTERN_RING, .nnodes = nnodes, .pxn = true };
	struct all_rings a = { .t = machine_chance(seed, ngpus) };
	int order[GPUS_MAX];

	assert_int_equal(paths_create(&a.p, a.t, &path_rules_default), TAUT_OK);
	memcpy(order, a.t->of[TOPO_GPU], (size_t)ngpus * sizeof(int));
	if (nnodes == 1)
		add_orders(&a, order, 1, -1);
	for (int i = 0; nnodes > 1 && i < a.t->count[TOPO_NET]; i++)
		add_orders(&a, order, 0, a.t->of[TOPO_NET][i]);
	if (a.n)
		compare(&a, &req, seed);
	for (int i = 0; i < a.n; i++)
		test_free(a.load[i]);
	paths_free(a.p);
	topo_free(a.t);
}

static void no_filling_of_a_small_machine_is_above_the_bound(void **state)
{
	(void)state;
	for (uint64_t seed = 100; seed < 140; seed++)
		compare_all(seed, 2 + (int)(seed % 4), 1);
}

static void no_filling_over_ports_is_above_the_bound(void **state)
{
	(void)state;
	for (uint64_t seed = 200; seed < 230; seed++)
		compare_all(seed, 2 + (int)(seed % 3), 2);
}

static void the_bound_names_what_limits(void **state)
{
	struct channels_req req = { .pattern = PATTERN_RING, .nnodes = 1, .pxn = true };
	struct topo *t = machine_nvswitch(2, 8, 18, 4, 100000);
	struct topo_paths *p;
	char why[320];

	(void)state;
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	assert_true(channels_bound(t, p, &req, why, sizeof(why)) > 370);
	assert_string_equal(why, "370.8 GB/s one way over GPU 0 to NVSwitch (18 NVLink, 370.8 GB/s)");
	req.nnodes = 2;
	assert_true(channels_bound(t, p, &req, why, sizeof(why)) == 50);
	assert_non_null(strstr(why, "mlx5_3"));
	assert_non_null(strstr(why, "port, 12.5 GB/s"));
	req.pattern = PATTERN_TREE;
	req.nnodes = 1;
	assert_true(channels_bound(t, p, &req, why, sizeof(why)) > 370.8 * 8 / 7 - 0.1);
	assert_non_null(strstr(why, "leave all 8 GPUs"));
	assert_true(channels_bound(t, p, &req, NULL, 0) > 370);
	paths_free(p);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_filling_of_a_small_machine_is_above_the_bound),
		cmocka_unit_test(no_filling_over_ports_is_above_the_bound),
		cmocka_unit_test(the_bound_names_what_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
