/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology XML, as NCCL_TOPO_DUMP_FILE writes it and people write it by hand for NCCL_TOPO_FILE, and RCCL's
 * dialect. The form is documented by NCCL's src/graph/xml.cc and topo.cc only. What NCCL would fill in from the machine
 * may be missing here; what is not known is noted and left out. */
#include "topo/nccl_xml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- what may stand where --- */

static const struct form {
	const char *name;
	const char *children[6];
	const char *attrs[16];
} forms[] = {
	{ "system", { "cpu" }, { "version", "name" } },
	{ "cpu",
	  { "pci", "nic", "net", "gpu" },
	  { "host_hash", "numaid", "affinity", "arch", "vendor", "familyid", "modelid" } },
	{ "pci",
	  { "pci", "gpu", "nic", "net", "pcilink" },
	  { "busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed",
	    "link_width" } },
	{ "gpu", { "nvlink", "xgmi", "c2c" }, { "dev", "sm", "gcn", "arch", "rank", "gdr", "mlopart", "keep" } },
	{ "nic", { "net" }, { NULL } },
	{ "net",
	  { NULL },
	  { "name", "dev", "latency", "speed", "port", "rail", "plane", "guid", "maxconn", "gdr", "coll", "keep", "net",
	    "gin", "rma" } },
	{ "nvlink", { NULL }, { "target", "count", "tclass" } },
	{ "xgmi", { NULL }, { "target", "count", "tclass" } },
	{ "c2c", { NULL }, { "bw", "count" } },
	{ "pcilink", { NULL }, { "target" } },
};

static const struct form *form_of(const char *name)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!strcmp(forms[i].name, name))
			return &forms[i];
	return NULL;
}

static bool listed(const char *const *list, int max, const char *word)
{
	for (int i = 0; i < max && list[i]; i++)
		if (!strcmp(list[i], word))
			return true;
	return false;
}

/* Notes what of @e and of its children is not known. */
static void note_unknown(struct topo *t, const struct xml_elem *e)
{
	const struct form *f = form_of(e->name);

	if (!f)
		return; /* its parent's turn has said so */
	for (int i = 0; e->attrs[i]; i += 2)
		if (!listed(f->attrs, 16, e->attrs[i]))
			topo_note(t, "<%s> has an attribute %.32s, which is not known: left out", e->name, e->attrs[i]);
	for (const struct xml_elem *c = e->child; c; c = c->next)
		if (!listed(f->children, 6, c->name))
			topo_note(t, "<%s> holds <%.32s>, which is not known there: left out", e->name, c->name);
}

static bool is(const struct xml_elem *e, const char *name)
{
	return !strcmp(e->name, name);
}

static const struct xml_elem *child_of(const struct xml_elem *e, const char *name)
{
	for (const struct xml_elem *c = e->child; c; c = c->next)
		if (is(c, name))
			return c;
	return NULL;
}

/* --- values --- */

static void get_text(const struct xml_elem *e, const char *key, char *out, size_t len)
{
	const char *text = xml_attr(e, key);

	if (text)
		snprintf(out, len, "%s", text);
}

static enum taut_status get_int(const struct nccl_load *l, const struct xml_elem *e, const char *key, int lo, int hi,
				int *out)
{
	long v = *out;

	if (xml_int(l->doc, e, key, lo, hi, &v))
		return TAUT_ERR_ARG;
	*out = (int)v;
	return TAUT_OK;
}

static enum taut_status get_u16(const struct nccl_load *l, const struct xml_elem *e, const char *key, uint16_t *out)
{
	long v = *out;

	if (xml_int(l->doc, e, key, 0, 0xffff, &v))
		return TAUT_ERR_ARG;
	*out = (uint16_t)v;
	return TAUT_OK;
}

static enum taut_status get_flag(const struct nccl_load *l, const struct xml_elem *e, const char *key, bool *out)
{
	long v = *out;

	if (xml_int(l->doc, e, key, 0, 1, &v))
		return TAUT_ERR_ARG;
	*out = v == 1;
	return TAUT_OK;
}

