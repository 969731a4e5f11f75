/* SPDX-License-Identifier: Apache-2.0 */
/* The form of a description is told by what it holds; files, folders, standard input and text as a path. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "topo/topo.h"

#define NCCL "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x0302\"/></cpu></system>"
#define SMI "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\t0-15\t0\nGPU1\tNV12\t X \t0-15\t0\n"

static int gpus_of(const char *text, enum topo_form form)
{
	struct topo *t = NULL;
	int n;

	if (topo_read(&t, "f", text, strlen(text), form))
		return -1;
	n = t->count[TOPO_GPU];
	topo_free(t);
	return n;
}

static void the_form_is_told_by_the_text(void **state)
{
	(void)state;
	assert_int_equal(gpus_of(NCCL, TOPO_FORM_AUTO), 1);
	assert_int_equal(gpus_of("\xef\xbb\xbf<?xml version=\"1.0\"?><!-- <topology> --> " NCCL, TOPO_FORM_AUTO), 1);
	assert_int_equal(gpus_of(SMI, TOPO_FORM_AUTO), 2);
	assert_int_equal(gpus_of("  numa:2 gpu:4", TOPO_FORM_AUTO), 4);
	assert_int_equal(gpus_of("<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology "
				 "version=\"2.0\"><object type=\"Machine\"/></topology>",
				 TOPO_FORM_AUTO),
			 0);
	assert_int_equal(gpus_of("taut capture 1\n", TOPO_FORM_AUTO), 0);
}

static void a_form_that_is_asked_for_is_taken(void **state)
{
	(void)state;
	assert_int_equal(gpus_of(NCCL, TOPO_FORM_NCCL_XML), 1);
	assert_int_equal(gpus_of(NCCL, TOPO_FORM_SYNTHETIC), -1);
	assert_int_equal(gpus_of("numa:2 gpu:4", TOPO_FORM_NCCL_XML), -1);
}

static void what_is_none_is_told_what_there_is(void **state)
{
	static const char *const texts[] = { "", "hello", "   \n", "C:", "<!--", "<?xml", "<", "# only\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(gpus_of(texts[i], TOPO_FORM_AUTO), -1);
	assert_int_equal(gpus_of("hello", TOPO_FORM_AUTO), -1);
	assert_non_null(strstr(taut_error_message(), "f:1:1: no description of a machine is recognised here"));
	assert_int_equal(gpus_of("<graphs version=\"1\"/>", TOPO_FORM_AUTO), -1);
	assert_non_null(strstr(taut_error_message(), "these are channels (NCCL_GRAPH_FILE)"));
}

static void every_form_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < TOPO_FORMS; i++)
		assert_non_null(topo_form_names[i]);
	assert_null(topo_form_names[TOPO_FORMS]);
}

/* A file with @text in a folder of its own; false when there is none to be had. */
static void make_file(char *path, size_t len, char *folder, const char *text)
{
	FILE *f;

	assert_non_null(mkdtemp(folder));
	snprintf(path, len, "%s/topo.xml", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void files_and_text_are_read(void **state)
{
	char folder[] = "/tmp/taut-test-XXXXXX", path[64];
	struct topo *t = NULL;

	(void)state;
	make_file(path, sizeof(path), folder, NCCL);
	assert_int_equal(topo_read_file(&t, path, TOPO_FORM_AUTO), TAUT_OK);
	assert_int_equal(t->count[TOPO_GPU], 1);
	assert_string_equal(t->source, path);
	topo_free(t);
	assert_int_equal(topo_read_file(&t, "gpu:8 nvlink:18", TOPO_FORM_AUTO), TAUT_OK);
	assert_int_equal(t->count[TOPO_GPU], 8);
	topo_free(t);
	t = NULL;
	assert_int_equal(topo_read_file(&t, "/nowhere/topo.xml", TOPO_FORM_AUTO), TAUT_ERR_SYS);
	assert_non_null(strstr(taut_error_message(), "/nowhere/topo.xml: cannot be opened: No such file"));
	assert_null(t);
	assert_int_equal(topo_read_file(&t, folder, TOPO_FORM_AUTO), TAUT_ERR_ARG); /* the wrong folder */
	snprintf(path, sizeof(path), "%s/proc", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(topo_read_file(&t, folder, TOPO_FORM_AUTO), TAUT_OK); /* a machine of which nothing is known */
	rmdir(path);
	assert_int_equal(t->count[TOPO_GPU], 0);
	topo_free(t);
	unlink(path);
	rmdir(folder);
}

static void standard_input_is_read(void **state)
{
	char folder[] = "/tmp/taut-test-XXXXXX", path[64];
	struct topo *t = NULL;

	(void)state;
	make_file(path, sizeof(path), folder, SMI);
	assert_non_null(freopen(path, "r", stdin));
	assert_int_equal(topo_read_file(&t, "-", TOPO_FORM_AUTO), TAUT_OK);
	assert_int_equal(t->count[TOPO_GPU], 2);
	assert_string_equal(t->source, "standard input");
	topo_free(t);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_form_is_told_by_the_text),
		cmocka_unit_test(a_form_that_is_asked_for_is_taken),
		cmocka_unit_test(what_is_none_is_told_what_there_is),
		cmocka_unit_test(every_form_has_a_name),
		cmocka_unit_test(files_and_text_are_read),
		cmocka_unit_test(standard_input_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
