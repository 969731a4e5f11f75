/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what is read of a machine, so that the same reader sees the same machine elsewhere. What tells this one from
 * others of its kind does not go into the pack: of files that hold more than is needed some lines are kept,
 * hardware addresses and identifiers become numbers in the order of their coming, configuration space of PCI devices
 * (which holds serial numbers) is left out. */
#include "topo/fs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { IDS = 4096, ID_LEN = 37 };

struct fs_record {
	struct topo_fs base;
	struct topo_fs *inner, *pack;
	int nids;
	char (*ids)[ID_LEN]; /* seen so far; the number of one is its place */
};

static struct fs_record *record_of(struct topo_fs *fs)
{
	return (struct fs_record *)(void *)((char *)fs - offsetof(struct fs_record, base));
}

/* --- identifiers --- */

/* X stands for a hexadecimal digit; longest first, for the first that fits is taken. */
static const char *const id_forms[] = {
	"XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX", /* of a virtual bus */
	"XX:XX:XX:XX:XX:XX",			/* Ethernet */
	"XXXX:XXXX:XXXX:XXXX",			/* guid of a card */
	"xXXXXXXXXXXXXXXXX",			/* "ibx0011223344556677" */
	"xXXXXXXXXXXXX",			/* "enx001122334455" */
};

static size_t fits(const char *at, const char *form)
{
	size_t n = 0;

	for (; form[n]; n++)
		if (form[n] == 'X' ? !isxdigit((unsigned char)at[n]) : at[n] != form[n])
			return 0;
	return isxdigit((unsigned char)at[n]) ? 0 : n;
}

static size_t id_at(const char *at, const char *start, const char **form)
{
	bool inside = at > start && isxdigit((unsigned char)at[-1]);

	for (size_t i = 0; i < sizeof(id_forms) / sizeof(*id_forms); i++) {
		size_t n = fits(at, id_forms[i]);

		*form = id_forms[i];
		/* a name has letters before its x; "0x" is a number */
		if (n && (**form == 'x' ? at > start && islower((unsigned char)at[-1]) : !inside))
			return n;
	}
	return 0;
}

/* The same number for the same identifier, from 1; 0: there are too many to tell apart. */
static unsigned id_number(struct fs_record *r, const char *id, size_t len)
{
	for (int i = 0; i < r->nids; i++)
		if (strlen(r->ids[i]) == len && !strncmp(r->ids[i], id, len))
			return (unsigned)i + 1;
	if (r->nids == IDS)
		return 0;
	snprintf(r->ids[r->nids++], ID_LEN, "%.*s", (int)len, id);
	return (unsigned)r->nids;
}

/* Writes @number into the X of @form, at its right end. */
static void put_id(char *at, const char *form, unsigned number)
{
	for (size_t i = strlen(form); i-- > 0;)
		if (form[i] == 'X') {
			at[i] = "0123456789abcdef"[number & 15];
			number >>= 4;
		}
}

static void scrub(struct fs_record *r, char *text)
{
	const char *form;

	for (char *at = text; *at; at++) {
		size_t n = id_at(at, text, &form);

		if (!n)
			continue;
		put_id(at, form, id_number(r, at, n));
		at += n - 1;
	}
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' ? *at != '\n' && *at != '\t' : (unsigned char)*at > '~')
			*at = '?';
}

/* --- files of which a part is kept --- */

/* Keeps the lines for which @want says how much of them; up to the first blank line. */
static void keep_lines(char *text, size_t (*want)(const char *line, size_t len))
{
	char *to = text;

	for (const char *at = text; *at && *at != '\n';) {
		size_t len = strcspn(at, "\n"), kept = want(at, len);
		bool more = at[len] == '\n';

		if (kept) {
			memmove(to, at, kept);
			to += kept;
			if (more)
				*to++ = '\n';
		}
		at += len + more;
	}
	*to = '\0';
}

static bool starts(const char *line, size_t len, const char *word)
{
	return len >= strlen(word) && !memcmp(line, word, strlen(word));
}

