/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, groups, streams, derived communicators, operations of one's own, shared
 * memory: what the collectives' test does not cover. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>

#include "ranks.h"

static void ring_of_messages(struct taut_comm *c, int rank, int size)
{
	static const size_t lens[] = { 0, 1, 40, 41, 2088, 2089, 100000, 1000000 };
	int right = (rank + 1) % size, left = (rank + size - 1) % size;

	for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		unsigned char *a = malloc(lens[k] + 1), *b = malloc(lens[k] + 1);

		memset(a, rank + 1, lens[k] + 1);
		memset(b, 0, lens[k] + 1);
		must(taut_sendrecv(a, lens[k], right, 7, b, lens[k], left, 7, TAUT_UINT8, c, NULL) == TAUT_OK);
		for (size_t i = 0; i < lens[k]; i++)
			must(b[i] == left + 1);
		free(a);
		free(b);
	}
}

/* Sends in one order of tags, receives in another: none may be lost or swapped. */
static void tags_in_any_order(struct taut_comm *c, int rank, int size)
{
	int peer = rank ^ 1, v[6], got[6];

	if (peer >= size)
		return;
	if (rank < peer) {
		for (int i = 0; i < 6; i++) {
			v[i] = 100 + i;
			must(taut_send(&v[i], 1, TAUT_INT32, peer, i / 2, c, NULL) == TAUT_OK);
		}
		return;
	}
	for (int tag = 2; tag >= 0; tag--)
		for (int i = 0; i < 2; i++)
			must(taut_recv(&got[tag * 2 + i], 1, TAUT_INT32, peer, tag, c, NULL) == TAUT_OK);
	for (int i = 0; i < 6; i++)
		must(got[i] == 100 + i);
}

static void any_tag_takes_the_next(struct taut_comm *c, int rank)
{
	int v = 5, w = 0;

	if (rank == 0) {
		must(taut_send(&v, 1, TAUT_INT32, 0, 3, c, NULL) == TAUT_OK); /* to itself */
		must(taut_recv(&w, 1, TAUT_INT32, 0, TAUT_ANY_TAG, c, NULL) == TAUT_OK);
		must(w == 5);
	}
}

/* Everybody sends to and receives from everybody, big messages, posted in unlike orders. */
static void all_pairs_in_a_group(struct taut_comm *c, int rank, int size)
{
	size_t n = 70000;
	int32_t *out = malloc((size_t)size * n * 4), *in = malloc((size_t)size * n * 4);

	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < n; i++)
			out[(size_t)r * n + i] = rank * 1000 + r * 10 + (int)(i % 7);
	must(taut_group_start() == TAUT_OK);
	for (int k = 0; k < size; k++) {
		int to = (rank * 3 + k) % size, from = (size - 1 - k + rank) % size;

		must(taut_send(out + (size_t)to * n, n, TAUT_INT32, to, 1, c, NULL) == TAUT_OK);
		must(taut_recv(in + (size_t)from * n, n, TAUT_INT32, from, 1, c, NULL) == TAUT_OK);
	}
	must(taut_group_end() == TAUT_OK);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < n; i++)
			must(in[(size_t)r * n + i] == r * 1000 + rank * 10 + (int)(i % 7));
	free(out);
	free(in);
}