/* Hexadecimal, with or without 0x. */
static enum taut_status get_hex64(const struct nccl_load *l, const struct xml_elem *e, const char *key, uint64_t *out)
{
	const char *text = xml_attr(e, key);
	char *end;

	if (!text || !*text)
		return TAUT_OK;
	errno = 0;
	*out = strtoull(text, &end, 16);
	if (*end || errno || *text == '-')
		return xml_bad(l->doc, e, "%s is \"%.32s\": up to 16 hexadecimal digits were expected", key, text);
	return TAUT_OK;
}

static enum taut_status get_decimal(const struct nccl_load *l, const struct xml_elem *e, const char *key, double *out)
{
	const char *text = xml_attr(e, key), *end = text;

	if (!text || !*text)
		return TAUT_OK;
	*out = topo_parse_decimal(&end);
	if (*end || end == text)
		return xml_bad(l->doc, e, "%s is \"%.32s\": a number like 2.5 was expected", key, text);
	return TAUT_OK;
}

enum taut_status nccl_xml_class(const struct nccl_load *l, const struct xml_elem *e, const char *key, uint32_t *out)
{
	const char *text = xml_attr(e, key);
	uint64_t v = 0;
	size_t digits;

	if (!text || !*text)
		return TAUT_OK;
	digits = strlen(text) - (!strncmp(text, "0x", 2) ? 2 : 0);
	if (get_hex64(l, e, key, &v))
		return TAUT_ERR_ARG;
	if (digits < 1 || digits > 6)
		return xml_bad(l->doc, e, "%s is \"%.32s\": 0x and 6 hexadecimal digits were expected", key, text);
	*out = (uint32_t)v << (digits <= 2 ? 16 : digits <= 4 ? 8 : 0);
	return TAUT_OK;
}

bool nccl_xml_is_gpu_class(uint32_t class)
{
	return class >> 16 == 0x03 || class >> 8 == 0x1200; /* display; AMD's accelerators */
}

/* --- nodes --- */

static enum taut_status add_node(struct nccl_load *l, const struct xml_elem *e, enum topo_kind kind, int parent,
				 int *out)
{
	*out = topo_add_node(l->t, kind, parent);
	if (*out < 0)
		return status_last();
	l->node_of[e->number] = *out;
	return TAUT_OK;
}

static enum taut_status fill_link(const struct nccl_load *l, const struct xml_elem *e, struct topo_pci *pci)
{
	const char *speed = xml_attr(e, "link_speed");

	if (get_int(l, e, "link_width", 0, 255, &pci->width))
		return TAUT_ERR_ARG;
	if (pci->width > 32) { /* guests see 63 or 255 */
		topo_note(l->t, "link_width %d is no width of a link: counted as unknown", pci->width);
		pci->width = 0;
	}
	pci->gts = speed ? topo_parse_gts(speed) : 0;
	if (speed && *speed && !(pci->gts > 0) && strncmp(speed, "Unknown", 7))
		topo_note(l->t,
			  "link_speed \"%.32s\" is not understood (expected like \"16.0 GT/s PCIe\"): counted as "
			  "unknown",
			  speed);
	return TAUT_OK;
}

static enum taut_status fill_pci(const struct nccl_load *l, const struct xml_elem *e, struct topo_pci *pci)
{
	const char *busid = xml_attr(e, "busid");

	if (!busid)
		return xml_bad(l->doc, e, "busid is missing: domain:bus:device.function was expected");
	if (!topo_busid_normal(pci->busid, sizeof(pci->busid), busid))
		return xml_bad(l->doc, e, "busid is \"%.32s\": domain:bus:device.function was expected", busid);
	if (nccl_xml_class(l, e, "class", &pci->class) || get_u16(l, e, "vendor", &pci->vendor) ||
	    get_u16(l, e, "device", &pci->device) || get_u16(l, e, "subsystem_vendor", &pci->subvendor) ||
	    get_u16(l, e, "subsystem_device", &pci->subdevice))
		return TAUT_ERR_ARG;
	return fill_link(l, e, pci);
}

