/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks are: what the schedules and the user learn of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "topo/pack.h"
#include "topo/reach.h"

/* --- the order of rings --- */

/* Times that a ring in rank order goes from one machine to another. */
static int crossings(const int *node_of, int n)
{
	int count = 0;

	for (int r = 0; r < n; r++)
		count += node_of[r] != node_of[(r + 1) % n];
	return count;
}

/* Ranks by machine, ascending in each; @next: room for a number a machine. */
static void sort_by_machine(int32_t *order, int32_t *next, const int *node_of, int n, int nodes)
{
	int32_t at = 0;

	for (int r = 0; r < n; r++)
		next[node_of[r]]++;
	for (int m = 0; m < nodes; m++) {
		int32_t ranks = next[m];

		next[m] = at;
		at += ranks;
	}
	for (int r = 0; r < n; r++)
		order[next[node_of[r]]++] = r;
}

enum taut_status comm_find_order(struct taut_comm *comm)
{
	int nodes = boot_nodes(comm->boot);
	int32_t *next;

	if (crossings(comm->node_of, comm->size) <= nodes)
		return TAUT_OK;
	comm->order = mem_calloc((size_t)comm->size, sizeof(*comm->order));
	next = mem_calloc((size_t)nodes, sizeof(*next));
	if (!comm->order || !next) {
		mem_free(next);
		return fail(TAUT_ERR_NOMEM, "the order of %d ranks on %d machines", comm->size, nodes);
	}
	sort_by_machine(comm->order, next, comm->node_of, comm->size, nodes);
	mem_free(next);
	return TAUT_OK;
}

/* --- strictness --- */

enum taut_status comm_check_strict(const struct config *cfg)
{
	struct reach_rules rules = reach_rules_from(cfg);
	struct topo_paths *paths = NULL;
	struct topo *t = NULL;
	enum taut_status st;

	if (!cfg->strict)
		return TAUT_OK;
	st = topo_live(&t, cfg);
	if (!st)
		st = paths_create(&paths, t, &path_rules_default);
	if (!st)
		st = reach_strict(t, paths, &rules);
	paths_free(paths);
	topo_free(t);
	return st;
}

/* --- GPUs that do not address each other --- */

static int find_gpu(const struct topo *t, const char *bus)
{
	char name[32];
	size_t i = 0;

	for (; bus[i] && i + 1 < sizeof(name); i++)
		name[i] = bus[i] >= 'A' && bus[i] <= 'F' ? (char)(bus[i] - 'A' + 'a') : bus[i];
	name[i] = '\0';
	return topo_find(t, name);
}

static bool refuses(char *why, size_t len, const struct topo *t, const struct topo_paths *p,
		    const struct reach_rules *rules, int a, int b)
{
	struct reach answers[REACH_WIRES];

	if (a < 0 || b < 0 || a == b || paths_get(p, a, b)->class >= PATH_NET)
		return false;
	reach_ask(answers, t, p, rules, a, b);
	if (!answers[REACH_P2P].asked || answers[REACH_P2P].usable)
		return false;
	snprintf(why, len, "%s", answers[REACH_P2P].why);
	return true;
}

uint64_t comm_p2p_refused(char *why, size_t len, const struct config *cfg, const char *bus, const char *const *others,
			  int n)
{
	struct reach_rules rules = reach_rules_from(cfg);
	struct topo_paths *paths = NULL;
	struct topo *t = NULL;
	uint64_t refused = 0;

	if (!topo_live(&t, cfg) && !paths_create(&paths, t, &path_rules_default))
		for (int i = 0; i < n; i++)
			if (others[i] && refuses(why, len, t, paths, &rules, find_gpu(t, bus), find_gpu(t, others[i])))
				refused |= (uint64_t)1 << i;
	paths_free(paths);
	topo_free(t);
	return refused;
}

/* --- the file that NCCL_TOPO_DUMP_FILE asks for --- */

static enum taut_status write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	size_t len = strlen(text);
	bool bad;

	if (!f)
		return errno_fail(errno, "%s", path);
	bad = fwrite(text, 1, len, f) != len;
	return fclose(f) || bad ? errno_fail(errno, "%s", path) : TAUT_OK;
}

static enum taut_status dump(const struct config *cfg)
{
	struct topo *t = NULL;
	char path[512], *text = NULL;
	enum taut_status st = topo_live(&t, cfg);

	log_expand(path, sizeof(path), cfg->topo_dump_file);
	if (!st)
		st = topo_to_nccl_xml(&text, t);
	if (!st)
		st = write_file(path, text);
	mem_free(text);
	topo_free(t);
	return st;
}

void comm_dump_topology(const struct taut_comm *comm)
{
	const struct config *cfg = &comm->cfg;

	if (!*cfg->topo_dump_file || comm->rank != cfg->topo_dump_rank)
		return;
	if (dump(cfg))
		log_warn(LOG_COMM, "group \"%s\" goes on without TAUT_TOPO_DUMP_FILE", comm->name);
}

