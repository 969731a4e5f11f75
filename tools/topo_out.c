/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum taut_status write_all(int fd, const char *path, const char *text, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0 && errno != EINTR)
			return errno_fail(errno, "%s: cannot be written", path);
		done += n > 0 ? (size_t)n : 0;
	}
	return TAUT_OK;
}

static enum taut_status write_in_place(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	enum taut_status st;

	if (fd < 0)
		return errno_fail(errno, "%s: cannot be opened", path);
	st = write_all(fd, path, text, len);
	if (close(fd) && !st)
		st = errno_fail(errno, "%s: cannot be written", path);
	return st;
}

/* mkstemp() makes files that others cannot read; this one gets the mode of a file that a program makes, or
 * that of the file it replaces. */
static void set_mode(int fd, const struct stat *old)
{
	mode_t mask = umask(0);

	umask(mask);
	if (fchmod(fd, old->st_mode ? old->st_mode & 0777 : 0666 & ~mask))
		return; /* a stricter mode harms nobody */
}

static enum taut_status replace(const char *path, const struct stat *old, const char *text, size_t len)
{
	char temp[PATH_MAX];
	enum taut_status st;
	int fd;

	if (snprintf(temp, sizeof(temp), "%s.XXXXXX", path) >= (int)sizeof(temp))
		return errno_fail(ENAMETOOLONG, "%s: cannot be written", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return errno_fail(errno, "%s: cannot be made", path);
	set_mode(fd, old);
	st = write_all(fd, path, text, len);
	if (close(fd) && !st)
		st = errno_fail(errno, "%s: cannot be written", path);
	if (!st && rename(temp, path))
		st = errno_fail(errno, "%s: cannot be replaced", path);
	if (st)
		unlink(temp);
	return st;
}

enum taut_status topo_write_file(const char *path, const char *text, size_t len)
{
	struct stat old = { 0 };
	enum taut_status st;
	char *real;

	if (!strcmp(path, "-")) {
		fwrite(text, 1, len, stdout); /* finish_output() tells */
		return TAUT_OK;
	}
	if (stat(path, &old))
		return replace(path, &old, text, len);
	if (!S_ISREG(old.st_mode))
		return write_in_place(path, text, len);
	/* What a symbolic link leads to is replaced, not the link. */
	if (access(path, W_OK))
		return errno_fail(errno, "%s: cannot be written", path);
	real = realpath(path, NULL);
	st = replace(real ? real : path, &old, text, len);
	free(real);
	return st;
}
