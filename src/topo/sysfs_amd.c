/* SPDX-License-Identifier: Apache-2.0 */
/* What AMD's kernel driver says of its GPUs, in /sys/class/kfd: model, memory, XGMI. */
#include "topo/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

enum { KFD_NODES = 256, KFD_LINKS = 256 };
enum { LINK_TYPE_XGMI = 11, WEIGHT_OF_A_HOP = 15, HEAP_PUBLIC = 1, HEAP_PRIVATE = 2 }; /* kfd_crat.h */

/* The GPUs among the nodes of that driver. */
struct kfd {
	int n;
	int id[KFD_NODES], node[KFD_NODES];
};

/* The value of the line "key value"; @otherwise: there is none. */
static long long property(const char *text, const char *key, long long otherwise)
{
	size_t n = strlen(key);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, key, n) && line[n] == ' ')
			return strtoll(line + n, NULL, 10);
	return otherwise;
}

/* NULL: there is none. Freed with mem_free(). */
static char *properties(struct scan *s, const char *folder)
{
	char path[FS_PATH];

	if (snprintf(path, sizeof(path), NODES "/%s/properties", folder) >= (int)sizeof(path))
		return NULL;
	return fs_read(s->fs, NULL, path);
}

static int find_gpu(const struct topo *t, const char *text)
{
	long long domain = property(text, "domain", 0), place = property(text, "location_id", 0);
	char busid[32];
	int node;

	snprintf(busid, sizeof(busid), "%04x:%02x:%02x.%x", (unsigned)domain, (unsigned)(place >> 8) & 0xff,
		 (unsigned)(place >> 3) & 0x1f, (unsigned)place & 7);
	node = pci_node(t, busid);
	return node >= 0 && t->nodes[node].kind == TOPO_GPU ? node : -1;
}

static uint64_t read_memory(struct scan *s, const char *name)
{
	char folder[FS_PATH];
	struct fs_names banks;
	uint64_t bytes = 0;

	snprintf(folder, sizeof(folder), NODES "/%s/mem_banks", name);
	fs_list(s->fs, &banks, folder);
	for (int i = 0; i < banks.n && i < KFD_LINKS; i++) {
		char *text;
		long long heap, size;

		snprintf(folder, sizeof(folder), "%s/mem_banks/%s", name, banks.name[i]);
		text = properties(s, folder);
		heap = text ? property(text, "heap_type", 0) : 0;
		size = text ? property(text, "size_in_bytes", 0) : 0;
		if ((heap == HEAP_PUBLIC || heap == HEAP_PRIVATE) && size > 0)
			bytes += (uint64_t)size;
		mem_free(text);
	}
	fs_names_free(&banks);
	return bytes;
}

/* 90402 is gfx942, 90010 gfx90a. */
static void fill_gcn(struct topo_gpu *gpu, long long version)
{
	if (version > 0 && version < 1000000)
		snprintf(gpu->gcn, sizeof(gpu->gcn), "gfx%lld%llx%llx", version / 10000, version / 100 % 100,
			 version % 100);
}

/* Whether it is the node of a GPU that the graph has. */
static void look_at(struct scan *s, struct kfd *k, const char *name)
{
	char *text = properties(s, name);
	int node = text && property(text, "simd_count", 0) > 0 ? find_gpu(s->t, text) : -1;

	if (node >= 0) {
		struct topo_node *n = &s->t->nodes[node];

		n->gpu.listed = true;
		n->gpu.memory = read_memory(s, name);
		fill_gcn(&n->gpu, property(text, "gfx_target_version", 0));
		fs_line(s->fs, n->name, sizeof(n->name), NODES "/%s/name", name);
		k->id[k->n] = atoi(name);
		k->node[k->n++] = node;
	}
	mem_free(text);
}

/* The driver gives the rates of one link and of all. Links over several hops are no links. */
static enum taut_status add_link(struct scan *s, const struct kfd *k, int from, const char *text)
{
	long long least = property(text, "min_bandwidth", 0), most = property(text, "max_bandwidth", 0);
	long long to = property(text, "node_to", -1);

	if (property(text, "type", 0) != LINK_TYPE_XGMI || property(text, "weight", 0) > WEIGHT_OF_A_HOP)
		return TAUT_OK;
	for (int i = 0; i < k->n; i++)
		if (k->id[i] == to && k->node[i] != from && topo_link_between(s->t, from, k->node[i], LINK_XGMI) < 0)
			return topo_add_link(s->t, from, k->node[i], LINK_XGMI,
					     least > 0 && most > least && most / least < 64 ? (int)(most / least) : 1,
					     0);
	return TAUT_OK;
}

static enum taut_status add_links(struct scan *s, const struct kfd *k, int from)
{
	char folder[FS_PATH];
	struct fs_names links;
	enum taut_status st = TAUT_OK;

	snprintf(folder, sizeof(folder), NODES "/%d/io_links", k->id[from]);
	fs_list(s->fs, &links, folder);
	for (int i = 0; i < links.n && i < KFD_LINKS && !st; i++) {
		char *text;

		snprintf(folder, sizeof(folder), "%d/io_links/%s", k->id[from], links.name[i]);
		text = properties(s, folder);
		if (text)
			st = add_link(s, k, k->node[from], text);
		mem_free(text);
	}
	fs_names_free(&links);
	return st;
}

static bool is_number(const char *name)
{
	return strlen(name) < 6 && strspn(name, "0123456789") == strlen(name);
}

enum taut_status sysfs_amd(struct scan *s)
{
	struct kfd k = { .n = 0 };
	struct fs_names names;
	enum taut_status st = TAUT_OK;

	fs_list(s->fs, &names, NODES);
	for (int i = 0; i < names.n && k.n < KFD_NODES; i++)
		if (is_number(names.name[i]))
			look_at(s, &k, names.name[i]);
	fs_names_free(&names);
	for (int i = 0; i < k.n && !st; i++)
		st = add_links(s, &k, i);
	return st;
}
