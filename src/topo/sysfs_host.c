/* SPDX-License-Identifier: Apache-2.0 */
/* What counts for the whole machine: guest or not, IOMMU, whether cards can register GPU memory. */
#include "topo/sysfs.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* --- guest --- */

static bool known_hypervisor(const char *text)
{
	static const char *const names[] = { "QEMU",	   "KVM",    "VMware",	     "innotek",	  "Xen",
					     "Amazon EC2", "Google", "Bochs",	     "OpenStack", "Virtual Machine",
					     "Parallels",  "BHYVE",  "Alibaba Cloud" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(text, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Metal instances of clouds carry the cloud's name too: where the processor says that it is no guest's, it knows
 * better. */
static bool is_guest(struct scan *s)
{
	char vendor[64], product[64], type[32];

	if (s->is_guest)
		return true;
	for (int i = 0; i < s->t->nnodes; i++)
		if (s->t->nodes[i].kind == TOPO_CPU && !strcmp(s->t->nodes[i].cpu.arch, "x86_64"))
			return false;
	fs_line(s->fs, vendor, sizeof(vendor), "/sys/class/dmi/id/sys_vendor");
	fs_line(s->fs, product, sizeof(product), "/sys/class/dmi/id/product_name");
	if (fs_line(s->fs, type, sizeof(type), "/sys/hypervisor/type"))
		return true;
	return known_hypervisor(product) || (known_hypervisor(vendor) && !strstr(product, "metal"));
}

/* --- IOMMU --- */

/* Looks at the first, too, so that a capture holds it. */
static int folder_count(struct scan *s, const char *path)
{
	struct fs_names names;
	int n = fs_list(s->fs, &names, path);
	char first[FS_PATH];

	if (n > 0) {
		snprintf(first, sizeof(first), "%s/%s", path, names.name[0]);
		fs_kind_of(s->fs, first);
	}
	fs_names_free(&names);
	return n;
}

/* Of the device's group: "DMA", "DMA-FQ", "identity" ...; false: it has none, or it does not show. */
static bool group_type(struct scan *s, const char *busid, char *out, size_t len)
{
	return fs_line(s->fs, out, len, "/sys/bus/pci/devices/%s/iommu_group/type", busid);
}

/* As GPUs and cards see it: their traffic is what matters. */
static int group_state(struct scan *s)
{
	int state = -1;
	char type[32];

	for (int i = 0; i < s->t->nnodes; i++) {
		const struct topo_node *n = &s->t->nodes[i];

		if ((n->kind != TOPO_GPU && n->kind != TOPO_NIC) || !*n->pci.busid ||
		    !group_type(s, n->pci.busid, type, sizeof(type)))
			continue;
		if (strcmp(type, "identity") != 0)
			return 1;
		state = 0;
	}
	return state;
}

static void find_iommu(struct scan *s)
{
	int units = folder_count(s, "/sys/class/iommu"), groups = folder_count(s, "/sys/kernel/iommu_groups");

	s->t->iommu = group_state(s);
	if (s->t->iommu < 0 && units <= 0 && groups == 0)
		s->t->iommu = 0;
	if (s->t->iommu < 0)
		topo_note(s->t, "IOMMU: not known whether it translates: %s",
			  units < 0 && groups < 0 ? "/sys/class/iommu and /sys/kernel/iommu_groups cannot be read"
						  : "no GPU or network card shows the type of its group");
}

/* --- GPU memory for cards --- */

static bool has_vendor(const struct topo *t, uint16_t vendor)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_GPU && t->nodes[i].pci.vendor == vendor)
			return true;
	return false;
}

static bool has_rdma(const struct topo *t)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_NET && t->nodes[i].net.port)
			return true;
	return false;
}

/* With NVIDIA's: the module nvidia_peermem, or dma-buf, for which the driver must be the open one (it is what exports
 * GPU memory that way). */
static int nvidia_peermem(struct scan *s)
{
	char version[128];

	if (fs_kind_of(s->fs, "/sys/module/nvidia_peermem") == FS_DIR ||
	    fs_kind_of(s->fs, "/sys/module/nv_peer_mem") == FS_DIR)
		return 1;
	if (fs_line(s->fs, version, sizeof(version), "/proc/driver/nvidia/version"))
		return strstr(version, "Open Kernel Module") != NULL;
	return -1;
}

static void find_peermem(struct scan *s)
{
	bool nvidia = has_vendor(s->t, 0x10de), amd = has_vendor(s->t, 0x1002);

	if (nvidia)
		s->t->peermem = nvidia_peermem(s);
	else if (amd && fs_kind_of(s->fs, "/sys/module/amdgpu") == FS_DIR)
		s->t->peermem = 1; /* part of the driver */
	else
		s->t->peermem = -1;
	if (s->t->peermem < 0 && (nvidia || amd) && has_rdma(s->t))
		topo_note(s->t,
			  "GPUDirect RDMA: not known whether the GPU driver offers it: neither nvidia_peermem nor "
			  "the driver's version can be seen");
	for (int i = 0; i < s->t->nnodes; i++)
		if (s->t->nodes[i].kind == TOPO_GPU)
			s->t->nodes[i].gpu.gdr = s->t->peermem;
		else if (s->t->nodes[i].kind == TOPO_NET && s->t->nodes[i].net.port)
			s->t->nodes[i].net.gdr = s->t->peermem;
}

static void note_acs(struct scan *s)
{
	int unknown = 0;

	for (int i = 0; i < s->t->nnodes; i++)
		unknown += s->t->nodes[i].kind == TOPO_PCI && s->t->nodes[i].pci.acs < 0;
	if (unknown)
		topo_note(s->t, "ACS of %d PCI switch%s: not known, reading it needs root", unknown,
			  unknown == 1 ? "" : "es");
}

enum taut_status sysfs_host(struct scan *s)
{
	enum taut_status st;

	s->t->vm = is_guest(s);
	find_iommu(s);
	find_peermem(s);
	st = pci_root_ports(s);
	note_acs(s);
	return st;
}

enum { SCAN_NODES = 4096 };

bool sysfs_full(struct scan *s)
{
	if (s->t->nnodes < SCAN_NODES)
		return false;
	topo_note(s->t, "more than %d devices: the rest is left out", SCAN_NODES);
	return true;
}

enum taut_status sysfs_scan(struct scan *s)
{
	enum taut_status st = sysfs_cpus(s);

	if (!st)
		st = sysfs_gpus(s);
	if (!st)
		st = sysfs_amd(s);
	if (!st)
		st = sysfs_rdma(s);
	if (!st)
		st = sysfs_nets(s);
	if (!st)
		st = sysfs_host(s);
	if (!st && s->fs->no_memory)
		st = fail(TAUT_ERR_NOMEM, "%s: files of /sys", s->t->source);
	return st;
}
