/* SPDX-License-Identifier: Apache-2.0 */
/* Counts anew, from the paths alone, so that it does not share the search's mistakes. */
#include "topo/channels.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { LINKS_MAX = 64 };

struct checker {
	const struct channels *c;
	const struct topo *t;
	const struct topo_paths *p;
	double *load; /* [2 * nlinks]: of each direction */
	char *buf;
	size_t len;
};

/* NULL, or what is wrong with the way. */
static const char *add_way(struct checker *k, int from, int to, double rate)
{
	const struct path *path = paths_get(k->p, from, to);
	int links[LINKS_MAX], n = 0, at = from;
	char a[64], b[64];

	if (path && path->class != PATH_DIS)
		n = paths_links(k->p, from, to, links, LINKS_MAX);
	if (n < 1 || n > LINKS_MAX) {
		snprintf(k->buf, k->len, "no way from %s to %s", topo_name(k->t, from, a, sizeof(a)),
			 topo_name(k->t, to, b, sizeof(b)));
		return k->buf;
	}
	for (int i = 0; i < n; i++) {
		const struct topo_link *l = &k->t->links[links[i]];

		k->load[2 * links[i] + (l->a != at)] += rate;
		at = l->a == at ? l->b : l->a;
	}
	return NULL;
}

static const char *add_both(struct checker *k, int a, int b, double rate)
{
	const char *wrong = add_way(k, a, b, rate);

	return wrong ? wrong : add_way(k, b, a, rate);
}

static const char *add_ring(struct checker *k, const struct channel *ch)
{
	int last = k->c->ngpus - 1;
	const char *wrong = NULL;

	for (int i = 0; i < last && !wrong; i++)
		wrong = add_way(k, ch->gpus[i], ch->gpus[i + 1], ch->bw_gbps);
	if (wrong)
		return wrong;
	if (ch->net_in < 0)
		return last ? add_way(k, ch->gpus[last], ch->gpus[0], ch->bw_gbps) : NULL;
	wrong = add_way(k, ch->net_in, ch->gpus[0], ch->bw_gbps);
	return wrong ? wrong : add_way(k, ch->gpus[last], ch->net_out, ch->bw_gbps);
}

/* Shares of a port's traffic at the first GPU: of parent and two children (one tree of a pair) and parent (the other).
 */
static double first_share(const struct channels *c)
{
	if (c->ngpus == 1 || (c->pattern != PATTERN_BALANCED_TREE && c->pattern != PATTERN_SPLIT_TREE))
		return 1;
	return c->pattern == PATTERN_BALANCED_TREE ? 3.0 / 4 : 2.0 / 4;
}

static const char *add_chain(struct checker *k, const struct channel *ch)
{
	double first = first_share(k->c);
	const char *wrong = NULL;

	for (int i = 0; i + 1 < k->c->ngpus && !wrong; i++)
		wrong = add_both(k, ch->gpus[i], ch->gpus[i + 1], ch->bw_gbps / 2);
	if (wrong || ch->net_in < 0)
		return wrong;
	wrong = add_both(k, ch->net_in, ch->gpus[0], first * ch->bw_gbps);
	if (wrong || first == 1)
		return wrong;
	return add_both(k, ch->net_out, ch->gpus[1], (1 - first) * ch->bw_gbps);
}

/* Every GPU sends once to the switches and gets the sum once; the leader also takes the sum in and sends it. */
static const char *add_nvls(struct checker *k, const struct channel *ch)
{
	for (int link = 0; link < k->t->nlinks; link++) {
		const struct topo_link *l = &k->t->links[link];
		bool gpu_a = k->t->nodes[l->a].kind == TOPO_GPU && k->t->nodes[l->b].kind == TOPO_NVS;
		bool gpu_b = k->t->nodes[l->b].kind == TOPO_GPU && k->t->nodes[l->a].kind == TOPO_NVS;
		double streams = (gpu_a ? l->a : l->b) == ch->gpus[0] ? 2 : 1;

		if (!gpu_a && !gpu_b)
			continue;
		k->load[2 * link] += streams * ch->bw_gbps;
		k->load[2 * link + 1] += streams * ch->bw_gbps;
	}
	return NULL;
}

