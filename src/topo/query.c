/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/graph.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- bus ids --- */

/* A hexadecimal number of 1 to @max digits; moves @text past it; -1: none. */
static int64_t hex(const char **text, int max)
{
	int64_t v = 0;
	int n = 0;

	for (; n < max && isxdigit((unsigned char)**text); n++, ++*text) {
		int c = tolower((unsigned char)**text);

		v = v * 16 + (isdigit(c) ? c - '0' : c - 'a' + 10);
	}
	return n ? v : -1;
}

/* The parts in the order domain, bus, device, function. */
static bool busid_parts(int64_t part[4], const char *text)
{
	int64_t first = hex(&text, 8), second;

	if (first < 0 || *text++ != ':')
		return false;
	second = hex(&text, 4);
	if (second < 0)
		return false;
	if (*text == ':') {
		text++;
		part[0] = first;
		part[1] = second;
		part[2] = hex(&text, 2);
	} else {
		part[0] = 0;
		part[1] = first;
		part[2] = second;
	}
	if (*text == '.') {
		text++;
		part[3] = hex(&text, 1);
	} else {
		part[3] = -1;
	}
	return *text == '\0' && part[1] <= 0xff && part[2] >= 0 && part[2] <= 0xff && part[3] >= 0;
}

int64_t topo_busid_key(const char *busid)
{
	int64_t p[4];

	return busid_parts(p, busid) ? p[0] << 20 | p[1] << 12 | p[2] << 4 | p[3] : -1;
}

bool topo_busid_normal(char *out, size_t len, const char *text)
{
	int64_t p[4];

	*out = '\0';
	if (!busid_parts(p, text))
		return false;
	snprintf(out, len, "%04x:%02x:%02x.%x", (unsigned)p[0], (unsigned)p[1], (unsigned)p[2], (unsigned)p[3]);
	return true;
}

/* --- finding --- */

/* The number after the word @word; -1: @name is something else. */
static int number_after(const char *name, const char *word)
{
	size_t n = strlen(word);
	char *end;
	long v;

	if (strncasecmp(name, word, n) || !isdigit((unsigned char)name[n]))
		return -1;
	v = strtol(name + n, &end, 10);
	return *end || v > INT_MAX ? -1 : (int)v;
}

static int find_gpu(const struct topo *t, int machine, int dev)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++) {
		const struct topo_node *n = &t->nodes[t->of[TOPO_GPU][i]];

		if (n->machine == machine && n->gpu.dev == dev)
			return t->of[TOPO_GPU][i];
	}
	return -1;
}

/* By the number of the system; where nodes have none, by order. */
static int find_numa(const struct topo *t, int machine, int numa)
{
	int at = 0, unnumbered = -1;

	for (int i = 0; i < t->count[TOPO_CPU]; i++) {
		const struct topo_node *n = &t->nodes[t->of[TOPO_CPU][i]];

		if (n->machine != machine)
			continue;
		if (n->cpu.numa == numa)
			return t->of[TOPO_CPU][i];
		if (n->cpu.numa < 0 && at == numa)
			unnumbered = t->of[TOPO_CPU][i];
		at++;
	}
	return unnumbered;
}

static bool is_rdma_name(const char *name)
{
	static const char *const words[] = { "mlx",  "hfi",   "bnxt_re", "irdma", "rdmap", "efa_", "qedr",
					     "hns_", "rocep", "roceP",	 "siw",	  "rxe",   "cxi",  "ionic" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(name, words[i], strlen(words[i])))
			return true;
	return false;
}

/* Addresses for verbs settle it, or the name. Else the port's number on its card, which sockets do not have: they are 0
 * in NCCL's files, whose guids count from 0 for them. */
bool topo_is_rdma(const struct topo_node *net)
{
	const struct topo_net *n = &net->net;

	if (*n->gids || is_rdma_name(net->name))
		return true;
	return n->port > 0 && strcmp(n->layer, "ethernet") != 0;
}

int topo_matrix_nets(const struct topo *t, int *nets)
{
	int n = 0;

	for (int i = 0; i < t->count[TOPO_NET]; i++)
		if (topo_is_rdma(&t->nodes[t->of[TOPO_NET][i]])) {
			if (nets)
				nets[n] = t->of[TOPO_NET][i];
			n++;
		}
	if (n)
		return n;
	for (int i = 0; nets && i < t->count[TOPO_NET]; i++)
		nets[i] = t->of[TOPO_NET][i];
	return t->count[TOPO_NET];
}

