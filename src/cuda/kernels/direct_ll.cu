/* SPDX-License-Identifier: Apache-2.0 */
/* Small messages between ranks that address each other: every word, or every line of 128 bytes,
 * carries its flag, so that one trip is all there is: no barrier, and no fence while the threads of a line run as one.
 *
 *   ll     16 bytes: 4 data, 4 flag, 4 data, 4 flag. Any wire. Twice the bytes.
 *   ll128  a line: 120 data, 8 flag, written and read by 8 threads of a warp at once: needs a link that keeps
 *          lines whole (NVLink does). 128 / 120 of the bytes.
 *
 * One shot: every rank sends its piece to every receiver and reduces what comes, in rank order: any
 * collective. Two shot (all-reduce): rank r reduces part r of all and sends it to all.
 *
 * The flags hold the number of the call and its signature, so that another call of a peer is met as one.
 *
 * Two areas for each sender, used by turns: before a rank writes the area of call e it knows that its peer
 * has finished call e - 2 (call.cuh). Threads: any number of blocks of whole warps; a word is read, sent and
 * written by one thread, so that in and out may be the same. */
#include "cuda/kernels/call.cuh"
#include "cuda/kernels/value.cuh"

#define THREADS 512
#define SMALL_BLOCKS 40 /* as many may wait beside this kernel while another communicator's call needs room */
#define AHEAD 4		/* messages that a thread looks for at once */

/* --- ll --- */
/* The second flag is the number of the call; the first tells which call it is. */
DEVICE vec16 ll_pack(const gpu_call &c, uint64_t w, uint32_t epoch)
{
	vec16 v = { (uint32_t)w | (uint64_t)(epoch ^ c.sig) << 32, w >> 32 | (uint64_t)epoch << 32 };

	return v;
}

DEVICE bool ll_ready(const gpu_call &c, vec16 v, uint32_t epoch)
{
	return (uint32_t)(v.x >> 32) == (epoch ^ c.sig) && (uint32_t)(v.y >> 32) == epoch;
}

DEVICE uint64_t ll_unpack(vec16 v)
{
	return (uint32_t)v.x | v.y << 32;
}

template <int K> DEVICE uint64_t own_word(const gpu_direct_args &a, const char *piece, uint64_t i)
{
	uint64_t w = get_word(piece, i, a.bytes);

	return a.value.scaled ? scaled_word<K>(w, a.value.scalar) : w;
}

/* The first word is asked for before it is known that there is room: both come from far. */
template <int K> DEVICE void ll_send(const gpu_direct_args &a, uint32_t epoch, uint64_t first, uint64_t step)
{
	const gpu_call &c = a.call;
	uint64_t words = (a.bytes + 7) / 8;

	for (int k = 1; k < c.nranks; k++) {
		int p = peer_after(c, k);
		const char *piece = piece_for(a, p);
		char *area = ll_area(c, p, c.rank, epoch);
		uint64_t w;

		if (!receives(a.shape, p) || first >= words)
			continue;
		w = own_word<K>(a, piece, first);
		if (!wait_room(c, p, epoch))
			return;
		store_flagged(area + first * 16, ll_pack(c, w, epoch));
		for (uint64_t i = first + step; i < words; i += step)
			store_flagged(area + i * 16, ll_pack(c, own_word<K>(a, piece, i), epoch));
	}
}

/* Has word @i come from one of ranks @s to @s + @n - 1, but of another call? */
OUTLINE bool ll_met_other(const gpu_call &c, uint32_t epoch, uint64_t i, int s, int n)
{
	for (int p = s; p < s + n; p++) {
		vec16 v = load_flagged(ll_area(c, c.rank, p, epoch) + i * 16);

		if (p == c.rank || (uint32_t)(v.y >> 32) != epoch || ll_ready(c, v, epoch))
			continue;
		tell_trouble(c, p);
		return true;
	}
	return false;
}

DEVICE bool ll_keep_waiting(const gpu_call &c, uint32_t &spins, uint32_t epoch, uint64_t i, int s, int n)
{
	return keep_waiting(c, spins) && !(is_rare(spins) && ll_met_other(c, epoch, i, s, n));
}

