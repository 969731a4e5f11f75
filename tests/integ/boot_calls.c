/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing calls: what differs is named on every rank; what has not been made, or is the
 * same, is no difference. boot_report() and boot_abort() reach all; the first of them stands. */
#include "boot_util.h"

enum { SIZE = 11 };
enum mode { SAME, ONE_DIFFERS, ALL_DIFFER, ONE_LATE, REPORT, ABORT };

static enum mode mode;
static int me;
static atomic_int events;
static struct boot_event last;

static bool describe(void *ctx, uint64_t seq, uint64_t *sig, char *text, size_t len)
{
	bool odd = mode == ALL_DIFFER || (mode == ONE_DIFFERS && me == 7);

	(void)ctx;
	atomic_fetch_add(&page->counter[1], 1);
	CHECK(seq == 7 && len >= 100);
	if (mode == ONE_LATE && me == 3) {
		snprintf(text, len, "computes");
		return false;
	}
	*sig = odd ? 100 + (uint64_t)me : 1;
	if (odd)
		snprintf(text, len, "broadcast(count %d, float, root 0)", me);
	else
		snprintf(text, len, "all_reduce(count 8, float, sum)");
	return true;
}

static void on_event(void *ctx, const struct boot_event *e)
{
	(void)ctx;
	last = *e;
	say(me, e->text);
	atomic_fetch_add(&events, 1);
}

static void wait_event(enum boot_event_kind kind, enum taut_status st, int rank)
{
	for (int i = 0; i < 30000 && !atomic_load(&events); i++)
		sleep_ms(1);
	CHECK(atomic_load(&events) == 1);
	CHECK(last.kind == kind && last.status == st && last.rank == rank);
}

/* What is told at once is what on_event() tells, now or later. */
static void first_failure_stays(struct boot *b)
{
	const char *text = "rank 9: the wire broke";

	CHECK(boot_report(b, TAUT_ERR_NET, text) == TAUT_ERR_NET && !strcmp(taut_error_message(), text));
	CHECK(boot_abort(b) == TAUT_ERR_NET && !strcmp(taut_error_message(), text));
	CHECK(boot_report(b, TAUT_ERR_PEER, "its neighbour") == TAUT_ERR_NET && !strcmp(taut_error_message(), text));
}

static int rank_main(int rank)
{
	struct boot_callbacks cb = { .describe = describe, .on_event = on_event };
	struct config cfg = test_config();
	struct boot *b = NULL;

	me = rank;
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, &cb) == TAUT_OK);
	CHECK(boot_barrier(b) == TAUT_OK);
	if (mode == REPORT && rank == 9)
		first_failure_stays(b);
	if (mode == ABORT && rank == 2)
		boot_abort(b);
	/* The questions of all ranks together do not become a storm. */
	for (int i = 0; i < (mode == SAME ? 200 : 1); i++)
		if (mode == ONE_DIFFERS ? rank == 10 : mode < REPORT)
			boot_query_call(b, 7);
	if (mode == ONE_DIFFERS || mode == ALL_DIFFER)
		wait_event(BOOT_EVENT_MISMATCH, TAUT_ERR_MISMATCH, mode == ALL_DIFFER ? -1 : 7);
	else if (mode == REPORT)
		wait_event(BOOT_EVENT_FAILED, TAUT_ERR_NET, 9);
	else if (mode == ABORT)
		wait_event(BOOT_EVENT_ABORT, TAUT_ERR_ABORTED, 2);
	else
		wait_counter(1, SIZE);
	if (mode == SAME || mode == ONE_LATE) {
		CHECK(atomic_load(&events) == 0);
		CHECK(boot_barrier(b) == TAUT_OK);
	} else {
		CHECK(boot_barrier(b) == last.status && !strcmp(taut_error_message(), page->said[rank]));
	}
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void once(enum mode m, const char *want)
{
	uint64_t start = now_ns();
	int asked;

	mode = m;
	page_new();
	start_ranks(0, SIZE, rank_main);
	wait_ranks(0, SIZE, 0);
	for (int r = 0; r < SIZE && want; r++)
		if (strcmp(page->said[r], want)) {
			fprintf(stderr, "rank %d says \"%s\", wanted \"%s\"\n", r, page->said[r], want);
			failures++;
		}
	asked = atomic_load(&page->counter[1]);
	CHECK(asked <= SIZE * (3 + (int)((now_ns() - start) / 100000000u)));
	CHECK(m >= REPORT || asked >= SIZE);
}

int main(void)
{
	log_now.level = LOG_NONE;
	once(SAME, NULL);
	once(ONE_LATE, NULL);
	once(ONE_DIFFERS, "call 7 differs: ranks 0-6,8-10: all_reduce(count 8, float, sum); rank 7: broadcast(count 7, "
			  "float, root 0)");
	once(ALL_DIFFER, NULL);
	printf("%s\n", page->said[0]);
	once(REPORT, "rank 9: the wire broke");
	once(ABORT, "rank 2 aborted the group");
	return failures != 0;
}
