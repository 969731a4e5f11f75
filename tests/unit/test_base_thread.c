/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

struct seen {
	char name[16];
	sigset_t blocked;
};

static void *look(void *arg)
{
	struct seen *s = arg;

	pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
	pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
	return s;
}

static void a_thread_has_its_name_and_no_signals_of_the_program(void **state)
{
	static const int program[] = { SIGINT,	SIGTERM, SIGHUP,  SIGALRM, SIGCHLD,
				       SIGUSR1, SIGUSR2, SIGPROF, SIGPIPE, SIGIO };
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct seen s = { 0 };
	pthread_t thread;
	void *end;

	(void)state;
	assert_int_equal(thread_start(&thread, "taut-fifteen-15", look, &s), 0);
	pthread_join(thread, &end);
	assert_ptr_equal(end, &s);
	assert_string_equal(s.name, "taut-fifteen-15");
	for (size_t i = 0; i < sizeof(program) / sizeof(program[0]); i++)
		assert_int_equal(sigismember(&s.blocked, program[i]), 1);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_int_equal(sigismember(&s.blocked, own[i]), 0);
}

static void who_starts_it_keeps_name_and_signals(void **state)
{
	struct seen before = { 0 }, after = { 0 }, s = { 0 };
	sigset_t usr2;
	pthread_t thread;

	(void)state;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	look(&before);
	assert_int_equal(thread_start(&thread, "taut-other", look, &s), 0);
	look(&after);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
	assert_string_equal(after.name, before.name);
	assert_int_equal(sigismember(&after.blocked, SIGUSR2), 1);
	assert_int_equal(sigismember(&after.blocked, SIGUSR1), 0);
}

static void without_memory_nothing_starts(void **state)
{
	struct seen s = { 0 };
	pthread_t thread;

	(void)state;
	mem_fail_from(1);
	assert_int_equal(thread_start(&thread, "taut-none", look, &s), ENOMEM);
	mem_fail_from(0);
	assert_string_equal(s.name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_its_name_and_no_signals_of_the_program),
		cmocka_unit_test(who_starts_it_keeps_name_and_signals),
		cmocka_unit_test(without_memory_nothing_starts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
