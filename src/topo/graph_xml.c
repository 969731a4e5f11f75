/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's graph XML: what NCCL wrote, or what somebody wrote to tell NCCL its channels. */
#include "topo/channels.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/channels_create.h"
#include "topo/xml.h"

struct reader {
	const struct topo *t;
	struct xml_doc *doc;
	struct channels *c;
	bool *seen; /* of each place in c->gpus: in the channel being read */
};

static const double SPEED_MAX = 1e6; /* GB/s; more is a mistake */

static enum taut_status read_int(const struct xml_doc *doc, const struct xml_elem *e, const char *key, long lo, long hi,
				 long *out)
{
	const char *text = xml_attr(e, key);

	if (!text || !*text)
		return xml_bad(doc, e, "attribute %s is missing", key);
	return xml_int(doc, e, key, lo, hi, out);
}

/* Digits with a point, as "%g" writes them for what a link can do; no program's locale. */
static bool parse_speed(const char *text, double *out)
{
	double scale = 1, value = 0;
	bool point = false, digits = false;

	for (; *text; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			return false;
		digits = true;
		value = value * 10 + (*text - '0');
		scale = point ? scale * 10 : scale;
		if (value > 1e15)
			return false;
	}
	*out = value / scale;
	return digits && *out <= SPEED_MAX;
}

static enum taut_status read_speed(const struct reader *r, const struct xml_elem *e, const char *key, double *out)
{
	const char *text = xml_attr(e, key);

	if (!text)
		return xml_bad(r->doc, e, "attribute %s is missing", key);
	if (!parse_speed(text, out))
		return xml_bad(r->doc, e,
			       "%s is \"%.32s\": GB/s from 0 to 1000000 were expected, like \"20\" or \"1.5\"", key,
			       text);
	return TAUT_OK;
}

static enum taut_status read_class(const struct reader *r, const struct xml_elem *e, const char *key,
				   enum path_class *out)
{
	const char *text = xml_attr(e, key);

	if (!text)
		return xml_bad(r->doc, e, "attribute %s is missing", key);
	for (int k = 0; k < PATH_CLASSES; k++)
		if (!strcmp(text, path_class_names[k])) {
			*out = (enum path_class)k;
			return TAUT_OK;
		}
	return xml_bad(r->doc, e,
		       "%s is \"%.16s\": LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET or DIS was "
		       "expected",
		       key, text);
}

/* The GPU or port that <gpu> or <net> names by its dev, with the machine's number in the upper byte; -1: none. */
static int find_dev(const struct topo *t, enum topo_kind kind, long dev)
{
	for (int i = 0; i < t->count[kind]; i++) {
		const struct topo_node *n = &t->nodes[t->of[kind][i]];
		long has = kind == TOPO_GPU ? n->gpu.dev : n->net.dev;

		if (((long)n->machine << 56) + has == dev)
			return t->of[kind][i];
	}
	return -1;
}

static enum taut_status read_dev(const struct reader *r, const struct xml_elem *e, enum topo_kind kind, int *node)
{
	long dev;
	enum taut_status st = read_int(r->doc, e, "dev", 0, INT64_MAX, &dev);

	if (st)
		return st;
	*node = find_dev(r->t, kind, dev);
	if (*node < 0)
		return xml_bad(r->doc, e, "dev is %#lx: %.64s has %d such and none with this number", dev, r->t->source,
			       r->t->count[kind]);
	return TAUT_OK;
}

static int place_of(const struct channels *c, int gpu)
{
	int place = 0;

	while (place < c->ngpus && c->gpus[place] != gpu)
		place++;
	return place;
}

static enum taut_status read_gpu(struct reader *r, const struct xml_elem *e, struct channel *ch, int *ngpus)
{
	int node;
	enum taut_status st = read_dev(r, e, TOPO_GPU, &node);

	if (st)
		return st;
	if (ch->net_out >= 0)
		return xml_bad(r->doc, e, "a gpu after the second net: gpus stand between the nets");
	if (r->seen[place_of(r->c, node)])
		return xml_bad(r->doc, e, "this gpu is in the channel already");
	r->seen[place_of(r->c, node)] = true;
	ch->gpus[(*ngpus)++] = node;
	return TAUT_OK;
}

/* A net before the first GPU is where the channel comes in, the other one where it leaves. */
static enum taut_status read_net(struct reader *r, const struct xml_elem *e, struct channel *ch, int ngpus)
{
	int *net = ngpus ? &ch->net_out : &ch->net_in;

	if (*net >= 0)
		return xml_bad(r->doc, e, "a channel has one net before its gpus and one after them");
	return read_dev(r, e, TOPO_NET, net);
}

/* Of NVLS only the GPU that leads is written; the others follow in their order. */
static void add_followers(struct reader *r, struct channel *ch, int *ngpus)
{
	for (int i = 0; i < r->c->ngpus; i++)
		if (!r->seen[i])
			ch->gpus[(*ngpus)++] = r->c->gpus[i];
}

static enum taut_status read_channel(struct reader *r, const struct xml_elem *e, struct channel *ch)
{
	enum taut_status st = TAUT_OK;
	int ngpus = 0;

