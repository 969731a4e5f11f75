/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers are base 128, least significant first, signed ones zigzag; texts have their
 * length before them. One table says what there is of a node, for both directions. */
#include "topo/pack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

static const char magic[] = "tauttopo\1"; /* ends with the version */
enum { MAGIC_LEN = sizeof(magic) - 1 };

/* --- what a node holds --- */

enum field_kind {
	NUMBER,	 /* int, from 0 */
	OR_NONE, /* int, -1 is "not known" */
	LONG,	 /* from 0 */
	BITS16,	 /* unsigned of that many bits */
	BITS32,
	BITS64,
	REAL,
	FLAG,
	TEXT
};

struct field {
	enum field_kind kind;
	size_t at, size;
};

#define FIELD(kind, member)                                                                                            \
	{                                                                                                              \
		kind, offsetof(struct topo_node, member), sizeof(((struct topo_node *)0)->member)                      \
	}

static const struct field all_fields[] = {
	FIELD(OR_NONE, parent),	      FIELD(NUMBER, machine),	    FIELD(TEXT, name),
	FIELD(TEXT, pci.busid),	      FIELD(BITS32, pci.class),	    FIELD(BITS16, pci.vendor),
	FIELD(BITS16, pci.device),    FIELD(BITS16, pci.subvendor), FIELD(BITS16, pci.subdevice),
	FIELD(REAL, pci.gts),	      FIELD(NUMBER, pci.width),	    FIELD(REAL, pci.max_gts),
	FIELD(NUMBER, pci.max_width), FIELD(OR_NONE, pci.acs),
};
static const struct field cpu_fields[] = {
	FIELD(OR_NONE, cpu.numa),  FIELD(TEXT, cpu.arch),     FIELD(TEXT, cpu.vendor),	    FIELD(OR_NONE, cpu.family),
	FIELD(OR_NONE, cpu.model), FIELD(BITS64, cpu.memory), FIELD(BITS64, cpu.host_hash),
};
static const struct field gpu_fields[] = {
	FIELD(OR_NONE, gpu.dev),	FIELD(OR_NONE, gpu.rank),   FIELD(NUMBER, gpu.sm),
	FIELD(OR_NONE, gpu.gdr),	FIELD(TEXT, gpu.gcn),	    FIELD(NUMBER, gpu.arch),
	FIELD(FLAG, gpu.listed),	FIELD(NUMBER, gpu.nvlinks), FIELD(NUMBER, gpu.nvlink_version),
	FIELD(BITS64, gpu.fabric_hash), FIELD(OR_NONE, gpu.clique), FIELD(BITS64, gpu.memory),
};
static const struct field net_fields[] = {
	FIELD(OR_NONE, net.dev), FIELD(LONG, net.speed_mbit), FIELD(NUMBER, net.port),	FIELD(REAL, net.latency_us),
	FIELD(BITS64, net.guid), FIELD(NUMBER, net.maxconn),  FIELD(OR_NONE, net.gdr),	FIELD(NUMBER, net.coll),
	FIELD(FLAG, net.listed), FIELD(FLAG, net.keep),	      FIELD(OR_NONE, net.rail), FIELD(OR_NONE, net.plane),
	FIELD(TEXT, net.layer),	 FIELD(TEXT, net.state),      FIELD(TEXT, net.driver),	FIELD(TEXT, net.firmware),
	FIELD(TEXT, net.rdma),	 FIELD(FLAG, net.is_virtual), FIELD(TEXT, net.gids),
};
static const struct field nvs_fields[] = { FIELD(NUMBER, switches) };

struct fields {
	const struct field *of;
	size_t n;
};

static struct fields fields_of(enum topo_kind kind)
{
	switch (kind) {
	case TOPO_CPU:
		return (struct fields){ cpu_fields, sizeof(cpu_fields) / sizeof(*cpu_fields) };
	case TOPO_GPU:
		return (struct fields){ gpu_fields, sizeof(gpu_fields) / sizeof(*gpu_fields) };
	case TOPO_NET:
		return (struct fields){ net_fields, sizeof(net_fields) / sizeof(*net_fields) };
	case TOPO_NVS:
		return (struct fields){ nvs_fields, sizeof(nvs_fields) / sizeof(*nvs_fields) };
	default:
		return (struct fields){ NULL, 0 };
	}
}

/* --- writing --- */

