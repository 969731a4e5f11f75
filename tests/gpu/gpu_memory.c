/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of every kind of GPU memory: results are right from the first call on, and peers use them in place where
 * that is promised; memory that is freed and had again at the same address, with other sizes; what peers have mapped
 * is free soon after its owner has freed it. Rank r uses GPU r modulo their number.
 * Started by `taut run`; with the argument "threads" alone, with a thread for each GPU. */
#include <pthread.h>
#include <stdbool.h>

#include "base/time.h"
#include "comm/comm.h"
#include "cuda/gpu.h"
#include "gpu_util.h"

#define MB ((size_t)1 << 20)
#define RANGE ((size_t)20 << 30)
#define CALL_BYTES (6 * MB)
#define COUNT (CALL_BYTES / sizeof(uint32_t))
#define WAIT_MS 3000
enum { AGAIN = 200, MOST_RANKS = 16 };

struct prop { /* CUmemAllocationProp */
	int type, handles, location, device;
	void *win32;
	unsigned char flags[8];
};

#define MORE_FUNCTIONS(F)                                                                                              \
	F(create, "cuMemCreate", (uint64_t * out, size_t len, const struct prop *prop, unsigned long long flags))      \
	F(alloc_async, "cuMemAllocAsync", (uint64_t * out, size_t len, void *stream))                                  \
	F(free_async, "cuMemFreeAsync", (uint64_t p, void *stream))                                                    \
	F(info, "cuMemGetInfo_v2", (size_t * left, size_t * all))
static struct more_functions {
	MORE_FUNCTIONS(GPU_POINTER)
} more;
static struct gpu_functions gpu;
static const struct cuda_driver *cu;

enum kind { WHOLE, WITH_FD, WITHOUT_FD, SPANS, POOL, OF_TAUT, OF_NCCL, KINDS };
static const char *const names[] = { "cuMemAlloc",
				     "cuMemCreate with a descriptor",
				     "cuMemCreate without a descriptor",
				     "several allocations in a range",
				     "a pool",
				     "taut_mem_alloc",
				     "ncclMemAlloc" };

struct side {
	struct taut_comm *comm;
	int rank, n, device;
	bool threads;
	void *stream;
	uint64_t range; /* reserved addresses */
	uint32_t *host;
	int wrong;
};

struct memory {
	enum kind kind;
	unsigned char *p;
	size_t len;
	uint64_t at[4]; /* mapped parts */
	size_t size[4];
	int parts;
};

static int (*nccl_alloc)(void **p, size_t len);
static int (*nccl_free)(void *p);

/* --- memory --- */
static void map_part(struct side *s, struct memory *m, uint64_t at, size_t len, bool fd)
{
	struct prop prop = { .type = 1, .handles = fd, .location = CU_LOCATION_DEVICE, .device = s->device };
	struct cu_access mine = { CU_LOCATION_DEVICE, s->device, CU_ACCESS_READ_WRITE };
	uint64_t handle;

	gpu_must(more.create(&handle, len, &prop, 0), "cuMemCreate");
	gpu_must(cu->mem_map(at, len, 0, handle, 0), "cuMemMap");
	gpu_must(cu->set_access(at, len, &mine, 1), "cuMemSetAccess");
	gpu_must(cu->mem_release(handle), "cuMemRelease");
	m->at[m->parts] = at;
	m->size[m->parts++] = len;
}

/* @at: from the start of the range. */
static struct memory get(struct side *s, enum kind kind, size_t len, size_t at)
{
	struct memory m = { .kind = kind, .len = (len + 2 * MB - 1) / (2 * MB) * (2 * MB) };
	uint64_t p = s->range + at;

