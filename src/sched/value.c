/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/value.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum taut_status values_init(struct values *v, int nranks, int per_rank)
{
	*v = (struct values){ .nranks = nranks, .per_rank = per_rank };
	v->nleaves = (uint32_t)nranks * (uint32_t)per_rank;
	v->seen = mem_calloc((size_t)nranks, sizeof(*v->seen));
	if (!v->seen)
		return fail(TAUT_ERR_NOMEM, "verify: no memory for %d ranks", nranks);
	return TAUT_OK;
}

void values_cleanup(struct values *v)
{
	mem_free(v->nodes);
	mem_free(v->children);
	mem_free(v->table);
	mem_free(v->stack);
	mem_free(v->seen);
}

/* Room for @need entries of @size bytes in *@p. */
static enum taut_status reserve(void *p, uint32_t *cap, uint64_t need, size_t size)
{
	uint64_t want = *cap ? *cap : 64;
	void *old, *bigger;

	if (need <= *cap)
		return TAUT_OK;
	while (want < need)
		want *= 2;
	memcpy(&old, p, sizeof(old));
	bigger = want > UINT32_MAX ? NULL : mem_realloc(old, want, size);
	if (!bigger)
		return fail(TAUT_ERR_NOMEM, "verify: no memory for %llu values", (unsigned long long)need);
	memcpy(p, &bigger, sizeof(bigger));
	*cap = (uint32_t)want;
	return TAUT_OK;
}

static uint32_t hash(const uint32_t *operands, uint32_t n)
{
	uint64_t h = n * UINT64_C(0x9e3779b97f4a7c15);

	for (uint32_t i = 0; i < n; i++) {
		h = (h ^ operands[i]) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

static const uint32_t *children(const struct values *v, uint32_t node)
{
	return v->children + v->nodes[node].first;
}

/* The table's place for these operands: taken by an equal node, or free. */
static uint32_t place(const struct values *v, const uint32_t *operands, uint32_t n)
{
	uint32_t i = hash(operands, n) & (v->cap_table - 1);

	while (v->table[i]) {
		uint32_t node = v->table[i] - 1;

		if (v->nodes[node].n == n && memcmp(children(v, node), operands, n * sizeof(*operands)) == 0)
			break;
		i = (i + 1) & (v->cap_table - 1);
	}
	return i;
}

static enum taut_status grow_table(struct values *v)
{
	uint32_t cap = v->cap_table ? 2 * v->cap_table : 256;
	uint32_t *table = mem_calloc(cap, sizeof(*table));

	if (!table)
		return fail(TAUT_ERR_NOMEM, "verify: no memory for %u values", cap);
	mem_free(v->table);
	v->table = table;
	v->cap_table = cap;
	for (uint32_t i = 0; i < v->nnodes; i++)
		table[place(v, children(v, i), v->nodes[i].n)] = i + 1;
	return TAUT_OK;
}

static uint32_t leaves_of(const struct values *v, uint32_t id)
{
	return id <= v->nleaves ? 1 : v->nodes[id - v->nleaves - 1].leaves;
}

static enum taut_status add_node(struct values *v, const uint32_t *operands, uint32_t n)
{
	uint64_t leaves = 0;
	enum taut_status st = reserve(&v->nodes, &v->cap_nodes, v->nnodes + (uint64_t)1, sizeof(*v->nodes));

	if (!st)
		st = reserve(&v->children, &v->cap_children, v->nchildren + (uint64_t)n, sizeof(*v->children));
	if (st)
		return st;
	for (uint32_t i = 0; i < n; i++)
		leaves += leaves_of(v, operands[i]);
	memcpy(v->children + v->nchildren, operands, n * sizeof(*operands));
	v->nodes[v->nnodes++] = (struct value_node){
		.first = v->nchildren,
		.n = n,
		.leaves = leaves < UINT32_MAX ? (uint32_t)leaves : UINT32_MAX,
	};
	v->nchildren += n;
	return TAUT_OK;
}

enum taut_status value_reduce(uint32_t *out, struct values *v, const uint32_t *operands, uint32_t n)
{
	enum taut_status st = TAUT_OK;
	uint32_t i;

	if (2 * v->nnodes >= v->cap_table)
		st = grow_table(v);
	if (st)
		return st;
	i = place(v, operands, n);
	if (!v->table[i]) {
		st = add_node(v, operands, n);
		if (st)
			return st;
		v->table[i] = v->nnodes;
	}
	*out = v->nleaves + v->table[i];
	return TAUT_OK;
}

static bool meet_leaf(struct values *v, uint32_t id, int chunk, int *why, bool *twice)
{
	int rank = (int)((id - 1) / (uint32_t)v->per_rank);

	if ((int)((id - 1) % (uint32_t)v->per_rank) != chunk)
		return false;
	if (v->seen[rank] == v->check) {
		*why = rank;
		*twice = true;
		return false;
	}
	v->seen[rank] = v->check;
	return true;
}

static bool all_seen(const struct values *v, int *why)
{
	for (int r = 0; r < v->nranks; r++) {
		if (v->seen[r] == v->check)
			continue;
		*why = r;
		return false;
	}
	return true;
}

/* Stops at the first rank met twice, so it visits few more leaves than there are ranks. */
enum taut_status value_is_sum(bool *out, struct values *v, uint32_t id, int chunk, int *why, bool *twice)
{
	uint32_t n = 1;
	bool good = id != 0;
	enum taut_status st = reserve(&v->stack, &v->cap_stack, 1, sizeof(*v->stack));

	*why = -1;
	*twice = false;
	if (st)
		return st;
	if (id > v->nleaves && v->nodes[id - v->nleaves - 1].good_for == (uint32_t)chunk + 1) {
		*out = true;
		return TAUT_OK;
	}
	v->check++;
	v->stack[0] = id;
	while (good && n > 0) {
		uint32_t top = v->stack[--n];
		const struct value_node *node;

		if (top <= v->nleaves) {
			good = meet_leaf(v, top, chunk, why, twice);
			continue;
		}
		node = v->nodes + (top - v->nleaves - 1);
		st = reserve(&v->stack, &v->cap_stack, n + (uint64_t)node->n, sizeof(*v->stack));
		if (st)
			return st;
		memcpy(v->stack + n, v->children + node->first, node->n * sizeof(*v->stack));
		n += node->n;
	}
	good = good && all_seen(v, why);
	if (good && id > v->nleaves)
		v->nodes[id - v->nleaves - 1].good_for = (uint32_t)chunk + 1;
	*out = good;
	return TAUT_OK;
}

const char *value_text(const struct values *v, uint32_t id, char *buf, size_t len)
{
	if (id == 0)
		snprintf(buf, len, "nothing");
	else if (id <= v->nleaves)
		snprintf(buf, len, "in[%u] of rank %u", (id - 1) % (uint32_t)v->per_rank,
			 (id - 1) / (uint32_t)v->per_rank);
	else
		snprintf(buf, len, "a reduction of %u inputs", leaves_of(v, id));
	return buf;
}
