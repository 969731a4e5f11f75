/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a folder. fs_path.c follows the links, so that none leads out of it; what is opened here is no link. */
#include "topo/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct fs_dir {
	struct topo_fs base;
	int root;
};

static struct fs_dir *dir_of(struct topo_fs *fs)
{
	return (struct fs_dir *)(void *)((char *)fs - offsetof(struct fs_dir, base));
}

/* From the root on: "/sys" is "sys" there. */
static const char *below(const char *path)
{
	path += strspn(path, "/");
	return *path ? path : ".";
}

static enum fs_kind dir_look(struct topo_fs *fs, const char *path, char *target, size_t len)
{
	struct stat s;
	ssize_t n;

	if (*path != '/' || fstatat(dir_of(fs)->root, below(path), &s, AT_SYMLINK_NOFOLLOW))
		return FS_NONE;
	if (S_ISDIR(s.st_mode))
		return FS_DIR;
	if (S_ISREG(s.st_mode))
		return FS_FILE;
	if (!S_ISLNK(s.st_mode))
		return FS_NONE;
	n = readlinkat(dir_of(fs)->root, below(path), target, len);
	if (n <= 0 || (size_t)n >= len)
		return FS_NONE;
	target[n] = '\0';
	return FS_LINK;
}

static size_t read_all(int fd, char *text, size_t room)
{
	size_t len = 0;

	while (len < room) {
		ssize_t n = read(fd, text + len, room - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && !len ? SIZE_MAX : len;
		len += (size_t)n;
	}
	return len;
}

static char *dir_read(struct topo_fs *fs, const char *path, size_t *len)
{
	char *text;
	int fd;

	if (*path != '/') /* folders hold no facts */
		return NULL;
	fd = openat(dir_of(fs)->root, below(path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	text = mem_calloc(FS_FILE_MAX + 1, 1);
	fs->no_memory |= !text;
	*len = text ? read_all(fd, text, FS_FILE_MAX) : 0;
	close(fd);
	if (*len != SIZE_MAX)
		return text;
	mem_free(text); /* there, but an answer of its driver: "Invalid argument" of a link that is down */
	return NULL;
}

static bool dir_list(struct topo_fs *fs, const char *path, struct fs_names *names)
{
	int fd = openat(dir_of(fs)->root, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			fs->no_memory |= !fs_names_add(names, e->d_name);
	closedir(dir);
	return true;
}

static void dir_close(struct topo_fs *fs)
{
	close(dir_of(fs)->root);
	mem_free(dir_of(fs));
}

static const struct topo_fs_ops dir_ops = {
	.name = "folder",
	.look = dir_look,
	.read = dir_read,
	.list = dir_list,
	.close = dir_close,
};

enum taut_status fs_dir_open(struct topo_fs **out, const char *root)
{
	struct fs_dir *d = mem_calloc(1, sizeof(*d));
	int err;

	if (!d)
		return fail(TAUT_ERR_NOMEM, "folder %s", root);
	d->base.ops = &dir_ops;
	d->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->root < 0)
		goto err_free;
	*out = &d->base;
	return TAUT_OK;
err_free:
	err = errno;
	mem_free(d);
	return errno_fail(err, "folder %s: want one that holds a machine's /sys", root);
}
