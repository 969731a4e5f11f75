/* SPDX-License-Identifier: Apache-2.0 */
/* How a call is run: chosen once per (collective, size class, root ...), kept for the life
 * of the communicator. */
#include <stdio.h>
#include <strings.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cuda/price.h"

#define PLAN_BUCKETS 256
#define LL_PIECE 4096		       /* every wire takes an ll message of this size */
#define MAPPED_PIECE ((size_t)1 << 48) /* no slots: no limit */
#define V_BYTES ((size_t)1 << 20)      /* v-forms whose sizes only their own ranks know are chosen for this size */
#define V_LL 1024		       /* and their messages up to this go by ll */

/* What a choice depends on; every rank computes the same. */
struct plan_key {
	int coll, root;
	uint32_t size_class;
	uint8_t elem, vectors, mapped;
};
struct plan_entry {
	struct plan_entry *next;
	struct plan_key key;
	struct exec_plan plan;
};

/* Two bits after the leading one: sizes within 25 % are one class. */
static uint32_t class_of(size_t bytes)
{
	uint32_t log;

	if (bytes < 8)
		return (uint32_t)bytes;
	log = 63 - (uint32_t)__builtin_clzll(bytes);
	return log << 2 | (uint32_t)(bytes >> (log - 2) & 3);
}

static size_t class_bytes(uint32_t c)
{
	return c < 8 ? c : ((size_t)4 | (c & 3)) << ((c >> 2) - 2);
}

static bool root_matters(const struct op *op)
{
	return sched_coll_has_root(op->coll);
}

static size_t sum(const size_t *counts, int n)
{
	size_t total = 0;

	for (int i = 0; i < n; i++)
		total += counts[i];
	return total;
}

size_t op_bytes(const struct op *op)
{
	int blocks = sched_coll_blocks(op->coll, true, op->comm->size);
	size_t elem = taut_type_size(op->type);

	if (sched_coll_blocks(op->coll, false, op->comm->size) > blocks)
		blocks = op->comm->size;
	if (!op->vectors)
		return op->count * elem * (size_t)blocks;
	if (op->coll == COLL_ALL_GATHER)
		return sum(op->out_counts, op->comm->size) * elem;
	if (op->coll == COLL_REDUCE_SCATTER)
		return sum(op->in_counts, op->comm->size) * elem;
	return V_BYTES;
}

static struct plan_key key_for(const struct op *op, bool mapped)
{
	return (struct plan_key){ .coll = (int)op->coll,
				  .root = root_matters(op) ? op->root : 0,
				  .size_class = class_of(op_bytes(op)),
				  .elem = (uint8_t)taut_type_size(op->type),
				  .vectors = op->vectors,
				  .mapped = mapped };
}

static bool same_key(const struct plan_key *a, const struct plan_key *b)
{
	return a->coll == b->coll && a->root == b->root && a->size_class == b->size_class && a->elem == b->elem &&
	       a->vectors == b->vectors && a->mapped == b->mapped;
}

static uint32_t bucket_of(const struct plan_key *k)
{
	uint32_t h = (uint32_t)k->coll * 31u + k->size_class;

	h = h * 31u + (uint32_t)k->root;
	return (h * 2u + k->mapped + k->vectors * 7u + k->elem) % PLAN_BUCKETS;
}

static enum taut_status resolve_links(struct exec_plan *p, struct taut_comm *comm)
{
	size_t n = p->sched->npeers;

	p->links = mem_calloc((size_t)p->channels * n, sizeof(struct exec_link *));
	if (!p->links)
		return fail(TAUT_ERR_NOMEM, "connections of a schedule with %zu peers", n);
	if (p->sched->mapped)
		return TAUT_OK;
	for (int c = 0; c < p->channels; c++) {
		for (size_t i = 0; i < n; i++) {
			struct exec_link *l = comm_link(comm, p->sched->peers[i], c);

			if (!l)
				return TAUT_ERR_NOMEM;
			p->links[(size_t)c * n + i] = l;
		}
	}
	return TAUT_OK;
}

