/* SPDX-License-Identifier: Apache-2.0 */
/* The least time that a collective can take on this machine, by the measured limits.
 *
 * Shared memory: every input byte must be read once and every output byte written once
 * (bench_read_bytes, bench_write_bytes); a copy reads one and writes one, so that the time
 * is (read + written) / 2 at the copy rate of the cores that the ranks have, for buffers
 * of that size. TCP: the bytes that ranks must send each other at the rate of loopback
 * connections, one for every two cores. To this comes one trip from core to core (TCP: of 8 bytes)
 * where a rank cannot return before it has heard of another; a fixed root lets calls overlap,
 * so there is no trip then. A group of one has no limit, nor has a call without bytes, but for the
 * barrier. */
#ifndef TOOLS_BENCH_LIMIT_H
#define TOOLS_BENCH_LIMIT_H

#include "bench_opts.h"
#include "topo/limits.h"

/* Measures what @opts needs, for @ranks ranks on this machine; well under a second. For one rank nothing: *@out stays.
 * @tcp: may the ranks talk over TCP? @whole_machine: the ranks may be on processors that this process is not bound
 * to. */
enum taut_status bench_limit_measure(struct limits *out, const struct bench_opts *opts, int ranks, bool tcp,
				     bool whole_machine);
/* In us; 0 when there is none or it is not known. @bytes as in the "size" column. */
double bench_limit_us(const struct limits *l, const struct bench_opts *opts, size_t bytes, int ranks, bool in_place,
		      bool tcp);
/* Bytes that can be had without swapping; 0 when the kernel does not say. */
size_t bench_memory_available(void);

#endif
