/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sched/cost_filter.h"
#include "sched/cost_tune.h"
#include "sched/cost_walk.h"

enum {
	PIECE_MIN = 256, /* shorter pieces than this are not worth their posts */
};

#define CLEAR_GAIN 0.96

/* Two-rank figures of a server core with shared memory, and of TCP on loopback; rounded, for
 * machines that nobody tuned. */
void cost_machine_default(struct cost_machine *m)
{
	cpu_set_t set;

	*m = (struct cost_machine){
		.link[0] = { .post_us = { 0.045, 0.042 },
			     .trip_us = { 0.18, 0.22 },
			     .byte_us = { { 0.0003, 0.00054 }, { 0.00014, 0.00014 } },
			     .ll_max = 4096,
			     .slot_bytes = 512 << 10 },
		.link[1] = { .post_us = { 1.3, 0.6 },
			     .trip_us = { 1.7, 3.0 },
			     .byte_us = { { 0.00054, 0.00054 }, { 0.00022, 0.00028 } },
			     .ll_max = 4096,
			     .slot_bytes = 512 << 10 },
		.copy_byte_us = { 0.000036, 0.000076 },
		.reduce_byte_us = { 0.00002, 0.000053 },
		.map_byte_us = { 0.000019, 0.00004 },
		.barrier_us = 0.15,
		.switch_us = 1.5,
		.cache_bytes = 2 << 20,
		.cores = 1,
	};
	if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 0)
		m->cores = CPU_COUNT(&set);
}

static void scale_memory(double level[COST_LEVELS], double by)
{
	level[COST_MEMORY] = fmax(level[COST_MEMORY] * by, level[COST_CACHE]);
}

void cost_machine_memory(struct cost_machine *m, double byte_us)
{
	double by = fmin(fmax(byte_us / m->copy_byte_us[COST_MEMORY], 1.0 / 16), 16);

	scale_memory(m->copy_byte_us, by);
	scale_memory(m->reduce_byte_us, by);
	scale_memory(m->map_byte_us, by);
	for (int p = 0; p < PROTO_COUNT; p++)
		scale_memory(m->link[0].byte_us[p], by);
}

/* What all candidates of a query share. */
struct view {
	const struct cost_query *q;
	struct sched_req req;
	size_t elem;
	uint64_t block_elems;	   /* at least 1 */
	int crowd_ranks;	   /* on the fullest machine */
	size_t limit[PROTO_COUNT]; /* bytes of a message that all links in use take */
	struct walk_price price[PROTO_COUNT];
};

/* --- The query. --- */

static enum taut_status check_query(const struct cost_query *q)
{
	const struct sched_req *r = &q->req;

	if ((unsigned)r->coll >= COLL_COUNT || r->nranks < 1 || r->root < 0 || r->root >= r->nranks || r->nnodes < 0)
		return fail(TAUT_ERR_INTERNAL, "cost: collective %d, %d ranks, root %d, %d machines", (int)r->coll,
			    r->nranks, r->root, r->nnodes);
	return TAUT_OK;
}

static int fullest_machine(int *ranks_of, const struct sched_req *r)
{
	int most = 0;

	for (int i = 0; i < r->nranks; i++)
		if (++ranks_of[r->node_of[i]] > most)
			most = ranks_of[r->node_of[i]];
	return most;
}

static enum taut_status count_crowd(struct view *v)
{
	int *ranks_of;

	v->crowd_ranks = v->req.nranks;
	if (!v->req.node_of || v->req.nnodes <= 1)
		return TAUT_OK;
	if (v->req.nnodes == v->req.nranks) {
		v->crowd_ranks = 1;
		return TAUT_OK;
	}
	ranks_of = mem_calloc((size_t)v->req.nnodes, sizeof(*ranks_of));
	if (!ranks_of)
		return fail(TAUT_ERR_NOMEM, "cost: %d machines", v->req.nnodes);
	v->crowd_ranks = fullest_machine(ranks_of, &v->req);
	mem_free(ranks_of);
	return TAUT_OK;
}

