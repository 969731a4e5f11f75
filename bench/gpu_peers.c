/* SPDX-License-Identifier: Apache-2.0 */
/* taut beside NCCL on GPU memory, in the same process and run, by turns: for each collective and
 * size the time in us of one call, replayed in a CUDA graph and eager, and the ratio of taut to the
 * better of NCCL's two (plain, symmetric windows). Buffers of taut and of plain NCCL are
 * from cuMemAlloc(), not registered. One process a GPU: taut run -n 2 build/gpu_peers [all_reduce,...]
 * NCCL is looked for at run time (NCCL_LIB or libnccl.so.2); without it taut is timed alone. */
#include <stdbool.h>
#include <time.h>

#include "gpu/gpu_util.h"

enum { ROUNDS = 5, FLOAT = 7, SUM = 0 };

struct nccl_id {
	char bytes[128];
};
static struct {
	void *lib;
	int (*unique_id)(struct nccl_id *);
	int (*init)(void **, int, struct nccl_id, int);
	int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
	int (*all_gather)(const void *, void *, size_t, int, void *, void *);
	int (*reduce_scatter)(const void *, void *, size_t, int, int, void *, void *);
	int (*broadcast)(const void *, void *, size_t, int, int, void *, void *);
	int (*reduce)(const void *, void *, size_t, int, int, int, void *, void *);
	int (*all_to_all)(const void *, void *, size_t, int, void *, void *);
	int (*mem_alloc)(void **, size_t);
	int (*window)(void *, void *, size_t, void **, int);
	int (*version)(int *);
	void *comm, *sym;
} nccl;

struct run {
	const char *what; /* taut, nccl, symmetric */
	int coll;
	size_t bytes;
	void *in, *out;
};

static struct gpu_functions gpu;
static struct taut_comm *comm;
static void *stream, *start_event, *end_event;
static int rank, n;

static const char *const colls[] = {
	"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"
};

static void nccl_find(void *out, const char *name)
{
	void *p = dlsym(nccl.lib, name);

	gpu_must(!p, name);
	memcpy(out, &p, sizeof(p));
}

static bool nccl_load(void)
{
	const char *name = getenv("NCCL_LIB");
	struct nccl_id id = { { 0 } };

	nccl.lib = dlopen(name ? name : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!nccl.lib)
		return false;
	nccl_find(&nccl.unique_id, "ncclGetUniqueId");
	nccl_find(&nccl.init, "ncclCommInitRank");
	nccl_find(&nccl.all_reduce, "ncclAllReduce");
	nccl_find(&nccl.all_gather, "ncclAllGather");
	nccl_find(&nccl.reduce_scatter, "ncclReduceScatter");
	nccl_find(&nccl.broadcast, "ncclBroadcast");
	nccl_find(&nccl.reduce, "ncclReduce");
	nccl_find(&nccl.all_to_all, "ncclAlltoAll");
	nccl_find(&nccl.mem_alloc, "ncclMemAlloc");
	nccl_find(&nccl.window, "ncclCommWindowRegister");
	nccl_find(&nccl.version, "ncclGetVersion");
	if (rank == 0)
		gpu_must(nccl.unique_id(&id), "NCCL unique_id");
	taut_must(taut_broadcast(&id, &id, sizeof(id), TAUT_UINT8, 0, comm, NULL), "taut_broadcast");
	gpu_must(nccl.init(&nccl.comm, n, id, rank), "NCCL init");
	if (rank == 0)
		gpu_must(nccl.unique_id(&id), "NCCL unique_id");
	taut_must(taut_broadcast(&id, &id, sizeof(id), TAUT_UINT8, 0, comm, NULL), "taut_broadcast");
	gpu_must(nccl.init(&nccl.sym, n, id, rank), "NCCL init");
	return true;
}

