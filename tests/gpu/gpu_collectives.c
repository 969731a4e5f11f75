/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective on GPU memory against plain loops: types, operations, sizes of every kernel, odd
 * alignments, in place; outputs are poisoned before, and bytes around them and inputs must stay. Rank r uses GPU r
 * modulo their number. Arguments: calls, seed, and "each" for each collective with each type and operation first,
 * "exact" for values of which no sum is rounded, "lines" for calls with roots by ll128 alone, "exchanges" for large
 * all-to-alls alone. Started by `taut run`, or alone. */
#include <stdbool.h>

#include "exec/reduce.h"
#include "gpu_util.h"

#define MOST ((size_t)6 << 20) /* bytes of a piece */
#define PAD 256		       /* before and behind the buffers */
#define POISON 0x5a

static struct gpu_functions gpu;
static bool
	exact; /* zeros and ones, of which sums in every order are the same: for schedules with an order of their own */
static unsigned seed;
static unsigned rnd(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

struct call {
	int coll;
	enum taut_type type;
	enum taut_op op;
	size_t count;
	int root;
	bool in_place, premul;
	size_t skew; /* elements */
};

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL, COLLS };
static const char *const coll_names[] = { "all_reduce", "all_gather", "reduce_scatter", "broadcast",
					  "reduce",	"gather",     "scatter",	"all_to_all" };

static bool reduces(int c)
{
	return c == ALL_REDUCE || c == REDUCE_SCATTER || c == REDUCE;
}

static size_t blocks_in(int c, int n)
{
	return c == REDUCE_SCATTER || c == SCATTER || c == ALL_TO_ALL ? (size_t)n : 1;
}

static size_t blocks_out(int c, int n)
{
	return c == ALL_GATHER || c == GATHER || c == ALL_TO_ALL ? (size_t)n : 1;
}

static bool is_int(enum taut_type t)
{
	return t <= TAUT_UINT64 || t == TAUT_INT16 || t == TAUT_UINT16;
}

static struct call draw(int n)
{
	static const size_t bytes[] = { 1, 60, 4000, 40000, 200000, 900000, 5000000 };
	struct call c = { .coll = (int)rnd(COLLS), .type = (enum taut_type)rnd(TAUT_TYPE_COUNT) };
	size_t elem = taut_type_size(c.type), most = bytes[rnd(7)];

	c.op = (enum taut_op)rnd(is_int(c.type) ? TAUT_OP_COUNT : TAUT_BAND);
	c.count = 1 + rnd((unsigned)(most / elem + 1));
	c.root = (int)rnd((unsigned)n);
	c.in_place = rnd(3) == 0;
	c.premul = reduces(c.coll) && rnd(5) == 0;
	c.skew = rnd(3) ? 0 : rnd(5);
	if (exact && c.op == TAUT_AVG && (n & (n - 1)))
		c.op = TAUT_SUM;
	return c;
}

/* From one rank or to one, where threads of some ranks wait that are otherwise among those that move lines. */
static struct call draw_lines(int i, int n)
{
	static const int colls[] = { SCATTER, BROADCAST, GATHER, REDUCE };

	return (struct call){ .coll = colls[i / n % 4],
			      .type = TAUT_BFLOAT16,
			      .op = TAUT_MAX,
			      .count = 417461 / (size_t)(n < 8 ? 1 : n / 4) - (size_t)i,
			      .root = i % n };
}

/* Larger than what goes by lines; some are aligned. */
static struct call draw_exchange(int i)
{
	return (struct call){ .coll = ALL_TO_ALL, .type = TAUT_FLOAT16, .count = ((size_t)5 << 18) - (size_t)i * 4 };
}

static void fill_exact(unsigned char *p, size_t bytes, enum taut_type type, uint64_t x)
{
	static const uint64_t ones[TAUT_TYPE_COUNT] = {
		[TAUT_FLOAT16] = 0x3c00,     [TAUT_BFLOAT16] = 0x3f80,
		[TAUT_FLOAT32] = 0x3f800000, [TAUT_FLOAT64] = 0x3ff0000000000000u,
		[TAUT_FLOAT8_E4M3] = 0x38,   [TAUT_FLOAT8_E5M2] = 0x3c,
	};
	size_t elem = taut_type_size(type);

	for (size_t i = 0; i + elem <= bytes; i += elem) {
		uint64_t v = x >> 40 & 1 ? ones[type] : 0;

		memcpy(p + i, &v, elem);
		x = x * 6364136223846793005u + 1442695040888963407u;
	}
}

