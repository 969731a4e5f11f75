/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the driver without GPUs: each block is a thread. */
#include <string.h>
#include <time.h>

#include "driver.h"

enum { THREADS_MOST = GPU_MAX_BLOCKS * GPU_SHORT_WARPS }; /* of a launch */

struct kernel {
	const char *name;
	size_t args;
	void (*copy)(const struct copy);
	void (*spin)(const struct spin);
	void (*direct)(const struct gpu_direct_args);
	void (*bulk)(const struct gpu_bulk_args);
	void (*host)(const struct gpu_host_args);
	void (*schedule)(const struct gpu_schedule_args);
	void (*messages)(const struct gpu_messages_args);
};

/* Of a test: beside what is tested. */
static void spin_for(const struct spin s)
{
	struct timespec t = { .tv_nsec = (long)(s.ns % 1000000000u) };

	nanosleep(&t, NULL);
}

static void copy_within(const struct copy c)
{
	memcpy((void *)(uintptr_t)c.to, (const void *)(uintptr_t)c.from, c.len);
}

#define DIRECT(f) { #f, sizeof(struct gpu_direct_args), .direct = f },
#define OF_KIND(kind)                                                                                                  \
	GPU_FOR_DIRECT(DIRECT, kind){ "bulk_" #kind, sizeof(struct gpu_bulk_args), .bulk = bulk_##kind },              \
		{ "host_" #kind, sizeof(struct gpu_host_args), .host = host_##kind },                                  \
		{ "schedule_" #kind, sizeof(struct gpu_schedule_args), .schedule = schedule_##kind },
#define OF_SUM_KIND(kind) GPU_FOR_DIRECT_SUMS(DIRECT, kind)
static const struct kernel kernels[] = {
	GPU_FOR_KINDS(OF_KIND) GPU_FOR_SUM_KINDS(OF_SUM_KIND)
		DIRECT(ll_copy_GPU_U64){ "messages", sizeof(struct gpu_messages_args), .messages = messages },
	{ "messages_short", sizeof(struct gpu_messages_args), .messages = messages_short },
	{ "spin", sizeof(struct spin), .spin = spin_for }
};
static const struct kernel copies = { "copy", sizeof(struct copy), .copy = copy_within };
const struct kernel *const copy_kernel = &copies;

const struct kernel *kernel_named(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}

struct work work_of(const struct kernel *k, unsigned blocks, const void *args)
{
	struct work w = { .kernel = k, .blocks = blocks, .device = current() ? current()->device : 0 };

	memcpy(&w.args, args, k->args);
	if (k->messages)
		w.blocks = w.args.messages.long_blocks + w.args.messages.nwarps;
	return w;
}

static void call(const struct kernel *k, const union args *a)
{
	if (k->copy)
		k->copy(a->copy);
	else if (k->spin)
		k->spin(a->spin);
	else if (k->direct)
		k->direct(a->direct);
	else if (k->bulk)
		k->bulk(a->bulk);
	else if (k->host)
		k->host(a->host);
	else if (k->schedule)
		k->schedule(a->schedule);
	else
		k->messages(a->messages);
}

/* A multiprocessor has room for one block of the kernel for large calls, whose calls fill the GPU. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t change;
	int used[GPUS];
} room = { .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER };

static void take_room(const struct work *w)
{
	if (!w->kernel->bulk)
		return;
	pthread_mutex_lock(&room.lock);
	while (room.used[w->device] == multiprocessors())
		pthread_cond_wait(&room.change, &room.lock);
	room.used[w->device]++;
	pthread_mutex_unlock(&room.lock);
}

static void give_room(const struct work *w)
{
	if (!w->kernel->bulk)
		return;
	pthread_mutex_lock(&room.lock);
	room.used[w->device]--;
	pthread_cond_broadcast(&room.change);
	pthread_mutex_unlock(&room.lock);
}

struct block {
	const struct work *work;
	unsigned index;
};

static void *run_block(void *p)
{
	const struct block *b = p;

	emulate_block(b->index, b->work->blocks);
	call(b->work->kernel, &b->work->args);
	give_room(b->work);
	return NULL;
}

void work_run(const struct work *w)
{
	struct block b[THREADS_MOST];
	pthread_t t[THREADS_MOST];

	for (unsigned i = 0; i < w->blocks; i++) {
		b[i] = (struct block){ w, i };
		take_room(w);
		pthread_create(&t[i], NULL, run_block, &b[i]);
	}
	for (unsigned i = 0; i < w->blocks; i++)
		pthread_join(t[i], NULL);
}
