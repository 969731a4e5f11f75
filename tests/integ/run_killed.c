/* SPDX-License-Identifier: Apache-2.0 */
/* However `taut run` ends, nothing that it started is left. */
#include "run_taut.h"

static char mark[64];

/* A process in exec() shows no environment for a moment. */
static void wait_until_marked(const char *text, char state, int want)
{
	for (int i = 0; i < PATIENCE_S * 20; i++) {
		if (count_marked_in_state(text, state) >= want)
			return;
		pause_ms(50);
	}
	CHECK(!"the ranks are there");
}

/* Ranks with children of their own, which say "up" and stay. */
static pid_t start_job(int out, int err, const char *script)
{
	snprintf(mark, sizeof(mark), "TAUT_TEST_MARK=%d-%d", (int)getpid(), out);
	pid_t pid = TAUT_START(out, err, "run", "-n", "4", "--env", mark, "sh", "-c", (char *)script);

	wait_for(out, "up\n", 4);
	wait_until_marked(mark, 0, 8); /* each with its sleep */
	return pid;
}

static const char with_children[] = "sleep 1000 & echo up; wait";
static const char that_ignores_signals[] = "trap '' TERM INT; sleep 1000 & echo up; while :; do wait; done";

static void a_signal(int sig, const char *script, int code)
{
	int out = output_file(), err = output_file();
	pid_t pid = start_job(out, err, script);

	kill(pid, sig);
	CHECK(taut_wait(pid) == code);
	wait_until_none_is_marked(mark);
	close(out);
	close(err);
}

static void a_rank_that_leaves_children(void)
{
	static char text[OUTPUT_MAX];
	int out = output_file(), err = output_file();

	snprintf(mark, sizeof(mark), "TAUT_TEST_MARK=%d-left", (int)getpid());
	CHECK(taut_wait(TAUT_START(out, err, "run", "-n", "2", "--env", mark, "sh", "-c", "sleep 1000 & echo x")) == 0);
	wait_until_none_is_marked(mark);
	output_text(out, text);
	CHECK(!strcmp(text, "x\nx\n"));
}

static void a_stopped_rank_is_ended_too(void)
{
	int out = output_file(), err = output_file();
	pid_t pid;

	snprintf(mark, sizeof(mark), "TAUT_TEST_MARK=%d-stop", (int)getpid());
	pid = TAUT_START(out, err, "run", "-n", "2", "--env", mark, "sh", "-c",
			 "trap 'echo bye; exit 0' TERM; echo up; kill -STOP $$");
	wait_for(out, "up\n", 2);
	wait_until_marked(mark, 'T', 2);
	kill(pid, SIGTERM);
	CHECK(taut_wait(pid) == 128 + SIGTERM);
	wait_for(out, "bye\n", 2); /* it saw the signal, instead of being killed in its sleep */
	wait_until_none_is_marked(mark);
}

static void user_signals_reach_the_ranks(void)
{
	int out = output_file(), err = output_file();
	pid_t pid = TAUT_START(out, err, "run", "-n", "2", "sh", "-c",
			       "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done");

	wait_for(out, "up\n", 2);
	kill(pid, SIGUSR1);
	CHECK(taut_wait(pid) == 0);
	wait_for(out, "got\n", 2);
}

/* A rank that handles the interrupt has the time for it. */
static void an_interrupt_is_passed_on(void)
{
	int out = output_file(), err = output_file();
	pid_t pid = TAUT_START(out, err, "run", "-n", "2", "sh", "-c",
			       "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done");

	wait_for(out, "up\n", 2);
	kill(pid, SIGINT);
	CHECK(taut_wait(pid) == 128 + SIGINT);
	wait_for(out, "bye\n", 2);
}

/* As nohup does. */
static void what_was_ignored_stays_ignored(void)
{
	int out = output_file(), err = output_file();
	pid_t pid;

	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	pid = TAUT_START(out, err, "run", "-n", "2", "sh", "-c",
			 "trap 'echo got; exit 6' USR1; echo up; while :; do sleep 0.05; done");
	signal(SIGHUP, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	wait_for(out, "up\n", 2);
	kill(pid, SIGHUP);
	kill(pid, SIGUSR1);
	CHECK(taut_wait(pid) == 6);
	wait_for(out, "got\n", 1);
}

int main(void)
{
	a_signal(SIGKILL, with_children, 128 + SIGKILL);
	a_signal(SIGKILL, that_ignores_signals, 128 + SIGKILL);
	a_signal(SIGINT, with_children, 128 + SIGINT);
	a_signal(SIGTERM, with_children, 128 + SIGTERM);
	a_signal(SIGHUP, with_children, 128 + SIGHUP);
	a_signal(SIGTERM, that_ignores_signals, 128 + SIGTERM);
	a_rank_that_leaves_children();
	a_stopped_rank_is_ended_too();
	user_signals_reach_the_ranks();
	an_interrupt_is_passed_on();
	what_was_ignored_stays_ignored();
	return 0;
}
