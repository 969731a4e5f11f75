/* SPDX-License-Identifier: Apache-2.0 */
/* Sends, receives and collectives with a count for every rank, on GPU memory: pairs, rings, random patterns in
 * groups, CUDA graphs, the default stream, calls that do not match. Rank r uses GPU r modulo their number.
 * Arguments: rounds, seed. Started by `taut run`, or alone. */
#include <stdbool.h>

#include "gpu_util.h"

#define MOST ((size_t)64 << 20)
#define PAD 64 /* before and behind what is received */
#define POISON 0x55

static struct gpu_functions gpu;
static unsigned seed;
static unsigned rnd(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

struct side {
	struct taut_comm *comm;
	int rank, n;
	void *stream;
	unsigned char *in, *out; /* of the GPU: MOST + 2 * PAD */
	unsigned char *host, *want;
	int wrong;
};

static void fill(unsigned char *p, size_t len, unsigned key)
{
	uint64_t x = (key + 1) * 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, len - i < 8 ? len - i : 8);
	}
}

static void give(struct side *s, size_t at, size_t len, unsigned key)
{
	fill(s->host, len, key);
	if (len)
		gpu_put(&gpu, s->in + at, s->host, len);
}

static void expect(struct side *s, size_t at, size_t len, unsigned key, const char *what)
{
	size_t i = 0;

	if (!len)
		return;
	gpu_get(&gpu, s->host, s->out + at, len);
	fill(s->want, len, key);
	if (!memcmp(s->host, s->want, len))
		return;
	while (s->host[i] == s->want[i])
		i++;
	fprintf(stderr, "rank %d: %s: wrong at byte %zu of %zu: %02x, wanted %02x\n", s->rank, what, i, len, s->host[i],
		s->want[i]);
	s->wrong++;
}

static void expect_poison(struct side *s, size_t at, size_t len, const char *what)
{
	gpu_get(&gpu, s->host, s->out + at, len);
	for (size_t i = 0; i < len; i++) {
		if (s->host[i] == POISON)
			continue;
		fprintf(stderr, "rank %d: %s: byte %zu behind what was received was written\n", s->rank, what, i);
		s->wrong++;
		return;
	}
}

static void done(struct side *s)
{
	gpu_must(gpu.sync(s->stream), "cuStreamSynchronize");
}

static size_t draw_bytes(size_t most)
{
	static const size_t limits[] = { 1, 100, 5000, 40000, 300000, 3000000, MOST };
	size_t limit = limits[rnd(7)];

	limit = limit < most ? limit : most;
	return rnd((unsigned)limit + 1);
}

/* --- alone --- */
static void pairs(struct side *s, size_t bytes, unsigned key)
{
	int peer = s->rank ^ 1, tag = rnd(2) ? 5 : TAUT_ANY_TAG;
	bool first = s->rank < peer;

	if (peer >= s->n)
		return;
	give(s, 0, bytes, key + (unsigned)s->rank);
	gpu_set(&gpu, s->out, POISON, bytes + PAD);
	if (first)
		taut_must(taut_send(s->in, bytes, TAUT_UINT8, peer, 5, s->comm, s->stream), "taut_send");
	taut_must(taut_recv(s->out, bytes, TAUT_UINT8, peer, tag, s->comm, s->stream), "taut_recv");
	if (!first)
		taut_must(taut_send(s->in, bytes, TAUT_UINT8, peer, 5, s->comm, s->stream), "taut_send");
	done(s);
	expect(s, 0, bytes, key + (unsigned)peer, "pairs");
	expect_poison(s, bytes, PAD, "pairs");
}

static void ring(struct side *s, size_t bytes, unsigned key, void *stream)
{
	int next = (s->rank + 1) % s->n, before = (s->rank + s->n - 1) % s->n;

	give(s, 0, bytes, key + (unsigned)s->rank);
	gpu_set(&gpu, s->out, POISON, bytes + PAD);
	taut_must(taut_sendrecv(s->in, bytes, next, 1, s->out, bytes, before, 1, TAUT_UINT8, s->comm, stream),
		  "taut_sendrecv");
	if (stream)
		done(s);
	expect(s, 0, bytes, key + (unsigned)before, "ring");
	expect_poison(s, bytes, PAD, "ring");
}

