/* SPDX-License-Identifier: Apache-2.0 */
/* Process tests: each rank a process, forked before the library has a thread. */
#ifndef INTEG_RANKS_H
#define INTEG_RANKS_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "taut/taut.h"

/* Ends the rank (process) with a message when @cond does not hold. */
#define must(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "%s:%d: %s: does not hold; last error: %s\n", __FILE__, __LINE__, #cond,       \
				taut_error_message());                                                                 \
			fflush(stderr);                                                                                \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

typedef void (*rank_fn)(struct taut_comm *comm, int rank, int size, void *arg);

struct rank_start {
	struct taut_id id;
	int pipe[2];
};

/* Rank 0 makes the id and writes it to a pipe, once for each other rank. */
static inline void meet_by_pipe(struct rank_start *s, int rank, int size, struct taut_comm **comm)
{
	if (rank == 0) {
		must(taut_id_create(&s->id) == TAUT_OK);
		for (int r = 1; r < size; r++)
			must(write(s->pipe[1], &s->id, sizeof(s->id)) == (ssize_t)sizeof(s->id));
	} else {
		must(read(s->pipe[0], &s->id, sizeof(s->id)) == (ssize_t)sizeof(s->id));
	}
	must(taut_comm_create(comm, &s->id, rank, size, NULL) == TAUT_OK);
}

/* TEST_NETWORKS=PID,PID: the network of machine number @host is that of process PID. */
static inline void enter_network(int host)
{
	const char *at = getenv("TEST_NETWORKS");
	char path[64];
	int fd;

	for (int i = 0; at && i < host; i++)
		at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
	if (!at)
		return;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", atoi(at));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
	close(fd);
}

/* TEST_HOSTS=3,1,2: ranks 0 to 2 take themselves to be on one machine, rank 3 on another, 4 and 5 on a third; from
 * the start again for more ranks. TEST_HOSTS=%2: dealt round robin to two machines. */
static inline void take_host(int rank)
{
	const char *list = getenv("TEST_HOSTS"), *at = list;
	char name[32];
	int host = 0, end = 0;

	if (!list || !*list)
		return;
	if (*list == '%')
		host = rank % atoi(list + 1);
	for (; *list != '%'; host++) {
		int n = atoi(at);

		must(n > 0);
		end += n;
		if (rank < end)
			break;
		at = strchr(at, ',') ? strchr(at, ',') + 1 : list;
	}
	snprintf(name, sizeof(name), "machine-%d", host);
	setenv("TAUT_HOSTID", name, 1);
	enter_network(host);
}

static inline void rank_main(struct rank_start *s, int rank, int size, rank_fn fn, void *arg)
{
	struct taut_comm *comm;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	take_host(rank);
	meet_by_pipe(s, rank, size, &comm);
	fn(comm, rank, size, arg);
	taut_comm_destroy(comm);
	exit(0); /* not _exit: leak checkers report there */
}

/* Starts @size ranks that run @fn; their process ids in @pids. */
static inline void start_ranks(int size, rank_fn fn, void *arg, pid_t *pids)
{
	struct rank_start s;

	must(pipe(s.pipe) == 0);
	fflush(NULL);
	for (int r = 0; r < size; r++) {
		pids[r] = fork();
		must(pids[r] >= 0);
		if (pids[r] == 0)
			rank_main(&s, r, size, fn, arg);
	}
	close(s.pipe[0]);
	close(s.pipe[1]);
}

/* The number of ranks that did not end with exit status 0. */
static inline int end_ranks(int size, const pid_t *pids)
{
	int bad = 0;

	for (int r = 0; r < size; r++) {
		int status;

		must(waitpid(pids[r], &status, 0) == pids[r]);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "rank %d of %d: wait status 0x%x\n", r, size, status);
			bad++;
		}
	}
	return bad;
}

static inline int run_ranks(int size, rank_fn fn, void *arg)
{
	pid_t pids[1024];

	start_ranks(size, fn, arg, pids);
	return end_ranks(size, pids);
}

#endif
