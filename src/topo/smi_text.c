/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of `nvidia-smi topo -m` as people keep it: with colours, wrapped by a terminal, cut, between
 * other lines. A line is first freed of escapes; the pieces of a wrapped one are joined; then it is words. Every byte
 * remembers where it stood, for messages. */
#include "topo/smi_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/rocm_text.h"
#include "topo/text.h"

enum { SMI_TEXT_MAX = 4 << 20, WORD_MAX = 511 };
/* What was wrapped may have been blank; after more such lines than that the matrix has ended. */
enum { BLANKS_MAX = 16 };

/* Text without escapes; at[i] is where s[i] stood in the file. */
struct flow {
	char *s;
	uint32_t *at;
	size_t n;
};
struct line {
	size_t from, to, end; /* in the flow; from @to to @end are blanks */
	int width;	      /* columns */
};
struct word {
	const char *s;
	size_t n, at;
};
struct reader {
	struct text text;
	struct flow all, row; /* the whole text; the line that is being read, joined */
	size_t next;	      /* in all: the line after the present one */
	int width;	      /* columns of the longest line of the matrix: where a terminal wraps */
	bool header_done;
	bool cpu_column, gpu_numa_column;
	struct smi_matrix *m;
};

/* --- letters to lines --- */

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Bytes of the escape sequence at @s: colours (ESC [ ... m), titles (ESC ] ... BEL), two bytes else. */
static size_t escape_len(const char *s, size_t n)
{
	size_t i = 2;

	if (n < 2)
		return n;
	if (s[1] == '[') {
		while (i < n && !(s[i] >= '@' && s[i] <= '~') && s[i] != '\n')
			i++;
	} else if (s[1] == ']') {
		while (i < n && s[i] != '\a' && s[i] != '\n')
			i++;
	} else {
		return s[1] == '(' && n > 2 ? 3 : 2;
	}
	return i < n && s[i] != '\n' ? i + 1 : i;
}

static void flow_put(struct flow *f, char c, size_t at)
{
	f->s[f->n] = c;
	f->at[f->n++] = (uint32_t)at;
}

static void clean(struct flow *f, const struct text *t)
{
	for (size_t i = text_start(t); i < t->len;) {
		char c = t->s[i];

		if (c == '\033') {
			i += escape_len(t->s + i, t->len - i);
			continue;
		}
		if (c != '\r' && c != '\0')
			flow_put(f, c, i);
		i++;
	}
}

static int columns_of(const char *s, size_t n)
{
	int width = 0;

	for (size_t i = 0; i < n; i++)
		width = s[i] == '\t' ? (width / 8 + 1) * 8 : width + 1;
	return width;
}

/* False at the end of the text. */
static bool next_line(struct line *out, const struct flow *f, size_t *next)
{
	if (*next >= f->n)
		return false;
	out->from = out->to = *next;
	while (out->to < f->n && f->s[out->to] != '\n')
		out->to++;
	out->end = out->to;
	*next = out->to + 1;
	out->width = columns_of(f->s + out->from, out->to - out->from);
	while (out->to > out->from && blank(f->s[out->to - 1]))
		out->to--;
	return true;
}

/* The word at or after @*pos and before @to; false when there is none. */
static bool next_word(struct word *out, const struct flow *f, size_t *pos, size_t to)
{
	size_t i = *pos;

	while (i < to && blank(f->s[i]))
		i++;
	if (i >= to)
		return false;
	out->s = f->s + i;
	out->at = f->at[i];
	out->n = 0;
	while (i + out->n < to && !blank(f->s[i + out->n]))
		out->n++;
	*pos = i + out->n;
	return true;
}

static bool is_last(const struct flow *row, size_t pos)
{
	struct word w;

	return !next_word(&w, row, &pos, row->n);
}

/* --- what words are --- */

static bool word_is(struct word w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.s, text, w.n);
}

/* The number after @prefix when the word is that; -1. */
static int numbered(struct word w, const char *prefix)
{
	size_t p = strlen(prefix);
	int v = 0;

	if (w.n <= p || w.n > p + 6 || memcmp(w.s, prefix, p))
		return -1;
	for (size_t i = p; i < w.n; i++) {
		if (!isdigit((unsigned char)w.s[i]))
			return -1;
		v = v * 10 + w.s[i] - '0';
	}
	return v;
}

