/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks: the order that the host puts them in, and the kernel, compiled for the processor, with
 * ranks and blocks as threads. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/emulate.h"
#include "cuda/messages.h"
#include "unit.h"

/* Blocks: of long messages. */
enum { RANKS = 5, BLOCKS = 3, SLOT = 2048, MOST = 200, GUARD = 32, SHORT_LANES = 3, SHORT_MOST = 12000, WARPS = 256 };

struct world {
	int n;
	struct message_layout at;
	char *mail[RANKS];
	uint64_t *counters[RANKS];
	struct gpu_odd odd[RANKS];
	uint32_t stop, epochs[GPU_EPOCHS], trouble, ready[GPU_MAX_PLACES];
	uint64_t maps[RANKS * GPU_MAX_PLACES];
};

static unsigned seed = 1;
static unsigned rnd(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static struct world *world_create(int n, uint32_t short_lanes)
{
	struct world *w = calloc(1, sizeof(*w));

	w->n = n;
	w->at = messages_layout(n, 4096, SHORT_MOST);
	w->at.slot_bytes = SLOT;
	w->at.short_lanes = short_lanes;
	for (int r = 0; r < n; r++) {
		size_t len = (w->at.end + 4095) / 4096 * 4096;

		w->mail[r] = aligned_alloc(4096, len);
		memset(w->mail[r], 0, len);
		w->counters[r] = calloc(messages_counters(n, &w->at).all, sizeof(uint64_t));
	}
	return w;
}

static void world_free(struct world *w)
{
	for (int r = 0; r < w->n; r++) {
		free(w->mail[r]);
		free(w->counters[r]);
	}
	free(w);
}

/* --- a rank's group: a thread for each block of each launch --- */
struct group {
	struct world *w;
	int rank;
	bool one_by_one;
	size_t n;
	struct message list[MOST];
	enum taut_status st;
};

struct block {
	const struct gpu_messages_args *args;
	unsigned index, count;
};

static void *run_block(void *p)
{
	struct block *b = p;

	emulate_block(b->index, b->count);
	if (b->args->long_blocks)
		messages(*b->args);
	else
		messages_short(*b->args);
	return NULL;
}

static void launch(struct gpu_messages_args *a)
{
	struct block b[BLOCKS + WARPS];
	pthread_t t[BLOCKS + WARPS];
	unsigned count;

	a->long_blocks = a->nunits < BLOCKS ? a->nunits : BLOCKS;
	count = a->long_blocks + a->nwarps;
	assert_true(count <= BLOCKS + WARPS);
	for (unsigned i = 0; i < count; i++) {
		b[i] = (struct block){ a, i, count };
		pthread_create(&t[i], NULL, run_block, &b[i]);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(t[i], NULL);
}

static void run_list(struct group *g, struct message *list, size_t n)
{
	struct world *w = g->w;
	struct gpu_messages_args a = { .odd = &w->odd[g->rank], .maps = w->maps, .ready = w->ready };

	messages_begin(&a, w->n, &w->at, w->counters[g->rank]);
	a.call = (struct gpu_call){ .rank = g->rank, .nranks = w->n, .stop = &w->stop };
	for (int r = 0; r < w->n; r++)
		a.call.mail[r] = w->mail[r];
	g->st = messages_order(list, &n, g->rank, w->n);
	for (size_t at = 0; at < n && !g->st;) {
		at += messages_fill(&a, list + at, n - at);
		launch(&a);
	}
	if (w->odd[g->rank].set)
		__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED); /* as the host does */
}

static void *run_group(void *p)
{
	struct group *g = p;

	if (!g->one_by_one)
		run_list(g, g->list, g->n);
	for (size_t i = 0; g->one_by_one && i < g->n && !g->st; i++)
		run_list(g, &g->list[i], 1);
	return NULL;
}

static void run_all(struct group *g, int n)
{
	pthread_t t[RANKS];

	for (int r = 0; r < n; r++)
		pthread_create(&t[r], NULL, run_group, &g[r]);
	for (int r = 0; r < n; r++)
		pthread_join(t[r], NULL);
}

static struct group *groups_create(struct world *w)
{
	struct group *g = calloc(RANKS, sizeof(*g));

	for (int r = 0; r < w->n; r++) {
		g[r].w = w;
		g[r].rank = r;
	}
	return g;
}

static void add(struct group *g, enum gpu_flow_kind kind, int peer, void *buf, size_t bytes, int tag)
{
	g->list[g->n++] = (struct message){ .buf = buf, .bytes = bytes, .peer = peer, .tag = tag, .kind = kind };
}

/* --- patterns --- */
struct sent {
	int from, to;
	size_t bytes;
	unsigned char *in, *out; /* with GUARD bytes before and behind */
};

static size_t draw_bytes(void)
{
	static const unsigned most[] = { 1, 9, 200, 5 * SLOT, 40000, 200000, 900000 };

	if (!rnd(8))
		return SHORT_MOST - 1 + rnd(3);
	return rnd(most[rnd(7)]);
}

static struct sent draw(int from, int to)
{
	struct sent s = { from, to, draw_bytes(), NULL, NULL };

	s.in = malloc(s.bytes + 2 * GUARD);
	s.out = malloc(s.bytes + 2 * GUARD);
	for (size_t i = 0; i < s.bytes + 2 * GUARD; i++)
		s.in[i] = (unsigned char)rnd(256);
	memset(s.out, 0x55, s.bytes + 2 * GUARD);
	return s;
}

static bool untouched(const unsigned char *p)
{
	for (int i = 0; i < GUARD; i++)
		if (p[i] != 0x55)
			return false;
	return true;
}

/* @skew: of the places of both buffers. */
static void check(struct sent *s, size_t skew_in, size_t skew_out, int round)
{
	unsigned char *out = s->out + skew_out;

	if (memcmp(out, s->in + skew_in, s->bytes) || out[-1] != 0x55 || !untouched(out + s->bytes))
		fail_msg("round %d: %zu bytes from rank %d to rank %d are wrong", round, s->bytes, s->from, s->to);
	free(s->in);
	free(s->out);
}

/* Says, now and then, where peers may write what is received. */
static void publish(struct world *w, struct message *m, const struct sent *s, unsigned number)
{
	w->maps[s->to * GPU_MAX_PLACES + number] = (uintptr_t)s->out;
	w->ready[number] = rnd(4) > 0;
	m->place = GPU_PLACE(number, (uint64_t)((unsigned char *)m->buf - s->out));
}

/* In a chain ranks send upwards only: then they may make their calls one by one. */
static void run_round(struct world *w, int round, bool chain, int count)
{
	struct group *g = groups_create(w);
	struct sent s[MOST];
	size_t skew[MOST][2];

	for (int i = 0; i < count; i++) {
		int from = (int)rnd((unsigned)(chain ? w->n - 1 : w->n));
		int to = chain ? from + 1 + (int)rnd((unsigned)(w->n - 1 - from)) : (int)rnd((unsigned)w->n);
		int tag = (int)rnd(3);

		s[i] = draw(from, to);
		skew[i][0] = rnd(2) ? 16 : rnd(GUARD);
		skew[i][1] = rnd(2) ? 16 : 1 + rnd(GUARD - 1);
		memset(s[i].out + skew[i][1] + s[i].bytes, 0x55, 2 * GUARD - skew[i][1]);
		add(&g[from], GPU_FLOW_SEND, to, s[i].in + skew[i][0], s[i].bytes, tag);
		add(&g[to], GPU_FLOW_RECV, from, s[i].out + skew[i][1], s[i].bytes, rnd(2) ? GPU_TAG_ANY : tag);
		if (rnd(4))
			publish(w, &g[to].list[g[to].n - 1], &s[i], (unsigned)i + 1);
	}
	for (int r = 0; r < w->n; r++)
		g[r].one_by_one = chain && rnd(2);
	run_all(g, w->n);
	for (int r = 0; r < w->n; r++) {
		assert_int_equal(g[r].st, TAUT_OK);
		assert_int_equal(w->odd[r].set, 0);
	}
	for (int i = 0; i < count; i++)
		check(&s[i], skew[i][0], skew[i][1], round);
	free(g);
}

static void messages_of_any_pattern_arrive_whole_and_in_order(void **state)
{
	(void)state;
	for (int n = 2; n <= RANKS; n++) {
		for (uint32_t lanes = 0; lanes <= SHORT_LANES; lanes++) {
			struct world *w = world_create(n, lanes);

			for (int round = 0; round < 12; round++)
				run_round(w, round, rnd(3) == 0, 1 + (int)rnd(12));
			world_free(w);
		}
	}
}

/* More than the slots of a lane hold, by a sender that makes its calls one by one. */
static void many_short_messages_follow_each_other(void **state)
{
	enum { COUNT = 60 };
	struct world *w = world_create(2, SHORT_LANES);
	static uint32_t in[3][COUNT], out[3][COUNT];

	(void)state;
	for (int round = 0; round < 3; round++) {
		struct group *g = groups_create(w);

		for (unsigned i = 0; i < COUNT; i++) {
			in[round][i] = rnd(1000000);
			add(&g[0], GPU_FLOW_SEND, 1, &in[round][i], 4, 1);
			add(&g[1], GPU_FLOW_RECV, 0, &out[round][i], 4, 1);
		}
		g[0].one_by_one = round != 1;
		g[1].one_by_one = round != 0;
		run_all(g, 2);
		free(g);
	}
	assert_memory_equal(in, out, sizeof(in));
	world_free(w);
}

static void more_messages_than_a_launch_takes_go_in_several(void **state)
{
	struct world *w = world_create(3, SHORT_LANES);
	struct group *g = groups_create(w);
	static uint64_t in[3][3][30], out[3][3][30];

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		for (int a = 0; a < 3; a++) {
			for (int b = 0; b < 3; b++) {
				in[a][b][i] = seed + rnd(1000);
				add(&g[a], GPU_FLOW_SEND, b, &in[a][b][i], 8, (int)i);
				add(&g[a], GPU_FLOW_RECV, b, &out[b][a][i], 8, (int)i);
			}
		}
	}
	assert_true(g[0].n > GPU_MESSAGES_MOST);
	run_all(g, 3);
	assert_memory_equal(in, out, sizeof(in));
	free(g);
	world_free(w);
}

