/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, messages, operations. Types and built-in operations have the same numbers on both sides; an operation
 * that was made has taut's number, which is above NCCL's built-in ones. */
#include <string.h>

#include "comm/comm.h"
#include "cuda/gpu.h"
#include "nccl/state.h"

_Static_assert((int)ncclFloat8e5m2 == (int)TAUT_FLOAT8_E5M2 && (int)ncclFloat16 == (int)TAUT_FLOAT16, "types");
_Static_assert((int)ncclAvg == (int)TAUT_AVG && (int)ncclMax == (int)TAUT_MAX, "operations");

enum { NO_ROOT = -1 };

struct call {
	const char *name;
	struct ncclComm *comm;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root; /* or peer; NO_ROOT: has none */
	const char *root_name;
};

static ncclResult_t check(const struct call *c)
{
	if (atomic_load(&c->comm->revoked))
		return nccl_fail(c->comm, ncclInvalidUsage,
				 "%s: the communicator was revoked: make a new one, by ncclCommShrink() or "
				 "ncclCommSplit() from it",
				 c->name);
	if ((unsigned)c->type >= ncclNumTypes)
		return nccl_fail(c->comm, ncclInvalidArgument, "%s: datatype is %d, wanted: 0 to %d", c->name,
				 (int)c->type, ncclNumTypes - 1);
	if ((int)c->op < 0 || (c->op >= ncclNumOps && (int)c->op < (int)TAUT_OP_USER))
		return nccl_fail(c->comm, ncclInvalidArgument,
				 "%s: op is %d, wanted: 0 to %d, or one of ncclRedOpCreatePreMulSum()", c->name,
				 (int)c->op, ncclNumOps - 1);
	if (c->root_name && (c->root < 0 || c->root >= c->comm->nranks))
		return nccl_fail(c->comm, ncclInvalidArgument, "%s: %s is %d, wanted: 0 to %d", c->name, c->root_name,
				 c->root, c->comm->nranks - 1);
	return ncclSuccess;
}

/* On success the communicator is held until end(). */
static ncclResult_t begin(const struct call *c)
{
	ncclResult_t r = nccl_hold_ready(c->comm, c->name);

	if (!r) {
		r = check(c);
		if (r)
			nccl_drop(c->comm);
	}
	if (r)
		nccl_group_spoil(r);
	return r;
}

static ncclResult_t end(struct ncclComm *comm, enum taut_status st)
{
	ncclResult_t r = nccl_status(comm, st);

	if (r)
		nccl_group_spoil(r);
	if (!r && nccl_group_open())
		nccl_group_keep(comm);
	else
		nccl_drop(comm);
	return r;
}

/* NCCL's NULL stream is CUDA's default stream, whose own handle is 1: taut would wait for a NULL one. On
 * host memory there is no stream. */
static void *stream_of(const struct ncclComm *comm, cudaStream_t stream)
{
	if (!comm->taut->gpu)
		return NULL;
	return stream ? (void *)stream : (void *)(uintptr_t)1;
}

