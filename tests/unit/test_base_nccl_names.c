/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "base/config.h"
#include "base/nccl_names.h"
#include "base/nearest.h"

static void is(const char *name, enum nccl_use use, const char *what)
{
	const struct nccl_name *known = nccl_name_find(name);

	if (!known)
		fail_msg("%s is not known", name);
	assert_int_equal(known->use, use);
	assert_string_equal(known->what, what);
}

static void every_alias_of_a_setting_is_honoured(void **state)
{
	size_t aliases = 0;

	(void)state;
	for (size_t i = 0; i < config_count(); i++) {
		const struct setting *s = config_setting(i);

		if (*s->alias)
			is(s->alias, NCCL_USE_HONOURED, s->name);
		aliases += *s->alias != '\0';
	}
	assert_true(aliases >= 20);
}

static bool is_name(const char *name)
{
	size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return !strncmp(name, "NCCL_", 5) && len > 5 && len <= NEAREST_MAX && (!name[len] || !strcmp(name + len, "*"));
}

static bool is_reason(const struct nccl_name *n)
{
	size_t len = strlen(n->what);

	return n->use == NCCL_USE_OTHERS ? !len : len > 10 && len < 120 && n->what[len - 1] != '.';
}

static void every_row_has_a_name_of_its_own_and_a_reason(void **state)
{
	const struct nccl_name *n;

	(void)state;
	for (size_t i = 0; (n = nccl_name_at(i)); i++) {
		if (!*n->name)
			continue; /* a setting that NCCL does not have */
		if (!is_name(n->name) || (n->use != NCCL_USE_HONOURED && !is_reason(n)))
			fail_msg("row %zu: \"%s\": \"%s\"", i, n->name, n->what);
		/* Were it in two rows, or below a prefix, the search would stop at another. */
		if (nccl_name_find(n->name) != n)
			fail_msg("%s has two rows: \"%s\" is found", n->name, nccl_name_find(n->name)->name);
	}
}

static void names_are_told_apart(void **state)
{
	(void)state;
	is("NCCL_DEBUG", NCCL_USE_HONOURED, "TAUT_LOG");
	is("NCCL_NVLS_ENABLE", NCCL_USE_NONE, "taut does not use NVLink SHARP (NVLS)");
	is("NCCL_CONF_FILE", NCCL_USE_NONE,
	   "taut reads the settings file that TAUT_CONFIG names; "
	   "taut settings shows what holds");
	is("NCCL_IB_RESILIENCY_PORT_FAILOVER", NCCL_USE_NONE, nccl_name_find("NCCL_IB_HCA")->what);
	is("NCCL_INSPECTOR_ENABLE", NCCL_USE_NONE, "taut loads no plugins");
	is("NCCL_BLOCKING_WAIT", NCCL_USE_OTHERS, "");
	is("NCCL_TESTS_DEVICE", NCCL_USE_OTHERS, "");
	assert_null(nccl_name_find("NCCL_DEBUGG"));
	assert_null(nccl_name_find("NCCL_INSPECTO"));
	assert_null(nccl_name_find("nccl_debug"));
	assert_null(nccl_name_find("TAUT_LOG"));
	assert_null(nccl_name_find("NCCL_"));
	assert_null(nccl_name_find(""));
}

static void a_misspelt_name_has_a_nearest(void **state)
{
	(void)state;
	assert_string_equal(nccl_name_nearest("NCCL_SOCKET_IFNAM"), "NCCL_SOCKET_IFNAME");
	assert_string_equal(nccl_name_nearest("NCCL_SOKCET_IFNAME"), "NCCL_SOCKET_IFNAME");
	assert_string_equal(nccl_name_nearest("NCCL_P2P_DISABLED"), "NCCL_P2P_DISABLE");
	assert_string_equal(nccl_name_nearest("NCCL_NVLS_ENABEL"), "NCCL_NVLS_ENABLE");
	assert_string_equal(nccl_name_nearest("NCCL_IB_HCAS"), "NCCL_IB_HCA");
	assert_null(nccl_name_nearest("NCCL_SOMETHING_QUITE_DIFFERENT"));
	assert_null(nccl_name_nearest(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_alias_of_a_setting_is_honoured),
		cmocka_unit_test(every_row_has_a_name_of_its_own_and_a_reason),
		cmocka_unit_test(names_are_told_apart),
		cmocka_unit_test(a_misspelt_name_has_a_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
