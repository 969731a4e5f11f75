/* SPDX-License-Identifier: Apache-2.0 */
/* `taut settings`: every setting, what it would be in a program started here, and why. */
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/nccl_names.h"
#include "base/nearest.h"
#include "cmd.h"
#include "sched/cost.h"
#include "wire/wire.h"

static const char help[] = "usage: taut settings [--json | --man] [NAME...]\n"
			   "\n"
			   "Shows every setting (or those named): its value here, where that comes from, its\n"
			   "default, what it may be, and what it does.\n"
			   "\n"
			   "  --json   as JSON: an array of objects\n"
			   "  --man    the manual page taut_settings(7), in mdoc\n"
			   "  --help   this text\n"
			   "\n"
			   "Exit status: 0; 1 when a value is bad (all others are shown); 2 usage.\n";

static bool named(const struct setting *s, const char *name)
{
	return !strcmp(s->name, name) || (*s->alias && !strcmp(s->alias, name));
}

static bool wanted(const struct setting *s, int names, char **name)
{
	for (int i = 0; i < names; i++)
		if (named(s, name[i]))
			return true;
	return !names;
}

/* --- text --- */

static void print_limits(const struct setting *s)
{
	if (*s->limits)
		printf("; %s %s", !strcmp(s->kind, "choice") ? "one of" : s->kind, s->limits);
	if (*s->alias)
		printf("; also %s", s->alias);
}

static void print_setting(const struct setting_value *v, const char *wrong)
{
	const struct setting *s = v->setting;

	printf("%s=%s\n", s->name, v->value);
	printf("    from: %s\n", v->source);
	if (wrong)
		printf("    wrong: %s\n", wrong);
	printf("    %s\n    default: %s", s->doc, *s->dflt ? s->dflt : "empty");
	print_limits(s);
	printf("\n");
}

/* --- JSON --- */

static json_t *json_setting(const struct setting_value *v, const char *wrong)
{
	const struct setting *s = v->setting;
	json_t *o = json_pack("{s:s, s:s%, s:s, s:s, s:s, s:s, s:s, s:s}", "name", s->name, "value", v->value,
			      strlen(v->value), "source", v->source, "default", s->dflt, "kind", s->kind, "limits",
			      s->limits, "alias", s->alias, "doc", s->doc);

	if (o && wrong)
		json_object_set_new(o, "error", json_string(wrong));
	return o;
}

/* --- the manual page --- */

/* mdoc takes a leading . or ' for a macro and \ for an escape. */
static void man_text(const char *s)
{
	if (*s == '.' || *s == '\'')
		printf("\\&");
	for (; *s; s++) {
		if (*s == '\\')
			printf("\\e");
		else if (*s == '-')
			printf("\\-");
		else
			putchar(*s);
	}
}

/* Roff wants each sentence on its own line. */
static void man_sentences(const char *doc)
{
	for (const char *end = strstr(doc, ". "); end; end = strstr(doc, ". ")) {
		char line[512];

		snprintf(line, sizeof(line), "%.*s", (int)(end + 1 - doc), doc);
		man_text(line);
		putchar('\n');
		doc = end + 2;
	}
	man_text(doc);
	putchar('\n');
}

static void man_setting(const struct setting *s)
{
	printf(".It Ev %s\n", s->name);
	man_sentences(s->doc);
	if (*s->limits) {
		printf("%s: ", !strcmp(s->kind, "choice") ? "One of" : !strcmp(s->kind, "size") ? "Size" : "Number");
		man_text(s->limits);
		printf(".\n");
	}
	printf("Default: ");
	man_text(*s->dflt ? s->dflt : "empty");
	printf(".\n");
	if (*s->alias)
		printf("NCCL's name:\n.Ev %s .\n", s->alias);
}

static const char man_head[] = ".\\\" SPDX-License-Identifier: Apache-2.0\n"
			       ".\\\" Written by: taut settings --man\n"
			       ".Dd November 29, 2026\n"
			       ".Dt TAUT_SETTINGS 7\n"
			       ".Os\n"
			       ".Sh NAME\n"
			       ".Nm taut_settings\n"
			       ".Nd settings of the taut library and command\n"
			       ".Sh DESCRIPTION\n"
			       "A setting is read when a communicator is created.\n"
			       "Its value is the first that is found of:\n"
			       "the environment variable of its name,\n"
			       "the environment variable that NCCL has for the same thing,\n"
			       "the line\n"
			       ".Ar NAME Ns = Ns Ar VALUE\n"
			       "of a settings file (either name),\n"
			       "and the default.\n"
			       "An empty variable is as one that is not set.\n"
			       "A value that is not allowed is an error;\n"
			       "a name that begins with\n"
			       ".Ql TAUT_\n"
			       "and is no setting is warned of.\n"
			       "Values of NCCL's variables are understood in NCCL's own words,\n"
			       "and numbers beyond the limits are moved to the limit.\n"
			       "Sizes are in bytes and may end in K, M or G.\n"
			       ".Pp\n"
			       ".Xr taut-settings 1\n"
			       "shows the values that hold.\n"
			       ".Sh ENVIRONMENT\n"
			       ".Bl -tag -width indent\n";

