/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier must see what is wrong: faults seeded in every algorithm, and programs written
 * by hand that are wrong in one way each. */
#include "test_sched_util.h"

static const int node_of[] = { 0, 1, 0, 1, 2, 0, 2 };
enum { RANKS = 7, NODES = 3 };

static struct sched_req request(enum sched_coll coll, int root)
{
	return (struct sched_req){ .coll = coll, .nranks = RANKS, .root = root, .node_of = node_of, .nnodes = NODES };
}

static bool says(const char *text)
{
	return strstr(taut_error_message(), text) != NULL;
}

static bool says_rank_and_step(int rank, uint32_t step)
{
	char text[64];

	snprintf(text, sizeof(text), "rank %d step %u ", rank, step);
	return says(text);
}

static void rejected(const struct all *a, const char *text)
{
	if (all_verify(a, 2, false) != TAUT_ERR_INTERNAL)
		fail_msg("accepted, wanted: %s", text);
	if (!says(text))
		fail_msg("wanted \"%s\", got: %s", text, taut_error_message());
}

/* Calls @fn for every algorithm and collective that it can do. */
static void for_each_schedule(void (*fn)(const struct sched_algo *algo, const struct sched_req *req))
{
	for (int i = 0; sched_algos[i]; i++)
		for (int coll = 0; coll < COLL_COUNT; coll++) {
			struct sched_req req = request(coll, 2);

			if (sched_algo_fits(sched_algos[i], &req))
				fn(sched_algos[i], &req);
		}
}

/* --- A step less --- */

static struct sched_step take_out(struct sched *s, uint32_t i)
{
	struct sched_step step = s->steps[i];

	memmove(s->steps + i, s->steps + i + 1, (s->nsteps - i - 1) * sizeof(step));
	s->nsteps--;
	return step;
}

static void put_back(struct sched *s, uint32_t i, struct sched_step step)
{
	memmove(s->steps + i + 1, s->steps + i, (s->nsteps - i) * sizeof(step));
	s->steps[i] = step;
	s->nsteps++;
}

static void drop_each_step(const struct sched_algo *algo, const struct sched_req *req)
{
	struct all a;

	all_build(&a, algo, req);
	for (int r = 0; r < a.n; r++)
		for (uint32_t i = 0; i < a.scheds[r]->nsteps; i++) {
			struct sched_step step = take_out(a.scheds[r], i);

			if (all_verify(&a, 2, false) != TAUT_ERR_INTERNAL)
				fail_msg("%s of %s: rank %d without step %u is accepted", sched_coll_name(req->coll),
					 algo->name, r, i);
			assert_true(says("rank ") && says(" step "));
			put_back(a.scheds[r], i, step);
		}
	assert_int_equal(all_verify(&a, 2, false), TAUT_OK);
	all_free(&a);
}

static void a_dropped_step_is_seen_everywhere(void **state)
{
	(void)state;
	for_each_schedule(drop_each_step);
}

/* --- Another chunk --- */

static bool move_ref(const struct sched *s, struct sched_ref *ref, int n)
{
	int64_t chunks = sched_chunks(s, ref->buf);

	if (ref->buf == BUF_NONE || chunks <= n)
		return false;
	ref->chunk = ref->chunk + n < chunks ? ref->chunk + 1 : 0;
	return true;
}

static void expect_rejected(const struct all *a, const struct sched_algo *algo, int rank, uint32_t step,
			    const char *what)
{
	if (all_verify(a, 2, false) != TAUT_ERR_INTERNAL)
		fail_msg("%s of %s: rank %d step %u with another %s is accepted", sched_coll_name(a->scheds[0]->coll),
			 algo->name, rank, step, what);
}

static void swap_each_chunk(const struct sched_algo *algo, const struct sched_req *req)
{
	struct all a;

	all_build(&a, algo, req);
	for (int r = 0; r < a.n; r++)
		for (uint32_t i = 0; i < a.scheds[r]->nsteps; i++) {
			struct sched *s = a.scheds[r];
			struct sched_step *p = s->steps + i, old = *p;
			int owner = p->op == STEP_PULL ? s->peers[p->from] : r;

			if (move_ref(a.scheds[owner], &p->src, p->nchunks))
				expect_rejected(&a, algo, r, i, "source");
			*p = old;
			owner = p->op == STEP_PUSH ? s->peers[p->to] : r;
			if (move_ref(a.scheds[owner], &p->dst, p->nchunks))
				expect_rejected(&a, algo, r, i, "target");
			*p = old;
		}
	all_free(&a);
}

