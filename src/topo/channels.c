/* SPDX-License-Identifier: Apache-2.0 */
/* The search: rates of routes that together fill the links (topo/ring_pack.h), with legs no farther than the total
 * needs, cut into channels (topo/ring_split.h). */
#include "topo/channels.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "topo/channels_create.h"
#include "topo/nvls.h"
#include "topo/ring_cut.h"
#include "topo/ring_pack.h"
#include "topo/ring_split.h"

/* Nearer legs are preferred while the total stays above this part of the best; another port to leave by only when it
 * brings as much more. */
static const double as_good = 0.99;
/* Of the bound: a packing that reaches it is not improved; the last hundredth takes most of the time, and cutting into
 * equal channels finds it mostly anyway. */
static const double near_bound = 0.99;

struct finder {
	const struct topo *t;
	struct channels_req req;
	struct ring_model *m;
	struct ring_pack *pk;
	struct ring_limits limits;
	bool stale; /* what the pack found last is not for these limits */
	struct ring_set set;
};

static void finder_cleanup(struct finder *f)
{
	ring_pack_free(f->pk);
	ring_model_free(f->m);
}

/* --- how far legs may go --- */

static bool class_used(const struct finder *f, enum path_class class, bool inter)
{
	int legs = inter ? f->m->nports * f->m->ngpus : f->m->ngpus * f->m->ngpus;
	const struct ring_leg *leg = inter ? f->m->in : f->m->leg;

	for (int i = 0; i < legs; i++)
		if (leg[i].class == class)
			return true;
	return false;
}

/* Lowers one limit to the nearest class that is as good. */
static enum taut_status narrow(struct finder *f, bool inter, double best)
{
	enum path_class widest = inter ? f->limits.inter : f->limits.intra;
	enum taut_status st = TAUT_OK;

	for (enum path_class farthest = PATH_NVL; farthest < widest && !st; farthest++) {
		struct ring_limits limits = f->limits;

		if (!class_used(f, farthest, inter))
			continue;
		*(inter ? &limits.inter : &limits.intra) = farthest;
		st = ring_pack_solve(f->pk, f->m->cap, &limits, as_good * best, best);
		f->stale = true;
		if (st || f->pk->total < as_good * best)
			continue;
		f->limits = limits;
		f->stale = false;
		return TAUT_OK;
	}
	return st;
}

/* The farthest classes of the routes that carry something. */
static void limits_seen(struct finder *f)
{
	f->limits = (struct ring_limits){ PATH_LOC, PATH_LOC };
	for (int k = 0; k < f->pk->nroutes; k++) {
		struct ring_route route = ring_pack_route(f->pk, k);

		if (f->pk->rate[k] > 0)
			ring_route_class(f->m, &route, &f->limits.intra, &f->limits.inter);
	}
}

static enum taut_status solve_near(struct finder *f, double bound)
{
	double best;
	enum taut_status st;

	f->limits = (struct ring_limits){ PATH_DIS, PATH_DIS };
	st = ring_pack_solve(f->pk, f->m->cap, &f->limits, 0, near_bound * bound);
	if (st)
		return st;
	best = f->pk->total;
	if (best <= 0)
		return fail(TAUT_ERR_UNSUPPORTED,
			    "no way through all %d gpus of %s%s: some pair has no path with a known bandwidth",
			    f->m->ngpus, f->t->source, f->m->inter ? " and a port" : "");
	limits_seen(f);
	st = narrow(f, false, best);
	if (!st && f->m->inter)
		st = narrow(f, true, best);
	if (st || !f->stale)
		return st;
	return ring_pack_solve(f->pk, f->m->cap, &f->limits, 0, best);
}

/* --- channels --- */

/* What one channel moves at most, in GB/s: about what NCCL gives one, whose copying a few multiprocessors do. */
static double widest_channel(const struct topo *t)
{
	int sm = 0;

	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		sm = t->nodes[t->of[TOPO_GPU][i]].gpu.sm > sm ? t->nodes[t->of[TOPO_GPU][i]].gpu.sm : sm;
	if (sm >= 100)
		return 46;
	if (sm >= 90)
		return 32;
	return sm > 0 ? 20 : 25;
}

enum taut_status channels_create(struct channels **out, enum channel_pattern pattern, int ngpus, const int *gpus)
{
	struct channels *c = mem_calloc(1, sizeof(*c));
	int *orders = mem_calloc((size_t)(CHANNELS_MAX + 1) * (size_t)ngpus, sizeof(*orders));

