/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of this folder share. They are written as any program for NCCL is, against nccl.h alone, and work
 * on host memory: ranks are processes, threads of one, or communicators of one thread. Each scene runs in processes of
 * its own, forked before any call of the library; the parent only waits and counts. */
#ifndef TESTS_NCCL_API_H
#define TESTS_NCCL_API_H

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

#define MOST 8	       /* ranks */
#define SETTLE_MS 1000 /* for threads that nobody waits for */
#define PATIENCE_S 90  /* a process that takes longer hangs; many times the usual, sanitizers and all */

/* --- what must hold: else the process ends with a message --- */
static inline void api_must(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: %s: does not hold; last error: %s\n", file, line, what, ncclGetLastError(NULL));
	fflush(stderr);
	_exit(1);
}

static inline void api_gives(ncclResult_t want, ncclResult_t got, const char *what, const char *file, int line)
{
	if (got == want)
		return;
	fprintf(stderr, "%s:%d: %s gave %d (%s), wanted %d; last error: %s\n", file, line, what, (int)got,
		ncclGetErrorString(got), (int)want, ncclGetLastError(NULL));
	fflush(stderr);
	_exit(1);
}

/* @word: what the sentence of the refusal must name. */
static inline void api_refuses(ncclResult_t want, const char *word, ncclResult_t got, const char *what,
			       const char *file, int line)
{
	const char *said = ncclGetLastError(NULL);

	api_gives(want, got, what, file, line);
	if (said && strstr(said, word) && !strstr(said, "taut_") && !strstr(said, "TAUT_"))
		return;
	fprintf(stderr, "%s:%d: %s was refused without a word of \"%s\", or in taut's: \"%s\"\n", file, line, what,
		word, said);
	fflush(stderr);
	_exit(1);
}

#define must(cond) api_must((cond), #cond, __FILE__, __LINE__)
#define succeeds(call) api_gives(ncclSuccess, (call), #call, __FILE__, __LINE__)
#define gives(want, call) api_gives((want), (call), #call, __FILE__, __LINE__)
#define refuses(want, word, call) api_refuses((want), (word), (call), #call, __FILE__, __LINE__)

static inline void *api_alloc(size_t len)
{
	void *p = malloc(len ? len : 1);

	must(p);
	return p;
}

/* --- processes --- */
typedef void (*process_fn)(int i, void *arg);

static int failures;	 /* of the parent */
static atomic_int *here; /* of all the processes of a scene */

/* A barrier beside the library, such as programs have in MPI: returns when all @size ranks have come as often. */
static inline void all_here(int size)
{
	int round = atomic_fetch_add(here, 1) / size + 1;

	while (atomic_load(here) < round * size)
		sched_yield();
}

/* Is the thread one of the library's? They have names; those of sanitizers have others. */
static inline bool is_taut(const char *task)
{
	char path[64], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", task);
	f = fopen(path, "re");
	if (!f)
		return false; /* . and .., and what has ended */
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strncmp(name, "taut-", 5);
}

static inline int taut_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *t;
	int n = 0;

	must(tasks);
	while ((t = readdir(tasks)))
		n += is_taut(t->d_name);
	closedir(tasks);
	return n;
}

/* What an abort leaves to a thread of the library may still be under way: a process that ends then is taken for one
 * that leaks. */
static inline void settle(void)
{
	for (int ms = 0; ms < SETTLE_MS && taut_threads(); ms++)
		usleep(1000);
}

static inline pid_t api_fork(process_fn fn, int i, void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(PATIENCE_S);
	fn(i, arg);
	settle();
	fflush(NULL);
	exit(0); /* not _exit: leak checkers report there */
}

/* @want: exit status, or 128 + the signal that ends it. */
static inline void api_end(pid_t pid, int want, int i, const char *scene)
{
	int status = 0, got;

	if (waitpid(pid, &status, 0) != pid) {
		perror("waitpid");
		exit(1);
	}
	got = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (got == want)
		return;
	fprintf(stderr, "%s: process %d %s (%d)\n", scene, i, got == 128 + SIGALRM ? "HANGS" : "failed", got);
	failures++;
}

static inline void start(int n, process_fn fn, void *arg, pid_t *pid)
{
	atomic_store(here, 0);
	for (int i = 0; i < n; i++)
		pid[i] = api_fork(fn, i, arg);
}

static inline void end(int n, const pid_t *pid, const char *scene)
{
	for (int i = 0; i < n; i++)
		api_end(pid[i], 0, i, scene);
}

static inline void alone(process_fn fn, void *arg, const char *scene)
{
	pid_t pid;

	start(1, fn, arg, &pid);
	end(1, &pid, scene);
}

/* --- the id by pipe --- */
struct meeting {
	int pipe[2];
	int size;
};

static inline void meeting_open(struct meeting *m, int size)
{
	m->size = size;
	if (pipe(m->pipe)) {
		perror("pipe");
		exit(1);
	}
}

static inline void meeting_close(const struct meeting *m)
{
	close(m->pipe[0]);
	close(m->pipe[1]);
}

/* Rank 0 makes an id and writes it once for each other rank. */
static inline ncclUniqueId meeting_id(const struct meeting *m, int rank)
{
	ncclUniqueId id;

	if (rank) {
		close(m->pipe[1]); /* so that the end of rank 0 is an end of the pipe */
		must(read(m->pipe[0], &id, sizeof(id)) == (ssize_t)sizeof(id));
		return id;
	}
	succeeds(ncclGetUniqueId(&id));
	for (int r = 1; r < m->size; r++)
		must(write(m->pipe[1], &id, sizeof(id)) == (ssize_t)sizeof(id));
	return id;
}

