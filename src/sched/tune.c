/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost_tune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"

enum {
	TUNE_VERSION = 1,
	WORD_MAX = 64,
	RANKS_MAX = 1 << 20,
	CHANNELS_MAX = 64,
};
/* Numbers are written with at most nine decimals, without exponent: no locale, no rounding
 * differences between machines. */
#define SCALE 1000000000u
#define VALUE_MAX 1000000u /* us, or bytes */

/* --- Names of the machine's numbers. --- */

struct number {
	const char *name;
	size_t offset; /* in struct cost_machine */
	bool bytes;    /* a size_t; else a double */
};
#define REAL(name, field)                                                                                              \
	{                                                                                                              \
		name, offsetof(struct cost_machine, field), false                                                      \
	}
static const struct number numbers[] = {
	REAL("shm.ll.post_us", link[0].post_us[PROTO_LL]),
	REAL("shm.ll.trip_us", link[0].trip_us[PROTO_LL]),
	REAL("shm.ll.byte_us.cache", link[0].byte_us[PROTO_LL][COST_CACHE]),
	REAL("shm.ll.byte_us.memory", link[0].byte_us[PROTO_LL][COST_MEMORY]),
	REAL("shm.bulk.post_us", link[0].post_us[PROTO_BULK]),
	REAL("shm.bulk.trip_us", link[0].trip_us[PROTO_BULK]),
	REAL("shm.bulk.byte_us.cache", link[0].byte_us[PROTO_BULK][COST_CACHE]),
	REAL("shm.bulk.byte_us.memory", link[0].byte_us[PROTO_BULK][COST_MEMORY]),
	REAL("net.ll.post_us", link[1].post_us[PROTO_LL]),
	REAL("net.ll.trip_us", link[1].trip_us[PROTO_LL]),
	REAL("net.ll.byte_us.cache", link[1].byte_us[PROTO_LL][COST_CACHE]),
	REAL("net.ll.byte_us.memory", link[1].byte_us[PROTO_LL][COST_MEMORY]),
	REAL("net.bulk.post_us", link[1].post_us[PROTO_BULK]),
	REAL("net.bulk.trip_us", link[1].trip_us[PROTO_BULK]),
	REAL("net.bulk.byte_us.cache", link[1].byte_us[PROTO_BULK][COST_CACHE]),
	REAL("net.bulk.byte_us.memory", link[1].byte_us[PROTO_BULK][COST_MEMORY]),
	REAL("copy_byte_us.cache", copy_byte_us[COST_CACHE]),
	REAL("copy_byte_us.memory", copy_byte_us[COST_MEMORY]),
	REAL("reduce_byte_us.cache", reduce_byte_us[COST_CACHE]),
	REAL("reduce_byte_us.memory", reduce_byte_us[COST_MEMORY]),
	REAL("map_byte_us.cache", map_byte_us[COST_CACHE]),
	REAL("map_byte_us.memory", map_byte_us[COST_MEMORY]),
	REAL("barrier_us", barrier_us),
	REAL("switch_us", switch_us),
	{ "cache_bytes", offsetof(struct cost_machine, cache_bytes), true },
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

struct tune {
	bool has[NUMBERS];
	uint64_t value[NUMBERS]; /* in 1/SCALE us, or bytes */
	struct tune_best *best;
	size_t nbest, cap_best;
};

enum taut_status tune_create(struct tune **out)
{
	struct tune *t = mem_calloc(1, sizeof(*t));

	if (!t)
		return fail(TAUT_ERR_NOMEM, "tuning file");
	*out = t;
	return TAUT_OK;
}

void tune_free(struct tune *t)
{
	if (!t)
		return;
	mem_free(t->best);
	mem_free(t);
}

void tune_set(struct tune *t, const struct cost_machine *m)
{
	for (int i = 0; i < NUMBERS; i++) {
		const char *at = (const char *)m + numbers[i].offset;

		t->has[i] = true;
		if (numbers[i].bytes) {
			size_t bytes;

			memcpy(&bytes, at, sizeof(bytes));
			t->value[i] = bytes;
		} else {
			double us;

			memcpy(&us, at, sizeof(us));
			us = us > 0 ? us : 0; /* also what is no number */
			us = us < VALUE_MAX ? us : VALUE_MAX;
			t->value[i] = (uint64_t)(us * SCALE + 0.5);
		}
	}
}

void tune_apply(const struct tune *t, struct cost_machine *m)
{
	for (int i = 0; t && i < NUMBERS; i++) {
		char *at = (char *)m + numbers[i].offset;
		size_t bytes = t->value[i];
		double us = (double)t->value[i] / SCALE;

		if (!t->has[i])
			continue;
		if (numbers[i].bytes)
			memcpy(at, &bytes, sizeof(bytes));
		else
			memcpy(at, &us, sizeof(us));
	}
}

enum taut_status tune_add(struct tune *t, const struct tune_best *best)
{
	if (t->nbest == t->cap_best) {
		size_t cap = t->cap_best ? t->cap_best * 2 : 16;
		struct tune_best *more = mem_realloc(t->best, cap, sizeof(*more));

		if (!more)
			return fail(TAUT_ERR_NOMEM, "tuning file: %zu lines", cap);
		t->best = more;
		t->cap_best = cap;
	}
	t->best[t->nbest++] = *best;
	return TAUT_OK;
}

const struct tune_best *tune_line(const struct tune *t, size_t i)
{
	return i < t->nbest ? &t->best[i] : NULL;
}

/* --- Reading. --- */

struct reader {
	const char *name;
	const char *p, *line_start, *end;
	int line;
};

static enum taut_status broken(const struct reader *r, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum taut_status broken(const struct reader *r, const char *at, const char *fmt, ...)
{
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return fail(TAUT_ERR_CONFIG, "%s:%d:%d: %s (run `taut tune` to write the file anew, or remove it)", r->name,
		    r->line, (int)(at - r->line_start) + 1, what);
}

struct word {
	char text[WORD_MAX]; /* cut */
	const char *at;
	size_t len;
};

static void skip_blanks(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\r'))
		r->p++;
	if (r->p < r->end && *r->p == '#')
		while (r->p < r->end && *r->p != '\n')
			r->p++;
}

/* The next word of the line; len 0 at its end. What cannot be printed becomes '?'. */
static struct word next_word(struct reader *r)
{
	struct word w = { .at = NULL };

	skip_blanks(r);
	w.at = r->p;
	while (r->p < r->end && !memchr(" \t\r\n#", *r->p, 5)) {
		if (w.len + 1 < sizeof(w.text))
			w.text[w.len] = *r->p > ' ' && *r->p < 127 ? *r->p : '?';
		w.len++;
		r->p++;
	}
	return w;
}

static enum taut_status need_word(struct word *out, struct reader *r, const char *what)
{
	*out = next_word(r);
	return out->len ? TAUT_OK : broken(r, out->at, "%s is missing", what);
}

static enum taut_status line_done(struct reader *r)
{
	struct word w = next_word(r);

	return w.len ? broken(r, w.at, "\"%s\" is too much", w.text) : TAUT_OK;
}

/* A whole number up to @max. */
static enum taut_status read_uint(uint64_t *out, struct reader *r, const char *what, uint64_t min, uint64_t max)
{
	struct word w;
	uint64_t v = 0;
	size_t i = 0;
	enum taut_status st = need_word(&w, r, what);

	if (st)
		return st;
	for (; i < w.len && i < sizeof(w.text) - 1 && w.text[i] >= '0' && w.text[i] <= '9'; i++) {
		if (v > (UINT64_MAX - 9) / 10)
			break;
		v = v * 10 + (uint64_t)(w.text[i] - '0');
	}
	if (i < w.len || v < min || v > max)
		return broken(r, w.at, "%s is \"%s\", wanted a whole number from %" PRIu64 " to %" PRIu64, what, w.text,
			      min, max);
	*out = v;
	return TAUT_OK;
}

/* Digits, and up to nine decimals. */
static bool parse_decimal(uint64_t *out, const char *s)
{
	uint64_t whole = 0, part = 0, unit = SCALE;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9' && whole <= VALUE_MAX; s++)
		whole = whole * 10 + (uint64_t)(*s - '0');
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9' && unit > 1; s++) {
			unit /= 10;
			part += (uint64_t)(*s - '0') * unit;
		}
	*out = whole * SCALE + part;
	return !*s && *out <= (uint64_t)VALUE_MAX * SCALE;
}

static int number_find(const char *name)
{
	for (int i = 0; i < NUMBERS; i++)
		if (!strcmp(numbers[i].name, name))
			return i;
	return -1;
}

static enum taut_status unknown_number(const struct reader *r, const struct word *w)
{
	const char *names[NUMBERS], *near;

	for (int i = 0; i < NUMBERS; i++)
		names[i] = numbers[i].name;
	near = nearest_name(w->text, names, NUMBERS);
	return broken(r, w->at, "no number of a machine is called \"%s\"%s%s%s", w->text, near ? "; did you mean " : "",
		      near ? near : "", near ? "?" : "");
}

static enum taut_status read_machine(struct tune *t, struct reader *r)
{
	struct word w;
	int i;
	enum taut_status st = need_word(&w, r, "the name of a number");

	if (st)
		return st;
	i = number_find(w.text);
	if (i < 0)
		return unknown_number(r, &w);
	if (t->has[i])
		return broken(r, w.at, "%s is given twice", w.text);
	if (numbers[i].bytes) {
		st = read_uint(&t->value[i], r, "the value", 0, SIZE_MAX / 16);
	} else {
		st = need_word(&w, r, "the value");
		if (!st && (w.len >= sizeof(w.text) || !parse_decimal(&t->value[i], w.text)))
			st = broken(r, w.at,
				    "the value is \"%s\", wanted a number from 0 to %u with at most 9 decimals", w.text,
				    VALUE_MAX);
	}
	t->has[i] = !st;
	return st;
}

static enum taut_status read_coll(enum sched_coll *out, struct reader *r)
{
	const char *names[COLL_COUNT], *near;
	struct word w;
	enum taut_status st = need_word(&w, r, "the collective");

	if (st)
		return st;
	for (int c = 0; c < COLL_COUNT; c++) {
		names[c] = sched_coll_name((enum sched_coll)c);
		if (!strcmp(names[c], w.text)) {
			*out = (enum sched_coll)c;
			return TAUT_OK;
		}
	}
	near = nearest_name(w.text, names, COLL_COUNT);
	return broken(r, w.at, "no collective is called \"%s\"%s%s%s", w.text, near ? "; did you mean " : "",
		      near ? near : "", near ? "?" : "");
}

static enum taut_status read_algo(struct tune_best *b, struct reader *r)
{
	struct word w;
	enum taut_status st = need_word(&w, r, "the algorithm");

	if (st)
		return st;
	for (int i = 0; sched_algos[i]; i++)
		if (!strcmp(sched_algos[i]->name, w.text))
			b->algo = sched_algos[i];
	if (!b->algo)
		return broken(r, w.at, "no algorithm is called \"%s\"", w.text);
	if (!(b->algo->colls >> b->coll & 1))
		return broken(r, w.at, "%s does no %s", w.text, sched_coll_name(b->coll));
	return TAUT_OK;
}

static enum taut_status read_proto(enum sched_proto *out, struct reader *r)
{
	struct word w;
	enum taut_status st = need_word(&w, r, "the protocol");

	if (st)
		return st;
	for (int p = 0; p < PROTO_COUNT; p++) {
		*out = (enum sched_proto)p;
		if (!strcmp(sched_proto_name(*out), w.text))
			return TAUT_OK;
	}
	return broken(r, w.at, "the protocol is \"%s\", wanted ll or bulk", w.text);
}

/* BYTES_LO BYTES_HI */
static enum taut_status read_range(struct tune_best *b, struct reader *r)
{
	uint64_t v;
	const char *at;
	enum taut_status st = read_uint(&v, r, "the smallest size", 0, SIZE_MAX - 1);

	if (st)
		return st;
	b->lo = v;
	skip_blanks(r);
	at = r->p;
	if (at < r->end && *at == '*') {
		r->p++;
		b->hi = SIZE_MAX;
		return r->p == r->end || memchr(" \t\r\n#", *r->p, 5) ? TAUT_OK : broken(r, at, "\"*\" stands alone");
	}
	st = read_uint(&v, r, "the largest size", 0, SIZE_MAX - 1);
	if (st)
		return st;
	b->hi = v;
	return b->lo <= b->hi ? TAUT_OK : broken(r, at, "the largest size %zu is below the smallest %zu", b->hi, b->lo);
}

static enum taut_status read_best(struct tune *t, struct reader *r)
{
	struct tune_best b = { .algo = NULL };
	uint64_t nranks = 0, nodes = 0, mapped = 0, channels = 0, piece = 0;
	enum taut_status st = read_coll(&b.coll, r);

	if (!st)
		st = read_uint(&nranks, r, "the number of ranks", 1, RANKS_MAX);
	if (!st)
		st = read_uint(&nodes, r, "the number of machines", 1, nranks);
	if (!st)
		st = read_range(&b, r);
	if (!st)
		st = read_uint(&mapped, r, "mapped", 0, 1);
	if (!st)
		st = read_algo(&b, r);
	if (!st)
		st = read_proto(&b.proto, r);
	if (!st)
		st = read_uint(&channels, r, "the number of channels", 1, CHANNELS_MAX);
	if (!st)
		st = read_uint(&piece, r, "the piece", 0, SIZE_MAX / 16);
	if (st)
		return st;
	b.nranks = (int)nranks;
	b.nodes = (int)nodes;
	b.mapped = mapped;
	b.channels = (int)channels;
	b.piece_bytes = piece;
	return tune_add(t, &b);
}

static enum taut_status read_version(struct reader *r)
{
	struct word w = next_word(r);
	const char *at;
	uint64_t version;
	enum taut_status st;

	if (strcmp(w.text, "taut.tune") != 0)
		return broken(r, w.at, "\"%s\", wanted \"taut.tune %d\" as the first line", w.text, TUNE_VERSION);
	skip_blanks(r);
	at = r->p;
	st = read_uint(&version, r, "the version", 1, UINT32_MAX);
	if (st)
		return st;
	if (version != TUNE_VERSION)
		return broken(r, at, "version %" PRIu64 ", this library reads version %d", version, TUNE_VERSION);
	return TAUT_OK;
}

static enum taut_status read_line(struct tune *t, struct reader *r, bool *versioned)
{
	const char *start;
	struct word w;
	enum taut_status st;

	skip_blanks(r);
	start = r->p;
	if (start == r->end || *start == '\n')
		return TAUT_OK;
	if (!*versioned) {
		*versioned = true;
		st = read_version(r);
		return st ? st : line_done(r);
	}
	w = next_word(r);
	if (!strcmp(w.text, "machine"))
		st = read_machine(t, r);
	else if (!strcmp(w.text, "best"))
		st = read_best(t, r);
	else
		st = broken(r, w.at, "\"%s\", wanted \"machine\" or \"best\"", w.text);
	return st ? st : line_done(r);
}

static enum taut_status read_lines(struct tune *t, struct reader *r)
{
	bool versioned = false;

	while (r->p < r->end) {
		enum taut_status st = read_line(t, r, &versioned);

		if (st)
			return st;
		if (r->p < r->end)
			r->p++; /* the end of the line */
		r->line_start = r->p;
		r->line++;
	}
	return versioned ? TAUT_OK : broken(r, r->p, "empty, wanted \"taut.tune %d\" as the first line", TUNE_VERSION);
}

enum taut_status tune_parse(struct tune **out, const char *name, const char *text, size_t len)
{
	struct reader r = { .name = name, .p = text, .line_start = text, .end = text + len, .line = 1 };
	struct tune *t = NULL;
	enum taut_status st;

	if (len > TUNE_FILE_MAX)
		return fail(TAUT_ERR_CONFIG, "%s: %zu bytes, a tuning file has at most %u", name, len, TUNE_FILE_MAX);
	st = tune_create(&t);
	if (st)
		return st;
	st = read_lines(t, &r);
	if (st) {
		tune_free(t);
		return st;
	}
	*out = t;
	return TAUT_OK;
}

/* --- Writing. --- */

static void print_number(FILE *f, const struct tune *t, int i)
{
	uint64_t part = t->value[i] % SCALE;
	int digits = 9;

	if (numbers[i].bytes) {
		fprintf(f, "machine %s %" PRIu64 "\n", numbers[i].name, t->value[i]);
		return;
	}
	fprintf(f, "machine %s %" PRIu64, numbers[i].name, t->value[i] / SCALE);
	for (; digits > 1 && part % 10 == 0; digits--)
		part /= 10;
	fprintf(f, ".%0*" PRIu64 "\n", digits, part);
}

static void print_best(FILE *f, const struct tune_best *b)
{
	char hi[32] = "*";

	if (b->hi != SIZE_MAX)
		snprintf(hi, sizeof(hi), "%zu", b->hi);
	fprintf(f, "best %s %d %d %zu %s %d %s %s %d %zu\n", sched_coll_name(b->coll), b->nranks, b->nodes, b->lo, hi,
		b->mapped, b->algo->name, sched_proto_name(b->proto), b->channels, b->piece_bytes);
}

static void print_all(FILE *f, const struct tune *t)
{
	fprintf(f, "taut.tune %d\n# machine NAME VALUE\n", TUNE_VERSION);
	for (int i = 0; i < NUMBERS; i++)
		if (t->has[i])
			print_number(f, t, i);
	fputs("# best COLL NRANKS NODES BYTES_LO BYTES_HI MAPPED ALGO PROTO CHANNELS PIECE\n", f);
	for (size_t i = 0; i < t->nbest; i++)
		print_best(f, &t->best[i]);
}

enum taut_status tune_text(char **out, size_t *len, const struct tune *t)
{
	enum { LINE = 256 };
	size_t cap = (NUMBERS + t->nbest + 4) * LINE;
	char *buf = mem_calloc(cap, 1);
	FILE *f = buf ? fmemopen(buf, cap, "w") : NULL;

	if (!f) {
		mem_free(buf);
		return fail(TAUT_ERR_NOMEM, "text of the tuning file, %zu bytes", cap);
	}
	print_all(f, t);
	fflush(f);
	*len = (size_t)ftell(f);
	fclose(f);
	*out = buf;
	return TAUT_OK;
}

/* --- Choosing a line. --- */

/* Ranks of the line over ranks of the call or the other way round, whichever is above 1. */
static bool nearer(int a, int b, int wanted)
{
	/* max(a,w)/min(a,w) < max(b,w)/min(b,w), in whole numbers */
	uint64_t a_hi = (uint64_t)(a > wanted ? a : wanted), a_lo = (uint64_t)(a > wanted ? wanted : a);
	uint64_t b_hi = (uint64_t)(b > wanted ? b : wanted), b_lo = (uint64_t)(b > wanted ? wanted : b);

	if (a_hi * b_lo != b_hi * a_lo)
		return a_hi * b_lo < b_hi * a_lo;
	return a < b;
}

static bool serves(const struct tune_best *b, const struct cost_query *q, int nodes)
{
	const struct sched_req *r = &q->req;

	return b->coll == r->coll && b->lo <= q->bytes && q->bytes <= b->hi && b->mapped == q->mapped &&
	       (b->nodes > 1) == (nodes > 1) && b->nranks <= 2 * (int64_t)r->nranks &&
	       r->nranks <= 2 * (int64_t)b->nranks;
}

static bool better_line(const struct tune_best *a, const struct tune_best *b, int nranks, int nodes)
{
	if (a->nranks != b->nranks)
		return nearer(a->nranks, b->nranks, nranks);
	return a->nodes != b->nodes && nearer(a->nodes, b->nodes, nodes);
}

const struct tune_best *tune_find(const struct tune *t, const struct cost_query *q,
				  bool (*allowed)(const struct tune_best *best, void *ctx), void *ctx)
{
	int nodes = q->machine->one_wire ? q->req.nranks : q->req.node_of && q->req.nnodes > 1 ? q->req.nnodes : 1;
	const struct tune_best *found = NULL;

	for (size_t i = 0; i < t->nbest; i++) {
		const struct tune_best *b = &t->best[i];

		if (!serves(b, q, nodes) || (found && !better_line(b, found, q->req.nranks, nodes)))
			continue;
		if (allowed(b, ctx))
			found = b;
	}
	return found;
}
