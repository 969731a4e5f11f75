/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that runs schedules, compiled for the processor, with ranks and channels as threads: every algorithm and
 * collective must give the bits that a player of the same schedule gives (cuda_play.h). Where the order of a reduction
 * does not matter, the player in turn must give what plain loops give. */
#include <pthread.h>
#include <sched.h>

#include "cuda/gpu_step.h"
#include "cuda/kernels/emulate.h"
#include "cuda_play.h"
#include "cuda_values.h"

enum { RANKS = PLAY_RANKS, LANES = 4, SLOT = PLAY_CHUNK, GUARD = 64, CALLS = 3 };

/* Batches of calls for each algorithm, collective and number of ranks. */
#ifdef __SANITIZE_THREAD__
enum { TRIALS = 2, MIXED = 15 };
#else
enum { TRIALS = 4, MIXED = 60 };
#endif

#define OF_KIND(kind) [kind] = schedule_##kind,
static void (*const kernels[GPU_KINDS])(const struct gpu_schedule_args a) = { GPU_FOR_KINDS(OF_KIND) };
#undef OF_KIND

/* Lanes and counters, which last from call to call. */
struct world {
	int n;
	char *lines[RANKS][RANKS], *slots[RANKS][RANKS]; /* from, to */
	uint64_t taken[RANKS][RANKS][LANES], sent[RANKS][RANKS][LANES];
	struct gpu_end ends[RANKS][RANKS];
	uint64_t begun[RANKS], ended[RANKS];
	uint32_t stop, trouble[RANKS];
};

/* One call of all ranks. */
struct call {
	struct all all;
	struct gpu_value value;
	enum taut_type type;
	size_t count, bytes; /* of a block */
	uint32_t channels, chunk_bytes, scratch_chunks;
	uint32_t sig[RANKS];
	uint64_t scalar[RANKS];
	bool in_place;
	size_t room_bytes[RANKS];
	unsigned char *room[RANKS], *want[RANKS]; /* memory with both buffers; the same as it is to be afterwards */
	unsigned char *in[RANKS], *out[RANKS];	  /* NULL: this rank has none */
	unsigned char *given[RANKS];		  /* the input as it goes into the reduction */
	char *scratch[RANKS];
	struct gpu_step *steps[RANKS];
	uint8_t *peers[RANKS];
};

static size_t up(size_t x, size_t to)
{
	return (x + to - 1) / to * to;
}

/* Of just this length, so that the address sanitizer sees what is beyond. */
static void *zeros(size_t bytes)
{
	void *p = NULL;

	assert_int_equal(posix_memalign(&p, 128, bytes ? bytes : 1), 0);
	memset(p, 0, bytes);
	return p;
}

/* --- the world --- */
static struct gpu_end end_of(struct world *w, int rank, int p)
{
	return (struct gpu_end){ .tail_in = w->lines[p][rank],
				 .head_in = w->lines[p][rank] + GPU_LINE,
				 .slots_in = w->slots[p][rank],
				 .tail_out = w->lines[rank][p],
				 .head_out = w->lines[rank][p] + GPU_LINE,
				 .slots_out = w->slots[rank][p],
				 .taken = w->taken[rank][p],
				 .sent = w->sent[rank][p],
				 .slot_stride = GPU_MESSAGE_SLOTS * SLOT };
}

static struct world *world_create(int n)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->n = n;
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++) {
			w->lines[a][b] = zeros((size_t)LANES * 2 * GPU_LINE);
			w->slots[a][b] = zeros((size_t)LANES * GPU_MESSAGE_SLOTS * SLOT);
		}
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			if (a != b)
				w->ends[a][b] = end_of(w, a, b);
	return w;
}

static void world_free(struct world *w)
{
	for (int a = 0; a < w->n; a++)
		for (int b = 0; b < w->n; b++) {
			free(w->lines[a][b]);
			free(w->slots[a][b]);
		}
	free(w);
}

