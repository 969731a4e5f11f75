/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives: checks, then one struct op. */
#include "comm/comm.h"

/* What a call hands to check(): NULL buffers are allowed when nothing is in them. */
struct buffers {
	const char *call;
	size_t in_len, out_len; /* elements that this rank reads and writes */
	bool in_place;		/* the one overlap that is allowed is there */
};

static bool overlap(const void *a, size_t a_len, const void *b, size_t b_len)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return a_len && b_len && x < y + b_len && y < x + a_len;
}

enum taut_status op_check(const char *call, const struct op *op)
{
	if (!op->comm)
		return fail(TAUT_ERR_ARG, "%s: comm is NULL", call);
	if (!taut_type_size(op->type))
		return fail(TAUT_ERR_ARG, "%s: %d is no type", call, (int)op->type);
	if (sched_coll_has_root(op->coll) && (op->root < 0 || op->root >= op->comm->size))
		return fail(TAUT_ERR_ARG, "%s: root is %d, wanted: 0 to %d", call, op->root, op->comm->size - 1);
	return TAUT_OK;
}

static enum taut_status check_basics(const char *call, const struct op *op)
{
	enum taut_status st = op_check(call, op);

	if (st)
		return st;
	if (op->count > SIZE_MAX / 16 / taut_type_size(op->type) / (size_t)op->comm->size)
		return fail(TAUT_ERR_ARG, "%s: count %zu is more than memory can hold", call, op->count);
	return TAUT_OK;
}

static enum taut_status check(struct op *op, const struct buffers *b)
{
	size_t elem = taut_type_size(op->type);

	if (b->in_len && !op->in)
		return fail(TAUT_ERR_ARG, "%s: in is NULL, count is %zu", b->call, op->count);
	if (b->out_len && !op->out)
		return fail(TAUT_ERR_ARG, "%s: out is NULL, count is %zu", b->call, op->count);
	if (!b->in_place && overlap(op->in, b->in_len * elem, op->out, b->out_len * elem))
		return fail(TAUT_ERR_ARG,
			    "%s: in (%p, %zu bytes) and out (%p, %zu bytes) overlap, and not as in place wants",
			    b->call, op->in, b->in_len * elem, op->out, b->out_len * elem);
	return sched_coll_reduces(op->coll) ? userop_check(op, b->call) : TAUT_OK;
}

static const void *at_block(const void *p, size_t block, size_t count, enum taut_type type)
{
	return (const unsigned char *)p + block * count * taut_type_size(type);
}

enum taut_status taut_all_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op rop,
				 struct taut_comm *comm, void *stream)
{
	struct op op = {
		.coll = COLL_ALL_REDUCE, .in = in, .out = out, .count = count, .type = type, .op = rop, .comm = comm
	};
	struct buffers b = { "taut_all_reduce", count, count, in == out };
	enum taut_status st = check_basics(b.call, &op);

	if (!st)
		st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_all_gather(const void *in, void *out, size_t count, enum taut_type type, struct taut_comm *comm,
				 void *stream)
{
	struct op op = { .coll = COLL_ALL_GATHER, .in = in, .out = out, .count = count, .type = type, .comm = comm };
	struct buffers b = { .call = "taut_all_gather", .in_len = count };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.out_len = count * (size_t)comm->size;
	b.in_place = in == at_block(out, (size_t)comm->rank, count, type);
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_reduce_scatter(const void *in, void *out, size_t count, enum taut_type type, enum taut_op rop,
				     struct taut_comm *comm, void *stream)
{
	struct op op = {
		.coll = COLL_REDUCE_SCATTER, .in = in, .out = out, .count = count, .type = type, .op = rop, .comm = comm
	};
	struct buffers b = { .call = "taut_reduce_scatter", .out_len = count };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.in_len = count * (size_t)comm->size;
	b.in_place = out == at_block(in, (size_t)comm->rank, count, type);
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_broadcast(const void *in, void *out, size_t count, enum taut_type type, int root,
				struct taut_comm *comm, void *stream)
{
	struct op op = {
		.coll = COLL_BROADCAST, .in = in, .out = out, .count = count, .type = type, .root = root, .comm = comm
	};
	struct buffers b = { .call = "taut_broadcast", .out_len = count, .in_place = in == out };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.in_len = comm->rank == root ? count : 0;
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op rop, int root,
			     struct taut_comm *comm, void *stream)
{
	struct op op = { .coll = COLL_REDUCE,
			 .in = in,
			 .out = out,
			 .count = count,
			 .type = type,
			 .op = rop,
			 .root = root,
			 .comm = comm };
	struct buffers b = { .call = "taut_reduce", .in_len = count, .in_place = in == out };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.out_len = comm->rank == root ? count : 0;
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_gather(const void *in, void *out, size_t count, enum taut_type type, int root,
			     struct taut_comm *comm, void *stream)
{
	struct op op = {
		.coll = COLL_GATHER, .in = in, .out = out, .count = count, .type = type, .root = root, .comm = comm
	};
	struct buffers b = { .call = "taut_gather", .in_len = count };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.out_len = comm->rank == root ? count * (size_t)comm->size : 0;
	b.in_place = in == at_block(out, (size_t)root, count, type);
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_scatter(const void *in, void *out, size_t count, enum taut_type type, int root,
			      struct taut_comm *comm, void *stream)
{
	struct op op = {
		.coll = COLL_SCATTER, .in = in, .out = out, .count = count, .type = type, .root = root, .comm = comm
	};
	struct buffers b = { .call = "taut_scatter", .out_len = count };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.in_len = comm->rank == root ? count * (size_t)comm->size : 0;
	b.in_place = out == at_block(in, (size_t)root, count, type);
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_all_to_all(const void *in, void *out, size_t count, enum taut_type type, struct taut_comm *comm,
				 void *stream)
{
	struct op op = { .coll = COLL_ALL_TO_ALL, .in = in, .out = out, .count = count, .type = type, .comm = comm };
	struct buffers b = { .call = "taut_all_to_all", .in_place = in == out };
	enum taut_status st = check_basics(b.call, &op);

	if (st)
		return op_refuse(st);
	b.in_len = b.out_len = count * (size_t)comm->size;
	st = check(&op, &b);
	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_barrier(struct taut_comm *comm, void *stream)
{
	struct op op = { .coll = COLL_BARRIER, .type = TAUT_UINT8, .comm = comm };
	enum taut_status st = check_basics("taut_barrier", &op);

	return st ? op_refuse(st) : op_submit(&op, stream);
}
