/* SPDX-License-Identifier: Apache-2.0 */
/* taut beside NCCL on GPU memory, in the same process and run, by turns: for each collective and
 * size the time in us of one call, replayed in a CUDA graph and eager, and the ratio of taut to the
 * better of NCCL's two (plain, symmetric windows). Buffers of taut and of plain NCCL are
 * from cuMemAlloc(), not registered. Share: the least time, which is TRIP_US, or that of the bytes which enter or leave
 * the busiest GPU at LINK_GBPS, divided by the time of taut replayed. One process a GPU:
 * taut run -n 2 build/gpu_peers [all | all_reduce,... [LEAST [MOST]]], sizes in bytes. One process with a thread for
 * each GPU: build/gpu_peers
 * --threads [all | all_reduce,...]. NCCL is looked for at run time (NCCL_LIB or libnccl.so.2); without it taut is
 * timed alone. */
#include <pthread.h>
#include <stdbool.h>

#include "gpu/gpu_util.h"

#define LINK_GBPS 392.0 /* a direction, by copy engines between two H200 */
#define TRIP_US 1.8	/* a word to the other GPU and back, by NVLink */

enum { ROUNDS = 5, FLOAT = 7, SUM = 0 };
enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, GATHER, SCATTER, SENDRECV, COLLS };

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
	int (*gather)(const void *, void *, size_t, int, int, void *, void *);
	int (*scatter)(const void *, void *, size_t, int, int, void *, void *);
	int (*send)(const void *, size_t, int, int, void *, void *);
	int (*recv)(void *, size_t, int, int, void *, void *);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*mem_alloc)(void **, size_t);
	int (*window)(void *, void *, size_t, void **, int);
	int (*version)(int *);
} nccl;

struct run {
	const char *what; /* taut, nccl, symmetric */
	int coll;
	size_t bytes;
	void *in, *out;
};

static struct gpu_functions gpu;
static int gpus;
static const char *wanted;
static size_t least, most = SIZE_MAX; /* bytes */
/* Of a rank, which is a process or a thread. */
static _Thread_local struct taut_comm *comm;
static _Thread_local void *nccl_plain, *nccl_symmetric;
static _Thread_local void *stream, *start_event, *end_event;
static _Thread_local int rank, n;

static const char *const colls[COLLS] = { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
					  "all_to_all", "gather",     "scatter",	"sendrecv" };

static void nccl_find(void *out, const char *name)
{
	void *p = dlsym(nccl.lib, name);

	gpu_must(!p, name);
	memcpy(out, &p, sizeof(p));
}

static void nccl_load(void)
{
	const char *name = getenv("NCCL_LIB");

	nccl.lib = dlopen(name ? name : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!nccl.lib)
		return;
	nccl_find(&nccl.unique_id, "ncclGetUniqueId");
	nccl_find(&nccl.init, "ncclCommInitRank");
	nccl_find(&nccl.all_reduce, "ncclAllReduce");
	nccl_find(&nccl.all_gather, "ncclAllGather");
	nccl_find(&nccl.reduce_scatter, "ncclReduceScatter");
	nccl_find(&nccl.broadcast, "ncclBroadcast");
	nccl_find(&nccl.reduce, "ncclReduce");
	nccl_find(&nccl.all_to_all, "ncclAlltoAll");
	nccl_find(&nccl.gather, "ncclGather");
	nccl_find(&nccl.scatter, "ncclScatter");
	nccl_find(&nccl.send, "ncclSend");
	nccl_find(&nccl.recv, "ncclRecv");
	nccl_find(&nccl.group_start, "ncclGroupStart");
	nccl_find(&nccl.group_end, "ncclGroupEnd");
	nccl_find(&nccl.mem_alloc, "ncclMemAlloc");
	nccl_find(&nccl.window, "ncclCommWindowRegister");
	nccl_find(&nccl.version, "ncclGetVersion");
}

static void nccl_join(void **out)
{
	struct nccl_id id = { { 0 } };

	if (rank == 0)
		gpu_must(nccl.unique_id(&id), "NCCL unique_id");
	taut_must(taut_broadcast(&id, &id, sizeof(id), TAUT_UINT8, 0, comm, NULL), "taut_broadcast");
	gpu_must(nccl.init(out, n, id, rank), "NCCL init");
}

static int next_rank(void)
{
	return (rank + 1) % n;
}

static int rank_before(void)
{
	return (rank + n - 1) % n;
}

