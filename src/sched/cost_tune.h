/* SPDX-License-Identifier: Apache-2.0 */
/* What cost.c asks of a tuning file. */
#ifndef SCHED_COST_TUNE_H
#define SCHED_COST_TUNE_H

#include "sched/cost.h"

/* The line that serves the query best among those whose algorithm @allowed admits; NULL: none. */
const struct tune_best *tune_find(const struct tune *t, const struct cost_query *q,
				  bool (*allowed)(const struct tune_best *best, void *ctx), void *ctx);

#endif
