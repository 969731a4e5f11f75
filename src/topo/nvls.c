/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/nvls.h"

#include <math.h>
#include <stdio.h>

#include "topo/channels_create.h"

enum { NVLS_SM = 90 }; /* Hopper's switches are the first that add */

static double link_to_switch(const struct topo *t, int gpu)
{
	const struct topo_node *n = &t->nodes[gpu];

	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *l = &t->links[n->links[i]];
		int other = l->a == gpu ? l->b : l->a;

		if (t->nodes[other].kind == TOPO_NVS)
			return l->bw_gbps;
	}
	return 0;
}

/* The narrowest of the GPUs' links to the switches; 0: some GPU cannot. */
static double narrowest(const struct topo *t, int *gpu)
{
	double least = INFINITY;

	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		int node = t->of[TOPO_GPU][i];
		double bw = t->nodes[node].gpu.sm >= NVLS_SM ? link_to_switch(t, node) : 0;

		if (bw < least) {
			least = bw;
			*gpu = node;
		}
	}
	return least;
}

static int channels_of(const struct topo *t, const struct channels_req *req)
{
	int ngpus = t->count[TOPO_GPU], gpu;

	if (req->nnodes > 1 || ngpus < 2 || ngpus > CHANNELS_MAX || narrowest(t, &gpu) <= 0)
		return 0;
	return ngpus;
}

double nvls_bound(const struct topo *t, const struct channels_req *req, char *why, size_t len)
{
	int n = channels_of(t, req), gpu = -1;
	char name[64];
	double least;

	if (!n)
		return 0;
	least = narrowest(t, &gpu);
	if (why && len)
		snprintf(why, len, "%s has %.1f GB/s to the NVSwitches, of which a sum of its own goes out too",
			 topo_name(t, gpu, name, sizeof(name)), least);
	return least * n / (n + 1);
}

/* A GPU sends what each of the n leaders asks for, and as a leader the sum: n + 1 streams. */
enum taut_status nvls_find(struct channels **out, const struct topo *t, const struct channels_req *req)
{
	int n = channels_of(t, req);
	enum taut_status st = channels_create(out, req->pattern, t->count[TOPO_GPU], t->of[TOPO_GPU]);

	if (st || !n)
		return st;
	(*out)->n = n;
	(*out)->total_gbps = nvls_bound(t, req, NULL, 0);
	(*out)->bw_intra = (*out)->bw_inter = (*out)->total_gbps / n;
	(*out)->type_intra = PATH_NVL;
	(*out)->type_inter = PATH_PIX;
	for (int c = 0; c < n; c++) {
		(*out)->ch[c].bw_gbps = (*out)->total_gbps / n;
		for (int i = 0; i < n; i++)
			(*out)->ch[c].gpus[i] = t->of[TOPO_GPU][(c + i) % n];
	}
	return TAUT_OK;
}