/* --- ranks and their channels --- */
struct rank {
	struct world *w;
	struct call *calls;
	int ncalls, rank;
};

struct block {
	struct gpu_schedule_args args;
	unsigned index, count;
};

static void *run_block(void *p)
{
	struct block *b = p;

	emulate_block(b->index, b->count);
	kernels[b->args.value.kind](b->args);
	return NULL;
}

static struct gpu_schedule_args args_of(struct world *w, const struct call *c, int rank)
{
	const struct sched *s = c->all.scheds[rank];
	struct gpu_schedule_args a = { .call = { .rank = rank,
						 .nranks = w->n,
						 .sig = c->sig[rank],
						 .stop = &w->stop,
						 .trouble = &w->trouble[rank] },
				       .value = c->value,
				       .in = (char *)c->in[rank],
				       .out = (char *)c->out[rank],
				       .scratch = c->scratch[rank],
				       .bytes = c->bytes,
				       .per_block = (uint32_t)s->per_block,
				       .nsteps = s->nsteps,
				       .scratch_chunks = c->scratch_chunks,
				       .chunk_bytes = c->chunk_bytes,
				       .steps = c->steps[rank],
				       .peers = c->peers[rank],
				       .ends = w->ends[rank],
				       .begun = &w->begun[rank],
				       .ended = &w->ended[rank] };

	a.value.scalar = c->scalar[rank];
	if (!c->out[rank])
		a.value.divide = 0;
	return a;
}

static void launch(struct world *w, const struct call *c, int rank)
{
	struct block b[LANES];
	pthread_t t[LANES];

	for (unsigned i = 0; i < c->channels; i++) {
		b[i] = (struct block){ args_of(w, c, rank), i, c->channels };
		pthread_create(&t[i], NULL, run_block, &b[i]);
	}
	for (unsigned i = 0; i < c->channels; i++)
		pthread_join(t[i], NULL);
}

/* One call after the other, without a look at where the other ranks are. */
static void *run_rank(void *p)
{
	struct rank *r = p;

	for (int i = 0; i < r->ncalls; i++)
		launch(r->w, &r->calls[i], r->rank);
	return NULL;
}

static void run(struct world *w, struct call *calls, int ncalls)
{
	struct rank r[RANKS];
	pthread_t t[RANKS];

	for (int i = 0; i < w->n; i++) {
		r[i] = (struct rank){ w, calls, ncalls, i };
		assert_int_equal(pthread_create(&t[i], NULL, run_rank, &r[i]), 0);
	}
	for (int i = 0; i < w->n; i++)
		pthread_join(t[i], NULL);
}

/* --- calls at random --- */
static size_t blocks_of(const struct sched *s, enum sched_buf buf)
{
	return (size_t)(sched_chunks(s, buf) / s->per_block);
}

static size_t draw_skew(const struct call *c)
{
	return rnd(2) ? 0 : taut_type_size(c->type) * rnd(8);
}

static void place_buffers(struct call *c, int r)
{
	size_t in = blocks_of(c->all.scheds[r], BUF_IN), out = blocks_of(c->all.scheds[r], BUF_OUT);
	size_t own = (size_t)r * c->bytes, in_at = GUARD + draw_skew(c);
	size_t out_at = up(in_at + in * c->bytes + GUARD, 64) + draw_skew(c);
	unsigned char *room = zeros(out_at + out * c->bytes + GUARD);
	bool in_place = c->in_place && (c->all.scheds[r]->coll != COLL_ALL_TO_ALL || rnd(2));

	c->room[r] = room;
	c->room_bytes[r] = out_at + out * c->bytes + GUARD;
	memset(room, 0x55, c->room_bytes[r]);
	if (in_place && in && out && in >= out)
		out_at = in_at + (in > out ? own : 0);
	else if (in_place && in && out)
		in_at = out_at + own;
	c->in[r] = in ? room + in_at : NULL;
	c->out[r] = out ? room + out_at : NULL;
}

