/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

enum { CHAIN = 16 }; /* PCI devices on the way down to one */

/* --- addresses --- */

static size_t hex_digits(const char *at, const char *end)
{
	size_t n = 0;

	while (at + n < end && isxdigit((unsigned char)at[n]))
		n++;
	return n;
}

/* "0000:3b:00.0", with up to 8 digits of domain. */
bool pci_is_busid(const char *name, size_t len)
{
	const char *end = name + len;
	size_t n = hex_digits(name, end);

	if (n < 4 || n > 8 || len != n + 8)
		return false;
	name += n;
	return name[0] == ':' && hex_digits(name + 1, end) == 2 && name[3] == ':' && hex_digits(name + 4, end) == 2 &&
	       name[6] == '.' && name[7] >= '0' && name[7] <= '7';
}

int pci_node(const struct topo *t, const char *busid)
{
	int64_t key = topo_busid_key(busid);

	for (int i = 0; i < t->nnodes && key >= 0; i++)
		if (*t->nodes[i].pci.busid && topo_busid_key(t->nodes[i].pci.busid) == key)
			return i;
	return -1;
}

/* --- the devices on the way down --- */

/* Ends of the parts of a path that end in PCI devices, from the host bridge down. */
struct chain {
	int n;
	size_t end[CHAIN];
	uint32_t root; /* as of topo_pci */
};

/* "pci0000:3a" */
static uint32_t root_number(const char *name)
{
	char *end;
	unsigned long domain = strtoul(name + 3, &end, 16), bus = *end == ':' ? strtoul(end + 1, NULL, 16) : 0;

	return domain < 0xffffff && bus < 256 ? (uint32_t)(domain * 256 + bus + 1) : 0;
}

/* A device of another host bridge (a volume controller's domain) is not above those of this one. */
static struct chain find_chain(const char *path)
{
	struct chain c = { .n = 0 };

	for (size_t at = 0; path[at];) {
		size_t len = strcspn(path + at, "/");

		if (len > 7 && !strncmp(path + at, "pci", 3) && path[at + len - 3] == ':')
			c = (struct chain){ .n = 0, .root = root_number(path + at) };
		else if (pci_is_busid(path + at, len) && c.n < CHAIN)
			c.end[c.n++] = at + len;
		at += len + (path[at + len] == '/');
	}
	return c;
}

bool pci_device_path(char *out, size_t len, const char *path)
{
	struct chain c = find_chain(path);

	return c.n && snprintf(out, len, "%.*s", (int)c.end[c.n - 1], path) < (int)len;
}

/* --- what a device says --- */

static double read_gts(struct scan *s, const char *path, const char *file)
{
	char text[64];

	return fs_line(s->fs, text, sizeof(text), "%s/%s", path, file) ? topo_parse_gts(text) : 0;
}

/* Devices of guests say 0, 63 and 255. */
static int read_width(struct scan *s, const char *path, const char *file)
{
	long width = fs_number(s->fs, 0, "%s/%s", path, file);

	return width > 0 && width <= 32 ? (int)width : 0;
}

/* The less of the two that is known. */
static double smaller(double a, double b)
{
	return a <= 0 || (b > 0 && b < a) ? b : a;
}

static void fill_link(struct scan *s, struct topo_pci *pci, const char *path)
{
	char port[FS_PATH];

	pci->gts = read_gts(s, path, "current_link_speed");
	pci->width = read_width(s, path, "current_link_width");
	pci->max_gts = read_gts(s, path, "max_link_speed");
	pci->max_width = read_width(s, path, "max_link_width");
	snprintf(port, sizeof(port), "%.*s", (int)(strrchr(path, '/') - path), path);
	pci->max_gts = smaller(pci->max_gts, read_gts(s, port, "max_link_speed"));
	pci->max_width = (int)smaller(pci->max_width, read_width(s, port, "max_link_width"));
}

static uint16_t read_id(struct scan *s, const char *path, const char *file)
{
	return (uint16_t)fs_number(s->fs, 0, "%s/%s", path, file);
}

static void copy_busid(char out[24], const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	size_t n = 0;

	for (; name[n] && n < 23; n++)
		out[n] = (char)tolower((unsigned char)name[n]);
	out[n] = '\0';
}

