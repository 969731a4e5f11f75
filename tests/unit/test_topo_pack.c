/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_make.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/pack.h"

static const struct make big = { .numas = 2, .gpus = 8, .ports = 8, .nvswitch = true, .cores = 48 };

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static int quiet(void **state)
{
	(void)state;
	log_set_sink(drop_line, NULL);
	return 0;
}

static int loud(void **state)
{
	(void)state;
	log_set_sink(NULL, NULL);
	return 0;
}

static struct topo *whole(void)
{
	struct topo *t = make_topo(&big);

	t->iommu = 1;
	t->vm = true;
	t->p2p = mem_calloc(64, 1);
	memset(t->p2p, P2P_OK, 64);
	topo_note(t, "the speed of eth0 is not known");
	return t;
}

static void a_graph_comes_back_whole_and_packs_to_the_same_bytes(void **state)
{
	struct topo *t = whole(), *back = NULL;
	uint8_t *bytes, *again;
	size_t len, len2;

	(void)state;
	assert_int_equal(topo_pack(&bytes, &len, t), TAUT_OK);
	assert_true(len < 8192);
	assert_int_equal(topo_unpack(&back, "bytes", bytes, len), TAUT_OK);
	assert_int_equal(back->nnodes, t->nnodes);
	assert_int_equal(back->nlinks, t->nlinks);
	assert_memory_equal(back->links, t->links, (size_t)t->nlinks * sizeof(*t->links));
	for (int i = 0; i < t->nnodes; i++) { /* all but the pointer */
		back->nodes[i].links = t->nodes[i].links;
		assert_memory_equal(&back->nodes[i], &t->nodes[i], sizeof(*t->nodes));
	}
	assert_memory_equal(back->p2p, t->p2p, 64);
	assert_int_equal(back->iommu, 1);
	assert_int_equal(back->peermem, -1);
	assert_true(back->vm);
	assert_string_equal(back->notes[0].text, t->notes[0].text);
	assert_string_equal(back->source, "test");
	assert_int_equal(topo_pack(&again, &len2, back), TAUT_OK);
	assert_int_equal(len, len2);
	assert_memory_equal(bytes, again, len);
	mem_free(bytes);
	mem_free(again);
	topo_free(back);
	topo_free(t);
}

/* Every cut, and every byte changed, is either refused or a sound graph. */
static void what_is_cut_or_changed_is_refused_or_sound(void **state)
{
	struct topo *t = whole(), *back = NULL;
	uint8_t *bytes;
	size_t len, taken = 0;

	(void)state;
	assert_int_equal(topo_pack(&bytes, &len, t), TAUT_OK);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(topo_unpack(&back, "bytes", bytes, cut), TAUT_ERR_ARG);
	for (size_t i = 0; i < len; i++) {
		uint8_t old = bytes[i];

		bytes[i] = (uint8_t)(old ^ (1u << i % 8));
		if (!topo_unpack(&back, "bytes", bytes, len)) {
			assert_null(topo_check(back, (char[256]){ 0 }, 256));
			topo_free(back);
			taken++;
		}
		bytes[i] = old;
	}
	assert_true(taken < len);
	mem_free(bytes);
	topo_free(t);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
	static const uint8_t other[] = "tauttopo\2 and more";
	struct topo *t = NULL;

	(void)state;
	assert_int_equal(topo_unpack(&t, "rank 3", other, sizeof(other)), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(), "rank 3: no graph, at byte 9 of 19: no graph of this version");
	assert_int_equal(topo_unpack(&t, "rank 3", other, TOPO_PACK_MAX + 1), TAUT_ERR_ARG);
}

static void control_characters_do_not_travel(void **state)
{
	struct topo *t = whole(), *back = NULL;
	uint8_t *bytes;
	size_t len;

	(void)state;
	snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "a\033[2Jb");
	assert_int_equal(topo_pack(&bytes, &len, t), TAUT_OK);
	assert_int_equal(topo_unpack(&back, "bytes", bytes, len), TAUT_OK);
	assert_string_equal(back->nodes[0].name, "a?[2Jb");
	mem_free(bytes);
	topo_free(back);
	topo_free(t);
}

static void no_memory_is_said(void **state)
{
	struct topo *t = whole(), *back = NULL;
	enum taut_status st = TAUT_ERR_NOMEM;
	uint8_t *bytes = NULL;
	size_t len = 0;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_pack(&bytes, &len, t);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	st = TAUT_ERR_NOMEM;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_unpack(&back, "bytes", bytes, len);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	mem_free(bytes);
	topo_free(back);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_comes_back_whole_and_packs_to_the_same_bytes),
		cmocka_unit_test_setup_teardown(what_is_cut_or_changed_is_refused_or_sound, quiet, loud),
		cmocka_unit_test_setup_teardown(what_is_wrong_is_said_with_its_place, quiet, loud),
		cmocka_unit_test(control_characters_do_not_travel),
		cmocka_unit_test_setup_teardown(no_memory_is_said, quiet, loud),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