static enum taut_status fill_gpu(const struct nccl_load *l, const struct xml_elem *e, struct topo_gpu *gpu)
{
	gpu->listed = true;
	get_text(e, "gcn", gpu->gcn, sizeof(gpu->gcn));
	if (get_int(l, e, "dev", -1, 0xffff, &gpu->dev) || get_int(l, e, "rank", -1, INT32_MAX, &gpu->rank) ||
	    get_int(l, e, "sm", 0, 0xffff, &gpu->sm) || get_int(l, e, "gdr", -1, 1, &gpu->gdr) ||
	    get_int(l, e, "arch", 0, INT32_MAX, &gpu->arch))
		return TAUT_ERR_ARG;
	return TAUT_OK;
}

static enum taut_status fill_net(const struct nccl_load *l, const struct xml_elem *e, struct topo_net *net)
{
	long speed = 0;

	net->listed = true;
	if (xml_int(l->doc, e, "speed", -1, 100000000, &speed) || get_int(l, e, "dev", -1, 0xffff, &net->dev) ||
	    get_int(l, e, "port", 0, 0xffff, &net->port) || get_decimal(l, e, "latency", &net->latency_us) ||
	    get_hex64(l, e, "guid", &net->guid) || get_int(l, e, "maxconn", 0, INT32_MAX, &net->maxconn) ||
	    get_int(l, e, "gdr", -1, 1, &net->gdr) || get_int(l, e, "coll", 0, 1, &net->coll) ||
	    get_flag(l, e, "keep", &net->keep) || get_int(l, e, "rail", -1, 0x7fff, &net->rail) ||
	    get_int(l, e, "plane", -1, 0x7fff, &net->plane))
		return TAUT_ERR_ARG;
	net->speed_mbit = speed > 0 ? speed : 0;
	return TAUT_OK;
}

static enum taut_status load_net(struct nccl_load *l, const struct xml_elem *e, int nic)
{
	struct topo_node *n;
	int node, carries = 1;

	note_unknown(l->t, e);
	if (get_int(l, e, "net", 0, 1, &carries))
		return TAUT_ERR_ARG;
	if (!carries) {
		topo_note(l->t, "port %.32s carries no messages between nodes (net=\"0\"): left out",
			  xml_attr(e, "name") ? xml_attr(e, "name") : "?");
		return TAUT_OK;
	}
	if (add_node(l, e, TOPO_NET, nic, &node))
		return status_last();
	n = &l->t->nodes[node];
	get_text(e, "name", n->name, sizeof(n->name));
	return fill_net(l, e, &n->net);
}

/* The ports of <nic> @e, to the card @nic. */
static enum taut_status load_ports(struct nccl_load *l, const struct xml_elem *e, int nic)
{
	enum taut_status st = TAUT_OK;

	note_unknown(l->t, e);
	for (const struct xml_elem *c = e->child; c && !st; c = c->next)
		if (is(c, "net"))
			st = load_net(l, c, nic);
	return st;
}

/* A card that has no <pci> of its own: virtual, or listed beside what is below a bridge. */
static enum taut_status load_bare_nic(struct nccl_load *l, const struct xml_elem *e, int parent)
{
	int nic;

	if (add_node(l, e, TOPO_NIC, parent, &nic))
		return status_last();
	return is(e, "nic") ? load_ports(l, e, nic) : load_net(l, e, nic);
}

static enum taut_status load_gpu(struct nccl_load *l, const struct xml_elem *e, int parent, const struct topo_pci *pci)
{
	int gpu;

	note_unknown(l->t, e);
	if (add_node(l, e, TOPO_GPU, parent, &gpu))
		return status_last();
	if (pci)
		l->t->nodes[gpu].pci = *pci;
	return fill_gpu(l, e, &l->t->nodes[gpu].gpu);
}

static enum taut_status load_pci(struct nccl_load *l, const struct xml_elem *e, int parent);

/* What hangs below @parent by the children of @e; of @pci: its GPUs. */
static enum taut_status load_children(struct nccl_load *l, const struct xml_elem *e, int parent,
				      const struct topo_pci *pci)
{
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		if (is(c, "pci"))
			st = load_pci(l, c, parent);
		else if (is(c, "gpu"))
			st = load_gpu(l, c, parent, pci);
		else if (is(c, "nic") || is(c, "net"))
			st = load_bare_nic(l, c, parent);
	}
	return st;
}

