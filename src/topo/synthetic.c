/* SPDX-License-Identifier: Apache-2.0 */
/* Words "key:value" to a struct synth. */
#include "topo/synthetic.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "topo/text.h"

/* The longest text worth reading: every word once. */
enum { SYNTH_TEXT_MAX = 65536 };

const struct synth_layer synth_layers[] = {
	{ "ib", "infiniband", "mlx5_%d" }, { "roce", "roce", "mlx5_%d" },    { "eth", "ethernet", "eth%d" },
	{ "efa", "efa", "rdmap%ds0" },	   { "opa", "omnipath", "hfi1_%d" }, { NULL, NULL, NULL },
};
static const char *const mesh_words[] = { "full", "ring", "cube", "pairs", NULL };
static const char *const cpu_words[] = { "intel", "amd", "power", "arm", NULL };

struct value {
	const char *s;
	size_t n, at;
};
struct parser {
	struct text text;
	struct synth *s;
	struct value cause[32]; /* of each key, by its row: where it stood */
};

struct key {
	const char *name, *wants;
	enum taut_status (*parse)(struct parser *p, const struct key *k, struct value v);
	long lo, hi;   /* of a number */
	size_t offset; /* of the field in struct synth */
	const char *const *words;
};

static long *field(const struct parser *p, const struct key *k)
{
	return (long *)(void *)((char *)p->s + k->offset);
}

static enum taut_status refuse(const struct parser *p, const struct key *k, struct value v)
{
	char shown[40];

	return text_fail(&p->text, v.at, "%s:%s: %s is wanted", k->name, text_shown(shown, sizeof(shown), v.s, v.n),
			 k->wants);
}

/* Moves past a whole number of at most 9 digits; -1: there is none. */
static long take_number(struct value *v)
{
	long x = 0;
	size_t i = 0;

	while (i < v->n && i < 9 && isdigit((unsigned char)v->s[i]))
		x = x * 10 + v->s[i++] - '0';
	if (i == 0 || (i < v->n && isdigit((unsigned char)v->s[i])))
		return -1;
	v->s += i;
	v->n -= i;
	v->at += i;
	return x;
}

static bool take_char(struct value *v, char c)
{
	if (!v->n || tolower((unsigned char)*v->s) != c)
		return false;
	v->s++;
	v->n--;
	v->at++;
	return true;
}

static bool value_word(char *buf, size_t len, struct value v)
{
	snprintf(buf, len, "%.*s", (int)(v.n < len ? v.n : 0), v.s);
	return v.n > 0 && v.n < len;
}

/* --- the values of keys --- */

static enum taut_status number(struct parser *p, const struct key *k, struct value v)
{
	struct value rest = v;
	long x = take_number(&rest);

	if (x < k->lo || x > k->hi || rest.n)
		return refuse(p, k, v);
	*field(p, k) = x;
	return TAUT_OK;
}

static enum taut_status one_of(struct parser *p, const struct key *k, struct value v)
{
	char word[16];

	for (int i = 0; value_word(word, sizeof(word), v) && k->words[i]; i++)
		if (!strcmp(word, k->words[i])) {
			*field(p, k) = i;
			return TAUT_OK;
		}
	return refuse(p, k, v);
}

static enum taut_status unknown_model(const struct parser *p, struct value v, const char *word)
{
	const char *names[64], *near;
	char shown[40];
	size_t n = 0;

	for (; gpu_models[n].word && n < sizeof(names) / sizeof(names[0]); n++)
		names[n] = gpu_models[n].word;
	near = nearest_name(word, names, n);
	text_shown(shown, sizeof(shown), v.s, v.n);
	if (near)
		return text_fail(&p->text, v.at, "GPU model \"%s\" is not known: was %s meant?", shown, near);
	return text_fail(&p->text, v.at, "GPU model \"%s\" is not known: leave it out and give sm:N and nvlink:N",
			 shown);
}

/* 8, 8xh100 */
static enum taut_status gpus(struct parser *p, const struct key *k, struct value v)
{
	struct value rest = v;
	long x = take_number(&rest);
	char word[16];

