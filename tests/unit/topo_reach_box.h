/* SPDX-License-Identifier: Apache-2.0 */
/* A machine to ask about, and the questions. */
#ifndef TOPO_REACH_BOX_H
#define TOPO_REACH_BOX_H

#include "topo_build.h"

#include "base/mem.h"
#include "topo/reach.h"

static const struct reach_rules by_machine = { .p2p_level = -1, .gdr_level = -1 };

/* Two sockets; on the first a switch with two GPUs and a card, and a GPU of its own; on the second GPU and card. */
struct box {
	struct topo *t;
	int cpu0, cpu1, sw, g[4], mlx, far;
	struct reach_rules rules;
	struct reach out[REACH_WIRES];
};

static inline struct box box_start(const char *vendor)
{
	struct box b = { .t = build_start(), .rules = by_machine };

	b.cpu0 = build_cpu(b.t, 0, vendor);
	b.cpu1 = build_cpu(b.t, 1, vendor);
	b.sw = build_node(b.t, TOPO_PCI, b.cpu0, "0000:3b:00.0");
	b.g[0] = build_gpu(b.t, b.sw, "0000:3d:00.0");
	b.g[1] = build_gpu(b.t, b.sw, "0000:3e:00.0");
	b.g[2] = build_gpu(b.t, b.cpu0, "0000:5d:00.0");
	b.g[3] = build_gpu(b.t, b.cpu1, "0000:85:00.0");
	b.mlx = build_net(b.t, b.sw, "0000:3f:00.0", "mlx5_0", 200000);
	b.far = build_net(b.t, b.cpu1, "0000:86:00.0", "mlx5_1", 200000);
	b.t->nodes[b.sw].pci.acs = 0;
	b.t->iommu = 0;
	b.t->peermem = 1;
	return b;
}

static inline void box_end(struct box *b)
{
	build_end(b->t);
	b->t->p2p = mem_calloc(16, 1);
	assert_non_null(b->t->p2p);
	memset(b->t->p2p, P2P_OK, 16);
}

static inline void set_p2p(struct box *b, int i, int j, enum topo_p2p says)
{
	b->t->p2p[i * 4 + j] = (uint8_t)says;
}

static inline void ask(struct box *b, int from, int to)
{
	struct topo_paths *p = NULL;
	struct reach back[REACH_WIRES];

	assert_int_equal(paths_create(&p, b->t, &path_rules_default), TAUT_OK);
	reach_ask(b->out, b->t, p, &b->rules, from, to);
	reach_ask(back, b->t, p, &b->rules, to, from);
	for (int i = 0; i < REACH_WIRES; i++) {
		assert_int_equal(back[i].usable, b->out[i].usable);
		assert_int_equal(back[i].asked, b->out[i].asked);
		assert_true(strlen(b->out[i].why) < sizeof(b->out[i].why) - 1); /* not cut */
		assert_int_equal(*b->out[i].why != '\0', b->out[i].asked);
	}
	paths_free(p);
}

static inline void assert_why_at(const struct reach *r, bool usable, const char *why, int line)
{
	if (!r->asked || r->usable != usable || strcmp(r->why, why))
		fail_msg("line %d: asked %d usable %d \"%s\"", line, r->asked, r->usable, r->why);
}
#define assert_why(b, wire, usable, why) assert_why_at(&(b).out[wire], usable, why, __LINE__)

static inline enum taut_status strict(struct box *b)
{
	struct topo_paths *p = NULL;
	enum taut_status st;

	assert_int_equal(paths_create(&p, b->t, &path_rules_default), TAUT_OK);
	b->rules.strict = true;
	st = reach_strict(b->t, p, &b->rules);
	b->rules.strict = false;
	assert_int_equal(reach_strict(b->t, p, &b->rules), TAUT_OK);
	paths_free(p);
	return st;
}

static inline void assert_strict_says(struct box *b, const char *part)
{
	assert_int_equal(strict(b), TAUT_ERR_UNSUPPORTED);
	if (!strstr(taut_error_message(), part))
		fail_msg("\"%s\" does not say \"%s\"", taut_error_message(), part);
}

#endif
