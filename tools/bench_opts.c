/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_opts.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "bench_data.h"
#include "wire/wire.h"

#define DEFAULT_SIZES "8:128M:x4"
#define MAX_SIZES 4096

struct option {
	const char *name, *arg; /* arg NULL: a flag */
	enum taut_status (*set)(struct bench_opts *o, const char *value);
	const char *help;
};

/* --- Numbers and lists --- */

static enum taut_status parse_int(int *out, const char *option, const char *text, int lo, int hi)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < lo || v > hi)
		return fail_quiet(TAUT_ERR_ARG, "%s %s: want a whole number from %d to %d", option, text, lo, hi);
	*out = (int)v;
	return TAUT_OK;
}

enum taut_status bench_parse_bytes(size_t *out, const char *text)
{
	static const char units[] = "KMGT";
	char *end;
	double v = strtod(text, &end);
	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;

	if (!*text)
		return fail_quiet(TAUT_ERR_ARG, "an empty size: want a number of bytes such as 8, 4K, 1.5M or 2G");
	if (end == text || !isdigit((unsigned char)text[0]))
		return fail_quiet(TAUT_ERR_ARG, "size %s: want a number of bytes such as 8, 4K, 1.5M or 2G", text);
	if (unit) {
		v *= (double)(UINT64_C(1) << (10 * (unit - units + 1)));
		end++;
		if (*end == 'i')
			end++;
	}
	if (*end == 'B' || *end == 'b')
		end++;
	if (*end || v >= 0x1p48)
		return fail_quiet(TAUT_ERR_ARG, "size %s: want a number of bytes such as 8, 4K, 1.5M or 2G, below 256T",
				  text);
	*out = (size_t)v;
	return TAUT_OK;
}

static enum taut_status add_size(struct bench_opts *o, size_t bytes)
{
	size_t *more;

	if (o->nsizes == MAX_SIZES)
		return fail_quiet(TAUT_ERR_ARG, "--sizes: more than %d sizes", MAX_SIZES);
	more = mem_realloc(o->sizes, o->nsizes + 1, sizeof(*more));
	if (!more)
		return fail_quiet(TAUT_ERR_NOMEM, "--sizes: no memory");
	more[o->nsizes++] = bytes;
	o->sizes = more;
	return TAUT_OK;
}

/* MIN:MAX, MIN:MAX:xFACTOR or MIN:MAX:+STEP */
static enum taut_status add_range(struct bench_opts *o, char *text)
{
	char *max_text = strchr(text, ':');
	char *step_text = strchr(max_text + 1, ':');
	size_t min, max, step = 2;
	bool add = step_text && step_text[1] == '+';
	enum taut_status st;

	*max_text++ = '\0';
	if (step_text)
		*step_text++ = '\0';
	st = bench_parse_bytes(&min, text);
	if (!st)
		st = bench_parse_bytes(&max, max_text);
	if (!st && step_text)
		st = bench_parse_bytes(&step, step_text + (*step_text == 'x' || *step_text == '+'));
	if (st)
		return st;
	if (min > max || step < (add ? 1 : 2) || (!add && min == 0))
		return fail_quiet(
			TAUT_ERR_ARG,
			"--sizes %s:%s%s%s: want MIN:MAX:xFACTOR with 0 < MIN <= MAX and FACTOR >= 2, or MIN:MAX:+STEP",
			text, max_text, step_text ? ":" : "", step_text ? step_text : "");
	for (size_t s = min; s <= max && !st; s = add ? s + step : s * step)
		st = add_size(o, s);
	return st;
}

/* Calls @item for each part of the comma list @value. */
static enum taut_status each(struct bench_opts *o, const char *value,
			     enum taut_status (*item)(struct bench_opts *o, char *text))
{
	char *copy = mem_strdup(value), *rest = copy;
	enum taut_status st = TAUT_OK;

	if (!copy)
		return fail_quiet(TAUT_ERR_NOMEM, "no memory for the options");
	for (char *part = strsep(&rest, ","); part && !st; part = strsep(&rest, ","))
		st = item(o, part);
	mem_free(copy);
	return st;
}

static enum taut_status size_item(struct bench_opts *o, char *text)
{
	size_t bytes;
	enum taut_status st;

	if (strchr(text, ':'))
		return add_range(o, text);
	st = bench_parse_bytes(&bytes, text);
	return st ? st : add_size(o, bytes);
}

/* --- Types and operations --- */