/* Word @i of ranks @s to @s + @n - 1, of which this rank's is @own. */
DEVICE bool ll_collect(uint64_t *out, const gpu_call &c, uint32_t epoch, uint64_t i, int s, int n, uint64_t own)
{
	uint32_t spins = 0;
	bool ready;

	do {
		vec16 v[AHEAD] = {};

		ready = true;
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (k < n && s + k != c.rank)
				v[k] = load_flagged(ll_area(c, c.rank, s + k, epoch) + i * 16);
#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
			if (k < n && s + k != c.rank) {
				ready = ready && ll_ready(c, v[k], epoch);
				out[k] = ll_unpack(v[k]);
			} else {
				out[k] = own;
			}
		}
		if (!ready && !ll_keep_waiting(c, spins, epoch, i, s, n))
			return false;
	} while (!ready);
	return true;
}

template <int K>
DEVICE bool ll_reduce(uint64_t *out, const gpu_direct_args &a, uint32_t epoch, uint64_t i, uint64_t own)
{
	const gpu_call &c = a.call;
	pack<K> sum;

	for (int s = 0; s < c.nranks; s += AHEAD) {
		int n = c.nranks - s < AHEAD ? c.nranks - s : AHEAD;
		uint64_t w[AHEAD];

		if (!ll_collect(w, c, epoch, i, s, n, own))
			return false;
#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
			if (s + k == 0)
				sum = pack_of<K>(w[0]);
			else if (k < n)
				pack_add<K, ANY>(sum, w[k], a.value);
		}
	}
	*out = word_of(sum, a.value);
	return true;
}

template <int K> DEVICE void ll_recv_sum(const gpu_direct_args &a, uint32_t epoch, uint64_t first, uint64_t step)
{
	const char *own = piece_for(a, a.call.rank);
	uint64_t words = (a.bytes + 7) / 8, w;

	for (uint64_t i = first; i < words; i += step) {
		if (!ll_reduce<K>(&w, a, epoch, i, own_word<K>(a, own, i)))
			return;
		put_word(a.out, i, a.bytes, w);
	}
}

/* What this rank keeps of its own. */
DEVICE void keep_own(const gpu_direct_args &a, uint64_t first, uint64_t step)
{
	const char *from = piece_for(a, a.call.rank);
	char *to = place_of(a, a.call.rank);

	if (from == to)
		return;
	for (uint64_t i = first; i < (a.bytes + 7) / 8; i += step)
		put_word(to, i, a.bytes, get_word(from, i, a.bytes));
}

/* Its own first, while the others' is on its way. */
DEVICE void ll_recv_all(const gpu_direct_args &a, uint32_t epoch, uint64_t first, uint64_t step)
{
	const gpu_call &c = a.call;
	uint64_t words = (a.bytes + 7) / 8, w[AHEAD];

	if (sends(a.shape, c.rank))
		keep_own(a, first, step);
	for (int k = 1; k < c.nranks; k++) {
		int s = peer_after(c, k);

		if (!sends(a.shape, s))
			continue;
		for (uint64_t i = first; i < words; i += step) {
			if (!ll_collect(w, c, epoch, i, s, 1, 0))
				return;
			put_word(place_of(a, s), i, a.bytes, w[0]);
		}
	}
}

/* Reductions. */
template <int K> DEVICE void ll_work(const gpu_direct_args &a, uint32_t epoch)
{
	uint64_t first = (uint64_t)block_index() * thread_count() + thread_index();
	uint64_t step = (uint64_t)block_count() * thread_count();

	ll_send<K>(a, epoch, first, step);
	if (receives(a.shape, a.call.rank))
		ll_recv_sum<K>(a, epoch, first, step);
}

/* --- ll, the sum of aligned words, or a copy --- */
/* What most small messages are, with nothing else in the kernel: the code of a kernel is read from
 * memory at every launch, and of the one above there is more than of the data. */
