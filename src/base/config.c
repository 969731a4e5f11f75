/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alias.h"
#include "base/config_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/nccl_names.h"
#include "base/nearest.h"

enum kind { KIND_INT, KIND_SIZE, KIND_STR, KIND_ENUM, KIND_WORD };

struct row {
	struct setting s;
	enum kind kind;
	size_t offset; /* of the field in struct config */
	const char *lo, *hi, *names;
};

#define ROW(kind_, field_, env_, alias_, dflt_, word_, limits_, doc_, ...)                                             \
	{ .s = { env_, alias_, word_, dflt_, limits_, doc_ },                                                          \
	  .kind = kind_,                                                                                               \
	  .offset = offsetof(struct config, field_),                                                                   \
	  __VA_ARGS__ },
#define SET_INT(field, env, alias, dflt, lo_, hi_, doc)                                                                \
	ROW(KIND_INT, field, env, alias, dflt, "number", lo_ " to " hi_, doc, .lo = lo_, .hi = hi_)
#define SET_SIZE(field, env, alias, dflt, lo_, hi_, doc)                                                               \
	ROW(KIND_SIZE, field, env, alias, dflt, "size", lo_ " to " hi_, doc, .lo = lo_, .hi = hi_)
#define SET_STR(field, env, alias, dflt, doc) ROW(KIND_STR, field, env, alias, dflt, "text", "", doc, .lo = NULL)
#define SET_ENUM(field, env, alias, dflt, names_, doc)                                                                 \
	ROW(KIND_ENUM, field, env, alias, dflt, "choice", names_, doc, .names = names_)
#define SET_WORD(field, env, alias, dflt, names_, doc)                                                                 \
	ROW(KIND_WORD, field, env, alias, dflt, "choice", names_, doc, .names = names_)

static const struct row rows[] = {
#include "base/config.def"
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* TAUT_* names that are read elsewhere, or that `taut run` sets. */
static const char *const other_names[] = { "TAUT_CONFIG", "TAUT_LOCAL_RANK", "TAUT_LOCAL_SIZE" };
enum { OTHERS = sizeof(other_names) / sizeof(other_names[0]) };
static const char *const other_prefixes[] = { "TAUT_TEST_", "TAUT_UPDATE_GOLDEN" };

/* The files that apply, the first wins. */
struct files {
	struct config_file file[2];
	int count;
};

/* Where a row's value comes from. */
struct choice {
	const char *name, *value; /* as written; @name NULL: the default */
	const struct config_file *file;
	int line;
};

const char *config_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* --- values --- */

static const struct row *row_find(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].s.name, name) || (*rows[i].s.alias && !strcmp(rows[i].s.alias, name)))
			return &rows[i];
	return NULL;
}

const char *config_alias(const char *name)
{
	const struct row *row = config_env(name) ? NULL : row_find(name);

	return row && *row->s.alias ? row->s.alias : NULL;
}

static bool row_secret(const struct row *row)
{
	return row->offset == offsetof(struct config, secret);
}

/* Is the field a char *? */
static bool row_text(const struct row *row)
{
	return row->kind == KIND_STR || row->kind == KIND_WORD;
}

static bool parse_int(const char *text, long long *out)
{
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 10);
	return end != text && !*end && !errno && !isspace((unsigned char)*text);
}

/* Digits, then K, M, G or nothing, then B, iB or nothing. */
static bool parse_size(const char *text, long long *out)
{
	static const char units[] = "kmg";
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (errno)
		return false;
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (unit) {
		int shift = 10 * (int)(unit - units + 1);

		if (*out > LLONG_MAX >> shift)
			return false;
		*out <<= shift;
		end++;
		end += *end == 'i' && end[1];
	}
	end += *end == 'B' || *end == 'b';
	return !*end;
}

/* Index of @text in "a|b|c"; -1 when it is none of them. */
static int enum_index(const char *names, const char *text)
{
	size_t len = strlen(text);

	for (int i = 0; *names; i++) {
		size_t n = strcspn(names, "|");

		if (n == len && !strncasecmp(names, text, n))
			return i;
		names += n + (names[n] == '|');
	}
	return -1;
}

static bool parse_number(const struct row *row, const char *text, long long *out)
{
	switch (row->kind) {
	case KIND_INT:
		return parse_int(text, out);
	case KIND_SIZE:
		return parse_size(text, out);
	default:
		*out = row->kind == KIND_WORD && !*text ? 0 : enum_index(row->names, text);
		return *out >= 0;
	}
}

