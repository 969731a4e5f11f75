/* SPDX-License-Identifier: Apache-2.0 */
/* Does the verification of taut bench find faults? The collectives here are models of one
 * rank that know what all ranks put in, and can be told to go wrong. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "../../tools/bench_check.c"
#include "../../tools/bench_coll.c"
#include "../../tools/bench_data.c"

enum { SIZE = 3, RANK = 1, COUNT = 5000 };

static enum fault { NONE, ONE_BIT, NOTHING, PAST_END, INPUT, UNASKED, SWAPPED, RANK_TWICE } fault;
static struct bench_table model;
static enum taut_type type_now;

/* @n elements that rank @from put in, from element @start on, to block @block of @out. */
static void put(void *out, size_t block, int from, size_t start, size_t n)
{
	bench_input(&model, type_now, TAUT_OP_COUNT, from, SIZE);
	bench_fill((unsigned char *)out + block * n * taut_type_size(type_now), &model, start, n);
}

static enum taut_status end(const void *in, void *out, size_t len)
{
	if (fault == ONE_BIT)
		((unsigned char *)out)[len / 2] ^= 4;
	if (fault == PAST_END)
		((unsigned char *)out)[len + BENCH_GUARD - 1] = 0;
	if (fault == INPUT)
		((unsigned char *)(uintptr_t)in)[1] ^= 1;
	return TAUT_OK;
}

static enum taut_status reduced(const void *in, void *out, size_t start, size_t n, enum taut_type type, enum taut_op op)
{
	bench_reduced(&model, type, op, fault == RANK_TWICE ? SIZE + 1 : SIZE);
	if (fault != NOTHING)
		bench_fill(out, &model, start, n);
	return end(in, out, n * taut_type_size(type));
}

enum taut_status taut_all_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op op,
				 struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	return reduced(in, out, 0, count, type, op);
}

enum taut_status taut_reduce_scatter(const void *in, void *out, size_t count, enum taut_type type, enum taut_op op,
				     struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	return reduced(in, out, RANK * count, count, type, op);
}

enum taut_status taut_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op op, int root,
			     struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	if (root == RANK || fault == UNASKED)
		return reduced(in, out, 0, count, type, op);
	return TAUT_OK;
}

enum taut_status taut_all_gather(const void *in, void *out, size_t count, enum taut_type type, struct taut_comm *comm,
				 void *stream)
{
	(void)comm;
	(void)stream;
	for (int r = 0; r < SIZE && fault != NOTHING; r++)
		put(out, (size_t)r, fault == SWAPPED ? SIZE - 1 - r : r, 0, count);
	return end(in, out, SIZE * count * taut_type_size(type));
}

enum taut_status taut_gather(const void *in, void *out, size_t count, enum taut_type type, int root,
			     struct taut_comm *comm, void *stream)
{
	if (root == RANK || fault == UNASKED)
		return taut_all_gather(in, out, count, type, comm, stream);
	return TAUT_OK;
}

enum taut_status taut_broadcast(const void *in, void *out, size_t count, enum taut_type type, int root,
				struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	if (fault != NOTHING)
		put(out, 0, fault == SWAPPED ? (root + 1) % SIZE : root, 0, count);
	return end(in, out, count * taut_type_size(type));
}

enum taut_status taut_scatter(const void *in, void *out, size_t count, enum taut_type type, int root,
			      struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	if (fault != NOTHING)
		put(out, 0, root, fault == SWAPPED ? 0 : RANK * count, count);
	return end(in, out, count * taut_type_size(type));
}

enum taut_status taut_all_to_all(const void *in, void *out, size_t count, enum taut_type type, struct taut_comm *comm,
				 void *stream)
{
	(void)comm;
	(void)stream;
	for (int r = 0; r < SIZE && fault != NOTHING; r++)
		put(out, (size_t)r, r, fault == SWAPPED ? (size_t)r * count : RANK * count, count);
	return end(in, out, SIZE * count * taut_type_size(type));
}

enum taut_status taut_sendrecv(const void *in, size_t count, int dst, int send_tag, void *out, size_t out_count,
			       int src, int recv_tag, enum taut_type type, struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	(void)send_tag;
	(void)recv_tag;
	(void)out_count;
	assert_int_equal(dst, RANK + 1);
	assert_int_equal(src, RANK - 1);
	if (fault != NOTHING)
		put(out, 0, fault == SWAPPED ? dst : src, 0, count);
	return end(in, out, count * taut_type_size(type));
}

enum taut_status taut_barrier(struct taut_comm *comm, void *stream)
{
	(void)comm;
	(void)stream;
	return TAUT_OK;
}

static size_t wrong_with(enum fault what, const struct bench_coll *coll, enum taut_type type, int root, bool in_place)
{
	static struct bench_table scratch;
	size_t len = SIZE * COUNT * taut_type_size(type) + BENCH_GUARD, wrong = 12345;
	struct bench_call c = {
		.coll = coll, .rank = RANK, .size = SIZE, .count = COUNT, .type = type, .op = TAUT_SUM
	};
	struct bench_buffers b = { .a = malloc(len), .b = malloc(len) };

	fault = what;
	type_now = type;
	b.a_len = COUNT * taut_type_size(type) * bench_in_blocks(coll, SIZE);
	b.b_len = bench_bytes(coll, COUNT, type, SIZE);
	bench_place(&c, &b, in_place);
	assert_int_equal(bench_check(&wrong, &scratch, &c, &b, root, in_place), TAUT_OK);
	free(b.a);
	free(b.b);
	return wrong;
}