static const struct {
	const char *other;
	enum taut_type type;
} type_aliases[] = {
	{ "fp16", TAUT_FLOAT16 },
	{ "float16", TAUT_FLOAT16 },
	{ "bf16", TAUT_BFLOAT16 },
	{ "fp32", TAUT_FLOAT32 },
	{ "float32", TAUT_FLOAT32 },
	{ "fp64", TAUT_FLOAT64 },
	{ "float64", TAUT_FLOAT64 },
	{ "char", TAUT_INT8 },
	{ "int", TAUT_INT32 },
	{ "fp8_e4m3", TAUT_FLOAT8_E4M3 },
	{ "float8_e4m3", TAUT_FLOAT8_E4M3 },
	{ "fp8_e5m2", TAUT_FLOAT8_E5M2 },
	{ "float8_e5m2", TAUT_FLOAT8_E5M2 },
};

static int find_type(const char *text)
{
	for (int t = 0; t < TAUT_TYPE_COUNT; t++)
		if (!strcasecmp(text, taut_type_name((enum taut_type)t)))
			return t;
	for (size_t i = 0; i < sizeof(type_aliases) / sizeof(type_aliases[0]); i++)
		if (!strcasecmp(text, type_aliases[i].other))
			return (int)type_aliases[i].type;
	return -1;
}

static enum taut_status bad_name(const char *option, const char *text, int count, const char *(*name)(int))
{
	char all[512] = "";

	for (int i = 0; i < count; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s, ", name(i));
	return fail_quiet(TAUT_ERR_ARG, "%s %s: want a comma list of %sor all", option, text, all);
}

static const char *type_name(int i)
{
	return taut_type_name((enum taut_type)i);
}

static void add_type(struct bench_opts *o, enum taut_type type)
{
	for (int i = 0; i < o->ntypes; i++)
		if (o->types[i] == type)
			return;
	o->types[o->ntypes++] = type;
}

static enum taut_status type_item(struct bench_opts *o, char *text)
{
	int type = find_type(text);

	if (strcmp(text, "all") && type < 0)
		return bad_name("--types", text, TAUT_TYPE_COUNT, type_name);
	for (int t = 0; t < TAUT_TYPE_COUNT; t++)
		if (type < 0 || t == type)
			add_type(o, (enum taut_type)t);
	return TAUT_OK;
}

static enum taut_op op_at(int i)
{
	return i < TAUT_OP_COUNT ? (enum taut_op)i : TAUT_OP_USER;
}

static const char *op_name(int i)
{
	return taut_op_name(op_at(i));
}

static void add_op(struct bench_opts *o, enum taut_op op)
{
	for (int i = 0; i < o->nops; i++)
		if (o->ops[i] == op)
			return;
	o->ops[o->nops++] = op;
}

static enum taut_status op_item(struct bench_opts *o, char *text)
{
	bool all = !strcmp(text, "all"), found = false;

	if (!strcmp(text, "mulsum")) /* nccl-tests' word */
		text = (char *)"premul_sum";
	for (int i = 0; i <= TAUT_OP_COUNT; i++) {
		if (all || !strcasecmp(text, op_name(i))) {
			add_op(o, op_at(i));
			found = true;
		}
	}
	return found ? TAUT_OK : bad_name("--ops", text, TAUT_OP_COUNT + 1, op_name);
}

/* --- Options --- */

static enum taut_status set_ranks(struct bench_opts *o, const char *v)
{
	return parse_int(&o->ranks, "--ranks", v, 1, BENCH_MAX_RANKS);
}

static enum taut_status set_sizes(struct bench_opts *o, const char *v)
{
	return each(o, v, size_item);
}

static enum taut_status set_types(struct bench_opts *o, const char *v)
{
	return each(o, v, type_item);
}

static enum taut_status set_ops(struct bench_opts *o, const char *v)
{
	return each(o, v, op_item);
}

static enum taut_status set_root(struct bench_opts *o, const char *v)
{
	o->root = BENCH_ALL_ROOTS;
	return strcmp(v, "all") ? parse_int(&o->root, "--root", v, 0, 1 << 20) : TAUT_OK;
}

static enum taut_status set_in_place(struct bench_opts *o, const char *v)
{
	(void)v;
	o->in_place = true;
	o->out_of_place = false;
	return TAUT_OK;
}

static enum taut_status set_out_of_place(struct bench_opts *o, const char *v)
{
	(void)v;
	o->in_place = false;
	o->out_of_place = true;
	return TAUT_OK;
}

static enum taut_status set_iters(struct bench_opts *o, const char *v)
{
	return parse_int(&o->iters, "--iters", v, 1, 1000000);
}

static enum taut_status set_warmup(struct bench_opts *o, const char *v)
{
	return parse_int(&o->warmup, "--warmup", v, 0, 1000000);
}

static enum taut_status set_batch(struct bench_opts *o, const char *v)
{
	return parse_int(&o->batch, "--batch", v, 1, 1000000);
}

static enum taut_status set_time(struct bench_opts *o, const char *v)
{
	char *end;

