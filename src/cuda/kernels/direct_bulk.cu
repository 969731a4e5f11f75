/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages between ranks that address each other's memory: every block reads its part of the buffers
 * of all ranks that matter, reduces in rank order and writes to the buffers of all that want the result.
 * One form serves every collective: see task_of().
 *
 * First a rank's first block tells all blocks of the others where the buffers are; if all are published, the blocks
 * work on them in place, between a barrier before and one after. Else all ranks work in slices over pieces of memory
 * that they share anyway: copy in, barrier, the same work, barrier, copy out. As all blocks of all ranks see the same
 * words, all decide alike, though a buffer may become ready while the call runs.
 *
 * The work has as many shares as there are blocks. Each core block has one; the others take theirs once all ranks have
 * met, or leave when that takes long, and then core blocks take these too, after their own. So two communicators may
 * have calls at once that each fill the GPU, and in another order on another GPU: the core blocks of both fit.
 *
 * Traffic over the links, two ranks, all-reduce of S bytes: S / 2 read and S / 2 written by each. */
#include "cuda/kernels/call.cuh"
#include "cuda/kernels/push.cuh"
#include "cuda/kernels/relay.cuh"
#include "cuda/kernels/value.cuh"

#define THREADS (RELAY_WARPS * 32)
#define PATIENCE_NS 100000 /* of blocks that are not of the core */

/* --- posts: words of call, so that each can be told from those of the call before --- */
enum {
	POST_SIG,
	POST_IN,
	POST_IN_LO,
	POST_IN_HI,
	POST_OUT,
	POST_OUT_LO,
	POST_OUT_HI,
	POST_SCALAR_LO,
	POST_SCALAR_HI,
	POST_BARRIER,
	POST_WORDS
};

/* The addresses of all ranks' buffers here, once agreed. */
struct shared_places {
	uint32_t post[GPU_MAX_RANKS][POST_WORDS];
	const char *in[GPU_MAX_RANKS];
	char *out[GPU_MAX_RANKS];
	uint64_t scalar[GPU_MAX_RANKS];
	int good, direct, scaled, even; /* even: all buffers are aligned to 16 bytes */
	int mine;			/* the share is this block's */
};

DEVICE uint64_t *post_of(const gpu_call &c, unsigned share, int at, int by)
{
	return (uint64_t *)(c.mail[at] + c.posts + ((uint64_t)share * GPU_MAX_RANKS + (uint64_t)by) * GPU_LINE);
}

DEVICE bool is_core(const gpu_bulk_args &a)
{
	return block_index() < a.core;
}

DEVICE uint32_t post_value(const gpu_bulk_args &a, int word)
{
	switch (word) {
	case POST_SIG:
		return a.direct.call.sig;
	case POST_IN:
		return a.ready[a.in.number] ? a.in.number : 0;
	case POST_IN_LO:
		return (uint32_t)a.in.offset;
	case POST_IN_HI:
		return (uint32_t)(a.in.offset >> 32);
	case POST_OUT:
		return a.ready[a.out.number] ? a.out.number : 0;
	case POST_OUT_LO:
		return (uint32_t)a.out.offset;
	case POST_OUT_HI:
		return (uint32_t)(a.out.offset >> 32);
	case POST_SCALAR_LO:
		return (uint32_t)a.direct.value.scalar;
	default:
		return (uint32_t)(a.direct.value.scalar >> 32);
	}
}

/* Every word with the number of the call in its upper half; the first block. Each is found once: all peers are told the
 * same. */
DEVICE void tell_posts(const gpu_bulk_args &a, uint32_t epoch)
{
	SHARED uint32_t word[POST_BARRIER];
	const gpu_call &c = a.direct.call;
	unsigned n = (unsigned)c.nranks * POST_BARRIER;

	for (unsigned w = thread_index(); w < POST_BARRIER; w += thread_count())
		word[w] = post_value(a, (int)w);
	block_sync();
	for (unsigned x = thread_index(); x < n; x += thread_count()) {
		int p = (int)(x / POST_BARRIER);
		unsigned w = x % POST_BARRIER;

		store_word(post_of(c, 0, p, c.rank) + w, (uint64_t)epoch << 32 | word[w]);
	}
}

