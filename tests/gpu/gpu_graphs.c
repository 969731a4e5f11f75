/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and CUDA graphs: graphs that are replayed with other inputs, by turns, between eager calls; streams in turn;
 * default streams, of two threads too; two communicators at once; kernels and copies of the caller beside. All calls
 * sum or gather words of 32 bits; outputs are poisoned, and what is around them must stay. Rank r uses GPU r modulo
 * their number. Arguments: rounds, seed. Started by `taut run`, or alone. */
#include <pthread.h>
#include <stdbool.h>

#include "gpu_util.h"

#define PAD 64 /* bytes before and behind an output */
#define POISON 0x55

static struct gpu_functions gpu;
static struct taut_comm *comm, *other; /* of the same ranks */
static int rank, n, device, wrong;
static void *a, *b; /* streams */
static unsigned seed;

static unsigned rnd(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* --- a call and its buffers --- */
enum coll { SUM, GATHER, RING };
struct call {
	enum coll coll;
	size_t count; /* words of a rank */
	uint32_t *in, *out, *host;
	struct taut_comm *comm;
};

static size_t words_out(const struct call *c)
{
	return c->coll == GATHER ? c->count * (size_t)n : c->count;
}

static struct call make_call(enum coll coll, size_t count, struct taut_comm *of)
{
	struct call c = { .coll = coll, .count = count, .comm = of };
	size_t out = words_out(&c) * 4;

	c.in = (uint32_t *)gpu_alloc(&gpu, count * 4);
	c.out = (uint32_t *)(gpu_alloc(&gpu, out + 2 * PAD) + PAD);
	c.host = malloc(out + 2 * PAD);
	return c;
}

static void free_call(struct call *c)
{
	gpu.free((uint64_t)(uintptr_t)c->in);
	gpu.free((uint64_t)(uintptr_t)c->out - PAD);
	free(c->host);
}

static void launch(const struct call *c, void *stream)
{
	int next = (rank + 1) % n, before = (rank + n - 1) % n;

	if (c->coll == SUM)
		taut_must(taut_all_reduce(c->in, c->out, c->count, TAUT_UINT32, TAUT_SUM, c->comm, stream),
			  "taut_all_reduce");
	else if (c->coll == GATHER)
		taut_must(taut_all_gather(c->in, c->out, c->count, TAUT_UINT32, c->comm, stream), "taut_all_gather");
	else
		taut_must(taut_sendrecv(c->in, c->count, next, 0, c->out, c->count, before, 0, TAUT_UINT32, c->comm,
					stream),
			  "taut_sendrecv");
}

static uint32_t word(unsigned key, int of, size_t i)
{
	return (key * 64u + (unsigned)of + 1) * 2654435761u ^ (uint32_t)i * 40503u;
}

static void give(const struct call *c, unsigned key)
{
	for (size_t i = 0; i < c->count; i++)
		c->host[i] = word(key, rank, i);
	gpu_put(&gpu, c->in, c->host, c->count * 4);
	gpu_set(&gpu, (unsigned char *)c->out - PAD, POISON, words_out(c) * 4 + 2 * PAD);
}

static uint32_t expected(const struct call *c, unsigned key, size_t i)
{
	uint32_t sum = 0;

	if (c->coll == GATHER)
		return word(key, (int)(i / c->count), i % c->count);
	if (c->coll == RING)
		return word(key, (rank + n - 1) % n, i);
	for (int r = 0; r < n; r++)
		sum += word(key, r, i);
	return sum;
}

static void complain(const struct call *c, const char *what, const char *how, size_t at)
{
	fprintf(stderr, "rank %d: %s: collective %d of %zu words: %s at %zu\n", rank, what, (int)c->coll, c->count, how,
		at);
	wrong++;
}

/* After the stream was waited for. */
static void look(const struct call *c, unsigned key, const char *what)
{
	size_t words = words_out(c);
	unsigned char *bytes = (unsigned char *)c->host;

	gpu_get(&gpu, bytes, (unsigned char *)c->out - PAD, words * 4 + 2 * PAD);
	for (size_t i = 0; i < PAD; i++)
		if (bytes[i] != POISON || bytes[PAD + words * 4 + i] != POISON) {
			complain(c, what, "bytes outside were written", i);
			return;
		}
	for (size_t i = 0; i < words; i++)
		if (c->host[PAD / 4 + i] != expected(c, key, i)) {
			complain(c, what, "wrong", i);
			return;
		}
}

static void done(void *stream)
{
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
}

/* @then waits for what is on @first by now. */
static void follow(void *then, void *first)
{
	static void *event;

	if (!event)
		gpu_must(gpu.event(&event, 2), "cuEventCreate");
	gpu_must(gpu.record(event, first), "cuEventRecord");
	gpu_must(gpu.wait(then, event, 0), "cuStreamWaitEvent");
}

/* --- graphs --- */
enum { MODES = 3 }; /* of capture: global, of a thread, relaxed */

static void *finish(void *stream)
{
	void *graph, *exec;

	gpu_must(gpu.end_capture(stream, &graph), "cuStreamEndCapture");
	gpu_must(gpu.instantiate(&exec, graph, 0ull), "cuGraphInstantiate");
	gpu_must(gpu.destroy_graph(graph), "cuGraphDestroy");
	return exec;
}

static void *capture(const struct call *c, int calls, void *stream, int mode)
{
	gpu_must(gpu.begin_capture(stream, mode), "cuStreamBeginCapture");
	for (int i = 0; i < calls; i++)
		launch(&c[i], stream);
	return finish(stream);
}

static void replay(void *exec, void *stream)
{
	gpu_must(gpu.launch_graph(exec, stream), "cuGraphLaunch");
}

static const size_t counts[] = { 1, 5, 1023, 8193, 70001, 400003, 1000003, 3000001 };

/* Graphs of one communicator, replayed in an order that all ranks draw, with eager calls between. */
static void by_turns(int rounds)
{
	enum { GRAPHS = 8 };
	struct call c[GRAPHS];
	void *exec[GRAPHS];

	for (int i = 0; i < GRAPHS; i++) {
		c[i] = make_call((enum coll)(i % 3), counts[i], comm);
		exec[i] = capture(&c[i], 1, a, i % MODES);
	}
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		int k = (int)rnd(GRAPHS), eager = (int)rnd(GRAPHS);

		give(&c[k], i);
		replay(exec[k], a);
		if (eager != k) {
			give(&c[eager], i + 1);
			launch(&c[eager], a);
		}
		done(a);
		look(&c[k], i, "a graph by turns");
		if (eager != k)
			look(&c[eager], i + 1, "an eager call by turns");
	}
	for (int i = 0; i < GRAPHS; i++) {
		gpu.destroy_exec(exec[i]);
		free_call(&c[i]);
	}
}