static void plan_cleanup(struct exec_plan *p)
{
	sched_free(p->sched);
	mem_free(p->links);
}

static struct cost_query query_for(const struct taut_comm *comm, const struct op *op, const struct plan_key *key)
{
	return (struct cost_query){
		.req = { .coll = op->coll,
			 .rank = comm->rank,
			 .nranks = comm->size,
			 .root = key->root,
			 .node_of = comm->node_of,
			 .nnodes = boot_nodes(comm->boot),
			 .order = comm->order },
		.bytes = class_bytes(key->size_class),
		.elem = key->elem,
		.vectors = op->vectors,
		.mapped = key->mapped,
		.channels = comm->cfg.channels,
		.machine = &comm->machine,
		.tune = comm->tune,
		.filter = comm->filter,
	};
}

static enum taut_status plan_make(struct exec_plan *p, struct taut_comm *comm, const struct op *op,
				  const struct plan_key *key)
{
	struct cost_query q = query_for(comm, op, key);
	struct cost_choice choice;
	char text[256];
	enum taut_status st = cost_choose(&choice, &q);

	if (st)
		return st;
	if (log_now.level >= LOG_INFO && comm->rank == 0 && cost_explain(text, sizeof(text), &q))
		log_info(LOG_COMM, "group \"%s\": %s", comm->name, text);
	/* The barriers of mapped schedules are counted for the rank, not for its channels. */
	*p = (struct exec_plan){ .channels = op->vectors || choice.algo->mapped ? 1 : choice.channels,
				 .proto = choice.proto,
				 .vectors = op->vectors };
	if (p->channels > EXEC_MAX_CHANNELS)
		p->channels = EXEC_MAX_CHANNELS;
	p->piece_bytes = p->proto == PROTO_LL ? LL_PIECE : comm->cfg.slot_bytes;
	if (choice.piece_bytes && choice.piece_bytes < p->piece_bytes)
		p->piece_bytes = choice.piece_bytes;
	if (op->vectors) {
		p->piece_bytes = comm->cfg.slot_bytes;
		p->ll_bytes = V_LL;
	}
	if (choice.algo->mapped)
		p->piece_bytes = MAPPED_PIECE;
	st = sched_build(&p->sched, choice.algo, &q.req);
	return st ? st : resolve_links(p, comm);
}

static enum taut_status plan_find(const struct exec_plan **out, struct taut_comm *comm, const struct op *op,
				  bool mapped)
{
	struct plan_key key = key_for(op, mapped);
	struct plan_entry *e, **bucket;
	enum taut_status st;

	if (!comm->plans)
		comm->plans = mem_calloc(PLAN_BUCKETS, sizeof(struct plan_entry *));
	if (!comm->plans)
		return fail(TAUT_ERR_NOMEM, "the table of plans");
	bucket = &comm->plans[bucket_of(&key)];
	for (e = *bucket; e; e = e->next) {
		if (same_key(&e->key, &key)) {
			*out = &e->plan;
			return TAUT_OK;
		}
	}
	e = mem_calloc(1, sizeof(*e));
	if (!e)
		return fail(TAUT_ERR_NOMEM, "a plan");
	e->key = key;
	st = plan_make(&e->plan, comm, op, &key);
	if (st) {
		plan_cleanup(&e->plan);
		mem_free(e);
		return st;
	}
	e->next = *bucket;
	*bucket = e;
	*out = &e->plan;
	return TAUT_OK;
}

enum taut_status plan_get(const struct exec_plan **out, struct taut_comm *comm, const struct op *op, bool mapped)
{
	struct plan_memo *m = &comm->memo;
	enum taut_status st;

	/* A loop over one call is what small calls are: spare it the search. */
	if (m->plan && m->count == op->count && m->coll == op->coll && m->type == op->type && m->root == op->root &&
	    m->mapped == mapped && !op->vectors) {
		*out = m->plan;
		return TAUT_OK;
	}
	st = plan_find(out, comm, op, mapped);
	if (!st && !op->vectors)
		*m = (struct plan_memo){ *out, op->count, op->coll, op->type, op->root, mapped };
	return st;
}

