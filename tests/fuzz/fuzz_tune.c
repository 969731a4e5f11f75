/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning file: what is accepted must read back from its own text to the same text. */
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "sched/cost.h"

static char *text_of(const struct tune *t)
{
	char *text = NULL;
	size_t len;

	if (tune_text(&text, &len, t) || strlen(text) != len)
		return NULL;
	return text;
}

static int same_again(const struct tune *t)
{
	char *first = text_of(t), *second;
	struct tune *again = NULL;
	int rc = -1;

	if (!first || tune_parse(&again, "again", first, strlen(first)))
		return -1;
	second = text_of(again);
	if (second)
		rc = strcmp(first, second) ? -1 : 0;
	mem_free(first);
	mem_free(second);
	tune_free(again);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tune *t = NULL;
	int rc = 0;

	log_set_sink(drop_line, NULL);
	if (!tune_parse(&t, "fuzz", (const char *)data, len))
		rc = same_again(t);
	else if (t || !*taut_error_message())
		rc = -1;
	tune_free(t);
	must(!rc);
	return 0;
}
