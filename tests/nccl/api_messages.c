/* SPDX-License-Identifier: Apache-2.0 */
/* ncclSend and ncclRecv: rings, all to all, to oneself, several in a row, of none and of many elements, with and
 * without collectives in the same group. */
#include "nccl/api.h"
#include "nccl/api_values.h"

#define MANY 70001 /* elements; more than any slot or ring between two ranks holds at once */

/* Element @i of message @nr from @from to @to. */
static int word(int from, int to, int nr, size_t i)
{
	return from * 1000003 + to * 10007 + nr * 101 + (int)i;
}

static int *message(int from, int to, int nr, size_t count)
{
	int *p = (int *)api_alloc(count * sizeof(*p));

	for (size_t i = 0; i < count; i++)
		p[i] = word(from, to, nr, i);
	return p;
}

static int *blank(size_t count)
{
	int *p = (int *)api_alloc((count + 1) * sizeof(*p));

	for (size_t i = 0; i <= count; i++)
		p[i] = -7;
	return p;
}

/* What came is right, and nothing behind it was touched. */
static void came(int *p, int from, int to, int nr, size_t count)
{
	for (size_t i = 0; i < count; i++)
		must(p[i] == word(from, to, nr, i));
	must(p[count] == -7);
	free(p);
}

/* --- a ring: to the right, from the left --- */
static void ring_of(const struct team *t, size_t count, int hop)
{
	int *out[MOST], *in[MOST];

	succeeds(ncclGroupStart());
	for (int i = 0; i < t->n; i++) {
		int me = t->first + i, to = (me + hop) % t->size, from = (me + t->size - hop) % t->size;

		out[i] = message(me, to, hop, count);
		in[i] = blank(count);
		succeeds(ncclSend(out[i], count, ncclInt, to, t->comm[i], NULL));
		succeeds(ncclRecv(in[i], count, ncclInt, from, t->comm[i], NULL));
	}
	succeeds(ncclGroupEnd());
	for (int i = 0; i < t->n; i++) {
		int me = t->first + i;

		came(in[i], (me + t->size - hop) % t->size, me, hop, count);
		free(out[i]);
	}
}

static void rings(struct team *t)
{
	static const size_t counts[] = { 0, 1, 3, 4097, MANY };

	for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
		for (int hop = 0; hop < t->size; hop++) /* 0: to oneself */
			ring_of(t, counts[n], hop);
}

/* --- all to all, each pair with a length of its own, none among them --- */
static size_t length(int from, int to)
{
	return (size_t)((from * 7 + to * 5) % 4) * (from == 1 ? 20011 : 11);
}

static void all_to_all(struct team *t)
{
	int *out[MOST][MOST], *in[MOST][MOST];

	succeeds(ncclGroupStart());
	for (int k = 0; k < t->n * t->size; k++) {
		int i = k / t->size, me = t->first + i, peer = k % t->size;

		out[i][peer] = message(me, peer, 0, length(me, peer));
		in[i][peer] = blank(length(peer, me));
		succeeds(ncclRecv(in[i][peer], length(peer, me), ncclInt, peer, t->comm[i], NULL));
		succeeds(ncclSend(out[i][peer], length(me, peer), ncclInt, peer, t->comm[i], NULL));
	}
	succeeds(ncclGroupEnd());
	for (int k = 0; k < t->n * t->size; k++) {
		int i = k / t->size, me = t->first + i, peer = k % t->size;

		came(in[i][peer], peer, me, 0, length(peer, me));
		free(out[i][peer]);
	}
}

/* --- messages between two ranks keep their order --- */
#define ROW 9

