/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost_filter.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/nearest.h"

enum { NAMES_MAX = 96, WORD_MAX = 64 };

struct cost_filter {
	struct filter_rule algos[COLL_COUNT], protos[COLL_COUNT];
	char *algo, *proto; /* as given */
};

/* What a list is made of: the algorithms, or the protocols. */
struct vocabulary {
	const char *variable, *what;
	const char *const *foreign;    /* NCCL's names of what taut does not have, NULL-terminated */
	int (*find)(const char *name); /* -1: unknown */
	const char *(*name)(int i);    /* NULL: past the end */
};

/* --- Words. --- */

static int algo_index(const char *name)
{
	const struct sched_algo *algo = sched_algo_find(name);

	for (int i = 0; algo && sched_algos[i]; i++)
		if (sched_algos[i] == algo)
			return i;
	for (int i = 0; sched_algos[i]; i++)
		if (!strcasecmp(sched_algos[i]->name, name))
			return i;
	return -1;
}

static const char *algo_name(int i)
{
	return sched_algos[i] ? sched_algos[i]->name : NULL;
}

static int proto_index(const char *name)
{
	if (!strcasecmp(name, "simple"))
		return PROTO_BULK;
	for (int i = 0; i < PROTO_COUNT; i++)
		if (!strcasecmp(sched_proto_name((enum sched_proto)i), name))
			return i;
	return -1;
}

static const char *proto_name(int i)
{
	return i < PROTO_COUNT ? sched_proto_name((enum sched_proto)i) : NULL;
}

static const char *const foreign_algos[] = { "collnet",	 "collnetdirect", "collnetchain", "nvls",
					     "nvlstree", "pat",		  "allgatherv",	  NULL };
static const char *const foreign_protos[] = { "ll128", NULL };

static const struct vocabulary algo_words = { "TAUT_ALGO", "algorithm", foreign_algos, algo_index, algo_name };
static const struct vocabulary proto_words = { "TAUT_PROTO", "protocol", foreign_protos, proto_index, proto_name };

static bool is_foreign(const struct vocabulary *v, const char *name)
{
	for (int i = 0; v->foreign[i]; i++)
		if (!strcasecmp(v->foreign[i], name))
			return true;
	return false;
}

const char *sched_proto_name(enum sched_proto proto)
{
	static const char *const names[] = { [PROTO_LL] = "ll", [PROTO_BULK] = "bulk" };

	return (unsigned)proto < PROTO_COUNT ? names[proto] : "unknown";
}

/* all_reduce, allreduce, AllReduce; -1: unknown. */
static int coll_index(const char *name)
{
	char plain[WORD_MAX], known[WORD_MAX];
	size_t n = 0;

	for (const char *p = name; *p && n + 1 < sizeof(plain); p++)
		if (*p != '_')
			plain[n++] = *p;
	plain[n] = '\0';
	for (int c = 0; c < COLL_COUNT; c++) {
		n = 0;
		for (const char *p = sched_coll_name((enum sched_coll)c); *p && n + 1 < sizeof(known); p++)
			if (*p != '_')
				known[n++] = *p;
		known[n] = '\0';
		if (!strcasecmp(plain, known))
			return c;
	}
	return -1;
}

/* --- Errors. --- */

static size_t append(char *buf, size_t len, size_t at, const char *sep, const char *word)
{
	int n = snprintf(buf + at, at < len ? len - at : 0, "%s%s", at ? sep : "", word);

	return at + (size_t)(n > 0 ? n : 0) < len ? at + (size_t)n : len - 1;
}

static enum taut_status unknown_word(const struct vocabulary *v, const char *text, const char *word)
{
	const char *names[NAMES_MAX], *near;
	char list[512] = "";
	size_t count = 0, at = 0;