/* Of the first processor, what says its model; of flags only that it is a guest. */
static size_t want_cpu(const char *line, size_t len)
{
	static const char *const keys[] = { "processor\t",  "vendor_id\t", "cpu family\t",	"cpu\t",
					    "model name\t", "model\t",	   "CPU implementer\t", "CPU part\t" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (starts(line, len, keys[i]))
			return len;
	return 0;
}

#define GUEST_LINE "\nflags\t: hypervisor\n"
enum { REDUCE_ROOM = sizeof(GUEST_LINE) }; /* that a reduced text may need more */

static void reduce_cpuinfo(char *text)
{
	const char *flags = strstr(text, "\nflags"), *guest = flags ? strstr(flags, " hypervisor") : NULL;
	bool is_guest = guest && guest < flags + 1 + strcspn(flags + 1, "\n");
	size_t len;

	keep_lines(text, want_cpu);
	len = strlen(text);
	if (is_guest)
		memcpy(text + len - (len && text[len - 1] == '\n'), GUEST_LINE, sizeof(GUEST_LINE));
}

static size_t want_total(const char *line, size_t len)
{
	return memmem(line, len, "MemTotal:", 9) ? len : 0;
}

static void reduce_meminfo(char *text)
{
	keep_lines(text, want_total);
}

/* Of what AMD's driver says; not its unique numbers. */
static size_t want_property(const char *line, size_t len)
{
	static const char *const keys[] = {
		"domain ",  "location_id ", "simd_count ", "gfx_target_version ", "heap_type ",	    "size_in_bytes ",
		"node_to ", "type ",	    "weight ",	   "min_bandwidth ",	  "max_bandwidth ",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (starts(line, len, keys[i]))
			return len;
	return 0;
}

static void reduce_properties(char *text)
{
	keep_lines(text, want_property);
}

/* Up to the name of who built the driver, in parentheses. */
static void reduce_version(char *text)
{
	text[strcspn(text, "(\n")] = '\0';
}

static void reduce_all(char *text)
{
	*text = '\0';
}

/* By the end of the path. */
static const struct {
	const char *end;
	void (*reduce)(char *text);
} parts[] = {
	{ "/cpuinfo", reduce_cpuinfo },	       { "/meminfo", reduce_meminfo }, { "/properties", reduce_properties },
	{ "/nvidia/version", reduce_version }, { "/config", reduce_all },
};

static bool ends(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n >= m && !strcmp(path + n - m, end);
}

/* --- keeping --- */

static void add(struct fs_record *r, enum fs_kind kind, const char *path, const char *text)
{
	char *p = mem_strdup(path), *t = mem_calloc(strlen(text) + REDUCE_ROOM, 1);

	if (!p || !t) {
		r->base.no_memory = true;
		goto out;
	}
	memcpy(t, text, strlen(text));
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (kind == FS_FILE && ends(p, parts[i].end))
			parts[i].reduce(t);
	if (*t && strchr(t, '\n') == t + strlen(t) - 1) /* one line needs no end */
		t[strlen(t) - 1] = '\0';
	scrub(r, p);
	scrub(r, t);
	if (kind == FS_LINK && strchr(t, '\n')) /* no line of a pack can say it */
		goto out;
	if (!strpbrk(p, " \n\t") && (kind != FS_FILE || *t) && fs_pack_add(r->pack, kind, p, t))
		r->base.no_memory = true;
out:
	mem_free(p);
	mem_free(t);
}

static enum fs_kind record_look(struct topo_fs *fs, const char *path, char *target, size_t len)
{
	struct fs_record *r = record_of(fs);
	enum fs_kind kind = r->inner->ops->look(r->inner, path, target, len);

	if (kind == FS_LINK || kind == FS_DIR)
		add(r, kind, path, kind == FS_LINK ? target : "");
	return kind;
}

static char *record_read(struct topo_fs *fs, const char *path, size_t *len)
{
	struct fs_record *r = record_of(fs);
	char *text = r->inner->ops->read(r->inner, path, len);

	fs->no_memory |= r->inner->no_memory;
	if (text)
		add(r, FS_FILE, path, text);
	return text;
}

static bool record_list(struct topo_fs *fs, const char *path, struct fs_names *names)
{
	struct fs_record *r = record_of(fs);
	bool there = r->inner->ops->list(r->inner, path, names);

	fs->no_memory |= r->inner->no_memory;
	if (there)
		add(r, FS_DIR, path, "");
	return there;
}

static void record_keep(struct topo_fs *fs, const char *fact, const char *text)
{
	add(record_of(fs), FS_FILE, fact, text);
}

static void record_close(struct topo_fs *fs)
{
	mem_free(record_of(fs)->ids);
	mem_free(record_of(fs));
}

static const struct topo_fs_ops record_ops = {
	.name = "recorder",
	.look = record_look,
	.read = record_read,
	.list = record_list,
	.keep = record_keep,
	.close = record_close,
};

enum taut_status fs_record_open(struct topo_fs **out, struct topo_fs *inner, struct topo_fs *pack)
{
	struct fs_record *r = mem_calloc(1, sizeof(*r));

	if (!r)
		return fail(TAUT_ERR_NOMEM, "capture");
	r->base.ops = &record_ops;
	r->inner = inner;
	r->pack = pack;
	r->ids = mem_calloc(IDS, ID_LEN);
	if (!r->ids)
		goto err_free;
	*out = &r->base;
	return TAUT_OK;
err_free:
	mem_free(r);
	return fail(TAUT_ERR_NOMEM, "capture");
}
