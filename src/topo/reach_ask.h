/* SPDX-License-Identifier: Apache-2.0 */
/* Inside reach.c, reach_gpu.c and reach_port.c: one question about a pair and one wire. Each wire has a list of
 * checks: first what the machine is, then settings, then what can be mended. The first that objects writes the
 * answer. A check that lacks a fact does not object. */
#ifndef TOPO_REACH_ASK_H
#define TOPO_REACH_ASK_H

#include "topo/reach.h"

/* Who keeps a wire from being used. */
enum blame {
	BLAME_NONE,
	BLAME_MACHINE, /* it is built like that: no fall-back, but the best there is */
	BLAME_SETUP    /* a setting, or something that can be mended */
};

/* What a path crosses on PCI. */
struct crossing {
	bool pci, cpu, c2c;
	int acs_bridge; /* first with ACS on; -1 */
	bool acs_unknown;
};

struct ask {
	const struct topo *t;
	const struct topo_paths *p;
	const struct reach_rules *rules;
	int a, b; /* of GPU and port: the GPU first */
	const struct topo_node *na, *nb;
	const struct path *path;
	struct crossing x;
	char a_name[96], b_name[96];
	struct reach *out;
};
typedef enum blame check(const struct ask *q);

/* Writes why not, or over what; returns @blame. */
enum blame answer(const struct ask *q, enum blame blame, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same question about @a and @b. */
void ask_about(struct ask *q, const struct ask *from, int a, int b);
/* @checks ends with NULL. Sets asked and usable. */
enum blame run_checks(const struct ask *q, check *const *checks);
/* Of a usable wire: over what, how fast, and what is not known of it. */
void say_path(const struct ask *q, bool driver_unknown);

/* What several wires check. @what and @setting: their names; @level: the user's, -1 none. */
enum blame check_level(const struct ask *q, enum path_class machine, int level, const char *what, const char *setting);
enum blame check_connected(const struct ask *q);
enum blame check_acs(const struct ask *q, int level, const char *what);
enum blame check_iommu(const struct ask *q, const char *what);
const struct topo_cpu *cpu_above(const struct topo *t, int node); /* NULL: not known */

enum blame ask_p2p(const struct ask *q);
enum blame ask_shm(const struct ask *q);
enum blame ask_gdr(const struct ask *q);
enum blame ask_rdma(const struct ask *q);
enum blame ask_tcp(const struct ask *q);

#endif
