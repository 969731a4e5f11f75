/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what hwloc 1, 2 and 3 (and lstopo) save as XML: the NUMA nodes, and the PCI tree as far as it leads to GPUs and
 * network cards. hwloc's own library reads only the versions that it knows, and would need the components that the file
 * was made with. */
#include "topo/hwloc_xml.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"
#include "topo/models.h"

bool hwloc_is(const struct xml_elem *e, const char *type)
{
	const char *is = xml_attr(e, "type");

	return !strcmp(e->name, "object") && is && !strcmp(is, type);
}

const char *hwloc_info(const struct xml_elem *e, const char *key)
{
	for (const struct xml_elem *c = e->child; c; c = c->next) {
		const char *name = strcmp(c->name, "info") ? NULL : xml_attr(c, "name");

		if (name && !strcmp(name, key))
			return xml_attr(c, "value");
	}
	return NULL;
}

void hwloc_name(struct hwloc_read *r, const struct xml_elem *e, int node)
{
	const char *gp = xml_attr(e, "gp_index");
	char *end;
	long index = gp ? strtol(gp, &end, 10) : -1;

	if (gp && !*end && index >= 0)
		r->named[r->nnamed++] = (struct hwloc_named){ index, node };
}

static const struct xml_elem *above(const struct xml_elem *e, const char *type)
{
	while (e && !hwloc_is(e, type))
		e = e->parent;
	return e;
}

/* The next element of the tree, in the order of the text; NULL at its end. */
static const struct xml_elem *walk(const struct xml_elem *e, const struct xml_elem *top)
{
	if (e->child)
		return e->child;
	while (e != top && !e->next)
		e = e->parent;
	return e == top ? NULL : e->next;
}

/* --- masks --- */

/* hwloc's "0x00000303,0x03030000,,0x03030303" into words, least significant first; returns their number; -1: none.
 * "0xf...f" (all) is none. */
static int parse_bitmap(uint32_t *words, int max, const char *text)
{
	int n = 1, at;

	for (const char *c = text; *c; c++)
		n += *c == ',';
	at = n - 1;
	while (at >= 0) {
		char *end = (char *)text;
		unsigned long long v = *text && *text != ',' ? strtoull(text, &end, 16) : 0;

		if (v > UINT32_MAX || (*end && *end != ','))
			return -1;
		if (at >= max && v)
			return -1;
		if (at < max)
			words[at] = (uint32_t)v;
		at--;
		text = *end ? end + 1 : end;
	}
	return n < max ? n : max;
}

static int trimmed(const uint32_t *words, int n)
{
	while (n > 0 && !words[n - 1])
		n--;
	return n;
}

/* --- NUMA nodes --- */

static void copy_trimmed(char *out, size_t len, const char *text)
{
	size_t n = strlen(text);

	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	snprintf(out, len, "%.*s", (int)(n < len ? n : len - 1), text);
}

static int number_of(const struct xml_elem *e, const char *key)
{
	const char *text = e ? hwloc_info(e, key) : NULL;
	char *end;
	unsigned long v = text ? strtoul(text, &end, 0) : 0;

	return text && *text && !*end && v <= 0xffff ? (int)v : -1;
}

static const char *maker_of_arm(int implementer)
{
	switch (implementer) {
	case 0x41:
		return "ARM";
	case 0x46:
		return "Fujitsu";
	case 0x48:
		return "HiSilicon";
	case 0x4e:
		return "NVIDIA";
	case 0xc0:
		return "Ampere";
	default:
		return "";
	}
}

/* As NCCL spells it. */
static const char *arch_of(const char *arch, const char *vendor, const char *model)
{
	if (arch && !strcmp(arch, "aarch64"))
		return "arm64";
	if (arch && !strncmp(arch, "ppc64", 5))
		return "ppc64";
	if (arch)
		return arch;
	if (model && !strncmp(model, "POWER", 5))
		return "ppc64";
	return vendor && (strstr(vendor, "Intel") || strstr(vendor, "AMD")) ? "x86_64" : "";
}

/* @package: that of the NUMA node, or NULL. */
static void fill_model(const struct hwloc_read *r, struct topo_node *n, const struct xml_elem *package)
{
	const struct xml_elem *root = xml_root(r->doc), *machine = root->child;
	const char *vendor = package ? hwloc_info(package, "CPUVendor") : NULL;
	const char *model = package ? hwloc_info(package, "CPUModel") : NULL;
	const char *arch = hwloc_info(root, "Architecture");

	while (machine && !hwloc_is(machine, "Machine"))
		machine = machine->next;
	if (!arch && machine)
		arch = hwloc_info(machine, "Architecture");
	arch = arch_of(arch, vendor, model);
	if (!vendor)
		vendor = !strcmp(arch, "ppc64") ? "IBM" : maker_of_arm(number_of(package, "CPUImplementer"));
	snprintf(n->cpu.arch, sizeof(n->cpu.arch), "%s", arch);
	snprintf(n->cpu.vendor, sizeof(n->cpu.vendor), "%s", vendor);
	copy_trimmed(n->name, sizeof(n->name), model ? model : "");
	n->cpu.family = number_of(package, "CPUFamilyNumber");
	n->cpu.model = number_of(package, "CPUModelNumber");
}

