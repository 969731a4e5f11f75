/* SPDX-License-Identifier: Apache-2.0 */
/* A sum for which every link carries stores alone: they fill it better than loads do. Rank r gives every other rank p
 * its part of share p, in slots of p's stage; p adds the parts up in rank order and stores the result:
 *                   share p  the result goes to
 *   all_reduce      a part   all ranks
 *   reduce_scatter  block p  p
 *
 * Every warp works on its own, in a channel: of two warps one gives and one takes. Channel c has the chunks c,
 * c + channels, ... of every share. For each channel and pair of ranks there are two slots, and in the mail two words,
 * each a mark (call and count):
 *   at the taker  "filled": chunks that have come
 *   at the giver  "taken": chunks whose slots are free again
 * Before a call all slots are free: a barrier ends every call that uses the stage.
 *
 * Traffic over the links, two ranks, all-reduce of S bytes: S stored by each. */
#ifndef CUDA_KERNELS_PUSH_H
#define CUDA_KERNELS_PUSH_H

#include "cuda/kernels/call.cuh"
#include "cuda/kernels/relay.cuh"
#include "cuda/kernels/value.cuh"

#define PUSH_STEP 512 /* what a warp moves at once */

enum push_word { PUSH_FILLED, PUSH_TAKEN, PUSH_WORDS };

struct push {
	uint32_t epoch;
	unsigned channel, channels;
	uint64_t share, chunk; /* bytes */
	bool gives, takes;     /* this warp */
	int nout;	       /* ranks that get the sum of a share: all, or whose it is */
};

/* Part of a share: in what is added up, and in the result. */
struct extent {
	uint64_t in_at, out_at, bytes;
};

DEVICE uint64_t round_up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

/* Of share @share, which is a block's. */
DEVICE push push_of(const gpu_bulk_args &a, uint32_t epoch, unsigned share)
{
	unsigned n = (unsigned)a.direct.call.nranks, warps = warp_count(), part = share * warps + warp_index();
	push p = { epoch, part / 2, block_count() * warps / 2, a.direct.bytes, 0, false, false, 1 };

	p.gives = p.channel < p.channels && !(part & 1);
	p.takes = p.channel < p.channels && (part & 1);
	if (!a.direct.shape.scatters) {
		p.share = round_up((a.direct.bytes + n - 1) / n, GPU_LINE);
		p.nout = (int)n;
	}
	p.chunk = p.channels ? round_up((p.share + p.channels - 1) / p.channels, PUSH_STEP) : 0;
	if (p.chunk > a.push_slot)
		p.chunk = a.push_slot;
	return p;
}

/* Is it a call for this? What each rank finds by itself; the rest is for meet(). */
DEVICE bool push_suits(const gpu_bulk_args &a)
{
	const gpu_direct_args &d = a.direct;

	/* Both halves of a channel run at once, also where a block has one warp. */
	return a.push_slot && block_count() * warp_count() > 1 && !(a.core * warp_count() & 1) && d.shape.reduces &&
	       d.shape.from < 0 && d.shape.to < 0 && d.value.op == GPU_SUM && !((uintptr_t)d.in & 15) &&
	       !(d.shape.scatters && (d.bytes & 15)) && (relays(a) || (!d.shape.scatters && !d.value.scaled));
}

/* Chunk @k of share @r; empty where that is shorter. */
DEVICE extent chunk_of(const gpu_bulk_args &a, const push &p, int r, uint64_t k)
{
	uint64_t all = a.direct.bytes, from = 0, len = all, x = (p.channel + k * p.channels) * p.chunk;
	extent e;

	if (!a.direct.shape.scatters) {
		from = p.share * (uint64_t)r < all ? p.share * (uint64_t)r : all;
		len = all - from < p.share ? all - from : p.share;
	}
	e.in_at = x + (a.direct.shape.scatters ? (uint64_t)r * all : from);
	e.out_at = x + from;
	e.bytes = x >= len ? 0 : len - x < p.chunk ? len - x : p.chunk;
	return e;
}

DEVICE bool is_past(const push &p, uint64_t k)
{
	return (p.channel + k * p.channels) * p.chunk >= p.share;
}

DEVICE uint64_t *push_word_at(const gpu_bulk_args &a, const push &p, int at, int other, enum push_word w)
{
	uint64_t i = ((uint64_t)p.channel * GPU_PUSH_RANKS + (unsigned)other) * PUSH_WORDS + w;

	return (uint64_t *)(a.direct.call.mail[at] + a.push) + i;
}

DEVICE char *push_slot_at(const gpu_bulk_args &a, const push &p, int at, int from, uint64_t k)
{
	uint64_t others = (uint64_t)a.direct.call.nranks - 1, i = p.channel * others + (uint64_t)(from - (from > at));

	return a.direct.call.mail[at] + a.stage + (i * 2 + (k & 1)) * a.push_slot;
}

/* Until all other ranks' words here say @count; all threads of the warp. */
DEVICE bool push_wait(const gpu_bulk_args &a, const push &p, enum push_word w, uint64_t count)
{
	const gpu_call &c = a.direct.call;
	uint64_t mark = (uint64_t)p.epoch << 32 | count;
	int r = (int)lane_index();

	/* A warp has a thread for each rank but where the processor plays one. */
	for (int done = 0; done < c.nranks; done += (int)lane_count()) {
		bool asks = r + done < c.nranks && r + done != c.rank;
		const uint64_t *at = push_word_at(a, p, c.rank, asks ? r + done : 0, w);

		if (!warp_wait_mark(c, asks, at, mark))
			return false;
	}
	return true;
}

