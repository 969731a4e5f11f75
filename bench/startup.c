/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a launcher: joins, does one all-reduce, and rank 0 says when all were done
 * and what it has cost. For bench/peers. Prints one JSON object: clock is
 * CLOCK_MONOTONIC; *_kib is growth of memory from before joining until after the all-reduce, mean
 * and largest over the ranks (Pss: pages that processes share count in parts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/taut.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double pss_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lf kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static int failed(const char *what)
{
	fprintf(stderr, "startup: %s: %s\n", what, taut_error_message());
	return EXIT_FAILURE;
}

int main(void)
{
	double before = pss_kib(), clock, mean, most;
	struct taut_comm *comm;
	float v = 1;
	int size;

	if (taut_comm_create_env(&comm, NULL))
		return failed("create");
	size = taut_comm_size(comm);
	if (taut_all_reduce(&v, &v, 1, TAUT_FLOAT32, TAUT_SUM, comm, NULL))
		return failed("all-reduce");
	clock = now();
	mean = most = pss_kib() - before;
	if (taut_all_reduce(&clock, &clock, 1, TAUT_FLOAT64, TAUT_MAX, comm, NULL) ||
	    taut_all_reduce(&most, &most, 1, TAUT_FLOAT64, TAUT_MAX, comm, NULL) ||
	    taut_all_reduce(&mean, &mean, 1, TAUT_FLOAT64, TAUT_AVG, comm, NULL) || taut_barrier(comm, NULL))
		return failed("all-reduce");
	if (taut_comm_rank(comm) == 0)
		printf("{\"ranks\": %d, \"clock\": %.6f, \"mean_kib\": %.0f, \"most_kib\": %.0f, \"wrong\": %d}\n",
		       size, clock, mean, most, v != (float)size);
	taut_comm_destroy(comm);
	return EXIT_SUCCESS;
}
