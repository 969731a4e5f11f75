/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of NVML as text:
 *
 *	driver 580.159.04
 *	gpu 0000:00:06.0
 *	name NVIDIA H200
 *	sm 90
 *	memory 150754820096
 *	pcie 5 16 5 16			generation and lanes now, and at best
 *	fabric 3 0 0 1			state, status, clique, number of the domain
 *	c2c 10 45000			links, MB/s of one
 *	mig 0
 *	link 0 gpu 4 0000:00:07.0	number, end, version, what is at the end
 *	link 1 down
 *	read 0 11			of GPU 0, for each GPU: enum topo_p2p
 *	nvlink 0 01
 */
#include "topo/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

static const char *const end_names[NVML_ENDS] = { "none", "gpu", "cpu", "switch", "unknown" };

/* --- writing --- */

/* The place of the GPU's domain among those before it, from 1. */
static int domain_number(const struct nvml_facts *f, int gpu)
{
	int number = 1;

	if (!f->gpus[gpu].fabric_hash)
		return 0;
	for (int i = 0; i < gpu; i++) {
		bool first = f->gpus[i].fabric_hash != 0;

		if (f->gpus[i].fabric_hash == f->gpus[gpu].fabric_hash)
			return number;
		for (int j = 0; j < i && first; j++)
			first = f->gpus[j].fabric_hash != f->gpus[i].fabric_hash;
		number += first;
	}
	return number;
}

static void write_links(FILE *o, const struct gpu_facts *g)
{
	for (int i = 0; i < NVML_LINKS; i++) {
		const struct nvml_link *l = &g->links[i];

		if (l->state == 1)
			fprintf(o, "link %d down\n", i);
		else if (l->state == 2)
			fprintf(o, "link %d %s %d%s%s\n", i, end_names[l->end], l->version, *l->busid ? " " : "",
				l->busid);
	}
}

static void write_gpu(FILE *o, const struct nvml_facts *f, int gpu)
{
	const struct gpu_facts *g = &f->gpus[gpu];

	fprintf(o, "gpu %s\n", *g->busid ? g->busid : "-");
	if (*g->name)
		fprintf(o, "name %s\n", g->name);
	if (g->sm)
		fprintf(o, "sm %d\n", g->sm);
	if (g->memory)
		fprintf(o, "memory %llu\n", (unsigned long long)g->memory);
	if (g->pcie_gen || g->pcie_width || g->pcie_max_gen || g->pcie_max_width)
		fprintf(o, "pcie %d %d %d %d\n", g->pcie_gen, g->pcie_width, g->pcie_max_gen, g->pcie_max_width);
	if (g->fabric_state >= 0)
		fprintf(o, "fabric %d %d %d %d\n", g->fabric_state, g->fabric_status, g->clique, domain_number(f, gpu));
	if (g->c2c_links)
		fprintf(o, "c2c %d %d\n", g->c2c_links, g->c2c_mbps);
	if (g->mig >= 0)
		fprintf(o, "mig %d\n", g->mig);
	write_links(o, g);
}

static void write_matrix(FILE *o, const char *key, const uint8_t *m, int n)
{
	for (int i = 0; i < n; i++) {
		fprintf(o, "%s %d ", key, i);
		for (int j = 0; j < n; j++)
			fputc('0' + m[i * n + j], o);
		fputc('\n', o);
	}
}

enum taut_status nvml_write_text(char **out, const struct nvml_facts *f)
{
	char *text = NULL;
	size_t len;
	FILE *o = open_memstream(&text, &len);

	if (!o)
		return fail(TAUT_ERR_NOMEM, "NVML: facts as text");
	if (*f->driver)
		fprintf(o, "driver %s\n", f->driver);
	for (int i = 0; i < f->ngpus; i++)
		write_gpu(o, f, i);
	write_matrix(o, "read", f->read, f->ngpus);
	write_matrix(o, "nvlink", f->nvlink, f->ngpus);
	if (fclose(o) || !text)
		goto err_free;
	*out = text;
	return TAUT_OK;
err_free:
	mem_free(text);
	return fail(TAUT_ERR_NOMEM, "NVML: facts as text");
}

/* --- reading --- */

/* Takes a number of 0 (or -1) to @max off the text; false when there is none. */
static bool take(const char **text, long long max, long long *out)
{
	char *end;

	*out = strtoll(*text, &end, 10);
	if (end == *text || *out < -1 || *out > max || (*end && *end != ' '))
		return false;
	*text = end + strspn(end, " ");
	return true;
}

static bool take_int(const char **text, int max, int *out)
{
	long long v;

	if (!take(text, max, &v))
		return false;
	*out = (int)v;
	return true;
}

static bool read_link(struct gpu_facts *g, const char *text)
{
	int number, version;
	size_t word;

	if (!take_int(&text, NVML_LINKS - 1, &number) || number < 0)
		return false;
	if (!strcmp(text, "down")) {
		g->links[number] = (struct nvml_link){ .state = 1 };
		return true;
	}
	word = strcspn(text, " ");
	for (int end = NVML_END_GPU; end < NVML_ENDS; end++) {
		const char *rest = text + word + strspn(text + word, " ");
		struct nvml_link *l = &g->links[number];

		if (strlen(end_names[end]) != word || strncmp(end_names[end], text, word) != 0)
			continue;
		if (!take_int(&rest, 255, &version) || version < 0)
			return false;
		*l = (struct nvml_link){ .state = 2, .end = (uint8_t)end, .version = (uint8_t)version };
		return !*rest || topo_busid_normal(l->busid, sizeof(l->busid), rest);
	}
	return false;
}

