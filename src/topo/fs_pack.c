/* SPDX-License-Identifier: Apache-2.0 */
/* A captured machine: files, links and empty folders as text that people can read and edit.
 *
 *	taut capture 1
 *	/sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/net/eth0
 *	/sys/devices/pci0000:00/0000:00:03.0/net/eth0/speed: 10000
 *	/sys/class/infiniband/
 *	/proc/cpuinfo: |2
 *	vendor_id	: GenuineIntel
 *	cpu family	: 6
 *	# remarks, and blank lines between entries, mean nothing
 *
 * "|N" says that the next N lines are the text. A folder is there when something in it is. Names that do not start with
 * "/" are facts. Order does not matter; no entry may be there twice. */
#include "topo/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MAGIC "taut capture 1"

enum { PACK_ENTRIES = 200000, PACK_BYTES = 16 << 20 };

struct entry {
	enum fs_kind kind;
	char *path, *text;
	int number; /* in the order of their coming */
};

struct fs_pack {
	struct topo_fs base;
	int n, room, sorted; /* the first @sorted are in order, and searched */
	int dropped;	     /* entries that were there already */
	struct entry *entries;
};

static struct fs_pack *pack_of(struct topo_fs *fs)
{
	return (struct fs_pack *)(void *)((char *)fs - offsetof(struct fs_pack, base));
}

/* --- finding --- */

static int by_path(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c ? c : x->number - y->number;
}

