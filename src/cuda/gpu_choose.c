/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel a collective takes, and how many blocks: what was measured best on two H200, docs/BENCHMARKS.md. */
#include "cuda/gpu_state.h"

#define LINES_MOST ((size_t)2 << 20) /* bytes of a piece, by ll128 in one shot */
#define RELAY_COPY_BLOCKS 16
#define RELAY_SUM_BLOCKS 64
#define RELAY_BUCKET_BLOCKS 32

enum gpu_kernel gpu_choose(const struct gpu *g, const struct gpu_request *op, size_t bytes)
{
	size_t line_data = g->at.ll128_bytes / GPU_LINE * 120;
	bool all_reduce = op->coll == COLL_ALL_REDUCE || op->coll == COLL_BARRIER;

	if (g->host.base)
		return bytes <= HOST_LL_DATA && !g->tunnel ? KERNEL_LL : KERNEL_HOST;
	if (bytes <= LL_DATA && (g->nranks <= 4 || bytes <= LL_DATA / 4))
		return KERNEL_LL;
	if (all_reduce && (g->nranks > 2 || bytes > (size_t)512 << 10)) {
		size_t share = (bytes / (size_t)g->nranks + 32) * 2;

		return share <= line_data ? KERNEL_LL128_TWO : KERNEL_BULK;
	}
	return bytes <= line_data && bytes <= LINES_MOST ? KERNEL_LL128 : KERNEL_BULK;
}

/* Is it a sum of whole aligned words for which there is a kernel? */
static bool plain_sum(const struct gpu *g, const struct gpu_direct_args *a)
{
	return a->shape.reduces && a->value.op == GPU_SUM && !a->value.scaled && !a->value.divide &&
	       g->module->f[KERNEL_LL_SUM][a->value.kind] && !((a->bytes | (uintptr_t)a->in | (uintptr_t)a->out) & 7);
}

enum gpu_kernel gpu_lean(enum gpu_kernel k, const struct gpu *g, const struct gpu_direct_args *a)
{
	bool by_all = !a->shape.scatters && a->shape.to < 0;

	if (k == KERNEL_LL && !a->shape.reduces)
		return KERNEL_LL_COPY;
	if (k == KERNEL_BULK || k == KERNEL_HOST || !plain_sum(g, a))
		return k;
	if (k == KERNEL_LL)
		return by_all ? KERNEL_LL_SUM : KERNEL_LL_PART_SUM;
	if (k == KERNEL_LL128)
		return by_all ? KERNEL_LL128_SUM : k;
	return KERNEL_LL128_TWO_SUM;
}

static int host_lanes(const struct gpu *g)
{
	int fit = g->blocks / 2, most = (int)g->at.host_lanes;

	return fit < 1 ? 1 : fit < most ? fit : most;
}

static unsigned clamp(size_t want, int most)
{
	return want < 1 ? 1 : want > (size_t)most ? (unsigned)most : (unsigned)want;
}

/* What gradients are put into mostly: summed up beside products of matrices, which need the rest of the GPU more than
 * the sum needs a few percent of time. */
static bool is_bucket(size_t bytes)
{
	return bytes >= (size_t)16 << 20 && bytes < (size_t)64 << 20;
}

/* By relay.cuh; 0: not. Of two ranks, sums that take the whole GPU are faster from registers. */
static int relay_blocks(const struct gpu *g, const struct gpu_request *op, size_t bytes)
{
	bool sums = op->op == TAUT_SUM || op->op == TAUT_AVG, scatters = op->coll == COLL_REDUCE_SCATTER;
	bool plain = !scatters && g->nranks == 2 && op->op == TAUT_SUM && !op->scaled;

	if (!g->relays || g->nranks > GPU_RELAY_RANKS)
		return 0;
	if (op->coll == COLL_ALL_GATHER)
		return RELAY_COPY_BLOCKS;
	if ((op->coll != COLL_ALL_REDUCE && !scatters) || !sums)
		return 0;
	if (is_bucket(scatters ? bytes * (size_t)g->nranks : bytes))
		return RELAY_BUCKET_BLOCKS;
	return plain ? 0 : RELAY_SUM_BLOCKS;
}

/* Half of what fits stays when peers are late: two communicators may have such calls at once, and in another order on
 * another GPU. */
static struct gpu_grid bulk_grid(const struct gpu *g, const struct gpu_request *op, size_t bytes)
{
	int relays = relay_blocks(g, op, bytes), half = g->long_blocks;
	struct gpu_grid grid = { .threads = 512 };

	if (relays) {
		grid.blocks = grid.core = clamp(bytes / (32 << 10), relays < half ? relays : half);
		grid.shared_bytes = GPU_RELAY_BYTES;
		grid.early = g->alone;
		return grid;
	}
	grid.blocks = clamp(bytes / (32 << 10), g->blocks);
	grid.core = grid.blocks < (unsigned)half ? grid.blocks : (unsigned)half;
	return grid;
}

struct gpu_grid gpu_grid_of(const struct gpu *g, enum gpu_kernel k, const struct gpu_request *op, size_t bytes)
{
	switch (k) {
	case KERNEL_LL:
		return (struct gpu_grid){ .blocks = clamp((bytes / 8 + 255) / 256, g->blocks < 32 ? g->blocks : 32),
					  .threads = bytes <= 256 ? 32 : 256,
					  .early = g->alone };
	case KERNEL_LL128:
		return (struct gpu_grid){ .blocks = clamp(bytes / 120 / 32, g->blocks),
					  .threads = 512,
					  .early = g->alone };
	case KERNEL_LL128_TWO:
		return (struct gpu_grid){ .blocks = clamp(bytes / (size_t)g->nranks / 120 / 96, g->blocks),
					  .threads = 512,
					  .early = g->alone };
	case KERNEL_HOST:
		return (struct gpu_grid){ .blocks = 2 * clamp(bytes / (16 << 10), host_lanes(g)), .threads = 512 };
	default:
		return bulk_grid(g, op, bytes);
	}
}
