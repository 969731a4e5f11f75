/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's graph XML: files that NCCL wrote come back letter by letter, and bad ones are told by line and column. */
#include "topo_machines.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/channels.h"

static char *read_text(const char *path)
{
	char *text = test_calloc(1, 1 << 16);
	FILE *file = fopen(path, "rb");

	if (!file)
		fail_msg("%s is missing", path);
	assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
	fclose(file);
	return text;
}

static struct topo *read_topo(const char *path)
{
	struct topo *t = NULL;

	if (topo_read_file(&t, path, TOPO_FORM_AUTO))
		fail_msg("%s", taut_error_message());
	return t;
}

static struct channels *read_graph(const struct topo *t, enum channel_pattern pattern, const char *text)
{
	struct channels *c = NULL;

	if (channels_from_xml(&c, t, pattern, "graph.xml", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return c;
}

/* NCCL before 2.27 wrote dev="1" for dev="0x1". */
static void to_old_numbers(char *text)
{
	char *in = text, *out = text;

	while (*in) {
		if (!strncmp(in, "\"0x", 3)) {
			out += sprintf(out, "\"%ld", strtol(in + 1, &in, 16));
			continue;
		}
		*out++ = *in++;
	}
	*out = '\0';
}

static void comes_back(const char *topo, const char *graph, const enum channel_pattern *patterns, int n, bool old)
{
	struct topo *t = read_topo(topo);
	char *text = read_text(graph), *again = NULL;
	struct channels *c[8];

	for (int i = 0; i < n; i++)
		c[i] = read_graph(t, patterns[i], text);
	assert_int_equal(channels_to_xml(&again, t, (const struct channels *const *)c, n), TAUT_OK);
	if (old)
		to_old_numbers(again);
	assert_string_equal(again, text);
	for (int i = 0; i < n; i++)
		channels_free(c[i]);
	mem_free(again);
	test_free(text);
	topo_free(t);
}

static void files_of_nccl_come_back_letter_by_letter(void **state)
{
	static const enum channel_pattern all[] = { PATTERN_RING, PATTERN_BALANCED_TREE, PATTERN_COLLNET, PATTERN_TREE,
						    PATTERN_NVLS };
	static const enum channel_pattern some[] = { PATTERN_RING, PATTERN_BALANCED_TREE, PATTERN_TREE, PATTERN_NVLS };

	(void)state;
	comes_back("tests/golden/nccl-topo/own-h200x2.xml", "tests/golden/nccl-graph/own-h200x2-graph.xml", all, 5,
		   false);
	comes_back("tests/golden/nccl-topo/8x3090-fdr-ib.xml", "tests/golden/nccl-graph/8x3090-graph.xml", some, 4,
		   true);
	comes_back("tests/golden/nccl-topo/azure-nc48v4-2xA100.xml", "tests/golden/nccl-graph/azure-nc48v4-graph.xml",
		   some, 3, true);
	comes_back("gpu:4", "tests/golden/nccl-graph/azure-ncv4-graph.xml", some, 3, true);
}

/* What NCCL found on a machine is sound by our own count, and ours is no worse. */
static void channels_of_nccl_are_sound_and_ours_no_worse(void **state)
{
	struct topo *t = read_topo("tests/golden/nccl-topo/own-h200x2.xml");
	char *text = read_text("tests/golden/nccl-graph/own-h200x2-graph.xml"), buf[320];
	static const enum channel_pattern patterns[] = { PATTERN_RING, PATTERN_BALANCED_TREE };
	struct topo_paths *p;

	(void)state;
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	for (int i = 0; i < 2; i++) {
		struct channels_req req = { .pattern = patterns[i], .nnodes = 1 };
		struct channels *nccl = read_graph(t, patterns[i], text), *ours;

		assert_int_equal(nccl->n, 12);
		assert_true(nccl->total_gbps == (i ? 720 : 360));
		assert_null(channels_check(nccl, t, p, buf, sizeof(buf)));
		assert_int_equal(channels_find(&ours, t, p, &req), TAUT_OK);
		assert_true(ours->total_gbps >= nccl->total_gbps);
		channels_free(nccl);
		channels_free(ours);
	}
	paths_free(p);
	topo_free(t);
	test_free(text);
}

static void what_is_found_comes_back(void **state)
{
	struct topo *t = machine_dgx1v(4);
	struct channels *c[3], *again;
	struct topo_paths *p;
	char *text, *text_again;

	(void)state;
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	for (int i = 0; i < 3; i++) {
		struct channels_req req = { .pattern =
						    i ? (i == 1 ? PATTERN_BALANCED_TREE : PATTERN_NVLS) : PATTERN_RING,
					    .nnodes = 2,
					    .pxn = true };

		assert_int_equal(channels_find(&c[i], t, p, &req), TAUT_OK);
	}
	assert_int_equal(channels_to_xml(&text, t, (const struct channels *const *)c, 3), TAUT_OK);
	again = read_graph(t, PATTERN_RING, text);
	assert_int_equal(again->n, c[0]->n);
	for (int i = 0; i < again->n; i++) {
		assert_int_equal(again->ch[i].net_in, c[0]->ch[i].net_in);
		assert_memory_equal(again->ch[i].gpus, c[0]->ch[i].gpus, 8 * sizeof(int));
	}
	channels_free(c[0]);
	c[0] = again;
	assert_int_equal(channels_to_xml(&text_again, t, (const struct channels *const *)c, 3), TAUT_OK);
	assert_string_equal(text_again, text);
	for (int i = 0; i < 3; i++)
		channels_free(c[i]);
	mem_free(text);
	mem_free(text_again);
	paths_free(p);
	topo_free(t);
}

static void nvls_is_written_as_its_leaders(void **state)
{
	struct topo *t = machine_nvswitch(1, 4, 18, 0, 0);
	struct channels_req req = { .pattern = PATTERN_NVLS, .nnodes = 1 };
	struct channels *c, *again;
	struct topo_paths *p;
	const char *at;
	char *text;
	int gpus = 0;

	(void)state;
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	assert_int_equal(channels_find(&c, t, p, &req), TAUT_OK);
	assert_int_equal(channels_to_xml(&text, t, (const struct channels *const *)&c, 1), TAUT_OK);
	for (at = strstr(text, "<gpu"); at; at = strstr(at + 1, "<gpu"))
		gpus++;
	assert_int_equal(gpus, 4);
	again = read_graph(t, PATTERN_NVLS, text);
	assert_int_equal(again->n, 4);
	assert_int_equal(again->ch[2].gpus[0], t->of[TOPO_GPU][2]);
	assert_int_equal(again->ch[2].gpus[1], t->of[TOPO_GPU][0]);
	channels_free(c);
	channels_free(again);
	mem_free(text);
	paths_free(p);
	topo_free(t);
}

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

#define GRAPH "<graphs version=\"1\">\n <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"20\" "
#define TYPES "speedinter=\"20\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">\n"
#define ENDS "</graph>\n</graphs>\n"

static void bad_files_are_told_by_line_and_column(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "<system/>", "graph.xml:1:1: <system>: <graphs> was expected" },
		{ "<graphs><channel/></graphs>", "graph.xml:1:9: <channel>: <graph> was expected" },
		{ "<graphs version=\"1\"/>", "no graph of pattern 4" },
		{ "<graphs><graph id=\"0\"/></graphs>", "attribute pattern is missing" },
		{ "<graphs><graph id=\"0\" pattern=\"9\"/></graphs>", "a whole number from 1 to 6" },
		{ "<graphs><graph id=\"0\" pattern=\"4\"/></graphs>", "attribute crossnic is missing" },
		{ "<graphs>\n<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"65\"/></graphs>",
		  "graph.xml:2:1: <graph>: nchannels is \"65\": a whole number from 0 to 64" },
		{ GRAPH "speedinter=\"-1\" samechannels=\"1\" typeintra=\"NVL\" typeinter=\"PIX\">" ENDS,
		  "speedinter is \"-1\": GB/s" },
		{ GRAPH "speedinter=\"1.5.2\" samechannels=\"1\" typeintra=\"NVL\" typeinter=\"PIX\">" ENDS,
		  "speedinter is \"1.5.2\"" },
		{ GRAPH "speedinter=\"1\" samechannels=\"1\" typeintra=\"NV\" typeinter=\"PIX\">" ENDS,
		  "typeintra is \"NV\": LOC, NVL" },
		{ GRAPH TYPES ENDS, "says 1 channels and has 0" },
		{ GRAPH TYPES "<channel/><channel/>" ENDS, "the channel has 0 gpus" },
		{ GRAPH TYPES "<gpu dev=\"0\"/>" ENDS, "graph.xml:3:1: <gpu>: in a graph only channel" },
		{ GRAPH TYPES "<channel><gpu dev=\"0\"/>\n<gpu dev=\"0x0\"/></channel>" ENDS,
		  "graph.xml:4:1: <gpu>: this gpu is in the channel already" },
		{ GRAPH TYPES "<channel><gpu dev=\"7\"/></channel>" ENDS, "dev is 0x7: test has 2 such" },
		{ GRAPH TYPES "<channel><gpu dev=\"1\"/></channel>" ENDS, "the channel has 1 gpus, test has 2" },
		{ GRAPH TYPES "<channel><net dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"0\"/></channel>" ENDS,
		  "the channel has one net" },
		{ GRAPH TYPES "<channel><net dev=\"0\"/><net dev=\"0\"/></channel>" ENDS, "one net before its gpus" },
		{ GRAPH TYPES
		  "<channel><net dev=\"0\"/><gpu dev=\"1\"/><net dev=\"0\"/><gpu dev=\"0\"/></channel>" ENDS,
		  "a gpu after the second net" },
		{ GRAPH TYPES "<channel><net dev=\"5\"/></channel>" ENDS, "<net>: dev is 0x5: test has 1 such" },
		{ GRAPH TYPES "<channel><nic/></channel>" ENDS, "only gpu and net" },
		{ GRAPH TYPES "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel><channel/>" ENDS,
		  "says 1 channels and has more" },
		{ GRAPH TYPES, "graph.xml:3:1" },
	};
	struct topo *t = machine_nvswitch(1, 2, 18, 1, 100000);
	struct channels *c = NULL;

