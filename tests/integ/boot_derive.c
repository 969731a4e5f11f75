/* SPDX-License-Identifier: Apache-2.0 */
/* Derived groups: halves in reverse order, the same members twice at the same time, nested;
 * one that a member never joins; one whose parent fails meanwhile. */
#include "boot_util.h"

enum { SIZE = 10 };

static struct boot *join_all(int rank, struct config *cfg)
{
	struct boot *b = NULL;

	share_id(rank, cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, cfg, NULL) == TAUT_OK);
	if (!b)
		exit(1);
	return b;
}

static void check_group(struct boot *b, const int *ranks, int n, int me)
{
	int all[SIZE], mine = me;

	CHECK(boot_size(b) == n && ranks[boot_rank(b)] == me);
	CHECK(boot_all_gather(b, &mine, sizeof(mine), all) == TAUT_OK);
	for (int i = 0; i < n; i++) {
		CHECK(all[i] == ranks[i]);
		CHECK(boot_peer(b, i)->pid == page->pid[ranks[i]] && boot_peer(b, i)->local_rank == i);
	}
}

static int halves(int rank)
{
	struct config cfg = test_config();
	struct boot *b = join_all(rank, &cfg), *half = NULL, *twice = NULL, *pair = NULL;
	int ranks[SIZE / 2], duo[2] = { 1, 0 };

	for (int i = 0; i < SIZE / 2; i++)
		ranks[i] = SIZE - 2 - 2 * i + rank % 2;
	CHECK(boot_derive(&half, b, ranks, SIZE / 2, 1, 20000, NULL) == TAUT_OK);
	CHECK(boot_derive(&twice, b, ranks, SIZE / 2, 2, 20000, NULL) == TAUT_OK);
	check_group(half, ranks, SIZE / 2, rank);
	check_group(twice, ranks, SIZE / 2, rank);
	if (boot_rank(half) < 2) {
		int names[2] = { ranks[1], ranks[0] };

		CHECK(boot_derive(&pair, half, duo, 2, 1, 20000, NULL) == TAUT_OK);
		check_group(pair, names, 2, rank);
	}
	boot_close(half);
	check_group(twice, ranks, SIZE / 2, rank);
	/* The parent may go first. */
	CHECK(boot_barrier(b) == TAUT_OK);
	boot_close(b);
	check_group(twice, ranks, SIZE / 2, rank);
	boot_close(twice);
	boot_close(pair);
	config_cleanup(&cfg);
	return 0;
}

static int incomplete(int rank)
{
	struct config cfg = test_config();
	struct boot *b = join_all(rank, &cfg), *d = NULL;
	int ranks[SIZE], wrong[2] = { (rank + 1) % SIZE, (rank + 2) % SIZE };
	char want[64];

	for (int i = 0; i < SIZE; i++)
		ranks[i] = i;
	CHECK(boot_derive(&d, b, wrong, 2, 5, 1000, NULL) == TAUT_ERR_ARG);
	if (rank != 7) {
		CHECK(boot_derive(&d, b, ranks, SIZE, 3, 2000, NULL) == TAUT_ERR_TIMEOUT);
		snprintf(want, sizeof(want), "1 of %d ranks did not join within 2000 ms: rank 7 (host ", SIZE);
		CHECK(strstr(taut_error_message(), want));
		say(rank, taut_error_message());
	}
	CHECK(boot_barrier(b) == TAUT_OK); /* the parent is as it was */
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

/* Rank @victim dies before it derives; all others are told soon, also where no edge is. */
static int victim;

static int killed(int rank)
{
	struct config cfg = test_config();
	struct boot *b = join_all(rank, &cfg), *d = NULL;
	int ranks[SIZE];
	enum taut_status st;

	for (int i = 0; i < SIZE; i++)
		ranks[i] = i;
	CHECK(boot_barrier(b) == TAUT_OK);
	if (rank == victim) {
		sleep_ms(150);
		kill(getpid(), SIGKILL);
	}
	st = boot_derive(&d, b, ranks, SIZE, 3, 20000, NULL);
	CHECK(st == TAUT_ERR_PEER);
	atomic_store(&page->when[rank], now_ns());
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void run_killed(int rank)
{
	uint64_t start = now_ns();

	victim = rank;
	page_new();
	start_ranks(0, SIZE, killed);
	for (int r = 0; r < SIZE; r++) {
		int rc = wait_rank(r);

		CHECK(rc == (r == victim ? 128 + SIGKILL : 0));
	}
	CHECK(now_ns() - start < 30000000000u);
	printf("rank %d killed: all ended after %.0f ms\n", rank, (double)(now_ns() - start) / 1e6);
}

static void all(int (*run)(int rank))
{
	page_new();
	start_ranks(0, SIZE, run);
	wait_ranks(0, SIZE, 0);
}

int main(void)
{
	log_now.level = LOG_NONE;
	all(halves);
	all(incomplete);
	run_killed(0);
	run_killed(1);
	run_killed(9);
	return failures != 0;
}