void pci_fill(struct scan *s, struct topo_pci *pci, const char *path)
{
	copy_busid(pci->busid, path);
	pci->class = (uint32_t)fs_number(s->fs, 0, "%s/class", path) & 0xffffff;
	pci->vendor = read_id(s, path, "vendor");
	pci->device = read_id(s, path, "device");
	pci->subvendor = read_id(s, path, "subsystem_vendor");
	pci->subdevice = read_id(s, path, "subsystem_device");
	pci->acs = -1;
	pci->root = find_chain(path).root;
	fill_link(s, pci, path);
}

/* --- ACS --- */

static unsigned word(const unsigned char *b, size_t at)
{
	return b[at] | (unsigned)b[at + 1] << 8;
}

/* The control register of the ACS capability; -1: the port has none. PCI Express base specification 7.7.8: extended
 * capabilities start at 0x100, ACS is number 13. */
static int acs_control(const unsigned char *config, size_t len)
{
	size_t at = 0x100;

	for (int i = 0; i < 96 && at >= 0x100 && at + 8 <= len; i++) {
		if (word(config, at) == 0x000d)
			return (int)word(config, at + 6);
		at = word(config, at + 2) >> 4;
	}
	return -1;
}

enum { ACS_REQUEST_REDIRECT = 4, ACS_COMPLETION_REDIRECT = 8 };

/* 1: the port sends traffic between devices below up to the host bridge; 0: it does not; -1: not known. Configuration
 * space beyond its first 64 bytes is for root. */
static int read_acs(struct scan *s, const char *path)
{
	char config[FS_PATH], fact[FS_PATH], text[16], *known, *bytes = NULL;
	size_t len = 0;
	long control = -1;

	snprintf(fact, sizeof(fact), "acs/%.64s", strrchr(path, '/') + 1);
	known = fs_fact(s->fs, fact);
	if (known) {
		control = strtol(known, NULL, 0);
	} else if (snprintf(config, sizeof(config), "%s/config", path) < (int)sizeof(config)) {
		bytes = fs_read(s->fs, &len, config);
		if (bytes && len > 0x104) {
			int found = acs_control((const unsigned char *)bytes, len);

			control = found < 0 ? 0 : found;
			snprintf(text, sizeof(text), "0x%04lx", (unsigned long)control & 0xffff);
			fs_keep(s->fs, fact, text);
		}
	}
	mem_free(known);
	mem_free(bytes);
	return control < 0 ? -1 : (control & (ACS_REQUEST_REDIRECT | ACS_COMPLETION_REDIRECT)) != 0;
}

/* --- the tree --- */

/* A link that has become slower or narrower than it can be. Switches and cards do not save power that way. */
static void note_link(struct scan *s, const struct topo_pci *pci)
{
	if (pci->width && pci->width < pci->max_width)
		topo_note(s->t, "PCI %s: its link runs %d of %d lanes", pci->busid, pci->width, pci->max_width);
	if (pci->gts > 0 && pci->gts < pci->max_gts)
		topo_note(s->t, "PCI %s: its link runs at %g of %g GT/s", pci->busid, pci->gts, pci->max_gts);
}

/* The switch whose upper port is in folder @path, and of which @port, a lower one, is used. */
static int find_switch(struct scan *s, const char *path, const char *port, int parent)
{
	char busid[24];
	int node, acs;

	copy_busid(busid, path);
	node = pci_node(s->t, busid);
	if (node < 0) {
		node = topo_add_node(s->t, TOPO_PCI, parent);
		if (node < 0)
			return -1;
		pci_fill(s, &s->t->nodes[node].pci, path);
		note_link(s, &s->t->nodes[node].pci);
	}
	acs = read_acs(s, port);
	if (acs > s->t->nodes[node].pci.acs)
		s->t->nodes[node].pci.acs = acs;
	return node;
}