static void a_swapped_chunk_is_seen_everywhere(void **state)
{
	(void)state;
	for_each_schedule(swap_each_chunk);
}

/* --- Another partner --- */

static void turn_each_partner(const struct sched_algo *algo, const struct sched_req *req)
{
	struct all a;

	all_build(&a, algo, req);
	for (int r = 0; r < a.n; r++)
		for (uint32_t i = 0; i < a.scheds[r]->nsteps; i++) {
			struct sched *s = a.scheds[r];
			struct sched_step *p = s->steps + i, old = *p;
			int32_t other;

			if (p->op != STEP_MSG || p->nto == 0)
				continue;
			other = (s->peers[p->to] + 1) % s->nranks;
			if (other == r)
				other = (other + 1) % s->nranks;
			assert_true(s->npeers < s->cap_peers ||
				    (s->peers = mem_realloc(s->peers, s->cap_peers += 8, sizeof(*s->peers))));
			s->peers[s->npeers] = other;
			p->to = s->npeers++;
			p->nto = 1;
			expect_rejected(&a, algo, r, i, "partner");
			s->npeers--;
			*p = old;
		}
	all_free(&a);
}

static void a_message_to_another_rank_is_seen_everywhere(void **state)
{
	(void)state;
	for_each_schedule(turn_each_partner);
}

/* --- One message too many --- */

static void add_a_message(const struct sched_algo *algo, const struct sched_req *req)
{
	for (int r = 0; r < RANKS; r++) {
		enum sched_buf buf = BUF_OUT;
		struct all a;
		int to = (r + 3) % RANKS;
		uint32_t at;

		all_build(&a, algo, req);
		at = a.scheds[r]->nsteps;
		if (req->coll == COLL_REDUCE || req->coll == COLL_GATHER || req->coll == COLL_BARRIER)
			buf = BUF_IN;
		assert_int_equal(sched_send(a.scheds[r], (struct sched_ref){ buf, 0 }, 1, to), TAUT_OK);
		expect_rejected(&a, algo, r, at, "message");
		assert_true(says("nobody takes its message"));
		assert_true(says_rank_and_step(r, at));
		all_free(&a);
	}
}

static void a_message_too_many_is_seen_everywhere(void **state)
{
	(void)state;
	for_each_schedule(add_a_message);
}

/* --- Barriers --- */

static bool drop_barrier(struct all *a, int which)
{
	for (int r = 0; r < a->n; r++) {
		struct sched *s = a->scheds[r];
		int seen = 0;
		uint32_t i = 0;

		while (i < s->nsteps && (s->steps[i].op != STEP_BARRIER || seen++ < which))
			i++;
		if (i == s->nsteps)
			return false;
		take_out(s, i);
	}
	return true;
}

static void drop_each_barrier(const struct sched_algo *algo, const struct sched_req *req)
{
	int dropped = 0;

	for (; algo->mapped; dropped++) {
		struct all a;
		bool there;

		all_build(&a, algo, req);
		there = drop_barrier(&a, dropped);
		if (there)
			expect_rejected(&a, algo, 0, 0, "number of barriers");
		if (there && req->coll != COLL_BARRIER)
			assert_true(says("no barrier") || says("may have ended"));
		all_free(&a);
		if (!there)
			break;
	}
	assert_true(!algo->mapped || dropped == (req->coll == COLL_BARRIER ? 1 : 2));
}

static void a_barrier_that_all_leave_out_is_seen(void **state)
{
	(void)state;
	for_each_schedule(drop_each_barrier);
}

static void barriers_of_different_ranks_do_not_meet(void **state)
{
	static const int32_t all3[] = { 0, 1, 2 }, two[] = { 0, 1 };
	struct all a;

	(void)state;
	all_empty(&a, COLL_BARRIER, 3, 1, 0);
	sched_barrier(a.scheds[0], all3, 3);
	sched_barrier(a.scheds[1], two, 2);
	sched_barrier(a.scheds[2], all3, 3);
	rejected(&a, "deadlock");
	assert_true(says("waits for a barrier with rank"));
	all_free(&a);
}

