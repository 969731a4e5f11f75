/* SPDX-License-Identifier: Apache-2.0 */
/* The files a machine describes itself with (/sys, /proc): of this machine, of a folder that holds a copy, or of a
 * capture in memory, so that what reads them works from all three.
 *
 * Paths start with "/" at the root of that machine. Symbolic links are followed inside it and never lead out. What a
 * capture holds beyond files are facts: names that do not start with "/" ("nvml"). A file that cannot be read is as one
 * that is not there. One thread at a time; the caller owns a file system and closes it with fs_close(). */
#ifndef TOPO_FS_H
#define TOPO_FS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum {
	FS_PATH = 512,		 /* of a path, with its zero */
	FS_NAME = 64,		 /* of a name in a folder; longer ones are not seen */
	FS_FILE_MAX = 64 << 10,	 /* more of a file is not read */
	FS_NAMES_MAX = 16 << 10, /* nor more names of a folder */
	FS_LINKS_MAX = 40	 /* links on the way of one path */
};

enum fs_kind { FS_NONE, FS_FILE, FS_DIR, FS_LINK };

struct fs_names {
	int n;
	char (*name)[FS_NAME]; /* ascending; numbers in them count as numbers: "mlx5_2", "mlx5_10" */
};

struct topo_fs;
struct topo_fs_ops {
	const char *name;
	/* What stands at @path, on the way to which there is no link. Of a link @target is where it leads. */
	enum fs_kind (*look)(struct topo_fs *fs, const char *path, char *target, size_t len);
	/* Of a file at such a path, or a fact: its bytes and a zero; NULL: none. */
	char *(*read)(struct topo_fs *fs, const char *path, size_t *len);
	/* Adds the names in the folder at such a path, in any order; false: no folder, or nobody may read it. */
	bool (*list)(struct topo_fs *fs, const char *path, struct fs_names *names);
	/* (optional) Told of facts that were found out from what a capture must not hold. */
	void (*keep)(struct topo_fs *fs, const char *fact, const char *text);
	void (*close)(struct topo_fs *fs);
};
struct topo_fs {
	const struct topo_fs_ops *ops;
	bool no_memory; /* an answer was "not there" because memory was out; the reader asks at its end */
};

/* --- reading --- */
/* Where @path really is, without links; false when there is nothing. */
bool fs_real(struct topo_fs *fs, char *out, size_t len, const char *path);
enum fs_kind fs_kind_of(struct topo_fs *fs, const char *path); /* FS_NONE, FS_FILE or FS_DIR */
/* The whole file, ending in a zero byte; the caller's, by mem_free(). NULL: none. @len may be NULL. */
char *fs_read(struct topo_fs *fs, size_t *len, const char *path);
char *fs_fact(struct topo_fs *fs, const char *fact);
void fs_keep(struct topo_fs *fs, const char *fact, const char *text);
/* The first line without space at its ends, cut to fit; false and "" when there is none. */
bool fs_line(struct topo_fs *fs, char *out, size_t len, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The number at the start of the first line: decimal, or hexadecimal after 0x. */
long fs_number(struct topo_fs *fs, long otherwise, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Names in a folder; -1 (and no names) when there is none. Freed with fs_names_free(). */
int fs_list(struct topo_fs *fs, struct fs_names *out, const char *path);
void fs_names_free(struct fs_names *names);
void fs_close(struct topo_fs *fs); /* NULL is allowed */

/* --- the kinds --- */
/* The machine whose root is the folder @root: "/" is this one. */
enum taut_status fs_dir_open(struct topo_fs **out, const char *root);

/* In memory. Lines and columns of errors are those of @text, called @name. */
enum taut_status fs_pack_read(struct topo_fs **out, const char *name, const char *text, size_t len);
enum taut_status fs_pack_create(struct topo_fs **out);
/* @kind FS_LINK: @text is where it leads; FS_DIR: nothing. Twice the same path: the first stays. */
enum taut_status fs_pack_add(struct topo_fs *pack, enum fs_kind kind, const char *path, const char *text);
/* The text that fs_pack_read() takes; the caller's, by mem_free(). */
enum taut_status fs_pack_write(char **out, struct topo_fs *pack);

/* @inner as it is, while all that is looked at is added to @pack, less what tells this machine from others of its kind.
 * Neither is closed with it. A failed addition sets no_memory. */
enum taut_status fs_record_open(struct topo_fs **out, struct topo_fs *inner, struct topo_fs *pack);

/* --- for the kinds --- */
bool fs_names_add(struct fs_names *names, const char *name); /* false: no memory */

#endif