template <int K>
DEVICE bool ll_sum_word(uint64_t *out, const gpu_direct_args &a, uint32_t epoch, uint64_t i, uint64_t own)
{
	const gpu_call &c = a.call;
	uint32_t spins = 0;
	pack<K> sum;

#pragma unroll 1
	for (int s = 0; s < c.nranks; s++) {
		const char *area = ll_area(c, c.rank, s, epoch) + i * 16;
		uint64_t w = own;
		vec16 v;

		while (s != c.rank && !ll_ready(c, v = load_flagged(area), epoch))
			if (!ll_keep_waiting(c, spins, epoch, i, s, 1))
				return false;
		if (s != c.rank)
			w = ll_unpack(v);
		if (s == 0)
			sum = pack_of<K>(w);
		else
			pack_add<K, GPU_SUM>(sum, w, a.value);
	}
	*out = word_of(sum, a.value);
	return true;
}

/* @ALL: an all-reduce. */
template <int K, bool ALL> DEVICE void ll_sum_work(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;
	uint64_t first = (uint64_t)block_index() * thread_count() + thread_index(), words = a.bytes / 8;
	uint64_t step = (uint64_t)block_count() * thread_count();
	const uint64_t *in = (const uint64_t *)(ALL ? a.in : piece_for(a, c.rank));

#pragma unroll 1
	for (uint64_t i = first; i < words; i += step) {
		uint64_t own = in[i], sum;

#pragma unroll 1
		for (int p = 0; p < c.nranks; p++) {
			uint64_t w = own;

			if (p == c.rank || (!ALL && !receives(a.shape, p)))
				continue;
			if (!ALL)
				w = ((const uint64_t *)piece_for(a, p))[i];
			if (i == first && !wait_room(c, p, epoch))
				return;
			store_flagged(ll_area(c, p, c.rank, epoch) + i * 16, ll_pack(c, w, epoch));
		}
		if (!ALL && !receives(a.shape, c.rank))
			continue;
		if (!ll_sum_word<K>(&sum, a, epoch, i, own))
			return;
		((uint64_t *)a.out)[i] = sum;
	}
}

DEVICE void ll_copy_work(const gpu_direct_args &a, uint32_t epoch)
{
	uint64_t first = (uint64_t)block_index() * thread_count() + thread_index();
	uint64_t step = (uint64_t)block_count() * thread_count();

	if (sends(a.shape, a.call.rank))
		ll_send<GPU_U64>(a, epoch, first, step);
	if (receives(a.shape, a.call.rank))
		ll_recv_all(a, epoch, first, step);
}

/* --- ll128 --- */
#define PARTS (8 / LANES_OF_LINE) /* 16-byte parts of a line that a thread holds */
#define WARP (4 * LANES_OF_LINE == 4 ? 1 : 32)
#define WARP_LINES (WARP / LANES_OF_LINE)
#define LINE_WORDS 15

/* This thread's place among the lines of a piece. */
struct lines {
	uint64_t first, step; /* lines */
	int part;	      /* the first of its 16-byte parts */
};

DEVICE lines lines_of_thread()
{
	uint64_t t = (uint64_t)block_index() * thread_count() + thread_index();
	lines l = { t / LANES_OF_LINE, (uint64_t)block_count() * thread_count() / LANES_OF_LINE,
		    (int)(t % LANES_OF_LINE) * PARTS };

	return l;
}

/* Parts of one line: two words each, the last word of a line is the flag: number and signature of the call. */
struct held {
	vec16 v[PARTS];
};

DEVICE uint64_t line_flag(const gpu_call &c, uint32_t epoch)
{
	return (uint64_t)epoch << 32 | c.sig;
}

/* All threads of a warp go through the same number of lines. */
DEVICE uint64_t rounded(uint64_t lines)
{
	return (lines + WARP_LINES - 1) / WARP_LINES * WARP_LINES;
}

DEVICE uint64_t lines_for(uint64_t bytes)
{
	return (bytes + 8 * LINE_WORDS - 1) / (8 * LINE_WORDS);
}

