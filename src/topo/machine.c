/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/machine.h"

#include <dirent.h>
#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"

static void note(struct machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void note(struct machine *m, const char *fmt, ...)
{
	va_list ap;

	if (m->nnotes == MACHINE_NOTES)
		return;
	va_start(ap, fmt);
	vsnprintf(m->notes[m->nnotes++], sizeof(m->notes[0]), fmt, ap);
	va_end(ap);
}

/* --- small files of /sys --- */

/* First line, without its end; false when there is none. */
static bool read_line(char *out, size_t len, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool read_line(char *out, size_t len, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	bool ok;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	*out = '\0';
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(out, (int)len, f) != NULL;
	fclose(f);
	out[strcspn(out, "\n")] = '\0';
	return ok;
}

static long read_number(const char *path, long otherwise)
{
	char text[64], *end;
	long v;

	if (!read_line(text, sizeof(text), "%s", path))
		return otherwise;
	v = strtol(text, &end, 10);
	return end == text ? otherwise : v;
}

void machine_chosen(char *out, size_t len, const char *text)
{
	const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;

	snprintf(out, len, "%.*s", close ? (int)(close - open - 1) : 0, close ? open + 1 : "");
}

/* --- the tree --- */

static const char *kind_of(hwloc_obj_t o, char *text, size_t len)
{
	static const struct {
		hwloc_obj_type_t type;
		const char *kind;
	} kinds[] = {
		{ HWLOC_OBJ_MACHINE, "machine" }, { HWLOC_OBJ_PACKAGE, "package" }, { HWLOC_OBJ_NUMANODE, "numa" },
		{ HWLOC_OBJ_CORE, "core" },	  { HWLOC_OBJ_PU, "cpu" },	    { HWLOC_OBJ_DIE, "die" },
		{ HWLOC_OBJ_GROUP, "group" },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == o->type)
			return kinds[i].kind;
	hwloc_obj_type_snprintf(text, len, o, 0); /* "L3", "L1d" */
	return text;
}

static uint64_t bytes_of(hwloc_obj_t o)
{
	if (o->type == HWLOC_OBJ_NUMANODE)
		return o->attr->numanode.local_memory;
	if (o->type == HWLOC_OBJ_MACHINE)
		return o->total_memory;
	return hwloc_obj_type_is_cache(o->type) ? o->attr->cache.size : 0;
}

/* The processor fills its 48 bytes with spaces. */
static void copy_model(char *out, size_t len, hwloc_obj_t package)
{
	const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

	snprintf(out, len, "%s", model ? model : "");
	for (size_t n = strlen(out); n && out[n - 1] == ' '; n--)
		out[n - 1] = '\0';
}

static void describe_obj(struct machine_obj *out, hwloc_obj_t o)
{
	char text[32];

	snprintf(out->kind, sizeof(out->kind), "%s", kind_of(o, text, sizeof(text)));
	out->index = o->os_index == HWLOC_UNKNOWN_INDEX || hwloc_obj_type_is_cache(o->type) ? -1 : (int)o->os_index;
	out->bytes = bytes_of(o);
	if (o->cpuset)
		hwloc_bitmap_list_snprintf(out->cpus, sizeof(out->cpus), o->cpuset);
	if (o->type == HWLOC_OBJ_PACKAGE)
		copy_model(out->name, sizeof(out->name), o);
}

static void free_children(struct machine_obj *o)
{
	for (int i = 0; i < o->nchildren; i++)
		free_children(&o->children[i]);
	mem_free(o->children);
}

/* Memory first, then what is below. On failure what is built so far hangs on @out. */
static enum taut_status build(struct machine_obj *out, hwloc_obj_t o)
{
	unsigned n = o->memory_arity + o->arity;
	hwloc_obj_t lists[] = { o->memory_first_child, o->first_child };

	describe_obj(out, o);
	out->children = n ? mem_calloc(n, sizeof(*out->children)) : NULL;
	if (n && !out->children)
		return fail(TAUT_ERR_NOMEM, "machine tree");
	for (int l = 0; l < 2; l++)
		for (hwloc_obj_t c = lists[l]; c; c = c->next_sibling)
			if (build(&out->children[out->nchildren++], c))
				return TAUT_ERR_NOMEM;
	return TAUT_OK;
}

static int count(hwloc_topology_t t, hwloc_obj_type_t type)
{
	int n = hwloc_get_nbobjs_by_type(t, type);

	return n < 0 ? 0 : n;
}

/* Only what this process may run on is asked for; hwloc knows cgroups, not taskset. */
static void restrict_to_mine(struct machine *m, hwloc_topology_t t)
{
	hwloc_bitmap_t mine = hwloc_bitmap_alloc();

	if (!mine || hwloc_get_cpubind(t, mine, HWLOC_CPUBIND_PROCESS)) {
		note(m, "processors: which of them this process may use is not known: %s", strerror(errno));
	} else {
		hwloc_bitmap_list_snprintf(m->allowed, sizeof(m->allowed), mine);
		m->all_allowed = hwloc_bitmap_isincluded(hwloc_topology_get_complete_cpuset(t), mine);
		hwloc_topology_restrict(t, mine, 0);
	}
	hwloc_bitmap_free(mine);
}

static void describe_cpus(struct machine *m, hwloc_topology_t t)
{
	hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);

	m->packages = count(t, HWLOC_OBJ_PACKAGE);
	m->numas = count(t, HWLOC_OBJ_NUMANODE);
	m->cores = count(t, HWLOC_OBJ_CORE);
	m->cpus = count(t, HWLOC_OBJ_PU);
	m->memory = hwloc_get_root_obj(t)->total_memory;
	copy_model(m->cpu, sizeof(m->cpu), package);
	if (!m->packages)
		note(m, "packages: /sys does not say which processors share one");
	if (!m->cores)
		note(m, "cores: /sys does not say which processors share one");
	if (!m->memory)
		note(m, "memory: neither /sys nor /proc/meminfo tells its size");
	for (int level = 1; level <= 3; level++)
		if (hwloc_get_cache_type_depth(t, (unsigned)level, (hwloc_obj_cache_type_t)-1) < 0)
			note(m, "L%d cache: not described in /sys (common in virtual machines)", level);
}

/* --- devices --- */

static struct machine_device *add_device(struct machine *m, const char *kind, const char *name)
{
	struct machine_device *grown = mem_realloc(m->devices, (size_t)m->ndevices + 1, sizeof(*grown)), *d;

	if (!grown)
		return NULL;
	m->devices = grown;
	d = &grown[m->ndevices++];
	*d = (struct machine_device){ .speed_mbit = -1, .numa = -1 };
	snprintf(d->kind, sizeof(d->kind), "%s", kind);
	snprintf(d->name, sizeof(d->name), "%s", name);
	return d;
}

static void describe_pci(struct machine_device *d, hwloc_obj_t pci)
{
	const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
	const char *vendor = hwloc_obj_get_info_by_name(pci, "PCIVendor");
	const char *device = hwloc_obj_get_info_by_name(pci, "PCIDevice");
	char path[96];

	snprintf(d->pci, sizeof(d->pci), "%04x:%02x:%02x.%01x", (unsigned)a->domain & 0xffff, a->bus & 0xff,
		 a->dev & 0xff, a->func & 0xf);
	if (vendor || device)
		snprintf(d->model, sizeof(d->model), "%.40s%s%.50s", vendor ? vendor : "", vendor && device ? " " : "",
			 device ? device : "");
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", d->pci);
	d->numa = (int)read_number(path, -1);
}

static hwloc_obj_t pci_above(hwloc_obj_t o)
{
	while (o && o->type != HWLOC_OBJ_PCI_DEVICE)
		o = o->parent;
	return o;
}

static bool named_device(hwloc_topology_t t, const char *name, hwloc_obj_t *found)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));)
		if (o->name && !strcmp(o->name, name)) {
			*found = o;
			return true;
		}
	return false;
}