DEVICE void hear_posts(const gpu_bulk_args &a, uint32_t epoch, shared_places *s)
{
	const gpu_call &c = a.direct.call;
	unsigned n = (unsigned)c.nranks * POST_BARRIER;
	uint64_t since = is_core(a) ? 0 : clock_ns();

	for (unsigned x = thread_index(); any_of_warp(x < n); x += thread_count()) {
		unsigned p = x < n ? x / POST_BARRIER : 0, w = x % POST_BARRIER;
		const uint64_t *at = post_of(c, 0, c.rank, (int)p) + w;
		bool heard = x >= n;
		uint64_t v = 0;

		/* What this thread has heard stays: who waits long may find the next call's in its place. */
		warp_wait(c, [&] {
			if (!heard) {
				v = load_word(at);
				heard = (uint32_t)(v >> 32) == epoch;
			}
			return heard || (!is_core(a) && clock_ns() - since > PATIENCE_NS);
		});
		if (any_of_warp(!heard)) {
			s->good = 0;
			return;
		}
		if (x < n)
			s->post[p][w] = (uint32_t)v;
	}
}

DEVICE char *find(const gpu_bulk_args &a, int p, const uint32_t *post, int first)
{
	uint64_t base = a.maps[(uint64_t)p * GPU_MAX_PLACES + post[first]];

	return (char *)(base + ((uint64_t)post[first + 2] << 32 | post[first + 1]));
}

/* Finds the buffers of all ranks, once told. False: the call is over, or this block leaves. */
DEVICE bool meet(const gpu_bulk_args &a, uint32_t epoch, shared_places *s)
{
	const gpu_call &c = a.direct.call;

	if (thread_index() == 0)
		s->good = s->direct = s->even = 1;
	block_sync();
	hear_posts(a, epoch, s);
	block_sync();
	for (int p = (int)thread_index(); p < c.nranks && s->good; p += (int)thread_count()) {
		const uint32_t *post = s->post[p];

		if (post[POST_SIG] != c.sig) {
			tell_trouble(c, p);
			s->good = 0;
		}
		if ((sends(a.direct.shape, p) && !post[POST_IN]) || (receives(a.direct.shape, p) && !post[POST_OUT]))
			s->direct = 0;
	}
	block_sync();
	if (thread_index() == 0)
		s->scaled = s->direct && a.direct.value.scaled;
	for (int p = (int)thread_index(); p < c.nranks && s->good; p += (int)thread_count()) {
		uint64_t stage = a.stage + (uint64_t)block_index() * 2 * a.stage_bytes;

		s->in[p] = p == c.rank && s->direct ? a.direct.in
			   : s->direct		    ? (sends(a.direct.shape, p) ? find(a, p, s->post[p], POST_IN) : 0)
						    : c.mail[p] + stage;
		s->out[p] = p == c.rank && s->direct ? a.direct.out
			    : s->direct ? (receives(a.direct.shape, p) ? find(a, p, s->post[p], POST_OUT) : 0)
					: c.mail[p] + stage + a.stage_bytes;
		s->scalar[p] = (uint64_t)s->post[p][POST_SCALAR_HI] << 32 | s->post[p][POST_SCALAR_LO];
		if (((uintptr_t)s->in[p] | (uintptr_t)s->out[p]) & 15)
			s->even = 0;
	}
	block_sync();
	return s->good;
}

/* All ranks have come to barrier @k of the share in this call. */
DEVICE bool barrier(const gpu_bulk_args &a, uint32_t epoch, unsigned share, uint32_t k, shared_places *s)
{
	const gpu_call &c = a.direct.call;
	uint64_t mark = (uint64_t)epoch << 32 | k;

	block_sync();
	for (int p = (int)thread_index(); p < c.nranks; p += (int)thread_count())
		if (p != c.rank)
			store_word_release(post_of(c, share, p, c.rank) + POST_BARRIER, mark);
	for (int p = (int)thread_index(); any_of_warp(p < c.nranks); p += (int)thread_count()) {
		bool asks = p < c.nranks && p != c.rank;
		const uint64_t *at = post_of(c, share, c.rank, asks ? p : 0) + POST_BARRIER;

		if (!warp_wait_mark(c, asks, at, mark))
			s->good = 0;
	}
	block_sync();
	return s->good;
}