DEVICE void push_tell(const gpu_bulk_args &a, const push &p, enum push_word w, uint64_t count)
{
	const gpu_call &c = a.direct.call;
	uint64_t mark = (uint64_t)p.epoch << 32 | count;

	warp_sync();
	for (int r = (int)lane_index(); r < c.nranks; r += (int)lane_count()) {
		if (r == c.rank)
			continue;
		if (w == PUSH_FILLED)
			store_word_release(push_word_at(a, p, r, c.rank, w), mark);
		else
			store_word(push_word_at(a, p, r, c.rank, w), mark); /* what was loaded is here */
	}
}

/* --- giving --- */
DEVICE void warp_copy(char *to, const char *from, uint64_t bytes)
{
	enum { U = 8 };
	vec16 v[U];

#pragma unroll 1
	for (uint64_t x = lane_index() * 16; x + 16 <= bytes; x += U * lane_count() * 16) {
		load_some<U>(v, from, x, bytes);
		store_some<U>(to, v, x, bytes);
	}
	for (uint64_t i = bytes / 16 * 2 + lane_index(); i < (bytes + 7) / 8; i += lane_count())
		put_word(to, i, bytes, get_word(from, i, bytes));
}

DEVICE void push_give_one(const gpu_bulk_args &a, const push &p, uint64_t k)
{
	const gpu_call &c = a.direct.call;

#pragma unroll 1
	for (int d = 1; d < c.nranks; d++) {
		int r = peer_after(c, d);
		extent e = chunk_of(a, p, r, k);
		const char *from = a.direct.in + e.in_at;
		char *to = push_slot_at(a, p, r, c.rank, k);
		uint64_t done = 0;

		if (relays(a)) {
			done = e.bytes / 16 * 16;
			relay_between(
				1, [&](int) { return from; }, 1, [&](int) { return to; });
			relay_loop<GPU_U64, 1>(relay_of_warp(), done, NULL, a.direct.value);
		}
		warp_copy(to + done, from + done, e.bytes - done);
	}
	push_tell(a, p, PUSH_FILLED, k + 1);
}

/* From chunk @k on. */
DEVICE bool push_give(const gpu_bulk_args &a, const push &p, uint64_t k)
{
	for (; !is_past(p, k); k++) {
		if (k > 1 && !push_wait(a, p, PUSH_TAKEN, k - 1))
			return false;
		push_give_one(a, p, k);
	}
	return true;
}

/* --- taking --- */
/* Where rank @r's part of chunk @k lies. */
DEVICE const char *part_of(const gpu_bulk_args &a, const push &p, const extent &e, int r, uint64_t k)
{
	int me = a.direct.call.rank;

	return r == me ? a.direct.in + e.in_at : push_slot_at(a, p, me, r, k);
}

/* @out: the buffers of all ranks. */
template <int K, int U>
DEVICE void push_sum(const gpu_bulk_args &a, char *const *out, const push &p, const extent &e, uint64_t k)
{
	const gpu_call &c = a.direct.call;

#pragma unroll 1
	for (uint64_t x = lane_index() * 16; x + 16 <= e.bytes; x += U * lane_count() * 16) {
		vec16 v[U];

		sum_some<K, GPU_SUM, U>(v, c.nranks, a.direct.value,
					[&](int r) { load_some<U>(v, part_of(a, p, e, r, k), x, e.bytes); });
#pragma unroll 1
		for (int d = 0; d < p.nout; d++)
			store_some<U>(out[peer_after(c, d)] + e.out_at, v, x, e.bytes);
	}
}

/* Fewer than 16 bytes. @scalars as in relay.cuh. */
template <int K>
OUTLINE void push_sum_rest(const gpu_bulk_args &a, char *const *out, push p, extent e, uint64_t k,
			   const uint64_t *scalars)
{
	const gpu_call &c = a.direct.call;

	for (uint64_t i = e.bytes / 16 * 2 + lane_index(); i < (e.bytes + 7) / 8; i += lane_count()) {
		uint64_t w = get_word(part_of(a, p, e, 0, k), i, e.bytes);
		pack<K> sum = pack_of<K>(scalars ? scaled_word<K>(w, scalars[0]) : w);

		for (int r = 1; r < c.nranks; r++) {
			w = get_word(part_of(a, p, e, r, k), i, e.bytes);
			pack_add<K, GPU_SUM>(sum, scalars ? scaled_word<K>(w, scalars[r]) : w, a.direct.value);
		}
		w = word_of(sum, a.direct.value);
		for (int d = 0; d < p.nout; d++)
			put_word(out[peer_after(c, d)] + e.out_at, i, e.bytes, w);
	}
}

template <int K>
DEVICE void push_relay(const gpu_bulk_args &a, char *const *out, const push &p, const extent &e, uint64_t k,
		       const uint64_t *scalars)
{
	const gpu_call &c = a.direct.call;

	relay_between(
		c.nranks, [&](int r) { return part_of(a, p, e, r, k); }, p.nout,
		[&](int d) { return out[peer_after(c, d)] + e.out_at; });
	relay_move<K>(e.bytes / 16 * 16, scalars, a.direct.value);
}

/* @out: the buffers of all ranks. */
template <int K, int U>
DEVICE bool push_take(const gpu_bulk_args &a, char *const *out, const push &p, const uint64_t *scalars)
{
	for (uint64_t k = 0; !is_past(p, k); k++) {
		extent e = chunk_of(a, p, a.direct.call.rank, k);

		if (!push_wait(a, p, PUSH_FILLED, k + 1))
			return false;
		if (relays(a))
			push_relay<K>(a, out, p, e, k, scalars);
		else
			push_sum<K, U>(a, out, p, e, k);
		if (e.bytes & 15)
			push_sum_rest<K>(a, out, p, e, k, scalars);
		push_tell(a, p, PUSH_TAKEN, k + 1);
	}
	return true;
}

#endif