/* What rank @rank gives: the same on every rank that draws it. Values whose sums are no NaN. */
static void fill(unsigned char *p, size_t bytes, enum taut_type type, unsigned key)
{
	static const unsigned char halves[] = { 0x3c, 0xbc, 0x40, 0x38, 0x34, 0xc1 };
	size_t elem = taut_type_size(type);
	uint64_t x = key * 0x9e3779b97f4a7c15u + 1;

	if (exact && !is_int(type)) {
		fill_exact(p, bytes, type, x);
		return;
	}
	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)(x >> 24);
		if (type == TAUT_FLOAT8_E4M3 || type == TAUT_FLOAT8_E5M2)
			p[i] = (unsigned char)((p[i] & 0x80) | (p[i] & 0x7f) % 0x50);
		else if (!is_int(type) && i % elem == elem - 1)
			p[i] = type == TAUT_FLOAT64 ? (p[i] & 0x80) | 0x3f : halves[p[i] % 6];
	}
}

static void *at(void *p, size_t blocks, const struct call *c)
{
	return (unsigned char *)p + blocks * c->count * taut_type_size(c->type);
}

static enum taut_status make(const struct call *c, const void *in, void *out, enum taut_op op, struct taut_comm *comm,
			     void *stream)
{
	switch (c->coll) {
	case ALL_REDUCE:
		return taut_all_reduce(in, out, c->count, c->type, op, comm, stream);
	case ALL_GATHER:
		return taut_all_gather(in, out, c->count, c->type, comm, stream);
	case REDUCE_SCATTER:
		return taut_reduce_scatter(in, out, c->count, c->type, op, comm, stream);
	case BROADCAST:
		return taut_broadcast(in, out, c->count, c->type, c->root, comm, stream);
	case REDUCE:
		return taut_reduce(in, out, c->count, c->type, op, c->root, comm, stream);
	case GATHER:
		return taut_gather(in, out, c->count, c->type, c->root, comm, stream);
	case SCATTER:
		return taut_scatter(in, out, c->count, c->type, c->root, comm, stream);
	default:
		return taut_all_to_all(in, out, c->count, c->type, comm, stream);
	}
}

static bool has_in(const struct call *c, int rank)
{
	return (c->coll != BROADCAST && c->coll != SCATTER) || c->root == rank;
}

static bool has_out(const struct call *c, int rank)
{
	return (c->coll != REDUCE && c->coll != GATHER) || c->root == rank;
}

static void scalar_of(unsigned char s[8], const struct call *c, int rank)
{
	memset(s, 0, 8);
	fill(s, taut_type_size(c->type), c->type, 1000u + (unsigned)rank);
}

static void expect(unsigned char *want, const struct call *c, int n, int rank, unsigned key)
{
	size_t piece = c->count * taut_type_size(c->type), all = blocks_in(c->coll, n) * piece;
	unsigned char *in[64], *mine[64];
	const void *src[64];

	for (int s = 0; s < n; s++) {
		unsigned char scalar[8];

		in[s] = malloc(all);
		fill(in[s], all, c->type, key + (unsigned)s);
		mine[s] = in[s] + (blocks_in(c->coll, n) > 1 ? (size_t)rank * piece : 0);
		src[s] = mine[s];
		scalar_of(scalar, c, s);
		if (c->premul)
			reduce_scale(mine[s], mine[s], scalar, c->count, c->type);
		else if (reduces(c->coll) && c->op == TAUT_AVG && !is_int(c->type)) {
			reduce_reciprocal(scalar, n, c->type);
			reduce_scale(mine[s], mine[s], scalar, c->count, c->type);
		}
		if (!reduces(c->coll) && blocks_out(c->coll, n) > 1)
			memcpy(want + (size_t)s * piece, mine[s], piece);
		if (!reduces(c->coll) && blocks_out(c->coll, n) == 1 && s == c->root)
			memcpy(want, mine[s], piece);
	}
	if (reduces(c->coll)) {
		enum taut_op op = c->premul || c->op == TAUT_AVG ? TAUT_SUM : c->op;

		reduce_find(c->type, op)->many(want, src, n, c->count);
		if (!c->premul && c->op == TAUT_AVG && is_int(c->type))
			reduce_divide(want, n, c->count, c->type);
	}
	for (int s = 0; s < n; s++)
		free(in[s]);
}

