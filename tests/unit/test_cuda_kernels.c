/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, compiled for the processor, against plain loops: every collective, kind, operation, odd
 * sizes and alignments, in place, with ranks and blocks as threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/emulate.h"
#include "cuda_values.h"
#include "unit.h"

enum { RANKS = 5, BLOCKS = 4, AREA = 1 << 16, STAGE = 4096, ALLOCS = 4, SLOTS = 3, SLOT = 1280 };
enum { PUSH_SLOT = 512, RELAY_SLOT = 8192, ROOM = BLOCKS * (RANKS - 1) * RELAY_SLOT }; /* two slots of two channels */
_Static_assert(BLOCKS * 2 * STAGE <= ROOM, "or the stages of the blocks");

#define MAIL_POSTS (RANKS * GPU_LINE)
#define MAIL_LL (MAIL_POSTS + GPU_MAX_BLOCKS * GPU_MAX_RANKS * GPU_LINE)
#define MAIL_LL128 (MAIL_LL + RANKS * 2 * AREA)
#define MAIL_STAGE (MAIL_LL128 + RANKS * 2 * AREA)
#define MAIL_PUSH (MAIL_STAGE + ROOM)
#define MAIL_LINES (MAIL_PUSH + GPU_PUSH_BYTES)
#define MAIL_SLOTS (MAIL_LINES + (1 + BLOCKS / 2 * (RANKS + 1)) * GPU_LINE)
#define MAIL_BYTES (MAIL_SLOTS + BLOCKS / 2 * SLOTS * SLOT)

/* A trial starts a thread for each block of each rank, which the thread sanitizer makes slow. */
#ifdef __SANITIZE_THREAD__
enum { TRIALS = 40 };
#else
enum { TRIALS = 500 };
#endif

enum form {
	LL,
	LL_SUM,
	LL_PART_SUM,
	LL128_SUM,
	LL128_TWO_SUM,
	LL128,
	LL128_TWO,
	BULK,
	BULK_STAGED,
	BULK_MIXED,
	BULK_LATE, /* the buffers become ready while blocks start */
	HOST,
	FORMS
};
static const char *const form_names[] = { "ll",	       "ll_sum", "ll_part_sum", "ll128_sum",  "ll128_two_sum", "ll128",
					  "ll128_two", "bulk",	 "bulk staged", "bulk mixed", "bulk late",     "host" };

#define OF_KIND(kind) [kind] = { ll_##kind, ll128_##kind, ll128_two_##kind, bulk_##kind, host_##kind },
static const struct {
	void (*ll)(const struct gpu_direct_args a), (*ll128)(const struct gpu_direct_args a),
		(*two)(const struct gpu_direct_args a);
	void (*bulk)(const struct gpu_bulk_args a);
	void (*host)(const struct gpu_host_args a);
} kernels[GPU_KINDS] = { GPU_FOR_KINDS(OF_KIND) };
#undef OF_KIND
#define OF_SUM(kind) [kind] = { ll_sum_##kind, ll_part_sum_##kind, ll128_sum_##kind, ll128_two_sum_##kind },
static void (*const sums[GPU_KINDS][4])(const struct gpu_direct_args a) = { GPU_FOR_SUM_KINDS(OF_SUM) };
#undef OF_SUM

struct world {
	int n;
	unsigned char *mail[RANKS];
	uint32_t epochs[RANKS][GPU_EPOCHS], stop[RANKS], trouble[RANKS];
	uint64_t maps[RANKS * GPU_MAX_PLACES];
	uint32_t ready[GPU_MAX_PLACES], unready[GPU_MAX_PLACES];
	uint64_t marks[RANKS][1 + BLOCKS];
};

struct job {
	enum form form;
	int kind;
	unsigned block;
	struct gpu_bulk_args args;
	uint64_t *marks;
};

