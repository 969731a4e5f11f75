/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define NODES "/sys/devices/system/node"
#define CPUS "/sys/devices/system/cpu"

/* --- sets of processors --- */

static void set_range(uint32_t *words, unsigned long from, unsigned long to)
{
	for (unsigned long i = from; i <= to && i < TOPO_MASK_WORDS * 32; i++)
		words[i / 32] |= UINT32_C(1) << (i % 32);
}

/* "0-3,8" */
static void parse_list(uint32_t *words, const char *text)
{
	memset(words, 0, TOPO_MASK_WORDS * sizeof(*words));
	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long from = strtoul(text, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		set_range(words, from, to);
		text = end + (*end == ',');
	}
}

static bool read_list(struct scan *s, uint32_t *words, const char *path)
{
	char text[512];

	if (!fs_line(s->fs, text, sizeof(text), "%s", path))
		return false;
	parse_list(words, text);
	return true;
}

static int used_words(const uint32_t *words)
{
	int n = TOPO_MASK_WORDS;

	while (n && !words[n - 1])
		n--;
	return n;
}

/* --- the model --- */

struct model {
	char arch[16], vendor[32], name[64];
	int family, number;
};

/* The value of "key : value"; false: another line. */
static bool value_of(const char *line, const char *key, char *out, size_t len)
{
	size_t n = strlen(key);

	if (strncmp(line, key, n) != 0)
		return false;
	line += n + strspn(line + n, " \t");
	if (*line != ':')
		return false;
	line++;
	line += strspn(line, " \t");
	snprintf(out, len, "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

static bool cpuinfo(const char *text, const char *key, char *out, size_t len)
{
	*out = '\0';
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (value_of(line, key, out, len))
			return *out != '\0';
	return false;
}

static void arm_model(struct model *m, const char *text, const char *implementer)
{
	static const struct {
		unsigned long number;
		const char *name;
	} makers[] = {
		{ 0x41, "ARM" }, { 0x46, "Fujitsu" }, { 0x4e, "NVIDIA" }, { 0xc0, "Ampere" }, { 0x48, "HiSilicon" }
	};
	unsigned long number = strtoul(implementer, NULL, 16);
	char part[32];

	snprintf(m->arch, sizeof(m->arch), "arm64");
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		if (makers[i].number == number)
			snprintf(m->vendor, sizeof(m->vendor), "%s", makers[i].name);
	if (cpuinfo(text, "CPU part", part, sizeof(part)))
		m->number = (int)(strtoul(part, NULL, 16) & 0xffff);
}

static void x86_model(struct model *m, const char *text)
{
	char number[32];

	snprintf(m->arch, sizeof(m->arch), "x86_64");
	if (cpuinfo(text, "cpu family", number, sizeof(number)))
		m->family = (int)(strtoul(number, NULL, 10) & 0xffff);
	if (cpuinfo(text, "model", number, sizeof(number)))
		m->number = (int)(strtoul(number, NULL, 10) & 0xffff);
	cpuinfo(text, "model name", m->name, sizeof(m->name));
}

static void power_model(struct model *m, const char *cpu)
{
	snprintf(m->arch, sizeof(m->arch), "ppc64");
	snprintf(m->vendor, sizeof(m->vendor), "IBM");
	snprintf(m->name, sizeof(m->name), "%.*s", (int)strcspn(cpu, " ,("), cpu);
}

static void find_model(struct scan *s, struct model *m)
{
	char *text = fs_read(s->fs, NULL, "/proc/cpuinfo"), word[64];
	const char *flags, *guest;

	*m = (struct model){ .family = -1, .number = -1 };
	if (!text) {
		topo_note(s->t, "processor model: not known, /proc/cpuinfo cannot be read");
		return;
	}
	if (cpuinfo(text, "vendor_id", m->vendor, sizeof(m->vendor)))
		x86_model(m, text);
	else if (cpuinfo(text, "CPU implementer", word, sizeof(word)))
		arm_model(m, text, word);
	else if (cpuinfo(text, "cpu", word, sizeof(word)))
		power_model(m, word);
	else
		topo_note(s->t, "processor model: not known, /proc/cpuinfo names none");
	flags = strstr(text, "\nflags");
	guest = flags ? strstr(flags, " hypervisor") : NULL;
	s->is_guest = guest && guest < flags + 1 + strcspn(flags + 1, "\n");
	mem_free(text);
}

/* --- nodes --- */

/* "Node 0 MemTotal:  7038752 kB" */
static uint64_t read_memory(struct scan *s, const char *path)
{
	char *text = fs_read(s->fs, NULL, path);
	const char *at = text ? strstr(text, "MemTotal:") : NULL;
	unsigned long long kb = at ? strtoull(at + strlen("MemTotal:"), NULL, 10) : 0;

	mem_free(text);
	return kb < UINT64_MAX / 1024 ? kb * 1024 : 0;
}

/* @mask NULL: not known. */
static int add_cpu(struct scan *s, int numa, const uint32_t *mask, const struct model *m, uint64_t memory)
{
	int node = topo_add_node(s->t, TOPO_CPU, -1);
	struct topo_cpu *cpu;

	if (node < 0)
		return -1;
	cpu = &s->t->nodes[node].cpu;
	cpu->numa = numa;
	cpu->memory = memory;
	if (mask) {
		cpu->nmask = used_words(mask);
		memcpy(cpu->affinity, mask, sizeof(cpu->affinity));
	}
	snprintf(cpu->arch, sizeof(cpu->arch), "%s", m->arch);
	snprintf(cpu->vendor, sizeof(cpu->vendor), "%s", m->vendor);
	snprintf(s->t->nodes[node].name, sizeof(s->t->nodes[node].name), "%s", m->name);
	cpu->family = m->family;
	cpu->model = m->number;
	return node;
}

/* Nodes without processors (memory of GPUs, CXL) are no place where a rank could run. */
static enum taut_status add_numa(struct scan *s, const char *name, const struct model *m)
{
	char path[FS_PATH], text[1024];
	uint32_t mask[TOPO_MASK_WORDS] = { 0 };
	uint64_t memory;

	if (!fs_line(s->fs, text, sizeof(text), NODES "/%s/cpumap", name))
		return TAUT_OK;
	if (topo_parse_mask(mask, TOPO_MASK_WORDS, text) < 0) {
		topo_note(s->t, "NUMA %s: a set of processors that cannot be read: %.80s", name + 4, text);
		return TAUT_OK;
	}
	if (!used_words(mask))
		return TAUT_OK;
	snprintf(path, sizeof(path), NODES "/%s/meminfo", name);
	memory = read_memory(s, path);
	return add_cpu(s, atoi(name + 4), mask, m, memory) < 0 ? status_last() : TAUT_OK;
}

static bool is_node(const char *name)
{
	return !strncmp(name, "node", 4) && name[4] && strspn(name + 4, "0123456789") == strlen(name + 4) &&
	       strlen(name) < 10;
}

static enum taut_status add_numas(struct scan *s, const struct model *m)
{
	struct fs_names names;
	enum taut_status st = TAUT_OK;

	fs_list(s->fs, &names, NODES);
	for (int i = 0; i < names.n && !st && !sysfs_full(s); i++)
		if (is_node(names.name[i]))
			st = add_numa(s, names.name[i], m);
	fs_names_free(&names);
	return st;
}

/* Where the kernel shows no NUMA nodes. */
static enum taut_status add_only_cpu(struct scan *s, const struct model *m)
{
	uint32_t mask[TOPO_MASK_WORDS] = { 0 };
	bool known = read_list(s, mask, CPUS "/online");
	uint64_t memory = read_memory(s, "/proc/meminfo");

	topo_note(s->t, "NUMA nodes: not known, " NODES " shows none; one is assumed");
	if (!known)
		topo_note(s->t, "processors: not known, " CPUS "/online cannot be read");
	return add_cpu(s, -1, known ? mask : NULL, m, memory) < 0 ? status_last() : TAUT_OK;
}

static void note_offline(struct scan *s)
{
	uint32_t present[TOPO_MASK_WORDS], online[TOPO_MASK_WORDS], any = 0;
	char list[128];

	if (!read_list(s, present, CPUS "/present") || !read_list(s, online, CPUS "/online"))
		return;
	for (int i = 0; i < TOPO_MASK_WORDS; i++) {
		present[i] &= ~online[i];
		any |= present[i];
	}
	if (any)
		topo_note(s->t, "processors %s are offline",
			  topo_mask_list(present, TOPO_MASK_WORDS, list, sizeof(list)));
}

enum taut_status sysfs_cpus(struct scan *s)
{
	struct model m;
	enum taut_status st;

	find_model(s, &m);
	st = add_numas(s, &m);
	if (!st && !s->t->nnodes)
		st = add_only_cpu(s, &m);
	note_offline(s);
	return st;
}

/* --- the node of a device --- */

/* The nearest folder from the device upwards that says it; -1: none does. */
static int numa_of(struct scan *s, const char *path)
{
	char at[FS_PATH], *slash = at;
	int numa = -1;

	snprintf(at, sizeof(at), "%s", path);
	while (numa < 0 && slash && *at && strcmp(at, "/sys/devices") != 0) {
		numa = (int)fs_number(s->fs, -1, "%s/numa_node", at);
		slash = strrchr(at, '/');
		if (slash)
			*slash = '\0';
	}
	return numa;
}

static int find_numa(const struct topo *t, int numa)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU && t->nodes[i].cpu.numa == numa)
			return i;
	return -1;
}

