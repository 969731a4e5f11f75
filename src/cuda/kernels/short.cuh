/* SPDX-License-Identifier: Apache-2.0 */
/* Short messages: data and flags in one store, so that one trip is all there is: no fence, nobody chooses.
 *
 * What rank s sends to rank r goes through lanes in r's mail, each of GPU_SHORT_SLOTS slots. In a launch a warp has one
 * lane of one flow. A message is cut into rows, a word for each thread of a warp; lane j of L has the rows j, j + L,
 * ... and moves GPU_SHORT_ROWS of them in a slot. The flag of a cell is 1 + the slots of the lane before it, so that
 * nothing is cleared. The first slot of a message in lane 0 has a header too: two cells, the word of the message, and
 * its length with its number.
 *
 * The receiver tells now and then, at the sender, how many slots it has taken: what was loaded is in registers.
 *
 * Traffic: the message twice over the link, and once from the slots. */
#ifndef CUDA_KERNELS_SHORT_H
#define CUDA_KERNELS_SHORT_H

#include "cuda/kernels/message.cuh"

/* What the warp moves next of a message. */
struct rows {
	uint32_t first, step, words; /* step: between its rows; words: of the message */
};

DEVICE rows rows_of(const gpu_message &m, unsigned lane, uint32_t lanes)
{
	rows r = { lane, lanes, ((uint32_t)m.bytes + 7) / 8 };

	return r;
}

DEVICE void next_rows(rows &r)
{
	r.first += GPU_SHORT_ROWS * r.step;
}

DEVICE bool are_past(const rows &r)
{
	return r.first * lane_count() >= r.words;
}

/* This thread's word of row @k. */
DEVICE uint32_t word_index(const rows &r, unsigned k)
{
	return (r.first + k * r.step) * lane_count() + lane_index();
}

DEVICE char *cell_at(char *slot, unsigned k)
{
	return slot + (k * lane_count() + lane_index()) * 16;
}

/* Row 0 is lane 0's first. */
DEVICE bool has_header(const rows &r)
{
	return r.first == 0 && lane_index() == 0;
}

DEVICE uint64_t *short_counter_of(const gpu_messages_args &a, const gpu_flow &f, unsigned lane)
{
	unsigned sends = f.kind == GPU_FLOW_SEND;

	return a.short_counters + (sends * (unsigned)a.call.nranks + f.peer) * a.short_lanes + lane;
}

/* Every word of it is one access. */
DEVICE bool is_plain(const gpu_message &m)
{
	return !(((uintptr_t)m.buf | m.bytes) & 7);
}

/* --- sending --- */
/* Word @k of several in registers. */
DEVICE void select_put(uint64_t *w, unsigned k, uint64_t x)
{
#pragma unroll
	for (unsigned j = 0; j < GPU_SHORT_ROWS; j++)
		w[j] = j == k ? x : w[j];
}

DEVICE void rows_load(uint64_t *w, const gpu_message &m, const rows &r)
{
	if (!is_plain(m)) {
#pragma unroll 1
		for (unsigned k = 0; k < GPU_SHORT_ROWS && word_index(r, k) < r.words; k++)
			select_put(w, k, get_word(m.buf, word_index(r, k), m.bytes));
		return;
	}
#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		if (word_index(r, k) < r.words)
			w[k] = ((const uint64_t *)m.buf)[word_index(r, k)];
}

DEVICE void rows_store(char *slot, const uint64_t *w, const rows &r, uint32_t flag)
{
#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		if (word_index(r, k) < r.words)
			store_flagged(cell_at(slot, k), cell_pack(w[k], flag));
}

DEVICE void header_store(char *slot, const gpu_message &m, uint32_t number, uint32_t flag)
{
	store_flagged(slot + GPU_SHORT_HEADER, cell_pack(m.word, flag));
	store_flagged(slot + GPU_SHORT_HEADER + 16, cell_pack(m.bytes | (uint64_t)number << 32, flag));
}

/* All threads of the warp. */
DEVICE bool wait_credit(const gpu_call &c, const uint64_t *credit, uint32_t count)
{
	return warp_wait(c, [&] { return count - (uint32_t)load_word(credit) < GPU_SHORT_SLOTS; });
}

/* The next rows of a message, into slot @count. All threads of the warp. */
DEVICE bool short_put(const gpu_messages_args &a, const gpu_flow &f, unsigned lane, const gpu_message &m, const rows &r,
		      uint32_t count, uint32_t number)
{
	uint64_t w[GPU_SHORT_ROWS] = {};
	char *slot = short_slot_at(a, f.peer, a.call.rank, lane, count);

	rows_load(w, m, r);
	if (!wait_credit(a.call, credit_at(a, a.call.rank, f.peer, lane), count))
		return false;
	rows_store(slot, w, r, count + 1);
	if (has_header(r))
		header_store(slot, m, number, count + 1);
	return true;
}

/* --- receiving --- */
/* A slot that is waited for. */
struct arrival {
	char *slot;
	uint32_t flag, number;
};

struct header {
	vec16 word, length;
};

/* Is all here that this thread has of the slot? What is not its is as if it were: v comes so. No branches. */
DEVICE bool rows_look(vec16 *v, header *h, const rows &r, const arrival &x)
{
	uint32_t lacks = 0;

#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		if (word_index(r, k) < r.words)
			v[k] = load_flagged(cell_at(x.slot, k));
	if (has_header(r)) {
		h->word = load_flagged(x.slot + GPU_SHORT_HEADER);
		h->length = load_flagged(x.slot + GPU_SHORT_HEADER + 16);
		lacks = cell_lacks(h->word, x.flag) | cell_lacks(h->length, x.flag) |
			((uint32_t)h->length.y ^ x.number);
	}
#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		lacks |= cell_lacks(v[k], x.flag);
	return !lacks;
}

