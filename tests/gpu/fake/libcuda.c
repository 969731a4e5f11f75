/* SPDX-License-Identifier: Apache-2.0 */
/* A driver without GPUs: device memory is host memory, and kernels are those compiled for the processor, each block a
 * thread. What the library and the tests on GPU memory call, no more. FAKE_GPUS: how many (default 2). FAKE_PEERS=N:
 * each N in a row address each other, and memory has handles for other processes; else neither. What it alone has
 * begins with fake_. */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cuda/kernels/emulate.h"

#define API __attribute__((visibility("default")))

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the callers have their own */

enum { THREADS_MOST = GPU_MAX_BLOCKS * GPU_SHORT_WARPS }; /* of a launch */
enum { OK = 0, INVALID = 1, NO_HANDLE = 801, SMS = 4, DEPS = 16, ALLOCS = 4096 };

/* --- kernels --- */
struct copy {
	uint64_t to, from;
	size_t len;
};

union args {
	struct copy copy;
	struct gpu_direct_args direct;
	struct gpu_bulk_args bulk;
	struct gpu_host_args host;
	struct gpu_schedule_args schedule;
	struct gpu_messages_args messages;
};

struct kernel {
	const char *name;
	size_t args;
	void (*copy)(const struct copy);
	void (*direct)(const struct gpu_direct_args);
	void (*bulk)(const struct gpu_bulk_args);
	void (*host)(const struct gpu_host_args);
	void (*schedule)(const struct gpu_schedule_args);
	void (*messages)(const struct gpu_messages_args);
};