static enum taut_status call_taut(const struct run *r)
{
	size_t count = r->bytes / 4, part = count / (size_t)n;

	switch (r->coll) {
	case ALL_REDUCE:
		return taut_all_reduce(r->in, r->out, count, TAUT_FLOAT32, TAUT_SUM, comm, stream);
	case ALL_GATHER:
		return taut_all_gather(r->in, r->out, part, TAUT_FLOAT32, comm, stream);
	case REDUCE_SCATTER:
		return taut_reduce_scatter(r->in, r->out, part, TAUT_FLOAT32, TAUT_SUM, comm, stream);
	case BROADCAST:
		return taut_broadcast(r->in, r->out, count, TAUT_FLOAT32, 0, comm, stream);
	case REDUCE:
		return taut_reduce(r->in, r->out, count, TAUT_FLOAT32, TAUT_SUM, 0, comm, stream);
	case ALL_TO_ALL:
		return taut_all_to_all(r->in, r->out, part, TAUT_FLOAT32, comm, stream);
	case GATHER:
		return taut_gather(r->in, r->out, part, TAUT_FLOAT32, 0, comm, stream);
	case SCATTER:
		return taut_scatter(r->in, r->out, part, TAUT_FLOAT32, 0, comm, stream);
	default:
		return taut_sendrecv(r->in, count, next_rank(), 0, r->out, count, rank_before(), 0, TAUT_FLOAT32, comm,
				     stream);
	}
}

static int nccl_sendrecv(const struct run *r, void *c)
{
	int err = nccl.group_start();

	err = err ? err : nccl.send(r->in, r->bytes / 4, FLOAT, next_rank(), c, stream);
	err = err ? err : nccl.recv(r->out, r->bytes / 4, FLOAT, rank_before(), c, stream);
	return err ? err : nccl.group_end();
}

static int call_nccl(const struct run *r, void *c)
{
	size_t count = r->bytes / 4, part = count / (size_t)n;

	switch (r->coll) {
	case ALL_REDUCE:
		return nccl.all_reduce(r->in, r->out, count, FLOAT, SUM, c, stream);
	case ALL_GATHER:
		return nccl.all_gather(r->in, r->out, part, FLOAT, c, stream);
	case REDUCE_SCATTER:
		return nccl.reduce_scatter(r->in, r->out, part, FLOAT, SUM, c, stream);
	case BROADCAST:
		return nccl.broadcast(r->in, r->out, count, FLOAT, 0, c, stream);
	case REDUCE:
		return nccl.reduce(r->in, r->out, count, FLOAT, SUM, 0, c, stream);
	case ALL_TO_ALL:
		return nccl.all_to_all(r->in, r->out, part, FLOAT, c, stream);
	case GATHER:
		return nccl.gather(r->in, r->out, part, FLOAT, 0, c, stream);
	case SCATTER:
		return nccl.scatter(r->in, r->out, part, FLOAT, 0, c, stream);
	default:
		return nccl_sendrecv(r, c);
	}
}

static void call(const struct run *r)
{
	if (!strcmp(r->what, "taut"))
		taut_must(call_taut(r), colls[r->coll]);
	else
		gpu_must(call_nccl(r, strcmp(r->what, "nccl") ? nccl_symmetric : nccl_plain), colls[r->coll]);
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

/* Of what enters or leaves the busiest GPU. */
static double least_us(int coll, size_t bytes)
{
	double part = (double)(n - 1) / n, times[COLLS] = {
		[ALL_REDUCE] = 2 * part, [ALL_GATHER] = part, [REDUCE_SCATTER] = part, [BROADCAST] = 1, [REDUCE] = 1,
		[ALL_TO_ALL] = part,	 [GATHER] = part,     [SCATTER] = part,	       [SENDRECV] = 1
	};
	double us = (double)bytes * times[coll] / LINK_GBPS / 1e3;

	return us > TRIP_US ? us : TRIP_US;
}

static double better(const double us[3])
{
	return us[0] / (us[1] < us[2] ? us[1] : us[2]);
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
	printf("%-14s %11zu  %9.2f %9.2f %9.2f  %6.2f   %9.2f %9.2f %9.2f  %6.2f   %7.1f  %5.2f\n", colls[coll], bytes,
	       g[0], g[1], g[2], better(g), e[0], e[1], e[2], better(e), (double)bytes / g[0] / 1e3,
	       least_us(coll, bytes) / g[0]);
	fflush(stdout);
}

static void head(void)
{
	int version = 0;

	if (nccl.lib)
		gpu_must(nccl.version(&version), "NCCL version");
	printf("%d ranks; NCCL %d; us a call, medians of %d; GB/s: size / time of taut replayed\n"
	       "%-14s %11s  %9s %9s %9s  %6s   %9s %9s %9s  %6s   %7s  %5s\n",
	       n, version, ROUNDS, "collective", "bytes", "graph:taut", "nccl", "symmetric", "ratio", "eager:taut",
	       "nccl", "symmetric", "ratio", "GB/s", "share");
}

static bool is_wanted(int coll)
{
	const char *at = wanted;
	size_t len = strlen(colls[coll]);

	if (!strcmp(wanted, "all"))
		return true;
	for (; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, colls[coll], len) && (!at[len] || at[len] == ','))
			return true;
	}
	return false;
}