struct writer {
	uint8_t *buf;
	size_t len, cap;
	bool full; /* no memory; or more than TOPO_PACK_MAX */
};

static bool reserve(struct writer *w, size_t more)
{
	size_t cap = w->cap ? w->cap : 4096;
	uint8_t *buf;

	while (cap < w->len + more)
		cap *= 2;
	if (w->full || cap == w->cap)
		return !w->full;
	buf = cap <= 2 * TOPO_PACK_MAX ? mem_realloc(w->buf, cap, 1) : NULL;
	w->full = !buf;
	if (!buf)
		return false;
	w->buf = buf;
	w->cap = cap;
	return true;
}

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
	if (!reserve(w, len))
		return;
	if (len)
		memcpy(w->buf + w->len, bytes, len);
	w->len += len;
}

static void put_bits(struct writer *w, uint64_t v)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
		v >>= 7;
	} while (v);
	put_bytes(w, bytes, n);
}

static void put_number(struct writer *w, int64_t v)
{
	put_bits(w, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

static void put_real(struct writer *w, double v)
{
	uint8_t bytes[8];
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(bits >> 8 * i);
	put_bytes(w, bytes, sizeof(bytes));
}

/* Terminals see what the reader reads: no control characters. */
static bool is_control(uint8_t c)
{
	return c < 0x20 || c == 0x7f;
}

static void put_text(struct writer *w, const char *text, size_t size)
{
	size_t len = strnlen(text, size - 1);

	put_bits(w, len);
	for (size_t i = 0; i < len; i++)
		put_bytes(w, is_control((uint8_t)text[i]) ? "?" : text + i, 1);
}

static void put_field(struct writer *w, const struct field *f, const void *at)
{
	switch (f->kind) {
	case NUMBER:
	case OR_NONE:
		put_number(w, *(const int *)at);
		break;
	case LONG:
		put_number(w, *(const long *)at);
		break;
	case BITS16:
		put_bits(w, *(const uint16_t *)at);
		break;
	case BITS32:
		put_bits(w, *(const uint32_t *)at);
		break;
	case BITS64:
		put_bits(w, *(const uint64_t *)at);
		break;
	case REAL:
		put_real(w, *(const double *)at);
		break;
	case FLAG:
		put_bits(w, *(const bool *)at);
		break;
	case TEXT:
		put_text(w, at, f->size);
	}
}

static void put_fields(struct writer *w, const struct topo_node *n, struct fields fields)
{
	for (size_t i = 0; i < fields.n; i++)
		put_field(w, &fields.of[i], (const char *)n + fields.of[i].at);
}

static const struct fields common = { all_fields, sizeof(all_fields) / sizeof(*all_fields) };

static void put_node(struct writer *w, const struct topo_node *n)
{
	put_bits(w, (uint64_t)n->kind);
	put_fields(w, n, common);
	put_fields(w, n, fields_of(n->kind));
	if (n->kind != TOPO_CPU)
		return;
	put_number(w, n->cpu.nmask);
	for (int i = 0; i < n->cpu.nmask; i++)
		put_bits(w, n->cpu.affinity[i]);
}

static void put_link(struct writer *w, const struct topo_link *l)
{
	put_number(w, l->a);
	put_number(w, l->b);
	put_bits(w, (uint64_t)l->kind);
	put_number(w, l->count);
	put_real(w, l->bw_gbps);
}

static void put_all(struct writer *w, const struct topo *t)
{
	size_t pairs = (size_t)t->count[TOPO_GPU] * (size_t)t->count[TOPO_GPU];

	put_bytes(w, magic, MAGIC_LEN);
	put_text(w, t->source, sizeof(t->source));
	put_number(w, t->iommu);
	put_number(w, t->peermem);
	put_bits(w, t->vm);
	put_number(w, t->nnodes);
	for (int i = 0; i < t->nnodes; i++)
		put_node(w, &t->nodes[i]);
	put_number(w, t->nlinks);
	for (int i = 0; i < t->nlinks; i++)
		put_link(w, &t->links[i]);
	put_number(w, t->nnotes);
	for (int i = 0; i < t->nnotes; i++)
		put_text(w, t->notes[i].text, sizeof(t->notes[i].text));
	put_bits(w, t->p2p != NULL);
	if (t->p2p)
		put_bytes(w, t->p2p, pairs);
}

enum taut_status topo_pack(uint8_t **out, size_t *len, const struct topo *t)
{
	struct writer w = { 0 };

	put_all(&w, t);
	if (w.full || w.len > TOPO_PACK_MAX) {
		mem_free(w.buf);
		return fail(TAUT_ERR_NOMEM, "the graph of %s as bytes: no memory, or more than %d", t->source,
			    TOPO_PACK_MAX);
	}
	*out = w.buf;
	*len = w.len;
	return TAUT_OK;
}

/* --- reading: after the first thing that is wrong all is zero --- */

struct reader {
	const uint8_t *buf;
	size_t len, at;
	const char *wrong;
};

static void *spoil(struct reader *r, const char *why)
{
	if (!r->wrong)
		r->wrong = why;
	return NULL;
}

static const uint8_t *get_bytes(struct reader *r, uint64_t len)
{
	const uint8_t *bytes = r->buf + r->at;

	if (r->wrong || len > r->len - r->at)
		return spoil(r, "it ends too early");
	r->at += (size_t)len;
	return bytes;
}

static uint64_t get_bits(struct reader *r, uint64_t most)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		const uint8_t *b = get_bytes(r, 1);

		if (!b)
			return 0;
		if (shift == 63 && *b > 1)
			break;
		v |= (uint64_t)(*b & 127) << shift;
		if (*b < 128 && (*b || !shift) && v <= most) /* one way to write a number */
			return v;
		if (*b < 128)
			break;
	}
	spoil(r, "a number out of range");
	return 0;
}

