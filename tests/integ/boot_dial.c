/* SPDX-License-Identifier: Apache-2.0 */
/* boot_dial() between all pairs, through Unix sockets and TCP; a death while nobody calls
 * anything is told to all. */
#include <sys/socket.h>

#include "boot_util.h"

enum { SIZE = 6 };

static int me;
static atomic_int dials, events, event_rank;

static void on_dial(void *ctx, int from, const void *hello, size_t len, int fd, bool local)
{
	int word = from * 1000 + me;

	(void)ctx;
	CHECK(len == 8 && !memcmp(hello, local ? "local..." : "tcp.....", 8));
	CHECK(write(fd, &word, sizeof(word)) == sizeof(word));
	close(fd);
	atomic_fetch_add(&dials, 1);
}

static void on_event(void *ctx, const struct boot_event *e)
{
	(void)ctx;
	say(me, e->text);
	atomic_store(&event_rank, e->rank);
	CHECK(e->kind == BOOT_EVENT_DEAD && e->status == TAUT_ERR_PEER);
	atomic_fetch_add(&events, 1);
	atomic_store(&page->when[me], now_ns());
}

static void dial_all(struct boot *b, bool local)
{
	for (int r = 0; r < SIZE; r++) {
		int fd = -1, word = 0;

		CHECK(boot_dial(&fd, b, r, local ? "local..." : "tcp.....", 8, local) == TAUT_OK);
		CHECK(read(fd, &word, sizeof(word)) == sizeof(word));
		CHECK(word == me * 1000 + r);
		close(fd);
	}
}

static int rank_main(int rank)
{
	struct boot_callbacks cb = { .on_dial = on_dial, .on_event = on_event };
	struct config cfg = test_config();
	struct boot *b = NULL;
	int fd = -1;

	me = rank;
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 30000, &cfg, &cb) == TAUT_OK);
	if (!b)
		return 1;
	dial_all(b, true);
	dial_all(b, false);
	CHECK(boot_barrier(b) == TAUT_OK);
	CHECK(atomic_load(&dials) == 2 * SIZE);
	atomic_fetch_add(&page->counter[0], 1);
	if (rank == 1)
		sleep_ms(60000); /* to be killed */
	CHECK(boot_barrier(b) == TAUT_ERR_PEER);
	CHECK(strstr(taut_error_message(), "rank 1 (host ") != NULL);
	for (int i = 0; i < 5000 && !atomic_load(&events); i++)
		sleep_ms(2);
	CHECK(atomic_load(&events) == 1 && atomic_load(&event_rank) == 1);
	CHECK(boot_dial(&fd, b, 1, NULL, 0, true) == TAUT_ERR_PEER);
	CHECK(boot_barrier(b) == TAUT_ERR_PEER);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	uint64_t killed, last = 0;

	page_new();
	start_ranks(0, SIZE, rank_main);
	wait_counter(0, SIZE);
	killed = now_ns();
	kill(page->pid[1], SIGKILL);
	CHECK(wait_rank(1) == 128 + SIGKILL);
	wait_ranks(0, 1, 0);
	wait_ranks(2, SIZE - 2, 0);
	for (int r = 0; r < SIZE; r++) {
		if (r != 1)
			CHECK(!strcmp(page->said[r], page->said[0]));
		if (atomic_load(&page->when[r]) > last)
			last = atomic_load(&page->when[r]);
	}
	printf("%s; told after %.2f ms\n", page->said[0], (double)(last - killed) / 1e6);
	return failures != 0;
}
