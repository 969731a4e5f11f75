/* SPDX-License-Identifier: Apache-2.0 */
/* The executor over real connections, without the rest: ranks are threads, connected by
 * socket pairs; every algorithm, collective and wire, sizes around every limit. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "exec/exec.h"

#include <cmocka.h> /* after ours: it has a macro fail() */

#define MAX_RANKS 6
#define CHANNELS 2

struct world {
	int n;
	const struct wire_ops *wire;
	struct config cfg;
	struct exec_link links[MAX_RANKS][CHANNELS][MAX_RANKS]; /* of rank, channel, peer */
	struct wire_bell *bell[MAX_RANKS];
	_Atomic int error;
};
struct job {
	struct world *w;
	int rank;
	const struct sched_algo *algo;
	struct sched_req req;
	enum sched_proto proto;
	int channels;
	size_t count, piece_bytes;
	bool in_place;
	int32_t *in, *out;
	enum taut_status st;
};

static enum taut_status attached(void *ctx, struct exec_link *l)
{
	(void)ctx;
	(void)l;
	return TAUT_OK;
}

static void stalled(void *ctx, bool mismatch)
{
	(void)ctx;
	(void)mismatch;
}

static void connect_pair(struct world *w, int from, int to, int channel)
{
	struct wire_args tx = { .cfg = &w->cfg, .rank = from, .peer = to, .channel = channel, .bell = w->bell[from] };
	struct wire_args rx = { .cfg = &w->cfg, .rank = to, .peer = from, .channel = channel, .bell = w->bell[to] };
	struct exec_link *a = &w->links[from][channel][to], *b = &w->links[to][channel][from];
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	a->peer = to;
	b->peer = from;
	assert_int_equal(w->wire->connect(&a->tx, &tx, fds[0]), TAUT_OK);
	assert_int_equal(w->wire->accept(&b->rx, &rx, fds[1]), TAUT_OK);
}

static struct world *world_new(int n, const struct wire_ops *wire)
{
	struct world *w = calloc(1, sizeof(*w));

	w->n = n;
	w->wire = wire;
	assert_int_equal(config_defaults(&w->cfg), TAUT_OK);
	w->cfg.slot_bytes = 4096;
	for (int r = 0; r < n; r++)
		assert_int_equal(bell_create(&w->bell[r]), TAUT_OK);
	for (int c = 0; c < CHANNELS; c++)
		for (int a = 0; a < n; a++)
			for (int b = 0; b < n; b++)
				if (a != b)
					connect_pair(w, a, b, c);
	return w;
}

static void world_free(struct world *w)
{
	for (int c = 0; c < CHANNELS; c++)
		for (int a = 0; a < w->n; a++)
			for (int b = 0; b < w->n; b++)
				if (a != b) {
					w->wire->close(w->links[a][c][b].tx);
					w->wire->close(w->links[a][c][b].rx);
				}
	for (int r = 0; r < w->n; r++)
		bell_destroy(w->bell[r]);
	config_cleanup(&w->cfg);
	free(w);
}

/* --- what each rank does --- */
static void make_plan(struct exec_plan *p, struct job *j)
{
	size_t n;

	*p = (struct exec_plan){ .channels = j->channels, .proto = j->proto, .piece_bytes = j->piece_bytes };
	assert_int_equal(sched_build(&p->sched, j->algo, &j->req), TAUT_OK);
	n = p->sched->npeers;
	p->links = calloc(n * (size_t)j->channels + 1, sizeof(struct exec_link *));
	for (int c = 0; c < j->channels; c++)
		for (size_t i = 0; i < n; i++)
			p->links[(size_t)c * n + i] = &j->w->links[j->rank][c][p->sched->peers[i]];
}

