/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/nodelist.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 1 << 20, BRACKETS_MAX = 8 };

/* Part of a text; no zero at its end. */
struct span {
	const char *at;
	size_t len;
};

struct range {
	long lo, hi;
	int width; /* digits, with leading zeros */
};

/* Cuts the first piece off @rest at a comma outside of brackets. */
static bool next_piece(struct span *rest, struct span *piece)
{
	size_t n = 0;
	int depth = 0;

	if (!rest->len)
		return false;
	for (; n < rest->len && (depth || rest->at[n] != ','); n++)
		depth += (rest->at[n] == '[') - (rest->at[n] == ']');
	*piece = (struct span){ rest->at, n };
	n += n < rest->len;
	rest->at += n;
	rest->len -= n;
	return true;
}

static bool digits(struct span *s, long *out)
{
	size_t n = 0;

	for (*out = 0; n < s->len && n < 10 && isdigit((unsigned char)s->at[n]); n++)
		*out = *out * 10 + (s->at[n] - '0');
	s->at += n;
	s->len -= n;
	return n;
}

/* "7" or "01-03" */
static bool parse_range(struct span s, struct range *out)
{
	size_t len = s.len;

	if (!digits(&s, &out->lo))
		return false;
	out->width = (int)(len - s.len);
	out->hi = out->lo;
	if (s.len && *s.at == '-') {
		s.at++;
		s.len--;
		if (!digits(&s, &out->hi))
			return false;
	}
	return !s.len && out->lo <= out->hi && out->hi - out->lo < HOSTS_MAX;
}

static long ranges_count(struct span list)
{
	struct span piece;
	struct range r;
	long n = 0;

	while (next_piece(&list, &piece)) {
		if (!parse_range(piece, &r) || n > HOSTS_MAX)
			return -1;
		n += r.hi - r.lo + 1;
	}
	return n ? n : -1;
}

/* Text of number @index of a list of ranges that ranges_count() has accepted. */
static int ranges_text(struct span list, long index, char *out, size_t len)
{
	struct span piece;
	struct range r;

	while (next_piece(&list, &piece)) {
		if (!parse_range(piece, &r))
			return 0;
		if (index <= r.hi - r.lo)
			return snprintf(out, len, "%0*ld", r.width, r.lo + index);
		index -= r.hi - r.lo + 1;
	}
	return 0;
}

/* Splits "a[1-2]rest" into "a", "1-2" and "rest"; without brackets all is head. */
static bool split(struct span s, struct span *head, struct span *ranges, struct span *rest)
{
	const char *open = memchr(s.at, '[', s.len), *close = memchr(s.at, ']', s.len);

	*head = s;
	*ranges = *rest = (struct span){ s.at + s.len, 0 };
	if (!open)
		return !close;
	if (!close || close < open)
		return false;
	*head = (struct span){ s.at, (size_t)(open - s.at) };
	*ranges = (struct span){ open + 1, (size_t)(close - open - 1) };
	*rest = (struct span){ close + 1, (size_t)(s.at + s.len - close - 1) };
	return true;
}

static long hosts_count(struct span s, int depth)
{
	struct span head, ranges, rest;
	long own, others;

	if (depth > BRACKETS_MAX || !split(s, &head, &ranges, &rest))
		return -1;
	if (ranges.at == s.at + s.len)
		return 1;
	own = ranges_count(ranges);
	others = hosts_count(rest, depth + 1);
	return own < 0 || others < 0 || own * others > HOSTS_MAX ? -1 : own * others;
}

/* Host @index of one piece that hosts_count() has accepted. */
static int host_text(struct span s, long index, char *out, size_t len)
{
	struct span head, ranges, rest;
	size_t at = 0;

	while (split(s, &head, &ranges, &rest)) {
		long below = ranges.at == s.at + s.len ? 0 : hosts_count(rest, 0);

		at += (size_t)snprintf(out + at, len - at, "%.*s", (int)head.len, head.at);
		if (at < len && below)
			at += (size_t)ranges_text(ranges, index / below, out + at, len - at);
		if (at >= len)
			return -1;
		if (!below)
			return 0;
		index %= below;
		s = rest;
	}
	return -1;
}

static bool piece_ok(struct span s)
{
	return s.len && *s.at != '[' && !memchr(s.at, ' ', s.len);
}

long nodelist_count(const char *list)
{
	struct span rest = { list, strlen(list) }, piece;
	long total = 0;

	while (next_piece(&rest, &piece)) {
		long n = piece_ok(piece) ? hosts_count(piece, 0) : -1;

		if (n < 0 || total > HOSTS_MAX)
			return -1;
		total += n;
	}
	return total ? total : -1;
}

int nodelist_get(const char *list, long index, char *out, size_t len)
{
	struct span rest = { list, strlen(list) }, piece;

	if (index < 0 || index >= nodelist_count(list))
		return -1;
	while (next_piece(&rest, &piece)) {
		long n = hosts_count(piece, 0);

		if (index < n)
			return host_text(piece, index, out, len);
		index -= n;
	}
	return -1;
}

/* "2" or "2(x3)" */
static bool parse_tasks(struct span s, long *tasks, long *times)
{
	*times = 1;
	if (!digits(&s, tasks))
		return false;
	if (!s.len)
		return true;
	if (s.len < 4 || strncmp(s.at, "(x", 2))
		return false;
	s.at += 2;
	s.len -= 2;
	return digits(&s, times) && s.len == 1 && *s.at == ')';
}

int nodelist_tasks(const char *counts, long index)
{
	struct span rest = { counts, strlen(counts) }, piece;
	long tasks, times;

	while (index >= 0 && next_piece(&rest, &piece)) {
		if (!parse_tasks(piece, &tasks, &times) || tasks > HOSTS_MAX)
			return -1;
		if (index < times)
			return (int)tasks;
		index -= times;
	}
	return -1;
}
