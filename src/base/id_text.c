/* SPDX-License-Identifier: Apache-2.0 */
/* Ids as text: two hexadecimal digits a byte. */
#include <ctype.h>
#include <string.h>

#include "base/status.h"

static const char digits[] = "0123456789abcdef";

enum taut_status taut_id_to_text(char out[TAUT_ID_TEXT_BYTES], const struct taut_id *id)
{
	if (!out || !id)
		return fail(TAUT_ERR_ARG, "taut_id_to_text: %s is NULL", out ? "id" : "out");
	for (size_t i = 0; i < TAUT_ID_BYTES; i++) {
		out[2 * i] = digits[id->bytes[i] >> 4];
		out[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	out[2 * TAUT_ID_BYTES] = '\0';
	return TAUT_OK;
}

/* 0 to 15, or -1. */
static int digit_value(char c)
{
	const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;

	return at ? (int)(at - digits) : -1;
}

enum taut_status taut_id_from_text(struct taut_id *out, const char *text)
{
	struct taut_id id;
	size_t len;

	if (!out || !text)
		return fail(TAUT_ERR_ARG, "taut_id_from_text: %s is NULL", out ? "text" : "out");
	len = strlen(text);
	while (len && isspace((unsigned char)text[len - 1])) /* the end of the line it was read from */
		len--;
	if (len != 2 * TAUT_ID_BYTES)
		return fail(TAUT_ERR_ARG, "the text of an id has %zu characters, %d are wanted: was it cut?", len,
			    2 * TAUT_ID_BYTES);
	for (size_t i = 0; i < TAUT_ID_BYTES; i++) {
		int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return fail(TAUT_ERR_ARG,
				    "the text of an id has \"%c\" at character %zu: hexadecimal digits are wanted",
				    text[2 * i + (high >= 0)], 2 * i + (high >= 0) + 1);
		id.bytes[i] = (unsigned char)(high << 4 | low);
	}
	*out = id;
	return TAUT_OK;
}
