/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/exec.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"

#define YIELD_NS 200000u    /* after spinning: this long with yields, then sleep */
#define SLEEP_NS 20000000u  /* a sleep that nobody ended looks again after this */
#define NAP_NS 20000u	    /* where not everything that may come rings the bell: naps from this ... */
#define NAP_MAX_NS 1000000u /* ... to this */
#define MISMATCH_NS 8000000000u

/* Waiting of one exec_run(). */
struct waiter {
	uint64_t since, stall_at; /* 0: something moved last time */
	uint32_t rounds, armed_at;
	bool armed;
	uint64_t nap_ns;
};

/* --- one task --- */
static void next_step(const struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	if (c->run < s->nchunks)
		return;
	c->run = 0;
	if (++c->pc < t->call.plan->sched->nsteps)
		return;
	c->pc = 0;
	c->slice++;
}

static enum exec_step local_reduce(struct exec_task *t, struct exec_chan *c, const struct sched_step *s)
{
	struct exec_span a = exec_span_of(t, c, s->src, c->run), b = exec_span_of(t, c, s->src2, c->run);
	struct exec_span dst = exec_span_of(t, c, s->dst, c->run);

	if (t->npending && !exec_may_write(t, dst.p, dst.len))
		return EXEC_BLOCKED;
	if (dst.len)
		t->call.red->two(dst.p, a.p, b.p, dst.len / t->call.elem);
	c->run++;
	return EXEC_MOVED;
}

static enum exec_step advance_chan(struct exec_task *t, struct exec_chan *c)
{
	const struct sched *sched = t->call.plan->sched;
	bool moved = false;

	while (c->slice < c->nslices) {
		const struct sched_step *s = &sched->steps[c->pc];
		enum exec_step r;

		if (s->op == STEP_MSG)
			r = exec_msg_piece(t, c, s);
		else if (s->op == STEP_REDUCE)
			r = local_reduce(t, c, s);
		else
			r = exec_mapped_piece(t, c, s);
		if (r != EXEC_MOVED)
			return r == EXEC_BLOCKED && moved ? EXEC_MOVED : r;
		moved = true;
		next_step(t, c, s);
	}
	t->nopen--;
	return EXEC_MOVED;
}

/* Is nothing left that only polls would send? This rank may not poll again for long, and
 * values composed in slots and copies of small messages may still wait for room in a socket. */
static bool all_sent(const struct exec_task *t)
{
	const struct exec_plan *p = t->call.plan;
	size_t n = t->net->polls ? (size_t)p->channels * p->sched->npeers : 0;

	for (size_t i = 0; i < n; i++) {
		struct wire_conn *tx = p->links[i]->tx;

		if (tx && tx->ops->send_idle && !tx->ops->send_idle(tx))
			return false;
	}
	return true;
}

static enum exec_step advance_coll(struct exec_task *t)
{
	bool moved = false;

	for (int i = 0; i < t->call.plan->channels && t->nopen; i++) {
		struct exec_chan *c = &t->chan[i];
		enum exec_step r;

		if (c->slice >= c->nslices)
			continue;
		r = advance_chan(t, c);
		if (r == EXEC_FAILED || r == EXEC_DIFFERS)
			return r;
		moved |= r == EXEC_MOVED;
	}
	/* The caller may have its buffers back when no send reads them any more. */
	if (!t->nopen && exec_may_write(t, NULL, 0) && !t->npending && all_sent(t)) {
		t->done = true;
		return EXEC_MOVED;
	}
	return moved ? EXEC_MOVED : EXEC_BLOCKED;
}

static enum exec_step advance(struct exec_task *t, enum taut_status *st)
{
	return t->kind == EXEC_COLL ? advance_coll(t) : exec_p2p(t, st);
}

void exec_task_cleanup(struct exec_task *t)
{
	for (int i = 0; i < EXEC_MAX_CHANNELS; i++)
		mem_free(t->chan[i].tmp);
}

