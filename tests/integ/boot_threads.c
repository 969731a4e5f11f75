/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks as threads: 64 in one process, 96 in three, 1,024 in four. Argument: ranks and
 * processes, for measuring. */
#include <sys/resource.h>

#include "boot_util.h"

static int size, nprocs, proc;

static void *rank_main(void *arg)
{
	int rank = (int)(intptr_t)arg, mine = rank, *all = calloc((size_t)size, sizeof(int));
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, size, 60000, &cfg, NULL) == TAUT_OK);
	if (b) {
		CHECK(boot_peer(b, size - 1)->local_rank == size - 1);
		CHECK(boot_all_gather(b, &mine, sizeof(mine), all) == TAUT_OK);
		for (int r = 0; r < size; r++)
			if (all[r] != r)
				failures++;
		CHECK(boot_barrier(b) == TAUT_OK);
		boot_close(b);
	}
	free(all);
	config_cleanup(&cfg);
	return NULL;
}

/* Ranks are dealt out: neighbours in the tree are mostly in other processes. */
static int proc_main(int p)
{
	int n = 0;
	pthread_t *threads = calloc((size_t)size, sizeof(*threads));
	pthread_attr_t attr;
	struct rusage use;

	proc = p;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (int r = p; r < size; r += nprocs)
		if (pthread_create(&threads[n++], &attr, rank_main, (void *)(intptr_t)r))
			exit(1);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	getrusage(RUSAGE_SELF, &use);
	atomic_fetch_add(&page->counter[1], (int)use.ru_maxrss);
	return 0;
}

static void run(int ranks, int processes)
{
	uint64_t start = now_ns();

	size = ranks;
	nprocs = processes;
	page_new();
	start_ranks(0, processes, proc_main);
	wait_ranks(0, processes, 0);
	printf("%d ranks in %d processes: %.0f ms, at most %d KiB in all\n", ranks, processes,
	       (double)(now_ns() - start) / 1e6, atomic_load(&page->counter[1]));
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		run(atoi(argv[1]), atoi(argv[2]));
		return failures != 0;
	}
	run(64, 1);
	run(96, 3);
	run(1024, 4);
	run(256, 256);
	return failures != 0;
}