static const char man_tail[] =
	".It Ev TAUT_CONFIG\n"
	"A settings file to read instead of the two below.\n"
	".It Ev TAUT_LOCAL_RANK , Ev TAUT_LOCAL_SIZE\n"
	"Rank and number of ranks on this machine, as far as whoever sets\n"
	".Ev TAUT_RANK\n"
	"knows them;\n"
	".Xr taut-run 1\n"
	"sets them.\n"
	".El\n"
	".Sh FILES\n"
	".Bl -tag -width indent\n"
	".It Pa ~/.config/taut.conf\n"
	"Settings of a user.\n"
	".It Pa /etc/taut.conf\n"
	"Settings of the host, for what the user's file does not say.\n"
	".El\n"
	".Pp\n"
	"Blank lines and lines that begin with # are skipped.\n"
	".Sh LAUNCHERS\n"
	"A group that is created from the environment takes rank, size and meeting point from the first of these that "
	"is\n"
	"there:\n"
	".Ev TAUT_RANK\n"
	"and\n"
	".Ev TAUT_SIZE\n"
	".Pq as Xr taut-run 1 No sets them ;\n"
	"torchrun's\n"
	".Ev RANK\n"
	"and\n"
	".Ev WORLD_SIZE\n"
	"(the ranks meet at\n"
	".Ev MASTER_ADDR ,\n"
	"on the port after\n"
	".Ev MASTER_PORT ,\n"
	"or on a Unix socket when torchrun started them all on one machine);\n"
	"Open MPI's, MPICH's and Slurm's variables;\n"
	"else it is a group of one.\n"
	"Ranks that MPI or Slurm starts on several machines meet on a port from 20000 to 29999 that follows from the "
	"job:\n"
	"with Open MPI on the host of mpirun, where rank 0 must run; with Slurm on the first node of the step.\n"
	"MPICH names no host: there, and wherever this does not fit, set\n"
	".Ev TAUT_RENDEZVOUS .\n"
	".Sh SEE ALSO\n"
	".Xr taut 1 ,\n"
	".Xr taut-run 1 ,\n"
	".Xr taut-settings 1\n";

static int print_man(int names, char **name)
{
	(void)names; /* the page has all */
	(void)name;
	fputs(man_head, stdout);
	for (size_t i = 0; i < config_count(); i++)
		man_setting(config_setting(i));
	fputs(man_tail, stdout);
	return EXIT_SUCCESS;
}

/* --- the command --- */

/* What is no plain number or choice is understood by the room that uses it. */
static enum taut_status check_algo(const char *value)
{
	struct cost_filter *f = NULL;
	enum taut_status st = cost_filter_parse(&f, value, NULL);

	cost_filter_free(f);
	return st;
}

static enum taut_status check_proto(const char *value)
{
	struct cost_filter *f = NULL;
	enum taut_status st = cost_filter_parse(&f, NULL, value);

	cost_filter_free(f);
	return st;
}

static enum taut_status check_value(const struct setting_value *v)
{
	static const struct {
		const char *name;
		enum taut_status (*check)(const char *value);
	} checks[] = { { "TAUT_WIRE", wire_check }, { "TAUT_ALGO", check_algo }, { "TAUT_PROTO", check_proto } };

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (!strcmp(checks[i].name, v->setting->name))
			return checks[i].check(v->value);
	return TAUT_OK;
}

/* Text when @array is NULL. */
static int show(const struct setting_value *v, enum taut_status st, json_t *array)
{
	const char *wrong = st ? taut_error_message() : NULL;

	if (!array)
		print_setting(v, wrong);
	else if (json_array_append_new(array, json_setting(v, wrong)))
		return EXIT_FAILURE;
	return st ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int show_all(json_t *array, int names, char **name)
{
	int rc = EXIT_SUCCESS;

	for (size_t i = 0; i < config_count(); i++) {
		struct setting_value v = { 0 };
		enum taut_status st;

		if (!wanted(config_setting(i), names, name))
			continue;
		st = config_describe(i, &v);
		if (!v.setting)
			return EXIT_FAILURE; /* no setting can be read: a broken file */
		if (!st)
			st = check_value(&v);
		if (show(&v, st, array))
			rc = EXIT_FAILURE;
	}
	config_check_names();
	return rc;
}

static int print_text(int names, char **name)
{
	return show_all(NULL, names, name);
}

static int print_json(int names, char **name)
{
	json_t *array = json_array();
	int rc = array ? show_all(array, names, name) : EXIT_FAILURE;

	if (array && json_dumpf(array, stdout, JSON_INDENT(2)))
		rc = EXIT_FAILURE;
	putchar('\n');
	json_decref(array);
	return rc;
}

/* 0, or the exit status when @name is no setting. */
static int check_name(const char *cmd, const char *name)
{
	const struct nccl_name *known = nccl_name_find(name);
	const char *names[256];
	const char *near;
	size_t n = config_count();

	for (size_t i = 0; i < n && i < 256; i++) {
		if (named(config_setting(i), name))
			return 0;
		names[i] = config_setting(i)->name;
	}
	if (known && known->use == NCCL_USE_NONE)
		return usage_error(cmd, "%s is no setting of taut and has no effect: %s", name, known->what);
	near = nearest_name(name, names, n < 256 ? n : 256);
	if (!near)
		near = nccl_name_nearest(name);
	if (near)
		return usage_error(cmd, "no setting \"%s\"; did you mean %s?", name, near);
	return usage_error(cmd, "no setting \"%s\"", name);
}

int cmd_settings(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "man", no_argument, NULL, 'm' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	int (*print)(int names, char **name) = print_text;
	int rc = 0;

	plain_errors(argv[0]);
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case 'j':
			print = print_json;
			break;
		case 'm':
			print = print_man;
			break;
		case 'h':
			fputs(help, stdout);
			return finish_output(argv[0]);
		default:
			return usage_error(argv[0], "bad arguments");
		}
	}
	for (int i = optind; i < argc && !rc; i++)
		rc = check_name(argv[0], argv[i]);
	if (rc)
		return rc;
	rc = print(argc - optind, argv + optind);
	return finish_output(argv[0]) || rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