static int64_t get_number(struct reader *r, int64_t least, int64_t most)
{
	uint64_t bits = get_bits(r, UINT64_MAX);
	int64_t v = (int64_t)(bits >> 1 ^ (bits & 1 ? UINT64_MAX : 0));

	if (!r->wrong && v >= least && v <= most)
		return v;
	spoil(r, "a number out of range");
	return 0;
}

static double get_real(struct reader *r)
{
	const uint8_t *b = get_bytes(r, 8);
	uint64_t bits = 0;
	double v;

	for (int i = 0; b && i < 8; i++)
		bits |= (uint64_t)b[i] << 8 * i;
	memcpy(&v, &bits, sizeof(v));
	if (isfinite(v) && !signbit(v))
		return v;
	spoil(r, "a figure below 0, or none");
	return 0;
}

static void get_text(struct reader *r, char *out, size_t size)
{
	uint64_t len = get_bits(r, size - 1);
	const uint8_t *bytes = get_bytes(r, len);

	for (size_t i = 0; bytes && i < len; i++) {
		if (is_control(bytes[i]))
			spoil(r, "a control character in a text");
		out[i] = (char)bytes[i];
	}
	out[bytes ? len : 0] = '\0';
}

static void get_field(struct reader *r, const struct field *f, void *at)
{
	switch (f->kind) {
	case NUMBER:
	case OR_NONE:
		*(int *)at = (int)get_number(r, f->kind == OR_NONE ? -1 : 0, INT32_MAX);
		break;
	case LONG:
		*(long *)at = (long)get_number(r, 0, INT32_MAX);
		break;
	case BITS16:
		*(uint16_t *)at = (uint16_t)get_bits(r, UINT16_MAX);
		break;
	case BITS32:
		*(uint32_t *)at = (uint32_t)get_bits(r, UINT32_MAX);
		break;
	case BITS64:
		*(uint64_t *)at = get_bits(r, UINT64_MAX);
		break;
	case REAL:
		*(double *)at = get_real(r);
		break;
	case FLAG:
		*(bool *)at = get_bits(r, 1);
		break;
	case TEXT:
		get_text(r, at, f->size);
	}
}

static void get_fields(struct reader *r, struct topo_node *n, struct fields fields)
{
	for (size_t i = 0; i < fields.n; i++)
		get_field(r, &fields.of[i], (char *)n + fields.of[i].at);
}

static enum taut_status get_node(struct reader *r, struct topo *t, int nnodes)
{
	enum topo_kind kind = (enum topo_kind)get_bits(r, TOPO_KINDS - 1);
	int at = r->wrong ? 0 : topo_add_node(t, kind, -1);
	struct topo_node *n;

