/* SPDX-License-Identifier: Apache-2.0 */
/* Several machines. A cluster is a row of systems, numbered by their first machines; systems
 * that look the same (topo_hash()) share one graph, the first's, so its size and the time to make it do not depend on
 * how many there are of a kind. Machines whose GPUs are of one NVLink domain are one system. Between systems every path
 * is PATH_NET.
 *
 * Owned by the caller, not changed after it is made; any thread may read it. */
#ifndef TOPO_CLUSTER_H
#define TOPO_CLUSTER_H

#include "topo/topo.h"

/* Which NVLink domain a machine belongs to, as a whole. */
struct cluster_domain {
	uint64_t fabric; /* 0: none that it shares with other machines */
	int clique;
};
struct cluster_machine {
	int topo; /* which of the graphs it looks like */
	struct cluster_domain domain;
};
struct cluster_place {
	int system, machine; /* @machine: its number in that system */
};
struct cluster {
	int nsystems, nkinds, nmachines;
	long ngpus;
	struct topo **kinds;	      /* no two look the same */
	int *kind_of;		      /* of a system */
	struct cluster_place *places; /* of a machine */
};

/* That of @t, one machine: all its GPUs are in it and behind one NVSwitch. */
struct cluster_domain cluster_domain_of(const struct topo *t);
/* @nmachines machines, machine i looking like topos[machines[i].topo], each of one machine. Nothing of the arguments
 * is kept. */
enum taut_status cluster_create(struct cluster **out, const struct topo *const *topos, int ntopos,
				const struct cluster_machine *machines, int nmachines);
void cluster_free(struct cluster *c);

static inline const struct topo *cluster_topo(const struct cluster *c, int system)
{
	return c->kinds[c->kind_of[system]];
}

#endif
