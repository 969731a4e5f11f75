/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs of a group address each other: all, those of each machine, or sets of some, such as pairs that NVLink
 * joins. Ranks find out for themselves, and all compute the same from what all found. */
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cuda/gpu.h"

/* What a rank finds: bit r for rank r. */
struct found {
	uint64_t reached, linked;
};

static uint64_t ranks_near(const struct taut_comm *comm)
{
	uint64_t near = 0;

	for (int r = 0; r < comm->size; r++)
		if (comm->node_of[r] == comm->node_of[comm->rank])
			near |= (uint64_t)1 << r;
	return near;
}

/* Which ranks of this machine the settings, or what the machine does well, let this one reach. */
static uint64_t find_allowed(const struct taut_comm *comm, const struct gpu_card *cards, uint64_t linked)
{
	uint64_t near = ranks_near(comm);
	const char **others;
	char why[320] = "";
	uint64_t refused;

	if (comm->cfg.p2p_disable) {
		log_info(LOG_COMM, "group \"%s\" rank %d: no GPU uses another's memory by TAUT_P2P_DISABLE=1",
			 comm->name, comm->rank);
		return 0;
	}
	if (!*comm->cfg.p2p_level && linked == near)
		return UINT64_MAX;
	others = mem_calloc((size_t)comm->size, sizeof(*others));
	if (!others)
		return UINT64_MAX;
	for (int r = 0; r < comm->size; r++)
		if (near >> r & 1)
			others[r] = cards[r].bus;
	refused = comm_p2p_refused(why, sizeof(why), &comm->cfg, cards[comm->rank].bus, others, comm->size);
	mem_free(others);
	if (refused)
		log_info(LOG_COMM, "group \"%s\" rank %d: %s", comm->name, comm->rank, why);
	return ~refused;
}

static bool both_reach(const struct found *f, int a, int b)
{
	return a == b || ((f[a].reached >> b & 1) && (f[b].reached >> a & 1));
}

/* Island of each rank, numbered in the order of their first ranks; their number, 0 where it is not so that all of an
 * island reach each other. */
static int number_islands(int *of, const struct found *found, int n)
{
	int islands = 0;

	for (int r = 0; r < n; r++) {
		int s = 0;

		while (!both_reach(found, r, s))
			s++;
		of[r] = s < r ? of[s] : islands++;
	}
	for (int a = 0; a < n; a++)
		for (int b = 0; b < a; b++)
			if ((of[a] == of[b]) != both_reach(found, a, b))
				return 0;
	return islands;
}

/* Are all of each island joined by NVLink? */
static bool are_linked(const int *of, const struct found *found, int n)
{
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			if (of[a] == of[b] && !(found[a].linked >> b & 1))
				return false;
	return true;
}

enum taut_status comm_find_islands(struct taut_comm *comm, const struct gpu_card *cards)
{
	struct found mine = { .linked = gpu_linked(comm->gpu, cards) };
	struct found *found = mem_calloc((size_t)comm->size, sizeof(*found));
	enum taut_status st;

	comm->island_of = mem_calloc((size_t)comm->size, sizeof(*comm->island_of));
	if (!found || !comm->island_of) {
		mem_free(found);
		return fail(TAUT_ERR_NOMEM, "the GPUs of %d ranks", comm->size);
	}
	mine.reached = gpu_reach(comm->gpu, cards, find_allowed(comm, cards, mine.linked));
	st = boot_all_gather(comm->boot, &mine, sizeof(mine), found);
	if (!st) {
		comm->nislands = number_islands(comm->island_of, found, comm->size);
		comm->islands_linked = are_linked(comm->island_of, found, comm->size);
	}
	mem_free(found);
	/* Each rank by itself is none. */
	if (comm->nislands == comm->size)
		comm->nislands = 0;
	if (!comm->nislands) {
		gpu_unreach(comm->gpu);
		mem_free(comm->island_of);
		comm->island_of = NULL;
	}
	return st;
}
