/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at best: copies and reductions by its cores, one core calling
 * another, TCP over loopback. The yardstick that `taut bench` holds its times against.
 *
 * Measured by threads of this process, each pinned to one of the processors that it may
 * run on; they have ended when limits_measure() returns, so a program may fork after it.
 * Figures are the best of several repetitions, as a limit should be; other work on the
 * machine can only make them too low. */
#ifndef TOPO_LIMITS_H
#define TOPO_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define LIMITS_MAX_POINTS 16
#define LIMITS_MAX_CORES 256

enum limits_what { LIMITS_COPY = 1, LIMITS_REDUCE = 2, LIMITS_TRIP = 4, LIMITS_TCP = 8, LIMITS_ALL = 15 };

struct limits_opts {
	unsigned what;		     /* or of enum limits_what */
	size_t min_bytes, max_bytes; /* buffers of copy, reduce and tcp: min, 8 min, 64 min ... max */
	int cores;		     /* how many to use; 0: all this process may run on */
	bool whole_machine;	     /* also processors that this process is not bound to */
	double point_ms;	     /* time for one figure */
	bool brief;		     /* of each figure no more repetitions than there must be, and one kind of copy */
};

/* Rates in GB/s (1e9 bytes) against the size of one buffer; ascending. */
struct limits_point {
	size_t bytes;
	double one, all; /* one core alone; the sum of all cores, each with buffers of its own */
};
struct limits_curve {
	int n;
	struct limits_point p[LIMITS_MAX_POINTS];
};
struct limits {
	int cores;
	struct limits_curve copy;   /* bytes copied: each read once and written once */
	struct limits_curve reduce; /* c[i] = a[i] + b[i] in fp32: bytes of c */
	struct limits_curve tcp;    /* one connection over loopback: bytes each way while both send; one == all */
	double trip_us;		    /* a word from core to core, one way; 0 with a single core */
	double tcp_trip_us;	    /* 8 bytes over loopback, one way, spinning receiver */
	char tcp_congestion[16];    /* what the kernel used for the tcp figures */
};

/* What is not asked for stays zero. */
enum taut_status limits_measure(struct limits *out, const struct limits_opts *opts);
/* The rate at @bytes with @cores busy, between the measured points; 0 when not measured. */
double limits_rate(const struct limits_curve *curve, size_t bytes, int cores, int all_cores);

/* The processors that this process may run on, ascending; returns their number (at least 1,
 * at most @max; cpus[0] is -1 when the kernel does not say). */
int limits_cpus(int cpus[], int max);
/* The same without the binding of the calling thread, as far as the kernel allows that. */
int limits_machine_cpus(int cpus[], int max);
/* Keep the calling thread on processor @cpu; false when the kernel refuses. */
bool limits_pin(int cpu);
/* "L1", "L2", "L3" or "memory": the nearest that holds @bytes. */
const char *limits_level(size_t bytes);

#endif
