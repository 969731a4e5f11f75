/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of nvidia-smi topo -m as they come: the graph has the matrix of the text again, whatever a terminal, a log or a
 * mail did to the text. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/smi.h"
#include "topo/smi_text.h"

static const char folder[] = "tests/golden/nvidia-smi-topo";

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static char *load(const char *name, size_t *len)
{
	char path[512];
	FILE *file;
	char *text = calloc(1, 1 << 20);

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	assert_non_null(file);
	*len = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	return text;
}

static struct topo *graph_of(const char *text, size_t len)
{
	struct topo *t = NULL;

	if (topo_from_smi(&t, "m.txt", text, len))
		fail_msg("%s in:\n%.*s", taut_error_message(), (int)len, text);
	return t;
}

static bool has_note(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return true;
	return false;
}

static void expect_error(const char *text, const char *message)
{
	struct topo *t = NULL;

	assert_int_equal(topo_from_smi(&t, "m.txt", text, strlen(text)), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(), message);
	assert_null(t);
}

/* GPUs in the order of their numbers, then ports as the matrix numbers them. */
static int devices(const struct topo *t, int *nodes)
{
	int n = t->count[TOPO_GPU], nets[SMI_MAX_DEVS], nnets = topo_matrix_nets(t, nets);

	memcpy(nodes, t->of[TOPO_GPU], (size_t)n * sizeof(*nodes));
	memcpy(nodes + n, nets, (size_t)nnets * sizeof(*nodes));
	return n + nnets;
}

static void check_matrix(const struct topo *t, const struct smi_matrix *m)
{
	int nodes[SMI_MAX_DEVS];

	assert_int_equal(devices(t, nodes), m->n);
	for (int i = 0; i < m->n; i++)
		for (int j = 0; j < m->n; j++) {
			const struct smi_cell *want = &m->cell[i * m->n + j];
			int nv, class = (int)smi_class_of(t, nodes[i], nodes[j], &nv);

			if (class != want->class || nv != want->nv)
				fail_msg("%s and %s: class %d (%d links) in the text, %d (%d) in the graph",
					 m->dev[i].label, m->dev[j].label, want->class, want->nv, class, nv);
		}
}

/* The matrix of the graph is that of the text, after a trip through NCCL's form too. */
static void check_round_trip(const char *text, size_t len)
{
	struct topo *t = graph_of(text, len), *again = NULL;
	struct smi_matrix *m = NULL;
	char *xml = NULL;

	assert_int_equal(smi_parse(&m, "m.txt", text, len), TAUT_OK);
	check_matrix(t, m);
	assert_int_equal(topo_to_nccl_xml(&xml, t), TAUT_OK);
	assert_int_equal(topo_from_nccl_xml(&again, "again.xml", xml, strlen(xml)), TAUT_OK);
	check_matrix(again, m);
	mem_free(xml);
	topo_free(again);
	smi_matrix_free(m);
	topo_free(t);
}

static const char *const names[] = { "4xgpu-nv1-pairs-odd-legend.txt", "4xgpu-phb-no-nvlink.txt",
				     "a100x8-10nic-dgx-style.txt", "gcp-a4-8xB200-8xCX7.txt", "h200x2-vm.txt" };
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void real_matrices_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < NAMES; i++) {
		size_t len;
		char *text = load(names[i], &len);

		check_round_trip(text, len);
		free(text);
	}
}

static const char wide[] = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\n"
			   "GPU0\t X \tPIX\tPXB\tNODE\tPIX\tPHB\tSYS\t0-3\t0\n"
			   "GPU1\tPIX\t X \tPXB\tNODE\tPIX\tPHB\tSYS\t0-3\t0\n"
			   "GPU2\tPXB\tPXB\t X \tNODE\tPXB\tPHB\tSYS\t0-3\t0\n"
			   "GPU3\tNODE\tNODE\tNODE\t X \tNODE\tNODE\tSYS\t0-3\t0\n"
			   "NIC0\tPIX\tPIX\tPXB\tNODE\t X \tPHB\tSYS\t\t\n"
			   "NIC1\tPHB\tPHB\tPHB\tNODE\tPHB\t X \tSYS\t\t\n"
			   "NIC2\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \t\t\n";

