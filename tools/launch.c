/* SPDX-License-Identifier: Apache-2.0 */
/* How nothing is left behind. Each rank leads a process group of its own. When a rank ends,
 * what it left in its group is killed before its process id can be given away. If this
 * process itself is killed, the kernel kills the ranks (PR_SET_PDEATHSIG), and the guard, a
 * child that waits at the end of a pipe, kills their groups. */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "lines.h"
#include "topo/bind.h"

enum { GRACE_MS = 2000, EXIT_TIMEOUT = 124, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct rank {
	pid_t pid; /* 0: not started, or over */
	struct lines out, err;
};

struct job {
	const struct launch_opts *opts;
	struct rank *ranks;
	struct pollfd *polls; /* signals, the two outlets, then two a rank */
	int running;
	struct outlet out, err;
	struct bind *bind;
	int sigfd, null_fd;
	int guard_fd; /* process groups to kill when this process is gone: n begins, -n is over */
	pid_t guard;
	sigset_t old_mask;
	struct sigaction old_pipe;
	struct rlimit old_files;
	int rc;
	bool ending;
	uint64_t kill_at, limit_at; /* now_ns() clock; 0: not set */
};

static const int caught[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP };

/* --- the guard --- */

static void guard_remember(pid_t *groups, int *count, int group)
{
	if (group > 0 && *count < LAUNCH_MAX)
		groups[(*count)++] = group;
	for (int i = 0; group < 0 && i < *count; i++)
		if (groups[i] == -group)
			groups[i--] = groups[--*count];
}

_Noreturn static void guard_run(int fd)
{
	static pid_t groups[LAUNCH_MAX];
	int group, count = 0;

	prctl(PR_SET_NAME, "run-guard"); /* so that killing all of one name does not hit the guard too */
	setsid();
	for (int i = 0; i < 3; i++)
		close(i);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		signal(caught[i], SIG_IGN);
	while (read(fd, &group, sizeof(group)) == (ssize_t)sizeof(group))
		guard_remember(groups, &count, group);
	for (int i = 0; i < count; i++)
		kill(-groups[i], SIGKILL);
	_exit(0);
}

static enum taut_status guard_start(struct job *j)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return errno_fail(errno, "pipe to the guard");
	j->guard = fork();
	if (j->guard < 0) {
		close(fds[0]);
		close(fds[1]);
		return errno_fail(errno, "cannot start the guard process");
	}
	if (j->guard == 0) {
		close(fds[1]);
		guard_run(fds[0]);
	}
	close(fds[0]);
	j->guard_fd = fds[1];
	return TAUT_OK;
}

static void guard_tell(const struct job *j, int group)
{
	ssize_t n = write(j->guard_fd, &group, sizeof(group));

	(void)n; /* a killed guard guards nothing; the job goes on */
}

static void guard_stop(struct job *j)
{
	if (j->guard <= 0)
		return;
	close(j->guard_fd);
	waitpid(j->guard, NULL, 0);
}

/* --- what the ranks find in their environment --- */

static void env_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void random_hex(char *out, size_t bytes)
{
	unsigned char raw[32];

	randombytes_buf(raw, bytes);
	sodium_bin2hex(out, 2 * bytes + 1, raw, bytes);
	sodium_memzero(raw, sizeof(raw));
}

/* The environment of a process can be read by its user only. */
static enum taut_status env_secret(void)
{
	struct config cfg;
	enum taut_status st = config_load(&cfg);
	char hex[65];

	if (st)
		return st;
	log_init(&cfg);
	if (!cfg.secret[0] && !cfg.secret_file[0]) {
		random_hex(hex, 32);
		setenv("TAUT_SECRET", hex, 1);
		sodium_memzero(hex, sizeof(hex));
	}
	config_cleanup(&cfg);
	return TAUT_OK;
}

static enum taut_status env_job(const struct launch_opts *o, bool *torch)
{
	char meet[64] = "abstract:taut-run-";
	enum taut_status st;

	if (sodium_init() < 0)
		return fail(TAUT_ERR_SYS, "libsodium does not start: no source of random bytes");
	unsetenv("TAUT_RANK"); /* an outer launcher's */
	unsetenv("TAUT_SIZE");
	st = env_secret();
	if (st)
		return st;
	random_hex(meet + strlen(meet), 16);
	setenv("TAUT_RENDEZVOUS", meet, 1);
	env_number("TAUT_SIZE", o->ranks);
	env_number("TAUT_LOCAL_SIZE", o->ranks);
	*torch = !config_env("RANK") && !config_env("WORLD_SIZE");
	if (*torch) {
		env_number("WORLD_SIZE", o->ranks);
		env_number("LOCAL_WORLD_SIZE", o->ranks);
	}
	return TAUT_OK;
}

