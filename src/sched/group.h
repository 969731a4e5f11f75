/* SPDX-License-Identifier: Apache-2.0 */
/* A collective among some ranks of a schedule: what the algorithm families are written
 * over, so that two_level can put one inside and another between machines.
 *
 * Members are numbered by place, 0 to n - 1, in ascending order of rank; for an `ordered`
 * family in any order. `in` and `out` are this rank's first chunks; `len` is the chunks of a
 * block: of the whole vector for all_reduce, broadcast and reduce, of one member's piece for
 * the others. Piece j lies at slot j of the many-block buffer, or at pos[j], where -1 says that
 * member j has none: then nothing is sent for it. Both ends of a message must see the same
 * pos. Nothing is kept after the call.
 *
 * Functions only append steps. A group function leaves no message behind, so that the next
 * may use the same FIFOs. */
#ifndef SCHED_GROUP_H
#define SCHED_GROUP_H

#include "sched/sched.h"

struct group {
	struct sched *s;
	int n, me, root;      /* places */
	const int32_t *ranks; /* rank of each place; NULL: place i is rank i */
	const int32_t *pos;
	struct sched_ref in, out;
	int len;
};

typedef enum taut_status (*group_fn)(const struct group *g);

/* An algorithm family over groups. */
struct group_algo {
	const char *name;
	group_fn run[COLL_COUNT];
	bool ordered; /* right for any order of the members: every message comes from one, and goes to one */
	/* (optional) `len` must be a multiple of this for a group of @n; default 1. */
	int (*pieces)(enum sched_coll coll, int n);
	/* (optional) false where it cannot; default: all n from 2. */
	bool (*fits)(enum sched_coll coll, int n);
};

int group_pieces(const struct group_algo *algo, enum sched_coll coll, int n);
bool group_fits(const struct group_algo *algo, enum sched_coll coll, int n);
/* Appends @coll of @g, whose size may be 1. */
enum taut_status group_run(const struct group_algo *algo, enum sched_coll coll, const struct group *g);
/* The program of a whole schedule: the group of all ranks. */
enum taut_status group_build(const struct group_algo *algo, struct sched *s, const struct sched_req *req);

static inline int group_rank(const struct group *g, int place)
{
	return g->ranks ? g->ranks[place] : place;
}
static inline int group_slot(const struct group *g, int place)
{
	return g->pos ? g->pos[place] : place;
}
static inline bool group_has(const struct group *g, int place)
{
	return group_slot(g, place) >= 0;
}
/* Place @i counted around the group; @i from -n up. */
static inline int group_wrap(const struct group *g, int i)
{
	return (i + g->n) % g->n;
}
static inline struct sched_ref ref_at(struct sched_ref base, int off)
{
	return (struct sched_ref){ base.buf, base.chunk + off };
}
/* Chunk @c of piece @j in the buffer at @base that holds all pieces, @len chunks each. */
static inline struct sched_ref group_piece(const struct group *g, struct sched_ref base, int len, int j, int c)
{
	return ref_at(base, group_slot(g, j) * len + c);
}

/* A message step with at most one source and one destination, by place; -1: none. A step
 * that would do nothing is left out. */
enum taut_status group_msg(const struct group *g, struct sched_ref src, struct sched_ref dst, int n, int from, int to);
enum taut_status group_copy(const struct group *g, struct sched_ref dst, struct sched_ref src, int n);
/* The general message step, by rank. */
enum taut_status group_step(const struct group *g, struct sched_ref src, struct sched_ref dst, int n,
			    const int32_t *from, int nfrom, const int32_t *to, int nto);
/* How many places from @j on, at most @count, have neighbouring slots; 1 if it has none. */
int group_span(const struct group *g, int j, int count);
/* Moves the pieces of @count places from @first round, all of them chunk by chunk, in runs as
 * long as their slots allow; those without a slot are left out. src and dst: the buffers that
 * hold all pieces, or BUF_NONE. */
enum taut_status group_move(const struct group *g, struct sched_ref src, struct sched_ref dst, int first, int count,
			    int from, int to);
/* The ranks of all members but this one: @rotated, from the next place round; else
 * ascending. n - 1 entries, the caller's to mem_free(). */
enum taut_status group_others(int32_t **out, const struct group *g, bool rotated);
/* @n chunks of scratch; a multiple of per_block keeps the parts aligned. */
struct sched_ref group_scratch(const struct group *g, int n);

#endif