static const char *const want[] = { [KIND_INT] = "a number from",
				    [KIND_SIZE] = "a size (K, M, G) from",
				    [KIND_ENUM] = "one of",
				    [KIND_WORD] = "one of" };

/* @what: name, value and source as in "TAUT_LOG=loud (environment)". */
static enum taut_status bad_value(const struct row *row, const char *what)
{
	return fail(TAUT_ERR_CONFIG, "%s: expected %s %s. %s", what, want[row->kind], row->s.limits, row->s.doc);
}

enum fit { FITS, MOVED, SENSELESS };

/* A number beyond the limits is moved to the limit; *@out is the default where there is none. */
static enum fit row_number(const struct row *row, const char *text, long long *out)
{
	long long lo, hi, v;

	if (!parse_number(row, text, &v)) {
		parse_number(row, row->s.dflt, out);
		return SENSELESS;
	}
	*out = v;
	if (row->names)
		return FITS;
	parse_number(row, row->lo, &lo);
	parse_number(row, row->hi, &hi);
	*out = v < lo ? lo : v > hi ? hi : v;
	return v == *out ? FITS : MOVED;
}

static enum taut_status row_store_str(const struct row *row, struct config *cfg, const char *text)
{
	char **field = (char **)((char *)cfg + row->offset);
	char *copy = mem_strdup(text);

	if (!copy)
		return fail(TAUT_ERR_NOMEM, "setting %s", row->s.name);
	mem_free(*field);
	*field = copy;
	return TAUT_OK;
}

/* @alias: a program for NCCL runs with any value, as it does there; warn_value() says what is taken. */
static enum taut_status row_set(const struct row *row, struct config *cfg, const char *text, const char *what,
				bool alias)
{
	enum fit fit;
	long long v = 0;

	if (row->kind == KIND_STR)
		return row_store_str(row, cfg, text);
	fit = row_number(row, text, &v);
	if (fit != FITS && !alias)
		return bad_value(row, what);
	if (row->kind == KIND_WORD)
		return row_store_str(row, cfg, fit == FITS ? text : row->s.dflt);
	if (row->kind == KIND_SIZE)
		*(size_t *)((char *)cfg + row->offset) = (size_t)v;
	else
		*(int *)((char *)cfg + row->offset) = (int)v;
	return TAUT_OK;
}

/* NCCL reads its numbers as C does: 0x10 and 010 are some. */
static bool nccl_number(const char *text, long long *out)
{
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 0);
	return end != text && !*end && !errno;
}

/* As alias_value(). */
static int row_alias_value(const struct row *row, const char *name, const char *value, char *out, size_t len)
{
	long long v;

	if (row->kind == KIND_STR || row->kind == KIND_ENUM || !nccl_number(value, &v))
		return alias_value(name, value, out, len);
	/* Of its old levels the last one stands for what is above. */
	return snprintf(out, len, "%lld", row->kind == KIND_WORD && v > 5 ? 5 : v) < (int)len ? 0 : -1;
}

static enum taut_status row_set_named(const struct row *row, struct config *cfg, const char *name, const char *value,
				      const char *what)
{
	bool alias = strcmp(name, row->s.name) != 0;
	char ours[1024];

	if (!alias)
		return row_set(row, cfg, value, what, false);
	if (row_alias_value(row, name, value, ours, sizeof(ours)))
		return fail(TAUT_ERR_CONFIG, "%s: longer than %zu bytes. %s", what, sizeof(ours) - 1, row->s.doc);
	return row_set(row, cfg, ours, what, true);
}

/* --- sources --- */

static void files_cleanup(struct files *files)
{
	for (int i = 0; i < files->count; i++)
		config_file_cleanup(&files->file[i]);
	files->count = 0;
}

static enum taut_status files_load(struct files *out)
{
	const char *one = config_env("TAUT_CONFIG"), *home = config_env("HOME");
	char path[4096];
	enum taut_status st = TAUT_OK;

	out->count = 0;
	if (one) {
		st = config_file_load(&out->file[0], one, 1);
		out->count = st ? 0 : 1;
		return st;
	}
	if (home && snprintf(path, sizeof(path), "%s/.config/taut.conf", home) < (int)sizeof(path)) {
		st = config_file_load(&out->file[0], path, 0);
		out->count = st ? 0 : 1;
	}
	if (!st)
		st = config_file_load(&out->file[out->count], "/etc/taut.conf", 0);
	if (st)
		goto err_cleanup;
	out->count++;
	return TAUT_OK;
err_cleanup:
	files_cleanup(out);
	return st;
}

