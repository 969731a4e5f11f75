/* SPDX-License-Identifier: Apache-2.0 */
/* Another reader of schedules, with numbers and with ranks that get their turn at random: what
 * the verifier accepts must come out right here, whether runs go chunk by chunk or (@merge) as
 * one message, as executors may do. Valid schedules, and changed ones that were accepted. */
#include "test_sched_util.h"

enum { MAX_RANKS = 13, MAX_DEPTH = 2, MAX_CHUNKS = 400 };

struct packet {
	uint64_t values[MAX_CHUNKS];
};
struct line {
	struct packet *packets[MAX_DEPTH];
	int head, count;
};
struct player {
	const struct sched *s;
	uint64_t memory[3 * MAX_CHUNKS];
	uint64_t *buf[4];
	uint32_t step, sent; /* sent: of the step's `to` */
	int32_t chunk;
	bool computed, met;
	struct packet now;
};
struct game {
	struct player players[MAX_RANKS];
	struct line lines[MAX_RANKS][MAX_RANKS];
	int n, depth;
	bool merge;
};

static uint64_t state_of_random = 1234567;

static uint32_t random_below(uint32_t n)
{
	state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state_of_random >> 33) % n;
}

static uint64_t input(int rank, int64_t chunk)
{
	uint64_t x = (uint64_t)(rank * 1000 + chunk + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 29;
}

/* --- Setting up --- */

static void place_buffers(struct player *p, bool in_place)
{
	const struct sched *s = p->s;
	int64_t own = (int64_t)s->rank * s->per_block;
	bool root = s->rank == s->root;

	p->buf[BUF_IN] = p->memory;
	p->buf[BUF_OUT] = p->memory + MAX_CHUNKS;
	p->buf[BUF_SCRATCH] = p->memory + 2 * MAX_CHUNKS;
	if (!in_place)
		return;
	if (s->coll == COLL_ALL_GATHER || (s->coll == COLL_GATHER && root))
		p->buf[BUF_IN] = p->buf[BUF_OUT] + own;
	else if (s->coll == COLL_REDUCE_SCATTER || (s->coll == COLL_SCATTER && root))
		p->buf[BUF_OUT] = p->buf[BUF_IN] + own;
	else if (s->coll == COLL_ALL_REDUCE || s->coll == COLL_BROADCAST || s->coll == COLL_REDUCE ||
		 s->coll == COLL_ALL_TO_ALL)
		p->buf[BUF_OUT] = p->buf[BUF_IN];
}

static bool set_up(struct game *g, const struct all *a, int depth, bool in_place, bool merge)
{
	memset(g, 0, sizeof(*g));
	g->n = a->n;
	g->depth = depth;
	g->merge = merge;
	for (int r = 0; r < g->n; r++) {
		struct player *p = g->players + r;

		p->s = a->scheds[r];
		for (int buf = BUF_IN; buf <= BUF_SCRATCH; buf++)
			if (sched_chunks(p->s, buf) > MAX_CHUNKS)
				return false;
		for (size_t i = 0; i < 3 * MAX_CHUNKS; i++)
			p->memory[i] = ~(uint64_t)i;
		place_buffers(p, in_place);
		for (int c = 0; c < sched_chunks(p->s, BUF_IN); c++)
			p->buf[BUF_IN][c] = input(r, c);
	}
	return true;
}

static void clear(struct game *g)
{
	for (int i = 0; i < g->n; i++)
		for (int j = 0; j < g->n; j++)
			for (struct line *l = &g->lines[i][j]; l->count; l->count--) {
				free(l->packets[l->head]);
				l->head = (l->head + 1) % g->depth;
			}
}

/* --- Playing: each function returns whether the rank got on --- */

static uint64_t *at(struct player *p, struct sched_ref r)
{
	return p->buf[r.buf] + r.chunk + p->chunk;
}

/* Order matters to a sum in floats; here only whether all is in it. */
static void add(uint64_t *sum, const uint64_t *values, int n)
{
	for (int i = 0; i < n; i++)
		sum[i] += values[i];
}

static bool all_there(const struct game *g, const struct player *p, const struct sched_step *step)
{
	for (uint32_t i = 0; i < step->nfrom; i++)
		if (!g->lines[p->s->peers[step->from + i]][p->s->rank].count)
			return false;
	return true;
}

static bool take_all(struct game *g, struct player *p, const struct sched_step *step, int n)
{
	if (!all_there(g, p, step))
		return false;
	memset(&p->now, 0, sizeof(p->now));
	if (step->src.buf != BUF_NONE)
		add(p->now.values, at(p, step->src), n);
	for (uint32_t i = 0; i < step->nfrom; i++) {
		struct line *l = &g->lines[p->s->peers[step->from + i]][p->s->rank];

		add(p->now.values, l->packets[l->head]->values, n);
		free(l->packets[l->head]);
		l->head = (l->head + 1) % g->depth;
		l->count--;
	}
	if (step->dst.buf != BUF_NONE)
		memcpy(at(p, step->dst), p->now.values, (size_t)n * sizeof(uint64_t));
	p->computed = true;
	return true;
}

static bool play_msg(struct game *g, struct player *p, const struct sched_step *step, int n)
{
	bool moved = false;

	if (!p->computed)
		moved = take_all(g, p, step, n);
	if (!p->computed)
		return false;
	for (; p->sent < step->nto; p->sent++) {
		struct line *l = &g->lines[p->s->rank][p->s->peers[step->to + p->sent]];

		if (l->count == g->depth)
			return moved;
		l->packets[(l->head + l->count) % g->depth] = malloc(sizeof(struct packet));
		assert_non_null(l->packets[(l->head + l->count) % g->depth]);
		*l->packets[(l->head + l->count++) % g->depth] = p->now;
		moved = true;
	}
	p->computed = false;
	p->sent = 0;
	p->chunk += n;
	return true;
}

static void play_local(struct game *g, struct player *p, const struct sched_step *step)
{
	uint64_t sum = 0;

	if (step->op == STEP_REDUCE)
		sum = *at(p, step->src) + *at(p, step->src2);
	else if (step->op == STEP_PUSH)
		sum = *at(p, step->src);
	for (uint32_t i = 0; step->op == STEP_PULL && i < step->nfrom; i++) {
		struct player *q = g->players + p->s->peers[step->from + i];

		sum += q->buf[step->src.buf][step->src.chunk + p->chunk];
	}
	if (step->op != STEP_PUSH)
		*at(p, step->dst) = sum;
	for (uint32_t i = 0; i < step->nto; i++) {
		struct player *q = g->players + p->s->peers[step->to + i];

		q->buf[step->dst.buf][step->dst.chunk + p->chunk] = sum;
	}
	p->chunk++;
}

static bool play_barrier(struct game *g, struct player *p, const struct sched_step *step)
{
	p->met = true;
	for (uint32_t i = 0; i < step->nfrom; i++)
		if (!g->players[p->s->peers[step->from + i]].met)
			return false;
	for (uint32_t i = 0; i < step->nfrom; i++) {
		struct player *q = g->players + p->s->peers[step->from + i];

		q->met = false;
		q->step++;
	}
	return true;
}

static bool play_turn(struct game *g, struct player *p)
{
	const struct sched_step *step = p->s->steps + p->step;
	bool moved = true;

	if (p->step == p->s->nsteps || p->met)
		return false;
	if (step->op == STEP_BARRIER)
		return play_barrier(g, p, step);
	if (step->op == STEP_MSG)
		moved = play_msg(g, p, step, g->merge ? step->nchunks : 1);
	else
		play_local(g, p, step);
	if (p->chunk == step->nchunks) {
		p->chunk = 0;
		p->step++;
	}
	return moved;
}

/* Random turns; when luck fails, everybody in turn, and if then nobody moves it is over. */
static void play(struct game *g)
{
	int idle = 0;

	while (idle < 8 * g->n)
		idle = play_turn(g, g->players + random_below((uint32_t)g->n)) ? 0 : idle + 1;
	for (int r = 0; r < g->n; r++)
		if (play_turn(g, g->players + r)) {
			play(g);
			return;
		}
}

/* --- Results --- */

static uint64_t sum_of(int n, int64_t chunk)
{
	uint64_t sum = 0;

	for (int r = 0; r < n; r++)
		sum += input(r, chunk);
	return sum;
}

static uint64_t wanted(const struct sched *s, int c)
{
	int p = s->per_block;

	switch (s->coll) {
	case COLL_ALL_REDUCE:
	case COLL_REDUCE:
		return sum_of(s->nranks, c);
	case COLL_REDUCE_SCATTER:
		return sum_of(s->nranks, s->rank * p + c);
	case COLL_BROADCAST:
		return input(s->root, c);
	case COLL_SCATTER:
		return input(s->root, s->rank * p + c);
	case COLL_ALL_TO_ALL:
		return input(c / p, s->rank * p + c % p);
	default:
		return input(c / p, c % p);
	}
}

static const char *result(const struct game *g)
{
	for (int r = 0; r < g->n; r++) {
		const struct player *p = g->players + r;

		if (p->step < p->s->nsteps)
			return "stuck";
		for (int i = 0; i < g->n; i++)
			if (g->lines[i][r].count)
				return "a message left over";
		for (int c = 0; p->s->coll != COLL_BARRIER && c < sched_chunks(p->s, BUF_OUT); c++)
			if (p->buf[BUF_OUT][c] != wanted(p->s, c))
				return "a wrong result";
	}
	return NULL;
}

static void play_one(const struct all *a, int depth, bool in_place, bool merge, const char *what)
{
	static struct game g;
	const char *fault;

	if (!set_up(&g, a, depth, in_place, merge))
		return;
	play(&g);
	fault = result(&g);
	clear(&g);
	if (fault)
		fail_msg("%s %s of %s, %d ranks, root %d, depth %d%s%s: %s", what, sched_coll_name(a->scheds[0]->coll),
			 a->scheds[0]->algo, a->n, a->scheds[0]->root, depth, in_place ? ", in place" : "",
			 merge ? ", merged" : "", fault);
}

static bool build(struct all *a, const struct sched_algo *algo, enum sched_coll coll, int n)
{
	static int node_of[MAX_RANKS];
	struct sched_req req = { .coll = coll, .nranks = n, .node_of = node_of, .nnodes = n > 4 ? 3 : 2 };

	for (int r = 0; r < n; r++)
		node_of[r] = r < req.nnodes ? r : (int)random_below((uint32_t)req.nnodes);
	req.root = (int)random_below((uint32_t)n);
	if (!sched_algo_fits(algo, &req))
		return false;
	all_build(a, algo, &req);
	return true;
}

static void accepted_schedules_play_right(void **state)
{
	(void)state;
	for (int i = 0; sched_algos[i]; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++)
			for (int n = 2; n <= MAX_RANKS; n++)
				for (int k = 0; k < 8; k++) {
					bool in_place = (k & 1) && (coll != COLL_ALL_TO_ALL || sched_algos[i]->swaps);
					struct all a;

					if (!build(&a, sched_algos[i], coll, n))
						continue;
					assert_int_equal(all_verify(&a, 1, in_place), TAUT_OK);
					play_one(&a, 1 + (k >> 1 & 1), in_place, k >> 2 & 1, "valid");
					all_free(&a);
				}
}

/* Changes that leave the form alone, so that many are accepted. */
static void change(struct sched *s)
{
	struct sched_step *p, old;
	uint32_t i;

	if (s->nsteps < 2)
		return;
	i = random_below(s->nsteps - 1);
	p = s->steps + i;
	old = p[0];
	switch (random_below(6)) {
	case 0: /* the other way round */
		p[0] = p[1];
		p[1] = old;
		break;
	case 1:
		p->dst = p[1].dst;
		break;
	case 2:
		p->src = p[1].src;
		break;
	case 3:
		p->nto -= p->nto > 0;
		break;
	case 4:
		p->src.buf = p->src.buf == BUF_IN ? BUF_OUT : BUF_IN;
		break;
	default:
		p->dst.buf = p->dst.buf == BUF_OUT ? BUF_SCRATCH : BUF_OUT;
	}
}

static void accepted_changes_play_right(void **state)
{
	int accepted = 0, algos = 0;

	(void)state;
	while (sched_algos[algos])
		algos++;
	for (int i = 0; i < 40000; i++) {
		enum sched_coll coll = (enum sched_coll)random_below(COLL_COUNT);
		bool in_place = random_below(2);
		int depth = 1 + (int)random_below(MAX_DEPTH);
		struct all a;

		if (!build(&a, sched_algos[random_below((uint32_t)algos)], coll, 2 + (int)random_below(6)))
			continue;
		for (uint32_t k = random_below(2); k < 2; k++)
			change(a.scheds[random_below((uint32_t)a.n)]);
		if (all_verify(&a, depth, in_place) == TAUT_OK) {
			accepted++;
			for (int k = 0; k < 4; k++)
				play_one(&a, depth, in_place, k & 1, "changed");
		}
		all_free(&a);
	}
	assert_true(accepted > 500);
}

static const char *fate(const struct all *a)
{
	static struct game g;
	const char *fault;

	assert_true(set_up(&g, a, 1, false, false));
	play(&g);
	fault = result(&g);
	clear(&g);
	return fault ? fault : "right";
}

static void broken_schedules_do_not_play_right(void **state)
{
	struct sched_req req = { .coll = COLL_ALL_REDUCE, .nranks = 4 };
	struct all a;

	(void)state;
	all_build(&a, sched_algo_find("ring"), &req);
	assert_string_equal(fate(&a), "right");
	a.scheds[1]->steps[0].src.chunk ^= 1;
	assert_string_equal(fate(&a), "a wrong result");
	a.scheds[1]->steps[0].src.chunk ^= 1;
	a.scheds[2]->nsteps--;
	assert_string_equal(fate(&a), "a message left over");
	a.scheds[2]->nsteps -= 2;
	assert_string_equal(fate(&a), "stuck");
	all_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broken_schedules_do_not_play_right),
		cmocka_unit_test(accepted_schedules_play_right),
		cmocka_unit_test(accepted_changes_play_right),
	};

	return cmocka_run_group_tests(tests, quiet, loud);
}
