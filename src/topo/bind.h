/* SPDX-License-Identifier: Apache-2.0 */
/* Which cores the ranks of one machine get: a core each, spread over the cores that this
 * process may use; round robin when there are more ranks than cores. */
#ifndef TOPO_BIND_H
#define TOPO_BIND_H

#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

struct bind_slot {
	cpu_set_t *set;
	char list[64]; /* "0,64" */
};
struct bind {
	int ranks, cores;
	size_t set_bytes; /* of each slot's set */
	struct bind_slot *slots;
};

enum taut_status bind_plan(struct bind **out, int ranks);
/* TAUT_ERR_SYS unless process @pid runs where the plan puts @rank. */
enum taut_status bind_check(const struct bind *b, int rank, pid_t pid);
void bind_free(struct bind *b);

/* Core of @rank among @cores. Pure. */
int bind_core(int rank, int ranks, int cores);

#endif