static void in_a_row(struct team *t)
{
	int *out[MOST][ROW], *in[MOST][ROW];

	succeeds(ncclGroupStart());
	for (int k = 0; k < t->n * ROW; k++) {
		int i = k / ROW, nr = k % ROW, me = t->first + i, to = (me + 1) % t->size;
		size_t count = (size_t)nr * 400;

		out[i][nr] = message(me, to, nr, count);
		in[i][nr] = blank(count);
		succeeds(ncclSend(out[i][nr], count, ncclInt, to, t->comm[i], NULL));
		succeeds(ncclRecv(in[i][nr], count, ncclInt, (me + t->size - 1) % t->size, t->comm[i], NULL));
	}
	succeeds(ncclGroupEnd());
	for (int k = 0; k < t->n * ROW; k++) {
		int i = k / ROW, nr = k % ROW, me = t->first + i;

		came(in[i][nr], (me + t->size - 1) % t->size, me, nr, (size_t)nr * 400);
		free(out[i][nr]);
	}
}

/* --- along a line, each call by itself: rank 0 sends, the last one has it --- */
static void line_step(const struct team *t, int me, int *buf, size_t count)
{
	ncclComm_t comm = t->comm[0];

	if (me > 0)
		succeeds(ncclRecv(buf, count, ncclInt, me - 1, comm, NULL));
	if (me < t->size - 1)
		succeeds(ncclSend(buf, count, ncclInt, me + 1, comm, NULL));
}

static void line(struct team *t)
{
	static const size_t counts[] = { 1, 1000, MANY };

	if (t->n > 1)
		return; /* one thread cannot wait for itself */
	for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
		int me = t->first, *buf = me ? blank(counts[n]) : message(0, 0, 5, counts[n]);

		line_step(t, me, buf, counts[n]);
		if (me)
			came(buf, 0, 0, 5, counts[n]);
		else
			free(buf);
	}
}

/* --- every type, and a group with collectives and messages --- */
static void types(struct team *t)
{
	unsigned char out[MOST][8 * 5], in[MOST][8 * 5], want[8 * 5];

	for (int k = 0; k < ncclNumTypes; k++) {
		size_t bytes = 5 * kinds[k].bytes;

		succeeds(ncclGroupStart());
		for (int i = 0; i < t->n; i++) {
			int me = t->first + i;

			memset(out[i], 10 * k + me, bytes);
			succeeds(ncclSend(out[i], 5, kinds[k].type, (me + 1) % t->size, t->comm[i], NULL));
			succeeds(ncclRecv(in[i], 5, kinds[k].type, (me + t->size - 1) % t->size, t->comm[i], NULL));
		}
		succeeds(ncclGroupEnd());
		for (int i = 0; i < t->n; i++) {
			memset(want, 10 * k + (t->first + i + t->size - 1) % t->size, bytes);
			must(!memcmp(in[i], want, bytes));
		}
	}
}

static void mixed(struct team *t)
{
	int own[MOST], sum[MOST], got[MOST], root[MOST];

	succeeds(ncclGroupStart());
	for (int i = 0; i < t->n; i++) {
		int me = t->first + i;

		own[i] = me + 1;
		root[i] = me == 1 ? 77 : 0;
		sum[i] = got[i] = 0;
		succeeds(ncclAllReduce(&own[i], &sum[i], 1, ncclInt, ncclSum, t->comm[i], NULL));
		succeeds(ncclSend(&own[i], 1, ncclInt, (me + 1) % t->size, t->comm[i], NULL));
		succeeds(ncclBcast(&root[i], 1, ncclInt, 1, t->comm[i], NULL));
		succeeds(ncclRecv(&got[i], 1, ncclInt, (me + t->size - 1) % t->size, t->comm[i], NULL));
	}
	succeeds(ncclGroupEnd());
	for (int i = 0; i < t->n; i++) {
		must(sum[i] == t->size * (t->size + 1) / 2);
		must(got[i] == (t->first + i + t->size - 1) % t->size + 1);
		must(root[i] == 77);
	}
}

static void all_messages(struct team *t)
{
	rings(t);
	for (int turn = 0; turn < 3; turn++) {
		all_to_all(t);
		in_a_row(t);
	}
	line(t);
	types(t);
	mixed(t);
}

int main(void)
{
	api_begin();
	each_way(2, all_messages, "2 ranks");
	as_processes(3, all_messages, "3 processes");
	as_threads(4, all_messages, "4 threads");
	each_way(5, all_messages, "5 ranks");
	return api_verdict("messages");
}
