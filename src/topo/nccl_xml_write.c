/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology XML as NCCL_TOPO_DUMP_FILE has it: the same elements, attributes, their order and spelling. What that
 * form has no place for (states of ports, ACS, memory) is left out. */
#include "topo/nccl_xml.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct out {
	const struct topo *t;
	char *text;
	size_t len, room;
	bool lost;		 /* memory is out */
	const int *first, *next; /* first node below a node, next beside it; -1: none */
	int mask_digits;	 /* of the uppermost word of an affinity mask */
};

static void put(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *o, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (o->lost || n < 0)
		return;
	if (o->len + (size_t)n + 1 > o->room) {
		text = mem_realloc(o->text, 2 * o->room + (size_t)n + 4096, 1);
		if (!text) {
			o->lost = true;
			return;
		}
		o->text = text;
		o->room = 2 * o->room + (size_t)n + 4096;
	}
	va_start(ap, fmt);
	vsnprintf(o->text + o->len, o->room - o->len, fmt, ap);
	va_end(ap);
	o->len += (size_t)n;
}

/* Text as the value of an attribute. */
static void put_text(struct out *o, const char *key, const char *value)
{
	put(o, " %s=\"", key);
	for (; *value; value++) {
		if (*value == '&')
			put(o, "&amp;");
		else if (*value == '<')
			put(o, "&lt;");
		else if (*value == '"')
			put(o, "&quot;");
		else if ((unsigned char)*value >= ' ')
			put(o, "%c", *value);
	}
	put(o, "\"");
}

/* The bus id, or where there is none one that no device has. */
static const char *busid_of(const struct topo *t, int node, char *buf, size_t len)
{
	if (*t->nodes[node].pci.busid)
		return t->nodes[node].pci.busid;
	snprintf(buf, len, "ffff:%02x:%02x.%x", node >> 8 & 0xff, node >> 3 & 0x1f, node & 7);
	return buf;
}

static void put_children(struct out *o, int node, int indent);

/* --- GPUs --- */

static void put_peer(struct out *o, const char *element, int peer, int count, int indent)
{
	uint32_t class = o->t->nodes[peer].pci.class;
	char id[24];

	put(o, "%*s<%s target=\"%s\" count=\"%d\" tclass=\"0x%06x\"/>\n", indent, "", element,
	    busid_of(o->t, peer, id, sizeof(id)), count, nccl_xml_is_gpu_class(class) ? class : CLASS_GPU);
}

static void put_target(struct out *o, const char *target, int count, uint32_t class, int indent)
{
	put(o, "%*s<nvlink target=\"%s\" count=\"%d\" tclass=\"0x%06x\"/>\n", indent, "", target, count, class);
}

/* Where the number of NVSwitches is known, each has its share of the links and a name that no device has. */
static void put_switches(struct out *o, int switches, int count, int indent)
{
	char target[24];

	if (switches < 1 || switches > 0xfe || switches > count) {
		put_target(o, NCCL_XML_NO_TARGET, count, CLASS_NVSWITCH, indent);
		return;
	}
	for (int i = 0; i < switches; i++) {
		snprintf(target, sizeof(target), "fffffff:%02x:00.0", i);
		put_target(o, target, count / switches + (i < count % switches), CLASS_NVSWITCH, indent);
	}
}

/* Returns how many NVLinks it was. */
static int put_link(struct out *o, const struct topo_link *l, int gpu, int indent)
{
	int other = l->a == gpu ? l->b : l->a;
	const struct topo_node *peer = &o->t->nodes[other];

	if (l->kind == LINK_XGMI)
		put_peer(o, "xgmi", other, l->count, indent);
	if (l->kind != LINK_NVLINK)
		return 0;
	if (peer->kind == TOPO_NVS)
		put_switches(o, peer->switches, l->count, indent);
	else if (peer->kind == TOPO_CPU)
		put_target(o, NCCL_XML_NO_TARGET, l->count, CLASS_NPU, indent);
	else
		put_peer(o, "nvlink", other, l->count, indent);
	return l->count;
}

static void put_gpu_links(struct out *o, int gpu, int indent)
{
	const struct topo_node *n = &o->t->nodes[gpu];
	int shown = 0;

	for (int i = 0; i < n->nlinks; i++)
		shown += put_link(o, &o->t->links[n->links[i]], gpu, indent);
	if (n->gpu.nvlinks > shown) /* to what the graph does not show: as to a GPU that is not there */
		put_target(o, NCCL_XML_NO_TARGET, n->gpu.nvlinks - shown, CLASS_GPU, indent);
	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *l = &o->t->links[n->links[i]];

		if (l->kind == LINK_C2C)
			put(o, "%*s<c2c bw=\"%.0f\" count=\"%d\"/>\n", indent, "", l->bw_gbps * 1000.0 / l->count,
			    l->count);
	}
}

static bool has_gpu_links(const struct topo *t, const struct topo_node *n)
{
	bool any = n->gpu.nvlinks > 0;

	for (int i = 0; i < n->nlinks; i++)
		any = any || t->links[n->links[i]].kind != LINK_PCI;
	return any;
}