struct buffers {
	unsigned char *a, *b, *host, *want; /* a, b: of the GPU, with PAD on both sides */
};

struct area {
	unsigned char *at;
	size_t len;
};

static void find_buffers(struct area *in, struct area *out, const struct call *c, const struct buffers *x, int rank,
			 int n)
{
	size_t elem = taut_type_size(c->type), piece = c->count * elem;
	bool root = rank == c->root;

	in->at = x->a + c->skew * elem;
	in->len = has_in(c, rank) ? blocks_in(c->coll, n) * piece : 0;
	out->at = x->b + c->skew * elem;
	out->len = has_out(c, rank) ? blocks_out(c->coll, n) * piece : 0;
	if (!c->in_place || !in->len || !out->len)
		return;
	out->at = in->at;
	if (c->coll == ALL_GATHER || (c->coll == GATHER && root))
		in->at = at(out->at, (size_t)rank, c);
	if (c->coll == REDUCE_SCATTER || (c->coll == SCATTER && root))
		out->at = at(in->at, (size_t)rank, c);
}

static bool holds(const struct area *a, const struct area *b)
{
	return a->at <= b->at && b->at + b->len <= a->at + a->len;
}

/* What is checked for writes outside: the output, or in place the larger of the two. */
static struct area guarded(const struct area *in, const struct area *out)
{
	return holds(in, out) ? *in : *out;
}

static int pads_written(const struct area *a, unsigned char *host)
{
	gpu_get(&gpu, host, a->at - PAD, PAD);
	gpu_get(&gpu, host + PAD, a->at + a->len, PAD);
	for (size_t i = 0; i < 2 * (size_t)PAD; i++)
		if (host[i] != POISON)
			return 1;
	return 0;
}

static int input_written(const struct area *in, const struct call *c, unsigned key, struct buffers *x)
{
	gpu_get(&gpu, x->host, in->at, in->len);
	fill(x->want, in->len, c->type, key);
	return memcmp(x->host, x->want, in->len) != 0;
}

static void complain(const struct call *c, int rank, const char *what)
{
	fprintf(stderr, "rank %d: %s %s %s count %zu root %d in place %d premul %d skew %zu: %s\n", rank,
		coll_names[c->coll], taut_type_name(c->type), taut_op_name(c->op), c->count, c->root, c->in_place,
		c->premul, c->skew, what);
}

static int compare(const struct area *out, const struct call *c, struct buffers *x, int rank)
{
	size_t first = 0, last = out->len - 1, n = 0;
	char text[128];

	gpu_get(&gpu, x->host, out->at, out->len);
	if (!memcmp(x->host, x->want, out->len))
		return 0;
	while (x->host[first] == x->want[first])
		first++;
	while (x->host[last] == x->want[last])
		last--;
	for (size_t i = first; i <= last; i++)
		n += x->host[i] != x->want[i];
	snprintf(text, sizeof(text), "%zu of %zu bytes are wrong, from %zu to %zu; the first is %02x, wanted %02x", n,
		 out->len, first, last, x->host[first], x->want[first]);
	complain(c, rank, text);
	return 1;
}

static void put_input(const struct area *in, const struct area *out, const struct call *c, unsigned key,
		      struct buffers *x)
{
	struct area guard = guarded(in, out);

	gpu_set(&gpu, guard.at - PAD, POISON, guard.len + 2 * PAD);
	fill(x->host, in->len, c->type, key);
	if (in->len)
		gpu_put(&gpu, in->at, x->host, in->len);
}

/* The number of things that are wrong. */
static int check(const struct area *in, const struct area *out, const struct call *c, unsigned key, struct buffers *x,
		 struct taut_comm *comm)
{
	int rank = taut_comm_rank(comm), wrong = 0;
	struct area guard = guarded(in, out);

	if (pads_written(&guard, x->host)) {
		complain(c, rank, "bytes outside of the output were written");
		wrong++;
	}
	if (in->len && !holds(in, out) && !holds(out, in) && input_written(in, c, key + (unsigned)rank, x)) {
		complain(c, rank, "the input was written");
		wrong++;
	}
	if (!out->len)
		return wrong;
	expect(x->want, c, taut_comm_size(comm), rank, key);
	return wrong + compare(out, c, x, rank);
}