static void run_host(const struct job *j)
{
	kernels[j->kind].host((struct gpu_host_args){ .direct = j->args.direct,
						      .lines = MAIL_LINES,
						      .slots = MAIL_SLOTS,
						      .slot_bytes = SLOT,
						      .nslots = SLOTS,
						      .marks = j->marks });
}

static bool is_sum(enum form f)
{
	return f >= LL_SUM && f <= LL128_TWO_SUM;
}

static void *run_block(void *p)
{
	struct job *j = p;

	emulate_block(j->block, BLOCKS);
	if (j->form == LL && !j->args.direct.shape.reduces)
		ll_copy_GPU_U64(j->args.direct);
	else if (j->form == LL)
		kernels[j->kind].ll(j->args.direct);
	else if (is_sum(j->form))
		sums[j->kind][j->form - LL_SUM](j->args.direct);
	else if (j->form == LL128)
		kernels[j->kind].ll128(j->args.direct);
	else if (j->form == LL128_TWO)
		kernels[j->kind].two(j->args.direct);
	else if (j->form == HOST)
		run_host(j);
	else
		kernels[j->kind].bulk(j->args);
	return NULL;
}

static struct world *world_create(int n)
{
	struct world *w = calloc(1, sizeof(*w));

	w->n = n;
	w->ready[1] = w->ready[2] = 1;
	for (int r = 0; r < n; r++)
		w->mail[r] = aligned_alloc(4096, (MAIL_BYTES + 4095) / 4096 * 4096);
	for (int r = 0; r < n; r++)
		memset(w->mail[r], 0, MAIL_BYTES);
	return w;
}

static void world_free(struct world *w)
{
	for (int r = 0; r < w->n; r++)
		free(w->mail[r]);
	free(w);
}

static void fill_call(struct world *w, struct gpu_call *c, int rank)
{
	*c = (struct gpu_call){ .rank = rank,
				.nranks = w->n,
				.sig = 77,
				.epochs = w->epochs[rank],
				.stop = &w->stop[rank],
				.trouble = &w->trouble[rank],
				.acks = 0,
				.posts = MAIL_POSTS,
				.ll = MAIL_LL,
				.ll128 = MAIL_LL128,
				.ll_bytes = AREA,
				.ll128_bytes = AREA };
	for (int r = 0; r < w->n; r++)
		c->mail[r] = (char *)w->mail[r];
}

/* A call of all ranks, in their buffers in[] and out[]. */
struct trial {
	enum form form;
	struct gpu_shape shape;
	struct gpu_value value;
	size_t bytes;
	unsigned char *in[RANKS], *out[RANKS];
	uint64_t scalar[RANKS];
	bool relays;
	unsigned core; /* blocks that stay */
	bool late;     /* the last rank comes after the others' other blocks have left */
};

static void run_trial(struct world *w, const struct trial *t)
{
	struct job jobs[RANKS * BLOCKS];
	pthread_t threads[RANKS * BLOCKS];

	for (int r = 0; r < w->n; r++) {
		bool known = t->form == BULK || t->form == BULK_LATE || (t->form == BULK_MIXED && r != 1);

		/* Allocation 1 is the input less 64 bytes, 2 the output. */
		w->maps[r * GPU_MAX_PLACES + 1] = (uintptr_t)t->in[r] - 64;
		w->maps[r * GPU_MAX_PLACES + 2] = (uintptr_t)t->out[r];
		for (unsigned b = 0; b < BLOCKS; b++) {
			struct job *j = &jobs[r * BLOCKS + b];

			*j = (struct job){ .form = t->form, .kind = t->value.kind, .block = b, .marks = w->marks[r] };
			fill_call(w, &j->args.direct.call, r);
			j->args.direct.shape = t->shape;
			j->args.direct.value = t->value;
			j->args.direct.value.scalar = t->scalar[r];
			j->args.direct.in = (char *)t->in[r];
			j->args.direct.out = (char *)t->out[r];
			j->args.direct.bytes = t->bytes;
			j->args.in = (struct gpu_place){ known, 64 };
			j->args.out = (struct gpu_place){ known ? 2 : 0, 0 };
			j->args.maps = w->maps;
			j->args.ready = t->form == BULK_LATE && rnd(2) ? w->unready : w->ready;
			j->args.stage = MAIL_STAGE;
			j->args.stage_bytes = STAGE;
			j->args.push = MAIL_PUSH;
			j->args.push_slot = t->relays ? RELAY_SLOT : PUSH_SLOT;
			j->args.relays = t->relays;
			j->args.core = t->core;
		}
	}
	for (int i = 0; i < w->n * BLOCKS; i++) {
		bool waits = t->late && w->n > 1 && i == (w->n - 1) * BLOCKS;

		for (int k = 0; k < i && waits; k++)
			if ((unsigned)k % BLOCKS >= t->core)
				pthread_join(threads[k], NULL);
		assert_int_equal(pthread_create(&threads[i], NULL, run_block, &jobs[i]), 0);
	}
	for (int i = 0; i < w->n * BLOCKS; i++)
		if (!t->late || w->n == 1 || i >= (w->n - 1) * BLOCKS || (unsigned)i % BLOCKS < t->core)
			pthread_join(threads[i], NULL);
}