/* --- Written by hand: all_reduce of two ranks --- */

/* Rank 0 reduces (own, other); rank 1 what @fn appends. */
static void hand_all_reduce(struct all *a, void (*fn)(struct sched *s))
{
	int32_t peer = 1;

	all_empty(a, COLL_ALL_REDUCE, 2, 1, 2);
	sched_send(a->scheds[0], ref_in(0), 1, 1);
	sched_msg(a->scheds[0], ref_in(0), ref_out(0), 1, &peer, 1, NULL, 0);
	sched_send(a->scheds[1], ref_in(0), 1, 0);
	sched_recv(a->scheds[1], ref_scratch(0), 1, 0);
	fn(a->scheds[1]);
}

static void same_order(struct sched *s)
{
	sched_reduce(s, ref_out(0), ref_scratch(0), ref_in(0), 1);
}
static void other_order(struct sched *s)
{
	sched_reduce(s, ref_out(0), ref_in(0), ref_scratch(0), 1);
}
static void own_twice(struct sched *s)
{
	sched_reduce(s, ref_scratch(1), ref_scratch(0), ref_in(0), 1);
	sched_reduce(s, ref_out(0), ref_scratch(1), ref_in(0), 1);
}
static void other_missing(struct sched *s)
{
	sched_copy(s, ref_out(0), ref_in(0), 1);
}
static void read_early(struct sched *s)
{
	sched_reduce(s, ref_out(0), ref_scratch(1), ref_in(0), 1);
}
static void nothing(struct sched *s)
{
	(void)s;
}

static void reductions_are_compared_by_order_and_content(void **state)
{
	static const struct {
		void (*fn)(struct sched *s);
		const char *text;
		uint32_t step;
	} faults[] = {
		{ other_order, "out[0] is reduced in another order than on rank 0", 3 },
		{ own_twice,
		  "out[0] holds a reduction of 3 inputs, wanted in[0] of every rank once: rank 1 is there twice", 4 },
		{ other_missing, "out[0] holds in[0] of rank 1, wanted in[0] of every rank once: rank 0 is missing",
		  3 },
		{ read_early, "reads before it is written: scratch[1] of rank 1", 2 },
		{ nothing, "out[0] holds nothing", 2 },
	};
	struct all a;

	(void)state;
	hand_all_reduce(&a, same_order);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	all_free(&a);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		hand_all_reduce(&a, faults[i].fn);
		rejected(&a, faults[i].text);
		assert_true(says_rank_and_step(1, faults[i].step));
		all_free(&a);
	}
}

/* Right out of place; in place the message lands on the input that is still to be sent. */
static void an_input_lost_in_place_is_seen(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_ALL_REDUCE, 2, 1, 0);
	sched_recv(a.scheds[0], ref_out(0), 1, 1);
	sched_send(a.scheds[0], ref_in(0), 1, 1);
	sched_reduce(a.scheds[0], ref_out(0), ref_in(0), ref_out(0), 1);
	sched_send(a.scheds[1], ref_in(0), 1, 0);
	sched_recv(a.scheds[1], ref_out(0), 1, 0);
	sched_reduce(a.scheds[1], ref_out(0), ref_out(0), ref_in(0), 1);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	assert_int_equal(all_verify(&a, 1, true), TAUT_ERR_INTERNAL);
	assert_true(says("out[0] holds"));
	all_free(&a);
}

/* The one-shot form without its scratch. */
static void an_output_that_others_still_read_is_seen_in_place(void **state)
{
	static const int32_t both[] = { 0, 1 };
	struct all a;

	(void)state;
	all_empty(&a, COLL_ALL_REDUCE, 2, 1, 0);
	for (int i = 0; i < 2; i++) {
		sched_barrier(a.scheds[i], both, 2);
		sched_pull(a.scheds[i], ref_in(0), ref_out(0), 1, both, 2, NULL, 0);
		sched_barrier(a.scheds[i], both, 2);
	}
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	assert_int_equal(all_verify(&a, 1, true), TAUT_ERR_INTERNAL);
	assert_true(says("with no barrier since rank"));
	all_free(&a);
}

