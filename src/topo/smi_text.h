/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of `nvidia-smi topo -m` between its text (smi_text.c) and the graph (smi_graph.c). */
#ifndef TOPO_SMI_TEXT_H
#define TOPO_SMI_TEXT_H

#include "topo/paths.h"

enum { SMI_MAX_GPUS = 128, SMI_MAX_DEVS = 256 };

struct smi_cell {
	int class; /* enum smi_class; -1: not in the text */
	int nv;	   /* of SMI_NV: links */
};
struct smi_dev {
	bool gpu, listed, row; /* named by the NIC Legend; its row was in the text */
	int number;	       /* of "GPU3", "NIC1"; -1: a NIC by name */
	char label[32];	       /* as in the header */
	char name[64];	       /* of a NIC: that of the legend, else the label */
	char cpus[512];	       /* "0-63,128-191"; "" */
	char numa[64];	       /* "0", "0-1"; "" */
};
struct smi_matrix {
	int n; /* devices, in the order of the header */
	struct smi_dev *dev;
	struct smi_cell *cell; /* [n * n], symmetric, X on the diagonal */
	bool numa_column;
	int filled, unknown; /* cells taken from the other half; pairs that neither half has */
	char odd[160];	     /* what was mended: "" or a sentence */
	bool second;	     /* another matrix follows */
};

/* *@out is the caller's, freed with smi_matrix_free(). */
enum taut_status smi_parse(struct smi_matrix **out, const char *name, const char *text, size_t len);
void smi_matrix_free(struct smi_matrix *m);
enum taut_status smi_to_graph(struct topo **out, const char *name, const struct smi_matrix *m);

#endif
