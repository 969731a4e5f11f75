/* SPDX-License-Identifier: Apache-2.0 */
/* `taut topo`: this machine, or one that a file describes, for people, programs and documents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"
#include "cmd.h"
#include "topo_ends.h"
#include "topo_launched.h"
#include "topo_opts.h"
#include "topo_out.h"
#include "topo_show.h"

/* What a view points into. */
struct system {
	struct topo *topo;
	struct topo_paths *paths;
	struct reach_rules rules;
	struct machine *machine;
	struct topo_view view;
};

static void system_cleanup(struct system *s)
{
	machine_free(s->machine);
	paths_free(s->paths);
	topo_free(s->topo);
}

static enum taut_status system_load(struct system *s, const struct topo_opts *o, const struct config *cfg)
{
	bool here = !o->file && !*cfg->topo_file;
	enum taut_status st;

	st = o->file ? topo_read_file(&s->topo, o->file, o->form) : topo_live(&s->topo, cfg);
	if (!st)
		st = paths_create(&s->paths, s->topo, &path_rules_default);
	s->rules = reach_rules_from(cfg);
	if (!st && here && (o->mode == TOPO_ALL || o->mode == TOPO_JSON))
		st = machine_load(&s->machine);
	if (!st)
		s->view = (struct topo_view){ s->topo, s->paths, &s->rules, s->machine,
					      o->nodes ? o->nodes : s->topo->times };
	return st;
}

/* --- answers --- */

static const char no_matrix[] = "no GPU and no RDMA port: no matrix of distances";

static bool has_matrix(const struct topo *t)
{
	return t->count[TOPO_GPU] || topo_has_rdma(t);
}

static enum taut_status print_all(const struct topo_view *v)
{
	enum taut_status st = TAUT_OK;

	if (v->m)
		topo_print_machine(stdout, v->m);
	else
		topo_print_headline(stdout, v);
	if (v->nodes > 1)
		topo_print_nodes(stdout, v);
	printf("\n");
	if (has_matrix(v->t))
		st = topo_print_matrix(stdout, v, isatty(STDOUT_FILENO));
	else
		printf("%s\n", no_matrix);
	if (!topo_has_rdma(v->t)) /* the legend of the cards ends with an empty line */
		printf("\n");
	if (!st && v->m)
		topo_print_machine_tree(stdout, v->m);
	else if (!st)
		st = topo_print_tree(stdout, v);
	topo_print_notes(stdout, v);
	return st;
}

static enum taut_status print_json(const struct topo_view *v)
{
	json_t *o = topo_json(v);
	int rc = o ? json_dumpf(o, stdout, JSON_INDENT(2)) : -1;

	json_decref(o);
	printf("\n");
	return rc ? fail(TAUT_ERR_NOMEM, "JSON of %d nodes: no memory", v->t->nnodes) : TAUT_OK;
}

static enum taut_status print_xml(const struct topo_view *v)
{
	char *text;
	enum taut_status st = topo_to_nccl_xml(&text, v->t);

	if (st)
		return st;
	fputs(text, stdout);
	mem_free(text);
	return TAUT_OK;
}

static enum taut_status write_svg(const struct topo_view *v, const char *path)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	enum taut_status st;

	if (!f)
		return fail(TAUT_ERR_NOMEM, "drawing: no memory");
	st = topo_print_svg(f, v);
	if (fclose(f) && !st)
		st = fail(TAUT_ERR_NOMEM, "drawing: no memory");
	if (!st)
		st = topo_write_file(path, text, len);
	free(text); /* the C library's */
	return st;
}

static enum taut_status write_capture(const char *path)
{
	char *text;
	enum taut_status st = topo_capture(&text);

	if (st)
		return st;
	st = topo_write_file(path, text, strlen(text));
	mem_free(text);
	return st;
}

/* --path and --why. */
static int answer_pair(const char *name, const struct topo_opts *o, const struct topo_view *v)
{
	char why[TOPO_ENDS_WHY];
	int a = topo_end(v->t, o->a, why), b = a < 0 ? -1 : topo_end(v->t, o->b, why);

	if (b < 0)
		return usage_error(name, "%s %s %s: %s", o->mode_name, o->a, o->b, why);
	if (o->mode == TOPO_WHY)
		topo_print_why(stdout, v, a, b);
	else if (topo_print_path(stdout, v, a, b))
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}

static enum taut_status print(const struct topo_opts *o, const struct topo_view *v)
{
	switch (o->mode) {
	case TOPO_MATRIX:
		if (!has_matrix(v->t))
			return fail(TAUT_ERR_UNSUPPORTED, "%s", no_matrix);
		return topo_print_matrix(stdout, v, isatty(STDOUT_FILENO));
	case TOPO_TREE:
		return topo_print_tree(stdout, v);
	case TOPO_JSON:
		return print_json(v);
	case TOPO_XML:
		return print_xml(v);
	case TOPO_GRAPH_XML:
		return topo_print_graph_xml(stdout, v);
	case TOPO_CHANNELS:
		return topo_print_channels(stdout, v, o->pattern);
	case TOPO_BOUND:
		return topo_print_bound(stdout, v);
	case TOPO_SVG:
		return write_svg(v, o->out);
	default:
		return print_all(v);
	}
}

/* What tells the distances of all pairs says by its status when one falls back. */
static enum taut_status answer(const struct topo_opts *o, const struct topo_view *v)
{
	enum taut_status st = print(o, v);
	bool pairs = o->mode == TOPO_ALL || o->mode == TOPO_MATRIX || o->mode == TOPO_JSON;

	return st || !pairs ? st : reach_strict(v->t, v->p, v->rules);
}

static int run(const char *name, const struct topo_opts *o, const struct config *cfg)
{
	struct system s = { 0 };
	int rc = EXIT_FAILURE;

	if (o->mode == TOPO_CAPTURE)
		return write_capture(o->out) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (system_load(&s, o, cfg))
		goto err_cleanup;
	if (o->mode == TOPO_PATH || o->mode == TOPO_WHY)
		rc = answer_pair(name, o, &s.view);
	else
		rc = answer(o, &s.view) ? EXIT_FAILURE : EXIT_SUCCESS;
err_cleanup:
	system_cleanup(&s);
	return rc;
}

int cmd_topo(int argc, char **argv)
{
	struct topo_opts o;
	struct config cfg;
	int rc, flushed;

	plain_errors(argv[0]);
	rc = topo_parse(&o, argc, argv);
	if (rc)
		return rc;
	if (o.mode == TOPO_HELP) {
		fputs(topo_help, stdout);
		return finish_output(argv[0]);
	}
	if (config_load(&cfg))
		return EXIT_FAILURE;
	if (o.mode != TOPO_ALL || o.file || o.nodes || !topo_launched(&rc, &cfg))
		rc = run(argv[0], &o, &cfg);
	config_cleanup(&cfg);
	flushed = finish_output(argv[0]);
	return rc ? rc : flushed;
}
