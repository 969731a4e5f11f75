/* SPDX-License-Identifier: Apache-2.0 */
/* The channels that the search finds, and how near they come to what the links allow. */
#include "topo_show.h"

#include <string.h>

#include "base/mem.h"

static struct channels_req request(const struct topo_view *v, enum channel_pattern pattern)
{
	return (struct channels_req){ .pattern = pattern, .nnodes = v->nodes, .cross_nic = 2, .pxn = true };
}

static enum taut_status find(struct channels **out, const struct topo_view *v, enum channel_pattern pattern)
{
	struct channels_req req = request(v, pattern);

	return channels_find(out, v->t, v->p, &req);
}

static const char *pattern_word(enum channel_pattern pattern)
{
	return pattern == PATTERN_RING ? "ring" : "tree";
}

static void print_total(FILE *out, const struct topo_view *v, const struct channels *c)
{
	char total[32], intra[32], inter[32];

	fprintf(out, "%s: %d channel%s, together %s GB/s%s; each %s GB/s inside the node (%s)",
		pattern_word(c->pattern), c->n, c->n == 1 ? "" : "s", topo_number(c->total_gbps, total, sizeof(total)),
		c->pattern == PATTERN_RING ? "" : " up and down", topo_number(c->bw_intra, intra, sizeof(intra)),
		path_class_names[c->type_intra]);
	if (v->nodes > 1)
		fprintf(out, ", %s GB/s between %d nodes (%s)", topo_number(c->bw_inter, inter, sizeof(inter)),
			v->nodes, path_class_names[c->type_inter]);
	fprintf(out, "\n");
}

static bool same_channel(const struct channels *c, int i, int j)
{
	const struct channel *a = &c->ch[i], *b = &c->ch[j];

	return a->net_in == b->net_in && a->net_out == b->net_out && a->bw_gbps == b->bw_gbps &&
	       !memcmp(a->gpus, b->gpus, (size_t)c->ngpus * sizeof(*a->gpus));
}

/* One line for the channels from @i to before @end, which are the same. */
static void print_channel(FILE *out, const struct topo *t, const struct channels *c, int i, int end)
{
	const struct channel *ch = &c->ch[i];
	char id[128], bw[32], which[24];

	snprintf(which, sizeof(which), end > i + 1 ? "%d-%d" : "%d", i, end - 1);
	fprintf(out, "  %-5s  %s GB/s%s  ", which, topo_number(ch->bw_gbps, bw, sizeof(bw)),
		end > i + 1 ? " each" : "");
	if (ch->net_in >= 0)
		fprintf(out, "%s > ", topo_id(t, ch->net_in, id, sizeof(id)));
	for (int g = 0; g < c->ngpus; g++)
		fprintf(out, "%s%s", g ? " > " : "", topo_id(t, ch->gpus[g], id, sizeof(id)));
	if (ch->net_out >= 0)
		fprintf(out, " > %s", topo_id(t, ch->net_out, id, sizeof(id)));
	fprintf(out, "\n");
}

enum taut_status topo_print_channels(FILE *out, const struct topo_view *v, enum channel_pattern pattern)
{
	struct channels *c;
	enum taut_status st = find(&c, v, pattern);

	if (st)
		return st;
	print_total(out, v, c);
	for (int i = 0, end; i < c->n; i = end) {
		for (end = i + 1; end < c->n && same_channel(c, i, end); end++)
			;
		print_channel(out, v->t, c, i, end);
	}
	channels_free(c);
	return TAUT_OK;
}

enum taut_status topo_print_bound(FILE *out, const struct topo_view *v)
{
	struct channels_req req = request(v, PATTERN_RING);
	char why[256] = "", total[32], most[32];
	struct channels *c;
	enum taut_status st = channels_find(&c, v->t, v->p, &req);
	double bound;

	if (st)
		return st;
	bound = channels_bound(v->t, v->p, &req, why, sizeof(why));
	fprintf(out, "ring: %d channel%s, together %s GB/s; the links allow at most %s GB/s", c->n,
		c->n == 1 ? "" : "s", topo_number(c->total_gbps, total, sizeof(total)),
		topo_number(bound, most, sizeof(most)));
	if (bound > 0)
		fprintf(out, " (%.1f %% of that)", 100 * c->total_gbps / bound);
	fprintf(out, "\nlimit: %s\n", *why ? why : "not known");
	channels_free(c);
	return TAUT_OK;
}

/* In NCCL's order. What the machine cannot do has no channels and is left out. */
enum taut_status topo_print_graph_xml(FILE *out, const struct topo_view *v)
{
	static const enum channel_pattern patterns[] = { PATTERN_RING, PATTERN_BALANCED_TREE, PATTERN_COLLNET,
							 PATTERN_NVLS };
	struct channels *found[4] = { NULL };
	const struct channels *graphs[4];
	enum taut_status st = TAUT_OK;
	char *text = NULL;
	int n = 0;

	for (int i = 0; i < 4 && !st; i++) {
		st = find(&found[i], v, patterns[i]);
		if (!st && found[i]->n)
			graphs[n++] = found[i];
	}
	if (!st)
		st = channels_to_xml(&text, v->t, graphs, n);
	if (!st)
		fputs(text, out);
	mem_free(text);
	for (int i = 0; i < 4; i++)
		channels_free(found[i]);
	return st;
}
