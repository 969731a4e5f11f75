/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix as nvidia-smi topo -m prints it, byte for byte: scripts read that. */
#include "topo_show.h"

#include "base/mem.h"

static const char legend[] =
	"\nLegend:\n\n"
	"  X    = Self\n"
	"  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
	"  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
	"  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
	"  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
	"  PIX  = Connection traversing at most a single PCIe bridge\n"
	"  NV#  = Connection traversing a bonded set of # NVLinks\n";

static void print_header(FILE *out, int ngpus, int nnets, bool underline)
{
	fprintf(out, "\t%s", underline ? "\033[4m" : "");
	for (int i = 0; i < ngpus; i++)
		fprintf(out, "GPU%d\t", i);
	for (int i = 0; i < nnets; i++)
		fprintf(out, "NIC%d\t", i);
	fprintf(out, "CPU Affinity\tNUMA Affinity\tGPU NUMA ID%s\n", underline ? "\033[0m" : "");
}

static void print_cells(FILE *out, const struct topo_view *v, int from, const int *nodes, int n)
{
	char cell[16];

	for (int i = 0; i < n; i++)
		fprintf(out, "\t%s", path_smi_text(paths_get(v->p, from, nodes[i]), cell, sizeof(cell)));
}

static void print_affinity(FILE *out, const struct topo *t, int gpu)
{
	int cpu = topo_cpu_of(t, gpu);
	const struct topo_cpu *c = cpu >= 0 ? &t->nodes[cpu].cpu : NULL;
	char list[512];

	if (c && c->nmask > 0)
		fprintf(out, "\t%s", topo_mask_list(c->affinity, c->nmask, list, sizeof(list)));
	else
		fprintf(out, "\tN/A");
	if (c && c->numa >= 0)
		fprintf(out, "\t%d", c->numa);
	else
		fprintf(out, "\tN/A");
	/* GPU memory that is a NUMA node of its own is not known to the graph. */
	fprintf(out, "\t\tN/A\n");
}

static void print_rows(FILE *out, const struct topo_view *v, const int *nets, int nnets)
{
	const int *gpus = v->t->of[TOPO_GPU];
	int ngpus = v->t->count[TOPO_GPU];

	for (int i = 0; i < ngpus; i++) {
		fprintf(out, "GPU%d", i);
		print_cells(out, v, gpus[i], gpus, ngpus);
		print_cells(out, v, gpus[i], nets, nnets);
		print_affinity(out, v->t, gpus[i]);
	}
	for (int i = 0; i < nnets; i++) {
		fprintf(out, "NIC%d", i);
		print_cells(out, v, nets[i], gpus, ngpus);
		print_cells(out, v, nets[i], nets, nnets);
		fprintf(out, "\t\t\t\t\n");
	}
}

static void print_nic_legend(FILE *out, const struct topo *t, const int *nets, int nnets)
{
	char id[64];

	if (!nnets)
		return;
	fprintf(out, "\nNIC Legend:\n\n");
	for (int i = 0; i < nnets; i++)
		fprintf(out, "  NIC%d: %s\n", i, topo_id(t, nets[i], id, sizeof(id)));
	fprintf(out, "\n");
}

enum taut_status topo_print_matrix(FILE *out, const struct topo_view *v, bool underline)
{
	const struct topo *t = v->t;
	int *nets = mem_calloc((size_t)t->count[TOPO_NET] + 1, sizeof(*nets)), nnets;

	if (!nets)
		return fail(TAUT_ERR_NOMEM, "matrix of %d ports: no memory", t->count[TOPO_NET]);
	nnets = topo_matrix_ports(t, nets);
	print_header(out, t->count[TOPO_GPU], nnets, underline);
	print_rows(out, v, nets, nnets);
	fputs(legend, out);
	print_nic_legend(out, t, nets, nnets);
	mem_free(nets);
	return TAUT_OK;
}
