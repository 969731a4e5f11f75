/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_plan.h"

#include <stdlib.h>

#include "base/mem.h"

enum {
	ELEM = 4,
	HOPELESS = 5, /* ways that the model takes for so many times slower than the best are left out */
	PIECE_MIN = 256,
	MAPPED_MIN = 4096, /* smaller calls do not look whether their buffers are shared */
};

static size_t blocks_of(enum sched_coll coll, int nranks)
{
	int in = sched_coll_blocks(coll, false, nranks), out = sched_coll_blocks(coll, true, nranks);

	return (size_t)(in > out ? in : out);
}

size_t tune_count(enum sched_coll coll, size_t bytes, int nranks)
{
	return coll == COLL_BARRIER ? 0 : bytes / ELEM / blocks_of(coll, nranks);
}

struct cost_machine tune_machine(const struct tune_case *at, const struct cost_machine *numbers)
{
	struct cost_machine m = *numbers;

	m.cores = at->machine.cores;
	m.one_wire = at->machine.one_wire;
	for (int k = 0; k < 2; k++) {
		m.link[k].slot_bytes = at->machine.link[k].slot_bytes;
		m.link[k].ll_max = at->machine.link[k].ll_max;
	}
	return m;
}

struct cost_query tune_query(const struct tune_point *p)
{
	return (struct cost_query){
		.req = { .coll = p->coll, .nranks = p->at->nranks, .node_of = p->at->node_of, .nnodes = p->at->nodes },
		.bytes = p->bytes,
		.elem = ELEM,
		.mapped = p->mapped,
		.machine = &p->at->machine
	};
}

static enum taut_status add(struct tune_points *points, const struct tune_point *p)
{
	if (points->n == points->cap) {
		int cap = points->cap ? points->cap * 2 : 256;
		struct tune_point *more = mem_realloc(points->p, (size_t)cap, sizeof(*more));

		if (!more)
			return fail(TAUT_ERR_NOMEM, "%d measurements", cap);
		points->p = more;
		points->cap = cap;
	}
	points->p[points->n++] = *p;
	return TAUT_OK;
}

/* The way with its predicted time, appended if the model has a time for it. */
static enum taut_status consider(struct tune_points *points, struct tune_point *p, size_t piece, int channels)
{
	struct cost_query q = tune_query(p);
	enum taut_status st;

	p->way.piece_bytes = piece;
	p->way.channels = channels;
	st = cost_price(&p->way.us, &q, &p->way);
	if (st == TAUT_ERR_UNSUPPORTED)
		return TAUT_OK;
	return st ? st : add(points, p);
}

static enum taut_status consider_all(struct tune_points *points, struct tune_point *p)
{
	const struct cost_link *link = &p->at->machine.link[p->at->nodes > 1 || p->at->machine.one_wire];
	size_t limit = p->way.proto == PROTO_BULK ? link->slot_bytes : link->ll_max;
	enum taut_status st = consider(points, p, 0, 1);

	if (p->way.algo->mapped)
		return st;
	for (size_t piece = limit / 4; !st && piece >= limit / 64 && piece >= PIECE_MIN; piece /= 4)
		if (p->bytes > piece)
			st = consider(points, p, piece, 1);
	if (!st && p->way.proto == PROTO_BULK && p->bytes > limit)
		st = consider(points, p, 0, 2);
	return st;
}

static int by_price(const void *a, const void *b)
{
	double x = ((const struct tune_point *)a)->way.us, y = ((const struct tune_point *)b)->way.us;

	return (x > y) - (x < y);
}

/* Are there already two ways of this algorithm and protocol from @first on? */
static bool enough_of(const struct tune_points *points, int first, const struct tune_point *p)
{
	int same = 0;

	for (int i = first; i < points->n; i++)
		same += points->p[i].way.algo == p->way.algo && points->p[i].way.proto == p->way.proto;
	return same >= 2;
}

/* Keeps the cheapest from @first on, and says when each has its turn. */
static void keep_hopeful(struct tune_points *points, int first)
{
	int n = points->n;

	qsort(points->p + first, (size_t)(n - first), sizeof(*points->p), by_price);
	points->n = first;
	for (int i = first; i < n && points->n < first + TUNE_WAYS; i++) {
		if (points->p[i].way.us > HOPELESS * points->p[first].way.us)
			break;
		if (enough_of(points, first, &points->p[i]))
			continue;
		points->p[points->n] = points->p[i];
		points->p[points->n].turn = points->n - first;
		points->n++;
	}
	if (points->n - first > points->turns)
		points->turns = points->n - first;
}

static enum taut_status plan_size(struct tune_points *points, struct tune_point *p)
{
	int first = points->n;
	enum taut_status st = TAUT_OK;

	for (int i = 0; sched_algos[i] && !st; i++) {
		if (sched_algos[i]->mapped != p->mapped) /* shared buffers make no other difference */
			continue;
		for (int proto = 0; proto < PROTO_COUNT && !st; proto++) {
			p->way.algo = sched_algos[i];
			p->way.proto = (enum sched_proto)proto;
			st = consider_all(points, p);
		}
	}
	keep_hopeful(points, first);
	return st;
}

static bool worth_measuring(const struct tune_point *p, bool smallest)
{
	if (p->coll == COLL_BARRIER)
		return smallest && !p->mapped;
	return p->bytes >= (p->mapped ? MAPPED_MIN : 1);
}

enum taut_status tune_plan(struct tune_points *out, const struct tune_case *at, const struct tune_sizes *sizes,
			   unsigned colls)
{
	enum taut_status st = TAUT_OK;

	for (int c = 0; c < COLL_COUNT && !st; c++)
		for (int mapped = 0; mapped <= at->mapped && !st && colls >> c & 1; mapped++)
			for (size_t bytes = sizes->min; bytes <= sizes->max && !st; bytes *= sizes->factor) {
				struct tune_point p = { .at = at, .coll = (enum sched_coll)c, .mapped = mapped };

				p.bytes = tune_count(p.coll, bytes, at->nranks) * ELEM * blocks_of(p.coll, at->nranks);
				if (worth_measuring(&p, bytes == sizes->min))
					st = plan_size(out, &p);
			}
	return st;
}

void tune_points_free(struct tune_points *points)
{
	mem_free(points->p);
	*points = (struct tune_points){ 0 };
}

int tune_group_end(const struct tune_points *points, int i)
{
	const struct tune_point *p = &points->p[i];

	for (i++; i < points->n; i++) {
		const struct tune_point *q = &points->p[i];

		if (q->at != p->at || q->coll != p->coll || q->bytes != p->bytes || q->mapped != p->mapped)
			break;
	}
	return i;
}

/* Between @bytes and @bytes * @factor, half way by ratio (near enough, in whole numbers). */
static size_t between(size_t bytes, size_t factor)
{
	size_t root = 1;

	while ((root + 1) * (root + 1) <= factor)
		root++;
	return bytes * root;
}

void tune_range(size_t *lo, size_t *hi, const struct tune_point *p, const struct tune_sizes *sizes)
{
	size_t nominal = sizes->min;

	*lo = 0;
	*hi = SIZE_MAX;
	if (p->coll == COLL_BARRIER)
		return;
	while (nominal < p->bytes)
		nominal *= sizes->factor;
	if (tune_count(p->coll, nominal / sizes->factor, p->at->nranks) && nominal > sizes->min)
		*lo = between(nominal / sizes->factor, sizes->factor) + 1;
	if (nominal * sizes->factor <= sizes->max)
		*hi = between(nominal, sizes->factor);
}
