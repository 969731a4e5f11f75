/* SPDX-License-Identifier: Apache-2.0 */
/* A receive from a rank that has left in order ends with an error that names it, over shared
 * memory and over tcp; what it sent before is still received. */
#include "ranks.h"

static void one_leaves(struct taut_comm *c, int rank, int size, void *arg)
{
	enum taut_status st;
	int v = 7, w = 0;

	(void)arg;
	(void)size;
	if (rank == 1) {
		must(taut_send(&v, 1, TAUT_INT32, 0, 1, c, NULL) == TAUT_OK);
		return;
	}
	if (rank == 2)
		return;
	must(taut_recv(&w, 1, TAUT_INT32, 1, 1, c, NULL) == TAUT_OK && w == 7);
	st = taut_recv(&w, 1, TAUT_INT32, 1, 1, c, NULL);
	must(st == TAUT_ERR_PEER || st == TAUT_ERR_NET);
	must(strstr(taut_error_message(), "rank 1") != NULL);
	must(taut_comm_status(c) == st);
}

int main(void)
{
	int bad = run_ranks(3, one_leaves, NULL);

	setenv("TAUT_WIRE", "tcp", 1);
	bad += run_ranks(3, one_leaves, NULL);
	printf("a rank that has left: %s\n", bad ? "FAILED" : "ok");
	return bad != 0;
}
