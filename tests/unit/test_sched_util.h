/* SPDX-License-Identifier: Apache-2.0 */
/* Whole schedules for tests: built for all ranks, changed at will, verified. */
#ifndef TEST_SCHED_UTIL_H
#define TEST_SCHED_UTIL_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sched/verify.h"

enum { MANY = 1024 };

/* The schedules of all ranks; scheds[0 .. n - 1]. */
struct all {
	struct sched *scheds[MANY];
	int n;
};

static inline void all_free(struct all *a)
{
	for (int i = 0; i < a->n; i++)
		sched_free(a->scheds[i]);
	a->n = 0;
}

static inline void all_build(struct all *a, const struct sched_algo *algo, const struct sched_req *req)
{
	struct sched_req mine = *req;

	memset(a, 0, sizeof(*a));
	assert_true(req->nranks <= MANY);
	for (mine.rank = 0; mine.rank < req->nranks; mine.rank++) {
		if (sched_build(&a->scheds[mine.rank], algo, &mine))
			fail_msg("%s", taut_error_message());
		a->n++;
	}
}

/* Empty programs, to be filled in by hand. */
static inline void all_empty(struct all *a, enum sched_coll coll, int n, int per_block, int scratch)
{
	memset(a, 0, sizeof(*a));
	a->n = n;
	for (int i = 0; i < n; i++) {
		struct sched *s = mem_calloc(1, sizeof(*s));

		assert_non_null(s);
		*s = (struct sched){ .coll = coll,
				     .algo = "hand",
				     .rank = i,
				     .nranks = n,
				     .per_block = per_block,
				     .scratch_chunks = scratch };
		a->scheds[i] = s;
	}
}

static inline enum taut_status all_verify(const struct all *a, int depth, bool in_place)
{
	struct verify_opts opts = { .depth = depth, .in_place = in_place };

	return verify_all(a->scheds, a->n, &opts);
}

static inline void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

/* Where faults are expected, nobody wants to read them. */
static inline int quiet(void **state)
{
	(void)state;
	log_set_sink(drop_line, NULL);
	return 0;
}

static inline int loud(void **state)
{
	(void)state;
	log_set_sink(NULL, NULL);
	return 0;
}

#endif