static int add_cpu(struct hwloc_read *r, long numa, const uint32_t *mask, int nmask, const struct xml_elem *package)
{
	int node = topo_add_node(r->t, TOPO_CPU, -1);
	struct topo_cpu *c;

	if (node < 0)
		return -1;
	c = &r->t->nodes[node].cpu;
	c->numa = (int)numa;
	c->nmask = nmask;
	memcpy(c->affinity, mask, (size_t)nmask * sizeof(*mask));
	fill_model(r, &r->t->nodes[node], package);
	r->cpu_node[r->ncpus++] = node;
	return node;
}

static enum taut_status parse_mask(const struct hwloc_read *r, const struct xml_elem *e, const char *key,
				   uint32_t *words, int max, int *n)
{
	const char *text = xml_attr(e, key);

	memset(words, 0, (size_t)max * sizeof(*words));
	*n = text ? parse_bitmap(words, max, text) : 0;
	if (*n < 0)
		return xml_bad(r->doc, e, "%s is \"%.40s\": words like 0x0000ffff,0x00000000 are wanted, %d at most",
			       key, text, max);
	*n = trimmed(words, *n);
	return TAUT_OK;
}

static enum taut_status add_numa(struct hwloc_read *r, const struct xml_elem *e)
{
	const struct xml_elem *package = above(e, "Package");
	uint32_t mask[TOPO_MASK_WORDS];
	long numa = -1;
	int n, node;
	enum taut_status st = xml_int(r->doc, e, "os_index", 0, TOPO_MAX_NUMA - 1, &numa);
	const char *memory = xml_attr(e, "local_memory");

	if (!st)
		st = parse_mask(r, e, "cpuset", mask, TOPO_MASK_WORDS, &n);
	if (st)
		return st;
	for (int i = 0; i < r->ncpus; i++)
		if (r->t->nodes[r->cpu_node[i]].cpu.numa == numa)
			return xml_bad(r->doc, e, "NUMA node %ld stands twice", numa);
	if (r->ncpus == TOPO_MAX_NUMA)
		return xml_bad(r->doc, e, "more than %d NUMA nodes", TOPO_MAX_NUMA);
	if (!n) { /* memory of GPUs, CXL: no processor is near */
		topo_note(r->t, "NUMA node %ld has memory but no processors: it is left out", numa);
		return TAUT_OK;
	}
	for (const struct xml_elem *p = xml_root(r->doc); p && !package; p = walk(p, xml_root(r->doc)))
		if (hwloc_is(p, "Package"))
			package = p; /* one NUMA node of all packages */
	node = add_cpu(r, numa, mask, n, package);
	if (node < 0)
		return status_last();
	r->t->nodes[node].cpu.memory = memory ? strtoull(memory, NULL, 10) : 0;
	return TAUT_OK;
}

/* hwloc 1 leaves NUMA nodes out of machines that have one. */
static enum taut_status add_only_cpu(struct hwloc_read *r)
{
	const struct xml_elem *machine = NULL, *package = NULL, *root = xml_root(r->doc);
	uint32_t mask[TOPO_MASK_WORDS];
	enum taut_status st;
	int n;

	for (const struct xml_elem *e = root; e; e = walk(e, root)) {
		if (!machine && hwloc_is(e, "Machine"))
			machine = e;
		if (!package && (hwloc_is(e, "Package") || hwloc_is(e, "Socket")))
			package = e;
	}
	if (!machine)
		return xml_bad(r->doc, root, "no object of type Machine: this is no topology of hwloc");
	topo_note(r->t, "the file has no NUMA node: the machine is taken to be one");
	st = parse_mask(r, machine, "cpuset", mask, TOPO_MASK_WORDS, &n);
	if (st)
		return st;
	return add_cpu(r, 0, mask, n, package) < 0 ? status_last() : TAUT_OK;
}

static enum taut_status add_numas(struct hwloc_read *r)
{
	const struct xml_elem *root = xml_root(r->doc);
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *e = root; e && !st; e = walk(e, root))
		if (hwloc_is(e, "NUMANode"))
			st = add_numa(r, e);
	if (!st && !r->ncpus)
		st = add_only_cpu(r);
	return st;
}

