/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t text_start(const struct text *t)
{
	return t->len >= 3 && !memcmp(t->s, "\xef\xbb\xbf", 3) ? 3 : 0;
}

enum taut_status text_fail(const struct text *t, size_t at, const char *fmt, ...)
{
	size_t line = 1, start = 0;
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (at > t->len)
		at = t->len;
	for (size_t i = 0; i < at; i++) {
		if (t->s[i] != '\n')
			continue;
		line++;
		start = i + 1;
	}
	return fail(TAUT_ERR_ARG, "%s:%zu:%zu: %s", t->name, line, at - start + 1, what);
}

const char *text_shown(char *buf, size_t len, const char *word, size_t n)
{
	size_t used = n < len ? n : len - 1;

	for (size_t i = 0; i < used; i++)
		buf[i] = word[i] >= ' ' && word[i] < 127 ? word[i] : '?';
	buf[used] = '\0';
	if (used < n && used > 3)
		memcpy(buf + used - 3, "...", 3);
	return buf;
}
