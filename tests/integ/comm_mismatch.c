/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do not make the same call: each is told, by the same sentence, who called what. Also
 * messages of another length, a rank that leaves while others call, and one that comes late. */
#include "failing.h"

#define BIG 200000

static float in[BIG * 4], out[BIG * 4];
static size_t counts[MOST] = { 5, 5, 5, 5, 5, 5, 5, 5 };

typedef enum taut_status (*call_fn)(struct taut_comm *c);

/* --- the calls --- */
static enum taut_status sum(struct taut_comm *c)
{
	return taut_all_reduce(in, out, 8, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status sum_nine(struct taut_comm *c)
{
	return taut_all_reduce(in, out, 9, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status sum_big(struct taut_comm *c)
{
	return taut_all_reduce(in, out, BIG, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status sum_ints(struct taut_comm *c)
{
	return taut_all_reduce(in, out, 8, TAUT_INT32, TAUT_SUM, c, NULL);
}

static enum taut_status maximum(struct taut_comm *c)
{
	return taut_all_reduce(in, out, 8, TAUT_FLOAT32, TAUT_MAX, c, NULL);
}

static enum taut_status premul(struct taut_comm *c)
{
	float two = 2;
	enum taut_op op;

	if (taut_op_create_premul_sum(&op, &two, TAUT_FLOAT32, c))
		exit(1);
	return taut_all_reduce(in, out, 8, TAUT_FLOAT32, op, c, NULL);
}

static enum taut_status gather(struct taut_comm *c)
{
	return taut_all_gather(in, out, 5, TAUT_FLOAT32, c, NULL);
}

static enum taut_status gather_v(struct taut_comm *c)
{
	return taut_all_gather_v(in, out, counts, NULL, TAUT_FLOAT32, c, NULL);
}

static enum taut_status scatter(struct taut_comm *c)
{
	return taut_reduce_scatter(in, out, 8, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status scatter_v(struct taut_comm *c)
{
	return taut_reduce_scatter_v(in, out, counts, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status all_to_all(struct taut_comm *c)
{
	return taut_all_to_all(in, out, 8, TAUT_FLOAT32, c, NULL);
}

static enum taut_status all_to_all_big(struct taut_comm *c)
{
	return taut_all_to_all(in, out, BIG / 8, TAUT_FLOAT32, c, NULL);
}

static enum taut_status bcast0(struct taut_comm *c)
{
	return taut_broadcast(in, out, 8, TAUT_FLOAT32, 0, c, NULL);
}

static enum taut_status bcast1(struct taut_comm *c)
{
	return taut_broadcast(in, out, 8, TAUT_FLOAT32, 1, c, NULL);
}

static enum taut_status bcast0_big(struct taut_comm *c)
{
	return taut_broadcast(in, out, BIG, TAUT_FLOAT32, 0, c, NULL);
}

static enum taut_status bcast1_big(struct taut_comm *c)
{
	return taut_broadcast(in, out, BIG, TAUT_FLOAT32, 1, c, NULL);
}

static enum taut_status reduce0(struct taut_comm *c)
{
	return taut_reduce(in, out, 8, TAUT_FLOAT32, TAUT_SUM, 0, c, NULL);
}

static enum taut_status reduce1(struct taut_comm *c)
{
	return taut_reduce(in, out, 8, TAUT_FLOAT32, TAUT_SUM, 1, c, NULL);
}

static enum taut_status to_root0(struct taut_comm *c)
{
	return taut_gather(in, out, 8, TAUT_FLOAT32, 0, c, NULL);
}

static enum taut_status to_root1(struct taut_comm *c)
{
	return taut_gather(in, out, 8, TAUT_FLOAT32, 1, c, NULL);
}

static enum taut_status from_root0(struct taut_comm *c)
{
	return taut_scatter(in, out, 8, TAUT_FLOAT32, 0, c, NULL);
}

static enum taut_status from_root1(struct taut_comm *c)
{
	return taut_scatter(in, out, 8, TAUT_FLOAT32, 1, c, NULL);
}

static enum taut_status barrier(struct taut_comm *c)
{
	return taut_barrier(c, NULL);
}

static enum taut_status sum_then_bcast(struct taut_comm *c)
{
	enum taut_status st = sum(c);

	return st ? st : bcast0(c);
}

static enum taut_status bcast_then_sum(struct taut_comm *c)
{
	enum taut_status st = bcast0(c);

	return st ? st : sum(c);
}

static enum taut_status group_of_two(struct taut_comm *c)
{
	taut_group_start();
	sum(c);
	taut_all_reduce(in + 100, out + 100, 8, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	return taut_group_end();
}

static enum taut_status group_nine_first(struct taut_comm *c)
{
	taut_group_start();
	sum_nine(c);
	taut_all_reduce(in + 100, out + 100, 8, TAUT_FLOAT32, TAUT_SUM, c, NULL);
	return taut_group_end();
}

static enum taut_status split(struct taut_comm *c)
{
	struct taut_comm *d = NULL;
	enum taut_status st = taut_comm_split(&d, c, 0, 0, NULL);

	taut_comm_destroy(d);
	return st;
}

static enum taut_status dup_comm(struct taut_comm *c)
{
	struct taut_comm *d = NULL;
	enum taut_status st = taut_comm_dup(&d, c, NULL);

	taut_comm_destroy(d);
	return st;
}

static enum taut_status alloc(struct taut_comm *c)
{
	void *p;

	return taut_mem_alloc(&p, 10000, c);
}

static enum taut_status alloc_more(struct taut_comm *c)
{
	void *p;

	return taut_mem_alloc(&p, 50000, c);
}

static enum taut_status mapped_sum(struct taut_comm *c, size_t n)
{
	void *p;
	enum taut_status st = taut_mem_alloc(&p, 100000, c);

	return st ? st : taut_all_reduce(p, p, n, TAUT_FLOAT32, TAUT_SUM, c, NULL);
}

static enum taut_status mapped(struct taut_comm *c)
{
	return mapped_sum(c, 20000);
}

static enum taut_status mapped_less(struct taut_comm *c)
{
	return mapped_sum(c, 19999);
}

static enum taut_status on_stream(struct taut_comm *c)
{
	struct taut_stream *s;
	enum taut_status st;

	if (taut_stream_create(&s))
		exit(1);
	st = taut_all_reduce(in, out, 9, TAUT_FLOAT32, TAUT_SUM, c, s);
	if (!st)
		st = taut_stream_wait(s);
	taut_stream_destroy(s);
	return st;
}

/* --- every pair --- */
struct pair {
	const char *name;
	call_fn usual, odd;
	const char *usual_words, *odd_words; /* that the sentence must hold */
	bool shm_only;
};
static const struct pair pairs[] = {
	{ "collective", sum, gather, "all_reduce(count 8, float", "all_gather(count 5", false },
	{ "collective of equal size", scatter, all_to_all, "reduce_scatter(", "all_to_all(", false },
	{ "count", sum, sum_nine, "count 8", "count 9", false },
	{ "count, far apart", sum, sum_big, "count 8", "count 200000", false },
	{ "count of an all-to-all", all_to_all, all_to_all_big, "count 8", "count 25000", false },
	{ "type", sum, sum_ints, "float", "int32", false },
	{ "operation", sum, maximum, "sum", "max", false },
	{ "operation of one's own", sum, premul, "sum)", "", false },
	{ "root of a broadcast", bcast0, bcast1, "root 0", "root 1", false },
	{ "root of a big broadcast", bcast0_big, bcast1_big, "root 0", "root 1", false },
	{ "root of a reduction", reduce0, reduce1, "root 0", "root 1", false },
	{ "root of a gather", to_root0, to_root1, "root 0", "root 1", false },
	{ "root of a scatter", from_root0, from_root1, "root 0", "root 1", false },
	{ "barrier", sum, barrier, "all_reduce(", "barrier()", false },
	{ "barrier and broadcast", bcast0, barrier, "broadcast(", "barrier()", false },
	{ "v-form", gather, gather_v, "all_gather(", "all_gather_v(", false },
	{ "v-form of a reduction", scatter, scatter_v, "reduce_scatter(", "reduce_scatter_v(", false },
	{ "order", sum_then_bcast, bcast_then_sum, "all_reduce(", "broadcast(", false },
	{ "inside groups", group_of_two, group_nine_first, "count 8", "count 9", false },
	{ "stream", sum, on_stream, "count 8", "count 9", false },
	{ "split", sum, split, "all_reduce(", "comm_split()", false },
	{ "duplicate", sum, dup_comm, "all_reduce(", "comm_dup()", false },
	{ "shared memory", sum, alloc, "all_reduce(", "mem_alloc(10000", true },
	{ "shared memory and split", alloc, split, "mem_alloc(10000", "comm_split()", true },
	{ "length of shared memory", alloc, alloc_more, "mem_alloc(10000", "mem_alloc(50000", true },
	{ "count in shared memory", mapped, mapped_less, "count 20000", "count 19999", true },
};

struct trial {
	const struct pair *pair;
	int odd; /* rank */
	const char *wire;
	bool warm;
};

#define MORE_CALLS 2 /* the error comes with one of the next */

static void run_pair(int rank, int size, void *arg)
{
	const struct trial *t = arg;
	struct taut_comm *comm;
	enum taut_status st = TAUT_OK;

	setenv("TAUT_WIRE", t->wire, 1);
	comm = join_all(rank, size);
	if (t->warm) /* all connections are there */
		for (int i = 0; i < 3; i++)
			CHECK(all_reduce_ok(comm, rank, size));
	st = (rank == t->odd ? t->pair->odd : t->pair->usual)(comm);
	for (int i = 0; i < MORE_CALLS && !st; i++)
		st = sum(comm);
	say(rank, st);
	CHECK(taut_barrier(comm, NULL) == st);
	taut_comm_destroy(comm);
}

static void every_pair(const char *wire)
{
	int turn = 0;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++, turn++) {
		int size = 2 + turn % 3;
		struct trial t = {
			.pair = &pairs[i], .odd = turn % 2 ? size - 1 : 0, .wire = wire, .warm = turn / 2 % 2
		};
		char name[100];

		if (pairs[i].shm_only && !strcmp(wire, "tcp"))
			continue;
		snprintf(name, sizeof(name), "%s over %s", pairs[i].name, wire);
		start(size, run_pair, &t);
		if (!finish(size, 0, name))
			continue;
		all_told(size, 0, TAUT_ERR_MISMATCH, name);
		CHECK(strstr(page->said[0].text, pairs[i].usual_words) &&
		      strstr(page->said[0].text, pairs[i].odd_words));
		if (failures || getenv("SAY"))
			fprintf(stderr, "%s, %d ranks, odd one %d: %s\n", name, size, t.odd, page->said[0].text);
	}
}

/* --- messages --- */
static void other_length(int rank, int size, void *arg)
{
	size_t n = *(size_t *)arg;
	struct taut_comm *comm = join_all(rank, size);
	enum taut_status st = TAUT_OK;

	if (rank == 1)
		st = taut_send(in, n, TAUT_INT8, 0, 4, comm, NULL);
	else if (rank == 0)
		st = taut_recv(out, n + 3, TAUT_INT8, 1, 4, comm, NULL);
	if (!st)
		st = taut_barrier(comm, NULL);
	say(rank, st);
	taut_comm_destroy(comm);
}

static void messages(void)
{
	static size_t lens[] = { 0, 8, 1000, 300000 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		char sent[32], wanted[32];

		snprintf(sent, sizeof(sent), "sent %zu bytes", lens[i]);
		snprintf(wanted, sizeof(wanted), "of %zu bytes", lens[i] + 3);
		start(3, other_length, &lens[i]);
		if (!finish(3, 0, "length of a message"))
			continue;
		all_told(3, 0, TAUT_ERR_MISMATCH, "length of a message");
		CHECK(strstr(page->said[0].text, "rank 0") && strstr(page->said[0].text, "rank 1"));
		CHECK(strstr(page->said[0].text, sent) && strstr(page->said[0].text, wanted));
	}
}

/* --- one leaves, one is late --- */
struct absence {
	int who;
	const char *wire;
	bool lives_on; /* its process does */
	bool warm;
};

static void leave(int rank, int size, void *arg)
{
	const struct absence *a = arg;
	struct taut_comm *comm, *other;
	enum taut_status st = TAUT_OK;

	setenv("TAUT_WIRE", a->wire, 1);
	comm = join_all(rank, size);
	CHECK(taut_comm_dup(&other, comm, NULL) == TAUT_OK);
	if (a->warm)
		CHECK(all_reduce_ok(comm, rank, size));
	CHECK(taut_barrier(other, NULL) == TAUT_OK);
	if (rank == a->who) {
		taut_comm_destroy(comm);
	} else {
		st = sum(comm);
		say(rank, st);
		taut_comm_destroy(comm);
	}
	if (a->lives_on)
		CHECK(taut_barrier(other, NULL) == TAUT_OK);
	taut_comm_destroy(other);
}

/* A closed connection or the ranks' answers tell it; in any case the sentence names who left. */
static void leaving(void)
{
	static struct absence all[] = {
		{ 0, "shm", false, true },  { 1, "shm", true, true },  { 2, "tcp", false, true },
		{ 1, "shm", false, false }, { 2, "shm", true, false }, { 0, "tcp", true, true },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char who[32];

		snprintf(who, sizeof(who), "rank %d", all[i].who);
		start(3, leave, &all[i]);
		if (!finish(3, 0, "one leaves"))
			continue;
		for (int r = 0; r < 3; r++) {
			const struct said *s = &page->said[r];

			if (r == all[i].who ||
			    ((s->st == TAUT_ERR_PEER || s->st == TAUT_ERR_NET) && strstr(s->text, who)))
				continue;
			fprintf(stderr, "%s leaves: rank %d was told %s \"%s\"\n", who, r, taut_status_name(s->st),
				s->text);
			failures++;
		}
	}
}

static void late(int rank, int size, void *arg)
{
	const char *file = arg;
	struct taut_comm *comm;

	setenv("TAUT_LOG", "warn", 1);
	setenv("TAUT_LOG_FILE", file, 1);
	comm = join_all(rank, size);
	CHECK(all_reduce_ok(comm, rank, size));
	if (rank == 2)
		sleep_ms(5500);
	CHECK(all_reduce_ok(comm, rank, size));
	CHECK(all_reduce_ok(comm, rank, size));
	taut_comm_destroy(comm);
}

/* Nothing fails, but one line says who is waited for. */
static void coming_late(void)
{
	char file[] = "/tmp/taut-late-XXXXXX", line[1000], who[64];
	int fd = mkstemp(file), lines = 0;
	FILE *f;

	CHECK(fd >= 0);
	start(3, late, file);
	finish(3, 0, "one is late");
	snprintf(who, sizeof(who), "rank 2 (");
	f = fdopen(fd, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "waits for")) { /* what else a busy machine gives cause to say */
			fprintf(stderr, "said too: %s", line);
			continue;
		}
		lines++;
		if (strstr(line, who) && strstr(line, "all_reduce(count 3, int32, sum)"))
			continue;
		fprintf(stderr, "rank 2 is late, but it was said: %s", line);
		failures++;
	}
	CHECK(lines == 1);
	if (f)
		fclose(f);
	unlink(file);
}

int main(void)
{
	setenv("TAUT_LOG", "none", 0);
	every_pair("shm");
	every_pair("tcp");
	messages();
	leaving();
	coming_late();
	printf("mismatches: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