/* Between the rate in cache and that in memory, linear in the size: never falls. */
static double rate_at(const struct cost_machine *m, size_t bytes, const double level[COST_LEVELS])
{
	double cache = (double)m->cache_bytes;
	double part = cache > 0 ? ((double)bytes - cache) / (7 * cache) : 1;

	part = part < 0 ? 0 : part > 1 ? 1 : part;
	return level[COST_CACHE] + part * (level[COST_MEMORY] - level[COST_CACHE]);
}

static double rate(const struct view *v, const double level[COST_LEVELS])
{
	return rate_at(v->q->machine, v->q->bytes, level);
}

double cost_message_us(const struct cost_machine *m, bool between, size_t bytes)
{
	const struct cost_link *l = &m->link[between || m->one_wire];
	enum sched_proto proto = bytes <= l->ll_max ? PROTO_LL : PROTO_BULK;

	return l->post_us[proto] + l->trip_us[proto] + (double)bytes * rate_at(m, bytes, l->byte_us[proto]);
}

double cost_copy_us(const struct cost_machine *m, size_t bytes)
{
	return (double)bytes * rate_at(m, bytes, m->copy_byte_us);
}

/* Where ranks share cores all work takes longer, and a wait ends after the others of the
 * core have had their turn. */
static void set_price(struct view *v, enum sched_proto proto)
{
	const struct cost_machine *m = v->q->machine;
	struct walk_price *p = &v->price[proto];
	double crowd = m->cores > 0 ? (double)v->crowd_ranks / m->cores : 1, turns = 0;

	if (crowd > 1)
		turns = crowd * m->switch_us;
	else
		crowd = 1;
	for (int k = 0; k < 2; k++) {
		const struct cost_link *l = &m->link[m->one_wire ? 1 : k];

		p->post[k] = l->post_us[proto] * crowd;
		p->take[k] = p->post[k] / 2;
		p->trip[k] = l->trip_us[proto] + turns;
		p->half_byte[k] = rate(v, l->byte_us[proto]) / 2 * crowd;
	}
	p->copy = rate(v, m->copy_byte_us) * crowd;
	p->reduce = rate(v, m->reduce_byte_us) * crowd;
	p->map = rate(v, m->map_byte_us) * crowd;
	p->barrier = m->barrier_us + turns;
}

static size_t message_limit(const struct view *v, enum sched_proto proto)
{
	const struct cost_link *l = v->q->machine->link;
	size_t inside = proto == PROTO_LL ? l[0].ll_max : l[0].slot_bytes;
	size_t between = proto == PROTO_LL ? l[1].ll_max : l[1].slot_bytes;

	if (v->q->machine->one_wire)
		return between;
	if (v->req.nnodes <= 1)
		return inside;
	return v->crowd_ranks > 1 && inside < between ? inside : between;
}

static enum taut_status view_init(struct view *v, const struct cost_query *q)
{
	uint64_t elems, in, out;
	enum taut_status st = check_query(q);

	if (st)
		return st;
	*v = (struct view){ .q = q, .req = q->req, .elem = q->elem ? q->elem : 1 };
	v->req.rank = 0;
	if (!v->req.node_of || v->req.nnodes <= 1) {
		v->req.node_of = NULL;
		v->req.nnodes = 1;
	}
	st = count_crowd(v);
	if (st)
		return st;
	in = (uint64_t)sched_coll_blocks(q->req.coll, false, q->req.nranks);
	out = (uint64_t)sched_coll_blocks(q->req.coll, true, q->req.nranks);
	elems = q->bytes / v->elem + (q->bytes % v->elem != 0);
	in = in > out ? in : out;
	v->block_elems = elems / in + (elems % in != 0);
	if (!v->block_elems)
		v->block_elems = 1;
	for (int p = 0; p < PROTO_COUNT; p++) {
		set_price(v, (enum sched_proto)p);
		v->limit[p] = message_limit(v, (enum sched_proto)p);
	}
	return TAUT_OK;
}

/* --- One candidate. --- */

