/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alias.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct word {
	const char *theirs, *ours; /* ours: a word or a comma list of them; NULL: no counterpart */
};

static const struct word levels[] = {
	{ "VERSION", "warn" }, { "WARN", "warn" }, { "INFO", "info" }, { "TRACE", "debug" }, { "ABORT", "warn" }, { 0 },
};
static const struct word subsystems[] = {
	{ "INIT", "comm" },	{ "COLL", "comm" },  { "CALL", "comm" },    { "DESTROY", "comm" },
	{ "P2P", "wire,cuda" }, { "SHM", "wire" },   { "NET", "wire" },	    { "PROXY", "wire" },
	{ "REG", "cuda" },	{ "GRAPH", "topo" }, { "TUNING", "sched" }, { "BOOTSTRAP", "boot" },
	{ "RAS", "boot" },	{ "ENV", "base" },   { "ALLOC", "base" },   { "ALLOC_HOST", "base" },
	{ "NVLS", NULL },	{ "PROFILE", NULL }, { "ALL", "all" },	    { 0 },
};
static const struct word protocols[] = { { "Simple", "bulk" }, { "LL", "ll" }, { "LL128", "ll" }, { 0 } };
/* LL128 stands for ll where it is wanted, but leaving LL128 out does not leave ll out. */
static const struct word protocols_without[] = { { "Simple", "bulk" }, { "LL", "ll" }, { "LL128", NULL }, { 0 } };
static const struct word algorithms[] = {
	{ "Tree", "tree" },	  { "Ring", "ring" },  { "CollnetDirect", NULL },
	{ "CollnetChain", NULL }, { "Collnet", NULL }, { "NVLS", NULL },
	{ "NVLSTree", NULL },	  { "PAT", NULL },     { 0 },
};
static const struct word collectives[] = {
	{ "allreduce", "all_reduce" },
	{ "allgather", "all_gather" },
	{ "reducescatter", "reduce_scatter" },
	{ "alltoall", "all_to_all" },
	{ 0 },
};

struct text {
	char *at;
	size_t left; /* besides the final zero */
	bool short_of_room;
	bool known_only; /* words that are not in the table are left out */
};

/* In lower case: taut's words are. */
static void put(struct text *t, const char *s, size_t len)
{
	if (len > t->left) {
		t->short_of_room = true;
		return;
	}
	for (size_t i = 0; i < len; i++)
		t->at[i] = (char)tolower((unsigned char)s[i]);
	t->at += len;
	t->left -= len;
	*t->at = '\0';
}

static const struct word *find(const struct word *words, const char *s, size_t len)
{
	for (; words->theirs; words++)
		if (strlen(words->theirs) == len && !strncasecmp(words->theirs, s, len))
			return words;
	return NULL;
}

static bool listed(const char *list, const char *end, const char *word, size_t len)
{
	for (const char *at = list; at < end;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t have = (size_t)((comma ? comma : end) - at);

		if (have == len && !strncasecmp(at, word, len))
			return true;
		at += have + 1;
	}
	return false;
}

static void put_once(struct text *t, const char *list, const char *word, size_t len)
{
	if (!len || listed(list, t->at, word, len))
		return;
	if (t->at > list)
		put(t, ",", 1);
	put(t, word, len);
}

/* A comma list, each word once; a word that is not in @words mostly stays. */
static void put_list(struct text *t, const struct word *words, const char *s, size_t len)
{
	const char *list = t->at, *end = s + len;

	while (s < end) {
		const char *comma = memchr(s, ',', (size_t)(end - s));
		size_t n = (size_t)((comma ? comma : end) - s);
		const struct word *w = find(words, s, n);

		if (!w && !t->known_only)
			put_once(t, list, s, n);
		for (const char *ours = w ? w->ours : NULL; ours && *ours;) {
			size_t one = strcspn(ours, ",");

			put_once(t, list, ours, one);
			ours += one + (ours[one] == ',');
		}
		s += n + 1;
	}
}

/* "[^]list": with nothing left of the list, nothing is written. */
static void put_choice(struct text *t, const struct word *with, const struct word *without, const char *s, size_t len)
{
	struct text before = *t;
	bool except = len && *s == '^';

	if (except)
		put(t, "^", 1);
	put_list(t, except ? without : with, s + except, len - except);
	if (t->at == before.at + except) {
		before.short_of_room = t->short_of_room;
		*t = before;
		*t->at = '\0';
	}
}

/* "choice" for all, or "collective:choice;collective:choice". */
static void put_choices(struct text *t, const struct word *with, const struct word *without, const char *s)
{
	bool first = true;

	while (*s) {
		size_t len = strcspn(s, ";"), head = 0;
		const char *colon = memchr(s, ':', len);
		struct text before = *t;
		const char *body;

		if (!first)
			put(t, ";", 1);
		if (colon) {
			head = (size_t)(colon - s) + 1;
			t->known_only = false;
			put_list(t, collectives, s, head - 1);
			t->known_only = true;
			put(t, ":", 1);
		}
		body = t->at;
		put_choice(t, with, without, s + head, len - head);
		if (t->at == body) { /* nothing left to say of this collective */
			before.short_of_room = t->short_of_room;
			*t = before;
			*t->at = '\0';
		} else {
			first = false;
		}
		s += len + (s[len] == ';');
	}
}

/* Of those that are lists; their words are NCCL's alone. */
static const struct word *words_of(const char *alias)
{
	if (!strcmp(alias, "NCCL_DEBUG_SUBSYS"))
		return subsystems;
	if (!strcmp(alias, "NCCL_PROTO"))
		return protocols;
	return strcmp(alias, "NCCL_ALGO") ? NULL : algorithms;
}

int alias_value(const char *alias, const char *value, char *out, size_t len)
{
	struct text t = { .at = out, .left = len - 1 };

	*out = '\0';
	t.known_only = words_of(alias);
	if (!strcmp(alias, "NCCL_DEBUG")) {
		put_list(&t, levels, value, strlen(value));
	} else if (!strcmp(alias, "NCCL_DEBUG_SUBSYS")) {
		put_choice(&t, subsystems, subsystems, value, strlen(value));
	} else if (!strcmp(alias, "NCCL_PROTO")) {
		put_choices(&t, protocols, protocols_without, value);
	} else if (!strcmp(alias, "NCCL_ALGO")) {
		put_choices(&t, algorithms, algorithms, value);
	} else {
		if (strlen(value) >= len)
			return -1;
		strcpy(out, value);
	}
	return t.short_of_room ? -1 : 0;
}

const char *alias_words(const char *alias)
{
	if (!strcmp(alias, "NCCL_DEBUG"))
		return "VERSION|WARN|INFO|ABORT|TRACE";
	return strcmp(alias, "NCCL_SOCKET_FAMILY") ? NULL : "AF_INET|AF_INET6";
}

bool alias_odd_word(const char *alias, const char *value, char *out, size_t len)
{
	const struct word *words = words_of(alias);

	while (words && *value) {
		size_t n;

		value += *value == '^';
		n = strcspn(value, ":,;");
		if (n && value[n] != ':' && !find(words, value, n)) { /* before a colon: a collective */
			snprintf(out, len, "%.*s", (int)n, value);
			return true;
		}
		value += n + (value[n] != '\0');
	}
	return false;
}
