/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks are: what the schedules and the user learn of it. */
#include "base/mem.h"
#include "comm/comm.h"

/* Times that a ring in rank order goes from one machine to another. */
static int crossings(const int *node_of, int n)
{
	int count = 0;

	for (int r = 0; r < n; r++)
		count += node_of[r] != node_of[(r + 1) % n];
	return count;
}

/* Ranks by machine, ascending in each; @next: room for a number a machine. */
static void sort_by_machine(int32_t *order, int32_t *next, const int *node_of, int n, int nodes)
{
	int32_t at = 0;

	for (int r = 0; r < n; r++)
		next[node_of[r]]++;
	for (int m = 0; m < nodes; m++) {
		int32_t ranks = next[m];

		next[m] = at;
		at += ranks;
	}
	for (int r = 0; r < n; r++)
		order[next[node_of[r]]++] = r;
}

enum taut_status comm_find_order(struct taut_comm *comm)
{
	int nodes = boot_nodes(comm->boot);
	int32_t *next;

	if (crossings(comm->node_of, comm->size) <= nodes)
		return TAUT_OK;
	comm->order = mem_calloc((size_t)comm->size, sizeof(*comm->order));
	next = mem_calloc((size_t)nodes, sizeof(*next));
	if (!comm->order || !next) {
		mem_free(next);
		return fail(TAUT_ERR_NOMEM, "the order of %d ranks on %d machines", comm->size, nodes);
	}
	sort_by_machine(comm->order, next, comm->node_of, comm->size, nodes);
	mem_free(next);
	return TAUT_OK;
}
