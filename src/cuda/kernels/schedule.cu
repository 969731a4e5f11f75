/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program that a schedule (sched.h) has for this rank: rings, trees, two levels, for GPUs of which not all
 * address each other. Each block is a channel: it has a part of every block of the buffers, cuts it into slices, and
 * goes through the program once for each slice, a chunk at a time.
 *
 * A message is a slot of a lane (lanes.cuh): the step waits until all that it takes has come and all that it sends
 * has room, reduces in rank order, and stores the value to the buffer and to the slots of those to whom it goes. So
 * what is sent on goes from slot to slot, read once.
 *
 * Lanes count for ever, from launch to launch: ranks need not meet at the beginning of a call. */
#include "cuda/kernels/lanes.cuh"
#include "cuda/kernels/value.cuh"

#define THREADS 512

/* What a step does with a chunk. */
struct shared_step {
	const char *src[GPU_MAX_RANKS + 1]; /* in the order of their ranks */
	char *dst[GPU_MAX_RANKS + 1];
	int nsrc, ndst;
	int own; /* which of src[] is to be multiplied; -1: none */
	int good;
	uint64_t taken[GPU_MAX_RANKS], sent[GPU_MAX_RANKS];
};

/* The part of every block that is this channel's, and the slice at hand. */
struct channel {
	uint64_t end, slice; /* in a block */
	char *scratch;
};

DEVICE bool all_good(shared_step *s, bool good)
{
	if (!good)
		s->good = 0;
	block_sync();
	return s->good;
}

/* --- lanes --- */
DEVICE uint64_t *line_of(char *lines)
{
	return (uint64_t *)(lines + (uint64_t)block_index() * LINES * GPU_LINE);
}

DEVICE char *slot_of(char *slots, const gpu_end &e, uint64_t count)
{
	return slots + block_index() * e.slot_stride + count % GPU_MESSAGE_SLOTS * (e.slot_stride / GPU_MESSAGE_SLOTS);
}

DEVICE uint64_t word_of_call(const gpu_call &c)
{
	return (uint64_t)c.sig << 32 | (uint32_t)GPU_TAG_STEP;
}

/* False: the call is over, or what came is of another one. */
DEVICE bool await_message(const gpu_schedule_args &a, int p, uint64_t count, uint64_t len)
{
	uint64_t *tail = line_of(a.ends[p].tail_in);
	const uint64_t *h = header_at(tail, count);
	uint32_t spins = 0;

	while (load_word_acquire(tail) <= count)
		if (!keep_waiting(a.call, spins))
			return false;
	if (load_word(h) == header_word(len, 0) && load_word(h + 1) == word_of_call(a.call))
		return true;
	tell_trouble(a.call, p);
	return false;
}

DEVICE bool await_room(const gpu_schedule_args &a, int p, uint64_t count)
{
	const uint64_t *head = line_of(a.ends[p].head_out);
	uint32_t spins = 0;

	while (count - load_word_acquire(head) >= GPU_MESSAGE_SLOTS)
		if (!keep_waiting(a.call, spins))
			return false;
	return true;
}

DEVICE void tell_sent(const gpu_schedule_args &a, int p, uint64_t count, uint64_t len)
{
	uint64_t *tail = line_of(a.ends[p].tail_out), *h = header_at(tail, count);

	store_word(h, header_word(len, 0));
	store_word(h + 1, word_of_call(a.call));
	store_word(tail + GPU_TAIL_BYTES + count % GPU_MESSAGE_SLOTS, len);
	store_word_release(tail, count + 1);
}

/* --- chunks --- */
DEVICE uint64_t chunk_length(const gpu_schedule_args &a, const channel &c, uint32_t part)
{
	uint64_t at = c.slice + (uint64_t)part * a.chunk_bytes;

	if (at >= c.end)
		return 0;
	return c.end - at < a.chunk_bytes ? c.end - at : a.chunk_bytes;
}

DEVICE char *chunk_of(const gpu_schedule_args &a, const channel &c, unsigned buf, uint32_t chunk)
{
	char *base = buf == GPU_BUF_IN ? (char *)a.in : a.out;

	if (buf == GPU_BUF_SCRATCH)
		return c.scratch + (uint64_t)chunk * a.chunk_bytes;
	return base + chunk / a.per_block * a.bytes + c.slice + (uint64_t)(chunk % a.per_block) * a.chunk_bytes;
}

