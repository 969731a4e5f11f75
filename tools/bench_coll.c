/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_coll.h"

#include <ctype.h>
#include <string.h>

static const struct bench_coll colls[] = {
	{ "all_reduce", BENCH_ALL_REDUCE, .reduces = true, .in_place = true },
	{ "all_gather", BENCH_ALL_GATHER, .in_place = true, .out_blocks = true },
	{ "reduce_scatter", BENCH_REDUCE_SCATTER, .reduces = true, .in_place = true, .in_blocks = true },
	{ "broadcast", BENCH_BROADCAST, .rooted = true, .in_place = true },
	{ "reduce", BENCH_REDUCE, .reduces = true, .rooted = true, .in_place = true },
	{ "gather", BENCH_GATHER, .rooted = true, .in_place = true, .out_blocks = true },
	{ "scatter", BENCH_SCATTER, .rooted = true, .in_place = true, .in_blocks = true },
	{ "all_to_all", BENCH_ALL_TO_ALL, .in_blocks = true, .out_blocks = true },
	{ "barrier", BENCH_BARRIER, .reduces = false },
	{ "sendrecv", BENCH_SENDRECV, .reduces = false },
};

/* Spellings that are more than other capitals and underscores. */
static const struct {
	const char *other, *name;
} aliases[] = {
	{ "bcast", "broadcast" },
	{ "reducescatterblock", "reducescatter" },
};

const struct bench_coll *bench_coll_at(int i)
{
	return i < (int)(sizeof(colls) / sizeof(colls[0])) ? &colls[i] : NULL;
}

/* Lower case, without '_' and '-'; without "mpi" or "nccl" in front and nccl-tests' "_perf" behind. */
static void plain(char *out, size_t len, const char *name)
{
	size_t n = 0;

	for (; *name && n + 1 < len; name++)
		if (*name != '_' && *name != '-')
			out[n++] = (char)tolower((unsigned char)*name);
	out[n] = '\0';
	if (n > 4 && !strcmp(out + n - 4, "perf"))
		out[n -= 4] = '\0';
	for (int i = 0; i < 2; i++) {
		const char *prefix = i ? "nccl" : "mpi";
		size_t skip = strlen(prefix);

		if (!strncmp(out, prefix, skip))
			memmove(out, out + skip, n + 1 - skip);
	}
}

const struct bench_coll *bench_coll_find(const char *name)
{
	char want[64], have[64];

	plain(want, sizeof(want), name);
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(want, aliases[i].other))
			strcpy(want, aliases[i].name);
	for (int i = 0; bench_coll_at(i); i++) {
		plain(have, sizeof(have), colls[i].name);
		if (!strcmp(want, have))
			return &colls[i];
	}
	return NULL;
}

static enum taut_status ring_shift(const struct bench_call *c)
{
	int next = (c->rank + 1) % c->size;
	int prev = (c->rank + c->size - 1) % c->size;

	return taut_sendrecv(c->in, c->count, next, 0, c->out, c->count, prev, 0, c->type, c->comm, NULL);
}

enum taut_status bench_call_run(const struct bench_call *c, int root)
{
	switch (c->coll->kind) {
	case BENCH_ALL_REDUCE:
		return taut_all_reduce(c->in, c->out, c->count, c->type, c->op, c->comm, NULL);
	case BENCH_ALL_GATHER:
		return taut_all_gather(c->in, c->out, c->count, c->type, c->comm, NULL);
	case BENCH_REDUCE_SCATTER:
		return taut_reduce_scatter(c->in, c->out, c->count, c->type, c->op, c->comm, NULL);
	case BENCH_BROADCAST:
		return taut_broadcast(c->in, c->out, c->count, c->type, root, c->comm, NULL);
	case BENCH_REDUCE:
		return taut_reduce(c->in, c->out, c->count, c->type, c->op, root, c->comm, NULL);
	case BENCH_GATHER:
		return taut_gather(c->in, c->out, c->count, c->type, root, c->comm, NULL);
	case BENCH_SCATTER:
		return taut_scatter(c->in, c->out, c->count, c->type, root, c->comm, NULL);
	case BENCH_ALL_TO_ALL:
		return taut_all_to_all(c->in, c->out, c->count, c->type, c->comm, NULL);
	case BENCH_BARRIER:
		return taut_barrier(c->comm, NULL);
	case BENCH_SENDRECV:
		return ring_shift(c);
	}
	return TAUT_ERR_INTERNAL;
}

size_t bench_in_blocks(const struct bench_coll *c, int size)
{
	return c->in_blocks ? (size_t)size : 1;
}

size_t bench_out_blocks(const struct bench_coll *c, int size)
{
	return c->out_blocks ? (size_t)size : 1;
}

static size_t blocks(const struct bench_coll *c, int size)
{
	return c->in_blocks || c->out_blocks ? (size_t)size : 1;
}

size_t bench_count(const struct bench_coll *c, size_t bytes, enum taut_type type, int size)
{
	if (c->kind == BENCH_BARRIER)
		return 0;
	return bytes / taut_type_size(type) / blocks(c, size);
}

size_t bench_bytes(const struct bench_coll *c, size_t count, enum taut_type type, int size)
{
	return count * taut_type_size(type) * blocks(c, size);
}

double bench_bus_factor(const struct bench_coll *c, int size)
{
	double n = size;

	if (c->kind == BENCH_ALL_REDUCE)
		return 2 * (n - 1) / n;
	return c->in_blocks || c->out_blocks ? (n - 1) / n : 1;
}

double bench_read_bytes(const struct bench_coll *c, double bytes, int size)
{
	switch (c->kind) {
	case BENCH_BROADCAST: /* only the root has an input */
	case BENCH_SCATTER:
	case BENCH_ALL_GATHER: /* size / n on each of n ranks */
	case BENCH_GATHER:
		return bytes;
	case BENCH_BARRIER:
		return 0;
	default:
		return bytes * size;
	}
}

double bench_write_bytes(const struct bench_coll *c, double bytes, int size, bool in_place)
{
	double own = in_place ? bytes / size : 0; /* the block that lies in its place already */

	switch (c->kind) {
	case BENCH_ALL_GATHER:
		return (bytes - own) * size;
	case BENCH_BROADCAST:
		return bytes * (in_place ? size - 1 : size);
	case BENCH_REDUCE_SCATTER: /* size / n on each of n ranks */
	case BENCH_REDUCE:
		return bytes;
	case BENCH_GATHER:
	case BENCH_SCATTER:
		return bytes - own;
	case BENCH_BARRIER:
		return 0;
	default:
		return bytes * size;
	}
}

double bench_sent_bytes(const struct bench_coll *c, double bytes, int size)
{
	double n = size;

	switch (c->kind) {
	case BENCH_ALL_REDUCE:
		return 2 * (n - 1) * bytes;
	case BENCH_GATHER:
	case BENCH_SCATTER:
		return (n - 1) / n * bytes;
	case BENCH_SENDRECV:
		return n > 1 ? n * bytes : 0;
	case BENCH_BARRIER:
		return 0;
	default:
		return (n - 1) * bytes;
	}
}
