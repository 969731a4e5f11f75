/* SPDX-License-Identifier: Apache-2.0 */
/* `taut run`: ranks on this machine. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "launch.h"

static const char help[] =
	"usage: taut run -n N [OPTION...] [--] COMMAND [ARGUMENT...]\n"
	"\n"
	"Starts COMMAND N times on this machine, as the ranks of a group. Their output is passed\n"
	"on line by line; the first that fails ends the others and is reported.\n"
	"\n"
	"  -n, --ranks N         number of ranks\n"
	"      --bind            cores and memory near the GPU of each rank, shared with the ranks\n"
	"                        whose GPUs are there too; without a GPU for each rank a core each,\n"
	"                        spread over those this process may use\n"
	"  -v, --verbose         say where each rank is bound\n"
	"      --prefix          lines begin with the rank: [3]\n"
	"      --env NAME=VALUE  a variable in the environment of the ranks; may be repeated\n"
	"      --timeout S       end all ranks after S seconds\n"
	"  -h, --help            this text\n"
	"\n"
	"Ranks find TAUT_RANK, TAUT_SIZE, TAUT_LOCAL_RANK and TAUT_LOCAL_SIZE in their environment,\n"
	"and the same as RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE unless some launcher\n"
	"above has set those. Rank 0 reads standard input unless it is a terminal.\n"
	"\n"
	"Exit status: 0 when all ranks ended with 0; else that of the first rank that failed, or\n"
	"128 + signal when a signal killed it; 124 after --timeout; 126 or 127 when COMMAND cannot\n"
	"be run; 1 when ranks cannot be started; 2 usage.\n";

enum { OPT_BIND = 256, OPT_PREFIX, OPT_ENV, OPT_TIMEOUT };

static const struct option options[] = {
	{ "ranks", required_argument, NULL, 'n' },   { "bind", no_argument, NULL, OPT_BIND },
	{ "verbose", no_argument, NULL, 'v' },	     { "prefix", no_argument, NULL, OPT_PREFIX },
	{ "env", required_argument, NULL, OPT_ENV }, { "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },	     { 0 },
};

static bool number(const char *text, int highest, int *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < 1 || v > highest)
		return false;
	*out = (int)v;
	return true;
}

static bool set_env(char *pair)
{
	char *equals = strchr(pair, '=');
	int rc;

	if (!equals || equals == pair)
		return false;
	*equals = '\0';
	rc = setenv(pair, equals + 1, 1);
	*equals = '=';
	return !rc;
}

/* 0, or the exit status. */
static int take_option(const char *cmd, struct launch_opts *o, int c)
{
	switch (c) {
	case 'n':
		if (!number(optarg, LAUNCH_MAX, &o->ranks))
			return usage_error(cmd, "-n %s: expected 1 to %d ranks", optarg, LAUNCH_MAX);
		return 0;
	case OPT_BIND:
		o->bind = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case OPT_PREFIX:
		o->prefix = true;
		return 0;
	case OPT_ENV:
		return set_env(optarg) ? 0 : usage_error(cmd, "--env %s: expected NAME=VALUE", optarg);
	case OPT_TIMEOUT:
		if (!number(optarg, INT_MAX, &o->timeout_s))
			return usage_error(cmd, "--timeout %s: expected seconds, from 1", optarg);
		return 0;
	default:
		return usage_error(cmd, "bad arguments");
	}
}

int cmd_run(int argc, char **argv)
{
	struct launch_opts o = { .title = argv[0] };

	/* "+": options after COMMAND are COMMAND's */
	for (int c; (c = getopt_long(argc, argv, "+n:vh", options, NULL)) != -1;) {
		int rc;

		if (c == 'h') {
			fputs(help, stdout);
			return finish_output(argv[0]);
		}
		rc = take_option(argv[0], &o, c);
		if (rc)
			return rc;
	}
	if (!o.ranks)
		return usage_error(argv[0], "how many ranks? give -n N");
	if (optind == argc)
		return usage_error(argv[0], "no command to run");
	o.argv = argv + optind;
	plain_errors(argv[0]);
	return launch(&o);
}
