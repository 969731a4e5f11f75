/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks, any number at once. Short ones: short.cuh. A long one of rank s to rank r goes through
 * lanes in r's mail: queues of GPU_MESSAGE_SLOTS slots. A message is cut over as many lanes as its length is worth,
 * each share into slots. Where the next share of a lane begins follows from the lengths alone, so that
 * both ends count alike.
 *
 *   at the receiver  "tail": slots written, and for each slot length, tag and number of its message; the slots
 *   at the sender    "head": slots taken, and the invitation to the message that the receiver is at
 *
 * A long message waits for its invitation, which says where the receiver's buffer is, if the sender can address it:
 * then each lane's share goes there at once, and counts as one slot.
 *
 * A block has some of the lanes (units) of a launch and moves a slot of whichever can move, so that no message
 * waits for another of the launch, but for those before it in its lane. How far a lane has come is kept in
 * counters[] from launch to launch, for replays of graphs too.
 *
 * Traffic: the message once over the link, and by way of slots once more from slot to buffer in the receiver's memory.
 */
#include "cuda/kernels/short.cuh"

#define THREADS 512

/* A lane of a flow in this launch. */
struct unit {
	uint64_t count; /* slots moved since the communicator was made */
	uint64_t at;	/* bytes of the share of this message that are done */
	uint32_t first; /* of lane 0: number of the launch's first message between the two ranks */
	uint16_t message, end;
	uint8_t flow, lane;
	uint8_t lost;	 /* the message that came is another one */
	uint8_t offered; /* of a send: this message is */
	char *direct;	 /* the receiver's buffer where this message goes there at once, else 0 */
};

/* What the block moves next. */
struct step {
	char *to;
	const char *from;
	uint64_t bytes, left; /* left: with it, of the share */
	int unit;	      /* -1: all is done, or the launch ends */
};

struct shared_units {
	struct unit unit[GPU_UNITS_MOST];
	struct step step;
	unsigned n, next;
	uint32_t spins;
};

DEVICE char *slot_at(const gpu_messages_args &a, int at, int by, unsigned lane, uint64_t count)
{
	uint64_t i = lane_index(a, at, by, lane) * GPU_MESSAGE_SLOTS + count % GPU_MESSAGE_SLOTS;

	return mail_of(a, at, by) + a.slots + i * a.slot_bytes;
}

DEVICE uint64_t *counter_of(const gpu_messages_args &a, const gpu_flow &f, unsigned lane)
{
	unsigned sends = f.kind == GPU_FLOW_SEND;

	return a.counters + ((uint64_t)sends * (unsigned)a.call.nranks + f.peer) * a.lanes + lane;
}

DEVICE uint32_t number_of_message(const gpu_messages_args &a, const unit &u)
{
	return u.first + a.number[u.message];
}

DEVICE void write_header(const gpu_messages_args &a, const unit &u, uint64_t *tail)
{
	const gpu_message &m = a.message[u.message];
	uint64_t *h = header_at(tail, u.count);

	store_word(h, header_word(m.bytes, number_of_message(a, u)));
	store_word(h + 1, m.word);
}

/* --- shares --- */
DEVICE void share_of(const gpu_messages_args &a, const unit &u, uint64_t *at, uint64_t *bytes)
{
	uint64_t all = a.message[u.message].bytes, lanes = GPU_LANES_OF(all, a.lanes);
	uint64_t each = ((all + lanes - 1) / lanes + GPU_LINE - 1) / GPU_LINE * GPU_LINE;

	*at = each * u.lane < all ? each * u.lane : all;
	*bytes = all - *at < each ? all - *at : each;
}

DEVICE void invite(const gpu_messages_args &a, unit &u)
{
	const gpu_message &m = a.message[u.message];
	uint64_t place = m.place && a.ready[m.place >> 48] ? m.place : 0;
	uint64_t *head = line_at(a, a.flow[u.flow].peer, a.call.rank, u.lane, LINE_HEAD);

	store_word(head + HEAD_PLACE, place);
	store_word_release(head + HEAD_INVITED, u.count + 1);
	u.direct = place ? m.buf : 0;
}

/* Length and tag, for a receiver that is at a short message and invites nobody. */
DEVICE void offer(const gpu_messages_args &a, unit &u)
{
	uint64_t *tail = line_at(a, a.flow[u.flow].peer, a.call.rank, u.lane, LINE_TAIL);

	write_header(a, u, tail);
	store_word_release(tail + TAIL_OFFERED, u.count + 1);
	u.offered = 1;
}

