/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire/wire.h"

const struct wire_ops *const wire_table[] = { &wire_shm, &wire_tcp, NULL };

const struct wire_ops *wire_find(const char *name)
{
	for (int i = 0; wire_table[i]; i++)
		if (!strcasecmp(wire_table[i]->name, name))
			return wire_table[i];
	return NULL;
}

enum taut_status wire_check(const char *setting)
{
	char names[128] = "auto";

	if (!strcasecmp(setting, "auto") || wire_find(setting))
		return TAUT_OK;
	for (int i = 0; wire_table[i]; i++) {
		size_t at = strlen(names);

		snprintf(names + at, sizeof(names) - at, "%s%s", wire_table[i + 1] ? ", " : " or ",
			 wire_table[i]->name);
	}
	return fail(TAUT_ERR_CONFIG, "TAUT_WIRE is \"%s\", wanted: %s", setting, names);
}
