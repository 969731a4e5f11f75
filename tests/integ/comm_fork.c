/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a fork() cannot use its parent's communicators and streams: every call says so at once, also when the
 * parent's threads were in the middle of calls, and the parent's own calls go on as if nothing had happened. */
#include <pthread.h>

#include "failing.h"

#define FORKS 20
#define STOP_S 20 /* a child that waits for what is not there */

static char wanted[64]; /* in the sentence */

static void refused(enum taut_status st)
{
	CHECK(st == TAUT_ERR_ARG && strstr(taut_error_message(), wanted));
}

static void try_all(struct taut_comm *comm, struct taut_stream *stream)
{
	struct taut_comm *other = NULL;
	int one = 1, two;
	enum taut_op op;
	void *p;

	refused(taut_comm_status(comm));
	refused(taut_all_reduce(&one, &two, 1, TAUT_INT32, TAUT_SUM, comm, NULL));
	refused(taut_barrier(comm, NULL));
	refused(taut_send(&one, 1, TAUT_INT32, taut_comm_rank(comm), 0, comm, NULL));
	CHECK(taut_group_start() == TAUT_OK);
	CHECK(taut_barrier(comm, NULL) == TAUT_OK);
	refused(taut_group_end());
	refused(taut_comm_split(&other, comm, 0, 0, NULL));
	refused(taut_comm_dup(&other, comm, NULL));
	refused(taut_comm_shrink(&other, comm, NULL));
	refused(taut_mem_alloc(&p, 100, comm));
	refused(taut_comm_abort(comm));
	CHECK(taut_op_create_premul_sum(&op, &one, TAUT_INT32, comm) == TAUT_OK);
	refused(taut_barrier(comm, stream));
	CHECK(taut_group_start() == TAUT_OK);
	CHECK(taut_barrier(comm, stream) == TAUT_OK);
	refused(taut_group_end());
	refused(taut_stream_wait(stream));
	refused(taut_stream_query(stream));
	taut_stream_destroy(stream);
	taut_comm_destroy(comm);
	CHECK(!other);
}

struct busy {
	struct taut_comm *comm;
	int rank, size;
};

static void *reduce_on(void *arg)
{
	struct busy *b = arg;

	for (int i = 0; i < 500; i++)
		CHECK(all_reduce_ok(b->comm, b->rank, b->size));
	return NULL;
}

static pid_t start_child(struct taut_comm *comm, struct taut_stream *stream)
{
	pid_t child;

	snprintf(wanted, sizeof(wanted), "belongs to process %d, not to its child", (int)getpid());
	child = fork();
	if (child == 0) {
		alarm(STOP_S);
		failures = 0;
		try_all(comm, stream);
		_exit(failures != 0);
	}
	return child;
}

static void parent(int rank, int size, void *arg)
{
	struct taut_comm *comm = join_all(rank, size), *quiet;
	struct busy busy = { NULL, rank, size };
	struct taut_stream *stream;
	pthread_t thread;
	int sum[2];

	(void)arg;
	CHECK(taut_comm_dup(&quiet, comm, NULL) == TAUT_OK);
	CHECK(taut_comm_dup(&busy.comm, comm, NULL) == TAUT_OK);
	CHECK(taut_stream_create(&stream) == TAUT_OK);
	CHECK(all_reduce_ok(quiet, rank, size));
	CHECK(pthread_create(&thread, NULL, reduce_on, &busy) == 0);
	for (int i = 0; i < FORKS; i++) {
		int status = -1;
		pid_t child;

		/* Its turn is taken, and its lock may be. */
		CHECK(taut_all_reduce(&rank, sum, 1, TAUT_INT32, TAUT_SUM, comm, stream) == TAUT_OK);
		child = start_child(i % 3 == 0 ? quiet : i % 3 == 1 ? comm : busy.comm, stream);
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		CHECK(taut_stream_wait(stream) == TAUT_OK && sum[0] == size * (size - 1) / 2);
		CHECK(all_reduce_ok(comm, rank, size));
	}
	pthread_join(thread, NULL);
	CHECK(all_reduce_ok(quiet, rank, size));
	say(rank, taut_comm_status(comm));
	taut_stream_destroy(stream);
	taut_comm_destroy(busy.comm);
	taut_comm_destroy(quiet);
	taut_comm_destroy(comm);
}

int main(void)
{
	setenv("TAUT_LOG", "none", 0);
	start(1, parent, NULL);
	finish(1, 0, "one rank");
	start(2, parent, NULL);
	finish(2, 0, "two ranks");
	setenv("TAUT_WIRE", "tcp", 1);
	start(2, parent, NULL);
	finish(2, 0, "two ranks, tcp");
	return failures != 0;
}