static void call_taut(const struct run *r)
{
	size_t count = r->bytes / 4, part = count / (size_t)n;

	switch (r->coll) {
	case 0:
		taut_must(taut_all_reduce(r->in, r->out, count, TAUT_FLOAT32, TAUT_SUM, comm, stream),
			  "taut_all_reduce");
		break;
	case 1:
		taut_must(taut_all_gather(r->in, r->out, part, TAUT_FLOAT32, comm, stream), "taut_all_gather");
		break;
	case 2:
		taut_must(taut_reduce_scatter(r->in, r->out, part, TAUT_FLOAT32, TAUT_SUM, comm, stream),
			  "taut_reduce_scatter");
		break;
	case 3:
		taut_must(taut_broadcast(r->in, r->out, count, TAUT_FLOAT32, 0, comm, stream), "taut_broadcast");
		break;
	case 4:
		taut_must(taut_reduce(r->in, r->out, count, TAUT_FLOAT32, TAUT_SUM, 0, comm, stream), "taut_reduce");
		break;
	default:
		taut_must(taut_all_to_all(r->in, r->out, part, TAUT_FLOAT32, comm, stream), "taut_all_to_all");
	}
}

static void call_nccl(const struct run *r, void *c)
{
	size_t count = r->bytes / 4, part = count / (size_t)n;

	switch (r->coll) {
	case 0:
		gpu_must(nccl.all_reduce(r->in, r->out, count, FLOAT, SUM, c, stream), "NCCL all_reduce");
		break;
	case 1:
		gpu_must(nccl.all_gather(r->in, r->out, part, FLOAT, c, stream), "NCCL all_gather");
		break;
	case 2:
		gpu_must(nccl.reduce_scatter(r->in, r->out, part, FLOAT, SUM, c, stream), "NCCL reduce_scatter");
		break;
	case 3:
		gpu_must(nccl.broadcast(r->in, r->out, count, FLOAT, 0, c, stream), "NCCL broadcast");
		break;
	case 4:
		gpu_must(nccl.reduce(r->in, r->out, count, FLOAT, SUM, 0, c, stream), "NCCL reduce");
		break;
	default:
		gpu_must(nccl.all_to_all(r->in, r->out, part, FLOAT, c, stream), "NCCL all_to_all");
	}
}

static void call(const struct run *r)
{
	if (!strcmp(r->what, "taut"))
		call_taut(r);
	else
		call_nccl(r, strcmp(r->what, "nccl") ? nccl.sym : nccl.comm);
}

static int repeats(size_t bytes)
{
	return bytes <= 1 << 20 ? 100 : bytes <= 32 << 20 ? 20 : 5;
}

static double elapsed_us(void)
{
	float ms = 0;

	gpu_must(gpu.elapsed(&ms, start_event, end_event), "cuEventElapsedTime");
	return ms * 1e3;
}

static double eager(const struct run *r)
{
	int k = repeats(r->bytes);

	call(r);
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	gpu_must(gpu.record(start_event, stream), "cuEventRecord");
	for (int i = 0; i < k; i++)
		call(r);
	gpu_must(gpu.record(end_event, stream), "cuEventRecord");
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	return elapsed_us() / k;
}

static void *capture(const struct run *r, int k)
{
	void *graph, *exec;

	gpu_must(gpu.begin_capture(stream, 1), "cuStreamBeginCapture");
	for (int i = 0; i < k; i++)
		call(r);
	gpu_must(gpu.end_capture(stream, &graph), "cuStreamEndCapture");
	gpu_must(gpu.instantiate(&exec, graph, 0ull), "cuGraphInstantiateWithFlags");
	gpu_must(gpu.destroy_graph(graph), "cuGraphDestroy");
	return exec;
}