/* One graph with all kinds of calls, replayed without a wait in between. */
static void many_replays(int replays)
{
	struct call c[] = { make_call(SUM, 33, comm), make_call(SUM, 50001, comm), make_call(RING, 777, comm),
			    make_call(GATHER, 301, comm), make_call(SUM, 600001, comm) };
	void *exec = capture(c, 5, a, 0);

	for (int i = 0; i < 5; i++)
		give(&c[i], 5);
	for (int i = 0; i < replays; i++)
		replay(exec, a);
	done(a);
	for (int i = 0; i < 5; i++)
		look(&c[i], 5, "many replays");
	gpu.destroy_exec(exec);
	for (int i = 0; i < 5; i++)
		free_call(&c[i]);
}

/* A graph whose calls feed each other by copies: out of one is in of the next. */
static void chain(void)
{
	struct call c[] = { make_call(GATHER, 3001, comm), make_call(SUM, 3001 * (size_t)n, comm) };
	size_t len = c[1].count * 4;
	void *exec;

	gpu_must(gpu.begin_capture(a, 0), "cuStreamBeginCapture");
	launch(&c[0], a);
	gpu_must(gpu.copy_async((uint64_t)(uintptr_t)c[1].in, (uint64_t)(uintptr_t)c[0].out, len, a), "cuMemcpyDtoD");
	launch(&c[1], a);
	exec = finish(a);
	for (unsigned key = 0; key < 5; key++) {
		give(&c[1], 0);
		give(&c[0], key);
		replay(exec, a);
		done(a);
		look(&c[0], key, "a chain");
		gpu_get(&gpu, c[1].host, c[1].out, len);
		for (size_t i = 0; i < c[1].count; i++)
			if (c[1].host[i] != (uint32_t)n * expected(&c[0], key, i)) {
				complain(&c[1], "a chain's end", "wrong", i);
				break;
			}
	}
	gpu.destroy_exec(exec);
	free_call(&c[0]);
	free_call(&c[1]);
}

