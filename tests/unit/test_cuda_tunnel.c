/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share no memory: each with a copy of all mail, the kernels compiled for the processor, and sockets between
 * them. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "cuda/kernels/emulate.h"
#include "cuda/tunnel.h"
#include "unit.h"

enum { RANKS = 3, THREADS = 2, LANES = 3, SLOTS = 2, SLOT = 4096, BLOCKS = 2 * LANES, LINES_AT = 4096, MOST = 30000 };

/* To the thread sanitizer sendmsg() reads its buffer after the call, when the peer may have answered already. */
#ifdef __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

struct rank {
	unsigned char *mem;
	struct tunnel *tunnel;
	int out[THREADS * RANKS], in[THREADS * RANKS];
	uint32_t epochs[GPU_EPOCHS], stop, trouble;
	uint64_t marks[1 + BLOCKS], *counters;
	struct gpu_odd odd;
	float *a, *b;
};

struct world {
	struct tunnel_layout at;
	struct rank rank[RANKS];
};

static struct tunnel_layout lay_out(void)
{
	struct tunnel_layout l = { .lines = LINES_AT, .lanes = LANES, .nslots = SLOTS, .slot_bytes = SLOT };

	l.slots = l.lines + 4096;
	l.messages = messages_layout(RANKS, l.slots + LANES * SLOTS * SLOT, 0);
	l.bytes = (l.messages.end + 4095) / 4096 * 4096;
	return l;
}

static void join_all(struct world *w)
{
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < THREADS * RANKS; i++)
			w->rank[r].out[i] = w->rank[r].in[i] = -1;
	for (int k = 0; k < THREADS; k++) {
		for (int r = 0; r < RANKS; r++) {
			for (int p = 0; p < RANKS; p++) {
				int pair[2];

				if (p == r)
					continue;
				assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
				w->rank[r].out[k * RANKS + p] = pair[0];
				w->rank[p].in[k * RANKS + r] = pair[1];
			}
		}
	}
}

static void open_rank(struct world *w, int r)
{
	struct rank *x = &w->rank[r];
	const struct tunnel_args a = { .rank = r,
				       .nranks = RANKS,
				       .threads = THREADS,
				       .mem = x->mem,
				       .at = w->at,
				       .out = x->out,
				       .in = x->in,
				       .stop = &x->stop };

	assert_int_equal(tunnel_open(&x->tunnel, &a), TAUT_OK);
}

static struct world *world_create(void)
{
	struct world *w = calloc(1, sizeof(*w));

	w->at = lay_out();
	join_all(w);
	for (int r = 0; r < RANKS; r++) {
		struct rank *x = &w->rank[r];

		x->mem = aligned_alloc(4096, RANKS * w->at.bytes);
		memset(x->mem, 0, RANKS * w->at.bytes);
		x->counters = calloc(messages_counters(RANKS, &w->at.messages).all, sizeof(uint64_t));
		x->a = calloc(RANKS * MOST, sizeof(float));
		x->b = calloc(RANKS * MOST, sizeof(float));
		open_rank(w, r);
	}
	return w;
}

static void world_free(struct world *w)
{
	for (int r = 0; r < RANKS; r++)
		tunnel_close(w->rank[r].tunnel, true);
	for (int r = 0; r < RANKS; r++) {
		free(w->rank[r].mem);
		free(w->rank[r].counters);
		free(w->rank[r].a);
		free(w->rank[r].b);
	}
	free(w);
}

static void fill_call(struct gpu_call *c, struct world *w, int r)
{
	struct rank *x = &w->rank[r];

	*c = (struct gpu_call){
		.rank = r, .nranks = RANKS, .sig = 5, .epochs = x->epochs, .stop = &x->stop, .trouble = &x->trouble
	};
	for (int p = 0; p < RANKS; p++)
		c->mail[p] = (char *)x->mem + (size_t)p * w->at.bytes;
}

struct block {
	pthread_t thread;
	unsigned index;
	const struct gpu_host_args *host;
	const struct gpu_messages_args *messages;
};

static void *run_block(void *p)
{
	struct block *b = p;

	emulate_block(b->index, b->host ? BLOCKS : 2);
	if (b->host)
		host_GPU_F32(*b->host);
	else
		messages(*b->messages);
	return NULL;
}

