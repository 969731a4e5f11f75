/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "topo_show.h"

/* What is printed: the cluster, and the first rank of each machine, for its host's name. */
struct job {
	const struct taut_comm *comm;
	const struct cluster *c;
	int *first_rank, *first_machine; /* of a machine; of a system: its machine 0 */
};

static const char *host_of(const struct job *j, int machine)
{
	return boot_peer(j->comm->boot, j->first_rank[machine])->host;
}

static const char *plural(long n)
{
	return n == 1 ? "" : "s";
}

static void print_size(const struct job *j)
{
	const struct cluster *c = j->c;

	printf("%d rank%s on %d machine%s: ", j->comm->size, plural(j->comm->size), c->nmachines, plural(c->nmachines));
	if (c->nsystems < c->nmachines)
		printf("%d system%s that NVLink joins, ", c->nsystems, plural(c->nsystems));
	if (c->nmachines > 1)
		printf("%d kind%s, ", c->nkinds, plural(c->nkinds));
	printf("%ld GPU%s\n", c->ngpus, plural(c->ngpus));
}

/* "node1, node3, rack1a+rack1b". */
static void print_hosts(const struct job *j, int kind)
{
	const struct cluster *c = j->c;
	const char *between = "";

	printf("hosts: ");
	for (int s = 0; s < c->nsystems; s++) {
		if (c->kind_of[s] != kind)
			continue;
		printf("%s%s", between, host_of(j, j->first_machine[s]));
		for (int m = j->first_machine[s] + 1; m < c->nmachines && c->kinds[kind]->nmachines > 1; m++)
			if (c->places[m].system == s)
				printf("+%s", host_of(j, m));
		between = ", ";
	}
	printf("\n");
}

static int systems_of(const struct cluster *c, int kind)
{
	int n = 0;

	for (int s = 0; s < c->nsystems; s++)
		n += c->kind_of[s] == kind;
	return n;
}

static enum taut_status print_kind(const struct job *j, const struct reach_rules *rules, int kind)
{
	struct topo_view v = { .t = j->c->kinds[kind], .rules = rules, .nodes = systems_of(j->c, kind) };
	struct topo_paths *paths;
	enum taut_status st = paths_create(&paths, v.t, &path_rules_default);

	if (st)
		return st;
	v.p = paths;
	printf("\n");
	print_hosts(j, kind);
	topo_print_headline(stdout, &v);
	if (v.nodes > 1)
		topo_print_nodes(stdout, &v);
	if (v.t->count[TOPO_GPU] || topo_has_rdma(v.t)) {
		printf("\n");
		st = topo_print_matrix(stdout, &v, false);
	}
	topo_print_notes(stdout, &v);
	if (!st)
		st = reach_strict(v.t, paths, rules);
	paths_free(paths);
	return st;
}

static enum taut_status print_cluster(struct job *j)
{
	const struct taut_comm *comm = j->comm;
	struct reach_rules rules = reach_rules_from(&comm->cfg);
	enum taut_status st = TAUT_OK;

	j->first_rank = mem_calloc((size_t)j->c->nmachines, sizeof(*j->first_rank));
	j->first_machine = mem_calloc((size_t)j->c->nsystems, sizeof(*j->first_machine));
	if (!j->first_rank || !j->first_machine)
		st = fail(TAUT_ERR_NOMEM, "the hosts of %d machines", j->c->nmachines);
	for (int r = comm->size - 1; r >= 0 && !st; r--)
		j->first_rank[comm->node_of[r]] = r;
	for (int m = 0; m < j->c->nmachines && !st; m++)
		if (j->c->places[m].machine == 0)
			j->first_machine[j->c->places[m].system] = m;
	if (!st)
		print_size(j);
	for (int k = 0; k < j->c->nkinds && !st; k++)
		st = print_kind(j, &rules, k);
	mem_free(j->first_rank);
	mem_free(j->first_machine);
	return st;
}

static enum taut_status meet_and_print(void)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .name = "topo" };
	struct cluster *c = NULL;
	struct taut_comm *comm;
	enum taut_status st = taut_comm_create_env(&comm, &opts);

	if (st)
		return st;
	st = comm_cluster(&c, comm);
	if (!st && comm->rank == 0)
		st = print_cluster(&(struct job){ .comm = comm, .c = c });
	cluster_free(c);
	taut_comm_destroy(comm);
	return st;
}

/* RANK and WORLD_SIZE alone are set in every shell of a training operator's container: the others of the job need not
 * run this command. torchrun says more. */
static bool is_doubtful(const struct boot_env *env)
{
	return !strcmp(env->launcher, "torchrun") && env->local_rank < 0;
}

bool topo_launched(int *rc, const struct config *cfg)
{
	struct boot_env env;
	enum taut_status st = boot_env_detect(&env, cfg);

	if (!st && env.size < 2)
		return false;
	if (!st && is_doubtful(&env)) {
		fprintf(stderr, "taut topo: RANK and WORLD_SIZE are set, but not LOCAL_RANK, as torchrun would: this "
				"machine alone is shown\n");
		return false;
	}
	if (!st)
		st = meet_and_print();
	if (st)
		fprintf(stderr, "taut topo: this machine without the others of the job: taut topo --nodes 1\n");
	*rc = st ? EXIT_FAILURE : EXIT_SUCCESS;
	return true;
}