/* --- what should come out --- */
static size_t blocks_in(const struct trial *t, int n)
{
	return t->shape.scatters ? (size_t)n : 1;
}

static size_t blocks_out(const struct trial *t, int n)
{
	return t->shape.reduces || t->shape.from >= 0 ? 1 : (size_t)n;
}

static void expect(unsigned char *out, const struct trial *t, int n, int rank, unsigned char *const *in)
{
	enum taut_type type = types[t->value.kind];
	size_t count = t->bytes / taut_type_size(type);
	const void *src[RANKS];
	unsigned char *scaled[RANKS];

	for (int s = 0; s < n; s++) {
		const unsigned char *piece = in[s] + (t->shape.scatters ? (size_t)rank * t->bytes : 0);

		if (!t->shape.reduces && t->shape.from < 0)
			memcpy(out + (size_t)s * t->bytes, piece, t->bytes);
		else if (!t->shape.reduces && t->shape.from == s)
			memcpy(out, piece, t->bytes);
		scaled[s] = malloc(t->bytes + 1);
		memcpy(scaled[s], piece, t->bytes);
		if (t->value.scaled)
			reduce_scale(scaled[s], piece, &t->scalar[s], count, type);
		src[s] = scaled[s];
	}
	if (t->shape.reduces) {
		reduce_find(type, ops[t->value.op])->many(out, src, n, count);
		if (t->value.divide)
			reduce_divide(out, t->value.divide, count, type);
	}
	for (int s = 0; s < n; s++)
		free(scaled[s]);
}

static bool is_all_to_all(const struct gpu_shape *s)
{
	return s->scatters && !s->reduces && s->from < 0;
}

