/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"

enum taut_status tune_path(char *out, size_t len, const char *path)
{
	const char *cache = config_env("XDG_CACHE_HOME"), *home = config_env("HOME");
	int n;

	if (*path)
		n = snprintf(out, len, "%s", path);
	else if (cache && *cache == '/') /* the standard says: others are to be ignored */
		n = snprintf(out, len, "%s/taut/taut.tune", cache);
	else
		n = snprintf(out, len, "%s%s", home ? home : "", home ? "/.cache/taut/taut.tune" : "");
	if (n < 0 || (size_t)n >= len)
		return fail(TAUT_ERR_CONFIG,
			    "path of the tuning file: %d bytes, at most %zu are possible (TAUT_TUNE_FILE, "
			    "XDG_CACHE_HOME, HOME)",
			    n, len - 1);
	return TAUT_OK;
}

/* Reads until the end of the file or of the buffer. */
static enum taut_status read_all(size_t *got, char *buf, size_t cap, int fd, const char *path)
{
	*got = 0;
	while (*got < cap) {
		ssize_t n = read(fd, buf + *got, cap - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno_fail(errno, "tuning file %s: read", path);
		if (!n)
			return TAUT_OK;
		*got += (size_t)n;
	}
	return fail(TAUT_ERR_CONFIG, "tuning file %s: longer than %u bytes", path, TUNE_FILE_MAX);
}

static enum taut_status load_fd(struct tune **out, int fd, const char *path)
{
	struct stat sb;
	size_t len;
	char *text;
	enum taut_status st;

	if (fstat(fd, &sb))
		return errno_fail(errno, "tuning file %s", path);
	if (!S_ISREG(sb.st_mode))
		return fail(TAUT_ERR_CONFIG, "tuning file %s: no regular file (TAUT_TUNE_FILE)", path);
	text = mem_calloc(TUNE_FILE_MAX + 1, 1);
	if (!text)
		return fail(TAUT_ERR_NOMEM, "tuning file %s", path);
	st = read_all(&len, text, TUNE_FILE_MAX + 1, fd, path);
	if (!st)
		st = tune_parse(out, path, text, len);
	mem_free(text);
	return st;
}

enum taut_status tune_load(struct tune **out, const char *path)
{
	char full[PATH_MAX];
	enum taut_status st = tune_path(full, sizeof(full), path);
	int fd;

	if (st)
		return st;
	if (!*full) {
		*out = NULL;
		return TAUT_OK;
	}
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hold us up */
	if (fd < 0 && !*path && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) {
		*out = NULL;
		return TAUT_OK;
	}
	if (fd < 0) {
		errno_fail(errno, "tuning file %s (TAUT_TUNE_FILE)", full);
		return TAUT_ERR_CONFIG;
	}
	st = load_fd(out, fd, full);
	close(fd);
	return st;
}

/* mkdir -p of the folder that @path lies in. */
static enum taut_status make_folder(const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *p = folder + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(folder, 0777) && errno != EEXIST)
			return errno_fail(errno, "tuning file: folder %s", folder);
		*p = '/';
	}
	return TAUT_OK;
}

static enum taut_status write_fd(int fd, const char *text, size_t len, const char *path)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno_fail(errno, "tuning file %s: write", path);
		text += n;
		len -= (size_t)n;
	}
	return TAUT_OK;
}

/* Written beside the old one, then renamed: a reader sees the old or the new file. */
static enum taut_status replace_file(const char *path, const char *text, size_t len)
{
	char temp[PATH_MAX];
	int n = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	enum taut_status st;
	int fd;

	if (n < 0 || (size_t)n >= sizeof(temp))
		return fail(TAUT_ERR_ARG, "tuning file %s: the path is too long", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return errno_fail(errno, "tuning file %s", temp);
	st = write_fd(fd, text, len, path);
	if (!st && fchmod(fd, 0644))
		st = errno_fail(errno, "tuning file %s", temp);
	if (close(fd) && !st)
		st = errno_fail(errno, "tuning file %s: close", temp);
	if (!st && rename(temp, path))
		st = errno_fail(errno, "tuning file %s", path);
	if (st)
		unlink(temp);
	return st;
}

/* @full: where the file of @path is. As root, rename() would put a file in a device's place. */
static enum taut_status save_target(char *full, size_t len, const char *path)
{
	enum taut_status st = tune_path(full, len, path);
	struct stat sb;

	if (st)
		return st;
	if (!*full)
		return fail(TAUT_ERR_CONFIG, "tuning file: neither XDG_CACHE_HOME nor HOME is set, name a file");
	if (!stat(full, &sb) && !S_ISREG(sb.st_mode))
		return fail(TAUT_ERR_CONFIG, "tuning file %s: it is there and is no regular file, name another", full);
	return make_folder(full);
}

enum taut_status tune_save_check(const char *path)
{
	char full[PATH_MAX];
	enum taut_status st = save_target(full, sizeof(full), path);
	char *slash = st ? NULL : strrchr(full, '/');

	if (st)
		return st;
	if (slash)
		slash[1] = '\0';
	if (access(slash ? full : ".", W_OK | X_OK))
		return errno_fail(errno, "tuning file %s: folder %s", path, slash ? full : ".");
	return TAUT_OK;
}

enum taut_status tune_save(const struct tune *t, const char *path)
{
	char full[PATH_MAX], *text;
	size_t len;
	enum taut_status st = save_target(full, sizeof(full), path);

	if (st)
		return st;
	st = tune_text(&text, &len, t);
	if (st)
		return st;
	st = replace_file(full, text, len);
	mem_free(text);
	return st;
}
