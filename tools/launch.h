/* SPDX-License-Identifier: Apache-2.0 */
/* Starts ranks on this machine, passes their output on, and ends all when one fails. For
 * `taut run`, and for commands that start ranks of themselves ("/proc/self/exe"). */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>

enum { LAUNCH_MAX = 4096 };

struct launch_opts {
	const char *title; /* in messages: "taut run" */
	char **argv;	   /* command and arguments, NULL at the end */
	int ranks;	   /* 1 to LAUNCH_MAX */
	bool bind;	   /* cores and memory for each rank: topo/bind.h */
	bool verbose;	   /* say which */
	bool prefix;	   /* lines begin with "[rank] " */
	int timeout_s;	   /* end all ranks then; 0: no limit */
};

/* Blocks until all ranks have ended. Returns 0 when all ended with 0, else what the first
 * one that failed gives: its exit status, or 128 + signal; 124 after timeout_s, 127 or 126
 * when the command cannot be run, 1 when ranks cannot be started. The environment of the
 * ranks is this process's, with what the library needs added to both. One call a process. */
int launch(const struct launch_opts *opts);

#endif