DEVICE bool is_long(const gpu_messages_args &a, const unit &u)
{
	return a.message[u.message].bytes >= GPU_DIRECT_LEAST;
}

/* To the next message that has a share for this lane. */
DEVICE void begin_message(const gpu_messages_args &a, unit &u)
{
	while (u.message < u.end && GPU_LANES_OF(a.message[u.message].bytes, a.lanes) <= u.lane)
		u.message++;
	u.direct = 0;
	u.offered = 0;
	if (u.message < u.end && a.flow[u.flow].kind == GPU_FLOW_RECV && is_long(a, u))
		invite(a, u);
}

DEVICE void unit_init(const gpu_messages_args &a, unit &u, unsigned number)
{
	unsigned f = a.nflows - 1;

	while (a.flow[f].unit > number)
		f--;
	u.flow = (uint8_t)f;
	u.lane = (uint8_t)(number - a.flow[f].unit);
	u.message = a.flow[f].first;
	u.end = (uint16_t)(a.flow[f].first + a.flow[f].count);
	u.at = 0;
	u.lost = 0;
	u.count = u.first = 0;
	if (a.flow[f].kind != GPU_FLOW_COPY) {
		u.count = *counter_of(a, a.flow[f], u.lane);
		u.first = u.lane ? 0 : (uint32_t)*number_of(a, GPU_PATH_LONG, a.flow[f]);
	}
	begin_message(a, u);
}

/* --- what came --- */
/* The first lane, which every message has, tells. */
DEVICE void lose(const gpu_messages_args &a, unit &u, const met &x)
{
	u.lost = 1;
	if (!u.lane)
		tell_odd(a, a.flow[u.flow].peer, a.message[u.message], x);
}

DEVICE bool has_come(const gpu_messages_args &a, unit &u)
{
	uint64_t *tail = line_at(a, a.call.rank, a.flow[u.flow].peer, u.lane, LINE_TAIL);
	const uint64_t *h = header_at(tail, u.count);
	met x;

	if (u.lost || load_word_acquire(tail) <= u.count)
		return false;
	if (u.at)
		return true;
	if (!read_header(&x, h, number_of_message(a, u)) && !u.lane)
		return false; /* this message went as a short one */
	if (!fits(a.message[u.message], x))
		lose(a, u, x);
	return !u.lost;
}

/* Is a message offered, or has a short one come, where another one is expected? */
DEVICE void check_offer(const gpu_messages_args &a, unit &u)
{
	const gpu_flow &f = a.flow[u.flow];

	if (f.kind == GPU_FLOW_RECV && !u.at && !u.lost && !u.lane)
		u.lost = came_otherwise(a, f.peer, a.message[u.message], number_of_message(a, u));
}

/* Has the receiver said where the message goes? */
DEVICE bool is_invited(const gpu_messages_args &a, unit &u, const uint64_t *head)
{
	uint64_t place;

	if (u.at || !is_long(a, u))
		return true;
	if (!u.offered)
		offer(a, u);
	if (load_word_acquire(head + HEAD_INVITED) != u.count + 1)
		return false;
	place = load_word(head + HEAD_PLACE);
	if (place)
		u.direct = (char *)a.maps[(uint64_t)a.flow[u.flow].peer * GPU_MAX_PLACES + (place >> 48)] +
			   (place & (((uint64_t)1 << 48) - 1));
	return true;
}

DEVICE bool can_send(const gpu_messages_args &a, unit &u)
{
	const uint64_t *head = line_at(a, a.call.rank, a.flow[u.flow].peer, u.lane, LINE_HEAD);

	return u.count - load_word_acquire(head) < GPU_MESSAGE_SLOTS && is_invited(a, u, head);
}

/* --- choosing, by one thread --- */
DEVICE bool can_move(const gpu_messages_args &a, unit &u)
{
	const gpu_flow &f = a.flow[u.flow];

	switch (f.kind) {
	case GPU_FLOW_SEND:
		return can_send(a, u);
	case GPU_FLOW_RECV:
		return has_come(a, u);
	default:
		return true;
	}
}

DEVICE void step_init(const gpu_messages_args &a, step &s, const unit &u)
{
	const gpu_flow &f = a.flow[u.flow];
	const gpu_message &m = a.message[u.message];
	uint64_t at, bytes;

	share_of(a, u, &at, &bytes);
	at += u.at;
	s.left = bytes - u.at;
	s.bytes = s.left < a.slot_bytes || f.kind == GPU_FLOW_COPY || u.direct ? s.left : a.slot_bytes;
	s.to = m.buf + at;
	s.from = m.buf + at;
	if (u.direct)
		s.to = u.direct + at; /* of a receive: there already */
	else if (f.kind == GPU_FLOW_SEND)
		s.to = slot_at(a, f.peer, a.call.rank, u.lane, u.count);
	else if (f.kind == GPU_FLOW_RECV)
		s.from = slot_at(a, a.call.rank, f.peer, u.lane, u.count);
	else
		s.from = (const char *)m.word + at;
}