/* How a channel's part of the message is cut. */
struct cut {
	struct walk_size size;
	double slices; /* the last one counts by its length */
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Of a chunk in one channel. */
static double chunk_bytes(const struct view *v, const struct walk *w, int channels)
{
	uint64_t elems = ceil_div(v->block_elems, (uint64_t)channels);

	return (double)ceil_div(elems, (uint64_t)walk_per_block(w)) * (double)v->elem;
}

/* Mapped steps go through no slot. */
static size_t piece_limit(const struct view *v, const struct sched_algo *algo, enum sched_proto proto)
{
	return algo->mapped ? SIZE_MAX / 2 : v->limit[proto];
}

static struct cut cut_message(const struct view *v, const struct walk *w, int channels, size_t piece)
{
	uint64_t per_block = (uint64_t)walk_per_block(w), elems = ceil_div(v->block_elems, (uint64_t)channels);
	double chunk = chunk_bytes(v, w, channels);
	struct cut cut = {
		.size = { .chunk = chunk, .parts = (int)(elems < per_block ? elems : per_block), .slices = 1 },
		.slices = 1
	};

	/* as the executor does it: runs are cut in chunks where they exceed a piece */
	if (channels == 1 && chunk <= (double)piece)
		cut.size.run = (double)piece;
	if (chunk <= (double)piece)
		return cut;
	cut.slices = chunk / (double)piece;
	cut.size.chunk = (double)piece;
	cut.size.slices = cut.slices > 2 ? 3 : 2;
	return cut;
}

/* What follows the slices that were walked takes as long as the last of them. */
static double extrapolate(const struct walk_time *t, double slices)
{
	if (slices <= 1)
		return t->end[0];
	if (slices <= 2)
		return t->end[0] + (slices - 1) * (t->end[1] - t->end[0]);
	return t->end[1] + (slices - 2) * (t->end[2] - t->end[1]);
}

/* Channels share the rank's one thread: their work adds up, their waiting overlaps. */
static enum taut_status time_of(double *out, const struct view *v, struct walk *w, enum sched_proto proto, int channels,
				size_t piece)
{
	struct cut cut = cut_message(v, w, channels, piece);
	struct walk_time t;
	enum taut_status st = walk_run(&t, w, &v->price[proto], &cut.size);

	if (st == TAUT_ERR_INTERNAL && cut.size.run > 0) { /* runs of unlike bounds meet: chunk by chunk */
		cut.size.run = 0;
		st = walk_run(&t, w, &v->price[proto], &cut.size);
	}
	if (st == TAUT_ERR_INTERNAL)
		return fail(st, "%s", taut_error_message());
	if (st)
		return st;
	*out = extrapolate(&t, cut.slices) + (channels - 1) * t.work * cut.slices;
	return TAUT_OK;
}

static double lower_bound(const struct view *v, const struct walk *w, enum sched_proto proto, size_t piece)
{
	struct cut cut = cut_message(v, w, 1, piece);

	return walk_bound(w, &v->price[proto], &cut.size) * cut.slices;
}

/* The best pieces for algorithm and protocol; us INFINITY if the time is above @worth. Shorter
 * pieces must promise a clear gain: the model does not see all that they cost. One channel,
 * unless settings or measurements say more: on the host a second one only overlaps waiting,
 * as shorter pieces do. */
static enum taut_status best_way(struct cost_choice *out, const struct view *v, struct walk *w,
				 const struct sched_algo *algo, enum sched_proto proto, double worth)
{
	size_t limit = piece_limit(v, algo, proto), shortest = limit / 64 > PIECE_MIN ? limit / 64 : PIECE_MIN;
	int channels = v->q->channels > 0 ? v->q->channels : 1;
	double chosen_us = INFINITY;

	*out = (struct cost_choice){ .algo = algo, .proto = proto, .channels = channels, .us = INFINITY };
	if (lower_bound(v, w, proto, limit) >= worth)
		return TAUT_OK;
	for (size_t piece = limit; piece == limit || piece >= shortest; piece /= 4) {
		double us = INFINITY;
		enum taut_status st;

		if (piece != limit && v->q->bytes <= piece)
			continue;
		st = time_of(&us, v, w, proto, channels, piece);
		if (st)
			return st;
		if (us < chosen_us * CLEAR_GAIN) {
			chosen_us = us;
			out->piece_bytes = piece;
		}
		out->us = us < out->us ? us : out->us;
	}
	return TAUT_OK;
}

static bool fits(const struct view *v, const struct sched_algo *algo)
{
	if (algo->mapped && !v->q->mapped)
		return false;
	return v->q->vectors ? sched_algo_fits_vectors(algo, &v->req) : sched_algo_fits(algo, &v->req);
}

/* Mapped schedules have no protocol; they count as bulk. */
static bool fits_proto(const struct view *v, const struct sched_algo *algo, enum sched_proto proto)
{
	return algo->mapped ? proto == PROTO_BULK : v->limit[proto] > 0;
}

/* A view and a walk of one candidate. */
static enum taut_status candidate(struct view *v, struct walk **w, const struct cost_query *q,
				  const struct sched_algo *algo, enum sched_proto proto)
{
	enum taut_status st = view_init(v, q);

	if (st)
		return st;
	if (!fits(v, algo) || !fits_proto(v, algo, proto))
		return fail_quiet(TAUT_ERR_UNSUPPORTED, "%s with %s has no schedule for %s of %d ranks on %d machines",
				  algo->name, sched_proto_name(proto), sched_coll_name(q->req.coll), q->req.nranks,
				  v->req.nnodes);
	return walk_create(w, algo, &v->req);
}

enum taut_status cost_predict(double *out_us, const struct cost_query *q, const struct sched_algo *algo,
			      enum sched_proto proto)
{
	struct view v;
	struct walk *w;
	struct cost_choice way;
	enum taut_status st = candidate(&v, &w, q, algo, proto);