	if (!c || !orders) {
		mem_free(orders);
		mem_free(c);
		return fail(TAUT_ERR_NOMEM, "channels: no memory for %d gpus", ngpus);
	}
	c->pattern = pattern;
	c->ngpus = ngpus;
	c->gpus = orders + (size_t)CHANNELS_MAX * (size_t)ngpus;
	memcpy(c->gpus, gpus, (size_t)ngpus * sizeof(*gpus));
	for (int i = 0; i < CHANNELS_MAX; i++)
		c->ch[i] = (struct channel){ .net_in = -1, .net_out = -1, .gpus = orders + (size_t)i * (size_t)ngpus };
	*out = c;
	return TAUT_OK;
}

void channels_free(struct channels *c)
{
	if (!c)
		return;
	mem_free(c->ch[0].gpus);
	mem_free(c);
}

static int place_of(const struct channels *c, int gpu)
{
	int place = 0;

	while (place < c->ngpus - 1 && c->gpus[place] != gpu)
		place++;
	return place;
}

void channels_ring_order(const struct channels *c, int nnodes, int channel, int *ranks)
{
	for (int node = 0; node < nnodes; node++)
		for (int i = 0; i < c->ngpus; i++)
			ranks[node * c->ngpus + i] = node * c->ngpus + place_of(c, c->ch[channel].gpus[i]);
}

static void channel_fill(struct channel *ch, const struct ring_model *m, const struct ring_route *route, double bw)
{
	ch->bw_gbps = bw;
	if (m->inter) {
		ch->net_in = m->ports[route->in];
		ch->net_out = m->ports[route->out];
	}
	for (int i = 0; i < m->ngpus; i++)
		ch->gpus[i] = m->gpus[route->order[i]];
}

/* NCCL calls the way to ports PIX when there is none. */
static void summarize(struct channels *c, const struct finder *f)
{
	enum path_class intra = PATH_LOC, inter = f->m->inter ? PATH_LOC : PATH_PIX;

	c->same_channels = true;
	for (int i = 0; i < c->n; i++) {
		struct ring_route route = ring_pack_route(f->pk, f->set.route[i]);

		ring_route_class(f->m, &route, &intra, &inter);
		if (memcmp(c->ch[i].gpus, c->ch[0].gpus, (size_t)c->ngpus * sizeof(int)) != 0)
			c->same_channels = false;
		if (c->ch[i].net_in != c->ch[i].net_out)
			c->cross_nic = 1;
	}
	c->type_intra = intra;
	c->type_inter = inter;
	c->total_gbps = f->set.total;
	c->bw_intra = c->bw_inter = c->n ? f->set.total / c->n : 0;
}

static enum taut_status to_channels(struct channels **out, const struct finder *f)
{
	enum taut_status st = channels_create(out, f->req.pattern, f->m->ngpus, f->m->gpus);

	if (st)
		return st;
	(*out)->n = f->set.n;
	for (int i = 0; i < f->set.n; i++) {
		struct ring_route route = ring_pack_route(f->pk, f->set.route[i]);

		channel_fill(&(*out)->ch[i], f->m, &route, f->set.bw[i]);
	}
	summarize(*out, f);
	return TAUT_OK;
}

/* What rates the links allow, before they are cut into channels. */
static enum taut_status search(struct finder *f, const struct topo_paths *p)
{
	double bound;
	enum taut_status st = ring_model_create(&f->m, f->t, p, &f->req);

	if (st)
		return st;
	if (!f->m->nports && f->m->inter)
		return fail(TAUT_ERR_UNSUPPORTED,
			    "%s has no network port that is up%s: channels over %d nodes need one", f->t->source,
			    f->req.pattern == PATTERN_COLLNET ? " and reduces" : "", f->req.nnodes);
	st = ring_cut_bound(&bound, f->t, f->m, NULL, 0);
	if (!st)
		st = ring_pack_create(&f->pk, f->m);
	return st ? st : solve_near(f, bound);
}

