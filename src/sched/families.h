/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm families, one file each: what table.c lists and two_level.c composes. */
#ifndef SCHED_FAMILIES_H
#define SCHED_FAMILIES_H

#include "sched/group.h"

#define BIT(coll) (1u << (coll))

extern const struct group_algo group_ring, group_one_shot, group_two_shot;

extern const struct sched_algo sched_ring, sched_one_shot, sched_two_shot;

#endif
