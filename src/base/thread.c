/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/mem.h"

struct start {
	const char *name;
	void *(*run)(void *);
	void *arg;
};

/* Its name it takes itself: the starter might come too late, when the thread has ended. */
static void *begin(void *arg)
{
	struct start s = *(struct start *)arg;

	mem_free(arg);
	pthread_setname_np(pthread_self(), s.name);
	return s.run(s.arg);
}

/* What a thread brings on itself stays: blocked, it would end the process past the program's handler. */
static void block_signals(sigset_t *old)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, old);
}

int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg)
{
	struct start *s = mem_calloc(1, sizeof(*s));
	sigset_t old;
	int err;

	if (!s)
		return ENOMEM;
	*s = (struct start){ name, run, arg };
	block_signals(&old); /* here: the thread has them blocked from its first moment */
	err = pthread_create(out, NULL, begin, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		mem_free(s);
	return err;
}