#define DIRECT(f) { #f, sizeof(struct gpu_direct_args), .direct = f },
#define OF_KIND(kind)                                                                                                  \
	GPU_FOR_DIRECT(DIRECT, kind){ "bulk_" #kind, sizeof(struct gpu_bulk_args), .bulk = bulk_##kind },              \
		{ "host_" #kind, sizeof(struct gpu_host_args), .host = host_##kind },                                  \
		{ "schedule_" #kind, sizeof(struct gpu_schedule_args), .schedule = schedule_##kind },
#define OF_SUM_KIND(kind) GPU_FOR_DIRECT_SUMS(DIRECT, kind)
static const struct kernel kernels[] = {
	GPU_FOR_KINDS(OF_KIND) GPU_FOR_SUM_KINDS(OF_SUM_KIND)
		DIRECT(ll_copy_GPU_U64){ "messages", sizeof(struct gpu_messages_args), .messages = messages },
	{ "messages_short", sizeof(struct gpu_messages_args), .messages = messages_short }
};

static void copy_within(const struct copy c)
{
	memcpy((void *)(uintptr_t)c.to, (const void *)(uintptr_t)c.from, c.len);
}
static const struct kernel copies = { "copy", sizeof(struct copy), .copy = copy_within };

static void call(const struct kernel *k, const union args *a)
{
	if (k->copy)
		k->copy(a->copy);
	else if (k->direct)
		k->direct(a->direct);
	else if (k->bulk)
		k->bulk(a->bulk);
	else if (k->host)
		k->host(a->host);
	else if (k->schedule)
		k->schedule(a->schedule);
	else
		k->messages(a->messages);
}

/* --- streams: counts of what was queued and what is done --- */
struct ctx {
	int device;
};
static struct ctx contexts[16];
static _Thread_local struct ctx *stack[16];
static _Thread_local int depth;

static struct ctx *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

struct stream {
	struct stream *next;
	struct ctx *ctx; /* NULL: the default stream of all */
	uint64_t queued, done;
	struct dep {
		struct stream *of;
		uint64_t count;
	} dep[DEPS];
	int ndeps;
	struct graph *graph; /* being captured */
};

struct event {
	struct dep at;
	struct timespec when;
};

struct launch {
	struct launch *next; /* of a graph */
	const struct kernel *kernel;
	unsigned blocks;
	union args args;
	struct stream *stream;
	uint64_t number;
	struct dep dep[DEPS];
	int ndeps;
};

struct graph {
	struct launch *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct stream null_stream, *streams = &null_stream;

/* 1 and 2 are names of the default stream. */
static struct stream *stream_of(void *p)
{
	return (uintptr_t)p > 2 ? p : &null_stream;
}

struct block {
	const struct launch *launch;
	unsigned index;
};

static void *run_block(void *p)
{
	const struct block *b = p;

	emulate_block(b->index, b->launch->blocks);
	call(b->launch->kernel, &b->launch->args);
	return NULL;
}

static void run_blocks(const struct launch *l)
{
	struct block b[THREADS_MOST];
	pthread_t t[THREADS_MOST];

	for (unsigned i = 0; i < l->blocks; i++) {
		b[i] = (struct block){ l, i };
		pthread_create(&t[i], NULL, run_block, &b[i]);
	}
	for (unsigned i = 0; i < l->blocks; i++)
		pthread_join(t[i], NULL);
}

static void *run_launch(void *p)
{
	struct launch *l = p;

	pthread_mutex_lock(&lock);
	while (l->stream->done + 1 != l->number)
		pthread_cond_wait(&change, &lock);
	for (int i = 0; i < l->ndeps; i++)
		while (l->dep[i].of->done < l->dep[i].count)
			pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	run_blocks(l);
	pthread_mutex_lock(&lock);
	l->stream->done++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	free(l);
	return NULL;
}

static struct launch *copy_launch(const struct kernel *k, unsigned blocks, const void *args)
{
	struct launch *l = calloc(1, sizeof(*l));

	l->kernel = k;
	memcpy(&l->args, args, k->args);
	l->blocks = k->messages ? l->args.messages.long_blocks + l->args.messages.nwarps : blocks;
	return l;
}

static int queue(struct stream *s, struct launch *l)
{
	pthread_t t;

	pthread_mutex_lock(&lock);
	l->stream = s;
	l->number = ++s->queued;
	memcpy(l->dep, s->dep, sizeof(l->dep));
	l->ndeps = s->ndeps;
	s->ndeps = 0;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&t, NULL, run_launch, l))
		return INVALID;
	pthread_detach(t);
	return OK;
}

static int launch(const struct kernel *k, unsigned blocks, void *stream, void **params)
{
	struct stream *s = stream_of(stream);
	struct launch *l = copy_launch(k, blocks, params[0]);

	if (!s->graph)
		return queue(s, l);
	*s->graph->last = l;
	s->graph->last = &l->next;
	return OK;
}

static void wait_stream(struct stream *s)
{
	uint64_t want;

	pthread_mutex_lock(&lock);
	want = s->queued;
	while (s->done < want)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
}

API int cuLaunchKernel(const struct kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		       unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	(void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
	return launch(k, gx, stream, params);
}

/* As cuda.h has it. */
struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream, *attributes;
	unsigned nattributes;
};

API int cuLaunchKernelEx(const struct launch_config *c, const struct kernel *k, void **params, void **extra)
{
	(void)extra;
	return launch(k, c->grid[0], c->stream, params);
}

API int cuStreamCreate(struct stream **out, unsigned flags)
{
	(void)flags;
	*out = calloc(1, sizeof(**out));
	pthread_mutex_lock(&lock);
	(*out)->ctx = current();
	(*out)->next = streams;
	streams = *out;
	pthread_mutex_unlock(&lock);
	return OK;
}

API int cuStreamDestroy_v2(struct stream *s)
{
	wait_stream(s); /* kept: events may name it */
	return OK;
}

API int cuStreamSynchronize(void *stream)
{
	wait_stream(stream_of(stream));
	return OK;
}

static void wait_ctx(const struct ctx *ctx)
{
	for (struct stream *s = streams; s; s = s->next)
		if (!s->ctx || s->ctx == ctx)
			wait_stream(s);
}

API int cuCtxSynchronize(void)
{
	wait_ctx(current());
	return OK;
}

API int cuEventCreate(struct event **out, unsigned flags)
{
	(void)flags;
	*out = calloc(1, sizeof(**out));
	return OK;
}

API int cuEventDestroy_v2(struct event *e)
{
	free(e);
	return OK;
}

API int cuEventRecord(struct event *e, void *stream)
{
	struct stream *s = stream_of(stream);

	pthread_mutex_lock(&lock);
	e->at = (struct dep){ s, s->queued };
	clock_gettime(CLOCK_MONOTONIC, &e->when);
	pthread_mutex_unlock(&lock);
	return OK;
}

API int cuEventElapsedTime(float *ms, struct event *from, struct event *to)
{
	*ms = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
	      (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
	return OK;
}

API int cuStreamWaitEvent(void *stream, struct event *e, unsigned flags)
{
	struct stream *s = stream_of(stream);

	(void)flags;
	pthread_mutex_lock(&lock);
	if (e->at.of && s->ndeps < DEPS && !s->graph)
		s->dep[s->ndeps++] = e->at;
	pthread_mutex_unlock(&lock);
	return OK;
}

/* --- graphs: the launches in their order --- */
API int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void *graph, void *deps, void *n)
{
	struct graph *g = stream_of(stream)->graph;

	(void)graph, (void)deps, (void)n;
	*status = g != NULL;
	*id = (uint64_t)(uintptr_t)g;
	return OK;
}

API int cuThreadExchangeStreamCaptureMode(int *mode)
{
	(void)mode;
	return OK;
}

API int cuStreamBeginCapture_v2(void *stream, int mode)
{
	struct graph *g = calloc(1, sizeof(*g));

	(void)mode;
	g->last = &g->first;
	stream_of(stream)->graph = g;
	return OK;
}

API int cuStreamEndCapture(void *stream, struct graph **out)
{
	*out = stream_of(stream)->graph;
	stream_of(stream)->graph = NULL;
	return OK;
}

API int cuGraphInstantiateWithFlags(struct graph **out, struct graph *g, unsigned long long flags)
{
	(void)flags;
	*out = g;
	return OK;
}

API int cuGraphLaunch(struct graph *g, void *stream)
{
	for (const struct launch *l = g->first; l; l = l->next)
		queue(stream_of(stream), copy_launch(l->kernel, l->blocks, &l->args));
	return OK;
}

API int cuGraphDestroy(struct graph *g)
{
	(void)g; /* the launches are those of what was made from it */
	return OK;
}

API int cuGraphExecDestroy(struct graph *g)
{
	while (g->first) {
		struct launch *l = g->first;

		g->first = l->next;
		free(l);
	}
	free(g);
	return OK;
}

/* --- devices and contexts --- */
/* How many address each other; 0: none. */
static int peers(void)
{
	const char *n = getenv("FAKE_PEERS");

	return n ? atoi(n) : 0;
}

static bool are_peers(int a, int b)
{
	return peers() && a / peers() == b / peers();
}

static int count_of_gpus(void)
{
	const char *n = getenv("FAKE_GPUS");

	return n ? atoi(n) : 2;
}

API int cuInit(unsigned flags)
{
	(void)flags;
	for (int i = 0; i < 16; i++)
		contexts[i].device = i;
	return OK;
}

API int cuGetErrorString(int error, const char **out)
{
	(void)error;
	*out = "an error of the driver without GPUs";
	return OK;
}

API int cuDeviceGet(int *out, int i)
{
	*out = i;
	return OK;
}

API int cuDeviceGetCount(int *out)
{
	*out = count_of_gpus();
	return OK;
}

API int cuDeviceGetAttribute(int *out, int attribute, int device)
{
	(void)device;
	*out = attribute == 16 ? SMS : attribute == 97 ? GPU_RELAY_BYTES : 0;
	return OK;
}

API int cuDeviceGetPCIBusId(char *out, int len, int device)
{
	snprintf(out, (size_t)len, "0000:F%X:00.0", (unsigned)device);
	return OK;
}

API int cuDeviceGetByPCIBusId(int *out, const char *bus)
{
	unsigned device;

	if (sscanf(bus, "0000:F%X:00.0", &device) != 1)
		return INVALID;
	*out = (int)device;
	return OK;
}

API int cuDeviceGetP2PAttribute(int *out, int attribute, int from, int to)
{
	(void)attribute;
	*out = are_peers(from, to);
	return OK;
}

API int cuDevicePrimaryCtxRetain(struct ctx **out, int device)
{
	*out = &contexts[device];
	return OK;
}

API int cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	return OK;
}

API int cuCtxSetCurrent(struct ctx *ctx)
{
	if (depth == 0)
		depth = 1;
	stack[depth - 1] = ctx;
	return OK;
}

API int cuCtxGetCurrent(struct ctx **out)
{
	*out = depth ? stack[depth - 1] : NULL;
	return OK;
}

API int cuCtxGetDevice(int *out)
{
	*out = depth && stack[depth - 1] ? stack[depth - 1]->device : 0;
	return depth ? OK : INVALID;
}

API int cuCtxPushCurrent_v2(struct ctx *ctx)
{
	stack[depth++] = ctx;
	return OK;
}

API int cuCtxPopCurrent_v2(struct ctx **out)
{
	*out = stack[--depth];
	return OK;
}

API int cuCtxEnablePeerAccess(struct ctx *peer, unsigned flags)
{
	(void)flags;
	return are_peers(current()->device, peer->device) ? OK : NO_HANDLE;
}

/* --- memory --- */
static struct allocation {
	uint64_t at, len, id;
	struct ctx *ctx;
	int fd; /* of the memory, where others may map it; else -1 */
} allocations[ALLOCS];

static size_t whole_pages(size_t len)
{
	return (len + 4095) / 4096 * 4096;
}

static void *take_memory(size_t len, int *fd)
{
	void *p;

	*fd = peers() ? memfd_create("memory of a GPU", MFD_CLOEXEC) : -1;
	if (*fd < 0)
		return aligned_alloc(4096, whole_pages(len));
	if (ftruncate(*fd, (off_t)whole_pages(len)))
		return NULL;
	p = mmap(NULL, whole_pages(len), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void give_memory(const struct allocation *a)
{
	if (a->fd < 0) {
		free((void *)(uintptr_t)a->at);
		return;
	}
	munmap((void *)(uintptr_t)a->at, whole_pages(a->len));
	close(a->fd);
}

static struct allocation *allocation_of(uint64_t p)
{
	for (int i = 0; i < ALLOCS; i++)
		if (allocations[i].at && p >= allocations[i].at && p < allocations[i].at + allocations[i].len)
			return &allocations[i];
	return NULL;
}

API int cuMemAlloc_v2(uint64_t *out, size_t len)
{
	static uint64_t ids;
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < ALLOCS && allocations[i].at)
		i++;
	if (i < ALLOCS) {
		int fd;

		*out = (uint64_t)(uintptr_t)take_memory(len, &fd);
		allocations[i] = (struct allocation){ *out, len, ++ids, current(), fd };
	}
	pthread_mutex_unlock(&lock);
	return i < ALLOCS ? OK : INVALID;
}

API int cuMemFree_v2(uint64_t p)
{
	struct allocation *a, freed = { 0 };

	pthread_mutex_lock(&lock);
	a = allocation_of(p);
	if (a)
		freed = *a;
	pthread_mutex_unlock(&lock);
	if (!a)
		return INVALID;
	wait_ctx(freed.ctx); /* as the driver does */
	pthread_mutex_lock(&lock);
	a->at = 0;
	pthread_mutex_unlock(&lock);
	give_memory(&freed);
	return OK;
}

API int cuPointerGetAttributes(unsigned n, int *names, void **values, uint64_t p)
{
	struct allocation *a;
	uint64_t words[18] = { 0 };

	pthread_mutex_lock(&lock);
	a = allocation_of(p);
	if (a) {
		words[2] = 2;
		words[7] = a->id;
		words[11] = a->at;
		words[12] = a->len;
	}
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < n; i++)
		memcpy(values[i], &words[names[i]], names[i] == 2 || names[i] == 14 ? 4 : 8);
	return OK;
}

API int cuMemHostAlloc(void **out, size_t len, unsigned flags)
{
	(void)flags;
	*out = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
	return OK;
}

API int cuMemFreeHost(void *p)
{
	free(p);
	return OK;
}

API int cuMemHostRegister_v2(void *p, size_t len, unsigned flags)
{
	(void)p, (void)len, (void)flags;
	return OK;
}

API int cuMemHostUnregister(void *p)
{
	(void)p;
	return OK;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned flags)
{
	(void)flags;
	*out = (uint64_t)(uintptr_t)p;
	return OK;
}

/* For tests: cuMemsetD8Async() fails from now on; and what there is. */
static _Atomic bool no_memset;

API void fake_refuse_memset(void)
{
	no_memset = true;
}

API int fake_allocations(void)
{
	int n = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < ALLOCS; i++)
		n += allocations[i].at != 0;
	pthread_mutex_unlock(&lock);
	return n;
}