static void every_class_has_its_place_in_the_tree(void **state)
{
	struct topo *t;
	int gpu0, gpu2, nic1;

	(void)state;
	check_round_trip(wide, strlen(wide));
	t = graph_of(wide, strlen(wide));
	gpu0 = topo_find(t, "gpu0");
	gpu2 = topo_find(t, "gpu2");
	nic1 = t->nodes[topo_find(t, "NIC1")].parent;
	assert_int_equal(t->nodes[gpu0].parent, t->nodes[topo_find(t, "gpu1")].parent); /* PIX: one switch */
	assert_int_equal(t->nodes[t->nodes[gpu0].parent].parent, t->nodes[t->nodes[gpu2].parent].parent);
	assert_int_equal(t->nodes[nic1].pci.root, t->nodes[gpu0].pci.root); /* PHB */
	assert_int_not_equal(t->nodes[topo_find(t, "gpu3")].pci.root, t->nodes[gpu0].pci.root);
	assert_int_equal(t->count[TOPO_CPU], 2); /* NIC2 is SYS from all */
	topo_free(t);
}

/* --- what happens to texts --- */

/* At most @width columns a line; a tab that would pass the edge begins the next line. */
static char *wrap(const char *text, int width, bool strip)
{
	char *out = calloc(4, strlen(text) + 1);
	size_t n = 0;
	int column = 0;

	for (; *text; text++) {
		int next = *text == '\t' ? (column / 8 + 1) * 8 : column + 1;

		if (*text != '\n' && next > width) {
			while (strip && n && out[n - 1] == ' ')
				n--;
			out[n++] = '\n';
			next = *text == '\t' ? 8 : 1;
		}
		out[n++] = *text;
		column = *text == '\n' ? 0 : next;
	}
	return out;
}

/* Tabs as a terminal shows them. */
static char *expand(const char *text)
{
	char *out = calloc(8, strlen(text) + 1);
	size_t n = 0;
	int column = 0;

	for (; *text; text++) {
		if (*text == '\n') {
			out[n++] = '\n';
			column = 0;
			continue;
		}
		do {
			out[n++] = *text == '\t' ? ' ' : *text;
			column++;
		} while (*text == '\t' && column % 8);
	}
	return out;
}

/* @from becomes @to everywhere. */
static char *replace(const char *text, const char *from, const char *to)
{
	char *out = calloc(strlen(text) + 1, strlen(to) + 1);
	size_t n = 0;

	while (*text) {
		if (!strncmp(text, from, strlen(from))) {
			memcpy(out + n, to, strlen(to));
			n += strlen(to);
			text += strlen(from);
		} else {
			out[n++] = *text++;
		}
	}
	return out;
}

/* Both texts make the same graph with the same remarks. */
static void check_same(const char *a, const char *b)
{
	struct topo *ta = graph_of(a, strlen(a)), *tb = graph_of(b, strlen(b));
	char why[256] = "";

	if (!topo_equal(ta, tb, why, sizeof(why)))
		fail_msg("%s in:\n%s", why, b);
	assert_int_equal(ta->nnotes, tb->nnotes);
	topo_free(ta);
	topo_free(tb);
}

static void check_variant(const char *text, char *variant)
{
	check_same(text, variant);
	free(variant);
}

static char *with_colours(const char *text)
{
	char *header = replace(text, "\tGPU0\t", "\t\033[4mGPU0\t"),
	     *cells = replace(header, "SYS", "\033[1;31mSYS\033[0m");
	char *titled = calloc(1, strlen(cells) + 64);

	snprintf(titled, strlen(cells) + 64, "\xef\xbb\xbf\033]0;window\a%s\033(B", cells);
	free(header);
	free(cells);
	return titled;
}

