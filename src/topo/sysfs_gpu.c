/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

#define DEVICES "/sys/bus/pci/devices"

enum { NVIDIA = 0x10de, AMD = 0x1002 };

static int by_address(const void *a, const void *b)
{
	int64_t x = topo_busid_key(a), y = topo_busid_key(b);

	return x < y ? -1 : x > y;
}

/* NVIDIA: display and 3D controllers; AMD: accelerators and display controllers without a screen (its 0x0300 are
 * mostly part of a processor). */
static bool is_gpu(uint32_t class, long vendor)
{
	class >>= 8;
	if (vendor == NVIDIA)
		return class == 0x0300 || class == 0x0302;
	return vendor == AMD && (class == 0x0302 || class == 0x0380 || class == 0x1200);
}

/* An idle GPU slows its link down to save power: what it can do counts. */
static void fill_gpu(struct scan *s, struct topo_node *n, const char *path)
{
	pci_fill(s, &n->pci, path);
	if (n->pci.max_gts > 0)
		n->pci.gts = n->pci.max_gts;
	if (n->pci.width && n->pci.width < n->pci.max_width)
		topo_note(s->t, "GPU %s: its PCI link runs %d of %d lanes", n->pci.busid, n->pci.width,
			  n->pci.max_width);
}

static enum taut_status add_gpu(struct scan *s, const char *path)
{
	int parent = pci_parent(s, path), node;

	node = parent < 0 ? -1 : topo_add_node(s->t, TOPO_GPU, parent);
	if (node < 0)
		return status_last();
	fill_gpu(s, &s->t->nodes[node], path);
	return TAUT_OK;
}

/* @hidden counts the GPUs that the driver does not show to this process. */
static enum taut_status look_at(struct scan *s, const char *busid, int *hidden)
{
	char link[FS_PATH], path[FS_PATH];
	uint32_t class = (uint32_t)fs_number(s->fs, 0, DEVICES "/%s/class", busid) & 0xffffff;
	bool bridge = class >> 8 == 0x0680, display = class >> 16 == 0x03 || class >> 8 == 0x1200;
	long vendor = bridge || display ? fs_number(s->fs, 0, DEVICES "/%s/vendor", busid) : 0;

	s->nvswitches += bridge && vendor == NVIDIA;
	if (!is_gpu(class, vendor))
		return TAUT_OK;
	if (vendor == NVIDIA && s->gpus && !nvml_find(s->gpus, busid)) {
		++*hidden;
		return TAUT_OK;
	}
	snprintf(link, sizeof(link), DEVICES "/%s", busid);
	if (!fs_real(s->fs, path, sizeof(path), link) || !pci_is_busid(strrchr(path, '/') + 1, strlen(busid)))
		return TAUT_OK;
	return add_gpu(s, path);
}

enum taut_status sysfs_gpus(struct scan *s)
{
	struct fs_names names;
	enum taut_status st = TAUT_OK;
	int hidden = 0;

	if (fs_list(s->fs, &names, DEVICES) < 0)
		topo_note(s->t, "PCI devices: not known, " DEVICES " cannot be read");
	if (names.n)
		qsort(names.name, (size_t)names.n, sizeof(*names.name), by_address);
	for (int i = 0; i < names.n && !st && !sysfs_full(s); i++)
		if (pci_is_busid(names.name[i], strlen(names.name[i])))
			st = look_at(s, names.name[i], &hidden);
	fs_names_free(&names);
	if (hidden)
		topo_note(s->t, "%d NVIDIA GPU%s left out: the driver does not show %s here", hidden,
			  hidden == 1 ? " is" : "s are", hidden == 1 ? "it" : "them");
	return st;
}
