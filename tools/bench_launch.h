/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of `taut bench`. */
#ifndef TOOLS_BENCH_LAUNCH_H
#define TOOLS_BENCH_LAUNCH_H

#include "bench_opts.h"
#include "topo/limits.h"

/* Runs the benchmark on opts->ranks ranks of this machine: processes or threads, as @opts
 * says. No thread of the library may exist yet. Nothing is left behind, also when a rank
 * dies or this process is killed. Returns the exit status. */
int bench_launch(const struct bench_opts *opts, const struct limits *limits);
/* The same as one rank among those that a launcher started. */
int bench_join(const struct bench_opts *opts, const struct limits *limits, const char *launcher);

#endif
