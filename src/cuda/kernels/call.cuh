/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernels do: count the call, tell the peers, wait, end. */
#ifndef CUDA_KERNELS_CALL_H
#define CUDA_KERNELS_CALL_H

#include "cuda/kernels/device.cuh"

/* False: the call is over without success, threads leave. The host is asked now and then only: its
 * memory is far. */
DEVICE bool keep_waiting(const gpu_call &c, uint32_t &spins)
{
	relax();
	return ++spins & 0xfff || !load_host(c.stop);
}

/* What rank @p has said when it began its last calls of even and odd number: number and signature. */
DEVICE vec16 *begun_at(const gpu_call &c, int p, int by)
{
	return (vec16 *)(c.mail[p] + c.acks + (uint64_t)by * GPU_LINE);
}

DEVICE bool reached(uint64_t word, uint32_t epoch)
{
	return (int32_t)((uint32_t)(word >> 32) - epoch) >= 0;
}

/* Has rank @p finished the call before the last: what that call left in its mail may be overwritten. */
DEVICE bool has_room(const gpu_call &c, int p, uint32_t epoch)
{
	vec16 v = load_flagged(begun_at(c, c.rank, p));

	return reached(v.x, epoch - 1) || reached(v.y, epoch - 1);
}

DEVICE bool wait_room(const gpu_call &c, int p, uint32_t epoch)
{
	uint32_t spins = 0;

	while (!has_room(c, p, epoch))
		if (!keep_waiting(c, spins))
			return false;
	return true;
}

/* The number of this call. */
DEVICE uint32_t call_number(const gpu_call &c)
{
	return c.epochs[block_index()] + 1;
}

/* Tells the peers that the call has begun, and so that the one before is over. */
DEVICE void call_begin(const gpu_call &c, uint32_t epoch, unsigned thread, unsigned threads)
{
	for (int p = (int)thread; p < c.nranks && block_index() == 0; p += (int)threads)
		if (p != c.rank && wait_room(c, p, epoch))
			store_word((uint64_t *)begun_at(c, p, c.rank) + (epoch & 1), (uint64_t)epoch << 32 | c.sig);
}

/* Is the call of rank @p, of whom something comes, the same as this one? */
DEVICE void compare_call(const gpu_call &c, int p, uint32_t epoch)
{
	const uint64_t *word = (const uint64_t *)begun_at(c, c.rank, p) + (epoch & 1);
	uint32_t spins = 0;
	uint64_t w;

	while (!reached(w = load_word(word), epoch))
		if (!keep_waiting(c, spins))
			return;
	if ((uint32_t)w != c.sig)
		store_host(c.trouble, (uint32_t)p + 1);
}

/* @from: the rank of whom something comes; -1: all. */
DEVICE void compare_calls(const gpu_call &c, uint32_t epoch, int from, unsigned thread, unsigned threads)
{
	for (int p = (int)thread; p < c.nranks && block_index() == 0; p += (int)threads)
		if (p != c.rank && (from < 0 || from == p))
			compare_call(c, p, epoch);
}

/* The last threads of a block, which carry no data, tell and compare while the others work: that takes
 * as long as a small message. Where there are none, the others do it before and after. */
DEVICE bool is_clerk()
{
	return CLERKS && thread_index() >= thread_count() - CLERKS;
}

DEVICE void clerk_work(const gpu_call &c, uint32_t epoch, int from)
{
	unsigned thread = thread_index() - (thread_count() - CLERKS);

	call_begin(c, epoch, thread, CLERKS);
	compare_calls(c, epoch, from, thread, CLERKS);
}

DEVICE unsigned workers()
{
	return thread_count() - CLERKS;
}

DEVICE void call_end(const gpu_call &c, uint32_t epoch)
{
	block_sync();
	if (thread_index() == 0)
		c.epochs[block_index()] = epoch;
	if (block_index() == 0)
		for (unsigned b = block_count() + thread_index(); b < GPU_MAX_BLOCKS; b += thread_count())
			c.epochs[b] = epoch;
}

/* --- words of a buffer of any alignment, the last one short --- */
OUTLINE uint64_t get_bytes(const char *p, unsigned n)
{
	uint64_t w = 0;

	for (unsigned k = 0; k < n; k++)
		w |= (uint64_t)(uint8_t)p[k] << (8 * k);
	return w;
}

OUTLINE void put_bytes(char *p, unsigned n, uint64_t w)
{
	for (unsigned k = 0; k < n; k++)
		p[k] = (char)(w >> (8 * k));
}

DEVICE uint64_t get_word(const char *base, uint64_t i, uint64_t bytes)
{
	const char *p = base + i * 8;
	uint64_t left = bytes - i * 8;

	if (left >= 8 && !((uintptr_t)p & 7))
		return *(const uint64_t *)p;
	return get_bytes(p, left < 8 ? (unsigned)left : 8);
}

DEVICE void put_word(char *base, uint64_t i, uint64_t bytes, uint64_t w)
{
	char *p = base + i * 8;
	uint64_t left = bytes - i * 8;

	if (left >= 8 && !((uintptr_t)p & 7))
		*(uint64_t *)p = w;
	else
		put_bytes(p, left < 8 ? (unsigned)left : 8, w);
}

/* --- who sends, who receives --- */
/* The rank @k places after this one, around; @k below their number. */
DEVICE int peer_after(const gpu_call &c, int k)
{
	return c.rank + k < c.nranks ? c.rank + k : c.rank + k - c.nranks;
}
DEVICE bool sends(const gpu_shape &s, int rank)
{
	return s.from < 0 || s.from == rank;
}
DEVICE bool receives(const gpu_shape &s, int rank)
{
	return s.to < 0 || s.to == rank;
}
DEVICE const char *piece_for(const gpu_direct_args &a, int rank)
{
	return a.in + (a.shape.scatters ? (uint64_t)rank * a.bytes : 0);
}
/* Where what rank @rank sent goes when nothing is reduced. */
DEVICE char *place_of(const gpu_direct_args &a, int rank)
{
	return a.out + (a.shape.from < 0 ? (uint64_t)rank * a.bytes : 0);
}
DEVICE char *ll_area(const gpu_call &c, int at, int by, uint32_t epoch)
{
	return c.mail[at] + c.ll + ((uint64_t)by * 2 + (epoch & 1)) * c.ll_bytes;
}
DEVICE char *ll128_area(const gpu_call &c, int at, int by, uint32_t epoch)
{
	return c.mail[at] + c.ll128 + ((uint64_t)by * 2 + (epoch & 1)) * c.ll128_bytes;
}

#endif
