/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_check.h"

#include <string.h>

struct check {
	const struct bench_call *c;
	const struct bench_buffers *b;
	struct bench_table *table;
	int root;
	bool in_place;
	enum taut_op op; /* TAUT_OP_COUNT: no reduction; TAUT_OP_USER: pre-multiplied */
};

static size_t block_bytes(const struct bench_call *c)
{
	return c->count * taut_type_size(c->type);
}

void bench_place(struct bench_call *c, const struct bench_buffers *b, bool in_place)
{
	size_t mine = (size_t)c->rank * block_bytes(c);

	c->in = in_place ? b->b + (c->coll->out_blocks && !c->coll->in_blocks ? mine : 0) : b->a;
	c->out = b->b + (in_place && c->coll->in_blocks && !c->coll->out_blocks ? mine : 0);
}

static void prepare(struct check *k)
{
	const struct bench_call *c = k->c;
	unsigned char *in = k->in_place ? k->b->b + ((const unsigned char *)c->in - k->b->b) : k->b->a;

	memset(k->b->b, BENCH_POISON, k->b->b_len + BENCH_GUARD);
	bench_input(k->table, c->type, k->op, c->rank, c->size);
	bench_fill(in, k->table, 0, c->count * bench_in_blocks(c->coll, c->size));
}

/* Block @block of the output has to be what rank @from put in from element @start on. */
static size_t wrong_block(struct check *k, int from, size_t start, size_t block)
{
	const unsigned char *got = (const unsigned char *)k->c->out + block * block_bytes(k->c);

	bench_input(k->table, k->c->type, TAUT_OP_COUNT, from, k->c->size);
	return bench_wrong(got, k->table, start, k->c->count);
}

static size_t wrong_moved(struct check *k)
{
	const struct bench_call *c = k->c;
	size_t wrong = 0, mine = (size_t)c->rank * c->count;

	switch (c->coll->kind) {
	case BENCH_BARRIER:
		return 0;
	case BENCH_BROADCAST:
		return wrong_block(k, k->root, 0, 0);
	case BENCH_SCATTER:
		return wrong_block(k, k->root, mine, 0);
	case BENCH_SENDRECV:
		return wrong_block(k, (c->rank + c->size - 1) % c->size, 0, 0);
	default: /* a block of every rank */
		for (int s = 0; s < c->size; s++)
			wrong += wrong_block(k, s, c->coll->in_blocks ? mine : 0, (size_t)s);
		return wrong;
	}
}

static size_t wrong_reduced(struct check *k)
{
	const struct bench_call *c = k->c;

	bench_reduced(k->table, c->type, k->op, c->size);
	return bench_wrong(c->out, k->table, c->coll->in_blocks ? (size_t)c->rank * c->count : 0, c->count);
}

static size_t wrong_input(struct check *k)
{
	const struct bench_call *c = k->c;

	bench_input(k->table, c->type, k->op, c->rank, c->size);
	return bench_wrong(c->in, k->table, 0, c->count * bench_in_blocks(c->coll, c->size));
}

static bool has_output(const struct check *k)
{
	enum bench_kind kind = k->c->coll->kind;
	bool on_root_only = kind == BENCH_REDUCE || kind == BENCH_GATHER;

	return !on_root_only || k->c->rank == k->root;
}

static size_t compare(struct check *k)
{
	/* In place, the other blocks of the buffer are the input, which a reduce-scatter may use up. */
	size_t written = k->in_place ? k->b->b_len : block_bytes(k->c) * bench_out_blocks(k->c->coll, k->c->size);
	size_t wrong = bench_touched(k->b->b + written, k->b->b_len - written + BENCH_GUARD);

	if (has_output(k))
		wrong += k->c->coll->reduces ? wrong_reduced(k) : wrong_moved(k);
	else if (!k->in_place)
		wrong += bench_touched(k->b->b, k->b->b_len);
	if (!k->in_place || !has_output(k))
		wrong += wrong_input(k);
	return wrong;
}

enum taut_status bench_check(size_t *wrong, struct bench_table *scratch, const struct bench_call *c,
			     const struct bench_buffers *b, int root, bool in_place)
{
	struct check k = { .c = c, .b = b, .table = scratch, .root = root, .in_place = in_place };
	enum taut_status st;

	k.op = !c->coll->reduces ? TAUT_OP_COUNT : c->op < TAUT_OP_USER ? c->op : TAUT_OP_USER;
	prepare(&k);
	st = bench_call_run(c, root);
	if (!st)
		*wrong = compare(&k);
	return st;
}
