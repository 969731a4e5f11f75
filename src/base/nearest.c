/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][NEAREST_MAX + 1]; /* row i of the table lives in rows[i % 3] */
	size_t alen = strlen(a), blen = strlen(b);

	if (alen > NEAREST_MAX || blen > NEAREST_MAX)
		return NEAREST_MAX;
	for (size_t j = 0; j <= blen; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= alen; i++) {
		size_t *now = rows[i % 3];
		const size_t *up = rows[(i - 1) % 3], *up2 = rows[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= blen; j++) {
			now[j] = least(up[j], now[j - 1]) + 1;
			now[j] = least(now[j], up[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				now[j] = least(now[j], up2[j - 2] + 1);
		}
	}
	return rows[alen % 3][blen];
}

const char *nearest_name(const char *word, const char *const *names, size_t count)
{
	size_t best = 2 + strlen(word) / 8; /* more changes than this make another word */
	const char *found = NULL;

	if (best > strlen(word) / 2)
		best = strlen(word) / 2;
	for (size_t i = 0; i < count; i++) {
		size_t d = edit_distance(word, names[i]);

		if (d < best || (d == best && !found)) {
			best = d;
			found = names[i];
		}
	}
	return found;
}