static bool choose_env(struct choice *out, const char *name)
{
	const char *value = *name ? config_env(name) : NULL;

	if (value)
		*out = (struct choice){ .name = name, .value = value };
	return value;
}

static bool choose_file(struct choice *out, const char *name, const struct config_file *file)
{
	const struct config_entry *e = *name ? config_file_find(file, name) : NULL;

	if (e)
		*out = (struct choice){ name, e->value, file, e->line };
	return e;
}

static struct choice choose(const struct row *row, const struct files *files)
{
	struct choice c = { .value = row->s.dflt };

	if (choose_env(&c, row->s.name) || choose_env(&c, row->s.alias))
		return c;
	for (int i = 0; i < files->count; i++)
		if (choose_file(&c, row->s.name, &files->file[i]) || choose_file(&c, row->s.alias, &files->file[i]))
			return c;
	return c;
}

static void choice_source(const struct choice *c, char *out, size_t len)
{
	if (!c->name)
		snprintf(out, len, "default");
	else if (c->file)
		snprintf(out, len, "file %s:%d", c->file->path, c->line);
	else
		snprintf(out, len, "environment (%s)", c->name);
}

/* For errors; the values of secrets never get that far. */
static void describe_choice(const struct row *row, const char *name, const char *value, const char *where, char *out,
			    size_t len)
{
	bool alias = strcmp(name, row->s.name) != 0;

	snprintf(out, len, "%s=%.80s (%s%s%s)", name, value, where, alias ? ", for " : "", alias ? row->s.name : "");
}

static enum taut_status row_load(const struct row *row, struct config *cfg, const struct choice *c)
{
	const char *name = c->name ? c->name : row->s.name;
	char where[300] = "environment", what[512];

	if (row_secret(row) && c->file && c->file->shared)
		return fail(TAUT_ERR_CONFIG,
			    "%s (file %s:%d): others can read that file: chmod 600 it, or use TAUT_SECRET_FILE", name,
			    c->file->path, c->line);
	if (!c->name || c->file)
		choice_source(c, where, sizeof(where));
	describe_choice(row, name, c->value, where, what, sizeof(what));
	return row_set_named(row, cfg, name, c->value, what);
}

/* --- names that nobody knows --- */

static bool name_known(const char *name)
{
	if (row_find(name))
		return true;
	for (size_t i = 0; i < OTHERS; i++)
		if (!strcmp(other_names[i], name))
			return true;
	for (size_t i = 0; i < sizeof(other_prefixes) / sizeof(other_prefixes[0]); i++)
		if (!strncmp(other_prefixes[i], name, strlen(other_prefixes[i])))
			return true;
	return false;
}

static const char *name_nearest(const char *name)
{
	const char *names[ROWS + OTHERS];

	for (size_t i = 0; i < ROWS; i++)
		names[i] = rows[i].s.name;
	for (size_t i = 0; i < OTHERS; i++)
		names[ROWS + i] = other_names[i];
	return nearest_name(name, names, ROWS + OTHERS);
}

static void warn_unknown(const char *name, const char *where)
{
	const char *near = name_nearest(name);

	log_warn(LOG_BASE, "%s (%s) is no setting%s%s%s", name, where, near ? ": did you mean " : "", near ? near : "",
		 near ? "?" : "; taut settings lists them");
}

static void check_own_name(const char *name)
{
	if (!name_known(name))
		warn_unknown(name, "environment");
}

static void check_nccl_name(const char *name)
{
	const struct nccl_name *known = nccl_name_find(name);
	const char *near = known ? NULL : nccl_name_nearest(name);

	if (!known)
		log_warn(LOG_BASE, "%s (environment) is no variable of NCCL%s%s%s", name, near ? ": did you mean " : "",
			 near ? near : "", near ? "?" : " that taut knows; taut settings lists those that it honours");
	else if (known->use == NCCL_USE_NONE)
		log_info(LOG_BASE, "%s (environment) has no effect: %s", name, known->what);
}

