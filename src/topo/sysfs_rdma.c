/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CLASS "/sys/class/infiniband"

enum { GIDS_MISSING = 8 }; /* that many unused entries in a row: the table's used part has ended */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void read_driver(struct scan *s, char *out, size_t len, const char *device)
{
	char link[FS_PATH], real[FS_PATH];

	snprintf(link, sizeof(link), "%.490s/driver", device);
	if (fs_real(s->fs, real, sizeof(real), link))
		snprintf(out, len, "%.*s", (int)len - 1, base_name(real));
}

/* "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" */
static long rate_mbit(const char *text)
{
	char *end;
	double gbit = strtod(text, &end);

	return end != text && gbit > 0 && gbit < 1e6 ? (long)(gbit * 1000 + 0.5) : 0;
}

static void fill_layer(struct topo_net *net, const char *layer, const char *node_type)
{
	const char *name = "";

	if (!strncmp(net->driver, "efa", 3))
		name = "efa";
	else if (!strncmp(net->driver, "hfi1", 4))
		name = "omnipath";
	else if (!strcmp(layer, "InfiniBand"))
		name = "infiniband";
	else if (!strcmp(layer, "Ethernet"))
		name = strstr(node_type, "RNIC") ? "iwarp" : "roce";
	snprintf(net->layer, sizeof(net->layer), "%s", name);
}

/* --- address types --- */

static void fill_gids(struct scan *s, struct topo_net *net, const char *port)
{
	char path[FS_PATH], text[64];
	struct fs_names names;
	bool v1 = false, v2 = false, ib = !strcmp(net->layer, "infiniband");

	snprintf(path, sizeof(path), "%.480s/gid_attrs/types", port);
	fs_list(s->fs, &names, path);
	for (int i = 0, missing = 0; i < names.n && missing < GIDS_MISSING; i++) {
		bool used = fs_line(s->fs, text, sizeof(text), "%s/%s", path, names.name[i]);

		missing = used ? 0 : missing + 1;
		v1 |= used && !strcmp(text, "IB/RoCE v1") && !ib;
		v2 |= used && !strcmp(text, "RoCE v2");
	}
	fs_names_free(&names);
	snprintf(net->gids, sizeof(net->gids), "%s%s%s",
		 ib   ? "ib"
		 : v1 ? "v1"
		      : "",
		 v1 && v2 ? " " : "", v2 ? "v2" : "");
}

/* --- the interface of a port --- */

static bool from_gids(struct scan *s, char *out, size_t len, const char *port)
{
	char path[FS_PATH];
	struct fs_names names;
	bool found = false;

	snprintf(path, sizeof(path), "%.480s/gid_attrs/ndevs", port);
	fs_list(s->fs, &names, path);
	for (int i = 0; i < names.n && i < GIDS_MISSING && !found; i++)
		found = fs_line(s->fs, out, len, "%s/%s", path, names.name[i]);
	fs_names_free(&names);
	return found;
}

/* The only interface of the card's function, or the one with the number of the port. */
static void from_device(struct scan *s, char *out, size_t len, const char *device, int port)
{
	char path[FS_PATH];
	struct fs_names names;

	snprintf(path, sizeof(path), "%.490s/net", device);
	fs_list(s->fs, &names, path);
	for (int i = 0; i < names.n; i++)
		if (names.n == 1 || fs_number(s->fs, -1, "%s/%s/dev_port", path, names.name[i]) == port - 1) {
			snprintf(out, len, "%s", names.name[i]);
			break;
		}
	fs_names_free(&names);
}

/* --- ports --- */

struct device {
	char name[FS_NAME], path[FS_PATH]; /* of the class, and of the PCI function ("": none) */
	char type[32], driver[24], firmware[32];
	uint64_t guid;
	int card;
	bool is_function; /* a virtual one of a card */
};

