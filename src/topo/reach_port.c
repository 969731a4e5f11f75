/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: RDMA, TCP, and GPUDirect RDMA between a port's card and a GPU. */
#include "topo/reach_ask.h"

#include <stdio.h>
#include <string.h>

/* --- ports --- */

static enum blame port_machines(const struct ask *q)
{
	if (q->na->kind == TOPO_NET || q->na->machine == q->nb->machine)
		return BLAME_NONE; /* two ports meet over the network */
	return answer(q, BLAME_MACHINE, "%s and %s are in different machines: use a port of machine %d", q->a_name,
		      q->b_name, q->na->machine);
}

/* A port of which nothing is known may have verbs. */
static bool lacks_verbs(const struct topo_node *n)
{
	return !topo_is_rdma(n) && (*n->name || *n->net.layer || n->net.is_virtual);
}

static enum blame verbs_of(const struct ask *q, const struct topo_node *n, const char *name)
{
	const char *rdma = n->net.rdma;

	if (!lacks_verbs(n))
		return BLAME_NONE;
	if (*rdma)
		return answer(q, BLAME_MACHINE,
			      "%s is the network interface of %s and does not speak verbs itself: use %s", name, rdma,
			      rdma);
	if (n->net.is_virtual)
		return answer(q, BLAME_MACHINE,
			      "%s is a virtual port%s%s without verbs: RDMA needs a card or a function of one: pass "
			      "one into the "
			      "container or guest (/dev/infiniband)",
			      name, *n->net.driver ? " of driver " : "", n->net.driver);
	return answer(q, BLAME_MACHINE,
		      "%s has no verbs device: RDMA needs a card that has one and its driver (rdma link lists them); "
		      "over this "
		      "port TCP remains",
		      name);
}

static enum blame port_verbs(const struct ask *q)
{
	enum blame blame = q->na->kind == TOPO_NET ? verbs_of(q, q->na, q->a_name) : BLAME_NONE;

	return blame ? blame : verbs_of(q, q->nb, q->b_name);
}

static enum blame port_ib_disabled(const struct ask *q)
{
	if (!q->rules->ib_disable)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP,
		      "RDMA over %s is off by TAUT_IB_DISABLE=1: unset that (and NCCL_IB_DISABLE) to use it",
		      q->b_name);
}

static enum blame down_of(const struct ask *q, const struct topo_node *n, const char *name)
{
	bool ib = !strcmp(n->net.layer, "infiniband");

	if (strcmp(n->net.state, "down") != 0)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP, "%s is down: look at its cable and switch%s (%s)", name,
		      ib ? ", and whether a subnet manager runs" : "",
		      topo_is_rdma(n) ? "ibstat, rdma link" : "ip link");
}

static enum blame port_down(const struct ask *q)
{
	enum blame blame = q->na->kind == TOPO_NET ? down_of(q, q->na, q->a_name) : BLAME_NONE;

	return blame ? blame : down_of(q, q->nb, q->b_name);
}

static enum blame port_layers(const struct ask *q)
{
	const char *a = q->na->net.layer, *b = q->nb->net.layer;

	if (q->na->kind != TOPO_NET || !*a || !*b || !strcmp(a, b))
		return BLAME_NONE;
	return answer(q, BLAME_MACHINE,
		      "%s is %s and %s is %s: ports of different kinds do not reach each other: use two of one kind",
		      q->a_name, a, q->b_name, b);
}

static const struct topo_net *slower_port(const struct ask *q)
{
	const struct topo_net *a = &q->na->net, *b = &q->nb->net;

	return q->na->kind == TOPO_NET && a->speed_mbit > 0 && a->speed_mbit < b->speed_mbit ? a : b;
}

static void say_port(const struct ask *q)
{
	const struct topo_net *n = slower_port(q);
	const char *layer = *n->layer ? n->layer : "kind of port not known";

	if (n->speed_mbit > 0)
		answer(q, BLAME_NONE, "%s, %g Gbit/s", layer, (double)n->speed_mbit / 1000);
	else
		answer(q, BLAME_NONE, "%s, speed not known", layer);
}

static enum blame ask_port(const struct ask *q, check *const *checks)
{
	enum blame blame = run_checks(q, checks);

	if (!blame)
		say_port(q);
	return blame;
}

enum blame ask_rdma(const struct ask *q)
{
	static check *const checks[] = { port_machines, port_verbs, port_layers, port_ib_disabled, port_down, NULL };

	return ask_port(q, checks);
}

enum blame ask_tcp(const struct ask *q)
{
	static check *const checks[] = { port_machines, port_down, NULL };

	return ask_port(q, checks);
}

/* --- GPUDirect RDMA --- */

