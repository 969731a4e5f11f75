/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/reach_ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"

const char *const reach_wire_names[REACH_WIRES + 1] = { "p2p", "shm", "gdr", "rdma", "tcp", NULL };

enum blame answer(const struct ask *q, enum blame blame, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(q->out->why, sizeof(q->out->why), fmt, ap);
	va_end(ap);
	return blame;
}

static void cross_node(const struct topo *t, int node, struct crossing *x)
{
	const struct topo_node *n = &t->nodes[node];

	x->cpu = x->cpu || n->kind == TOPO_CPU;
	if (n->kind != TOPO_PCI)
		return;
	x->acs_unknown = x->acs_unknown || n->pci.acs < 0;
	if (n->pci.acs == 1 && x->acs_bridge < 0)
		x->acs_bridge = node;
}

static void cross(const struct topo *t, const struct topo_paths *p, int a, int b, struct crossing *x)
{
	int links[64], n = paths_links(p, a, b, links, 64);

	*x = (struct crossing){ .acs_bridge = -1 };
	for (int i = 0; i < n && i < 64; i++) {
		const struct topo_link *l = &t->links[links[i]];

		x->pci = x->pci || l->kind == LINK_PCI;
		x->c2c = x->c2c || l->kind == LINK_C2C;
		a = l->a == a ? l->b : l->a;
		cross_node(t, a, x);
	}
}

void ask_about(struct ask *q, const struct ask *from, int a, int b)
{
	*q = *from;
	q->a = a;
	q->b = b;
	q->na = &q->t->nodes[a];
	q->nb = &q->t->nodes[b];
	q->path = paths_get(q->p, a, b);
	cross(q->t, q->p, a, b, &q->x);
	topo_name(q->t, a, q->a_name, sizeof(q->a_name));
	topo_name(q->t, b, q->b_name, sizeof(q->b_name));
}

/* --- levels --- */

static const char *class_name(int class)
{
	return path_class_names[class];
}

const struct topo_cpu *cpu_above(const struct topo *t, int node)
{
	int cpu = topo_cpu_of(t, node);

	return cpu < 0 ? NULL : &t->nodes[cpu].cpu;
}

enum blame check_level(const struct ask *q, enum path_class machine, int level, const char *what, const char *setting)
{
	enum path_class class = q->path->class;

	if (level < 0 && class > machine)
		return answer(q, BLAME_MACHINE,
			      "%s refused: %s and %s are %s apart, and on this machine it pays as far as %s: set %s=%s "
			      "to use it all the same",
			      what, q->a_name, q->b_name, class_name(class), class_name(machine), setting,
			      class_name(class));
	if (level >= 0 && class > (enum path_class)level)
		return answer(q, class > machine ? BLAME_MACHINE : BLAME_SETUP,
			      "%s refused: %s and %s are %s apart, and the level is %s: set %s=%s to allow it", what,
			      q->a_name, q->b_name, class_name(class), class_name(level), setting, class_name(class));
	return BLAME_NONE;
}

enum blame check_connected(const struct ask *q)
{
	if (q->path->class < PATH_NET)
		return BLAME_NONE;
	return answer(q, BLAME_MACHINE,
		      "nothing is known to connect %s and %s: %s does not say what they are attached to: describe the "
		      "machine better, or let taut look at it itself",
		      q->a_name, q->b_name, q->t->source);
}

/* --- what holds for any traffic between devices over PCI --- */

/* Traffic that passes the host bridge anyway is not sent astray by ACS, but to the IOMMU: that matters unless it is
 * known to let it pass. @level: what the user has set. */
static bool acs_matters(const struct ask *q, int level)
{
	bool host_bridge = q->x.cpu || level >= PATH_PHB;

	return q->x.acs_bridge >= 0 && !q->x.c2c && !(host_bridge && q->t->iommu == 0);
}

enum blame check_acs(const struct ask *q, int level, const char *what)
{
	char name[96];

	if (!q->x.pci || !acs_matters(q, level))
		return BLAME_NONE;
	if (*q->t->nodes[q->x.acs_bridge].pci.busid)
		snprintf(name, sizeof(name), "%s", q->t->nodes[q->x.acs_bridge].pci.busid);
	else
		topo_name(q->t, q->x.acs_bridge, name, sizeof(name));
	return answer(
		q, BLAME_SETUP,
		"%s off by ACS at bridge %s between %s and %s: it sends their traffic up to the host bridge and the "
		"IOMMU, where it crawls or hangs: switch ACS off in the firmware, or at each port of the bridge with "
		"setpci -s BUSID ECAP_ACS+6.w=0000",
		what, name, q->a_name, q->b_name);
}

enum blame check_iommu(const struct ask *q, const char *what)
{
	if (!q->x.pci || q->x.c2c || q->t->iommu != 1)
		return BLAME_NONE;
	return answer(
		q, BLAME_SETUP,
		"%s off by the IOMMU: it translates what %s and %s send each other: boot with iommu=pt, or switch it "
		"off in the firmware (VT-d, AMD-Vi)",
		what, q->a_name, q->b_name);
}

/* --- the answer --- */

/* What was not known when the path was judged. */
static const char *doubts(const struct ask *q, bool driver, char *buf, size_t len)
{
	bool acs = q->x.pci && q->x.acs_unknown && !q->x.c2c, iommu = q->x.pci && !q->x.c2c && q->t->iommu < 0;

	if (!driver && !acs && !iommu)
		return "";
	snprintf(buf, len, ", as far as is known (not known:%s%s%s)", driver ? " what the driver says" : "",
		 acs ? driver ? ", ACS" : " ACS" : "", iommu ? driver || acs ? ", IOMMU" : " IOMMU" : "");
	return buf;
}

