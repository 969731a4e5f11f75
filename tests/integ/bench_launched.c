/* SPDX-License-Identifier: Apache-2.0 */
/* `taut bench` started by a launcher is one rank of it: one table, from rank 0. */
#include "run_taut.h"

static int count(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

int main(void)
{
	char *taut = taut_command();
	struct ran *r = TAUT("run", "-n", "3", taut, "bench", "all_reduce", "--sizes", "8,4K", "--iters", "3",
			     "--batch", "2", "--warmup", "1");

	if (r->code)
		fprintf(stderr, "%s%s", r->out, r->err);
	CHECK(r->code == 0);
	CHECK(count(r->out, "# Avg bus bandwidth") == 1);
	CHECK(count(r->out, "all_reduce, 3 ranks (run), wire shm") == 1);
	CHECK(count(r->out, "# Out of bounds values : 0 OK") == 1);

	r = TAUT("run", "-n", "2", taut, "bench", "all_reduce", "--sizes", "8", "--ranks", "5");
	CHECK(r->code == 1 && strstr(r->err, "--ranks 5: run has started 2"));
	r = TAUT("run", "-n", "2", taut, "bench", "all_reduce", "--mode", "threads");
	CHECK(r->code == 2 && strstr(r->err, "--mode threads: the ranks were started by run"));
	return 0;
}
