/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/xml.h"

#include <errno.h>
#include <expat.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* An element as it is built: followed in memory by its attributes and their text. */
struct node {
	struct xml_elem e;
	struct node *last;   /* child */
	struct node *made;   /* before this one */
	char *text;	     /* as in e */
	const char *attrs[]; /* as many as there are, and NULL */
};

struct xml_doc {
	char name[128];
	struct node *root, *made;
	int count;
};

struct reader {
	XML_Parser parser;
	struct xml_doc *doc;
	struct node *open;
	int depth;
	char *text; /* since the last tag */
	size_t ntext, room;
	enum taut_status st; /* said already */
};

static void *take(size_t len)
{
	return mem_calloc(1, len);
}

static void *retake(void *p, size_t len)
{
	return mem_realloc(p, 1, len);
}

void xml_free(struct xml_doc *doc)
{
	if (!doc)
		return;
	while (doc->made) {
		struct node *n = doc->made;

		doc->made = n->made;
		mem_free(n->text);
		mem_free(n);
	}
	mem_free(doc);
}

static int line_of(const struct reader *r)
{
	return (int)XML_GetCurrentLineNumber(r->parser);
}

static int column_of(const struct reader *r)
{
	return (int)XML_GetCurrentColumnNumber(r->parser) + 1;
}

static void stop(struct reader *r, enum taut_status st)
{
	r->st = st;
	XML_StopParser(r->parser, XML_FALSE);
}

/* Room for the element, its attributes and all their text in one piece. */
static struct node *make_node(const char *name, const char **attrs)
{
	size_t n = 0, text = strlen(name) + 1, used;
	struct node *node;
	char *at;

	for (; attrs[n]; n++)
		text += strlen(attrs[n]) + 1;
	node = mem_calloc(1, sizeof(*node) + (n + 1) * sizeof(node->attrs[0]) + text);
	if (!node)
		return NULL;
	at = (char *)(node->attrs + n + 1);
	for (size_t i = 0; i <= n; i++) {
		const char *from = i < n ? attrs[i] : name;

		used = strlen(from) + 1;
		memcpy(at, from, used);
		if (i < n)
			node->attrs[i] = at;
		else
			node->e.name = at;
		at += used;
	}
	node->e.attrs = node->attrs;
	return node;
}

static void hang(struct reader *r, struct node *node)
{
	struct node *up = r->open;

	node->e.line = line_of(r);
	node->e.column = column_of(r);
	node->e.number = r->doc->count++;
	node->made = r->doc->made;
	r->doc->made = node;
	if (!up) {
		r->doc->root = node;
	} else {
		node->e.parent = &up->e;
		if (up->last)
			up->last->e.next = &node->e;
		else
			up->e.child = &node->e;
		up->last = node;
	}
	r->open = node;
	r->depth++;
}

static void on_start(void *ctx, const XML_Char *name, const XML_Char **attrs)
{
	struct reader *r = ctx;
	struct node *node;

	if (r->depth == XML_MAX_DEPTH || r->doc->count == XML_MAX_ELEMS) {
		stop(r, fail(TAUT_ERR_ARG,
			     "%s:%d:%d: <%.32s>: too deep or too many elements: %d levels and %d elements "
			     "are read at most",
			     r->doc->name, line_of(r), column_of(r), name, XML_MAX_DEPTH, XML_MAX_ELEMS));
		return;
	}
	node = make_node(name, attrs);
	if (!node) {
		stop(r, fail(TAUT_ERR_NOMEM, "%s: no memory for an element of line %d", r->doc->name, line_of(r)));
		return;
	}
	hang(r, node);
	r->ntext = 0;
}

static void on_text(void *ctx, const XML_Char *s, int len)
{
	struct reader *r = ctx;
	size_t n = (size_t)len;

	if (!r->open || r->open->e.child || r->st)
		return;
	if (r->room - r->ntext < n + 1) {
		size_t room = 2 * (r->ntext + n + 1);
		char *text = mem_realloc(r->text, room, 1);

		if (!text) {
			stop(r,
			     fail(TAUT_ERR_NOMEM, "%s: no memory for the text of line %d", r->doc->name, line_of(r)));
			return;
		}
		r->text = text;
		r->room = room;
	}
	memcpy(r->text + r->ntext, s, n);
	r->ntext += n;
}

/* Of an element without others in it; blanks alone are none. */
static bool keep_text(struct reader *r)
{
	struct node *n = r->open;
	bool blank = true;

	for (size_t i = 0; i < r->ntext && blank; i++)
		blank = strchr(" \t\r\n", r->text[i]) != NULL;
	if (blank || n->e.child)
		return true;
	n->text = mem_calloc(r->ntext + 1, 1);
	if (!n->text)
		return false;
	memcpy(n->text, r->text, r->ntext);
	n->e.text = n->text;
	return true;
}

