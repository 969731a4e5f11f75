/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective, type, operation and odd sizes on 1 to 9 ranks over shared memory and tcp, in and out of
 * place, against results computed here. Values are small integers, so every type is exact. */
#include <stdint.h>

#include "ranks.h"

static const enum taut_type all_types[] = { TAUT_INT8,	      TAUT_UINT8,      TAUT_INT16,   TAUT_UINT16,
					    TAUT_INT32,	      TAUT_UINT32,     TAUT_INT64,   TAUT_UINT64,
					    TAUT_FLOAT16,     TAUT_FLOAT32,    TAUT_FLOAT64, TAUT_BFLOAT16,
					    TAUT_FLOAT8_E4M3, TAUT_FLOAT8_E5M2 };

/* Small non-negative integers as the bits of any type. */
static uint64_t bits_of(enum taut_type t, int v)
{
	static const uint16_t half[] = { 0,	 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800,
					 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80, 0x4c00 };
	static const uint8_t e4m3[] = { 0,    0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50,
					0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58 };
	static const uint8_t e5m2[] = { 0, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46, 0x47, 0x48 };
	float f = (float)v;
	double d = v;
	uint64_t bits = 0;

	switch (t) {
	case TAUT_FLOAT16:
		return half[v];
	case TAUT_FLOAT32:
		memcpy(&bits, &f, 4);
		return bits;
	case TAUT_FLOAT64:
		memcpy(&bits, &d, 8);
		return bits;
	case TAUT_BFLOAT16:
		memcpy(&bits, &f, 4);
		return bits >> 16;
	case TAUT_FLOAT8_E4M3:
		return e4m3[v];
	case TAUT_FLOAT8_E5M2:
		return e5m2[v];
	default:
		return (uint64_t)v;
	}
}

static void put(unsigned char *buf, size_t i, enum taut_type t, int v)
{
	uint64_t bits = bits_of(t, v);

	memcpy(buf + i * taut_type_size(t), &bits, taut_type_size(t)); /* little-endian hosts */
}

/* Inputs are 0 or 1 (so that sums of up to 8 ranks are exact in every type). */
static int input(int rank, size_t i, unsigned salt)
{
	return (int)((i * 2654435761u + (unsigned)rank * 40503u + salt * 97u) >> 5 & 1);
}

static int combine(enum taut_op op, int a, int b)
{
	switch (op) {
	case TAUT_SUM:
	case TAUT_AVG:
		return a + b;
	case TAUT_PROD:
	case TAUT_BAND:
		return a * b;
	case TAUT_MAX:
	case TAUT_BOR:
		return a > b ? a : b;
	case TAUT_MIN:
		return a < b ? a : b;
	default:
		return a ^ b;
	}
}

static int reduced(enum taut_op op, int size, size_t i, unsigned salt)
{
	int v = input(0, i, salt);

	for (int r = 1; r < size; r++)
		v = combine(op, v, input(r, i, salt));
	return v;
}

static bool is_float(enum taut_type t)
{
	return (t >= TAUT_FLOAT16 && t <= TAUT_FLOAT8_E5M2);
}

struct buffers {
	unsigned char *in, *out, *want;
	size_t len; /* bytes of each, without the odd start */
};

static struct buffers buffers_new(size_t len, unsigned odd)
{
	struct buffers b = { .len = len };

	b.in = (unsigned char *)malloc(len + 128) + odd;
	b.out = (unsigned char *)malloc(len + 128) + odd;
	b.want = malloc(len + 128);
	must(b.in && b.out && b.want);
	memset(b.out, 0xee, len + 64);
	memset(b.want, 0xee, len + 64);
	return b;
}

static void buffers_end(struct buffers *b, unsigned odd, const char *what, const unsigned char *got)
{
	if (memcmp(got, b->want, b->len)) {
		fprintf(stderr, "%s: wrong result\n", what);
		_exit(1);
	}
	free(b->in - odd);
	free(b->out - odd);
	free(b->want);
}

struct job {
	struct taut_comm *comm;
	int rank, size, root;
	size_t count;
	enum taut_type type;
	enum taut_op op;
	bool in_place;
	unsigned salt;
};

