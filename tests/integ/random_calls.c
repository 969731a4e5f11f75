/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls, every result compared: `integ_random_calls [CALLS [SEED [RUNS [RANKS [FIRST_RUN]]]]]`.
 *
 * All ranks draw the same decisions from (seed, run, step): which communicator, which call, type, operation, count,
 * root, layout. What only one rank sees (alignment, order of posts, when it looks at its results) each draws for
 * itself. Each run has other settings and another number of ranks. A failure prints the words that repeat it. */
#include "random_plan.h"

/* --- memory --- */
static bool area_in_segment(struct area *a, struct group *g, int which, size_t odd)
{
	size_t at = g->used[which];

	if (at + a->len + odd + 64 > SEGMENT)
		return false;
	a->base = g->segment[which] + at + odd;
	g->used[which] = (at + a->len + odd + 63) / 64 * 64;
	return true;
}

static void area_make(struct area *a, const struct plan *p, int which, size_t bytes)
{
	size_t odd = chance(&w.own, 40) ? 0 : below(&w.own, 64);

	a->len = bytes + 2 * GUARD;
	if (!p->in_segment || !area_in_segment(a, p->group, which, odd)) {
		a->memory = malloc(a->len + 64);
		must(a->memory);
		a->base = a->memory + odd;
	}
	a->p = a->base + GUARD;
	memset(a->base, 0xee, a->len);
}

static void area_remember(struct area *a)
{
	a->copy = malloc(a->len);
	must(a->copy);
	memcpy(a->copy, a->base, a->len);
}

static void area_free(struct area *a)
{
	free(a->memory);
	free(a->copy);
}

/* In place: where the input lies in the output, or the output in the input; the rules of taut.h. */
static bool may_be_in_place(const struct pending *x)
{
	enum kind k = x->plan.kind;
	bool root = x->plan.group->me == x->plan.root;

	if (!x->plan.in_place)
		return false;
	if (k == ALL_REDUCE || k == ALL_GATHER || k == REDUCE_SCATTER || k == ALL_TO_ALL)
		return true;
	return root && (k == REDUCE || k == BROADCAST || k == GATHER || k == SCATTER);
}

static void fill_input(const struct pending *x, unsigned char *to)
{
	size_t elem = taut_type_size(x->plan.num.type);

	for (size_t i = 0; i < x->in_len; i++) {
		uint64_t bits = input_bits(&x->plan.num, x->plan.group->me, i);

		memcpy(to + i * elem, &bits, elem);
	}
}

static void make_areas(struct pending *x)
{
	const struct plan *p = &x->plan;
	size_t elem = taut_type_size(p->num.type), own = (size_t)p->group->me * p->count * elem;

	if (!may_be_in_place(x)) {
		area_make(&x->in, p, 0, x->in_len * elem);
		area_make(&x->out, p, 1, x->out_len * elem);
		fill_input(x, x->in.p);
		area_remember(&x->in);
	} else if (p->kind == SCATTER || p->kind == REDUCE_SCATTER) { /* one area, the output is a block of it */
		area_make(&x->out, p, 0, x->in_len * elem);
		fill_input(x, x->out.p);
		x->in.p = x->out.p;
		x->out.p += own;
	} else {
		area_make(&x->out, p, 1, x->out_len * elem);
		x->in.p = x->out.p + (p->kind == ALL_GATHER || p->kind == GATHER ? own : 0);
		fill_input(x, x->in.p);
	}
	area_remember(&x->out);
}

/* --- verifying --- */
static void wrong(const struct pending *x, const char *what, size_t at, uint64_t got, uint64_t want)
{
	const struct plan *p = &x->plan;

	die("%s of step %zu: %s at %zu: 0x%llx, wanted 0x%llx; type %s op %d count %zu root %d peer %d members %d me "
	    "%d "
	    "in_place %d in_segment %d packed %d %d rough %d, in %p out %p",
	    kind_names[p->kind], x->step, what, at, (unsigned long long)got, (unsigned long long)want,
	    taut_type_name(p->num.type), (int)p->num.op, p->count, p->root, p->peer, p->group->n, p->group->me,
	    p->in_place, p->in_segment, p->in_packed, p->out_packed, p->num.rough, (void *)x->in.p, (void *)x->out.p);
}

