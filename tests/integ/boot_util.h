/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes for the boot tests: forked, with a page that all share; a parent that
 * waits for them and never hangs. */
#ifndef BOOT_UTIL_H
#define BOOT_UTIL_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/boot.h"

enum { RANKS_MAX = 1100, SAID_MAX = 1200 };

struct page {
	atomic_int id_there;
	struct taut_id id;
	atomic_int counter[16]; /* for the tests */
	pid_t pid[RANKS_MAX];
	char said[RANKS_MAX][SAID_MAX]; /* a sentence of each rank */
	_Atomic uint64_t when[RANKS_MAX];
};
static struct page *page;
static int failures;

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, taut_error_message());  \
			failures++;                                                                                    \
		}                                                                                                      \
	} while (0)

static inline void page_new(void)
{
	if (page)
		munmap(page, sizeof(*page));
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		exit(1);
}

static inline struct config test_config(void)
{
	struct config cfg;

	if (config_defaults(&cfg))
		exit(1);
	return cfg;
}

/* Rank 0 makes the id, the others wait for it. */
static inline void share_id(int rank, const struct config *cfg)
{
	if (rank == 0) {
		if (boot_id_create(&page->id, cfg))
			exit(1);
		atomic_store(&page->id_there, 1);
	}
	while (!atomic_load(&page->id_there))
		sleep_ms(2);
}

static inline void say(int rank, const char *text)
{
	snprintf(page->said[rank], SAID_MAX, "%s", text);
}

/* Forks ranks @first..@first+n-1; the child's exit status is what @run returns. */
static inline void start_ranks(int first, int n, int (*run)(int rank))
{
	for (int r = first; r < first + n; r++) {
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (pid < 0) {
			perror("fork");
			exit(1);
		}
		if (pid == 0) {
			int rc;

			failures = 0;
			alarm(100); /* nothing outlives the test */
			rc = run(r);
			fflush(NULL);
			exit(rc || failures ? 1 : 0);
		}
		page->pid[r] = pid;
	}
}

/* Exit status of @rank, 128 + signal when one ended it. */
static inline int wait_rank(int rank)
{
	int status = 0;

	while (waitpid(page->pid[rank], &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void wait_ranks(int first, int n, int want)
{
	for (int r = first; r < first + n; r++) {
		int got = wait_rank(r);

		if (got != want) {
			fprintf(stderr, "rank %d ended with %d, wanted %d (said: %s)\n", r, got, want, page->said[r]);
			failures++;
		}
	}
}

static inline void wait_counter(int which, int value)
{
	for (int i = 0; atomic_load(&page->counter[which]) < value && i < 20000; i++)
		sleep_ms(2);
}

#endif
