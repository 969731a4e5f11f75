/* SPDX-License-Identifier: Apache-2.0 */
/* A driver without GPUs: device memory is host memory, and kernels are those compiled for the processor, each block a
 * thread. What the library and the tests on GPU memory call, no more. FAKE_GPUS: how many (default 2). FAKE_SMS:
 * multiprocessors of each (default 4). FAKE_PEERS=N: each N in a row address each other, and memory has handles for
 * other processes; else neither. What it alone has begins with fake_. Here: GPUs, contexts, memory and modules. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

enum { ALLOCS = 4096 };

/* --- devices and contexts --- */
static struct ctx contexts[GPUS];
static _Thread_local struct ctx *stack[16];
static _Thread_local int depth;

struct ctx *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

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

int multiprocessors(void)
{
	const char *n = getenv("FAKE_SMS");

	return n ? atoi(n) : 4;
}

API int cuInit(unsigned flags)
{
	(void)flags;
	for (int i = 0; i < GPUS; i++)
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
	*out = attribute == 16 ? multiprocessors() : attribute == 97 ? (int)GPU_RELAY_BYTES : 0;
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
	*out = current();
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

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t len, void *stream)
{
	struct copy c = { to, from, len };
	void *params[] = { &c };

	return launch(copy_kernel, 1, stream, params);
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
	*out = kernel_named(name);
	return *out ? OK : 500;
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
