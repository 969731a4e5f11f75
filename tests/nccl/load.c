/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2 is loaded in the ways in which programs load it, and works then: a communicator of two ranks on host
 * memory. Usage: load LIBRARY. Needs libc only, so that it runs where nothing else is: tests/nccl/bare. */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

/* gcc says it by macro, clang by feature. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { VALUES = 1000 };

static const char *library;

struct api {
	void *handle;
	ncclResult_t (*version)(int *version);
	ncclResult_t (*pversion)(int *version);
	ncclResult_t (*unique_id)(ncclUniqueId *id);
	ncclResult_t (*init)(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
	ncclResult_t (*all_reduce)(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
				   ncclComm_t comm, cudaStream_t stream);
	ncclResult_t (*destroy)(ncclComm_t comm);
	const char *(*last_error)(ncclComm_t comm);
};

/* Ends the process, a scenario or a rank of one, when @holds is false. */
static void must(bool holds, const char *what, const char *why)
{
	if (holds)
		return;
	fprintf(stderr, "%s: does not hold: %s\n", what, why ? why : "");
	fflush(stderr);
	_exit(1);
}

static void find(const struct api *api, const char *name, void *function)
{
	void *at = dlsym(api->handle, name);

	must(at != NULL, name, "not found by dlsym()");
	memcpy(function, &at, sizeof(at));
}

static struct api open_library(int flags)
{
	struct api api = { .handle = dlopen(library, flags) };
	int version = 0, pversion = 0;

	must(api.handle != NULL, "dlopen()", api.handle ? NULL : dlerror());
	find(&api, "ncclGetVersion", &api.version);
	find(&api, "pncclGetVersion", &api.pversion);
	find(&api, "ncclGetUniqueId", &api.unique_id);
	find(&api, "ncclCommInitRank", &api.init);
	find(&api, "ncclAllReduce", &api.all_reduce);
	find(&api, "ncclCommDestroy", &api.destroy);
	find(&api, "ncclGetLastError", &api.last_error);
	must(!api.version(&version) && version == 22809, "ncclGetVersion() gives 22809", NULL);
	must(!api.pversion(&pversion) && pversion == 22809, "pncclGetVersion() gives 22809", NULL);
	return api;
}

/* --- two ranks --- */

static void all_reduce(const struct api *api, ncclComm_t comm, int rank)
{
	float values[VALUES];
	bool same = true;

	for (int i = 0; i < VALUES; i++)
		values[i] = (float)(rank + i);
	must(!api->all_reduce(values, values, VALUES, ncclFloat, ncclSum, comm, NULL), "ncclAllReduce()",
	     api->last_error(comm));
	for (int i = 0; i < VALUES; i++)
		same = same && values[i] == (float)(2 * i + 1);
	must(same, "the sum of ranks 0 and 1", "other values");
}

static void be_rank(const struct api *api, int rank, const int *pipes)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	if (rank == 0) {
		must(!api->unique_id(&id), "ncclGetUniqueId()", api->last_error(NULL));
		must(write(pipes[1], &id, sizeof(id)) == (ssize_t)sizeof(id), "the id is sent", NULL);
	} else {
		must(read(pipes[0], &id, sizeof(id)) == (ssize_t)sizeof(id), "the id has come", NULL);
	}
	must(!api->init(&comm, 2, id, rank), "ncclCommInitRank()", api->last_error(NULL));
	all_reduce(api, comm, rank);
	must(!api->destroy(comm), "ncclCommDestroy()", api->last_error(NULL));
}