	if (st)
		return st;
	st = best_way(&way, &v, w, algo, proto, INFINITY);
	if (!st)
		*out_us = way.us;
	walk_free(w);
	return st;
}

enum taut_status cost_price(double *out_us, const struct cost_query *q, const struct cost_choice *way)
{
	struct view v;
	struct walk *w;
	size_t piece;
	enum taut_status st = candidate(&v, &w, q, way->algo, way->proto);

	if (st)
		return st;
	piece = piece_limit(&v, way->algo, way->proto);
	if (way->piece_bytes && way->piece_bytes < piece)
		piece = way->piece_bytes;
	st = time_of(out_us, &v, w, way->proto, way->channels > 0 ? way->channels : 1, piece);
	walk_free(w);
	return st;
}

/* --- The choice. --- */

/* What may be chosen for a query: bits of sched_algos[] and of the protocols. */
struct allowed {
	uint64_t algos, protos;
};

static uint64_t fitting_algos(const struct view *v)
{
	uint64_t mask = 0;

	for (int i = 0; sched_algos[i]; i++)
		if (fits(v, sched_algos[i]))
			mask |= (uint64_t)1 << i;
	return mask;
}

static uint64_t fitting_protos(const struct view *v)
{
	uint64_t mask = 0;

	for (int p = 0; p < PROTO_COUNT; p++)
		if (v->limit[p] || (p == PROTO_BULK && v->q->mapped))
			mask |= (uint64_t)1 << p;
	return mask;
}

static enum taut_status nothing_left(const struct view *v, const char *variable, const char *text, const char *fit)
{
	return fail(TAUT_ERR_CONFIG, "%s=%s leaves nothing for %s%s of %d ranks on %d machine%s%s; would fit: %s",
		    variable, text, sched_coll_name(v->req.coll), v->q->vectors ? "_v" : "", v->req.nranks,
		    v->req.nnodes, v->req.nnodes == 1 ? "" : "s", v->q->mapped ? "" : ", buffers not shared", fit);
}

static void list_names(char *buf, size_t len, uint64_t mask, bool protos)
{
	size_t at = 0;

	buf[0] = '\0';
	for (int i = 0; i < 64 && mask >> i; i++) {
		int n;

		if (!(mask >> i & 1))
			continue;
		n = snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
			     protos ? sched_proto_name((enum sched_proto)i) : sched_algos[i]->name);
		at = n > 0 && at + (size_t)n < len ? at + (size_t)n : len - 1;
	}
}

/* @mask: what fits; becomes what fits and is allowed. A wish that leaves nothing is dropped. */
static enum taut_status apply_rule(uint64_t *mask, const struct view *v, const struct filter_rule *rule, bool protos)
{
	const char *variable = protos ? "TAUT_PROTO" : "TAUT_ALGO";
	const char *text = protos ? filter_proto_text(v->q->filter) : filter_algo_text(v->q->filter);
	char names[512];

