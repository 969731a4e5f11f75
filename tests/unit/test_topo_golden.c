/* SPDX-License-Identifier: Apache-2.0 */
/* Every file of tests/golden/nccl-topo, hwloc, nvidia-smi-topo and rocm-smi-topo: its graph as text is FILE.graph.txt
 * (TAUT_UPDATE_GOLDEN=1 writes it). One of NCCL's, once written and read again, is the same graph. */
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo.h"

static const char folder[] = "tests/golden/nccl-topo";

/* --- files --- */

enum { TEXT_MAX = 1 << 20 };

static char *load(const char *path, size_t *len)
{
	char *text = calloc(1, TEXT_MAX);
	FILE *f = fopen(path, "rb");

	*len = 0;
	if (f) {
		*len = fread(text, 1, TEXT_MAX - 1, f);
		fclose(f);
	}
	return text;
}

/* Not what is expected, nor the one that is refused. */
static int is_input(const struct dirent *d)
{
	return *d->d_name != '.' && !strstr(d->d_name, ".graph.txt") && !strstr(d->d_name, "p2p");
}

/* --- a graph as text --- */

static const char *const kinds[TOPO_KINDS] = { "NUMA nodes", "PCI", "GPUs", "NVSwitch", "cards", "ports" };
static const char *const links[LINK_KINDS] = { "PCI", "NVLink", "XGMI", "C2C", "SMP", "net" };

/* Bandwidth of the link upwards. */
static void put_up(FILE *out, const struct topo *t, int node)
{
	for (int i = 0; i < t->nodes[node].nlinks; i++) {
		const struct topo_link *l = &t->links[t->nodes[node].links[i]];
		int other = l->a == node ? l->b : l->a;

		if (other == t->nodes[node].parent && (l->kind == LINK_PCI || l->kind == LINK_NET))
			fprintf(out, ", x%d %.2f GB/s", l->count, l->bw_gbps);
	}
}

static void put_details(FILE *out, const struct topo_node *n)
{
	char mask[256];

	switch (n->kind) {
	case TOPO_CPU:
		fprintf(out, ": %s %s %d/%d, processors %s", n->cpu.arch, n->cpu.vendor, n->cpu.family, n->cpu.model,
			topo_mask_list(n->cpu.affinity, n->cpu.nmask, mask, sizeof(mask)));
		break;
	case TOPO_GPU:
		fprintf(out, ": %s sm %d %s rank %d gdr %d, %d NVLinks%s", n->pci.busid, n->gpu.sm, n->gpu.gcn,
			n->gpu.rank, n->gpu.gdr, n->gpu.nvlinks, n->gpu.listed ? "" : ", not listed");
		break;
	case TOPO_NET:
		fprintf(out, ": dev %d port %d guid %llx %ld Mbit/s gdr %d", n->net.dev, n->net.port,
			(unsigned long long)n->net.guid, n->net.speed_mbit, n->net.gdr);
		break;
	case TOPO_NVS:
		fprintf(out, ": %d", n->switches);
		break;
	default:
		fprintf(out, ": class %06x", n->pci.class);
	}
}

static void put_tree(FILE *out, const struct topo *t, int node, int indent)
{
	char name[96];

	fprintf(out, "%*s%s", indent, "", topo_name(t, node, name, sizeof(name)));
	put_details(out, &t->nodes[node]);
	put_up(out, t, node);
	fprintf(out, "\n");
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].parent == node)
			put_tree(out, t, i, indent + 2);
}

static void put_links(FILE *out, const struct topo *t)
{
	char a[96], b[96];

	for (int i = 0; i < t->nlinks; i++) {
		const struct topo_link *l = &t->links[i];

		if (t->nodes[l->a].parent == l->b || t->nodes[l->b].parent == l->a)
			continue;
		fprintf(out, "%s - %s: %d %s, %.2f GB/s\n", topo_name(t, l->a, a, sizeof(a)),
			topo_name(t, l->b, b, sizeof(b)), l->count, links[l->kind], l->bw_gbps);
	}
}

