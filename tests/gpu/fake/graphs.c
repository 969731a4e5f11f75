/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs of the driver without GPUs: kernels that wait for those before them, of streams of one or many GPUs. */
#include <stdlib.h>

#include "driver.h"

struct node {
	struct node *next;
	struct graph *graph;
	struct work work;
	int device;
	struct tips after;
	bool followed;
	uint64_t done; /* plays of the graph */
	pthread_t thread;
};

struct graph {
	uint64_t id; /* of the capture: never 0, never again */
	struct stream *origin;
	struct node *first, **last; /* in the order of capture, which is one that is right */
	uint64_t queued, done;	    /* plays */
	bool spoilt;
};

/* --- capture --- */
static int add_tips(struct tips *t, const struct tips *more)
{
	for (int i = 0; i < more->n; i++) {
		int k = 0;

		while (k < t->n && t->node[k] != more->node[i])
			k++;
		if (k == TIPS)
			return INVALID;
		t->node[k] = more->node[i];
		t->n += k == t->n;
	}
	return OK;
}

int graph_add(struct stream *s, const struct work *w)
{
	struct node *n;

	if (s->graph->spoilt)
		return SPOILT;
	n = calloc(1, sizeof(*n));
	n->graph = s->graph;
	n->work = *w;
	n->device = s->ctx ? s->ctx->device : current()->device;
	n->after = s->tips;
	for (int i = 0; i < n->after.n; i++)
		n->after.node[i]->followed = true;
	s->tips = (struct tips){ { n }, 1 };
	*s->graph->last = n;
	s->graph->last = &n->next;
	return OK;
}

int graph_spoil(const struct stream *s)
{
	if (!s->graph)
		return OK;
	s->graph->spoilt = true;
	return NOT_CAPTURED;
}

void graph_record(struct event *e, const struct stream *s)
{
	e->capture = s->graph->id;
	e->tips = s->tips;
}

/* NULL: it has ended. */
static struct graph *captured(uint64_t id)
{
	for (struct stream *s = first_stream(); s; s = s->next)
		if (s->graph && s->graph->id == id)
			return s->graph;
	return NULL;
}

int graph_join(struct stream *s, const struct event *e)
{
	struct graph *g = captured(e->capture);

	if (!e->capture)
		return ISOLATED;
	if (!g || (s->graph && s->graph != g))
		return INVALID;
	if (!s->graph)
		s->tips.n = 0;
	s->graph = g;
	return add_tips(&s->tips, &e->tips);
}

API int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void *graph, void *deps, void *n)
{
	const struct stream *s = stream_of(stream);
	struct graph *g;

	(void)graph, (void)deps, (void)n;
	pthread_mutex_lock(&lock);
	g = s->graph;
	*status = g != NULL;
	*id = g ? g->id : 0;
	pthread_mutex_unlock(&lock);
	return OK;
}

API int cuThreadExchangeStreamCaptureMode(int *mode)
{
	(void)mode;
	return OK;
}

API int cuStreamBeginCapture_v2(void *stream, int mode)
{
	static uint64_t ids;
	struct stream *s = stream_of(stream);
	struct graph *g = NULL;

	(void)mode;
	pthread_mutex_lock(&lock);
	if (!s->graph) {
		g = calloc(1, sizeof(*g));
		*g = (struct graph){ .id = ++ids, .origin = s, .last = &g->first };
		s->graph = g;
		s->tips.n = 0;
	}
	pthread_mutex_unlock(&lock);
	return g ? OK : INVALID;
}

/* Is what the other streams did before the end of the first? */
static bool is_joined(const struct graph *g)
{
	const struct tips *ends = &g->origin->tips;

	for (const struct node *n = g->first; n; n = n->next) {
		int i = 0;

		while (i < ends->n && ends->node[i] != n)
			i++;
		if (!n->followed && i == ends->n)
			return false;
	}
	return true;
}

API int cuStreamEndCapture(void *stream, struct graph **out)
{
	struct stream *origin = stream_of(stream);
	struct graph *g;
	int result = INVALID;

	pthread_mutex_lock(&lock);
	g = origin->graph;
	if (g && g->origin == origin) {
		result = g->spoilt ? SPOILT : is_joined(g) ? OK : UNJOINED;
		for (struct stream *s = first_stream(); s; s = s->next)
			if (s->graph == g)
				s->graph = NULL;
	}
	pthread_mutex_unlock(&lock);
	*out = result ? NULL : g;
	return result;
}

/* --- replay --- */
uint64_t graph_queue(struct graph *g, struct stream *s)
{
	for (const struct node *n = g->first; n; n = n->next)
		s->reach[n->device] = s->queued;
	return ++g->queued;
}

static void *run_node(void *p)
{
	struct node *n = p;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < n->after.n; i++)
		while (n->after.node[i]->done == n->graph->done)
			pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	work_run(&n->work);
	pthread_mutex_lock(&lock);
	n->done++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void wait_plays(const struct graph *g, uint64_t number)
{
	pthread_mutex_lock(&lock);
	while (g->done < number)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
}

void graph_play(struct graph *g, uint64_t number)
{
	wait_plays(g, number - 1);
	for (struct node *n = g->first; n; n = n->next)
		pthread_create(&n->thread, NULL, run_node, n);
	for (struct node *n = g->first; n; n = n->next)
		pthread_join(n->thread, NULL);
	pthread_mutex_lock(&lock);
	g->done++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}

API int cuGraphInstantiateWithFlags(struct graph **out, struct graph *g, unsigned long long flags)
{
	(void)flags;
	*out = g;
	return OK;
}

API int cuGraphLaunch(struct graph *g, void *stream)
{
	return launch_graph(g, stream_of(stream));
}

API int cuGraphDestroy(struct graph *g)
{
	(void)g; /* the nodes are those of what was made from it */
	return OK;
}

API int cuGraphExecDestroy(struct graph *g)
{
	wait_plays(g, g->queued);
	while (g->first) {
		struct node *n = g->first;

		g->first = n->next;
		free(n);
	}
	free(g);
	return OK;
}