/* --- the machines of all ranks --- */

enum { CARRY_BYTES = 4 << 20, PIECE_MIN = 256, PIECE_MAX = 32768, SENTENCE = 256 };

/* What each rank says; all but the first rank of a machine say nothing. */
enum found { FOUND_NOTHING, FOUND_GRAPH, FOUND_FAULT };
struct found_word {
	uint64_t hash, len, fabric;
	int32_t found, clique;
};

struct gather {
	struct taut_comm *comm;
	struct topo *mine;
	uint8_t *bytes; /* of mine */
	struct found_word word, *words;
	int nkinds;
	int *carrier;	 /* of a kind: the first rank that has it */
	int *kind;	 /* of a machine */
	uint8_t **texts; /* of a kind: its bytes */
	struct topo **topos;
};

static bool speaks_for_machine(const struct taut_comm *comm)
{
	for (int r = 0; r < comm->rank; r++)
		if (comm->node_of[r] == comm->node_of[comm->rank])
			return false;
	return true;
}

static enum taut_status look(struct gather *g)
{
	struct cluster_domain d;
	size_t len = 0;
	enum taut_status st = topo_live(&g->mine, &g->comm->cfg);

	if (!st)
		st = topo_pack(&g->bytes, &len, g->mine);
	if (st)
		return st;
	d = cluster_domain_of(g->mine);
	g->word = (struct found_word){ topo_hash(g->mine), len, d.fabric, FOUND_GRAPH, d.clique };
	return TAUT_OK;
}

/* A rank could not look: all say why. */
static enum taut_status tell_fault(struct gather *g, const char *sentence)
{
	size_t n = (size_t)g->comm->size;
	char mine[SENTENCE] = "", *all = mem_calloc(n, SENTENCE);
	enum taut_status st;
	int at = 0;

	if (!all)
		return fail(TAUT_ERR_NOMEM, "sentences of %zu ranks", n);
	if (g->word.found == FOUND_FAULT)
		snprintf(mine, sizeof(mine), "%s", sentence);
	st = boot_all_gather(g->comm->boot, mine, sizeof(mine), all);
	while (g->words[at].found != FOUND_FAULT)
		at++;
	all[(size_t)at * SENTENCE + SENTENCE - 1] = '\0';
	if (!st)
		st = fail(TAUT_ERR_UNSUPPORTED, "the machine of rank %d (%s) is not known: %s", at,
			  boot_peer(g->comm->boot, at)->host, all + (size_t)at * SENTENCE);
	mem_free(all);
	return st;
}

static enum taut_status exchange_words(struct gather *g)
{
	char sentence[SENTENCE] = "";
	enum taut_status st;

	if (speaks_for_machine(g->comm) && look(g)) {
		g->word.found = FOUND_FAULT;
		snprintf(sentence, sizeof(sentence), "%s", taut_error_message());
	}
	st = boot_all_gather(g->comm->boot, &g->word, sizeof(g->word), g->words);
	for (int r = 0; r < g->comm->size && !st; r++)
		if (g->words[r].found == FOUND_FAULT)
			return tell_fault(g, sentence);
	return st;
}

static void find_kinds(struct gather *g)
{
	for (int r = 0; r < g->comm->size; r++) {
		int k = 0;

		if (g->words[r].found != FOUND_GRAPH)
			continue;
		while (k < g->nkinds && g->words[g->carrier[k]].hash != g->words[r].hash)
			k++;
		if (k == g->nkinds)
			g->carrier[g->nkinds++] = r;
		g->kind[g->comm->node_of[r]] = k;
	}
}