static void put_gpu(struct out *o, int gpu, int indent)
{
	const struct topo_node *n = &o->t->nodes[gpu];

	put(o, "%*s<gpu dev=\"%d\"", indent, "", n->gpu.dev);
	if (n->gpu.sm)
		put(o, " sm=\"%d\"", n->gpu.sm);
	if (*n->gpu.gcn)
		put_text(o, "gcn", n->gpu.gcn);
	if (n->gpu.arch)
		put(o, " arch=\"%d\"", n->gpu.arch);
	if (n->gpu.rank >= 0)
		put(o, " rank=\"%d\"", n->gpu.rank);
	if (n->gpu.gdr >= 0)
		put(o, " gdr=\"%d\"", n->gpu.gdr);
	if (!has_gpu_links(o->t, n)) {
		put(o, "/>\n");
		return;
	}
	put(o, ">\n");
	put_gpu_links(o, gpu, indent + 2);
	put(o, "%*s</gpu>\n", indent, "");
}

/* --- cards --- */

static void put_net(struct out *o, const struct topo_node *n, int indent)
{
	const struct topo_net *net = &n->net;

	put(o, "%*s<net", indent, "");
	if (*n->name)
		put_text(o, "name", n->name);
	put(o, " dev=\"%d\"", net->dev);
	if (net->latency_us > 0 && net->latency_us < 1e6 && net->latency_us != (int)net->latency_us)
		put(o, " latency=\"%d.%06d\"", (int)net->latency_us,
		    (int)((net->latency_us - (int)net->latency_us) * 1e6 + 0.5)); /* with a point in any locale */
	else
		put(o, " latency=\"%.0f\"", net->latency_us);
	if (net->speed_mbit)
		put(o, " speed=\"%ld\"", net->speed_mbit);
	put(o, " port=\"%d\"", net->port);
	if (net->rail >= 0)
		put(o, " rail=\"%d\"", net->rail);
	if (net->plane >= 0)
		put(o, " plane=\"%d\"", net->plane);
	put(o, " guid=\"0x%" PRIx64 "\"", net->guid);
	if (net->maxconn)
		put(o, " maxconn=\"%d\"", net->maxconn);
	if (net->gdr >= 0)
		put(o, " gdr=\"%d\"", net->gdr);
	if (net->coll)
		put(o, " coll=\"%d\"", net->coll);
	if (net->keep)
		put(o, " keep=\"1\"");
	put(o, "/>\n");
}

static void put_nic(struct out *o, int nic, int indent)
{
	if (o->first[nic] < 0) {
		put(o, "%*s<nic/>\n", indent, "");
		return;
	}
	put(o, "%*s<nic>\n", indent, "");
	put_children(o, nic, indent + 2);
	put(o, "%*s</nic>\n", indent, "");
}

/* --- PCI --- */

static void put_pci_start(struct out *o, int node, int indent)
{
	const struct topo_pci *p = &o->t->nodes[node].pci;
	uint32_t class = !p->class && o->t->nodes[node].kind == TOPO_GPU ? CLASS_GPU : p->class;
	int tenths = (int)(p->gts * 10 + 0.5);
	char id[24];

	put(o, "%*s<pci busid=\"%s\"", indent, "", busid_of(o->t, node, id, sizeof(id)));
	if (class)
		put(o, " class=\"0x%06x\"", class);
	if (p->vendor || p->device)
		put(o, " vendor=\"0x%04x\" device=\"0x%04x\"", p->vendor, p->device);
	if (p->vendor || p->device || p->subvendor)
		put(o, " subsystem_vendor=\"0x%04x\"", p->subvendor);
	if (p->vendor || p->device || p->subvendor || p->subdevice)
		put(o, " subsystem_device=\"0x%04x\"", p->subdevice);
	if (p->gts > 0)
		put(o, " link_speed=\"%d.%d GT/s PCIe\"", tenths / 10, tenths % 10);
	else if (class || p->width > 0)
		put(o, " link_speed=\"\"");
	if (p->gts > 0 || class || p->width > 0) /* else NCCL takes it from the machine */
		put(o, " link_width=\"%d\"", p->width);
}

static bool is_beside(const struct topo *t, const struct topo_link *l)
{
	return l->kind == LINK_PCI && t->nodes[l->a].parent != l->b && t->nodes[l->b].parent != l->a;
}

/* Switches that are one device with this one. */
static bool put_pcilinks(struct out *o, int node, int indent, bool count_only)
{
	const struct topo_node *n = &o->t->nodes[node];
	bool any = false;
	char id[24];

	for (int i = 0; i < n->nlinks; i++) {
		const struct topo_link *l = &o->t->links[n->links[i]];

		if (!is_beside(o->t, l))
			continue;
		any = true;
		if (!count_only)
			put(o, "%*s<pcilink target=\"%s\"/>\n", indent, "",
			    busid_of(o->t, l->a == node ? l->b : l->a, id, sizeof(id)));
	}
	return any;
}

