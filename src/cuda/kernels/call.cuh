/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernels do: count the call, tell the peers, wait, end. */
#ifndef CUDA_KERNELS_CALL_H
#define CUDA_KERNELS_CALL_H

#include "cuda/kernels/device.cuh"

DEVICE bool is_rare(uint32_t spins)
{
	return !(spins % RARE_SPINS);
}

/* False: the call is over without success, threads leave. The host is asked now and then only: its
 * memory is far. */
DEVICE bool keep_waiting(const gpu_call &c, uint32_t &spins)
{
	relax();
	return !is_rare(++spins) || !load_host(c.stop);
}

/* Until @ready() on all threads of the warp, which then go on together: threads that leave a loop one by one may run
 * apart from then on. False: the call is over. */
template <typename F> DEVICE bool warp_wait(const gpu_call &c, const F &ready)
{
	uint32_t spins = 0;

	while (any_of_warp(!ready()))
		if (any_of_warp(!keep_waiting(c, spins)))
			return false;
	return true;
}

/* Until what is at @at is @mark or more, for all threads of the warp that ask. */
DEVICE bool warp_wait_mark(const gpu_call &c, bool asks, const uint64_t *at, uint64_t mark)
{
	return warp_wait(c, [&] { return !asks || (int64_t)(load_word_acquire(at) - mark) >= 0; });
}

/* Rank @p has made another call: this rank's kernels end. */
DEVICE void tell_trouble(const gpu_call &c, int p)
{
	store_host(c.trouble, (uint32_t)p + 1);
	store_host(c.stop, 1);
}

/* The last calls of even and odd number that rank @p has begun, as far as is known here. */
DEVICE vec16 *begun_at(const gpu_call &c, int p, int by)
{
	return (vec16 *)(c.mail[p] + c.acks + (uint64_t)by * GPU_LINE);
}

DEVICE bool reached(uint64_t word, uint32_t epoch)
{
	return (int32_t)((uint32_t)word - epoch) >= 0;
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

/* The number of this call. First the call before must be over, as kernels are launched early. */
DEVICE uint32_t call_number(const gpu_call &c)
{
	uint32_t epoch;

	wait_for_last();
	epoch = c.epochs[block_index()] + 1;
	if (block_index() == 0 && thread_index() == 0)
		c.epochs[GPU_EPOCH_BEGUN] = epoch;
	return epoch;
}

/* Tells the peers that the call has begun, and so that the one before is over. For calls in which they may not
 * hear of this rank otherwise. */
DEVICE void call_begin(const gpu_call &c, uint32_t epoch)
{
	for (int p = (int)thread_index(); block_index() == 0 && any_of_warp(p < c.nranks); p += (int)thread_count()) {
		bool tells = p < c.nranks && p != c.rank;

		warp_wait(c, [&] {
			if (tells && has_room(c, p, epoch)) {
				store_word((uint64_t *)begun_at(c, p, c.rank) + (epoch & 1), epoch);
				tells = false;
			}
			return !tells;
		});
	}
}

/* Something has come from every peer to the first thread: all have begun the call. */
DEVICE void note_all_begun(const gpu_call &c, uint32_t epoch)
{
	for (int p = 0; p < c.nranks && block_index() == 0 && thread_index() == 0; p++)
		store_word((uint64_t *)begun_at(c, c.rank, p) + (epoch & 1), epoch);
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

	if (n == 4 && !((uintptr_t)p & 3))
		return *(const uint32_t *)p;

	for (unsigned k = 0; k < n; k++)
		w |= (uint64_t)(uint8_t)p[k] << (8 * k);
	return w;
}

OUTLINE void put_bytes(char *p, unsigned n, uint64_t w)
{
	if (n == 4 && !((uintptr_t)p & 3)) {
		*(uint32_t *)p = (uint32_t)w;
		return;
	}
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

/* --- copies by all threads of a block, of any alignment --- */
struct as_it_is {
	SPECIAL uint64_t operator()(uint64_t w) const
	{
		return w;
	}
};

/* Whole pieces of 16 bytes, all aligned so; the bytes that are done. @each makes of a word what goes there. */
template <typename F> DEVICE uint64_t copy_lines(char *to, const char *from, uint64_t bytes, const F &each)
{
	enum { U = 8 };
	uint64_t step = (uint64_t)thread_count() * 16, x = (uint64_t)thread_index() * 16;

#pragma unroll 1
	for (; x + (U - 1) * step + 16 <= bytes; x += U * step) {
		vec16 v[U];

#pragma unroll
		for (int u = 0; u < U; u++)
			v[u] = get16(from + x + u * step);
#pragma unroll
		for (int u = 0; u < U; u++)
			*(vec16 *)(to + x + u * step) = { each(v[u].x), each(v[u].y) };
	}
#pragma unroll 1
	for (; x + 16 <= bytes; x += step) {
		vec16 v = get16(from + x);

		*(vec16 *)(to + x) = { each(v.x), each(v.y) };
	}
	return bytes / 16 * 16;
}

template <typename F> DEVICE void block_copy(char *to, const char *from, uint64_t bytes, const F &each)
{
	uint64_t done = 0;

	if (!(((uintptr_t)to | (uintptr_t)from) & 15))
		done = copy_lines(to, from, bytes, each);
	for (uint64_t i = done / 8 + thread_index(); i < (bytes + 7) / 8; i += thread_count())
		put_word(to, i, bytes, each(get_word(from, i, bytes)));
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
