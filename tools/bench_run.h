/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank does: buffers, warm-up, timing, verification, for all rows.
 *
 * A repetition is a batch of back-to-back calls (about 2 ms of them) between barriers; its
 * time is that of the slowest rank, divided by the calls. Calls with a root use another
 * root each, unless one is given. */
#ifndef TOOLS_BENCH_RUN_H
#define TOOLS_BENCH_RUN_H

#include "bench_opts.h"
#include "topo/limits.h"

/* How the ranks came to be, for the head of the table. */
struct bench_setting {
	const struct bench_opts *opts;
	const struct limits *limits; /* rank 0 only; NULL: not measured */
	const char *how;	     /* "processes, pinned to cores" */
};

/* Collective over @comm. *@wrong: were there wrong elements on any rank? */
enum taut_status bench_run(bool *wrong, const struct bench_setting *s, struct taut_comm *comm);

#endif
