/* SPDX-License-Identifier: Apache-2.0 */
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
