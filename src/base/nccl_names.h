/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of NCCL by name: those that taut honours (the aliases of config.def), those that
 * have no use here, each with its reason (nccl_names.def), and those of other programs. Pure. */
#ifndef BASE_NCCL_NAMES_H
#define BASE_NCCL_NAMES_H

#include <stddef.h>

enum nccl_use {
	NCCL_USE_HONOURED,
	NCCL_USE_NONE,
	NCCL_USE_OTHERS, /* PyTorch's, a container's ...: begins as NCCL's do, but is not for NCCL */
};

struct nccl_name {
	const char *name; /* ends in * where it stands for all that begin so */
	enum nccl_use use;
	const char *what; /* HONOURED: the setting of taut; NONE: why it has no use; OTHERS: "" */
};

/* NULL when nothing is known by that name. */
const struct nccl_name *nccl_name_find(const char *name);
/* What a name that is not known may have been meant for; NULL when no known one is near. */
const char *nccl_name_nearest(const char *name);
/* Row @i of the table; NULL past the end. */
const struct nccl_name *nccl_name_at(size_t i);

#endif