/* All core blocks of all ranks have come to a barrier of the call. */
DEVICE bool wait_for_blocks(const gpu_bulk_args &a, uint32_t epoch, shared_places *s)
{
	const gpu_call &c = a.direct.call;
	unsigned n = a.core * (unsigned)c.nranks;
	uint64_t mark = (uint64_t)epoch << 32 | 1;

	for (unsigned x = thread_index(); any_of_warp(x < n); x += thread_count()) {
		int p = (int)(x % (unsigned)c.nranks);
		bool asks = x < n && p != c.rank;
		const uint64_t *at = post_of(c, asks ? x / (unsigned)c.nranks : 0, c.rank, p) + POST_BARRIER;

		if (!warp_wait_mark(c, asks, at, mark))
			s->good = 0;
	}
	block_sync();
	return s->good;
}

/* --- the work --- */
/* v = reduction over sources of in[s][in_at + x], stored to out[d][out_at + x] of all destinations. */
struct task {
	int first_src, nsrc, first_dst, ndst;
	uint64_t in_at, out_at, bytes;
};

/* Share @r of @n of @bytes, in whole lines. */
DEVICE void cut(uint64_t *at, uint64_t *len, uint64_t bytes, uint64_t r, uint64_t n)
{
	uint64_t each = round_up((bytes + n - 1) / n, GPU_LINE), from = each * r < bytes ? each * r : bytes;

	*at = from;
	*len = bytes - from < each ? bytes - from : each;
}

/* Who shares the work of a piece with many receivers: all, each a part. Of two ranks the root reduces alone: the link
 * to it would carry what the other reads besides. */
DEVICE bool is_shared(const gpu_shape &s, int n)
{
	return !s.scatters && (s.from >= 0 || (s.reduces && (s.to < 0 || n > 2)));
}

/*               sources  destinations  part of the piece     in at       out at
 * all_reduce     all      all           share of this rank
 * reduce         all      root          share of this rank; of two ranks: the root the whole
 * broadcast      root     all           share of this rank
 * reduce_scatter all      this rank     whole                 block of me
 * scatter        root     this rank     whole                 block of me
 * all_gather     me       all           whole                             block of me
 * gather         me       root          whole                             block of me
 * all_to_all     me       each in turn  whole                 its block   block of me */
/* @stride: from block to block of a buffer. */
DEVICE task task_of(const gpu_direct_args &a, int turn, uint64_t at, uint64_t bytes, uint64_t stride)
{
	const gpu_shape &s = a.shape;
	int me = a.call.rank, n = a.call.nranks;
	task t = { 0, n, 0, n, at, at, bytes };

	if (s.reduces && s.to >= 0 && n == 2 && s.to != me)
		t.bytes = 0;
	if (is_shared(s, n)) {
		uint64_t from, len;

		cut(&from, &len, bytes, (uint64_t)me, (uint64_t)n);
		t.in_at = t.out_at = at + from;
		t.bytes = len;
	}
	if (!s.reduces) {
		t.first_src = s.from < 0 ? me : s.from;
		t.nsrc = 1;
	}
	if (s.to >= 0) {
		t.first_dst = s.to;
		t.ndst = 1;
	}
	if (s.scatters && (s.reduces || s.from >= 0)) {
		t.first_dst = me;
		t.ndst = 1;
		t.in_at += (uint64_t)me * stride;
	}
	if (s.scatters && !s.reduces && s.from < 0) {
		t.first_dst = turn;
		t.ndst = 1;
		t.in_at += (uint64_t)turn * stride;
	}
	if (!s.reduces && s.from < 0)
		t.out_at += (uint64_t)me * stride;
	return t;
}

/* 16 bytes of rank @r's input, multiplied where that is still to be done. */
template <int K> DEVICE vec16 in16(const shared_places *s, int r, uint64_t at)
{
	vec16 v = get16(s->in[r] + at);

	if (s->scaled) {
		v.x = scaled_word<K>(v.x, s->scalar[r]);
		v.y = scaled_word<K>(v.y, s->scalar[r]);
	}
	return v;
}

