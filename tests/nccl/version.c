/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the version of the libnccl.so.2 that the loader found. */
#include <stdio.h>

#include "nccl.h"

int main(void)
{
	int version = 0;

	if (ncclGetVersion(&version))
		return 1;
	printf("%d\n", version);
	return 0;
}
