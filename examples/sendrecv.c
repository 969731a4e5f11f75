/* SPDX-License-Identifier: Apache-2.0 */
/* Any pattern of sends and receives in a group: here every rank gives every other a number
 * of its own and checks what it got. taut run -n 4 ./sendrecv */
#include <stdio.h>
#include <stdlib.h>
#include <taut/taut.h>

static int32_t number(int from, int to)
{
	return from * 1000 + to;
}

/* Between start and end nothing waits, so no order of calls can block two ranks on each other. */
static enum taut_status exchange(struct taut_comm *comm, const int32_t *out, int32_t *in)
{
	int rank = taut_comm_rank(comm), size = taut_comm_size(comm);
	enum taut_status st = taut_group_start();

	for (int peer = 0; peer < size && st == TAUT_OK; peer++) {
		if (peer == rank)
			continue;
		st = taut_send(&out[peer], 1, TAUT_INT32, peer, 0, comm, NULL);
		if (st == TAUT_OK)
			st = taut_recv(&in[peer], 1, TAUT_INT32, peer, 0, comm, NULL);
	}
	enum taut_status end = taut_group_end();

	return st != TAUT_OK ? st : end;
}

static int run(struct taut_comm *comm, int32_t *out, int32_t *in)
{
	int rank = taut_comm_rank(comm), size = taut_comm_size(comm);

	for (int peer = 0; peer < size; peer++)
		out[peer] = number(rank, peer);
	if (exchange(comm, out, in) != TAUT_OK) {
		fprintf(stderr, "sendrecv: %s\n", taut_error_message());
		return 1;
	}
	for (int peer = 0; peer < size; peer++) {
		if (peer != rank && in[peer] != number(peer, rank)) {
			fprintf(stderr, "sendrecv: rank %d got %d from rank %d\n", rank, in[peer], peer);
			return 1;
		}
	}
	printf("rank %d: a number from each of %d others\n", rank, size - 1);
	return 0;
}

int main(void)
{
	struct taut_comm *comm;
	int rc = 1;

	if (taut_comm_create_env(&comm, NULL) != TAUT_OK) {
		fprintf(stderr, "sendrecv: %s\n", taut_error_message());
		return 1;
	}
	int32_t *out = calloc((size_t)taut_comm_size(comm), sizeof(*out));
	int32_t *in = calloc((size_t)taut_comm_size(comm), sizeof(*in));

	if (out && in)
		rc = run(comm, out, in);
	free(in);
	free(out);
	taut_comm_destroy(comm);
	return rc;
}
