/* SPDX-License-Identifier: Apache-2.0 */
/* Two network name spaces joined by a cable: two machines as far as anybody can tell. The
 * ranks meet, dial each other, and when the cable is cut both sides know it. Needs root and
 * ip(8); else skipped. */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>

#include "boot_util.h"

enum { SIZE = 6 };

static char space[2][64];
static atomic_int events;

static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	strncat(cmd, " >/dev/null 2>&1", sizeof(cmd) - strlen(cmd) - 1);
	return system(cmd);
}

static int lay_cable(void)
{
	snprintf(space[0], sizeof(space[0]), "tautA%d", (int)getpid());
	snprintf(space[1], sizeof(space[1]), "tautB%d", (int)getpid());
	if (run("ip netns add %s && ip netns add %s", space[0], space[1]))
		return -1;
	if (run("ip link add end0 netns %s type veth peer name end1 netns %s", space[0], space[1]))
		return -1;
	for (int i = 0; i < 2; i++)
		if (run("ip -n %s addr add 10.77.0.%d/24 dev end%d && ip -n %s link set end%d up && ip -n %s link set "
			"lo up",
			space[i], i + 1, i, space[i], i, space[i]))
			return -1;
	return 0;
}

static void enter(int rank)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", space[rank % 2]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		exit(1);
	close(fd);
}

static void on_event(void *ctx, const struct boot_event *e)
{
	int rank = *(int *)ctx;

	CHECK(e->kind == BOOT_EVENT_DEAD && e->rank % 2 != rank % 2);
	CHECK(strstr(e->text, "silent for five heartbeats"));
	atomic_fetch_add(&events, 1);
}

static int rank_main(int rank)
{
	struct boot_callbacks cb = { .ctx = &rank, .on_event = on_event };
	struct config cfg = test_config();
	struct boot *b = NULL;

	enter(rank);
	cfg.heartbeat_ms = 500;
	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 30000, &cfg, &cb) == TAUT_OK);
	if (!b)
		return 1;
	CHECK(boot_nodes(b) == 2);
	for (int r = 0; r < SIZE; r++) {
		int fd = -1;

		CHECK(boot_peer(b, r)->node == r % 2 && boot_peer(b, r)->local_rank == r / 2);
		CHECK(boot_dial(&fd, b, r, "", 0, r % 2 == rank % 2) == TAUT_OK);
		close(fd);
	}
	CHECK(boot_barrier(b) == TAUT_OK);
	atomic_fetch_add(&page->counter[0], 1);
	for (int i = 0; i < 30000 && !atomic_load(&events); i++)
		sleep_ms(1);
	CHECK(atomic_load(&events) == 1);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	log_now.level = LOG_NONE;
	if (geteuid() != 0 || lay_cable()) {
		run("ip netns del %s", space[0]);
		run("ip netns del %s", space[1]);
		printf("skipped: needs root and ip(8) to make network name spaces\n");
		return 77;
	}
	page_new();
	start_ranks(0, SIZE, rank_main);
	wait_counter(0, SIZE);
	CHECK(run("ip -n %s link set end1 down", space[1]) == 0);
	wait_ranks(0, SIZE, 0);
	run("ip netns del %s", space[0]);
	run("ip netns del %s", space[1]);
	return failures != 0;
}