int pci_parent(struct scan *s, const char *path)
{
	struct chain c = find_chain(path);
	int node = sysfs_cpu_of(s, path);

	/* root port, then by turns the upper and the lower port of a switch */
	for (int i = 1; i + 1 < c.n && node >= 0; i += 2) {
		char above[FS_PATH], below[FS_PATH];

		snprintf(above, sizeof(above), "%.*s", (int)c.end[i], path);
		snprintf(below, sizeof(below), "%.*s", (int)c.end[i + 1], path);
		node = find_switch(s, above, i + 2 < c.n ? below : above, node);
	}
	return node;
}

/* --- root ports --- */

/* The link of a root port is that of the device below it. */
static enum taut_status put_root_port(struct scan *s, int child, const char *path)
{
	const struct topo_pci *link;
	char busid[24];
	int port;

	copy_busid(busid, path);
	port = pci_node(s->t, busid);
	if (port < 0) {
		port = topo_add_node(s->t, TOPO_PCI, s->t->nodes[child].parent);
		if (port < 0)
			return status_last();
		pci_fill(s, &s->t->nodes[port].pci, path);
		link = &s->t->nodes[child].pci;
		s->t->nodes[port].pci.gts = link->gts;
		s->t->nodes[port].pci.width = link->width;
		s->t->nodes[port].pci.acs = 1;
	}
	s->t->nodes[child].parent = port;
	return TAUT_OK;
}

enum taut_status pci_root_ports(struct scan *s)
{
	enum taut_status st = TAUT_OK;
	int n = s->t->nnodes;

	for (int i = 0; i < n && !st && s->t->iommu != 0; i++) {
		const struct topo_node *node = &s->t->nodes[i];
		char path[FS_PATH], link[FS_PATH], port[FS_PATH];
		struct chain c;

		if (!*node->pci.busid || node->parent < 0 || s->t->nodes[node->parent].kind != TOPO_CPU)
			continue;
		snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", node->pci.busid);
		if (!fs_real(s->fs, path, sizeof(path), link))
			continue;
		c = find_chain(path);
		if (c.n < 2)
			continue;
		snprintf(port, sizeof(port), "%.*s", (int)c.end[0], path);
		if (read_acs(s, port) == 1)
			st = put_root_port(s, i, port);
	}
	return st;
}

/* --- cards --- */

/* The physical function of a virtual one, and the first function of a card with several: one card, one link. */
static void card_path(struct scan *s, char *out, size_t len, const char *path)
{
	char physical[FS_PATH], first[FS_PATH];
	size_t n;

	snprintf(physical, sizeof(physical), "%.400s/physfn", path);
	if (!fs_real(s->fs, out, len, physical) || !find_chain(out).n)
		snprintf(out, len, "%s", path);
	snprintf(first, sizeof(first), "%s", out);
	n = strlen(first);
	if (n && first[n - 1] != '0') {
		first[n - 1] = '0';
		if (fs_kind_of(s->fs, first) == FS_DIR)
			snprintf(out, len, "%s", first);
	}
}

static int add_card(struct scan *s, const char *path)
{
	int parent = pci_parent(s, path), node;

	node = parent < 0 ? -1 : topo_add_node(s->t, TOPO_NIC, parent);
	if (node >= 0) {
		pci_fill(s, &s->t->nodes[node].pci, path);
		note_link(s, &s->t->nodes[node].pci);
	}
	return node;
}

/* The node of the card whose function is in folder @device, which @card becomes that of; -1: none yet. */
static int find_card(struct scan *s, char card[FS_PATH], const char *device)
{
	char busid[24];
	int node;

	card_path(s, card, FS_PATH, device);
	copy_busid(busid, card);
	node = pci_node(s->t, busid);
	return node >= 0 && s->t->nodes[node].kind == TOPO_NIC ? node : -1;
}

bool sysfs_has_card(struct scan *s, const char *path)
{
	char card[FS_PATH];

	return find_card(s, card, path) >= 0;
}

int sysfs_card(struct scan *s, const char *path)
{
	char device[FS_PATH], card[FS_PATH];
	int node;

	if (!pci_device_path(device, sizeof(device), path)) { /* not on PCI */
		int cpu = sysfs_cpu_of(s, path);

		return cpu < 0 ? -1 : topo_add_node(s->t, TOPO_NIC, cpu);
	}
	node = find_card(s, card, device);
	return node >= 0 ? node : add_card(s, card);
}
