/* SPDX-License-Identifier: Apache-2.0 */
/* TAUT_ALGO and TAUT_PROTO: whatever the text, parsing ends in a filter that can be asked
 * or in a sentence. The input is algorithms, a zero byte, protocols. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "sched/cost.h"

static void ask(const struct cost_filter *f)
{
	struct cost_machine m;
	struct cost_choice c;

	cost_machine_default(&m);
	for (int coll = 0; coll < COLL_COUNT; coll++) {
		struct cost_query q = { .req = { .coll = (enum sched_coll)coll, .nranks = 2 },
					.bytes = 64,
					.elem = 4,
					.machine = &m,
					.filter = f };
		enum taut_status st = cost_choose(&c, &q);

		must(st == TAUT_OK || st == TAUT_ERR_CONFIG);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = calloc(len + 2, 1);
	struct cost_filter *f = NULL;

	if (!text)
		return -1;
	if (len)
		memcpy(text, data, len);
	log_set_sink(drop_line, NULL);
	if (!cost_filter_parse(&f, text, text + strlen(text) + 1))
		ask(f);
	else
		must(!f && *taut_error_message());
	cost_filter_free(f);
	free(text);
	return 0;
}
