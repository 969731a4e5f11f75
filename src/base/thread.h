/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that the library makes. Any thread. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Starts @run(@arg) in a thread called @name (15 characters at most, as debuggers show it), which gets none of the
 * program's signals. 0, or an errno: nothing was started then. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg);

#endif