/* --- streams --- */
/* The calls of a communicator go by the order in which they are made, whatever their streams: in a graph too. */
static void calls_in_turn(const struct call *c)
{
	void *streams[] = { a, b };

	for (int k = 0; k < 6; k++)
		launch(&c[k % 2], streams[rnd(2)]);
}

static void *graph_in_turn(const struct call *c)
{
	gpu_must(gpu.begin_capture(a, 0), "cuStreamBeginCapture");
	follow(b, a);
	calls_in_turn(c);
	follow(a, b);
	return finish(a);
}

static void streams_in_turn(int rounds)
{
	struct call c[] = { make_call(SUM, 100001, comm), make_call(RING, 9001, comm) };

	for (unsigned i = 0; i < 2 * (unsigned)rounds; i++) {
		void *exec = i % 2 ? graph_in_turn(c) : NULL;

		for (int k = 0; k < 2; k++)
			give(&c[k], i + (unsigned)k);
		if (exec)
			replay(exec, a);
		else
			calls_in_turn(c);
		done(a);
		done(b);
		for (int k = 0; k < 2; k++)
			look(&c[k], i + (unsigned)k, exec ? "two streams of a graph in turn" : "two streams in turn");
		if (exec)
			gpu_must(gpu.destroy_exec(exec), "cuGraphExecDestroy");
	}
	free_call(&c[0]);
	free_call(&c[1]);
}

/* Streams that live for one call. */
static void streams_come_and_go(int rounds)
{
	struct call c = make_call(SUM, 3001, comm);

	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		void *stream;

		give(&c, i);
		gpu_must(gpu.stream(&stream, i % 2), "cuStreamCreate");
		launch(&c, stream);
		done(stream);
		gpu_must(gpu.destroy_stream(stream), "cuStreamDestroy");
		look(&c, i, "a stream that came and went");
	}
	free_call(&c);
}

/* Graphs that were captured on two streams by turns, each replayed on both. */
static void graphs_of_two_streams(int rounds)
{
	enum { GRAPHS = 4 };
	struct call c[GRAPHS];
	void *streams[] = { a, b }, *exec[GRAPHS];

	for (int k = 0; k < GRAPHS; k++) {
		c[k] = make_call(SUM, counts[2 * k + 1], comm);
		exec[k] = capture(&c[k], 1, streams[k % 2], 0);
	}
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		void *first = streams[i % 2], *then = streams[!(i % 2)];

		for (int k = 0; k < GRAPHS; k++)
			give(&c[k], i + (unsigned)k);
		for (int k = 0; k < GRAPHS; k++) {
			if (k == 2)
				follow(then, first);
			replay(exec[k], k < 2 ? first : then);
		}
		done(first);
		done(then);
		for (int k = 0; k < GRAPHS; k++)
			look(&c[k], i + (unsigned)k, "graphs of two streams");
	}
	for (int k = 0; k < GRAPHS; k++) {
		gpu.destroy_exec(exec[k]);
		free_call(&c[k]);
	}
}