template <bool PLAIN> DEVICE uint64_t word_at(const char *piece, uint64_t i, uint64_t bytes)
{
	return PLAIN ? ((const uint64_t *)piece)[i] : get_word(piece, i, bytes);
}

template <bool PLAIN> DEVICE void set_word(char *piece, uint64_t i, uint64_t bytes, uint64_t w)
{
	if (PLAIN)
		((uint64_t *)piece)[i] = w;
	else
		put_word(piece, i, bytes, w);
}

/* @PLAIN: whole aligned words that are summed up and nothing else, as in ll_sum. */
template <int K, bool PLAIN>
DEVICE held line_get(const gpu_direct_args &a, const char *piece, uint64_t bytes, uint64_t line, int part)
{
	held h;

#pragma unroll
	for (int k = 0; k < PARTS; k++) {
		uint64_t i = line * LINE_WORDS + 2 * (uint64_t)(part + k), w[2];

#pragma unroll
		for (int j = 0; j < 2; j++) {
			w[j] = 0;
			if ((i + j) * 8 < bytes && part + k + j < 8)
				w[j] = word_at<PLAIN>(piece, i + j, bytes);
			if (!PLAIN && a.value.scaled)
				w[j] = scaled_word<K>(w[j], a.value.scalar);
		}
		h.v[k].x = w[0];
		h.v[k].y = w[1];
	}
	return h;
}

template <bool PLAIN> DEVICE void line_put(char *piece, uint64_t bytes, uint64_t line, int part, const held &h)
{
#pragma unroll
	for (int k = 0; k < PARTS; k++) {
		uint64_t i = line * LINE_WORDS + 2 * (uint64_t)(part + k);

		if (i * 8 < bytes)
			set_word<PLAIN>(piece, i, bytes, h.v[k].x);
		if ((i + 1) * 8 < bytes && part + k < 7)
			set_word<PLAIN>(piece, i + 1, bytes, h.v[k].y);
	}
}

/* The flag with the data where that is one access, else behind the data. */
DEVICE void line_send(char *area, uint64_t line, int part, held h, uint64_t flag)
{
	char *to = area + line * GPU_LINE + part * 16;
	bool one = line_is_one();

#pragma unroll
	for (int k = 0; k < PARTS; k++) {
		if (part + k == 7)
			h.v[k].y = flag;
		if (one || part + k != 7)
			store_flagged(to + k * 16, h.v[k]);
	}
	if (one)
		return;
	fence();
	line_sync();
	fence();
	if (part + PARTS == 8)
		store_flagged(to + (PARTS - 1) * 16, h.v[PARTS - 1]);
}

/* The flag is the last part's: loaded first where a thread holds the whole line, or where threads run apart, else at
 * once with the data. */
DEVICE bool line_load(held *h, const char *area, uint64_t line, int part, uint64_t flag)
{
	const char *from = area + line * GPU_LINE;
	bool ready = true;

	if (!line_is_one() && load_word_acquire((const uint64_t *)from + LINE_WORDS) != flag)
		return false;
#pragma unroll
	for (int k = PARTS - 1; k >= 0; k--) {
		h->v[k] = load_flagged(from + (part + k) * 16);
		if (part + k == 7)
			ready = h->v[k].y == flag;
	}
	return ready;
}

/* Has this line come from rank @p, but of another call? */
OUTLINE bool line_met_other(const gpu_call &c, int p, const char *area, uint64_t line, uint32_t epoch)
{
	uint64_t flag = load_word((const uint64_t *)(area + line * GPU_LINE) + LINE_WORDS);

	if (p == c.rank || (uint32_t)(flag >> 32) != epoch || flag == line_flag(c, epoch))
		return false;
	tell_trouble(c, p);
	return true;
}

/* Lines of a peer in this rank's mail. */
struct source {
	int rank;
	const char *area;
};

/* All threads of the warp together. @there: does this thread have such a line? */
DEVICE bool line_wait(held *h, const gpu_call &c, const source &s, uint64_t line, int part, uint32_t epoch, bool there)
{
	uint64_t flag = line_flag(c, epoch);
	uint32_t spins = 0;

	while (any_of_warp(there && !line_load(h, s.area, line, part, flag))) {
		bool go_on = keep_waiting(c, spins);

		if (is_rare(spins) && there)
			go_on = go_on && !line_met_other(c, s.rank, s.area, line, epoch);
		if (any_of_warp(!go_on))
			return false;
	}
	return true;
}