/* --- where devices are --- */

static bool is_io(const struct xml_elem *e)
{
	return hwloc_is(e, "Bridge") || hwloc_is(e, "PCIDev") || hwloc_is(e, "OSDev");
}

static bool holds(const uint32_t *words, int n, int bit)
{
	return bit >= 0 && bit / 32 < n && words[bit / 32] >> (bit % 32) & 1;
}

/* The NUMA node that the devices right below @e are near to. @matters: say so when the file does not tell. */
static enum taut_status cpu_near(struct hwloc_read *r, const struct xml_elem *e, bool matters, int *out)
{
	uint32_t nodes[TOPO_MAX_NUMA / 32];
	int n = 0, found = 0;
	enum taut_status st = parse_mask(r, e, "nodeset", nodes, TOPO_MAX_NUMA / 32, &n);

	if (st)
		return st;
	*out = r->cpu_node[0];
	for (int i = r->ncpus - 1; i >= 0; i--)
		if (holds(nodes, n, r->t->nodes[r->cpu_node[i]].cpu.numa)) {
			*out = r->cpu_node[i];
			found++;
		}
	if (matters && (found > 1 || (found == 0 && r->ncpus > 1)))
		topo_note(r->t,
			  "the file does not tell which of %d NUMA nodes some devices are near to: the first is "
			  "taken, NUMA %d",
			  found ? found : r->ncpus, r->t->nodes[*out].cpu.numa);
	return TAUT_OK;
}

/* Packages may stand in the distances (POWER: NVLinks to the processor). */
static enum taut_status name_packages(struct hwloc_read *r)
{
	const struct xml_elem *root = xml_root(r->doc);
	enum taut_status st = TAUT_OK;
	int cpu;

	for (const struct xml_elem *e = root; e && !st; e = walk(e, root))
		if (hwloc_is(e, "Package")) {
			st = cpu_near(r, e, false, &cpu);
			hwloc_name(r, e, cpu);
		}
	return st;
}

/* --- the PCI tree --- */

/* On the way down: the node to hang devices on, and the bridges passed since the host bridge. */
struct place {
	int node, bridges;
	uint32_t root;
};

static bool leads_to_wanted(const struct hwloc_read *r, const struct xml_elem *top)
{
	for (const struct xml_elem *e = top; e; e = walk(e, top))
		if (hwloc_is(e, "PCIDev") && hwloc_wanted(r, e))
			return true;
	return false;
}

/* "0000:[ae-c7]" */
static uint32_t root_of(const struct xml_elem *e)
{
	const char *text = xml_attr(e, "bridge_pci");
	unsigned domain, bus;

	if (!text || sscanf(text, "%6x:[%2x", &domain, &bus) != 2)
		return 0;
	return domain * 256 + bus + 1;
}

/* The host bridge and the root port below it are no nodes; then come by turns the upper port of a switch, which stands
 * for the switch, and its lower ports. */
static enum taut_status enter_bridge(struct hwloc_read *r, const struct xml_elem *e, struct place *p)
{
	const char *type = xml_attr(e, "bridge_type");
	int node;

	if (type && !strcmp(type, "0-1")) {
		p->bridges = 0;
		p->root = root_of(e);
		return TAUT_OK;
	}
	if (++p->bridges % 2 || !leads_to_wanted(r, e))
		return TAUT_OK;
	node = topo_add_node(r->t, TOPO_PCI, p->node);
	if (node < 0)
		return status_last();
	p->node = node;
	r->t->nodes[node].pci.root = p->root;
	return hwloc_fill_pci(r, &r->t->nodes[node].pci, e);
}

/* Recursion ends at the depth that xml_parse() allows. */
static enum taut_status visit(struct hwloc_read *r, const struct xml_elem *e, struct place p)
{
	enum taut_status st = TAUT_OK;
	bool io = is_io(e);

	if (hwloc_is(e, "PCIDev"))
		st = hwloc_add_device(r, e, p.node, p.root);
	else if (hwloc_is(e, "Bridge"))
		st = enter_bridge(r, e, &p);
	for (const struct xml_elem *c = e->child; c && !st; c = c->next) {
		struct place below = p;

		if (strcmp(c->name, "object") != 0)
			continue;
		if (!io && is_io(c)) {
			below = (struct place){ .node = -1 };
			st = cpu_near(r, e, leads_to_wanted(r, c) || hwloc_osdev(r, c) == OSDEV_NET, &below.node);
		}
		if (!st && hwloc_is(c, "OSDev") && !hwloc_is(e, "PCIDev"))
			st = hwloc_add_interface(r, c, below.node);
		else if (!st)
			st = visit(r, c, below);
	}
	return st;
}

