/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that start the `taut` command, which TAUT_TEST_COMMAND names. Failed checks exit
 * with 1 and say where; a process that hangs is killed after a long time and is a failure. */
#ifndef RUN_TAUT_H
#define RUN_TAUT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 100, OUTPUT_MAX = 1 << 20 };

struct ran {
	int code; /* exit code, or 128 + signal */
	char out[OUTPUT_MAX], err[OUTPUT_MAX];
};

static struct ran last_run; /* of taut_run() */

static inline void ran_tell(void)
{
	fprintf(stderr, "the last taut that was waited for ended with %d; it said:\n%.1500s\nand on stderr:\n%.3000s\n",
		last_run.code, last_run.out, last_run.err);
}

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                             \
			ran_tell();                                                                                    \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static inline void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* The command, or a skip: 77. */
static inline char *taut_command(void)
{
	char *path = getenv("TAUT_TEST_COMMAND");

	if (!path || access(path, X_OK)) {
		printf("skipped: TAUT_TEST_COMMAND does not name the taut command\n");
		exit(77);
	}
	return path;
}

/* Starts argv[1...] of taut with output in two unnamed files; argv[0] is filled in. */
static inline pid_t taut_start(char **argv, int out, int err)
{
	pid_t pid;

	argv[0] = taut_command();
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing */
		dup2(out, 1);
		dup2(err, 2);
		execv(argv[0], argv);
		_exit(99);
	}
	return pid;
}

static inline int output_file(void)
{
	char path[] = "/tmp/taut-test-XXXXXX";
	int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

	CHECK(fd >= 0);
	unlink(path);
	return fd;
}

static inline void output_text(int fd, char *text)
{
	ssize_t n = pread(fd, text, OUTPUT_MAX - 1, 0);

	CHECK(n >= 0 && n < OUTPUT_MAX - 1);
	text[n] = '\0';
}

static inline int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int taut_wait(pid_t pid)
{
	int status;

	for (int i = 0; i < PATIENCE_S * 100; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return exit_code(status);
		pause_ms(10);
	}
	kill(pid, SIGKILL);
	fprintf(stderr, "taut hangs\n");
	exit(1);
}

static inline struct ran *taut_run(char **argv)
{
	int out = output_file(), err = output_file();

	last_run.code = taut_wait(taut_start(argv, out, err));
	output_text(out, last_run.out);
	output_text(err, last_run.err);
	close(out);
	close(err);
	return &last_run;
}

/* The arguments of taut, NULL at the end. */
#define TAUT(...) taut_run((char *[]){ (char *)0, __VA_ARGS__, (char *)0 })
#define TAUT_START(out, err, ...) taut_start((char *[]){ (char *)0, __VA_ARGS__, (char *)0 }, out, err)

/* Waits until @fd's file has @count times @word. */
static inline void wait_for(int fd, const char *word, int count)
{
	static char text[OUTPUT_MAX];

	for (int i = 0; i < PATIENCE_S * 100; i++) {
		int seen = 0;

		output_text(fd, text);
		for (char *at = text; (at = strstr(at, word)); at++)
			seen++;
		if (seen >= count)
			return;
		pause_ms(10);
	}
	fprintf(stderr, "waited in vain for %d times %s in: %s\n", count, word, text);
	exit(1);
}

/* Reads a file of /proc; -1 when it is not there. */
static inline ssize_t read_proc(const char *pid, const char *name, char *text, size_t len)
{
	char path[300];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	n = read(fd, text, len);
	close(fd);
	return n;
}

static inline int in_state(const char *pid, char state)
{
	char text[512] = "";
	char *close = read_proc(pid, "stat", text, sizeof(text) - 1) > 0 ? strrchr(text, ')') : NULL;

	return !state || (close && close[2] == state);
}

/* Processes whose environment holds @mark, besides this one, in @state (0: any); zombies
 * have none. */
static inline int count_marked_in_state(const char *mark, char state)
{
	static char text[1 << 18];
	DIR *dir = opendir("/proc");
	int count = 0;

	CHECK(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		ssize_t n;

		if (atoi(e->d_name) <= 0 || atoi(e->d_name) == (int)getpid())
			continue;
		n = read_proc(e->d_name, "environ", text, sizeof(text));
		count += n > 0 && memmem(text, (size_t)n, mark, strlen(mark)) && in_state(e->d_name, state);
	}
	closedir(dir);
	return count;
}

static inline int count_marked(const char *mark)
{
	return count_marked_in_state(mark, 0);
}

static inline void wait_until_none_is_marked(const char *mark)
{
	for (int i = 0; i < PATIENCE_S * 20; i++) {
		if (!count_marked(mark))
			return;
		pause_ms(50);
	}
	fprintf(stderr, "%d processes with %s are left\n", count_marked(mark), mark);
	exit(1);
}

#endif