	memset(r->seen, 0, (size_t)r->c->ngpus * sizeof(*r->seen));
	for (const struct xml_elem *k = e->child; k && !st; k = k->next) {
		if (!strcmp(k->name, "gpu"))
			st = read_gpu(r, k, ch, &ngpus);
		else if (!strcmp(k->name, "net"))
			st = read_net(r, k, ch, ngpus);
		else
			st = xml_bad(r->doc, k, "in a channel only gpu and net were expected");
	}
	if (!st && r->c->pattern == PATTERN_NVLS && ngpus == 1)
		add_followers(r, ch, &ngpus);
	if (!st && ngpus != r->c->ngpus)
		return xml_bad(r->doc, e, "the channel has %d gpus, %.64s has %d", ngpus, r->t->source, r->c->ngpus);
	if (!st && (ch->net_in < 0) != (ch->net_out < 0))
		return xml_bad(r->doc, e,
			       "the channel has one net: one before the gpus and one after them, or none, "
			       "were expected");
	return st;
}

static enum taut_status read_channels(struct reader *r, const struct xml_elem *e, long nchannels)
{
	struct channels *c = r->c;
	enum taut_status st = TAUT_OK;

	for (const struct xml_elem *k = e->child; k && !st; k = k->next) {
		if (strcmp(k->name, "channel") != 0)
			return xml_bad(r->doc, k, "in a graph only channel was expected");
		if (c->n == nchannels)
			return xml_bad(r->doc, k, "the graph says %ld channels and has more", nchannels);
		st = read_channel(r, k, &c->ch[c->n++]);
	}
	if (!st && c->n != nchannels)
		return xml_bad(r->doc, e, "the graph says %ld channels and has %d", nchannels, c->n);
	for (int i = 0; i < c->n; i++) {
		c->ch[i].bw_gbps = c->ch[i].net_in >= 0 && c->bw_inter < c->bw_intra ? c->bw_inter : c->bw_intra;
		c->total_gbps += c->ch[i].bw_gbps;
	}
	return st;
}

static enum taut_status read_graph(struct reader *r, const struct xml_elem *e)
{
	long cross = 0, nchannels = 0, same = 0;
	enum taut_status st = read_int(r->doc, e, "crossnic", 0, 2, &cross);

	if (!st)
		st = read_int(r->doc, e, "nchannels", 0, CHANNELS_MAX, &nchannels);
	if (!st)
		st = read_int(r->doc, e, "samechannels", 0, 1, &same);
	if (!st)
		st = read_speed(r, e, "speedintra", &r->c->bw_intra);
	if (!st)
		st = read_speed(r, e, "speedinter", &r->c->bw_inter);
	if (!st)
		st = read_class(r, e, "typeintra", &r->c->type_intra);
	if (!st)
		st = read_class(r, e, "typeinter", &r->c->type_inter);
	if (st)
		return st;
	r->c->cross_nic = (int)cross;
	r->c->same_channels = same;
	return read_channels(r, e, nchannels);
}

/* The graph of @pattern with the smallest id, as the tree's comes before that of reductions in the network. */
static enum taut_status find_graph(const struct xml_doc *doc, enum channel_pattern pattern, const struct xml_elem **out)
{
	const struct xml_elem *root = xml_root(doc);
	long best = 0;

	*out = NULL;
	if (strcmp(root->name, "graphs") != 0)
		return xml_bad(doc, root, "<graphs> was expected");
	for (const struct xml_elem *e = root->child; e; e = e->next) {
		long has = 0, id = 0;
		enum taut_status st;

		if (strcmp(e->name, "graph") != 0)
			return xml_bad(doc, e, "<graph> was expected");
		st = read_int(doc, e, "pattern", PATTERN_BALANCED_TREE, PATTERN_COLLNET, &has);
		if (!st)
			st = read_int(doc, e, "id", 0, 64, &id);
		if (st)
			return st;
		if (has != (long)pattern || (*out && id >= best))
			continue;
		*out = e;
		best = id;
	}
	return *out ? TAUT_OK : xml_bad(doc, root, "there is no graph of pattern %d", (int)pattern);
}

enum taut_status channels_from_xml(struct channels **out, const struct topo *t, enum channel_pattern pattern,
				   const char *name, const char *text, size_t len)
{
	struct reader r = { .t = t };
	const struct xml_elem *e;
	enum taut_status st;

	if (!t->count[TOPO_GPU])
		return fail(TAUT_ERR_ARG, "%s does not fit %s, which has no GPU", name, t->source);
	st = xml_parse(&r.doc, name, text, len);
	if (st)
		return st;
	st = find_graph(r.doc, pattern, &e);
	if (st)
		goto err_doc;
	st = channels_create(&r.c, pattern, t->count[TOPO_GPU], t->of[TOPO_GPU]);
	if (st)
		goto err_doc;
	r.seen = mem_calloc((size_t)r.c->ngpus, sizeof(*r.seen));
	if (!r.seen) {
		st = fail(TAUT_ERR_NOMEM, "%s: no memory for %d gpus", name, r.c->ngpus);
		goto err_channels;
	}
	st = read_graph(&r, e);
	if (st)
		goto err_seen;
	*out = r.c;
	r.c = NULL;
err_seen:
	mem_free(r.seen);
err_channels:
	channels_free(r.c);
err_doc:
	xml_free(r.doc);
	return st;
}