/* --- the whole --- */

static enum taut_status check_root(struct hwloc_read *r)
{
	const struct xml_elem *root = xml_root(r->doc);
	const char *version = xml_attr(root, "version");
	long major = version ? strtol(version, NULL, 10) : 1;

	if (strcmp(root->name, "topology") != 0)
		return xml_bad(r->doc, root, "<topology> is wanted: this is no file of hwloc");
	if (version && (major < 1 || major > 3))
		return xml_bad(r->doc, root, "version %.16s of hwloc's form: 1, 2 and 3 are known", version);
	r->bits = major == 3;
	return TAUT_OK;
}

/* By its model; cards for PCI slots are sold without. */
static bool may_have_links(const struct topo_node *n)
{
	const struct gpu_model *m = gpu_model_in(n->name);

	return m && m->links > 0 && !strcasestr(n->name, "pcie");
}

static int by_name(const void *pa, const void *pb)
{
	const struct topo_node *a = *(const struct topo_node *const *)pa, *b = *(const struct topo_node *const *)pb;
	int order = strverscmp(a->name, b->name);

	if (!a->net.port != !b->net.port) /* verbs ports first, as nvidia-smi and NCCL number them */
		return a->net.port ? -1 : 1;
	return order ? order : a->net.port - b->net.port;
}

static enum taut_status number_ports(struct topo *t)
{
	struct topo_node **nets = mem_calloc((size_t)t->nnodes, sizeof(struct topo_node *));
	size_t n = 0;

	if (!nets)
		return fail(TAUT_ERR_NOMEM, "no memory to number the ports of %s", t->source);
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_NET)
			nets[n++] = &t->nodes[i];
	qsort(nets, n, sizeof(*nets), by_name);
	for (size_t i = 0; i < n; i++)
		nets[i]->net.dev = (int)i;
	mem_free(nets);
	return TAUT_OK;
}

static void say_what_is_missing(struct hwloc_read *r)
{
	int unlinked = 0, unknown = 0, gpus = 0, nets = 0;

	for (int i = 0; i < r->t->nnodes; i++) {
		const struct topo_node *n = &r->t->nodes[i];

		nets += n->kind == TOPO_NET;
		if (n->kind != TOPO_GPU)
			continue;
		gpus++;
		unknown += !n->gpu.sm && !*n->gpu.gcn;
		unlinked += !n->gpu.nvlinks && may_have_links(n);
	}
	if (unlinked && gpus > 1)
		topo_note(r->t,
			  "NVLinks (XGMI) of %d GPUs are not in the file: hwloc saves them when it can ask NVML "
			  "(ROCm SMI)",
			  unlinked);
	if (unknown)
		topo_note(r->t, "the model of %d GPUs is not known", unknown);
	if (r->idle)
		topo_note(r->t,
			  "the PCI links of %d GPUs slept when the file was saved: they count as generation 3 with 16 "
			  "lanes",
			  r->idle);
	if (r->functions)
		topo_note(r->t, "%d network functions are left out: virtual ones, or without an interface",
			  r->functions);
	if (nets)
		topo_note(r->t, "the speeds of ports are not in the file of hwloc: they count as 10 Gbit/s");
}

static enum taut_status read_doc(struct hwloc_read *r)
{
	enum taut_status st = check_root(r);

	if (st)
		return st;
	r->named = mem_calloc((size_t)xml_count(r->doc), sizeof(*r->named));
	r->cpu_node = mem_calloc(TOPO_MAX_NUMA, sizeof(*r->cpu_node));
	if (!r->named || !r->cpu_node)
		return fail(TAUT_ERR_NOMEM, "no memory to read a topology of hwloc");
	st = add_numas(r);
	if (!st)
		st = name_packages(r);
	if (!st)
		st = visit(r, xml_root(r->doc), (struct place){ .node = r->cpu_node[0] });
	if (!st)
		st = hwloc_add_links(r);
	if (!st)
		st = number_ports(r->t);
	if (st)
		return st;
	say_what_is_missing(r);
	return topo_finish(r->t);
}

enum taut_status topo_from_hwloc_xml(struct topo **out, const char *name, const char *text, size_t len)
{
	struct hwloc_read r = { .nvs = -1 };
	struct xml_doc *doc = NULL;
	enum taut_status st = xml_parse(&doc, name, text, len);

	if (st)
		return st;
	r.doc = doc;
	st = topo_create(&r.t, name);
	if (!st)
		st = read_doc(&r);
	mem_free(r.named);
	mem_free(r.cpu_node);
	xml_free(doc);
	if (st)
		topo_free(r.t);
	else
		*out = r.t;
	return st;
}