#define TYPE ((enum taut_type)datatype)
#define OP ((enum taut_op)op)

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclAllReduce", comm, datatype, op, NO_ROOT, NULL };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm, taut_all_reduce(sendbuff, recvbuff, count, TYPE, OP, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclAllReduce);

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			   ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclBroadcast", comm, datatype, ncclSum, root, "root" };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm,
		       taut_broadcast(sendbuff, recvbuff, count, TYPE, root, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclBroadcast);

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	const struct call c = { "ncclBcast", comm, datatype, ncclSum, root, "root" };
	ncclResult_t r = begin(&c);

	return r ? r : end(comm, taut_broadcast(buff, buff, count, TYPE, root, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclBcast);

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
			int root, ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclReduce", comm, datatype, op, root, "root" };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm,
		       taut_reduce(sendbuff, recvbuff, count, TYPE, OP, root, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclReduce);

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
			   ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclAllGather", comm, datatype, ncclSum, NO_ROOT, NULL };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm, taut_all_gather(sendbuff, recvbuff, sendcount, TYPE, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclAllGather);

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclReduceScatter", comm, datatype, op, NO_ROOT, NULL };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm, taut_reduce_scatter(sendbuff, recvbuff, recvcount, TYPE, OP, comm->taut,
						 stream_of(comm, stream)));
}
PROFILED(ncclReduceScatter);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
			  cudaStream_t stream)
{
	const struct call c = { "ncclAlltoAll", comm, datatype, ncclSum, NO_ROOT, NULL };
	ncclResult_t r = begin(&c);

	return r ? r : end(comm, taut_all_to_all(sendbuff, recvbuff, count, TYPE, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclAlltoAll);

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclGather", comm, datatype, ncclSum, root, "root" };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm, taut_gather(sendbuff, recvbuff, count, TYPE, root, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclGather);

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			 ncclComm_t comm, cudaStream_t stream)
{
	const struct call c = { "ncclScatter", comm, datatype, ncclSum, root, "root" };
	ncclResult_t r = begin(&c);

	return r ? r
		 : end(comm, taut_scatter(sendbuff, recvbuff, count, TYPE, root, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclScatter);

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	const struct call c = { "ncclSend", comm, datatype, ncclSum, peer, "peer" };
	ncclResult_t r = begin(&c);

	return r ? r : end(comm, taut_send(sendbuff, count, TYPE, peer, 0, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclSend);

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	const struct call c = { "ncclRecv", comm, datatype, ncclSum, peer, "peer" };
	ncclResult_t r = begin(&c);

	return r ? r : end(comm, taut_recv(recvbuff, count, TYPE, peer, 0, comm->taut, stream_of(comm, stream)));
}
PROFILED(ncclRecv);

/* --- operations --- */
static enum taut_status read_scalar(void *out, const void *scalar, ncclDataType_t type, const struct ncclComm *comm)
{
	size_t len = taut_type_size((enum taut_type)type);
	enum taut_status st;

	if (!comm->taut->gpu || !gpu_memory(scalar)) {
		memcpy(out, scalar, len);
		return TAUT_OK;
	}
	st = gpu_home_enter(&comm->home);
	if (!st) {
		st = gpu_mem_read(out, scalar, len);
		gpu_home_leave(&comm->home);
	}
	return st;
}

static ncclResult_t check_scalar(struct ncclComm *comm, const void *op, const void *scalar,
				 ncclScalarResidence_t residence)
{
	const char *name = "ncclRedOpCreatePreMulSum";

	if (!op || !scalar)
		return nccl_fail(comm, ncclInvalidArgument, "%s: %s is NULL", name, op ? "scalar" : "op");
	if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
		return nccl_fail(comm, ncclInvalidArgument,
				 "%s: residence is %d, wanted: ncclScalarDevice or ncclScalarHostImmediate", name,
				 (int)residence);
	return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	const struct call c = { "ncclRedOpCreatePreMulSum", comm, datatype, ncclSum, NO_ROOT, NULL };
	unsigned char value[8];
	enum taut_op made;
	enum taut_status st;
	ncclResult_t r = begin(&c);

	if (r)
		return r;
	r = check_scalar(comm, op, scalar, residence);
	if (!r) {
		st = read_scalar(value, scalar, datatype, comm);
		if (!st)
			st = taut_op_create_premul_sum(&made, value, TYPE, comm->taut);
		if (!st)
			*op = (ncclRedOp_t)(int)made;
		r = nccl_status(comm, st);
	}
	nccl_drop(comm);
	return r;
}
PROFILED(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	ncclResult_t r = nccl_hold_ready(comm, "ncclRedOpDestroy");

	if (r)
		return r;
	if ((int)op < ncclNumOps)
		r = nccl_fail(comm, ncclInvalidArgument, "ncclRedOpDestroy: op %d is NCCL's own", (int)op);
	else if (!userop_exists(comm->taut, (enum taut_op)(int)op))
		r = nccl_fail(comm, ncclInvalidArgument, "ncclRedOpDestroy: op %d is no operation of this communicator",
			      (int)op);
	else
		taut_op_destroy((enum taut_op)(int)op, comm->taut);
	nccl_drop(comm);
	return r;
}
PROFILED(ncclRedOpDestroy);