static void put_pci(struct out *o, int node, int indent)
{
	const struct topo_node *n = &o->t->nodes[node];
	bool gpu = n->kind == TOPO_GPU && n->gpu.listed;
	/* of a card without ports the class tells that it is one, else an empty <nic> */
	bool ports = n->kind == TOPO_NIC && (o->first[node] >= 0 || n->pci.class >> 16 != 0x02);

	put_pci_start(o, node, indent);
	if (!gpu && !ports && o->first[node] < 0 && !put_pcilinks(o, node, 0, true)) {
		put(o, "/>\n");
		return;
	}
	put(o, ">\n");
	if (gpu)
		put_gpu(o, node, indent + 2);
	else if (ports)
		put_nic(o, node, indent + 2);
	else
		put_children(o, node, indent + 2);
	put_pcilinks(o, node, indent + 2, false);
	put(o, "%*s</pci>\n", indent, "");
}

static void put_node(struct out *o, int node, int indent)
{
	const struct topo_node *n = &o->t->nodes[node];

	if (n->kind == TOPO_NET)
		put_net(o, n, indent);
	else if (n->kind == TOPO_NIC && !*n->pci.busid)
		put_nic(o, node, indent);
	else
		put_pci(o, node, indent);
}

static void put_children(struct out *o, int node, int indent)
{
	for (int c = o->first[node]; c >= 0; c = o->next[c])
		put_node(o, c, indent);
}

/* --- NUMA nodes --- */

static int digits_of(uint32_t word)
{
	int n = 0;

	for (; word; word >>= 4)
		n++;
	return n;
}

/* The kernel prints as many digits of the uppermost word as the processors of the machine need. */
static int mask_digits(const struct topo *t)
{
	int most = 0;

	for (int i = 0; i < t->count[TOPO_CPU]; i++) {
		const struct topo_cpu *c = &t->nodes[t->of[TOPO_CPU][i]].cpu;
		int n = c->nmask > 0 ? digits_of(c->affinity[c->nmask - 1]) : 0;

		if (n > most)
			most = n;
	}
	return most ? most : 8;
}

static void put_cpu(struct out *o, int cpu)
{
	const struct topo_cpu *c = &o->t->nodes[cpu].cpu;

	put(o, "  <cpu");
	if (c->host_hash)
		put(o, " host_hash=\"0x%" PRIx64 "\"", c->host_hash);
	put(o, " numaid=\"%d\"", c->numa);
	for (int i = c->nmask - 1; i >= 0; i--)
		put(o, "%s%0*x", i == c->nmask - 1 ? " affinity=\"" : ",", i == c->nmask - 1 ? o->mask_digits : 8,
		    c->affinity[i]);
	if (c->nmask > 0)
		put(o, "\"");
	if (*c->arch)
		put_text(o, "arch", c->arch);
	if (*c->vendor)
		put_text(o, "vendor", c->vendor);
	if (c->family >= 0)
		put(o, " familyid=\"%d\"", c->family);
	if (c->model >= 0)
		put(o, " modelid=\"%d\"", c->model);
	if (o->first[cpu] < 0) {
		put(o, "/>\n");
		return;
	}
	put(o, ">\n");
	put_children(o, cpu, 4);
	put(o, "  </cpu>\n");
}

/* Nodes below a node in their order. What has none above it but is no NUMA node goes below the first of these, as NCCL
 * has it; where there is none, below one that has the number of all nodes. */
static void index_children(const struct topo *t, int *first, int *next)
{
	int home = t->count[TOPO_CPU] ? t->of[TOPO_CPU][0] : t->nnodes;

	for (int i = 0; i <= t->nnodes; i++)
		first[i] = next[i] = -1;
	for (int i = t->nnodes - 1; i >= 0; i--) {
		enum topo_kind kind = t->nodes[i].kind;
		int up = t->nodes[i].parent;

		if (kind == TOPO_CPU || kind == TOPO_NVS)
			continue;
		up = up < 0 ? home : up;
		next[i] = first[up];
		first[up] = i;
	}
}

static bool is_amd(const struct topo *t)
{
	bool any = false;

	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		any = any || *t->nodes[t->of[TOPO_GPU][i]].gpu.gcn;
	return any;
}

enum taut_status topo_to_nccl_xml(char **out, const struct topo *t)
{
	size_t n = (size_t)t->nnodes + 1;
	int *below = mem_calloc(2 * n, sizeof(*below));
	struct out o = { .t = t, .first = below, .next = below ? below + n : NULL };

	if (!below)
		return fail(TAUT_ERR_NOMEM, "no memory to write the graph of %s", t->source);
	index_children(t, below, below + n);
	o.mask_digits = mask_digits(t);
	put(&o, "<system version=\"%d\">\n", is_amd(t) ? 2 : 1); /* RCCL's dialect has a version of its own */
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU)
			put_cpu(&o, i);
	if (!t->count[TOPO_CPU]) {
		put(&o, "  <cpu numaid=\"-1\">\n");
		put_children(&o, t->nnodes, 4);
		put(&o, "  </cpu>\n");
	}
	put(&o, "</system>\n");
	mem_free(below);
	if (o.lost) {
		mem_free(o.text);
		return fail(TAUT_ERR_NOMEM, "no memory to write the graph of %s", t->source);
	}
	*out = o.text;
	return TAUT_OK;
}
