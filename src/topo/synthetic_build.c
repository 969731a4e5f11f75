/* SPDX-License-Identifier: Apache-2.0 */
/* From what the synthetic form says to a graph. Devices are spread evenly, in blocks: of 8 GPUs in 2 NUMA nodes the
 * first four are at the first. */
#include "topo/synthetic.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct build {
	struct topo *t;
	const struct synth *s;
	int *cpu, *bridge; /* of the present machine: NUMA nodes; PCI switches */
	int *below;	   /* devices below each switch */
	int *gpu;	   /* of all machines */
	int machine, roots, ngpus, nics;
};

/* --- NVLinks --- */

/* Each of the n-1 rounds of a tournament pairs every GPU once: links left over go to the first rounds. */
static int full_links(int n, int links, int i, int j)
{
	int each = links / (n - 1), over = links % (n - 1), apart = j - i < n - (j - i) ? j - i : n - (j - i);

	if (n % 2) /* no rounds: to the neighbours, two links at a time */
		return each + (apart <= over / 2);
	return each + ((j == n - 1 ? 2 * i : i + j) % (n - 1) < over);
}

static int ring_links(int n, int links, int i, int j)
{
	if (n == 2)
		return links;
	if (j != i + 1 && !(i == 0 && j == n - 1))
		return 0;
	return links / 2 + (links % 2 && n % 2 == 0 && j == i + 1 && i % 2 == 0);
}

/* The mesh of 8 GPUs that DGX-1 has: with 4 links one to each of four others, with 6 two of the four are double. */
static int cube_links(int links, int i, int j)
{
	static const char mesh[8][9] = { ".1122...", "1.21.2..", "12.2..1.", "212....1",
					 "2....112", ".2..1.21", "..1.12.2", "...1212." };
	char c = mesh[i][j];

	if (c == '.')
		return 0;
	return links % 6 ? links / 4 : (c - '0') * (links / 6);
}

int synth_mesh_links(enum synth_mesh mesh, int n, int links, int i, int j)
{
	int lo = i < j ? i : j, hi = i < j ? j : i;

	if (lo == hi)
		return 0;
	switch (mesh) {
	case MESH_RING:
		return ring_links(n, links, lo, hi);
	case MESH_CUBE:
		return cube_links(links, lo, hi);
	case MESH_PAIRS:
		return lo % 2 == 0 && hi == lo + 1 ? links : 0;
	default:
		return full_links(n, links, lo, hi);
	}
}

static enum topo_link_kind link_kind(const struct synth *s)
{
	return s->model && *s->model->gcn ? LINK_XGMI : LINK_NVLINK;
}

static enum taut_status link_mesh(struct build *b)
{
	int n = b->ngpus, links = (int)b->s->links, spare = 0;
	enum synth_mesh mesh = b->s->mesh < 0 ? MESH_FULL : (enum synth_mesh)b->s->mesh;
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < n && !st; i++) {
		int used = 0;

		for (int j = 0; j < n && !st; j++) {
			int count = synth_mesh_links(mesh, n, links, i, j);

			used += count;
			if (j > i && count)
				st = topo_add_link(b->t, b->gpu[i], b->gpu[j], link_kind(b->s), count, 0);
		}
		spare = links - used > spare ? links - used : spare;
	}
	if (spare)
		topo_note(b->t, "%d of the %d NVLinks of a GPU lead nowhere: they cannot be spread evenly", spare,
			  links);
	return st;
}

static enum taut_status link_switches(struct build *b)
{
	int nvs = topo_add_node(b->t, TOPO_NVS, -1);
	enum taut_status st = nvs < 0 ? status_last() : TAUT_OK;

	if (!st)
		b->t->nodes[nvs].switches = (int)b->s->nvswitches;
	for (int i = 0; i < b->ngpus && !st; i++)
		st = topo_add_link(b->t, b->gpu[i], nvs, link_kind(b->s), (int)b->s->links, 0);
	return st;
}

/* --- PCI --- */

/* Bus ids are made up: a domain for each host bridge; its device is on bus 1, what is below a switch on buses from 2.
 */
