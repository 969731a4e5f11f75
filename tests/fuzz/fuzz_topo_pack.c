/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a graph from another rank: refused, or sound and packed to the same bytes again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "topo/pack.h"

/* Bytes that do not name all links of the graph come back longer once. */
static void check(const struct topo *t)
{
	struct topo *back = NULL;
	uint8_t *bytes, *again;
	size_t n, n2;
	char why[256];

	if (topo_check(t, why, sizeof(why)) || topo_pack(&bytes, &n, t))
		abort();
	if (topo_unpack(&back, "again", bytes, n) || topo_pack(&again, &n2, back))
		abort();
	if (n != n2 || memcmp(bytes, again, n))
		abort();
	mem_free(bytes);
	mem_free(again);
	topo_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct topo *t = NULL;

	log_set_sink(drop_line, NULL);
	if (topo_unpack(&t, "fuzz", data, len))
		return 0;
	check(t);
	topo_free(t);
	return 0;
}