static char *between_other_lines(const char *text)
{
	size_t len = strlen(text) + 256;
	char *out = calloc(1, len);

	snprintf(out, len,
		 "Sun Nov 29 12:00:00 2026\nroot@node7:~# nvidia-smi topo -m\n%s\nroot@node7:~# uptime\n 12:00:01 up 3 "
		 "days\n",
		 text);
	return out;
}

static void terminals_and_logs_do_not_matter(void **state)
{
	(void)state;
	for (int i = 0; i < NAMES; i++) {
		size_t len;
		char *text = load(names[i], &len), *begun = replace(text, "\033[4m", ""),
		     *plain = replace(begun, "\033[0m", "");
		char *blanks = expand(plain);

		check_variant(text, replace(text, "\n", "\r\n"));
		check_variant(text, with_colours(text));
		check_variant(text, between_other_lines(text));
		for (int width = 40; width < 170; width++) {
			check_variant(text, wrap(blanks, width, false));
			check_variant(text, wrap(plain, width, false));
		}
		check_variant(text, wrap(blanks, 80, true));
		check_variant(text, wrap(blanks, 132, true));
		check_same(text, blanks);
		free(blanks);
		free(begun);
		free(plain);
		free(text);
	}
}

static void old_headers_name_the_cards(void **state)
{
	char *old = replace(wide, "NIC0", "mlx5_0"), *older = replace(old, "NIC1", "mlx5_1"),
	     *oldest = replace(older, "NIC2", "hfi1_0");
	struct topo *t = graph_of(oldest, strlen(oldest));

	(void)state;
	check_round_trip(oldest, strlen(oldest));
	assert_true(topo_find(t, "mlx5_1") >= 0);
	assert_true(topo_find(t, "hfi1_0") >= 0);
	assert_false(has_note(t, "have no name"));
	topo_free(t);
	free(old);
	free(older);
	free(oldest);
}

static void the_legend_names_the_cards(void **state)
{
	char *text = calloc(1, 2048);
	struct topo *t;

	(void)state;
	snprintf(text, 2048, "%s\nNIC Legend:\n\n  NIC0: mlx5_7\n  NIC1: roceP2p1s0f0\n  NIC2: mlx5_bond_0\n", wide);
	t = graph_of(text, strlen(text));
	assert_int_equal(topo_find(t, "mlx5_7"), topo_find(t, "NIC0"));
	assert_true(topo_find(t, "mlx5_bond_0") >= 0);
	assert_false(has_note(t, "have no name"));
	topo_free(t);
	t = graph_of(wide, strlen(wide));
	assert_true(has_note(t, "3 NICs have no name"));
	topo_free(t);
	free(text);
}

static void columns_of_old_drivers_may_be_missing(void **state)
{
	static const char bare[] = " GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n";
	struct topo *t = graph_of(bare, strlen(bare));

	(void)state;
	check_round_trip(bare, strlen(bare));
	assert_int_equal(t->nodes[t->of[TOPO_CPU][0]].cpu.nmask, 0);
	assert_true(has_note(t, "no column NUMA Affinity"));
	topo_free(t);
}

static void affinities_are_read(void **state)
{
	static const char text[] = "     GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
				   "GPU0 X SYS 0-1,4-5,64 3 N/A\nGPU1 SYS X 2-3 1 N/A\n";
	struct topo *t = graph_of(text, strlen(text));
	const struct topo_node *numa1 = &t->nodes[t->of[TOPO_CPU][0]], *numa3 = &t->nodes[t->of[TOPO_CPU][1]];

	(void)state;
	assert_int_equal(numa1->cpu.numa, 1);
	assert_int_equal(numa3->cpu.numa, 3);
	assert_int_equal(numa3->cpu.nmask, 3);
	assert_int_equal(numa3->cpu.affinity[0], 0x33);
	assert_int_equal(numa3->cpu.affinity[2], 1);
	assert_int_equal(numa1->cpu.affinity[0], 0xc);
	topo_free(t);
}

