/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks come up, do one verified all-reduce and a barrier, and go: 1,024 as threads of four processes, 256 as
 * processes. `integ_scale RANKS PROCESSES` measures one such group, `integ_scale table` those of docs/BENCHMARKS.md:
 * time until all are done, and memory beyond that of the processes before they joined (Pss, which counts shared pages
 * in parts), a rank and in all. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "ranks.h"

#if defined(__SANITIZE_THREAD__)
#define THREADS 256 /* the thread sanitizer takes minutes for 1,024 threads */
#else
#define THREADS 1024
#endif
#define STACK ((size_t)256 << 10)
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MOST_KIB (1 << 20) /* a sanitizer's own memory counts here too */
#else
#define MOST_KIB 8192 /* a rank */
#endif

static struct meeting {
	struct taut_id id;
	atomic_int have_id, measured, bad;
	atomic_long kib;
} * page;
static int size, nprocs;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long pss_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %ld kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static void meet(int rank)
{
	if (rank == 0) {
		must(taut_id_create(&page->id) == TAUT_OK);
		atomic_store(&page->have_id, 1);
	}
	while (!atomic_load(&page->have_id))
		usleep(1000);
}

struct member {
	pthread_t thread;
	int rank;
	bool first; /* of its process: measures for all of them */
	long before;
};

static void measure(const struct member *m)
{
	if (m->first) {
		atomic_fetch_add(&page->kib, pss_kib() - m->before);
		atomic_fetch_add(&page->measured, 1);
	}
}

static void *rank_thread(void *arg)
{
	const struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = 110000 };
	struct member *m = arg;
	struct taut_comm *comm;
	int64_t v[2] = { m->rank, 1 }, sum[2], wait = 0;

	meet(m->rank);
	must(taut_comm_create(&comm, &page->id, m->rank, size, &opts) == TAUT_OK);
	must(taut_all_reduce(v, sum, 2, TAUT_INT64, TAUT_SUM, comm, NULL) == TAUT_OK);
	if (sum[0] != (int64_t)size * (size - 1) / 2 || sum[1] != size)
		atomic_fetch_add(&page->bad, 1);
	must(taut_barrier(comm, NULL) == TAUT_OK);
	measure(m);
	/* Nobody goes before all have measured. */
	must(taut_all_reduce(&wait, &wait, 1, TAUT_INT64, TAUT_MAX, comm, NULL) == TAUT_OK);
	taut_comm_destroy(comm);
	return NULL;
}

static void process(int p)
{
	struct member *all = calloc((size_t)size, sizeof(*all));
	long before = pss_kib();
	pthread_attr_t attr;
	int n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (int r = p; r < size; r += nprocs, n++) {
		all[n] = (struct member){ .rank = r, .first = n == 0, .before = before };
		must(pthread_create(&all[n].thread, &attr, rank_thread, &all[n]) == 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(all[i].thread, NULL);
	free(all);
	exit(0);
}

static int run(int ranks, int processes)
{
	double start = now();
	static pid_t pids[1024]; /* static: the children end without it being anybody's */
	long kib;
	int bad;

	size = ranks;
	nprocs = processes;
	memset(page, 0, sizeof(*page));
	fflush(NULL);
	for (int p = 0; p < processes; p++) {
		pids[p] = fork();
		must(pids[p] >= 0);
		if (pids[p] == 0)
			process(p);
	}
	bad = end_ranks(processes, pids) + atomic_load(&page->bad);
	kib = atomic_load(&page->kib);
	printf("%5d ranks in %4d processes: %6.2f s, %6ld KiB a rank, %8ld KiB in all%s\n", ranks, processes,
	       now() - start, kib / ranks, kib, bad ? ": FAILED" : "");
	fflush(stdout);
	if (kib / ranks > MOST_KIB)
		fprintf(stderr, "%ld KiB a rank, wanted: at most %d\n", kib / ranks, MOST_KIB);
	return bad || kib / ranks > MOST_KIB;
}

int main(int argc, char **argv)
{
	int bad = 0;

	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(page != MAP_FAILED);
	if (argc > 2)
		return run(atoi(argv[1]), atoi(argv[2]));
	for (int n = 2; argc > 1 && n <= 256; n = n == 2 ? 16 : n * 4 > 256 ? 257 : n * 4)
		bad |= run(n, n);
	if (argc > 1)
		bad |= run(256, 4);
	else
		bad = run(256, 256);
	return bad | run(THREADS, 4);
}