static void env_rank(int rank, bool torch, const struct bind *bind)
{
	env_number("TAUT_RANK", rank);
	env_number("TAUT_LOCAL_RANK", rank);
	if (torch) {
		env_number("RANK", rank);
		env_number("LOCAL_RANK", rank);
	}
	if (bind)
		setenv("TAUT_BIND", bind->slots[rank].list, 1);
}

/* --- starting --- */

struct start {
	int rank;
	int in, out, err; /* -1: as this process's */
	int status;	  /* closed by exec(), or gets errno */
	pid_t parent;
};

static bool child_fd(int fd, int as)
{
	return fd < 0 || dup2(fd, as) >= 0;
}

static void tell_errno(int fd, int err)
{
	ssize_t n = write(fd, &err, sizeof(err));

	(void)n; /* the exit status says the rest */
}

/* Between vfork() and exec(): system calls only; the memory is the parent's. */
_Noreturn static void child_run(struct job *j, const struct start *s)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->parent)
		_exit(EXIT_CANNOT_RUN); /* it died before the line above */
	setpgid(0, 0);
	sigaction(SIGPIPE, &j->old_pipe, NULL);
	setrlimit(RLIMIT_NOFILE, &j->old_files);
	if (child_fd(s->in, 0) && child_fd(s->out, 1) && child_fd(s->err, 2) &&
	    !(j->bind && bind_apply(j->bind, s->rank))) {
		sigprocmask(SIG_SETMASK, &j->old_mask, NULL);
		execvp(j->opts->argv[0], j->opts->argv);
	}
	tell_errno(s->status, errno);
	_exit(EXIT_CANNOT_RUN);
}

/* -1 with errno when the command cannot be run. The pipe, and no shared variable, because
 * the thread sanitizer makes a fork() of vfork(). */
static pid_t spawn(struct job *j, struct start *s)
{
	int fds[2], err = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	s->status = fds[1];
	pid = vfork();
	if (pid == 0)
		child_run(j, s);
	err = pid < 0 ? errno : 0;
	close(fds[1]);
	if (pid > 0 && read(fds[0], &err, sizeof(err)) > 0)
		waitpid(pid, NULL, 0);
	close(fds[0]);
	errno = err;
	return err ? -1 : pid;
}

static enum taut_status cannot_start(struct job *j, int rank, int err)
{
	const char *cure = "";

	j->rc = 1;
	if (err == EAGAIN)
		cure = " (is the limit of processes reached? see ulimit -u)";
	if (err == ENOENT)
		j->rc = EXIT_NOT_FOUND;
	if (err == EACCES || err == ENOEXEC)
		j->rc = EXIT_CANNOT_RUN;
	return errno_fail(err, "cannot start rank %d of %d, command %s%s", rank, j->opts->ranks, j->opts->argv[0],
			  cure);
}

/* A pipe whose read end goes to @l, and whose write end to *@write_fd. */
static enum taut_status open_stream(struct lines *l, struct outlet *to, int *write_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return errno_fail(errno, "pipe for the output of a rank");
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	lines_init(l, fds[0], to);
	*write_fd = fds[1];
	return TAUT_OK;
}

