/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/home.h"

int gpu_count(void)
{
	const struct cuda_driver *cu = cuda_driver(NULL);
	int n = 0;

	return cu && !cu->device_count(&n) ? n : 0;
}

enum taut_status gpu_home_on(struct gpu_home *out, int device)
{
	const struct cuda_driver *cu = cuda_driver(NULL);
	enum taut_status st;

	*out = (struct gpu_home){ .device = device };
	if (!cu)
		return TAUT_OK;
	st = cuda_st(cu->primary_retain(&out->ctx, device), "the primary context of a GPU");
	out->held = !st;
	return st;
}

enum taut_status gpu_home_here(struct gpu_home *out)
{
	const struct cuda_driver *cu = cuda_driver(NULL);

	*out = (struct gpu_home){ 0 };
	if (!gpu_count())
		return TAUT_OK;
	if (cu->ctx_current(&out->ctx) || !out->ctx)
		return gpu_home_on(out, 0);
	return cuda_st(cu->ctx_device(&out->device), "the GPU of the current context");
}

enum taut_status gpu_home_of(struct gpu_home *out, const struct gpu_home *p)
{
	*out = *p;
	return p->held ? gpu_home_on(out, p->device) : TAUT_OK;
}

enum taut_status gpu_home_enter(const struct gpu_home *p)
{
	return p->ctx ? cuda_st(cuda_driver(NULL)->ctx_push(p->ctx), "the context of a GPU") : TAUT_OK;
}

void gpu_home_leave(const struct gpu_home *p)
{
	struct cu_ctx *old;

	if (p->ctx)
		cuda_driver(NULL)->ctx_pop(&old);
}

void gpu_home_cleanup(struct gpu_home *p)
{
	if (p->held)
		cuda_driver(NULL)->primary_release(p->device);
	*p = (struct gpu_home){ 0 };
}

enum taut_status gpu_mem_get(void **out, size_t len)
{
	size_t unit = (size_t)2 << 20;
	uint64_t p = 0;
	enum taut_status st =
		cuda_st(cuda_driver(NULL)->mem_alloc(&p, (len + unit - 1) / unit * unit), "memory of a GPU");

	*out = (void *)(uintptr_t)p;
	return st;
}

enum taut_status gpu_mem_put(void *p)
{
	return cuda_st(cuda_driver(NULL)->mem_free((uint64_t)(uintptr_t)p), "release of a GPU's memory");
}

enum taut_status gpu_mem_read(void *to, const void *from, size_t len)
{
	const struct cuda_driver *cu = cuda_driver(NULL);
	enum taut_status st = cuda_st(cu->ctx_sync(), "the work that is queued on a GPU");

	return st ? st : cuda_st(cu->copy_from(to, (uint64_t)(uintptr_t)from, len), "a value in GPU memory");
}