DEVICE bool warp_wait_room(const gpu_call &c, int p, uint32_t epoch)
{
	return warp_wait(c, [&] { return has_room(c, p, epoch); });
}

/* To rank @p. As with ll, the first line is asked for before it is known that there is room. */
template <int K, bool PLAIN>
DEVICE void lines_send(const gpu_direct_args &a, int p, const char *piece, uint64_t bytes, uint32_t epoch)
{
	const gpu_call &c = a.call;
	lines l = lines_of_thread();
	uint64_t n = lines_for(bytes), flag = line_flag(c, epoch);
	char *area = ll128_area(c, p, c.rank, epoch);
	held h;

	if (l.first >= rounded(n))
		return;
	h = line_get<K, PLAIN>(a, piece, bytes, l.first, l.part);
	if (!warp_wait_room(c, p, epoch) || l.first >= n)
		return;
	line_send(area, l.first, l.part, h, flag);
#pragma unroll 2
	for (uint64_t i = l.first + l.step; i < n; i += l.step)
		line_send(area, i, l.part, line_get<K, PLAIN>(a, piece, bytes, i, l.part), flag);
}

/* Lines of several senders are looked for at once: the links are far. */
#define GROUP 4

DEVICE bool lines_keep_waiting(const gpu_call &c, uint32_t &spins, int s, uint64_t line, uint32_t epoch)
{
	bool go_on = keep_waiting(c, spins);

	for (int p = s; is_rare(spins) && go_on && p < s + GROUP && p < c.nranks; p++)
		go_on = !line_met_other(c, p, ll128_area(c, c.rank, p, epoch), line, epoch);
	return go_on;
}

template <int K, bool PLAIN>
DEVICE bool line_sum(held *out, const gpu_direct_args &a, uint64_t line, int part, uint32_t epoch, bool there,
		     const held &own)
{
	const gpu_call &c = a.call;
	uint64_t flag = line_flag(c, epoch);
	pack<K> sum[PARTS][2];

	for (int s = 0; s < c.nranks; s += GROUP) {
		held h[GROUP];
		uint32_t spins = 0;
		bool missing;

		do {
			missing = false;
#pragma unroll
			for (int k = 0; k < GROUP; k++) {
				h[k] = own;
				if (s + k < c.nranks && s + k != c.rank && there)
					missing |= !line_load(&h[k], ll128_area(c, c.rank, s + k, epoch), line, part,
							      flag);
			}
			if (any_of_warp(missing && !lines_keep_waiting(c, spins, s, line, epoch)))
				return false;
		} while (any_of_warp(missing));
#pragma unroll
		for (int k = 0; k < GROUP; k++) {
#pragma unroll
			for (int j = 0; j < PARTS; j++) {
				if (s + k == 0) {
					sum[j][0] = pack_of<K>(h[k].v[j].x);
					sum[j][1] = pack_of<K>(h[k].v[j].y);
				} else if (s + k < c.nranks) {
					pack_add<K, PLAIN ? (int)GPU_SUM : (int)ANY>(sum[j][0], h[k].v[j].x, a.value);
					pack_add<K, PLAIN ? (int)GPU_SUM : (int)ANY>(sum[j][1], h[k].v[j].y, a.value);
				}
			}
		}
	}
#pragma unroll
	for (int j = 0; j < PARTS; j++) {
		out->v[j].x = word_of(sum[j][0], a.value);
		out->v[j].y = word_of(sum[j][1], a.value);
	}
	return true;
}

template <bool PLAIN>
DEVICE bool lines_recv(const gpu_call &c, char *to, const source &s, uint64_t bytes, uint32_t epoch)
{
	lines l = lines_of_thread();
	uint64_t n = lines_for(bytes);

#pragma unroll 2
	for (uint64_t i = l.first; i < rounded(n); i += l.step) {
		held h;

		if (!line_wait(&h, c, s, i, l.part, epoch, i < n))
			return false;
		if (i < n)
			line_put<PLAIN>(to, bytes, i, l.part, h);
	}
	return true;
}

