/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "capture_util.h"

static void this_machine_has_a_processor(void **state)
{
	struct config cfg;
	struct topo *t = NULL;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(topo_live(&t, &cfg), TAUT_OK);
	assert_true(t->count[TOPO_CPU] >= 1);
	assert_string_equal(t->source, "this machine");
	topo_free(t);
	assert_int_equal(topo_live(&t, NULL), TAUT_OK);
	topo_free(t);
	config_cleanup(&cfg);
}

static void a_file_takes_the_place_of_this_machine(void **state)
{
	struct config cfg;
	struct topo *t = NULL;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_TOPO_FILE", "tests/golden/capture/power9-v100.cap"), TAUT_OK);
	assert_int_equal(topo_live(&t, &cfg), TAUT_OK);
	assert_int_equal(t->count[TOPO_GPU], 4);
	topo_free(t);
	config_cleanup(&cfg);
}

/* The files of a capture, written into a folder. */
static void unpack(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "mkdir -p %s%.*s", root, (int)(strrchr(path, '/') - path), path);
	assert_int_equal(system(full), 0);
	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "we");
	assert_non_null(f);
	fprintf(f, "%s\n", text);
	fclose(f);
}

static void a_folder_is_read_as_a_root(void **state)
{
	char root[] = "/tmp/taut_root_XXXXXX", command[64];
	struct topo *t = NULL;

	(void)state;
	assert_non_null(mkdtemp(root));
	unpack(root, "/sys/devices/system/node/node0/cpumap", "f");
	unpack(root, "/sys/devices/system/node/node1/cpumap", "f0");
	unpack(root, "/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8 kB");
	assert_int_equal(topo_from_root(&t, root), TAUT_OK);
	assert_int_equal(t->count[TOPO_CPU], 2);
	assert_true(t->nodes[t->of[TOPO_CPU][0]].cpu.memory == 8192);
	assert_string_equal(t->source, root);
	topo_free(t);
	assert_int_equal(topo_read_file(&t, root, TOPO_FORM_AUTO), TAUT_OK); /* as --file takes it */
	assert_int_equal(t->count[TOPO_CPU], 2);
	topo_free(t);
	snprintf(command, sizeof(command), "%s/sys/devices", root);
	assert_int_equal(topo_from_root(&t, command), TAUT_ERR_ARG); /* the wrong folder */
	assert_non_null(strstr(taut_error_message(), "no folder sys or proc"));
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static void this_machine_can_be_captured(void **state)
{
	struct topo *t = NULL;
	char *text = NULL;

	(void)state;
	assert_int_equal(topo_capture(&text), TAUT_OK);
	assert_int_equal(strncmp(text, "taut capture 1\n", 15), 0);
	assert_int_equal(topo_read(&t, "text", text, strlen(text), TOPO_FORM_AUTO), TAUT_OK);
	assert_true(t->count[TOPO_CPU] >= 1);
	topo_free(t);
	mem_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_machine_has_a_processor),
		cmocka_unit_test(a_file_takes_the_place_of_this_machine),
		cmocka_unit_test(a_folder_is_read_as_a_root),
		cmocka_unit_test(this_machine_can_be_captured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