/* One rank without prefix keeps the terminal, if there is one. */
static bool piped(const struct launch_opts *o)
{
	return o->ranks > 1 || o->prefix;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static enum taut_status start_rank(struct job *j, int rank)
{
	struct start s = { .rank = rank, .in = j->null_fd, .out = -1, .err = -1, .parent = getpid() };
	struct rank *r = &j->ranks[rank];
	enum taut_status st = TAUT_OK;

	if (rank == 0 && !isatty(0)) /* a process group in the background may not read a terminal */
		s.in = -1;
	if (piped(j->opts))
		st = open_stream(&r->out, &j->out, &s.out);
	if (!st && piped(j->opts))
		st = open_stream(&r->err, &j->err, &s.err);
	if (!st) {
		r->pid = spawn(j, &s);
		if (r->pid < 0)
			st = cannot_start(j, rank, errno);
	}
	close_fd(s.out);
	close_fd(s.err);
	if (st) {
		r->pid = 0;
		return st;
	}
	if (j->opts->prefix) {
		snprintf(r->out.tag, sizeof(r->out.tag), "[%d] ", rank);
		snprintf(r->err.tag, sizeof(r->err.tag), "[%d] ", rank);
	}
	j->running++;
	guard_tell(j, r->pid);
	return TAUT_OK;
}

/* "rank 0 (pid 4711) is bound to cpu 0-5, memory of NUMA node 0: GPU 0 and mlx5_0 of NUMA node 0". */
static void say_binding(struct job *j, int rank)
{
	const struct bind_slot *slot = &j->bind->slots[rank];
	char memory[48] = "", text[512];

	if (slot->numa >= 0)
		snprintf(memory, sizeof(memory), ", memory of NUMA node %d", slot->numa);
	snprintf(text, sizeof(text), "rank %d (pid %d) is bound to cpu %s%s%s%s", rank, (int)j->ranks[rank].pid,
		 slot->list, memory, *slot->near ? ": " : "", slot->near);
	if (j->opts->verbose)
		outlet_printf(&j->err, "%s: %s\n", j->opts->title, text);
	else
		log_info(LOG_TOOL, "%s", text);
}

/* What the ranks are near to: only GPUs change where they go. */
static enum taut_status plan_binding(struct job *j)
{
	struct bind_ask ask = { .ranks = j->opts->ranks, .visible = config_env("CUDA_VISIBLE_DEVICES") };
	struct topo *t = NULL;
	struct config cfg;
	enum taut_status st = config_load(&cfg);

	if (st)
		return st;
	st = topo_live(&t, &cfg);
	config_cleanup(&cfg);
	if (st)
		return st;
	ask.topo = t;
	st = bind_plan(&j->bind, &ask);
	topo_free(t);
	return st;
}

static enum taut_status start_ranks(struct job *j)
{
	bool torch = false;
	enum taut_status st = env_job(j->opts, &torch);

	if (!st && j->opts->bind)
		st = plan_binding(j);
	for (int rank = 0; rank < j->opts->ranks && !st; rank++) {
		env_rank(rank, torch, j->bind);
		st = start_rank(j, rank);
		if (!st && j->bind)
			st = bind_check(j->bind, rank, j->ranks[rank].pid);
		if (!st && j->bind)
			say_binding(j, rank);
	}
	return st;
}

/* --- ending --- */

static void signal_ranks(const struct job *j, int sig)
{
	for (int i = 0; i < j->opts->ranks; i++)
		if (j->ranks[i].pid > 0)
			kill(-j->ranks[i].pid, sig);
}

/* The first @sig is polite; after the grace, or when asked again, there is no choice. */
static void end_ranks(struct job *j, int sig, int rc)
{
	if (j->ending)
		sig = SIGKILL;
	else
		j->rc = rc;
	if (!j->ending)
		j->kill_at = now_ns() + GRACE_MS * UINT64_C(1000000);
	j->ending = true;
	signal_ranks(j, sig);
	signal_ranks(j, SIGCONT); /* a stopped process would not see it */
}

struct ended {
	int rank; /* -1: none */
	pid_t pid;
	siginfo_t how;
};

static void report(struct job *j, const struct ended *e)
{
	const char *name = sigabbrev_np(e->how.si_status);

	if (e->how.si_code == CLD_EXITED)
		outlet_printf(&j->err, "%s: rank %d (pid %d) exited with code %d\n", j->opts->title, e->rank,
			      (int)e->pid, e->how.si_status);
	else
		outlet_printf(&j->err, "%s: rank %d (pid %d) was killed by signal %d (SIG%s)%s\n", j->opts->title,
			      e->rank, (int)e->pid, e->how.si_status, name ? name : "?",
			      e->how.si_code == CLD_DUMPED ? ", core dumped" : "");
}

static bool failed(const siginfo_t *how)
{
	return how->si_code != CLD_EXITED || how->si_status != 0;
}

static int rank_of(const struct job *j, pid_t pid)
{
	for (int i = 0; i < j->opts->ranks; i++)
		if (j->ranks[i].pid == pid)
			return i;
	return -1;
}

/* Takes one process that has ended. False: there is none. */
static bool reap(struct job *j, struct ended *e)
{
	memset(e, 0, sizeof(*e));
	if (waitid(P_ALL, 0, &e->how, WEXITED | WNOHANG | WNOWAIT) || !e->how.si_pid)
		return false;
	e->pid = e->how.si_pid;
	e->rank = rank_of(j, e->pid);
	if (e->rank >= 0) {
		kill(-e->pid, SIGKILL); /* its number is still its own */
		guard_tell(j, -e->pid);
		j->ranks[e->rank].pid = 0;
		j->running--;
	}
	if (e->pid == j->guard)
		j->guard = 0;
	waitpid(e->pid, NULL, 0);
	return true;
}

/* Of several that ended at once, one that a signal killed is the likelier cause. */
static void reap_all(struct job *j)
{
	struct ended first = { .rank = -1 }, e;

	while (reap(j, &e))
		if (e.rank >= 0 && failed(&e.how) &&
		    (first.rank < 0 || (first.how.si_code == CLD_EXITED && e.how.si_code != CLD_EXITED)))
			first = e;
	if (first.rank < 0 || j->ending)
		return;
	if (!j->out.broken || first.how.si_status != SIGPIPE) /* `taut run ... | head` needs no report */
		report(j, &first);
	end_ranks(j, SIGTERM, first.how.si_status + (first.how.si_code == CLD_EXITED ? 0 : 128));
}

static void stop_and_go_on(struct job *j)
{
	signal_ranks(j, SIGSTOP);
	raise(SIGSTOP);
	signal_ranks(j, SIGCONT);
}

static void on_signal(struct job *j, int sig)
{
	switch (sig) {
	case SIGCHLD:
		reap_all(j);
		break;
	case SIGUSR1:
	case SIGUSR2:
		signal_ranks(j, sig);
		break;
	case SIGTSTP:
		stop_and_go_on(j);
		break;
	default:
		end_ranks(j, sig, 128 + sig);
	}
}

static void read_signals(struct job *j)
{
	struct signalfd_siginfo s;

	while (read(j->sigfd, &s, sizeof(s)) == (ssize_t)sizeof(s))
		on_signal(j, (int)s.ssi_signo);
}

/* --- the loop --- */

static void check_clock(struct job *j)
{
	uint64_t now = now_ns();

	if (j->limit_at && now >= j->limit_at) {
		j->limit_at = 0;
		outlet_printf(&j->err, "%s: %d of %d ranks still run after %d s: ending them\n", j->opts->title,
			      j->running, j->opts->ranks, j->opts->timeout_s);
		end_ranks(j, SIGTERM, EXIT_TIMEOUT);
	}
	if (j->kill_at && now >= j->kill_at) {
		j->kill_at = 0;
		signal_ranks(j, SIGKILL);
	}
}

static int wait_ms(const struct job *j)
{
	uint64_t at = j->kill_at ? j->kill_at : j->limit_at, now = now_ns();

	if (!at || !j->running)
		return -1;
	return at <= now ? 0 : (int)((at - now) / 1000000) + 1;
}

static struct pollfd poll_outlet(const struct outlet *o)
{
	return (struct pollfd){ .fd = o->len ? o->fd : -1, .events = POLLOUT };
}

static struct pollfd poll_lines(const struct lines *l)
{
	bool wait = l->fd >= 0 && !outlet_full(l->to);

	return (struct pollfd){ .fd = wait ? l->fd : -1, .events = POLLIN };
}

static void poll_all(struct job *j)
{
	struct pollfd *p = j->polls;
	int n = j->opts->ranks;

	p[0] = (struct pollfd){ .fd = j->sigfd, .events = POLLIN };
	p[1] = poll_outlet(&j->out);
	p[2] = poll_outlet(&j->err);
	for (int i = 0; i < n; i++) {
		p[3 + 2 * i] = poll_lines(&j->ranks[i].out);
		p[4 + 2 * i] = poll_lines(&j->ranks[i].err);
	}
	if (poll(p, 3 + 2 * (nfds_t)n, wait_ms(j)) < 0)
		return;
	for (int i = 0; i < n; i++) {
		if (p[3 + 2 * i].revents)
			lines_read(&j->ranks[i].out);
		if (p[4 + 2 * i].revents)
			lines_read(&j->ranks[i].err);
	}
	outlet_write(&j->out);
	outlet_write(&j->err);
	read_signals(j);
}

/* All that the ranks wrote is in the pipes by now; one that lives on elsewhere may hold a
 * pipe open, and is not waited for. */
static void take_rest(struct lines *l)
{
	while (l->fd >= 0 && lines_read(l))
		;
	lines_close(l);
}

static void run_job(struct job *j)
{
	while (j->running) {
		poll_all(j);
		check_clock(j);
	}
	for (int i = 0; i < j->opts->ranks; i++) {
		take_rest(&j->ranks[i].out);
		take_rest(&j->ranks[i].err);
	}
	j->ending = true; /* a signal from now on is not for the ranks */
	while ((j->out.len && !j->out.broken) || (j->err.len && !j->err.broken))
		poll_all(j);
}

/* --- set up and clean up --- */

/* Of this process now; some when the kernel does not show them. */
static rlim_t open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	rlim_t n = 0;

	if (!d)
		return 16;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* ".", ".." and the folder itself */
}