static void *run_rank(void *arg)
{
	struct job *j = arg;
	struct exec_link *all[CHANNELS * MAX_RANKS];
	struct exec_net net = { .rank = j->rank,
				.nranks = j->w->n,
				.bell = j->w->bell[j->rank],
				.error = &j->w->error,
				.attach_tx = attached,
				.attach_rx = attached,
				.stalled = stalled,
				.links = all,
				.polls = j->w->wire->poll != NULL,
				.spin_ns = 1000,
				.stall_ms = 1000 };
	struct exec_task *t = calloc(1, sizeof(*t));
	struct exec_plan p;
	struct exec_net *failed;
	struct exec_call call = { .plan = &p,
				  .in = (void *)j->in,
				  .out = (void *)j->out,
				  .elem = 4,
				  .sig = 77,
				  .in_layout = { .block = j->count },
				  .out_layout = { .block = j->count } };

	for (int c = 0; c < CHANNELS; c++)
		for (int r = 0; r < j->w->n; r++)
			if (r != j->rank)
				all[net.nlinks++] = &j->w->links[j->rank][c][r];
	make_plan(&p, j);
	if (sched_coll_reduces(j->req.coll) || j->req.coll == COLL_BARRIER)
		call.red = reduce_find(TAUT_INT32, TAUT_SUM);
	if (p.sched->scratch_chunks)
		call.scratch = malloc(exec_scratch_bytes(&call) + 1);
	exec_coll_init(t, &net, &call);
	j->st = exec_run(&t, 1, &failed);
	if (j->st) /* so that the others end too */
		atomic_store(&j->w->error, (int)j->st);
	exec_task_cleanup(t);
	free(call.scratch);
	sched_free(p.sched);
	free(p.links);
	free(t);
	return NULL;
}

/* --- inputs and what must come out --- */
static int32_t value(int rank, size_t i)
{
	return (int32_t)(i * 2654435761u >> 40 & 0xffffff) + rank * 1000003;
}

static int32_t expect(const struct job *j, size_t i, int rank)
{
	size_t block = i / (j->count ? j->count : 1), k = i % (j->count ? j->count : 1);
	int32_t sum = 0;

	switch (j->req.coll) {
	case COLL_ALL_REDUCE:
	case COLL_REDUCE:
		for (int r = 0; r < j->w->n; r++)
			sum += value(r, i);
		return sum;
	case COLL_REDUCE_SCATTER:
		for (int r = 0; r < j->w->n; r++)
			sum += value(r, (size_t)rank * j->count + k);
		return sum;
	case COLL_ALL_GATHER:
	case COLL_GATHER:
		return value((int)block, k);
	case COLL_SCATTER:
		return value(j->req.root, (size_t)rank * j->count + k);
	case COLL_ALL_TO_ALL:
		return value((int)block, (size_t)rank * j->count + k);
	default:
		return value(j->req.root, i);
	}
}

static bool has_result(const struct job *j)
{
	return (j->req.coll != COLL_REDUCE && j->req.coll != COLL_GATHER) || j->rank == j->req.root;
}

static void place_buffers(struct job *j, size_t in_len, size_t out_len)
{
	size_t own = (size_t)j->rank * j->count;
	bool blocks_in = in_len > j->count, blocks_out = out_len > j->count;

	j->in = malloc(in_len * 4 + 4);
	j->out = malloc(out_len * 4 + 4);
	if (j->in_place && blocks_out && has_result(j)) {
		free(j->in);
		j->in = j->out + own;
	} else if (j->in_place && blocks_in && !blocks_out && (j->req.coll != COLL_SCATTER || j->rank == j->req.root)) {
		free(j->out);
		j->out = j->in + own;
	} else if (j->in_place && !blocks_in && !blocks_out) {
		free(j->in);
		j->in = j->out;
	}
	memset(j->out, 0x5a, (j->out == j->in + own ? j->count : out_len) * 4);
	for (size_t i = 0; i < in_len; i++)
		j->in[i] = value(j->rank, i);
}

static void free_buffers(struct job *j, size_t in_len, size_t out_len)
{
	bool in_inside = j->in >= j->out && j->in < j->out + out_len + 1;
	bool out_inside = j->out > j->in && j->out < j->in + in_len + 1;

	if (!out_inside)
		free(j->out);
	if (!in_inside)
		free(j->in);
}