/* The next unit that can move, in turn; those that are done make room. -1: none is left. */
DEVICE int next_unit(const gpu_messages_args &a, shared_units &s)
{
	while (s.n) {
		for (unsigned k = 0; k < s.n; k++) {
			unsigned i = (s.next + k) % s.n;

			if (!can_move(a, s.unit[i]))
				continue;
			s.next = i + 1;
			return (int)i;
		}
		if (!keep_waiting(a.call, s.spins))
			return -1;
		for (unsigned i = 0; i < s.n && is_rare(s.spins); i++)
			check_offer(a, s.unit[i]);
		if (is_rare(s.spins) && load_word(&a.odd->set))
			return -1;
	}
	return -1;
}

DEVICE void choose(const gpu_messages_args &a, shared_units &s)
{
	s.step.unit = next_unit(a, s);
	if (s.step.unit >= 0)
		step_init(a, s.step, s.unit[s.step.unit]);
}

/* --- and after it has moved --- */
DEVICE void publish(const gpu_messages_args &a, const unit &u, uint64_t bytes)
{
	const gpu_flow &f = a.flow[u.flow];

	if (f.kind == GPU_FLOW_SEND) {
		uint64_t *tail = line_at(a, f.peer, a.call.rank, u.lane, LINE_TAIL);

		write_header(a, u, tail);
		store_word(tail + GPU_TAIL_BYTES + u.count % GPU_MESSAGE_SLOTS, bytes);
		store_word_release(tail, u.count + 1);
	} else if (f.kind == GPU_FLOW_RECV) {
		store_word_release(line_at(a, f.peer, a.call.rank, u.lane, LINE_HEAD), u.count + 1);
	}
}

DEVICE void end_unit(const gpu_messages_args &a, const unit &u)
{
	const gpu_flow &f = a.flow[u.flow];

	*counter_of(a, f, u.lane) = u.count;
	if (!u.lane)
		count_flow(a, GPU_PATH_LONG, f, u.first);
}

DEVICE void advance(const gpu_messages_args &a, shared_units &s)
{
	unit &u = s.unit[s.step.unit];

	publish(a, u, s.step.bytes);
	u.count++;
	u.at += s.step.bytes;
	if (s.step.bytes < s.step.left)
		return;
	u.at = 0;
	u.message++;
	begin_message(a, u);
	if (u.message < u.end)
		return;
	if (a.flow[u.flow].kind != GPU_FLOW_COPY)
		end_unit(a, u);
	s.n--;
	if ((unsigned)s.step.unit < s.n)
		u = s.unit[s.n];
	s.next = (unsigned)s.step.unit;
}

/* By all. */
DEVICE void move_step(const step &s)
{
	if (s.to != s.from)
		block_copy(s.to, s.from, s.bytes, as_it_is());
}

DEVICE void long_work(const gpu_messages_args &a)
{
	SHARED shared_units s;
	unsigned mine = (a.nunits - block_index() + a.long_blocks - 1) / a.long_blocks;

	for (unsigned i = thread_index(); i < mine; i += thread_count())
		unit_init(a, s.unit[i], block_index() + i * a.long_blocks);
	if (thread_index() == 0) {
		count_up(word_of_all(a, GPU_COUNTER_BEGUN));
		s.n = mine;
		s.next = s.spins = 0;
	}
	block_sync();
	for (;;) {
		if (thread_index() == 0)
			choose(a, s);
		block_sync();
		if (s.step.unit < 0)
			break;
		move_step(s.step);
		block_sync();
		if (thread_index() == 0)
			advance(a, s);
	}
	if (thread_index() == 0)
		count_up(word_of_all(a, GPU_COUNTER_ENDED));
}

KERNEL(messages, gpu_messages_args, THREADS)
{
	wait_for_last();
	let_next_start();
	if (block_index() < a.long_blocks)
		long_work(a);
	else
		short_work(a, (block_index() - a.long_blocks) * warp_count() + warp_index());
}

/* Where there are no long ones: little code, as it is read at every launch. */
KERNEL(messages_short, gpu_messages_args, THREADS)
{
	wait_for_last();
	let_next_start();
	short_work(a, block_index() * warp_count() + warp_index());
}
