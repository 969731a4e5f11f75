/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that leave in order are not dead; the tree of the others mends, so that an abort, a
 * death and a question still reach all that stay; an exchange with one that left fails. */
#include "boot_util.h"

enum { SIZE = 22 };

static uint32_t leaving;
static int me, aborter;
static atomic_int events, asked;
static bool die, hosts;

static bool leaves(int rank)
{
	return leaving >> rank & 1;
}

static void on_event(void *ctx, const struct boot_event *e)
{
	(void)ctx;
	say(me, e->text);
	CHECK(e->kind == (die ? BOOT_EVENT_DEAD : BOOT_EVENT_ABORT));
	CHECK(e->rank == aborter);
	atomic_fetch_add(&events, 1);
}

static bool describe(void *ctx, uint64_t seq, uint64_t *sig, char *text, size_t len)
{
	(void)ctx;
	(void)seq;
	*sig = 1;
	snprintf(text, len, "same");
	if (!atomic_fetch_add(&asked, 1))
		atomic_fetch_add(&page->counter[3], 1);
	return true;
}

/* The tree is whole again when a question comes to all that stay. */
static void wait_mended(struct boot *b, int rank)
{
	int stayers = SIZE - __builtin_popcount(leaving);

	for (int i = 0; i < 300 && atomic_load(&page->counter[3]) < stayers; i++) {
		if (rank == aborter)
			boot_query_call(b, 1);
		sleep_ms(100);
	}
	CHECK(atomic_load(&page->counter[3]) == stayers);
	CHECK(atomic_load(&events) == 0);
	atomic_fetch_add(&page->counter[0], 1);
	wait_counter(0, stayers);
}

static void stay(struct boot *b, int rank)
{
	wait_counter(4, __builtin_popcount(leaving)); /* all who leave are gone */
	wait_mended(b, rank);
	if (rank == aborter && die)
		kill(getpid(), SIGKILL);
	if (rank == aborter)
		boot_abort(b);
	for (int i = 0; i < 20000 && !atomic_load(&events); i++)
		sleep_ms(1);
	CHECK(atomic_load(&events) == 1);
	CHECK(boot_barrier(b) == (die ? TAUT_ERR_PEER : TAUT_ERR_ABORTED));
}

static int rank_main(int rank)
{
	struct boot_callbacks cb = { .on_event = on_event, .describe = describe };
	struct config cfg = test_config();
	struct boot *b = NULL;

	me = rank;
	if (hosts)
		CHECK(config_set(&cfg, "TAUT_HOSTID", rank % 2 ? "odd" : "even") == TAUT_OK);
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, &cb) == TAUT_OK);
	CHECK(boot_barrier(b) == TAUT_OK);
	if (leaves(rank))
		sleep_ms((unsigned)(rank * 7 % 40)); /* some at once, some apart */
	else
		stay(b, rank);
	boot_close(b);
	if (leaves(rank))
		atomic_fetch_add(&page->counter[4], 1);
	config_cleanup(&cfg);
	return 0;
}

static void once(uint32_t set, int who, bool dies)
{
	leaving = set;
	aborter = who;
	die = dies;
	page_new();
	start_ranks(0, SIZE, rank_main);
	for (int r = 0; r < SIZE; r++) {
		int rc = wait_rank(r);

		if (rc != (die && r == who ? 128 + SIGKILL : 0)) {
			fprintf(stderr, "%x left: rank %d ended with %d (%s)\n", set, r, rc, page->said[r]);
			failures++;
		}
	}
}

/* A rank that waits for one that left is told, instead of waiting for ever. */
static int early(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, 7, 20000, &cfg, NULL) == TAUT_OK);
	if (rank != 1) {
		CHECK(boot_barrier(b) == TAUT_ERR_PEER);
		CHECK(strstr(taut_error_message(), "rank 1 left the group while rank "));
	}
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	log_now.level = LOG_NONE;
	once(1u << 1, 21, false);
	once(1u << 0, 5, false);
	once(1u << 0 | 1u << 1 | 1u << 2 | 1u << 5, 20, false);
	once(0x1f, 9, true);
	once(0xfffff, 21, false);
	once(0x2aaaaa, 6, true);
	hosts = true; /* through TCP */
	once(0xfffff & ~0x101u, 8, false);
	once(0x3333, 2, true);
	page_new();
	start_ranks(0, 7, early);
	wait_ranks(0, 7, 0);
	return failures != 0;
}
