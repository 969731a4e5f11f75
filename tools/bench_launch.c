/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_launch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/time.h"
#include "bench_run.h"

#define GRACE_MS 5000 /* after the first failure the other ranks end by themselves, or are ended */

/* What all ranks know; shared by the processes. */
struct job {
	const struct bench_opts *opts;
	const struct limits *limits;
	const char *how;
	int cpus[LIMITS_MAX_CORES];
	int ncpus;
	bool bind;
	int id_pipe[2];
	pid_t pids[BENCH_MAX_RANKS];
	struct taut_id id;
	_Atomic bool said; /* the first error has been printed */
};

/* --- Errors: the first sentence of all ranks is the one that tells the cause --- */

static struct job *log_job;
static int log_rank = -1; /* -1: not known */

static void say(const char *kind, const char *text)
{
	char who[32] = "";

	if (log_rank >= 0)
		snprintf(who, sizeof(who), "rank %d: ", log_rank);
	fprintf(stderr, "taut bench: %s%s%s\n", who, kind, text);
}

static void log_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	(void)ctx;
	if (level != LOG_ERR)
		say(level == LOG_WARN ? "warning: " : "", line);
	else if (!atomic_exchange(&log_job->said, true))
		say("", line);
}

static int exit_status(struct job *job, enum taut_status st, bool wrong)
{
	if (st && !atomic_exchange(&job->said, true))
		say("", taut_error_message());
	return st || wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* --- Settings for the ranks --- */

/* Of this collective only: those that bench itself uses must stay possible. */
static void set_for(const struct bench_opts *opts, const char *name, const char *value)
{
	char text[512];

	if (!value)
		return;
	if (strchr(value, ':'))
		snprintf(text, sizeof(text), "%s", value);
	else
		snprintf(text, sizeof(text), "%s:%s", opts->coll->name, value);
	setenv(name, text, 1);
}

static void set_environment(const struct bench_opts *opts)
{
	if (opts->wire)
		setenv("TAUT_WIRE", opts->wire, 1);
	set_for(opts, "TAUT_ALGO", opts->algo);
	set_for(opts, "TAUT_PROTO", opts->proto);
}

/* --- One rank --- */

static enum taut_status run_rank(bool *wrong, struct job *job, const struct taut_id *id, int rank)
{
	struct bench_setting s = { job->opts, rank ? NULL : job->limits, job->how };
	struct taut_comm_opts co = { .size = sizeof(co), .name = "bench" };
	struct taut_comm *comm;
	enum taut_status st;

	if (job->bind && !limits_pin(job->cpus[rank]))
		return errno_fail(errno, "rank %d cannot be bound to processor %d: use --bind none", rank,
				  job->cpus[rank]);
	st = taut_comm_create(&comm, id, rank, job->opts->ranks, &co);
	if (st)
		return st;
	st = bench_run(wrong, &s, comm);
	if (st && !atomic_exchange(&job->said, true))
		say("", taut_error_message());
	if (st) /* the others are still in the middle of it */
		taut_comm_abort(comm);
	taut_comm_destroy(comm);
	return st;
}

/* --- Processes --- */

/* Rank 0 makes the id and gives every other rank a copy. */
static enum taut_status carry_id(struct job *job, int rank)
{
	enum taut_status st;

	close(job->id_pipe[rank ? 1 : 0]);
	if (rank) {
		if (read(job->id_pipe[0], &job->id, sizeof(job->id)) != sizeof(job->id))
			return fail(TAUT_ERR_PEER, "rank 0 ended before it had made the id");
		return TAUT_OK;
	}
	st = taut_id_create(&job->id);
	for (int r = 1; r < job->opts->ranks && !st; r++)
		if (write(job->id_pipe[1], &job->id, sizeof(job->id)) != sizeof(job->id))
			st = errno_fail(errno, "cannot hand on the id");
	return st;
}

static int rank_process(struct job *job, int rank)
{
	bool wrong = false;
	struct taut_id id;
	enum taut_status st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	log_rank = rank;
	st = carry_id(job, rank);
	if (st)
		return exit_status(job, st, false);
	id = job->id;
	st = run_rank(&wrong, job, &id, rank);
	return exit_status(job, st, wrong);
}

static int rank_of(const pid_t *pids, int n, pid_t pid)
{
	for (int r = 0; r < n; r++)
		if (pids[r] == pid)
			return r;
	return -1;
}

static void kill_all(const pid_t *pids, int n)
{
	for (int r = 0; r < n; r++)
		if (pids[r] > 0)
			kill(pids[r], SIGKILL);
}

/* Notes the end of one rank: true when it failed. */
static bool ended(int rank, pid_t pid, int status)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "taut bench: rank %d (process %d) was ended by signal %d (%s)\n", rank, (int)pid,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	return status != 0;
}

static int supervise(pid_t *pids, int n)
{
	uint64_t deadline = 0; /* set by the first failure */
	int result = EXIT_SUCCESS;

	for (int left = n; left;) {
		int status, rank;
		pid_t pid = waitpid(-1, &status, deadline ? WNOHANG : 0);

		if (pid == 0) {
			if (now_ns() > deadline)
				kill_all(pids, n);
			sleep_ms(2);
			continue;
		}
		rank = rank_of(pids, n, pid);
		if (pid < 0 && errno != EINTR)
			return EXIT_FAILURE;
		if (rank < 0)
			continue;
		pids[rank] = 0;
		left--;
		if (ended(rank, pid, status)) {
			result = EXIT_FAILURE;
			deadline = deadline ? deadline : now_ns() + GRACE_MS * UINT64_C(1000000);
		}
	}
	return result;
}