static void place(struct build *b, int node, int domain, int bus)
{
	struct topo_pci *pci = &b->t->nodes[node].pci;

	snprintf(pci->busid, sizeof(pci->busid), "%04x:%02x:%02x.0", (unsigned)domain, 1 + (unsigned)bus % 254,
		 (unsigned)bus / 254);
	pci->root = (uint32_t)domain * 256 + 1;
	pci->gts = b->s->gts;
	pci->width = b->s->width;
}

static bool add_switches(struct build *b)
{
	for (int i = 0; i < b->s->switches; i++) {
		int parent = b->cpu[i * b->s->numa / b->s->switches];
		int node = topo_add_node(b->t, TOPO_PCI, parent);

		if (node < 0)
			return false;
		b->bridge[i] = node;
		b->below[i] = 0;
		b->t->nodes[node].pci.class = 0x060400;
		place(b, node, b->roots++, 0);
	}
	return true;
}

/* Number @i of @n devices: below its switch, or alone at a host bridge of its NUMA node. */
static int add_device(struct build *b, enum topo_kind kind, int i, int n)
{
	int place_of = (int)((long)i * (b->s->switches ? b->s->switches : b->s->numa) / n);
	int parent = b->s->switches ? b->bridge[place_of] : b->cpu[place_of];
	int node = topo_add_node(b->t, kind, parent);

	if (node < 0)
		return -1;
	if (b->s->switches)
		place(b, node, (int)(b->t->nodes[parent].pci.root / 256), ++b->below[place_of]);
	else
		place(b, node, b->roots++, 0);
	return node;
}

static bool add_gpus(struct build *b)
{
	const struct gpu_model *m = b->s->model;

	for (int i = 0; i < b->s->gpus; i++) {
		int node = add_device(b, TOPO_GPU, i, (int)b->s->gpus);
		struct topo_node *n;

		if (node < 0)
			return false;
		b->gpu[b->ngpus++] = node;
		n = &b->t->nodes[node];
		n->pci.class = 0x030200;
		n->gpu.dev = i;
		n->gpu.listed = true;
		n->gpu.nvlinks = (int)b->s->links;
		n->gpu.sm = b->s->sm ? (int)b->s->sm : m ? m->sm : 0;
		if (!m)
			continue;
		n->pci.vendor = *m->gcn ? 0x1002 : 0x10de;
		snprintf(n->name, sizeof(n->name), "%s", m->name);
		snprintf(n->gpu.gcn, sizeof(n->gpu.gcn), "%s", m->gcn);
		n->gpu.memory = (uint64_t)m->memory_gb * 1000000000;
	}
	return true;
}

static void name_port(char *out, size_t len, int layer, int dev)
{
	const char *form = synth_layers[layer].name, *at = strstr(form, "%d");

	snprintf(out, len, "%.*s%d%s", (int)(at - form), form, dev, at + 2);
}

static bool add_nics(struct build *b, const struct synth_nics *kind)
{
	for (int i = 0; i < kind->n; i++) {
		int nic = add_device(b, TOPO_NIC, i, (int)kind->n);
		int net = nic < 0 ? -1 : topo_add_node(b->t, TOPO_NET, nic);
		struct topo_node *n;

		if (net < 0)
			return false;
		b->t->nodes[nic].pci.class = 0x020000;
		n = &b->t->nodes[net];
		n->net.dev = b->nics++;
		n->net.port = 1;
		n->net.listed = true;
		n->net.speed_mbit = kind->speed_mbit;
		n->net.rail = b->s->rails ? (int)(i % b->s->rails) : -1;
		snprintf(n->net.layer, sizeof(n->net.layer), "%s", synth_layers[kind->layer].layer);
		snprintf(n->net.state, sizeof(n->net.state), "up");
		name_port(n->name, sizeof(n->name), kind->layer, n->net.dev);
	}
	return true;
}

/* --- machines --- */