	if (x < k->lo || x > k->hi)
		return refuse(p, k, v);
	p->s->gpus = x;
	if (!rest.n)
		return TAUT_OK;
	if (!take_char(&rest, 'x') || !value_word(word, sizeof(word), rest))
		return refuse(p, k, v);
	p->s->model = gpu_model_named(word);
	return p->s->model ? TAUT_OK : unknown_model(p, rest, word);
}

static const double gts_of[] = { 0, 2.5, 5, 8, 16, 32, 64 }; /* by generation */

/* gen5, gen5x16 */
static enum taut_status pcie(struct parser *p, const struct key *k, struct value v)
{
	struct value rest = v;
	long gen, width = 16;

	if (!take_char(&rest, 'g') || !take_char(&rest, 'e') || !take_char(&rest, 'n'))
		return refuse(p, k, v);
	gen = take_number(&rest);
	if (take_char(&rest, 'x'))
		width = take_number(&rest);
	if (gen < 1 || gen > 6 || width < 1 || width > 32 || (width & (width - 1)) || rest.n)
		return refuse(p, k, v);
	p->s->gts = gts_of[gen];
	p->s->width = (int)width;
	return TAUT_OK;
}

/* 512G, 2T; of each machine */
static enum taut_status memory(struct parser *p, const struct key *k, struct value v)
{
	static const char units[] = "mgt";
	struct value rest = v;
	long x = take_number(&rest);

	for (int i = 0; units[i] && x > 0 && rest.n == 1; i++)
		if (take_char(&rest, units[i])) {
			p->s->memory = (uint64_t)x << (20 + 10 * i);
			return TAUT_OK;
		}
	return refuse(p, k, v);
}

/* 400G, 25G, 100M, 1T in Mbit/s; -1: none. */
static long take_speed(struct value *v)
{
	long x = take_number(v);

	if (x <= 0 || x > 1000000)
		return -1;
	if (take_char(v, 'm'))
		return x;
	if (take_char(v, 'g'))
		return x <= 100000 ? x * 1000 : -1;
	return take_char(v, 't') && x <= 100 ? x * 1000000 : -1;
}

static int layer_named(struct value v)
{
	char word[16];

	for (int i = 0; value_word(word, sizeof(word), v) && synth_layers[i].word; i++)
		if (!strcmp(synth_layers[i].word, word))
			return i;
	return -1;
}

/* 8, 8x400G, 8x400G:roce */
static enum taut_status nics(struct parser *p, const struct key *k, struct value v)
{
	struct value rest = v;
	struct synth_nics n = { .n = take_number(&rest) };
	long all = n.n;

	if (n.n < k->lo || n.n > k->hi)
		return refuse(p, k, v);
	if (take_char(&rest, 'x'))
		n.speed_mbit = take_speed(&rest);
	if (take_char(&rest, ':'))
		n.layer = layer_named(rest);
	else if (rest.n)
		n.layer = -1;
	if (n.speed_mbit < 0 || n.layer < 0)
		return refuse(p, k, v);
	for (int i = 0; i < p->s->nnics; i++)
		all += p->s->nics[i].n;
	if (p->s->nnics == SYNTH_NICS || all > k->hi)
		return text_fail(&p->text, v.at, "nic: %d kinds and %ld NICs are the most", SYNTH_NICS, k->hi);
	p->s->nics[p->s->nnics++] = n;
	return TAUT_OK;
}

