/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 tells: the table on standard output (nccl-tests' columns, then algorithm and
 * share of the limit), JSON and CSV files. One thread. */
#ifndef TOOLS_BENCH_REPORT_H
#define TOOLS_BENCH_REPORT_H

#include "bench_opts.h"

struct bench_side {
	bool done;
	double median_us, min_us, max_us; /* of the repetitions, per call, of the slowest rank */
	long long wrong;		  /* elements, over all ranks; -1: not checked */
	double limit_us;		  /* 0: not known */
	char algo[64], proto[16];
};
struct bench_row {
	size_t bytes, count;
	enum taut_type type;
	enum taut_op op;
	int root;		   /* BENCH_ALL_ROOTS: rotated, or none */
	struct bench_side side[2]; /* out of place, in place */
};

struct bench_report;
/* Opens the files of @opts; prints the head of the table. @wire, @about: copied. */
enum taut_status bench_report_create(struct bench_report **out, const struct bench_opts *opts, int ranks,
				     const char *wire, const char *about);
/* On a terminal: what is being measured; overwritten by the next call. */
void bench_report_progress(struct bench_report *r, const char *what);
void bench_report_note(struct bench_report *r, const char *text);
enum taut_status bench_report_row(struct bench_report *r, const struct bench_row *row);
/* Writes what is in memory, then releases, also on failure. NULL is allowed. @complete: all
 * was measured, so there is a summary. */
enum taut_status bench_report_finish(struct bench_report *r, bool complete);

#endif