/* The first entry that is not before @path. */
static int lower(const struct fs_pack *p, const char *path)
{
	int lo = 0, hi = p->sorted;

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;

		if (strcmp(p->entries[mid].path, path) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void entry_free(struct entry *e)
{
	mem_free(e->path);
	mem_free(e->text);
}

static void sort(struct fs_pack *p)
{
	int kept = 0;

	if (p->sorted == p->n)
		return;
	qsort(p->entries, (size_t)p->n, sizeof(*p->entries), by_path);
	for (int i = 0; i < p->n; i++)
		if (kept && !strcmp(p->entries[kept - 1].path, p->entries[i].path))
			entry_free(&p->entries[i]);
		else
			p->entries[kept++] = p->entries[i];
	p->dropped += p->n - kept;
	p->n = p->sorted = kept;
}

static const struct entry *find(struct fs_pack *p, const char *path)
{
	int i;

	sort(p);
	i = lower(p, path);
	return i < p->n && !strcmp(p->entries[i].path, path) ? &p->entries[i] : NULL;
}

/* The first entry in folder @path; n: none. @prefix is the path with its slash. */
static int first_in(struct fs_pack *p, const char *path, char prefix[FS_PATH + 1])
{
	int i;

	sort(p);
	snprintf(prefix, FS_PATH + 1, "%s/", strcmp(path, "/") != 0 ? path : "");
	i = lower(p, prefix);
	return i < p->n && !strncmp(p->entries[i].path, prefix, strlen(prefix)) ? i : p->n;
}

static enum fs_kind pack_look(struct topo_fs *fs, const char *path, char *target, size_t len)
{
	struct fs_pack *p = pack_of(fs);
	const struct entry *e = find(p, path);
	char prefix[FS_PATH + 1];

	if (!e)
		return first_in(p, path, prefix) < p->n ? FS_DIR : FS_NONE;
	if (e->kind == FS_LINK && snprintf(target, len, "%s", e->text) >= (int)len)
		return FS_NONE;
	return e->kind;
}

static char *pack_read(struct topo_fs *fs, const char *path, size_t *len)
{
	const struct entry *e = find(pack_of(fs), path);
	char *text;

	if (!e || e->kind != FS_FILE)
		return NULL;
	text = mem_strdup(e->text);
	fs->no_memory |= !text;
	*len = text ? strlen(text) : 0;
	return text;
}

static bool pack_list(struct topo_fs *fs, const char *path, struct fs_names *names)
{
	struct fs_pack *p = pack_of(fs);
	const struct entry *e = find(p, path);
	char prefix[FS_PATH + 1], name[FS_NAME], last[FS_NAME] = "";
	int i = first_in(p, path, prefix);
	size_t len = strlen(prefix);

	if (i == p->n && !(e && e->kind == FS_DIR))
		return false;
	for (; i < p->n && !strncmp(p->entries[i].path, prefix, len); i++) {
		size_t n = strcspn(p->entries[i].path + len, "/");

		if (!n || n >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)n, p->entries[i].path + len);
		if (strcmp(name, last) != 0)
			fs->no_memory |= !fs_names_add(names, name);
		memcpy(last, name, sizeof(last));
	}
	return true;
}

static void pack_close(struct topo_fs *fs)
{
	struct fs_pack *p = pack_of(fs);

	for (int i = 0; i < p->n; i++)
		entry_free(&p->entries[i]);
	mem_free(p->entries);
	mem_free(p);
}

static const struct topo_fs_ops pack_ops = {
	.name = "capture",
	.look = pack_look,
	.read = pack_read,
	.list = pack_list,
	.close = pack_close,
};

/* --- making --- */

enum taut_status fs_pack_create(struct topo_fs **out)
{
	struct fs_pack *p = mem_calloc(1, sizeof(*p));

	if (!p)
		return fail(TAUT_ERR_NOMEM, "capture");
	p->base.ops = &pack_ops;
	*out = &p->base;
	return TAUT_OK;
}

static bool make_room(struct fs_pack *p)
{
	int room = p->room ? p->room * 2 : 64;
	struct entry *more;

	sort(p);
	if (p->n < p->room / 2)
		return true;
	more = mem_realloc(p->entries, (size_t)room, sizeof(*more));
	if (more) {
		p->entries = more;
		p->room = room;
	}
	return more;
}

enum taut_status fs_pack_add(struct topo_fs *pack, enum fs_kind kind, const char *path, const char *text)
{
	struct fs_pack *p = pack_of(pack);
	struct entry e = { .kind = kind };

	if (p->n == p->room && !make_room(p))
		goto err_memory;
	if (p->n == PACK_ENTRIES)
		return fail(TAUT_ERR_ARG, "capture: more than %d entries", PACK_ENTRIES);
	e.number = p->n;
	e.path = mem_strdup(path);
	e.text = mem_strdup(text);
	if (!e.path || !e.text)
		goto err_free;
	p->entries[p->n++] = e;
	return TAUT_OK;
err_free:
	entry_free(&e);
err_memory:
	return fail(TAUT_ERR_NOMEM, "capture: entry %s", path);
}

/* --- reading --- */

struct lines {
	const char *name, *at, *end;
	int line;
};

/* The next line, without its end; false at the end of the text. */
static bool next_line(struct lines *l, const char **start, size_t *len)
{
	const char *nl;

	if (l->at == l->end)
		return false;
	nl = memchr(l->at, '\n', (size_t)(l->end - l->at));
	*start = l->at;
	*len = (size_t)((nl ? nl : l->end) - l->at);
	l->at = nl ? nl + 1 : l->end;
	l->line++;
	if (*len && (*start)[*len - 1] == '\r')
		--*len;
	return true;
}

static enum taut_status bad(const struct lines *l, size_t column, const char *what)
{
	return fail(TAUT_ERR_ARG, "%s:%d:%zu: %s; want an entry of a capture: PATH: TEXT, PATH -> LINK or FOLDER/",
		    l->name, l->line, column + 1, what);
}

/* Without "//", "." and "..", which no look-up would find. Returns what is wrong. */
static const char *path_wrong(const char *path)
{
	const char *at = path + (*path == '/');

	for (;;) {
		size_t n = strcspn(at, "/");

		if (!n)
			return "a path with an empty name in it";
		if ((n == 1 && *at == '.') || (n == 2 && !strncmp(at, "..", 2)))
			return "a path with . or .. in it";
		if (!at[n])
			return NULL;
		at += n + 1;
	}
}

/* The lines of a counted text, as one. */
static enum taut_status counted(struct lines *l, char **out, long count, size_t column)
{
	const char *from = l->at, *start;
	size_t len, total = 0;
	char *text;

	for (long i = 0; i < count; i++)
		if (!next_line(l, &start, &len))
			return bad(l, column, "fewer lines of text than it counts");
	total = (size_t)(l->at - from);
	text = mem_calloc(total + 1, 1);
	if (!text)
		return fail(TAUT_ERR_NOMEM, "%s: line %d", l->name, l->line);
	memcpy(text, from, total);
	*out = text;
	return TAUT_OK;
}

static enum taut_status one_line(struct lines *l, char **out, const char *text, size_t len)
{
	*out = mem_calloc(len + 1, 1);
	if (!*out)
		return fail(TAUT_ERR_NOMEM, "%s: line %d", l->name, l->line);
	memcpy(*out, text, len);
	return TAUT_OK;
}

static enum taut_status read_text(struct lines *l, char **out, const char *line, size_t len, size_t column)
{
	char number[12], *end;
	long count;

	if (column == len || line[column] != '|')
		return one_line(l, out, line + column, len - column);
	snprintf(number, sizeof(number), "%.*s", (int)(len - column - 1 > 10 ? 10 : len - column - 1),
		 line + column + 1);
	count = strtol(number, &end, 10);
	if (!*number || *end || count < 0)
		return bad(l, column, "no number of lines after |");
	return counted(l, out, count, column);
}

struct split {
	enum fs_kind kind;
	size_t path_len, column; /* where its text starts */
};

static const char *find_text(const char *line, size_t len, const char *what)
{
	size_t n = strlen(what);

	for (size_t i = 0; i + n <= len; i++)
		if (!memcmp(line + i, what, n))
			return line + i;
	return NULL;
}

/* "PATH: TEXT", "PATH:", "PATH -> LINK", "FOLDER/"; kind FS_NONE: none of them. */
static struct split split_line(const char *line, size_t len)
{
	const char *colon = find_text(line, len, ": "), *arrow = find_text(line, len, " -> ");

	if (arrow && (!colon || arrow < colon))
		return (struct split){ FS_LINK, (size_t)(arrow - line), (size_t)(arrow - line) + 4 };
	if (colon)
		return (struct split){ FS_FILE, (size_t)(colon - line), (size_t)(colon - line) + 2 };
	if (len && line[len - 1] == ':')
		return (struct split){ FS_FILE, len - 1, len };
	if (len && line[len - 1] == '/')
		return (struct split){ FS_DIR, len - 1, len };
	return (struct split){ .kind = FS_NONE };
}

static enum taut_status read_entry(struct topo_fs *pack, struct lines *l, const char *line, size_t len)
{
	struct split s = split_line(line, len);
	char path[FS_PATH], *text = NULL;
	enum taut_status st;

	if (s.kind == FS_NONE)
		return bad(l, 0, "no entry");
	if (s.path_len >= sizeof(path) || memchr(line, '\0', len))
		return bad(l, 0, "a path that is too long, or a zero byte");
	snprintf(path, sizeof(path), "%.*s", (int)s.path_len, line);
	if (path_wrong(path))
		return bad(l, 0, path_wrong(path));
	/* Where a link goes is one line, whatever it starts with. */
	st = s.kind == FS_LINK ? one_line(l, &text, line + s.column, len - s.column)
			       : read_text(l, &text, line, len, s.column);
	if (!st)
		st = fs_pack_add(pack, s.kind, path, text);
	mem_free(text);
	return st;
}

static enum taut_status read_entries(struct topo_fs *pack, struct lines *l)
{
	const char *line;
	enum taut_status st = TAUT_OK;
	size_t len;

	if (!next_line(l, &line, &len) || len != strlen(MAGIC) || memcmp(line, MAGIC, len) != 0)
		return fail(TAUT_ERR_ARG, "%s:1:1: want \"" MAGIC "\", the first line of a capture", l->name);
	while (!st && next_line(l, &line, &len))
		if (len && *line != '#')
			st = read_entry(pack, l, line, len);
	return st;
}

enum taut_status fs_pack_read(struct topo_fs **out, const char *name, const char *text, size_t len)
{
	struct lines l = { .name = name, .at = text, .end = text + len };
	struct topo_fs *pack = NULL;
	enum taut_status st;

	if (len > PACK_BYTES)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes; a capture has at most %d", name, len, PACK_BYTES);
	st = fs_pack_create(&pack);
	if (st)
		return st;
	st = read_entries(pack, &l);
	if (st)
		goto err_close;
	sort(pack_of(pack));
	if (pack_of(pack)->dropped) {
		st = fail(TAUT_ERR_ARG, "%s: %d entries are there twice; want each once", name, pack_of(pack)->dropped);
		goto err_close;
	}
	*out = pack;
	return TAUT_OK;
err_close:
	fs_close(pack);
	return st;
}

/* --- writing --- */

/* Text that one line can hold as it is. */
static bool is_line(const char *text)
{
	return !strchr(text, '\n') && *text != '|';
}

static void write_text(FILE *f, const char *text)
{
	int lines = 0;

	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	lines += *text && text[strlen(text) - 1] != '\n';
	fprintf(f, ": |%d\n%s%s", lines, text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void write_entry(FILE *f, struct fs_pack *p, const struct entry *e)
{
	char prefix[FS_PATH + 1];

	if (e->kind == FS_DIR && first_in(p, e->path, prefix) < p->n)
		return; /* it is there by what is in it */
	fputs(e->path, f);
	if (e->kind == FS_DIR)
		fputs("/\n", f);
	else if (e->kind == FS_LINK)
		fprintf(f, " -> %s\n", e->text);
	else if (is_line(e->text))
		fprintf(f, ": %s\n", e->text);
	else
		write_text(f, e->text);
}

enum taut_status fs_pack_write(char **out, struct topo_fs *pack)
{
	struct fs_pack *p = pack_of(pack);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return fail(TAUT_ERR_NOMEM, "capture: its text");
	sort(p);
	fputs(MAGIC "\n", f);
	for (int i = 0; i < p->n; i++)
		write_entry(f, p, &p->entries[i]);
	if (fclose(f) || !text)
		goto err_free;
	*out = text;
	return TAUT_OK;
err_free:
	mem_free(text);
	return fail(TAUT_ERR_NOMEM, "capture: its text");
}