static void fill_buffers(struct call *c, int r)
{
	size_t blocks = blocks_of(c->all.scheds[r], BUF_IN), bytes = blocks * c->bytes;

	if (blocks)
		fill(c->in[r], bytes, c->type);
	fill((unsigned char *)&c->scalar[r], taut_type_size(c->type), c->type);
	c->given[r] = zeros(bytes);
	if (blocks && c->value.scaled)
		reduce_scale(c->given[r], c->in[r], &c->scalar[r], blocks * c->count, c->type);
	else if (blocks)
		memcpy(c->given[r], c->in[r], bytes);
	c->want[r] = zeros(c->room_bytes[r]);
	memcpy(c->want[r], c->room[r], c->room_bytes[r]);
}

static void copy_program(struct call *c, int r)
{
	const struct sched *s = c->all.scheds[r];

	c->steps[r] = zeros(s->nsteps * sizeof(struct gpu_step));
	c->peers[r] = zeros(s->npeers);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		assert_int_equal(s->steps[i].op, STEP_MSG);
		c->steps[r][i] = gpu_step_of(&s->steps[i]);
	}
	for (uint32_t i = 0; i < s->npeers; i++)
		c->peers[r][i] = (uint8_t)s->peers[i];
}

/* Copies go by words, whatever the type. */
static void draw_value(struct call *c, enum sched_coll coll)
{
	int kind = (int)rnd(GPU_KINDS);

	c->type = types[kind];
	c->value = (struct gpu_value){ .kind = GPU_U64, .op = GPU_COPY };
	if (!sched_coll_reduces(coll))
		return;
	c->value.kind = (uint8_t)kind;
	c->value.op = (uint8_t)(rnd(2) ? GPU_SUM : GPU_SUM + rnd(is_int(kind) ? 7 : 4));
	if (c->value.op == GPU_SUM) {
		c->value.scaled = rnd(3) == 0;
		c->value.divide = !c->value.scaled && is_int(kind) && rnd(2) ? (uint32_t)c->all.n : 0;
	}
}

static void call_create(struct call *c, const struct sched_algo *algo, const struct sched_req *req)
{
	static const unsigned counts[] = { 1, 3, 17, 130, 1000, 1024, 2049 };

	memset(c, 0, sizeof(*c));
	all_build(&c->all, algo, req);
	draw_value(c, req->coll);
	c->count = rnd(4) ? counts[rnd(7)] : 1 + rnd(3000);
	c->bytes = c->count * taut_type_size(c->type);
	c->channels = 1 + rnd(LANES);
	c->chunk_bytes = GPU_LINE * (1 + rnd(SLOT / GPU_LINE));
	c->in_place = rnd(2) && (req->coll != COLL_ALL_TO_ALL || algo->swaps);
	for (int r = 0; r < c->all.n; r++) {
		uint32_t chunks = (uint32_t)c->all.scheds[r]->scratch_chunks;

		c->scratch_chunks = chunks > c->scratch_chunks ? chunks : c->scratch_chunks;
		c->sig[r] = 77;
	}
	for (int r = 0; r < c->all.n; r++) {
		place_buffers(c, r);
		fill_buffers(c, r);
		copy_program(c, r);
		c->scratch[r] = zeros((size_t)c->channels * c->scratch_chunks * c->chunk_bytes);
	}
}

static void call_free(struct call *c)
{
	for (int r = 0; r < c->all.n; r++) {
		free(c->room[r]);
		free(c->want[r]);
		free(c->given[r]);
		free(c->scratch[r]);
		free(c->steps[r]);
		free(c->peers[r]);
	}
	all_free(&c->all);
}

/* --- what the collective means --- */
static void add_all(unsigned char *out, const struct call *c, size_t at)
{
	const void *src[RANKS];

	for (int s = 0; s < c->all.n; s++)
		src[s] = c->given[s] + at;
	reduce_find(c->type, ops[c->value.op])->many(out, src, c->all.n, c->count);
	if (c->value.divide)
		reduce_divide(out, c->value.divide, c->count, c->type);
}

