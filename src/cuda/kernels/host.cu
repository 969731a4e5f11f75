/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages between ranks whose GPUs do not address each other: by way of host memory that all have mapped. What
 * a rank sends it writes there once, and whoever wants it reads it; its own input never leaves the GPU.
 *
 * Blocks are pairs, a lane each: one writes this rank's pieces into the slots of the lane, the other reads those of
 * the others, reduces in rank order and stores. A lane has a part of the buffers and goes through it in items, each a
 * slot of every rank that sends; the two blocks run on their own, so that both directions of the bus are busy.
 *
 *   one shot   an item is a slice of the piece (of each receiver's piece where they differ). Any collective.
 *   two shot   all-reduce of more than two ranks: an item is a slice of which every rank reduces its part, or the
 *              reduced part of an earlier slice.
 *
 * Marks, 8 bytes with the number of the call in the upper half, the lower one counts items:
 *   in the mail of a rank   for each lane a line "written", and a line "read" of each rank
 *   in its GPU's memory     for each lane "written" and "read" of its own blocks
 * and a line "begun" with the signature of the call: no block writes a slot before all ranks have begun. One block
 * looks for that and tells the others in GPU memory: reads of one line of host memory by many queue up (3 us a block).
 *
 * A store that the whole system is to see in order costs all blocks of the GPU 0.3 us, so slots are large, and
 * there is one such store an item: "written". Of "read" none: what was read has been used.
 *
 * Traffic over the bus, all-reduce of S bytes: S out and S in with two ranks; with n S out, 2 (n - 1) / n S in. */
#include "cuda/kernels/call.cuh"
#include "cuda/kernels/value.cuh"

#define THREADS 512
#define LEAD 2 /* slices that the first half of two shots is ahead of the second */

struct shared_lane {
	const char *src[GPU_MAX_RANKS]; /* of a reduction, by rank */
	int good;
};

/* --- marks --- */
DEVICE unsigned pair_index()
{
	return block_index() / 2;
}

DEVICE unsigned pair_count()
{
	return block_count() / 2;
}

/* Words of calls of even and odd number: a rank may have begun the next call already. */
DEVICE uint64_t *begun_word(const gpu_host_args &a, int at, uint32_t epoch)
{
	return (uint64_t *)(a.direct.call.mail[at] + a.lines) + (epoch & 1);
}

/* @reader: -1: what the writer @at itself has written. */
DEVICE uint64_t *mark_line(const gpu_host_args &a, int at, int reader)
{
	uint64_t lines = (uint64_t)pair_index() * (unsigned)(a.direct.call.nranks + 1) + (unsigned)(reader + 2);

	return (uint64_t *)(a.direct.call.mail[at] + a.lines + lines * GPU_LINE);
}

enum own { OWN_WRITTEN, OWN_READ, OWN_MARKS };

DEVICE uint64_t *own_mark(const gpu_host_args &a, enum own which)
{
	return a.marks + 1 + pair_index() * OWN_MARKS + which;
}

DEVICE uint64_t mark(uint32_t epoch, uint32_t items)
{
	return (uint64_t)epoch << 32 | items;
}

/* Until @at has come to @want. False: the call is over. */
DEVICE bool await(const gpu_call &c, const uint64_t *at, uint64_t want)
{
	uint32_t spins = 0;

	while ((int64_t)(load_word_acquire(at) - want) < 0)
		if (!keep_waiting(c, spins))
			return false;
	return true;
}

/* All threads of the block; each has what it waited for. */
DEVICE bool all_good(shared_lane *s, bool good)
{
	if (!good)
		s->good = 0;
	block_sync();
	return s->good;
}

enum met { MET_OTHER = 1, MET_ALL };

DEVICE bool meet_peer(const gpu_host_args &a, uint32_t epoch, int p)
{
	const gpu_call &c = a.direct.call;

	if (!await(c, begun_word(a, p, epoch), mark(epoch, 0)))
		return false;
	if ((uint32_t)load_word(begun_word(a, p, epoch)) == c.sig)
		return true;
	tell_trouble(c, p);
	return false;
}

/* The first block, for all. */
DEVICE void meet_all(const gpu_host_args &a, uint32_t epoch, shared_lane *s)
{
	const gpu_call &c = a.direct.call;
	bool good = true;

	for (int p = (int)thread_index(); p < c.nranks; p += (int)thread_count())
		good = (p == c.rank || wait_room(c, p, epoch)) && good;
	if (!all_good(s, good))
		return;
	if (thread_index() == 0)
		store_word(begun_word(a, c.rank, epoch), mark(epoch, c.sig));
	for (int p = (int)thread_index(); p < c.nranks; p += (int)thread_count())
		good = (p == c.rank || meet_peer(a, epoch, p)) && good;
	good = all_good(s, good);
	if (good)
		note_all_begun(c, epoch);
	if (thread_index() == 0)
		store_word_release(a.marks, mark(epoch, good ? MET_ALL : MET_OTHER));
}

/* All ranks have begun this call, and so ended the one before: all slots are free. */
DEVICE bool meet(const gpu_host_args &a, uint32_t epoch, shared_lane *s)
{
	bool good = true;

	if (thread_index() == 0)
		s->good = 1;
	block_sync();
	if (block_index() == 0)
		meet_all(a, epoch, s);
	else if (thread_index() == 0)
		good = await(a.direct.call, a.marks, mark(epoch, MET_OTHER)) &&
		       load_word(a.marks) == mark(epoch, MET_ALL);
	return all_good(s, good);
}

/* --- items --- */
struct item {
	uint64_t at, bytes; /* of the slice, in a piece */
	uint32_t number;
	bool second;	/* of two shots */
	uint32_t first; /* second: the number of the slice's first item */
};

struct walk {
	uint64_t from, first, second, end, slice;
	uint32_t number;
	bool two;
};

DEVICE uint64_t round_up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

/* Share @r of @n of @bytes, in whole lines. */
DEVICE void cut(uint64_t *at, uint64_t *len, uint64_t bytes, uint64_t r, uint64_t n)
{
	uint64_t each = round_up((bytes + n - 1) / n, GPU_LINE), from = each * r < bytes ? each * r : bytes;

	*at = from;
	*len = bytes - from < each ? bytes - from : each;
}

DEVICE bool two_shot(const gpu_direct_args &d)
{
	return d.call.nranks > 2 && d.shape.reduces && !d.shape.scatters && d.shape.to < 0;
}

DEVICE walk walk_of(const gpu_host_args &a)
{
	const gpu_direct_args &d = a.direct;
	walk w;
	uint64_t len;

	cut(&w.from, &len, d.bytes, pair_index(), pair_count());
	w.first = w.second = w.from;
	w.end = w.from + len;
	w.slice = a.slot_bytes / (d.shape.scatters ? (unsigned)d.call.nranks : 1u) / GPU_LINE * GPU_LINE;
	w.number = 0;
	w.two = two_shot(d);
	return w;
}

/* Slice k comes first as item k while there is a lead to gain, then as every other one. */
DEVICE uint32_t first_of(const walk &w, uint64_t at)
{
	uint32_t k = (uint32_t)((at - w.from) / w.slice);

	return k < LEAD ? k : 2 * k - LEAD + 1;
}

/* The same on all ranks and in both blocks. */
DEVICE bool next_item(walk &w, item *i)
{
	bool second = w.two && w.second < w.end && (w.first == w.end || w.first - w.second >= LEAD * w.slice);
	uint64_t at = second ? w.second : w.first, left = w.end - at;

	if (!left)
		return false;
	i->at = at;
	i->bytes = left < w.slice ? left : w.slice;
	i->number = w.number++;
	i->second = second;
	i->first = first_of(w, at);
	(second ? w.second : w.first) = at + i->bytes;
	return true;
}

/* The part of the slice that rank @r reduces: two shots. */
DEVICE void part_of(uint64_t *from, uint64_t *len, const gpu_direct_args &d, const item &i, int r)
{
	cut(from, len, i.bytes, (uint64_t)r, (uint64_t)d.call.nranks);
}

DEVICE char *slot_of(const gpu_host_args &a, int rank, uint32_t number)
{
	uint64_t k = (uint64_t)pair_index() * a.nslots + number % a.nslots;

	return a.direct.call.mail[rank] + a.slots + k * a.slot_bytes;
}

/* --- copies; into the slot goes what is to be reduced --- */
template <typename F> OUTLINE void copy(char *to, const char *from, uint64_t bytes, F each)
{
	if (to != from)
		block_copy(to, from, bytes, each);
}

template <int K> DEVICE void copy_in(const gpu_direct_args &d, char *to, const char *from, uint64_t bytes)
{
	if (d.value.scaled)
		copy(to, from, bytes, multiplied<K>{ d.value.scalar });
	else
		copy(to, from, bytes, as_it_is());
}

DEVICE void copy_out(char *to, const char *from, uint64_t bytes)
{
	copy(to, from, bytes, as_it_is());
}

/* --- the block that writes --- */
/* Does rank @p read what rank @by sends? */
DEVICE bool is_reader(const gpu_direct_args &d, int p, int by)
{
	return p != by && sends(d.shape, by) && receives(d.shape, p);
}

DEVICE bool writes(const gpu_direct_args &d)
{
	return sends(d.shape, d.call.rank) && d.shape.to != d.call.rank;
}

/* The slot is free, and what goes there is known. */
DEVICE bool await_readers(const gpu_host_args &a, uint32_t epoch, const item &i, shared_lane *s)
{
	const gpu_call &c = a.direct.call;
	bool good = true;

	for (int p = (int)thread_index(); p < c.nranks && good; p += (int)thread_count()) {
		if (i.number >= a.nslots && is_reader(a.direct, p, c.rank))
			good = await(c, mark_line(a, c.rank, p), mark(epoch, i.number - a.nslots + 1));
		if (good && i.second && p == c.rank)
			good = await(c, own_mark(a, OWN_READ), mark(epoch, i.first + 1));
	}
	return all_good(s, good);
}

/* Parts and pieces of all other ranks, each at its place in the slot. */
template <int K> DEVICE void write_parts(const gpu_host_args &a, const walk &w, const item &i, char *slot)
{
	const gpu_direct_args &d = a.direct;

	for (int k = 1; k < d.call.nranks; k++) {
		int p = peer_after(d.call, k);
		uint64_t from, len;

		if (w.two) {
			part_of(&from, &len, d, i, p);
			copy_in<K>(d, slot + from, d.in + i.at + from, len);
		} else if (is_reader(d, p, d.call.rank)) {
			copy_in<K>(d, slot + (uint64_t)p * w.slice, piece_for(d, p) + i.at, i.bytes);
		}
	}
}

template <int K> DEVICE void write_item(const gpu_host_args &a, const walk &w, const item &i)
{
	const gpu_direct_args &d = a.direct;
	char *slot = slot_of(a, d.call.rank, i.number);
	uint64_t from, len;

	if (i.second) {
		part_of(&from, &len, d, i, d.call.rank);
		copy_out(slot + from, d.out + i.at + from, len);
	} else if (w.two || d.shape.scatters) {
		write_parts<K>(a, w, i, slot);
	} else {
		copy_in<K>(d, slot, d.in + i.at, i.bytes);
	}
}

/* For those who carry the slot to its readers. */
DEVICE void write_label(const gpu_host_args &a, const walk &w, const item &i)
{
	const gpu_direct_args &d = a.direct;
	uint64_t *label = mark_line(a, d.call.rank, -1) + GPU_LABEL_AT(i.number % a.nslots);
	uint64_t at = 0, len = i.bytes;
	gpu_label form = GPU_LABEL_ALL;

	if (i.second) {
		part_of(&at, &len, d, i, d.call.rank);
	} else if (w.two) {
		form = GPU_LABEL_PARTS;
	} else if (d.shape.scatters) {
		form = GPU_LABEL_PIECES;
		at = w.slice;
	}
	store_word(label, GPU_LABEL_PLACE(at, len));
	store_word(label + 1, GPU_LABEL_FOR(form, d.shape.to));
}

template <int K> DEVICE void write_lane(const gpu_host_args &a, uint32_t epoch, shared_lane *s)
{
	const gpu_direct_args &d = a.direct;
	walk w = walk_of(a);
	item i;

	if (!writes(d))
		return;
	while (next_item(w, &i)) {
		if (!await_readers(a, epoch, i, s))
			return;
		write_item<K>(a, w, i);
		block_sync();
		if (thread_index() == 0) {
			if (a.labels)
				write_label(a, w, i);
			store_word_release(mark_line(a, d.call.rank, -1), mark(epoch, i.number + 1));
			store_word(own_mark(a, OWN_WRITTEN), mark(epoch, i.number + 1));
		}
	}
}

/* --- the block that reads --- */
/* What is to be read is there; and nothing that is still to be written by this rank is overwritten. */
DEVICE bool await_writers(const gpu_host_args &a, uint32_t epoch, const item &i, shared_lane *s)
{
	const gpu_direct_args &d = a.direct;
	const gpu_call &c = d.call;
	bool good = true;

	for (int p = (int)thread_index(); p < c.nranks && good; p += (int)thread_count()) {
		if (is_reader(d, c.rank, p))
			good = await(c, mark_line(a, p, -1), mark(epoch, i.number + 1));
		if (good && p == c.rank && writes(d))
			good = await(c, own_mark(a, OWN_WRITTEN), mark(epoch, i.number + 1));
	}
	return all_good(s, good);
}

template <int K> struct unroll_of {
	enum { U = sizeof(typename of_kind<K>::E) >= 4 ? 8 : sizeof(typename of_kind<K>::E) == 2 ? 4 : 2 };
};

template <int K> struct pair_of_packs {
	pack<K> lo, hi;
};

/* @U times 16 bytes of a rank, @step apart. */
template <int U> DEVICE void load_some(vec16 (&v)[U], const char *from, uint64_t step)
{
#pragma unroll
	for (int u = 0; u < U; u++)
		v[u] = get16(from + u * step);
}

/* What is in the slots has been multiplied. */
template <int K, int U> DEVICE void scale_own(vec16 (&v)[U], const gpu_direct_args &d, int r)
{
	if (!d.value.scaled || r != d.call.rank)
		return;
#pragma unroll
	for (int u = 0; u < U; u++) {
		v[u].x = scaled_word<K>(v[u].x, d.value.scalar);
		v[u].y = scaled_word<K>(v[u].y, d.value.scalar);
	}
}

/* Two ranks are asked for at once: one of them at least is far. */
template <int K, int OP, int U>
DEVICE void reduce_some(const gpu_direct_args &d, const shared_lane *s, char *to, uint64_t x, uint64_t step)
{
	pair_of_packs<K> sum[U];
	vec16 a[U], b[U];

	load_some<U>(a, s->src[0] + x, step);
	load_some<U>(b, s->src[1] + x, step);
	scale_own<K, U>(a, d, 0);
#pragma unroll
	for (int u = 0; u < U; u++) {
		sum[u].lo = pack_of<K>(a[u].x);
		sum[u].hi = pack_of<K>(a[u].y);
	}
#pragma unroll 1
	for (int r = 1; r < d.call.nranks; r++) {
		if (r > 1)
			load_some<U>(b, s->src[r] + x, step);
		scale_own<K, U>(b, d, r);
#pragma unroll
		for (int u = 0; u < U; u++) {
			pack_add<K, OP>(sum[u].lo, b[u].x, d.value);
			pack_add<K, OP>(sum[u].hi, b[u].y, d.value);
		}
	}
#pragma unroll
	for (int u = 0; u < U; u++) {
		vec16 v = { word_of(sum[u].lo, d.value), word_of(sum[u].hi, d.value) };

		*(vec16 *)(to + x + u * step) = v;
	}
}

template <int K>
DEVICE void reduce_words(const gpu_direct_args &d, const shared_lane *s, char *to, uint64_t from, uint64_t bytes)
{
	for (uint64_t i = from / 8 + thread_index(); i < (bytes + 7) / 8; i += thread_count()) {
		pack<K> sum;

		for (int r = 0; r < d.call.nranks; r++) {
			uint64_t w = get_word(s->src[r], i, bytes);

			if (d.value.scaled && r == d.call.rank)
				w = scaled_word<K>(w, d.value.scalar);
			if (r == 0)
				sum = pack_of<K>(w);
			else
				pack_add<K, ANY>(sum, w, d.value);
		}
		put_word(to, i, bytes, word_of(sum, d.value));
	}
}

/* s->src[] of all ranks, reduced. */
template <int K> OUTLINE void reduce(const gpu_direct_args &d, const shared_lane *s, char *to, uint64_t bytes)
{
	enum { U = unroll_of<K>::U };
	uint64_t step = (uint64_t)thread_count() * 16, x = (uint64_t)thread_index() * 16;

	if (((uintptr_t)to | (uintptr_t)s->src[d.call.rank]) & 15) {
		reduce_words<K>(d, s, to, 0, bytes);
		return;
	}
	if (d.value.op == GPU_SUM)
#pragma unroll 1
		for (; x + (U - 1) * step + 16 <= bytes; x += U * step)
			reduce_some<K, GPU_SUM, U>(d, s, to, x, step);
#pragma unroll 1
	for (; x + 16 <= bytes; x += step)
		reduce_some<K, ANY, 1>(d, s, to, x, step);
	reduce_words<K>(d, s, to, bytes / 16 * 16, bytes);
}

/* The slice, or this rank's part of it, of all ranks. */
template <int K> DEVICE void read_sum(const gpu_host_args &a, const walk &w, const item &i, shared_lane *s)
{
	const gpu_direct_args &d = a.direct;
	uint64_t from = 0, len = i.bytes;

	if (w.two)
		part_of(&from, &len, d, i, d.call.rank);
	for (int p = (int)thread_index(); p < d.call.nranks; p += (int)thread_count()) {
		if (p == d.call.rank)
			s->src[p] = piece_for(d, p) + i.at + from;
		else
			s->src[p] = slot_of(a, p, i.number) + from +
				    (d.shape.scatters ? (uint64_t)d.call.rank * w.slice : 0);
	}
	block_sync();
	reduce<K>(d, s, d.out + i.at + from, len);
}

/* A piece of each rank that sends, or the reduced parts of the others. */
DEVICE void read_pieces(const gpu_host_args &a, const walk &w, const item &i)
{
	const gpu_direct_args &d = a.direct;
	int me = d.call.rank;

	if (!i.second && sends(d.shape, me))
		copy_out(place_of(d, me) + i.at, piece_for(d, me) + i.at, i.bytes);
	for (int k = 1; k < d.call.nranks; k++) {
		int p = peer_after(d.call, k);
		const char *slot = slot_of(a, p, i.number);
		uint64_t from, len;

		if (i.second) {
			part_of(&from, &len, d, i, p);
			copy_out(d.out + i.at + from, slot + from, len);
		} else if (is_reader(d, me, p)) {
			copy_out(place_of(d, p) + i.at, slot + (d.shape.scatters ? (uint64_t)me * w.slice : 0),
				 i.bytes);
		}
	}
}

/* With two shots the other block reads what was stored here. */
DEVICE void tell_writers(const gpu_host_args &a, uint32_t epoch, const walk &w, const item &i)
{
	const gpu_call &c = a.direct.call;

	for (int p = (int)thread_index(); p < c.nranks; p += (int)thread_count()) {
		if (is_reader(a.direct, c.rank, p))
			store_word(mark_line(a, p, c.rank), mark(epoch, i.number + 1));
		if (p == c.rank && w.two && !i.second)
			store_word_release(own_mark(a, OWN_READ), mark(epoch, i.number + 1));
	}
}

template <int K> DEVICE void read_lane(const gpu_host_args &a, uint32_t epoch, shared_lane *s)
{
	const gpu_direct_args &d = a.direct;
	walk w = walk_of(a);
	item i;

	if (!receives(d.shape, d.call.rank))
		return;
	while (next_item(w, &i)) {
		if (!await_writers(a, epoch, i, s))
			return;
		if (d.shape.reduces && !i.second)
			read_sum<K>(a, w, i, s);
		else
			read_pieces(a, w, i);
		block_sync();
		tell_writers(a, epoch, w, i);
	}
}

template <int K> DEVICE void host_run(const gpu_host_args &a)
{
	SHARED shared_lane s;
	uint32_t epoch = call_number(a.direct.call);

	let_next_start();
	if (meet(a, epoch, &s)) {
		if (block_index() & 1)
			read_lane<K>(a, epoch, &s);
		else
			write_lane<K>(a, epoch, &s);
	}
	call_end(a.direct.call, epoch);
}

#define KERNELS(kind)                                                                                                  \
	KERNEL(host_##kind, gpu_host_args, THREADS)                                                                    \
	{                                                                                                              \
		host_run<kind>(a);                                                                                     \
	}

GPU_FOR_KINDS(KERNELS)
