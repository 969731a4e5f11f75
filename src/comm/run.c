/* SPDX-License-Identifier: Apache-2.0 */
/* From calls to tasks. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"

static const unsigned char barrier_in = 0;

/* Memory of @comm that grows as needed. */
static unsigned char *grow(unsigned char **p, size_t *have, size_t want)
{
	if (*have >= want)
		return *p;
	mem_free(*p);
	*p = mem_aligned(4096, want);
	*have = *p ? want : 0;
	if (!*p)
		fail(TAUT_ERR_NOMEM, "%zu bytes of working memory for a collective", want);
	return *p;
}

/* --- one collective --- */
/* A call while it is made ready and until it is done. */
struct running {
	struct op *op;
	struct exec_task *task;
	unsigned char *scratch, *temp; /* of a call in a group; else the communicator's */
	bool in_group, local;
	bool over; /* its communicator has failed in this group */
};

static size_t blocks_len(const struct exec_layout *l, int blocks)
{
	size_t n = 0;

	if (!l->counts)
		return l->block * (size_t)blocks;
	for (int b = 0; b < blocks; b++)
		if (l->counts[b] && l->displs[b] + l->counts[b] > n)
			n = l->displs[b] + l->counts[b];
	return n;
}

static void fill_layouts(struct exec_call *call, const struct op *op)
{
	call->in_layout = (struct exec_layout){ op->count, op->in_counts, op->in_displs };
	call->out_layout = (struct exec_layout){ op->count, op->out_counts, op->out_displs };
}

static unsigned char *take_temp(struct running *r, size_t len)
{
	struct taut_comm *comm = r->op->comm;

	if (!r->in_group)
		return grow(&comm->temp, &comm->temp_len, len);
	r->temp = mem_aligned(4096, len);
	if (!r->temp)
		fail(TAUT_ERR_NOMEM, "%zu bytes of working memory for a collective", len);
	return r->temp;
}

/* This rank's input, multiplied if the operation wants it. */
static enum taut_status scaled_input(struct running *r, struct exec_call *call)
{
	size_t n = blocks_len(&call->in_layout, sched_coll_blocks(r->op->coll, false, r->op->comm->size));
	unsigned char *temp;

	if (!r->op->scaled || !n)
		return TAUT_OK;
	temp = take_temp(r, n * call->elem);
	if (!temp)
		return TAUT_ERR_NOMEM;
	reduce_scale(temp, call->in, r->op->scalar, n, r->op->type);
	call->in = temp;
	return TAUT_OK;
}

/* An all-to-all in place would overwrite what others have yet to read: it reads a copy. */
static enum taut_status separate_input(struct running *r, struct exec_call *call)
{
	struct op *op = r->op;
	size_t len = op->count * (size_t)op->comm->size * call->elem;
	unsigned char *temp;

	if (op->coll != COLL_ALL_TO_ALL || op->vectors || op->in != op->out || !len)
		return TAUT_OK;
	temp = take_temp(r, len);
	if (!temp)
		return TAUT_ERR_NOMEM;
	memcpy(temp, op->in, len);
	op->in = call->in = temp;
	return TAUT_OK;
}

static enum taut_op plain_op(const struct op *op)
{
	return op->op == TAUT_AVG || op->op >= TAUT_OP_USER ? TAUT_SUM : op->op;
}

static void own_block(const struct exec_layout *l, int rank, int blocks, size_t *at, size_t *n)
{
	int b = blocks > 1 ? rank : 0;

	*n = l->counts ? l->counts[b] : l->block;
	*at = l->counts ? l->displs[b] : (size_t)b * l->block;
}

/* A group of one, whatever the collective: the input is the output. */
static void run_alone(const struct op *op, const struct exec_call *call)
{
	size_t from, to, n, m;

	if (op->coll == COLL_BARRIER)
		return;
	own_block(&call->in_layout, 0, 1, &from, &n);
	own_block(&call->out_layout, 0, 1, &to, &m);
	if (m < n)
		n = m;
	if (n && call->out + to * call->elem != call->in + from * call->elem)
		memmove(call->out + to * call->elem, call->in + from * call->elem, n * call->elem);
}

