/* SPDX-License-Identifier: Apache-2.0 */
/* The links between GPUs from hwloc's matrices "NVLinkBandwidth" and "XGMIBandwidth" (MB/s): <distances2> with
 * numbers of objects, <distances2hetero> with "OSDev:332 PCIDev:449 Package:3". */
#include "topo/hwloc_xml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* More objects than any machine names here. */
enum { LINKS_MAX_OBJS = 160 };

struct matrix {
	const struct xml_elem *e;
	long n;
	int *node;	 /* [n]; -1: nothing that has links */
	bool *nvswitch;	 /* [n] */
	uint64_t *value; /* [n * n] */
};

/* --- reading --- */

/* The numbers of all <@child> one after the other, each perhaps after "Type:". */
static enum taut_status read_numbers(const struct hwloc_read *r, const struct matrix *m, const char *child,
				     uint64_t *out, size_t want)
{
	size_t n = 0;

	for (const struct xml_elem *c = m->e->child; c; c = c->next) {
		const char *at = strcmp(c->name, child) ? NULL : c->text;

		while (at && *(at += strspn(at, " \t\r\n"))) {
			const char *colon = at + strcspn(at, ": \t\r\n");
			char *end;

			at = *colon == ':' ? colon + 1 : at;
			errno = 0;
			if (n < want)
				out[n] = strtoull(at, &end, 10);
			if (n == want || end == at || *at == '-' || errno || (*end && !strchr(" \t\r\n", *end)))
				return xml_bad(r->doc, c, "\"%.20s\" is number %zu: %zu whole numbers are wanted", at,
					       n + 1, want);
			at = end;
			n++;
		}
	}
	if (n != want)
		return xml_bad(r->doc, m->e, "%zu numbers in <%s>: %zu are wanted", n, child, want);
	return TAUT_OK;
}

static const struct hwloc_named *find_named(const struct hwloc_read *r, uint64_t gp_index)
{
	for (int i = 0; i < r->nnamed; i++)
		if ((uint64_t)r->named[i].gp_index == gp_index)
			return &r->named[i];
	return NULL;
}

static enum taut_status read_matrix(struct hwloc_read *r, struct matrix *m)
{
	enum taut_status st = read_numbers(r, m, "indexes", m->value, (size_t)m->n);
	int unknown = 0;

	if (st)
		return st;
	for (long i = 0; i < m->n; i++) {
		const struct hwloc_named *named = find_named(r, m->value[i]);

		m->node[i] = named ? named->node : -1;
		m->nvswitch[i] = named && named->node < 0;
		unknown += !named;
	}
	if (unknown)
		topo_note(r->t, "%s: %d of %ld objects are no GPUs of this file: their links are left out",
			  xml_attr(m->e, "name"), unknown, m->n);
	return read_numbers(r, m, "u64values", m->value, (size_t)(m->n * m->n));
}

/* --- links --- */

/* MB/s that hwloc reckons with for one link, by the GPU's generation. */
static uint64_t link_speed(int sm)
{
	if (sm >= 100)
		return 50000;
	return sm >= 60 && sm < 70 ? 20000 : 25000;
}

static int end_of(struct hwloc_read *r, const struct matrix *m, long i)
{
	if (!m->nvswitch[i])
		return m->node[i];
	if (r->nvs < 0) {
		r->nvs = topo_add_node(r->t, TOPO_NVS, -1);
		if (r->nvs >= 0)
			r->t->nodes[r->nvs].switches = r->nvswitches;
	}
	return r->nvs;
}

/* Whether links may join the two: a GPU is one of them. */
static bool may_link(const struct hwloc_read *r, const struct matrix *m, long i, long j)
{
	bool gpu_i = m->node[i] >= 0 && r->t->nodes[m->node[i]].kind == TOPO_GPU;
	bool gpu_j = m->node[j] >= 0 && r->t->nodes[m->node[j]].kind == TOPO_GPU;

	return (gpu_i && (m->node[j] >= 0 || m->nvswitch[j])) || (gpu_j && (m->node[i] >= 0 || m->nvswitch[i]));
}

static enum taut_status add_link(struct hwloc_read *r, const struct matrix *m, long i, long j, uint64_t mbps, bool xgmi)
{
	int a = end_of(r, m, i), b = end_of(r, m, j), gpu, sm;
	uint64_t each, count;

	if (a < 0 || b < 0)
		return status_last();
	if (a == b)
		return TAUT_OK; /* two views of one GPU */
	gpu = r->t->nodes[a].kind == TOPO_GPU ? a : b;
	sm = r->t->nodes[gpu].gpu.sm;
	each = link_speed(sm);
	count = xgmi ? 1 : (mbps + each / 2) / each;
	if (count < 1 || count > 64) {
		topo_note(r->t, "%s: %llu MB/s between two objects is no number of NVLinks of %llu MB/s: left out",
			  xml_attr(m->e, "name"), (unsigned long long)mbps, (unsigned long long)each);
		return TAUT_OK;
	}
	if (r->t->nodes[a].kind == TOPO_GPU)
		r->t->nodes[a].gpu.nvlinks += (int)count;
	if (r->t->nodes[b].kind == TOPO_GPU)
		r->t->nodes[b].gpu.nvlinks += (int)count;
	return topo_add_link(r->t, a, b, xgmi ? LINK_XGMI : LINK_NVLINK, (int)count, 0);
}

static enum taut_status link_all(struct hwloc_read *r, const struct matrix *m, bool xgmi)
{
	enum taut_status st = TAUT_OK;

	for (long i = 0; i < m->n && !st; i++)
		for (long j = i + 1; j < m->n && !st; j++) {
			uint64_t there = m->value[i * m->n + j], back = m->value[j * m->n + i];

			if ((there || back) && may_link(r, m, i, j))
				st = add_link(r, m, i, j, there > back ? there : back, xgmi);
		}
	if (xgmi)
		topo_note(r->t,
			  "XGMI links between two GPUs count as one: the file gives their speed, not their number");
	return st;
}

static enum taut_status add_matrix(struct hwloc_read *r, const struct xml_elem *e, bool xgmi)
{
	struct matrix m = { .e = e };
	enum taut_status st = xml_int(r->doc, e, "nbobjs", 1, LINKS_MAX_OBJS, &m.n);

	if (!st && !m.n)
		st = xml_bad(r->doc, e, "nbobjs is missing");
	if (st)
		return st;
	m.node = mem_calloc((size_t)m.n, sizeof(*m.node));
	m.nvswitch = mem_calloc((size_t)m.n, sizeof(*m.nvswitch));
	m.value = mem_calloc((size_t)(m.n * m.n), sizeof(*m.value));
	if (!m.node || !m.nvswitch || !m.value)
		st = fail(TAUT_ERR_NOMEM, "no memory for distances between %ld objects", m.n);
	if (!st)
		st = read_matrix(r, &m);
	if (!st)
		st = link_all(r, &m, xgmi);
	mem_free(m.node);
	mem_free(m.nvswitch);
	mem_free(m.value);
	return st;
}

enum taut_status hwloc_add_links(struct hwloc_read *r)
{
	static const char *const names[] = { "NVLinkBandwidth", "XGMIBandwidth" };
	bool seen[2] = { false, false };
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *e = xml_root(r->doc)->child; e && !st; e = e->next) {
		const char *name = !strncmp(e->name, "distances2", 10) ? xml_attr(e, "name") : NULL;

		for (int i = 0; i < 2 && name && !st; i++) {
			if (strcmp(name, names[i]) || seen[i])
				continue;
			seen[i] = true;
			st = add_matrix(r, e, i == 1);
		}
	}
	return st;
}