template <int K> DEVICE uint64_t in8(const shared_places *s, int r, uint64_t at, uint64_t i, uint64_t bytes)
{
	uint64_t w = get_word(s->in[r] + at, i, bytes);

	return s->scaled ? scaled_word<K>(w, s->scalar[r]) : w;
}

/* @U pieces of 16 bytes, @step apart. */
template <int K, int OP, int U>
DEVICE void move_some(const gpu_bulk_args &a, const shared_places *s, const task &t, uint64_t x, uint64_t step)
{
	const gpu_value &v = a.direct.value;
	vec16 w[U];

	auto read = [&](int r) {
#pragma unroll
		for (int u = 0; u < U; u++)
			w[u] = in16<K>(s, r, t.in_at + x + u * step);
	};

	if (t.nsrc == 1)
		read(t.first_src);
	else
		sum_some<K, OP, U>(w, t.nsrc, v, read);
	for (int d = 0; d < t.ndst; d++) {
		char *to = s->out[t.first_dst + d] + t.out_at + x;

#pragma unroll
		for (int u = 0; u < U; u++)
			*(vec16 *)(to + u * step) = w[u];
	}
}

template <int K> struct unroll_of {
	enum { U = sizeof(typename of_kind<K>::E) >= 4 ? 8 : sizeof(typename of_kind<K>::E) == 2 ? 4 : 2 };
};

/* A byte at a time, for buffers that do not lie alike, and for ends. */
template <int K> OUTLINE void move_words(const gpu_bulk_args &a, const shared_places *s, const task &t, uint64_t from)
{
	const gpu_value &v = a.direct.value;

	for (uint64_t i = from / 8 + thread_index(); i < (t.bytes + 7) / 8; i += thread_count()) {
		uint64_t w = in8<K>(s, t.first_src, t.in_at, i, t.bytes);

		if (t.nsrc > 1) {
			pack<K> sum = pack_of<K>(w);

			for (int r = 1; r < t.nsrc; r++)
				pack_add<K, ANY>(sum, in8<K>(s, r, t.in_at, i, t.bytes), v);
			w = word_of(sum, v);
		}
		for (int d = 0; d < t.ndst; d++)
			put_word(s->out[t.first_dst + d] + t.out_at, i, t.bytes, w);
	}
}

DEVICE bool lies_well(const shared_places *s, const task &t)
{
	uintptr_t bits = t.in_at;
	uintptr_t out_bits = t.out_at;

	for (int r = 0; r < t.nsrc; r++)
		if (((uintptr_t)s->in[t.first_src + r] + bits) & 15)
			return false;
	for (int d = 0; d < t.ndst; d++)
		if (((uintptr_t)s->out[t.first_dst + d] + out_bits) & 15)
			return false;
	return true;
}

template <int K, int OP, int U>
DEVICE uint64_t move_all(const gpu_bulk_args &a, const shared_places *s, const task &t, uint64_t x)
{
	uint64_t step = (uint64_t)thread_count() * 16;

#pragma unroll 1
	for (; x + (U - 1) * step + 16 <= t.bytes; x += U * step)
		move_some<K, OP, U>(a, s, t, x, step);
	return x;
}

DEVICE bool may_relay(const gpu_bulk_args &a, const task &t)
{
	return relays(a) && (t.nsrc == 1 || a.direct.value.op == GPU_SUM) && t.nsrc <= GPU_RELAY_RANKS &&
	       t.ndst <= GPU_RELAY_RANKS;
}

/* Every warp its part of what is in whole 16 bytes. */
template <int K> DEVICE void move_by_relay(const gpu_bulk_args &a, const shared_places *s, const task &t)
{
	uint64_t at, len;

	cut(&at, &len, t.bytes / 16 * 16, warp_index(), warp_count());
	relay_between(
		t.nsrc, [&](int r) { return s->in[t.first_src + r] + t.in_at + at; }, t.ndst,
		[&](int d) { return s->out[t.first_dst + d] + t.out_at + at; });
	relay_move<K>(len, s->scaled ? s->scalar + t.first_src : NULL, a.direct.value);
}

