/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts @s (ends at @end) at both sides; the new end becomes a zero byte. */
static char *trim(char *s, char *end)
{
	while (s < end && blank(*s))
		s++;
	while (end > s && blank(end[-1]))
		end--;
	*end = '\0';
	return s;
}

static bool name_ok(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	while (isalnum((unsigned char)*name) || *name == '_')
		name++;
	return !*name;
}

static enum taut_status add(struct config_file *file, const char *name, const char *value, int line)
{
	struct config_entry *grown;

	if (file->count == CONFIG_FILE_LINES)
		return fail(TAUT_ERR_CONFIG, "%s:%d: more than %d settings", file->path, line, CONFIG_FILE_LINES);
	if ((file->count & (file->count - 1)) == 0) { /* full at each power of two */
		grown = mem_realloc(file->entries, file->count ? 2 * file->count : 1, sizeof(*grown));
		if (!grown)
			return fail(TAUT_ERR_NOMEM, "%s: %zu settings", file->path, file->count);
		file->entries = grown;
	}
	file->entries[file->count++] = (struct config_entry){ name, value, line };
	return TAUT_OK;
}

/* @line has @len bytes, of which the last is the newline or the zero at the end of the text. */
static enum taut_status parse_line(struct config_file *file, char *line, size_t len, int number)
{
	char *end = line + len - 1, *equals;
	char *start;

	if (memchr(line, '\0', len - 1))
		return fail(TAUT_ERR_CONFIG, "%s:%d: a zero byte: this is no text file", file->path, number);
	start = trim(line, end);
	if (!*start || *start == '#')
		return TAUT_OK;
	equals = strchr(start, '=');
	if (!equals)
		return fail(TAUT_ERR_CONFIG, "%s:%d: \"%.40s\": expected NAME=VALUE", file->path, number, start);
	start = trim(start, equals);
	if (!name_ok(start))
		return fail(TAUT_ERR_CONFIG, "%s:%d: \"%.40s\" is no name: expected NAME=VALUE", file->path, number,
			    start);
	return add(file, start, trim(equals + 1, equals + 1 + strlen(equals + 1)), number);
}

static enum taut_status parse_text(struct config_file *file, size_t len)
{
	enum taut_status st = TAUT_OK;
	char *at = file->text, *end = at + len;

	for (int number = 1; at < end && !st; number++) {
		char *newline = memchr(at, '\n', (size_t)(end - at));
		char *next = newline ? newline + 1 : end + 1;

		st = parse_line(file, at, (size_t)(next - at), number);
		at = next;
	}
	return st;
}

enum taut_status config_file_parse(struct config_file *out, const char *text, size_t len, const char *path)
{
	struct config_file file = { 0 };
	enum taut_status st;

	if (len > CONFIG_FILE_MAX)
		return fail(TAUT_ERR_CONFIG, "%s: larger than %d bytes: this is no settings file", path,
			    CONFIG_FILE_MAX);
	file.path = mem_strdup(path);
	file.text = mem_calloc(1, len + 1);
	if (!file.path || !file.text) {
		st = fail(TAUT_ERR_NOMEM, "%s: %zu bytes", path, len);
		goto err_cleanup;
	}
	if (len)
		memcpy(file.text, text, len);
	st = parse_text(&file, len);
	if (st)
		goto err_cleanup;
	*out = file;
	return TAUT_OK;
err_cleanup:
	config_file_cleanup(&file);
	return st;
}

/* Reads @fd to its end, or to one byte more than is allowed. */
static enum taut_status read_all(int fd, char *buf, size_t *len, const char *path)
{
	*len = 0;
	while (*len <= CONFIG_FILE_MAX) {
		ssize_t n = read(fd, buf + *len, CONFIG_FILE_MAX + 1 - *len);

		if (n == 0)
			return TAUT_OK;
		if (n < 0 && errno != EINTR)
			return errno_fail(errno, "settings file %s: read", path);
		*len += n > 0 ? (size_t)n : 0;
	}
	return TAUT_OK;
}

static bool others_can_read(int fd)
{
	struct stat st;

	return fstat(fd, &st) || (st.st_mode & 077);
}

enum taut_status config_file_load(struct config_file *out, const char *path, int must)
{
	enum taut_status st;
	size_t len;
	char *buf;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		if (!must && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
			return config_file_parse(out, "", 0, path);
		errno_fail(errno, "settings file %s (TAUT_CONFIG names it)", path);
		return TAUT_ERR_CONFIG;
	}
	buf = mem_calloc(1, CONFIG_FILE_MAX + 1);
	if (!buf) {
		st = fail(TAUT_ERR_NOMEM, "settings file %s", path);
		goto err_close;
	}
	st = read_all(fd, buf, &len, path);
	if (!st)
		st = config_file_parse(out, buf, len, path);
	if (!st)
		out->shared = others_can_read(fd);
	mem_free(buf);
err_close:
	close(fd);
	return st;
}

const struct config_entry *config_file_find(const struct config_file *file, const char *name)
{
	for (size_t i = file->count; i-- > 0;)
		if (!strcmp(file->entries[i].name, name))
			return &file->entries[i];
	return NULL;
}

void config_file_cleanup(struct config_file *file)
{
	mem_free(file->path);
	mem_free(file->text);
	mem_free(file->entries);
	*file = (struct config_file){ 0 };
}
