/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective with every type and operation, counts from none to large, all roots, in place and not, by 2 to 5
 * ranks that are processes, threads, or communicators of one thread in groups. */
#include "nccl/api.h"
#include "nccl/api_values.h"

#define GUARD 64 /* bytes behind each output that must stay */
#define FILL 0xa5

struct call;

enum place {		/* how a call is made in place */
	     SAME,	/* one buffer */
	     INPUT_IN,	/* the input is this rank's block of the output */
	     OUTPUT_IN, /* the other way round */
};

struct collective {
	const char *name;
	ncclResult_t (*run)(const struct call *c, const void *in, void *out, ncclComm_t comm);
	bool many_in, many_out; /* a block for each rank, else one */
	bool root_in, root_out; /* only root's counts */
	bool reduces;
	enum place place;
	bool always_in_place;
};

struct call {
	const struct collective *what;
	const struct kind *kind;
	ncclRedOp_t op;
	size_t count;
	int root;
	bool in_place;
};

static ncclResult_t run_all_reduce(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclAllReduce(in, out, c->count, c->kind->type, c->op, comm, NULL);
}

static ncclResult_t run_reduce(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclReduce(in, out, c->count, c->kind->type, c->op, c->root, comm, NULL);
}

static ncclResult_t run_reduce_scatter(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclReduceScatter(in, out, c->count, c->kind->type, c->op, comm, NULL);
}

static ncclResult_t run_broadcast(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclBroadcast(in, out, c->count, c->kind->type, c->root, comm, NULL);
}

static ncclResult_t run_bcast(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	(void)in;
	return ncclBcast(out, c->count, c->kind->type, c->root, comm, NULL);
}

static ncclResult_t run_all_gather(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclAllGather(in, out, c->count, c->kind->type, comm, NULL);
}

static ncclResult_t run_all_to_all(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclAlltoAll(in, out, c->count, c->kind->type, comm, NULL);
}

static ncclResult_t run_gather(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclGather(in, out, c->count, c->kind->type, c->root, comm, NULL);
}

static ncclResult_t run_scatter(const struct call *c, const void *in, void *out, ncclComm_t comm)
{
	return ncclScatter(in, out, c->count, c->kind->type, c->root, comm, NULL);
}

static const struct collective collectives[] = {
	{ "ncclAllReduce", run_all_reduce, .reduces = true, .place = SAME },
	{ "ncclReduce", run_reduce, .reduces = true, .root_out = true, .place = SAME },
	{ "ncclReduceScatter", run_reduce_scatter, .reduces = true, .many_in = true, .place = OUTPUT_IN },
	{ "ncclBroadcast", run_broadcast, .root_in = true, .place = SAME },
	{ "ncclBcast", run_bcast, .root_in = true, .place = SAME, .always_in_place = true },
	{ "ncclAllGather", run_all_gather, .many_out = true, .place = INPUT_IN },
	{ "ncclAlltoAll", run_all_to_all, .many_in = true, .many_out = true, .place = SAME },
	{ "ncclGather", run_gather, .many_out = true, .root_out = true, .place = INPUT_IN },
	{ "ncclScatter", run_scatter, .many_in = true, .root_in = true, .place = OUTPUT_IN },
};
#define COLLECTIVES (sizeof(collectives) / sizeof(collectives[0]))

/* --- values --- */
/* So small that results and whatever is between are exact in eight bits of floating point. */
static int value(const struct call *c, int size, int rank, int block, size_t i)
{
	int turn = (int)(i % 30) + block, v = (turn + rank) % 3 ? 1 : 2;

	if (c->op == ncclAvg) { /* the mean is whole: 0 or 1 for all, then one more and one less */
		v = turn % 2;
		if (v && size > 1)
			v += (rank == 0) - (rank == size - 1);
		return c->kind->has_sign && turn % 4 == 3 ? -v : v;
	}
	return c->kind->has_sign && (turn + 2 * rank) % 5 == 1 ? -v : v;
}

static int reduced(const struct call *c, int size, int block, size_t i)
{
	int result = value(c, size, 0, block, i);

	for (int r = 1; r < size; r++) {
		int v = value(c, size, r, block, i);

		if (c->op == ncclProd)
			result *= v;
		else if (c->op == ncclMax)
			result = v > result ? v : result;
		else if (c->op == ncclMin)
			result = v < result ? v : result;
		else
			result += v;
	}
	return c->op == ncclAvg ? result / size : result;
}

/* What only moves has bytes of all values. */
static unsigned char byte_of(int rank, int block, size_t at)
{
	return (unsigned char)((at * 167 + at / 256 * 31 + (size_t)rank * 59 + (size_t)block * 13 + 7) & 0xff);
}

static void fill_input(const struct call *c, int size, int rank, int block, unsigned char *at)
{
	if (c->what->reduces)
		for (size_t i = 0; i < c->count; i++)
			kind_put(c->kind, at, i, value(c, size, rank, block, i));
	else
		for (size_t i = 0; i < c->count * c->kind->bytes; i++)
			at[i] = byte_of(rank, block, i);
}

/* Block @block of the output of @rank. */
static void fill_wanted(const struct call *c, int size, int rank, int block, unsigned char *at)
{
	int from_block = c->what->many_in ? rank : 0;

	if (c->what->reduces)
		for (size_t i = 0; i < c->count; i++)
			kind_put(c->kind, at, i, reduced(c, size, from_block, i));
	else
		fill_input(c, size, c->what->root_in ? c->root : block, from_block, at);
}

/* --- one rank's buffers --- */
struct buffers {
	unsigned char *in, *out, *want; /* NULL: this rank has none */
	unsigned char *own_in;		/* to be freed */
	size_t out_bytes;
};