	o->seconds = strtod(v, &end);
	if (end == v || *end || !(o->seconds > 0 && o->seconds <= 3600))
		return fail_quiet(TAUT_ERR_ARG, "--time %s: want seconds, above 0 and at most 3600", v);
	return TAUT_OK;
}

static enum taut_status set_check(struct bench_opts *o, const char *v)
{
	(void)v;
	o->check = true;
	return TAUT_OK;
}

static enum taut_status set_no_check(struct bench_opts *o, const char *v)
{
	(void)v;
	o->check = false;
	return TAUT_OK;
}

static enum taut_status set_shared(struct bench_opts *o, const char *v)
{
	(void)v;
	o->shared = true;
	return TAUT_OK;
}

static enum taut_status set_quiet(struct bench_opts *o, const char *v)
{
	(void)v;
	o->quiet = true;
	return TAUT_OK;
}

static enum taut_status set_help(struct bench_opts *o, const char *v)
{
	(void)v;
	o->help = true;
	return TAUT_OK;
}

static enum taut_status set_wire(struct bench_opts *o, const char *v)
{
	if (strcmp(v, "auto") && !wire_find(v))
		return fail_quiet(TAUT_ERR_ARG, "--wire %s: want auto, shm or tcp", v);
	o->wire = v;
	return TAUT_OK;
}

static enum taut_status set_algo(struct bench_opts *o, const char *v)
{
	o->algo = v;
	return TAUT_OK;
}

static enum taut_status set_proto(struct bench_opts *o, const char *v)
{
	o->proto = v;
	return TAUT_OK;
}

static enum taut_status set_json(struct bench_opts *o, const char *v)
{
	o->json = v;
	return TAUT_OK;
}

static enum taut_status set_csv(struct bench_opts *o, const char *v)
{
	o->csv = v;
	return TAUT_OK;
}

static enum taut_status set_mode(struct bench_opts *o, const char *v)
{
	if (strcmp(v, "threads") && strcmp(v, "processes"))
		return fail_quiet(TAUT_ERR_ARG, "--mode %s: want processes or threads", v);
	o->threads = !strcmp(v, "threads");
	return TAUT_OK;
}

static enum taut_status set_bind(struct bench_opts *o, const char *v)
{
	static const char *const names[] = { "auto", "none", "cores" };

	for (int i = 0; i < 3; i++) {
		if (!strcmp(v, names[i])) {
			o->bind = (enum bench_bind)i;
			return TAUT_OK;
		}
	}
	return fail_quiet(TAUT_ERR_ARG, "--bind %s: want auto, none or cores", v);
}

static const struct option options[] = {
	{ "--ranks", "N", set_ranks, "ranks to start; default: one per processor, 2 to 8" },
	{ "--sizes", "LIST", set_sizes,
	  "bytes: a list (8,4K,1M), MIN:MAX:xFACTOR or MIN:MAX:+STEP; default " DEFAULT_SIZES },
	{ "--types", "LIST", set_types, "element types, or all; default float" },
	{ "--ops", "LIST", set_ops, "operations, or all; default sum" },
	{ "--root", "R", set_root, "root of broadcast, reduce, gather, scatter; default all: a new one each call" },
	{ "--in-place", NULL, set_in_place, "in place only; default: out of place and in place" },
	{ "--out-of-place", NULL, set_out_of_place, "out of place only" },
	{ "--time", "S", set_time, "seconds of repetitions for each figure, 7 to 201 of them; default 0.2" },
	{ "--iters", "N", set_iters, "repetitions for each figure, instead of --time" },
	{ "--batch", "N", set_batch, "calls of one repetition; default: about 2 ms of them" },
	{ "--warmup", "N", set_warmup, "calls before the first repetition; default: at least 20 ms of them" },
	{ "--check", NULL, set_check, "compare every element with an independent reference (default)" },
	{ "--no-check", NULL, set_no_check, "do not" },
	{ "--wire", "NAME", set_wire, "wire between ranks, as TAUT_WIRE: auto, shm, tcp" },
	{ "--algo", "LIST", set_algo, "algorithms allowed for this collective, as TAUT_ALGO" },
	{ "--proto", "LIST", set_proto, "protocols allowed for this collective, as TAUT_PROTO" },
	{ "--shared", NULL, set_shared, "buffers from taut_mem_alloc(), which all ranks of the machine can address" },
	{ "--bind", "HOW", set_bind,
	  "cores: rank r stays on processor r; none; default auto: cores when there are enough" },
	{ "--mode", "MODE", set_mode, "ranks are processes (default) or threads" },
	{ "--json", "FILE", set_json, "write the figures as a JSON array; - is standard output" },
	{ "--csv", "FILE", set_csv, "write the figures as comma-separated values; - is standard output" },
	{ "--quiet", NULL, set_quiet, "no table" },
	{ "--help", NULL, set_help, "this text" },
};
#define NUM_OPTIONS (sizeof(options) / sizeof(options[0]))

void bench_opts_help(void)
{
	printf("usage: taut bench COLLECTIVE [OPTIONS]\n"
	       "       taut bench limits [--max BYTES] [--quick] [--json FILE]\n\nCOLLECTIVE is one of");
	for (int i = 0; bench_coll_at(i); i++)
		printf("%s %s", i ? "," : "", bench_coll_at(i)->name);
	printf(".\nStarts its own ranks, unless a launcher (taut run, mpirun, srun, torchrun) started it.\n\n");
	for (size_t i = 0; i < NUM_OPTIONS; i++)
		printf("  %-14s %-5s %s\n", options[i].name, options[i].arg ? options[i].arg : "", options[i].help);
	printf("\nExit status: 0; 1 if an element was wrong or a rank failed; 2 for a wrong command line.\n");
}

static enum taut_status parse_option(struct bench_opts *o, int argc, char **argv, int *i)
{
	const char *arg = argv[*i];
	const char *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - arg) : strlen(arg);

