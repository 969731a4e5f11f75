/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as NCCL's topology XML: a graph that is made is sound, its copy is the same graph, and once written it is
 * read again as itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "topo/topo.h"

static void quiet(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level, (void)module, (void)line, (void)ctx;
}

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* Written and read again. */
static struct topo *again(const struct topo *t)
{
	struct topo *out = NULL;
	char *text = NULL;

	expect(topo_to_nccl_xml(&text, t) == TAUT_OK, "cannot be written");
	expect(topo_from_nccl_xml(&out, "again.xml", text, strlen(text)) == TAUT_OK, taut_error_message());
	mem_free(text);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct topo *t = NULL, *copy = NULL, *second, *third;
	char why[256] = "";

	log_set_sink(quiet, NULL);
	if (topo_from_nccl_xml(&t, "fuzz.xml", (const char *)data, len))
		return 0;
	expect(!topo_check(t, why, sizeof(why)), why);
	expect(topo_copy(&copy, t) == TAUT_OK && topo_equal(t, copy, why, sizeof(why)), why);
	expect(topo_hash(t) == topo_hash(copy), "a copy has another hash");
	second = again(t); /* what the form cannot say is lost here, and nothing more in the next turn */
	third = again(second);
	expect(topo_equal(second, third, why, sizeof(why)), why);
	topo_free(third);
	topo_free(second);
	topo_free(copy);
	topo_free(t);
	return 0;
}