void say_path(const struct ask *q, bool driver_unknown)
{
	char text[16], via[112] = "", name[96], doubt[96];
	const struct path *path = q->path;

	if (path->via >= 0)
		snprintf(via, sizeof(via), " by %s", topo_name(q->t, path->via, name, sizeof(name)));
	answer(q, BLAME_NONE, "%s%s, %.1f GB/s%s",
	       path->smi == SMI_NV && path->class == PATH_NVL ? path_smi_text(path, text, sizeof(text))
							      : class_name(path->class),
	       via, path->bw_gbps, doubts(q, driver_unknown, doubt, sizeof(doubt)));
}

enum blame run_checks(const struct ask *q, check *const *checks)
{
	enum blame blame = BLAME_NONE;

	for (; *checks && !blame; checks++)
		blame = (*checks)(q);
	q->out->asked = true;
	q->out->usable = !blame;
	return blame;
}

/* --- all wires --- */

static void ask_wires(struct reach out[REACH_WIRES], struct ask *q, enum topo_kind ka, enum topo_kind kb)
{
	typedef enum blame asker(const struct ask *);
	asker *const wires[REACH_WIRES] = {
		[REACH_P2P] = ka == TOPO_GPU && kb == TOPO_GPU ? ask_p2p : NULL,
		[REACH_SHM] = ka != TOPO_NET && kb != TOPO_NET ? ask_shm : NULL,
		[REACH_GDR] = ka == TOPO_GPU && kb == TOPO_NET ? ask_gdr : NULL,
		[REACH_RDMA] = kb == TOPO_NET ? ask_rdma : NULL,
		[REACH_TCP] = kb == TOPO_NET ? ask_tcp : NULL,
	};

	for (int i = 0; i < REACH_WIRES; i++) {
		q->out = &out[i];
		if (wires[i])
			wires[i](q);
	}
}

static bool answers(enum topo_kind kind)
{
	return kind == TOPO_GPU || kind == TOPO_NET || kind == TOPO_CPU;
}

void reach_ask(struct reach out[REACH_WIRES], const struct topo *t, const struct topo_paths *p,
	       const struct reach_rules *rules, int a, int b)
{
	struct ask q = { .t = t, .p = p, .rules = rules };

	memset(out, 0, REACH_WIRES * sizeof(*out));
	if (a < 0 || b < 0 || a >= t->nnodes || b >= t->nnodes || a == b || !answers(t->nodes[a].kind) ||
	    !answers(t->nodes[b].kind))
		return;
	/* the port last; of the others the GPU first */
	if (t->nodes[a].kind == TOPO_NET || (t->nodes[a].kind == TOPO_CPU && t->nodes[b].kind == TOPO_GPU))
		ask_about(&q, &q, b, a);
	else
		ask_about(&q, &q, a, b);
	ask_wires(out, &q, q.na->kind, q.nb->kind);
}

/* --- no silent fall-back --- */

/* What the machine cannot do is no fall-back; then the next wire must do. */
static enum taut_status strict_wire(struct ask *q, enum blame (*asker)(const struct ask *),
				    enum blame (*next)(const struct ask *))
{
	struct reach r = { .asked = false };
	enum blame blame;

	q->out = &r;
	blame = asker(q);
	if (blame == BLAME_MACHINE && next)
		blame = next(q);
	if (blame != BLAME_SETUP)
		return TAUT_OK;
	return fail(TAUT_ERR_UNSUPPORTED, "%s (TAUT_STRICT=1 wants no slower wire)", r.why);
}

/* The port with verbs that is nearest to a GPU, as NCCL sees it: of the widest the nearest; -1: none. */
static int nearest_port(const struct ask *q, int gpu)
{
	int best = -1;

	for (int i = 0; i < q->t->count[TOPO_NET]; i++) {
		int net = q->t->of[TOPO_NET][i];
		const struct path *path = paths_get(q->p, gpu, net), *old = paths_get(q->p, gpu, best);

		if (path->class == PATH_DIS || !topo_is_rdma(&q->t->nodes[net]))
			continue;
		if (best < 0 || path->bw_gbps > old->bw_gbps ||
		    (path->bw_gbps >= old->bw_gbps && path->class < old->class))
			best = net;
	}
	return best;
}

static enum taut_status strict_gpu(const struct ask *q, int i)
{
	const int *gpus = q->t->of[TOPO_GPU];
	int net = nearest_port(q, gpus[i]);
	enum taut_status st = TAUT_OK;
	struct ask pair;

	for (int j = i + 1; j < q->t->count[TOPO_GPU] && !st; j++) {
		ask_about(&pair, q, gpus[i], gpus[j]);
		st = strict_wire(&pair, ask_p2p, ask_shm);
	}
	if (st || net < 0)
		return st;
	ask_about(&pair, q, gpus[i], net);
	st = strict_wire(&pair, ask_gdr, NULL);
	return st ? st : strict_wire(&pair, ask_rdma, NULL);
}

enum taut_status reach_strict(const struct topo *t, const struct topo_paths *p, const struct reach_rules *rules)
{
	struct ask q = { .t = t, .p = p, .rules = rules };
	enum taut_status st = TAUT_OK;

	for (int i = 0; rules->strict && i < t->count[TOPO_GPU] && !st; i++)
		st = strict_gpu(&q, i);
	return st;
}

/* --- settings --- */

struct reach_rules reach_rules_from(const struct config *cfg)
{
	return (struct reach_rules){ .p2p_disable = cfg->p2p_disable,
				     .p2p_level = path_class_parse(cfg->p2p_level),
				     .gdr_level = path_class_parse(cfg->gdr_level),
				     .shm_disable = cfg->shm_disable,
				     .ib_disable = cfg->ib_disable,
				     .strict = cfg->strict };
}