/* A rank that has its communicator: every line. */
static void compare(int device)
{
	static const size_t sizes[] = { 8,	 512,	  4096,	    32768,     131072,	 524288,
					2097152, 8388608, 33554432, 134217728, 536870912 };
	enum { SIZES = sizeof(sizes) / sizeof(*sizes) };
	void *in, *out, *sym_in = NULL, *sym_out = NULL, *win;
	size_t room = sizes[SIZES - 1];

	gpu_use(&gpu, device);
	gpu_must(gpu.stream(&stream, 1), "cuStreamCreate");
	gpu_must(gpu.event(&start_event, 0), "cuEventCreate");
	gpu_must(gpu.event(&end_event, 0), "cuEventCreate");
	in = gpu_alloc(&gpu, room);
	out = gpu_alloc(&gpu, room);
	if (nccl.lib) {
		nccl_join(&nccl_plain);
		nccl_join(&nccl_symmetric);
		gpu_must(nccl.mem_alloc(&sym_in, room), "NCCL mem_alloc");
		gpu_must(nccl.mem_alloc(&sym_out, room), "NCCL mem_alloc");
		gpu_must(nccl.window(nccl_symmetric, sym_in, room, &win, 1), "NCCL window");
		gpu_must(nccl.window(nccl_symmetric, sym_out, room, &win, 1), "NCCL window");
	}
	if (rank == 0)
		head();
	for (int c = 0; c < COLLS; c++)
		for (int i = 0; i < SIZES && is_wanted(c); i++)
			if (sizes[i] >= least && sizes[i] <= most)
				line(c, sizes[i], in, out, sym_in, sym_out);
	taut_must(taut_barrier(comm, NULL), "taut_barrier");
	taut_comm_destroy(comm);
}

struct thread {
	pthread_t handle;
	int rank;
	const struct taut_id *id;
};

static void *run_thread(void *arg)
{
	const struct thread *t = arg;

	rank = t->rank;
	n = gpus;
	gpu_use(&gpu, rank);
	taut_must(taut_comm_create(&comm, t->id, rank, n, NULL), "taut_comm_create");
	compare(rank);
	return NULL;
}

static void run_threads(void)
{
	struct thread t[64];
	struct taut_id id;

	taut_must(taut_id_create(&id), "taut_id_create");
	for (int i = 0; i < gpus; i++) {
		t[i] = (struct thread){ .rank = i, .id = &id };
		gpu_must(pthread_create(&t[i].handle, NULL, run_thread, &t[i]), "pthread_create");
	}
	for (int i = 0; i < gpus; i++)
		pthread_join(t[i].handle, NULL);
}

int main(int argc, char **argv)
{
	bool threads = argc > 1 && !strcmp(argv[1], "--threads");
	const char *local = getenv("TAUT_LOCAL_RANK");
	int device;

	wanted = argc > 1 + threads ? argv[1 + threads] : "all_reduce";
	least = argc > 2 + threads ? strtoull(argv[2 + threads], NULL, 10) : 0;
	most = argc > 3 + threads ? strtoull(argv[3 + threads], NULL, 10) : SIZE_MAX;
	gpus = gpu_load(&gpu);
	if (!gpus)
		return 77;
	nccl_load();
	if (threads) {
		run_threads();
		return 0;
	}
	device = (local ? atoi(local) : 0) % gpus;
	gpu_use(&gpu, device);
	taut_must(taut_comm_create_env(&comm, NULL), "taut_comm_create_env");
	rank = taut_comm_rank(comm);
	n = taut_comm_size(comm);
	compare(device);
	return 0;
}
