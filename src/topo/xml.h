/* SPDX-License-Identifier: Apache-2.0 */
/* An XML text as a tree of elements. Comments are left out, and so is text beside other
 * elements. What a file may claim is limited: its
 * size, depth and number of elements, and entities are refused, so a hostile file costs no more than its length. */
#ifndef TOPO_XML_H
#define TOPO_XML_H

#include <stddef.h>

#include "base/status.h"

enum { XML_MAX_BYTES = 64 << 20, XML_MAX_ELEMS = 1 << 18, XML_MAX_DEPTH = 256 };

struct xml_elem {
	const char *name;
	const char *const *attrs;		      /* name, value, name, value ... NULL */
	const char *text;			      /* between its tags; NULL: none, or there are elements */
	int line, column;			      /* of its "<", from 1 */
	int number;				      /* in the order of the text, from 0 */
	const struct xml_elem *parent, *child, *next; /* above, first below, next beside; NULL */
};

struct xml_doc;
/* @name is for messages; @text need not end in a zero byte. Owned by the caller. */
enum taut_status xml_parse(struct xml_doc **out, const char *name, const char *text, size_t len);
void xml_free(struct xml_doc *doc); /* NULL is allowed */
const struct xml_elem *xml_root(const struct xml_doc *doc);
int xml_count(const struct xml_doc *doc); /* elements */

/* The value of attribute @key; NULL: none. */
const char *xml_attr(const struct xml_elem *e, const char *key);
/* TAUT_ERR_ARG with "name:line:column: <elem ...>: " and the sentence. */
enum taut_status xml_bad(const struct xml_doc *doc, const struct xml_elem *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A whole number, decimal or with 0x; where the attribute is missing or empty *@out stays as it is. TAUT_ERR_ARG when
 * it is something else, or not from @lo to @hi. */
enum taut_status xml_int(const struct xml_doc *doc, const struct xml_elem *e, const char *key, long lo, long hi,
			 long *out);

#endif
