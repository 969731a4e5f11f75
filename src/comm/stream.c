/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a queue of calls and the thread that runs them in order. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "comm/comm.h"

struct batch {
	struct batch *next;
	size_t n;
	struct op ops[];
};
struct taut_stream {
	pid_t pid; /* of the process that has the worker */
	pthread_t worker;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct batch *first, **last;
	bool running, closing;
	enum taut_status st; /* first failure since the last wait */
	char text[1024];
};

static void run_batch(struct taut_stream *s, struct batch *b)
{
	enum taut_status st = ops_run(b->ops, b->n);

	pthread_mutex_lock(&s->lock);
	if (st && !s->st) {
		s->st = st;
		snprintf(s->text, sizeof(s->text), "%s", taut_error_message());
	}
	s->running = false;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < b->n; i++)
		op_release(&b->ops[i]);
	mem_free(b);
}

static void *work(void *arg)
{
	struct taut_stream *s = arg;

	for (;;) {
		struct batch *b;

		pthread_mutex_lock(&s->lock);
		while (!s->first && !s->closing)
			pthread_cond_wait(&s->change, &s->lock);
		b = s->first;
		if (b) {
			s->first = b->next;
			if (!s->first)
				s->last = &s->first;
			s->running = true;
		}
		pthread_mutex_unlock(&s->lock);
		if (!b)
			return NULL;
		run_batch(s, b);
	}
}

enum taut_status stream_check(const struct taut_stream *s)
{
	if (s->pid == getpid())
		return TAUT_OK;
	/* Quiet: a thread of the parent that is not here may have held the log's lock. */
	return fail_quiet(TAUT_ERR_ARG, "the stream belongs to process %d, not to its child", (int)s->pid);
}

enum taut_status stream_add(struct taut_stream *s, const struct op *ops, size_t n)
{
	struct batch *b = mem_calloc(1, sizeof(*b) + n * sizeof(*ops));

	if (!b) {
		/* The tickets are taken: without these calls their communicators cannot go on. */
		for (size_t i = 0; i < n; i++) {
			taut_comm_abort(ops[i].comm);
			mem_free(ops[i].owned);
		}
		return fail(TAUT_ERR_NOMEM, "%zu calls on a stream", n);
	}
	b->n = n;
	memcpy(b->ops, ops, n * sizeof(*ops));
	pthread_mutex_lock(&s->lock);
	*s->last = b;
	s->last = &b->next;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	return TAUT_OK;
}

enum taut_status taut_stream_create(struct taut_stream **out)
{
	struct taut_stream *s;
	int err;

	if (!out)
		return fail(TAUT_ERR_ARG, "taut_stream_create: out is NULL");
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return fail(TAUT_ERR_NOMEM, "a stream");
	s->pid = getpid();
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->change, NULL);
	err = thread_start(&s->worker, "taut-stream", work, s);
	if (err)
		goto err_free;
	*out = s;
	return TAUT_OK;
err_free:
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
	return errno_fail(err, "cannot start the thread of a stream");
}

void taut_stream_destroy(struct taut_stream *s)
{
	if (!s || s->pid != getpid())
		return;
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->worker, NULL);
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

/* With the lock held. */
static enum taut_status take_status(struct taut_stream *s)
{
	enum taut_status st = s->st;

	s->st = TAUT_OK;
	return st ? fail_quiet(st, "%s", s->text) : TAUT_OK;
}

enum taut_status taut_stream_wait(struct taut_stream *s)
{
	enum taut_status st;

	if (!s)
		return fail(TAUT_ERR_ARG, "taut_stream_wait: stream is NULL");
	st = stream_check(s);
	if (st)
		return st;
	pthread_mutex_lock(&s->lock);
	while (s->first || s->running)
		pthread_cond_wait(&s->change, &s->lock);
	st = take_status(s);
	pthread_mutex_unlock(&s->lock);
	return st;
}

enum taut_status taut_stream_query(struct taut_stream *s)
{
	enum taut_status st;

	if (!s)
		return fail(TAUT_ERR_ARG, "taut_stream_query: stream is NULL");
	st = stream_check(s);
	if (st)
		return st;
	pthread_mutex_lock(&s->lock);
	st = s->first || s->running ? TAUT_ERR_BUSY : take_status(s);
	pthread_mutex_unlock(&s->lock);
	return st;
}
