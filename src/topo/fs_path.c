/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/fs.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- links --- */

/* A path that is being resolved: what is done, without links, and what is to be done. */
struct walk {
	char done[FS_PATH], rest[2 * FS_PATH];
	int links;
};

static void go_up(struct walk *w)
{
	char *slash = strrchr(w->done, '/');

	if (slash)
		*slash = '\0';
}

/* Takes the next name off the rest; false at its end. */
static bool next_name(struct walk *w, char *name, size_t len)
{
	size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

	if (!n || n >= len)
		return false;
	memcpy(name, w->rest + skip, n);
	name[n] = '\0';
	memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
	return true;
}

/* The rest is now what the link says, then what was left. */
static bool follow(struct walk *w, const char *target)
{
	char rest[2 * FS_PATH];

	if (++w->links > FS_LINKS_MAX)
		return false;
	if (snprintf(rest, sizeof(rest), "%s/%s", target, w->rest) >= (int)sizeof(rest))
		return false;
	memcpy(w->rest, rest, sizeof(rest));
	if (*target == '/')
		*w->done = '\0';
	else
		go_up(w);
	return true;
}

/* One name further; false when it leads nowhere. @kind is what stands at done. */
static bool step(struct topo_fs *fs, struct walk *w, const char *name, enum fs_kind *kind)
{
	size_t len = strlen(w->done);
	char target[FS_PATH];

	if (*kind != FS_DIR)
		return false;
	if (!strcmp(name, "."))
		return true;
	if (!strcmp(name, "..")) {
		go_up(w);
		return true;
	}
	if (len + 1 + strlen(name) >= sizeof(w->done))
		return false;
	snprintf(w->done + len, sizeof(w->done) - len, "/%s", name);
	*kind = fs->ops->look(fs, w->done, target, sizeof(target));
	if (*kind != FS_LINK)
		return *kind != FS_NONE;
	*kind = FS_DIR;
	return follow(w, target);
}

static enum fs_kind resolve(struct topo_fs *fs, char *out, size_t len, const char *path)
{
	struct walk w = { .links = 0 };
	enum fs_kind kind = FS_DIR;
	char name[256];

	if (*path != '/' || snprintf(w.rest, sizeof(w.rest), "%s", path) >= FS_PATH)
		return FS_NONE;
	while (next_name(&w, name, sizeof(name)))
		if (!step(fs, &w, name, &kind))
			return FS_NONE;
	if (w.rest[strspn(w.rest, "/")]) /* a name that is too long */
		return FS_NONE;
	if (snprintf(out, len, "%s", *w.done ? w.done : "/") >= (int)len)
		return FS_NONE;
	return kind;
}

bool fs_real(struct topo_fs *fs, char *out, size_t len, const char *path)
{
	return resolve(fs, out, len, path) != FS_NONE;
}

enum fs_kind fs_kind_of(struct topo_fs *fs, const char *path)
{
	char real[FS_PATH];

	return resolve(fs, real, sizeof(real), path);
}

/* --- files --- */

char *fs_read(struct topo_fs *fs, size_t *len, const char *path)
{
	char real[FS_PATH];
	size_t unused;

	if (resolve(fs, real, sizeof(real), path) != FS_FILE)
		return NULL;
	return fs->ops->read(fs, real, len ? len : &unused);
}

char *fs_fact(struct topo_fs *fs, const char *fact)
{
	size_t len;

	return *fact == '/' ? NULL : fs->ops->read(fs, fact, &len);
}

void fs_keep(struct topo_fs *fs, const char *fact, const char *text)
{
	if (fs->ops->keep)
		fs->ops->keep(fs, fact, text);
}

static bool first_line(struct topo_fs *fs, char *out, size_t len, const char *fmt, va_list ap)
{
	char path[FS_PATH], *text = NULL;
	const char *start;
	size_t n;

	*out = '\0';
	if (vsnprintf(path, sizeof(path), fmt, ap) < (int)sizeof(path))
		text = fs_read(fs, NULL, path);
	if (!text)
		return false;
	start = text + strspn(text, " \t");
	n = strcspn(start, "\n");
	while (n && isspace((unsigned char)start[n - 1]))
		n--;
	snprintf(out, len, "%.*s", (int)n, start);
	mem_free(text);
	return *out != '\0';
}

bool fs_line(struct topo_fs *fs, char *out, size_t len, const char *fmt, ...)
{
	va_list ap;
	bool found;

	va_start(ap, fmt);
	found = first_line(fs, out, len, fmt, ap);
	va_end(ap);
	return found;
}

long fs_number(struct topo_fs *fs, long otherwise, const char *fmt, ...)
{
	char text[64], *end;
	va_list ap;
	bool found, hex;
	long v;

	va_start(ap, fmt);
	found = first_line(fs, text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!found)
		return otherwise;
	hex = !strncmp(text, "0x", 2) || !strncmp(text, "0X", 2);
	v = strtol(text, &end, hex ? 16 : 10);
	return end == text ? otherwise : v;
}

/* --- folders --- */

bool fs_names_add(struct fs_names *names, const char *name)
{
	int room = 16;

	if (names->n >= FS_NAMES_MAX || strlen(name) >= FS_NAME)
		return true;
	while (room < names->n)
		room *= 2;
	if (!names->n || room == names->n) {
		char(*more)[FS_NAME] = mem_realloc(names->name, (size_t)room * 2, FS_NAME);

		if (!more)
			return false;
		names->name = more;
	}
	snprintf(names->name[names->n++], FS_NAME, "%s", name);
	return true;
}

static int by_number(const void *a, const void *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		size_t nx, ny;

		if (!isdigit((unsigned char)*x) || !isdigit((unsigned char)*y)) {
			if (*x != *y)
				return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
			x++, y++;
			continue;
		}
		x += strspn(x, "0");
		y += strspn(y, "0");
		nx = strspn(x, "0123456789");
		ny = strspn(y, "0123456789");
		if (nx != ny)
			return nx < ny ? -1 : 1;
		if (strncmp(x, y, nx))
			return strncmp(x, y, nx);
		x += nx;
		y += ny;
	}
	if (*x || *y)
		return *x ? 1 : -1;
	return strcmp(a, b);
}

static void drop_twins(struct fs_names *names)
{
	int kept = 0;

	for (int i = 0; i < names->n; i++)
		if (!kept || strcmp(names->name[kept - 1], names->name[i]) != 0)
			memmove(names->name[kept++], names->name[i], FS_NAME);
	names->n = kept;
}

int fs_list(struct topo_fs *fs, struct fs_names *out, const char *path)
{
	char real[FS_PATH];

	*out = (struct fs_names){ .n = 0 };
	if (resolve(fs, real, sizeof(real), path) != FS_DIR || !fs->ops->list(fs, real, out)) {
		fs_names_free(out);
		return -1;
	}
	if (out->n)
		qsort(out->name, (size_t)out->n, sizeof(*out->name), by_number);
	drop_twins(out);
	return out->n;
}

void fs_names_free(struct fs_names *names)
{
	mem_free(names->name);
	*names = (struct fs_names){ .n = 0 };
}

void fs_close(struct topo_fs *fs)
{
	if (fs)
		fs->ops->close(fs);
}
