/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm families, one file each: what table.c lists and two_level.c composes. */
#ifndef SCHED_FAMILIES_H
#define SCHED_FAMILIES_H

#include "sched/group.h"

#define BIT(coll) (1u << (coll))

extern const struct group_algo group_ring;
extern const struct group_algo group_one_shot, group_two_shot;
extern const struct group_algo group_tree;
extern const struct group_algo group_recursive_doubling, group_recursive_halving;
extern const struct group_algo group_binomial, group_chain;

extern const struct sched_algo sched_ring;
extern const struct sched_algo sched_one_shot, sched_two_shot;
extern const struct sched_algo sched_mapped_one_shot, sched_mapped_two_shot;
extern const struct sched_algo sched_tree;
extern const struct sched_algo sched_recursive_doubling, sched_recursive_halving;
extern const struct sched_algo sched_pairwise, sched_bruck;
extern const struct sched_algo sched_binomial, sched_chain;
extern const struct sched_algo sched_two_level;

/* bcast.c: each hands on to the next place, from the root round or round to the root. */
enum taut_status chain_broadcast(const struct group *g);
enum taut_status chain_reduce(const struct group *g);

#endif
