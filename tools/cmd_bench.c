/* SPDX-License-Identifier: Apache-2.0 */
/* `taut bench`: time and verify a collective, or measure what the machine can do. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "bench_launch.h"
#include "bench_limit.h"
#include "bench_limits.h"
#include "bench_opts.h"
#include "boot/boot.h"
#include "cmd.h"

#define NAME "taut bench"

/* One rank per processor, but two at least, and no more than eight. */
static int default_ranks(void)
{
	int cpus[LIMITS_MAX_CORES];
	int n = limits_cpus(cpus, LIMITS_MAX_CORES);

	return n < 2 ? 2 : n > 8 ? 8 : n;
}

/* The launcher, if any, and whether the settings ask for TCP inside a machine. */
static enum taut_status detect(struct boot_env *env, bool *tcp)
{
	struct config cfg;
	enum taut_status st = config_load(&cfg);

	if (st)
		return st;
	*tcp = cfg.shm_disable || !strcmp(cfg.wire, "tcp");
	st = boot_env_detect(env, &cfg);
	config_cleanup(&cfg);
	return st;
}

/* Only the rank that reports measures; before there are other ranks, or while they wait for it. */
static int measure_and_run(struct bench_opts *o, const struct boot_env *env, bool launched, bool tcp)
{
	struct limits limits = { 0 };
	int local = env->local_size > 0 ? env->local_size : env->size;

	if (!launched)
		o->ranks = o->ranks ? o->ranks : default_ranks();
	if ((!launched || env->rank == 0) &&
	    bench_limit_measure(&limits, o, launched ? local : o->ranks, tcp, launched))
		return EXIT_FAILURE;
	return launched ? bench_join(o, &limits, env->launcher) : bench_launch(o, &limits);
}

static int run(struct bench_opts *o)
{
	struct boot_env env;
	bool launched, tcp;

	plain_errors(NAME);
	if (detect(&env, &tcp))
		return EXIT_FAILURE;
	launched = strcmp(env.launcher, "single") != 0;
	if (launched && o->threads)
		return usage_error(NAME, "--mode threads: the ranks were started by %s", env.launcher);
	return measure_and_run(o, &env, launched, o->wire ? !strcmp(o->wire, "tcp") : tcp);
}

int cmd_bench(int argc, char **argv)
{
	struct bench_opts o;
	int rc;

	if (argc > 1 && !strcmp(argv[1], "limits"))
		return bench_limits(argc - 1, argv + 1);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		bench_opts_help();
		return finish_output(NAME);
	}
	if (bench_opts_parse(&o, argc - 1, argv + 1))
		return usage_error(NAME, "%s", taut_error_message());
	if (o.help) {
		bench_opts_help();
		rc = finish_output(NAME);
	} else {
		rc = run(&o);
	}
	bench_opts_cleanup(&o);
	return rc;
}