/* --- groups --- */
enum { MESSAGES = 260 };

struct sent {
	int from, to, tag;
	size_t at_in, at_out, bytes;
};

/* All ranks draw the same; places in the buffers of sender and receiver follow each other. */
static int draw_pattern(struct sent *m, int count, int n)
{
	size_t in[64] = { 0 }, out[64] = { 0 }, most = MOST / (size_t)count - 64;

	for (int i = 0; i < count; i++) {
		m[i] = (struct sent){ .from = (int)rnd((unsigned)n), .to = (int)rnd((unsigned)n), .tag = (int)rnd(4) };
		m[i].bytes = draw_bytes(most);
		m[i].at_in = in[m[i].from] + (rnd(2) ? rnd(16) : 0);
		m[i].at_out = out[m[i].to] + (rnd(2) ? rnd(16) : 0);
		in[m[i].from] = (m[i].at_in + m[i].bytes + 31) / 16 * 16;
		out[m[i].to] = (m[i].at_out + m[i].bytes + 31) / 16 * 16;
	}
	return count;
}

static void post(struct side *s, const struct sent *m, int count)
{
	taut_must(taut_group_start(), "taut_group_start");
	for (int i = 0; i < count; i++) {
		if (m[i].from == s->rank)
			taut_must(taut_send(s->in + m[i].at_in, m[i].bytes, TAUT_UINT8, m[i].to, m[i].tag, s->comm,
					    s->stream),
				  "taut_send");
		if (m[i].to == s->rank)
			taut_must(taut_recv(s->out + m[i].at_out, m[i].bytes, TAUT_UINT8, m[i].from,
					    i % 3 ? m[i].tag : TAUT_ANY_TAG, s->comm, s->stream),
				  "taut_recv");
	}
	taut_must(taut_group_end(), "taut_group_end");
}

static void give_all(struct side *s, const struct sent *m, int count, unsigned key)
{
	gpu_set(&gpu, s->out, POISON, MOST);
	for (int i = 0; i < count; i++)
		if (m[i].from == s->rank)
			give(s, m[i].at_in, m[i].bytes, key + (unsigned)i);
}

static void expect_all(struct side *s, const struct sent *m, int count, unsigned key, const char *what)
{
	for (int i = 0; i < count; i++)
		if (m[i].to == s->rank)
			expect(s, m[i].at_out, m[i].bytes, key + (unsigned)i, what);
}

static void pattern(struct side *s, unsigned key)
{
	struct sent m[MESSAGES];
	int count = draw_pattern(m, rnd(10) ? 1 + (int)rnd(20) : MESSAGES, s->n);

	give_all(s, m, count, key);
	post(s, m, count);
	done(s);
	expect_all(s, m, count, key, "pattern");
}

/* A graph holds two groups and a reduction between them; new inputs for every replay. */
static void replays(struct side *s, unsigned key)
{
	struct sent m[16];
	int count = draw_pattern(m, 16, s->n);
	float *sum = (float *)gpu_alloc(&gpu, 256);
	void *graph, *exec;

	gpu_must(gpu.begin_capture(s->stream, 2), "cuStreamBeginCapture");
	post(s, m, count);
	taut_must(taut_all_reduce(sum, sum, 64, TAUT_FLOAT32, TAUT_MAX, s->comm, s->stream), "taut_all_reduce");
	post(s, m, count);
	gpu_must(gpu.end_capture(s->stream, &graph), "cuStreamEndCapture");
	gpu_must(gpu.instantiate(&exec, graph, 0), "cuGraphInstantiate");
	for (unsigned i = 0; i < 4; i++) {
		give_all(s, m, count, key + i * 100);
		gpu_must(gpu.launch_graph(exec, s->stream), "cuGraphLaunch");
		if (i == 2) /* eager calls in between */
			post(s, m, count);
		done(s);
		expect_all(s, m, count, key + i * 100, "replay");
	}
	gpu.destroy_exec(exec);
	gpu.destroy_graph(graph);
	gpu.free((uint64_t)(uintptr_t)sum);
}

/* --- collectives with a count for every rank --- */
struct counts {
	size_t of[64][64]; /* from, to */
	size_t in_at[64], out_at[64];
};