/* Every variable of the environment that begins with @prefix. */
static void each_env(const char *prefix, void (*check)(const char *name))
{
	char name[128];

	for (char **e = environ; e && *e; e++) {
		size_t len = strcspn(*e, "=");

		if (strncmp(*e, prefix, strlen(prefix)) || len >= sizeof(name))
			continue;
		memcpy(name, *e, len);
		name[len] = '\0';
		check(name);
	}
}

static void warn_unknown_file(const struct config_file *file)
{
	char where[288];

	for (size_t i = 0; i < file->count; i++) {
		const struct config_entry *e = &file->entries[i];

		if (!strncmp(e->name, "NCCL_", 5) || name_known(e->name))
			continue; /* a file may serve NCCL too */
		snprintf(where, sizeof(where), "file %s:%d", file->path, e->line);
		warn_unknown(e->name, where);
	}
}

/* What is wrong with the environment is wrong for all ranks of a machine: one of them is enough. The first
 * launcher that has numbered them counts. */
static bool first_of_machine(void)
{
	static const char *const ranks[] = { "TAUT_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
					     "MPI_LOCALRANKID", "SLURM_LOCALID" };

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		const char *rank = config_env(ranks[i]);

		if (rank)
			return !strcmp(rank, "0");
	}
	return true;
}

static void check_own_names(const struct files *files)
{
	each_env("TAUT_", check_own_name);
	for (int i = 0; i < files->count; i++)
		warn_unknown_file(&files->file[i]);
}

static void warn_once(const struct config *cfg, const struct files *files)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&done) || !first_of_machine())
		return;
	log_init(cfg); /* the warnings go where this configuration says */
	check_own_names(files);
}

/* --- values of NCCL's variables that mean nothing --- */

/* In NCCL's words: its programs know no others. */
static void tell_value(const struct row *row, const struct choice *c, enum fit fit, long long taken)
{
	const char *words = alias_words(row->s.alias);
	char where[300] = "environment", as[32] = "the default";

	if (c->file)
		choice_source(c, where, sizeof(where));
	if (fit == MOVED)
		snprintf(as, sizeof(as), "%lld", taken);
	log_warn(LOG_BASE, "%s=%.80s (%s): expected %s %s: taken as %s", row->s.alias, c->value, where,
		 words ? "one of" : want[row->kind], words ? words : row->s.limits, as);
}

static void warn_value(const struct row *row, const struct choice *c)
{
	static atomic_bool said[ROWS];
	atomic_bool *mine = &said[row - rows];
	enum fit fit = FITS;
	char ours[1024];
	long long v = 0;

	if (!c->name || strcmp(c->name, row->s.alias) != 0 || atomic_load(mine))
		return;
	if (row->kind != KIND_STR && !row_alias_value(row, c->name, c->value, ours, sizeof(ours)))
		fit = row_number(row, ours, &v);
	if (fit != FITS && !atomic_exchange(mine, true))
		tell_value(row, c, fit, v);
	if (alias_odd_word(c->name, c->value, ours, sizeof(ours)) && !atomic_exchange(mine, true))
		log_warn(LOG_BASE, "%s: NCCL has no \"%.80s\": left out", c->name, ours);
}

/* --- the calls --- */

enum taut_status config_defaults(struct config *out)
{
	struct config cfg = { 0 };
	enum taut_status st;

	for (size_t i = 0; i < ROWS; i++) {
		st = row_set(&rows[i], &cfg, rows[i].s.dflt, rows[i].s.name, false);
		if (st)
			goto err_cleanup;
	}
	*out = cfg;
	return TAUT_OK;
err_cleanup:
	config_cleanup(&cfg);
	return st;
}

enum taut_status config_load(struct config *out)
{
	struct files files;
	struct config cfg = { 0 };
	enum taut_status st = files_load(&files);

	if (st)
		return st;
	for (size_t i = 0; i < ROWS; i++) {
		struct choice c = choose(&rows[i], &files);

		st = row_load(&rows[i], &cfg, &c);
		if (st)
			goto err_cleanup;
	}
	warn_once(&cfg, &files);
	for (size_t i = 0; i < ROWS && first_of_machine(); i++) {
		struct choice c = choose(&rows[i], &files);

		warn_value(&rows[i], &c);
	}
	files_cleanup(&files);
	*out = cfg;
	return TAUT_OK;
err_cleanup:
	config_cleanup(&cfg);
	files_cleanup(&files);
	return st;
}

void config_check_names(void)
{
	struct files files;

	if (files_load(&files))
		return;
	check_own_names(&files);
	files_cleanup(&files);
}

