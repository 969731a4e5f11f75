/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's graph XML, letter by letter as NCCL 2.28 writes it. */
#include "topo/channels.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct writer {
	const struct topo *t;
	char *buf;
	size_t len, room;
};

/* A line with NCCL's indentation. The room was computed from what will be written. */
__attribute__((format(printf, 3, 4))) static void put(struct writer *w, int depth, const char *fmt, ...)
{
	va_list ap;

	w->len += (size_t)snprintf(w->buf + w->len, w->room - w->len, "%*s", 2 * depth, "");
	va_start(ap, fmt);
	w->len += (size_t)vsnprintf(w->buf + w->len, w->room - w->len, fmt, ap);
	va_end(ap);
	w->buf[w->len++] = '\n';
}

/* The graphs that NCCL makes have numbers: 0 ring, 1 tree, 2 a chain for the network's reductions, 3 NVLS, 4 direct
 * reductions in the network. The pattern TREE may be 1 or 2: where 1 is taken, it is 2. */
static int graph_id(enum channel_pattern pattern, bool tree_taken)
{
	switch (pattern) {
	case PATTERN_RING:
		return 0;
	case PATTERN_BALANCED_TREE:
	case PATTERN_SPLIT_TREE:
		return 1;
	case PATTERN_TREE:
		return tree_taken ? 2 : 1;
	case PATTERN_NVLS:
		return 3;
	case PATTERN_COLLNET:
		break;
	}
	return 4;
}

/* "%g" whatever the program's locale is; what is next to nothing is nothing, as it would have an exponent. */
static const char *number(char buf[32], double v)
{
	char *comma;

	snprintf(buf, 32, v < 1e6 ? "%g" : "%.0f", v < 1e-4 ? 0 : v);
	comma = strchr(buf, ',');
	if (comma)
		*comma = '.';
	return buf;
}

/* NCCL numbers the machines of one NVLink domain in the upper byte. */
static unsigned long dev_of(const struct topo_node *n)
{
	int dev = n->kind == TOPO_GPU ? n->gpu.dev : n->net.dev;

	return ((unsigned long)n->machine << 56) + (unsigned long)dev;
}

static void put_channel(struct writer *w, const struct channels *c, const struct channel *ch)
{
	/* of NVLS only the GPU that leads the channel */
	int gpus = c->pattern == PATTERN_NVLS ? 1 : c->ngpus;

	put(w, 2, "<channel>");
	if (ch->net_in >= 0)
		put(w, 3, "<net dev=\"%#lx\"/>", dev_of(&w->t->nodes[ch->net_in]));
	for (int i = 0; i < gpus; i++)
		put(w, 3, "<gpu dev=\"%#lx\"/>", dev_of(&w->t->nodes[ch->gpus[i]]));
	if (ch->net_out >= 0)
		put(w, 3, "<net dev=\"%#lx\"/>", dev_of(&w->t->nodes[ch->net_out]));
	put(w, 2, "</channel>");
}

static void put_graph(struct writer *w, const struct channels *c, int id)
{
	enum path_class intra = c->n ? c->type_intra : PATH_LOC, inter = c->n ? c->type_inter : PATH_LOC;
	char speed_intra[32], speed_inter[32];

	put(w, 1,
	    "<graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%d\" speedintra=\"%s\" speedinter=\"%s\" "
	    "latencyinter=\"0\" typeintra=\"%s\" typeinter=\"%s\" samechannels=\"%d\"%s",
	    id, (int)c->pattern, c->cross_nic, c->n, number(speed_intra, c->bw_intra), number(speed_inter, c->bw_inter),
	    path_class_names[intra], path_class_names[inter], c->n && c->same_channels, c->n ? ">" : "/>");
	for (int i = 0; i < c->n; i++)
		put_channel(w, c, &c->ch[i]);
	if (c->n)
		put(w, 1, "</graph>");
}

static size_t room_for(const struct channels *const *c, int n)
{
	enum { LINE = 64, GRAPH = 512 };
	size_t room = GRAPH;

	for (int i = 0; i < n; i++)
		room += GRAPH + (size_t)c[i]->n * (size_t)(c[i]->ngpus + 4) * LINE;
	return room;
}

enum taut_status channels_to_xml(char **out, const struct topo *t, const struct channels *const *c, int n)
{
	struct writer w = { .t = t, .room = room_for(c, n) };
	bool tree_taken = false;

	w.buf = mem_calloc(w.room, 1);
	if (!w.buf)
		return fail(TAUT_ERR_NOMEM, "channels as XML: no memory for %d graphs", n);
	put(&w, 0, "<graphs version=\"1\">");
	for (int i = 0; i < n; i++) {
		int id = graph_id(c[i]->pattern, tree_taken);

		tree_taken = tree_taken || id == 1;
		put_graph(&w, c[i], id);
	}
	put(&w, 0, "</graphs>");
	*out = w.buf;
	return TAUT_OK;
}