static enum blame gdr_peermem(const struct ask *q)
{
	bool amd = q->na->pci.vendor == 0x1002 || *q->na->gpu.gcn;

	if (q->t->peermem != 0)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP,
		      "GPUDirect RDMA between %s and %s is off: the GPU driver does not hand its memory to cards (no "
		      "nvidia-peermem, no dma-buf): %s",
		      q->a_name, q->b_name,
		      amd ? "load the driver amdgpu"
			  : "modprobe nvidia-peermem, or use the open kernel modules and Linux 5.12 or later");
}

/* Where the driver offers it (or that is not known), what lacks it is the device. */
static enum blame gdr_gpu(const struct ask *q)
{
	if (q->na->gpu.gdr != 0 || q->t->peermem == 0)
		return BLAME_NONE;
	return answer(
		q, BLAME_MACHINE,
		"%s does not let cards access its memory (gdr 0)%s%s: GPUDirect RDMA needs a data center GPU and its "
		"driver; data goes through host memory",
		q->a_name, *q->na->name ? ": " : "", q->na->name);
}

static enum blame gdr_consumer(const struct ask *q)
{
	if (!strstr(q->na->name, "GeForce"))
		return BLAME_NONE;
	return answer(q, BLAME_MACHINE,
		      "%s is a %s, a consumer GPU without GPUDirect RDMA: use data center GPUs; these send through "
		      "host memory",
		      q->a_name, q->na->name);
}

static enum blame gdr_card(const struct ask *q)
{
	if (q->nb->net.gdr != 0)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP,
		      "%s does not access GPU memory (gdr 0): load nvidia-peermem (modprobe nvidia-peermem) or use a "
		      "driver of the card with dma-buf",
		      q->b_name);
}

/* AMD's host bridges since Zen forward between cards and GPUs at full speed; chip-to-chip links are near anyway. */
static enum path_class machine_gdr_level(const struct topo *t, int gpu)
{
	const struct topo_cpu *cpu = cpu_above(t, gpu);

	return cpu && !strcmp(cpu->vendor, "AuthenticAMD") && cpu->family >= 23 ? PATH_PHB : PATH_P2C;
}

static enum blame gdr_level(const struct ask *q)
{
	return check_level(q, machine_gdr_level(q->t, q->a), q->rules->gdr_level, "GPUDirect RDMA",
			   "TAUT_NET_GDR_LEVEL");
}

static enum blame gdr_acs(const struct ask *q)
{
	return check_acs(q, q->rules->gdr_level, "GPUDirect RDMA");
}

static enum blame gdr_iommu(const struct ask *q)
{
	return check_iommu(q, "GPUDirect RDMA");
}

static enum blame ask_gdr_direct(const struct ask *q)
{
	static check *const checks[] = { port_machines,	  port_verbs, gdr_consumer,	gdr_gpu,
					 check_connected, gdr_level,  port_ib_disabled, gdr_peermem,
					 gdr_card,	  gdr_acs,    gdr_iommu,	NULL };
	enum blame blame = run_checks(q, checks);

	if (!blame)
		say_path(q, false);
	return blame;
}

/* What the pair would be without the GPU in between. */
static enum path_class class_without_gpu(const struct path *path)
{
	static const enum path_class of[SMI_CLASSES] = {
		[SMI_X] = PATH_LOC,   [SMI_NV] = PATH_NVL,   [SMI_PIX] = PATH_PIX, [SMI_PXB] = PATH_PXB,
		[SMI_PHB] = PATH_PHB, [SMI_NODE] = PATH_PHB, [SMI_SYS] = PATH_SYS
	};

	return of[path->smi];
}

/* By way of a near GPU: the card reads that one's memory, so its answer counts; if the GPUs do not reach each other,
 * the card is as far as it is. */
enum blame ask_gdr(const struct ask *q)
{
	struct reach leg = { .asked = false };
	struct path far = *q->path;
	struct ask near;
	enum blame blame;
	char name[96];

	if (q->path->class != PATH_PXN)
		return ask_gdr_direct(q);
	near = *q;
	near.out = &leg;
	ask_about(&near, &near, q->a, q->path->via);
	if (ask_p2p(&near)) {
		near = *q;
		far.class = class_without_gpu(q->path);
		far.via = -1;
		near.path = &far;
		near.x = (struct crossing){ .pci = true, .cpu = true, .acs_bridge = -1, .acs_unknown = true };
		return ask_gdr_direct(&near);
	}
	ask_about(&near, &near, q->path->via, q->b);
	blame = ask_gdr_direct(&near);
	*q->out = leg;
	if (!blame)
		answer(q, BLAME_NONE, "PXN by %s: %.200s", topo_name(q->t, q->path->via, name, sizeof(name)), leg.why);
	return blame;
}