static void run_case(struct world *w, const struct job *proto_job)
{
	struct job jobs[MAX_RANKS];
	pthread_t threads[MAX_RANKS];
	size_t in_len = proto_job->count * (size_t)sched_coll_blocks(proto_job->req.coll, false, w->n);
	size_t out_len = proto_job->count * (size_t)sched_coll_blocks(proto_job->req.coll, true, w->n);

	for (int r = 0; r < w->n; r++) {
		jobs[r] = *proto_job;
		jobs[r].w = w;
		jobs[r].rank = r;
		jobs[r].req.rank = r;
		place_buffers(&jobs[r], in_len, out_len);
	}
	for (int r = 0; r < w->n; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
	for (int r = 0; r < w->n; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < w->n; r++) {
		if (jobs[r].st)
			fail_msg("%s %s, %d ranks, count %zu, piece %zu, root %d, proto %d, %d channels%s: rank %d "
				 "fails",
				 proto_job->algo->name, sched_coll_name(proto_job->req.coll), w->n, proto_job->count,
				 proto_job->piece_bytes, proto_job->req.root, (int)proto_job->proto,
				 proto_job->channels, proto_job->in_place ? " in place" : "", r);
		for (size_t i = 0; has_result(&jobs[r]) && i < out_len && proto_job->req.coll != COLL_BARRIER; i++) {
			if (jobs[r].out[i] == expect(&jobs[r], i, r))
				continue;
			fail_msg("%s %s, %d ranks, count %zu, piece %zu, root %d, proto %d%s: rank %d element %zu is "
				 "%d, not %d",
				 proto_job->algo->name, sched_coll_name(proto_job->req.coll), w->n, proto_job->count,
				 proto_job->piece_bytes, proto_job->req.root, (int)proto_job->proto,
				 proto_job->in_place ? " in place" : "", r, i, jobs[r].out[i], expect(&jobs[r], i, r));
		}
	}
	for (int r = 0; r < w->n; r++)
		free_buffers(&jobs[r], in_len, out_len);
}

static void run_algo(struct world *w, const struct sched_algo *algo, enum sched_coll coll)
{
	static const size_t counts[] = { 1, 2, 7, 64, 1000, 1024, 5003, 20000 };
	static int variant;
	int nodes[MAX_RANKS];
	struct job j = { .algo = algo, .req = { .coll = coll, .nranks = w->n, .nnodes = 1 } };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++, variant++) {
		j.req.root = variant % w->n;
		j.req.node_of = NULL;
		j.req.nnodes = 1;
		if (!strcmp(algo->name, "two_level")) {
			for (int r = 0; r < w->n; r++)
				nodes[r] = variant & 1 ? r % 2 : r / 2;
			j.req.node_of = nodes;
			j.req.nnodes = nodes[w->n - 1] + 1;
			if (j.req.nnodes < 2)
				j.req.nnodes = 2;
		}
		if (!sched_algo_fits(algo, &j.req))
			continue;
		j.count = counts[i];
		j.proto = variant % 3 ? PROTO_BULK : PROTO_LL;
		j.piece_bytes = j.proto == PROTO_LL ? 2048 : 4096;
		j.channels = 1 + variant % 2;
		j.in_place = coll != COLL_ALL_TO_ALL && variant % 5 > 2;
		run_case(w, &j);
	}
}

static void run_all(int n, const struct wire_ops *wire)
{
	struct world *w = world_new(n, wire);

	for (int a = 0; sched_algos[a]; a++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			if (!sched_algos[a]->mapped && sched_algos[a]->colls & 1u << coll)
				run_algo(w, sched_algos[a], (enum sched_coll)coll);
	world_free(w);
}

static void every_algorithm_is_right_over_shared_memory(void **state)
{
	(void)state;
	run_all(2, &wire_shm);
	run_all(3, &wire_shm);
	run_all(5, &wire_shm);
}

static void every_algorithm_is_right_over_sockets(void **state)
{
	(void)state;
	run_all(2, &wire_tcp);
	run_all(4, &wire_tcp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_is_right_over_shared_memory),
		cmocka_unit_test(every_algorithm_is_right_over_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