void config_check_nccl_names(void)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&done) && first_of_machine())
		each_env("NCCL_", check_nccl_name);
}

bool config_nccl_version_wanted(void)
{
	const struct row *row = row_find("NCCL_DEBUG");
	struct files files;
	struct choice c;
	bool wanted;

	if (files_load(&files))
		return false;
	c = choose(row, &files);
	wanted = c.name && !strcmp(c.name, row->s.alias) && enum_index("VERSION|WARN", c.value) >= 0;
	files_cleanup(&files);
	return wanted;
}

enum taut_status config_set(struct config *cfg, const char *name, const char *value)
{
	const struct row *row = row_find(name);
	const char *near;
	char what[512];

	if (row) {
		describe_choice(row, name, value, "set by the program", what, sizeof(what));
		return row_set_named(row, cfg, name, value, what);
	}
	near = name_nearest(name);
	return fail(TAUT_ERR_CONFIG, "%s is no setting%s%s%s", name, near ? ": did you mean " : "", near ? near : "",
		    near ? "?" : "; taut settings lists them");
}

enum taut_status config_copy(struct config *out, const struct config *cfg)
{
	struct config copy = *cfg;
	enum taut_status st = TAUT_OK;

	for (size_t i = 0; i < ROWS; i++)
		if (row_text(&rows[i]))
			*(char **)((char *)&copy + rows[i].offset) = NULL;
	for (size_t i = 0; i < ROWS && !st; i++)
		if (row_text(&rows[i]))
			st = row_store_str(&rows[i], &copy, *(char *const *)((const char *)cfg + rows[i].offset));
	if (st)
		goto err_cleanup;
	*out = copy;
	return TAUT_OK;
err_cleanup:
	config_cleanup(&copy);
	return st;
}

void config_cleanup(struct config *cfg)
{
	if (!cfg)
		return;
	for (size_t i = 0; i < ROWS; i++) {
		if (!row_text(&rows[i]))
			continue;
		mem_free(*(char **)((char *)cfg + rows[i].offset));
		*(char **)((char *)cfg + rows[i].offset) = NULL;
	}
}

size_t config_count(void)
{
	return ROWS;
}

const struct setting *config_setting(size_t i)
{
	return i < ROWS ? &rows[i].s : NULL;
}

static void show_size(size_t v, char *out, size_t len)
{
	static const char *const units[] = { "", "K", "M", "G" };
	int unit = 0;

	for (; unit < 3 && v && v % 1024 == 0; unit++)
		v /= 1024;
	snprintf(out, len, "%zu%s", v, units[unit]);
}

static void show_enum(const char *names, int index, char *out, size_t len)
{
	for (; index > 0; index--)
		names += strcspn(names, "|") + 1;
	snprintf(out, len, "%.*s", (int)strcspn(names, "|"), names);
}

static void row_show(const struct row *row, const struct config *cfg, char *out, size_t len)
{
	const void *field = (const char *)cfg + row->offset;

	switch (row->kind) {
	case KIND_INT:
		snprintf(out, len, "%d", *(const int *)field);
		break;
	case KIND_SIZE:
		show_size(*(const size_t *)field, out, len);
		break;
	case KIND_STR:
	case KIND_WORD:
		snprintf(out, len, "%s", *(char *const *)field);
		break;
	case KIND_ENUM:
		show_enum(row->names, *(const int *)field, out, len);
		break;
	}
	if (row_secret(row) && *out)
		snprintf(out, len, "set");
}

enum taut_status config_describe(size_t i, struct setting_value *out)
{
	const struct row *row = &rows[i];
	struct config cfg = { 0 };
	struct files files;
	struct choice c;
	enum taut_status st;

	if (i >= ROWS)
		return fail(TAUT_ERR_ARG, "setting %zu: there are %d", i, ROWS);
	st = files_load(&files);
	if (st)
		return st;
	c = choose(row, &files);
	out->setting = &row->s;
	choice_source(&c, out->source, sizeof(out->source));
	snprintf(out->value, sizeof(out->value), "%s", row_secret(row) ? "" : c.value); /* shown when it is bad */
	st = row_load(row, &cfg, &c);
	if (!st) {
		row_show(row, &cfg, out->value, sizeof(out->value));
		warn_value(row, &c);
	}
	config_cleanup(&cfg);
	files_cleanup(&files);
	return st;
}
