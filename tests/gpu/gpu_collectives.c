/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective on GPU memory against plain loops: types, operations, sizes of every kernel, odd
 * alignments, in place. Rank r uses GPU r modulo their number. Arguments: calls, seed. Started by
 * `taut run`, or alone. */
#include <stdbool.h>

#include "exec/reduce.h"
#include "gpu_util.h"

#define MOST ((size_t)6 << 20) /* bytes of a piece */

static struct gpu_functions gpu;
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
	return c;
}

/* What rank @rank gives: the same on every rank that draws it. Values whose sums are no NaN. */
static void fill(unsigned char *p, size_t bytes, enum taut_type type, unsigned key)
{
	static const unsigned char halves[] = { 0x3c, 0xbc, 0x40, 0x38, 0x34, 0xc1 };
	size_t elem = taut_type_size(type);
	uint64_t x = key * 0x9e3779b97f4a7c15u + 1;

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
	unsigned char *a, *b, *host, *want; /* a, b: of the GPU */
};

static int try(struct taut_comm *comm, const struct call *c, unsigned key, struct buffers *x, void *stream)
{
	int n = taut_comm_size(comm), rank = taut_comm_rank(comm), wrong = 0;
	size_t elem = taut_type_size(c->type), piece = c->count * elem;
	unsigned char *in = x->a + c->skew * elem, *out = x->b + c->skew * elem;
	enum taut_op op = c->op;

	if (c->in_place) {
		in = x->a + c->skew * elem;
		out = in;
		if (c->coll == ALL_GATHER || (c->coll == GATHER && rank == c->root))
			in = at(out, (size_t)rank, c);
		if (c->coll == REDUCE_SCATTER || (c->coll == SCATTER && rank == c->root))
			out = at(in, (size_t)rank, c);
		if ((c->coll == GATHER || c->coll == SCATTER || c->coll == REDUCE) && rank != c->root)
			out = x->b;
	}
	fill(x->host, blocks_in(c->coll, n) * piece, c->type, key + (unsigned)rank);
	gpu_put(&gpu, in, x->host, blocks_in(c->coll, n) * piece);
	if (c->premul) {
		unsigned char scalar[8];

		scalar_of(scalar, c, rank);
		taut_must(taut_op_create_premul_sum(&op, scalar, c->type, comm), "taut_op_create_premul_sum");
	}
	taut_must(make(c, has_in(c, rank) ? in : NULL, has_out(c, rank) ? out : NULL, op, comm, stream), "make");
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	if (c->premul)
		taut_op_destroy(op, comm);
	if (!has_out(c, rank))
		return 0;
	expect(x->want, c, n, rank, key);
	gpu_get(&gpu, x->host, out, blocks_out(c->coll, n) * piece);
	wrong = memcmp(x->host, x->want, blocks_out(c->coll, n) * piece) != 0;
	if (wrong) {
		size_t i = 0;

		while (x->host[i] == x->want[i])
			i++;
		fprintf(stderr,
			"rank %d: %s %s %s count %zu root %d in place %d premul %d skew %zu: wrong at byte %zu of %zu: "
			"%02x, wanted %02x\n",
			rank, coll_names[c->coll], taut_type_name(c->type), taut_op_name(c->op), c->count, c->root,
			c->in_place, c->premul, c->skew, i, blocks_out(c->coll, n) * piece, x->host[i], x->want[i]);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 300, gpus = gpu_load(&gpu), wrong = 0, rank, n;
	struct taut_comm *comm;
	struct buffers x;
	const char *local = getenv("TAUT_LOCAL_RANK");
	void *stream;

	seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	if (!gpus)
		return 77;
	gpu_use(&gpu, (local ? atoi(local) : 0) % gpus);
	taut_must(taut_comm_create_env(&comm, NULL), "taut_comm_create_env");
	rank = taut_comm_rank(comm);
	n = taut_comm_size(comm);
	gpu_must(gpu.stream(&stream, 1), "cuStreamCreate");
	x.a = gpu_alloc(&gpu, MOST * (size_t)n);
	x.b = gpu_alloc(&gpu, MOST * (size_t)n);
	x.host = malloc(MOST * (size_t)n);
	x.want = malloc(MOST * (size_t)n);
	for (int i = 0; i < calls && wrong < 5; i++) {
		struct call c = draw(n);

		wrong += try(comm, &c, (unsigned)i * 64u, &x, stream);
	}
	if (rank == 0 && !wrong)
		printf("%d calls of %d ranks on %d GPUs are right\n", calls, n, gpus < n ? gpus : n);
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	gpu.free((uint64_t)(uintptr_t)x.a);
	gpu.free((uint64_t)(uintptr_t)x.b);
	free(x.host);
	free(x.want);
	taut_comm_destroy(comm);
	return wrong != 0;
}