/* --- FIFOs --- */

static void two_way(struct all *a)
{
	all_empty(a, COLL_ALL_TO_ALL, 2, 2, 0);
	for (int i = 0; i < 2; i++) {
		sched_copy(a->scheds[i], ref_out(2 * i), ref_in(2 * i), 2);
		sched_send(a->scheds[i], ref_in(2 - 2 * i), 2, 1 - i);
		sched_recv(a->scheds[i], ref_out(2 - 2 * i), 2, 1 - i);
	}
}

static void depth_decides_over_a_deadlock(void **state)
{
	struct all a;

	(void)state;
	two_way(&a);
	assert_int_equal(all_verify(&a, 2, false), TAUT_OK);
	assert_int_equal(all_verify(&a, 1, false), TAUT_ERR_INTERNAL);
	assert_true(says("deadlock: rank 0 (step 1) waits for room towards rank 1, rank 1 (step 1) waits for room"));
	all_free(&a);
}

static void a_ring_that_holds_its_messages_needs_two_places(void **state)
{
	struct sched_req req = { .coll = COLL_ALL_GATHER, .nranks = 3 };
	struct verify_opts opts = { .depth = 1, .hold = true };
	struct all a;

	(void)state;
	all_build(&a, sched_algo_find("ring"), &req);
	assert_int_equal(verify_all(a.scheds, 3, &opts), TAUT_ERR_INTERNAL);
	assert_true(says("deadlock") && says("held"));
	opts.depth = 2;
	assert_int_equal(verify_all(a.scheds, 3, &opts), TAUT_OK);
	all_free(&a);
}

/* Rank 1 sends twice to 0 before rank 2 hears of it; 0 wants one of each at once. */
static void messages_of_one_reduction_are_taken_together(void **state)
{
	static const int32_t others[] = { 1, 2 };
	struct all a;

	(void)state;
	all_empty(&a, COLL_GATHER, 3, 1, 2);
	sched_msg(a.scheds[0], ref_in(0), ref_scratch(0), 1, others, 2, NULL, 0);
	sched_recv(a.scheds[0], ref_out(1), 1, 1);
	sched_recv(a.scheds[0], ref_out(2), 1, 2);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 1);
	sched_send(a.scheds[1], ref_in(0), 1, 0);
	sched_send(a.scheds[1], ref_in(0), 1, 0);
	sched_send(a.scheds[1], ref_in(0), 1, 2);
	sched_recv(a.scheds[2], ref_scratch(0), 1, 1);
	sched_send(a.scheds[2], ref_in(0), 1, 0);
	sched_send(a.scheds[2], ref_in(0), 1, 0);
	assert_int_equal(all_verify(&a, 2, false), TAUT_OK);
	assert_int_equal(all_verify(&a, 1, false), TAUT_ERR_INTERNAL);
	assert_true(says("deadlock"));
	all_free(&a);
}

/* --- Parts, blocks, buffers --- */

static void parts_must_agree_at_both_ends(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BROADCAST, 2, 2, 0);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 2);
	sched_send(a.scheds[0], ref_in(0), 1, 1);
	sched_recv(a.scheds[1], ref_out(1), 1, 0);
	rejected(&a, "meets a chunk of another part, sent by rank 0 step 1");
	assert_true(says_rank_and_step(1, 0));
	all_free(&a);
}

/* Or an executor that makes one message of a run would send other lengths than are awaited. */
static void runs_must_be_as_long_at_both_ends(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BROADCAST, 2, 2, 0);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 2);
	sched_send(a.scheds[0], ref_in(0), 2, 1);
	sched_recv(a.scheds[1], ref_out(0), 1, 0);
	sched_recv(a.scheds[1], ref_out(1), 1, 0);
	rejected(&a, "chunk 0 of the run meets chunk 0 of a run of 2, sent by rank 0 step 1");
	a.scheds[1]->nsteps = 0;
	sched_recv(a.scheds[1], ref_out(0), 2, 0);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	all_free(&a);
}