static void on_end(void *ctx, const XML_Char *name)
{
	struct reader *r = ctx;

	(void)name;
	if (!r->open || r->st) /* stopped at its start */
		return;
	if (!keep_text(r)) {
		stop(r, fail(TAUT_ERR_NOMEM, "%s: no memory for the text of line %d", r->doc->name, line_of(r)));
		return;
	}
	r->ntext = 0;
	r->open = (struct node *)r->open->e.parent;
	r->depth--;
}

static void on_entity(void *ctx, const XML_Char *name, int is_parameter, const XML_Char *value, int len,
		      const XML_Char *base, const XML_Char *system, const XML_Char *public, const XML_Char *notation)
{
	struct reader *r = ctx;

	(void)is_parameter, (void)value, (void)len, (void)base, (void)system, (void)public, (void)notation;
	stop(r, fail(TAUT_ERR_ARG, "%s:%d:%d: entity %.32s is declared: write what it stands for in its place",
		     r->doc->name, line_of(r), column_of(r), name));
}

static enum taut_status say_error(struct reader *r)
{
	enum XML_Error e = XML_GetErrorCode(r->parser);
	const char *open = r->open ? r->open->e.name : NULL;

	if (r->st)
		return r->st;
	if (e == XML_ERROR_NO_MEMORY)
		return fail(TAUT_ERR_NOMEM, "%s: no memory to read XML", r->doc->name);
	return fail(TAUT_ERR_ARG, "%s:%d:%d: not XML: %s%s%.32s%s", r->doc->name, line_of(r), column_of(r),
		    XML_ErrorString(e), open ? " inside <" : "", open ? open : "", open ? ">" : "");
}

static enum taut_status run(struct reader *r, const char *text, size_t len)
{
	XML_SetUserData(r->parser, r);
	XML_SetElementHandler(r->parser, on_start, on_end);
	XML_SetCharacterDataHandler(r->parser, on_text);
	XML_SetEntityDeclHandler(r->parser, on_entity);
	if (XML_Parse(r->parser, text, (int)len, 1) != XML_STATUS_OK)
		return say_error(r);
	return r->st;
}

enum taut_status xml_parse(struct xml_doc **out, const char *name, const char *text, size_t len)
{
	static const XML_Memory_Handling_Suite memory = { take, retake, mem_free };
	struct reader r = { .st = TAUT_OK };
	enum taut_status st;

	if (len > XML_MAX_BYTES)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes of XML: %d are read at most", name, len, XML_MAX_BYTES);
	r.doc = mem_calloc(1, sizeof(*r.doc));
	if (!r.doc)
		return fail(TAUT_ERR_NOMEM, "%s: no memory to read XML", name);
	snprintf(r.doc->name, sizeof(r.doc->name), "%s", name);
	r.parser = XML_ParserCreate_MM(NULL, &memory, NULL);
	if (!r.parser) {
		st = fail(TAUT_ERR_NOMEM, "%s: no memory to read XML", name);
		goto err_doc;
	}
	st = run(&r, text, len);
	XML_ParserFree(r.parser);
	mem_free(r.text);
	if (st)
		goto err_doc;
	*out = r.doc;
	return TAUT_OK;
err_doc:
	xml_free(r.doc);
	return st;
}

const struct xml_elem *xml_root(const struct xml_doc *doc)
{
	return &doc->root->e; /* a text without an element is refused by the parser */
}

int xml_count(const struct xml_doc *doc)
{
	return doc->count;
}

const char *xml_attr(const struct xml_elem *e, const char *key)
{
	for (int i = 0; e->attrs[i]; i += 2)
		if (!strcmp(e->attrs[i], key))
			return e->attrs[i + 1];
	return NULL;
}

enum taut_status xml_bad(const struct xml_doc *doc, const struct xml_elem *e, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail(TAUT_ERR_ARG, "%s:%d:%d: <%.32s>: %s", doc->name, e->line, e->column, e->name, text);
}

enum taut_status xml_int(const struct xml_doc *doc, const struct xml_elem *e, const char *key, long lo, long hi,
			 long *out)
{
	const char *text = xml_attr(e, key);
	bool hexa = text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	char *end;
	long v;

	if (!text || !*text)
		return TAUT_OK;
	errno = 0;
	v = strtol(text, &end, hexa ? 16 : 10);
	if (*end || errno || v < lo || v > hi)
		return xml_bad(doc, e, "%.32s is \"%.32s\": a whole number from %ld to %ld was expected", key, text, lo,
			       hi);
	*out = v;
	return TAUT_OK;
}
