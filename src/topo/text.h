/* SPDX-License-Identifier: Apache-2.0 */
/* A text that a reader of this room goes through, and how it says where something is wrong. Pure. */
#ifndef TOPO_TEXT_H
#define TOPO_TEXT_H

#include <stddef.h>

#include "base/status.h"

struct text {
	const char *name; /* of the file, for messages */
	const char *s;	  /* need not end in a zero byte */
	size_t len;
};

/* Where the text begins: behind a byte order mark. */
size_t text_start(const struct text *t);
/* TAUT_ERR_ARG with "name:line:column: " before the sentence; @at is an offset into the text. */
enum taut_status text_fail(const struct text *t, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A word of the text as a message may show it: cut to fit, "?" for what cannot be printed. */
const char *text_shown(char *buf, size_t len, const char *word, size_t n);

#endif
