/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/hwloc_xml.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/graph.h"
#include "topo/models.h"

enum { NVIDIA = 0x10de, AMD = 0x1002, MELLANOX = 0x15b3, AMAZON = 0x1d0f };

/* --- what an object is --- */

/* Version 3 has bits (GPU 4, coprocessor 8, network 16, OpenFabrics 32); before, numbers. */
enum hwloc_osdev hwloc_osdev(const struct hwloc_read *r, const struct xml_elem *e)
{
	const char *text = xml_attr(e, "osdev_type"), *name = xml_attr(e, "name");
	long type = text ? strtol(text, NULL, 10) : -1;

	if (type < 0 || !name || !*name)
		return OSDEV_OTHER;
	if (r->bits)
		return type & 32 ? OSDEV_RDMA : type & 16 ? OSDEV_NET : type & 12 ? OSDEV_GPU : OSDEV_OTHER;
	return type == 3 ? OSDEV_RDMA : type == 2 ? OSDEV_NET : type == 1 || type == 5 ? OSDEV_GPU : OSDEV_OTHER;
}

struct pci_type {
	unsigned class, vendor, device, subvendor, subdevice;
};

/* "0302 [10de:2335] [10de:18be] a1 00" */
static bool parse_type(struct pci_type *out, const struct xml_elem *e)
{
	const char *text = xml_attr(e, "pci_type");

	*out = (struct pci_type){ 0 };
	return text && sscanf(text, "%4x [%4x:%4x] [%4x:%4x]", &out->class, &out->vendor, &out->device, &out->subvendor,
			      &out->subdevice) >= 3;
}

