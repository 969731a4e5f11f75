/* SPDX-License-Identifier: Apache-2.0 */
/* A capture somebody has sent. What reads gives a sound graph, and what is captured of it reads again. */
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "topo/fs.h"
#include "topo/live.h"
#include "topo/topo.h"

static void capture_again(const char *text, size_t len)
{
	struct topo_fs *fs = NULL;
	struct topo *t = NULL;
	char *again = NULL;

	must(fs_pack_read(&fs, "fuzz", text, len) == TAUT_OK);
	if (capture_make(&again, fs, NULL, "") == TAUT_OK) {
		must(topo_from_capture(&t, "again", again, strlen(again)) == TAUT_OK);
		topo_free(t);
	}
	mem_free(again);
	fs_close(fs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct topo *t = NULL;
	char why[256];

	log_set_sink(drop_line, NULL);
	if (topo_from_capture(&t, "fuzz", (const char *)data, len))
		return 0;
	must(!topo_check(t, why, sizeof(why)));
	topo_free(t);
	capture_again((const char *)data, len);
	return 0;
}