static int launch_processes(struct job *job)
{
	int n = job->opts->ranks, result;
	pid_t self = getpid(), *pids = job->pids;
	enum taut_status st = TAUT_OK;

	if (pipe(job->id_pipe))
		st = errno_fail(errno, "cannot make a pipe");
	fflush(NULL);
	for (int r = 0; r < n && !st; r++) {
		pid_t pid = fork(); /* not at once to `pids`, which the child shares */

		if (pid == 0)
			exit(getppid() == self ? rank_process(job, r) : EXIT_FAILURE);
		pids[r] = pid;
		if (pid < 0)
			st = errno_fail(errno, "cannot start rank %d of %d", r, n);
	}
	if (st) {
		kill_all(pids, n);
		result = exit_status(job, st, false);
	} else {
		close(job->id_pipe[0]);
		close(job->id_pipe[1]);
		result = supervise(pids, n);
	}
	return result;
}

/* --- Threads --- */

struct rank_thread {
	struct job *job;
	int rank;
	bool wrong;
	int status;
	pthread_t thread;
};

static void *thread_main(void *arg)
{
	struct rank_thread *t = arg;
	enum taut_status st = run_rank(&t->wrong, t->job, &t->job->id, t->rank);

	t->status = exit_status(t->job, st, t->wrong);
	return NULL;
}

static int launch_threads(struct job *job)
{
	int n = job->opts->ranks, result = EXIT_SUCCESS;
	struct rank_thread *threads = mem_calloc((size_t)n, sizeof(*threads));
	enum taut_status st = threads ? taut_id_create(&job->id) : fail(TAUT_ERR_NOMEM, "no memory for %d ranks", n);

	for (int r = 0; r < n && !st; r++) {
		int err;

		threads[r].job = job;
		threads[r].rank = r;
		err = pthread_create(&threads[r].thread, NULL, thread_main, &threads[r]);
		if (err)
			st = errno_fail(err, "cannot start rank %d of %d as a thread", r, n);
	}
	if (st) /* the others wait for ranks that will not come: end them with the process */
		exit(exit_status(job, st, false));
	for (int r = 0; r < n; r++) {
		pthread_join(threads[r].thread, NULL);
		result = threads[r].status ? threads[r].status : result;
	}
	mem_free(threads);
	return result;
}

/* --- Entry --- */

static bool log_to_file(void)
{
	struct config cfg;
	bool file;

	if (config_load(&cfg))
		return false;
	file = cfg.log_file[0] != '\0';
	config_cleanup(&cfg);
	return file;
}

static struct job *make_job(const struct bench_opts *opts, const struct limits *limits)
{
	struct job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (job == MAP_FAILED) {
		perror("taut bench: memory for the ranks");
		return NULL;
	}
	job->opts = opts;
	job->limits = limits;
	job->ncpus = limits_cpus(job->cpus, LIMITS_MAX_CORES);
	log_job = job;
	log_set_sink(log_to_file() ? NULL : log_line, NULL);
	set_environment(opts);
	return job;
}

int bench_launch(const struct bench_opts *opts, const struct limits *limits)
{
	struct job *job = make_job(opts, limits);

	if (!job)
		return EXIT_FAILURE;
	job->bind = opts->bind != BENCH_BIND_NONE && opts->ranks <= job->ncpus;
	if (opts->bind == BENCH_BIND_CORES && !job->bind)
		return exit_status(job,
				   fail(TAUT_ERR_ARG, "--bind cores: %d ranks are more than the %d processors",
					opts->ranks, job->ncpus),
				   false);
	if (opts->threads)
		job->how = job->bind ? "threads, each bound to a processor" : "threads";
	else
		job->how = job->bind ? "processes, each bound to a processor" : "processes";
	return opts->threads ? launch_threads(job) : launch_processes(job);
}

int bench_join(const struct bench_opts *opts, const struct limits *limits, const char *launcher)
{
	struct taut_comm_opts co = { .size = sizeof(co), .name = "bench" };
	struct job *job = make_job(opts, limits);
	struct bench_setting s = { opts, limits, launcher };
	struct taut_comm *comm;
	bool wrong = false;
	enum taut_status st;
	int status;

	if (!job)
		return EXIT_FAILURE;
	st = taut_comm_create_env(&comm, &co);
	if (st)
		return exit_status(job, st, false);
	log_rank = taut_comm_rank(comm);
	if (opts->ranks && opts->ranks != taut_comm_size(comm))
		st = fail(TAUT_ERR_ARG, "--ranks %d: %s has started %d", opts->ranks, launcher, taut_comm_size(comm));
	else
		st = bench_run(&wrong, &s, comm);
	status = exit_status(job, st, wrong); /* before the sentence of the abort */
	if (st)
		taut_comm_abort(comm);
	taut_comm_destroy(comm);
	return status;
}
