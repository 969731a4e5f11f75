/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that a program makes: a sum in which each rank's input is first multiplied by that rank's factor. */
#include "nccl/api.h"
#include "nccl/api_values.h"

#define COUNT 33

/* Exact in every type with five ranks: at most 2 * 2 from each but three of them. */
static int factor(int rank)
{
	return rank % 3 ? 1 : 2;
}

static int value(int rank, size_t i)
{
	return (i + (size_t)rank) % 5 == 0 ? 2 : 1;
}

static int wanted(int size, size_t i)
{
	int sum = 0;

	for (int r = 0; r < size; r++)
		sum += factor(r) * value(r, i);
	return sum;
}

static bool fits(const struct kind *k, int v)
{
	int top = 0;

	if (!k->bias)
		return true;
	while (v >> (top + 1))
		top++;
	return top <= k->mantissa || !(v & ((1 << (top - k->mantissa)) - 1));
}

struct one {
	ncclRedOp_t op;
	unsigned char scalar[8], in[8 * COUNT], out[8 * COUNT];
};

static void make(struct one *o, const struct team *t, int i, const struct kind *k, ncclScalarResidence_t where)
{
	int rank = t->first + i;

	kind_put(k, o->scalar, 0, factor(rank));
	for (size_t n = 0; n < COUNT; n++)
		kind_put(k, o->in, n, value(rank, n));
	memset(o->out, 0, sizeof(o->out));
	succeeds(ncclRedOpCreatePreMulSum(&o->op, o->scalar, k->type, where, t->comm[i]));
	must(o->op >= ncclNumOps);
	memset(o->scalar, 0, sizeof(o->scalar)); /* it was read */
}

static void judge(const struct one *o, const struct kind *k, int size, size_t from, size_t count)
{
	unsigned char want[8];

	for (size_t n = 0; n < count; n++) {
		int v = wanted(size, from + n);

		kind_put(k, want, 0, v);
		if (fits(k, v))
			must(!memcmp(o->out + n * k->bytes, want, k->bytes));
	}
}

static void all_reduce(struct team *t, struct one *o, const struct kind *k)
{
	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclAllReduce(o[i].in, o[i].out, COUNT, k->type, o[i].op, t->comm[i], NULL));
	team_end(t);
	for (int i = 0; i < t->n; i++)
		judge(&o[i], k, t->size, 0, COUNT);
}

static void reduce(struct team *t, struct one *o, const struct kind *k)
{
	int root = t->size - 1;

	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclReduce(o[i].in, o[i].out, COUNT, k->type, o[i].op, root, t->comm[i], NULL));
	team_end(t);
	if (root >= t->first && root < t->first + t->n)
		judge(&o[root - t->first], k, t->size, 0, COUNT);
}

static void reduce_scatter(struct team *t, struct one *o, const struct kind *k)
{
	size_t each = COUNT / (size_t)t->size;

	team_begin(t);
	for (int i = 0; i < t->n; i++)
		succeeds(ncclReduceScatter(o[i].in, o[i].out, each, k->type, o[i].op, t->comm[i], NULL));
	team_end(t);
	for (int i = 0; i < t->n; i++)
		judge(&o[i], k, t->size, (size_t)(t->first + i) * each, each);
}

static void use(struct team *t)
{
	struct one o[MOST];

	for (int k = 0; k < ncclNumTypes; k++)
		for (int where = ncclScalarDevice; where <= ncclScalarHostImmediate; where++) {
			for (int i = 0; i < t->n; i++)
				make(&o[i], t, i, &kinds[k], (ncclScalarResidence_t)where);
			all_reduce(t, o, &kinds[k]);
			reduce(t, o, &kinds[k]);
			reduce_scatter(t, o, &kinds[k]);
			for (int i = 0; i < t->n; i++)
				succeeds(ncclRedOpDestroy(o[i].op, t->comm[i]));
		}
}

/* An operation may be destroyed once its calls were made, before the group that holds them ends. */
static void destroyed_in_group(struct team *t)
{
	float scalar = 3, in[MOST], out[MOST];
	ncclRedOp_t op;

	succeeds(ncclGroupStart());
	for (int i = 0; i < t->n; i++) {
		in[i] = 1;
		succeeds(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, t->comm[i]));
		succeeds(ncclAllReduce(&in[i], &out[i], 1, ncclFloat, op, t->comm[i], NULL));
		succeeds(ncclRedOpDestroy(op, t->comm[i]));
	}
	succeeds(ncclGroupEnd());
	for (int i = 0; i < t->n; i++)
		must(out[i] == 3.0f * (float)t->size);
}

/* Many at once, in any order of their ends: each keeps its own factor. */
static void several(struct team *t)
{
	ncclRedOp_t ops[20];
	int one = 1, out = 0;

	if (t->n > 1)
		return;
	for (int turn = 0; turn < 3; turn++) {
		for (int k = 0; k < 20; k++)
			succeeds(ncclRedOpCreatePreMulSum(&ops[k], &k, ncclInt, ncclScalarHostImmediate, t->comm[0]));
		for (int k = 0; k < 20; k++) {
			int at = k * 7 % 20;

			succeeds(ncclAllReduce(&one, &out, 1, ncclInt, ops[at], t->comm[0], NULL));
			must(out == at * t->size);
			succeeds(ncclRedOpDestroy(ops[at], t->comm[0]));
		}
	}
}

static void gone(struct team *t)
{
	float scalar = 2, x = 1;
	ncclRedOp_t op;

	succeeds(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, t->comm[0]));
	refuses(ncclInvalidArgument, "int32", ncclAllReduce(&x, &x, 1, ncclInt32, op, t->comm[0], NULL));
	succeeds(ncclRedOpDestroy(op, t->comm[0]));
	refuses(ncclInvalidArgument, "op", ncclRedOpDestroy(op, t->comm[0]));
	refuses(ncclInvalidArgument, "op", ncclAllReduce(&x, &x, 1, ncclFloat, op, t->comm[0], NULL));
	must(x == 1);
}

int main(void)
{
	api_begin();
	each_way(2, use, "2 ranks");
	each_way(5, use, "5 ranks");
	each_way(3, destroyed_in_group, "destroyed in the group");
	as_processes(3, several, "several");
	as_threads(3, several, "several in threads");
	as_processes(1, gone, "gone");
	return api_verdict("operations");
}