API int cuMemsetD8Async(uint64_t p, unsigned char value, size_t len, void *stream)
{
	if (no_memset)
		return INVALID;
	wait_stream(stream_of(stream));
	memset((void *)(uintptr_t)p, value, len);
	return OK;
}

API int cuMemsetD8_v2(uint64_t p, unsigned char value, size_t len)
{
	memset((void *)(uintptr_t)p, value, len);
	return OK;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t len, void *stream)
{
	wait_stream(stream_of(stream));
	memcpy((void *)(uintptr_t)to, from, len);
	return OK;
}

API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t len)
{
	memcpy((void *)(uintptr_t)to, from, len);
	return OK;
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t len)
{
	memcpy(to, (const void *)(uintptr_t)from, len);
	return OK;
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t len, void *stream)
{
	wait_stream(stream_of(stream));
	memcpy(to, (const void *)(uintptr_t)from, len);
	return OK;
}

API int cuStreamQuery(void *stream)
{
	wait_stream(stream_of(stream)); /* of taut's own, which has no kernels */
	return OK;
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t len, void *stream)
{
	struct copy c = { to, from, len };
	void *params[] = { &c };

	return launch(&copies, 1, stream, params);
}

/* --- memory of other processes --- */
struct handle {
	char bytes[64];
};

