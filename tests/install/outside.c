/* SPDX-License-Identifier: Apache-2.0 */
/* What a program outside the tree does: include, link, and sum 1 + ... + size over the ranks. */
#include <stdio.h>
#include <taut/taut.h>

int main(void)
{
	struct taut_comm *comm = NULL;
	int64_t sum = 0;

	if (taut_version() != TAUT_VERSION_MAJOR * 10000 + TAUT_VERSION_MINOR * 100 + TAUT_VERSION_PATCH) {
		fprintf(stderr, "outside: header and library differ: library has version %d\n", taut_version());
		return 1;
	}
	if (taut_comm_create_env(&comm, NULL) != TAUT_OK) {
		fprintf(stderr, "outside: %s\n", taut_error_message());
		return 1;
	}
	int64_t mine = taut_comm_rank(comm) + 1;
	enum taut_status st = taut_all_reduce(&mine, &sum, 1, TAUT_INT64, TAUT_SUM, comm, NULL);

	if (st == TAUT_OK)
		printf("rank %d: sum of %d ranks is %lld\n", taut_comm_rank(comm), taut_comm_size(comm),
		       (long long)sum);
	else
		fprintf(stderr, "outside: %s\n", taut_error_message());
	taut_comm_destroy(comm);
	return st != TAUT_OK;
}
