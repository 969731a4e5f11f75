/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a GPU by its model's name alone. Pure. */
#ifndef TOPO_MODELS_H
#define TOPO_MODELS_H

#include <stddef.h>
#include <stdint.h>

struct gpu_model {
	const char *word; /* "h100": as the synthetic form names it */
	const char *name; /* "NVIDIA H100" */
	int sm;		  /* compute capability times 10; 0: not NVIDIA's */
	const char *gcn;  /* "gfx942"; "" */
	int links;	  /* NVLinks (XGMI links) of its SXM (OAM) form; 0: none */
	int pcie;	  /* generation */
	int memory_gb;	  /* 0: comes in several sizes */
};
extern const struct gpu_model gpu_models[]; /* ends with a NULL word */

/* @word in any letter case; NULL: no such model. */
const struct gpu_model *gpu_model_named(const char *word);
/* The model whose word stands in @text as a word: "Tesla V100-SXM2-16GB"; NULL. */
const struct gpu_model *gpu_model_in(const char *text);
/* AMD's instruction set by PCI device number: "gfx90a"; "": not known. */
const char *gpu_gcn_of(uint16_t device);

#endif
