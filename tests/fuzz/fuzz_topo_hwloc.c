/* SPDX-License-Identifier: Apache-2.0 */
/* Text as hwloc's XML: a sound graph or a sentence. */
#include "fuzz.h"

#include "topo/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct topo *t = NULL;
	char why[256];

	log_set_sink(drop_line, NULL);
	if (topo_from_hwloc_xml(&t, "fuzz", (const char *)data, len))
		must(!t && *taut_error_message());
	else
		must(t && !topo_check(t, why, sizeof(why)));
	topo_free(t);
	return 0;
}
