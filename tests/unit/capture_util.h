/* SPDX-License-Identifier: Apache-2.0 */
/* Captured machines of tests/golden/capture, as text and as graphs. Tests run in the folder of the sources. */
#ifndef CAPTURE_UTIL_H
#define CAPTURE_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo.h"
#include "unit.h"

static inline char *capture_text(const char *name)
{
	enum { ROOM = 1 << 20 };
	char path[256], *text = mem_calloc(ROOM, 1);
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/capture/%s.cap", name);
	f = fopen(path, "re");
	if (!f)
		print_error("%s is missing\n", path);
	assert_non_null(f);
	assert_true(fread(text, 1, ROOM - 1, f) > 0);
	fclose(f);
	return text;
}

static inline struct topo *capture_load(const char *name)
{
	char *text = capture_text(name);
	struct topo *t = NULL;

	assert_int_equal(topo_from_capture(&t, name, text, strlen(text)), TAUT_OK);
	mem_free(text);
	return t;
}

/* The note that contains @part; NULL: none. */
static inline const char *capture_note(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return t->notes[i].text;
	return NULL;
}

/* The link of @kind between two nodes; NULL: none. */
static inline const struct topo_link *capture_link(const struct topo *t, int a, int b, enum topo_link_kind kind)
{
	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].kind == kind &&
		    ((t->links[i].a == a && t->links[i].b == b) || (t->links[i].a == b && t->links[i].b == a)))
			return &t->links[i];
	return NULL;
}

#endif