/* Two pipes a rank; besides signals, guard, log and what the start of one rank takes for a moment. */
static enum taut_status raise_files(struct job *j)
{
	rlim_t rest = open_files() + 10, want = 2 * (rlim_t)j->opts->ranks + rest;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &j->old_files))
		return errno_fail(errno, "limit of open files");
	lim = j->old_files;
	if (lim.rlim_cur >= want || !piped(j->opts))
		return TAUT_OK;
	if (lim.rlim_max < want)
		return fail(TAUT_ERR_SYS,
			    "%d ranks need %lu open files, but the limit is %lu: raise it (ulimit -Hn), or start at "
			    "most %lu ranks",
			    j->opts->ranks, (unsigned long)want, (unsigned long)lim.rlim_max,
			    (unsigned long)(lim.rlim_max > rest ? (lim.rlim_max - rest) / 2 : 0));
	lim.rlim_cur = want;
	if (setrlimit(RLIMIT_NOFILE, &lim))
		return errno_fail(errno, "cannot raise the limit of open files to %lu", (unsigned long)want);
	return TAUT_OK;
}

/* What this process was told to ignore (by nohup, or a shell's &) it goes on to ignore. */
static bool ignored(int sig)
{
	struct sigaction now;

	return !sigaction(sig, NULL, &now) && now.sa_handler == SIG_IGN;
}

