/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <strings.h>

#include "sched/families.h"

const struct sched_algo *const sched_algos[] = {
	&sched_mapped_one_shot,
	&sched_mapped_two_shot,
	&sched_one_shot,
	&sched_two_shot,
	&sched_ring,
	&sched_tree,
	&sched_recursive_doubling,
	&sched_recursive_halving,
	&sched_two_level,
	&sched_binomial,
	&sched_chain,
	&sched_pairwise,
	&sched_bruck,
	NULL,
};

/* NCCL's Ring and Tree are ours in another case. */
const struct sched_algo *sched_algo_find(const char *name)
{
	for (size_t i = 0; sched_algos[i]; i++)
		if (strcasecmp(name, sched_algos[i]->name) == 0)
			return sched_algos[i];
	return NULL;
}

bool sched_algo_fits(const struct sched_algo *algo, const struct sched_req *req)
{
	if ((unsigned)req->coll >= COLL_COUNT || !(algo->colls & BIT(req->coll)))
		return false;
	return req->nranks == 1 || !algo->fits || algo->fits(req);
}

bool sched_algo_fits_vectors(const struct sched_algo *algo, const struct sched_req *req)
{
	return sched_algo_fits(algo, req) && (algo->vectors & BIT(req->coll));
}