static void check_trial(struct world *w, struct trial *t, size_t skew, bool in_place)
{
	enum taut_type type = types[t->value.kind];
	unsigned char *buf[RANKS], *buf2[RANKS], *copy[RANKS], *want = malloc(RANKS * t->bytes + 64);
	size_t room = RANKS * t->bytes + 256;

	for (int r = 0; r < w->n; r++) {
		size_t own = (size_t)r * t->bytes;

		buf[r] = aligned_alloc(128, (room + 127) / 128 * 128);
		buf2[r] = aligned_alloc(128, (room + 127) / 128 * 128);
		copy[r] = malloc(room);
		memset(buf[r], 0x55, room);
		memset(buf2[r], 0x55, room);
		t->in[r] = buf[r] + 64 + skew;
		t->out[r] = buf2[r] + 64 + skew;
		if (in_place) {
			t->out[r] = t->shape.scatters && !is_all_to_all(&t->shape) ? t->in[r] + own : t->in[r];
			if (!t->shape.scatters && !t->shape.reduces && t->shape.from < 0)
				t->in[r] = t->out[r] + own;
		}
		fill(t->in[r], blocks_in(t, w->n) * t->bytes, type);
		memcpy(copy[r], t->in[r], blocks_in(t, w->n) * t->bytes);
		t->scalar[r] = 0;
		fill((unsigned char *)&t->scalar[r], taut_type_size(type), type);
	}
	run_trial(w, t);
	for (int r = 0; r < w->n; r++) {
		size_t len = blocks_out(t, w->n) * t->bytes;

		if (t->shape.to >= 0 && t->shape.to != r)
			continue;
		expect(want, t, w->n, r, copy);
		if (memcmp(want, t->out[r], len) || (!in_place && (t->out[r][len] != 0x55 || t->out[r][-1] != 0x55)))
			fail_msg(
				"%s: %s op %d, reduces %d scatters %d from %d to %d, %zu bytes, skew %zu, in place %d: "
				"rank %d is wrong",
				form_names[t->form], taut_type_name(type), t->value.op, t->shape.reduces,
				t->shape.scatters, t->shape.from, t->shape.to, t->bytes, skew, in_place, r);
	}
	for (int r = 0; r < w->n; r++) {
		assert_int_equal(w->trouble[r], 0);
		free(buf[r]);
		free(buf2[r]);
		free(copy[r]);
	}
	free(want);
}

static const struct gpu_shape shapes[] = {
	{ 1, 0, -1, -1 }, { 0, 0, -1, -1 }, { 1, 1, -1, -1 }, { 0, 0, 1, -1 },
	{ 1, 0, -1, 1 },  { 0, 0, -1, 1 },  { 0, 1, 1, -1 },  { 0, 1, -1, -1 },
};

static bool may_be_in_place(const struct gpu_shape *s)
{
	return (s->reduces || !s->scatters || is_all_to_all(s)) && s->to < 0;
}

/* What the kernels of sums are for; false when there is none for the kind. */
static bool make_plain(struct trial *t)
{
	t->shape = shapes[t->form != LL_PART_SUM ? 0 : rnd(2) ? 2 : 4];
	t->bytes = (t->bytes + 7) / 8 * 8;
	if (sums[t->value.kind][0])
		t->value = (struct gpu_value){ .kind = t->value.kind, .op = GPU_SUM };
	return sums[t->value.kind][0];
}

static void every_collective_kind_and_form_gives_the_result_of_plain_loops(void **state)
{
	static const size_t elems[] = { 1, 3, 17, 130, 1000 };

	(void)state;
	for (int n = 2; n <= RANKS; n += n == 2 ? 1 : 2) {
		struct world *w = world_create(n);

		for (int i = 0; i < TRIALS; i++) {
			struct trial t = { .form = (enum form)rnd(FORMS),
					   .shape = shapes[rnd(8)],
					   .relays = rnd(2),
					   .core = rnd(2) ? BLOCKS : 1 + rnd(BLOCKS) };
			int kind = (int)rnd(GPU_KINDS);
			size_t elem = taut_type_size(types[kind]), skew = rnd(2) ? 0 : elem * rnd(4);
			bool in_place;

			t.value.kind = (uint8_t)kind;
			t.value.op = (uint8_t)(GPU_SUM + rnd(is_int(kind) ? 7 : 4));
			if (t.form == LL128_TWO)
				t.shape = shapes[0];
			if (t.shape.reduces && t.value.op == GPU_SUM) {
				t.value.scaled = rnd(3) == 0;
				t.value.divide = !t.value.scaled && is_int(kind) && rnd(2) ? (uint32_t)n : 0;
			}
			t.bytes = (t.form >= BULK && t.form < HOST && rnd(4) == 0 ? 9001 : elems[rnd(5)]) * elem;
			if (is_sum(t.form) && !make_plain(&t))
				t.form = LL;
			skew = is_sum(t.form) ? 0 : skew;
			in_place = rnd(2) && may_be_in_place(&t.shape);
			if (in_place && is_all_to_all(&t.shape) && (t.form == BULK || t.form == BULK_LATE))
				t.form = BULK_MIXED; /* as gpu.c does: not where its peers read */
			check_trial(w, &t, skew, in_place);
		}
		world_free(w);
	}
}