struct place {
	pid_t pid;
	int fd, device;
	size_t len;
};

API int cuIpcGetMemHandle(struct handle *out, uint64_t p)
{
	struct place at = { .pid = getpid() };
	struct allocation *a;

	pthread_mutex_lock(&lock);
	a = allocation_of(p);
	at.fd = a ? a->fd : -1;
	at.len = a ? a->len : 0;
	at.device = a ? a->ctx->device : 0;
	pthread_mutex_unlock(&lock);
	memset(out, 0, sizeof(*out));
	memcpy(out, &at, sizeof(at));
	return at.fd < 0 ? NO_HANDLE : OK;
}

/* What is mapped, to be unmapped by its address. */
static struct mapping {
	uint64_t at;
	size_t len;
} mappings[ALLOCS];

static int note_mapping(uint64_t at, size_t len)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < ALLOCS && mappings[i].at)
		i++;
	if (i < ALLOCS)
		mappings[i] = (struct mapping){ at, len };
	pthread_mutex_unlock(&lock);
	return i < ALLOCS ? OK : INVALID;
}

API int cuIpcOpenMemHandle_v2(uint64_t *out, struct handle h, unsigned flags)
{
	char path[64];
	struct place at;
	void *p;
	int fd;

	(void)flags;
	memcpy(&at, &h, sizeof(at));
	if (!are_peers(current()->device, at.device))
		return NO_HANDLE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)at.pid, at.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return INVALID;
	p = mmap(NULL, whole_pages(at.len), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return INVALID;
	*out = (uint64_t)(uintptr_t)p;
	return note_mapping(*out, at.len);
}