static void plain(unsigned char *out, const struct call *c, int r)
{
	const struct sched *s = c->all.scheds[r];
	size_t own = (size_t)r * c->bytes;

	if (sched_coll_reduces(s->coll))
		add_all(out, c, s->coll == COLL_REDUCE_SCATTER ? own : 0);
	else if (s->coll == COLL_BROADCAST || s->coll == COLL_SCATTER)
		memcpy(out, c->given[s->root] + (s->coll == COLL_SCATTER ? own : 0), c->bytes);
	else
		for (int p = 0; p < s->nranks; p++)
			memcpy(out + (size_t)p * c->bytes, c->given[p] + (s->coll == COLL_ALL_TO_ALL ? own : 0),
			       c->bytes);
}

/* Sums of integers are the same in any order. */
static bool has_plain(const struct call *c)
{
	return c->value.op == GPU_COPY || is_int(c->value.kind);
}

/* --- trials --- */
static unsigned char *wanted_out(const struct call *c, int r)
{
	return c->out[r] ? c->want[r] + (c->out[r] - c->room[r]) : NULL;
}

/* Writes want[]. */
static void play_call(const struct call *c)
{
	struct play p = { .all = &c->all,
			  .type = c->type,
			  .op = ops[c->value.op],
			  .divide = c->value.divide,
			  .count = c->count,
			  .bytes = c->bytes,
			  .channels = c->channels,
			  .line = GPU_LINE,
			  .chunk_bytes = c->chunk_bytes,
			  .scratch_chunks = c->scratch_chunks };

	for (int r = 0; r < c->all.n; r++) {
		p.in[r] = c->in[r] ? c->given[r] : NULL;
		p.out[r] = wanted_out(c, r);
	}
	play(&p);
}

static void fail_call(const struct call *c, int r, const char *what, size_t at)
{
	const struct sched *s = c->all.scheds[r];
	size_t in = c->in[r] ? (size_t)(c->in[r] - c->room[r]) : 0,
	       out = c->out[r] ? (size_t)(c->out[r] - c->room[r]) : 0;

	fail_msg("%s %s, %d ranks, root %d, %s op %d%s%s, %zu bytes, %u channels, chunks of %u%s: rank %d %s at byte "
		 "%zu, input from %zu, output from %zu",
		 s->algo, sched_coll_name(s->coll), s->nranks, s->root, taut_type_name(c->type), c->value.op,
		 c->value.scaled ? " scaled" : "", c->value.divide ? " mean" : "", c->bytes, c->channels,
		 c->chunk_bytes, c->in_place ? ", in place" : "", r, what, at, in, out);
}

static void compare(const struct call *c, int r, const char *what, const unsigned char *a, const unsigned char *b,
		    size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (a[i] != b[i])
			fail_call(c, r, what, i);
}

static void check(const struct call *c)
{
	play_call(c);
	for (int r = 0; r < c->all.n; r++) {
		size_t bytes = blocks_of(c->all.scheds[r], BUF_OUT) * c->bytes;
		unsigned char *out = zeros(bytes);

		if (c->out[r] && has_plain(c)) {
			plain(out, c, r);
			compare(c, r, "is played wrong", wanted_out(c, r), out, bytes);
		}
		free(out);
		compare(c, r, "is wrong", c->room[r], c->want[r], c->room_bytes[r]);
	}
}

/* Each lane's ends agree, and have moved as often as the words that they share say. */
static void check_lanes(const struct world *w)
{
	for (int a = 0; a < w->n; a++)
		for (int b = 0; b < w->n; b++)
			for (unsigned k = 0; k < LANES && a != b; k++) {
				const uint64_t *lines = (const uint64_t *)(w->lines[a][b] + (size_t)k * 2 * GPU_LINE);

				assert_int_equal(w->sent[a][b][k], w->taken[b][a][k]);
				assert_int_equal(w->sent[a][b][k], lines[0]);
				assert_int_equal(w->sent[a][b][k], lines[GPU_LINE / 8]);
			}
}

