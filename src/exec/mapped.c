/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped steps: buffers of other ranks are read and written in place. */
#include "exec/exec.h"

#define BLOCK ((size_t)32 << 10) /* stays in the nearest cache while it is stored to several outputs */

/* This rank shows its own count and waits until all others have come as far. */
static enum exec_step barrier(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	struct exec_net *net = t->net;
	const int32_t *ranks = t->call.plan->sched->peers + s->from;

	if (!c->waiting) {
		c->waiting = true;
		c->got = 0;
		/* release: what this rank wrote comes before its arrival */
		atomic_store_explicit(&net->shared[net->rank].epoch, ++net->epoch, memory_order_release);
	}
	for (; c->got < s->nfrom; c->got++) {
		/* acquire: what the others wrote is seen after their arrival */
		uint32_t at = atomic_load_explicit(&net->shared[ranks[c->got]].epoch, memory_order_acquire);

		if ((int32_t)(at - net->epoch) < 0)
			return EXEC_BLOCKED;
	}
	c->waiting = false;
	c->got = 0;
	return EXEC_MOVED;
}

static unsigned char *peer_place(const struct exec_task *t, uint8_t buf, const unsigned char *mine, int rank)
{
	if (rank == t->net->rank)
		return (unsigned char *)(uintptr_t)mine;
	if (buf == BUF_IN)
		return t->call.peer_in[rank] + (mine - t->call.in);
	return t->call.peer_out[rank] + (mine - t->call.out);
}

/* One block: the sources reduced into this rank's dst (if any) and every output of `to`. */
static void pull_block(const struct exec_task *t, const struct sched_step *s, const unsigned char *src,
		       unsigned char *const *outs, uint32_t nout, size_t at, size_t len)
{
	const int32_t *from = t->call.plan->sched->peers + s->from;
	const struct reduce_kernels *k = t->call.red;
	const void *list[REDUCE_MAX_SRC];
	size_t n = len / t->call.elem;
	uint32_t stored = 1;

	for (uint32_t i = 0; i < s->nfrom; i++)
		list[i] = peer_place(t, s->src.buf, src, from[i]) + at;
	if (s->nfrom == 1) {
		if (list[0] != outs[0] + at)
			(t->call.nt ? copy_bytes_nt : copy_bytes)(outs[0] + at, list[0], len);
	} else if (s->nfrom == 2 && nout == 2) {
		(t->call.nt ? k->two_dual_nt : k->two_dual)(outs[0] + at, outs[1] + at, list[0], list[1], n);
		stored = 2;
	} else if (s->nfrom == 2) {
		k->two(outs[0] + at, list[0], list[1], n);
	} else {
		k->many(outs[0] + at, list, (int)s->nfrom, n);
	}
	for (; stored < nout; stored++)
		if (outs[stored] != outs[0])
			copy_bytes(outs[stored] + at, outs[0] + at, len);
}

static enum exec_step pull(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	const int32_t *to = t->call.plan->sched->peers + s->to;
	struct exec_span src = exec_span_of(t, c, s->src, c->run), dst = exec_span_of(t, c, s->dst, c->run);
	unsigned char *outs[REDUCE_MAX_SRC + 1];
	uint32_t nout = 0;

	if (s->nfrom > REDUCE_MAX_SRC || s->nto > REDUCE_MAX_SRC) {
		fail(TAUT_ERR_INTERNAL, "a mapped step of %u sources and %u outputs", s->nfrom, s->nto);
		return EXEC_FAILED;
	}
	outs[nout++] = dst.p;
	for (uint32_t i = 0; i < s->nto; i++)
		if (to[i] != t->net->rank)
			outs[nout++] = peer_place(t, s->dst.buf, dst.p, to[i]);
	for (size_t at = 0; at < src.len; at += BLOCK)
		pull_block(t, s, src.p, outs, nout, at, src.len - at < BLOCK ? src.len - at : BLOCK);
	return EXEC_MOVED;
}

static enum exec_step push(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	const int32_t *to = t->call.plan->sched->peers + s->to;
	struct exec_span src = exec_span_of(t, c, s->src, c->run), dst = exec_span_of(t, c, s->dst, c->run);

	for (uint32_t i = 0; i < s->nto; i++)
		(t->call.nt ? copy_bytes_nt : copy_bytes)(peer_place(t, s->dst.buf, dst.p, to[i]), src.p, src.len);
	return EXEC_MOVED;
}

enum exec_step exec_mapped_piece(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	enum exec_step r;

	if (s->op == STEP_BARRIER)
		r = barrier(t, c, s);
	else if (s->op == STEP_PULL)
		r = pull(t, c, s);
	else
		r = push(t, c, s);
	if (r == EXEC_MOVED)
		c->run++;
	return r;
}
