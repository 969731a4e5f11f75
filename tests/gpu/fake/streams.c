/* SPDX-License-Identifier: Apache-2.0 */
/* The streams and events of the driver without GPUs: each thing that is queued is a thread, which waits for its turn.
 */
#include <stdlib.h>
#include <time.h>

#include "driver.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct stream null_stream, *streams = &null_stream;

static struct stream *make_stream(void);

/* 1 is a name of the default stream, 2 of the calling thread's. */
struct stream *stream_of(void *p)
{
	static _Thread_local struct stream *own;

	if ((uintptr_t)p != 2)
		return (uintptr_t)p > 2 ? p : &null_stream;
	if (!own)
		own = make_stream();
	return own;
}

struct stream *first_stream(void)
{
	return streams;
}

/* --- what is queued: a kernel, a graph, or a wait --- */
struct item {
	struct stream *stream;
	uint64_t number;
	struct work work;
	struct graph *graph;
	uint64_t play; /* of the graph */
	struct {
		struct stream *of;
		uint64_t count;
	} after;
};

/* With the lock. */
static void wait_count(const struct stream *s, uint64_t count)
{
	while (s->done < count)
		pthread_cond_wait(&change, &lock);
}

static void *run_item(void *p)
{
	struct item *i = p;

	pthread_mutex_lock(&lock);
	wait_count(i->stream, i->number - 1);
	if (i->after.of)
		wait_count(i->after.of, i->after.count);
	pthread_mutex_unlock(&lock);
	if (i->graph)
		graph_play(i->graph, i->play);
	else if (i->work.kernel)
		work_run(&i->work);
	pthread_mutex_lock(&lock);
	i->stream->done++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	free(i);
	return NULL;
}

/* With the lock. */
static int queue(struct stream *s, const struct item *what)
{
	struct item *i = malloc(sizeof(*i));
	pthread_t t;

	*i = *what;
	i->stream = s;
	i->number = ++s->queued;
	if (i->graph)
		i->play = graph_queue(i->graph, s);
	if (pthread_create(&t, NULL, run_item, i))
		return INVALID;
	pthread_detach(t);
	return OK;
}

int launch(const struct kernel *k, unsigned blocks, void *stream, void **params)
{
	struct stream *s = stream_of(stream);
	struct item i = { .work = work_of(k, blocks, params[0]) };
	int result = OK;

	pthread_mutex_lock(&lock);
	if (s->graph)
		result = graph_add(s, &i.work);
	else
		result = queue(s, &i);
	pthread_mutex_unlock(&lock);
	return result;
}

int launch_graph(struct graph *g, struct stream *s)
{
	struct item i = { .graph = g };
	int result;

	pthread_mutex_lock(&lock);
	result = s->graph ? INVALID : queue(s, &i);
	pthread_mutex_unlock(&lock);
	return result;
}

API int cuLaunchKernel(const struct kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		       unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	(void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
	return launch(k, gx, stream, params);
}

/* As cuda.h has it. */
struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream, *attributes;
	unsigned nattributes;
};

API int cuLaunchKernelEx(const struct launch_config *c, const struct kernel *k, void **params, void **extra)
{
	(void)extra;
	return launch(k, c->grid[0], c->stream, params);
}

/* --- streams --- */
void wait_stream(struct stream *s)
{
	pthread_mutex_lock(&lock);
	wait_count(s, s->queued);
	pthread_mutex_unlock(&lock);
}

void wait_ctx(const struct ctx *ctx)
{
	pthread_mutex_lock(&lock);
	for (struct stream *s = streams; s; s = s->next)
		wait_count(s, !s->ctx || s->ctx == ctx ? s->queued : ctx ? s->reach[ctx->device] : 0);
	pthread_mutex_unlock(&lock);
}

static struct stream *make_stream(void)
{
	static uint64_t ids;
	struct stream *s = calloc(1, sizeof(*s));

	pthread_mutex_lock(&lock);
	s->id = ++ids;
	s->ctx = current();
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&lock);
	return s;
}

API int cuStreamCreate(struct stream **out, unsigned flags)
{
	(void)flags;
	*out = make_stream();
	return OK;
}

API int cuStreamDestroy_v2(struct stream *s)
{
	wait_stream(s); /* kept: events may name it */
	s->gone = true;
	return OK;
}

static int spoil(const struct stream *s)
{
	int result;

	pthread_mutex_lock(&lock);
	result = graph_spoil(s);
	pthread_mutex_unlock(&lock);
	return result;
}

API int cuStreamGetId(void *stream, uint64_t *id)
{
	*id = stream_of(stream)->id;
	return spoil(stream_of(stream));
}

API int cuStreamSynchronize(void *stream)
{
	wait_stream(stream_of(stream));
	return spoil(stream_of(stream));
}

API int cuStreamQuery(void *stream)
{
	return cuStreamSynchronize(stream); /* of taut's own, which has no kernels */
}

API int cuCtxSynchronize(void)
{
	wait_ctx(current());
	return OK;
}

/* --- events --- */
struct timed_event {
	struct event at;
	struct timespec when;
};

API int cuEventCreate(struct timed_event **out, unsigned flags)
{
	(void)flags;
	*out = calloc(1, sizeof(**out));
	return OK;
}

API int cuEventDestroy_v2(struct timed_event *e)
{
	free(e);
	return OK;
}

API int cuEventRecord(struct timed_event *e, void *stream)
{
	struct stream *s = stream_of(stream);

	if (s->gone)
		return BAD_HANDLE;
	pthread_mutex_lock(&lock);
	e->at = (struct event){ .of = s, .count = s->queued };
	if (s->graph)
		graph_record(&e->at, s);
	clock_gettime(CLOCK_MONOTONIC, &e->when);
	pthread_mutex_unlock(&lock);
	return OK;
}

API int cuEventElapsedTime(float *ms, struct timed_event *from, struct timed_event *to)
{
	*ms = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
	      (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
	return OK;
}

API int cuStreamWaitEvent(void *stream, struct timed_event *e, unsigned flags)
{
	struct stream *s = stream_of(stream);
	struct item i = { .after = { e->at.of, e->at.count } };
	int result = OK;

	(void)flags;
	pthread_mutex_lock(&lock);
	if (e->at.of && (s->graph || e->at.capture))
		result = graph_join(s, &e->at);
	else if (e->at.of && e->at.of->done < e->at.count)
		result = queue(s, &i);
	pthread_mutex_unlock(&lock);
	return result;
}
