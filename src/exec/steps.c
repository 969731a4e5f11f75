/* SPDX-License-Identifier: Apache-2.0 */
/* Message steps: one piece (one chunk of one slice) at a time. A piece may be left and
 * resumed at any send or receive; what is done already is kept in the channel. */
#include <string.h>

#include "base/mem.h"
#include "exec/exec.h"

/* A piece while it is worked on. */
struct piece {
	struct exec_span src, dst;
	size_t len;
	bool ll;
	struct exec_link *const *from, *const *to;
	const int32_t *from_ranks;
};

static struct exec_link *const *links_of(const struct exec_task *t, const struct exec_chan *c, uint32_t first)
{
	const struct exec_plan *p = t->call.plan;

	return p->links + (size_t)(c - t->chan) * p->sched->npeers + first;
}

unsigned char *exec_tmp(struct exec_chan *c, size_t len)
{
	if (c->tmp_len < len) {
		mem_free(c->tmp);
		c->tmp = mem_aligned(64, len);
		c->tmp_len = c->tmp ? len : 0;
		if (!c->tmp)
			fail(TAUT_ERR_NOMEM, "%zu bytes of working memory for a collective", len);
	}
	return c->tmp;
}

bool exec_may_write(struct exec_task *t, const unsigned char *p, size_t len)
{
	for (uint32_t i = 0; i < t->npending;) {
		struct exec_pending *q = &t->pending[i];

		if (q->tx->ops->send_idle(q->tx)) {
			*q = t->pending[--t->npending];
			continue;
		}
		if (p < q->to && q->from < p + len)
			return false;
		i++;
	}
	return true;
}

static enum exec_step from_wire(enum wire_result r)
{
	switch (r) {
	case WIRE_DONE:
		return EXEC_MOVED;
	case WIRE_AGAIN:
		return EXEC_BLOCKED;
	case WIRE_MISMATCH:
		return EXEC_DIFFERS;
	default:
		return EXEC_FAILED;
	}
}

static enum exec_step need_tx(struct exec_task *t, struct exec_link *l)
{
	if (__builtin_expect(l->tx != NULL, 1))
		return EXEC_MOVED;
	return t->net->attach_tx(t->net->ctx, l) ? EXEC_FAILED : EXEC_MOVED;
}

static enum exec_step need_rx(struct exec_task *t, struct exec_link *l)
{
	if (__builtin_expect(l->rx != NULL, 1))
		return EXEC_MOVED;
	if (t->net->attach_rx(t->net->ctx, l))
		return EXEC_FAILED;
	return l->rx ? EXEC_MOVED : EXEC_BLOCKED;
}

/* Sends [@p, @p + @len), which stays as it is until the task is done or exec_may_write() says so. */
static enum exec_step send_stable(struct exec_task *t, struct exec_link *l, const struct piece *x,
				  const unsigned char *p)
{
	struct wire_conn *tx = l->tx;
	enum wire_result r;

	if (x->ll)
		return from_wire(tx->ops->send_ll(tx, p, x->len, t->call.sig));
	if (!tx->ops->send_idle)
		return from_wire(tx->ops->send(tx, p, x->len, t->call.sig));
	if (t->npending == EXEC_MAX_PENDING && !exec_may_write(t, p, 0) && t->npending == EXEC_MAX_PENDING)
		return EXEC_BLOCKED;
	if (t->npending == EXEC_MAX_PENDING)
		return EXEC_BLOCKED;
	r = (t->call.by_ref && x->len >= EXEC_REF_BYTES && tx->ops->send_ref ? tx->ops->send_ref : tx->ops->send)(
		tx, p, x->len, t->call.sig);
	if (r == WIRE_DONE && !tx->ops->send_idle(tx))
		t->pending[t->npending++] = (struct exec_pending){ tx, p, p + x->len };
	return from_wire(r);
}

/* Sends from memory that is reused right after. */
static enum exec_step send_copy(struct exec_task *t, struct exec_link *l, const struct piece *x, const unsigned char *p)
{
	void *slot;

	if (x->ll)
		return from_wire(l->tx->ops->send_ll(l->tx, p, x->len, t->call.sig));
	slot = l->tx->ops->send_ptr(l->tx);
	if (!slot)
		return l->tx->broken ? EXEC_FAILED : EXEC_BLOCKED;
	copy_bytes(slot, p, x->len);
	l->tx->ops->send_commit(l->tx, x->len, t->call.sig);
	return EXEC_MOVED;
}

static enum exec_step send_all(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
			       const struct piece *x, const unsigned char *p)
{
	for (; c->sent < s->nto; c->sent++) {
		enum exec_step r = need_tx(t, x->to[c->sent]);

		if (r == EXEC_MOVED)
			r = c->in_tmp ? send_copy(t, x->to[c->sent], x, p) : send_stable(t, x->to[c->sent], x, p);
		if (r != EXEC_MOVED)
			return r;
	}
	return EXEC_MOVED;
}

