/* SPDX-License-Identifier: Apache-2.0 */
/* XML as a tree: what is read, what is refused, where the message points. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/xml.h"

static struct xml_doc *parse(const char *text)
{
	struct xml_doc *doc = NULL;

	assert_int_equal(xml_parse(&doc, "f.xml", text, strlen(text)), TAUT_OK);
	return doc;
}

static void refused(const char *text, const char *words)
{
	struct xml_doc *doc = NULL;

	assert_int_equal(xml_parse(&doc, "f.xml", text, strlen(text)), TAUT_ERR_ARG);
	assert_null(doc);
	if (!strstr(taut_error_message(), words))
		fail_msg("\"%s\" instead of \"%s\"", taut_error_message(), words);
}

static void elements_hang_in_the_order_of_the_text(void **state)
{
	struct xml_doc *doc = parse("<?xml version='1.0'?>\n<!-- c --><a x=\"1\" y=''>\n  text<b/><c><d/></c>\n</a>");
	const struct xml_elem *a = xml_root(doc), *b = a->child, *c = b->next;

	(void)state;
	assert_int_equal(xml_count(doc), 4);
	assert_string_equal(a->name, "a");
	assert_int_equal(a->line, 2);
	assert_int_equal(a->column, 11);
	assert_null(a->parent);
	assert_string_equal(xml_attr(a, "x"), "1");
	assert_string_equal(xml_attr(a, "y"), "");
	assert_null(xml_attr(a, "z"));
	assert_string_equal(b->name, "b");
	assert_null(b->child);
	assert_string_equal(c->child->name, "d");
	assert_int_equal(c->child->number, 3);
	assert_ptr_equal(c->child->parent, c);
	assert_null(c->next);
	xml_free(doc);
	xml_free(NULL);
}

static void what_is_not_xml_is_told_by_line_and_column(void **state)
{
	(void)state;
	refused("", "f.xml:1:1: not XML: no element found");
	refused("<a>\n <b></a>", "f.xml:2:7: not XML: mismatched tag inside <b>");
	refused("<a>\n", "f.xml:2:1: not XML: no element found inside <a>");
	refused("<a x=1/>", "f.xml:1:6: not XML");
	refused("<a/><a/>", "f.xml:1:5: not XML: junk after document element");
	refused("<a>&x;</a>", "f.xml:1:4: not XML: undefined entity inside <a>");
}

static void entities_are_refused(void **state)
{
	(void)state;
	refused("<!DOCTYPE a [<!ENTITY lol \"lol\">]><a/>", "f.xml:1:27: entity lol is declared");
	refused("<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>", "entity x is declared");
	xml_free(parse("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology/>"));
}

static void depth_and_number_have_limits(void **state)
{
	size_t room = (size_t)XML_MAX_ELEMS * 5 + 64;
	char *text = malloc(room), *at = text;

	(void)state;
	for (int i = 0; i <= XML_MAX_DEPTH; i++)
		at += sprintf(at, "<a>");
	refused(text, "levels");
	at = text + sprintf(text, "<a>");
	for (int i = 0; i < XML_MAX_ELEMS; i++)
		at += sprintf(at, "<b/>");
	sprintf(at, "</a>");
	refused(text, "elements are read at most");
	free(text);
}

static void numbers_are_whole_and_in_range(void **state)
{
	struct xml_doc *doc = parse("<a n='12' h='0x1f' e='' w='12x' f='1.5' big='99999999999999999999' neg='-3'/>");
	const struct xml_elem *a = xml_root(doc);
	long v = 7;

	(void)state;
	assert_int_equal(xml_int(doc, a, "n", 0, 12, &v), TAUT_OK);
	assert_int_equal(v, 12);
	assert_int_equal(xml_int(doc, a, "h", 0, 99, &v), TAUT_OK);
	assert_int_equal(v, 31);
	assert_int_equal(xml_int(doc, a, "neg", -3, 99, &v), TAUT_OK);
	assert_int_equal(v, -3);
	assert_int_equal(xml_int(doc, a, "e", 0, 99, &v), TAUT_OK);
	assert_int_equal(xml_int(doc, a, "none", 0, 99, &v), TAUT_OK);
	assert_int_equal(v, -3);
	assert_int_equal(xml_int(doc, a, "n", 0, 11, &v), TAUT_ERR_ARG);
	assert_string_equal(taut_error_message(),
			    "f.xml:1:1: <a>: n is \"12\": a whole number from 0 to 11 was expected");
	assert_int_equal(xml_int(doc, a, "w", 0, 99, &v), TAUT_ERR_ARG);
	assert_int_equal(xml_int(doc, a, "f", 0, 99, &v), TAUT_ERR_ARG);
	assert_int_equal(xml_int(doc, a, "big", 0, 99, &v), TAUT_ERR_ARG);
	assert_int_equal(v, -3);
	xml_free(doc);
}

static void text_is_that_of_elements_without_others(void **state)
{
	struct xml_doc *doc = parse("<a> x <b>1 <!-- --> 2&lt;\n3</b> y <c> \n </c><d/>z</a>");
	const struct xml_elem *a = xml_root(doc);

	(void)state;
	assert_null(a->text);
	assert_string_equal(a->child->text, "1  2<\n3");
	assert_null(a->child->next->text);
	assert_null(a->child->next->next->text);
	xml_free(doc);
}

static void every_failing_allocation_is_reported(void **state)
{
	const char *text = "<a x='1'><b/><c y='2'>text</c></a>";
	enum taut_status st = TAUT_ERR_NOMEM;
	struct xml_doc *doc = NULL;
	long n;

	(void)state;
	for (n = 1; st; n++) {
		mem_fail_from(n);
		st = xml_parse(&doc, "f.xml", text, strlen(text));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	assert_true(n > 6);
	xml_free(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_hang_in_the_order_of_the_text),
		cmocka_unit_test(what_is_not_xml_is_told_by_line_and_column),
		cmocka_unit_test(entities_are_refused),
		cmocka_unit_test(depth_and_number_have_limits),
		cmocka_unit_test(numbers_are_whole_and_in_range),
		cmocka_unit_test(text_is_that_of_elements_without_others),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