template <int K> OUTLINE void move(const gpu_bulk_args &a, const shared_places *s, const task &t)
{
	enum { U = unroll_of<K>::U };
	bool sum = t.nsrc == 1 || a.direct.value.op == GPU_SUM;
	uint64_t x = (uint64_t)thread_index() * 16;

	if (!t.bytes || (t.nsrc == 1 && t.ndst == 1 && s->in[t.first_src] + t.in_at == s->out[t.first_dst] + t.out_at))
		return;
	if (!lies_well(s, t)) {
		move_words<K>(a, s, t, 0);
		return;
	}
	if (may_relay(a, t)) {
		move_by_relay<K>(a, s, t);
	} else {
		if (sum)
			x = move_all<K, GPU_SUM, U>(a, s, t, x);
		move_all<K, ANY, 1>(a, s, t, x);
	}
	move_words<K>(a, s, t, t.bytes / 16 * 16);
}

/* Has every rank something else for each other rank? */
DEVICE bool is_exchange(const gpu_shape &s)
{
	return s.scatters && !s.reduces && s.from < 0;
}

/* A piece that is this block's alone. */
template <int K>
DEVICE void work(const gpu_bulk_args &a, const shared_places *s, unsigned block, uint64_t at, uint64_t bytes,
		 uint64_t stride)
{
	const gpu_direct_args &d = a.direct;

	if (!is_exchange(d.shape)) {
		move<K>(a, s, task_of(d, 0, at, bytes, stride));
		return;
	}
	/* Some blocks copy within the rank while others fill the links. */
	for (unsigned k = 0; k < (unsigned)d.call.nranks; k++)
		move<K>(a, s,
			task_of(d, peer_after(d.call, (int)((block + k) % (unsigned)d.call.nranks)), at, bytes,
				stride));
}

/* Of exchanges some shares are what stays within the rank, and the links are filled by the others all the time. */
template <int K> DEVICE void work_on_share(const gpu_bulk_args &a, const shared_places *s, unsigned share)
{
	const gpu_direct_args &d = a.direct;
	unsigned own = is_exchange(d.shape) ? block_count() / 8 : 0, others = (unsigned)d.call.nranks - 1;
	uint64_t at, len;

	if (own && share < own) {
		cut(&at, &len, d.bytes, share, own);
		move<K>(a, s, task_of(d, d.call.rank, at, len, d.bytes));
		return;
	}
	cut(&at, &len, d.bytes, share - own, block_count() - own);
	if (!own)
		work<K>(a, s, share, at, len, d.bytes);
	for (unsigned k = 0; own && k < others; k++)
		move<K>(a, s, task_of(d, peer_after(d.call, 1 + (int)((share + k) % others)), at, len, d.bytes));
}

/* --- by way of the stage --- */
DEVICE int blocks_of_in(const gpu_direct_args &d)
{
	return d.shape.scatters ? d.call.nranks : 1;
}

DEVICE int blocks_of_out(const gpu_direct_args &d)
{
	return d.shape.reduces || d.shape.from >= 0 ? 1 : d.call.nranks;
}

template <typename F> OUTLINE void copy_piece(char *to, const char *from, uint64_t bytes, F each)
{
	block_copy(to, from, bytes, each);
}

template <int K> DEVICE void copy_in(const gpu_bulk_args &a, char *to, uint64_t at, uint64_t bytes, uint64_t stride)
{
	const gpu_direct_args &d = a.direct;

	for (int b = 0; b < blocks_of_in(d); b++) {
		const char *from = d.in + (uint64_t)b * d.bytes + at;
		char *piece = to + (uint64_t)b * stride;

		if (d.value.scaled)
			copy_piece(piece, from, bytes, multiplied<K>{ d.value.scalar });
		else
			copy_piece(piece, from, bytes, as_it_is());
	}
}

/* Blocks that nobody wrote are left alone: this rank's own are in place when in and out are the same. */
DEVICE void copy_out(const gpu_bulk_args &a, const char *from, uint64_t at, uint64_t bytes, uint64_t stride)
{
	const gpu_direct_args &d = a.direct;

	for (int b = 0; b < blocks_of_out(d); b++)
		copy_piece(d.out + (uint64_t)b * d.bytes + at, from + (uint64_t)b * stride, bytes, as_it_is());
}

