/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CLASS "/sys/class/net"
#define DEVICES "/sys/bus/pci/devices"

enum { ETHERNET = 1, INFINIBAND = 32 }; /* ARPHRD_ */

static bool has(struct scan *s, const char *name, const char *what)
{
	char path[FS_PATH];

	snprintf(path, sizeof(path), CLASS "/%s/%s", name, what);
	return fs_kind_of(s->fs, path) != FS_NONE;
}

/* The RDMA device whose port the interface is; "": of none. */
static const char *rdma_of(const struct topo *t, const char *name)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_NET && t->nodes[i].net.port && !strcmp(t->nodes[i].net.rdma, name))
			return t->nodes[i].name;
	return "";
}

/* Drivers of what a hypervisor offers in place of a card. */
static bool is_paravirtual(const char *driver)
{
	static const char *const names[] = { "virtio_net", "hv_netvsc", "vif", "vmxnet3" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], driver))
			return true;
	return false;
}

static void fill_driver(struct scan *s, struct topo_net *net, const char *name)
{
	char link[FS_PATH], real[FS_PATH];

	snprintf(link, sizeof(link), CLASS "/%s/device/driver", name);
	if (fs_real(s->fs, real, sizeof(real), link))
		snprintf(net->driver, sizeof(net->driver), "%s", strrchr(real, '/') + 1);
}

static void fill_net(struct scan *s, struct topo_net *net, const char *name)
{
	long type = fs_number(s->fs, ETHERNET, CLASS "/%s/type", name), speed;
	char state[32];

	speed = fs_number(s->fs, 0, CLASS "/%s/speed", name);
	net->speed_mbit = speed > 0 && speed < 100000000 ? speed : 0;
	if (fs_line(s->fs, state, sizeof(state), CLASS "/%s/operstate", name) && strcmp(state, "unknown") != 0)
		snprintf(net->state, sizeof(net->state), "%s", !strcmp(state, "up") ? "up" : "down");
	snprintf(net->layer, sizeof(net->layer), "%s", type == INFINIBAND ? "infiniband" : "ethernet");
	snprintf(net->rdma, sizeof(net->rdma), "%s", rdma_of(s->t, name));
	net->listed = true;
	net->gdr = 0; /* the kernel's network stack copies through host memory */
	fill_driver(s, net, name);
	net->is_virtual = is_paravirtual(net->driver) || has(s, name, "device/physfn");
}

/* Returns the node; -1: no memory. */
static int add_net(struct scan *s, const char *name, const char *card_path)
{
	int card = sysfs_card(s, card_path), node;

	node = card < 0 ? -1 : topo_add_node(s->t, TOPO_NET, card);
	if (node < 0)
		return -1;
	snprintf(s->t->nodes[node].name, sizeof(s->t->nodes[node].name), "%s", name);
	fill_net(s, &s->t->nodes[node].net, name);
	if (!s->t->nodes[node].net.speed_mbit && strcmp(s->t->nodes[node].net.state, "down") != 0)
		topo_note(s->t, "%s: its speed is not known", name);
	return node;
}

static bool device_of(struct scan *s, char *out, size_t len, const char *name)
{
	char link[FS_PATH];

	snprintf(link, sizeof(link), CLASS "/%s/device", name);
	return fs_real(s->fs, out, len, link);
}

/* A guest's synthetic interface has no card, but where there is a virtual function below it, that carries the traffic:
 * @path becomes that one's. */
static void use_function(struct scan *s, const struct fs_names *names, const char *name, char path[FS_PATH])
{
	char link[FS_PATH], here[FS_PATH], master[FS_PATH], function[FS_PATH];

	snprintf(link, sizeof(link), CLASS "/%s", name);
	if (pci_device_path(function, sizeof(function), path) || !fs_real(s->fs, here, sizeof(here), link))
		return;
	for (int i = 0; i < names->n; i++) {
		snprintf(link, sizeof(link), CLASS "/%s/master", names->name[i]);
		if (fs_real(s->fs, master, sizeof(master), link) && !strcmp(master, here) &&
		    device_of(s, function, sizeof(function), names->name[i]))
			memcpy(path, function, FS_PATH);
	}
}

/* A card's interface, unless it is part of a bond (or of a guest's synthetic interface), which is the way to use it. */
static enum taut_status add_real(struct scan *s, const struct fs_names *names, const char *name, int *added)
{
	char path[FS_PATH];

	if (!device_of(s, path, sizeof(path), name) || has(s, name, "master/bonding") || has(s, name, "master/device"))
		return TAUT_OK;
	use_function(s, names, name, path);
	++*added;
	return add_net(s, name, path) < 0 ? status_last() : TAUT_OK;
}

