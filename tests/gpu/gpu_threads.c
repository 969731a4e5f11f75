/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of one process, by NCCL's interface: one thread that has all of them, by groups and in graphs; and a thread for
 * each rank, rank r on GPU r modulo their number. Usage: gpu_threads LIBRARY RANKS ROUNDS [one|each], LIBRARY being
 * libnccl.so.2, taut's or NVIDIA's (which has at most one rank a GPU). Few rounds are for compute-sanitizer. */
#include <pthread.h>
#include <stdbool.h>

#include "gpu_util.h"

enum { UINT32 = 3, SUM = 0, MOST_RANKS = 64, PAD = 64 };

struct id {
	char bytes[128];
};
#define NCCL_FUNCTIONS(F)                                                                                              \
	F(unique_id, "ncclGetUniqueId", (struct id *))                                                                 \
	F(init_all, "ncclCommInitAll", (void **, int, const int *))                                                    \
	F(init, "ncclCommInitRank", (void **, int, struct id, int))                                                    \
	F(destroy, "ncclCommDestroy", (void *))                                                                        \
	F(group_start, "ncclGroupStart", (void))                                                                       \
	F(group_end, "ncclGroupEnd", (void))                                                                           \
	F(all_reduce, "ncclAllReduce", (const void *, void *, size_t, int, int, void *, void *))                       \
	F(all_gather, "ncclAllGather", (const void *, void *, size_t, int, void *, void *))                            \
	F(reduce_scatter, "ncclReduceScatter", (const void *, void *, size_t, int, int, void *, void *))               \
	F(send, "ncclSend", (const void *, size_t, int, int, void *, void *))                                          \
	F(recv, "ncclRecv", (void *, size_t, int, int, void *, void *))

struct nccl_functions {
	NCCL_FUNCTIONS(GPU_POINTER)
};
#define NCCL_SYMBOL(name, symbol, params) { offsetof(struct nccl_functions, name), symbol },

static struct nccl_functions nccl;
static struct gpu_functions gpu;
static int gpus, n, rounds;
static struct id id;

enum coll { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, RING, COLLS };
static const size_t counts[] = { 1, 37, 4099, 50021, 300007, 1500001 };
#define MOST 1500001 /* words of a rank */

struct side { /* of a rank */
	int rank, wrong;
	void *comm, *stream;
	unsigned char *in, *out; /* of the GPU: n * MOST words; out has PAD on both sides */
	uint32_t *host;
	pthread_t thread;
};

static void nccl_must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: result %d\n", what, result);
	exit(1);
}

static void nccl_load(const char *library)
{
	static const struct {
		size_t at;
		const char *symbol;
	} names[] = { NCCL_FUNCTIONS(NCCL_SYMBOL) };
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *p = lib ? dlsym(lib, names[i].symbol) : NULL;

		nccl_must(!p, names[i].symbol);
		memcpy((char *)&nccl + names[i].at, &p, sizeof(p));
	}
}

static void open_side(struct side *s, int rank)
{
	size_t len = (size_t)n * MOST * 4 + 2 * PAD;

	s->rank = rank;
	gpu_use(&gpu, rank % gpus);
	gpu_must(gpu.stream(&s->stream, 1), "cuStreamCreate");
	s->in = gpu_alloc(&gpu, len);
	s->out = gpu_alloc(&gpu, len) + PAD;
	s->host = malloc(len);
}

static void close_side(struct side *s)
{
	gpu_use(&gpu, s->rank % gpus);
	gpu_must(gpu.free((uint64_t)(uintptr_t)s->in), "cuMemFree");
	gpu_must(gpu.free((uint64_t)(uintptr_t)(s->out - PAD)), "cuMemFree");
	gpu_must(gpu.destroy_stream(s->stream), "cuStreamDestroy");
	free(s->host);
}

/* --- one call --- */
static size_t words_in(enum coll coll, size_t count)
{
	return coll == REDUCE_SCATTER ? count * (size_t)n : count;
}

static size_t words_out(enum coll coll, size_t count)
{
	return coll == ALL_GATHER ? count * (size_t)n : count;
}

static uint32_t word(unsigned key, int rank, size_t i)
{
	return (key * 64u + (unsigned)rank + 1) * 2654435761u ^ (uint32_t)i * 40503u;
}

static void give(struct side *s, enum coll coll, size_t count, unsigned key)
{
	for (size_t i = 0; i < words_in(coll, count); i++)
		s->host[i] = word(key, s->rank, i);
	gpu_use(&gpu, s->rank % gpus);
	gpu_put(&gpu, s->in, s->host, words_in(coll, count) * 4);
	gpu_set(&gpu, s->out - PAD, 0x55, words_out(coll, count) * 4 + 2 * PAD);
}