	if (r->wrong)
		return TAUT_OK;
	if (at < 0)
		return TAUT_ERR_NOMEM;
	n = &t->nodes[at];
	get_fields(r, n, common);
	get_fields(r, n, fields_of(kind));
	if (n->parent >= nnodes)
		spoil(r, "a node below one that is not there");
	if (kind == TOPO_CPU)
		n->cpu.nmask = (int)get_number(r, 0, TOPO_MASK_WORDS);
	for (int i = 0; kind == TOPO_CPU && i < n->cpu.nmask; i++)
		n->cpu.affinity[i] = (uint32_t)get_bits(r, UINT32_MAX);
	return TAUT_OK;
}

static enum taut_status get_nodes(struct reader *r, struct topo *t)
{
	int n = (int)get_number(r, 0, TOPO_MAX_NODES);
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < n && !st && !r->wrong; i++)
		st = get_node(r, t, n);
	return st;
}

static enum taut_status get_links(struct reader *r, struct topo *t)
{
	int n = (int)get_number(r, 0, INT32_MAX);
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < n && !st && !r->wrong; i++) {
		int a = (int)get_number(r, 0, t->nnodes - 1), b = (int)get_number(r, 0, t->nnodes - 1);
		enum topo_link_kind kind = (enum topo_link_kind)get_bits(r, LINK_KINDS - 1);
		int count = (int)get_number(r, 0, INT32_MAX);
		double bw = get_real(r);

		if (!r->wrong && (a == b || topo_link_between(t, a, b, kind) >= 0))
			spoil(r, "a link of a node to itself, or twice");
		if (!r->wrong)
			st = topo_add_link(t, a, b, kind, count, bw);
	}
	return st;
}

static void get_notes(struct reader *r, struct topo *t)
{
	int n = (int)get_number(r, 0, TOPO_MAX_NOTES);

	for (int i = 0; i < n && !r->wrong; i++) {
		struct topo_note note;

		get_text(r, note.text, sizeof(note.text));
		if (!r->wrong)
			topo_note(t, "%s", note.text);
	}
}

static int count_gpus(const struct topo *t)
{
	int n = 0;

	for (int i = 0; i < t->nnodes; i++)
		n += t->nodes[i].kind == TOPO_GPU;
	return n;
}

static enum taut_status get_p2p(struct reader *r, struct topo *t)
{
	uint64_t gpus = (uint64_t)count_gpus(t);
	const uint8_t *pairs;

	if (!get_bits(r, 1))
		return TAUT_OK;
	pairs = get_bytes(r, gpus * gpus);
	for (uint64_t i = 0; pairs && i < gpus * gpus; i++)
		if (pairs[i] > P2P_NO)
			spoil(r, "no answer about two GPUs");
	if (r->wrong || !gpus)
		return TAUT_OK;
	t->p2p = mem_calloc((size_t)gpus, (size_t)gpus);
	if (!t->p2p)
		return fail(TAUT_ERR_NOMEM, "no memory for the pairs of %d GPUs", (int)gpus);
	memcpy(t->p2p, pairs, (size_t)(gpus * gpus));
	return TAUT_OK;
}

static enum taut_status get_all(struct reader *r, struct topo *t)
{
	const uint8_t *head = get_bytes(r, MAGIC_LEN);
	enum taut_status st;

	if (head && memcmp(head, magic, MAGIC_LEN))
		spoil(r, "no graph of this version");
	get_text(r, t->source, sizeof(t->source));
	t->iommu = (int)get_number(r, -1, 1);
	t->peermem = (int)get_number(r, -1, 1);
	t->vm = get_bits(r, 1);
	st = get_nodes(r, t);
	if (!st)
		st = get_links(r, t);
	get_notes(r, t);
	if (!st)
		st = get_p2p(r, t);
	if (r->at != r->len)
		spoil(r, "more bytes than the graph has");
	return st;
}

enum taut_status topo_unpack(struct topo **out, const char *name, const uint8_t *bytes, size_t len)
{
	struct reader r = { .buf = bytes, .len = len };
	struct topo *t;
	enum taut_status st;

	if (len > TOPO_PACK_MAX)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes are no graph: %d at most", name, len, TOPO_PACK_MAX);
	st = topo_create(&t, name);
	if (st)
		return st;
	st = get_all(&r, t);
	if (!st && r.wrong)
		st = fail(TAUT_ERR_ARG, "%s: no graph, at byte %zu of %zu: %s", name, r.at, len, r.wrong);
	if (!st)
		st = topo_finish(t);
	if (st) {
		topo_free(t);
		return st;
	}
	*out = t;
	return TAUT_OK;
}
