/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sums by way of shared memory: the tensor memory accelerator (sm_90 and later) loads pieces some ahead, so
 * that few warps keep a link full, and most multiprocessors are left to others. The warp adds up and stores: a store to
 * another GPU by the accelerator would hold up the loads behind it, and when the accelerator says that it is done, a
 * flag stored after that can still come to the other GPU before it.
 *
 * Each warp has RELAY_STAGES stages of its own; one of its threads starts the loads. All is aligned to 16 bytes. What
 * it needs to know lies in shared memory: local memory has next to no cache then. */
#ifndef CUDA_KERNELS_RELAY_H
#define CUDA_KERNELS_RELAY_H

#include "cuda/kernels/call.cuh"
#include "cuda/kernels/value.cuh"

/* Of a warp. What is moved: @in of each source added up, to each of @out. */
struct relay {
	const char *in[GPU_RELAY_RANKS];
	char *out[GPU_RELAY_RANKS];
	int nin, nout;
	uint32_t at, parity; /* the next stage to be full */
	uint64_t full[RELAY_STAGES];
};

DEVICE relay *relay_of_warp()
{
	SHARED relay all[RELAY_WARPS];

	return &all[warp_index()];
}

DEVICE bool relays(const gpu_bulk_args &a)
{
	return a.relays && relay_exists();
}

/* All threads of the warp, once a kernel. */
DEVICE void relay_begin(const gpu_bulk_args &a)
{
	relay *r = relay_of_warp();

	if (relays(a) && lane_index() == 0) {
		r->at = r->parity = 0;
		relay_init(r->full);
	}
	warp_sync();
}

/* What the warp relays next; all threads. */
template <typename IN, typename OUT> DEVICE void relay_between(int nin, const IN &in, int nout, const OUT &out)
{
	relay *r = relay_of_warp();

	for (int i = (int)lane_index(); i < nin; i += (int)lane_count())
		r->in[i] = in(i);
	for (int i = (int)lane_index(); i < nout; i += (int)lane_count())
		r->out[i] = out(i);
	r->nin = nin;
	r->nout = nout;
	warp_sync();
}

/* Bytes of each source in a stage. */
DEVICE uint32_t relay_piece(int nin)
{
	return RELAY_STAGE / (uint32_t)(nin < 2 ? 2 : nin) / 512 * 512;
}

DEVICE char *relay_stage(uint32_t at)
{
	return relay_memory() + (warp_index() * RELAY_STAGES + at) * RELAY_STAGE;
}

DEVICE uint32_t relay_len(uint64_t x, uint64_t bytes, uint32_t piece)
{
	return bytes - x < piece ? (uint32_t)(bytes - x) : piece;
}

/* One thread. */
template <int NIN> DEVICE void relay_load(relay *r, uint32_t at, uint64_t x, uint32_t len, uint32_t piece)
{
	int nin = NIN ? NIN : r->nin;
	char *stage = relay_stage(at);

	relay_expect(&r->full[at], len * (uint32_t)nin);
	for (int i = 0; i < nin; i++)
		relay_get(stage + i * piece, r->in[i] + x, len, &r->full[at]);
}

/* Pieces of source @i in a stage, multiplied where that is still to be done. */
template <int K, int U>
DEVICE void relay_read(vec16 *v, const char *from, uint32_t x, uint32_t len, const uint64_t *scalars, int i)
{
	load_some<U>(v, from, x, len);
#pragma unroll
	for (int u = 0; u < U && scalars; u++) {
		v[u].x = scaled_word<K>(v[u].x, scalars[i]);
		v[u].y = scaled_word<K>(v[u].y, scalars[i]);
	}
}

template <int K, int NIN>
DEVICE void relay_piece_on(const relay *r, const char *stage, uint64_t piece_at, uint32_t len, uint32_t piece,
			   const uint64_t *scalars, const gpu_value &value)
{
	enum { U = NIN == 1 || sizeof(typename of_kind<K>::E) >= 4 ? 4 : 2 };

#pragma unroll 1
	for (uint32_t x = lane_index() * 16; x < len; x += U * lane_count() * 16) {
		vec16 v[U];

		if (NIN == 1)
			load_some<U>(v, stage, x, len);
		else
			sum_some<K, GPU_SUM, U>(v, NIN ? NIN : r->nin, value, [&](int i) {
				relay_read<K, U>(v, stage + i * piece, x, len, scalars, i);
			});
		for (int d = 0; d < r->nout; d++)
			if (NIN != 1 || r->out[d] != r->in[0]) /* a copy to itself is none */
				store_some<U>(r->out[d] + piece_at, v, x, len);
	}
}

/* NIN: how many sources, 0: any number. */
template <int K, int NIN>
DEVICE void relay_loop(relay *r, uint64_t bytes, const uint64_t *scalars, const gpu_value &value)
{
	uint32_t piece = relay_piece(NIN ? NIN : r->nin), at = r->at, parity = r->parity;
	uint64_t next = 0; /* to be loaded */

	if (lane_index() == 0)
		relay_fence(); /* what others have stored */
	for (uint32_t k = at; k < at + RELAY_STAGES && next < bytes; k++, next += piece)
		if (lane_index() == 0)
			relay_load<NIN>(r, k % RELAY_STAGES, next, relay_len(next, bytes, piece), piece);
#pragma unroll 1
	for (uint64_t x = 0; x < bytes; x += piece, next += piece) {
		while (!relay_is_full(&r->full[at], parity))
			;
		relay_piece_on<K, NIN>(r, relay_stage(at), x, relay_len(x, bytes, piece), piece, scalars, value);
		warp_sync();
		if (next < bytes && lane_index() == 0)
			relay_load<NIN>(r, at, next, relay_len(next, bytes, piece), piece);
		at = at + 1 < RELAY_STAGES ? at + 1 : 0;
		parity ^= !at;
	}
	warp_sync();
	if (lane_index() == 0) {
		r->at = at;
		r->parity = parity;
	}
	warp_sync();
}

/* All threads of the warp, whose relay says what is moved; @bytes a multiple of 16. @scalars: what each source is
 * multiplied by first; NULL: by nothing. When it returns all sources have been read. */
template <int K> OUTLINE void relay_move(uint64_t bytes, const uint64_t *scalars, const gpu_value &value)
{
	relay *r = relay_of_warp();

	if (r->nin == 1 && !scalars)
		relay_loop<K, 1>(r, bytes, NULL, value);
	else if (r->nin == 2)
		relay_loop<K, 2>(r, bytes, scalars, value);
	else
		relay_loop<K, 0>(r, bytes, scalars, value);
}

#endif