static void draw_counts(struct counts *c, const struct side *s)
{
	size_t in = 0, out = 0;

	for (int a = 0; a < s->n; a++)
		for (int b = 0; b < s->n; b++)
			c->of[a][b] = rnd(4) ? draw_bytes(MOST / 64 / (size_t)s->n) : 0;
	for (int r = 0; r < s->n; r++) {
		c->in_at[r] = in + (unsigned)r % 3;
		c->out_at[r] = out + 2 * ((unsigned)r % 2);
		in = c->in_at[r] + c->of[s->rank][r];
		out = c->out_at[r] + c->of[r][s->rank];
	}
}

static void all_to_all_v(struct side *s, unsigned key)
{
	static struct counts c;
	size_t from[64];

	draw_counts(&c, s);
	for (int r = 0; r < s->n; r++) {
		from[r] = c.of[r][s->rank];
		give(s, c.in_at[r], c.of[s->rank][r], key + (unsigned)(s->rank * s->n + r));
	}
	gpu_set(&gpu, s->out, POISON, MOST / 32);
	taut_must(taut_all_to_all_v(s->in, c.of[s->rank], c.in_at, s->out, from, c.out_at, TAUT_UINT8, s->comm,
				    s->stream),
		  "taut_all_to_all_v");
	done(s);
	for (int r = 0; r < s->n; r++)
		expect(s, c.out_at[r], from[r], key + (unsigned)(r * s->n + s->rank), "all_to_all_v");
}

static void all_gather_v(struct side *s, unsigned key)
{
	static struct counts c;
	size_t from[64], at = 0;
	bool in_place = rnd(2);

	draw_counts(&c, s);
	for (int r = 0; r < s->n; r++)
		from[r] = c.of[r][0];
	gpu_set(&gpu, s->out, POISON, MOST / 32);
	for (int r = 0; r < s->rank; r++)
		at += from[r];
	give(s, 0, from[s->rank], key + (unsigned)s->rank);
	if (in_place && from[s->rank])
		gpu_put(&gpu, s->out + at, s->host, from[s->rank]);
	taut_must(taut_all_gather_v(in_place ? s->out + at : s->in, s->out, from, NULL, TAUT_UINT8, s->comm, s->stream),
		  "taut_all_gather_v");
	done(s);
	at = 0;
	for (int r = 0; r < s->n; r++) {
		expect(s, at, from[r], key + (unsigned)r, "all_gather_v");
		at += from[r];
	}
}

/* From all to the root, and back; ranks without elements give no buffer. */
static void gather_and_scatter_v(struct side *s, unsigned key)
{
	static struct counts c;
	size_t count[64], mine, at = 0;
	int root = (int)rnd((unsigned)s->n);

	draw_counts(&c, s);
	for (int r = 0; r < s->n; r++)
		count[r] = c.of[r][0];
	mine = count[s->rank];
	give(s, 0, mine, key + (unsigned)s->rank);
	gpu_set(&gpu, s->out, POISON, MOST / 32);
	taut_must(taut_gather_v(mine ? s->in : NULL, mine, s->rank == root ? s->out : NULL, count, NULL, TAUT_UINT8,
				root, s->comm, s->stream),
		  "taut_gather_v");
	done(s);
	for (int r = 0; r < s->n && s->rank == root; r++) {
		expect(s, at, count[r], key + (unsigned)r, "gather_v");
		at += count[r];
	}
	if (s->rank == root) { /* what came goes back from the other buffer */
		unsigned char *was = s->in;

		s->in = s->out;
		s->out = was;
	}
	gpu_set(&gpu, s->out, POISON, MOST / 32);
	taut_must(taut_scatter_v(s->rank == root ? s->in : NULL, count, NULL, mine ? s->out : NULL, mine, TAUT_UINT8,
				 root, s->comm, s->stream),
		  "taut_scatter_v");
	done(s);
	expect(s, 0, mine, key + (unsigned)s->rank, "scatter_v");
}

