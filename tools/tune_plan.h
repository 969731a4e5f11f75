/* SPDX-License-Identifier: Apache-2.0 */
/* What `taut tune` measures: for each collective, size and kind of buffer the ways of doing
 * it that the cost model does not think hopeless. */
#ifndef TOOLS_TUNE_PLAN_H
#define TOOLS_TUNE_PLAN_H

#include "sched/cost.h"

/* A group of ranks over one kind of wire. */
struct tune_case {
	int nranks, nodes;
	const int *node_of; /* NULL: one machine */
	struct cost_machine machine;
	bool mapped; /* buffers that all ranks can address exist */
};
struct tune_point {
	const struct tune_case *at;
	enum sched_coll coll;
	size_t bytes;
	bool mapped;
	struct cost_choice way;
	int turn;  /* points of one turn are measured with one communicator */
	double us; /* 0: not measured */
};
struct tune_points {
	struct tune_point *p; /* those of a collective, size and kind of buffer stand together */
	int n, cap;
	int turns;
};
enum { TUNE_WAYS = 10 }; /* of one collective and size, at most */

struct tune_sizes {
	size_t min, max, factor;
};

/* Appends the points of @at, which must outlive them, for the collectives whose bit (1 << enum
 * sched_coll) is in @colls. Depends on what all ranks share only. */
enum taut_status tune_plan(struct tune_points *out, const struct tune_case *at, const struct tune_sizes *sizes,
			   unsigned colls);
void tune_points_free(struct tune_points *points);

/* The numbers of @numbers with the cores, wire and limits of @at. */
struct cost_machine tune_machine(const struct tune_case *at, const struct cost_machine *numbers);
struct cost_query tune_query(const struct tune_point *p);
/* The first point after @i that is of another collective, size, kind of buffer or case. */
int tune_group_end(const struct tune_points *points, int i);
/* The sizes for which a measurement at p->bytes stands: up to half way (by ratio) to its neighbours. */
void tune_range(size_t *lo, size_t *hi, const struct tune_point *p, const struct tune_sizes *sizes);
/* Elements of 4 bytes of a block when the largest buffer has @bytes. */
size_t tune_count(enum sched_coll coll, size_t bytes, int nranks);

#endif