/* An integer average is a sum until here. */
static void finish_average(const struct op *op, const struct exec_call *call)
{
	size_t at, n;

	if (op->kind != OP_COLL || op->op != TAUT_AVG || !sched_coll_reduces(op->coll) || op->coll == COLL_BARRIER)
		return;
	if (op->scaled || (op->coll == COLL_REDUCE && op->comm->rank != op->root))
		return;
	own_block(&call->out_layout, 0, 1, &at, &n);
	reduce_divide(call->out + at * call->elem, op->comm->size, n, op->type);
}

static enum taut_status set_scratch(struct running *r, struct exec_call *call)
{
	struct taut_comm *comm = r->op->comm;
	size_t len = call->plan->sched->scratch_chunks ? exec_scratch_bytes(call) : 0;

	if (!len)
		return TAUT_OK;
	if (!r->in_group) {
		call->scratch = grow(&comm->scratch, &comm->scratch_len, len);
		return call->scratch ? TAUT_OK : TAUT_ERR_NOMEM;
	}
	r->scratch = mem_aligned(4096, len);
	call->scratch = r->scratch;
	return r->scratch ? TAUT_OK : fail(TAUT_ERR_NOMEM, "%zu bytes of working memory for a collective", len);
}

/* Where all ranks copy at once, one copy is better than two. A broadcast's root would wait for its
 * readers instead of running ahead through the slots. */
static bool goes_by_ref(enum sched_coll coll)
{
	return coll == COLL_ALL_GATHER || coll == COLL_ALL_TO_ALL || coll == COLL_GATHER || coll == COLL_SCATTER;
}

static enum taut_status prepare_coll(struct running *r)
{
	struct op *op = r->op;
	struct taut_comm *comm = op->comm;
	struct exec_call call = { .in = op->in, .out = op->out, .elem = taut_type_size(op->type) };
	bool mapped = false;
	enum taut_status st;

	call_record(comm, op, &call.sig);
	fill_layouts(&call, op);
	if (sched_coll_reduces(op->coll) || op->coll == COLL_BARRIER)
		call.red = reduce_find(op->type, plain_op(op));
	st = op->coll == COLL_BARRIER ? TAUT_OK : scaled_input(r, &call);
	if (st)
		return st;
	if (comm->size == 1) {
		run_alone(op, &call);
		finish_average(op, &call);
		r->local = true;
		return TAUT_OK;
	}
	st = separate_input(r, &call);
	if (!st && comm->segments && !op->vectors)
		st = mem_agree(&mapped, comm, op, call.sig, r->in_group);
	if (!st)
		st = plan_get(&call.plan, comm, op, mapped);
	if (!st)
		st = set_scratch(r, &call);
	if (st)
		return st;
	call.by_ref = goes_by_ref(op->coll);
	/* In place, the lines are in the caches already: they were read. */
	call.nt = op->in != op->out && op_bytes(op) >= comm->nt_bytes;
	call.peer_in = comm->peer_in;
	call.peer_out = comm->peer_out;
	comm->last_plan = call.plan;
	exec_coll_init(r->task, &comm->net, &call);
	return TAUT_OK;
}

static enum taut_status prepare_msg(struct running *r)
{
	struct op *op = r->op;
	struct taut_comm *comm = op->comm;
	bool send = op->kind == OP_SEND;
	struct exec_msg msg = { .buf = send ? (void *)(uintptr_t)op->in : op->out,
				.len = op->count * taut_type_size(op->type),
				.tag = op->tag };

	if (op->root != comm->rank) {
		msg.link = comm_link(comm, op->root, P2P_CHANNEL);
		if (!msg.link)
			return TAUT_ERR_NOMEM;
	}
	if (!send || op->root == comm->rank) {
		msg.inbox = comm_inbox(comm, op->root);
		if (!msg.inbox)
			return TAUT_ERR_NOMEM;
	}
	(send ? exec_send_init : exec_recv_init)(r->task, &comm->net, &msg);
	return TAUT_OK;
}

