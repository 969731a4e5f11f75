/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank gives its number; every rank gets the sum: taut run -n 2 ./first */
#include <stdio.h>
#include <taut/taut.h>

int main(void)
{
	struct taut_comm *comm;

	if (taut_comm_create_env(&comm, NULL) != TAUT_OK) {
		fprintf(stderr, "first: %s\n", taut_error_message());
		return 1;
	}
	float mine = (float)taut_comm_rank(comm), sum;
	enum taut_status st = taut_all_reduce(&mine, &sum, 1, TAUT_FLOAT32, TAUT_SUM, comm, NULL);

	if (st == TAUT_OK)
		printf("rank %d of %d: the sum is %g\n", taut_comm_rank(comm), taut_comm_size(comm), (double)sum);
	else
		fprintf(stderr, "first: %s\n", taut_error_message());
	taut_comm_destroy(comm);
	return st != TAUT_OK;
}