static int try(struct taut_comm *comm, const struct call *c, unsigned key, struct buffers *x, void *stream)
{
	int rank = taut_comm_rank(comm);
	struct area in, out;
	enum taut_op op = c->op;

	find_buffers(&in, &out, c, x, rank, taut_comm_size(comm));
	put_input(&in, &out, c, key + (unsigned)rank, x);
	if (c->premul) {
		unsigned char scalar[8];

		scalar_of(scalar, c, rank);
		taut_must(taut_op_create_premul_sum(&op, scalar, c->type, comm), "taut_op_create_premul_sum");
	}
	taut_must(make(c, in.len ? in.at : NULL, out.len ? out.at : NULL, op, comm, stream), coll_names[c->coll]);
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	if (c->premul)
		taut_op_destroy(op, comm);
	return check(&in, &out, c, key, x, comm);
}

/* Each collective with each type and operation, at odd counts. */
static int sweep(struct taut_comm *comm, struct buffers *x, void *stream)
{
	static const size_t counts[] = { 37, 3001, 150001 };
	int wrong = 0, tried = 0;

	for (int coll = 0; coll < COLLS; coll++)
		for (int t = 0; t < TAUT_TYPE_COUNT; t++) {
			int ops = !reduces(coll) ? 1 : is_int((enum taut_type)t) ? TAUT_OP_COUNT + 1 : TAUT_BAND + 1;

			for (int i = 0; i < 3 * ops && wrong < 5; i++, tried++) {
				struct call c = { .coll = coll,
						  .type = (enum taut_type)t,
						  .op = (enum taut_op)(i / 3),
						  .count = counts[i % 3],
						  .root = tried % taut_comm_size(comm),
						  .in_place = tried % 2 };

				c.premul = reduces(coll) && i / 3 == ops - 1;
				c.op = c.premul ? TAUT_SUM : c.op;
				wrong += try(comm, &c, (unsigned)tried * 64u, x, stream);
			}
		}
	return wrong;
}

static bool is_mode(const char *mode)
{
	static const char *const modes[] = { "", "each", "exact", "lines", "exchanges" };

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(mode, modes[i]))
			return true;
	return false;
}

static unsigned char *alloc_padded(int n)
{
	return gpu_alloc(&gpu, MOST * (size_t)n + 2 * PAD) + PAD;
}

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 300, gpus = gpu_load(&gpu), wrong = 0, rank, n;
	const char *mode = argc > 3 ? argv[3] : "";
	struct taut_comm *comm;
	struct buffers x;
	const char *local = getenv("TAUT_LOCAL_RANK");
	void *stream;

	seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	if (calls < 0 || !is_mode(mode)) {
		fprintf(stderr, "usage: gpu_collectives [CALLS [SEED [each|exact|lines|exchanges]]]\n");
		return 2;
	}
	if (!gpus)
		return 77;
	gpu_use(&gpu, (local ? atoi(local) : 0) % gpus);
	taut_must(taut_comm_create_env(&comm, NULL), "taut_comm_create_env");
	rank = taut_comm_rank(comm);
	n = taut_comm_size(comm);
	gpu_must(gpu.stream(&stream, 1), "cuStreamCreate");
	x.a = alloc_padded(n);
	x.b = alloc_padded(n);
	x.host = malloc(MOST * (size_t)n);
	x.want = malloc(MOST * (size_t)n);
	exact = !strcmp(mode, "exact");
	if (!strcmp(mode, "each"))
		wrong = sweep(comm, &x, stream);
	for (int i = 0; i < calls && wrong < 5; i++) {
		struct call c = !strcmp(mode, "lines")	     ? draw_lines(i, n)
				: !strcmp(mode, "exchanges") ? draw_exchange(i)
							     : draw(n);

		wrong += try(comm, &c, (unsigned)i * 64u, &x, stream);
	}
	if (rank == 0 && !wrong)
		printf("%d calls of %d ranks on %d GPUs are right\n", calls, n, gpus < n ? gpus : n);
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	gpu.free((uint64_t)(uintptr_t)(x.a - PAD));
	gpu.free((uint64_t)(uintptr_t)(x.b - PAD));
	free(x.host);
	free(x.want);
	taut_comm_destroy(comm);
	return wrong != 0;
}