/* Ports of RDMA whose interface is @member, which has no node, are the bond's. */
static void take_over(struct topo *t, int bond, const char *member)
{
	for (int i = 0; i < t->nnodes; i++) {
		struct topo_net *net = &t->nodes[i].net;

		if (t->nodes[i].kind != TOPO_NET || !net->port || strcmp(net->rdma, member) != 0)
			continue;
		snprintf(net->rdma, sizeof(net->rdma), "%s", t->nodes[bond].name);
		snprintf(t->nodes[bond].net.rdma, sizeof(net->rdma), "%s", t->nodes[i].name);
	}
}

/* At the card of its first member: the graph gives a port one card. */
static enum taut_status add_bond(struct scan *s, const char *name, int *added)
{
	char members[256], first[FS_NAME], path[FS_PATH];
	size_t len;
	int node;

	if (!fs_line(s->fs, members, sizeof(members), CLASS "/%s/bonding/slaves", name))
		return TAUT_OK;
	len = strcspn(members, " ");
	if (len >= sizeof(first))
		return TAUT_OK;
	snprintf(first, sizeof(first), "%.*s", (int)len, members);
	if (strchr(first, '/') || !device_of(s, path, sizeof(path), first))
		return TAUT_OK;
	node = add_net(s, name, path);
	if (node < 0)
		return status_last();
	snprintf(s->t->nodes[node].net.driver, sizeof(s->t->nodes[node].net.driver), "bonding");
	take_over(s->t, node, first);
	topo_note(s->t, "%s bonds %s: counted at the card of %s", name, members, first);
	++*added;
	return TAUT_OK;
}

/* What a container has in place of a card; not the host's ends of such, nor bridges. */
static enum taut_status add_virtual(struct scan *s, const char *name)
{
	char state[32];
	int node;

	if (has(s, name, "device") || has(s, name, "master") || has(s, name, "bridge") ||
	    fs_number(s->fs, 0, CLASS "/%s/type", name) != ETHERNET ||
	    !fs_line(s->fs, state, sizeof(state), CLASS "/%s/operstate", name) || strcmp(state, "up") != 0)
		return TAUT_OK;
	node = add_net(s, name, "");
	if (node < 0)
		return status_last();
	s->t->nodes[node].net.is_virtual = true;
	return TAUT_OK;
}

/* --- cards without an interface --- */

/* A network card whose interfaces and RDMA devices are all elsewhere. */
static bool is_unused(struct scan *s, const char *busid)
{
	char link[FS_PATH], path[FS_PATH];

	if (fs_number(s->fs, 0, DEVICES "/%s/class", busid) >> 16 != 0x02)
		return false;
	snprintf(link, sizeof(link), DEVICES "/%s", busid);
	return fs_real(s->fs, path, sizeof(path), link) && pci_is_busid(strrchr(path, '/') + 1, strlen(busid)) &&
	       !sysfs_has_card(s, path);
}

static void note_unused(struct scan *s)
{
	struct fs_names names;
	char first[FS_NAME] = "";
	int unused = 0;

	fs_list(s->fs, &names, DEVICES);
	for (int i = 0; i < names.n; i++)
		if (pci_is_busid(names.name[i], strlen(names.name[i])) && is_unused(s, names.name[i]) && !unused++)
			memcpy(first, names.name[i], sizeof(first));
	fs_names_free(&names);
	if (unused)
		topo_note(s->t,
			  "%d network card%s left out (%s%s): no interface or RDMA device here, as in another network "
			  "namespace or without a driver",
			  unused, unused == 1 ? "" : "s", first, unused == 1 ? "" : " ...");
}

enum taut_status sysfs_nets(struct scan *s)
{
	struct fs_names names;
	enum taut_status st = TAUT_OK;
	int added = 0;

	if (fs_list(s->fs, &names, CLASS) < 0)
		topo_note(s->t, "network interfaces: not known, " CLASS " cannot be read");
	for (int i = 0; i < names.n && !st && !sysfs_full(s); i++)
		st = add_real(s, &names, names.name[i], &added);
	for (int i = 0; i < names.n && !st && !sysfs_full(s); i++)
		if (has(s, names.name[i], "bonding"))
			st = add_bond(s, names.name[i], &added);
	for (int i = 0; i < names.n && !st && !sysfs_full(s) && !added; i++)
		st = add_virtual(s, names.name[i]);
	fs_names_free(&names);
	if (!st)
		note_unused(s);
	return st;
}