template <int K> DEVICE void ll128_recv_sum(const gpu_direct_args &a, uint32_t epoch)
{
	lines l = lines_of_thread();
	uint64_t n = lines_for(a.bytes);
	const char *piece = piece_for(a, a.call.rank);

	for (uint64_t i = l.first; i < rounded(n); i += l.step) {
		held own = {}, sum;

		if (i < n)
			own = line_get<K, false>(a, piece, a.bytes, i, l.part);
		if (!line_sum<K, false>(&sum, a, i, l.part, epoch, i < n, own))
			return;
		if (i < n)
			line_put<false>(a.out, a.bytes, i, l.part, sum);
	}
}

DEVICE void ll128_recv_all(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;
	uint64_t first = (uint64_t)block_index() * thread_count() + thread_index();

	if (sends(a.shape, c.rank))
		keep_own(a, first, (uint64_t)block_count() * thread_count());
	for (int k = 1; k < c.nranks; k++) {
		int s = peer_after(c, k);

		if (!sends(a.shape, s))
			continue;
		source from = { s, ll128_area(c, c.rank, s, epoch) };

		if (!lines_recv<false>(c, place_of(a, s), from, a.bytes, epoch))
			return;
	}
}

template <int K> DEVICE void ll128_work(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;

	for (int k = 1; k < c.nranks && sends(a.shape, c.rank); k++) {
		int p = peer_after(c, k);

		if (receives(a.shape, p))
			lines_send<K, false>(a, p, piece_for(a, p), a.bytes, epoch);
	}
	if (!receives(a.shape, c.rank))
		return;
	if (a.shape.reduces)
		ll128_recv_sum<K>(a, epoch);
	else
		ll128_recv_all(a, epoch);
}

/* A sum by all of what goes through the lines at once. */
template <int K> DEVICE void ll128_sum_work(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;
	lines l = lines_of_thread();
	uint64_t n = lines_for(a.bytes), flag = line_flag(c, epoch);

#pragma unroll 1
	for (uint64_t i = l.first; i < rounded(n); i += l.step) {
		held own = {}, sum;

		if (i < n)
			own = line_get<K, true>(a, a.in, a.bytes, i, l.part);
		for (int k = 1; k < c.nranks; k++) {
			int p = peer_after(c, k);

			if (i == l.first && !warp_wait_room(c, p, epoch))
				return;
			if (i < n)
				line_send(ll128_area(c, p, c.rank, epoch), i, l.part, own, flag);
		}
		if (!line_sum<K, true>(&sum, a, i, l.part, epoch, i < n, own))
			return;
		if (i < n)
			line_put<true>(a.out, a.bytes, i, l.part, sum);
	}
}

/* --- ll128, two shot --- */
/* Part @r of the message, in whole 16 bytes. */
struct share {
	uint64_t at, bytes;
};

DEVICE share share_of(const gpu_direct_args &a, int r)
{
	uint64_t each = ((a.bytes + 15) / 16 + a.call.nranks - 1) / a.call.nranks * 16, at = each * (uint64_t)r;
	share s = { at < a.bytes ? at : a.bytes, 0 };

	s.bytes = a.bytes - s.at < each ? a.bytes - s.at : each;
	return s;
}

/* Reduces this rank's share and sends it to all. */
template <int K, bool PLAIN> DEVICE bool two_shot_middle(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;
	lines l = lines_of_thread();
	share mine = share_of(a, c.rank);
	uint64_t n = lines_for(mine.bytes), second = c.ll128_bytes / 2;

	for (uint64_t i = l.first; i < rounded(n); i += l.step) {
		held own = {}, sum;

		if (i < n)
			own = line_get<K, PLAIN>(a, a.in + mine.at, mine.bytes, i, l.part);
		if (!line_sum<K, PLAIN>(&sum, a, i, l.part, epoch, i < n, own))
			return false;
		if (i >= n)
			continue;
		for (int k = 1; k < c.nranks; k++) {
			int p = peer_after(c, k);

			line_send(ll128_area(c, p, c.rank, epoch) + second, i, l.part, sum, line_flag(c, epoch));
		}
		line_put<PLAIN>(a.out + mine.at, mine.bytes, i, l.part, sum);
	}
	return true;
}