static double replayed(void *exec, int k)
{
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	gpu_must(gpu.record(start_event, stream), "cuEventRecord");
	gpu_must(gpu.launch_graph(exec, stream), "cuGraphLaunch");
	gpu_must(gpu.record(end_event, stream), "cuEventRecord");
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	return elapsed_us() / k;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of all ranks the slowest. */
static double slowest(double us)
{
	double out = 0;

	taut_must(taut_all_reduce(&us, &out, 1, TAUT_FLOAT64, TAUT_MAX, comm, NULL), "taut_all_reduce");
	return out;
}

static void measure(const struct run *r, double *graph_us, double *eager_us)
{
	int k = repeats(r->bytes);
	double g[ROUNDS], e[ROUNDS];
	void *exec;

	call(r);
	gpu_must(gpu.sync(stream), "cuStreamSynchronize");
	exec = capture(r, k);
	replayed(exec, k);
	for (int i = 0; i < ROUNDS; i++) {
		g[i] = slowest(replayed(exec, k));
		e[i] = slowest(eager(r));
	}
	gpu_must(gpu.destroy_exec(exec), "cuGraphExecDestroy");
	qsort(g, ROUNDS, sizeof(*g), by_value);
	qsort(e, ROUNDS, sizeof(*e), by_value);
	*graph_us = g[ROUNDS / 2];
	*eager_us = e[ROUNDS / 2];
}

static void line(int coll, size_t bytes, void *in, void *out, void *sym_in, void *sym_out)
{
	struct run r = { "taut", coll, bytes, in, out };
	double g[3] = { 0 }, e[3] = { 0 };

	measure(&r, &g[0], &e[0]);
	if (nccl.lib) {
		r.what = "nccl";
		measure(&r, &g[1], &e[1]);
		r = (struct run){ "symmetric", coll, bytes, sym_in, sym_out };
		measure(&r, &g[2], &e[2]);
	}
	if (rank)
		return;
	printf("%-14s %11zu  %9.2f %9.2f %9.2f  %6.2f   %9.2f %9.2f %9.2f  %6.2f   %7.1f\n", colls[coll], bytes, g[0],
	       g[1], g[2], g[0] / (g[1] < g[2] ? g[1] : g[2]), e[0], e[1], e[2], e[0] / (e[1] < e[2] ? e[1] : e[2]),
	       bytes / g[0] / 1e3);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 8,	 512,	  4096,	    32768,     131072,	 524288,
					2097152, 8388608, 33554432, 134217728, 536870912 };
	const char *local = getenv("TAUT_LOCAL_RANK"), *want = argc > 1 ? argv[1] : "all_reduce";
	size_t most = sizes[10];
	void *in, *out, *sym_in = NULL, *sym_out = NULL, *win;
	int version = 0;

	int gpus = gpu_load(&gpu);

	if (!gpus)
		return 77;
	gpu_use(&gpu, (local ? atoi(local) : 0) % gpus);
	taut_must(taut_comm_create_env(&comm, NULL), "taut_comm_create_env");
	rank = taut_comm_rank(comm);
	n = taut_comm_size(comm);
	gpu_must(gpu.stream(&stream, 1), "cuStreamCreate");
	gpu_must(gpu.event(&start_event, 0), "cuEventCreate");
	gpu_must(gpu.event(&end_event, 0), "cuEventCreate");
	in = gpu_alloc(&gpu, most);
	out = gpu_alloc(&gpu, most);
	if (nccl_load()) {
		gpu_must(nccl.mem_alloc(&sym_in, most), "NCCL mem_alloc");
		gpu_must(nccl.mem_alloc(&sym_out, most), "NCCL mem_alloc");
		gpu_must(nccl.window(nccl.sym, sym_in, most, &win, 1), "NCCL window");
		gpu_must(nccl.window(nccl.sym, sym_out, most, &win, 1), "NCCL window");
		gpu_must(nccl.version(&version), "NCCL version");
	}
	if (rank == 0)
		printf("%d ranks; NCCL %d; us a call, medians of %d; GB/s: size / time of taut replayed\n"
		       "%-14s %11s  %9s %9s %9s  %6s   %9s %9s %9s  %6s   %7s\n",
		       n, version, ROUNDS, "collective", "bytes", "graph:taut", "nccl", "symmetric", "ratio",
		       "eager:taut", "nccl", "symmetric", "ratio", "GB/s");
	for (int c = 0; c < 6; c++)
		for (int i = 0; i < 11 && (!strcmp(want, "all") || strstr(want, colls[c])); i++)
			line(c, sizes[i], in, out, sym_in, sym_out);
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	taut_comm_destroy(comm);
	return 0;
}