static void check_rough(const struct pending *x, const struct part *t, unsigned char *want)
{
	const struct numbers *n = &x->plan.num;
	size_t elem = taut_type_size(n->type);

	for (size_t i = 0; i < t->len; i++) {
		double sum_abs, value = reduced_float(n, t->at + i, &sum_abs), got, off;
		uint64_t bits = 0;

		memcpy(&bits, x->out.p + (t->to + i) * elem, elem);
		got = float_value(n->type, bits);
		off = got > value ? got - value : value - got;
		if (!(off <= 2 * (n->size + 2) * epsilon_of(n->type) * sum_abs + 0x1p-8))
			wrong(x, "a rough sum", i, bits, float_bits(n->type, value));
		memcpy(want + (t->to + i) * elem, &bits, elem);
	}
}

static void expect(const struct pending *x, const struct part *t, unsigned char *want)
{
	size_t elem = taut_type_size(x->plan.num.type);

	if (t->from < 0 && x->plan.num.rough) {
		check_rough(x, t, want);
		return;
	}
	for (size_t i = 0; i < t->len; i++) {
		uint64_t bits = t->from < 0 ? reduced_bits(&x->plan.num, t->at + i)
					    : input_bits(&x->plan.num, t->from, t->at + i);

		memcpy(want + (t->to + i) * elem, &bits, elem);
	}
}

static void compare(const struct pending *x, const struct area *a, const char *what)
{
	for (size_t i = 0; memcmp(a->base, a->copy, a->len) && i < a->len; i++)
		if (a->base[i] != a->copy[i])
			wrong(x, what, i, a->base[i], a->copy[i]);
}

/* The first rank that is here leaves a hash of its result, the others compare. */
static void same_everywhere(const struct pending *x)
{
	size_t len = x->out_len * taut_type_size(x->plan.num.type);
	uint64_t h = 1, seen = 0;

	for (size_t i = 0; i < len; i++)
		h = (h ^ x->out.p[i]) * 0x100000001b3ull;
	h = h ? h : 1;
	if (!atomic_compare_exchange_strong(&w.hashes[x->id], &seen, h) && seen != h)
		wrong(x, "other bits than another rank has", 0, h, seen);
}

static void verify(struct pending *x)
{
	unsigned char *want = x->out.copy + (x->out.p - x->out.base);

	for (int i = 0; i < x->nparts; i++)
		expect(x, &x->parts[i], want);
	compare(x, &x->out, "the output");
	if (x->in.copy)
		compare(x, &x->in, "the input");
	if (x->plan.kind == ALL_REDUCE && x->plan.num.rough && x->id < HASHES)
		same_everywhere(x);
	area_free(&x->in);
	area_free(&x->out);
}

/* Look at all that is on its way. */
static void settle(void)
{
	ok(taut_stream_wait(w.streams[0]), "stream 0");
	ok(taut_stream_wait(w.streams[1]), "stream 1");
	for (int i = 0; i < w.npending; i++)
		verify(&w.pending[i]);
	w.npending = 0;
	for (int i = 0; i < MAX_GROUPS; i++)
		w.groups[i].used[0] = w.groups[i].used[1] = 0;
}

/* --- issuing --- */
static struct pending *new_pending(const struct plan *p)
{
	struct pending *x;

	if (w.npending == MAX_PENDING)
		settle();
	x = &w.pending[w.npending++];
	*x = (struct pending){ .plan = *p, .step = w.step, .id = w.done, .op = p->num.op };
	parts_of(x);
	make_areas(x);
	return x;
}

static void make_user_op(struct pending *x)
{
	const struct numbers *n = &x->plan.num;
	int64_t v = n->scalar[x->plan.group->me];
	uint64_t bits = is_float(n->type) ? float_bits(n->type, (double)v) : (uint64_t)v;

	ok(taut_op_create_premul_sum(&x->op, &bits, n->type, x->plan.group->comm), "taut_op_create_premul_sum");
}