static bool read_pcie(struct gpu_facts *g, const char *text)
{
	return take_int(&text, 1000, &g->pcie_gen) && take_int(&text, 1000, &g->pcie_width) &&
	       take_int(&text, 1000, &g->pcie_max_gen) && take_int(&text, 1000, &g->pcie_max_width) && !*text;
}

static bool read_fabric(struct gpu_facts *g, const char *text)
{
	int domain;

	if (!take_int(&text, 15, &g->fabric_state) || !take_int(&text, 1000, &g->fabric_status) ||
	    !take_int(&text, 0x7fffffff, &g->clique) || !take_int(&text, NVML_GPUS, &domain) || *text)
		return false;
	g->fabric_hash = domain > 0 ? (uint64_t)domain : 0;
	return true;
}

static bool read_memory(struct gpu_facts *g, const char *text)
{
	long long bytes;

	if (!take(&text, INT64_MAX, &bytes) || bytes < 0 || *text)
		return false;
	g->memory = (uint64_t)bytes;
	return true;
}

static bool read_c2c(struct gpu_facts *g, const char *text)
{
	return take_int(&text, 10000, &g->c2c_links) && take_int(&text, 10000000, &g->c2c_mbps) && !*text;
}

static bool read_name(struct gpu_facts *g, const char *text)
{
	snprintf(g->name, sizeof(g->name), "%s", text);
	return true;
}

static bool read_sm(struct gpu_facts *g, const char *text)
{
	return take_int(&text, 9999, &g->sm) && g->sm >= 0 && !*text;
}

static bool read_mig(struct gpu_facts *g, const char *text)
{
	return take_int(&text, 1, &g->mig) && !*text;
}

static bool read_row(struct nvml_facts *f, uint8_t *m, const char *text)
{
	int row;

	if (!take_int(&text, f->ngpus - 1, &row) || row < 0 || strlen(text) != (size_t)f->ngpus ||
	    strspn(text, "0123456") != (size_t)f->ngpus)
		return false;
	for (int j = 0; j < f->ngpus; j++)
		m[row * f->ngpus + j] = (uint8_t)(text[j] - '0');
	return true;
}

static const struct {
	const char *key;
	bool (*read)(struct gpu_facts *g, const char *text);
} gpu_keys[] = {
	{ "name", read_name },	   { "sm", read_sm },	{ "memory", read_memory }, { "pcie", read_pcie },
	{ "fabric", read_fabric }, { "c2c", read_c2c }, { "mig", read_mig },	   { "link", read_link },
};

/* @gpu is the number of the GPU that the line is about, -1 before the first. */
static bool read_line(struct nvml_facts *f, const char *key, const char *text, int *gpu)
{
	if (!strcmp(key, "gpu")) {
		++*gpu;
		return !strcmp(text, "-") || topo_busid_normal(f->gpus[*gpu].busid, sizeof(f->gpus[*gpu].busid), text);
	}
	if (!strcmp(key, "driver")) {
		snprintf(f->driver, sizeof(f->driver), "%s", text);
		return true;
	}
	if (!strcmp(key, "read") || !strcmp(key, "nvlink"))
		return read_row(f, *key == 'r' ? f->read : f->nvlink, text);
	for (size_t i = 0; i < sizeof(gpu_keys) / sizeof(*gpu_keys) && *gpu >= 0; i++)
		if (!strcmp(gpu_keys[i].key, key))
			return gpu_keys[i].read(&f->gpus[*gpu], text);
	return false;
}

static int count_gpus(const char *text)
{
	int n = !strncmp(text, "gpu ", 4);

	for (const char *at = strstr(text, "\ngpu "); at; at = strstr(at + 1, "\ngpu "))
		n++;
	return n;
}

static enum taut_status read_lines(struct nvml_facts *f, const char *name, const char *text)
{
	int gpu = -1, number = 1;

	for (const char *at = text; *at; number++) {
		size_t len = strcspn(at, "\n");
		char line[256], *value;

		snprintf(line, sizeof(line), "%.*s", len < sizeof(line) ? (int)len : 255, at);
		line[strcspn(line, "\r")] = '\0';
		value = strchr(line, ' ');
		if (value)
			*value++ = '\0';
		if (*line && (!value || !read_line(f, line, value, &gpu)))
			return fail(TAUT_ERR_ARG, "%s: NVML's facts, line %d: \"%.*s\" says nothing that is known",
				    name, number, len < 80 ? (int)len : 80, at);
		at += len + (at[len] == '\n');
	}
	return TAUT_OK;
}

enum taut_status nvml_read_text(struct nvml_facts **out, const char *name, const char *text)
{
	int ngpus = count_gpus(text);
	struct nvml_facts *f;
	enum taut_status st;

	if (ngpus > NVML_GPUS)
		return fail(TAUT_ERR_ARG, "%s: NVML's facts of %d GPUs: %d at most", name, ngpus, NVML_GPUS);
	st = nvml_create(&f, ngpus);
	if (st)
		return st;
	st = read_lines(f, name, text);
	if (st)
		goto err_free;
	*out = f;
	return TAUT_OK;
err_free:
	nvml_free(f);
	return st;
}