/* --- cut and odd matrices --- */

static void cut_lines_are_filled_from_the_other_half(void **state)
{
	/* whole rows of GPUs, then rows cut by the edge of a window, in the middle of cells too */
	static const char cut[] =
		" GPU0 GPU1 GPU2 NIC0\nGPU0 X NV12 NV12 PIX\nGPU1 NV12 X NV12 NODE\nGPU2 NV12 NV1\nNIC0 PIX NO";
	struct topo *t = graph_of(cut, strlen(cut));
	int nv;

	(void)state;
	assert_true(has_note(t, "cells that the text lacks"));
	assert_true(has_note(t, "1 pairs are in neither half"));
	assert_int_equal(smi_class_of(t, topo_find(t, "gpu1"), topo_find(t, "gpu2"), &nv), SMI_NV);
	assert_int_equal(nv, 12);
	assert_int_equal(smi_class_of(t, topo_find(t, "gpu1"), topo_find(t, "NIC0"), &nv), SMI_NODE);
	topo_free(t);
}

static void a_cut_header_of_the_last_row_is_no_row(void **state)
{
	static const char cut[] = " GPU0 GPU1\nGPU0 X PIX\nGPU1\n";

	(void)state;
	check_round_trip(cut, strlen(cut));
}

static void odd_matrices_give_a_guess_and_a_note(void **state)
{
	static const char odd[] = " GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X PIX\nGPU2 SYS PIX X\n";
	static const char skew[] = " GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n";
	struct topo *t = graph_of(odd, strlen(odd));

	(void)state;
	assert_true(has_note(
		t, "no PCI tree has this matrix: 1 pairs are nearer here than in the text, the first GPU0 and GPU2, "
		   "which are SYS there and PIX here"));
	topo_free(t);
	t = graph_of(skew, strlen(skew));
	assert_true(has_note(t, "row GPU0 and row GPU1 do not agree"));
	topo_free(t);
}

static char *all_to_all(int n, int nv)
{
	char *text = calloc(1, 65536);
	size_t at = 0;

	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, 65536 - at, "\tGPU%d", i);
	for (int i = 0; i < n; i++) {
		at += (size_t)snprintf(text + at, 65536 - at, "\nGPU%d", i);
		for (int j = 0; j < n; j++)
			at += i == j ? (size_t)snprintf(text + at, 65536 - at, "\t X ")
				     : (size_t)snprintf(text + at, 65536 - at, "\tNV%d", nv);
	}
	return text;
}

/* NVSwitches where the GPUs would need more links than any GPU has. */
static void check_switches(int n, int nv, int switches, int links)
{
	char *text = all_to_all(n, nv);
	struct topo *t = graph_of(text, strlen(text));

	check_round_trip(text, strlen(text));
	assert_int_equal(t->count[TOPO_NVS], switches);
	assert_int_equal(t->nodes[t->of[TOPO_GPU][0]].gpu.nvlinks, links);
	assert_int_equal(has_note(t, "taken to go through NVSwitches"), switches);
	topo_free(t);
	free(text);
}

static void all_to_all_is_a_switch_or_a_mesh(void **state)
{
	(void)state;
	check_switches(8, 18, 1, 18); /* HGX H100 */
	check_switches(8, 12, 1, 12);
	check_switches(16, 6, 1, 6); /* DGX-2 */
	check_switches(4, 6, 0, 18); /* HGX H100 of four: direct */
	check_switches(4, 4, 0, 12); /* A100 of four */
	check_switches(2, 18, 0, 18);
}