	if (kind == WHOLE) {
		p = (uint64_t)(uintptr_t)gpu_alloc(&gpu, m.len);
	} else if (kind == WITH_FD || kind == WITHOUT_FD) {
		map_part(s, &m, p, m.len, kind == WITH_FD);
	} else if (kind == SPANS) {
		map_part(s, &m, p, 2 * MB, true);
		map_part(s, &m, p + 2 * MB, 2 * MB, true);
		map_part(s, &m, p + 4 * MB, m.len, true);
		p += MB;
	} else if (kind == POOL) {
		gpu_must(more.alloc_async(&p, m.len, s->stream), "cuMemAllocAsync");
		gpu_must(gpu.sync(s->stream), "cuStreamSynchronize");
	} else if (kind == OF_TAUT) {
		taut_must(taut_mem_alloc((void **)&p, m.len, s->comm), "taut_mem_alloc");
	} else {
		gpu_must(nccl_alloc((void **)&p, m.len), "ncclMemAlloc");
	}
	m.p = (unsigned char *)(uintptr_t)p;
	return m;
}

static void put(struct side *s, struct memory *m)
{
	uint64_t p = (uint64_t)(uintptr_t)m->p;

	for (int i = 0; i < m->parts; i++)
		gpu_must(cu->mem_unmap(m->at[i], m->size[i]), "cuMemUnmap");
	if (m->kind == WHOLE)
		gpu_must(gpu.free(p), "cuMemFree");
	else if (m->kind == POOL)
		gpu_must(more.free_async(p, s->stream), "cuMemFreeAsync");
	else if (m->kind == OF_TAUT)
		taut_must(taut_mem_free(m->p, s->comm), "taut_mem_free");
	else if (m->kind == OF_NCCL)
		gpu_must(nccl_free(m->p), "ncclMemFree");
}

/* --- calls --- */
static void give(struct side *s, unsigned char *p, size_t count, unsigned key)
{
	for (size_t i = 0; i < count; i++)
		s->host[i] = (uint32_t)(i * 2654435761u + key) * (uint32_t)(s->rank + 1);
	gpu_put(&gpu, p, s->host, count * sizeof(uint32_t));
}

static void expect(struct side *s, const unsigned char *p, size_t count, unsigned key, const char *what)
{
	uint32_t times = (uint32_t)(s->n * (s->n + 1) / 2);

	gpu_get(&gpu, s->host, p, count * sizeof(uint32_t));
	for (size_t i = 0; i < count; i++) {
		uint32_t want = (uint32_t)(i * 2654435761u + key) * times;

		if (s->host[i] == want)
			continue;
		fprintf(stderr, "rank %d: %s: element %zu of %zu is %u, wanted %u\n", s->rank, what, i, count,
			s->host[i], want);
		s->wrong++;
		return;
	}
}

static void reduce(struct side *s, unsigned char *in, unsigned char *out, size_t count, unsigned key, const char *what)
{
	give(s, in, count, key);
	if (in != out)
		gpu_set(&gpu, out, 0x55, count * sizeof(uint32_t));
	taut_must(taut_all_reduce(in, out, count, TAUT_UINT32, TAUT_SUM, s->comm, s->stream), "taut_all_reduce");
	gpu_must(gpu.sync(s->stream), "cuStreamSynchronize");
	expect(s, out, count, key, what);
}

static void captured(struct side *s, unsigned char *in, unsigned char *out, unsigned key, const char *what)
{
	void *graph, *exec;

	gpu_must(gpu.begin_capture(s->stream, 2), "cuStreamBeginCapture");
	taut_must(taut_all_reduce(in, out, COUNT, TAUT_UINT32, TAUT_SUM, s->comm, s->stream), "taut_all_reduce");
	gpu_must(gpu.end_capture(s->stream, &graph), "cuStreamEndCapture");
	gpu_must(gpu.instantiate(&exec, graph, 0), "cuGraphInstantiate");
	for (unsigned i = 0; i < 3; i++) {
		give(s, in, COUNT, key + i);
		gpu_must(gpu.launch_graph(exec, s->stream), "cuGraphLaunch");
		gpu_must(gpu.sync(s->stream), "cuStreamSynchronize");
		expect(s, out, COUNT, key + i, what);
	}
	gpu.destroy_exec(exec);
	gpu.destroy_graph(graph);
}