API int cuIpcCloseMemHandle(uint64_t p)
{
	struct mapping m = { 0 };

	wait_ctx(current()); /* as the driver does */
	pthread_mutex_lock(&lock);
	for (int i = 0; i < ALLOCS && !m.at; i++) {
		if (mappings[i].at != p)
			continue;
		m = mappings[i];
		mappings[i].at = 0;
	}
	pthread_mutex_unlock(&lock);
	return m.at && !munmap((void *)(uintptr_t)p, whole_pages(m.len)) ? OK : INVALID;
}

API int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t p)
{
	struct allocation *a;

	pthread_mutex_lock(&lock);
	a = allocation_of(p);
	if (a && base)
		*base = a->at;
	if (a && len)
		*len = a->len;
	pthread_mutex_unlock(&lock);
	return a ? OK : INVALID;
}

/* --- what there is not: addresses apart from memory, and pools --- */
static int not_there(void)
{
	return NO_HANDLE;
}

#define NOT_THERE(name) API int name(void) __attribute__((alias("not_there")));
NOT_THERE(cuMemAddressReserve)
NOT_THERE(cuMemAddressFree)
NOT_THERE(cuMemMap)
NOT_THERE(cuMemUnmap)
NOT_THERE(cuMemSetAccess)
NOT_THERE(cuMemRetainAllocationHandle)
NOT_THERE(cuMemRelease)
NOT_THERE(cuMemExportToShareableHandle)
NOT_THERE(cuMemImportFromShareableHandle)
NOT_THERE(cuMemPoolGetAccess)
NOT_THERE(cuMemPoolSetAccess)

/* --- modules --- */
API int cuModuleLoadData(void **out, const void *image)
{
	*out = (void *)(uintptr_t)image;
	return OK;
}

API int cuModuleUnload(void *module)
{
	(void)module;
	return OK;
}

API int cuModuleGetFunction(const struct kernel **out, void *module, const char *name)
{
	(void)module;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		if (strcmp(kernels[i].name, name))
			continue;
		*out = &kernels[i];
		return OK;
	}
	return 500;
}

API int cuFuncLoad(const struct kernel *k)
{
	(void)k;
	return OK;
}

API int cuFuncGetAttribute(int *out, int attribute, const struct kernel *k)
{
	(void)k;
	*out = attribute == 5 ? 90 : 0; /* PTX */
	return OK;
}

API int cuFuncSetAttribute(const struct kernel *k, int attribute, int value)
{
	(void)k, (void)attribute, (void)value;
	return OK;
}
