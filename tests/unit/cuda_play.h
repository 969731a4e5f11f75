/* SPDX-License-Identifier: Apache-2.0 */
/* A player of schedules over bytes: one rank after the other, a slice of one channel at a time, with queues that never
 * fill, buffers that never share memory, and the reductions of exec/reduce.h. */
#ifndef TEST_CUDA_PLAY_H
#define TEST_CUDA_PLAY_H

#include "exec/reduce.h"
#include "test_sched_util.h"

enum { PLAY_RANKS = 6, PLAY_CHUNK = 1024 }; /* at most */

struct play {
	const struct all *all;
	enum taut_type type;
	enum taut_op op;     /* where something is reduced */
	uint32_t divide;     /* the result, which is integers, is divided by this; 0: not */
	size_t count, bytes; /* of a block */
	/* How blocks are cut: channels of whole lines, chunks of this length. */
	uint32_t channels, line, chunk_bytes, scratch_chunks;
	unsigned char *in[PLAY_RANKS], *out[PLAY_RANKS]; /* NULL: the rank has none */
};

struct packet {
	struct packet *next;
	size_t bytes;
	unsigned char data[PLAY_CHUNK];
};

struct player {
	uint32_t step;
	int32_t k;
	unsigned char *buf[BUF_SCRATCH + 1];
};

struct game {
	const struct play *c;
	struct player players[PLAY_RANKS];
	struct packet *first[PLAY_RANKS][PLAY_RANKS], **last[PLAY_RANKS][PLAY_RANKS]; /* from, to */
	size_t at, end; /* the slice, and the end of the channel's part */
};

/* Bytes of the part of each block that chunk @chunk is. */
static inline size_t chunk_bytes(const struct game *g, const struct sched *s, int64_t chunk)
{
	size_t at = g->at + (size_t)(chunk % s->per_block) * g->c->chunk_bytes;
	size_t left = at < g->end ? g->end - at : 0;

	return left < g->c->chunk_bytes ? left : g->c->chunk_bytes;
}

static inline unsigned char *chunk_at(const struct game *g, int r, struct sched_ref ref, int32_t k)
{
	const struct sched *s = g->c->all->scheds[r];
	size_t chunk = (size_t)(ref.chunk + k), per_block = (size_t)s->per_block;
	unsigned char *buf = g->players[r].buf[ref.buf];

	assert_non_null(buf);
	if (ref.buf == BUF_SCRATCH)
		return buf + chunk * g->c->chunk_bytes;
	return buf + chunk / per_block * g->c->bytes + g->at + chunk % per_block * g->c->chunk_bytes;
}

static inline bool all_there(const struct game *g, int r, const struct sched_step *t)
{
	const int32_t *from = g->c->all->scheds[r]->peers + t->from;

	for (uint32_t i = 0; i < t->nfrom; i++)
		if (!g->first[from[i]][r])
			return false;
	return true;
}

static inline struct packet *take(struct game *g, int from, int to)
{
	struct packet *p = g->first[from][to];

	g->first[from][to] = p->next;
	if (!p->next)
		g->last[from][to] = &g->first[from][to];
	return p;
}

static inline void give(struct game *g, int from, int to, const unsigned char *data, size_t bytes)
{
	struct packet *p = malloc(sizeof(*p));

	assert_non_null(p);
	p->next = NULL;
	p->bytes = bytes;
	memcpy(p->data, data, bytes);
	*g->last[from][to] = p;
	g->last[from][to] = &p->next;
}

/* What comes and the rank's own, in the order of ranks, made one. */
static inline void gather(struct game *g, int r, const struct sched_step *t, unsigned char *out, size_t bytes)
{
	const struct play *c = g->c;
	const int32_t *from = c->all->scheds[r]->peers + t->from;
	struct packet *got[PLAY_RANKS];
	const void *src[PLAY_RANKS];
	int n = 0, ngot = 0;

	for (int p = 0; p < c->all->n; p++) {
		if (p == r && t->src.buf != BUF_NONE)
			src[n++] = chunk_at(g, r, t->src, g->players[r].k);
		if ((uint32_t)ngot == t->nfrom || from[ngot] != p)
			continue;
		got[ngot] = take(g, p, r);
		assert_int_equal(got[ngot]->bytes, bytes);
		src[n++] = got[ngot++]->data;
	}
	assert_int_equal(ngot, t->nfrom);
	if (n == 1)
		memcpy(out, src[0], bytes);
	else
		reduce_find(c->type, c->op)->many(out, src, n, bytes / taut_type_size(c->type));
	while (ngot)
		free(got[--ngot]);
}

/* One chunk of the step at hand; false: it waits. */
static inline bool play_chunk(struct game *g, int r)
{
	const struct sched *s = g->c->all->scheds[r];
	struct player *p = &g->players[r];
	const struct sched_step *t = &s->steps[p->step];
	struct sched_ref named = t->dst.buf ? t->dst : t->src.buf ? t->src : ref_none();
	size_t bytes = chunk_bytes(g, s, named.chunk + p->k);
	unsigned char value[PLAY_CHUNK];

	if (bytes && !all_there(g, r, t))
		return false;
	if (bytes) {
		gather(g, r, t, value, bytes);
		if (t->dst.buf != BUF_NONE)
			memcpy(chunk_at(g, r, t->dst, p->k), value, bytes);
		for (uint32_t i = 0; i < t->nto; i++)
			give(g, r, s->peers[t->to + i], value, bytes);
	}
	if (++p->k == t->nchunks) {
		p->step++;
		p->k = 0;
	}
	return true;
}

static inline void play_slice(struct game *g)
{
	bool moved = true;

	for (int r = 0; r < g->c->all->n; r++)
		g->players[r].step = 0;
	while (moved) {
		moved = false;
		for (int r = 0; r < g->c->all->n; r++)
			while (g->players[r].step < g->c->all->scheds[r]->nsteps && play_chunk(g, r))
				moved = true;
	}
	for (int r = 0; r < g->c->all->n; r++) {
		assert_int_equal(g->players[r].step, g->c->all->scheds[r]->nsteps);
		for (int p = 0; p < g->c->all->n; p++)
			assert_null(g->first[r][p]);
	}
}

static inline void set_up(struct game *g, const struct play *c)
{
	*g = (struct game){ .c = c };
	for (int r = 0; r < c->all->n; r++) {
		g->players[r].buf[BUF_IN] = c->in[r];
		g->players[r].buf[BUF_OUT] = c->out[r];
		g->players[r].buf[BUF_SCRATCH] = malloc((size_t)c->scratch_chunks * c->chunk_bytes + 1);
		for (int p = 0; p < c->all->n; p++)
			g->last[r][p] = &g->first[r][p];
	}
}

/* Writes out[]. */
static inline void play(const struct play *c)
{
	size_t each = ((c->bytes + c->channels - 1) / c->channels + c->line - 1) / c->line * c->line;
	size_t slice = (size_t)c->all->scheds[0]->per_block * c->chunk_bytes;
	struct game g;

	set_up(&g, c);
	for (size_t from = 0; from < c->bytes; from += each) {
		g.end = from + each < c->bytes ? from + each : c->bytes;
		for (g.at = from; g.at < g.end; g.at += slice)
			play_slice(&g);
	}
	for (int r = 0; r < c->all->n; r++) {
		if (c->out[r] && c->divide)
			reduce_divide(g.players[r].buf[BUF_OUT], c->divide, c->count, c->type);
		free(g.players[r].buf[BUF_SCRATCH]);
	}
}

#endif