static void reduce_scatter_v(struct side *s, unsigned key)
{
	size_t count[64], at[64], all = 0;
	uint32_t *want = (uint32_t *)(void *)s->want, *got = (uint32_t *)(void *)s->host;

	for (int r = 0; r < s->n; r++) {
		count[r] = rnd(4) ? draw_bytes(MOST / 64 / (size_t)s->n) / 4 : 0;
		at[r] = all;
		all += count[r];
	}
	give(s, 0, all * 4, key + (unsigned)s->rank);
	gpu_set(&gpu, s->out, POISON, count[s->rank] * 4 + PAD);
	taut_must(taut_reduce_scatter_v(s->in, s->out, count, TAUT_UINT32, TAUT_SUM, s->comm, s->stream),
		  "taut_reduce_scatter_v");
	done(s);
	expect_poison(s, count[s->rank] * 4, PAD, "reduce_scatter_v");
	memset(want, 0, count[s->rank] * 4);
	for (int r = 0; r < s->n; r++) {
		fill(s->host, all * 4, key + (unsigned)r);
		for (size_t i = 0; i < count[s->rank]; i++)
			want[i] += got[at[s->rank] + i];
	}
	if (!count[s->rank])
		return;
	gpu_get(&gpu, got, s->out, count[s->rank] * 4);
	if (memcmp(got, want, count[s->rank] * 4)) {
		fprintf(stderr, "rank %d: reduce_scatter_v of %zu elements is wrong\n", s->rank, count[s->rank]);
		s->wrong++;
	}
}

/* --- a message that is not the one waited for: the last call of a group --- */
static void mismatch(struct side *s)
{
	enum taut_status st;

	if (s->n < 2 || s->rank > 1)
		return;
	if (s->rank == 0) { /* sent, or told already that it was another one */
		st = taut_send(s->in, 40, TAUT_UINT8, 1, 3, s->comm, NULL);
		if (st != TAUT_ERR_MISMATCH)
			taut_must(st, "taut_send");
		return;
	}
	st = taut_recv(s->out, 1 << 20, TAUT_UINT8, 0, 4, s->comm, NULL);
	if (st == TAUT_ERR_MISMATCH && strstr(taut_error_message(), "40 bytes with tag 3"))
		return;
	fprintf(stderr, "rank 1: a message of another length: status %d, \"%s\"\n", (int)st, taut_error_message());
	s->wrong++;
}

static void one_round(struct side *s, int i)
{
	unsigned key = (unsigned)i * 4096u;

	switch (i % 8) {
	case 0:
		pairs(s, draw_bytes(MOST), key);
		break;
	case 1:
		ring(s, draw_bytes(MOST), key, rnd(4) ? s->stream : NULL);
		break;
	case 2:
	case 3:
		pattern(s, key);
		break;
	case 4:
		all_to_all_v(s, key);
		break;
	case 5:
		all_gather_v(s, key);
		break;
	case 6:
		gather_and_scatter_v(s, key);
		break;
	default:
		reduce_scatter_v(s, key);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, gpus = gpu_load(&gpu);
	const char *local = getenv("TAUT_LOCAL_RANK");
	struct side s = { 0 };

	seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	if (!gpus)
		return 77;
	gpu_use(&gpu, (local ? atoi(local) : 0) % gpus);
	taut_must(taut_comm_create_env(&s.comm, NULL), "taut_comm_create_env");
	s.rank = taut_comm_rank(s.comm);
	s.n = taut_comm_size(s.comm);
	gpu_must(gpu.stream(&s.stream, 1), "cuStreamCreate");
	s.in = gpu_alloc(&gpu, MOST + 2 * PAD);
	s.out = gpu_alloc(&gpu, MOST + 2 * PAD);
	s.host = malloc(MOST + 2 * PAD);
	s.want = malloc(MOST + 2 * PAD);
	pairs(&s, MOST, 7);
	ring(&s, MOST, 9, s.stream);
	for (int i = 0; i < rounds && s.wrong < 5; i++)
		one_round(&s, i);
	for (unsigned i = 0; i < 3 && s.wrong < 5; i++)
		replays(&s, 1000000 + i * 1000);
	taut_must(taut_barrier(s.comm, NULL), "taut_barrier");
	mismatch(&s);
	if (s.rank == 0 && !s.wrong)
		printf("%d rounds of messages between %d ranks on %d GPUs are right\n", rounds, s.n,
		       gpus < s.n ? gpus : s.n);
	gpu.free((uint64_t)(uintptr_t)s.in);
	gpu.free((uint64_t)(uintptr_t)s.out);
	free(s.host);
	free(s.want);
	taut_comm_destroy(s.comm);
	return s.wrong != 0;
}
