/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/rocm_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"
#include "topo/text.h"

enum { ROCM_TEXT_MAX = 4 << 20, ROCM_MAX_GPUS = 128 };
enum table { TABLE_NONE, TABLE_TYPE, TABLE_HOPS, TABLE_NUMA };
enum cell { CELL_MISSING, CELL_NONE, CELL_PCIE, CELL_XGMI };

struct rocm {
	struct text text;
	enum table table;
	int n, columns;		    /* GPUs; of the present table */
	int gpu[ROCM_MAX_GPUS];	    /* numbers, as in the header */
	int numa[ROCM_MAX_GPUS];    /* -1: not said */
	bool row[ROCM_MAX_GPUS];    /* of the table of types: seen */
	unsigned char *type, *hops; /* [ROCM_MAX_GPUS * ROCM_MAX_GPUS]; enum cell; 0: not said */
};
struct word {
	const char *s;
	size_t n, at;
};

bool rocm_is_text(const char *text, size_t len)
{
	static const char *const signs[] = { "ROCm System Management Interface", "Link Type between two GPUs" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (memmem(text, len, signs[i], strlen(signs[i])))
			return true;
	return false;
}

/* --- words --- */

static bool next_word(struct word *out, const struct text *t, size_t *pos, size_t end)
{
	size_t i = *pos;

	while (i < end && isspace((unsigned char)t->s[i]))
		i++;
	*out = (struct word){ t->s + i, 0, i };
	while (i + out->n < end && !isspace((unsigned char)t->s[i + out->n]))
		out->n++;
	*pos = i + out->n;
	return out->n > 0;
}

static bool is(struct word w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.s, text, w.n);
}

/* At most 4 digits; -1: something else. */
static int number(const char *s, size_t n)
{
	int v = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]) || i == 4)
			return -1;
		v = v * 10 + s[i] - '0';
	}
	return n ? v : -1;
}

static int gpu_number(struct word w)
{
	return w.n > 3 && !memcmp(w.s, "GPU", 3) ? number(w.s + 3, w.n - 3) : -1;
}

static int find_gpu(const struct rocm *r, int gpu)
{
	for (int i = 0; i < r->n; i++)
		if (r->gpu[i] == gpu)
			return i;
	return -1;
}

/* --- lines --- */

static bool has(const struct text *t, size_t from, size_t end, const char *what)
{
	return memmem(t->s + from, end - from, what, strlen(what)) != NULL;
}

/* "===== Link Type between two GPUs =====" */
static bool take_title(struct rocm *r, size_t from, size_t end)
{
	const struct text *t = &r->text;

	if (!has(t, from, end, "====") && !has(t, from, end, "----"))
		return false;
	r->columns = 0;
	r->table = has(t, from, end, "Link Type between") ? TABLE_TYPE
		   : has(t, from, end, "Hops between")	  ? TABLE_HOPS
		   : has(t, from, end, "Numa Nodes")	  ? TABLE_NUMA
							  : TABLE_NONE;
	return true;
}

static enum taut_status take_header(struct rocm *r, size_t from, size_t end)
{
	bool first = r->n == 0;
	struct word w;

	while (next_word(&w, &r->text, &from, end)) {
		int gpu = gpu_number(w);
		char shown[32];

		text_shown(shown, sizeof(shown), w.s, w.n);
		if (gpu < 0 || (first && find_gpu(r, gpu) >= 0) ||
		    (!first && (r->columns >= r->n || r->gpu[r->columns] != gpu)))
			return text_fail(&r->text, w.at,
					 "\"%s\" in the header: GPU0 GPU1 ... are wanted, the same in all tables",
					 shown);
		if (r->columns == ROCM_MAX_GPUS)
			return text_fail(&r->text, w.at, "more than %d GPUs", ROCM_MAX_GPUS);
		r->gpu[r->columns++] = gpu;
		if (first)
			r->n = r->columns;
	}
	return TAUT_OK;
}