static const char *add_channel(struct checker *k, const struct channel *ch)
{
	if (k->c->pattern == PATTERN_RING)
		return add_ring(k, ch);
	return k->c->pattern == PATTERN_NVLS ? add_nvls(k, ch) : add_chain(k, ch);
}

static bool is_port(const struct topo *t, int node)
{
	return node >= 0 && node < t->nnodes && t->nodes[node].kind == TOPO_NET;
}

static const char *check_ports(struct checker *k, int i)
{
	const struct channel *ch = &k->c->ch[i];

	if (ch->net_in == -1 && ch->net_out == -1)
		return NULL;
	if (!is_port(k->t, ch->net_in) || !is_port(k->t, ch->net_out)) {
		snprintf(k->buf, k->len, "channel %d: nodes %d and %d are not both ports", i, ch->net_in, ch->net_out);
		return k->buf;
	}
	if (ch->net_in != ch->net_out && !k->c->cross_nic) {
		snprintf(k->buf, k->len, "channel %d comes in by one port and leaves by another without cross_nic", i);
		return k->buf;
	}
	return NULL;
}

static const char *check_gpus(struct checker *k, int i)
{
	const struct channel *ch = &k->c->ch[i];

	for (int a = 0; a < k->c->ngpus; a++) {
		int node = ch->gpus[a];

		if (node < 0 || node >= k->t->nnodes || k->t->nodes[node].kind != TOPO_GPU) {
			snprintf(k->buf, k->len, "channel %d: place %d has node %d, which is not a gpu", i, a, node);
			return k->buf;
		}
		for (int b = 0; b < a; b++)
			if (ch->gpus[b] == node) {
				snprintf(k->buf, k->len, "channel %d visits node %d twice", i, node);
				return k->buf;
			}
	}
	return NULL;
}

static const char *check_loads(struct checker *k)
{
	char a[64], b[64];

	for (int arc = 0; arc < 2 * k->t->nlinks; arc++) {
		const struct topo_link *l = &k->t->links[arc / 2];
		int from = arc & 1 ? l->b : l->a, to = arc & 1 ? l->a : l->b;

		if (k->load[arc] <= l->bw_gbps * (1 + 1e-6))
			continue;
		snprintf(k->buf, k->len, "%s to %s: channels send %.3f GB/s over a link of %.3f",
			 topo_name(k->t, from, a, sizeof(a)), topo_name(k->t, to, b, sizeof(b)), k->load[arc],
			 l->bw_gbps);
		return k->buf;
	}
	return NULL;
}

static const char *check_all(struct checker *k)
{
	const char *wrong = NULL;
	double sum = 0;

	if (k->c->n < 0 || k->c->n > CHANNELS_MAX || k->c->ngpus != k->t->count[TOPO_GPU])
		return "not channels of this system";
	for (int i = 0; i < k->c->n && !wrong; i++) {
		wrong = check_gpus(k, i);
		if (!wrong)
			wrong = check_ports(k, i);
		if (!wrong)
			wrong = add_channel(k, &k->c->ch[i]);
		sum += k->c->ch[i].bw_gbps;
	}
	if (!wrong && (sum > k->c->total_gbps * (1 + 1e-6) || sum < k->c->total_gbps * (1 - 1e-6)))
		wrong = "the total is not the channels' sum";
	return wrong ? wrong : check_loads(k);
}

const char *channels_check(const struct channels *c, const struct topo *t, const struct topo_paths *p, char *buf,
			   size_t len)
{
	struct checker k = { .c = c, .t = t, .p = p, .buf = buf, .len = len };
	const char *wrong;

	k.load = mem_calloc(2 * (size_t)t->nlinks + 1, sizeof(*k.load));
	if (!k.load)
		return "no memory to check channels";
	wrong = check_all(&k);
	mem_free(k.load);
	return wrong;
}
