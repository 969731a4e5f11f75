/* SPDX-License-Identifier: Apache-2.0 */
/* `taut`: one table of subcommands, each in its own file. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/nearest.h"
#include "cmd.h"
#include "taut/taut.h"

static int cmd_help(int argc, char **argv);

const struct command commands[] = {
	{ "bench", "time and verify collectives, or measure the limits of this machine", cmd_bench },
	{ "run", "start ranks on this machine", cmd_run },
	{ "settings", "every setting, its value and where it comes from", cmd_settings },
	{ "topo", "this machine or another: GPUs, network cards, links, rings", cmd_topo },
	{ "tune", "measure this machine for the choice of algorithms", cmd_tune },
	{ "help", "this list, or the help of a command", cmd_help },
	{ 0 },
};

int usage_error(const char *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", cmd);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see %s --help)\n", cmd);
	return 2;
}

static void plain_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	fprintf(stderr, "%s: %s%s\n", (const char *)ctx, level == LOG_WARN ? "warning: " : "", line);
}

void plain_errors(const char *cmd)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s", cmd);
	log_set_sink(plain_line, name);
}

int finish_output(const char *cmd)
{
	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s: standard output: %s\n", cmd, strerror(errno));
	return EXIT_FAILURE;
}

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static int unknown(const char *name)
{
	const char *names[32];
	const char *near;
	size_t n = 0;

	for (; commands[n].name && n < sizeof(names) / sizeof(names[0]); n++)
		names[n] = commands[n].name;
	near = nearest_name(name, names, n);
	if (near)
		return usage_error("taut", "no command \"%s\"; did you mean \"%s\"?", name, near);
	return usage_error("taut", "no command \"%s\"", name);
}

static int list(void)
{
	printf("usage: taut COMMAND [ARGUMENTS]\n\n");
	for (const struct command *c = commands; c->name; c++)
		printf("  %-10s %s\n", c->name, c->help);
	printf("\ntaut COMMAND --help tells more; taut --version says which version this is\n");
	return finish_output("taut");
}

/* @argv[0] is the command's name as typed. */
static int run(const struct command *c, int argc, char **argv)
{
	char title[64];

	snprintf(title, sizeof(title), "taut %s", c->name);
	argv[0] = title;
	return c->run(argc, argv);
}

static int cmd_help(int argc, char **argv)
{
	static char option[] = "--help";
	char *args[] = { argv[0], option, NULL };
	const struct command *c;

	if (argc < 2 || !strcmp(argv[1], option))
		return list();
	c = find(argv[1]);
	if (!c)
		return unknown(argv[1]);
	return c->run == cmd_help ? list() : run(c, 2, args);
}

static int version(void)
{
	int v = taut_version();

	printf("taut %d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
	return finish_output("taut");
}

/* A socket or pipe that took the place of a closed standard stream would be mistaken for it. */
static void open_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct command *c;

	open_standard_streams();
	if (argc < 2) {
		list();
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return list();
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return version();
	c = find(argv[1]);
	return c ? run(c, argc - 1, argv + 1) : unknown(argv[1]);
}
