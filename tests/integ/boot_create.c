/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of 1 to 17 processes come up, exchange records, and know each other. */
#include "boot_util.h"

static int size;

static void exchange(struct boot *b, int rank)
{
	int mine = rank * 3 + 1, *all = calloc((size_t)size, sizeof(int));
	char text[100] = "";

	for (int round = 0; round < 20; round++) {
		mine += round;
		CHECK(boot_all_gather(b, &mine, sizeof(mine), all) == TAUT_OK);
		for (int r = 0; r < size; r++)
			CHECK(all[r] == mine + 3 * (r - rank));
		if (rank == 0)
			snprintf(text, sizeof(text), "round %d", round);
		CHECK(boot_broadcast(b, text, sizeof(text)) == TAUT_OK);
		CHECK(atoi(text + 6) == round);
		CHECK(boot_barrier(b) == TAUT_OK);
	}
	free(all);
}

static void look(const struct boot *b, int rank)
{
	CHECK(boot_rank(b) == rank);
	CHECK(boot_size(b) == size);
	CHECK(boot_nodes(b) == 1);
	CHECK(boot_peer(b, rank)->pid == getpid());
	for (int r = 0; r < size; r++) {
		CHECK(boot_peer(b, r)->pid == page->pid[r] || page->pid[r] == 0);
		CHECK(boot_peer(b, r)->local_rank == r);
		CHECK(boot_peer(b, r)->node == 0);
		CHECK(boot_peer(b, r)->cpus >= 1);
	}
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, size, 30000, &cfg, NULL) == TAUT_OK);
	if (!b)
		return 1;
	look(b, rank);
	exchange(b, rank);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	static const int sizes[] = { 1, 2, 3, 8, 17 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t start = now_ns();

		size = sizes[i];
		page_new();
		start_ranks(0, size, rank_main);
		wait_ranks(0, size, 0);
		printf("%d processes: %.1f ms\n", size, (double)(now_ns() - start) / 1e6);
	}
	return failures != 0;
}
