/* SPDX-License-Identifier: Apache-2.0 */
/* All-to-all with one partner at a time (pairwise, any length: two ranks swap their blocks, so that it may be in
 * place), and in log2(n) trips (bruck, for short blocks: each is handed on several times and copied in between). */
#include "sched/families.h"

#include "base/mem.h"

static enum taut_status build_pairwise(struct sched *s, const struct sched_req *req)
{
	int n = req->nranks, me = req->rank;
	enum taut_status st = sched_copy(s, ref_out(me), ref_in(me), 1);

	for (int i = 0; i < n && !st; i++) {
		int partner = (i + n - me) % n; /* whose partner in this round is this rank */

		if (partner == me)
			continue;
		st = sched_send(s, ref_in(partner), 1, partner);
		if (!st)
			st = sched_recv(s, ref_out(partner), 1, partner);
	}
	return st;
}

/* Item i is what is to go i ranks further; in the round of distance d all items whose number
 * has that bit go on by d ranks. They are packed, so that they are one run. */
struct bruck {
	struct sched *s;
	int n, me;
	struct sched_ref *at;  /* where item i is now */
	struct sched_ref pack; /* room for a round's items */
};

/* Copies that follow each other in source and target become one. */
struct copy_run {
	struct sched_ref src, dst;
	int n;
};

static enum taut_status flush_copy(struct sched *s, const struct copy_run *c)
{
	return c->n ? sched_copy(s, c->dst, c->src, c->n) : TAUT_OK;
}

static bool follows(struct sched_ref a, struct sched_ref b, int n)
{
	return a.buf == b.buf && b.chunk == a.chunk + n;
}

static enum taut_status add_copy(struct sched *s, struct copy_run *c, struct sched_ref dst, struct sched_ref src)
{
	enum taut_status st;

	if (c->n && follows(c->src, src, c->n) && follows(c->dst, dst, c->n)) {
		c->n++;
		return TAUT_OK;
	}
	st = flush_copy(s, c);
	*c = (struct copy_run){ src, dst, 1 };
	return st;
}

/* Brings the items of distance @d together; *@run says where they are. */
static enum taut_status pack_items(const struct bruck *b, int d, struct sched_ref *run, int *count)
{
	struct copy_run copy = { .n = 0 };
	enum taut_status st = TAUT_OK;
	bool one_run = true;

	*run = b->at[d];
	*count = 0;
	for (int i = d; i < b->n; i++)
		if (i & d)
			one_run &= follows(*run, b->at[i], (*count)++);
	if (one_run)
		return TAUT_OK;
	*run = b->pack;
	for (int i = d, k = 0; i < b->n && !st; i++)
		if (i & d)
			st = add_copy(b->s, &copy, ref_at(b->pack, k++), b->at[i]);
	return st ? st : flush_copy(b->s, &copy);
}

/* Every circle of partners has a rank that sends first and one that receives first. */
static enum taut_status bruck_round(const struct bruck *b, int d)
{
	int to = (b->me + d) % b->n, from = (b->me + b->n - d) % b->n, count;
	struct sched_ref out, in = ref_scratch(b->s->scratch_chunks);
	enum taut_status st = pack_items(b, d, &out, &count);
	bool first = count == 1 || !(b->me / d % 2);

	b->s->scratch_chunks += count;
	if (!st && first)
		st = sched_send(b->s, out, count, to);
	if (!st)
		st = sched_recv(b->s, in, count, from);
	if (!st && !first)
		st = sched_send(b->s, out, count, to);
	for (int i = d, k = 0; i < b->n; i++)
		if (i & d)
			b->at[i] = ref_at(in, k++);
	return st;
}

static enum taut_status bruck_end(const struct bruck *b)
{
	struct copy_run copy = { .n = 0 };
	enum taut_status st = TAUT_OK;

	for (int r = 0; r < b->n && !st; r++)
		st = add_copy(b->s, &copy, ref_out(r), b->at[(b->me + b->n - r) % b->n]);
	return st ? st : flush_copy(b->s, &copy);
}

static enum taut_status build_bruck(struct sched *s, const struct sched_req *req)
{
	struct bruck b = { .s = s, .n = req->nranks, .me = req->rank, .pack = ref_scratch(0) };
	enum taut_status st = TAUT_OK;

	b.at = mem_calloc((size_t)b.n, sizeof(*b.at));
	if (!b.at)
		return fail(TAUT_ERR_NOMEM, "schedule of bruck: no memory for %d items", b.n);
	for (int i = 0; i < b.n; i++)
		b.at[i] = ref_in((b.me + i) % b.n);
	s->scratch_chunks = (b.n + 1) / 2;
	for (int d = 1; d < b.n && !st; d *= 2)
		st = bruck_round(&b, d);
	if (!st)
		st = bruck_end(&b);
	mem_free(b.at);
	return st;
}

const struct sched_algo sched_pairwise = {
	.name = "pairwise",
	.colls = BIT(COLL_ALL_TO_ALL),
	.vectors = BIT(COLL_ALL_TO_ALL),
	.swaps = true,
	.build = build_pairwise,
};

const struct sched_algo sched_bruck = {
	.name = "bruck",
	.colls = BIT(COLL_ALL_TO_ALL),
	.build = build_bruck,
};
