/* SPDX-License-Identifier: Apache-2.0 */
/* What system it is, in a line; and several of them. */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

/* "8 GPUs", "no GPU"; @more follows a number. */
static void print_count(FILE *out, int n, const char *what, const char *more)
{
	if (n)
		fprintf(out, "%d %s%s%s", n, what, n == 1 ? "" : "s", more);
	else
		fprintf(out, "no %s", what);
}

/* "8 GPUs (NVIDIA H100)": the model when all have the same. */
static void print_gpus(FILE *out, const struct topo *t)
{
	int n = t->count[TOPO_GPU];
	const char *name = n ? t->nodes[t->of[TOPO_GPU][0]].name : "";

	for (int i = 1; i < n; i++)
		if (strcmp(name, t->nodes[t->of[TOPO_GPU][i]].name) != 0)
			name = "";
	print_count(out, n, "GPU", "");
	if (*name)
		fprintf(out, " (%s)", name);
}

/* "8 ports with RDMA and 2 without". */
static void print_ports(FILE *out, const struct topo *t)
{
	int n = 0, rdma = 0;

	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		n += !topo_is_twin(&t->nodes[t->of[TOPO_NET][i]]);
		rdma += topo_is_rdma(&t->nodes[t->of[TOPO_NET][i]]);
	}
	print_count(out, rdma ? rdma : n, "port", rdma ? " with RDMA" : " without RDMA");
	if (rdma && rdma < n)
		fprintf(out, " and %d without", n - rdma);
}

void topo_print_headline(FILE *out, const struct topo_view *v)
{
	const struct topo *t = v->t;

	fprintf(out, "%s: ", t->source);
	if (t->nmachines > 1)
		fprintf(out, "%d machines of one NVLink domain, ", t->nmachines);
	print_gpus(out, t);
	if (t->count[TOPO_NVS])
		fprintf(out, ", NVSwitch");
	fprintf(out, ", ");
	print_ports(out, t);
	fprintf(out, ", ");
	print_count(out, t->count[TOPO_CPU], "NUMA node", "");
	fprintf(out, "%s\n", t->vm ? ", a virtual machine" : "");
}

void topo_print_nodes(FILE *out, const struct topo_view *v)
{
	const struct topo *t = v->t;
	int *nets = mem_calloc((size_t)t->count[TOPO_NET] + 1, sizeof(*nets));
	int n = nets ? topo_matrix_nets(t, nets) : 0;
	double bw = 0;
	char sum[32];

	for (int i = 0; i < n; i++) {
		int link = topo_link_of(t, nets[i], t->nodes[nets[i]].parent, LINK_NET);

		bw += link >= 0 ? t->links[link].bw_gbps : 0;
	}
	fprintf(out, "%d nodes of this kind: %lld GPUs; between nodes %s", v->nodes,
		(long long)v->nodes * t->count[TOPO_GPU], path_class_names[n ? PATH_NET : PATH_DIS]);
	if (n)
		fprintf(out, ", %d port%s of each with %s GB/s together\n", n, n == 1 ? "" : "s",
			topo_number(bw, sum, sizeof(sum)));
	else
		fprintf(out, ": they have no port\n");
	mem_free(nets);
}