static enum taut_status prepare(struct running *r)
{
	enum taut_status st = comm_check(r->op->comm);

	if (st)
		return st;
	return r->op->kind == OP_COLL ? prepare_coll(r) : prepare_msg(r);
}

/* One call alone: no allocation. */
static enum taut_status run_one(struct op *op)
{
	struct taut_comm *comm = op->comm;
	struct running r = { .op = op, .task = comm->task };
	struct exec_net *failed;
	enum taut_status st;

	comm_lock(comm, op->ticket);
	st = prepare(&r);
	if (st) {
		st = comm_failed(comm, st);
	} else if (!r.local) {
		st = exec_run(&comm->task, 1, &failed);
		if (st)
			st = comm_broken(comm, st);
		else if (op->kind == OP_COLL)
			finish_average(op, &comm->task->call);
	}
	comm_unlock(comm);
	return st;
}

/* --- groups --- */
/* The first failure of a communicator. */
struct verdict {
	struct taut_comm *comm;
	enum taut_status st;
};

/* What of @r is of @comm will not run on. */
static void judge(struct verdict *v, struct running *r, size_t n, struct taut_comm *comm, enum taut_status st)
{
	if (!v->st)
		*v = (struct verdict){ comm, st };
	for (size_t i = 0; i < n; i++)
		r[i].over |= r[i].op->comm == comm;
}

/* Has it a turn among the collectives of its communicator? One without elements is done from the start: nothing may
 * wait for it, as that would not be a wait for those before it. */
static bool has_turn(const struct running *r)
{
	return r->op->kind == OP_COLL && !r->local && !r->task->done;
}

/* Collectives of one communicator run one after the other; all else at once. */
static void chain(struct running *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!has_turn(&r[i]))
			continue;
		for (size_t k = i; k-- > 0;) {
			if (has_turn(&r[k]) && r[k].op->comm == r[i].op->comm) {
				r[i].task->after = r[k].task;
				break;
			}
		}
	}
}

/* Of the calls of a communicator that fails here, none will run: those of others may. Arguments that are wrong leave
 * all communicators as they are. */
static enum taut_status prepare_all(struct running *r, struct op *ops, size_t n, size_t *ready, struct verdict *v)
{
	for (*ready = 0; *ready < n; ++*ready) {
		struct running *x = &r[*ready];
		enum taut_status st;

		x->op = &ops[*ready];
		x->in_group = true;
		x->task = mem_calloc(1, sizeof(*x->task));
		st = x->task ? prepare(x) : fail(TAUT_ERR_NOMEM, "a call in a group");
		if (st)
			st = comm_failed(x->op->comm, st);
		if (st && !atomic_load(&x->op->comm->error))
			return st;
		if (st)
			judge(v, r, *ready + 1, x->op->comm, st);
	}
	return TAUT_OK;
}

size_t op_first(const struct op *ops, size_t i)
{
	size_t k = 0;

	while (ops[k].comm != ops[i].comm)
		k++;
	return k;
}

static void lock_all(struct op *ops, size_t n, bool lock)
{
	for (size_t i = 0; i < n; i++) {
		if (op_first(ops, i) < i)
			continue;
		if (lock)
			comm_lock(ops[i].comm, ops[i].ticket);
		else
			comm_unlock(ops[i].comm);
	}
}

/* Those that are to run; their number. */
static size_t list_tasks(struct exec_task **tasks, const struct running *r, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (!r[i].local && !r[i].over)
			tasks[k++] = r[i].task;
	return k;
}

static enum taut_status run_tasks(struct running *r, size_t n, struct verdict *v)
{
	struct exec_task **tasks = mem_calloc(n, sizeof(*tasks));
	enum taut_status st;

	if (!tasks)
		return fail(TAUT_ERR_NOMEM, "a group of %zu calls", n);
	chain(r, n);
	do {
		struct exec_net *failed;

		st = exec_run(tasks, list_tasks(tasks, r, n), &failed);
		if (st)
			judge(v, r, n, failed->ctx, comm_broken(failed->ctx, st));
	} while (st);
	mem_free(tasks);
	return TAUT_OK;
}