/* NULL (taut waits), CUDA's default stream, and that of a thread. */
static void default_streams(void)
{
	for (uintptr_t stream = 0; stream < 3; stream++)
		for (unsigned i = 0; i < 6; i++) {
			struct call c = make_call((enum coll)(i % 3), counts[i], comm);

			give(&c, i);
			launch(&c, (void *)stream);
			if (stream)
				done((void *)stream);
			look(&c, i, "a default stream");
			free_call(&c);
		}
}

/* A call of another thread on its own default stream, of which the handle is that of this thread's. */
static void *launch_apart(void *call)
{
	void *own = (void *)(uintptr_t)2;

	gpu_use(&gpu, device);
	launch(call, own);
	done(own);
	return NULL;
}

static void streams_of_threads(int rounds)
{
	struct call c[] = { make_call(SUM, 1000003, comm), make_call(SUM, 3001, comm) };
	void *own = (void *)(uintptr_t)2;
	pthread_t thread;

	for (unsigned i = 0; i < 4 * (unsigned)rounds; i++) {
		for (int k = 0; k < 2; k++)
			give(&c[k], i + (unsigned)k);
		launch(&c[0], own);
		gpu_must(pthread_create(&thread, NULL, launch_apart, &c[1]), "pthread_create");
		pthread_join(thread, NULL);
		done(own);
		for (int k = 0; k < 2; k++)
			look(&c[k], i + (unsigned)k, "default streams of two threads");
	}
	free_call(&c[0]);
	free_call(&c[1]);
}

/* --- two communicators at once --- */
static void two_communicators(int rounds)
{
	struct call c[] = { make_call(SUM, 300001, comm), make_call(SUM, 300001, other), make_call(SUM, 71, comm),
			    make_call(GATHER, 5003, other) };
	void *exec;

	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		for (int k = 0; k < 4; k++)
			give(&c[k], i + (unsigned)k);
		for (int k = 0; k < 20; k++)
			launch(&c[k % 4], k % 2 ? b : a);
		done(a);
		done(b);
		for (int k = 0; k < 4; k++)
			look(&c[k], i + (unsigned)k, "two communicators");
	}
	gpu_must(gpu.begin_capture(a, 0), "cuStreamBeginCapture");
	follow(b, a);
	for (int k = 0; k < 4; k++)
		launch(&c[k], k % 2 ? b : a);
	follow(a, b);
	exec = finish(a);
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		for (int k = 0; k < 4; k++)
			give(&c[k], i + (unsigned)k);
		replay(exec, a);
		done(a);
		for (int k = 0; k < 4; k++)
			look(&c[k], i + (unsigned)k, "two communicators in one graph");
	}
	gpu.destroy_exec(exec);
	for (int k = 0; k < 4; k++)
		free_call(&c[k]);
}

/* Large calls of two communicators, of which each second rank makes those of the other first. Both fit a GPU at once,
 * and so none waits for what cannot start; of two ranks a GPU at most. */
static void two_communicators_crossed(int rounds, int gpus)
{
	static const size_t sizes[] = { 500009, 4000037 };

	if (n > 2 * gpus) {
		if (rank == 0)
			printf("large calls of two communicators: left out, as %d ranks on %d GPUs do not fit at "
			       "once\n",
			       n, gpus);
		return;
	}
	for (int s = 0; s < 2; s++) {
		struct call c[] = { make_call(SUM, sizes[s], comm), make_call(SUM, sizes[s], other) };

		for (unsigned i = 0; i < (unsigned)rounds; i++) {
			for (int k = 0; k < 2; k++)
				give(&c[k], i + (unsigned)k);
			for (int k = 0; k < 8; k++)
				launch(&c[(k + rank) % 2], (k + rank) % 2 ? b : a);
			done(a);
			done(b);
			for (int k = 0; k < 2; k++)
				look(&c[k], i + (unsigned)k, "two communicators, crossed");
		}
		free_call(&c[0]);
		free_call(&c[1]);
	}
}