static void lengths_do_not_follow_from_scratch(void **state)
{
	static const struct {
		const char *algo;
		enum sched_coll coll;
	} staged[] = { { "bruck", COLL_ALL_TO_ALL },	     { "recursive_halving", COLL_REDUCE_SCATTER },
		       { "binomial", COLL_GATHER },	     { "binomial", COLL_SCATTER },
		       { "two_level", COLL_REDUCE_SCATTER }, { "mapped_one_shot", COLL_GATHER },
		       { "mapped_one_shot", COLL_SCATTER },  { "mapped_one_shot", COLL_ALL_TO_ALL } };
	struct verify_opts opts = { .depth = 2, .vectors = true };

	(void)state;
	for (size_t i = 0; i < sizeof(staged) / sizeof(staged[0]); i++) {
		struct sched_req req = request(staged[i].coll, 1);
		const struct sched_algo *algo = sched_algo_find(staged[i].algo);

		assert_false(sched_algo_fits_vectors(algo, &req));
		assert_int_equal(verify_algo(algo, &req, &opts), TAUT_ERR_INTERNAL);
		assert_true(says("the length does not follow") || says("cannot know the place"));
	}
}

/* No algorithm hides a v-form that it could do. */
static void vectors_says_all_that_can_be_done(const struct sched_algo *algo, const struct sched_req *req)
{
	static const uint32_t blocks = 1u << COLL_ALL_GATHER | 1u << COLL_REDUCE_SCATTER | 1u << COLL_GATHER |
				       1u << COLL_SCATTER | 1u << COLL_ALL_TO_ALL;
	struct verify_opts opts = { .depth = 2, .vectors = true };

	if (blocks >> req->coll & 1)
		assert_int_equal(verify_algo(algo, req, &opts) == TAUT_OK, sched_algo_fits_vectors(algo, req));
}

static void vectors_are_marked_honestly(void **state)
{
	(void)state;
	for_each_schedule(vectors_says_all_that_can_be_done);
}

static void only_the_root_has_its_buffers(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BROADCAST, 2, 1, 0);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 1);
	sched_copy(a.scheds[1], ref_out(0), ref_in(0), 1);
	rejected(&a, "a buffer that this rank does not have");
	all_free(&a);

	all_empty(&a, COLL_REDUCE, 2, 1, 0);
	a.scheds[0]->mapped = a.scheds[1]->mapped = true;
	sched_push(a.scheds[0], ref_in(0), ref_out(0), 1, &(int32_t){ 1 }, 1);
	rejected(&a, "there is no out[0] of rank 1");
	all_free(&a);
}

static void runs_may_not_move_over_themselves(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_ALL_GATHER, 2, 1, 0);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 1);
	sched_send(a.scheds[0], ref_in(0), 1, 1);
	sched_recv(a.scheds[0], ref_out(1), 1, 1);
	sched_copy(a.scheds[1], ref_out(1), ref_in(0), 1);
	sched_send(a.scheds[1], ref_in(0), 1, 0);
	sched_recv(a.scheds[1], ref_out(0), 1, 0);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	a.scheds[0]->scratch_chunks = 4;
	sched_copy(a.scheds[0], ref_scratch(0), ref_out(0), 2);
	sched_copy(a.scheds[0], ref_scratch(2), ref_scratch(0), 2);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	sched_copy(a.scheds[0], ref_scratch(1), ref_scratch(0), 2);
	rejected(&a, "writes over what the same run reads");
	all_free(&a);
}

static void a_barrier_without_word_of_all_is_seen(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BARRIER, 3, 1, 0);
	for (int i = 0; i < 3; i++) {
		sched_send(a.scheds[i], ref_in(0), 1, (i + 1) % 3);
		sched_recv(a.scheds[i], ref_out(0), 1, (i + 2) % 3);
	}
	rejected(&a, "leaves the barrier without word of rank 1");
	assert_true(says("rank 0 step 2"));
	all_free(&a);
}

static void a_pull_before_the_owner_is_ready_is_seen(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BROADCAST, 2, 1, 0);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 1);
	sched_pull(a.scheds[1], ref_in(0), ref_out(0), 1, &(int32_t){ 0 }, 1, NULL, 0);
	rejected(&a, "reads in[0] of rank 0 with no barrier since rank 0 wrote it");
	assert_true(says_rank_and_step(1, 0));
	all_free(&a);
}