DEVICE vec16 select(const vec16 *v, unsigned k)
{
	vec16 x = v[0];

#pragma unroll
	for (unsigned j = 1; j < GPU_SHORT_ROWS; j++)
		x = j == k ? v[j] : x;
	return x;
}

DEVICE void rows_keep(const vec16 *v, const gpu_message &m, const rows &r)
{
	if (!is_plain(m)) {
#pragma unroll 1
		for (unsigned k = 0; k < GPU_SHORT_ROWS && word_index(r, k) < r.words; k++)
			put_word(m.buf, word_index(r, k), m.bytes, cell_unpack(select(v, k)));
		return;
	}
#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		if (word_index(r, k) < r.words)
			((uint64_t *)m.buf)[word_index(r, k)] = cell_unpack(v[k]);
}

/* Has this receive, or another, met another message than its own? */
OUTLINE bool short_is_lost(const gpu_messages_args &a, unsigned peer, const gpu_message &m, bool heads, uint32_t number)
{
	return load_word(&a.odd->set) || (heads && came_otherwise(a, peer, m, number));
}

DEVICE bool header_fits(const gpu_messages_args &a, unsigned peer, const gpu_message &m, const header &h)
{
	met x = { (uint32_t)h.length.x, cell_unpack(h.word) };

	if (fits(m, x))
		return true;
	tell_odd(a, peer, m, x);
	return false;
}

/* The next rows of a message, from slot @count. All threads of the warp. */
DEVICE bool short_take(const gpu_messages_args &a, const gpu_flow &f, unsigned lane, const gpu_message &m,
		       const rows &r, uint32_t count, uint32_t number)
{
	arrival x = { short_slot_at(a, a.call.rank, f.peer, lane, count), count + 1, number };
	vec16 v[GPU_SHORT_ROWS];
	header h = {};
	uint32_t spins = 0;

#pragma unroll
	for (unsigned k = 0; k < GPU_SHORT_ROWS; k++)
		v[k] = cell_pack(0, x.flag);
	for (;;) {
		if (!any_of_warp(!rows_look(v, &h, r, x)))
			break;
		if (any_of_warp(!keep_waiting(a.call, spins) ||
				(is_rare(spins) && short_is_lost(a, f.peer, m, has_header(r), x.number))))
			return false;
	}
	rows_keep(v, m, r);
	if (!r.first && any_of_warp(has_header(r) && !header_fits(a, f.peer, m, h)))
		return false;
	if (!(x.flag % (GPU_SHORT_SLOTS / 2)) && !lane_index())
		store_word(credit_at(a, f.peer, a.call.rank, lane), x.flag);
	return true;
}

/* --- either --- */
DEVICE void short_move(const gpu_messages_args &a, const gpu_flow &f, unsigned lane, bool sends)
{
	uint64_t *counter = short_counter_of(a, f, lane);
	uint32_t count = (uint32_t)*counter, first = lane ? 0 : (uint32_t)*number_of(a, GPU_PATH_SHORT, f);

#pragma unroll 1
	for (unsigned i = f.first; i < (unsigned)f.first + f.count; i++) {
		const gpu_message &m = a.message[i];
		rows r = rows_of(m, lane, GPU_SHORT_LANES_OF(m.bytes, a.short_lanes));

		if (lane >= r.step)
			continue;
		do {
			if (!(sends ? short_put(a, f, lane, m, r, count, first + a.number[i])
				    : short_take(a, f, lane, m, r, count, first + a.number[i])))
				return;
			count++;
			next_rows(r);
		} while (!are_past(r));
	}
	warp_sync();
	if (lane_index())
		return;
	*counter = count;
	if (!lane)
		count_flow(a, GPU_PATH_SHORT, f, first);
}

/* --- and to oneself --- */
DEVICE void short_copy(const gpu_messages_args &a, const gpu_flow &f, unsigned lane)
{
#pragma unroll 1
	for (unsigned i = f.first; i < (unsigned)f.first + f.count; i++) {
		const gpu_message &m = a.message[i];
		rows r = rows_of(m, lane, GPU_SHORT_LANES_OF(m.bytes, a.short_lanes));

#pragma unroll 1
		for (uint32_t w = word_index(r, 0); lane < r.step && w < r.words; w += r.step * lane_count())
			put_word(m.buf, w, m.bytes, get_word((const char *)m.word, w, m.bytes));
	}
}

/* The flow of a lane's number among all short ones. */
DEVICE unsigned short_flow_of(const gpu_messages_args &a, unsigned number)
{
	unsigned low = a.nflows, high = a.nflows + a.nshort;

	while (high - low > 1) {
		unsigned middle = (low + high) / 2;

		if (a.flow[middle].unit <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

DEVICE void short_lane_work(const gpu_messages_args &a, const gpu_flow &f, unsigned lane)
{
	if (f.kind == GPU_FLOW_SEND)
		short_move(a, f, lane, true);
	else if (f.kind == GPU_FLOW_RECV)
		short_move(a, f, lane, false);
	else
		short_copy(a, f, lane);
}

/* The lane of warp @number; the first of a flow is counted, for who looks. */
DEVICE void short_work(const gpu_messages_args &a, unsigned number)
{
	if (number >= a.nwarps)
		return;
	const gpu_flow &f = a.flow[short_flow_of(a, number)];
	bool counts = number == f.unit && lane_index() == 0;

	if (counts)
		count_up(word_of_all(a, GPU_COUNTER_BEGUN));
	short_lane_work(a, f, number - f.unit);
	if (counts)
		count_up(word_of_all(a, GPU_COUNTER_ENDED));
}

#endif
