/* SPDX-License-Identifier: Apache-2.0 */
/* After several deaths at once, with exclusions, after an abort and with nobody dead: all
 * survivors get the same list and can derive a group from it. */
#include "boot_util.h"

enum { SIZE = 12 };

static uint32_t dying, excluded; /* bits */
static bool aborted, late;

static bool bit(uint32_t set, int rank)
{
	return set >> rank & 1;
}

static void check_list(const int *ranks, int n)
{
	int at = 0;

	for (int r = 0; r < SIZE; r++)
		if (!bit(dying | excluded, r))
			CHECK(at < n && ranks[at++] == r);
	CHECK(at == n);
}

static void go_on(struct boot *b, int rank)
{
	int exclude[SIZE], nexclude = 0, *ranks = NULL, n = 0, all[SIZE];
	uint32_t number = 0;
	struct boot *d = NULL;

	for (int r = 0; r < SIZE; r++)
		if (bit(excluded, r))
			exclude[nexclude++] = r;
	CHECK(boot_survivors(&ranks, &n, &number, b, exclude, nexclude, 10000, NULL) == TAUT_OK);
	if (!ranks)
		return;
	check_list(ranks, n);
	CHECK(boot_derive(&d, b, ranks, n, 99, 10000, NULL) == TAUT_OK);
	if (d) {
		CHECK(boot_all_gather(d, &rank, sizeof(rank), all) == TAUT_OK);
		CHECK(!memcmp(all, ranks, (size_t)n * sizeof(int)));
	}
	boot_close(d);
	mem_free(ranks);
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;
	enum taut_status st = TAUT_OK;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(boot_barrier(b) == TAUT_OK);
	if (aborted && rank == 4)
		boot_abort(b);
	if (bit(dying, rank)) {
		atomic_fetch_add(&page->counter[0], 1);
		sleep_ms(60000);
	}
	while ((dying || aborted) && !st)
		st = boot_barrier(b);
	CHECK(st == (dying ? TAUT_ERR_PEER : aborted ? TAUT_ERR_ABORTED : TAUT_OK));
	if (late && rank % 3 == 0)
		sleep_ms(400);
	if (!bit(excluded, rank))
		go_on(b, rank);
	else
		sleep_ms(1000);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void once(uint32_t dead, uint32_t exclude, bool abort_first, bool some_late)
{
	uint64_t start = now_ns();
	int n = 0;

	dying = dead;
	excluded = exclude;
	aborted = abort_first;
	late = some_late;
	page_new();
	start_ranks(0, SIZE, rank_main);
	for (int r = 0; r < SIZE; r++)
		n += bit(dead, r);
	wait_counter(0, n);
	for (int r = 0; r < SIZE; r++)
		if (bit(dead, r))
			kill(page->pid[r], SIGKILL);
	for (int r = 0; r < SIZE; r++) {
		int rc = wait_rank(r);

		if (rc != (bit(dead, r) ? 128 + SIGKILL : 0)) {
			fprintf(stderr, "dead %x excluded %x: rank %d ended with %d\n", dead, exclude, r, rc);
			failures++;
		}
	}
	printf("dead %03x, excluded %03x: %.0f ms\n", dead, exclude, (double)(now_ns() - start) / 1e6);
}

/* One that lives, but does not ask. */
static int silent(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;
	int *ranks = NULL, n;
	uint32_t number;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, 4, 20000, &cfg, NULL) == TAUT_OK);
	if (rank == 2) {
		wait_counter(0, 3);
	} else {
		CHECK(boot_survivors(&ranks, &n, &number, b, NULL, 0, 4000, NULL) == TAUT_ERR_TIMEOUT);
		CHECK(strstr(taut_error_message(),
			     "1 of 4 ranks live, but did not ask for the survivors within 4000 ms: 2"));
		atomic_fetch_add(&page->counter[0], 1);
	}
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	log_now.level = LOG_NONE;
	once(0, 0, false, false);
	once(0, 0, true, true);
	once(1u << 5, 0, false, false);
	once(1u << 0, 0, false, true);
	once(1u << 0 | 1u << 1 | 1u << 2, 0, false, false);
	once(1u << 3 | 1u << 7 | 1u << 11, 1u << 0, false, true);
	once(0, 1u << 0 | 1u << 6, false, false);
	once(0x7ff, 0, false, false);
	page_new();
	start_ranks(0, 4, silent);
	wait_ranks(0, 4, 0);
	return failures != 0;
}
