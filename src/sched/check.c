/* SPDX-License-Identifier: Apache-2.0 */
/* The form of a schedule: what a reader may rely on without looking. */
#include <stdio.h>

#include "sched/sched.h"

static enum taut_status bad(const struct sched *s, uint32_t i, const char *what)
{
	return fail(TAUT_ERR_INTERNAL, "schedule %s of %s, rank %d step %u: %s", sched_coll_name(s->coll),
		    s->algo ? s->algo : "nobody", s->rank, i, what);
}

int64_t sched_chunks(const struct sched *s, enum sched_buf buf)
{
	if (buf == BUF_SCRATCH)
		return s->scratch_chunks;
	if (buf == BUF_NONE)
		return 0;
	if ((buf == BUF_IN && (s->coll == COLL_BROADCAST || s->coll == COLL_SCATTER)) ||
	    (buf == BUF_OUT && (s->coll == COLL_REDUCE || s->coll == COLL_GATHER))) {
		if (s->rank != s->root)
			return 0;
	}
	return (int64_t)sched_coll_blocks(s->coll, buf == BUF_OUT, s->nranks) * s->per_block;
}

/* @remote: the chunk is some other rank's, which the verifier judges. */
static const char *ref_fault(const struct sched *s, struct sched_ref r, int n, bool remote)
{
	if (r.buf > BUF_SCRATCH)
		return "unknown buffer";
	if (r.buf == BUF_NONE)
		return NULL;
	if (r.chunk < 0)
		return "chunk below 0";
	if (!remote && (int64_t)r.chunk + n > sched_chunks(s, r.buf))
		return "chunk past the end of its buffer, or of a buffer that this rank does not have";
	return NULL;
}

static const char *peers_fault(const struct sched *s, uint32_t first, uint32_t n, bool sorted, bool self)
{
	if ((uint64_t)first + n > s->npeers)
		return "peers out of range";
	for (uint32_t i = first; i < first + n; i++) {
		if (s->peers[i] < 0 || s->peers[i] >= s->nranks)
			return "peer is no rank";
		if (!self && s->peers[i] == s->rank)
			return "peer is the rank itself";
		if (sorted && i > first && s->peers[i - 1] >= s->peers[i])
			return "sources not in rank order";
	}
	return NULL;
}

static const char *parts_fault(const struct sched *s, const struct sched_step *p)
{
	const struct sched_ref refs[] = { p->src, p->src2, p->dst };
	int part = -1;

	for (int i = 0; i < 3; i++) {
		if (refs[i].buf == BUF_NONE)
			continue;
		if (part >= 0 && part != refs[i].chunk % s->per_block)
			return "chunks of different parts";
		part = refs[i].chunk % s->per_block;
	}
	return part < 0 && p->op == STEP_MSG ? "names no chunk" : NULL;
}

static bool mask_fits(const struct sched_step *p)
{
	bool src = p->src.buf, src2 = p->src2.buf, dst = p->dst.buf, from = p->nfrom, to = p->nto;

	switch (p->op) {
	case STEP_MSG:
		return !src2 && (src ? from || dst || to : p->nfrom == 1);
	case STEP_REDUCE:
		return src && src2 && dst && !from && !to;
	case STEP_BARRIER:
		return !src && !src2 && !dst && from && !to && p->nchunks == 1;
	case STEP_PULL:
		return src && !src2 && dst && from;
	case STEP_PUSH:
		return src && !src2 && dst && !from && to;
	default:
		return false;
	}
}

static bool meets_itself(const struct sched *s, const struct sched_step *p)
{
	for (uint32_t i = 0; i < p->nfrom; i++)
		if (s->peers[p->from + i] == s->rank)
			return true;
	return false;
}

static const char *step_fault(const struct sched *s, const struct sched_step *p)
{
	bool mapped = p->op == STEP_BARRIER || p->op == STEP_PULL || p->op == STEP_PUSH;
	uint32_t operands = p->nfrom + (p->op == STEP_MSG && p->src.buf != BUF_NONE);
	const char *why;

	if (!mask_fits(p))
		return "no known kind of step";
	if (p->nchunks < 1)
		return "run of no chunks";
	if (mapped && !s->mapped)
		return "mapped step in a schedule that is not";
	if (p->dst.buf == BUF_IN)
		return "writes the input";
	if (p->op != STEP_BARRIER && (operands > SCHED_MAX_OPERANDS || (mapped && p->nto > SCHED_MAX_OPERANDS)))
		return "too many operands or outputs";
	why = ref_fault(s, p->src, p->nchunks, p->op == STEP_PULL);
	if (!why)
		why = ref_fault(s, p->src2, p->nchunks, false);
	if (!why)
		why = ref_fault(s, p->dst, p->nchunks, p->op == STEP_PUSH);
	if (!why)
		why = peers_fault(s, p->from, p->nfrom, true, mapped);
	if (!why)
		why = peers_fault(s, p->to, p->nto, false, false);
	if (!why && p->op == STEP_BARRIER && !meets_itself(s, p))
		why = "barrier without the rank itself";
	return why ? why : parts_fault(s, p);
}

enum taut_status sched_check(const struct sched *s)
{
	if ((unsigned)s->coll >= COLL_COUNT || s->nranks < 1 || s->rank < 0 || s->rank >= s->nranks || s->root < 0 ||
	    s->root >= s->nranks || s->per_block < 1 || s->scratch_chunks < 0)
		return fail(TAUT_ERR_INTERNAL,
			    "schedule %d: rank %d of %d, root %d, %d chunks a block, %d of scratch: out of range",
			    (int)s->coll, s->rank, s->nranks, s->root, s->per_block, s->scratch_chunks);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const char *why = step_fault(s, &s->steps[i]);

		if (why)
			return bad(s, i, why);
	}
	return TAUT_OK;
}
