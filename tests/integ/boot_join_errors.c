/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong while a group forms: ranks that do not come, come twice, with another
 * size or with another secret. Every rank says what it was. */
#include "boot/id.h"
#include "boot_util.h"

enum { SIZE = 12 };

static int absent_a, absent_b;

static int with_absent(int rank)
{
	struct config cfg;
	struct boot *b = NULL;

	if (rank == absent_a || rank == absent_b)
		return 0;
	cfg = test_config();
	share_id(rank, &cfg);
	atomic_fetch_add(&page->counter[0], 1);
	wait_counter(0, absent_b < 0 ? SIZE - 1 : SIZE - 2); /* so that only the absent are late */
	CHECK(boot_create(&b, &page->id, rank, SIZE, 2000, &cfg, NULL) == TAUT_ERR_TIMEOUT);
	CHECK(b == NULL);
	say(rank, taut_error_message());
	config_cleanup(&cfg);
	return 0;
}

static void absent(int a, int b, const char *want)
{
	page_new();
	absent_a = a;
	absent_b = b;
	start_ranks(0, SIZE, with_absent);
	wait_ranks(0, SIZE, 0);
	for (int r = 0; r < SIZE; r++)
		if (r != a && r != b && strcmp(page->said[r], want)) {
			fprintf(stderr, "rank %d says \"%s\", wanted \"%s\"\n", r, page->said[r], want);
			failures++;
		}
}

/* Rank 0 has made the id, but does not join. */
static int without_rank_0(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	if (rank == 0) {
		sleep_ms(1500);
	} else {
		CHECK(boot_create(&b, &page->id, rank, SIZE, 300, &cfg, NULL) == TAUT_ERR_TIMEOUT);
		CHECK(strstr(taut_error_message(), "rank 0 at ") &&
		      strstr(taut_error_message(), "TAUT_JOIN_TIMEOUT_MS"));
	}
	config_cleanup(&cfg);
	return 0;
}

static int with_other_size(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	if (rank == 3)
		wait_counter(0, 3); /* the last one */
	atomic_fetch_add(&page->counter[0], 1);
	CHECK(boot_create(&b, &page->id, rank, rank == 3 ? 5 : 4, 20000, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(strstr(taut_error_message(), "rank 3 (host ") &&
	      strstr(taut_error_message(), "joins with size 5, rank 0 with size 4"));
	config_cleanup(&cfg);
	return 0;
}

/* Ranks 0, 1, 2, and 2 again; nobody is rank 3. */
static int with_twin(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank == 3 ? 2 : rank, 4, 20000, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(strstr(taut_error_message(), "two processes join as rank 2: rank 2 (host "));
	say(rank, taut_error_message());
	config_cleanup(&cfg);
	return 0;
}

static int with_other_secret(int rank)
{
	struct config cfg = test_config();
	struct taut_id id;
	struct id_parts parts;
	struct boot *b = NULL;

	share_id(rank, &cfg);
	atomic_fetch_add(&page->counter[0], 1);
	wait_counter(0, 3);
	id = page->id;
	if (rank == 2) {
		CHECK(id_unpack(&parts, &id) == TAUT_OK);
		parts.secret[7] ^= 1;
		id_pack(&id, &parts);
		CHECK(boot_create(&b, &id, rank, 3, 20000, &cfg, NULL) == TAUT_ERR_AUTH);
		CHECK(strstr(taut_error_message(), "have different secrets"));
	} else {
		CHECK(boot_create(&b, &id, rank, 3, 2000, &cfg, NULL) == TAUT_ERR_TIMEOUT);
		CHECK(strstr(taut_error_message(),
			     "1 of 3 ranks did not join within 2000 ms: 2 (TAUT_JOIN_TIMEOUT_MS); 1 connection"));
		CHECK((boot_rejected() == 1) == (rank == 0));
	}
	config_cleanup(&cfg);
	return 0;
}

static void bad_arguments(void)
{
	struct config cfg = test_config();
	struct taut_id id = { { 0 } };
	struct boot *b = NULL;

	CHECK(boot_create(&b, &id, 0, 2, 100, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(strstr(taut_error_message(), "not made by taut (taut_id_create())"));
	CHECK(boot_create(&b, &id, 2, 2, 100, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(boot_create(&b, &id, -1, 2, 100, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(boot_create(&b, &id, 0, 0, 100, &cfg, NULL) == TAUT_ERR_ARG);
	memcpy(id.bytes, "TAUT", 4);
	CHECK(boot_create(&b, &id, 0, 2, 100, &cfg, NULL) == TAUT_ERR_ARG && strstr(taut_error_message(), "version"));
	CHECK(config_set(&cfg, "TAUT_SOCKET_IFNAME", "nosuch") == TAUT_OK);
	CHECK(boot_id_create(&id, &cfg) == TAUT_ERR_CONFIG);
	CHECK(strstr(taut_error_message(), "TAUT_SOCKET_IFNAME \"nosuch\"") && strstr(taut_error_message(), " lo"));
	config_cleanup(&cfg);
}

/* Two threads of one process with the same rank. */
static int twin_thread(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL, *c = NULL;

	(void)rank;
	share_id(0, &cfg);
	CHECK(boot_create(&b, &page->id, 0, 1, 1000, &cfg, NULL) == TAUT_OK);
	CHECK(boot_create(&c, &page->id, 0, 1, 1000, &cfg, NULL) == TAUT_ERR_ARG);
	CHECK(strstr(taut_error_message(), "already in this process"));
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void all(int n, int (*run)(int rank))
{
	page_new();
	start_ranks(0, n, run);
	wait_ranks(0, n, 0);
}

int main(void)
{
	log_now.level = LOG_NONE;
	absent(5, -1, "1 of 12 ranks did not join within 2000 ms: 5 (TAUT_JOIN_TIMEOUT_MS)");
	absent(1, 2, "2 of 12 ranks did not join within 2000 ms: 1-2 (TAUT_JOIN_TIMEOUT_MS)");
	absent(1, 11, "2 of 12 ranks did not join within 2000 ms: 1, 11 (TAUT_JOIN_TIMEOUT_MS)");
	all(SIZE, without_rank_0);
	all(4, with_other_size);
	all(4, with_twin);
	all(3, with_other_secret);
	all(1, twin_thread);
	bad_arguments();
	return failures != 0;
}
