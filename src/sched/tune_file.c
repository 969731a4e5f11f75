/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

enum taut_status tune_path(char *out, size_t len, const char *path)
{
	int n;

	if (!*path)
		return file_cache_path(out, len, "taut.tune");
	n = snprintf(out, len, "%s", path);
	if (n < 0 || (size_t)n >= len)
		return fail(TAUT_ERR_CONFIG,
			    "path of the tuning file: %d bytes, at most %zu are possible (TAUT_TUNE_FILE)", n, len - 1);
	return TAUT_OK;
}

static enum taut_status not_read(int err, const char *path)
{
	if (err == EINVAL)
		return fail(TAUT_ERR_CONFIG, "tuning file %s: no regular file (TAUT_TUNE_FILE)", path);
	if (err == EFBIG)
		return fail(TAUT_ERR_CONFIG, "tuning file %s: longer than %u bytes", path, TUNE_FILE_MAX);
	errno_fail(err, "tuning file %s (TAUT_TUNE_FILE)", path);
	return TAUT_ERR_CONFIG;
}

enum taut_status tune_load(struct tune **out, const char *path)
{
	char full[PATH_MAX], *text;
	enum taut_status st = tune_path(full, sizeof(full), path);
	struct tune *t = NULL;
	size_t len;
	int err;

	if (st)
		return st;
	if (!*full) {
		*out = NULL;
		return TAUT_OK;
	}
	text = mem_calloc(TUNE_FILE_MAX, 1);
	if (!text)
		return fail(TAUT_ERR_NOMEM, "tuning file %s", full);
	err = file_read(&len, text, TUNE_FILE_MAX, full);
	if (!err)
		st = tune_parse(&t, full, text, len);
	else if (*path || (err != ENOENT && err != ENOTDIR && err != EACCES))
		st = not_read(err, full);
	if (!st)
		*out = t;
	mem_free(text);
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
	return TAUT_OK;
}

enum taut_status tune_save_check(const char *path)
{
	char full[PATH_MAX];
	enum taut_status st = save_target(full, sizeof(full), path);
	int err = st ? 0 : file_can_replace(full);

	return err ? errno_fail(err, "tuning file %s: its folder", full) : st;
}

enum taut_status tune_save(const struct tune *t, const char *path)
{
	char full[PATH_MAX], *text;
	size_t len;
	enum taut_status st = save_target(full, sizeof(full), path);
	int err;

	if (st)
		return st;
	st = tune_text(&text, &len, t);
	if (st)
		return st;
	err = file_replace(full, text, len);
	mem_free(text);
	return err ? errno_fail(err, "tuning file %s", full) : TAUT_OK;
}