static enum taut_status issue_vectors(struct pending *x, void *stream)
{
	const struct plan *p = &x->plan;
	struct taut_comm *c = p->group->comm;
	enum taut_type t = p->num.type;
	int me = p->group->me, n = p->group->n;
	const size_t *in_at = p->in_packed ? NULL : p->in_at[me], *out_at = p->out_packed ? NULL : p->out_at[me];
	const size_t *counts = p->counts[0];
	bool root = me == p->root;
	size_t column[MAX_RANKS];

	for (int s = 0; s < n; s++)
		column[s] = p->counts[s][me];
	switch (p->kind) {
	case ALL_GATHER_V:
		return taut_all_gather_v(x->in.p, x->out.p, counts, out_at, t, c, stream);
	case REDUCE_SCATTER_V:
		return taut_reduce_scatter_v(x->in.p, x->out.p, counts, t, x->op, c, stream);
	case ALL_TO_ALL_V:
		return taut_all_to_all_v(x->in.p, p->counts[me], in_at, x->out.p, column, out_at, t, c, stream);
	case GATHER_V:
		return taut_gather_v(x->in.p, counts[me], root ? x->out.p : NULL, root ? counts : NULL,
				     root ? out_at : NULL, t, p->root, c, stream);
	default:
		return taut_scatter_v(root ? x->in.p : NULL, root ? counts : NULL, root ? in_at : NULL, x->out.p,
				      counts[me], t, p->root, c, stream);
	}
}

static enum taut_status issue_one(struct pending *x, void *stream)
{
	const struct plan *p = &x->plan;
	struct taut_comm *c = p->group->comm;
	enum taut_type t = p->num.type;
	const void *in = x->in_len ? x->in.p : NULL;
	void *out = x->out_len ? x->out.p : NULL;

	switch (p->kind) {
	case ALL_REDUCE:
		return taut_all_reduce(in, out, p->count, t, x->op, c, stream);
	case REDUCE:
		return taut_reduce(in, out, p->count, t, x->op, p->root, c, stream);
	case REDUCE_SCATTER:
		return taut_reduce_scatter(in, out, p->count, t, x->op, c, stream);
	case ALL_GATHER:
		return taut_all_gather(in, out, p->count, t, c, stream);
	case BROADCAST:
		return taut_broadcast(in, out, p->count, t, p->root, c, stream);
	case GATHER:
		return taut_gather(in, out, p->count, t, p->root, c, stream);
	case SCATTER:
		return taut_scatter(in, out, p->count, t, p->root, c, stream);
	case ALL_TO_ALL:
		return taut_all_to_all(in, out, p->count, t, c, stream);
	case BARRIER:
		return taut_barrier(c, stream);
	default:
		return issue_vectors(x, stream);
	}
}

static void issue(const struct plan *p, void *stream)
{
	struct pending *x = new_pending(p);

	if (x->op == TAUT_OP_USER)
		make_user_op(x);
	ok(issue_one(x, stream), kind_names[p->kind]);
	if (p->num.op == TAUT_OP_USER)
		taut_op_destroy(x->op, p->group->comm); /* queued calls have read it */
}

/* --- messages --- */
#define MAX_MESSAGES 12

struct post {
	const struct plan *plan;
	bool send, any;
};

static void issue_post(const struct post *post, void *stream)
{
	struct plan half = *post->plan;
	struct pending *x;
	int me = half.group->me;

	x = new_pending(&half);
	if (post->send) {
		x->out_len = 0;
		x->nparts = 0;
		ok(taut_send(x->in.p, half.count, half.num.type, half.peer, half.tag, half.group->comm, stream),
		   "send");
	} else {
		x->in_len = me == half.root ? x->in_len : 0;
		ok(taut_recv(x->out.p, half.count, half.num.type, half.root, post->any ? TAUT_ANY_TAG : half.tag,
			     half.group->comm, stream),
		   "recv");
	}
}