static const char *name_of(const struct xml_elem *e)
{
	return xml_attr(e, "name");
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* The first OSDev right below of that kind whose name begins with @prefix; NULL. */
static const struct xml_elem *osdev(const struct hwloc_read *r, const struct xml_elem *e, enum hwloc_osdev kind,
				    const char *prefix)
{
	for (const struct xml_elem *c = e->child; c; c = c->next)
		if (hwloc_is(c, "OSDev") && hwloc_osdev(r, c) == kind && starts(name_of(c), prefix))
			return c;
	return NULL;
}

bool hwloc_is_nvswitch(const struct xml_elem *e)
{
	const char *subtype = xml_attr(e, "subtype");
	struct pci_type t;

	return (subtype && !strcmp(subtype, "NVSwitch")) ||
	       (parse_type(&t, e) && t.class == 0x0680 && t.vendor == NVIDIA);
}

/* AMD's 0x0300 are mostly part of a processor or a server's console. */
static bool is_gpu(const struct hwloc_read *r, const struct xml_elem *e)
{
	struct pci_type t;

	if (!parse_type(&t, e) || (t.class >> 8 != 0x03 && t.class != 0x1200))
		return false;
	if (osdev(r, e, OSDEV_GPU, "cuda") || osdev(r, e, OSDEV_GPU, "nvml") || osdev(r, e, OSDEV_GPU, "rsmi") ||
	    osdev(r, e, OSDEV_GPU, "opencl") || osdev(r, e, OSDEV_GPU, "ze"))
		return true;
	if (t.vendor == NVIDIA)
		return t.class == 0x0300 || t.class == 0x0302;
	return t.vendor == AMD && (t.class != 0x0300 || *gpu_gcn_of((uint16_t)t.device));
}

static bool is_virtual_function(const struct xml_elem *e, const struct pci_type *t)
{
	static const uint16_t mellanox[] = { 0x1004, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e };
	const char *text = hwloc_info(e, "PCIDevice");

	if (text && strstr(text, "Virtual Function"))
		return true;
	for (size_t i = 0; i < sizeof(mellanox) / sizeof(*mellanox); i++)
		if (t->vendor == MELLANOX && t->device == mellanox[i])
			return true;
	return false;
}

/* 0x0c06: InfiniBand before it had a class of its own. */
static bool is_network(const struct pci_type *t)
{
	return t->class >> 8 == 0x02 || t->class == 0x0c06;
}

/* Cisco's usNIC speaks verbs for UDP only. */
static bool is_verbs(const struct hwloc_read *r, const struct xml_elem *e)
{
	return hwloc_is(e, "OSDev") && hwloc_osdev(r, e) == OSDEV_RDMA && !starts(name_of(e), "usnic");
}

static bool has_interface(const struct hwloc_read *r, const struct xml_elem *e)
{
	for (const struct xml_elem *c = e->child; c; c = c->next)
		if (hwloc_is(c, "OSDev") && (hwloc_osdev(r, c) == OSDEV_NET || is_verbs(r, c)))
			return true;
	return false;
}

bool hwloc_wanted(const struct hwloc_read *r, const struct xml_elem *e)
{
	struct pci_type t;

	if (is_gpu(r, e))
		return true;
	return parse_type(&t, e) && is_network(&t) && !is_virtual_function(e, &t) && has_interface(r, e);
}

/* --- PCI --- */

/* GB/s to rate and lanes as hwloc made them of these. The same figure comes of many lanes of an old generation and of
 * few of a new one: most lanes is what GPUs and cards have. */
static void split_speed(struct topo_pci *pci, double gbps)
{
	static const struct {
		double gts, lane;
	} gens[] = { { 2.5, 0.25 },
		     { 5, 0.5 },
		     { 8, 8.0 / 8 * 128 / 130 },
		     { 16, 16.0 / 8 * 128 / 130 },
		     { 32, 32.0 / 8 * 128 / 130 },
		     { 64, 64.0 / 8 * 242 / 256 },
		     { 64, 64.0 / 8 * 128 / 130 } };

	for (int width = 16; width >= 1; width /= 2)
		for (size_t i = 0; i < sizeof(gens) / sizeof(*gens); i++)
			if (gbps > gens[i].lane * width * 0.999 && gbps < gens[i].lane * width * 1.001) {
				pci->gts = gens[i].gts;
				pci->width = width;
				return;
			}
}

enum taut_status hwloc_fill_pci(const struct hwloc_read *r, struct topo_pci *pci, const struct xml_elem *e)
{
	const char *busid = xml_attr(e, "pci_busid"), *speed = xml_attr(e, "pci_link_speed");
	struct pci_type t;

	if (!busid || !topo_busid_normal(pci->busid, sizeof(pci->busid), busid))
		return xml_bad(r->doc, e, "pci_busid is \"%.24s\": an address like 0000:3b:00.0 is wanted",
			       busid ? busid : "");
	if (!parse_type(&t, e))
		return xml_bad(r->doc, e, "pci_type is \"%.40s\": class and vendor like 0302 [10de:2335] are wanted",
			       xml_attr(e, "pci_type") ? xml_attr(e, "pci_type") : "");
	pci->class = t.class << 8;
	pci->vendor = (uint16_t)t.vendor;
	pci->device = (uint16_t)t.device;
	pci->subvendor = (uint16_t)t.subvendor;
	pci->subdevice = (uint16_t)t.subdevice;
	if (speed)
		split_speed(pci, strtod(speed, NULL));
	return TAUT_OK;
}

/* --- GPUs --- */

/* KiB, with that unit or without. */
static uint64_t memory_of(const struct xml_elem *e, const char *key)
{
	const char *text = hwloc_info(e, key);
	unsigned long long kib = text ? strtoull(text, NULL, 10) : 0;

	return kib < UINT64_MAX >> 10 ? kib << 10 : 0;
}

static int index_after(const char *name, const char *prefix)
{
	const char *digits = name + strlen(prefix);
	size_t n = strspn(digits, "0123456789");

	return n > 0 && n < 6 && !digits[n] ? atoi(digits) : -1;
}

static void fill_model(struct topo_node *n, const char *name, const char *capability)
{
	const struct gpu_model *m = gpu_model_in(name);
	int major = 0, minor = 0;

	snprintf(n->name, sizeof(n->name), "%s", name);
	if (n->pci.vendor == NVIDIA && m)
		n->gpu.sm = m->sm;
	if (capability && sscanf(capability, "%2d.%1d", &major, &minor) == 2 && major > 0 && minor >= 0)
		n->gpu.sm = major * 10 + minor;
	if (n->pci.vendor == AMD)
		snprintf(n->gpu.gcn, sizeof(n->gpu.gcn), "%s", m && *m->gcn ? m->gcn : gpu_gcn_of(n->pci.device));
}

/* What the drivers' view of the GPU says: CUDA, NVML, ROCm SMI, else OpenCL. */
static void fill_gpu(struct hwloc_read *r, struct topo_node *n, const struct xml_elem *e)
{
	static const char *const views[] = { "opencl", "cuda", "nvml", "rsmi", "ze" };
	const char *name = NULL, *capability = NULL;

	for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++) {
		const struct xml_elem *view = osdev(r, e, OSDEV_GPU, views[i]);

		if (!view)
			continue;
		if (i > 0) {
			int dev = index_after(name_of(view), views[i]);

			n->gpu.listed = true;
			n->gpu.dev = dev >= 0 ? dev : n->gpu.dev;
		}
		if (hwloc_info(view, "GPUModel"))
			name = hwloc_info(view, "GPUModel");
		if (hwloc_info(view, "CUDAComputeCapability"))
			capability = hwloc_info(view, "CUDAComputeCapability");
		if (memory_of(view, "CUDAGlobalMemorySize"))
			n->gpu.memory = memory_of(view, "CUDAGlobalMemorySize");
		if (memory_of(view, "RSMIVRAMSize"))
			n->gpu.memory = memory_of(view, "RSMIVRAMSize");
	}
	fill_model(n, name ? name : "", capability);
}