/* --- large messages --- */
static void run_all(struct world *w, struct gpu_shape shape, size_t count)
{
	struct gpu_host_args a[RANKS];
	struct block b[RANKS][BLOCKS];

	for (int r = 0; r < RANKS; r++) {
		a[r] = (struct gpu_host_args){ .lines = w->at.lines,
					       .slots = w->at.slots,
					       .slot_bytes = SLOT,
					       .nslots = SLOTS,
					       .labels = 1,
					       .marks = w->rank[r].marks };
		fill_call(&a[r].direct.call, w, r);
		a[r].direct.shape = shape;
		a[r].direct.value = (struct gpu_value){ .kind = GPU_F32, .op = GPU_SUM };
		a[r].direct.in = (const char *)w->rank[r].a;
		a[r].direct.out = (char *)w->rank[r].b;
		a[r].direct.bytes = count * sizeof(float);
		for (unsigned i = 0; i < BLOCKS; i++) {
			b[r][i] = (struct block){ .index = i, .host = &a[r] };
			pthread_create(&b[r][i].thread, NULL, run_block, &b[r][i]);
		}
	}
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < BLOCKS; i++)
			pthread_join(b[r][i].thread, NULL);
}

/* What rank @from has for rank @to, element @i; small numbers, so that sums are exact. */
static float value(int from, int to, size_t i)
{
	return (float)((size_t)from * 1000 + (size_t)to * 100 + i % 89);
}

static float expected(const struct gpu_shape *s, int me, int from, size_t i)
{
	int to = s->scatters ? me : 0;
	float sum = 0;

	if (!s->reduces)
		return value(s->from < 0 ? from : s->from, to, i);
	for (int r = 0; r < RANKS; r++)
		sum += value(r, to, i);
	return sum;
}

static void check(struct world *w, struct gpu_shape shape, size_t count)
{
	int in = shape.scatters ? RANKS : 1, out = shape.reduces || shape.from >= 0 ? 1 : RANKS;

	for (int r = 0; r < RANKS; r++) {
		memset(w->rank[r].b, 0, RANKS * MOST * sizeof(float));
		for (int p = 0; p < in; p++)
			for (size_t i = 0; i < count; i++)
				w->rank[r].a[(size_t)p * count + i] = value(r, p, i);
	}
	run_all(w, shape, count);
	for (int r = 0; r < RANKS; r++) {
		for (int p = 0; p < out && (shape.to < 0 || shape.to == r); p++)
			for (size_t i = 0; i < count; i++)
				if (w->rank[r].b[(size_t)p * count + i] != expected(&shape, r, p, i))
					fail_msg(""
						 "reduces %d scatters %d from %d to %d, %zu elements: rank %d is wrong "
						 "at %zu of block %d",
						 shape.reduces, shape.scatters, shape.from, shape.to, count, r, i, p);
		assert_int_equal(w->rank[r].trouble, 0);
		assert_int_equal(w->rank[r].stop, 0);
	}
}

static void large_messages_of_every_shape_arrive(void **state)
{
	static const struct gpu_shape shapes[] = { { 1, 0, -1, -1 }, { 0, 0, -1, -1 }, { 1, 1, -1, -1 },
						   { 0, 0, 2, -1 },  { 1, 0, -1, 1 },  { 0, 0, -1, 1 },
						   { 0, 1, 1, -1 },  { 0, 1, -1, -1 } };
	static const size_t counts[] = { 1, 1000, MOST };
	struct world *w;

	(void)state;
	if (SANITIZED)
		skip();
	w = world_create();
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < 8; i++)
			check(w, shapes[i], counts[k]);
	world_free(w);
}

/* --- messages --- */
struct group {
	struct world *w;
	int rank;
	size_t bytes;
};