/* Where cuts say that crossing cannot bring more, it is not searched for. */
static enum taut_status crossing_may_pay(bool *out, const struct finder *same, const struct finder *cross,
					 const struct topo_paths *p)
{
	struct ring_model *m;
	double bound = 0;
	enum taut_status st = ring_model_create(&m, cross->t, p, &cross->req);

	if (st)
		return st;
	st = ring_cut_bound(&bound, cross->t, m, NULL, 0);
	ring_model_free(m);
	*out = same->pk->total < as_good * bound;
	return st;
}

static enum taut_status finish(struct channels **out, struct finder *f)
{
	struct ring_split_rules rules = { .min = f->req.min_channels,
					  .max = f->req.max_channels ? f->req.max_channels : CHANNELS_MAX,
					  .widest = widest_channel(f->t),
					  .limits = f->limits };
	enum taut_status st = ring_split(&f->set, f->pk, &rules);

	return st ? st : to_channels(out, f);
}

/* Leaving by another port pays only where a ring that has to come back to its own crosses the machine once more. */
static enum taut_status find(struct channels **out, const struct topo *t, const struct topo_paths *p,
			     const struct channels_req *req)
{
	struct finder same = { .t = t, .req = *req }, cross = { .t = t, .req = *req };
	bool pays = false, taken = false;
	enum taut_status st;

	same.req.cross_nic = req->cross_nic == 1;
	cross.req.cross_nic = 1;
	st = search(&same, p);
	if (!st && req->cross_nic == 2 && req->nnodes > 1)
		st = crossing_may_pay(&pays, &same, &cross, p);
	if (!st && pays) {
		st = search(&cross, p);
		taken = !st && same.pk->total < as_good * cross.pk->total;
	}
	if (!st)
		st = finish(out, taken ? &cross : &same);
	finder_cleanup(&same);
	finder_cleanup(&cross);
	return st;
}

/* A GPU alone has nobody to send to: channels without bandwidth. */
static enum taut_status find_alone(struct channels **out, const struct topo *t, const struct channels_req *req)
{
	enum taut_status st = channels_create(out, req->pattern, 1, t->of[TOPO_GPU]);

	if (st)
		return st;
	(*out)->n = req->min_channels > 1 ? req->min_channels : 1;
	(*out)->same_channels = true;
	(*out)->type_inter = PATH_PIX;
	for (int i = 0; i < (*out)->n; i++)
		(*out)->ch[i].gpus[0] = t->of[TOPO_GPU][0];
	return TAUT_OK;
}

static bool reduces_in_network(const struct topo *t)
{
	for (int i = 0; i < t->count[TOPO_NET]; i++)
		if (t->nodes[t->of[TOPO_NET][i]].net.coll == 1)
			return true;
	return false;
}

static enum taut_status check_req(const struct topo *t, const struct channels_req *req)
{
	int most = req->max_channels ? req->max_channels : CHANNELS_MAX;

	if (req->pattern < PATTERN_BALANCED_TREE || req->pattern > PATTERN_COLLNET)
		return fail(TAUT_ERR_ARG, "pattern of channels: %d, wanted 1 to 6", (int)req->pattern);
	if (req->nnodes < 1 || req->cross_nic < 0 || req->cross_nic > 2)
		return fail(TAUT_ERR_ARG, "channels: %d nodes, cross_nic %d: wanted 1 or more, and 0, 1 or 2",
			    req->nnodes, req->cross_nic);
	if (req->min_channels < 0 || most < 1 || most > CHANNELS_MAX || req->min_channels > most)
		return fail(TAUT_ERR_ARG, "channels: at least %d and at most %d: wanted 0 to %d, in that order",
			    req->min_channels, req->max_channels, CHANNELS_MAX);
	if (!t->count[TOPO_GPU])
		return fail(TAUT_ERR_UNSUPPORTED, "%s has no GPU: channels join GPUs", t->source);
	return TAUT_OK;
}

enum taut_status channels_find(struct channels **out, const struct topo *t, const struct topo_paths *p,
			       const struct channels_req *req)
{
	enum taut_status st = check_req(t, req);

	if (st)
		return st;
	if (req->pattern == PATTERN_NVLS)
		return nvls_find(out, t, req);
	if (req->pattern == PATTERN_COLLNET && (req->nnodes < 2 || !reduces_in_network(t)))
		return channels_create(out, req->pattern, t->count[TOPO_GPU], t->of[TOPO_GPU]);
	if (req->nnodes < 2 && t->count[TOPO_GPU] == 1)
		return find_alone(out, t, req);
	return find(out, t, p, req);
}
