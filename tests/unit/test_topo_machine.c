/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc reads HWLOC_SYNTHETIC: a machine as text. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/machine.h"

static struct machine *load(const char *synthetic)
{
	struct machine *m = NULL;

	setenv("HWLOC_SYNTHETIC", synthetic, 1);
	assert_int_equal(machine_load(&m), TAUT_OK);
	return m;
}

static int count_kind(const struct machine_obj *o, const char *kind)
{
	int n = !strcmp(o->kind, kind);

	for (int i = 0; i < o->nchildren; i++)
		n += count_kind(&o->children[i], kind);
	return n;
}

static void a_big_machine_is_counted(void **state)
{
	struct machine *m = load("pack:2 numa:2 l3:2 l2:4 core:1 pu:2");

	(void)state;
	assert_int_equal(m->packages, 2);
	assert_int_equal(m->numas, 4);
	assert_int_equal(m->cores, 32);
	assert_int_equal(m->cpus, 64);
	assert_string_equal(m->allowed, "0-63");
	assert_true(m->all_allowed);
	assert_int_equal(count_kind(m->root, "L3"), 8);
	assert_int_equal(count_kind(m->root, "cpu"), 64);
	assert_int_equal(count_kind(m->root, "numa"), 4);
	assert_string_equal(m->root->kind, "machine");
	assert_string_equal(m->root->cpus, "0-63");
	machine_free(m);
}

static void what_is_missing_is_noted(void **state)
{
	struct machine *m = load("core:2 pu:1");
	bool l3 = false;

	(void)state;
	for (int i = 0; i < m->nnotes; i++)
		l3 = l3 || !strncmp(m->notes[i], "L3 cache: not described", 23);
	assert_true(l3);
	assert_int_equal(m->packages, 0);
	machine_free(m);
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct machine *m = NULL;

	(void)state;
	setenv("HWLOC_SYNTHETIC", "pack:2 core:2 pu:1", 1);
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = machine_load(&m);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	machine_free(m);
	machine_free(NULL);
}

static void the_chosen_word_is_found(void **state)
{
	char out[8];

	(void)state;
	machine_chosen(out, sizeof(out), "always [madvise] never");
	assert_string_equal(out, "madvise");
	machine_chosen(out, sizeof(out), "always madvise never");
	assert_string_equal(out, "");
	machine_chosen(out, sizeof(out), "[");
	assert_string_equal(out, "");
	machine_chosen(out, sizeof(out), "[a_long_word]");
	assert_string_equal(out, "a_long_");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_big_machine_is_counted),
		cmocka_unit_test(what_is_missing_is_noted),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(the_chosen_word_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