/* What rank 0 sends is not what rank 1 waits for. */
static struct gpu_odd meet(size_t sent, int sent_tag, size_t wanted, int wanted_tag)
{
	struct world *w = world_create(2, SHORT_LANES);
	struct group *g = groups_create(w);
	char *in = calloc(1, sent + 1), *out = calloc(1, wanted + 1);
	struct gpu_odd odd;

	add(&g[0], GPU_FLOW_SEND, 1, in, sent, sent_tag);
	add(&g[1], GPU_FLOW_RECV, 0, out, wanted, wanted_tag);
	g[0].list[0].sig = 7;
	g[1].list[0].sig = 8;
	run_all(g, 2);
	odd = w->odd[1];
	assert_int_equal(w->odd[0].set, 0);
	free(in);
	free(out);
	free(g);
	world_free(w);
	return odd;
}

static void a_message_of_another_length_is_told(void **state)
{
	struct gpu_odd odd = meet(40, 3, 300000, 3);

	(void)state;
	assert_int_equal(odd.set, 1);
	assert_int_equal(odd.peer, 0);
	assert_int_equal(odd.bytes, 40);
	assert_int_equal(odd.want_bytes, 300000);
	odd = meet(3 * SLOT, 3, 8, GPU_TAG_ANY);
	assert_int_equal(odd.set, 1);
	assert_int_equal(odd.bytes, 3 * SLOT);
	odd = meet(300000, 3, 8, 3);
	assert_int_equal(odd.set, 1);
	assert_int_equal(odd.bytes, 300000);
	assert_int_equal(odd.want_bytes, 8);
}