static bool promised(const struct side *s, enum kind kind)
{
	return s->threads || s->n == 1 || (kind != WITHOUT_FD && kind != POOL);
}

static void check_in_place(struct side *s, const struct memory *m, int ms, const char *what)
{
	bool is = gpu_publish(s->comm->gpu, m->p, CALL_BYTES, ms), want = promised(s, m->kind);

	if (is == want)
		return;
	fprintf(stderr, "rank %d: %s: peers %s it in place, wanted %s\n", s->rank, what, is ? "use" : "do not use",
		want ? "that they do" : "that they do not");
	s->wrong++;
}

/* As ncclCommRegister() does: graphs use it in place too. */
static void keep(struct side *s, struct memory *in, struct memory *out)
{
	taut_must(comm_gpu_keep(s->comm, in->p, CALL_BYTES, 100), "comm_gpu_keep");
	taut_must(comm_gpu_keep(s->comm, out->p, CALL_BYTES, 100), "comm_gpu_keep");
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
}

static void forget(struct side *s, struct memory *in, struct memory *out)
{
	comm_gpu_forget(s->comm, in->p, CALL_BYTES);
	comm_gpu_forget(s->comm, out->p, CALL_BYTES);
}

static void one_kind(struct side *s, enum kind kind)
{
	struct memory in = get(s, kind, CALL_BYTES, 0), out = get(s, kind, CALL_BYTES, 64 * MB);
	const char *what = names[kind];

	if (kind == OF_TAUT)
		check_in_place(s, &in, 0, "taut_mem_alloc, at once");
	reduce(s, in.p, out.p, COUNT, 1, what);
	check_in_place(s, &in, promised(s, kind) ? WAIT_MS : 50, what);
	check_in_place(s, &out, promised(s, kind) ? WAIT_MS : 50, what);
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
	for (unsigned i = 0; i < 4; i++) {
		reduce(s, in.p, out.p, COUNT - i, 5 + i, what);
		reduce(s, out.p + 512, out.p + 512, COUNT - 1024 - i, 9 + i, what);
	}
	captured(s, in.p, out.p, 20, what);
	keep(s, &in, &out);
	captured(s, in.p, out.p, 30, what);
	forget(s, &in, &out);
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
	put(s, &in);
	put(s, &out);
}

/* Sizes and kinds that differ from rank to rank and from time to time, at the same addresses. */
static void again(struct side *s)
{
	static const enum kind kinds[] = { WHOLE, WITH_FD, SPANS, POOL };
	uint64_t last = 0;
	int same = 0;

	for (int i = 0; i < AGAIN && s->wrong < 5; i++) {
		enum kind kind = kinds[(i / 4 + s->rank) % 4];
		struct memory m = get(s, kind, CALL_BYTES + (size_t)(i % 5) * 2 * MB, 0);

		same += last == (uint64_t)(uintptr_t)m.p;
		last = (uint64_t)(uintptr_t)m.p;
		if (i % 3 == 0)
			gpu_publish(s->comm->gpu, m.p, CALL_BYTES, 20);
		reduce(s, m.p, m.p, COUNT, (unsigned)i * 100, "memory that was had again");
		put(s, &m);
	}
	if (same < AGAIN / 4) {
		fprintf(stderr, "rank %d: only %d of %d were at the address of the one before\n", s->rank, same, AGAIN);
		s->wrong++;
	}
}

static size_t left(void)
{
	size_t now = 0, all;

	gpu_must(more.info(&now, &all), "cuMemGetInfo");
	return now;
}

