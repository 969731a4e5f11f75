/* SPDX-License-Identifier: Apache-2.0 */
/* The public sends and receives. */
#include "comm/comm.h"

static enum taut_status check(const char *call, const struct op *op, const void *buf)
{
	if (!op->comm)
		return fail(TAUT_ERR_ARG, "%s: comm is NULL", call);
	if (!taut_type_size(op->type))
		return fail(TAUT_ERR_ARG, "%s: %d is no type", call, (int)op->type);
	if (op->root < 0 || op->root >= op->comm->size)
		return fail(TAUT_ERR_ARG, "%s: peer is %d, wanted: 0 to %d", call, op->root, op->comm->size - 1);
	if (op->tag < 0 && !(op->kind == OP_RECV && op->tag == TAUT_ANY_TAG))
		return fail(TAUT_ERR_ARG, "%s: tag is %d, wanted: 0 or more", call, op->tag);
	if (op->count > SIZE_MAX / 4 / taut_type_size(op->type))
		return fail(TAUT_ERR_ARG, "%s: count %zu is more than memory can hold", call, op->count);
	if (op->count && !buf)
		return fail(TAUT_ERR_ARG, "%s: buf is NULL, count is %zu", call, op->count);
	return TAUT_OK;
}

enum taut_status taut_send(const void *buf, size_t count, enum taut_type type, int peer, int tag,
			   struct taut_comm *comm, void *stream)
{
	struct op op = {
		.kind = OP_SEND, .in = buf, .count = count, .type = type, .root = peer, .tag = tag, .comm = comm
	};
	enum taut_status st = check("taut_send", &op, buf);

	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_recv(void *buf, size_t count, enum taut_type type, int peer, int tag, struct taut_comm *comm,
			   void *stream)
{
	struct op op = {
		.kind = OP_RECV, .out = buf, .count = count, .type = type, .root = peer, .tag = tag, .comm = comm
	};
	enum taut_status st = check("taut_recv", &op, buf);

	return st ? op_refuse(st) : op_submit(&op, stream);
}

enum taut_status taut_sendrecv(const void *send_buf, size_t send_count, int dst, int send_tag, void *recv_buf,
			       size_t recv_count, int src, int recv_tag, enum taut_type type, struct taut_comm *comm,
			       void *stream)
{
	enum taut_status st, end;

	taut_group_start();
	st = taut_send(send_buf, send_count, type, dst, send_tag, comm, stream);
	if (!st)
		st = taut_recv(recv_buf, recv_count, type, src, recv_tag, comm, stream);
	end = taut_group_end();
	return st ? st : end;
}