static enum taut_status add_net(struct machine *m, hwloc_topology_t t, const char *name)
{
	struct machine_device *d = add_device(m, "net", name);
	char path[320];
	hwloc_obj_t o;

	if (!d)
		return fail(TAUT_ERR_NOMEM, "network card %s", name);
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	d->speed_mbit = read_number(path, -1);
	if (d->speed_mbit <= 0)
		d->speed_mbit = -1;
	read_line(d->state, sizeof(d->state), "/sys/class/net/%s/operstate", name);
	if (named_device(t, name, &o) && pci_above(o))
		describe_pci(d, pci_above(o));
	return TAUT_OK;
}

static enum taut_status add_nets(struct machine *m, hwloc_topology_t t)
{
	DIR *dir = opendir("/sys/class/net");
	enum taut_status st = TAUT_OK;

	if (!dir) {
		note(m, "network cards: /sys/class/net cannot be read: %s", strerror(errno));
		return TAUT_OK;
	}
	for (struct dirent *e = readdir(dir); e && !st; e = readdir(dir)) {
		char link[320], to[16];

		snprintf(link, sizeof(link), "/sys/class/net/%s", e->d_name);
		if (e->d_name[0] != '.' && readlink(link, to, sizeof(to)) > 0) /* bonding_masters is a file */
			st = add_net(m, t, e->d_name);
	}
	closedir(dir);
	return st;
}

static enum taut_status add_rdmas(struct machine *m, hwloc_topology_t t)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));) {
		struct machine_device *d;

		if (o->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS)
			continue;
		d = add_device(m, "rdma", o->name ? o->name : "?");
		if (!d)
			return fail(TAUT_ERR_NOMEM, "rdma device");
		if (pci_above(o))
			describe_pci(d, pci_above(o));
	}
	return TAUT_OK;
}

