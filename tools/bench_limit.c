/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_limit.h"

#include <stdio.h>

#define LARGEST ((size_t)128 << 20) /* beyond, the rate is that of memory and stays */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

size_t bench_memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	size_t kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

enum taut_status bench_limit_measure(struct limits *out, const struct bench_opts *opts, int ranks, bool tcp,
				     bool whole_machine)
{
	struct limits_opts lo = { .what = LIMITS_COPY | LIMITS_TRIP, .min_bytes = 4096, .point_ms = 4 };
	int cpus[LIMITS_MAX_CORES];
	size_t room, largest = 4096;

	if (ranks == 1)
		return TAUT_OK;
	lo.whole_machine = whole_machine;
	lo.cores = min_int(ranks, (whole_machine ? limits_machine_cpus : limits_cpus)(cpus, LIMITS_MAX_CORES));
	for (size_t i = 0; i < opts->nsizes; i++)
		largest = opts->sizes[i] > largest ? opts->sizes[i] : largest;
	room = bench_memory_available() / 8 / (size_t)lo.cores;
	if (room && largest > room)
		largest = room;
	lo.max_bytes = (largest < LARGEST ? largest : LARGEST) & ~(size_t)4095;
	if (tcp)
		lo.what |= LIMITS_TCP;
	return limits_measure(out, &lo);
}

static double memory_us(const struct limits *l, const struct bench_opts *opts, size_t bytes, int ranks, bool in_place)
{
	double moved = bench_read_bytes(opts->coll, (double)bytes, ranks) +
		       bench_write_bytes(opts->coll, (double)bytes, ranks, in_place);
	double rate = limits_rate(&l->copy, bytes, min_int(ranks, l->cores), l->cores);

	return rate > 0 ? moved / 2 / (rate * 1e3) : 0;
}

static double tcp_us(const struct limits *l, const struct bench_opts *opts, size_t bytes, int ranks)
{
	double rate = limits_rate(&l->tcp, bytes, 1, 1) * min_int(ranks, l->cores);

	return rate > 0 ? bench_sent_bytes(opts->coll, (double)bytes, ranks) / (rate * 1e3) : 0;
}

double bench_limit_us(const struct limits *l, const struct bench_opts *opts, size_t bytes, int ranks, bool in_place,
		      bool tcp)
{
	bool trip = !opts->coll->rooted || opts->root == BENCH_ALL_ROOTS;

	if (ranks == 1 || (!bytes && opts->coll->kind != BENCH_BARRIER)) /* the ranks need nothing of each other */
		return 0;
	if (tcp)
		return l->tcp.n ? tcp_us(l, opts, bytes, ranks) + (trip ? l->tcp_trip_us : 0) : 0;
	return memory_us(l, opts, bytes, ranks, in_place) + (trip ? l->trip_us : 0);
}
