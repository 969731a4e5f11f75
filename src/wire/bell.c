/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/bell.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define BELLS 4096 /* of one process: one a communicator */

/* The bells of this process. A child after fork() must not share its parent's. */
static struct {
	pthread_mutex_t lock;
	struct wire_bell *bells;
	int fd;
	pid_t owner;
	bool used[BELLS];
} home = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool bell_needs_fence = true;
static bool sleepers_fence; /* bell_arm() can make the stores of registered processes visible */

static void register_process(void)
{
	bool ok = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);

	bell_needs_fence = !ok;
	sleepers_fence = ok;
}

static enum taut_status home_open(void)
{
	size_t len = BELLS * sizeof(struct wire_bell);

	if (home.bells && home.owner == getpid())
		return TAUT_OK;
	home.fd = memfd_create("taut-bells", MFD_CLOEXEC);
	if (home.fd < 0)
		return errno_fail(errno, "cannot make shared memory for wake-ups (memfd_create)");
	if (ftruncate(home.fd, (off_t)len))
		goto err_close;
	home.bells = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, home.fd, 0);
	if (home.bells == MAP_FAILED)
		goto err_close;
	home.owner = getpid();
	register_process();
	for (int i = 0; i < BELLS; i++)
		home.used[i] = false;
	return TAUT_OK;
err_close:
	home.bells = NULL;
	close(home.fd);
	return errno_fail(errno, "cannot map %zu bytes of shared memory for wake-ups", len);
}

enum taut_status bell_create(struct wire_bell **out)
{
	enum taut_status st;

	pthread_mutex_lock(&home.lock);
	st = home_open();
	if (!st) {
		int i = 0;

		while (i < BELLS && home.used[i])
			i++;
		if (i < BELLS) {
			home.used[i] = true;
			atomic_store(&home.bells[i].sleepers, 0);
			*out = &home.bells[i];
		} else {
			st = fail(TAUT_ERR_NOMEM, "more than %d communicators in one process", BELLS);
		}
	}
	pthread_mutex_unlock(&home.lock);
	return st;
}

void bell_destroy(struct wire_bell *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&home.lock);
	if (home.owner == getpid())
		home.used[b - home.bells] = false;
	pthread_mutex_unlock(&home.lock);
}

enum taut_status bell_export(const struct wire_bell *b, int *fd, uint32_t *index)
{
	*fd = home.fd;
	*index = (uint32_t)(b - home.bells);
	return TAUT_OK;
}

/* Only the page that holds the bell is mapped. */
enum taut_status bell_map(struct wire_bell **out, int fd, uint32_t index)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = index * sizeof(struct wire_bell);
	char *base;

	if (index >= BELLS) {
		close(fd);
		return fail(TAUT_ERR_NET, "a peer names wake-up word %u of %d", index, BELLS);
	}
	base = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(at / page * page));
	close(fd);
	if (base == MAP_FAILED)
		return errno_fail(errno, "cannot map a peer's wake-up word");
	*out = (struct wire_bell *)(void *)(base + at % page);
	return TAUT_OK;
}

void bell_unmap(struct wire_bell *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (b)
		munmap((void *)((uintptr_t)b / page * page), page);
}

uint32_t bell_arm(struct wire_bell *b)
{
	uint32_t seen = atomic_load(&b->rings);

	/* Either a ringer sees the sleeper from here on, or its work is visible after the barrier. */
	atomic_fetch_add(&b->sleepers, 1);
	if (sleepers_fence)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	return seen;
}

void bell_sleep(struct wire_bell *b, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec t = { .tv_sec = (time_t)(timeout_ns / 1000000000u),
			      .tv_nsec = (long)(timeout_ns % 1000000000u) };

	syscall(SYS_futex, &b->rings, FUTEX_WAIT, seen, &t, NULL, 0);
}

void bell_disarm(struct wire_bell *b)
{
	atomic_fetch_sub(&b->sleepers, 1);
}

void bell_ring_slow(struct wire_bell *b)
{
	atomic_fetch_add(&b->rings, 1);
	syscall(SYS_futex, &b->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}
