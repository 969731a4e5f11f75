/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels need of the machine: threads, flags, wide accesses. With GPU_EMULATE the same
 * kernels are compiled for the processor, a thread for each block: the protocols can be tested
 * without a GPU. */
#ifndef CUDA_KERNELS_DEVICE_H
#define CUDA_KERNELS_DEVICE_H

#include <stddef.h>
#include <string.h>

#include "cuda/kernels/kernels.h"

struct alignas(16) vec16 {
	uint64_t x, y;
};

#ifdef GPU_EMULATE
#include <sched.h>
#include <time.h>

#define DEVICE static inline
#define SHARED static thread_local /* of the block */
#define OUTLINE static
#define SPECIAL inline /* of a template: may not be static */
#define KERNEL(name, args, threads) extern "C" void name(const args a)
#define KERNEL_PAIRED KERNEL
#define LANES_OF_LINE 1 /* threads that hold a 128-byte line together */
#define RARE_SPINS 16	/* of who waits, between looks at what is far: on a busy machine each may take milliseconds */

struct emulated_block {
	unsigned index, count;
};
extern thread_local emulated_block emulated;

DEVICE unsigned block_index()
{
	return emulated.index;
}
DEVICE unsigned block_count()
{
	return emulated.count;
}
DEVICE unsigned thread_index()
{
	return 0;
}
DEVICE unsigned thread_count()
{
	return 1;
}
DEVICE void block_sync()
{
}
DEVICE unsigned warp_index()
{
	return 0;
}
DEVICE unsigned warp_count()
{
	return 1;
}
DEVICE unsigned lane_index()
{
	return 0;
}
DEVICE unsigned lane_count()
{
	return 1;
}
DEVICE void warp_sync()
{
}
DEVICE void line_sync()
{
}
/* One thread does, but both ways are to be tried. */
DEVICE bool line_is_one()
{
	static thread_local unsigned asked;

	return asked++ % 2;
}
DEVICE void fence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
DEVICE bool any_of_warp(bool x)
{
	return x;
}
DEVICE uint32_t load_host(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}
DEVICE void store_host(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}
DEVICE uint64_t load_word(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
DEVICE void store_word(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}
DEVICE uint64_t load_word_acquire(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
DEVICE void store_word_release(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/* True for one caller. */
DEVICE bool claim(uint64_t *p)
{
	return !__atomic_exchange_n(p, 1, __ATOMIC_RELAXED);
}
/* The first time in call @epoch, for one caller. */
DEVICE bool claim_call(uint32_t *p, uint32_t epoch)
{
	return __atomic_exchange_n(p, epoch, __ATOMIC_RELAXED) != epoch;
}
DEVICE void count_up(uint64_t *p)
{
	__atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}
DEVICE uint64_t clock_ns()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
/* One access on the GPU. Here the second half, which may be the flag of all, is written last and read first. */
DEVICE void store_flagged(void *p, vec16 v)
{
	__atomic_store_n((uint64_t *)p, v.x, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)p + 1, v.y, __ATOMIC_RELEASE);
}
DEVICE vec16 load_flagged(const void *p)
{
	vec16 v;

	v.y = __atomic_load_n((const uint64_t *)p + 1, __ATOMIC_ACQUIRE);
	v.x = __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
	return v;
}
DEVICE void relax()
{
	sched_yield();
}
DEVICE void wait_for_last()
{
}
DEVICE void let_next_start()
{
}
DEVICE char *relay_memory()
{
	static thread_local vec16 memory[RELAY_STAGES * RELAY_STAGE / 16];

	return (char *)memory;
}
#else
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define OUTLINE static __device__ __noinline__ /* rare or large: once a kernel */
#define SPECIAL __device__ __forceinline__
#define KERNEL(name, args, threads)                                                                                    \
	extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args a)
/* Two blocks fit a multiprocessor. */
#define KERNEL_PAIRED(name, args, threads)                                                                             \
	extern "C" __global__ void __launch_bounds__(threads, 2) name(const __grid_constant__ args a)
#define LANES_OF_LINE 8
#define RARE_SPINS 4096

DEVICE unsigned block_index()
{
	return blockIdx.x;
}
DEVICE unsigned block_count()
{
	return gridDim.x;
}
DEVICE unsigned thread_index()
{
	return threadIdx.x;
}
DEVICE unsigned thread_count()
{
	return blockDim.x;
}
DEVICE void block_sync()
{
	__syncthreads();
}
DEVICE unsigned warp_index()
{
	return threadIdx.x / 32;
}
DEVICE unsigned warp_count()
{
	return blockDim.x / 32;
}
DEVICE unsigned lane_index()
{
	return threadIdx.x % 32;
}
DEVICE unsigned lane_count()
{
	return 32;
}
DEVICE void warp_sync()
{
	__syncwarp();
}
/* The threads that hold a line together. */
DEVICE uint32_t line_mask()
{
	return 0xffu << (threadIdx.x & 24);
}
DEVICE void line_sync()
{
	__syncwarp(line_mask());
}
/* Do they run as one, so that an access is one of the whole line? Threads of which one had to wait may run apart from
 * then on, also behind __syncwarp(); so they did where ranks take turns on a GPU. */
DEVICE bool line_is_one()
{
	return (__activemask() & line_mask()) == line_mask();
}
/* For all ranks. */
DEVICE void fence()
{
	__threadfence_system();
}
DEVICE bool any_of_warp(bool x)
{
	return __any_sync(~0u, x);
}
DEVICE uint32_t load_host(const uint32_t *p)
{
	return *(const volatile uint32_t *)p;
}
DEVICE void store_host(uint32_t *p, uint32_t v)
{
	*(volatile uint32_t *)p = v;
}
DEVICE uint64_t load_word(const uint64_t *p)
{
	return *(const volatile uint64_t *)p;
}
DEVICE void store_word(uint64_t *p, uint64_t v)
{
	*(volatile uint64_t *)p = v;
}
DEVICE uint64_t load_word_acquire(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
DEVICE void store_word_release(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.sys.global.u64 [%0],%1;" ::"l"(p), "l"(v) : "memory");
}
DEVICE bool claim(uint64_t *p)
{
	return !atomicExch((unsigned long long *)p, 1ull);
}
DEVICE bool claim_call(uint32_t *p, uint32_t epoch)
{
	return atomicExch(p, epoch) != epoch;
}
DEVICE uint64_t clock_ns()
{
	uint64_t ns;

	asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(ns));
	return ns;
}
DEVICE void count_up(uint64_t *p)
{
	atomicAdd((unsigned long long *)p, 1ull);
}
DEVICE void store_flagged(void *p, vec16 v)
{
	asm volatile("st.volatile.global.v2.u64 [%0],{%1,%2};" ::"l"(p), "l"(v.x), "l"(v.y) : "memory");
}
DEVICE vec16 load_flagged(const void *p)
{
	vec16 v;

	asm volatile("ld.volatile.global.v2.u64 {%0,%1},[%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
	return v;
}
DEVICE void relax()
{
}
/* Launched while the kernel before still ran (gpu.c): until that is over and what it wrote is here. */
DEVICE void wait_for_last()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* The next kernel may be launched, to wait for the end of this one. */
DEVICE void let_next_start()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE char *relay_memory()
{
	extern __shared__ vec16 relay_bytes[];

	return (char *)relay_bytes;
}
#endif

/* --- bulk copies by the tensor memory accelerator: relay.cuh; PTX ISA, cp.async.bulk --- */
#if !defined(GPU_EMULATE) && __CUDA_ARCH__ >= 900
DEVICE uint32_t in_shared(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}
DEVICE bool relay_exists()
{
	return true;
}
DEVICE void relay_init(uint64_t *full)
{
	for (int i = 0; i < RELAY_STAGES; i++)
		asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(in_shared(full + i)) : "memory");
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	asm volatile("fence.proxy.async;" ::: "memory");
}
DEVICE void relay_expect(uint64_t *full, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(in_shared(full)), "r"(bytes)
		     : "memory");
}
DEVICE void relay_get(char *to, const char *from, uint32_t bytes, uint64_t *full)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(
			     in_shared(to)),
		     "l"(from), "r"(bytes), "r"(in_shared(full))
		     : "memory");
}
DEVICE bool relay_is_full(const uint64_t *full, uint32_t parity)
{
	uint32_t yes;

	asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2; selp.u32 %0,1,0,p;}"
		     : "=r"(yes)
		     : "r"(in_shared(full)), "r"(parity)
		     : "memory");
	return yes;
}
/* What plain accesses have stored is seen by the accelerator's. */
DEVICE void relay_fence()
{
	asm volatile("fence.proxy.async;" ::: "memory");
}
#else
/* The processor does the same; older GPUs never. */
DEVICE bool relay_exists()
{
#ifdef GPU_EMULATE
	return true;
#else
	return false;
#endif
}
DEVICE void relay_init(uint64_t *)
{
}
DEVICE void relay_expect(uint64_t *, uint32_t)
{
}
DEVICE void relay_get(char *to, const char *from, uint32_t bytes, uint64_t *)
{
	memcpy(to, from, bytes);
}
DEVICE bool relay_is_full(const uint64_t *, uint32_t)
{
	return true;
}
DEVICE void relay_fence()
{
}
#endif

DEVICE vec16 get16(const char *p)
{
	return *(const vec16 *)p;
}

/* Pieces of 16 bytes, a warp's width apart; those past @bytes are zeros. I: of 32 bits or 64. */
template <int U, typename I> DEVICE void load_some(vec16 *v, const char *from, I x, I bytes)
{
#pragma unroll
	for (int u = 0; u < U; u++) {
		I at = x + u * lane_count() * 16;

		v[u] = {};
		if (at + 16 <= bytes)
			v[u] = get16(from + at);
	}
}

template <int U, typename I> DEVICE void store_some(char *to, const vec16 *v, I x, I bytes)
{
#pragma unroll
	for (int u = 0; u < U; u++) {
		I at = x + u * lane_count() * 16;

		if (at + 16 <= bytes)
			*(vec16 *)(to + at) = v[u];
	}
}

#endif
