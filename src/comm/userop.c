/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with a scalar: an average of floats, and sums premultiplied by one's own. */
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"

static bool is_float(enum taut_type t)
{
	return t == TAUT_FLOAT16 || t == TAUT_FLOAT32 || t == TAUT_FLOAT64 || t == TAUT_BFLOAT16 ||
	       t == TAUT_FLOAT8_E4M3 || t == TAUT_FLOAT8_E5M2;
}

static const struct premul *find(const struct taut_comm *comm, enum taut_op op)
{
	int i = (int)op - (int)TAUT_OP_USER;

	return i >= 0 && i < comm->npremul && comm->premul[i].used ? &comm->premul[i] : NULL;
}

bool userop_exists(const struct taut_comm *comm, enum taut_op op)
{
	return find(comm, op);
}

enum taut_status userop_check(struct op *op, const char *call)
{
	const struct premul *p;

	if ((unsigned)op->op < TAUT_OP_COUNT) {
		if (op->op >= TAUT_BAND && is_float(op->type))
			return fail(TAUT_ERR_ARG, "%s: %s is for integers, the type is %s", call, taut_op_name(op->op),
				    taut_type_name(op->type));
		op->scaled = op->op == TAUT_AVG && is_float(op->type);
		if (op->scaled)
			reduce_reciprocal(op->scalar, op->comm->size, op->type);
		return TAUT_OK;
	}
	p = find(op->comm, op->op);
	if (!p)
		return fail(TAUT_ERR_ARG, "%s: op %d is no operation of this communicator", call, (int)op->op);
	if (p->type != op->type)
		return fail(TAUT_ERR_ARG, "%s: the operation was made for %s, the type is %s", call,
			    taut_type_name(p->type), taut_type_name(op->type));
	/* By value: the operation may be destroyed while the call is queued. */
	op->scaled = true;
	memcpy(op->scalar, p->scalar, sizeof(op->scalar));
	return TAUT_OK;
}

static int free_place(struct taut_comm *comm)
{
	struct premul *grown;
	int i = 0;

	while (i < comm->npremul && comm->premul[i].used)
		i++;
	if (i < comm->npremul)
		return i;
	grown = mem_realloc(comm->premul, (size_t)comm->npremul + 8, sizeof(*grown));
	if (!grown)
		return -1;
	comm->premul = grown;
	memset(grown + comm->npremul, 0, 8 * sizeof(*grown));
	comm->npremul += 8;
	return i;
}

enum taut_status taut_op_create_premul_sum(enum taut_op *out, const void *scalar, enum taut_type type,
					   struct taut_comm *comm)
{
	size_t size = taut_type_size(type);
	int i;

	if (!out || !scalar || !comm)
		return fail(TAUT_ERR_ARG, "taut_op_create_premul_sum: %s is NULL",
			    !out      ? "out"
			    : !scalar ? "scalar"
				      : "comm");
	if (!size)
		return fail(TAUT_ERR_ARG, "taut_op_create_premul_sum: %d is no type", (int)type);
	i = free_place(comm);
	if (i < 0)
		return fail(TAUT_ERR_NOMEM, "an operation");
	comm->premul[i].used = true;
	comm->premul[i].type = type;
	memcpy(comm->premul[i].scalar, scalar, size);
	*out = (enum taut_op)((int)TAUT_OP_USER + i);
	return TAUT_OK;
}

void taut_op_destroy(enum taut_op op, struct taut_comm *comm)
{
	int i = (int)op - (int)TAUT_OP_USER;

	if (comm && i >= 0 && i < comm->npremul)
		comm->premul[i].used = false;
}