static void *run_ring(void *p)
{
	struct group *g = p;
	struct rank *x = &g->w->rank[g->rank];
	int next = (g->rank + 1) % RANKS, before = (g->rank + RANKS - 1) % RANKS;
	struct message list[] = {
		{ .buf = x->a, .bytes = g->bytes, .peer = next, .tag = 1, .kind = GPU_FLOW_SEND },
		{ .buf = x->b, .bytes = g->bytes, .peer = before, .tag = 1, .kind = GPU_FLOW_RECV },
	};
	struct gpu_messages_args a = { .odd = &x->odd, .long_blocks = 2 };
	struct block b[2];
	size_t n = 2;

	fill_call(&a.call, g->w, g->rank);
	messages_begin(&a, RANKS, &g->w->at.messages, x->counters);
	messages_order(list, &n, g->rank, RANKS);
	messages_fill(&a, list, n);
	for (unsigned i = 0; i < 2; i++) {
		b[i] = (struct block){ .index = i, .messages = &a };
		pthread_create(&b[i].thread, NULL, run_block, &b[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(b[i].thread, NULL);
	return NULL;
}

static void messages_arrive(void **state)
{
	static const size_t sizes[] = { 8, 4, 100000, MOST * sizeof(float), 8 };
	struct world *w;

	(void)state;
	if (SANITIZED)
		skip();
	w = world_create();
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		struct group g[RANKS];
		pthread_t t[RANKS];

		for (int r = 0; r < RANKS; r++) {
			g[r] = (struct group){ w, r, sizes[k] };
			for (size_t i = 0; i < MOST; i++)
				w->rank[r].a[i] = value(r, (int)k, i);
			pthread_create(&t[r], NULL, run_ring, &g[r]);
		}
		for (int r = 0; r < RANKS; r++)
			pthread_join(t[r], NULL);
		for (int r = 0; r < RANKS; r++)
			assert_memory_equal(w->rank[r].b, w->rank[(r + RANKS - 1) % RANKS].a, sizes[k]);
	}
	world_free(w);
}

/* --- what breaks --- */
/* Rank 0 alone has a tunnel; rank 1's end of a connection is this test's. */
static void what_is_no_frame_breaks_the_connection(const void *bytes, size_t len, bool broken)
{
	struct world *w = calloc(1, sizeof(*w));
	char why[160];
	int peer = -1;

	w->at = lay_out();
	join_all(w);
	w->rank[0].mem = aligned_alloc(4096, RANKS * w->at.bytes);
	memset(w->rank[0].mem, 0, RANKS * w->at.bytes);
	open_rank(w, 0);
	assert_int_equal(send(w->rank[1].out[0], bytes, len, 0), (ssize_t)len);
	shutdown(w->rank[1].out[0], SHUT_WR);
	for (int i = 0; i < (broken ? 5000 : 20) && peer < 0; i++) {
		sleep_ms(1);
		peer = tunnel_broken(w->rank[0].tunnel, why, sizeof(why));
	}
	assert_int_equal(peer, broken ? 1 : -1);
	assert_int_equal(__atomic_load_n(&w->rank[0].stop, __ATOMIC_ACQUIRE), broken);
	tunnel_close(w->rank[0].tunnel, true);
	for (int r = 1; r < RANKS; r++) {
		for (int i = 0; i < THREADS * RANKS; i++) {
			if (w->rank[r].out[i] >= 0)
				close(w->rank[r].out[i]);
			if (w->rank[r].in[i] >= 0)
				close(w->rank[r].in[i]);
		}
	}
	free(w->rank[0].mem);
	free(w);
}

static void a_connection_that_breaks_ends_the_kernels(void **state)
{
	static const uint32_t whole[6] = { 2, 0 }, lane[6] = { 2, LANES }, kind[6] = { 77 },
			      slot[6] = { 1, 0, 1, SLOT };

	(void)state;
	what_is_no_frame_breaks_the_connection(whole, sizeof(whole), false); /* left in order */
	what_is_no_frame_breaks_the_connection(whole, 20, true);
	what_is_no_frame_breaks_the_connection(lane, sizeof(lane), true);
	what_is_no_frame_breaks_the_connection(kind, sizeof(kind), true);
	what_is_no_frame_breaks_the_connection(slot, sizeof(slot), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_messages_of_every_shape_arrive),
		cmocka_unit_test(messages_arrive),
		cmocka_unit_test(a_connection_that_breaks_ends_the_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
