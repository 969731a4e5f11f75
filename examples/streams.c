/* SPDX-License-Identifier: Apache-2.0 */
/* Communication beside computation: while a stream adds up one block of a gradient over the
 * ranks, the caller computes the next. taut run -n 2 ./streams */
#include <stdio.h>
#include <taut/taut.h>

#define BLOCKS 4
#define COUNT 65536

static float gradient[BLOCKS][COUNT];

/* Stands for the work of a training step. */
static void compute(float *block, int number, int rank)
{
	for (int i = 0; i < COUNT; i++)
		block[i] = (float)(number + rank + i % 7);
}

/* The stream owns a block from the call to taut_stream_wait(). */
static enum taut_status step(struct taut_comm *comm, struct taut_stream *stream)
{
	for (int b = 0; b < BLOCKS; b++) {
		compute(gradient[b], b, taut_comm_rank(comm));
		enum taut_status st =
			taut_all_reduce(gradient[b], gradient[b], COUNT, TAUT_FLOAT32, TAUT_SUM, comm, stream);

		if (st != TAUT_OK)
			return st;
	}
	return taut_stream_wait(stream);
}

/* The sum over the ranks of number + rank + i % 7. */
static int right(int size)
{
	for (int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < COUNT; i++)
			if (gradient[b][i] != (float)(size * (b + i % 7) + size * (size - 1) / 2))
				return 0;
	return 1;
}

int main(void)
{
	struct taut_comm *comm = NULL;
	struct taut_stream *stream = NULL;
	enum taut_status st = taut_comm_create_env(&comm, NULL);
	int good = 0;

	if (st == TAUT_OK)
		st = taut_stream_create(&stream);
	if (st == TAUT_OK)
		st = step(comm, stream);
	if (st == TAUT_OK)
		good = right(taut_comm_size(comm));
	if (st != TAUT_OK)
		fprintf(stderr, "streams: %s\n", taut_error_message());
	else
		printf("rank %d: %d blocks are %s\n", taut_comm_rank(comm), BLOCKS, good ? "right" : "wrong");
	taut_stream_destroy(stream);
	taut_comm_destroy(comm);
	return !good;
}
