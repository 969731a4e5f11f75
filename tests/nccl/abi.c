/* SPDX-License-Identifier: Apache-2.0 */
/* include/nccl.h has the sizes, offsets and numbers of NVIDIA's header. */
#include "nccl/abi.h"

#include <stdio.h>

static int differences(const struct abi_entry *ours, const struct abi_entry *theirs, int n)
{
	int wrong = 0;

	for (int i = 0; i < n; i++) {
		if (ours[i].value == theirs[i].value)
			continue;
		printf("%s: %lld, should be %lld\n", ours[i].what, ours[i].value, theirs[i].value);
		wrong++;
	}
	return wrong;
}

int main(void)
{
	struct abi_entry ours[ABI_MAX], theirs[ABI_MAX];
	const char *why = "";
	int n = abi_of_taut(ours), wrong;

	if (!abi_of_nvidia(theirs, &why)) {
		printf("skipped: %s\n", why);
		return 77;
	}
	wrong = differences(ours, theirs, n);
	printf("%d sizes, offsets and numbers, %d differ\n", n, wrong);
	return wrong != 0;
}