static bool may_swap(const struct post *a, const struct post *b)
{
	const struct plan *p = a->plan, *q = b->plan;

	if (a->send != b->send || p->root != q->root || p->peer != q->peer)
		return true;
	return p->tag != q->tag && !a->any && !b->any;
}

static void draw_message(struct rng *r, struct plan *p, struct group *g)
{
	*p = (struct plan){ .kind = MESSAGE, .group = g };
	draw_numbers(r, p);
	p->num.op = TAUT_SUM;
	p->num.rough = false;
	p->root = (int)below(r, (size_t)g->n);
	p->peer = (int)below(r, (size_t)g->n);
	p->tag = (int)below(r, 3);
	p->count = draw_count(r, taut_type_size(p->num.type), 2);
	p->in_segment = g->shared && chance(r, 30);
}

/* Draws messages within @g and posts this rank's ends of them; the caller opened a group. */
static int post_messages(struct rng *r, struct group *g, void *stream)
{
	static struct plan plans[MAX_MESSAGES];
	struct post posts[2 * MAX_MESSAGES];
	int n = 0, total = 1 + (int)below(r, MAX_MESSAGES);
	uint64_t any = draw(r) & draw(r); /* by pair of ranks */

	for (int i = 0; i < total; i++) {
		struct plan *p = &plans[i];
		bool is_any;

		draw_message(r, p, g);
		is_any = any >> (p->root * 8 + p->peer) & 1;
		if (g->comm && p->root == g->me)
			posts[n++] = (struct post){ p, true, is_any };
		if (g->comm && p->peer == g->me)
			posts[n++] = (struct post){ p, false, is_any };
	}
	for (int k = 0; k < 3 * n && n > 1; k++) {
		size_t i = below(&w.own, (size_t)n - 1);
		struct post a = posts[i];

		if (!may_swap(&posts[i], &posts[i + 1]))
			continue;
		posts[i] = posts[i + 1];
		posts[i + 1] = a;
	}
	for (int i = 0; i < n; i++)
		issue_post(&posts[i], stream);
	return n;
}

/* --- steps --- */
static struct group *some_group(struct rng *r)
{
	for (;;) {
		struct group *g = &w.groups[below(r, MAX_GROUPS)];

		if (g->live)
			return g;
	}
}

static void *some_stream(struct rng *r)
{
	size_t k = below(r, 5);

	return k < 2 ? w.streams[k] : NULL;
}

static void room_for(int n)
{
	if (w.npending + n > MAX_PENDING)
		settle();
}

static void one_collective(struct rng *r)
{
	struct group *g = some_group(r);
	void *stream = some_stream(r);
	static struct plan p;

	draw_plan(r, &p, g);
	w.done++;
	if (g->comm)
		issue(&p, stream);
}

static void one_message(struct rng *r)
{
	struct group *g = some_group(r);
	void *stream = some_stream(r);
	static struct plan p;

	draw_message(r, &p, g);
	if (g->n < 2)
		return;
	if (p.peer == p.root)
		p.peer = (p.root + 1) % g->n;
	if (g->comm && (g->me == p.root || g->me == p.peer))
		issue_post(&(struct post){ &p, g->me == p.root, false }, stream);
}

/* Several calls as one; the messages of a communicator stay on one stream. */
static void mixed(struct rng *r)
{
	void *stream = some_stream(r);
	int items = 1 + (int)below(r, 4);
	static struct plan p;

	settle(); /* room for all of it: nothing may be looked at before the group's end */
	ok(taut_group_start(), "taut_group_start");
	if (chance(r, 70))
		post_messages(r, some_group(r), stream);
	for (int i = 0; i < items; i++) {
		struct group *g = some_group(r);

		draw_plan(r, &p, g);
		w.done++;
		if (g->comm)
			issue(&p, stream);
	}
	ok(taut_group_end(), "taut_group_end");
}

static struct group *free_group(void)
{
	for (int i = 0; i < MAX_GROUPS; i++)
		if (!w.groups[i].live)
			return &w.groups[i];
	return NULL;
}