	for (int i = 0; v->name(i) && count < NAMES_MAX; i++)
		names[count++] = v->name(i);
	for (size_t i = 0; i < count; i++)
		at = append(list, sizeof(list), at, ", ", names[i]);
	near = nearest_name(word, names, count);
	return fail(TAUT_ERR_CONFIG, "%s=%s: no %s is called \"%s\"%s%s%s; known: %s", v->variable, text, v->what, word,
		    near ? "; did you mean " : "", near ? near : "", near ? "?" : "", list);
}

static enum taut_status unknown_coll(const struct vocabulary *v, const char *text, const char *word)
{
	const char *names[COLL_COUNT], *near;
	char list[256] = "";
	size_t at = 0;

	for (int c = 0; c < COLL_COUNT; c++) {
		names[c] = sched_coll_name((enum sched_coll)c);
		at = append(list, sizeof(list), at, ", ", names[c]);
	}
	near = nearest_name(word, names, COLL_COUNT);
	return fail(TAUT_ERR_CONFIG, "%s=%s: no collective is called \"%s\"%s%s%s; known: %s", v->variable, text, word,
		    near ? "; did you mean " : "", near ? near : "", near ? "?" : "", list);
}

/* --- Lists. --- */

struct list {
	uint64_t named; /* bits of the names that taut has */
	bool without;	/* ^ */
};

static uint64_t all_words(const struct vocabulary *v)
{
	uint64_t mask = 0;

	for (int i = 0; v->name(i) && i < 64; i++)
		mask |= (uint64_t)1 << i;
	return mask;
}

/* Copies [*p, end) up to one of @stops without the blanks around; *p moves past the word. False: too long. */
static bool next_word(char out[WORD_MAX], const char **p, const char *stops)
{
	const char *end = *p + strcspn(*p, stops), *from = *p;

	*p = end;
	from += strspn(from, " \t");
	while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	snprintf(out, WORD_MAX, "%.*s", (int)(end - from < WORD_MAX ? end - from : WORD_MAX - 1), from);
	return end - from < WORD_MAX;
}

static enum taut_status parse_name(struct list *out, const struct vocabulary *v, const char *text, const char *word)
{
	int i;

	if (!*word)
		return fail(TAUT_ERR_CONFIG, "%s=%s: a name is missing; wanted NAME,NAME... as in all_reduce:%s,%s",
			    v->variable, text, v->name(0), v->name(0) && v->name(1) ? v->name(1) : "");
	i = v->find(word);
	if (i >= 0) {
		out->named |= (uint64_t)1 << i;
		return TAUT_OK;
	}
	if (!is_foreign(v, word))
		return unknown_word(v, text, word);
	log_info(LOG_SCHED, "%s: taut has no %s %s, the name selects nothing", v->variable, v->what, word);
	return TAUT_OK;
}

/* NAME,NAME... up to ';' or the end. */
static enum taut_status parse_names(struct list *out, const struct vocabulary *v, const char *text, const char **p)
{
	char word[WORD_MAX];

	*out = (struct list){ 0 };
	*p += strspn(*p, " \t");
	if (**p == '^') {
		out->without = true;
		++*p;
	}
	for (;;) {
		enum taut_status st;

		if (!next_word(word, p, ",;"))
			return unknown_word(v, text, word);
		st = parse_name(out, v, text, word);
		if (st || **p != ',')
			return st;
		++*p;
	}
}

/* An order for @coll, or a wish for all collectives that have no order. */
static void apply_list(struct filter_rule *rules, const struct list *list, uint64_t all, int coll)
{
	for (int c = 0; c < COLL_COUNT; c++) {
		if (coll >= 0 ? c != coll : rules[c].order)
			continue;
		rules[c].mask = list->without ? all & ~list->named : list->named;
		rules[c].order = coll >= 0;
		rules[c].active = true;
	}
}

