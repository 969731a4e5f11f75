/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that can address each other's buffers: no messages, two barriers, and in between
 * every rank fetches what it needs (one_shot), or does an equal share of the work for all
 * (two_shot). The first barrier says that buffers are ready, the last that nobody needs them
 * any more. Ranks start with their next neighbour, so that no memory is hit by all at once. */
#include "sched/families.h"

#include "base/mem.h"

struct mapped {
	struct sched *s;
	int n, me, root;
	int32_t *all, *others; /* in rank order; from the next rank round */
};

static enum taut_status meet(const struct mapped *m)
{
	return sched_barrier(m->s, m->all, (uint32_t)m->n);
}

static enum taut_status pull_from(const struct mapped *m, struct sched_ref dst, struct sched_ref src, int n, int from)
{
	int32_t rank = from;

	return sched_pull(m->s, src, dst, n, &rank, 1, NULL, 0);
}

static enum taut_status pull_all(const struct mapped *m, struct sched_ref dst, struct sched_ref src, int nto)
{
	return sched_pull(m->s, src, dst, 1, m->all, (uint32_t)m->n, m->others, (uint32_t)nto);
}

/* --- One shot: what happens between the barriers --- */

/* In place nobody may write its output while others read it as input. */
static enum taut_status one_all_reduce(const struct mapped *m)
{
	m->s->scratch_chunks = 1;
	return pull_all(m, ref_scratch(0), ref_in(0), 0);
}

static enum taut_status one_all_gather(const struct mapped *m)
{
	enum taut_status st = sched_copy(m->s, ref_out(m->me), ref_in(0), 1);

	for (int i = 0; i < m->n - 1 && !st; i++)
		st = pull_from(m, ref_out(m->others[i]), ref_in(0), 1, m->others[i]);
	return st;
}

static enum taut_status one_reduce_scatter(const struct mapped *m)
{
	return pull_all(m, ref_out(0), ref_in(m->me), 0);
}

static enum taut_status one_broadcast(const struct mapped *m)
{
	if (m->me == m->root)
		return sched_copy(m->s, ref_out(0), ref_in(0), 1);
	return pull_from(m, ref_out(0), ref_in(0), 1, m->root);
}

static enum taut_status one_reduce(const struct mapped *m)
{
	return m->me == m->root ? pull_all(m, ref_out(0), ref_in(0), 0) : TAUT_OK;
}

static enum taut_status one_gather(const struct mapped *m)
{
	int32_t root = m->root;

	if (m->me == m->root)
		return sched_copy(m->s, ref_out(m->me), ref_in(0), 1);
	return sched_push(m->s, ref_in(0), ref_out(m->me), 1, &root, 1);
}

static enum taut_status one_scatter(const struct mapped *m)
{
	if (m->me == m->root)
		return sched_copy(m->s, ref_out(0), ref_in(m->me), 1);
	return pull_from(m, ref_out(0), ref_in(m->me), 1, m->root);
}

static enum taut_status one_all_to_all(const struct mapped *m)
{
	enum taut_status st = sched_copy(m->s, ref_out(m->me), ref_in(m->me), 1);

	for (int i = 0; i < m->n - 1 && !st; i++)
		st = pull_from(m, ref_out(m->others[i]), ref_in(m->me), 1, m->others[i]);
	return st;
}

/* --- Two shots: chunk r is rank r's share --- */

static enum taut_status two_all_reduce(const struct mapped *m)
{
	m->s->per_block = m->n;
	return pull_all(m, ref_out(m->me), ref_in(m->me), m->n - 1);
}

static enum taut_status two_reduce(const struct mapped *m)
{
	int32_t root = m->root;
	enum taut_status st;

	m->s->per_block = m->n;
	if (m->me == m->root)
		return pull_all(m, ref_out(m->me), ref_in(m->me), 0);
	m->s->scratch_chunks = m->n; /* of which the one of the right part is used */
	st = pull_all(m, ref_scratch(m->me), ref_in(m->me), 0);
	return st ? st : sched_push(m->s, ref_scratch(m->me), ref_out(m->me), 1, &root, 1);
}