static void run_and_check(struct world *w, struct call *calls, int ncalls)
{
	uint64_t blocks = w->begun[0];

	for (int i = 0; i < ncalls; i++)
		blocks += calls[i].channels;
	run(w, calls, ncalls);
	for (int r = 0; r < w->n; r++) {
		assert_int_equal(w->trouble[r], 0);
		assert_int_equal(w->begun[r], blocks);
		assert_int_equal(w->ended[r], blocks);
	}
	check_lanes(w);
	for (int i = 0; i < ncalls; i++) {
		check(&calls[i]);
		call_free(&calls[i]);
	}
}

/* Which machine each rank is on: in rows, dealt, one with one rank, or anyhow. */
static void draw_machines(struct sched_req *req, int *node_of)
{
	unsigned form = rnd(4), per = 1 + rnd(3);
	int n = 0;

	for (int r = 0; r < req->nranks; r++) {
		unsigned forms[] = { (unsigned)r / per, (unsigned)r % (per + 1), r > 0, rnd((unsigned)n + 1) };

		node_of[r] = (int)forms[form];
		n = node_of[r] >= n ? node_of[r] + 1 : n;
	}
	req->node_of = node_of;
	req->nnodes = n;
}

static void draw_order(struct sched_req *req, int32_t *order)
{
	for (int i = 0; i < req->nranks; i++) {
		int j = (int)rnd((unsigned)i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	req->order = rnd(2) ? order : NULL;
}

/* False: there is no such schedule. */
static bool draw_call(struct call *c, const struct sched_algo *algo, enum sched_coll coll, int n)
{
	struct sched_req req = { .coll = coll, .nranks = n, .root = (int)rnd((unsigned)n) };
	int32_t order[RANKS];
	int node_of[RANKS];

	draw_machines(&req, node_of);
	draw_order(&req, order);
	if (algo->mapped || coll == COLL_BARRIER || !sched_algo_fits(algo, &req))
		return false;
	call_create(c, algo, &req);
	return true;
}

static int try_all(struct world *w, const struct sched_algo *algo)
{
	struct call calls[CALLS];
	int done = 0;

	for (int coll = 0; coll < COLL_COUNT; coll++)
		for (int i = 0; i < TRIALS; i++) {
			int ncalls = 0;

			for (int k = 0; k < CALLS; k++)
				ncalls += draw_call(&calls[ncalls], algo, (enum sched_coll)coll, w->n);
			run_and_check(w, calls, ncalls);
			done += ncalls;
		}
	return done;
}

static void every_algorithm_and_collective_gives_the_bits_of_a_player(void **state)
{
	int tried[64] = { 0 };

	(void)state;
	for (int n = 2; n <= RANKS; n++) {
		struct world *w = world_create(n);

		for (int i = 0; sched_algos[i]; i++)
			tried[i] += try_all(w, sched_algos[i]);
		world_free(w);
	}
	for (int i = 0; sched_algos[i]; i++)
		assert_true(tried[i] || sched_algos[i]->mapped);
}

static void calls_of_all_kinds_follow_each_other_on_the_same_lanes(void **state)
{
	enum { MOST = 8 };
	struct call calls[MOST];
	unsigned algos = 0;

	(void)state;
	while (sched_algos[algos])
		algos++;
	for (int n = 2; n <= RANKS; n++) {
		struct world *w = world_create(n);

		for (int i = 0; i < MIXED; i++) {
			int ncalls = 0, wanted = 2 + (int)rnd(MOST - 1);

			while (ncalls < wanted)
				ncalls += draw_call(&calls[ncalls], sched_algos[rnd(algos)],
						    (enum sched_coll)rnd(COLL_COUNT), n);
			run_and_check(w, calls, ncalls);
		}
		world_free(w);
	}
}

/* --- what goes wrong --- */
static void create_plain_call(struct call *c, const char *algo, enum sched_coll coll, int n)
{
	struct sched_req req = { .coll = coll, .nranks = n };

	do {
		if (c->all.n)
			call_free(c);
		call_create(c, sched_algo_find(algo), &req);
	} while (c->bytes < 4096);
}

static void a_rank_that_calls_something_else_is_named(void **state)
{
	(void)state;
	for (int n = 2; n <= RANKS; n++) {
		struct world *w = world_create(n);
		struct call c = { 0 };
		bool named = false;

		create_plain_call(&c, n % 2 ? "ring" : "one_shot", COLL_ALL_REDUCE, n);
		c.sig[1]++;
		run(w, &c, 1);
		for (int r = 0; r < n; r++) {
			assert_true(r == 1 || w->trouble[r] == 0 || w->trouble[r] == 2);
			assert_int_not_equal(w->trouble[r], r + 1);
			named = named || w->trouble[r];
			assert_int_equal(w->begun[r], c.channels);
			assert_int_equal(w->ended[r], c.channels);
		}
		assert_true(named);
		assert_int_equal(w->stop, 1);
		call_free(&c);
		world_free(w);
	}
}

static void a_rank_whose_call_is_longer_is_named(void **state)
{
	struct world *w = world_create(2);
	struct call c[2] = { { .count = 0 }, { .count = 0 } };
	struct rank r[2] = { { w, &c[0], 1, 0 }, { w, &c[1], 1, 1 } };
	pthread_t t[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		create_plain_call(&c[i], "chain", COLL_BROADCAST, 2);
		c[i].bytes = (size_t)64 << i;
		c[i].channels = 1;
		assert_int_equal(pthread_create(&t[i], NULL, run_rank, &r[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(w->trouble[0], 0);
	assert_int_equal(w->trouble[1], 1);
	for (int i = 0; i < 2; i++)
		call_free(&c[i]);
	world_free(w);
}

static uint64_t load(const void *p)
{
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

/* Rank 0 of two alone, until it has begun and sent @sent slots by each channel. */
static void stop_alone(const char *algo, enum sched_coll coll, uint64_t sent)
{
	struct world *w = world_create(2);
	struct call c = { 0 };
	struct rank r = { w, &c, 1, 0 };
	pthread_t t;

	create_plain_call(&c, algo, coll, 2);
	c.chunk_bytes = GPU_LINE;
	assert_int_equal(pthread_create(&t, NULL, run_rank, &r), 0);
	while (load(&w->begun[0]) < c.channels)
		sched_yield();
	for (unsigned k = 0; k < c.channels; k++)
		while (load(w->lines[0][1] + (size_t)k * 2 * GPU_LINE) < sent)
			sched_yield();
	assert_int_equal(load(&w->ended[0]), 0);
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	assert_int_equal(w->begun[0], c.channels);
	assert_int_equal(w->ended[0], c.channels);
	assert_int_equal(w->trouble[0], 0);
	for (unsigned k = 0; k < c.channels; k++)
		assert_int_equal(w->sent[0][1][k], sent);
	call_free(&c);
	world_free(w);
}

static void a_kernel_that_waits_ends_when_told_to(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		stop_alone("chain", COLL_BROADCAST, GPU_MESSAGE_SLOTS); /* for room */
		stop_alone("ring", COLL_ALL_REDUCE, 1);			/* for a message */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_and_collective_gives_the_bits_of_a_player),
		cmocka_unit_test(calls_of_all_kinds_follow_each_other_on_the_same_lanes),
		cmocka_unit_test(a_rank_that_calls_something_else_is_named),
		cmocka_unit_test(a_rank_whose_call_is_longer_is_named),
		cmocka_unit_test(a_kernel_that_waits_ends_when_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
