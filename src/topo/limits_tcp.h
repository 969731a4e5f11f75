/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP part of limits.h: two threads of this process over 127.0.0.1. */
#ifndef TOPO_LIMITS_TCP_H
#define TOPO_LIMITS_TCP_H

#include "topo/limits.h"

/* Fills tcp, tcp_trip_us and tcp_congestion of @out. The two ends run on cpus[0] and
 * cpus[1], or both on cpus[0] when @ncpus is 1. */
enum taut_status limits_measure_tcp(struct limits *out, const struct limits_opts *opts, const int *cpus, int ncpus);

#endif