static enum taut_status two_broadcast(const struct mapped *m)
{
	int32_t root = m->root;
	enum taut_status st;
	int kept = 0;

	m->s->per_block = m->n;
	if (m->me == m->root) {
		st = sched_copy(m->s, ref_out(0), ref_in(0), m->n);
		return st ? st : sched_push(m->s, ref_in(m->me), ref_out(m->me), 1, m->others, (uint32_t)m->n - 1);
	}
	for (int i = 0; i < m->n - 1; i++)
		if (m->others[i] != m->root)
			m->others[kept++] = m->others[i];
	return sched_pull(m->s, ref_in(m->me), ref_out(m->me), 1, &root, 1, m->others, (uint32_t)kept);
}

/* --- The frame --- */

typedef enum taut_status (*mapped_fn)(const struct mapped *m);

static enum taut_status build_between(const struct mapped *m, mapped_fn body)
{
	enum taut_status st = meet(m);

	if (st || !body)
		return st;
	st = body(m);
	if (!st)
		st = meet(m);
	if (!st && body == one_all_reduce)
		st = sched_copy(m->s, ref_out(0), ref_scratch(0), 1);
	return st;
}

static enum taut_status build_mapped(struct sched *s, const struct sched_req *req, mapped_fn body)
{
	struct mapped m = { .s = s, .n = req->nranks, .me = req->rank, .root = s->root };
	enum taut_status st;

	m.all = mem_calloc(2 * (size_t)m.n, sizeof(*m.all));
	if (!m.all)
		return fail(TAUT_ERR_NOMEM, "schedule of %s: no memory for a list of %d ranks", s->algo, m.n);
	m.others = m.all + m.n;
	for (int i = 0; i < m.n; i++) {
		m.all[i] = i;
		m.others[i] = (m.me + 1 + i) % m.n;
	}
	st = build_between(&m, body);
	mem_free(m.all);
	return st;
}

static enum taut_status build_one_shot(struct sched *s, const struct sched_req *req)
{
	static const mapped_fn bodies[COLL_COUNT] = {
		[COLL_ALL_REDUCE] = one_all_reduce,
		[COLL_ALL_GATHER] = one_all_gather,
		[COLL_REDUCE_SCATTER] = one_reduce_scatter,
		[COLL_BROADCAST] = one_broadcast,
		[COLL_REDUCE] = one_reduce,
		[COLL_GATHER] = one_gather,
		[COLL_SCATTER] = one_scatter,
		[COLL_ALL_TO_ALL] = one_all_to_all,
	};

	return build_mapped(s, req, bodies[req->coll]);
}

static enum taut_status build_two_shot(struct sched *s, const struct sched_req *req)
{
	static const mapped_fn bodies[COLL_COUNT] = {
		[COLL_ALL_REDUCE] = two_all_reduce,
		[COLL_REDUCE] = two_reduce,
		[COLL_BROADCAST] = two_broadcast,
	};

	return build_mapped(s, req, bodies[req->coll]);
}

static bool one_shot_fits(const struct sched_req *req)
{
	return !sched_coll_reduces(req->coll) || req->nranks <= SCHED_MAX_OPERANDS;
}

static bool two_shot_fits(const struct sched_req *req)
{
	return req->nranks <= SCHED_MAX_OPERANDS;
}

const struct sched_algo sched_mapped_one_shot = {
	.name = "mapped_one_shot",
	.colls = BIT(COLL_COUNT) - 1,
	.vectors = BIT(COLL_ALL_GATHER) | BIT(COLL_REDUCE_SCATTER),
	.mapped = true,
	.fits = one_shot_fits,
	.build = build_one_shot,
};

const struct sched_algo sched_mapped_two_shot = {
	.name = "mapped_two_shot",
	.colls = BIT(COLL_ALL_REDUCE) | BIT(COLL_REDUCE) | BIT(COLL_BROADCAST),
	.mapped = true,
	.fits = two_shot_fits,
	.build = build_two_shot,
};