/* Display controllers (class 3) that are more than a console, and accelerators (class 0x12). */
static bool is_gpu(hwloc_obj_t pci)
{
	unsigned class = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;

	return class >> 8 == 0x12 || (class >> 8 == 0x03 && (vendor == 0x10de || vendor == 0x1002 || class == 0x0302));
}

static enum taut_status add_gpus(struct machine *m, hwloc_topology_t t)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(t, o));) {
		struct machine_device *d;

		if (!is_gpu(o))
			continue;
		d = add_device(m, "gpu", "");
		if (!d)
			return fail(TAUT_ERR_NOMEM, "GPU");
		describe_pci(d, o);
		snprintf(d->name, sizeof(d->name), "%s", d->pci);
	}
	return TAUT_OK;
}

static int by_kind_and_name(const void *a, const void *b)
{
	const struct machine_device *x = a, *y = b;
	int kind = strcmp(x->kind, y->kind);

	return kind ? kind : strcmp(x->name, y->name);
}

static enum taut_status add_devices(struct machine *m, hwloc_topology_t t)
{
	enum taut_status st = add_nets(m, t);

	if (!st)
		st = add_rdmas(m, t);
	if (!st)
		st = add_gpus(m, t);
	if (m->ndevices)
		qsort(m->devices, (size_t)m->ndevices, sizeof(*m->devices), by_kind_and_name);
	if (!hwloc_get_next_pcidev(t, NULL))
		note(m, "PCI: no device is visible (is /sys mounted?): GPUs and the places of network cards are not "
			"known");
	return st;
}

/* --- huge pages --- */

static void read_pool(struct machine *m, const char *entry)
{
	struct machine_pages *p = &m->pages[m->npages];
	char path[320];
	unsigned long kb;

	if (m->npages == MACHINE_PAGES || sscanf(entry, "hugepages-%lukB", &kb) != 1)
		return;
	p->bytes = (uint64_t)kb * 1024;
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/%s/nr_hugepages", entry);
	p->total = (uint64_t)read_number(path, 0);
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/%s/free_hugepages", entry);
	p->free = (uint64_t)read_number(path, 0);
	m->npages++;
}

static int by_size(const void *a, const void *b)
{
	const struct machine_pages *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void read_pages(struct machine *m)
{
	DIR *dir = opendir("/sys/kernel/mm/hugepages");
	char line[128];

	if (read_line(line, sizeof(line), "/sys/kernel/mm/transparent_hugepage/enabled"))
		machine_chosen(m->thp, sizeof(m->thp), line);
	if (read_line(line, sizeof(line), "/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
		machine_chosen(m->thp_shmem, sizeof(m->thp_shmem), line);
	if (!m->thp[0])
		note(m, "transparent huge pages: the kernel has none, or /sys does not show them");
	if (!dir) {
		note(m, "huge pages: /sys/kernel/mm/hugepages cannot be read: %s", strerror(errno));
		return;
	}
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		read_pool(m, e->d_name);
	closedir(dir);
	qsort(m->pages, (size_t)m->npages, sizeof(m->pages[0]), by_size);
}

/* --- all --- */

static enum taut_status open_hwloc(hwloc_topology_t *out)
{
	hwloc_topology_t t;

	if (hwloc_topology_init(&t))
		return errno_fail(errno, "hwloc does not start");
	hwloc_topology_set_icache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (hwloc_topology_load(t)) {
		int err = errno;

		hwloc_topology_destroy(t);
		return errno_fail(err, "hwloc cannot read this machine");
	}
	*out = t;
	return TAUT_OK;
}

static enum taut_status fill(struct machine *m, hwloc_topology_t t)
{
	struct utsname u;
	enum taut_status st;

	if (!uname(&u)) {
		snprintf(m->host, sizeof(m->host), "%s", u.nodename);
		snprintf(m->os, sizeof(m->os), "%.20s %.48s %.20s", u.sysname, u.release, u.machine);
	}
	restrict_to_mine(m, t);
	describe_cpus(m, t);
	m->root = mem_calloc(1, sizeof(*m->root));
	if (!m->root)
		return fail(TAUT_ERR_NOMEM, "machine tree");
	st = build(m->root, hwloc_get_root_obj(t));
	if (!st)
		st = add_devices(m, t);
	if (!st)
		read_pages(m);
	return st;
}

enum taut_status machine_load(struct machine **out)
{
	struct machine *m = mem_calloc(1, sizeof(*m));
	hwloc_topology_t t = NULL;
	enum taut_status st;

	if (!m)
		return fail(TAUT_ERR_NOMEM, "description of this machine");
	st = open_hwloc(&t);
	if (st)
		goto err_free;
	st = fill(m, t);
	hwloc_topology_destroy(t);
	if (st)
		goto err_free;
	*out = m;
	return TAUT_OK;
err_free:
	machine_free(m);
	return st;
}

void machine_free(struct machine *m)
{
	if (!m)
		return;
	if (m->root)
		free_children(m->root);
	mem_free(m->root);
	mem_free(m->devices);
	mem_free(m);
}
