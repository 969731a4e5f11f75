/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"

enum taut_status file_cache_path(char *out, size_t len, const char *name)
{
	const char *cache = config_env("XDG_CACHE_HOME"), *home = config_env("HOME");
	int n;

	if (cache && *cache == '/') /* the standard says: others are to be ignored */
		n = snprintf(out, len, "%s/taut/%s", cache, name);
	else
		n = snprintf(out, len, "%s%s%s", home ? home : "", home ? "/.cache/taut/" : "", home ? name : "");
	if (n < 0 || (size_t)n >= len)
		return fail(TAUT_ERR_CONFIG,
			    "path of %s in the cache folder: %d bytes, at most %zu are possible (XDG_CACHE_HOME, HOME)",
			    name, n, len - 1);
	return TAUT_OK;
}

/* mkdir -p of the folder that @path lies in. */
static int make_folder(const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *p = folder + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(folder, 0777) && errno != EEXIST)
			return errno;
		*p = '/';
	}
	return 0;
}

int file_can_replace(const char *path)
{
	char folder[PATH_MAX];
	char *slash;
	int err = make_folder(path);

	if (err)
		return err;
	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	return access(slash ? folder : ".", W_OK | X_OK) ? errno : 0;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Written beside the old one, then renamed. */
int file_replace(const char *path, const char *text, size_t len)
{
	char temp[PATH_MAX];
	int n = snprintf(temp, sizeof(temp), "%s.XXXXXX", path), fd, err;

	if (n < 0 || (size_t)n >= sizeof(temp))
		return ENAMETOOLONG;
	err = make_folder(path);
	if (err)
		return err;
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = write_all(fd, text, len);
	if (!err && fchmod(fd, 0644))
		err = errno;
	if (close(fd) && !err)
		err = errno;
	if (!err && rename(temp, path))
		err = errno;
	if (err)
		unlink(temp);
	return err;
}

static int read_all(size_t *got, char *buf, size_t cap, int fd)
{
	char more;

	for (*got = 0;;) {
		ssize_t n = *got < cap ? read(fd, buf + *got, cap - *got) : read(fd, &more, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (!n)
			return 0;
		if (*got == cap)
			return EFBIG;
		*got += (size_t)n;
	}
}

int file_read(size_t *got, char *buf, size_t cap, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err; /* a fifo must not hold us up */
	struct stat sb;

	if (fd < 0)
		return errno;
	if (fstat(fd, &sb))
		err = errno;
	else
		err = S_ISREG(sb.st_mode) ? read_all(got, buf, cap, fd) : EINVAL;
	close(fd);
	return err;
}
