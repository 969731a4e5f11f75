/* SPDX-License-Identifier: Apache-2.0 */
/* What GPU tests and benchmarks need of the driver, found at run time. Any failure ends the program. */
#ifndef TESTS_GPU_UTIL_H
#define TESTS_GPU_UTIL_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "taut/taut.h"

#define GPU_FUNCTIONS(F)                                                                                               \
	F(init, "cuInit", (unsigned flags))                                                                            \
	F(count, "cuDeviceGetCount", (int *out))                                                                       \
	F(device, "cuDeviceGet", (int *out, int i))                                                                    \
	F(retain, "cuDevicePrimaryCtxRetain", (void **out, int device))                                                \
	F(set_ctx, "cuCtxSetCurrent", (void *ctx))                                                                     \
	F(sync_ctx, "cuCtxSynchronize", (void))                                                                        \
	F(alloc, "cuMemAlloc_v2", (uint64_t * out, size_t len))                                                        \
	F(free, "cuMemFree_v2", (uint64_t p))                                                                          \
	F(put, "cuMemcpyHtoD_v2", (uint64_t to, const void *from, size_t len))                                         \
	F(get, "cuMemcpyDtoH_v2", (void *to, uint64_t from, size_t len))                                               \
	F(set, "cuMemsetD8_v2", (uint64_t p, unsigned char value, size_t len))                                         \
	F(stream, "cuStreamCreate", (void **out, unsigned flags))                                                      \
	F(destroy_stream, "cuStreamDestroy_v2", (void *stream))                                                        \
	F(sync, "cuStreamSynchronize", (void *stream))                                                                 \
	F(event, "cuEventCreate", (void **out, unsigned flags))                                                        \
	F(destroy_event, "cuEventDestroy_v2", (void *event))                                                           \
	F(record, "cuEventRecord", (void *event, void *stream))                                                        \
	F(elapsed, "cuEventElapsedTime", (float *ms, void *from, void *to))                                            \
	F(wait, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))                                      \
	F(copy_async, "cuMemcpyDtoDAsync_v2", (uint64_t to, uint64_t from, size_t len, void *stream))                  \
	F(load, "cuModuleLoadData", (void **out, const void *ptx))                                                     \
	F(function, "cuModuleGetFunction", (void **out, void *module, const char *name))                               \
	F(launch, "cuLaunchKernel",                                                                                    \
	  (void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,        \
	   void *stream, void **params, void **extra))                                                                 \
	F(begin_capture, "cuStreamBeginCapture_v2", (void *stream, int mode))                                          \
	F(end_capture, "cuStreamEndCapture", (void *stream, void **graph))                                             \
	F(instantiate, "cuGraphInstantiateWithFlags", (void **out, void *graph, unsigned long long flags))             \
	F(launch_graph, "cuGraphLaunch", (void *exec, void *stream))                                                   \
	F(destroy_graph, "cuGraphDestroy", (void *graph))                                                              \
	F(destroy_exec, "cuGraphExecDestroy", (void *exec))

#define GPU_POINTER(name, symbol, params) int(*name) params;
#define GPU_SYMBOL(name, symbol, params) { offsetof(struct gpu_functions, name), symbol },

struct gpu_functions {
	GPU_FUNCTIONS(GPU_POINTER)
};

static inline void gpu_must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: driver error %d\n", what, err);
	exit(1);
}

static inline void taut_must(enum taut_status st, const char *what)
{
	if (st == TAUT_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, taut_error_message());
	exit(1);
}

/* False: no driver here, or no GPU; says so. Exit status 77 is for the caller. */
static inline int gpu_load(struct gpu_functions *f)
{
	static const struct {
		size_t at;
		const char *symbol;
	} names[] = { GPU_FUNCTIONS(GPU_SYMBOL) };
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int n = 0;

	for (size_t i = 0; lib && i < sizeof(names) / sizeof(*names); i++) {
		void *p = dlsym(lib, names[i].symbol);

		gpu_must(!p, names[i].symbol);
		memcpy((char *)f + names[i].at, &p, sizeof(p));
	}
	if (!lib || f->init(0) || f->count(&n) || !n) {
		printf("no GPU here: skipped\n");
		return 0;
	}
	return n;
}

/* Makes GPU @i current in this thread. */
static inline void gpu_use(const struct gpu_functions *f, int i)
{
	void *ctx;
	int device;

	gpu_must(f->device(&device, i), "cuDeviceGet");
	gpu_must(f->retain(&ctx, device), "cuDevicePrimaryCtxRetain");
	gpu_must(f->set_ctx(ctx), "cuCtxSetCurrent");
}

static inline unsigned char *gpu_alloc(const struct gpu_functions *f, size_t len)
{
	uint64_t p = 0;

	gpu_must(f->alloc(&p, len), "cuMemAlloc");
	return (unsigned char *)(uintptr_t)p;
}

/* The bytes are there on return: the copy alone may return before. Other streams are not waited for: a rank of the same
 * GPU may be in a call there that waits for this one. */
static inline void gpu_put(const struct gpu_functions *f, void *to, const void *from, size_t len)
{
	gpu_must(f->put((uint64_t)(uintptr_t)to, from, len), "cuMemcpyHtoD");
	gpu_must(f->sync(NULL), "cuStreamSynchronize");
}

static inline void gpu_set(const struct gpu_functions *f, void *p, unsigned char value, size_t len)
{
	gpu_must(f->set((uint64_t)(uintptr_t)p, value, len), "cuMemsetD8");
	gpu_must(f->sync(NULL), "cuStreamSynchronize");
}

static inline void gpu_get(const struct gpu_functions *f, void *to, const void *from, size_t len)
{
	gpu_must(f->get(to, (uint64_t)(uintptr_t)from, len), "cuMemcpyDtoH");
}

#endif