static enum taut_status load_card(struct nccl_load *l, const struct xml_elem *e, int nic)
{
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		if (is(c, "nic"))
			st = load_ports(l, c, nic);
		else if (is(c, "net"))
			st = load_net(l, c, nic);
	}
	return st;
}

/* A <pci> is what it holds: GPUs, the ports of a card, or other devices. One that holds nothing is what its class says,
 * as in files that NCCL completes from the machine. */
static enum taut_status load_pci(struct nccl_load *l, const struct xml_elem *e, int parent)
{
	bool gpus = child_of(e, "gpu"), below = child_of(e, "pci"), ports = child_of(e, "nic") || child_of(e, "net");
	enum topo_kind kind = TOPO_PCI;
	struct topo_pci pci = { .acs = -1 };
	int node;

	note_unknown(l->t, e);
	if (fill_pci(l, e, &pci))
		return TAUT_ERR_ARG;
	if (gpus) {
		if (below || ports)
			topo_note(l->t, "GPU %s holds other devices: counted as beside it", pci.busid);
		pci.class = pci.class ? pci.class : CLASS_GPU;
		return load_children(l, e, parent, &pci);
	}
	if (!below && (ports || pci.class >> 16 == 0x02))
		kind = TOPO_NIC;
	else if (!below && nccl_xml_is_gpu_class(pci.class))
		kind = TOPO_GPU;
	if (add_node(l, e, kind, parent, &node))
		return status_last();
	l->t->nodes[node].pci = pci;
	return kind == TOPO_NIC ? load_card(l, e, node) : load_children(l, e, node, NULL);
}

/* Machines are told apart by their hash, and numbered in the order of the file. */
static int machine_of(const struct topo *t, int cpu)
{
	int next = 0;

	for (int i = 0; i < cpu; i++) {
		if (t->nodes[i].kind != TOPO_CPU)
			continue;
		if (t->nodes[i].cpu.host_hash == t->nodes[cpu].cpu.host_hash)
			return t->nodes[i].machine;
		if (t->nodes[i].machine >= next)
			next = t->nodes[i].machine + 1;
	}
	return next;
}

static enum taut_status fill_cpu(const struct nccl_load *l, const struct xml_elem *e, struct topo_cpu *cpu)
{
	const char *mask = xml_attr(e, "affinity");
	int n = mask && *mask ? topo_parse_mask(cpu->affinity, TOPO_MASK_WORDS, mask) : 0;

	if (n < 0)
		return xml_bad(l->doc, e,
			       "affinity is \"%.64s\": at most %d words of up to 8 hexadecimal digits, with "
			       "commas between, were expected",
			       mask, TOPO_MASK_WORDS);
	cpu->nmask = n;
	get_text(e, "arch", cpu->arch, sizeof(cpu->arch));
	get_text(e, "vendor", cpu->vendor, sizeof(cpu->vendor));
	if (get_hex64(l, e, "host_hash", &cpu->host_hash) || get_int(l, e, "numaid", -1, 0xffff, &cpu->numa) ||
	    get_int(l, e, "familyid", -1, 0xffff, &cpu->family) || get_int(l, e, "modelid", -1, 0xffff, &cpu->model))
		return TAUT_ERR_ARG;
	return TAUT_OK;
}

static enum taut_status load_cpu(struct nccl_load *l, const struct xml_elem *e)
{
	int cpu;

	note_unknown(l->t, e);
	if (add_node(l, e, TOPO_CPU, -1, &cpu))
		return status_last();
	if (fill_cpu(l, e, &l->t->nodes[cpu].cpu))
		return TAUT_ERR_ARG;
	l->t->nodes[cpu].machine = machine_of(l->t, cpu);
	return load_children(l, e, cpu, NULL);
}

/* --- the system --- */

static enum taut_status check_root(const struct xml_doc *doc, struct topo *t)
{
	const struct xml_elem *e = xml_root(doc);
	long version = 1;
	int cpus = 0;