static void what_is_no_matrix_is_told_by_line_and_column(void **state)
{
	(void)state;
	expect_error("", "m.txt:1:1: no line with GPU0 GPU1 ...: this is not the output of `nvidia-smi topo -m`");
	expect_error("nothing\nhere\n",
		     "m.txt:1:1: no line with GPU0 GPU1 ...: this is not the output of `nvidia-smi topo -m`");
	expect_error("GPU0 X PIX\nGPU1 PIX X\n",
		     "m.txt:1:1: row GPU0 before a header: the line with GPU0 GPU1 ... is missing");
	expect_error(" GPU0 GPU1\n\n", "m.txt:2:1: the header has no row below it");
	expect_error(" GPU0 GPU1\nGPU0 X PIY\n",
		     "m.txt:2:8: \"PIY\" between GPU0 and GPU1: X, NV#, PIX, PXB, PHB, NODE or SYS is wanted");
	expect_error(
		" GPU0 GPU1\n\033[1mGPU0\033[0m X OK\n",
		"m.txt:2:16: \"OK\" is a cell of `nvidia-smi topo -p2p`: the output of `nvidia-smi topo -m` is wanted");
	expect_error(" GPU0 GPU1\nGPU0 X XGMI\n",
		     "m.txt:2:8: \"XGMI\" belongs to `rocm-smi --showtopo`, not to `nvidia-smi topo -m`");
	expect_error(" GPU0 GPU1\nGPU0 X X\n", "m.txt:2:8: X between GPU0 and GPU1");
	expect_error(" GPU0 GPU1\nGPU0 PIX\n", "m.txt:2:6: no X between GPU0 and GPU0: is a column missing?");
	expect_error(" GPU0 GPU0\nGPU0 X\n", "m.txt:1:7: GPU0 stands twice in the header");
	expect_error(" GPU0 GPU1\nGPU2 X PIX\n", "m.txt:2:1: row GPU2 has no column in the header");
	expect_error(" GPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX\n", "m.txt:3:1: a second row GPU0");
	expect_error(" GPU0 GPU1\nGPU0 X PIX 0-7\n", "m.txt:2:12: \"0-7\" after the last column of the header");
	expect_error(" GPU0 NIC0\nGPU0 X NV4\n", "m.txt:2:8: NV4 between GPU0 and NIC0: only GPUs have NVLinks");
}

static void the_peer_access_matrix_is_told_apart(void **state)
{
	size_t len;
	char *text = load("gcp-k80x4-p2p-read.txt", &len);
	struct topo *t = NULL;

	(void)state;
	assert_int_equal(topo_from_smi(&t, "m.txt", text, len), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(),
			    "m.txt:2:17: \"OK\" is a cell of `nvidia-smi topo -p2p`: the output of "
			    "`nvidia-smi topo -m` is wanted");
	free(text);
}

static void a_second_matrix_is_noted(void **state)
{
	char *text = calloc(2, sizeof(wide));
	struct topo *t;

	(void)state;
	strcpy(text, wide);
	strcat(text, wide);
	t = graph_of(text, strlen(text));
	assert_true(has_note(t, "a second matrix"));
	topo_free(t);
	free(text);
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_from_smi(&t, "m.txt", wide, strlen(wide));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_matrices_come_back),
		cmocka_unit_test(every_class_has_its_place_in_the_tree),
		cmocka_unit_test(terminals_and_logs_do_not_matter),
		cmocka_unit_test(old_headers_name_the_cards),
		cmocka_unit_test(the_legend_names_the_cards),
		cmocka_unit_test(columns_of_old_drivers_may_be_missing),
		cmocka_unit_test(affinities_are_read),
		cmocka_unit_test(cut_lines_are_filled_from_the_other_half),
		cmocka_unit_test(a_cut_header_of_the_last_row_is_no_row),
		cmocka_unit_test(odd_matrices_give_a_guess_and_a_note),
		cmocka_unit_test(all_to_all_is_a_switch_or_a_mesh),
		cmocka_unit_test(what_is_no_matrix_is_told_by_line_and_column),
		cmocka_unit_test(the_peer_access_matrix_is_told_apart),
		cmocka_unit_test(a_second_matrix_is_noted),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	log_set_sink(drop_line, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
