/* SPDX-License-Identifier: Apache-2.0 */
/* This machine as hwloc and /sys show it: packages, NUMA nodes, caches, cores, network
 * cards, GPUs, huge pages. What cannot be seen is said in notes, not guessed. Read once;
 * owned by the caller; no threads. */
#ifndef TOPO_MACHINE_H
#define TOPO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* One of a tree: "machine", "package", "numa", "L3", "core", "cpu" ... */
struct machine_obj {
	char kind[32];
	int index;	/* the operating system's number; -1: none */
	uint64_t bytes; /* of a cache or of memory; else 0 */
	char cpus[128]; /* "0-3,8": processors below */
	char name[96];	/* model, where known */
	int nchildren;
	struct machine_obj *children;
};

struct machine_device {
	char kind[8];	 /* "net", "rdma", "gpu" */
	char name[64];	 /* "eth0", "mlx5_0"; a GPU without driver: its PCI address */
	char pci[16];	 /* "0000:3b:00.0"; "" for a device without */
	char model[96];	 /* vendor and device, where known */
	char state[16];	 /* "up", "down"; "" where it has none */
	long speed_mbit; /* -1: not known */
	int numa;	 /* -1: not known */
};

struct machine_pages { /* huge pages of one size set aside */
	uint64_t bytes, total, free;
};

enum { MACHINE_NOTES = 16, MACHINE_PAGES = 8 };

struct machine {
	char host[80], os[96], cpu[96];
	uint64_t memory;
	int packages, numas, cores, cpus; /* that this process may use */
	char allowed[256];		  /* processors that it may use, as a list */
	bool all_allowed;		  /* which are all there are */
	struct machine_obj *root;
	int ndevices;
	struct machine_device *devices;
	char thp[24], thp_shmem[24]; /* transparent huge pages: "madvise" ...; "": not known */
	int npages;
	struct machine_pages pages[MACHINE_PAGES];
	int nnotes;
	char notes[MACHINE_NOTES][192]; /* what is not known, and why */
};

enum taut_status machine_load(struct machine **out);
void machine_free(struct machine *m);

/* The chosen word of "always [madvise] never"; "" when there is none. Pure. */
void machine_chosen(char *out, size_t len, const char *text);

#endif