static void a_message_orders_accesses_like_a_barrier(void **state)
{
	struct all a;

	(void)state;
	all_empty(&a, COLL_BROADCAST, 2, 1, 1);
	sched_copy(a.scheds[0], ref_out(0), ref_in(0), 1);
	sched_send(a.scheds[0], ref_in(0), 1, 1);
	sched_recv(a.scheds[1], ref_scratch(0), 1, 0);
	sched_pull(a.scheds[1], ref_in(0), ref_out(0), 1, &(int32_t){ 0 }, 1, NULL, 0);
	rejected(&a, "touches in[0] of rank 0, which may have ended its program by then");
	sched_send(a.scheds[1], ref_out(0), 1, 0);
	a.scheds[0]->scratch_chunks = 1;
	sched_recv(a.scheds[0], ref_scratch(0), 1, 1);
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	all_free(&a);
}

static void schedules_that_do_not_belong_together_are_refused(void **state)
{
	struct sched_req req = { .coll = COLL_ALL_REDUCE, .nranks = 2 };
	struct verify_opts opts = { .depth = 1 };
	struct sched *other;
	struct all a;

	(void)state;
	all_build(&a, sched_algo_find("ring"), &req);
	other = a.scheds[1];
	a.scheds[1] = a.scheds[0];
	rejected(&a, "schedule number 1 of 2 is of rank 0");
	a.scheds[1] = other;
	other->per_block++;
	rejected(&a, "3 chunks a block, rank 0 has");
	other->per_block--;
	opts.depth = 0;
	assert_int_equal(verify_all(a.scheds, 2, &opts), TAUT_ERR_ARG);
	all_free(&a);
}

static void a_block_that_is_received_before_it_was_sent_is_seen_in_place(void **state)
{
	struct sched_req req = { .coll = COLL_ALL_TO_ALL, .nranks = 3 };
	struct sched_step *steps, first;
	struct all a;

	(void)state;
	all_build(&a, sched_algo_find("pairwise"), &req);
	assert_int_equal(all_verify(&a, 1, true), TAUT_OK);
	steps = a.scheds[0]->steps; /* a copy, then by turns a send and a receive */
	first = steps[1];
	steps[1] = steps[2];
	steps[2] = first;
	assert_int_equal(all_verify(&a, 1, false), TAUT_OK);
	assert_int_equal(all_verify(&a, 1, true), TAUT_ERR_INTERNAL);
	all_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dropped_step_is_seen_everywhere),
		cmocka_unit_test(a_swapped_chunk_is_seen_everywhere),
		cmocka_unit_test(a_message_to_another_rank_is_seen_everywhere),
		cmocka_unit_test(a_message_too_many_is_seen_everywhere),
		cmocka_unit_test(a_barrier_that_all_leave_out_is_seen),
		cmocka_unit_test(barriers_of_different_ranks_do_not_meet),
		cmocka_unit_test(reductions_are_compared_by_order_and_content),
		cmocka_unit_test(an_input_lost_in_place_is_seen),
		cmocka_unit_test(an_output_that_others_still_read_is_seen_in_place),
		cmocka_unit_test(a_block_that_is_received_before_it_was_sent_is_seen_in_place),
		cmocka_unit_test(depth_decides_over_a_deadlock),
		cmocka_unit_test(a_ring_that_holds_its_messages_needs_two_places),
		cmocka_unit_test(messages_of_one_reduction_are_taken_together),
		cmocka_unit_test(parts_must_agree_at_both_ends),
		cmocka_unit_test(runs_must_be_as_long_at_both_ends),
		cmocka_unit_test(lengths_do_not_follow_from_scratch),
		cmocka_unit_test(vectors_are_marked_honestly),
		cmocka_unit_test(only_the_root_has_its_buffers),
		cmocka_unit_test(runs_may_not_move_over_themselves),
		cmocka_unit_test(a_barrier_without_word_of_all_is_seen),
		cmocka_unit_test(a_pull_before_the_owner_is_ready_is_seen),
		cmocka_unit_test(a_message_orders_accesses_like_a_barrier),
		cmocka_unit_test(schedules_that_do_not_belong_together_are_refused),
	};

	return cmocka_run_group_tests(tests, quiet, loud);
}