static void make_input(const struct call *c, int size, int rank, struct buffers *b)
{
	size_t block = c->count * c->kind->bytes;
	int blocks = c->what->many_in ? size : 1;

	if (c->what->root_in && rank != c->root)
		return;
	b->in = b->own_in = (unsigned char *)api_alloc((size_t)blocks * block);
	for (int k = 0; k < blocks; k++)
		fill_input(c, size, rank, k, b->in + (size_t)k * block);
}

static void make_output(const struct call *c, int size, int rank, struct buffers *b)
{
	size_t block = c->count * c->kind->bytes;
	int blocks = c->what->many_out ? size : 1;

	if (c->what->root_out && rank != c->root)
		return;
	b->out_bytes = (size_t)blocks * block + GUARD;
	b->out = (unsigned char *)api_alloc(b->out_bytes);
	b->want = (unsigned char *)api_alloc(b->out_bytes);
	memset(b->out, FILL, b->out_bytes);
	memset(b->want, FILL, b->out_bytes);
	for (int k = 0; k < blocks; k++)
		fill_wanted(c, size, rank, k, b->want + (size_t)k * block);
}

/* The output lies in the input: a reduce-scatter, or a scatter's root. What is around it must stay. */
static void place_output_in(const struct call *c, int size, int rank, struct buffers *b)
{
	size_t block = c->count * c->kind->bytes, all = (size_t)size * block;
	unsigned char *joint = (unsigned char *)api_alloc(all + GUARD);

	memcpy(joint, b->in, all);
	memset(joint + all, FILL, GUARD);
	free(b->own_in);
	free(b->out);
	b->own_in = b->in = joint;
	b->out = joint + (size_t)rank * block;
	b->out_bytes = block; /* blocks of others are the library's to use in a reduce-scatter */
}

static void place(const struct call *c, int size, int rank, struct buffers *b)
{
	size_t block = c->count * c->kind->bytes;

	if (!c->in_place || !b->out)
		return;
	if (c->what->place == OUTPUT_IN) {
		if (b->in)
			place_output_in(c, size, rank, b);
	} else {
		unsigned char *at = b->out + (c->what->place == INPUT_IN ? (size_t)rank * block : 0);

		if (b->in)
			memcpy(at, b->in, block * (size_t)(c->what->many_in ? size : 1));
		b->in = at;
	}
}

static void judge(const struct call *c, int size, int rank, const struct buffers *b)
{
	size_t at = 0;

	if (!b->out || !memcmp(b->out, b->want, b->out_bytes))
		return;
	while (b->out[at] == b->want[at])
		at++;
	fprintf(stderr, "%s of %zu %s, op %d, root %d, %s: rank %d of %d: byte %zu of %zu is %02x, wanted %02x\n",
		c->what->name, c->count, c->kind->name, (int)c->op, c->root, c->in_place ? "in place" : "out of place",
		rank, size, at, b->out_bytes, b->out[at], b->want[at]);
	must(!"the result is right");
}

static void release(const struct call *c, struct buffers *b)
{
	if (!(c->in_place && c->what->place == OUTPUT_IN && b->own_in))
		free(b->out);
	free(b->own_in);
	free(b->want);
}

static void run(const struct team *t, const struct call *c)
{
	struct buffers b[MOST];

	memset(b, 0, sizeof(b));
	for (int i = 0; i < t->n; i++) {
		make_input(c, t->size, t->first + i, &b[i]);
		make_output(c, t->size, t->first + i, &b[i]);
		place(c, t->size, t->first + i, &b[i]);
	}
	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(c->what->run(c, b[i].in, b[i].out, t->comm[i]));
	team_end(t);
	for (int i = 0; i < t->n; i++) {
		judge(c, t->size, t->first + i, &b[i]);
		release(c, &b[i]);
	}
}

/* --- the calls --- */
/* Out of place, where there is that, and in place. */
static void both_places(const struct team *t, struct call *c)
{
	for (int in_place = 0; in_place < 2; in_place++) {
		if (!in_place && c->what->always_in_place)
			continue;
		c->in_place = in_place;
		run(t, c);
	}
}

static void types_and_ops(struct team *t)
{
	static const size_t counts[] = { 1, 37 };

	for (size_t k = 0; k < COLLECTIVES * ncclNumTypes; k++) {
		struct call c = { .what = &collectives[k / ncclNumTypes], .kind = &kinds[k % ncclNumTypes] };

		c.root = (int)k % t->size;
		for (int op = 0; op < (c.what->reduces ? ncclNumOps : 1); op++)
			for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
				c.op = (ncclRedOp_t)op;
				c.count = counts[n];
				both_places(t, &c);
			}
	}
}

static void counts_and_roots(struct team *t)
{
	static const size_t counts[] = { 0, 2, 1023, 20001, 150001 };

	for (size_t k = 0; k < COLLECTIVES; k++)
		for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
			bool rooted = collectives[k].root_in || collectives[k].root_out;
			struct call c = { .what = &collectives[k], .count = counts[n] };
			int roots = rooted && counts[n] < 100000 ? t->size : 1;

			c.kind = &kinds[n % 2 ? ncclFloat32 : ncclBfloat16];
			for (c.root = 0; c.root < roots; c.root++)
				both_places(t, &c);
		}
}

static void all_calls(struct team *t)
{
	types_and_ops(t);
	counts_and_roots(t);
}

/* Argument: the most ranks (5). */
int main(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 5;

	api_begin();
	as_processes(1, all_calls, "a communicator of one");
	each_way(2, all_calls, "2 ranks");
	as_processes(3, all_calls, "3 processes");
	if (most >= 4)
		as_threads(4, all_calls, "4 threads");
	if (most >= 5)
		each_way(5, all_calls, "5 ranks");
	return api_verdict("collectives");
}