template <int K, bool PLAIN> DEVICE void ll128_two_work(const gpu_direct_args &a, uint32_t epoch)
{
	const gpu_call &c = a.call;
	bool good;

	for (int k = 1; k < c.nranks; k++) {
		int p = peer_after(c, k);
		share s = share_of(a, p);

		lines_send<K, PLAIN>(a, p, a.in + s.at, s.bytes, epoch);
	}
	good = two_shot_middle<K, PLAIN>(a, epoch);
	for (int k = 1; k < c.nranks && good; k++) {
		int p = peer_after(c, k);
		share s = share_of(a, p);
		source from = { p, ll128_area(c, c.rank, p, epoch) + c.ll128_bytes / 2 };

		good = lines_recv<PLAIN>(c, a.out + s.at, from, s.bytes, epoch);
	}
}

/* What all of these kernels do around their work. @all_hear: something comes from every rank to every rank. */
template <void (*WORK)(const gpu_direct_args &a, uint32_t epoch)>
DEVICE void run(const gpu_direct_args &a, bool all_hear)
{
	uint32_t epoch = call_number(a.call);
	bool small = block_count() <= SMALL_BLOCKS;

	if (small)
		let_next_start();
	if (!all_hear)
		call_begin(a.call, epoch);
	WORK(a, epoch);
	if (!small)
		let_next_start();
	if (all_hear)
		note_all_begun(a.call, epoch);
	call_end(a.call, epoch);
}

DEVICE bool all_hear(const gpu_shape &s)
{
	return s.from < 0 && s.to < 0;
}

#define SUMS(kind)                                                                                                     \
	KERNEL(ll_sum_##kind, gpu_direct_args, THREADS)                                                                \
	{                                                                                                              \
		run<ll_sum_work<kind, true>>(a, true);                                                                 \
	}                                                                                                              \
	KERNEL(ll_part_sum_##kind, gpu_direct_args, THREADS)                                                           \
	{                                                                                                              \
		run<ll_sum_work<kind, false>>(a, all_hear(a.shape));                                                   \
	}                                                                                                              \
	KERNEL_PAIRED(ll128_sum_##kind, gpu_direct_args, THREADS)                                                      \
	{                                                                                                              \
		run<ll128_sum_work<kind>>(a, true);                                                                    \
	}                                                                                                              \
	KERNEL_PAIRED(ll128_two_sum_##kind, gpu_direct_args, THREADS)                                                  \
	{                                                                                                              \
		run<ll128_two_work<kind, true>>(a, share_of(a, a.call.nranks - 1).bytes > 0);                          \
	}

GPU_FOR_SUM_KINDS(SUMS)

KERNEL(ll_copy_GPU_U64, gpu_direct_args, THREADS)
{
	run<ll_copy_work>(a, all_hear(a.shape));
}

#define KERNELS(kind)                                                                                                  \
	KERNEL(ll_##kind, gpu_direct_args, THREADS)                                                                    \
	{                                                                                                              \
		run<ll_work<kind>>(a, all_hear(a.shape));                                                              \
	}                                                                                                              \
	KERNEL_PAIRED(ll128_##kind, gpu_direct_args, THREADS)                                                          \
	{                                                                                                              \
		run<ll128_work<kind>>(a, all_hear(a.shape));                                                           \
	}                                                                                                              \
	KERNEL_PAIRED(ll128_two_##kind, gpu_direct_args, THREADS)                                                      \
	{                                                                                                              \
		run<ll128_two_work<kind, false>>(a, share_of(a, a.call.nranks - 1).bytes > 0);                         \
	}

GPU_FOR_KINDS(KERNELS)