static void blocks_agree_on_a_buffer_that_becomes_ready(void **state)
{
	(void)state;
	for (int n = 2; n <= 4; n++) {
		struct world *w = world_create(n);

		for (int i = 0; i < TRIALS / 4; i++) {
			struct trial t = { .form = BULK_LATE,
					   .shape = shapes[0],
					   .value = { .kind = GPU_F32, .op = GPU_SUM },
					   .bytes = 4096 * (1 + rnd(4)),
					   .relays = rnd(2),
					   .core = BLOCKS };

			check_trial(w, &t, 0, rnd(2));
		}
		world_free(w);
	}
}

/* What the blocks that leave were to do, the others do. */
static void a_late_rank_finds_core_blocks_alone(void **state)
{
	(void)state;
	for (int n = 2; n <= RANKS; n++) {
		struct world *w = world_create(n);

		for (int i = 0; i < TRIALS / 10; i++) {
			struct trial t = { .form = BULK + (int)rnd(3),
					   .shape = shapes[rnd(8)],
					   .value = { .kind = GPU_F32, .op = GPU_SUM },
					   .bytes = 4 * (1 + rnd(5000)),
					   .relays = rnd(2),
					   .core = 1 + rnd(BLOCKS - 1),
					   .late = rnd(2) };

			t.value.op = t.shape.reduces ? GPU_SUM : GPU_COPY;
			check_trial(w, &t, 0, false);
		}
		world_free(w);
	}
}

static void a_rank_that_calls_something_else_is_named(void **state)
{
	struct world *w = world_create(2);
	struct job jobs[2] = { { 0 } };
	pthread_t threads[2];
	unsigned char in[2][64] = { { 0 } }, out[2][64];

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct gpu_direct_args *d = &jobs[r].args.direct;

		jobs[r].form = LL;
		jobs[r].kind = GPU_F32;
		fill_call(w, &d->call, r);
		d->call.sig += (uint32_t)r;
		d->shape = shapes[0];
		d->value = (struct gpu_value){ .kind = GPU_F32, .op = GPU_SUM };
		d->in = (char *)in[r];
		d->out = (char *)out[r];
		d->bytes = 64;
	}
	/* One block each: the others have no work of this size. */
	for (int r = 0; r < 2; r++)
		pthread_create(&threads[r], NULL, run_block, &jobs[r]);
	for (int r = 0; r < 2; r++)
		pthread_join(threads[r], NULL);
	assert_int_equal(w->trouble[0], 2);
	assert_int_equal(w->trouble[1], 1);
	world_free(w);
}

static void a_kernel_that_waits_ends_when_told_to(void **state)
{
	struct world *w = world_create(2);

	(void)state;
	w->stop[0] = 1;
	for (int f = 0; f < FORMS; f++) {
		struct job j = { .form = (enum form)f, .kind = GPU_F32, .marks = w->marks[0] };
		unsigned char in[64] = { 0 }, out[64];

		fill_call(w, &j.args.direct.call, 0);
		j.args.direct.shape = shapes[0];
		j.args.direct.value = (struct gpu_value){ .kind = GPU_F32, .op = GPU_SUM };
		j.args.direct.in = (char *)in;
		j.args.direct.out = (char *)out;
		j.args.direct.bytes = 64;
		j.args.maps = w->maps;
		j.args.ready = w->ready;
		j.args.core = BLOCKS;
		run_block(&j);
	}
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_kind_and_form_gives_the_result_of_plain_loops),
		cmocka_unit_test(blocks_agree_on_a_buffer_that_becomes_ready),
		cmocka_unit_test(a_late_rank_finds_core_blocks_alone),
		cmocka_unit_test(a_rank_that_calls_something_else_is_named),
		cmocka_unit_test(a_kernel_that_waits_ends_when_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
