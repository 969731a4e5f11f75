/* SPDX-License-Identifier: Apache-2.0 */
/* Text as a list of Slurm's nodes and of tasks: what is counted can be had, and no more. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "boot/nodelist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *list = malloc(len + 1), host[256];
	long n;

	memcpy(list, data, len);
	list[len] = '\0';
	n = nodelist_count(list);
	if (n == 0 || n < -1)
		abort();
	for (long i = 0; i < n && i < 4; i++)
		if (nodelist_get(list, i, host, sizeof(host)) == 0 && (!*host || strlen(host) >= sizeof(host)))
			abort();
	if (n > 0 && nodelist_get(list, n - 1, host, sizeof(host)) && len < sizeof(host))
		abort();
	if (nodelist_get(list, n < 0 ? 0 : n, host, sizeof(host)) != -1)
		abort();
	if (nodelist_tasks(list, 3) < -1)
		abort();
	free(list);
	return 0;
}
