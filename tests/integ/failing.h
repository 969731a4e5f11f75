/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of failures at the public calls: ranks are processes that report what they were told
 * on a page that all share; the parent kills, waits and judges, and never hangs. */
#ifndef INTEG_FAILING_H
#define INTEG_FAILING_H

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "taut/taut.h"

#define MOST 8	      /* ranks */
#define PATIENCE_S 60 /* a rank that takes longer hangs */
#define SAID_BYTES 1024

struct said {
	enum taut_status st;
	uint64_t at; /* ns; 0: nothing yet */
	char text[SAID_BYTES];
};
struct page {
	struct taut_id id;
	atomic_int id_there;
	atomic_int here, gate; /* for the tests */
	pid_t pid[MOST];
	struct said said[MOST];
};
static struct page *page;
static int failures; /* of this process */

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #what,             \
				taut_error_message());                                                                 \
			failures++;                                                                                    \
		}                                                                                                      \
	} while (0)

static inline void page_clear(void)
{
	if (!page)
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		exit(1);
	memset((void *)page, 0, sizeof(*page));
}

/* What the last call of this thread said. */
static inline void say(int rank, enum taut_status st)
{
	struct said *s = &page->said[rank];

	s->st = st;
	snprintf(s->text, sizeof(s->text), "%s", st ? taut_error_message() : "");
	s->at = now_ns();
}

static inline void wait_for(atomic_int *what, int value)
{
	while (atomic_load(what) < value)
		sleep_ms(1);
}

/* Rank 0's id for all. */
static inline void share_id(int rank)
{
	if (rank == 0) {
		if (taut_id_create(&page->id))
			exit(1);
		atomic_store(&page->id_there, 1);
	}
	wait_for(&page->id_there, 1);
}

static inline enum taut_status join(struct taut_comm **out, int rank, int size, int timeout_ms)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = timeout_ms };

	share_id(rank);
	return taut_comm_create(out, &page->id, rank, size, &opts);
}

/* Joins or ends the process; then all are here. */
static inline struct taut_comm *join_all(int rank, int size)
{
	struct taut_comm *comm;

	if (join(&comm, rank, size, 0)) {
		fprintf(stderr, "rank %d could not join: %s\n", rank, taut_error_message());
		exit(1);
	}
	atomic_fetch_add(&page->here, 1);
	wait_for(&page->here, size);
	return comm;
}

typedef void (*rank_fn)(int rank, int size, void *arg);

static inline void start(int size, rank_fn fn, void *arg)
{
	page_clear();
	fflush(NULL);
	for (int r = 0; r < size; r++) {
		pid_t pid = fork();

		if (pid < 0)
			exit(1);
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			failures = 0;
			fn(r, size, arg);
			fflush(NULL);
			exit(failures != 0); /* not _exit: leak checkers report there */
		}
		page->pid[r] = pid;
	}
}

/* Waits for @rank to end; -1: it hangs (and was killed), else 128 + signal or the exit status. */
static inline int end_of(int rank, uint64_t until)
{
	int status;

	for (;;) {
		pid_t got = waitpid(page->pid[rank], &status, WNOHANG);

		if (got == page->pid[rank])
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (got < 0 && errno != EINTR)
			return -2;
		if (now_ns() > until) {
			char command[128];

			/* For who looks into it: where its threads wait. */
			snprintf(command, sizeof(command),
				 "command -v gdb >/dev/null && gdb -p %d -batch -ex 'thread apply all bt' >&2 "
				 "2>/dev/null",
				 (int)page->pid[rank]);
			if (getenv("HANG_STACKS") && system(command)) {
			}
			kill(page->pid[rank], SIGKILL);
			waitpid(page->pid[rank], &status, 0);
			return -1;
		}
		sleep_ms(1);
	}
}

/* All ranks must end with 0, but those in the bit mask @killed by SIGKILL. Counts failures. */
static inline bool finish(int size, unsigned killed, const char *what)
{
	uint64_t until = now_ns() + PATIENCE_S * 1000000000ull;
	bool ok = true;

	for (int r = 0; r < size; r++) {
		int end = end_of(r, until), want = killed >> r & 1 ? 128 + SIGKILL : 0;

		if (end == want)
			continue;
		fprintf(stderr, "%s: rank %d of %d %s (%d); it was told: %s\n", what, r, size,
			end == -1 ? "HANGS" : "ended badly", end, page->said[r].at ? page->said[r].text : "nothing");
		failures++;
		ok = false;
	}
	return ok;
}

/* All but those in @out were told @st, with the same sentence. */
static inline void all_told(int size, unsigned out, enum taut_status st, const char *what)
{
	const char *first = NULL;

	for (int r = 0; r < size; r++) {
		const struct said *s = &page->said[r];

		if (out >> r & 1)
			continue;
		if (!first)
			first = s->text;
		if (s->at && s->st == st && !strcmp(s->text, first) && s->text[0])
			continue;
		fprintf(stderr, "%s: rank %d of %d was told %s \"%s\", wanted: %s \"%s\"\n", what, r, size,
			s->at ? taut_status_name(s->st) : "nothing", s->text, taut_status_name(st), first);
		failures++;
	}
}

static inline int all_reduce_ok(struct taut_comm *comm, int rank, int size)
{
	int in[3] = { rank, 1, 2 * rank }, out[3];
	enum taut_status st = taut_all_reduce(in, out, 3, TAUT_INT32, TAUT_SUM, comm, NULL);
	int sum = size * (size - 1) / 2;

	return !st && out[0] == sum && out[1] == size && out[2] == 2 * sum;
}

#endif