	if (*mask & rule->mask || !rule->active) {
		*mask &= rule->mask;
		return TAUT_OK;
	}
	if (rule->order) {
		list_names(names, sizeof(names), *mask, protos);
		return nothing_left(v, variable, text, names);
	}
	log_info(LOG_SCHED, "%s=%s fits no %s of %d ranks on %d machines: chosen freely", variable, text,
		 sched_coll_name(v->req.coll), v->req.nranks, v->req.nnodes);
	return TAUT_OK;
}

static enum taut_status what_is_allowed(struct allowed *out, const struct view *v)
{
	struct filter_rule algos = filter_algos(v->q->filter, v->req.coll);
	struct filter_rule protos = filter_protos(v->q->filter, v->req.coll);
	enum taut_status st;

	*out = (struct allowed){ fitting_algos(v), fitting_protos(v) };
	if (!out->algos || !out->protos)
		return fail(TAUT_ERR_UNSUPPORTED, "%s%s of %d ranks on %d machines: no %s for it",
			    sched_coll_name(v->req.coll), v->q->vectors ? "_v" : "", v->req.nranks, v->req.nnodes,
			    out->algos ? "protocol" : "algorithm");
	st = apply_rule(&out->algos, v, &algos, false);
	return st ? st : apply_rule(&out->protos, v, &protos, true);
}

/* The two cheapest so far. */
struct podium {
	struct cost_choice first, second;
	bool want_second;
};

static void podium_offer(struct podium *p, const struct cost_choice *c)
{
	if (c->us < p->first.us * 0.999 || (!p->first.algo && c->us < INFINITY)) {
		p->second = p->first;
		p->first = *c;
	} else if (c->us < p->second.us) {
		p->second = *c;
	}
}

static enum taut_status offer_algo(struct podium *p, const struct view *v, const struct sched_algo *algo,
				   uint64_t protos)
{
	struct walk *w = NULL;
	enum taut_status st = walk_create(&w, algo, &v->req);

	for (int i = 0; !st && i < PROTO_COUNT; i++) {
		struct cost_choice way;

		if (!(protos >> i & 1) || !fits_proto(v, algo, (enum sched_proto)i))
			continue;
		st = best_way(&way, v, w, algo, (enum sched_proto)i, p->want_second ? p->second.us : p->first.us);
		if (!st)
			podium_offer(p, &way);
	}
	walk_free(w);
	return st;
}

/* A mapped schedule has no messages: no protocol is right or wrong for it. */
static uint64_t protos_for(const struct sched_algo *algo, const struct allowed *allowed)
{
	return algo->mapped ? (uint64_t)1 << PROTO_BULK : allowed->protos;
}

static enum taut_status rank_all(struct podium *p, const struct view *v, const struct allowed *allowed)
{
	enum taut_status st = TAUT_OK;

	p->first = p->second = (struct cost_choice){ .us = INFINITY };
	for (int i = 0; !st && sched_algos[i]; i++)
		if (allowed->algos >> i & 1)
			st = offer_algo(p, v, sched_algos[i], protos_for(sched_algos[i], allowed));
	return st;
}

struct tune_test {
	const struct view *v;
	const struct allowed *allowed;
};

static bool may_use(const struct tune_best *best, void *ctx)
{
	const struct tune_test *t = ctx;

	for (int i = 0; sched_algos[i]; i++)
		if (sched_algos[i] == best->algo && fits_proto(t->v, best->algo, best->proto))
			return t->allowed->algos >> i & 1 && protos_for(best->algo, t->allowed) >> best->proto & 1;
	return false;
}

/* The measured choice, out->measured false when there is none. */
static enum taut_status choose_measured(struct cost_choice *out, const struct view *v, const struct allowed *allowed)
{
	struct tune_test test = { v, allowed };
	const struct tune_best *best = v->q->tune ? tune_find(v->q->tune, v->q, may_use, &test) : NULL;

	*out = (struct cost_choice){ .measured = best };
	if (!best)
		return TAUT_OK;
	out->algo = best->algo;
	out->proto = best->proto;
	out->channels = v->q->channels > 0 ? v->q->channels : best->channels;
	out->piece_bytes = piece_limit(v, best->algo, best->proto);
	if (best->piece_bytes && best->piece_bytes < out->piece_bytes && !best->algo->mapped)
		out->piece_bytes = best->piece_bytes;
	return cost_price(&out->us, v->q, out);
}