#define FIELD(name) offsetof(struct synth, name)
enum {
	KEY_NODE,
	KEY_MNNVL,
	KEY_NUMA,
	KEY_CORE,
	KEY_CPU,
	KEY_MEMORY,
	KEY_SWITCH,
	KEY_PCIE,
	KEY_GPU,
	KEY_SM,
	KEY_NVLINK,
	KEY_NVSWITCH,
	KEY_MESH,
	KEY_NIC,
	KEY_RAIL,
	KEYS
};
static const struct key keys[KEYS] = {
	[KEY_NODE] = { "node", "a number of machines from 1 to 65536", number, 1, 65536, FIELD(nodes), NULL },
	[KEY_MNNVL] = { "mnnvl", "a number of machines from 1 to 512", number, 1, 512, FIELD(machines), NULL },
	[KEY_NUMA] = { "numa", "a number of NUMA nodes from 1 to 64", number, 1, 64, FIELD(numa), NULL },
	[KEY_CORE] = { "core", "a number of cores from 1 to 2048", number, 1, 2048, FIELD(cores), NULL },
	[KEY_CPU] = { "cpu", "intel, amd, power or arm", one_of, 0, 0, FIELD(cpu), cpu_words },
	[KEY_MEMORY] = { "memory", "a size like 512G or 2T", memory, 0, 0, 0, NULL },
	[KEY_SWITCH] = { "switch", "a number of PCI switches from 0 to 256", number, 0, 256, FIELD(switches), NULL },
	[KEY_PCIE] = { "pcie", "a generation from 1 to 6 and lanes like gen5x16", pcie, 0, 0, 0, NULL },
	[KEY_GPU] = { "gpu", "a number of GPUs from 0 to 4096, with a model or not, like 8 or 8xh100", gpus, 0,
		      SYNTH_MAX_GPUS, 0, NULL },
	[KEY_SM] = { "sm", "a compute capability times 10 from 10 to 200, like 90", number, 10, 200, FIELD(sm), NULL },
	[KEY_NVLINK] = { "nvlink", "a number of links from 0 to 64", number, 0, 64, FIELD(links), NULL },
	[KEY_NVSWITCH] = { "nvswitch", "a number of NVSwitches from 0 to 1024", number, 0, 1024, FIELD(nvswitches),
			   NULL },
	[KEY_MESH] = { "mesh", "full, ring, cube or pairs", one_of, 0, 0, FIELD(mesh), mesh_words },
	[KEY_NIC] = { "nic",
		      "a number of NICs from 0 to 1024, with speed and kind (ib, roce, eth, efa, opa) or not, like "
		      "8x400G:roce",
		      nics, 0, 1024, 0, NULL },
	[KEY_RAIL] = { "rail", "a number of rails from 1 to 1024", number, 1, 1024, FIELD(rails), NULL },
};

static enum taut_status unknown_key(const struct parser *p, struct value word, const char *name)
{
	const char *names[KEYS], *near;
	char shown[40];

	for (int i = 0; i < KEYS; i++)
		names[i] = keys[i].name;
	near = nearest_name(name, names, KEYS);
	text_shown(shown, sizeof(shown), word.s, word.n);
	if (near)
		return text_fail(&p->text, word.at, "\"%s\" is not known: was %s:... meant?", shown, near);
	return text_fail(&p->text, word.at, "\"%s\" is not known: words like gpu:8, numa:2 or nic:8x400G are wanted",
			 shown);
}

static enum taut_status parse_word(struct parser *p, struct value word)
{
	const char *colon = memchr(word.s, ':', word.n);
	size_t n = colon ? (size_t)(colon - word.s) : word.n;
	struct value v = { word.s + n + 1, word.n - n - (colon != NULL), word.at + n + 1 };
	char name[16];

	snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : 0), word.s);
	for (int i = 0; i < KEYS; i++) {
		if (strcmp(keys[i].name, name))
			continue;
		if (!colon)
			return text_fail(&p->text, word.at, "%s without a value: %s:VALUE, where VALUE is %s", name,
					 name, keys[i].wants);
		if (p->cause[i].s && i != KEY_NIC)
			return text_fail(&p->text, word.at, "%s stands twice", name);
		p->cause[i] = word;
		return keys[i].parse(p, &keys[i], v);
	}
	return unknown_key(p, word, name);
}

static bool next_word(struct value *out, const struct text *t, size_t *pos)
{
	size_t i = *pos;

	while (i < t->len && (isspace((unsigned char)t->s[i]) || t->s[i] == '#')) {
		bool comment = t->s[i] == '#';

		while (comment && i < t->len && t->s[i] != '\n')
			i++;
		i += i < t->len;
	}
	*out = (struct value){ t->s + i, 0, i };
	while (i + out->n < t->len && !isspace((unsigned char)t->s[i + out->n]) && t->s[i + out->n] != '#')
		out->n++;
	*pos = i + out->n;
	return out->n > 0;
}

/* --- what does not go together --- */

static enum taut_status refuse_key(const struct parser *p, int key, const char *why)
{
	char shown[40];

