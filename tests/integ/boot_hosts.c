/* SPDX-License-Identifier: Apache-2.0 */
/* Several machines, emulated with TAUT_HOSTID: nodes are numbered, edges between them are
 * TCP, a host that falls silent (a stopped process) is found by its missing heartbeats, and hears
 * of that when it goes on; one that is only stopped on the same machine is not taken for dead, nor
 * are others by one that was stopped itself. */
#include "boot_util.h"

enum { SIZE = 9, NODES = 3, BEAT_MS = 700 };

static bool one_host, v6;
static int me, silent; /* @silent: a rank on one machine, all of its host on several */
static atomic_int events;

static bool falls(int rank)
{
	return one_host ? rank == silent : rank % NODES == silent % NODES;
}

static void on_event(void *ctx, const struct boot_event *e)
{
	(void)ctx;
	say(me, e->text);
	CHECK(e->kind == BOOT_EVENT_DEAD && falls(e->rank));
	atomic_fetch_add(&events, 1);
}

static void look(struct boot *b, int rank)
{
	int fd = -1;

	CHECK(boot_nodes(b) == (one_host ? 1 : NODES));
	for (int r = 0; r < SIZE && !one_host; r++) {
		CHECK(boot_peer(b, r)->node == r % NODES);
		CHECK(boot_peer(b, r)->local_rank == r / NODES);
	}
	CHECK(boot_dial(&fd, b, (rank + 1) % SIZE, "", 0, one_host) == TAUT_OK);
	close(fd);
	if (!one_host)
		CHECK(boot_dial(&fd, b, (rank + 1) % SIZE, "", 0, true) == TAUT_ERR_ARG);
}

static int rank_main(int rank)
{
	static const char *const names[] = { "red", "green", "blue" };
	struct boot_callbacks cb = { .on_event = on_event };
	struct config cfg = test_config();
	struct boot *b = NULL;

	me = rank;
	cfg.heartbeat_ms = BEAT_MS;
	CHECK(config_set(&cfg, "TAUT_HOSTID", one_host ? "white" : names[rank % NODES]) == TAUT_OK);
	if (v6)
		CHECK(config_set(&cfg, "TAUT_SOCKET_FAMILY", "AF_INET6") == TAUT_OK);
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, &cb) == TAUT_OK);
	if (!b)
		return 1;
	look(b, rank);
	CHECK(boot_barrier(b) == TAUT_OK);
	/* Heartbeats keep a quiet group alive. */
	sleep_ms(6 * BEAT_MS);
	CHECK(atomic_load(&events) == 0);
	CHECK(boot_barrier(b) == TAUT_OK);
	atomic_fetch_add(&page->counter[0], 1);
	while (one_host && falls(rank))
		sleep_ms(1000);
	wait_counter(1, 1); /* it is stopped now */
	if (one_host) {
		sleep_ms(6 * BEAT_MS);
		CHECK(atomic_load(&events) == 0);
		atomic_fetch_add(&page->counter[2], 1);
		wait_counter(3, 1); /* it is dead now */
	}
	for (int i = 0; i < 20000 && !atomic_load(&events); i++)
		sleep_ms(2);
	CHECK(atomic_load(&events) == 1);
	CHECK(boot_barrier(b) == TAUT_ERR_PEER);
	/* Also the ranks that were silent themselves, which go on now. */
	CHECK((strstr(taut_error_message(), "silent for five heartbeats") != NULL) == !one_host);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static void once(bool one, bool six, int who)
{
	one_host = one;
	v6 = six;
	silent = who;
	page_new();
	start_ranks(0, SIZE, rank_main);
	wait_counter(0, SIZE);
	for (int r = 0; r < SIZE; r++)
		if (falls(r))
			kill(page->pid[r], SIGSTOP);
	atomic_store(&page->counter[1], 1);
	if (one) {
		wait_counter(2, SIZE - 1);
		kill(page->pid[who], SIGKILL);
		atomic_store(&page->counter[3], 1);
	}
	for (int r = 0; r < SIZE; r++)
		if (!falls(r))
			CHECK(wait_rank(r) == 0);
	for (int r = 0; r < SIZE; r++)
		if (falls(r)) {
			kill(page->pid[r], one ? SIGKILL : SIGCONT);
			CHECK(wait_rank(r) == (one ? 128 + SIGKILL : 0));
		}
}

static int stopped_main(int rank)
{
	struct boot_callbacks cb = { .on_event = on_event };
	struct config cfg = test_config();
	struct boot *b = NULL;
	char host[16];

	me = rank;
	cfg.heartbeat_ms = BEAT_MS;
	snprintf(host, sizeof(host), "host-%d", rank);
	CHECK(config_set(&cfg, "TAUT_HOSTID", host) == TAUT_OK);
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, 3, 20000, &cfg, &cb) == TAUT_OK);
	if (!b)
		return 1;
	CHECK(boot_barrier(b) == TAUT_OK);
	atomic_fetch_add(&page->counter[0], 1);
	wait_counter(1, 1); /* all have been stopped meanwhile */
	sleep_ms(2 * BEAT_MS);
	CHECK(atomic_load(&events) == 0);
	CHECK(boot_barrier(b) == TAUT_OK);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

/* As `taut run` does at Ctrl-Z: no rank saw another live for longer than it takes to be dead. */
static void all_stopped(void)
{
	page_new();
	start_ranks(0, 3, stopped_main);
	wait_counter(0, 3);
	for (int r = 0; r < 3; r++)
		kill(page->pid[r], SIGSTOP);
	sleep_ms(7 * BEAT_MS);
	for (int r = 0; r < 3; r++) {
		kill(page->pid[r], SIGCONT);
		sleep_ms(100);
	}
	atomic_store(&page->counter[1], 1);
	wait_ranks(0, 3, 0);
}

int main(void)
{
	log_now.level = LOG_NONE;
	once(false, false, 1);
	once(false, true, 0);
	once(true, false, 1);
	all_stopped();
	return failures != 0;
}
