/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do when something goes wrong. */
#ifndef INTEG_PHASES_H
#define INTEG_PHASES_H

#include "failing.h"

enum phase {
	JOINING,
	IDLE,
	SMALL,
	LARGE,
	TCP_SMALL,
	TCP_LARGE,
	MESSAGES,
	TCP_MESSAGES,
	DUP,
	SPLIT,
	STREAM,
	ALLOC,
	MAPPED,
	PHASES
};
static const char *const phase_names[PHASES] = { "joining",   "idle",	  "small",	  "large", "tcp small",
						 "tcp large", "messages", "tcp messages", "dup",   "split",
						 "stream",    "alloc",	  "mapped" };
static inline enum taut_status reduce(struct taut_comm *c, size_t n)
{
	float *x = calloc(n, sizeof(*x));
	enum taut_status st = taut_all_reduce(x, x, n, TAUT_FLOAT32, TAUT_SUM, c, NULL);

	free(x);
	return st;
}

static inline enum taut_status messages(struct taut_comm *c)
{
	int size = taut_comm_size(c);
	static char out[MOST][70000], in[MOST][70000];
	enum taut_status st;

	taut_group_start();
	for (int r = 0; r < size; r++) {
		taut_send(out[r], sizeof(out[0]), TAUT_INT8, r, 1, c, NULL);
		taut_recv(in[r], sizeof(in[0]), TAUT_INT8, r, 1, c, NULL);
		taut_send(out[r], 8, TAUT_INT8, r, 2, c, NULL);
		taut_recv(in[r], 8, TAUT_INT8, r, 2, c, NULL);
	}
	st = taut_group_end();
	return st;
}

static inline enum taut_status derive(struct taut_comm *c, bool dup)
{
	struct taut_comm *d;
	enum taut_status st = dup ? taut_comm_dup(&d, c, NULL) : taut_comm_split(&d, c, 0, -taut_comm_rank(c), NULL);

	if (!st) {
		st = taut_barrier(d, NULL);
		taut_comm_destroy(d);
	}
	/* The new group may number its ranks anew: what the old one says is compared. */
	while (st && !taut_comm_status(c))
		sleep_ms(1);
	return st ? taut_comm_status(c) : TAUT_OK;
}

static inline enum taut_status on_stream(struct taut_comm *c)
{
	struct taut_stream *s;
	enum taut_status st, more = TAUT_OK;
	float x[1000] = { 0 };

	if (taut_stream_create(&s))
		exit(1);
	for (int i = 0; i < 8 && !more; i++)
		more = taut_all_reduce(x, x, 1000, TAUT_FLOAT32, TAUT_SUM, c, s);
	st = taut_stream_wait(s);
	taut_stream_destroy(s);
	return st ? st : more;
}

static inline enum taut_status alloc(struct taut_comm *c)
{
	void *p;
	enum taut_status st = taut_mem_alloc(&p, 100000, c);

	return st ? st : taut_mem_free(p, c);
}

static inline enum taut_status mapped(struct taut_comm *c)
{
	static _Thread_local void *p; /* of the one communicator of this thread */
	size_t n = (size_t)1 << 18;
	enum taut_status st = p ? TAUT_OK : taut_mem_alloc(&p, n * 4, c);

	return st ? st : taut_all_reduce(p, p, n, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static inline enum taut_status once(struct taut_comm *c, enum phase phase)
{
	switch (phase) {
	case IDLE:
		sleep_ms(1);
		return taut_comm_status(c);
	case LARGE:
	case TCP_LARGE:
		return reduce(c, 1000000);
	case MESSAGES:
	case TCP_MESSAGES:
		return messages(c);
	case DUP:
	case SPLIT:
		return derive(c, phase == DUP);
	case STREAM:
		return on_stream(c);
	case ALLOC:
		return alloc(c);
	case MAPPED:
		return mapped(c);
	default:
		return reduce(c, 2);
	}
}

static inline void set_wire(enum phase phase)
{
	bool tcp = phase == TCP_SMALL || phase == TCP_LARGE || phase == TCP_MESSAGES;

	setenv("TAUT_WIRE", tcp ? "tcp" : "auto", 1);
}

#endif