	return text_fail(&p->text, p->cause[key].at, "%s: %s",
			 text_shown(shown, sizeof(shown), p->cause[key].s, p->cause[key].n), why);
}

static enum taut_status check_mesh(const struct parser *p)
{
	const struct synth *s = p->s;
	int key = p->cause[KEY_NVLINK].s ? KEY_NVLINK : KEY_MESH;

	if (p->cause[KEY_MESH].s && s->nvswitches)
		return refuse_key(p, KEY_MESH,
				  "with nvswitch:N all links go to the switches: leave one of the two out");
	if (p->cause[KEY_MESH].s && !s->links)
		return refuse_key(p, KEY_MESH, "the GPUs have no NVLinks: add nvlink:N or a model, like gpu:8xv100");
	if (!s->links || s->nvswitches)
		return TAUT_OK;
	if (s->machines > 1)
		return refuse_key(p, KEY_MNNVL, "NVLinks between machines go through NVSwitches: add nvswitch:N");
	if (s->gpus > SYNTH_MAX_MESH)
		return refuse_key(p, KEY_GPU, "too many for direct links: 128 at most, or add nvswitch:N");
	if (s->mesh == MESH_CUBE && (s->gpus != 8 || (s->links % 4 && s->links % 6)))
		return refuse_key(p, KEY_MESH, "a cube mesh has 8 GPUs of 4 or 6 links (or a multiple)");
	if ((s->mesh == MESH_FULL || s->mesh < 0) && s->links < s->gpus - 1)
		return refuse_key(p, key,
				  "too few links to reach every other GPU: add nvswitch:N, or mesh:ring or mesh:cube");
	if (s->mesh == MESH_RING && s->gpus > 2 && s->links < 2)
		return refuse_key(p, key, "a ring needs 2 links of each GPU");
	return TAUT_OK;
}

static enum taut_status check(struct parser *p)
{
	struct synth *s = p->s;
	long all_nics = 0;
	bool linked = p->cause[KEY_MESH].s || s->nvswitches;

	for (int i = 0; i < s->nnics; i++)
		all_nics += s->nics[i].n;
	if (!p->cause[KEY_NVLINK].s && s->model && linked)
		s->links = s->model->links;
	if (!s->width && s->model) {
		s->gts = gts_of[s->model->pcie];
		s->width = 16;
	}
	if (s->machines * s->gpus > SYNTH_MAX_GPUS)
		return refuse_key(p, KEY_GPU, "4096 GPUs in all are the most");
	if (s->machines * all_nics > 4096)
		return refuse_key(p, KEY_NIC, "4096 NICs in all are the most");
	if (s->machines * s->numa > 1024)
		return refuse_key(p, KEY_NUMA, "1024 NUMA nodes in all are the most");
	if (s->machines * s->switches > 4096)
		return refuse_key(p, KEY_SWITCH, "4096 PCI switches in all are the most");
	if (s->nvswitches && !s->links)
		return refuse_key(p, KEY_NVSWITCH,
				  "the GPUs have no NVLinks: add nvlink:N or a model, like gpu:8xh100");
	if (p->cause[KEY_NVLINK].s && s->links && !s->gpus)
		return refuse_key(p, KEY_NVLINK, "there are no GPUs: add gpu:N");
	return check_mesh(p);
}

enum taut_status synth_parse(struct synth *out, const char *name, const char *text, size_t len)
{
	struct synth s = { .nodes = 1, .machines = 1, .numa = 1, .mesh = -1, .cpu = -1 };
	struct parser p = { .text = { name, text, len }, .s = &s };
	enum taut_status st = TAUT_OK;
	struct value word;
	size_t pos = text_start(&p.text);
	int words = 0;

	if (len > SYNTH_TEXT_MAX)
		return fail(TAUT_ERR_ARG, "%s: %zu bytes: a synthetic machine has %d at most", name, len,
			    SYNTH_TEXT_MAX);
	for (; !st && next_word(&word, &p.text, &pos); words++)
		st = parse_word(&p, word);
	if (!st && !words)
		st = text_fail(&p.text, 0, "an empty text: words like gpu:8, numa:2 or nic:8x400G are wanted");
	if (!st)
		st = check(&p);
	if (!st)
		*out = s;
	return st;
}