static void fill_in(const struct job *j, unsigned char *buf, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(buf, i, j->type, input(j->rank, i, j->salt));
}

static void check_all_reduce(const struct job *j)
{
	unsigned odd = j->salt % 3 ? 0 : j->salt % 61;
	size_t elem = taut_type_size(j->type);
	struct buffers b = buffers_new(j->count * elem, odd);
	unsigned char *in = j->in_place ? b.out : b.in;

	fill_in(j, in, j->count);
	for (size_t i = 0; i < j->count; i++)
		put(b.want, i, j->type, reduced(j->op, j->size, i, j->salt));
	must(taut_all_reduce(in, b.out, j->count, j->type, j->op, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, odd, "all_reduce", b.out);
}

static void check_reduce(const struct job *j)
{
	size_t elem = taut_type_size(j->type);
	struct buffers b = buffers_new(j->count * elem, 0);
	bool root = j->rank == j->root;
	unsigned char *in = j->in_place && root ? b.out : b.in;

	fill_in(j, in, j->count);
	for (size_t i = 0; i < j->count && root; i++)
		put(b.want, i, j->type, reduced(j->op, j->size, i, j->salt));
	must(taut_reduce(in, root ? b.out : NULL, j->count, j->type, j->op, j->root, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "reduce", b.out);
}

static void check_broadcast(const struct job *j)
{
	size_t elem = taut_type_size(j->type);
	struct buffers b = buffers_new(j->count * elem, 0);
	bool root = j->rank == j->root;
	unsigned char *in = j->in_place && root ? b.out : b.in;

	if (root)
		fill_in(j, in, j->count);
	for (size_t i = 0; i < j->count; i++)
		put(b.want, i, j->type, input(j->root, i, j->salt));
	must(taut_broadcast(root ? in : NULL, b.out, j->count, j->type, j->root, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "broadcast", b.out);
}

static void want_gathered(const struct job *j, unsigned char *want)
{
	size_t elem = taut_type_size(j->type);

	for (int r = 0; r < j->size; r++)
		for (size_t i = 0; i < j->count; i++)
			put(want + (size_t)r * j->count * elem, i, j->type, input(r, i, j->salt));
}

static void check_gathers(const struct job *j, bool all)
{
	size_t elem = taut_type_size(j->type);
	struct buffers b = buffers_new((size_t)j->size * j->count * elem, 0);
	bool mine = all || j->rank == j->root;
	unsigned char *in = j->in_place && mine ? b.out + (size_t)j->rank * j->count * elem : b.in;

	fill_in(j, in, j->count);
	if (!mine) {
		must(taut_gather(in, NULL, j->count, j->type, j->root, j->comm, NULL) == TAUT_OK);
	} else {
		want_gathered(j, b.want);
		if (all)
			must(taut_all_gather(in, b.out, j->count, j->type, j->comm, NULL) == TAUT_OK);
		else
			must(taut_gather(in, b.out, j->count, j->type, j->root, j->comm, NULL) == TAUT_OK);
	}
	buffers_end(&b, 0, all ? "all_gather" : "gather", b.out);
}

static void check_scatter(const struct job *j)
{
	size_t elem = taut_type_size(j->type), own = (size_t)j->rank * j->count * elem;
	struct buffers b = buffers_new((size_t)j->size * j->count * elem, 0);
	bool root = j->rank == j->root;
	unsigned char *out = j->in_place && root ? b.in + own : b.out;

	for (size_t i = 0; i < (size_t)j->size * j->count; i++)
		put(b.in, i, j->type, input(j->root, i, j->salt));
	for (size_t i = 0; i < j->count; i++)
		put(b.want, i, j->type, input(j->root, (size_t)j->rank * j->count + i, j->salt));
	must(taut_scatter(root ? b.in : NULL, out, j->count, j->type, j->root, j->comm, NULL) == TAUT_OK);
	b.len = j->count * elem;
	buffers_end(&b, 0, "scatter", out);
}

static void check_reduce_scatter(const struct job *j)
{
	size_t elem = taut_type_size(j->type), own = (size_t)j->rank * j->count * elem;
	struct buffers b = buffers_new((size_t)j->size * j->count * elem, 0);
	unsigned char *out = j->in_place ? b.in + own : b.out;

	fill_in(j, b.in, (size_t)j->size * j->count);
	for (size_t i = 0; i < j->count; i++)
		put(b.want, i, j->type, reduced(j->op, j->size, (size_t)j->rank * j->count + i, j->salt));
	must(taut_reduce_scatter(b.in, out, j->count, j->type, j->op, j->comm, NULL) == TAUT_OK);
	b.len = j->count * elem;
	buffers_end(&b, 0, "reduce_scatter", out);
}

static void check_all_to_all(const struct job *j)
{
	size_t elem = taut_type_size(j->type);
	struct buffers b = buffers_new((size_t)j->size * j->count * elem, 0);

	fill_in(j, b.in, (size_t)j->size * j->count);
	for (int r = 0; r < j->size; r++)
		for (size_t i = 0; i < j->count; i++)
			put(b.want + (size_t)r * j->count * elem, i, j->type,
			    input(r, (size_t)j->rank * j->count + i, j->salt));
	if (j->in_place)
		memcpy(b.out, b.in, b.len);
	must(taut_all_to_all(j->in_place ? b.out : b.in, b.out, j->count, j->type, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "all_to_all", b.out);
}

/* --- the v-forms: rank r's block has (r * 7 + salt) % 5 * count elements --- */
static size_t vcount(const struct job *j, int a, int b)
{
	return ((size_t)a * 7 + (size_t)b * 3 + j->salt) % 5 * j->count;
}

static void check_all_gather_v(const struct job *j)
{
	size_t counts[16], displs[16], at = 0, elem = taut_type_size(j->type);
	struct buffers b;

	for (int r = j->size - 1; r >= 0; r--) { /* blocks in falling order, with gaps */
		counts[r] = vcount(j, r, 0);
		displs[r] = at;
		at += counts[r] + 1;
	}
	b = buffers_new(at * elem, 0);
	b.len = at * elem;
	fill_in(j, b.in, counts[j->rank]);
	for (int r = 0; r < j->size; r++)
		for (size_t i = 0; i < counts[r]; i++)
			put(b.want + displs[r] * elem, i, j->type, input(r, i, j->salt));
	must(taut_all_gather_v(b.in, b.out, counts, displs, j->type, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "all_gather_v", b.out);
}

static void check_reduce_scatter_v(const struct job *j)
{
	size_t counts[16], at = 0, own = 0, elem = taut_type_size(j->type);
	struct buffers b;

	for (int r = 0; r < j->size; r++) {
		counts[r] = vcount(j, r, 1);
		own = r == j->rank ? at : own;
		at += counts[r];
	}
	b = buffers_new(at * elem, 0);
	fill_in(j, b.in, at);
	for (size_t i = 0; i < counts[j->rank]; i++)
		put(b.want, i, j->type, reduced(j->op, j->size, own + i, j->salt));
	must(taut_reduce_scatter_v(b.in, b.out, counts, j->type, j->op, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "reduce_scatter_v", b.out);
}

static void check_all_to_all_v(const struct job *j)
{
	size_t inc[16], outc[16], outd[16], in_at = 0, out_at = 0, elem = taut_type_size(j->type);
	struct buffers b;

	for (int r = 0; r < j->size; r++) {
		inc[r] = vcount(j, j->rank, r);
		outc[r] = vcount(j, r, j->rank);
		outd[r] = out_at + 2;
		in_at += inc[r];
		out_at += outc[r] + 2;
	}
	b = buffers_new((in_at > out_at ? in_at : out_at) * elem, 0);
	for (int r = 0, at = 0; r < j->size; at += (int)inc[r++])
		for (size_t i = 0; i < inc[r]; i++)
			put(b.in + (size_t)at * elem, i, j->type, input(j->rank * 16 + r, i, j->salt));
	for (int r = 0; r < j->size; r++)
		for (size_t i = 0; i < outc[r]; i++)
			put(b.want + outd[r] * elem, i, j->type, input(r * 16 + j->rank, i, j->salt));
	must(taut_all_to_all_v(b.in, inc, NULL, b.out, outc, outd, j->type, j->comm, NULL) == TAUT_OK);
	buffers_end(&b, 0, "all_to_all_v", b.out);
}

static void check_gather_scatter_v(const struct job *j)
{
	size_t counts[16], displs[16], at = 0, elem = taut_type_size(j->type);
	bool root = j->rank == j->root;
	unsigned char *back;
	struct buffers b;

	for (int r = 0; r < j->size; r++) {
		counts[r] = vcount(j, r, 2);
		displs[r] = at + 1;
		at += counts[r] + 1;
	}
	b = buffers_new(at * elem, 0);
	back = calloc(at + 1, elem);
	fill_in(j, b.in, counts[j->rank]);
	for (int r = 0; r < j->size && root; r++)
		for (size_t i = 0; i < counts[r]; i++)
			put(b.want + displs[r] * elem, i, j->type, input(r, i, j->salt));
	must(taut_gather_v(b.in, counts[j->rank], root ? b.out : NULL, root ? counts : NULL, root ? displs : NULL,
			   j->type, j->root, j->comm, NULL) == TAUT_OK);
	must(taut_scatter_v(root ? b.out : NULL, root ? counts : NULL, root ? displs : NULL, back, counts[j->rank],
			    j->type, j->root, j->comm, NULL) == TAUT_OK);
	must(!memcmp(back, b.in, counts[j->rank] * elem));
	free(back);
	buffers_end(&b, 0, "gather_v", b.out);
}

static void check_one(const struct job *j)
{
	check_all_reduce(j);
	check_reduce(j);
	check_broadcast(j);
	check_gathers(j, true);
	check_gathers(j, false);
	check_scatter(j);
	check_reduce_scatter(j);
	check_all_to_all(j);
	must(taut_barrier(j->comm, NULL) == TAUT_OK);
	check_all_gather_v(j);
	check_reduce_scatter_v(j);
	check_all_to_all_v(j);
	check_gather_scatter_v(j);
}

/* A sum of up to 9 ones; fp8 e5m2 has no 9. An average is not exact: tested elsewhere. */
static bool exact(enum taut_type t, enum taut_op op, int size)
{
	return op != TAUT_SUM || t != TAUT_FLOAT8_E5M2 || size <= 8;
}

static void all(struct taut_comm *comm, int rank, int size, void *arg)
{
	static const size_t counts[] = { 0, 1, 3, 17, 250, 1021, 5000, 70001 };
	struct job j = { .comm = comm, .rank = rank, .size = size };

	(void)arg;
	for (size_t t = 0; t < sizeof(all_types) / sizeof(all_types[0]); t++) {
		for (int op = 0; op < TAUT_OP_COUNT; op++) {
			j.type = all_types[t];
			j.op = (enum taut_op)op;
			if (op == TAUT_AVG || (op >= TAUT_BAND && is_float(j.type)) || !exact(j.type, j.op, size))
				continue;
			for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
				j.salt++;
				/* The large ones with a part of the types: the time is bounded. */
				if ((counts[c] > 2000 && j.salt % 7) || (counts[c] > 10000 && j.salt % 21))
					continue;
				j.count = counts[c];
				j.root = (int)(j.salt % (unsigned)size);
				j.in_place = j.salt & 1;
				check_one(&j);
			}
		}
	}
}

int main(int argc, char **argv)
{
	int from = argc > 2 ? atoi(argv[2]) : 1, to = argc > 3 ? atoi(argv[3]) : 9, bad = 0;

	if (argc > 1)
		setenv("TAUT_WIRE", argv[1], 1);
	for (int n = from; n <= to; n++)
		bad += run_ranks(n, all, NULL);
	printf("collectives over %s, %d to %d ranks: %s\n", argc > 1 ? argv[1] : "auto", from, to,
	       bad ? "FAILED" : "ok");
	return bad != 0;
}
