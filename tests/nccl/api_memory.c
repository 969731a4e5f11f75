/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: ncclMemAlloc, registration of buffers and windows, and calls on what was allocated and registered. */
#include "nccl/api.h"

#define LEN ((size_t)3 << 16)

static void reduce_in(const struct team *t, int *in[MOST], int *out[MOST], size_t count)
{
	for (int i = 0; i < t->n; i++)
		for (size_t k = 0; k < count; k++)
			in[i][k] = t->first + i + (int)k;
	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclAllReduce(in[i], out[i], count, ncclInt, ncclSum, t->comm[i], NULL));
	team_end(t);
	for (int i = 0; i < t->n; i++)
		for (size_t k = 0; k < count; k++)
			must(out[i][k] == t->size * (t->size - 1) / 2 + t->size * (int)k);
}

/* --- ncclMemAlloc --- */
static void allocated(struct team *t)
{
	static const size_t sizes[] = { 1, 100, 4096, 5000, LEN };

	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		void *p = NULL;

		succeeds(ncclMemAlloc(&p, sizes[k]));
		must(p && (uintptr_t)p % NCCL_WIN_REQUIRED_ALIGNMENT == 0); /* good for a window */
		memset(p, 0xff, sizes[k]);
		succeeds(ncclMemFree(p));
	}
	for (int turn = 0; turn < 3; turn++) {
		int *in[MOST], *out[MOST];

		for (int i = 0; i < t->n; i++) {
			succeeds(ncclMemAlloc((void **)&in[i], LEN));
			succeeds(ncclMemAlloc((void **)&out[i], LEN));
		}
		reduce_in(t, in, out, LEN / sizeof(int));
		for (int i = 0; i < t->n; i++) {
			succeeds(ncclMemFree(in[i]));
			succeeds(ncclMemFree(out[i]));
		}
	}
}

static void freed_wrongly(void)
{
	char *mine = malloc(100), *p;
	char word[32];

	snprintf(word, sizeof(word), "%p", (void *)mine);
	must(ncclMemFree(mine) == ncclInvalidArgument);
	must(strstr(ncclGetLastError(NULL), word) && strstr(ncclGetLastError(NULL), "is not from ncclMemAlloc()"));
	free(mine);
	succeeds(ncclMemAlloc((void **)&p, 100));
	must(ncclMemFree(p + 1) == ncclInvalidArgument);
	succeeds(ncclMemFree(p));
	must(ncclMemFree(p) == ncclInvalidArgument);
	succeeds(ncclMemFree(NULL));
}

/* --- buffers --- */
static void registered(struct team *t)
{
	void *handle[MOST][2];
	int *in[MOST], *out[MOST];

	for (int i = 0; i < t->n; i++) {
		in[i] = (int *)api_alloc(LEN);
		out[i] = (int *)api_alloc(LEN);
		succeeds(ncclCommRegister(t->comm[i], in[i], LEN, &handle[i][0]));
		succeeds(ncclCommRegister(t->comm[i], out[i], LEN, &handle[i][1]));
	}
	reduce_in(t, in, out, LEN / sizeof(int));
	for (int i = 0; i < t->n; i++) {
		succeeds(ncclCommDeregister(t->comm[i], handle[i][0]));
		succeeds(ncclCommDeregister(t->comm[i], handle[i][1]));
		free(in[i]);
		free(out[i]);
	}
}

/* --- windows: a collective call --- */
static void windows_of(struct team *t, int flags)
{
	ncclWindow_t win[MOST][2];
	int *in[MOST], *out[MOST];

	for (int i = 0; i < t->n; i++) {
		succeeds(ncclMemAlloc((void **)&in[i], LEN));
		succeeds(ncclMemAlloc((void **)&out[i], LEN));
	}
	for (int k = 0; k < 2; k++) {
		team_begin(t);
		for (int i = 0; i < t->n; i++)
			succeeds(ncclCommWindowRegister(t->comm[i], k ? out[i] : in[i], LEN, &win[i][k], flags));
		team_end(t);
	}
	reduce_in(t, in, out, LEN / sizeof(int));
	reduce_in(t, in, in, 10); /* in place, and less than all */
	for (int i = 0; i < t->n; i++) {
		succeeds(ncclCommWindowDeregister(t->comm[i], win[i][0]));
		succeeds(ncclCommWindowDeregister(t->comm[i], win[i][1]));
		succeeds(ncclMemFree(in[i]));
		succeeds(ncclMemFree(out[i]));
	}
}

static void windows(struct team *t)
{
	windows_of(t, NCCL_WIN_DEFAULT);
	windows_of(t, NCCL_WIN_COLL_SYMMETRIC);
}

/* What is registered when the communicator ends is its to forget. */
static void left_over(struct team *t)
{
	static char buf[MOST][64];
	ncclWindow_t win;
	void *handle;

	if (t->n > 1)
		return;
	succeeds(ncclCommRegister(t->comm[0], buf[t->first], 64, &handle));
	succeeds(ncclCommWindowRegister(t->comm[0], buf[t->first], 64, &win, NCCL_WIN_DEFAULT));
}

int main(void)
{
	api_begin();
	freed_wrongly();
	each_way(3, allocated, "allocated");
	each_way(3, registered, "registered");
	each_way(3, windows, "windows");
	as_processes(2, left_over, "left over");
	as_threads(2, left_over, "left over, in threads");
	return api_verdict("memory");
}
