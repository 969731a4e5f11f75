/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "taut/taut.h"

static void quiet(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static struct taut_id some_id(void)
{
	struct taut_id id;

	for (int i = 0; i < TAUT_ID_BYTES; i++)
		id.bytes[i] = (unsigned char)(i * 37 + 250);
	return id;
}

static void text_leads_back_to_the_id(void **state)
{
	struct taut_id id = some_id(), back;
	char text[TAUT_ID_TEXT_BYTES + 2];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(taut_id_to_text(text, &id), TAUT_OK);
	assert_int_equal(strlen(text), TAUT_ID_TEXT_BYTES - 1);
	assert_memory_equal(text, "fa1f44", 6);
	assert_int_equal(taut_id_from_text(&back, text), TAUT_OK);
	assert_memory_equal(&back, &id, sizeof(id));
}

static void upper_case_and_a_line_end_are_taken(void **state)
{
	struct taut_id id = some_id(), back;
	char text[TAUT_ID_TEXT_BYTES + 2];

	(void)state;
	taut_id_to_text(text, &id);
	memcpy(text, "FA1F", 4);
	memcpy(text + TAUT_ID_TEXT_BYTES - 1, "\r\n", 3);
	assert_int_equal(taut_id_from_text(&back, text), TAUT_OK);
	assert_memory_equal(&back, &id, sizeof(id));
}

static void refuse(const char *text, const char *words)
{
	struct taut_id id = some_id(), before = id;

	assert_int_equal(taut_id_from_text(&id, text), TAUT_ERR_ARG);
	if (!strstr(taut_error_message(), words))
		fail_msg("\"%s\" does not say \"%s\"", taut_error_message(), words);
	assert_memory_equal(&id, &before, sizeof(id));
}

static void what_is_wrong_is_said_and_where(void **state)
{
	struct taut_id id = some_id();
	char text[TAUT_ID_TEXT_BYTES + 1];

	(void)state;
	refuse("", "has 0 characters, 256 are wanted");
	taut_id_to_text(text, &id);
	text[255] = '\0';
	refuse(text, "has 255 characters");
	taut_id_to_text(text, &id);
	strcat(text, "0");
	refuse(text, "has 257 characters");
	taut_id_to_text(text, &id);
	text[101] = 'g';
	refuse(text, "\"g\" at character 102");
	taut_id_to_text(text, &id);
	text[0] = ' ';
	refuse(text, "\" \" at character 1");
}

static void nothing_to_read_or_write_is_an_error(void **state)
{
	struct taut_id id = some_id();
	char text[TAUT_ID_TEXT_BYTES];

	(void)state;
	assert_int_equal(taut_id_to_text(NULL, &id), TAUT_ERR_ARG);
	assert_int_equal(taut_id_to_text(text, NULL), TAUT_ERR_ARG);
	assert_int_equal(taut_id_from_text(NULL, "00"), TAUT_ERR_ARG);
	assert_int_equal(taut_id_from_text(&id, NULL), TAUT_ERR_ARG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_leads_back_to_the_id),
		cmocka_unit_test(upper_case_and_a_line_end_are_taken),
		cmocka_unit_test(what_is_wrong_is_said_and_where),
		cmocka_unit_test(nothing_to_read_or_write_is_an_error),
	};

	log_set_sink(quiet, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