	(void)state;
	log_set_sink(drop_line, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(channels_from_xml(&c, t, PATTERN_RING, "graph.xml", bad[i].text, strlen(bad[i].text)),
				 TAUT_ERR_ARG);
		assert_null(c);
		if (!strstr(taut_error_message(), bad[i].says))
			fail_msg("%s: said \"%s\", wanted \"%s\"", bad[i].text, taut_error_message(), bad[i].says);
	}
	log_set_sink(NULL, NULL);
	topo_free(t);
}

static void memory_may_run_out_anywhere(void **state)
{
	struct topo *t = machine_dgx1v(2);
	char *text = NULL;
	struct channels *c = NULL;
	struct topo_paths *p;
	enum taut_status st = TAUT_ERR_NOMEM;

	(void)state;
	log_set_sink(drop_line, NULL);
	assert_int_equal(paths_create(&p, t, &path_rules_default), TAUT_OK);
	for (long n = 1; st; n++) {
		struct channels_req req = { .pattern = PATTERN_RING, .nnodes = 2, .cross_nic = 2, .pxn = true };

		mem_fail_from(n);
		st = channels_find(&c, t, p, &req);
		mem_fail_from(0);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	assert_int_equal(channels_to_xml(&text, t, (const struct channels *const *)&c, 1), TAUT_OK);
	channels_free(c);
	st = TAUT_ERR_NOMEM;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = channels_from_xml(&c, t, PATTERN_RING, "graph.xml", text, strlen(text));
		mem_fail_from(0);
	}
	channels_free(c);
	log_set_sink(NULL, NULL);
	mem_free(text);
	paths_free(p);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_nccl_come_back_letter_by_letter),
		cmocka_unit_test(channels_of_nccl_are_sound_and_ours_no_worse),
		cmocka_unit_test(what_is_found_comes_back),
		cmocka_unit_test(nvls_is_written_as_its_leaders),
		cmocka_unit_test(bad_files_are_told_by_line_and_column),
		cmocka_unit_test(memory_may_run_out_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
