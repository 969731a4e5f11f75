/* SPDX-License-Identifier: Apache-2.0 */
/* A settings file: NAME=VALUE lines; blank lines and lines that start with # are skipped;
 * space around name and value is not part of them. Later lines win. */
#ifndef BASE_CONFIG_FILE_H
#define BASE_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { CONFIG_FILE_MAX = 1 << 20, CONFIG_FILE_LINES = 4096 }; /* bytes, entries */

struct config_entry {
	const char *name, *value; /* in the text of the file */
	int line;
};
struct config_file {
	char *path, *text;
	struct config_entry *entries;
	size_t count;
	bool shared; /* others than its owner can read it */
};

/* Copies @text. A line that is not NAME=VALUE: TAUT_ERR_CONFIG with "@path:line". */
enum taut_status config_file_parse(struct config_file *out, const char *text, size_t len, const char *path);
/* A file that is not there is an empty one unless @must. */
enum taut_status config_file_load(struct config_file *out, const char *path, int must);
/* The last line for @name, NULL when there is none. */
const struct config_entry *config_file_find(const struct config_file *file, const char *name);
void config_file_cleanup(struct config_file *file);

#endif