static enum taut_status parse_part(struct filter_rule *rules, const struct vocabulary *v, const char *text,
				   const char **p)
{
	const char *colon = *p + strcspn(*p, ":;");
	char word[WORD_MAX];
	struct list list;
	int coll = -1;
	enum taut_status st;

	if (*colon == ':') {
		bool fits = next_word(word, p, ":");

		++*p;
		coll = fits ? coll_index(word) : -1;
		if (coll < 0)
			return unknown_coll(v, text, word);
	}
	st = parse_names(&list, v, text, p);
	if (!st)
		apply_list(rules, &list, all_words(v), coll);
	return st;
}

static enum taut_status parse_text(struct filter_rule *rules, const struct vocabulary *v, const char *text)
{
	const char *p = text;

	for (int c = 0; c < COLL_COUNT; c++)
		rules[c] = (struct filter_rule){ .mask = all_words(v) };
	for (;;) {
		enum taut_status st;

		p += strspn(p, " \t;");
		if (!*p)
			return TAUT_OK;
		st = parse_part(rules, v, text, &p);
		if (st)
			return st;
	}
}

/* Wishes that no algorithm of a collective answers are dropped, and said once. */
static void drop_idle_wishes(struct cost_filter *f)
{
	char list[256] = "";
	size_t at = 0;

	for (int c = 0; c < COLL_COUNT; c++) {
		struct filter_rule *r = &f->algos[c];
		bool some = false;

		for (int i = 0; sched_algos[i]; i++)
			some = some || (r->mask >> i & 1 && sched_algos[i]->colls >> c & 1);
		if (!r->active || r->order || some)
			continue;
		*r = (struct filter_rule){ .mask = all_words(&algo_words) };
		at = append(list, sizeof(list), at, ", ", sched_coll_name((enum sched_coll)c));
	}
	if (at)
		log_info(LOG_SCHED, "TAUT_ALGO=%s allows no algorithm that does %s: chosen freely there", f->algo,
			 list);
	for (int c = 0; c < COLL_COUNT; c++)
		if (f->protos[c].active && !f->protos[c].order && !f->protos[c].mask)
			f->protos[c] = (struct filter_rule){ .mask = all_words(&proto_words) };
}

enum taut_status cost_filter_parse(struct cost_filter **out, const char *algo, const char *proto)
{
	struct cost_filter *f = mem_calloc(1, sizeof(*f));
	enum taut_status st;

	if (!f)
		return fail(TAUT_ERR_NOMEM, "filter of algorithms");
	f->algo = mem_strdup(algo ? algo : "");
	f->proto = mem_strdup(proto ? proto : "");
	if (!f->algo || !f->proto) {
		st = fail(TAUT_ERR_NOMEM, "filter of algorithms");
		goto err_free;
	}
	st = parse_text(f->algos, &algo_words, f->algo);
	if (!st)
		st = parse_text(f->protos, &proto_words, f->proto);
	if (st)
		goto err_free;
	drop_idle_wishes(f);
	*out = f;
	return TAUT_OK;
err_free:
	cost_filter_free(f);
	return st;
}

void cost_filter_free(struct cost_filter *f)
{
	if (!f)
		return;
	mem_free(f->algo);
	mem_free(f->proto);
	mem_free(f);
}

static const struct filter_rule no_rule = { .mask = UINT64_MAX };

struct filter_rule filter_algos(const struct cost_filter *f, enum sched_coll coll)
{
	return f ? f->algos[coll] : no_rule;
}

struct filter_rule filter_protos(const struct cost_filter *f, enum sched_coll coll)
{
	return f ? f->protos[coll] : no_rule;
}

bool cost_filter_allows(const struct cost_filter *f, enum sched_coll coll, const struct sched_algo *algo)
{
	struct filter_rule rule = filter_algos(f, coll);

	for (int i = 0; sched_algos[i]; i++)
		if (sched_algos[i] == algo)
			return !rule.active || rule.mask >> i & 1;
	return false;
}

const char *filter_algo_text(const struct cost_filter *f)
{
	return f ? f->algo : "";
}

const char *filter_proto_text(const struct cost_filter *f)
{
	return f ? f->proto : "";
}
