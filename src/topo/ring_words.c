/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/ring_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void words_add(char *buf, size_t len, const char *fmt, ...)
{
	size_t had = strnlen(buf, len);
	va_list ap;

	if (had >= len)
		return;
	va_start(ap, fmt);
	vsnprintf(buf + had, len - had, fmt, ap);
	va_end(ap);
}

static const char *const link_words[LINK_KINDS] = { "PCI", "NVLink", "XGMI", "C2C", "SMP", "port" };

void words_arc(const struct topo *t, const struct ring_model *m, int arc, char *buf, size_t len)
{
	const struct topo_link *l = &t->links[m->arc[arc] / 2];
	bool back = m->arc[arc] & 1;
	char from[64], to[64];

	topo_name(t, back ? l->b : l->a, from, sizeof(from));
	topo_name(t, back ? l->a : l->b, to, sizeof(to));
	words_add(buf, len, "%s to %s (", from, to);
	if (l->count > 1)
		words_add(buf, len, l->kind == LINK_PCI ? "x%d " : "%d ", l->count);
	words_add(buf, len, "%s, %.1f GB/s)", link_words[l->kind], l->bw_gbps);
}
