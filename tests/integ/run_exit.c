/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and reports of `taut run`, and of the command's table. */
#include "run_taut.h"

static void codes(void)
{
	struct ran *r = TAUT("run", "-n", "3", "true");

	CHECK(r->code == 0 && !*r->out && !*r->err);
	r = TAUT("run", "-n", "4", "sh", "-c", "test $TAUT_RANK != 2 || exit 4; exec sleep 1000");
	CHECK(r->code == 4);
	CHECK(strstr(r->err, "taut run: rank 2 (pid ") && strstr(r->err, ") exited with code 4\n"));
	r = TAUT("run", "-n", "4", "sh", "-c", "test $TAUT_RANK != 3 || kill -9 $$; exec sleep 1000");
	CHECK(r->code == 128 + 9);
	CHECK(strstr(r->err, "taut run: rank 3 (pid ") && strstr(r->err, ") was killed by signal 9 (SIGKILL)\n"));
	r = TAUT("run", "-n", "1", "sh", "-c", "kill -SEGV $$");
	CHECK(r->code == 128 + 11 && strstr(r->err, "was killed by signal 11 (SIGSEGV)"));
}

static void the_first_failure_is_the_one(void)
{
	struct ran *r = TAUT("run", "-n", "3", "sh", "-c",
			     "trap 'exit 9' TERM; test $TAUT_RANK != 1 || exit 5; sleep 1000 & wait");

	CHECK(r->code == 5 && strstr(r->err, "rank 1 (pid"));
	CHECK(!strstr(r->err, "code 9"));
}

static void commands_that_cannot_be_run(void)
{
	struct ran *r = TAUT("run", "-n", "2", "/nonexistent/x");

	CHECK(r->code == 127 && strstr(r->err, "cannot start rank 0 of 2, command /nonexistent/x: No such file"));
	r = TAUT("run", "-n", "2", "no-such-command-anywhere");
	CHECK(r->code == 127);
	r = TAUT("run", "-n", "2", "/etc/passwd");
	CHECK(r->code == 126);
}

static void usage(void)
{
	struct ran *r = TAUT("run", "true");

	CHECK(r->code == 2 && strstr(r->err, "give -n N"));
	r = TAUT("run", "-n", "2");
	CHECK(r->code == 2 && strstr(r->err, "no command to run"));
	CHECK(TAUT("run", "-n", "0", "true")->code == 2);
	CHECK(TAUT("run", "-n", "4097", "true")->code == 2);
	CHECK(TAUT("run", "-n", "2x", "true")->code == 2);
	CHECK(TAUT("run", "-n", "2", "--timeout", "0", "true")->code == 2);
	CHECK(TAUT("run", "-n", "2", "--env", "=x", "true")->code == 2);
	CHECK(TAUT("run", "-n", "2", "--no-such", "true")->code == 2);
	r = TAUT("rnu");
	CHECK(r->code == 2 && strstr(r->err, "no command \"rnu\"; did you mean \"run\"?"));
	r = TAUT("run", "--help");
	CHECK(r->code == 0 && strstr(r->out, "usage: taut run") && !*r->err);
	CHECK(!strcmp(TAUT("help", "run")->out, TAUT("run", "-h")->out));
	r = TAUT("--version");
	CHECK(r->code == 0 && !strncmp(r->out, "taut ", 5));
	CHECK(TAUT("help")->code == 0);
}

static void a_time_limit_ends_the_ranks(void)
{
	struct ran *r = TAUT("run", "-n", "2", "--timeout", "1", "sleep", "1000");

	CHECK(r->code == 124 && strstr(r->err, "2 of 2 ranks still run after 1 s: ending them"));
}

static void a_bad_setting_is_said_once_before_any_rank(void)
{
	struct ran *r = TAUT("run", "-n", "2", "--env", "TAUT_SLOTS=x", "echo", "started");

	CHECK(r->code == 1 && strstr(r->err, "TAUT_SLOTS=x (environment)") && !*r->out);
}

int main(void)
{
	codes();
	the_first_failure_is_the_one();
	commands_that_cannot_be_run();
	usage();
	a_time_limit_ends_the_ranks();
	a_bad_setting_is_said_once_before_any_rank();
	return 0;
}
