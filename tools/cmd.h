/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `taut`. Each is called with argv[0] "taut NAME" (for getopt's messages)
 * and its own arguments, handles --help itself, and returns the exit status: EXIT_SUCCESS,
 * EXIT_FAILURE, or usage_error(). */
#ifndef CMD_H
#define CMD_H

#include <stddef.h>

int cmd_bench(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_settings(int argc, char **argv);
int cmd_topo(int argc, char **argv);
int cmd_tune(int argc, char **argv);

struct command {
	const char *name, *help; /* one line */
	int (*run)(int argc, char **argv);
};
extern const struct command commands[]; /* ends with a NULL name */

/* Prints "@cmd: text (see @cmd --help)" to standard error; returns 2, the exit status of a
 * command line that was not understood. */
int usage_error(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* From here on errors and warnings of the library are plain lines "@cmd: text" on standard
 * error, for commands whose user is a person and not a log. */
void plain_errors(const char *cmd);
/* Flushes standard output; a full disk or closed pipe is a failure of the command. */
int finish_output(const char *cmd);

#endif