	if (!strcmp(arg, "-h"))
		return set_help(o, NULL);
	for (size_t k = 0; k < NUM_OPTIONS; k++) {
		const struct option *opt = &options[k];

		if (strlen(opt->name) != len || strncmp(opt->name, arg, len))
			continue;
		if (!opt->arg)
			return equals ? fail_quiet(TAUT_ERR_ARG, "%s takes no value", opt->name) : opt->set(o, NULL);
		if (!equals && *i + 1 >= argc)
			return fail_quiet(TAUT_ERR_ARG, "%s wants a value: %s", opt->name, opt->help);
		return opt->set(o, equals ? equals + 1 : argv[++*i]);
	}
	if (*arg != '-')
		return fail_quiet(TAUT_ERR_ARG, "unexpected argument \"%s\": one collective at a time", arg);
	return fail_quiet(TAUT_ERR_ARG, "unknown option %s", arg);
}

static enum taut_status find_coll(struct bench_opts *o, const char *name)
{
	char all[256] = "";

	o->coll = bench_coll_find(name);
	if (o->coll)
		return TAUT_OK;
	for (int i = 0; bench_coll_at(i); i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", bench_coll_at(i)->name);
	return fail_quiet(TAUT_ERR_ARG, "unknown collective %s: want one of %s, or limits", name, all);
}

/* What was not given, and what does not go together. */
static enum taut_status complete(struct bench_opts *o)
{
	bool fits = !o->coll->reduces;

	if (!o->ntypes)
		add_type(o, TAUT_FLOAT32);
	if (!o->nops || !o->coll->reduces) {
		o->nops = 0;
		add_op(o, TAUT_SUM);
	}
	for (int i = 0; i < o->ntypes * o->nops && !fits; i++)
		fits = bench_op_fits(o->ops[i % o->nops], o->types[i / o->nops]);
	if (!fits)
		return fail_quiet(TAUT_ERR_ARG, "--ops %s does not exist for --types %s: bit operations want integers",
				  taut_op_name(o->ops[0]), taut_type_name(o->types[0]));
	if (!o->coll->in_place && !o->out_of_place)
		return fail_quiet(TAUT_ERR_ARG, "--in-place: %s does not exist in place", o->coll->name);
	if (!o->coll->in_place)
		o->in_place = false;
	if (o->root != BENCH_ALL_ROOTS && !o->coll->rooted)
		return fail_quiet(TAUT_ERR_ARG, "--root %d: %s has no root", o->root, o->coll->name);
	if (o->ranks && o->root >= o->ranks)
		return fail_quiet(TAUT_ERR_ARG, "--root %d: want a rank below --ranks %d", o->root, o->ranks);
	if (o->coll->kind == BENCH_BARRIER) {
		o->nsizes = 0;
		return add_size(o, 0);
	}
	return o->nsizes ? TAUT_OK : set_sizes(o, DEFAULT_SIZES);
}

enum taut_status bench_opts_parse(struct bench_opts *out, int argc, char **argv)
{
	struct bench_opts o = {
		.root = BENCH_ALL_ROOTS,
		.out_of_place = true,
		.in_place = true,
		.warmup = -1,
		.seconds = 0.2,
		.check = true,
	};
	enum taut_status st = argc ? find_coll(&o, argv[0]) : fail_quiet(TAUT_ERR_ARG, "no collective given");

	for (int i = 1; i < argc && !st && !o.help; i++)
		st = parse_option(&o, argc, argv, &i);
	if (!st && !o.help)
		st = complete(&o);
	if (st) {
		bench_opts_cleanup(&o);
		return st;
	}
	*out = o;
	return TAUT_OK;
}

void bench_opts_cleanup(struct bench_opts *o)
{
	mem_free(o->sizes);
	o->sizes = NULL;
}
