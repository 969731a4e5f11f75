/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this machine copies what no cache holds: measured once, in about 20 ms of a quiet machine, and kept in
 * the cache folder for later runs, in a file of its own for each kind of processor, set of allowed
 * processors and release of taut. No state; any thread. */
#ifndef TOPO_MEMORY_H
#define TOPO_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct memory_speed {
	int cores;	 /* that copied at once */
	double one, all; /* GB/s copied by one core alone, and by all of them together */
};

/* From the file; when there is none yet, it can be written and the machine is not busy, measures and
 * writes it: nobody pays twice. False: not known. @note says in words what was done or why not. */
bool memory_speed_get(struct memory_speed *out, char *note, size_t len);
/* GB/s of each of @busy cores that copy at once. */
double memory_speed_each(const struct memory_speed *s, int busy);

/* --- What it is made of --- */
enum taut_status memory_speed_measure(struct memory_speed *out);
/* What the figures depend on: "AMD EPYC 9654, cpus 0-1, taut 0.1.0". */
void memory_speed_key(char *out, size_t len);
/* The text of the file and back; false when it is not that, or of another machine. */
size_t memory_speed_print(char *out, size_t len, const struct memory_speed *s, const char *key);
bool memory_speed_parse(struct memory_speed *out, const char *text, const char *key);

#endif
