/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of captured machines: tests/golden/channels/rings.txt has what is found and the bound, and names the machines.
 * TAUT_UPDATE_GOLDEN=1 writes it again. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/channels.h"

static const char golden[] = "tests/golden/channels/rings.txt";

enum { LINES_MAX = 128, LINE = 256 };

struct lines {
	int n;
	char line[LINES_MAX][LINE];
};

static struct lines read_golden(void)
{
	struct lines l = { 0 };
	FILE *file = fopen(golden, "r");

	if (!file)
		fail_msg("%s is missing", golden);
	while (l.n < LINES_MAX && fgets(l.line[l.n], LINE, file))
		l.n++;
	fclose(file);
	return l;
}

/* What NCCL documents for machines like these, in GB/s over one node or several: graph files in
 * tests/golden/nccl-graph. The graph file of 4x A100 PCIe (24 GB/s) uses NVLinks that its topology file does not
 * have: there each GPU's link goes to the GPU itself. */
static double documented(const char *machine, int nnodes)
{
	static const struct {
		const char *machine;
		int nnodes;
		double total;
	} known[] = {
		{ "nccl-topo/own-h200x2.xml", 1, 12 * 30 },
		{ "nccl-topo/8x3090-fdr-ib.xml", 2, 4 },
		{ "nccl-topo/azure-nc48v4-2xA100.xml", 1, 2 * 12 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].machine, machine) && known[i].nnodes == nnodes)
			return known[i].total;
	return 0;
}

static void rings(char *out, size_t len, const char *machine, const struct topo *t, const struct topo_paths *p,
		  int nnodes)
{
	struct channels_req req = { .pattern = PATTERN_RING, .nnodes = nnodes, .cross_nic = 2, .pxn = true };
	char why[320], wrong[320];
	struct channels *c = NULL;
	double bound;

	if (channels_find(&c, t, p, &req))
		fail_msg("%s: %s", machine, taut_error_message());
	if (channels_check(c, t, p, wrong, sizeof(wrong)))
		fail_msg("%s, %d nodes: %s", machine, nnodes, channels_check(c, t, p, wrong, sizeof(wrong)));
	bound = channels_bound(t, p, &req, why, sizeof(why));
	if (c->total_gbps > bound * (1 + 1e-6) || c->total_gbps < 0.95 * bound)
		fail_msg("%s, %d nodes: %.3f GB/s, bound %.3f (%s)", machine, nnodes, c->total_gbps, bound, why);
	if (c->total_gbps < documented(machine, nnodes))
		fail_msg("%s, %d nodes: %.3f GB/s, NCCL has %.3f", machine, nnodes, c->total_gbps,
			 documented(machine, nnodes));
	snprintf(out, len, " | %2d %6.1f %6.1f %5.3f", c->n, c->total_gbps, bound,
		 bound > 0 ? c->total_gbps / bound : 1);
	channels_free(c);
}

static void line_of(char out[LINE], const char *machine)
{
	char path[128], alone[64], more[64] = " | -";
	struct topo *t = NULL;
	struct topo_paths *p = NULL;

	snprintf(path, sizeof(path), "tests/golden/%s", machine);
	if (topo_read_file(&t, path, TOPO_FORM_AUTO))
		fail_msg("%s", taut_error_message());
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	rings(alone, sizeof(alone), machine, t, p, 1);
	if (t->count[TOPO_NET])
		rings(more, sizeof(more), machine, t, p, 2);
	snprintf(out, LINE, "%-44s %2d%s%s\n", machine, t->count[TOPO_GPU], alone, more);
	paths_free(p);
	topo_free(t);
}

static void captured_machines_have_their_rings(void **state)
{
	struct lines l = read_golden();
	bool update = getenv("TAUT_UPDATE_GOLDEN");
	FILE *file = update ? fopen(golden, "w") : NULL;

	(void)state;
	assert_int_equal(update, file != NULL);
	assert_true(l.n > 40);
	for (int i = 0; i < l.n; i++) {
		char machine[64], now[LINE];

		if (l.line[i][0] == '#') {
			snprintf(now, sizeof(now), "%s", l.line[i]);
		} else {
			assert_int_equal(sscanf(l.line[i], "%63s", machine), 1);
			line_of(now, machine);
		}
		if (file)
			fputs(now, file);
		else
			assert_string_equal(now, l.line[i]);
	}
	if (file)
		fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_machines_have_their_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