/* The caller's. */
static char *as_text(const struct topo *t)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (int k = 0; k < TOPO_KINDS; k++)
		fprintf(out, "%s%d %s", k ? ", " : "", t->count[k], kinds[k]);
	fprintf(out, ", %d machines\n", t->nmachines);
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].parent < 0)
			put_tree(out, t, i, 0);
	put_links(out, t);
	for (int i = 0; i < t->nnotes; i++)
		fprintf(out, "note: %s\n", t->notes[i].text);
	fclose(out);
	return text;
}

/* --- each file --- */

static void compare_with(const char *path, const char *text)
{
	char name[600], *expected;
	size_t len;

	snprintf(name, sizeof(name), "%s.graph.txt", path);
	if (getenv("TAUT_UPDATE_GOLDEN")) {
		FILE *f = fopen(name, "w");

		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	expected = load(name, &len);
	if (strcmp(expected, text))
		fail_msg("%s: the graph is another (TAUT_UPDATE_GOLDEN=1 takes it):\n%s", name, text);
	free(expected);
}

static void comes_back(const struct topo *t, const char *path)
{
	char *text = NULL, why[256];
	struct topo *again = NULL;

	assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
	assert_int_equal(topo_read(&again, "again", text, strlen(text), TOPO_FORM_AUTO), TAUT_OK);
	if (!topo_equal(t, again, why, sizeof(why)))
		fail_msg("%s comes back otherwise: %s", path, why);
	assert_true(topo_hash(t) == topo_hash(again));
	mem_free(text);
	topo_free(again);
}

static void check_file(const char *path, bool nccl)
{
	struct topo *t = NULL;
	char *text;

	if (topo_read_file(&t, path, TOPO_FORM_AUTO))
		fail_msg("%s", taut_error_message());
	text = as_text(t);
	compare_with(path, text);
	if (nccl)
		comes_back(t, path);
	free(text);
	topo_free(t);
}

static void check_folder(const char *name, int least)
{
	struct dirent **names;
	int n = scandir(name, &names, is_input, alphasort);
	char path[512];

	assert_true(n >= least);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", name, names[i]->d_name);
		check_file(path, !strcmp(name, folder));
		free(names[i]);
	}
	free(names);
}

static void every_file_gives_the_graph_that_was_reviewed(void **state)
{
	(void)state;
	check_folder(folder, 36);
}

static void so_do_files_of_other_tools(void **state)
{
	(void)state;
	check_folder("tests/golden/hwloc", 14);
	check_folder("tests/golden/nvidia-smi-topo", 5);
	check_folder("tests/golden/rocm-smi-topo", 1);
}

/* Without the attribute @key=" ... ". */
static void drop_attr(char *text, const char *key)
{
	char *at, *end;

	while ((at = strstr(text, key)) != NULL) {
		end = strchr(at + strlen(key), '"');
		assert_non_null(end);
		memmove(at, end + 1, strlen(end + 1) + 1);
	}
}

/* What NCCL and RCCL have dumped comes out letter by letter, but for latency: older ones had it at another place. */
static void dumps_come_out_as_they_were(void **state)
{
	static const char *const dumps[] = { "own-h200x2.xml", "8xada-10geth.xml", "8x3090-fdr-ib.xml",
					     "azure-nc48v4-2xA100.xml", "rocm-8p_940.xml" };
	char path[512], *given, *text;
	struct topo *t = NULL;
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, dumps[i]);
		given = load(path, &len);
		assert_int_equal(topo_read(&t, path, given, len, TOPO_FORM_AUTO), TAUT_OK);
		assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
		if (i > 0) {
			drop_attr(given, " latency=\"");
			drop_attr(text, " latency=\"");
		}
		assert_string_equal(text, given);
		mem_free(text);
		free(given);
		topo_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_file_gives_the_graph_that_was_reviewed),
		cmocka_unit_test(so_do_files_of_other_tools),
		cmocka_unit_test(dumps_come_out_as_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
