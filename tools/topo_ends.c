/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_ends.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "topo_show.h"

enum { NAMES_SHOWN = 24, NAME_LEN = 64 };

struct names {
	int n;
	char (*text)[NAME_LEN];
	const char **list;
};

static bool names_init(struct names *s, const struct topo *t)
{
	static const enum topo_kind kinds[] = { TOPO_GPU, TOPO_NET, TOPO_CPU };
	size_t room = (size_t)t->count[TOPO_GPU] + (size_t)t->count[TOPO_NET] + (size_t)t->count[TOPO_CPU] + 1;

	s->n = 0;
	s->text = mem_calloc(room, sizeof(*s->text));
	s->list = mem_calloc(room, sizeof(*s->list));
	for (int k = 0; s->text && s->list && k < 3; k++)
		for (int i = 0; i < t->count[kinds[k]]; i++, s->n++)
			s->list[s->n] = topo_id(t, t->of[kinds[k]][i], s->text[s->n], NAME_LEN);
	return s->n > 0;
}

static void names_cleanup(struct names *s)
{
	mem_free(s->list);
	mem_free(s->text);
}

static void say(char *why, const char *word, const struct names *s)
{
	const char *near = nearest_name(word, s->list, (size_t)s->n);
	int at = snprintf(why, TOPO_ENDS_WHY, "no node \"%.64s\"", word);

	if (near)
		at += snprintf(why + at, (size_t)(TOPO_ENDS_WHY - at), " (did you mean \"%s\"?)", near);
	at += snprintf(why + at, (size_t)(TOPO_ENDS_WHY - at), "; known are");
	for (int i = 0; i < s->n && i < NAMES_SHOWN && at < TOPO_ENDS_WHY - NAME_LEN; i++)
		at += snprintf(why + at, (size_t)(TOPO_ENDS_WHY - at), "%s %.32s", i ? "," : "", s->list[i]);
	if (s->n > NAMES_SHOWN)
		snprintf(why + at, (size_t)(TOPO_ENDS_WHY - at), " and %d more", s->n - NAMES_SHOWN);
}

static int port_of(const struct topo *t, int card)
{
	for (int i = 0; i < t->count[TOPO_NET]; i++)
		if (t->nodes[t->of[TOPO_NET][i]].parent == card)
			return t->of[TOPO_NET][i];
	return -1;
}

int topo_end(const struct topo *t, const char *word, char *why)
{
	int node = topo_find(t, word);
	struct names s;

	if (node >= 0 && t->nodes[node].kind == TOPO_NIC && port_of(t, node) >= 0)
		node = port_of(t, node);
	if (node >= 0 &&
	    (t->nodes[node].kind == TOPO_GPU || t->nodes[node].kind == TOPO_NET || t->nodes[node].kind == TOPO_CPU))
		return node;
	snprintf(why, TOPO_ENDS_WHY, "\"%.64s\": distances are between GPUs, ports and NUMA nodes", word);
	if (node < 0 && names_init(&s, t))
		say(why, word, &s);
	else if (node < 0)
		snprintf(why, TOPO_ENDS_WHY, "no node \"%.64s\": there is no GPU, port or NUMA node", word);
	if (node < 0)
		names_cleanup(&s);
	return -1;
}