static size_t kind_len(const struct gather *g, int kind)
{
	return (size_t)g->words[g->carrier[kind]].len;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Rank 0's graph, which in most groups is the only one. */
static enum taut_status carry_first(struct gather *g)
{
	size_t len = kind_len(g, 0);
	enum taut_status st = TAUT_OK;

	if (g->comm->rank == 0)
		memcpy(g->texts[0], g->bytes, len);
	for (size_t at = 0; at < len && !st; at += PIECE_MAX)
		st = boot_broadcast(g->comm->boot, g->texts[0] + at, smaller(len - at, PIECE_MAX));
	return st;
}

/* Bytes @at on of all other graphs at once, each from its carrier; nothing from the other ranks. */
static enum taut_status carry_piece(struct gather *g, size_t at, size_t piece, uint8_t *mine, uint8_t *all)
{
	enum taut_status st;

	memset(mine, 0, piece);
	for (int k = 1; k < g->nkinds; k++)
		if (g->carrier[k] == g->comm->rank && at < kind_len(g, k))
			memcpy(mine, g->bytes + at, smaller(kind_len(g, k) - at, piece));
	st = boot_all_gather(g->comm->boot, mine, piece, all);
	for (int k = 1; k < g->nkinds && !st; k++)
		if (at < kind_len(g, k))
			memcpy(g->texts[k] + at, all + (size_t)g->carrier[k] * piece,
			       smaller(kind_len(g, k) - at, piece));
	return st;
}

/* The more ranks, the shorter the pieces: what a rank receives at a time stays within bounds. */
static enum taut_status carry_others(struct gather *g)
{
	size_t n = (size_t)g->comm->size, piece = CARRY_BYTES / n, longest = 0;
	uint8_t *mine, *all;
	enum taut_status st = TAUT_OK;

	piece = piece < PIECE_MIN ? PIECE_MIN : smaller(piece, PIECE_MAX);
	for (int k = 1; k < g->nkinds; k++)
		longest = kind_len(g, k) > longest ? kind_len(g, k) : longest;
	piece = smaller(piece, longest);
	if (!longest)
		return TAUT_OK;
	mine = mem_calloc(1, piece);
	all = mem_calloc(n, piece);
	if (!mine || !all)
		st = fail(TAUT_ERR_NOMEM, "%zu bytes of graphs of %zu ranks", piece, n);
	for (size_t at = 0; at < longest && !st; at += piece)
		st = carry_piece(g, at, piece, mine, all);
	mem_free(mine);
	mem_free(all);
	return st;
}

/* "This machine" is another one here: it is called by its host's name. */
static enum taut_status take_graph(struct gather *g, int kind)
{
	const char *host = boot_peer(g->comm->boot, g->carrier[kind])->host;
	char name[128];
	enum taut_status st;

	snprintf(name, sizeof(name), "the machine of rank %d (%s)", g->carrier[kind], host);
	st = topo_unpack(&g->topos[kind], name, g->texts[kind], kind_len(g, kind));
	if (!st)
		snprintf(g->topos[kind]->source, sizeof(g->topos[kind]->source), "%s", host);
	return st;
}

static enum taut_status carry(struct gather *g)
{
	enum taut_status st = TAUT_OK;

	for (int k = 0; k < g->nkinds && !st; k++) {
		g->texts[k] = kind_len(g, k) <= TOPO_PACK_MAX ? mem_calloc(1, kind_len(g, k)) : NULL;
		if (!g->texts[k])
			st = fail(TAUT_ERR_NOMEM, "a graph of %zu bytes from rank %d", kind_len(g, k), g->carrier[k]);
	}
	if (!st)
		st = carry_first(g);
	if (!st)
		st = carry_others(g);
	for (int k = 0; k < g->nkinds && !st; k++)
		st = take_graph(g, k);
	return st;
}

static enum taut_status make_cluster(struct cluster **out, const struct gather *g)
{
	int nodes = boot_nodes(g->comm->boot);
	struct cluster_machine *machines = mem_calloc((size_t)nodes, sizeof(*machines));
	enum taut_status st;

	if (!machines)
		return fail(TAUT_ERR_NOMEM, "a cluster of %d machines", nodes);
	for (int r = 0; r < g->comm->size; r++) {
		const struct found_word *w = &g->words[r];
		int m = g->comm->node_of[r];

		if (w->found == FOUND_GRAPH)
			machines[m] = (struct cluster_machine){ g->kind[m], { w->fabric, w->clique } };
	}
	st = cluster_create(out, (const struct topo *const *)g->topos, g->nkinds, machines, nodes);
	mem_free(machines);
	return st;
}

static enum taut_status gather(struct cluster **out, struct gather *g)
{
	size_t n = (size_t)g->comm->size, nodes = (size_t)boot_nodes(g->comm->boot);
	enum taut_status st = comm_check(g->comm);

	if (st)
		return st;
	g->words = mem_calloc(n, sizeof(*g->words));
	g->carrier = mem_calloc(nodes, sizeof(*g->carrier));
	g->kind = mem_calloc(nodes, sizeof(*g->kind));
	g->texts = mem_calloc(nodes, sizeof(*g->texts));
	g->topos = mem_calloc(nodes, sizeof(struct topo *));
	if (!g->words || !g->carrier || !g->kind || !g->texts || !g->topos)
		return fail(TAUT_ERR_NOMEM, "the machines of %zu ranks", n);
	st = exchange_words(g);
	if (st)
		return st;
	find_kinds(g);
	st = carry(g);
	return st ? st : make_cluster(out, g);
}

static void gather_cleanup(struct gather *g)
{
	for (int k = 0; k < g->nkinds; k++) {
		mem_free(g->texts[k]);
		topo_free(g->topos[k]);
	}
	mem_free(g->topos);
	mem_free(g->texts);
	mem_free(g->kind);
	mem_free(g->carrier);
	mem_free(g->words);
	mem_free(g->bytes);
	topo_free(g->mine);
}

enum taut_status comm_cluster(struct cluster **out, struct taut_comm *comm)
{
	struct gather g = { .comm = comm };
	enum taut_status st;

	comm_lock(comm, comm_ticket(comm));
	st = gather(out, &g);
	gather_cleanup(&g);
	comm_unlock(comm);
	return st ? comm_failed(comm, st) : TAUT_OK;
}