/* Core blocks alone. */
template <int K> DEVICE void staged(const gpu_bulk_args &a, shared_places *s, uint32_t epoch)
{
	const gpu_direct_args &d = a.direct;
	int me = d.call.rank, in = blocks_of_in(d), out = blocks_of_out(d);
	uint64_t slice = a.stage_bytes / (uint64_t)(in > out ? in : out) / GPU_LINE * GPU_LINE, n, at, len;
	unsigned b = block_index();
	uint32_t k = 0;

	if (!is_core(a))
		return;
	cut(&at, &len, d.bytes, b, a.core);

	/* What a peer has pushed before it knew better is here: from any of its blocks, as slots and pieces of the
	 * stage do not lie alike. */
	if (!barrier(a, epoch, b, ++k, s) || !wait_for_blocks(a, epoch, s))
		return;
	for (uint64_t done = 0; done < len; done += n) {
		n = len - done < slice ? len - done : slice;
		if (sends(d.shape, me))
			copy_in<K>(a, (char *)s->in[me], at + done, n, slice);
		if (!barrier(a, epoch, b, ++k, s))
			return;
		work<K>(a, s, b, 0, n, slice);
		if (!barrier(a, epoch, b, ++k, s))
			return;
		if (receives(d.shape, me))
			copy_out(a, s->out[me], at + done, n, slice);
	}
	barrier(a, epoch, b, ++k, s);
}

/* --- where the buffers are --- */
template <int K> DEVICE void push_all(const gpu_bulk_args &a, shared_places *s, const push &p, uint64_t given)
{
	bool good = true;

	if (p.gives)
		good = push_give(a, p, given);
	else if (p.takes)
		good = push_take<K, unroll_of<K>::U>(a, s->out, p, s->scaled ? s->scalar : NULL);
	if (!good)
		s->good = 0;
}

/* True for one block of this rank; by all its threads. */
DEVICE bool take_share(const gpu_bulk_args &a, uint32_t epoch, unsigned share, shared_places *s)
{
	block_sync(); /* who reads the last answer */
	if (thread_index() == 0)
		s->mine = claim_call(a.direct.call.epochs + GPU_EPOCH_TAKEN + share, epoch);
	block_sync();
	return s->mine;
}

/* @given: chunks that this block has given before all had met. */
template <int K>
DEVICE void do_share(const gpu_bulk_args &a, shared_places *s, uint32_t epoch, unsigned share, bool pushes,
		     uint64_t given)
{
	if (pushes)
		push_all<K>(a, s, push_of(a, epoch, share), given);
	else
		work_on_share<K>(a, s, share);
	let_next_start();
	barrier(a, epoch, share, 1, s);
}

/* A core block's own share and those that are left; that of another block if it is still there. */
template <int K> DEVICE void do_shares(const gpu_bulk_args &a, shared_places *s, uint32_t epoch, bool pushes)
{
#pragma unroll 1
	for (unsigned share = block_index(); share < block_count() && s->good; share += a.core) {
		bool own = share < a.core;

		if (own || take_share(a, epoch, share, s))
			do_share<K>(a, s, epoch, share, pushes, own);
		if (!is_core(a))
			break;
	}
}

template <int K> DEVICE void bulk_run(const gpu_bulk_args &a)
{
	SHARED shared_places s;
	uint32_t epoch = call_number(a.direct.call);
	push p = push_of(a, epoch, block_index());
	bool pushes = push_suits(a);

	relay_begin(a);
	if (block_index() == 0)
		tell_posts(a, epoch);
	if (pushes && is_core(a) && p.gives && !is_past(p, 0))
		push_give_one(a, p, 0); /* needs no address */
	if (meet(a, epoch, &s)) {
		if (s.direct)
			do_shares<K>(a, &s, epoch, pushes && s.even);
		else
			staged<K>(a, &s, epoch);
	}
	note_all_begun(a.direct.call, epoch);
	call_end(a.direct.call, epoch);
}

#define KERNELS(kind)                                                                                                  \
	KERNEL(bulk_##kind, gpu_bulk_args, THREADS)                                                                    \
	{                                                                                                              \
		bulk_run<kind>(a);                                                                                     \
	}

GPU_FOR_KINDS(KERNELS)