	if (is(e, "graphs"))
		return xml_bad(doc, e, "these are channels (NCCL_GRAPH_FILE): a topology starts with <system>");
	if (!is(e, "system"))
		return xml_bad(doc, e, "NCCL's topology starts with <system>");
	if (xml_int(doc, e, "version", 0, INT32_MAX, &version))
		return TAUT_ERR_ARG;
	if (version != 1 && version != 2)
		return xml_bad(doc, e, "version is %ld: 1 (NCCL) and 2 (RCCL) are read", version);
	for (const struct xml_elem *c = e->child; c; c = c->next)
		cpus += is(c, "cpu");
	if (cpus < 1 || cpus > TOPO_MAX_NUMA)
		return xml_bad(doc, e, "it holds %d <cpu>: 1 to %d were expected", cpus, TOPO_MAX_NUMA);
	note_unknown(t, e);
	return TAUT_OK;
}

struct numbered {
	int machine, dev, node;
};

static int compare_numbered(const void *pa, const void *pb)
{
	const struct numbered *a = pa, *b = pb;

	if (a->machine != b->machine)
		return a->machine < b->machine ? -1 : 1;
	if (a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

/* A number that several GPUs or ports of a machine have stays with the first; the others get free ones. */
static enum taut_status part_twins(struct topo *t, enum topo_kind kind)
{
	struct numbered *list = mem_calloc((size_t)t->nnodes, sizeof(*list));
	int n = 0, twins = 0, first = 0;

	if (!list)
		return fail(TAUT_ERR_NOMEM, "%s: no memory for its numbers", t->source);
	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *d = &t->nodes[i];
		int dev = d->kind == TOPO_GPU ? d->gpu.dev : d->net.dev;

		if (d->kind == kind && dev >= 0)
			list[n++] = (struct numbered){ d->machine, dev, i };
	}
	qsort(list, (size_t)n, sizeof(*list), compare_numbered);
	for (int i = 1; i < n; i++) {
		struct topo_node *d = &t->nodes[list[i].node];

		if (list[i].machine != list[i - 1].machine || list[i].dev != list[i - 1].dev)
			continue;
		if (!twins++)
			first = list[i].dev;
		*(kind == TOPO_GPU ? &d->gpu.dev : &d->net.dev) = -1;
	}
	if (twins)
		topo_note(t, "%d %s have a dev that another has (%d first): they get other numbers", twins,
			  kind == TOPO_GPU ? "GPUs" : "ports", first);
	mem_free(list);
	return TAUT_OK;
}

static enum taut_status load(struct nccl_load *l)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < xml_count(l->doc); i++)
		l->node_of[i] = -1;
	for (const struct xml_elem *c = xml_root(l->doc)->child; c && !st; c = c->next)
		if (is(c, "cpu"))
			st = load_cpu(l, c);
	if (!st)
		st = nccl_xml_links(l);
	if (!st)
		st = part_twins(l->t, TOPO_GPU);
	if (!st)
		st = part_twins(l->t, TOPO_NET);
	if (!st)
		st = topo_finish(l->t);
	if (!st)
		topo_note_odd(l->t);
	return st;
}

enum taut_status topo_from_nccl_xml(struct topo **out, const char *name, const char *text, size_t len)
{
	struct nccl_load l = { .nvs = -1 };
	struct xml_doc *doc = NULL;
	enum taut_status st = xml_parse(&doc, name, text, len);

	if (st)
		return st;
	l.doc = doc;
	st = topo_create(&l.t, name);
	if (st)
		goto err_doc;
	st = check_root(doc, l.t);
	if (st)
		goto err_topo;
	l.node_of = mem_calloc((size_t)xml_count(doc), sizeof(*l.node_of));
	st = l.node_of ? load(&l) : fail(TAUT_ERR_NOMEM, "%s: no memory for its graph", name);
	mem_free(l.node_of);
	if (st)
		goto err_topo;
	xml_free(doc);
	*out = l.t;
	return TAUT_OK;
err_topo:
	topo_free(l.t);
err_doc:
	xml_free(doc);
	return st;
}
