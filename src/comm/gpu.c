/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on GPU memory: told apart by their pointers, launched on the caller's CUDA stream. */
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cuda/gpu.h"
#include "cuda/share.h"

enum { DEVICE_AUTO, DEVICE_HOST }; /* as TAUT_DEVICE names them */

/* --- when the ranks meet --- */
static bool all_on_one_machine(const struct taut_comm *comm)
{
	return boot_nodes(comm->boot) == 1;
}

static enum taut_status connect(struct taut_comm *comm, const struct gpu_card *mine)
{
	struct gpu_card *cards = mem_calloc((size_t)comm->size, sizeof(*cards));
	enum taut_status st = cards ? TAUT_OK : fail(TAUT_ERR_NOMEM, "the GPUs of %d ranks", comm->size);

	comm->gpu_table_len = share_table_bytes(comm->size);
	if (!st)
		st = boot_all_gather(comm->boot, mine, sizeof(*mine), cards);
	if (!st && !comm->gpu)
		st = fail(TAUT_ERR_ARG,
			  "other ranks have a current CUDA context and rank %d has none: make a GPU "
			  "current on every rank before the communicator is created, or on none, or "
			  "set TAUT_DEVICE=host",
			  comm->rank);
	if (!st && !all_on_one_machine(comm))
		st = fail(TAUT_ERR_UNSUPPORTED, "GPU memory between machines is not possible yet: set TAUT_DEVICE=host "
						"to use this group for host memory");
	if (!st)
		st = comm_share(comm, &comm->gpu_table, comm->gpu_table_len);
	if (!st)
		st = gpu_connect(comm->gpu, cards, comm->gpu_table);
	if (!st)
		log_info(LOG_COMM, "group \"%s\" rank %d: GPU %s, %zu MiB of its memory", comm->name, comm->rank,
			 mine->bus, gpu_bytes(comm->gpu) >> 20);
	mem_free(cards);
	return st;
}

enum taut_status comm_gpu_open(struct taut_comm *comm, struct gpu_card *card)
{
	memset(card, 0, sizeof(*card));
	return comm->cfg.device == DEVICE_HOST ? TAUT_OK : gpu_open(&comm->gpu, card, comm->rank, comm->size);
}

enum taut_status comm_gpu_connect(struct taut_comm *comm, const struct gpu_card *card, bool any)
{
	if (!any)
		return TAUT_OK;
	return comm->size > 1 ? connect(comm, card) : gpu_connect(comm->gpu, card, NULL);
}

/* --- calls --- */
bool comm_gpu_call(const struct op *op)
{
	return op->comm->gpu && (gpu_memory(op->in) || gpu_memory(op->out));
}

static enum taut_status check_kind(const struct op *op)
{
	if (op->kind != OP_COLL)
		return fail(TAUT_ERR_UNSUPPORTED, "send and receive of GPU memory are not possible yet");
	if (op->vectors)
		return fail(TAUT_ERR_UNSUPPORTED,
			    "collectives of GPU memory with a count for every rank are not possible yet");
	if ((op->in && !gpu_memory(op->in)) || (op->out && !gpu_memory(op->out)))
		return fail(TAUT_ERR_ARG,
			    "in is %s memory and out is %s memory: both must be of the GPU, or of the host",
			    gpu_memory(op->in) ? "GPU" : "host", gpu_memory(op->out) ? "GPU" : "host");
	return TAUT_OK;
}

/* A kernel has met a call of a peer that is another one: the ranks say who called what. */
static enum taut_status check_kernels(struct taut_comm *comm)
{
	int peer;

	if (!gpu_check(comm->gpu, &peer))
		return TAUT_OK;
	comm_stalled(comm, true);
	return comm_failed(comm, fail(TAUT_ERR_MISMATCH, "rank %d made another call than rank %d", peer, comm->rank));
}

static enum taut_status launch(struct op *op, void *stream)
{
	struct gpu_request r = { .coll = op->coll,
				 .in = op->in,
				 .out = op->out,
				 .count = op->count,
				 .type = op->type,
				 .op = op->op,
				 .root = op->root,
				 .scaled = op->scaled };

	memcpy(r.scalar, op->scalar, sizeof(r.scalar));
	call_record(op->comm, op, &r.sig);
	return gpu_collective(op->comm->gpu, &r, stream);
}

enum taut_status comm_gpu_launch(struct op *op, void *stream)
{
	struct taut_comm *comm = op->comm;
	enum taut_status st = check_kind(op);

	if (st)
		return st;
	comm_lock(comm, comm_ticket(comm));
	st = comm_check(comm);
	if (!st)
		st = check_kernels(comm);
	if (!st)
		st = launch(op, stream);
	comm_unlock(comm);
	return st;
}

enum taut_status comm_gpu_wait(struct taut_comm *comm)
{
	enum taut_status st = gpu_wait(comm->gpu, NULL);

	if (!st)
		st = comm_check(comm);
	return st ? st : check_kernels(comm);
}

void comm_gpu_stop(struct taut_comm *comm)
{
	if (comm->gpu)
		gpu_stop(comm->gpu);
}

void comm_gpu_close(struct taut_comm *comm)
{
	gpu_close(comm->gpu);
	comm->gpu = NULL;
	if (comm->gpu_table)
		munmap(comm->gpu_table, comm->gpu_table_len);
	comm->gpu_table = NULL;
}