static void set_cpu(struct build *b, struct topo_cpu *c, int numa)
{
	/* Family and model: Sapphire Rapids, Genoa; they decide what NCCL takes the socket link for. */
	static const struct {
		const char *arch, *vendor;
		int family, model;
	} known[CPUS] = { [CPU_INTEL] = { "x86_64", "GenuineIntel", 6, 143 },
			  [CPU_AMD] = { "x86_64", "AuthenticAMD", 25, 17 },
			  [CPU_POWER] = { "ppc64", "", -1, -1 },
			  [CPU_ARM] = { "arm64", "", -1, -1 } };
	long cores = b->s->cores;

	c->numa = numa;
	c->memory = b->s->memory / (uint64_t)b->s->numa;
	c->host_hash = b->s->machines > 1 ? (uint64_t)b->machine + 1 : 0;
	for (long i = numa * cores / b->s->numa; i < (numa + 1) * cores / b->s->numa; i++) {
		c->affinity[i / 32] |= 1u << (i % 32);
		c->nmask = (int)(i / 32) + 1;
	}
	if (b->s->cpu < 0)
		return;
	snprintf(c->arch, sizeof(c->arch), "%s", known[b->s->cpu].arch);
	snprintf(c->vendor, sizeof(c->vendor), "%s", known[b->s->cpu].vendor);
	c->family = known[b->s->cpu].family;
	c->model = known[b->s->cpu].model;
}

static bool add_machine(struct build *b)
{
	b->roots = 0;
	b->nics = 0;
	for (int i = 0; i < b->s->numa; i++) {
		b->cpu[i] = topo_add_node(b->t, TOPO_CPU, -1);
		if (b->cpu[i] < 0)
			return false;
		b->t->nodes[b->cpu[i]].machine = b->machine;
		set_cpu(b, &b->t->nodes[b->cpu[i]].cpu, i);
	}
	if (!add_switches(b) || !add_gpus(b))
		return false;
	for (int i = 0; i < b->s->nnics; i++)
		if (!add_nics(b, &b->s->nics[i]))
			return false;
	return true;
}

static void say_what_is_missing(struct build *b)
{
	const struct synth *s = b->s;

	if (s->links && !s->sm && !s->model)
		topo_note(b->t, "the model of the GPUs is not said: their NVLinks count as those of an A100 (sm:90, or "
				"gpu:8xh100, says it)");
	if (!s->width && (s->nnics || s->switches || s->gpus))
		topo_note(
			b->t,
			"the PCI links are not said: they count as generation 3 with 16 lanes (pcie:gen5x16 says it)");
	if (s->cpu < 0 && s->numa > 1)
		topo_note(b->t, "the processors are not said: the link between NUMA nodes counts as that of an unknown "
				"one (cpu:intel says it)");
	for (int i = 0; i < s->nnics; i++)
		if (s->nics[i].n && !s->nics[i].speed_mbit)
			topo_note(b->t, "the speed of ports is not said: it counts as 10 Gbit/s (nic:8x400G says it)");
}

static enum taut_status build(struct build *b)
{
	const struct synth *s = b->s;
	enum taut_status st;

	b->cpu = mem_calloc((size_t)s->numa, sizeof(*b->cpu));
	b->bridge = mem_calloc((size_t)s->switches + 1, sizeof(*b->bridge));
	b->below = mem_calloc((size_t)s->switches + 1, sizeof(*b->below));
	b->gpu = mem_calloc((size_t)(s->gpus * s->machines) + 1, sizeof(*b->gpu));
	if (!b->cpu || !b->bridge || !b->below || !b->gpu)
		return fail(TAUT_ERR_NOMEM, "no memory for a synthetic machine of %ld GPUs", s->gpus);
	for (b->machine = 0; b->machine < s->machines; b->machine++)
		if (!add_machine(b))
			return status_last();
	st = s->nvswitches ? link_switches(b) : s->links && s->gpus ? link_mesh(b) : TAUT_OK;
	if (st)
		return st;
	say_what_is_missing(b);
	return topo_finish(b->t);
}

enum taut_status synth_build(struct topo **out, const char *name, const struct synth *s)
{
	struct build b = { .s = s };
	enum taut_status st = topo_create(&b.t, name);

	if (st)
		return st;
	b.t->times = (int)s->nodes;
	st = build(&b);
	mem_free(b.cpu);
	mem_free(b.bridge);
	mem_free(b.below);
	mem_free(b.gpu);
	if (st)
		topo_free(b.t);
	else
		*out = b.t;
	return st;
}

enum taut_status topo_from_text(struct topo **out, const char *name, const char *text, size_t len)
{
	struct synth s;
	enum taut_status st = synth_parse(&s, name, text, len);

	return st ? st : synth_build(out, name, &s);
}