/* Message @at of @count is @sent bytes at rank 0 and @wanted at rank 1, all others are alike. */
static struct gpu_odd meet_among(int count, int at, size_t sent, size_t wanted, bool one_by_one)
{
	static char in[MOST / 10][400000], out[MOST / 10][400000];
	struct world *w = world_create(2, SHORT_LANES);
	struct group *g = groups_create(w);
	struct gpu_odd odd;

	for (int i = 0; i < count; i++) {
		static const size_t lengths[] = { 8, 20000, 300000, 5000 };
		size_t both = lengths[rnd(4)];

		add(&g[0], GPU_FLOW_SEND, 1, in[i], i == at ? sent : both, 3);
		add(&g[1], GPU_FLOW_RECV, 0, out[i], i == at ? wanted : both, 3);
	}
	g[1].one_by_one = one_by_one;
	run_all(g, 2);
	odd = w->odd[1];
	assert_int_equal(w->odd[0].set, 0);
	free(g);
	world_free(w);
	return odd;
}

static void a_long_message_for_a_short_one_is_told_among_others(void **state)
{
	static const size_t lengths[] = { 0, 8, SHORT_MOST, SHORT_MOST + 1, 50000, GPU_DIRECT_LEAST, 400000 };

	(void)state;
	for (int i = 0; i < 30; i++) {
		size_t sent = lengths[rnd(7)], wanted = lengths[rnd(7)];
		int count = 1 + (int)rnd(MOST / 10);
		struct gpu_odd odd = meet_among(count, (int)rnd((unsigned)count), sent, wanted, rnd(2));

		assert_int_equal(odd.set, sent != wanted);
		assert_int_equal(odd.bytes, odd.set ? sent : 0);
		assert_int_equal(odd.want_bytes, odd.set ? wanted : 0);
	}
}