/* --- what GPUs are asked for --- */
struct plan_asked {
	struct plan_asked *next;
	struct plan_key key;
	const struct sched_algo *algo;
};

/* Does @f leave what GPUs do by themselves? */
static bool allows_own(const struct cost_filter *f, enum sched_coll coll)
{
	static const char *const own[] = { "mapped_one_shot", "mapped_two_shot", "one_shot", "two_shot" };

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (cost_filter_allows(f, coll, sched_algo_find(own[i])))
			return true;
	return false;
}

/* Sets of GPUs are the machines of their schedules. */
static enum taut_status ask(const struct sched_algo **out, const struct taut_comm *comm, const struct op *op,
			    const struct plan_key *key)
{
	struct cost_query q = query_for(comm, op, key);
	struct cost_choice choice;
	enum taut_status st;

	if (comm->nislands > 1) {
		q.req.node_of = comm->island_of;
		q.req.nnodes = comm->nislands;
	}
	st = cost_choose(&choice, &q);
	if (!st)
		*out = cost_filter_allows(comm->filter, op->coll, choice.algo) ? choice.algo : NULL;
	return st;
}

enum taut_status plan_asked(const struct sched_algo **out, const struct op *op)
{
	struct taut_comm *comm = op->comm;
	struct plan_key key = key_for(op, false);
	struct plan_asked *a = comm->asked;
	enum taut_status st;

	*out = NULL;
	if (allows_own(comm->filter, op->coll))
		return TAUT_OK;
	while (a && !same_key(&a->key, &key))
		a = a->next;
	if (a) {
		*out = a->algo;
		return TAUT_OK;
	}
	st = ask(out, comm, op, &key);
	a = st ? NULL : mem_calloc(1, sizeof(*a));
	if (!a)
		return st; /* to be asked again */
	*a = (struct plan_asked){ comm->asked, key, *out };
	comm->asked = a;
	return TAUT_OK;
}

void plans_free(struct taut_comm *comm)
{
	for (int i = 0; comm->plans && i < PLAN_BUCKETS; i++) {
		while (comm->plans[i]) {
			struct plan_entry *e = comm->plans[i];

			comm->plans[i] = e->next;
			plan_cleanup(&e->plan);
			mem_free(e);
		}
	}
	mem_free(comm->plans);
	while (comm->asked) {
		struct plan_asked *a = comm->asked;

		comm->asked = a->next;
		mem_free(a);
	}
}

static double price_message(const struct op *op)
{
	const struct taut_comm *comm = op->comm;
	size_t bytes = op->count * taut_type_size(op->type);

	if (op->root == comm->rank)
		return op->kind == OP_SEND ? cost_copy_us(&comm->machine, bytes) : 0;
	if (op->gpu)
		return gpu_price_message(bytes);
	return cost_message_us(&comm->machine, comm->node_of[op->root] != comm->node_of[comm->rank], bytes);
}

enum taut_status plan_price(double *us, const struct op *op)
{
	struct taut_comm *comm = op->comm;
	struct plan_key key;
	struct cost_query q;
	struct cost_choice choice = { 0 };
	enum taut_status st;

	*us = 0;
	if (op->kind != OP_COLL)
		*us = price_message(op);
	else if (op->gpu)
		*us = gpu_price(op->coll, comm->size, op->count * taut_type_size(op->type));
	if (op->kind != OP_COLL || op->gpu || comm->size == 1)
		return TAUT_OK;
	key = key_for(op, false);
	q = query_for(comm, op, &key);
	st = cost_choose(&choice, &q);
	*us = choice.us;
	return st;
}

const char *comm_last_choice(const struct taut_comm *comm, char *buf, size_t len)
{
	if (!comm->last_plan)
		return "copy";
	snprintf(buf, len, "%s/%s", comm->last_plan->sched->algo,
		 comm->last_plan->sched->mapped ? "mapped" : sched_proto_name(comm->last_plan->proto));
	return buf;
}