static enum exec_step recv_plain(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
				 const struct piece *x)
{
	struct exec_link *l = x->from[0];
	enum exec_step r;

	if (!c->computed) {
		unsigned char *dst = x->dst.p;

		if (!dst) {
			dst = exec_tmp(c, x->len);
			c->in_tmp = true;
			if (!dst)
				return EXEC_FAILED;
		}
		if (t->npending && !exec_may_write(t, dst, x->len))
			return EXEC_BLOCKED;
		r = need_rx(t, l);
		if (r != EXEC_MOVED)
			return r;
		r = from_wire((x->ll ? l->rx->ops->recv_ll : l->rx->ops->recv)(l->rx, dst, x->len, t->call.sig));
		if (r != EXEC_MOVED)
			return r;
		c->computed = true;
	}
	return send_all(t, c, s, x, c->in_tmp ? c->tmp : x->dst.p);
}

/* The next message of @l, readable in place: ll messages are taken to @spare. */
static enum exec_step take(struct exec_task *t, struct exec_link *l, const struct piece *x, unsigned char *spare,
			   const void **out)
{
	enum exec_step r = need_rx(t, l);

	if (r != EXEC_MOVED)
		return r;
	if (!x->ll)
		return from_wire(l->rx->ops->recv_ptr(l->rx, out, x->len, t->call.sig));
	*out = spare;
	return from_wire(l->rx->ops->recv_ll(l->rx, spare, x->len, t->call.sig));
}

static void reduce_two(const struct exec_task *t, const struct piece *x, void *dst, void *dst2, const void *a,
		       const void *b)
{
	const struct reduce_kernels *k = t->call.red;
	size_t n = x->len / t->call.elem;

	if (dst2)
		(t->call.nt ? k->two_dual_nt : k->two_dual)(dst2, dst, a, b, n);
	else
		(t->call.nt ? k->two_nt : k->two)(dst, a, b, n);
}

/* Where the value of a reducing step goes: dst, or the slot of its only send, or both, or tmp. */
struct target {
	unsigned char *store; /* dst or tmp; NULL: the slot alone */
	unsigned char *slot;
};

static enum exec_step choose_target(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
				    const struct piece *x, struct target *out)
{
	*out = (struct target){ x->dst.p, NULL };
	if (x->dst.p && t->npending && !exec_may_write(t, x->dst.p, x->len))
		return EXEC_BLOCKED;
	if (s->nto == 1 && !x->ll) {
		enum exec_step r = need_tx(t, x->to[0]);

		if (r != EXEC_MOVED)
			return r;
		if (!x->dst.p || x->to[0]->tx->mapped)
			out->slot = x->to[0]->tx->ops->send_ptr(x->to[0]->tx);
	}
	if (out->store || out->slot)
		return EXEC_MOVED;
	/* Beyond the messages that an n-ary ll step keeps there. */
	out->store = exec_tmp(c, x->len * (s->nfrom + 1));
	if (!out->store)
		return EXEC_FAILED;
	out->store += x->len * s->nfrom;
	return EXEC_MOVED;
}

static void finish_value(struct exec_task *t, struct exec_chan *c, const struct piece *x, const struct target *to)
{
	c->computed = true;
	c->in_tmp = to->store && to->store != x->dst.p;
	if (to->slot) {
		x->to[0]->tx->ops->send_commit(x->to[0]->tx, x->len, t->call.sig);
		c->sent = 1;
	}
}

static enum exec_step reduce_one(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
				 const struct piece *x)
{
	struct exec_link *l = x->from[0];
	unsigned char *spare = NULL;
	struct target to;
	const void *got;
	enum exec_step r;

	if (x->ll) {
		spare = exec_tmp(c, x->len * 2);
		if (!spare)
			return EXEC_FAILED;
	}
	r = choose_target(t, c, s, x, &to);
	if (r == EXEC_MOVED)
		r = take(t, l, x, spare, &got);
	if (r != EXEC_MOVED)
		return r;
	if (x->from_ranks[0] < t->net->rank)
		reduce_two(t, x, to.store ? to.store : to.slot, to.store ? to.slot : NULL, got, x->src.p);
	else
		reduce_two(t, x, to.store ? to.store : to.slot, to.store ? to.slot : NULL, x->src.p, got);
	if (!x->ll)
		l->rx->ops->recv_done(l->rx);
	finish_value(t, c, x, &to);
	return EXEC_MOVED;
}

/* All values in rank order into @list, this rank's own at its place. Kept to REDUCE_MAX_SRC
 * at a time; the order is the same however many there are. */
static void reduce_list(const struct exec_task *t, void *dst, const void **list, uint32_t n, size_t count)
{
	uint32_t most = REDUCE_MAX_SRC, done = n < most ? n : most;

	t->call.red->many(dst, list, (int)done, count);
	while (done < n) {
		uint32_t k = n - done < most - 1 ? n - done : most - 1;
		const void *part[REDUCE_MAX_SRC];

		part[0] = dst;
		memcpy(part + 1, list + done, k * sizeof(*part));
		t->call.red->many(dst, part, (int)k + 1, count);
		done += k;
	}
}