static void call(const struct side *s, enum coll coll, size_t count)
{
	int next = (s->rank + 1) % n, before = (s->rank + n - 1) % n;

	if (coll == ALL_REDUCE)
		nccl_must(nccl.all_reduce(s->in, s->out, count, UINT32, SUM, s->comm, s->stream), "ncclAllReduce");
	else if (coll == ALL_GATHER)
		nccl_must(nccl.all_gather(s->in, s->out, count, UINT32, s->comm, s->stream), "ncclAllGather");
	else if (coll == REDUCE_SCATTER)
		nccl_must(nccl.reduce_scatter(s->in, s->out, count, UINT32, SUM, s->comm, s->stream),
			  "ncclReduceScatter");
	else {
		nccl_must(nccl.group_start(), "ncclGroupStart");
		nccl_must(nccl.send(s->in, count, UINT32, next, s->comm, s->stream), "ncclSend");
		nccl_must(nccl.recv(s->out, count, UINT32, before, s->comm, s->stream), "ncclRecv");
		nccl_must(nccl.group_end(), "ncclGroupEnd");
	}
}

static uint32_t expected(const struct side *s, enum coll coll, size_t count, unsigned key, size_t i)
{
	uint32_t sum = 0;

	if (coll == ALL_GATHER)
		return word(key, (int)(i / count), i % count);
	if (coll == RING)
		return word(key, (s->rank + n - 1) % n, i);
	for (int r = 0; r < n; r++)
		sum += word(key, r, coll == REDUCE_SCATTER ? (size_t)s->rank * count + i : i);
	return sum;
}

static void look(struct side *s, enum coll coll, size_t count, unsigned key, const char *what)
{
	size_t words = words_out(coll, count), bad = words;
	const unsigned char *bytes = (const unsigned char *)s->host;

	gpu_use(&gpu, s->rank % gpus);
	gpu_must(gpu.sync(s->stream), "cuStreamSynchronize");
	gpu_get(&gpu, s->host, s->out - PAD, words * 4 + 2 * PAD);
	for (size_t i = 0; i < words && bad == words; i++)
		if (s->host[PAD / 4 + i] != expected(s, coll, count, key, i))
			bad = i;
	for (size_t i = 0; i < PAD; i++)
		if (bytes[i] != 0x55 || bytes[PAD + words * 4 + i] != 0x55)
			bad = 0;
	if (bad == words)
		return;
	fprintf(stderr, "rank %d: %s: collective %d of %zu words: wrong at %zu, or outside\n", s->rank, what, (int)coll,
		count, bad);
	s->wrong++;
}

static void *instantiate(void *graph)
{
	void *exec;

	gpu_must(gpu.instantiate(&exec, graph, 0ull), "cuGraphInstantiate");
	gpu_must(gpu.destroy_graph(graph), "cuGraphDestroy");
	return exec;
}

static void *finish(void *stream)
{
	void *graph;

	gpu_must(gpu.end_capture(stream, &graph), "cuStreamEndCapture");
	return instantiate(graph);
}

/* --- one thread that has all GPUs --- */
static void calls_of_all(const struct side *s, enum coll coll, size_t count)
{
	nccl_must(nccl.group_start(), "ncclGroupStart");
	for (int r = 0; r < n; r++) {
		gpu_use(&gpu, r % gpus);
		call(&s[r], coll, count);
	}
	nccl_must(nccl.group_end(), "ncclGroupEnd");
}

static void give_all(struct side *s, enum coll coll, size_t count, unsigned key)
{
	for (int r = 0; r < n; r++)
		give(&s[r], coll, count, key);
}

static void look_all(struct side *s, enum coll coll, size_t count, unsigned key, const char *what)
{
	for (int r = 0; r < n; r++)
		look(&s[r], coll, count, key, what);
}

/* A graph for each GPU, captured together. */
static void graph_for_each(struct side *s, enum coll coll, size_t count, unsigned key)
{
	void *graph[MOST_RANKS], *exec[MOST_RANKS];

	for (int r = 0; r < n; r++) {
		gpu_use(&gpu, r % gpus);
		gpu_must(gpu.begin_capture(s[r].stream, 0), "cuStreamBeginCapture");
	}
	calls_of_all(s, coll, count);
	for (int r = 0; r < n; r++)
		gpu_must(gpu.end_capture(s[r].stream, &graph[r]), "cuStreamEndCapture");
	for (int r = 0; r < n; r++) {
		gpu_use(&gpu, r % gpus);
		exec[r] = instantiate(graph[r]);
	}
	for (unsigned i = 0; i < 3; i++) {
		give_all(s, coll, count, key + i);
		for (int r = 0; r < n; r++)
			gpu_must(gpu.launch_graph(exec[r], s[r].stream), "cuGraphLaunch");
		look_all(s, coll, count, key + i, "a graph for each GPU");
	}
	for (int r = 0; r < n; r++)
		gpu.destroy_exec(exec[r]);
}

