/* SPDX-License-Identifier: Apache-2.0 */
/* What long and short messages have in common: where they lie in the mail, and what a receiver does that met another
 * message than its own.
 *
 * Each path has an order of its own. The messages from one rank to another are counted over both, and every message
 * carries its number: so a receiver finds out that the sender's message went the other path. */
#ifndef CUDA_KERNELS_MESSAGE_H
#define CUDA_KERNELS_MESSAGE_H

#include "cuda/kernels/lanes.cuh"

/* --- long ones --- */
/* The mail of @at, where the lanes lie that it has with @other; one of the two is this rank. */
DEVICE char *mail_of(const gpu_messages_args &a, int at, int other)
{
	return at == a.call.rank && a.near >> other & 1 ? a.near_mail : a.call.mail[at];
}

/* The lane of @at and @other, in the mail of @at. */
DEVICE uint64_t lane_index(const gpu_messages_args &a, int at, int other, unsigned lane)
{
	return (uint64_t)(other - (other > at)) * a.lanes + lane;
}

DEVICE uint64_t *line_at(const gpu_messages_args &a, int at, int other, unsigned lane, enum line l)
{
	return (uint64_t *)(mail_of(a, at, other) + a.lines + (lane_index(a, at, other, lane) * LINES + l) * GPU_LINE);
}

/* --- short ones --- */
DEVICE uint32_t short_lane_index(const gpu_messages_args &a, int at, int other, unsigned lane)
{
	return (uint32_t)(other - (other > at)) * a.short_lanes + lane;
}

DEVICE char *short_slot_at(const gpu_messages_args &a, int at, int by, unsigned lane, uint32_t count)
{
	uint32_t i = short_lane_index(a, at, by, lane) * GPU_SHORT_SLOTS + count % GPU_SHORT_SLOTS;

	return mail_of(a, at, by) + a.shorts + (uint64_t)i * GPU_SHORT_SLOT_BYTES;
}

/* At the sender: slots of the lane to @other that are taken. */
DEVICE uint64_t *credit_at(const gpu_messages_args &a, int at, int other, unsigned lane)
{
	return (uint64_t *)(mail_of(a, at, other) + a.credits) + short_lane_index(a, at, other, lane);
}

/* A cell: 4 data, 4 flag, 4 data, 4 flag. */
DEVICE vec16 cell_pack(uint64_t w, uint32_t flag)
{
	vec16 v = { (uint32_t)w | (uint64_t)flag << 32, w >> 32 | (uint64_t)flag << 32 };

	return v;
}

/* 0: it is there. */
DEVICE uint32_t cell_lacks(vec16 v, uint32_t flag)
{
	return ((uint32_t)(v.x >> 32) ^ flag) | ((uint32_t)(v.y >> 32) ^ flag);
}

DEVICE uint64_t cell_unpack(vec16 v)
{
	return (uint32_t)v.x | v.y << 32;
}

/* Words of counters[] behind those of the lanes. */
DEVICE uint64_t *word_of_all(const gpu_messages_args &a, enum gpu_counter k)
{
	return a.counters + (uint64_t)2 * (unsigned)a.call.nranks * a.lanes + k;
}

/* --- what came --- */
struct met {
	uint64_t bytes, word;
};

DEVICE bool fits(const gpu_message &m, const met &x)
{
	bool any = m.word == (uint32_t)GPU_TAG_ANY && !(x.word >> 31);

	return m.bytes == x.bytes && (any || m.word == x.word);
}

/* Is it the header of message @number? A schedule's slots have none. */
DEVICE bool read_header(met *out, const uint64_t *h, uint32_t number)
{
	uint64_t first = load_word(h);

	out->bytes = first & (((uint64_t)1 << 48) - 1);
	out->word = load_word(h + 1);
	return (uint16_t)(first >> 48) == (uint16_t)number && (uint32_t)out->word != (uint32_t)GPU_TAG_STEP;
}

/* Instead of @m of rank @peer. */
OUTLINE void tell_odd(const gpu_messages_args &a, unsigned peer, const gpu_message &m, const met &x)
{
	if (!claim(word_of_all(a, GPU_COUNTER_ODD)))
		return;
	a.odd->peer = peer;
	a.odd->want_bytes = m.bytes;
	a.odd->want_word = m.word;
	a.odd->bytes = x.bytes;
	a.odd->word = x.word;
	store_word_release(&a.odd->set, 1);
}

/* Has message @number of rank @peer come, or been offered, as a long one? */
OUTLINE bool long_met(const gpu_messages_args &a, unsigned peer, uint32_t number, met *out)
{
	uint64_t *tail = line_at(a, a.call.rank, (int)peer, 0, LINE_TAIL);
	uint64_t come = load_word_acquire(tail), end = come;

	if (load_word_acquire(tail + TAIL_OFFERED) == come + 1)
		end++;
#pragma unroll 1
	for (uint64_t c = come > GPU_MESSAGE_SLOTS ? come - GPU_MESSAGE_SLOTS : 0; c < end; c++) {
		if (read_header(out, header_at(tail, c), number))
			return true;
	}
	return false;
}

/* Has it come as a short one? What a slot held before has a lower number. */
OUTLINE bool short_met(const gpu_messages_args &a, unsigned peer, uint32_t number, met *out)
{
#pragma unroll 1
	for (uint32_t i = 0; i < GPU_SHORT_SLOTS && a.short_lanes; i++) {
		const char *h = short_slot_at(a, a.call.rank, (int)peer, 0, i) + GPU_SHORT_HEADER;
		vec16 first = load_flagged(h), second = load_flagged(h + 16);
		uint32_t flag = (uint32_t)(second.y >> 32);

		if (!flag || cell_lacks(first, flag) || cell_lacks(second, flag) || (uint32_t)second.y != number)
			continue;
		out->bytes = (uint32_t)second.x;
		out->word = cell_unpack(first);
		return true;
	}
	return false;
}

/* Rarely, by a receiver that waits for @m, message @number of rank @peer: has another one come in its place? */
OUTLINE bool came_otherwise(const gpu_messages_args &a, unsigned peer, const gpu_message &m, uint32_t number)
{
	met x;

	if (!long_met(a, peer, number, &x) && !short_met(a, peer, number, &x))
		return false;
	if (fits(m, x))
		return false;
	tell_odd(a, peer, m, x);
	return true;
}

/* --- numbers --- */
DEVICE uint64_t *number_of(const gpu_messages_args &a, enum gpu_path path, const gpu_flow &f)
{
	unsigned sends = f.kind == GPU_FLOW_SEND;

	return a.numbers + ((unsigned)path * 2 + sends) * (unsigned)a.call.nranks + f.peer;
}

/* After the flow, by its first lane; for the other path too where that has none of the pair in this launch. */
DEVICE void count_flow(const gpu_messages_args &a, enum gpu_path path, const gpu_flow &f, uint32_t first)
{
	*number_of(a, path, f) = first + f.total;
	if (f.total == f.count)
		*number_of(a, path == GPU_PATH_LONG ? GPU_PATH_SHORT : GPU_PATH_LONG, f) = first + f.total;
}

#endif