static uint32_t own_place(const struct exec_task *t, const struct sched_step *s, const struct piece *x)
{
	uint32_t i = 0;

	while (i < s->nfrom && x->from_ranks[i] < t->net->rank)
		i++;
	return i;
}

static enum exec_step reduce_many(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
				  const struct piece *x)
{
	const void *list[1024];
	uint32_t own = x->src.p ? own_place(t, s, x) : s->nfrom, n = 0;
	struct target to;
	enum exec_step r;

	if (s->nfrom >= 1024) {
		fail(TAUT_ERR_INTERNAL, "a reduction of %u messages at once", s->nfrom + 1);
		return EXEC_FAILED;
	}
	if (x->ll && !exec_tmp(c, x->len * (s->nfrom + 1)))
		return EXEC_FAILED;
	/* ll messages are taken as they come; bulk ones are left in their slots until all are there. */
	for (; c->got < s->nfrom; c->got++) {
		const void *got;

		r = take(t, x->from[c->got], x, x->ll ? c->tmp + x->len * c->got : NULL, &got);
		if (r != EXEC_MOVED)
			return r;
	}
	r = choose_target(t, c, s, x, &to);
	if (r != EXEC_MOVED)
		return r;
	for (uint32_t i = 0; i < s->nfrom; i++) {
		if (i == own)
			list[n++] = x->src.p;
		if (x->ll)
			list[n++] = c->tmp + x->len * i;
		else if (take(t, x->from[i], x, NULL, &list[n++]) != EXEC_MOVED)
			return EXEC_FAILED; /* it was there a moment ago */
	}
	if (x->src.p && own == s->nfrom)
		list[n++] = x->src.p;
	reduce_list(t, to.store ? to.store : to.slot, list, n, x->len / t->call.elem);
	if (to.store && to.slot)
		copy_bytes(to.slot, to.store, x->len);
	for (uint32_t i = 0; !x->ll && i < s->nfrom; i++)
		x->from[i]->rx->ops->recv_done(x->from[i]->rx);
	finish_value(t, c, x, &to);
	return EXEC_MOVED;
}

static enum exec_step copy_or_send(struct exec_task *t, struct exec_chan *c, const struct sched_step *s,
				   const struct piece *x)
{
	if (x->dst.p && !c->computed) {
		if (t->npending && !exec_may_write(t, x->dst.p, x->len))
			return EXEC_BLOCKED;
		if (x->dst.p != x->src.p)
			(t->call.nt ? copy_bytes_nt : copy_bytes)(x->dst.p, x->src.p, x->len);
		c->computed = true;
	}
	return send_all(t, c, s, x, x->src.p);
}

static bool goes_by_ll(const struct exec_plan *p, size_t len)
{
	if (p->vectors)
		return len <= p->ll_bytes;
	return p->proto == PROTO_LL;
}

/* How many chunks of the step's run go as one piece. */
static int piece_run(const struct exec_task *t, const struct sched_step *s, size_t len)
{
	if (!t->merge || s->nchunks == 1)
		return 1;
	return len * (size_t)s->nchunks <= t->call.plan->piece_bytes ? s->nchunks : 1;
}

static void next_chunk(struct exec_chan *c, int n)
{
	c->run += n;
	c->sent = 0;
	c->got = 0;
	c->computed = false;
	c->in_tmp = false;
}

enum exec_step exec_msg_piece(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	const struct exec_plan *p = t->call.plan;
	struct piece x = { .src = exec_span_of(t, c, s->src, c->run), .dst = exec_span_of(t, c, s->dst, c->run) };
	enum exec_step r = EXEC_MOVED;
	int n;

	if (s->src.buf == BUF_NONE && s->dst.buf == BUF_NONE) /* passed on without a place of its own */
		x.len = exec_part_len(t, c, c->run % p->sched->per_block);
	else
		x.len = x.src.p ? x.src.len : x.dst.len;
	n = piece_run(t, s, x.len);
	x.len *= (size_t)n;
	x.ll = goes_by_ll(p, x.len);
	x.from = links_of(t, c, s->from);
	x.to = links_of(t, c, s->to);
	x.from_ranks = p->sched->peers + s->from;
	if (x.len) {
		if (!s->nfrom)
			r = copy_or_send(t, c, s, &x);
		else if (s->nfrom == 1 && !x.src.p)
			r = recv_plain(t, c, s, &x);
		else if (!c->computed)
			r = s->nfrom == 1 ? reduce_one(t, c, s, &x) : reduce_many(t, c, s, &x);
		if (r == EXEC_MOVED && s->nfrom && x.src.p)
			r = send_all(t, c, s, &x, c->in_tmp ? c->tmp + x.len * s->nfrom : x.dst.p);
	}
	if (r == EXEC_MOVED)
		next_chunk(c, n);
	return r;
}