/* The buffers of this rank that take part. */
DEVICE void own_places(const gpu_schedule_args &a, const channel &c, const gpu_step &t, int k, shared_step *s)
{
	int before = 0;

	s->nsrc = t.nfrom;
	s->ndst = t.nto;
	s->own = -1;
	if (t.src) {
		while (before < t.nfrom && a.peers[t.from + before] < a.call.rank)
			before++;
		s->src[before] = chunk_of(a, c, t.src, (uint32_t)(t.src_chunk + k));
		s->own = t.src == GPU_BUF_IN && a.value.scaled ? before : -1;
		s->nsrc++;
	}
	if (t.dst)
		s->dst[s->ndst++] = chunk_of(a, c, t.dst, (uint32_t)(t.dst_chunk + k));
	/* In place. */
	if (s->nsrc == 1 && !t.nfrom && t.dst && s->own < 0 && s->dst[t.nto] == s->src[0])
		s->ndst--;
}

/* Those from whom something comes, then those to whom it goes. */
DEVICE int peer_of(const gpu_schedule_args &a, const gpu_step &t, unsigned i)
{
	return a.peers[i < t.nfrom ? t.from + i : t.to + i - t.nfrom];
}

/* All that comes has come, all that goes has room. */
DEVICE bool await_peers(const gpu_schedule_args &a, const gpu_step &t, uint64_t len, shared_step *s)
{
	bool good = true;

	for (unsigned i = thread_index(); i < (unsigned)t.nfrom + t.nto; i += thread_count()) {
		int p = peer_of(a, t, i);
		const gpu_end &e = a.ends[p];

		if (i < t.nfrom) {
			good = await_message(a, p, s->taken[p], len) && good;
			s->src[i + (t.src && p > a.call.rank)] = slot_of(e.slots_in, e, s->taken[p]);
		} else {
			good = await_room(a, p, s->sent[p]) && good;
			s->dst[i - t.nfrom] = slot_of(e.slots_out, e, s->sent[p]);
		}
	}
	return all_good(s, good);
}

DEVICE void tell_peers(const gpu_schedule_args &a, const gpu_step &t, uint64_t len, shared_step *s)
{
	for (unsigned i = thread_index(); i < (unsigned)t.nfrom + t.nto; i += thread_count()) {
		int p = peer_of(a, t, i);

		if (i < t.nfrom)
			store_word_release(line_of(a.ends[p].head_in), ++s->taken[p]);
		else
			tell_sent(a, p, s->sent[p]++, len);
	}
	block_sync();
}

/* --- values --- */
template <int K, int U>
DEVICE void read_some(vec16 *v, const gpu_value &value, const shared_step *s, int r, uint64_t x, uint64_t step)
{
#pragma unroll
	for (int u = 0; u < U; u++)
		v[u] = get16(s->src[r] + x + u * step);
	if (r != s->own)
		return;
#pragma unroll
	for (int u = 0; u < U; u++)
		v[u] = { scaled_word<K>(v[u].x, value.scalar), scaled_word<K>(v[u].y, value.scalar) };
}

/* U pieces of 16 bytes, @step apart, to all places. */
template <int K, int OP, int U>
DEVICE void move_some(const gpu_value &value, const shared_step *s, uint64_t x, uint64_t step)
{
	vec16 v[U];

	if (s->nsrc == 1)
		read_some<K, U>(v, value, s, 0, x, step);
	else
		sum_some<K, OP, U>(v, s->nsrc, value, [&](int r) { read_some<K, U>(v, value, s, r, x, step); });
#pragma unroll 1
	for (int d = 0; d < s->ndst; d++)
#pragma unroll
		for (int u = 0; u < U; u++)
			*(vec16 *)(s->dst[d] + x + u * step) = v[u];
}

template <int K>
DEVICE uint64_t read_word(const gpu_value &value, const shared_step *s, int r, uint64_t i, uint64_t bytes)
{
	uint64_t w = get_word(s->src[r], i, bytes);

	return r == s->own ? scaled_word<K>(w, value.scalar) : w;
}

template <int K> DEVICE void move_words(const gpu_value &value, const shared_step *s, uint64_t from, uint64_t bytes)
{
#pragma unroll 1
	for (uint64_t i = from / 8 + thread_index(); i < (bytes + 7) / 8; i += thread_count()) {
		uint64_t w = read_word<K>(value, s, 0, i, bytes);

		if (s->nsrc > 1) {
			pack<K> sum = pack_of<K>(w);

			for (int r = 1; r < s->nsrc; r++)
				pack_add<K, ANY>(sum, read_word<K>(value, s, r, i, bytes), value);
			w = word_of(sum, value);
		}
		for (int d = 0; d < s->ndst; d++)
			put_word(s->dst[d], i, bytes, w);
	}
}