static enum taut_status take_cell(struct rocm *r, int row, int column, struct word w)
{
	unsigned char *type = &r->type[row * ROCM_MAX_GPUS + column], *hops = &r->hops[row * ROCM_MAX_GPUS + column];
	int v = number(w.s, w.n);
	char shown[32];

	if (r->table == TABLE_HOPS && (v >= 0 || is(w, "N/A"))) {
		*hops = v < 0 ? 0 : v > 255 ? 255 : (unsigned char)v;
		return TAUT_OK;
	}
	if (r->table == TABLE_TYPE && (row == column || is(w, "N/A") || is(w, "PCIE") || is(w, "XGMI"))) {
		*type = is(w, "XGMI") && row != column ? CELL_XGMI : is(w, "PCIE") ? CELL_PCIE : CELL_NONE;
		return TAUT_OK;
	}
	return text_fail(&r->text, w.at, "\"%s\" between GPU%d and GPU%d: %s is wanted",
			 text_shown(shown, sizeof(shown), w.s, w.n), r->gpu[row], r->gpu[column],
			 r->table == TABLE_TYPE ? "XGMI or PCIE" : "a number of hops");
}

static enum taut_status take_row(struct rocm *r, size_t from, size_t end)
{
	struct word w;
	int row, column = 0;
	enum taut_status st = TAUT_OK;

	next_word(&w, &r->text, &from, end);
	row = find_gpu(r, gpu_number(w));
	if (row < 0)
		return text_fail(&r->text, w.at, "a row of a GPU that the header lacks");
	if (r->table == TABLE_TYPE)
		r->row[row] = true;
	for (; !st && next_word(&w, &r->text, &from, end); column++)
		st = column < r->n ? take_cell(r, row, column, w)
				   : text_fail(&r->text, w.at, "more cells than the %d GPUs of the header", r->n);
	return st;
}

/* "GPU[0]          : (Topology) Numa Node: 0" */
static void take_numa(struct rocm *r, size_t from, size_t end)
{
	char line[128];
	int gpu, numa, i;

	snprintf(line, sizeof(line), "%.*s", (int)(end - from < sizeof(line) ? end - from : 0), r->text.s + from);
	if (sscanf(line, " GPU[%4d] : (Topology) Numa Node: %5d", &gpu, &numa) != 2)
		return;
	i = find_gpu(r, gpu);
	if (i >= 0 && numa >= 0 && numa < TOPO_MAX_NUMA)
		r->numa[i] = numa;
}

static enum taut_status take_line(struct rocm *r, size_t from, size_t end)
{
	struct word w;
	size_t pos = from;

	if (take_title(r, from, end))
		return TAUT_OK;
	if (r->table == TABLE_NUMA)
		take_numa(r, from, end);
	if ((r->table != TABLE_TYPE && r->table != TABLE_HOPS) || !next_word(&w, &r->text, &pos, end) ||
	    gpu_number(w) < 0)
		return TAUT_OK;
	return r->columns ? take_row(r, from, end) : take_header(r, from, end);
}

static enum taut_status take_text(struct rocm *r)
{
	enum taut_status st = TAUT_OK;
	bool any = false;

	for (size_t from = 0, end; from < r->text.len && !st; from = end + 1) {
		const char *newline = memchr(r->text.s + from, '\n', r->text.len - from);

		end = newline ? (size_t)(newline - r->text.s) : r->text.len;
		st = take_line(r, from, end);
	}
	for (int i = 0; i < r->n; i++)
		any = any || r->row[i];
	if (!st && !any)
		st = text_fail(
			&r->text, 0,
			"no table \"Link Type between two GPUs\": the output of `rocm-smi --showtopo` is wanted");
	return st;
}

/* --- the graph --- */

static int cpu_of(struct topo *t, int numa)
{
	int node;

	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU && t->nodes[i].cpu.numa == numa)
			return i;
	node = topo_add_node(t, TOPO_CPU, -1);
	if (node >= 0)
		t->nodes[node].cpu.numa = numa;
	return node;
}

static enum taut_status add_gpus(struct rocm *r, struct topo *t, int *node)
{
	int unknown = 0;

