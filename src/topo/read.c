/* SPDX-License-Identifier: Apache-2.0 */
/* A description of a machine from wherever the user has it, in whichever form. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "topo/topo.h"

enum { FILE_MAX = 64 << 20 };

const char *const topo_form_names[TOPO_FORMS + 1] = { "auto", "nccl", "hwloc", "nvidia-smi", "text", "capture", NULL };

/* --- which form --- */

struct span {
	const char *s, *end;
};

static bool starts(struct span t, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(t.end - t.s) >= n && !memcmp(t.s, word, n);
}

static struct span skip_space(struct span t)
{
	if (starts(t, "\xef\xbb\xbf")) /* byte order mark */
		t.s += 3;
	while (t.s < t.end && isspace((unsigned char)*t.s))
		t.s++;
	return t;
}

/* Behind the next @word, or at the end. */
static struct span skip_past(struct span t, const char *word)
{
	const char *at = memmem(t.s, (size_t)(t.end - t.s), word, strlen(word));

	t.s = at ? at + strlen(word) : t.end;
	return t;
}

/* The first tag, behind declaration, document type and comments. */
static struct span find_tag(struct span t)
{
	for (;;) {
		t = skip_space(t);
		if (starts(t, "<!--"))
			t = skip_past(t, "-->");
		else if (starts(t, "<?") || starts(t, "<!"))
			t = skip_past(t, ">");
		else
			return t;
	}
}

static bool is_tag(struct span t, const char *name)
{
	size_t n = strlen(name);

	if (!starts(t, "<") || t.end - t.s < (ptrdiff_t)n + 2 || memcmp(t.s + 1, name, n))
		return false;
	return !isalnum((unsigned char)t.s[n + 1]);
}

/* "numa:2 gpu:8": a word of letters, a colon, and a value right behind it; lines that start with # may come first. */
static bool is_synthetic(struct span t)
{
	const char *word;

	for (t = skip_space(t); starts(t, "#"); t = skip_space(t))
		t = skip_past(t, "\n");
	word = t.s;
	while (t.s < t.end && islower((unsigned char)*t.s))
		t.s++;
	return t.s > word && starts(t, ":") && t.s + 1 < t.end && isalnum((unsigned char)t.s[1]);
}

static enum topo_form form_of(struct span t)
{
	struct span tag = find_tag(t);

	t = skip_space(t);
	if (is_tag(tag, "topology") || is_tag(tag, "root")) /* of hwloc 1 and later, of hwloc before 1 */
		return TOPO_FORM_HWLOC_XML;
	if (starts(tag, "<"))
		return TOPO_FORM_NCCL_XML;
	if (starts(t, "taut capture"))
		return TOPO_FORM_CAPTURE;
	if (is_synthetic(t))
		return TOPO_FORM_SYNTHETIC;
	return memmem(t.s, (size_t)(t.end - t.s), "GPU", 3) ? TOPO_FORM_NVIDIA_SMI : TOPO_FORM_AUTO;
}

enum taut_status topo_read(struct topo **out, const char *name, const char *text, size_t len, enum topo_form form)
{
	if (form == TOPO_FORM_AUTO)
		form = form_of((struct span){ text, text + len });
	switch (form) {
	case TOPO_FORM_NCCL_XML:
		return topo_from_nccl_xml(out, name, text, len);
	case TOPO_FORM_HWLOC_XML:
		return topo_from_hwloc_xml(out, name, text, len);
	case TOPO_FORM_NVIDIA_SMI:
		return topo_from_smi(out, name, text, len);
	case TOPO_FORM_SYNTHETIC:
		return topo_from_text(out, name, text, len);
	case TOPO_FORM_CAPTURE:
		return topo_from_capture(out, name, text, len);
	default:
		return fail(
			TAUT_ERR_ARG,
			"%s:1:1: no description of a machine is recognised here: NCCL's or hwloc's XML, the text of "
			"nvidia-smi topo -m or rocm-smi --showtopo, a capture, or text like \"numa:2 gpu:8 nvlink:18\" "
			"was expected",
			name);
	}
}

/* --- files --- */

/* The whole of @f; the caller's. */
static enum taut_status read_all(char **out, size_t *len, FILE *f, const char *path)
{
	size_t room = 0, used = 0;
	char *text = NULL, *more;

	do {
		if (used == room) {
			room = room ? 2 * room : 65536;
			more = mem_realloc(text, room, 1);
			if (!more) {
				mem_free(text);
				return fail(TAUT_ERR_NOMEM, "%s: no memory to read it", path);
			}
			text = more;
		}
		used += fread(text + used, 1, room - used, f);
	} while (!feof(f) && !ferror(f) && used <= FILE_MAX);
	if (ferror(f) || used > FILE_MAX) {
		int err = errno;

		mem_free(text);
		return used > FILE_MAX ? fail(TAUT_ERR_ARG,
					      "%s: more than %d bytes, too much for a description of a "
					      "machine",
					      path, FILE_MAX)
				       : errno_fail(err, "%s: cannot be read", path);
	}
	*out = text;
	*len = used;
	return TAUT_OK;
}

static enum taut_status read_stream(struct topo **out, FILE *f, const char *name, enum topo_form form)
{
	size_t len = 0;
	char *text = NULL;
	enum taut_status st = read_all(&text, &len, f, name);

	if (st)
		return st;
	st = topo_read(out, name, text, len, form);
	mem_free(text);
	return st;
}

enum taut_status topo_read_file(struct topo **out, const char *path, enum topo_form form)
{
	struct span text = { path, path + strlen(path) };
	enum taut_status st;
	struct stat s;
	FILE *f;

	if (!strcmp(path, "-"))
		return read_stream(out, stdin, "standard input", form);
	if (!stat(path, &s) && S_ISDIR(s.st_mode))
		return topo_from_root(out, path);
	f = fopen(path, "re");
	if (!f && (form == TOPO_FORM_SYNTHETIC || (form == TOPO_FORM_AUTO && is_synthetic(text))))
		return topo_from_text(out, path, path, strlen(path));
	if (!f)
		return errno_fail(errno, "description of a machine %s: cannot be opened", path);
	st = read_stream(out, f, path, form);
	fclose(f);
	return st;
}