static void collectives_in_a_group(struct taut_comm *c, int rank, int size)
{
	int32_t a[3] = { rank, 1, 2 }, b[3], big[5000], sum[5000], msg = rank, got = -1;

	for (int i = 0; i < 5000; i++)
		big[i] = i + rank;
	must(taut_group_start() == TAUT_OK);
	must(taut_recv(&got, 1, TAUT_INT32, (rank + 1) % size, 0, c, NULL) == TAUT_OK);
	must(taut_all_reduce(a, b, 3, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
	must(taut_all_reduce(big, sum, 5000, TAUT_INT32, TAUT_MAX, c, NULL) == TAUT_OK);
	must(taut_barrier(c, NULL) == TAUT_OK);
	must(taut_send(&msg, 1, TAUT_INT32, (rank + size - 1) % size, 0, c, NULL) == TAUT_OK);
	must(taut_group_end() == TAUT_OK);
	must(b[0] == size * (size - 1) / 2 && b[1] == size && b[2] == 2 * size);
	for (int i = 0; i < 5000; i++)
		must(sum[i] == i + size - 1);
	must(got == (rank + 1) % size);
	must(taut_group_end() == TAUT_ERR_ARG);

	/* A wrong call is the group's error, and nothing of the group runs: here, on every rank. */
	must(taut_group_start() == TAUT_OK);
	must(taut_all_reduce(a, b, 1, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
	must(taut_send(a, 1, TAUT_INT32, size, 0, c, NULL) == TAUT_ERR_ARG);
	must(taut_group_end() == TAUT_ERR_ARG);
	must(taut_group_start() == TAUT_OK);
	must(taut_all_gather_v(a, NULL, NULL, NULL, TAUT_INT32, c, NULL) == TAUT_ERR_ARG);
	must(taut_group_end() == TAUT_ERR_ARG);
}

static void streams_keep_order(struct taut_comm *c, int rank, int size)
{
	struct taut_stream *s[2];
	int64_t x[100];

	must(taut_stream_create(&s[0]) == TAUT_OK && taut_stream_create(&s[1]) == TAUT_OK);
	for (int i = 0; i < 100; i++)
		x[i] = rank == i % size;
	for (int i = 0; i < 100; i++) /* one communicator on two streams, then directly */
		must(taut_all_reduce(&x[i], &x[i], 1, TAUT_INT64, TAUT_SUM, c, s[i % 2]) == TAUT_OK);
	must(taut_barrier(c, NULL) == TAUT_OK);
	must(taut_stream_wait(s[0]) == TAUT_OK && taut_stream_wait(s[1]) == TAUT_OK);
	must(taut_stream_query(s[0]) == TAUT_OK);
	for (int i = 0; i < 100; i++)
		must(x[i] == 1);
	taut_stream_destroy(s[0]);
	taut_stream_destroy(s[1]);
}

struct two {
	struct taut_comm *comm;
	int size, rank;
};

static void *hammer(void *arg)
{
	struct two *t = arg;

	for (int i = 0; i < 300; i++) {
		int32_t v = t->rank + i, w;

		must(taut_all_reduce(&v, &w, 1, TAUT_INT32, TAUT_SUM, t->comm, NULL) == TAUT_OK);
		must(w == t->size * (t->size - 1) / 2 + i * t->size);
	}
	return NULL;
}

static void two_communicators_at_once(struct taut_comm *c, int rank, int size)
{
	struct taut_comm *d;
	struct two a = { c, size, rank }, b = { NULL, size, rank };
	pthread_t thread;

	must(taut_comm_dup(&d, c, NULL) == TAUT_OK);
	b.comm = d;
	must(pthread_create(&thread, NULL, hammer, &b) == 0);
	hammer(&a);
	pthread_join(thread, NULL);
	taut_comm_destroy(d);
}

static void splits(struct taut_comm *c, int rank, int size)
{
	struct taut_comm *half;
	int32_t v = rank, w = -1, want = 0, n = 0;

	must(taut_comm_split(&half, c, rank % 2, -rank, NULL) == TAUT_OK);
	for (int r = rank % 2; r < size; r += 2, n++)
		want += r;
	must(taut_comm_size(half) == n && taut_comm_rank(half) == (n - 1) - rank / 2);
	must(taut_all_reduce(&v, &w, 1, TAUT_INT32, TAUT_SUM, half, NULL) == TAUT_OK && w == want);
	taut_comm_destroy(half);
	must(taut_comm_split(&half, c, rank == 0 ? TAUT_NO_COLOR : 3, 0, NULL) == TAUT_OK);
	must((half == NULL) == (rank == 0));
	if (half)
		must(taut_comm_rank(half) == rank - 1 && taut_barrier(half, NULL) == TAUT_OK);
	taut_comm_destroy(half);
}

static void own_operations(struct taut_comm *c, int rank, int size)
{
	float scale = (float)(rank + 1), x[1000], y[1000], want = 0;
	int32_t a[3] = { -7 * (rank + 1), 5, rank }, b[3];
	enum taut_op op;

	for (int i = 0; i < 1000; i++)
		x[i] = (float)i;
	for (int r = 0; r < size; r++)
		want += (float)(r + 1);
	must(taut_op_create_premul_sum(&op, &scale, TAUT_FLOAT32, c) == TAUT_OK);
	must(taut_all_reduce(x, y, 1000, TAUT_FLOAT32, op, c, NULL) == TAUT_OK);
	for (int i = 0; i < 1000; i++)
		must(y[i] == want * (float)i && x[i] == (float)i);
	must(taut_all_reduce(a, b, 3, TAUT_INT32, op, c, NULL) == TAUT_ERR_ARG);
	taut_op_destroy(op, c);
	must(taut_all_reduce(x, y, 1000, TAUT_FLOAT32, op, c, NULL) == TAUT_ERR_ARG);
	must(taut_all_reduce(x, x, 1000, TAUT_FLOAT32, TAUT_AVG, c, NULL) == TAUT_OK);
	for (int i = 0; i < 1000; i++)
		must(fabsf(x[i] - (float)i) <= 1e-4f * (float)i);
	must(taut_all_reduce(a, b, 3, TAUT_INT32, TAUT_AVG, c, NULL) == TAUT_OK);
	must(b[0] == -7 * (size + 1) * size / 2 / size && b[1] == 5 && b[2] == size * (size - 1) / 2 / size);
}

/* Sums whose order matters must still be the same on all ranks. */
static void same_bits_everywhere(struct taut_comm *c, int rank, int size)
{
	static const size_t counts[] = { 5, 900, 70000 };

	for (size_t k = 0; k < 3; k++) {
		size_t n = counts[k];
		float *x = malloc(n * 4), *all = malloc(n * 4 * (size_t)size);

		srand((unsigned)(rank * 77 + (int)k));
		for (size_t i = 0; i < n; i++)
			x[i] = (float)rand() / 1000.0f * (rand() & 1 ? 1.0f : -1e-6f);
		must(taut_all_reduce(x, x, n, TAUT_FLOAT32, TAUT_SUM, c, NULL) == TAUT_OK);
		must(taut_all_gather(x, all, n, TAUT_FLOAT32, c, NULL) == TAUT_OK);
		for (int r = 0; r < size; r++)
			must(!memcmp(all + (size_t)r * n, x, n * 4));
		free(x);
		free(all);
	}
}

static void shared_memory(struct taut_comm *c, int rank, int size)
{
	size_t n = 300000;
	int32_t *a, *b, *left, *private = malloc(n * 4);

	must(taut_mem_alloc((void **)&a, n * 4, c) == TAUT_OK && taut_mem_alloc((void **)&b, n * 4, c) == TAUT_OK);
	must(taut_mem_alloc((void **)&left, 100, c) == TAUT_OK); /* it goes with the communicator */
	for (size_t i = 0; i < n; i++)
		must(!a[i] && !b[i]);
	for (int round = 0; round < 12; round++) {
		size_t m = round % 4 == 3 ? 100 : n - (size_t)round;
		int32_t *in = round % 3 == 2 ? private : a;
		int32_t *out = round % 4 == 1 ? in : b; /* in place at times, a private buffer at times */

		for (size_t i = 0; i < m; i++)
			in[i] = (int32_t)(i % 1000) + rank + round;
		must(taut_all_reduce(in, out, m, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
		for (size_t i = 0; i < m; i++)
			must(out[i] == (int32_t)(i % 1000) * size + size * (size - 1) / 2 + round * size);
	}
	/* One rank's buffer is private: all must stage. */
	for (size_t i = 0; i < n; i++)
		(rank ? a : private)[i] = 1;
	must(taut_all_reduce(rank ? a : private, b, n, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_OK);
	for (size_t i = 0; i < n; i++)
		must(b[i] == size);
	must(taut_broadcast(a, b, n, TAUT_INT32, size - 1, c, NULL) == TAUT_OK);
	must(taut_all_gather(a, b, n / (size_t)size, TAUT_INT32, c, NULL) == TAUT_OK);
	must(taut_mem_free(a, c) == TAUT_OK && taut_mem_free(b, c) == TAUT_OK);
	must(taut_mem_free(a, c) == TAUT_ERR_ARG); /* again */
	must(taut_mem_free(private, c) == TAUT_ERR_ARG && strstr(taut_error_message(), "is not from taut_mem_alloc()"));
	free(private);
}

static void bad_arguments(struct taut_comm *c, int size)
{
	int32_t x[8];

	must(taut_all_reduce(NULL, x, 1, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_ERR_ARG);
	must(strstr(taut_error_message(), "in is NULL") != NULL);
	must(taut_all_reduce(x, x + 1, 4, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_ERR_ARG);
	must(strstr(taut_error_message(), "overlap") != NULL);
	must(taut_all_reduce(x, x, 1, (enum taut_type)99, TAUT_SUM, c, NULL) == TAUT_ERR_ARG);
	must(taut_all_reduce(x, x, 1, TAUT_FLOAT32, TAUT_BXOR, c, NULL) == TAUT_ERR_ARG);
	must(taut_all_reduce(x, x, SIZE_MAX / 2, TAUT_INT32, TAUT_SUM, c, NULL) == TAUT_ERR_ARG);
	must(taut_broadcast(x, x, 1, TAUT_INT32, size, c, NULL) == TAUT_ERR_ARG);
	must(taut_send(x, 1, TAUT_INT32, -1, 0, c, NULL) == TAUT_ERR_ARG);
	must(taut_send(x, 1, TAUT_INT32, 0, -1, c, NULL) == TAUT_ERR_ARG);
	must(taut_barrier(NULL, NULL) == TAUT_ERR_ARG);
	taut_group_start();
	must(taut_all_gather(x, x, 1, (enum taut_type)99, c, NULL) == TAUT_ERR_ARG);
	must(taut_group_end() == TAUT_ERR_ARG);
	must(taut_comm_status(c) == TAUT_OK);
}

static void all(struct taut_comm *c, int rank, int size, void *arg)
{
	(void)arg;
	ring_of_messages(c, rank, size);
	tags_in_any_order(c, rank, size);
	any_tag_takes_the_next(c, rank);
	all_pairs_in_a_group(c, rank, size);
	collectives_in_a_group(c, rank, size);
	streams_keep_order(c, rank, size);
	two_communicators_at_once(c, rank, size);
	splits(c, rank, size);
	own_operations(c, rank, size);
	same_bits_everywhere(c, rank, size);
	shared_memory(c, rank, size);
	bad_arguments(c, size);
}

static void shared_only(struct taut_comm *c, int rank, int size, void *arg)
{
	(void)arg;
	shared_memory(c, rank, size);
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc > 1)
		setenv("TAUT_WIRE", argv[1], 1);
	for (int n = 1; n <= 5; n++) /* and 8: a mapped schedule of 8 pieces a block */
		bad += run_ranks(n, all, NULL);
	bad += run_ranks(8, shared_only, NULL);
	printf("calls over %s: %s\n", argc > 1 ? argv[1] : "auto", bad ? "FAILED" : "ok");
	return bad != 0;
}