static enum taut_status add_gpu(struct hwloc_read *r, const struct xml_elem *e, int parent, uint32_t root)
{
	int node = topo_add_node(r->t, TOPO_GPU, parent);
	struct topo_node *n;
	enum taut_status st;

	if (node < 0)
		return status_last();
	n = &r->t->nodes[node];
	n->pci.root = root;
	st = hwloc_fill_pci(r, &n->pci, e);
	if (st)
		return st;
	fill_gpu(r, n, e);
	if (n->pci.gts > 0 && n->pci.gts < 5) { /* an idle GPU slows its link down */
		n->pci.gts = 0;
		n->pci.width = 0;
		r->idle++;
	}
	hwloc_name(r, e, node);
	for (const struct xml_elem *c = e->child; c; c = c->next)
		if (hwloc_is(c, "OSDev"))
			hwloc_name(r, c, node);
	return TAUT_OK;
}

/* --- cards and ports --- */

/* Functions of one card are one NIC; they stand together in the file. */
static int find_card(const struct hwloc_read *r, const char *busid)
{
	const char *dot = strrchr(busid, '.');
	int i = r->t->nnodes - 1;

	while (i >= 0 && r->t->nodes[i].kind != TOPO_NIC)
		i--;
	if (i < 0 || !dot || strncmp(r->t->nodes[i].pci.busid, busid, (size_t)(dot + 1 - busid)) != 0)
		return -1;
	return i;
}

static uint64_t guid_of(const struct xml_elem *e)
{
	const char *text = hwloc_info(e, "NodeGUID");
	uint64_t guid = 0;

	for (; text && *text; text++) {
		if (*text == ':')
			continue;
		if (!isxdigit((unsigned char)*text))
			return 0;
		guid = guid << 4 | (uint64_t)(isdigit((unsigned char)*text) ? *text - '0'
									    : tolower((unsigned char)*text) - 'a' + 10);
	}
	return guid;
}

/* The hardware address of IP over InfiniBand has 20 bytes. */
static bool is_ipoib(const struct xml_elem *net)
{
	const char *address = hwloc_info(net, "Address");

	return address && strlen(address) == 20 * 3 - 1;
}

static long port_of(const struct xml_elem *net)
{
	const char *text = hwloc_info(net, "Port");

	return text ? strtol(text, NULL, 10) : 0;
}

/* The interface of port @port of a device with @ports; NULL. Where the file gives no number, there must be one only. */
static const struct xml_elem *interface_of(const struct hwloc_read *r, const struct xml_elem *function, int port,
					   int ports)
{
	const struct xml_elem *only = NULL;
	int n = 0;

	for (const struct xml_elem *c = function->child; c; c = c->next) {
		if (!hwloc_is(c, "OSDev") || hwloc_osdev(r, c) != OSDEV_NET)
			continue;
		if (port_of(c) == port)
			return c;
		only = c;
		n++;
	}
	return n == 1 && ports == 1 ? only : NULL;
}

static const char *port_info(const struct xml_elem *e, int port, const char *what)
{
	char key[32];

	snprintf(key, sizeof(key), "Port%d%s", port, what);
	return hwloc_info(e, key);
}

static const char *layer_of(const struct xml_elem *rdma, const struct xml_elem *net, int port,
			    const struct topo_pci *pci)
{
	const char *lid = port_info(rdma, port, "LID");
	unsigned long number = lid ? strtoul(lid, NULL, 0) : 0;

	if (starts(name_of(rdma), "hfi"))
		return "omnipath";
	if (pci->vendor == AMAZON)
		return "efa";
	if (net && hwloc_info(net, "Address"))
		return is_ipoib(net) ? "infiniband" : "roce";
	if (number > 0 && number < 0xffff)
		return "infiniband";
	return pci->class == 0x020700 ? "infiniband" : "";
}

