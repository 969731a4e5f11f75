/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `taut bench COLLECTIVE`. */
#ifndef TOOLS_BENCH_OPTS_H
#define TOOLS_BENCH_OPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench_coll.h"

#define BENCH_MAX_RANKS 4096
#define BENCH_ALL_ROOTS (-1) /* rotate */

enum bench_bind { BENCH_BIND_AUTO, BENCH_BIND_NONE, BENCH_BIND_CORES };

struct bench_opts {
	const struct bench_coll *coll;
	int ranks; /* 0: not given */
	size_t *sizes;
	size_t nsizes;
	enum taut_type types[TAUT_TYPE_COUNT];
	int ntypes;
	enum taut_op ops[TAUT_OP_COUNT + 1]; /* TAUT_OP_USER: the pre-multiplied sum */
	int nops;
	int root;
	bool out_of_place, in_place;
	int iters, warmup, batch; /* 0: by time; warmup -1: by time */
	double seconds;		  /* for the repetitions of one row and placement */
	bool check, shared, threads, quiet, help;
	enum bench_bind bind;
	const char *wire, *algo, *proto; /* NULL: not given */
	const char *json, *csv;
};

/* @argv[0] is the collective. On failure a sentence that says what is allowed. Strings
 * are not copied. */
enum taut_status bench_opts_parse(struct bench_opts *out, int argc, char **argv);
void bench_opts_cleanup(struct bench_opts *o);
void bench_opts_help(void); /* to standard output */

/* "4K", "1.5M", "2GiB", "100" as bytes. */
enum taut_status bench_parse_bytes(size_t *out, const char *text);

#endif