static void a_message_of_another_tag_is_told(void **state)
{
	struct gpu_odd odd = meet(40, 3, 40, 4);

	(void)state;
	assert_int_equal(odd.set, 1);
	assert_int_equal(odd.word, 3);
	assert_int_equal(odd.want_word, 4);
}

static void a_block_of_a_collective_is_for_the_same_collective_alone(void **state)
{
	(void)state;
	assert_int_equal(meet(40, GPU_TAG_CALL, 40, GPU_TAG_ANY).set, 1);
	assert_int_equal(meet(40, 1, 40, GPU_TAG_CALL).set, 1);
	assert_int_equal(meet(40, GPU_TAG_CALL, 40, GPU_TAG_CALL).set, 1);
	assert_int_equal(meet(40, 1, 40, GPU_TAG_ANY).set, 0);
}

static void a_kernel_that_waits_ends_when_told_to(void **state)
{
	struct world *w = world_create(2, SHORT_LANES);
	struct group *g = groups_create(w);
	static char buf[2][100000];

	(void)state;
	w->stop = 1;
	add(&g[0], GPU_FLOW_SEND, 1, buf[0], sizeof(buf[0]), 0);
	add(&g[0], GPU_FLOW_RECV, 1, buf[1], sizeof(buf[1]), 0);
	run_group(&g[0]);
	free(g);
	world_free(w);
}