/* Two ranks of one GPU see each other's memory go. */
static void freed(struct side *s, enum kind kind)
{
	size_t before, after = 0, big = (size_t)1 << 30;
	struct memory m;

	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
	before = left();
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
	m = get(s, kind, big, 0);
	reduce(s, m.p, m.p, COUNT, 3, "what is to be freed");
	check_in_place(s, &m, WAIT_MS, "what is to be freed");
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
	put(s, &m);
	for (int i = 0; i < 20 && after + 64 * MB < before; i++) {
		sleep_ms(50);
		after = left();
	}
	if (after + 64 * MB < before) {
		fprintf(stderr, "rank %d: %s: %zu MiB of GPU memory are not free a second after they were freed\n",
			s->rank, names[kind], (before - after) / MB);
		s->wrong++;
	}
	taut_must(taut_barrier(s->comm, NULL), "taut_barrier");
}

static void run_side(struct side *s, int gpus)
{
	s->rank = taut_comm_rank(s->comm);
	s->n = taut_comm_size(s->comm);
	s->host = malloc(CALL_BYTES);
	gpu_must(gpu.stream(&s->stream, 1), "cuStreamCreate");
	gpu_must(cu->address_reserve(&s->range, RANGE, 0, 0, 0), "cuMemAddressReserve");
	for (int k = 0; k < KINDS && s->wrong < 5; k++)
		if (k != OF_NCCL || nccl_alloc)
			one_kind(s, (enum kind)k);
	again(s);
	freed(s, WHOLE);
	freed(s, WITH_FD);
	if (s->rank == 0 && !s->wrong)
		printf("every kind of memory is right between %d %s on %d GPUs; %zu MiB a rank are taut's\n", s->n,
		       s->threads ? "threads" : "processes", gpus < s->n ? gpus : s->n, gpu_bytes(s->comm->gpu) / MB);
	if (gpu_bytes(s->comm->gpu) > 32 * MB)
		s->wrong++;
	free(s->host);
	taut_comm_destroy(s->comm);
}

/* --- threads --- */
static struct taut_id id;
static int count;

static void *run_thread(void *arg)
{
	struct side *s = arg;

	gpu_use(&gpu, s->device);
	taut_must(taut_comm_create(&s->comm, &id, s->rank, count, NULL), "taut_comm_create");
	run_side(s, count);
	return NULL;
}

static int run_threads(int n)
{
	static struct side sides[MOST_RANKS];
	pthread_t threads[MOST_RANKS];
	int wrong = 0;

	count = n < MOST_RANKS ? n : MOST_RANKS;
	taut_must(taut_id_create(&id), "taut_id_create");
	for (int i = 0; i < count; i++) {
		sides[i] = (struct side){ .rank = i, .device = i, .threads = true };
		gpu_must(pthread_create(&threads[i], NULL, run_thread, &sides[i]), "pthread_create");
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		wrong += sides[i].wrong;
	}
	return wrong != 0;
}

static void load(void)
{
	static const struct {
		size_t at;
		const char *symbol;
	} symbols[] = {
#define MORE_SYMBOL(name, symbol, params) { offsetof(struct more_functions, name), symbol },
		MORE_FUNCTIONS(MORE_SYMBOL)
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *f = dlsym(lib, symbols[i].symbol);

		gpu_must(!f, symbols[i].symbol);
		memcpy((char *)&more + symbols[i].at, &f, sizeof(f));
	}
	if (nccl) {
		*(void **)&nccl_alloc = dlsym(nccl, "ncclMemAlloc");
		*(void **)&nccl_free = dlsym(nccl, "ncclMemFree");
	}
	cu = cuda_driver(NULL);
}

int main(int argc, char **argv)
{
	const char *local = getenv("TAUT_LOCAL_RANK");
	int gpus = gpu_load(&gpu);
	struct side s = { 0 };

	if (!gpus)
		return 77;
	load();
	if (argc > 1 && !strcmp(argv[1], "threads"))
		return run_threads(gpus);
	s.device = (local ? atoi(local) : 0) % gpus;
	gpu_use(&gpu, s.device);
	taut_must(taut_comm_create_env(&s.comm, NULL), "taut_comm_create_env");
	run_side(&s, gpus);
	return s.wrong != 0;
}