/* The only node whose processors are those that are said to be near; -1: none or several. */
static int find_local(struct scan *s, const char *path)
{
	uint32_t mask[TOPO_MASK_WORDS] = { 0 };
	char text[1024];
	int found = -1;

	if (!fs_line(s->fs, text, sizeof(text), "%s/local_cpus", path) ||
	    topo_parse_mask(mask, TOPO_MASK_WORDS, text) < 0)
		return -1;
	for (int i = 0; i < s->t->nnodes; i++) {
		const struct topo_node *n = &s->t->nodes[i];
		uint32_t common = 0;

		for (int w = 0; n->kind == TOPO_CPU && w < TOPO_MASK_WORDS; w++)
			common |= n->cpu.affinity[w] & mask[w];
		if (common && found >= 0)
			return -1;
		if (common)
			found = i;
	}
	return found;
}

static int only_cpu(const struct topo *t)
{
	int found = -1;

	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU && found >= 0)
			return -1;
		else if (t->nodes[i].kind == TOPO_CPU)
			found = i;
	return found;
}

/* Processors of one machine are of one model. */
static struct model same_model(const struct topo *t)
{
	struct model m = { .family = -1, .number = -1 };

	for (int i = 0; i < t->nnodes && !*m.arch; i++)
		if (t->nodes[i].kind == TOPO_CPU) {
			memcpy(m.arch, t->nodes[i].cpu.arch, sizeof(m.arch));
			memcpy(m.vendor, t->nodes[i].cpu.vendor, sizeof(m.vendor));
			memcpy(m.name, t->nodes[i].name, sizeof(m.name));
			m.family = t->nodes[i].cpu.family;
			m.number = t->nodes[i].cpu.model;
		}
	return m;
}

int sysfs_cpu_of(struct scan *s, const char *path)
{
	const struct model model = same_model(s->t);
	int numa = *path ? numa_of(s, path) : -1, cpu = only_cpu(s->t);

	if (cpu < 0 && numa >= 0)
		cpu = find_numa(s->t, numa);
	else if (cpu >= 0 && numa >= 0 && s->t->nodes[cpu].cpu.numa >= 0 && s->t->nodes[cpu].cpu.numa != numa)
		cpu = -1;
	if (cpu < 0 && numa < 0 && *path)
		cpu = find_local(s, path);
	if (cpu < 0)
		cpu = find_numa(s->t, numa);
	if (cpu >= 0)
		return cpu;
	if (numa < 0)
		topo_note(s->t, "NUMA node of %s: not known, numa_node is -1 and there are several",
			  *path ? strrchr(path, '/') + 1 : "a device");
	return add_cpu(s, numa, NULL, &model, 0);
}
