/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at what a GPU does, and memory that peers have mapped. */
#include <stdio.h>

#include "base/time.h"
#include "cuda/gpu_state.h"
#include "cuda/home.h"

#define LOOK_MS 100

/* --- looking --- */
uint64_t gpu_calls(const struct gpu *g, bool *graphs)
{
	*graphs = __atomic_load_n(&g->graphs, __ATOMIC_RELAXED);
	return __atomic_load_n(&g->calls, __ATOMIC_RELAXED);
}

struct look { /* as copied */
	uint64_t messages[2];
	uint32_t begun, ended;
};

static int begin_look(struct gpu *g, struct look *l)
{
	uint64_t counters = g->counters + (2 * (uint64_t)g->nranks * g->at.messages.lanes + GPU_COUNTER_BEGUN) * 8;
	int err = g->cu->copy_from_async(&l->begun, g->epochs + GPU_EPOCH_BEGUN * sizeof(uint32_t), sizeof(l->begun),
					 g->own);

	if (!err)
		err = g->cu->copy_from_async(l->messages, counters, sizeof(l->messages), g->own);
	/* The ends last: a call that ends meanwhile is not taken for one that waits. */
	return err ? err : g->cu->copy_from_async(&l->ended, g->epochs, sizeof(l->ended), g->own);
}

enum taut_status gpu_look(struct gpu *g, struct gpu_progress *out, bool *known)
{
	struct look *l = (struct look *)(void *)(g->words + WORDS_LOOK);
	uint64_t until = now_ns() + LOOK_MS * 1000000ull;
	int relaxed = CU_CAPTURE_RELAXED, err;
	struct cu_ctx *old;
	char what[32];

	snprintf(what, sizeof(what), "rank %d's GPU", g->rank);
	g->cu->ctx_push(g->ctx);
	g->cu->capture_mode(&relaxed);
	err = g->cu->stream_query(g->own);
	if (!err)
		err = begin_look(g, l);
	while (!err && (err = g->cu->stream_query(g->own)) == CU_NOT_READY && now_ns() < until) {
		sleep_ms(1);
		err = CU_OK;
	}
	g->cu->capture_mode(&relaxed);
	g->cu->ctx_pop(&old);
	*known = !err;
	if (!err)
		*out = (struct gpu_progress){ l->begun, l->ended, l->messages[0], l->messages[1] };
	return err == CU_NOT_READY ? TAUT_OK : cuda_st(err, what);
}

/* --- memory --- */
bool gpu_publish(struct gpu *g, const void *p, size_t len, int ms)
{
	struct cu_ctx *old;
	bool ready;

	if (!g->share)
		return g->nranks == 1;
	g->cu->ctx_push(g->ctx);
	ready = share_publish(g->share, p, len, ms);
	g->cu->ctx_pop(&old);
	return ready;
}

enum taut_status gpu_keep(struct gpu *g, const void *p, size_t len)
{
	return g->share ? share_keep(g->share, p, len) : TAUT_OK;
}

void gpu_forget(struct gpu *g, const void *p, size_t len)
{
	if (g->share)
		share_forget(g->share, p, len);
}

enum taut_status gpu_segment_alloc(struct gpu *g, void **out, size_t len, int ms)
{
	struct cu_ctx *old;
	enum taut_status st;
	void *p;

	g->cu->ctx_push(g->ctx);
	st = gpu_mem_get(&p, len);
	if (st)
		goto out_pop;
	st = cuda_st(g->cu->memset8((uint64_t)(uintptr_t)p, 0, len, g->own), "clearing GPU memory");
	if (!st)
		st = cuda_st(g->cu->stream_sync(g->own), "clearing GPU memory");
	if (st)
		g->cu->mem_free((uint64_t)(uintptr_t)p); /* quietly: what failed first counts */
	else
		*out = p;
out_pop:
	g->cu->ctx_pop(&old);
	if (!st)
		gpu_publish(g, p, len, ms);
	return st;
}

void gpu_segment_free(struct gpu *g, void *p)
{
	struct cu_ctx *old;

	if (g->share)
		share_retire(g->share, p, LOOK_MS);
	g->cu->ctx_push(g->ctx);
	gpu_mem_put(p);
	g->cu->ctx_pop(&old);
}
