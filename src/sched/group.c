/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/group.h"

#include "base/mem.h"

int group_pieces(const struct group_algo *algo, enum sched_coll coll, int n)
{
	return algo->pieces && n > 1 ? algo->pieces(coll, n) : 1;
}

bool group_fits(const struct group_algo *algo, enum sched_coll coll, int n)
{
	return algo->run[coll] && (!algo->fits || algo->fits(coll, n));
}

static enum taut_status run_alone(enum sched_coll coll, const struct group *g)
{
	if (coll == COLL_BARRIER || !group_has(g, g->me))
		return TAUT_OK;
	if (coll == COLL_ALL_GATHER)
		return group_copy(g, group_piece(g, g->out, g->len, g->me, 0), g->in, g->len);
	if (coll == COLL_REDUCE_SCATTER)
		return group_copy(g, g->out, group_piece(g, g->in, g->len, g->me, 0), g->len);
	return group_copy(g, g->out, g->in, g->len);
}

enum taut_status group_run(const struct group_algo *algo, enum sched_coll coll, const struct group *g)
{
	return g->n == 1 ? run_alone(coll, g) : algo->run[coll](g);
}

/* Places as sched_req.order says, each with the block of its rank. */
static enum taut_status take_order(struct group *g, const struct sched_req *req)
{
	int me = -1, root = -1;

	for (int i = 0; i < g->n; i++) {
		if (req->order[i] == req->rank)
			me = i;
		if (req->order[i] == g->root)
			root = i;
	}
	if (me < 0 || root < 0)
		return fail(TAUT_ERR_ARG, "schedule of %s: rank %d is not in the order of the %d ranks", g->s->algo,
			    me < 0 ? req->rank : g->root, g->n);
	g->ranks = g->pos = req->order;
	g->me = me;
	g->root = root;
	return TAUT_OK;
}

enum taut_status group_build(const struct group_algo *algo, struct sched *s, const struct sched_req *req)
{
	struct group g = {
		.s = s,
		.n = req->nranks,
		.me = req->rank,
		.root = s->root,
		.in = ref_in(0),
		.out = ref_out(0),
		.len = group_pieces(algo, req->coll, req->nranks),
	};
	enum taut_status st = req->order && algo->ordered ? take_order(&g, req) : TAUT_OK;

	s->per_block = g.len;
	return st ? st : algo->run[req->coll](&g);
}

static bool same(struct sched_ref a, struct sched_ref b)
{
	return a.buf == b.buf && (a.chunk == b.chunk || a.buf == BUF_NONE);
}

enum taut_status group_msg(const struct group *g, struct sched_ref src, struct sched_ref dst, int n, int from, int to)
{
	int32_t from_rank = from < 0 ? -1 : group_rank(g, from);
	int32_t to_rank = to < 0 ? -1 : group_rank(g, to);

	return group_step(g, src, dst, n, &from_rank, from >= 0, &to_rank, to >= 0);
}

enum taut_status group_copy(const struct group *g, struct sched_ref dst, struct sched_ref src, int n)
{
	return group_msg(g, src, dst, n, -1, -1);
}

enum taut_status group_step(const struct group *g, struct sched_ref src, struct sched_ref dst, int n,
			    const int32_t *from, int nfrom, const int32_t *to, int nto)
{
	if (nfrom == 0 && same(src, dst))
		dst = ref_none();
	if (nfrom == 0 && nto == 0 && dst.buf == BUF_NONE)
		return TAUT_OK;
	return sched_msg(g->s, src, dst, n, from, (uint32_t)nfrom, to, (uint32_t)nto);
}

static struct sched_ref piece_or_none(const struct group *g, struct sched_ref base, int j)
{
	return base.buf == BUF_NONE ? base : group_piece(g, base, g->len, j, 0);
}

int group_span(const struct group *g, int j, int count)
{
	int n = 1;

	while (n < count && j + n < g->n && group_has(g, j) && group_slot(g, j + n) == group_slot(g, j) + n)
		n++;
	return n;
}

enum taut_status group_move(const struct group *g, struct sched_ref src, struct sched_ref dst, int first, int count,
			    int from, int to)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0, n; i < count && !st; i += n) {
		int j = group_wrap(g, first + i);

		n = group_span(g, j, count - i);
		if (group_has(g, j))
			st = group_msg(g, piece_or_none(g, src, j), piece_or_none(g, dst, j), n * g->len, from, to);
	}
	return st;
}

enum taut_status group_others(int32_t **out, const struct group *g, bool rotated)
{
	int32_t *ranks = mem_calloc((size_t)g->n, sizeof(*ranks));
	int n = 0;

	if (!ranks)
		return fail(TAUT_ERR_NOMEM, "schedule of %s: no memory for a list of %d ranks", g->s->algo, g->n);
	for (int i = rotated ? 1 : 0; n < g->n - 1; i++) {
		int place = rotated ? group_wrap(g, g->me + i) : i;

		if (place != g->me)
			ranks[n++] = group_rank(g, place);
	}
	*out = ranks;
	return TAUT_OK;
}

struct sched_ref group_scratch(const struct group *g, int n)
{
	struct sched_ref ref = ref_scratch(g->s->scratch_chunks);

	g->s->scratch_chunks += n;
	return ref;
}
