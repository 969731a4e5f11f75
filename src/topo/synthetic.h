/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic form between its words (synthetic.c) and the graph (synthetic_build.c). Grammar: docs/TOPOLOGY.md. */
#ifndef TOPO_SYNTHETIC_H
#define TOPO_SYNTHETIC_H

#include "topo/models.h"
#include "topo/topo.h"

enum synth_mesh { MESH_FULL, MESH_RING, MESH_CUBE, MESH_PAIRS, MESHES };
enum synth_cpu { CPU_INTEL, CPU_AMD, CPU_POWER, CPU_ARM, CPUS };
enum { SYNTH_MAX_GPUS = 4096, SYNTH_MAX_MESH = 128, SYNTH_NICS = 16 };

struct synth_nics {
	long n, speed_mbit; /* 0: not said */
	int layer;	    /* row of synth_layers[] */
};
struct synth_layer {
	const char *word;  /* "ib" */
	const char *layer; /* "infiniband" */
	const char *name;  /* "mlx5_%d" */
};
extern const struct synth_layer synth_layers[]; /* ends with a NULL word */

struct synth {
	long nodes;		       /* of the cluster */
	long machines;		       /* of one NVLink domain: the system */
	long numa, cores, switches;    /* of each machine */
	long gpus, links, nvswitches;  /* of each machine; of each GPU; of the system */
	long sm, rails;		       /* 0: not said */
	const struct gpu_model *model; /* NULL: not said */
	long mesh, cpu;		       /* enum synth_mesh, enum synth_cpu; -1: not said */
	double gts;		       /* 0: not said */
	int width;
	uint64_t memory; /* bytes of each machine; 0: not said */
	int nnics;
	struct synth_nics nics[SYNTH_NICS];
};

enum taut_status synth_parse(struct synth *out, const char *name, const char *text, size_t len);
/* NVLinks between GPUs @i and @j of @n, each having @links. */
int synth_mesh_links(enum synth_mesh mesh, int n, int links, int i, int j);
enum taut_status synth_build(struct topo **out, const char *name, const struct synth *s);

#endif