/* Starts a process, which does not outlive this one. */
static pid_t start(void)
{
	pid_t parent, pid;

	fflush(stdout);
	parent = getpid();
	pid = fork();
	must(pid >= 0, "fork()", NULL);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static bool ended_well(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid, "waitpid()", NULL);
	if (WIFSIGNALED(status))
		fprintf(stderr, "ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* @rank runs in two processes, which end by exit(). */
static void two_ranks(void (*rank)(const struct api *api, int number, const int *pipes), const struct api *api)
{
	int pipes[2];
	pid_t pids[2];
	bool well = true;

	must(pipe(pipes) == 0, "pipe()", NULL);
	for (int r = 0; r < 2; r++) {
		pids[r] = start();
		if (pids[r] == 0) {
			if (r)
				close(pipes[1]); /* so that it sees the other end */
			rank(api, r, pipes);
			exit(0);
		}
	}
	close(pipes[0]);
	close(pipes[1]);
	for (int r = 0; r < 2; r++)
		well = ended_well(pids[r]) && well;
	must(well, "both ranks end well", NULL);
}

/* --- scenarios --- */

static void open_and_close(int flags)
{
	for (int i = 0; i < 3; i++) {
		struct api api = open_library(flags);

		must(dlclose(api.handle) == 0, "dlclose()", NULL);
	}
}

static void now(void)
{
	open_and_close(RTLD_NOW);
}

static void lazy(void)
{
	open_and_close(RTLD_LAZY);
}

static void global(void)
{
	open_and_close(RTLD_NOW | RTLD_GLOBAL);
}

static void deepbind(void)
{
	open_and_close(RTLD_NOW | RTLD_DEEPBIND);
}

/* The id's thread is there until the ranks have met: its code must be too. */
static void stays_for_its_threads(void)
{
	struct api api = open_library(RTLD_NOW);
	ncclUniqueId id;

	must(!api.unique_id(&id), "ncclGetUniqueId()", api.last_error(NULL));
	must(dlclose(api.handle) == 0, "dlclose()", NULL);
	must(dlopen(library, RTLD_NOW | RTLD_NOLOAD) != NULL, "the library is still there", NULL);
}

static void loaded_before_fork(void)
{
	struct api api = open_library(RTLD_NOW);

	two_ranks(be_rank, &api);
}

/* What else was found where the program runs: nothing that a bare container lacks. */
static void check_strangers(void)
{
	static const char *const strangers[] = { "libhwloc", "libsodium", "libjansson", "libexpat", "libudev" };
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
			must(!strstr(line, strangers[i]), "only libc is loaded", line);
	if (f)
		fclose(f);
}

static void load_and_run(const struct api *api, int rank, const int *pipes)
{
	struct api own = open_library(RTLD_LAZY | RTLD_LOCAL);

	(void)api;
	be_rank(&own, rank, pipes);
	check_strangers();
	must(dlclose(own.handle) == 0, "dlclose()", NULL);
	own = open_library(RTLD_NOW);
	be_rank(&own, rank, pipes);
	must(dlclose(own.handle) == 0, "dlclose()", NULL);
}

static void closed_and_opened_again(void)
{
	two_ranks(load_and_run, NULL);
}

static struct api at_exit;

static void close_at_exit(void)
{
	must(dlclose(at_exit.handle) == 0, "dlclose()", NULL);
}

static void run_and_exit(const struct api *api, int rank, const int *pipes)
{
	(void)api;
	must(atexit(close_at_exit) == 0, "atexit()", NULL);
	at_exit = open_library(RTLD_NOW);
	be_rank(&at_exit, rank, pipes);
}

static void closed_at_exit(void)
{
	two_ranks(run_and_exit, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool sanitized; /* possible under a sanitizer, too */
} scenarios[] = {
	{ "RTLD_NOW", now, true },
	{ "RTLD_LAZY", lazy, true },
	{ "RTLD_GLOBAL", global, true },
	{ "RTLD_DEEPBIND", deepbind, false },
	{ "it stays for its threads", stays_for_its_threads, true },
	{ "loaded before fork()", loaded_before_fork, true },
	{ "closed and opened again", closed_and_opened_again, true },
	{ "closed at exit", closed_at_exit, true },
};

/* Each in a process of its own: what one loads the next does not see. */
static bool run(size_t i)
{
	pid_t pid;
	bool well;

	if (SANITIZED && !scenarios[i].sanitized) {
		printf("%s: left out: the sanitizers cannot\n", scenarios[i].name);
		return true;
	}
	pid = start();
	if (pid == 0) {
		scenarios[i].run();
		exit(0);
	}
	well = ended_well(pid);
	printf("%s: %s\n", scenarios[i].name, well ? "ok" : "FAILED");
	return well;
}

int main(int argc, char **argv)
{
	bool well = true;

	if (argc != 2) {
		fprintf(stderr, "usage: load LIBRARY\n");
		return 2;
	}
	library = argv[1];
	setenv("TAUT_DEVICE", "host", 1);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		well = run(i) && well;
	return !well;
}