static void right_results_pass(void **state)
{
	(void)state;
	for (int i = 0; bench_coll_at(i); i++)
		for (int type = 0; type < TAUT_TYPE_COUNT; type++)
			for (int root = 0; root < SIZE; root++)
				for (int in_place = 0; in_place <= bench_coll_at(i)->in_place; in_place++)
					assert_int_equal(wrong_with(NONE, bench_coll_at(i), (enum taut_type)type, root,
								    in_place),
							 0);
}

/* Collectives other than the barrier, root here, both placements. */
static size_t least_wrong(enum fault what, bool out_of_place_only)
{
	size_t least = SIZE_MAX;

	for (int i = 0; bench_coll_at(i); i++) {
		const struct bench_coll *c = bench_coll_at(i);

		for (int in_place = 0; in_place <= (c->in_place && !out_of_place_only) && c->kind != BENCH_BARRIER;
		     in_place++) {
			size_t wrong = wrong_with(what, c, TAUT_FLOAT32, RANK, in_place);

			least = wrong < least ? wrong : least;
		}
	}
	return least;
}

static void a_single_bit_is_seen(void **state)
{
	(void)state;
	assert_int_equal(least_wrong(ONE_BIT, false), 1);
}

static void an_output_that_was_not_written_is_seen(void **state)
{
	(void)state;
	assert_true(least_wrong(NOTHING, true) >= COUNT);
}

static void a_store_behind_the_output_is_seen(void **state)
{
	(void)state;
	assert_true(least_wrong(PAST_END, true) >= 1);
}

static void a_changed_input_is_seen(void **state)
{
	(void)state;
	assert_true(least_wrong(INPUT, true) >= 1);
}

static void blocks_of_another_rank_are_seen(void **state)
{
	static const char *const moving[] = {
		"all_gather", "gather", "broadcast", "scatter", "all_to_all", "sendrecv"
	};

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_true(wrong_with(SWAPPED, bench_coll_find(moving[i]), TAUT_INT32, RANK, false) > COUNT / 2);
}

static void a_rank_that_counts_twice_is_seen(void **state)
{
	static const char *const reducing[] = { "all_reduce", "reduce", "reduce_scatter" };

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int type = 0; type < TAUT_TYPE_COUNT; type++)
			assert_true(wrong_with(RANK_TWICE, bench_coll_find(reducing[i]), (enum taut_type)type, RANK,
					       false) > COUNT / 10);
}

static void an_output_on_a_rank_that_is_not_root_is_seen(void **state)
{
	(void)state;
	for (int in_place = 0; in_place < 2; in_place++) {
		assert_true(wrong_with(UNASKED, bench_coll_find("reduce"), TAUT_INT32, 0, in_place) > COUNT / 2);
		assert_true(wrong_with(UNASKED, bench_coll_find("gather"), TAUT_INT32, 0, false) > COUNT / 2);
	}
}

static void names_of_other_worlds_are_known(void **state)
{
	static const char *const names[][2] = {
		{ "allreduce", "all_reduce" },
		{ "all-reduce", "all_reduce" },
		{ "AllGather", "all_gather" },
		{ "ncclReduceScatter", "reduce_scatter" },
		{ "MPI_Bcast", "broadcast" },
		{ "bcast", "broadcast" },
		{ "MPI_Reduce_scatter_block", "reduce_scatter" },
		{ "alltoall", "all_to_all" },
		{ "all_reduce_perf", "all_reduce" },
		{ "sendrecv_perf", "sendrecv" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_string_equal(bench_coll_find(names[i][0])->name, names[i][1]);
	assert_null(bench_coll_find("allreduc"));
	assert_null(bench_coll_find(""));
}

static void sizes_and_factors_are_those_of_nccl_tests(void **state)
{
	const struct bench_coll *ar = bench_coll_find("all_reduce"), *ag = bench_coll_find("all_gather");

	(void)state;
	assert_int_equal(bench_count(ar, 4096, TAUT_FLOAT32, 4), 1024);
	assert_int_equal(bench_count(ag, 4096, TAUT_FLOAT32, 4), 256);
	assert_int_equal(bench_bytes(ag, 256, TAUT_FLOAT32, 4), 4096);
	assert_int_equal(bench_count(ag, 15, TAUT_FLOAT32, 4), 0);
	assert_true(bench_bus_factor(ar, 4) == 1.5);
	assert_true(bench_bus_factor(ag, 4) == 0.75);
	assert_true(bench_bus_factor(bench_coll_find("broadcast"), 4) == 1);
	assert_true(bench_bus_factor(bench_coll_find("all_to_all"), 4) == 0.75);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_results_pass),
		cmocka_unit_test(a_single_bit_is_seen),
		cmocka_unit_test(an_output_that_was_not_written_is_seen),
		cmocka_unit_test(a_store_behind_the_output_is_seen),
		cmocka_unit_test(a_changed_input_is_seen),
		cmocka_unit_test(blocks_of_another_rank_are_seen),
		cmocka_unit_test(a_rank_that_counts_twice_is_seen),
		cmocka_unit_test(an_output_on_a_rank_that_is_not_root_is_seen),
		cmocka_unit_test(names_of_other_worlds_are_known),
		cmocka_unit_test(sizes_and_factors_are_those_of_nccl_tests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