static void what_a_rank_sends_itself_and_receives_must_agree(void **state)
{
	char a[8], b[8];
	struct message list[2] = { { .buf = a, .bytes = 8, .peer = 1, .tag = 2, .kind = GPU_FLOW_SEND },
				   { .buf = b, .bytes = 8, .peer = 1, .tag = 2, .kind = GPU_FLOW_RECV } };
	struct message both[2];
	size_t n = 1;

	(void)state;
	memcpy(both, list, sizeof(both));
	assert_int_equal(messages_order(both, &n, 1, 2), TAUT_ERR_ARG);
	n = 2;
	memcpy(both, list, sizeof(both));
	assert_int_equal(messages_order(both, &n, 1, 2), TAUT_OK);
	assert_int_equal(n, 1);
	assert_int_equal(both[0].kind, GPU_FLOW_COPY);
	assert_ptr_equal(both[0].from, a);
	n = 2;
	list[1].tag = 3;
	assert_int_equal(messages_order(list, &n, 1, 2), TAUT_ERR_MISMATCH);
}

static void the_mail_of_eight_ranks_stays_small(void **state)
{
	(void)state;
	for (int n = 1; n <= GPU_MAX_RANKS; n++) {
		struct message_layout l = messages_layout(n, 0, 128 << 10);

		assert_true(l.end <= (uint64_t)5 << 20);
		assert_true(n == 1 || l.slot_bytes >= 8192);
		assert_true(n == 1 || l.short_most >= 4096);
		assert_true(n == 1 || n > 8 || l.short_most >= 65536);
		assert_true((2 * (uint32_t)n - 1) * l.lanes <= GPU_UNITS_MOST);
	}
}

/* Messages to and from all, of @bytes; those to rank 0 are of @other. */
static struct gpu_messages_args *fill(int n, int blocks, size_t bytes, size_t other)
{
	struct gpu_messages_args *a = calloc(1, sizeof(*a));
	struct message_layout l = messages_layout(n, 0, 128 << 10);
	struct message list[2 * GPU_MAX_RANKS] = { 0 };
	size_t count = 0;

	messages_limit(&l, n, blocks);
	messages_begin(a, n, &l, NULL);
	for (int r = 0; r < n - 1; r++) {
		struct message m = { .bytes = r ? bytes : other, .peer = r, .kind = GPU_FLOW_SEND };

		list[count++] = m;
		m.kind = GPU_FLOW_RECV;
		list[count++] = m;
	}
	assert_int_equal(messages_order(list, &count, n - 1, n), TAUT_OK);
	messages_fill(a, list, count);
	return a;
}

static void every_lane_of_short_messages_has_a_warp(void **state)
{
	static const size_t lengths[] = { 8, 4096, 1 << 20 };

	(void)state;
	for (int n = 2; n <= GPU_MAX_RANKS; n++) {
		for (int i = 0; i < 9; i++) {
			int blocks = n % 7 == 2 ? GPU_MAX_BLOCKS : 1 + (int)rnd(GPU_MAX_BLOCKS);
			struct gpu_messages_args *a = fill(n, blocks, lengths[i % 3], lengths[i / 3]);
			struct message_grid g = messages_grid(a, (unsigned)blocks);

			assert_true(g.blocks >= 1 && g.blocks <= (unsigned)blocks && g.threads <= 512);
			assert_true(!a->nunits == !a->long_blocks);
			assert_true((g.blocks - a->long_blocks) * (g.threads / 32) >= a->nwarps);
			assert_true(blocks / 2 * 16 < 2 * n - 1 || a->short_lanes);
			free(a);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_any_pattern_arrive_whole_and_in_order),
		cmocka_unit_test(many_short_messages_follow_each_other),
		cmocka_unit_test(more_messages_than_a_launch_takes_go_in_several),
		cmocka_unit_test(a_message_of_another_length_is_told),
		cmocka_unit_test(a_long_message_for_a_short_one_is_told_among_others),
		cmocka_unit_test(a_message_of_another_tag_is_told),
		cmocka_unit_test(a_block_of_a_collective_is_for_the_same_collective_alone),
		cmocka_unit_test(a_kernel_that_waits_ends_when_told_to),
		cmocka_unit_test(what_a_rank_sends_itself_and_receives_must_agree),
		cmocka_unit_test(the_mail_of_eight_ranks_stays_small),
		cmocka_unit_test(every_lane_of_short_messages_has_a_warp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