static void add_segments(struct group *g)
{
	g->shared = true;
	if (!g->comm)
		return;
	for (int i = 0; i < 2; i++)
		ok(taut_mem_alloc((void **)&g->segment[i], SEGMENT, g->comm), "taut_mem_alloc");
}

static void end_group(struct group *g)
{
	settle(); /* verify() looks at the plan's group */
	if (g->comm)
		ok(taut_barrier(g->comm, NULL), "barrier before the end");
	for (int i = 0; i < 2 && g->shared && g->comm; i++)
		ok(taut_mem_free(g->segment[i], g->comm), "taut_mem_free");
	taut_comm_destroy(g->comm);
	*g = (struct group){ 0 };
}

/* A new record of those members of @from that have @color, in the order of @keys. */
static void record_part(struct group *from, const int *colors, const int *keys, int color, struct taut_comm *comm)
{
	struct group *g = free_group(), made = { .live = true, .me = -1 };
	int order[MAX_RANKS];

	for (int i = 0; i < from->n; i++) {
		int at = made.n;

		if (colors[i] != color)
			continue;
		for (; at > 0 && keys[order[at - 1]] > keys[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
		made.n++;
	}
	for (int i = 0; i < made.n; i++) {
		made.members[i] = from->members[order[i]];
		if (made.members[i] == w.rank)
			made.me = i;
	}
	made.comm = made.me >= 0 ? comm : NULL;
	if (made.comm && (taut_comm_size(comm) != made.n || taut_comm_rank(comm) != made.me))
		die("a split gave rank %d of %d, wanted %d of %d", taut_comm_rank(comm), taut_comm_size(comm), made.me,
		    made.n);
	if (made.n)
		*g = made;
}

/* Two colours at most, and none: at most two new records. */
static void split(struct rng *r, struct group *from)
{
	int colors[MAX_RANKS], keys[MAX_RANKS], places = 0;
	struct taut_comm *comm = NULL;

	for (int i = 0; i < MAX_GROUPS; i++)
		places += !w.groups[i].live;
	if (places < 2)
		return;
	for (int i = 0; i < from->n; i++) {
		colors[i] = chance(r, 15) ? TAUT_NO_COLOR : (int)below(r, 2);
		keys[i] = (int)below(r, 5) - 2;
	}
	if (from->comm)
		ok(taut_comm_split(&comm, from->comm, colors[from->me], keys[from->me], NULL), "taut_comm_split");
	record_part(from, colors, keys, 0, comm);
	record_part(from, colors, keys, 1, comm);
}

static void duplicate(struct group *from)
{
	struct group *g = free_group();

	if (!g)
		return;
	*g = *from;
	g->shared = false;
	g->used[0] = g->used[1] = 0;
	if (from->comm)
		ok(taut_comm_dup(&g->comm, from->comm, NULL), "taut_comm_dup");
}

/* The first record is the world and stays. */
static void change_groups(struct rng *r)
{
	struct group *g = some_group(r);
	size_t k = below(r, 10);

	if (k < 3)
		split(r, g);
	else if (k < 5)
		duplicate(g);
	else if (k < 7 && !g->shared)
		add_segments(g);
	else if (g != &w.groups[0])
		end_group(g);
}

static void step(void)
{
	struct rng r = { scramble(w.seed + (uint64_t)w.run * 7919) ^ scramble(w.step + 1) };
	size_t k = below(&r, 1000);

	room_for(1);
	if (k < 8)
		change_groups(&r);
	else if (k < 60)
		one_message(&r);
	else if (k < 130)
		mixed(&r);
	else
		one_collective(&r);
	if (chance(&w.own, 25))
		settle();
}

static void all(struct taut_comm *comm, int rank, int size, void *arg)
{
	(void)arg;
	w.rank = rank;
	w.size = size;
	w.own.state = scramble(w.seed ^ ((uint64_t)w.run * 64 + (uint64_t)rank + 1));
	w.groups[0] = (struct group){ .live = true, .comm = comm, .n = size, .me = rank };
	for (int i = 0; i < size; i++)
		w.groups[0].members[i] = i;
	signal(SIGALRM, on_alarm);
	ok(taut_stream_create(&w.streams[0]), "taut_stream_create");
	ok(taut_stream_create(&w.streams[1]), "taut_stream_create");
	for (w.step = 0; w.done < w.steps; w.step++) {
		if (w.step % 64 == 0)
			alarm(HANG_SECONDS);
		step();
	}
	settle();
	for (int i = 1; i < MAX_GROUPS; i++)
		if (w.groups[i].live)
			end_group(&w.groups[i]);
	ok(taut_barrier(comm, NULL), "the last barrier");
	alarm(0);
	taut_stream_destroy(w.streams[0]);
	taut_stream_destroy(w.streams[1]);
}

/* --- runs --- */
static const char *pick(struct rng *r, const char *name, const char *const *values, size_t n)
{
	const char *value = values[below(r, n)];
	size_t at = strlen(w.settings);

	if (*value) {
		setenv(name, value, 1);
		snprintf(w.settings + at, sizeof(w.settings) - at, "%s=%s ", name, value);
	} else {
		unsetenv(name);
	}
	return value;
}

#define PICK(r, name, ...)                                                                                             \
	pick(r, name, (const char *const[]){ __VA_ARGS__ },                                                            \
	     sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void draw_settings(struct rng *r)
{
	const char *algos[48] = { "", "", "", "two_level", "^ring", "mapped_two_shot,ring,pairwise" };
	size_t n = 6;

	for (size_t i = 0; sched_algos[i] && n < 40; i++)
		algos[n++] = sched_algos[i]->name;
	w.settings[0] = '\0';
	setenv("TAUT_HEARTBEAT_MS", "60000", 1); /* a busy machine is no lost host */
	pick(r, "TAUT_ALGO", algos, n);
	PICK(r, "TAUT_PROTO", "", "", "ll", "bulk");
	w.limit_bytes = 1024 * (size_t)atoi(PICK(r, "TAUT_SLOT_BYTES", "256K", "4K", "8K", "64K"));
	PICK(r, "TAUT_SLOTS", "", "1", "2", "3", "7");
	PICK(r, "TAUT_CHANNELS", "", "1", "2", "3");
	PICK(r, "TAUT_SOCKETS", "", "2", "3");
	PICK(r, "TAUT_WIRE", "", "", "tcp");
	PICK(r, "TAUT_CHECK", "", "", "0");
	PICK(r, "TAUT_SPIN_US", "", "0", "20");
	PICK(r, "TEST_HOSTS", "", "", "", "1", "3,1", "1,2,2", "%2"); /* see ranks.h */
}

static int one_run(int ranks)
{
	struct rng r = { scramble(w.seed ^ scramble((uint64_t)w.run + 77)) };
	int size = ranks ? ranks : 2 + (int)below(&r, MAX_RANKS - 1), bad;

	draw_settings(&r);
	memset((void *)w.hashes, 0, HASHES * sizeof(*w.hashes));
	bad = run_ranks(size, all, NULL);
	printf("run %d: %d ranks, %zu collectives, %s: %s\n", w.run, size, w.steps, w.settings, bad ? "FAILED" : "ok");
	fflush(stdout);
	return bad;
}

int main(int argc, char **argv)
{
	int runs = argc > 3 ? atoi(argv[3]) : 12, ranks = argc > 4 ? atoi(argv[4]) : 0, bad = 0;

	w.calls = argc > 1 ? strtoull(argv[1], NULL, 0) : 3000;
	w.seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	w.hashes = mmap(NULL, HASHES * sizeof(*w.hashes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(w.hashes != MAP_FAILED && runs > 0);
	w.runs = runs;
	w.steps = w.calls / (size_t)runs;
	for (w.run = argc > 5 ? atoi(argv[5]) : 0; w.run < runs && !bad; w.run++)
		bad = one_run(ranks);
	return bad != 0;
}