DEVICE bool all_aligned(const shared_step *s)
{
	uintptr_t bits = 0;

	for (int r = 0; r < s->nsrc; r++)
		bits |= (uintptr_t)s->src[r];
	for (int d = 0; d < s->ndst; d++)
		bits |= (uintptr_t)s->dst[d];
	return !(bits & 15);
}

template <int K> OUTLINE void move(const gpu_value &value, const shared_step *s, uint64_t bytes)
{
	enum { U = sizeof(typename of_kind<K>::E) >= 4 ? 4 : 2 };
	uint64_t step = (uint64_t)thread_count() * 16, x = (uint64_t)thread_index() * 16;

	if (!all_aligned(s)) {
		move_words<K>(value, s, 0, bytes);
		return;
	}
	if (value.op == GPU_SUM || s->nsrc == 1)
#pragma unroll 1
		for (; x + (U - 1) * step + 16 <= bytes; x += U * step)
			move_some<K, GPU_SUM, U>(value, s, x, step);
#pragma unroll 1
	for (; x + 16 <= bytes; x += step)
		move_some<K, ANY, 1>(value, s, x, step);
	move_words<K>(value, s, bytes / 16 * 16, bytes);
}

/* The slice of the result, of a mean of integers. */
template <int K> OUTLINE void divide(char *to, const gpu_value &value, uint64_t bytes)
{
	for (uint64_t i = thread_index(); i < (bytes + 7) / 8; i += thread_count())
		put_word(to, i, bytes, word_of(pack_of<K>(get_word(to, i, bytes)), value));
}

/* --- the program --- */
template <int K>
DEVICE bool run_step(const gpu_schedule_args &a, const gpu_value &value, const channel &c, const gpu_step &t,
		     shared_step *s)
{
	for (int k = 0; k < t.nchunks; k++) {
		uint32_t chunk = (uint32_t)((t.dst ? t.dst_chunk : t.src ? t.src_chunk : 0) + k);
		uint64_t len = chunk_length(a, c, chunk % a.per_block);

		if (!len)
			continue;
		if (thread_index() == 0)
			own_places(a, c, t, k, s);
		if (!await_peers(a, t, len, s))
			return false;
		move<K>(value, s, len);
		block_sync();
		tell_peers(a, t, len, s);
	}
	return true;
}

template <int K>
DEVICE bool run_slice(const gpu_schedule_args &a, const gpu_value &value, const channel &c, shared_step *s)
{
	uint64_t left = c.end - c.slice, all = (uint64_t)a.per_block * a.chunk_bytes;

	for (uint32_t i = 0; i < a.nsteps; i++)
		if (!run_step<K>(a, value, c, a.steps[i], s))
			return false;
	if (a.value.divide)
		divide<K>(a.out + c.slice, a.value, left < all ? left : all);
	return true;
}

DEVICE void load_counts(const gpu_schedule_args &a, shared_step *s)
{
	for (int p = (int)thread_index(); p < a.call.nranks; p += (int)thread_count()) {
		if (p == a.call.rank)
			continue;
		s->taken[p] = a.ends[p].taken[block_index()];
		s->sent[p] = a.ends[p].sent[block_index()];
	}
	if (thread_index() == 0) {
		s->good = 1;
		count_up(a.begun);
	}
	block_sync();
}

DEVICE void save_counts(const gpu_schedule_args &a, const shared_step *s)
{
	block_sync();
	for (int p = (int)thread_index(); p < a.call.nranks; p += (int)thread_count()) {
		if (p == a.call.rank)
			continue;
		a.ends[p].taken[block_index()] = s->taken[p];
		a.ends[p].sent[block_index()] = s->sent[p];
	}
	if (thread_index() == 0)
		count_up(a.ended);
}

template <int K> DEVICE void schedule_run(const gpu_schedule_args &a)
{
	SHARED shared_step s;
	gpu_value value = a.value;
	channel c;
	uint64_t each = ((a.bytes + block_count() - 1) / block_count() + GPU_LINE - 1) / GPU_LINE * GPU_LINE;

	wait_for_last();
	let_next_start();
	load_counts(a, &s);
	value.divide = 0;
	c.slice = each * block_index();
	c.end = c.slice + each < a.bytes ? c.slice + each : a.bytes;
	c.scratch = a.scratch + (uint64_t)block_index() * a.scratch_chunks * a.chunk_bytes;
	while (c.slice < c.end && run_slice<K>(a, value, c, &s))
		c.slice += (uint64_t)a.per_block * a.chunk_bytes;
	save_counts(a, &s);
}

#define KERNELS(kind)                                                                                                  \
	KERNEL(schedule_##kind, gpu_schedule_args, THREADS)                                                            \
	{                                                                                                              \
		schedule_run<kind>(a);                                                                                 \
	}

GPU_FOR_KINDS(KERNELS)