	for (int i = 0; i < r->n; i++) {
		int cpu = cpu_of(t, r->numa[i] < 0 ? 0 : r->numa[i]);
		struct topo_node *n;

		node[i] = cpu < 0 ? -1 : topo_add_node(t, TOPO_GPU, cpu);
		if (node[i] < 0)
			return status_last();
		n = &t->nodes[node[i]];
		n->gpu.dev = r->gpu[i];
		n->gpu.listed = true;
		n->pci.class = 0x038000;
		n->pci.vendor = 0x1002;
		n->pci.root = (0x1000 + (uint32_t)i) * 256 + 1;
		snprintf(n->pci.busid, sizeof(n->pci.busid), "%04x:00:00.0", 0x1000 + (unsigned)i);
		unknown += r->numa[i] < 0;
	}
	if (unknown)
		topo_note(t, "the NUMA nodes of %d GPUs are not in the text: they are taken to be at NUMA 0", unknown);
	return TAUT_OK;
}

static enum taut_status add_links(struct rocm *r, struct topo *t, const int *node)
{
	int far = 0, odd = 0;
	bool hops_known = false;
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < r->n && !st; i++)
		for (int j = i + 1; j < r->n && !st; j++) {
			int there = r->type[i * ROCM_MAX_GPUS + j], back = r->type[j * ROCM_MAX_GPUS + i];
			int hops = r->hops[i * ROCM_MAX_GPUS + j];

			odd += there && back && there != back;
			hops_known = hops_known || hops;
			if (there != CELL_XGMI && back != CELL_XGMI)
				continue;
			if (hops > 1) {
				far++;
				continue;
			}
			t->nodes[node[i]].gpu.nvlinks++;
			t->nodes[node[j]].gpu.nvlinks++;
			st = topo_add_link(t, node[i], node[j], LINK_XGMI, 1, 0);
		}
	if (odd)
		topo_note(t, "%d pairs of GPUs have two kinds of link in the text: XGMI is taken", odd);
	if (far)
		topo_note(t, "%d pairs of GPUs are several hops of XGMI apart: they have no link of their own", far);
	if (!hops_known)
		topo_note(t, "the text has no table of hops: every pair with XGMI is taken to have a link of its own");
	return st;
}

static enum taut_status make_graph(struct topo **out, struct rocm *r)
{
	int node[ROCM_MAX_GPUS];
	struct topo *t;
	enum taut_status st = topo_create(&t, r->text.name);

	if (st)
		return st;
	st = add_gpus(r, t, node);
	if (!st)
		st = add_links(r, t, node);
	topo_note(t, "bus ids are made up: the text of rocm-smi has none");
	topo_note(
		t,
		"the model of the GPUs, the number of XGMI links of a pair, PCI switches and network cards are not in "
		"the text of rocm-smi");
	if (!st)
		st = topo_finish(t);
	if (st)
		topo_free(t);
	else
		*out = t;
	return st;
}

enum taut_status rocm_read(struct topo **out, const char *name, const char *text, size_t len)
{
	const size_t cells = (size_t)ROCM_MAX_GPUS * ROCM_MAX_GPUS;
	struct rocm *r;
	enum taut_status st;

	if (len > ROCM_TEXT_MAX)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes: the output of rocm-smi has %d at most", name, len,
			    ROCM_TEXT_MAX);
	r = mem_calloc(1, sizeof(*r));
	if (!r)
		return fail(TAUT_ERR_NOMEM, "%s: no memory to read the text of rocm-smi", name);
	r->text = (struct text){ name, text, len };
	r->type = mem_calloc(2 * cells, 1);
	if (!r->type) {
		st = fail(TAUT_ERR_NOMEM, "%s: no memory to read the text of rocm-smi", name);
		goto err_reader;
	}
	r->hops = r->type + cells;
	for (int i = 0; i < ROCM_MAX_GPUS; i++)
		r->numa[i] = -1;
	st = take_text(r);
	if (!st)
		st = make_graph(out, r);
	mem_free(r->type);
err_reader:
	mem_free(r);
	return st;
}
