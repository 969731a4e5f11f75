/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const char *const coll_names[COLL_COUNT] = {
	[COLL_ALL_REDUCE] = "all_reduce", [COLL_ALL_GATHER] = "all_gather", [COLL_REDUCE_SCATTER] = "reduce_scatter",
	[COLL_BROADCAST] = "broadcast",	  [COLL_REDUCE] = "reduce",	    [COLL_GATHER] = "gather",
	[COLL_SCATTER] = "scatter",	  [COLL_ALL_TO_ALL] = "all_to_all", [COLL_BARRIER] = "barrier",
};

const char *sched_coll_name(enum sched_coll coll)
{
	return (unsigned)coll < COLL_COUNT ? coll_names[coll] : "unknown collective";
}

bool sched_coll_reduces(enum sched_coll coll)
{
	return coll == COLL_ALL_REDUCE || coll == COLL_REDUCE_SCATTER || coll == COLL_REDUCE;
}

bool sched_coll_has_root(enum sched_coll coll)
{
	return coll == COLL_BROADCAST || coll == COLL_REDUCE || coll == COLL_GATHER || coll == COLL_SCATTER;
}

int sched_coll_blocks(enum sched_coll coll, bool out, int nranks)
{
	switch (coll) {
	case COLL_ALL_GATHER:
	case COLL_GATHER:
		return out ? nranks : 1;
	case COLL_REDUCE_SCATTER:
	case COLL_SCATTER:
		return out ? 1 : nranks;
	case COLL_ALL_TO_ALL:
		return nranks;
	default:
		return 1;
	}
}

/* --- Appending --- */

static enum taut_status no_memory(const struct sched *s)
{
	return fail(TAUT_ERR_NOMEM, "schedule of %s for rank %d of %d: no memory after %u steps", s->algo, s->rank,
		    s->nranks, s->nsteps);
}

static enum taut_status grow_steps(struct sched *s)
{
	uint32_t cap = s->cap_steps ? 2 * s->cap_steps : 16;
	struct sched_step *steps;

	if (s->nsteps < s->cap_steps)
		return TAUT_OK;
	steps = mem_realloc(s->steps, cap, sizeof(*steps));
	if (!steps)
		return no_memory(s);
	s->steps = steps;
	s->cap_steps = cap;
	return TAUT_OK;
}

static enum taut_status grow_peers(struct sched *s, uint32_t n)
{
	uint32_t cap = s->cap_peers ? s->cap_peers : 16;
	int32_t *peers;

	while (cap < s->npeers + n)
		cap *= 2;
	if (cap == s->cap_peers)
		return TAUT_OK;
	peers = mem_realloc(s->peers, cap, sizeof(*peers));
	if (!peers)
		return no_memory(s);
	s->peers = peers;
	s->cap_peers = cap;
	return TAUT_OK;
}

/* Steps in a row mostly have the same partners, which then are kept once. */
static enum taut_status add_peers(struct sched *s, uint32_t *first, const int32_t *ranks, uint32_t n, uint32_t old,
				  uint32_t nold)
{
	enum taut_status st;

	if (n == 0) {
		*first = 0;
		return TAUT_OK;
	}
	if (n == nold && memcmp(s->peers + old, ranks, n * sizeof(*ranks)) == 0) {
		*first = old;
		return TAUT_OK;
	}
	st = grow_peers(s, n);
	if (st)
		return st;
	memcpy(s->peers + s->npeers, ranks, n * sizeof(*ranks));
	*first = s->npeers;
	s->npeers += n;
	return TAUT_OK;
}

static enum taut_status append(struct sched *s, struct sched_step step, const int32_t *from, const int32_t *to)
{
	static const struct sched_step none;
	struct sched_step last = s->nsteps ? s->steps[s->nsteps - 1] : none;
	enum taut_status st = grow_steps(s);

	if (!st)
		st = add_peers(s, &step.from, from, step.nfrom, last.from, last.nfrom);
	if (!st)
		st = add_peers(s, &step.to, to, step.nto, last.to, last.nto);
	if (st)
		return st;
	s->steps[s->nsteps++] = step;
	return TAUT_OK;
}

