/* SPDX-License-Identifier: Apache-2.0 */
/* An id that another process than rank 0 has made: another rank, or one that is no rank at all. Ranks come before rank
 * 0 and after it. A maker that is gone is told of; one with another secret admits nobody. */
#include "boot/auth.h"
#include "boot/id.h"
#include "boot_util.h"

enum { SIZE = 7, NOBODY = SIZE };

static int maker;    /* a rank, or NOBODY */
static int last = 0; /* the rank that comes when all others wait */
static bool tampered;

/* Wait until so many have come, and for what they do then. */
static void come_after(int others)
{
	wait_counter(0, others);
	sleep_ms(30);
}

static void make_id(int rank, const struct config *cfg)
{
	if (rank == maker) {
		if (boot_id_create(&page->id, cfg))
			exit(1);
		atomic_store(&page->id_there, 1);
	}
	while (!atomic_load(&page->id_there))
		sleep_ms(2);
}

static void spoil_secret(struct taut_id *id)
{
	struct id_parts p;

	CHECK(id_unpack(&p, id) == TAUT_OK);
	p.secret[5] ^= 1;
	id_pack(id, &p);
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	int all[SIZE], timeout = tampered ? 1500 : 30000;
	struct boot *b = NULL;
	struct taut_id id;
	enum taut_status st;

	make_id(rank, &cfg);
	id = page->id;
	if (rank == NOBODY) { /* lives as long as it is needed */
		wait_counter(1, SIZE);
		config_cleanup(&cfg);
		return 0;
	}
	if (tampered && rank == 0)
		spoil_secret(&id);
	if (rank == last)
		come_after(SIZE - 1);
	atomic_fetch_add(&page->counter[0], 1);
	st = boot_create(&b, &id, rank, SIZE, timeout, &cfg, NULL);
	CHECK(!st == !tampered);
	if (st)
		say(rank, taut_error_message());
	else
		CHECK(boot_all_gather(b, &rank, sizeof(rank), all) == TAUT_OK && all[SIZE - 1] == SIZE - 1);
	atomic_fetch_add(&page->counter[1], 1);
	wait_counter(1, SIZE);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void once(int from, int late)
{
	maker = from;
	last = late;
	page_new();
	start_ranks(0, from == NOBODY ? SIZE + 1 : SIZE, rank_main);
	wait_ranks(0, from == NOBODY ? SIZE + 1 : SIZE, 0);
}

/* Two groups of one process, whose ids another one has made. */
static int two_groups(int rank)
{
	struct config cfg = test_config();
	struct boot *a = NULL, *b = NULL;
	struct taut_id *second = (void *)page->said[NOBODY];

	if (rank == 1) {
		CHECK(boot_id_create(&page->id, &cfg) == TAUT_OK && boot_id_create(second, &cfg) == TAUT_OK);
		atomic_store(&page->id_there, 1);
	}
	make_id(-1, &cfg);
	CHECK(boot_create(&a, &page->id, rank, 2, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(boot_create(&b, second, 1 - rank, 2, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(a && b && boot_barrier(a) == TAUT_OK && boot_barrier(b) == TAUT_OK);
	boot_close(a);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static int maker_dies(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	make_id(rank, &cfg);
	if (rank != NOBODY) {
		wait_counter(0, 1);
		CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, NULL) == TAUT_ERR_PEER);
		say(rank, taut_error_message());
	}
	config_cleanup(&cfg);
	return 0;
}

static void a_maker_that_is_gone_is_told_of(void)
{
	maker = NOBODY;
	page_new();
	start_ranks(0, SIZE + 1, maker_dies);
	wait_ranks(NOBODY, 1, 0);
	atomic_store(&page->counter[0], 1);
	wait_ranks(0, SIZE, 0);
	CHECK(strstr(page->said[0], "rank 0 is another process than the one that made the id, at "));
	CHECK(strstr(page->said[3], "the process that made the id no longer listens"));
}

int main(void)
{
	log_now.level = LOG_NONE;
	once(SIZE - 1, 0);
	once(3, SIZE - 2);
	once(NOBODY, 0);
	once(NOBODY, 4);
	page_new();
	start_ranks(0, 2, two_groups);
	wait_ranks(0, 2, 0);
	a_maker_that_is_gone_is_told_of();
	tampered = true;
	once(NOBODY, 0);
	CHECK(strstr(page->said[0], "another secret"));
	return failures != 0;
}