/* --- beside the caller's own work --- */
static const char spin_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry spin(.param .u64 ns)\n{\n"
	".reg .u64 %t<3>;\n.reg .pred %p;\n"
	"ld.param.u64 %t0, [ns];\nmov.u64 %t1, %globaltimer;\nadd.u64 %t1, %t1, %t0;\n"
	"again: mov.u64 %t2, %globaltimer;\nsetp.lt.u64 %p, %t2, %t1;\n@%p bra again;\nret;\n}\n";

static void beside_kernels_and_copies(int rounds)
{
	enum { BYTES = 8 << 20 };
	struct call c[] = { make_call(SUM, 90001, comm), make_call(SUM, 2000003, comm) };
	unsigned char *from = gpu_alloc(&gpu, BYTES), *to = gpu_alloc(&gpu, BYTES);
	uint64_t ns = 200000;
	void *module, *spin, *params[] = { &ns }, *copies;

	gpu_must(gpu.load(&module, spin_ptx), "cuModuleLoadData");
	gpu_must(gpu.function(&spin, module, "spin"), "cuModuleGetFunction");
	gpu_must(gpu.stream(&copies, 1), "cuStreamCreate");
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		for (int k = 0; k < 2; k++)
			give(&c[k], i + (unsigned)k);
		for (int k = 0; k < 8; k++) {
			/* As many blocks as a GPU holds at once, on some ranks only: others wait in their calls. */
			if ((k + rank) % 2)
				gpu_must(gpu.launch(spin, 264, 1, 1, 1024, 1, 1, 0, b, params, NULL), "cuLaunchKernel");
			gpu_must(gpu.copy_async((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, BYTES, copies),
				 "cuMemcpyDtoD");
			launch(&c[k % 2], a);
		}
		done(a);
		for (int k = 0; k < 2; k++)
			look(&c[k], i + (unsigned)k, "beside kernels and copies");
	}
	gpu_must(gpu.sync_ctx(), "cuCtxSynchronize");
	gpu.free((uint64_t)(uintptr_t)from);
	gpu.free((uint64_t)(uintptr_t)to);
	for (int k = 0; k < 2; k++)
		free_call(&c[k]);
}

/* Buffers that come and go: their places are given to others, at the same addresses too. */
static void buffers_come_and_go(int rounds)
{
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		struct call c = make_call(SUM, 1000003 + 512 * i, comm);

		give(&c, i);
		for (int k = 0; k < 3; k++)
			launch(&c, a);
		done(a);
		look(&c, i, "buffers that come and go");
		free_call(&c);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, gpus = gpu_load(&gpu);
	const char *local = getenv("TAUT_LOCAL_RANK");

	seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	if (!gpus)
		return 77;
	device = (local ? atoi(local) : 0) % gpus;
	gpu_use(&gpu, device);
	taut_must(taut_comm_create_env(&comm, NULL), "taut_comm_create_env");
	taut_must(taut_comm_dup(&other, comm, NULL), "taut_comm_dup");
	rank = taut_comm_rank(comm);
	n = taut_comm_size(comm);
	gpu_must(gpu.stream(&a, 1), "cuStreamCreate");
	gpu_must(gpu.stream(&b, 1), "cuStreamCreate");
	by_turns(4 * rounds);
	many_replays(20 * rounds);
	chain();
	streams_in_turn(rounds);
	default_streams();
	streams_of_threads(rounds);
	beside_kernels_and_copies(rounds);
	buffers_come_and_go(rounds);
	two_communicators(rounds);
	two_communicators_crossed(rounds, gpus);
	graphs_of_two_streams(rounds);
	streams_come_and_go(rounds);
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	if (rank == 0 && !wrong)
		printf("streams and graphs of %d ranks on %d GPUs are right\n", n, gpus < n ? gpus : n);
	taut_comm_destroy(other);
	taut_comm_destroy(comm);
	return wrong != 0;
}