enum taut_status sched_msg(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *from,
			   uint32_t nfrom, const int32_t *to, uint32_t nto)
{
	struct sched_step step = { .op = STEP_MSG, .src = src, .dst = dst, .nchunks = n, .nfrom = nfrom, .nto = nto };

	return append(s, step, from, to);
}

enum taut_status sched_send(struct sched *s, struct sched_ref src, int n, int to)
{
	int32_t peer = to;

	return sched_msg(s, src, ref_none(), n, NULL, 0, &peer, 1);
}

enum taut_status sched_recv(struct sched *s, struct sched_ref dst, int n, int from)
{
	int32_t peer = from;

	return sched_msg(s, ref_none(), dst, n, &peer, 1, NULL, 0);
}

enum taut_status sched_copy(struct sched *s, struct sched_ref dst, struct sched_ref src, int n)
{
	return sched_msg(s, src, dst, n, NULL, 0, NULL, 0);
}

enum taut_status sched_reduce(struct sched *s, struct sched_ref dst, struct sched_ref a, struct sched_ref b, int n)
{
	struct sched_step step = { .op = STEP_REDUCE, .src = a, .src2 = b, .dst = dst, .nchunks = n };

	return append(s, step, NULL, NULL);
}

enum taut_status sched_barrier(struct sched *s, const int32_t *ranks, uint32_t n)
{
	struct sched_step step = { .op = STEP_BARRIER, .nchunks = 1, .nfrom = n };

	s->mapped = true;
	return append(s, step, ranks, NULL);
}

enum taut_status sched_pull(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *from,
			    uint32_t nfrom, const int32_t *to, uint32_t nto)
{
	struct sched_step step = { .op = STEP_PULL, .src = src, .dst = dst, .nchunks = n, .nfrom = nfrom, .nto = nto };

	s->mapped = true;
	return append(s, step, from, to);
}

enum taut_status sched_push(struct sched *s, struct sched_ref src, struct sched_ref dst, int n, const int32_t *to,
			    uint32_t nto)
{
	struct sched_step step = { .op = STEP_PUSH, .src = src, .dst = dst, .nchunks = n, .nto = nto };

	s->mapped = true;
	return append(s, step, NULL, to);
}

/* --- Building --- */

static enum taut_status check_req(const struct sched_algo *algo, const struct sched_req *req)
{
	if ((unsigned)req->coll >= COLL_COUNT)
		return fail(TAUT_ERR_ARG, "schedule: %d is no collective", (int)req->coll);
	if (req->nranks < 1 || req->rank < 0 || req->rank >= req->nranks)
		return fail(TAUT_ERR_ARG, "schedule: rank %d of %d ranks: wanted 0 to %d", req->rank, req->nranks,
			    req->nranks - 1);
	if (sched_coll_has_root(req->coll) && (req->root < 0 || req->root >= req->nranks))
		return fail(TAUT_ERR_ARG, "schedule: root %d of %d ranks: wanted 0 to %d", req->root, req->nranks,
			    req->nranks - 1);
	if (!sched_algo_fits(algo, req))
		return fail(TAUT_ERR_ARG, "algorithm %s has no %s for %d ranks on %d machine(s)", algo->name,
			    sched_coll_name(req->coll), req->nranks, req->node_of ? req->nnodes : 1);
	return TAUT_OK;
}

static enum taut_status build_alone(struct sched *s)
{
	return s->coll == COLL_BARRIER ? TAUT_OK : sched_copy(s, ref_out(0), ref_in(0), 1);
}

enum taut_status sched_build(struct sched **out, const struct sched_algo *algo, const struct sched_req *req)
{
	enum taut_status st = check_req(algo, req);
	struct sched *s;

