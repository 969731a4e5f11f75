/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/module.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"

/* The fat binaries of the .cu files; an empty list when they were not compiled. cmake/cuda.cmake. */
extern const unsigned char *const taut_kernels[];

static const char *const kernel_names[KERNELS_COUNT] = {
	[KERNEL_LL] = "ll",
	[KERNEL_LL128] = "ll128",
	[KERNEL_LL128_TWO] = "ll128_two",
	[KERNEL_BULK] = "bulk",
	[KERNEL_HOST] = "host",
	[KERNEL_SCHEDULE] = "schedule",
	[KERNEL_LL_SUM] = "ll_sum",
	[KERNEL_LL_PART_SUM] = "ll_part_sum",
	[KERNEL_LL128_SUM] = "ll128_sum",
	[KERNEL_LL128_TWO_SUM] = "ll128_two_sum",
	[KERNEL_LL_COPY] = "ll_copy",
};
#define NAME(kind) [kind] = #kind,
static const char *const kind_names[GPU_KINDS] = { GPU_FOR_KINDS(NAME) };
#undef NAME
#define YES(kind) [kind] = true,
static const bool has_sum[GPU_KINDS] = { GPU_FOR_SUM_KINDS(YES) };
#undef YES

static struct {
	pthread_mutex_t lock;
	struct gpu_module *list;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool gpu_module_built(void)
{
	return taut_kernels[0];
}

/* In whichever of the images it is. */
static enum taut_status find_one(struct cu_function **out, const struct gpu_module *m, const struct cuda_driver *cu,
				 const char *name)
{
	int err = CU_OK;

	for (int i = 0; i < m->nimages; i++) {
		err = cu->module_function(out, m->images[i], name);
		if (!err)
			return cuda_st(cu->function_load(*out), name);
	}
	return cuda_st(err, name);
}

static bool exists(int kernel, int kind)
{
	bool sum = kernel >= KERNEL_LL_SUM && kernel <= KERNEL_LL128_TWO_SUM;

	return (!sum || has_sum[kind]) && (kernel != KERNEL_LL_COPY || kind == GPU_U64);
}

static enum taut_status find_all(struct gpu_module *m, const struct cuda_driver *cu)
{
	enum taut_status st = find_one(&m->messages, m, cu, "messages");

	if (!st)
		st = find_one(&m->messages_short, m, cu, "messages_short");
	for (int k = 0; k < KERNELS_COUNT; k++) {
		for (int i = 0; i < GPU_KINDS && !st; i++) {
			char name[64];

			if (!exists(k, i))
				continue;
			snprintf(name, sizeof(name), "%s_%s", kernel_names[k], kind_names[i]);
			st = find_one(&m->f[k][i], m, cu, name);
		}
	}
	return st;
}

/* Of PTX for older GPUs there is no such wait. */
static enum taut_status find_early(struct gpu_module *m, const struct cuda_driver *cu)
{
	int ptx = 0;
	enum taut_status st = cuda_st(cu->function_attribute(&ptx, CU_FUNCTION_PTX_VERSION, m->messages), "a kernel");

	m->early = ptx >= 90;
	return st;
}

/* GPUs for notebooks and desks have less shared memory. Where the driver refuses any of it, large calls go on without.
 */
static void find_relays(struct gpu_module *m, const struct cuda_driver *cu)
{
	int device = 0, most = 0, fixed = 0;

	m->relays = m->early && !cu->ctx_device(&device) &&
		    !cu->device_attribute(&most, CU_DEVICE_SHARED_MOST, device) &&
		    !cu->function_attribute(&fixed, CU_FUNCTION_SHARED, m->f[KERNEL_BULK][0]) &&
		    most >= fixed + (int)GPU_RELAY_BYTES;
	for (int i = 0; i < GPU_KINDS && m->relays; i++)
		m->relays = !cu->function_set(m->f[KERNEL_BULK][i], CU_FUNCTION_SHARED_MOST, GPU_RELAY_BYTES);
}

static enum taut_status load_images(struct gpu_module *m, const struct cuda_driver *cu)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < GPU_IMAGES && taut_kernels[i] && !st; i++) {
		st = cuda_st(cu->module_load(&m->images[i], taut_kernels[i]), "loading taut's kernels into the GPU");
		m->nimages += !st;
	}
	return st;
}

static void unload_images(struct gpu_module *m, const struct cuda_driver *cu)
{
	while (m->nimages)
		cu->module_unload(m->images[--m->nimages]);
}

static enum taut_status load(struct gpu_module **out, const struct cuda_driver *cu, struct cu_ctx *ctx)
{
	struct gpu_module *m = mem_calloc(1, sizeof(*m));
	enum taut_status st;

	if (!m)
		return fail(TAUT_ERR_NOMEM, "the kernels of a GPU");
	m->ctx = ctx;
	st = load_images(m, cu);
	if (!st)
		st = find_all(m, cu);
	if (!st)
		st = find_early(m, cu);
	if (st) {
		unload_images(m, cu);
		mem_free(m);
		return st;
	}
	find_relays(m, cu);
	*out = m;
	return TAUT_OK;
}

enum taut_status gpu_module_launch(const struct gpu_module *m, const struct cuda_driver *cu, struct cu_function *f,
				   struct gpu_grid grid, void *args, void *stream)
{
	struct cu_launch_attribute early = { .id = CU_LAUNCH_EARLY, .value = 1 };
	struct cu_launch launch = { .grid = { grid.blocks, 1, 1 },
				    .block = { grid.threads, 1, 1 },
				    .shared_bytes = grid.shared_bytes,
				    .stream = stream,
				    .attributes = &early,
				    .nattributes = grid.early && m->early };
	void *params[] = { args };

	return cuda_st(cu->launch(&launch, f, params, NULL), "launching a kernel");
}

enum taut_status gpu_module_get(const struct gpu_module **out, const struct cuda_driver *cu)
{
	struct cu_ctx *ctx = NULL;
	struct gpu_module *m;
	enum taut_status st = cuda_st(cu->ctx_current(&ctx), "the current context");

	if (st)
		return st;
	if (!gpu_module_built())
		return fail(TAUT_ERR_UNSUPPORTED, "GPU memory: this build of taut has no kernels, as nvcc was not "
						  "there; install the CUDA toolkit and build again");
	pthread_mutex_lock(&loaded.lock);
	for (m = loaded.list; m && m->ctx != ctx; m = m->next)
		;
	if (!m) {
		st = load(&m, cu, ctx);
		if (!st) {
			m->next = loaded.list;
			loaded.list = m;
		}
	}
	pthread_mutex_unlock(&loaded.lock);
	if (!st)
		*out = m;
	return st;
}