/* "0c42:a103:00a1:b2c4" */
static uint64_t read_guid(struct scan *s, const char *name)
{
	char text[32];
	uint64_t guid = 0;

	fs_line(s->fs, text, sizeof(text), CLASS "/%s/node_guid", name);
	for (const char *c = text; *c; c++)
		if (*c != ':') {
			const char *digits = "0123456789abcdef", *at = strchr(digits, *c);

			if (!at)
				return 0;
			guid = guid << 4 | (uint64_t)(at - digits);
		}
	return guid;
}

static void fill_port(struct scan *s, struct topo_net *net, const struct device *d, const char *port)
{
	char text[64], path[FS_PATH];

	snprintf(path, sizeof(path), CLASS "/%s/ports/%.20s", d->name, port);
	net->port = atoi(port);
	net->guid = d->guid;
	net->is_virtual = d->is_function;
	net->listed = true;
	snprintf(net->driver, sizeof(net->driver), "%s", d->driver);
	snprintf(net->firmware, sizeof(net->firmware), "%s", d->firmware);
	if (fs_line(s->fs, text, sizeof(text), "%s/rate", path))
		net->speed_mbit = rate_mbit(text);
	if (fs_line(s->fs, text, sizeof(text), "%s/state", path))
		snprintf(net->state, sizeof(net->state), "%s", strstr(text, "ACTIVE") ? "up" : "down");
	fs_line(s->fs, text, sizeof(text), "%s/link_layer", path);
	fill_layer(net, text, d->type);
	fill_gids(s, net, path);
	if (!from_gids(s, net->rdma, sizeof(net->rdma), path) && *d->path)
		from_device(s, net->rdma, sizeof(net->rdma), d->path, net->port);
}

static enum taut_status add_port(struct scan *s, const struct device *d, const char *port)
{
	int node = topo_add_node(s->t, TOPO_NET, d->card);

	if (node < 0)
		return status_last();
	snprintf(s->t->nodes[node].name, sizeof(s->t->nodes[node].name), "%s", d->name);
	fill_port(s, &s->t->nodes[node].net, d, port);
	if (!s->t->nodes[node].net.speed_mbit)
		topo_note(s->t, "%s port %s: its rate is not known", d->name, port);
	return TAUT_OK;
}

static enum taut_status add_device(struct scan *s, const char *name)
{
	struct device d = { .guid = 0 };
	struct fs_names ports;
	char path[FS_PATH];
	enum taut_status st = TAUT_OK;

	snprintf(d.name, sizeof(d.name), "%s", name);
	snprintf(path, sizeof(path), CLASS "/%s/device", name);
	if (!fs_real(s->fs, d.path, sizeof(d.path), path))
		topo_note(s->t, "%s: its place on PCI is not known", name);
	snprintf(path, sizeof(path), CLASS "/%s/ports", name);
	fs_list(s->fs, &ports, path);
	if (ports.n)
		d.card = sysfs_card(s, d.path);
	if (*d.path) {
		read_driver(s, d.driver, sizeof(d.driver), d.path);
		snprintf(path, sizeof(path), "%.490s/physfn", d.path);
		d.is_function = fs_kind_of(s->fs, path) == FS_DIR;
	}
	fs_line(s->fs, d.type, sizeof(d.type), CLASS "/%s/node_type", name);
	fs_line(s->fs, d.firmware, sizeof(d.firmware), CLASS "/%s/fw_ver", name);
	d.guid = read_guid(s, name);
	for (int i = 0; i < ports.n && !st && !sysfs_full(s); i++)
		st = d.card < 0 ? status_last() : add_port(s, &d, ports.name[i]);
	fs_names_free(&ports);
	return st;
}

enum taut_status sysfs_rdma(struct scan *s)
{
	struct fs_names names;
	enum taut_status st = TAUT_OK;

	fs_list(s->fs, &names, CLASS);
	for (int i = 0; i < names.n && !st && !sysfs_full(s); i++)
		st = add_device(s, names.name[i]);
	fs_names_free(&names);
	return st;
}