	if (st)
		return st;
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return fail(TAUT_ERR_NOMEM, "schedule of %s for rank %d of %d: no memory", algo->name, req->rank,
			    req->nranks);
	s->coll = req->coll;
	s->algo = algo->name;
	s->rank = req->rank;
	s->nranks = req->nranks;
	s->root = sched_coll_has_root(req->coll) ? req->root : 0;
	s->per_block = 1;
	st = req->nranks == 1 ? build_alone(s) : algo->build(s, req);
	if (!st)
		st = sched_check(s);
	if (st)
		goto err_free;
	*out = s;
	return TAUT_OK;
err_free:
	sched_free(s);
	return st;
}

void sched_free(struct sched *s)
{
	if (!s)
		return;
	mem_free(s->steps);
	mem_free(s->peers);
	mem_free(s);
}

/* --- Printing --- */

struct text {
	char *buf;
	size_t len, used; /* used may pass len: nothing more is written then */
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	size_t room = t->used < t->len ? t->len - t->used : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room ? t->buf + t->used : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->used += (size_t)n;
}

static void put_ref(struct text *t, const char *before, struct sched_ref r, int n)
{
	static const char *const names[] = { "none", "in", "out", "scratch" };

	if (r.buf == BUF_NONE)
		return;
	put(t, "%s%s[%d", before, r.buf <= BUF_SCRATCH ? names[r.buf] : "?", r.chunk);
	if (n > 1)
		put(t, "..%d", r.chunk + n - 1);
	put(t, "]");
}

static void put_peers(struct text *t, const char *before, const struct sched *s, uint32_t first, uint32_t n)
{
	if (n)
		put(t, "%s", before);
	for (uint32_t i = 0; i < n; i++)
		put(t, "%s%d", i ? "," : "", s->peers[first + i]);
}

static const char *msg_verb(const struct sched_step *p)
{
	static const char *const verbs[16] = {
		"nothing",
		"send",
		"copy",
		"copy+send",
		"nothing",
		"send",
		"copy",
		"copy+send",
		"drop",
		"recv+send",
		"recv",
		"recv+copy+send",
		"recv+reduce+drop",
		"recv+reduce+send",
		"recv+reduce",
		"recv+reduce+copy+send",
	};

	return verbs[8 * (p->nfrom > 0) + 4 * (p->src.buf != BUF_NONE) + 2 * (p->dst.buf != BUF_NONE) + (p->nto > 0)];
}

static void put_step(struct text *t, const struct sched *s, const struct sched_step *p)
{
	static const char *const verbs[] = { NULL, "reduce", "barrier", "pull", "push" };

	put(t, "%s", p->op == STEP_MSG ? msg_verb(p) : p->op <= STEP_PUSH ? verbs[p->op] : "?");
	put_ref(t, " ", p->src, p->nchunks);
	put_ref(t, " and ", p->src2, p->nchunks);
	put_peers(t, " from ", s, p->from, p->nfrom);
	put_ref(t, " into ", p->dst, p->nchunks);
	put_peers(t, " to ", s, p->to, p->nto);
}

size_t sched_print_step(const struct sched *s, uint32_t i, char *buf, size_t len)
{
	struct text t = { buf, len, 0 };

	if (len)
		buf[0] = '\0';
	put_step(&t, s, &s->steps[i]);
	return t.used;
}

size_t sched_print(const struct sched *s, char *buf, size_t len)
{
	struct text t = { buf, len, 0 };

	if (len)
		buf[0] = '\0';
	put(&t, "%s by %s, rank %d of %d", sched_coll_name(s->coll), s->algo, s->rank, s->nranks);
	if (sched_coll_has_root(s->coll))
		put(&t, ", root %d", s->root);
	put(&t, ", %d chunk%s a block", s->per_block, s->per_block == 1 ? "" : "s");
	if (s->scratch_chunks)
		put(&t, ", %d of scratch", s->scratch_chunks);
	put(&t, "\n");
	for (uint32_t i = 0; i < s->nsteps; i++) {
		put(&t, "%4u ", i);
		put_step(&t, s, &s->steps[i]);
		put(&t, "\n");
	}
	return t.used;
}
