/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with NVIDIA's nccl.h, where cmake finds it, and then with the prototypes of ours after it (see
 * cmake/nccl_tests.cmake): the compiler stops where one differs. */
#include "nccl/abi.h"

#ifdef TAUT_NCCL
static const char reason[] = "NVIDIA's nccl.h was not found when this was built";
#elif NCCL_VERSION_CODE != 22809
static const char reason[] = "NVIDIA's nccl.h is of another release than 2.28.9";
#else
#define TAUT_NCCL(result, name, params)                                                                                \
	result name params;                                                                                            \
	result p##name params;
#include "nccl_prototypes.inc.h"
#define SAME_RELEASE 1
#endif

#ifdef SAME_RELEASE
int abi_of_nvidia(struct abi_entry *out, const char **why)
{
	(void)why;
	return abi_fill(out);
}
#else
int abi_of_nvidia(struct abi_entry *out, const char **why)
{
	(void)out;
	*why = reason;
	return 0;
}
#endif