/* One graph with the streams of all GPUs. */
static void graph_of_all(struct side *s, void *const *event, enum coll coll, size_t count, unsigned key)
{
	void *exec;

	gpu_must(gpu.begin_capture(s[0].stream, 0), "cuStreamBeginCapture");
	gpu_must(gpu.record(event[0], s[0].stream), "cuEventRecord");
	for (int r = 1; r < n; r++)
		gpu_must(gpu.wait(s[r].stream, event[0], 0), "cuStreamWaitEvent");
	calls_of_all(s, coll, count);
	for (int r = 1; r < n; r++) {
		gpu_must(gpu.record(event[r], s[r].stream), "cuEventRecord");
		gpu_must(gpu.wait(s[0].stream, event[r], 0), "cuStreamWaitEvent");
	}
	exec = finish(s[0].stream);
	for (unsigned i = 0; i < 3; i++) {
		give_all(s, coll, count, key + i);
		gpu_must(gpu.launch_graph(exec, s[0].stream), "cuGraphLaunch");
		gpu_must(gpu.sync(s[0].stream), "cuStreamSynchronize");
		look_all(s, coll, count, key + i, "one graph of all GPUs");
	}
	gpu.destroy_exec(exec);
}

static int one_thread(void)
{
	struct side s[MOST_RANKS] = { 0 };
	void *comms[MOST_RANKS], *event[MOST_RANKS];
	int wrong = 0;

	for (int r = 0; r < n; r++) {
		open_side(&s[r], r);
		gpu_must(gpu.event(&event[r], 2), "cuEventCreate");
	}
	nccl_must(nccl.init_all(comms, n, NULL), "ncclCommInitAll");
	for (int r = 0; r < n; r++)
		s[r].comm = comms[r];
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		enum coll coll = (enum coll)(i % COLLS);
		size_t count = counts[i * 5 % 6];

		give_all(s, coll, count, i);
		calls_of_all(s, coll, count);
		look_all(s, coll, count, i, "a group of all GPUs");
		graph_for_each(s, coll, count, i);
		graph_of_all(s, event, coll, count, i);
	}
	for (int r = 0; r < n; r++)
		wrong += s[r].wrong;
	nccl_must(nccl.group_start(), "ncclGroupStart");
	for (int r = 0; r < n; r++)
		nccl_must(nccl.destroy(comms[r]), "ncclCommDestroy");
	nccl_must(nccl.group_end(), "ncclGroupEnd");
	for (int r = 0; r < n; r++) {
		close_side(&s[r]);
		gpu_must(gpu.destroy_event(event[r]), "cuEventDestroy");
	}
	return wrong;
}

/* --- a thread for each rank --- */
static void *run_thread(void *arg)
{
	struct side *s = arg;

	open_side(s, s->rank);
	nccl_must(nccl.init(&s->comm, n, id, s->rank), "ncclCommInitRank");
	for (unsigned i = 0; i < (unsigned)rounds; i++) {
		enum coll coll = (enum coll)(i % COLLS);
		size_t count = counts[i * 5 % 6];
		void *exec;

		give(s, coll, count, i);
		call(s, coll, count);
		look(s, coll, count, i, "threads");
		gpu_must(gpu.begin_capture(s->stream, 1), "cuStreamBeginCapture");
		call(s, coll, count);
		exec = finish(s->stream);
		give(s, coll, count, i + 1);
		gpu_must(gpu.launch_graph(exec, s->stream), "cuGraphLaunch");
		look(s, coll, count, i + 1, "graphs of threads");
		gpu.destroy_exec(exec);
	}
	nccl_must(nccl.destroy(s->comm), "ncclCommDestroy");
	close_side(s);
	return NULL;
}

static int thread_each(void)
{
	struct side s[MOST_RANKS] = { 0 };
	int wrong = 0;

	nccl_must(nccl.unique_id(&id), "ncclGetUniqueId");
	for (int r = 0; r < n; r++) {
		s[r].rank = r;
		gpu_must(pthread_create(&s[r].thread, NULL, run_thread, &s[r]), "pthread_create");
	}
	for (int r = 0; r < n; r++) {
		pthread_join(s[r].thread, NULL);
		wrong += s[r].wrong;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	const char *how = argc > 4 ? argv[4] : "";
	int wrong = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: gpu_threads LIBRARY RANKS ROUNDS [one|each]\n");
		return 1;
	}
	n = atoi(argv[2]);
	rounds = atoi(argv[3]);
	gpus = gpu_load(&gpu);
	if (!gpus)
		return 77;
	if (strcmp(how, "one") == 0 && n > gpus) {
		printf("one thread has at most a rank for each of the %d GPUs: skipped\n", gpus);
		return 77;
	}
	nccl_load(argv[1]);
	if (strcmp(how, "each") != 0 && n <= gpus)
		wrong += one_thread();
	if (strcmp(how, "one") != 0)
		wrong += thread_each();
	if (!wrong)
		printf("%d ranks of one process on %d GPUs are right\n", n, gpus < n ? gpus : n);
	return wrong != 0;
}
