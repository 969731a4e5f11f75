/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 of the top, an inner rank and a leaf at any moment of coming up and afterwards:
 * nobody else hangs, and all say who it was. */
#include "boot_util.h"

enum { SIZE = 9, JOIN_MS = 2500, LIMIT_MS = 50000 };

static int victim;

static void *watchdog(void *arg)
{
	(void)arg;
	sleep_ms(LIMIT_MS);
	fprintf(stderr, "pid %d hangs after the death of rank %d\n", (int)getpid(), victim);
	_exit(3);
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	enum taut_status st;
	struct boot *b = NULL;
	pthread_t dog;
	char want[32];

	pthread_create(&dog, NULL, watchdog, NULL);
	share_id(rank, &cfg);
	st = boot_create(&b, &page->id, rank, SIZE, JOIN_MS, &cfg, NULL);
	if (!st)
		atomic_fetch_add(&page->counter[1], 1);
	while (!st)
		st = boot_barrier(b);
	atomic_store(&page->when[rank], now_ns());
	say(rank, taut_error_message());
	/* A rank that had not checked in yet is missing, not dead. */
	if (st == TAUT_ERR_TIMEOUT)
		atomic_fetch_add(&page->counter[2], 1);
	CHECK(st == TAUT_ERR_PEER || st == TAUT_ERR_TIMEOUT);
	snprintf(want, sizeof(want), "rank %d ", victim);
	/* One that starts late may find that rank 0 has already given up for this reason. */
	if (st == TAUT_ERR_PEER)
		CHECK(strstr(taut_error_message(), want) || strstr(taut_error_message(), "rank 0 is gone"));
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static int slow_deaths;

static void once(int rank, unsigned after_us)
{
	uint64_t killed, told = 0;

	victim = rank;
	page_new();
	start_ranks(0, SIZE, rank_main);
	for (int i = 0; i < 5000 && !atomic_load(&page->id_there); i++)
		sleep_ms(1);
	usleep(after_us);
	killed = now_ns();
	kill(page->pid[rank], SIGKILL);
	for (int r = 0; r < SIZE; r++) {
		int rc = wait_rank(r);

		if (r != rank && rc) {
			fprintf(stderr, "rank %d ended with %d after the death of rank %d at %u us: %s\n", r, rc, rank,
				after_us, page->said[r]);
			failures++;
		}
		if (r != rank && atomic_load(&page->when[r]) > told)
			told = atomic_load(&page->when[r]);
	}
	slow_deaths += !atomic_load(&page->counter[2]) && told > killed + 8000000000u;
	printf("rank %d killed after %5u us: told after %7.1f ms, %d had come up, %d say missing: %s\n", rank, after_us,
	       (double)(told - killed) / 1e6, atomic_load(&page->counter[1]), atomic_load(&page->counter[2]),
	       page->said[rank ? 0 : 1]);
}

int main(int argc, char **argv)
{
	static const int roles[] = { 0, 1, 2, 8 };
	int rounds = argc > 1 ? atoi(argv[1]) : 6;

	log_now.level = LOG_NONE;
	srand((unsigned)(argc > 2 ? atoi(argv[2]) : 1));
	for (int i = 0; i < rounds; i++)
		for (size_t k = 0; k < sizeof(roles) / sizeof(roles[0]); k++)
			once(roles[k], i == 0 ? 0 : i == 1 ? 300000 : (unsigned)rand() % 12000);
	CHECK(slow_deaths == 0);
	return failures != 0;
}