/* --- waiting --- */
static bool poll_wires(struct exec_task *const *tasks, size_t n)
{
	const struct exec_net *last = NULL;
	bool moved = false;

	for (size_t i = 0; i < n; i++) {
		const struct exec_net *net = tasks[i]->net;

		if (net == last || !net->polls)
			continue;
		last = net;
		for (size_t k = 0; k < net->nlinks; k++) {
			struct exec_link *l = net->links[k];

			if (l->tx && l->tx->ops->poll)
				moved |= l->tx->ops->poll(l->tx);
			if (l->rx && l->rx->ops->poll)
				moved |= l->rx->ops->poll(l->rx);
		}
	}
	return moved;
}

static int add_fd(struct pollfd *fds, int n, int most, const struct wire_conn *c)
{
	short events = 0;
	int fd = c && c->ops->wait_fd ? c->ops->wait_fd(c, &events) : -1;

	if (fd < 0 || !events || n == most)
		return n;
	fds[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

static void sleep_on_sockets(const struct exec_net *net, uint64_t ns)
{
	struct timespec t = { .tv_nsec = (long)ns };
	struct pollfd fds[64];
	int n = 0;

	for (size_t i = 0; i < net->nlinks; i++) {
		n = add_fd(fds, n, 64, net->links[i]->tx);
		n = add_fd(fds, n, 64, net->links[i]->rx);
	}
	ppoll(fds, (nfds_t)n, &t, NULL);
}

/* Does a task wait for what rings no bell of @net: sockets, a barrier of mapped ranks, the
 * shared memory of another communicator? */
static bool rings_all(struct exec_task *const *tasks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (tasks[i]->net != tasks[0]->net || tasks[i]->net->polls ||
		    (tasks[i]->kind == EXEC_COLL && tasks[i]->call.plan->sched->mapped))
			return false;
	return true;
}

static void sleep_now(struct waiter *w, struct exec_task *const *tasks, size_t n)
{
	struct exec_net *net = tasks[0]->net;

	if (!rings_all(tasks, n)) {
		/* Short at first: a peer's shared memory may have the answer at any time. */
		w->nap_ns = w->nap_ns ? w->nap_ns * 2 : NAP_NS;
		if (w->nap_ns > NAP_MAX_NS)
			w->nap_ns = NAP_MAX_NS;
		sleep_on_sockets(net, w->nap_ns);
		return;
	}
	if (!w->armed) {
		w->armed_at = bell_arm(net->bell);
		w->armed = true;
		return; /* one more look at the work before sleeping */
	}
	bell_sleep(net->bell, w->armed_at, SLEEP_NS);
	bell_disarm(net->bell);
	w->armed = false;
}

static void wait_ends(struct waiter *w, struct exec_task *const *tasks)
{
	if (w->armed)
		bell_disarm(tasks[0]->net->bell);
	*w = (struct waiter){ 0 };
}

/* Of collectives alone: only they need all ranks. */
/* One of the peers that messages of @net wait for; -1: none waits. */
static int quiet_peer(struct exec_task *const *tasks, size_t n, struct exec_net *net)
{
	uint32_t waiting = 0, turn;

	for (size_t i = 0; i < n; i++)
		waiting += !tasks[i]->done && tasks[i]->net == net && tasks[i]->kind != EXEC_COLL && tasks[i]->msg.link;
	if (!waiting)
		return -1;
	turn = net->asked++ % waiting;
	for (size_t i = 0; i < n; i++)
		if (!tasks[i]->done && tasks[i]->net == net && tasks[i]->kind != EXEC_COLL && tasks[i]->msg.link &&
		    !turn--)
			return tasks[i]->msg.link->peer;
	return -1;
}

static void ask_quiet(struct exec_task *const *tasks, size_t n)
{
	const struct exec_net *asked = NULL;

	for (size_t i = 0; i < n; i++) {
		struct exec_net *net = tasks[i]->net;
		int peer = net == asked || !net->quiet ? -1 : quiet_peer(tasks, n, net);

		if (peer >= 0)
			net->quiet(net->ctx, peer);
		asked = net;
	}
}

static void tell_stalled(struct exec_task *const *tasks, size_t n)
{
	const struct exec_net *told = NULL;

	for (size_t i = 0; i < n; i++) {
		struct exec_net *net = tasks[i]->net;

		if (tasks[i]->done || tasks[i]->kind != EXEC_COLL || net == told)
			continue;
		net->stalled(net->ctx, false);
		told = net;
	}
}

static void wait_more(struct waiter *w, struct exec_task *const *tasks, size_t n)
{
	const struct exec_net *net = tasks[0]->net;
	uint64_t now;

	/* The clock costs more than a look at the work: read it seldom. */
	if (w->since && ++w->rounds % 32 && net->spin_ns > 10000) {
		cpu_relax();
		return;
	}
	now = now_ns();
	if (!w->since) {
		w->since = now;
		w->stall_at = now + net->stall_ms * 1000000ull;
	}
	if (now >= w->stall_at) {
		tell_stalled(tasks, n);
		ask_quiet(tasks, n);
		w->stall_at = now + net->stall_ms * 1000000ull;
	}
	if (now - w->since < net->spin_ns)
		cpu_relax();
	else if (now - w->since < net->spin_ns + YIELD_NS)
		sched_yield();
	else
		sleep_now(w, tasks, n);
}

/* --- errors --- */
static enum taut_status group_error(struct exec_task *const *tasks, size_t n, struct exec_net **failed)
{
	for (size_t i = 0; i < n; i++) {
		/* acquire: the sentence was written before the status */
		int st = tasks[i]->done ? 0 : atomic_load_explicit(tasks[i]->net->error, memory_order_acquire);

		*failed = tasks[i]->net;
		if (st)
			return (enum taut_status)st;
	}
	return TAUT_OK;
}

/* Another call's message has come: all ranks are asked, and the answer is the error. */
static enum taut_status differs(struct exec_task *t)
{
	uint64_t until = now_ns() + MISMATCH_NS;
	struct exec_net *net;
	enum taut_status st;

	do {
		t->net->stalled(t->net->ctx, true);
		sleep_ms(1);
		st = group_error(&t, 1, &net);
	} while (!st && now_ns() < until);
	return st ? st : fail(TAUT_ERR_MISMATCH, "a message of another call has come, and no rank says which");
}

static enum taut_status step_all(struct exec_task *const *tasks, size_t n, size_t *left, bool *moved,
				 struct exec_net **failed)
{
	for (size_t i = 0; i < n; i++) {
		enum taut_status st = TAUT_ERR_NET;
		enum exec_step r;

		if (tasks[i]->done || (tasks[i]->after && !tasks[i]->after->done))
			continue;
		*failed = tasks[i]->net;
		r = advance(tasks[i], &st);
		if (r == EXEC_FAILED) /* what failed has set the sentence */
			return status_last() ? status_last() : st;
		if (r == EXEC_DIFFERS)
			return differs(tasks[i]);
		*moved |= r == EXEC_MOVED;
		*left -= tasks[i]->done;
	}
	return TAUT_OK;
}

static size_t count_open(struct exec_task *const *tasks, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += !tasks[i]->done;
	return left;
}

enum taut_status exec_run(struct exec_task *const *tasks, size_t n, struct exec_net **failed)
{
	struct waiter w = { 0 };
	size_t left = count_open(tasks, n);

	while (left) {
		bool moved = false;
		enum taut_status st = step_all(tasks, n, &left, &moved, failed);

		if (!st && !left)
			break;
		if (!moved)
			moved = poll_wires(tasks, n);
		if (!st)
			st = group_error(tasks, n, failed);
		if (st) {
			wait_ends(&w, tasks);
			return st;
		}
		if (moved)
			wait_ends(&w, tasks);
		else
			wait_more(&w, tasks, n);
	}
	wait_ends(&w, tasks);
	return TAUT_OK;
}
