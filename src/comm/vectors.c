/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives with a count for every rank. */
#include "base/mem.h"
#include "comm/comm.h"

/* The end of the furthest block, in elements; TAUT_ERR_ARG when it is beyond what memory can hold. */
static enum taut_status check_counts(const char *call, const char *what, const size_t *counts, const size_t *displs,
				     const struct op *op, size_t *end)
{
	size_t most = SIZE_MAX / 4 / taut_type_size(op->type), at = 0;

	*end = 0;
	if (!counts)
		return fail(TAUT_ERR_ARG, "%s: %s is NULL", call, what);
	for (int r = 0; r < op->comm->size; r++) {
		size_t from = displs ? displs[r] : at;

		if (counts[r] > most || from > most - counts[r])
			return fail(TAUT_ERR_ARG, "%s: %s[%d] is %zu at %zu: more than memory can hold", call, what, r,
				    counts[r], from);
		at += counts[r];
		if (counts[r] && from + counts[r] > *end)
			*end = from + counts[r];
	}
	return TAUT_OK;
}

static enum taut_status check_buffer(const char *call, const char *what, const void *p, size_t len)
{
	return len && !p ? fail(TAUT_ERR_ARG, "%s: %s is NULL, its counts are not zero", call, what) : TAUT_OK;
}

/* Fills *@displs with packed places when the caller gave none; @store is the memory for it. */
static void pack(const size_t *counts, const size_t **displs, size_t *store, int n)
{
	size_t at = 0;

	if (*displs)
		return;
	for (int r = 0; r < n; r++) {
		store[r] = at;
		at += counts[r];
	}
	*displs = store;
}

/* Displacements that were not given, then the call. */
static enum taut_status submit(struct op *op, void *stream)
{
	size_t n = (size_t)op->comm->size, *store = mem_calloc(2 * n, sizeof(*store));
	enum taut_status st;

	if (!store)
		return op_refuse(fail(TAUT_ERR_NOMEM, "places for %zu ranks", n));
	op->vectors = true;
	if (op->in_counts)
		pack(op->in_counts, &op->in_displs, store, (int)n);
	if (op->out_counts)
		pack(op->out_counts, &op->out_displs, store + n, (int)n);
	st = op_submit(op, stream);
	mem_free(store);
	return st;
}

enum taut_status taut_all_gather_v(const void *in, void *out, const size_t counts[], const size_t displs[],
				   enum taut_type type, struct taut_comm *comm, void *stream)
{
	static const char call[] = "taut_all_gather_v";
	struct op op = { .coll = COLL_ALL_GATHER,
			 .in = in,
			 .out = out,
			 .type = type,
			 .comm = comm,
			 .out_counts = counts,
			 .out_displs = displs };
	enum taut_status st = op_check(call, &op);
	size_t end;

	if (!st)
		st = check_counts(call, "counts", counts, displs, &op, &end);
	if (!st)
		st = check_buffer(call, "out", out, end);
	if (st)
		return op_refuse(st);
	op.count = counts[comm->rank];
	st = check_buffer(call, "in", in, op.count);
	return st ? op_refuse(st) : submit(&op, stream);
}

enum taut_status taut_reduce_scatter_v(const void *in, void *out, const size_t counts[], enum taut_type type,
				       enum taut_op rop, struct taut_comm *comm, void *stream)
{
	static const char call[] = "taut_reduce_scatter_v";
	struct op op = { .coll = COLL_REDUCE_SCATTER,
			 .in = in,
			 .out = out,
			 .type = type,
			 .op = rop,
			 .comm = comm,
			 .in_counts = counts };
	enum taut_status st = op_check(call, &op);
	size_t end;

	if (!st)
		st = check_counts(call, "counts", counts, NULL, &op, &end);
	if (!st)
		st = check_buffer(call, "in", in, end);
	if (!st)
		st = userop_check(&op, call);
	if (st)
		return op_refuse(st);
	op.count = counts[comm->rank];
	st = check_buffer(call, "out", out, op.count);
	return st ? op_refuse(st) : submit(&op, stream);
}

enum taut_status taut_all_to_all_v(const void *in, const size_t in_counts[], const size_t in_displs[], void *out,
				   const size_t out_counts[], const size_t out_displs[], enum taut_type type,
				   struct taut_comm *comm, void *stream)
{
	static const char call[] = "taut_all_to_all_v";
	struct op op = { .coll = COLL_ALL_TO_ALL,
			 .in = in,
			 .out = out,
			 .type = type,
			 .comm = comm,
			 .in_counts = in_counts,
			 .in_displs = in_displs,
			 .out_counts = out_counts,
			 .out_displs = out_displs };
	enum taut_status st = op_check(call, &op);
	size_t in_end, out_end;

	if (!st)
		st = check_counts(call, "in_counts", in_counts, in_displs, &op, &in_end);
	if (!st)
		st = check_counts(call, "out_counts", out_counts, out_displs, &op, &out_end);
	if (!st)
		st = check_buffer(call, "in", in, in_end);
	if (!st)
		st = check_buffer(call, "out", out, out_end);
	if (!st && in_counts[comm->rank] != out_counts[comm->rank])
		st = fail(TAUT_ERR_ARG, "%s: rank %d sends %zu elements to itself and expects %zu", call, comm->rank,
			  in_counts[comm->rank], out_counts[comm->rank]);
	return st ? op_refuse(st) : submit(&op, stream);
}

enum taut_status taut_gather_v(const void *in, size_t in_count, void *out, const size_t counts[], const size_t displs[],
			       enum taut_type type, int root, struct taut_comm *comm, void *stream)
{
	static const char call[] = "taut_gather_v";
	struct op op = {
		.coll = COLL_GATHER, .in = in, .out = out, .count = in_count, .type = type, .root = root, .comm = comm
	};
	enum taut_status st = op_check(call, &op);
	size_t end;

	if (!st)
		st = check_buffer(call, "in", in, in_count);
	if (!st && comm->rank == root) {
		op.out_counts = counts;
		op.out_displs = displs;
		st = check_counts(call, "counts", counts, displs, &op, &end);
		if (!st)
			st = check_buffer(call, "out", out, end);
		if (!st && counts[root] != in_count)
			st = fail(TAUT_ERR_ARG, "%s: in_count is %zu, counts[%d] of the root itself is %zu", call,
				  in_count, root, counts[root]);
	}
	return st ? op_refuse(st) : submit(&op, stream);
}

enum taut_status taut_scatter_v(const void *in, const size_t counts[], const size_t displs[], void *out,
				size_t out_count, enum taut_type type, int root, struct taut_comm *comm, void *stream)
{
	static const char call[] = "taut_scatter_v";
	struct op op = {
		.coll = COLL_SCATTER, .in = in, .out = out, .count = out_count, .type = type, .root = root, .comm = comm
	};
	enum taut_status st = op_check(call, &op);
	size_t end;

	if (!st)
		st = check_buffer(call, "out", out, out_count);
	if (!st && comm->rank == root) {
		op.in_counts = counts;
		op.in_displs = displs;
		st = check_counts(call, "counts", counts, displs, &op, &end);
		if (!st)
			st = check_buffer(call, "in", in, end);
		if (!st && counts[root] != out_count)
			st = fail(TAUT_ERR_ARG, "%s: out_count is %zu, counts[%d] of the root itself is %zu", call,
				  out_count, root, counts[root]);
	}
	return st ? op_refuse(st) : submit(&op, stream);
}