static enum taut_status catch_signals(struct job *j)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN }, normal = { .sa_handler = SIG_DFL };
	sigset_t mask;

	sigaction(SIGCHLD, &normal, NULL); /* an ignored one would leave nothing to wait for */
	sigemptyset(&mask);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		if (!ignored(caught[i]))
			sigaddset(&mask, caught[i]);
	sigaction(SIGPIPE, &ignore, &j->old_pipe);
	sigprocmask(SIG_BLOCK, &mask, &j->old_mask);
	j->sigfd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (j->sigfd < 0)
		return errno_fail(errno, "signalfd");
	return TAUT_OK;
}

static enum taut_status set_up(struct job *j)
{
	size_t n = (size_t)j->opts->ranks;
	enum taut_status st;

	j->ranks = mem_calloc(n, sizeof(*j->ranks));
	j->polls = mem_calloc(3 + 2 * n, sizeof(*j->polls));
	if (!j->ranks || !j->polls)
		return fail(TAUT_ERR_NOMEM, "%zu ranks", n);
	for (size_t i = 0; i < n; i++)
		j->ranks[i].out.fd = j->ranks[i].err.fd = -1;
	j->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (j->null_fd < 0)
		return errno_fail(errno, "/dev/null");
	st = raise_files(j);
	if (!st)
		st = catch_signals(j);
	if (!st)
		st = guard_start(j);
	return st;
}

static void clean_up(struct job *j)
{
	guard_stop(j);
	close_fd(j->sigfd);
	close_fd(j->null_fd);
	for (int i = 0; j->ranks && i < j->opts->ranks; i++) {
		lines_close(&j->ranks[i].out);
		lines_close(&j->ranks[i].err);
	}
	outlet_cleanup(&j->out);
	outlet_cleanup(&j->err);
	bind_free(j->bind);
	mem_free(j->ranks);
	mem_free(j->polls);
}

int launch(const struct launch_opts *opts)
{
	struct job j = { .opts = opts, .sigfd = -1, .null_fd = -1 };
	enum taut_status st;

	outlet_init(&j.out, STDOUT_FILENO);
	outlet_init(&j.err, STDERR_FILENO);
	st = set_up(&j);
	if (!st)
		st = start_ranks(&j);
	if (st)
		end_ranks(&j, SIGKILL, j.rc ? j.rc : 1);
	if (opts->timeout_s)
		j.limit_at = now_ns() + (uint64_t)opts->timeout_s * UINT64_C(1000000000);
	if (j.ranks)
		run_job(&j);
	if (j.out.error && !j.rc) {
		errno_fail(j.out.error, "standard output");
		j.rc = EXIT_FAILURE;
	}
	clean_up(&j);
	return j.rc;
}
