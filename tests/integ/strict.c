/* SPDX-License-Identifier: Apache-2.0 */
/* TAUT_STRICT: what a communicator of GPUs checks of its machine, here one from a file. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

static enum taut_status check(const char *file, bool strict, const char *level)
{
	struct config cfg;
	enum taut_status st = config_load(&cfg);

	if (!st)
		st = config_set(&cfg, "TAUT_TOPO_FILE", file);
	if (!st)
		st = config_set(&cfg, "TAUT_STRICT", strict ? "1" : "0");
	if (!st)
		st = config_set(&cfg, "TAUT_P2P_LEVEL", level);
	if (!st)
		st = comm_check_strict(&cfg);
	config_cleanup(&cfg);
	return st;
}

static int wrong(const char *what)
{
	printf("%s: %s\n", what, taut_error_message());
	return 1;
}

int main(void)
{
	const char *file = "tests/golden/nccl-topo/own-h200x2.xml";

	if (check(file, true, ""))
		return wrong("two GPUs joined by NVLink fall back");
	if (check(file, false, "LOC"))
		return wrong("without TAUT_STRICT a level is no error");
	if (check(file, true, "LOC") != TAUT_ERR_UNSUPPORTED || !strstr(taut_error_message(), "TAUT_P2P_LEVEL"))
		return wrong("a level that P2P cannot keep is not told");
	return 0;
}