/* --- a team: the ranks of one communicator that the caller holds, one or all --- */
struct team {
	int size, first, n; /* ranks first to first + n - 1 are here */
	ncclComm_t comm[MOST];
};
typedef void (*team_fn)(struct team *t);

struct scene {
	team_fn fn;
	struct meeting meeting;
};

static inline void team_begin(const struct team *t)
{
	if (t->n > 1)
		succeeds(ncclGroupStart());
}

static inline void team_end(const struct team *t)
{
	if (t->n > 1)
		succeeds(ncclGroupEnd());
}

static inline void team_join(struct team *t, ncclUniqueId id)
{
	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclCommInitRank(&t->comm[i], t->size, id, t->first + i));
	team_end(t);
}

static inline void team_leave(struct team *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->comm[i])
			succeeds(ncclCommDestroy(t->comm[i]));
}

static inline void rank_process(int rank, void *arg)
{
	const struct scene *s = (const struct scene *)arg;
	struct team t = { .size = s->meeting.size, .first = rank, .n = 1 };

	team_join(&t, meeting_id(&s->meeting, rank));
	s->fn(&t);
	team_leave(&t);
}

static inline void as_processes(int size, team_fn fn, const char *name)
{
	struct scene s = { .fn = fn };
	pid_t pid[MOST];

	meeting_open(&s.meeting, size);
	start(size, rank_process, &s, pid);
	meeting_close(&s.meeting);
	end(size, pid, name);
}

struct rank_thread {
	pthread_t thread;
	struct team team;
	ncclUniqueId id;
	team_fn fn;
};

static inline void *rank_thread_main(void *arg)
{
	struct rank_thread *r = (struct rank_thread *)arg;

	team_join(&r->team, r->id);
	r->fn(&r->team);
	team_leave(&r->team);
	return NULL;
}

static inline void threads_process(int i, void *arg)
{
	const struct scene *s = (const struct scene *)arg;
	struct rank_thread r[MOST];
	ncclUniqueId id;

	(void)i;
	succeeds(ncclGetUniqueId(&id));
	for (int k = 0; k < s->meeting.size; k++) {
		r[k] = (struct rank_thread){ .team = { .size = s->meeting.size, .first = k, .n = 1 } };
		r[k].id = id;
		r[k].fn = s->fn;
		must(!pthread_create(&r[k].thread, NULL, rank_thread_main, &r[k]));
	}
	for (int k = 0; k < s->meeting.size; k++)
		must(!pthread_join(r[k].thread, NULL));
}

static inline void as_threads(int size, team_fn fn, const char *name)
{
	struct scene s = { .fn = fn, .meeting = { .size = size } };

	alone(threads_process, &s, name);
}

static inline void one_thread_process(int i, void *arg)
{
	const struct scene *s = (const struct scene *)arg;
	struct team t = { .size = s->meeting.size, .first = 0, .n = s->meeting.size };
	ncclUniqueId id;

	(void)i;
	succeeds(ncclGetUniqueId(&id));
	team_join(&t, id);
	s->fn(&t);
	team_leave(&t);
}

static inline void as_one_thread(int size, team_fn fn, const char *name)
{
	struct scene s = { .fn = fn, .meeting = { .size = size } };

	alone(one_thread_process, &s, name);
}

static inline void each_way(int size, team_fn fn, const char *name)
{
	as_processes(size, fn, name);
	as_threads(size, fn, name);
	as_one_thread(size, fn, name);
}

/* --- small helpers --- */
/* Waits out a call of a communicator that does not block. */
static inline ncclResult_t settled(ncclComm_t comm, ncclResult_t r)
{
	if (r != ncclSuccess && r != ncclInProgress)
		return r;
	for (;;) {
		succeeds(ncclCommGetAsyncError(comm, &r));
		if (r != ncclInProgress)
			return r;
		sched_yield();
	}
}

/* All ranks' numbers, plus one, summed: that @comm works and who is in it. */
static inline void sum_is(ncclComm_t comm, int mine, int want)
{
	int in[2] = { mine + 1, 1 }, out[2] = { 0, 0 }, count = 0;

	succeeds(settled(comm, ncclAllReduce(in, out, 2, ncclInt, ncclSum, comm, NULL)));
	succeeds(ncclCommCount(comm, &count));
	must(out[0] == want);
	must(out[1] == count);
}

/* Ranks 0 to size - 1 of a communicator. */
static inline void all_sum(ncclComm_t comm, int rank, int size)
{
	sum_is(comm, rank, size * (size + 1) / 2);
}

/* The same for all the ranks that the caller holds. */
static inline void team_sum(const struct team *t)
{
	int in[MOST], out[MOST];

	team_begin(t);
	for (int i = 0; i < t->n; i++) {
		in[i] = t->first + i + 1;
		out[i] = 0;
		succeeds(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, t->comm[i], NULL));
	}
	team_end(t);
	for (int i = 0; i < t->n; i++)
		must(out[i] == t->size * (t->size + 1) / 2);
}

/* These tests are of host memory, also on a machine with GPUs. */
static inline void api_begin(void)
{
	setenv("TAUT_DEVICE", "host", 1);
	setenv("TAUT_LOG", "none", 0); /* refusals are asked for here */
	here = (atomic_int *)mmap(NULL, sizeof(*here), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (here == (atomic_int *)MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
}

static inline int api_verdict(const char *name)
{
	printf("%s: %s\n", name, failures ? "FAILED" : "ok");
	return failures != 0;
}

#endif