static enum taut_status choose_among(struct podium *p, const struct view *v, const struct allowed *allowed)
{
	struct cost_choice measured;
	enum taut_status st = choose_measured(&measured, v, allowed);

	if (st)
		return st;
	if (measured.measured && !p->want_second) {
		p->first = measured;
		return TAUT_OK;
	}
	st = rank_all(p, v, allowed);
	if (st || !measured.measured)
		return st;
	if (p->first.algo != measured.algo || p->first.proto != measured.proto)
		p->second = p->first;
	p->first = measured;
	return TAUT_OK;
}

static uint64_t mapped_algos(void)
{
	uint64_t mask = 0;

	for (int i = 0; sched_algos[i]; i++)
		if (sched_algos[i]->mapped)
			mask |= (uint64_t)1 << i;
	return mask;
}

static enum taut_status choose_plain(struct podium *p, const struct cost_query *q)
{
	struct view v;
	struct allowed allowed;
	enum taut_status st = view_init(&v, q);

	if (!st)
		st = what_is_allowed(&allowed, &v);
	return st ? st : choose_among(p, &v, &allowed);
}

/* A mapped schedule, or exactly what would be chosen without mapped buffers: a rank may find
 * out too late that all have them. */
static enum taut_status choose_mapped(struct podium *p, const struct view *v, const struct allowed *allowed)
{
	struct cost_query plain = *v->q;
	struct podium mapped = { .want_second = p->want_second };
	struct allowed of = { allowed->algos & mapped_algos(), allowed->protos };
	struct tune_test test = { v, allowed };
	const struct tune_best *best = v->q->tune ? tune_find(v->q->tune, v->q, may_use, &test) : NULL;
	enum taut_status st;

	plain.mapped = false;
	if (of.algos && (of.algos == allowed->algos || (best && best->algo->mapped)))
		return choose_among(p, v, &of);
	st = choose_plain(p, &plain);
	if (st || !of.algos || best)
		return st;
	st = rank_all(&mapped, v, &of);
	if (st)
		return st;
	podium_offer(p, &mapped.first);
	podium_offer(p, &mapped.second);
	return TAUT_OK;
}

static enum taut_status choose(struct podium *p, const struct cost_query *q)
{
	struct view v;
	struct allowed allowed;
	enum taut_status st;

	if (!q->mapped)
		return choose_plain(p, q);
	st = view_init(&v, q);
	if (!st)
		st = what_is_allowed(&allowed, &v);
	return st ? st : choose_mapped(p, &v, &allowed);
}

enum taut_status cost_choose(struct cost_choice *out, const struct cost_query *q)
{
	struct podium p = { .want_second = false };
	enum taut_status st = choose(&p, q);

	if (!st)
		*out = p.first;
	return st;
}

/* --- Words for it. --- */

static const char *way_name(const struct cost_choice *c)
{
	return c->algo->mapped ? "mapped" : sched_proto_name(c->proto);
}

static void print_us(char buf[32], double us)
{
	snprintf(buf, 32, us < 10 ? "%.2f us" : "%.0f us", us);
}

size_t cost_explain(char *buf, size_t len, const struct cost_query *q)
{
	struct podium p = { .want_second = true };
	char us[32], next[32], channels[32] = "", other[160] = "";
	int n;

	if (len)
		buf[0] = '\0';
	if (choose(&p, q))
		return 0;
	print_us(us, p.first.us);
	print_us(next, p.second.us);
	if (p.first.channels > 1)
		snprintf(channels, sizeof(channels), " x%d", p.first.channels);
	if (p.second.algo)
		snprintf(other, sizeof(other), " (next: %s %s %s)", p.second.algo->name, way_name(&p.second), next);
	n = snprintf(buf, len, "%s%s %zu bytes, %d ranks: %s %s%s, %s%s predicted%s", sched_coll_name(q->req.coll),
		     q->vectors ? "_v" : "", q->bytes, q->req.nranks, p.first.algo->name, way_name(&p.first), channels,
		     p.first.measured ? "measured best, " : "", us, other);
	return n > 0 ? (size_t)n : 0;
}