static void end_running(struct running *r, bool ok)
{
	bool begun = r->task && r->task->net;

	if (ok && begun && !r->local && r->task->done)
		finish_average(r->op, &r->task->call);
	if (begun && r->task->kind == EXEC_RECV)
		exec_recv_cleanup(r->task);
	if (r->task)
		exec_task_cleanup(r->task);
	mem_free(r->task);
	mem_free(r->scratch);
	mem_free(r->temp);
}

/* The first failure, with the name of its communicator where there are several. */
static enum taut_status pass_verdict(const struct verdict *v, const struct op *ops, size_t n)
{
	size_t i = 0;

	if (!v->st)
		return TAUT_OK;
	while (i < n && ops[i].comm == v->comm)
		i++;
	comm_check(v->comm);
	return i == n ? v->st : fail_quiet(v->st, "group \"%s\": %s", v->comm->name, taut_error_message());
}

static enum taut_status run_group(struct op *ops, size_t n)
{
	struct running *r = mem_calloc(n, sizeof(*r));
	struct verdict v = { .comm = NULL };
	size_t ready = 0;
	enum taut_status st;

	lock_all(ops, n, true);
	st = r ? prepare_all(r, ops, n, &ready, &v) : fail(TAUT_ERR_NOMEM, "a group of %zu calls", n);
	if (!st)
		st = run_tasks(r, n, &v);
	for (size_t i = 0; i < ready; i++)
		end_running(&r[i], !st);
	for (size_t i = 0; st && i < n; i++)
		st = comm_failed(ops[i].comm, st);
	lock_all(ops, n, false);
	mem_free(r);
	return st ? st : pass_verdict(&v, ops, n);
}

enum taut_status ops_run(struct op *ops, size_t n)
{
	return n == 1 ? run_one(ops) : run_group(ops, n);
}

/* --- submitting --- */
static size_t *copy_counts(size_t **at, const size_t *from, int n)
{
	size_t *to = *at;

	if (!from)
		return NULL;
	memcpy(to, from, (size_t)n * sizeof(*to));
	*at += n;
	return to;
}

enum taut_status op_own(struct op *op)
{
	int n = op->comm->size;
	size_t *at;

	if (!op->in_counts && !op->out_counts)
		return TAUT_OK;
	op->owned = mem_calloc(4 * (size_t)n, sizeof(size_t));
	if (!op->owned)
		return fail(TAUT_ERR_NOMEM, "counts for %d ranks", n);
	at = op->owned;
	op->in_counts = copy_counts(&at, op->in_counts, n);
	op->in_displs = copy_counts(&at, op->in_displs, n);
	op->out_counts = copy_counts(&at, op->out_counts, n);
	op->out_displs = copy_counts(&at, op->out_displs, n);
	return TAUT_OK;
}

void op_release(struct op *op)
{
	mem_free(op->owned);
	op->owned = NULL;
}

enum taut_status op_refuse(enum taut_status st)
{
	if (group_open())
		group_spoil(st);
	return st;
}

enum taut_status op_submit(struct op *op, void *stream)
{
	enum taut_status st;

	if (op->kind == OP_COLL && op->coll == COLL_BARRIER) {
		op->in = &barrier_in;
		op->out = &op->comm->barrier_out;
		op->count = 1;
		op->type = TAUT_UINT8;
		op->op = TAUT_MAX;
	}
	op->gpu = op->comm->gpu && comm_gpu_call(op);
	if (group_open())
		return group_add(op, stream);
	if (op->gpu) {
		st = comm_gpu_launch(op, stream);
		return st || stream ? st : comm_gpu_wait(op->comm);
	}
	if (!stream) {
		op->ticket = comm_ticket(op->comm);
		return ops_run(op, 1);
	}
	st = stream_check(stream);
	if (st)
		return st;
	atomic_store_explicit(&op->comm->streams_used, true, memory_order_relaxed);
	st = op_own(op);
	if (st)
		return st;
	op->ticket = comm_ticket(op->comm); /* from here on it runs, or the communicator ends */
	return stream_add(stream, op, 1);
}