/* Entry @index of the matrix's ports on @machine, without the memory that topo_matrix_nets() would need. */
static int find_matrix_net(const struct topo *t, int machine, int index)
{
	bool all = true;

	for (int i = 0; i < t->count[TOPO_NET]; i++)
		all = all && !topo_is_rdma(&t->nodes[t->of[TOPO_NET][i]]);
	for (int i = 0; i < t->count[TOPO_NET]; i++) {
		int net = t->of[TOPO_NET][i];

		if (t->nodes[net].machine == machine && (all || topo_is_rdma(&t->nodes[net])) && index-- == 0)
			return net;
	}
	return -1;
}

/* A port by its name, by the name of its other half, or as port "name:1". */
static int find_net(const struct topo *t, int machine, const char *name)
{
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < t->count[TOPO_NET]; i++) {
			const struct topo_node *n = &t->nodes[t->of[TOPO_NET][i]];
			const char *text = pass ? n->net.rdma : n->name;
			size_t len = strlen(text);

			if (n->machine != machine || !len || strncmp(name, text, len))
				continue;
			if (!name[len] || (name[len] == ':' && number_after(name + len, ":") == n->net.port))
				return t->of[TOPO_NET][i];
		}
	return -1;
}

/* What has the bus id; of a card the card, not its ports. */
static int find_busid(const struct topo *t, int machine, const char *name)
{
	int64_t key = topo_busid_key(name);

	for (int i = 0; key >= 0 && i < t->nnodes; i++)
		if (t->nodes[i].machine == machine && topo_busid_key(t->nodes[i].pci.busid) == key)
			return i;
	return -1;
}

static int find_on(const struct topo *t, int machine, const char *name)
{
	int n, node = -1;

	n = number_after(name, "gpu");
	if (n >= 0)
		return find_gpu(t, machine, n);
	n = find_net(t, machine, name);
	if (n >= 0)
		return n;
	n = number_after(name, "nic");
	if (n >= 0)
		return find_matrix_net(t, machine, n);
	n = number_after(name, "numa");
	n = n >= 0 ? n : number_after(name, "cpu");
	if (n >= 0)
		return find_numa(t, machine, n);
	n = strcasecmp(name, "nvswitch") ? number_after(name, "nvs") : 0;
	if (n >= 0 && n < t->count[TOPO_NVS])
		node = t->of[TOPO_NVS][n];
	return node >= 0 ? node : find_busid(t, machine, name);
}

int topo_find(const struct topo *t, const char *name)
{
	const char *slash = strchr(name, '/');
	char *end;
	long machine;
	int node = -1;

	if (slash) { /* "1/gpu0": of machine 1 */
		machine = strtol(name, &end, 10);
		return end != slash || machine < 0 || machine >= t->nmachines ? -1
									      : find_on(t, (int)machine, slash + 1);
	}
	for (int m = 0; m < t->nmachines && node < 0; m++)
		node = find_on(t, m, name);
	return node;
}

/* --- naming --- */

static void name_alone(const struct topo *t, int node, char *buf, size_t len)
{
	const struct topo_node *n = &t->nodes[node];

	switch (n->kind) {
	case TOPO_CPU:
		snprintf(buf, len, n->cpu.numa < 0 ? "NUMA node" : "NUMA %d", n->cpu.numa);
		return;
	case TOPO_GPU:
		snprintf(buf, len, "GPU %d", n->gpu.dev);
		return;
	case TOPO_NVS:
		snprintf(buf, len, "NVSwitch");
		return;
	case TOPO_NET:
		if (*n->name)
			snprintf(buf, len, "%s", n->name);
		else
			snprintf(buf, len, "port %d", n->net.dev);
		return;
	default:
		break;
	}
	if (*n->pci.busid)
		snprintf(buf, len, "%s %s", n->kind == TOPO_NIC ? "NIC" : "PCI", n->pci.busid);
	else
		snprintf(buf, len, "%s %d", n->kind == TOPO_NIC ? "NIC node" : "PCI node", node);
}

const char *topo_name(const struct topo *t, int node, char *buf, size_t len)
{
	char name[96];

	if (node < 0 || node >= t->nnodes) {
		snprintf(buf, len, "nothing");
		return buf;
	}
	name_alone(t, node, name, sizeof(name));
	if (t->nmachines > 1 && t->nodes[node].kind != TOPO_NVS)
		snprintf(buf, len, "%s of machine %d", name, t->nodes[node].machine);
	else
		snprintf(buf, len, "%s", name);
	return buf;
}

int topo_cpu_of(const struct topo *t, int node)
{
	for (int steps = 0; node >= 0 && steps <= t->nnodes; steps++) {
		if (t->nodes[node].kind == TOPO_CPU)
			return node;
		node = t->nodes[node].parent;
	}
	return -1;
}