/* SOC is what older drivers said for SYS. */
static const struct {
	const char *word;
	enum smi_class class;
} cell_words[] = { { "X", SMI_X },	 { "PIX", SMI_PIX }, { "PXB", SMI_PXB }, { "PHB", SMI_PHB },
		   { "NODE", SMI_NODE }, { "SYS", SMI_SYS }, { "SOC", SMI_SYS } };
enum { CELL_WORDS = sizeof(cell_words) / sizeof(cell_words[0]) };

static bool parse_cell(struct smi_cell *out, struct word w)
{
	int nv = numbered(w, "NV");

	*out = (struct smi_cell){ SMI_NV, nv };
	if (nv > 0)
		return nv < 1000;
	for (int i = 0; i < CELL_WORDS; i++)
		if (word_is(w, cell_words[i].word)) {
			*out = (struct smi_cell){ (int)cell_words[i].class, 0 };
			return true;
		}
	return false;
}

/* The beginning of a cell: where a line was cut or wrapped. */
static bool part_of_cell(struct word w)
{
	for (int i = 0; i < CELL_WORDS; i++)
		if (w.n < strlen(cell_words[i].word) && !memcmp(w.s, cell_words[i].word, w.n))
			return true;
	return word_is(w, "NV");
}

static bool cell_of_p2p(struct word w)
{
	static const char *const words[] = { "OK", "NS", "CNS", "GNS", "TNS", "DR", "U" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (word_is(w, words[i]))
			return true;
	return false;
}

static bool cell_of_rocm(struct word w)
{
	return word_is(w, "XGMI") || word_is(w, "PCIE");
}

/* "0-63,128-191", "0", "N/A" */
static bool is_affinity(struct word w)
{
	if (word_is(w, "N/A"))
		return true;
	for (size_t i = 0; i < w.n; i++)
		if (!isdigit((unsigned char)w.s[i]) && w.s[i] != '-' && w.s[i] != ',')
			return false;
	return w.n > 0;
}

/* "GPU0", "NIC3", and NICs by name in the headers of older drivers: "mlx5_0", "hfi1_0". */
static bool is_label(struct word w)
{
	if (numbered(w, "GPU") >= 0 || numbered(w, "NIC") >= 0)
		return true;
	if (w.n < 3 || w.n > sizeof(((struct smi_dev *)0)->label) - 1 || !islower((unsigned char)w.s[0]) ||
	    !isdigit((unsigned char)w.s[w.n - 1]))
		return false;
	for (size_t i = 0; i < w.n; i++)
		if (!islower((unsigned char)w.s[i]) && !isdigit((unsigned char)w.s[i]) && w.s[i] != '_')
			return false;
	return true;
}

static bool is_column_word(struct word w)
{
	return word_is(w, "CPU") || word_is(w, "NUMA") || word_is(w, "GPU") || word_is(w, "ID") ||
	       word_is(w, "Affinity");
}

static bool is_known(struct word w)
{
	struct smi_cell cell;

	return parse_cell(&cell, w) || is_affinity(w) || is_label(w) || is_column_word(w);
}

/* --- wrapped lines --- */

/* Whether the word that ends at the end of the row goes on with the first of the line: "NV1" and "8", but not "SYS"
 * and "SYS", nor "mlx5_0" and "mlx5_1". Where both are words by themselves, the line must have been full. */
static bool goes_on(const struct flow *row, struct word right, bool full)
{
	char joined[2 * WORD_MAX];
	struct word left = { row->s + row->n, 0, 0 }, both = { joined, 0, 0 };

	while (left.n < row->n && !blank(left.s[-1])) {
		left.s--;
		left.n++;
	}
	if (left.n == 0 || left.n + right.n >= sizeof(joined))
		return false;
	if (isdigit((unsigned char)left.s[left.n - 1]) && isalpha((unsigned char)right.s[0]))
		return false;
	memcpy(joined, left.s, left.n);
	memcpy(joined + left.n, right.s, right.n);
	both.n = left.n + right.n;
	return is_known(both) && (full || !is_known(left) || !is_known(right));
}

/* @full: the piece before reached the width at which the terminal wraps. */
static void append_line(struct reader *r, struct line l, bool full)
{
	const struct flow *f = &r->all;
	struct word first;
	size_t pos = l.from;

	if (r->row.n && next_word(&first, f, &pos, l.to) && (blank(f->s[l.from]) || !goes_on(&r->row, first, full)))
		flow_put(&r->row, ' ', f->at[l.from]);
	for (size_t i = l.from; i < l.end; i++)
		flow_put(&r->row, f->s[i], f->at[i]);
}

/* A line that begins a row: a label, then a cell (or what stands for one in a matrix of another kind). */
static bool starts_row(const struct flow *f, struct line l)
{
	struct word label, w;
	struct smi_cell cell;
	size_t pos = l.from;

	if (!next_word(&label, f, &pos, l.to) || !is_label(label) || !next_word(&w, f, &pos, l.to))
		return false;
	return parse_cell(&cell, w) || part_of_cell(w) || cell_of_p2p(w) || cell_of_rocm(w) || numbered(w, "") >= 0;
}

/* A header: labels, then perhaps the names of columns. */
static bool starts_header(const struct flow *f, struct line l)
{
	struct word w;
	size_t pos = l.from;

	if (!next_word(&w, f, &pos, l.to) || numbered(w, "GPU") < 0)
		return false;
	while (next_word(&w, f, &pos, l.to) && is_label(w))
		;
	return pos == l.to || is_column_word(w) || w.s + w.n == f->s + l.to; /* the last word may be in two */
}

/* The rest of a wrapped row: cells and lists, or parts of them; nothing in lower case. */
static bool continues_row(const struct flow *f, struct line l)
{
	struct word w;
	size_t pos = l.from;

	for (size_t i = l.from; i < l.to; i++)
		if (!isupper((unsigned char)f->s[i]) && !isdigit((unsigned char)f->s[i]) && !strchr(" \t,-/", f->s[i]))
			return false;
	return next_word(&w, f, &pos, l.to) && !is_label(w);
}

static bool continues_header(const struct flow *f, struct line l)
{
	struct word w, last = { NULL, 0, 0 };
	size_t pos = l.from;
	int words = 0;

	while (next_word(&w, f, &pos, l.to)) {
		if (words > 0 && !is_label(w) && !is_column_word(w) && w.s + w.n != f->s + l.to)
			return false;
		last = w;
		words++;
	}
	return words > 0 && last.s[last.n - 1] != ':' && !starts_row(f, l);
}

static int widest(const struct flow *f, size_t next)
{
	struct line l;
	int width = 0;

	while (next_line(&l, f, &next))
		if (starts_row(f, l) || starts_header(f, l))
			width = l.width > width ? l.width : width;
	return width;
}

/* Gathers the pieces of a line into r->row. */
static void gather(struct reader *r, struct line l, bool (*continues)(const struct flow *, struct line))
{
	struct line piece;
	size_t next = r->next;
	int width = l.width;

	r->row.n = 0;
	append_line(r, l, false);
	for (int blanks = 0; blanks < BLANKS_MAX && next_line(&piece, &r->all, &next);) {
		if (piece.from == piece.to) {
			blanks++;
			continue;
		}
		if (!continues(&r->all, piece))
			break;
		append_line(r, piece, width >= r->width);
		width = piece.width;
		r->next = next;
	}
}

/* --- the header --- */

static int find_label(const struct smi_matrix *m, struct word w)
{
	for (int i = 0; i < m->n; i++)
		if (word_is(w, m->dev[i].label))
			return i;
	return -1;
}

/* One more device, blank; NULL when memory is out. */
static struct smi_dev *grow(struct smi_matrix *m)
{
	if (m->n % 16 == 0) {
		struct smi_dev *dev = mem_realloc(m->dev, (size_t)m->n + 16, sizeof(*dev));

		if (!dev)
			return NULL;
		m->dev = dev;
		memset(dev + m->n, 0, 16 * sizeof(*dev));
	}
	return &m->dev[m->n++];
}

static enum taut_status add_device(struct reader *r, struct word w)
{
	struct smi_matrix *m = r->m;
	struct smi_dev *d;
	char shown[40];
	int gpus = 0;

	if (find_label(m, w) >= 0)
		return text_fail(&r->text, w.at, "%s stands twice in the header",
				 text_shown(shown, sizeof(shown), w.s, w.n));
	for (int i = 0; i < m->n; i++)
		gpus += m->dev[i].gpu;
	if (m->n == SMI_MAX_DEVS || gpus == SMI_MAX_GPUS)
		return text_fail(&r->text, w.at, "more than %d GPUs or %d devices", SMI_MAX_GPUS, SMI_MAX_DEVS);
	d = grow(m);
	if (!d)
		return fail(TAUT_ERR_NOMEM, "%s: no memory for %d devices", r->text.name, m->n + 1);
	d->gpu = numbered(w, "GPU") >= 0;
	d->number = d->gpu ? numbered(w, "GPU") : numbered(w, "NIC");
	snprintf(d->label, sizeof(d->label), "%.*s", (int)w.n, w.s);
	snprintf(d->name, sizeof(d->name), "%s", d->label);
	d->listed = !d->gpu && d->number < 0;
	return TAUT_OK;
}

static enum taut_status parse_header(struct reader *r)
{
	struct word w, last = { "", 0, 0 };
	size_t pos = 0;
	enum taut_status st = TAUT_OK;

	while (!st && next_word(&w, &r->row, &pos, r->row.n)) {
		char shown[40];

		if (is_label(w))
			st = add_device(r, w);
		else if (word_is(w, "Affinity") && word_is(last, "CPU"))
			r->cpu_column = true;
		else if (word_is(w, "Affinity") && word_is(last, "NUMA"))
			r->m->numa_column = true;
		else if (word_is(w, "ID") && word_is(last, "NUMA"))
			r->gpu_numa_column = true;
		else if (!is_column_word(w) && !is_last(&r->row, pos)) /* the last one may be cut */
			st = text_fail(&r->text, w.at,
				       "\"%s\" in the header: GPUn, NICn, the name of a NIC or a column is wanted",
				       text_shown(shown, sizeof(shown), w.s, w.n));
		last = w;
	}
	return st;
}

/* --- rows --- */

static enum taut_status bad_cell(const struct reader *r, struct word w, const struct smi_dev *row, int column)
{
	char shown[40];

	text_shown(shown, sizeof(shown), w.s, w.n);
	if (cell_of_p2p(w))
		return text_fail(
			&r->text, w.at,
			"\"%s\" is a cell of `nvidia-smi topo -p2p`: the output of `nvidia-smi topo -m` is wanted",
			shown);
	if (cell_of_rocm(w))
		return text_fail(&r->text, w.at, "\"%s\" belongs to `rocm-smi --showtopo`, not to `nvidia-smi topo -m`",
				 shown);
	return text_fail(&r->text, w.at, "\"%s\" between %s and %s: X, NV#, PIX, PXB, PHB, NODE or SYS is wanted",
			 shown, row->label, r->m->dev[column].label);
}

static void copy_word(char *out, size_t len, struct word w)
{
	snprintf(out, len, "%.*s", (int)(w.n < len ? w.n : 0), w.s); /* a list that does not fit is left out */
}

/* What follows the cells: the columns of the header, in their order. */
static enum taut_status parse_affinity(struct reader *r, struct smi_dev *d, struct word w, int column)
{
	bool known[3] = { r->cpu_column, r->m->numa_column, r->gpu_numa_column };
	int which = -1;
	char shown[40];

	for (int i = 0, seen = 0; i < 3 && which < 0; i++) {
		if (known[i] && seen == column)
			which = i;
		seen += known[i];
	}
	if (which < 0)
		return text_fail(&r->text, w.at, "\"%s\" after the last column of the header",
				 text_shown(shown, sizeof(shown), w.s, w.n));
	if (!is_affinity(w))
		return text_fail(&r->text, w.at, "\"%s\": a list of numbers or N/A is wanted",
				 text_shown(shown, sizeof(shown), w.s, w.n));
	if (which == 0 && !word_is(w, "N/A"))
		copy_word(d->cpus, sizeof(d->cpus), w);
	if (which == 1 && !word_is(w, "N/A"))
		copy_word(d->numa, sizeof(d->numa), w);
	return TAUT_OK;
}

static enum taut_status put_cell(struct reader *r, int row, int column, struct word w, struct smi_cell c)
{
	const struct smi_matrix *m = r->m;

	if ((c.class == SMI_X) != (row == column))
		return text_fail(&r->text, w.at,
				 c.class == SMI_X ? "X between %s and %s"
						  : "no X between %s and %s: is a column missing?",
				 m->dev[row].label, m->dev[column].label);
	if (c.class == SMI_NV && (!m->dev[row].gpu || !m->dev[column].gpu))
		return text_fail(&r->text, w.at, "NV%d between %s and %s: only GPUs have NVLinks", c.nv,
				 m->dev[row].label, m->dev[column].label);
	m->cell[row * m->n + column] = c;
	return TAUT_OK;
}

static enum taut_status parse_row(struct reader *r)
{
	struct smi_matrix *m = r->m;
	struct word w;
	size_t pos = 0;
	int row, column = 0, extra = 0;
	enum taut_status st = TAUT_OK;
	char shown[40];

	next_word(&w, &r->row, &pos, r->row.n);
	row = find_label(m, w);
	if (row < 0 || m->dev[row].row)
		return text_fail(&r->text, w.at, row < 0 ? "row %s has no column in the header" : "a second row %s",
				 text_shown(shown, sizeof(shown), w.s, w.n));
	m->dev[row].row = true;
	while (!st && next_word(&w, &r->row, &pos, r->row.n)) {
		struct smi_cell c;

		if (column == m->n)
			st = parse_affinity(r, &m->dev[row], w, extra++);
		else if (parse_cell(&c, w))
			st = put_cell(r, row, column++, w, c);
		else if (part_of_cell(w) && is_last(&r->row, pos))
			break; /* cut in the middle of a cell */
		else
			st = bad_cell(r, w, &m->dev[row], column);
	}
	return st;
}

/* --- the whole --- */

static void parse_legend(struct smi_matrix *m, const struct flow *f, struct line l)
{
	struct word nic, name;
	size_t pos = l.from;
	int i;

	if (!next_word(&nic, f, &pos, l.to) || nic.s[nic.n - 1] != ':' || !next_word(&name, f, &pos, l.to))
		return;
	nic.n--;
	i = numbered(nic, "NIC") < 0 ? -1 : find_label(m, nic);
	if (i < 0 || m->dev[i].listed)
		return;
	text_shown(m->dev[i].name, sizeof(m->dev[i].name), name.s, name.n);
	m->dev[i].listed = true;
}

/* Cells are cleared once the number of columns is known. */
static enum taut_status make_cells(struct smi_matrix *m)
{
	m->cell = mem_calloc((size_t)m->n * (size_t)m->n, sizeof(*m->cell));
	if (!m->cell)
		return fail(TAUT_ERR_NOMEM, "no memory for a matrix of %d devices", m->n);
	for (int i = 0; i < m->n * m->n; i++)
		m->cell[i] = (struct smi_cell){ -1, 0 };
	for (int i = 0; i < m->n; i++)
		m->cell[i * m->n + i] = (struct smi_cell){ SMI_X, 0 };
	return TAUT_OK;
}

static enum taut_status find_header(struct reader *r)
{
	struct line l;
	char shown[40];

	while (next_line(&l, &r->all, &r->next)) {
		size_t pos = l.from;
		struct word w;

		if (starts_row(&r->all, l)) {
			next_word(&w, &r->all, &pos, l.to);
			return text_fail(&r->text, w.at,
					 "row %s before a header: the line with GPU0 GPU1 ... is missing",
					 text_shown(shown, sizeof(shown), w.s, w.n));
		}
		if (!starts_header(&r->all, l))
			continue;
		r->width = widest(&r->all, l.from);
		gather(r, l, continues_header);
		return parse_header(r);
	}
	return text_fail(&r->text, 0, "no line with GPU0 GPU1 ...: this is not the output of `nvidia-smi topo -m`");
}

static enum taut_status parse_lines(struct reader *r)
{
	enum taut_status st = find_header(r);
	size_t at = r->next;
	struct line l;
	int rows = 0;

	if (!st)
		st = make_cells(r->m);
	while (!st && next_line(&l, &r->all, &r->next)) {
		if (rows > 0 && starts_header(&r->all, l)) {
			r->m->second = true;
			break;
		}
		if (!starts_row(&r->all, l)) {
			parse_legend(r->m, &r->all, l);
			continue;
		}
		gather(r, l, continues_row);
		st = parse_row(r);
		rows++;
	}
	if (!st && !rows)
		st = text_fail(&r->text, at < r->all.n ? r->all.at[at] : r->text.len, "the header has no row below it");
	return st;
}

static bool same_cell(struct smi_cell a, struct smi_cell b)
{
	return a.class == b.class && a.nv == b.nv;
}

/* "NV1" where the line was cut and the other half says "NV18". */
static bool cut_from(struct smi_cell cut, struct smi_cell whole)
{
	return cut.class == SMI_NV && whole.class == SMI_NV && (whole.nv / 10 == cut.nv || whole.nv / 100 == cut.nv);
}

static void mend_pair(struct smi_matrix *m, int i, int j)
{
	struct smi_cell *a = &m->cell[i * m->n + j], *b = &m->cell[j * m->n + i];

	if (a->class < 0 && b->class < 0) {
		m->unknown++;
	} else if (a->class < 0 || b->class < 0) {
		*(a->class < 0 ? a : b) = *(a->class < 0 ? b : a);
		m->filled++;
	} else if (!same_cell(*a, *b)) {
		bool take_b = cut_from(*a, *b);

		if (!take_b && !cut_from(*b, *a) && !*m->odd)
			snprintf(m->odd, sizeof(m->odd),
				 "row %s and row %s do not agree about the two: that of %s counts", m->dev[i].label,
				 m->dev[j].label, m->dev[i].label);
		*(take_b ? a : b) = *(take_b ? b : a);
	}
}

void smi_matrix_free(struct smi_matrix *m)
{
	if (!m)
		return;
	mem_free(m->dev);
	mem_free(m->cell);
	mem_free(m);
}

static enum taut_status make_room(struct reader *r)
{
	size_t n = r->text.len + 1;

	r->all.s = mem_calloc(n, 1);
	r->all.at = mem_calloc(n, sizeof(*r->all.at));
	r->row.s = mem_calloc(2 * n, 1); /* a blank may come between pieces */
	r->row.at = mem_calloc(2 * n, sizeof(*r->row.at));
	r->m = mem_calloc(1, sizeof(*r->m));
	if (!r->all.s || !r->all.at || !r->row.s || !r->row.at || !r->m)
		return fail(TAUT_ERR_NOMEM, "%s: no memory to read %zu bytes", r->text.name, r->text.len);
	return TAUT_OK;
}

enum taut_status smi_parse(struct smi_matrix **out, const char *name, const char *text, size_t len)
{
	struct reader r = { .text = { name, text, len } };
	enum taut_status st;

	if (len > SMI_TEXT_MAX)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes: the output of `nvidia-smi topo -m` has %d at most", name, len,
			    SMI_TEXT_MAX);
	st = make_room(&r);
	if (!st) {
		clean(&r.all, &r.text);
		st = parse_lines(&r);
	}
	if (!st) {
		for (int i = 0; i < r.m->n; i++)
			for (int j = i + 1; j < r.m->n; j++)
				mend_pair(r.m, i, j);
		*out = r.m;
		r.m = NULL;
	}
	smi_matrix_free(r.m);
	mem_free(r.all.s);
	mem_free(r.all.at);
	mem_free(r.row.s);
	mem_free(r.row.at);
	return st;
}

enum taut_status topo_from_smi(struct topo **out, const char *name, const char *text, size_t len)
{
	struct smi_matrix *m = NULL;
	enum taut_status st;

	if (rocm_is_text(text, len))
		return rocm_read(out, name, text, len);
	st = smi_parse(&m, name, text, len);
	if (!st)
		st = smi_to_graph(out, name, m);
	smi_matrix_free(m);
	return st;
}
