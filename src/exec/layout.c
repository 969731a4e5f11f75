/* SPDX-License-Identifier: Apache-2.0 */
/* Where a chunk of a slice lies. Regular layouts: channel c has a range of every block;
 * the range is cut in slices of per_block pieces each. Layouts with counts: one channel,
 * and every block is cut by the same piece size, so that both ends of a message know its
 * length from the block alone. */
#include "exec/exec.h"

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t ceil_div(size_t a, size_t b)
{
	return a ? (a - 1) / b + 1 : 0; /* no overflow */
}

static const struct exec_layout *layout_of(const struct exec_call *call, uint8_t buf)
{
	return buf == BUF_IN ? &call->in_layout : &call->out_layout;
}

struct exec_span exec_span_of(const struct exec_task *t, const struct exec_chan *c, struct sched_ref ref, int run)
{
	const struct exec_call *call = &t->call;
	const struct sched *s = call->plan->sched;
	uint32_t chunk = (uint32_t)ref.chunk + (uint32_t)run, parts = (uint32_t)s->per_block;
	uint32_t block = parts == 1 ? chunk : chunk / parts, part = parts == 1 ? 0 : chunk % parts;
	size_t start = c->first + (c->slice * parts + part) * t->piece, end = c->end;
	const struct exec_layout *l = layout_of(call, ref.buf);
	unsigned char *base = ref.buf == BUF_OUT ? call->out : (unsigned char *)(uintptr_t)call->in;

	if (ref.buf == BUF_NONE)
		return (struct exec_span){ NULL, 0 };
	if (ref.buf == BUF_SCRATCH) {
		size_t channel = (size_t)(c - t->chan);

		base = call->scratch + (channel * (size_t)s->scratch_chunks + chunk) * t->piece * call->elem;
		return (struct exec_span){ base, start < end ? min_size(t->piece, end - start) * call->elem : 0 };
	}
	if (l->counts) {
		end = l->counts[block];
		base += l->displs[block] * call->elem;
	} else {
		base += block * l->block * call->elem;
		end = call->plan->vectors ? l->block : end;
	}
	if (start >= end)
		return (struct exec_span){ base, 0 };
	return (struct exec_span){ base + start * call->elem, min_size(t->piece, end - start) * call->elem };
}

size_t exec_part_len(const struct exec_task *t, const struct exec_chan *c, int part)
{
	size_t start = c->first + (c->slice * (size_t)t->call.plan->sched->per_block + (size_t)part) * t->piece;

	return start < c->end ? min_size(t->piece, c->end - start) * t->call.elem : 0;
}

static size_t longest(const struct exec_layout *l, int blocks)
{
	size_t most = 0;

	if (!l->counts)
		return l->block;
	for (int b = 0; b < blocks; b++)
		if (l->counts[b] > most)
			most = l->counts[b];
	return most;
}

/* Elements of a piece for a range of @len elements: as many slices as the limit needs, all
 * of about one length, pieces starting on whole cache lines where that costs nothing. */
static size_t piece_for(size_t len, size_t parts, size_t limit, size_t elem)
{
	size_t line = 64 / elem ? 64 / elem : 1, slices, piece;

	if (!len)
		return 1;
	if (limit < 1)
		limit = 1;
	if (limit > len) /* mapped steps have none */
		limit = len;
	slices = ceil_div(len, parts * limit);
	piece = ceil_div(len, parts * slices);
	if (slices == 1 && piece * parts == len)
		return piece;
	if (ceil_div(piece, line) * line <= limit)
		piece = ceil_div(piece, line) * line;
	return piece;
}

/* The part of a block that channel @i of @n works on. */
static void channel_range(struct exec_chan *c, size_t block, size_t elem, int i, int n)
{
	size_t line = 64 / elem ? 64 / elem : 1, share = ceil_div(ceil_div(block, (size_t)n), line) * line;

	c->first = min_size((size_t)i * share, block);
	c->end = min_size(c->first + share, block);
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t call_piece(const struct exec_call *call)
{
	const struct exec_plan *p = call->plan;
	size_t parts = (size_t)p->sched->per_block, limit = p->piece_bytes / call->elem;
	struct exec_chan c;

	if (p->vectors)
		return limit ? limit : 1;
	channel_range(&c, max_size(call->in_layout.block, call->out_layout.block), call->elem, 0, p->channels);
	return piece_for(c.end - c.first, parts, limit, call->elem);
}

size_t exec_scratch_bytes(const struct exec_call *call)
{
	const struct exec_plan *p = call->plan;

	return (size_t)p->channels * (size_t)p->sched->scratch_chunks * call_piece(call) * call->elem;
}

/* The shape of a call: the same for as long as the same call is repeated. */
static void shape_task(struct exec_task *t, const struct exec_call *call)
{
	const struct exec_plan *p = call->plan;
	const struct sched *s = p->sched;
	size_t parts = (size_t)s->per_block;
	size_t block = max_size(longest(&call->in_layout, sched_coll_blocks(s->coll, false, s->nranks)),
				longest(&call->out_layout, sched_coll_blocks(s->coll, true, s->nranks)));

	t->piece = call_piece(call);
	t->shape_open = 0;
	for (int i = 0; i < p->channels; i++) {
		struct exec_chan *c = &t->chan[i];

		channel_range(c, block, call->elem, i, p->channels);
		c->nslices = s->nsteps ? ceil_div(c->end - c->first, parts * t->piece) : 0;
		t->shape_open += c->nslices > 0;
	}
	t->merge = !p->vectors && p->channels == 1 && t->chan[0].nslices == 1 && t->piece * parts == block;
}

static bool same_shape(const struct exec_call *a, const struct exec_call *b)
{
	return a->plan == b->plan && !b->plan->vectors && a->elem == b->elem &&
	       a->in_layout.block == b->in_layout.block && a->out_layout.block == b->out_layout.block;
}

void exec_coll_init(struct exec_task *t, struct exec_net *net, const struct exec_call *call)
{
	bool again = t->kind == EXEC_COLL && same_shape(&t->call, call);

	t->kind = EXEC_COLL;
	t->net = net;
	t->after = NULL;
	t->call = *call;
	t->npending = 0;
	if (!again)
		shape_task(t, call);
	for (int i = 0; i < call->plan->channels; i++) {
		struct exec_chan *c = &t->chan[i];

		c->pc = c->sent = c->got = 0;
		c->run = 0;
		c->slice = 0;
		c->computed = c->in_tmp = c->waiting = false;
	}
	t->nopen = t->shape_open;
	t->done = !t->nopen;
}
