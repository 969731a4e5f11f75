/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the driver without GPUs know of each other. */
#ifndef TESTS_GPU_FAKE_DRIVER_H
#define TESTS_GPU_FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/kernels/emulate.h"

#define API __attribute__((visibility("default")))

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the callers have their own */

enum { OK = 0, INVALID = 1, BAD_HANDLE = 400, NO_HANDLE = 801 };
enum { NOT_CAPTURED = 900, SPOILT = 901, UNJOINED = 904, ISOLATED = 905 };
enum { GPUS = 16, TIPS = 32 };

struct ctx {
	int device;
};
struct ctx *current(void);
int multiprocessors(void); /* of a GPU */

/* --- kernels.c --- */
struct copy {
	uint64_t to, from;
	size_t len;
};

struct spin {
	uint64_t ns;
};

union args {
	struct copy copy;
	struct spin spin;
	struct gpu_direct_args direct;
	struct gpu_bulk_args bulk;
	struct gpu_host_args host;
	struct gpu_schedule_args schedule;
	struct gpu_messages_args messages;
};

/* A kernel to be run with these arguments. */
struct work {
	const struct kernel *kernel; /* NULL: nothing */
	unsigned blocks;
	int device;
	union args args;
};
extern const struct kernel *const copy_kernel;
const struct kernel *kernel_named(const char *name);
struct work work_of(const struct kernel *k, unsigned blocks, const void *args);
void work_run(const struct work *w); /* to its end */

/* --- streams.c --- */
extern pthread_mutex_t lock; /* for all that streams and graphs have */
extern pthread_cond_t change;

/* What follows in a graph comes after these. */
struct tips {
	struct node *node[TIPS];
	int n;
};

/* Counts of what was queued and what is done. */
struct stream {
	struct stream *next;
	struct ctx *ctx; /* NULL: the default stream of all */
	uint64_t queued, done;
	uint64_t reach[GPUS]; /* the last of these graphs that works there too */
	struct graph *graph;  /* being captured */
	struct tips tips;
	uint64_t id;
	bool gone; /* destroyed */
};

/* A place in a stream, or in a graph that is being captured. */
struct event {
	struct stream *of; /* NULL: none */
	uint64_t count, capture;
	struct tips tips;
};

struct stream *stream_of(void *p);
int launch(const struct kernel *k, unsigned blocks, void *stream, void **params);
int launch_graph(struct graph *g, struct stream *s);
void wait_stream(struct stream *s);
void wait_ctx(const struct ctx *ctx);
struct stream *first_stream(void); /* with the lock */

/* --- graphs.c; all but graph_play() with the lock --- */
int graph_add(struct stream *s, const struct work *w); /* to s->graph */
int graph_spoil(const struct stream *s);	       /* NOT_CAPTURED if it is captured: it was asked something */
void graph_record(struct event *e, const struct stream *s);
int graph_join(struct stream *s, const struct event *e);
uint64_t graph_queue(struct graph *g, struct stream *s); /* as the last of @s; the number for graph_play() */
void graph_play(struct graph *g, uint64_t number);	 /* after those before; to its end */
#endif
