/* SPDX-License-Identifier: Apache-2.0 */
/* What cost.c asks of a parsed filter. */
#ifndef SCHED_COST_FILTER_H
#define SCHED_COST_FILTER_H

#include "sched/cost.h"

/* The part of a filter that counts for one collective. */
struct filter_rule {
	uint64_t mask; /* bit i: sched_algos[i], or protocol i, is allowed */
	bool order;    /* written for this collective: leaving nothing is an error */
	bool active;   /* there is a list at all */
};
/* @f NULL: nothing is asked. */
struct filter_rule filter_algos(const struct cost_filter *f, enum sched_coll coll);
struct filter_rule filter_protos(const struct cost_filter *f, enum sched_coll coll);
/* The texts as given, "" for none. */
const char *filter_algo_text(const struct cost_filter *f);
const char *filter_proto_text(const struct cost_filter *f);

#endif