static struct topo_node *add_net(struct hwloc_read *r, int nic, const char *name)
{
	int node = topo_add_node(r->t, TOPO_NET, nic);

	if (node < 0)
		return NULL;
	r->t->nodes[node].net.listed = true;
	snprintf(r->t->nodes[node].name, sizeof(r->t->nodes[node].name), "%s", name);
	return &r->t->nodes[node];
}

static enum taut_status add_rdma_port(struct hwloc_read *r, const struct xml_elem *rdma, int port, int ports, int nic)
{
	const struct xml_elem *net = interface_of(r, rdma->parent, port, ports);
	const char *state = port_info(rdma, port, "State");
	struct topo_node *n = add_net(r, nic, name_of(rdma));

	if (!n)
		return status_last();
	n->net.port = port;
	n->net.guid = guid_of(rdma);
	snprintf(n->net.layer, sizeof(n->net.layer), "%s", layer_of(rdma, net, port, &r->t->nodes[nic].pci));
	if (state) /* 4: active */
		snprintf(n->net.state, sizeof(n->net.state), "%s", strcmp(state, "4") ? "down" : "up");
	if (net)
		snprintf(n->net.rdma, sizeof(n->net.rdma), "%s", name_of(net));
	return TAUT_OK;
}

enum { PORTS_MAX = 8 };

static int count_ports(const struct xml_elem *rdma)
{
	int n = 1;

	while (n < PORTS_MAX && port_info(rdma, n + 1, "State"))
		n++;
	return n;
}

/* Whether a verbs port of the function has this interface: that port stands for it. */
static bool is_taken(const struct hwloc_read *r, const struct xml_elem *net)
{
	for (const struct xml_elem *c = net->parent->child; c; c = c->next) {
		int ports = is_verbs(r, c) ? count_ports(c) : 0;

		for (int port = 1; port <= ports; port++)
			if (interface_of(r, net->parent, port, ports) == net)
				return true;
	}
	return false;
}

static enum taut_status add_interface(struct hwloc_read *r, const struct xml_elem *net, int nic)
{
	struct topo_node *n = add_net(r, nic, name_of(net));

	if (!n)
		return status_last();
	snprintf(n->net.layer, sizeof(n->net.layer), "%s", is_ipoib(net) ? "infiniband" : "ethernet");
	n->net.is_virtual = !*r->t->nodes[nic].pci.busid;
	return TAUT_OK;
}

static enum taut_status add_ports(struct hwloc_read *r, const struct xml_elem *e, int nic)
{
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		int ports = is_verbs(r, c) ? count_ports(c) : 0;

		for (int port = 1; port <= ports && !st; port++)
			st = add_rdma_port(r, c, port, ports, nic);
	}
	for (const struct xml_elem *c = e->child; c && !st; c = c->next)
		if (hwloc_is(c, "OSDev") && hwloc_osdev(r, c) == OSDEV_NET && !is_taken(r, c))
			st = add_interface(r, c, nic);
	return st;
}

static enum taut_status add_card(struct hwloc_read *r, const struct xml_elem *e, int parent, uint32_t root)
{
	struct topo_pci pci = { .root = root, .acs = -1 };
	enum taut_status st = hwloc_fill_pci(r, &pci, e);
	int nic = st ? -1 : find_card(r, pci.busid);

	if (st)
		return st;
	if (nic < 0) {
		nic = topo_add_node(r->t, TOPO_NIC, parent);
		if (nic < 0)
			return status_last();
		r->t->nodes[nic].pci = pci;
	}
	return add_ports(r, e, nic);
}

enum taut_status hwloc_add_device(struct hwloc_read *r, const struct xml_elem *e, int parent, uint32_t root)
{
	struct pci_type t;

	if (is_gpu(r, e))
		return add_gpu(r, e, parent, root);
	if (hwloc_is_nvswitch(e)) {
		r->nvswitches++;
		hwloc_name(r, e, -1); /* the node is made when a link leads there */
		return TAUT_OK;
	}
	if (hwloc_wanted(r, e))
		return add_card(r, e, parent, root);
	r->functions += parse_type(&t, e) && is_network(&t);
	return TAUT_OK;
}

enum taut_status hwloc_add_interface(struct hwloc_read *r, const struct xml_elem *e, int cpu)
{
	int nic;

	if (hwloc_osdev(r, e) != OSDEV_NET)
		return TAUT_OK;
	nic = topo_add_node(r->t, TOPO_NIC, cpu);
	return nic < 0 ? status_last() : add_interface(r, e, nic);
}
