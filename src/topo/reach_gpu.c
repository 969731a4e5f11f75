/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs to each other: P2P and shared memory. */
#include "topo/reach_ask.h"

#include <stdio.h>
#include <string.h>

/* --- P2P --- */

static bool by_nvlink(const struct ask *q)
{
	return q->path->class == PATH_NVL || q->path->class == PATH_NVB;
}

/* A fabric is that of NVSwitches: GPUs that are joined directly need none. */
static enum blame p2p_fabric(const struct ask *q)
{
	const struct topo_gpu *a = &q->na->gpu, *b = &q->nb->gpu;
	bool apart = q->na->machine != q->nb->machine;

	if (!by_nvlink(q) || (!apart && q->path->hops < 2) || !a->fabric_hash || !b->fabric_hash)
		return BLAME_NONE;
	if (a->fabric_hash != b->fabric_hash)
		return answer(
			q, apart ? BLAME_MACHINE : BLAME_SETUP,
			"%s and %s belong to different NVLink domains (their fabric identifiers differ), so NVLink "
			"does not join them: use the network, or have both put into one domain",
			q->a_name, q->b_name);
	if (a->clique < 0 || b->clique < 0 || a->clique == b->clique)
		return BLAME_NONE;
	return answer(q, apart ? BLAME_MACHINE : BLAME_SETUP,
		      "%s is in clique %d of its NVLink domain and %s in clique %d: only GPUs of one clique reach each "
		      "other: "
		      "use GPUs of one partition, or have the partitions changed",
		      q->a_name, a->clique, q->b_name, b->clique);
}

static enum blame p2p_machines(const struct ask *q)
{
	if (q->na->machine == q->nb->machine || by_nvlink(q))
		return BLAME_NONE;
	return answer(q, BLAME_MACHINE,
		      "%s and %s are in different machines, and no NVLink domain joins these: use the network between "
		      "them",
		      q->a_name, q->b_name);
}

static enum blame p2p_generations(const struct ask *q)
{
	int a = q->na->gpu.nvlink_version, b = q->nb->gpu.nvlink_version;

	if (!by_nvlink(q) || !a || !b || a == b)
		return BLAME_NONE;
	return answer(
		q, BLAME_MACHINE,
		"%s has NVLink of generation %d and %s of generation %d: links between generations do not come up: "
		"join GPUs of one generation; these exchange data through host memory",
		q->a_name, a, q->b_name, b);
}

static int gpu_number(const struct topo *t, int node)
{
	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		if (t->of[TOPO_GPU][i] == node)
			return i;
	return -1;
}

/* Of both directions what is worse. */
static enum topo_p2p driver_says(const struct topo *t, int a, int b)
{
	int i = gpu_number(t, a), j = gpu_number(t, b), n = t->count[TOPO_GPU];
	uint8_t ab, ba;

	if (!t->p2p || i < 0 || j < 0)
		return P2P_UNKNOWN;
	ab = t->p2p[i * n + j];
	ba = t->p2p[j * n + i];
	return (enum topo_p2p)(ab > ba ? ab : ba);
}

static enum blame p2p_driver_leg(const struct ask *q, int a, int b)
{
	enum topo_p2p says = driver_says(q->t, a, b);
	char from[96], to[96];

	topo_name(q->t, a, from, sizeof(from));
	topo_name(q->t, b, to, sizeof(to));
	switch (says) {
	case P2P_CHIPSET:
		return answer(q, BLAME_MACHINE,
			      "the driver refuses P2P between %s and %s: chipset not supported: use GPUs below one PCI "
			      "switch, or joined by NVLink",
			      from, to);
	case P2P_GPU:
		return answer(
			q, BLAME_MACHINE,
			"the driver refuses P2P between %s and %s: GPU not supported%s%s: consumer GPUs have it over "
			"NVLink at most: use GPUs that have it",
			from, to, *q->t->nodes[a].name ? ", " : "", q->t->nodes[a].name);
	case P2P_TOPOLOGY:
		return answer(
			q, BLAME_MACHINE,
			"the driver refuses P2P between %s and %s: topology not supported: use GPUs below one host "
			"bridge (CUDA_VISIBLE_DEVICES chooses)",
			from, to);
	case P2P_DISABLED:
		return answer(
			q, BLAME_SETUP,
			"the driver refuses P2P between %s and %s: disabled by a registry key: take it out of the "
			"options of the module nvidia (NVreg_RegistryDwords) and load the module again",
			from, to);
	case P2P_NO:
		return answer(
			q, BLAME_MACHINE,
			"the driver refuses P2P between %s and %s: not supported on this system: nvidia-smi topo -p2p "
			"r shows all pairs",
			from, to);
	default:
		return BLAME_NONE;
	}
}

static enum blame p2p_driver(const struct ask *q)
{
	enum blame blame;

	if (q->na->machine != q->nb->machine)
		return BLAME_NONE; /* the driver of one does not know the other */
	if (q->path->via < 0)
		return p2p_driver_leg(q, q->a, q->b);
	blame = p2p_driver_leg(q, q->a, q->path->via);
	return blame ? blame : p2p_driver_leg(q, q->path->via, q->b);
}

static bool is_consumer(const struct topo_node *gpu)
{
	return strstr(gpu->name, "GeForce RTX") != NULL;
}

/* Since the RTX 20 series the driver has no P2P over PCI for GeForce; where it says otherwise, it is right. */
static enum blame p2p_consumer(const struct ask *q)
{
	const struct topo_node *gpu = is_consumer(q->na) ? q->na : q->nb;

	if (!q->x.pci || !is_consumer(gpu) || driver_says(q->t, q->a, q->b) == P2P_OK)
		return BLAME_NONE;
	return answer(
		q, BLAME_MACHINE,
		"%s is a %s, a consumer GPU: the driver has no P2P over PCI for it: join the GPUs by NVLink if they "
		"can be, or use data center GPUs",
		gpu == q->na ? q->a_name : q->b_name, gpu->name);
}

static int gpus_of_machine(const struct topo *t, int machine)
{
	int n = 0;

	for (int i = 0; i < t->count[TOPO_GPU]; i++)
		n += t->nodes[t->of[TOPO_GPU][i]].machine == machine;
	return n;
}

/* How far P2P does well by itself: host bridges of Intel before Skylake forward it badly; two GPUs of an AMD machine
 * gain by it even between sockets (NCCL's experience). */
static enum path_class machine_p2p_level(const struct topo *t, int gpu)
{
	const struct topo_cpu *cpu = cpu_above(t, gpu);

	if (cpu && !strcmp(cpu->vendor, "AuthenticAMD") && gpus_of_machine(t, t->nodes[gpu].machine) <= 2)
		return PATH_SYS;
	if (cpu && !strcmp(cpu->vendor, "GenuineIntel") && cpu->family == 6 && cpu->model >= 0 && cpu->model < 0x55)
		return PATH_PXB;
	return PATH_PHB;
}

static enum blame p2p_level(const struct ask *q)
{
	enum path_class machine = machine_p2p_level(q->t, q->a);

	return check_level(q, machine, q->rules->p2p_level, "P2P", "TAUT_P2P_LEVEL");
}

static enum blame p2p_disabled(const struct ask *q)
{
	if (!q->rules->p2p_disable)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP,
		      "P2P between %s and %s is off by TAUT_P2P_DISABLE=1: unset that (and NCCL_P2P_DISABLE) to use it",
		      q->a_name, q->b_name);
}

static enum blame p2p_acs(const struct ask *q)
{
	return check_acs(q, q->rules->p2p_level, "P2P");
}

static enum blame p2p_iommu(const struct ask *q)
{
	return check_iommu(q, "P2P");
}

enum blame ask_p2p(const struct ask *q)
{
	static check *const checks[] = { p2p_machines, check_connected, p2p_generations, p2p_fabric, p2p_driver,
					 p2p_consumer, p2p_level,	p2p_disabled,	 p2p_acs,    p2p_iommu,
					 NULL };
	enum blame blame = run_checks(q, checks);

	if (!blame)
		say_path(q, q->na->machine == q->nb->machine && driver_says(q->t, q->a, q->b) == P2P_UNKNOWN);
	return blame;
}

/* --- SHM --- */

static enum blame shm_machines(const struct ask *q)
{
	if (q->na->machine == q->nb->machine)
		return BLAME_NONE;
	return answer(q, BLAME_MACHINE,
		      "%s and %s are in different machines: shared memory ends at the machine: use the network between "
		      "them",
		      q->a_name, q->b_name);
}

static enum blame shm_disabled(const struct ask *q)
{
	if (!q->rules->shm_disable)
		return BLAME_NONE;
	return answer(q, BLAME_SETUP,
		      "shared memory between %s and %s is off by TAUT_SHM_DISABLE=1: unset that (and NCCL_SHM_DISABLE) "
		      "to use it",
		      q->a_name, q->b_name);
}

/* Where to look when a PCI link is narrower than others on the way: what it hangs above. */
static const char *say_bottleneck(const struct ask *q, int a, int b, char *buf, size_t len)
{
	const struct path *path = paths_get(q->p, a, b);
	int links[16], n = paths_links(q->p, a, b, links, 16);
	const struct topo_link *l = path->bottleneck < 0 ? NULL : &q->t->links[path->bottleneck];
	bool narrower = false;
	char name[96];

	for (int i = 0; l && i < n && i < 16; i++)
		narrower = narrower || q->t->links[links[i]].bw_gbps > l->bw_gbps;
	if (!narrower || l->kind != LINK_PCI)
		return "";
	topo_name(q->t, q->t->nodes[l->a].parent == l->b ? l->a : l->b, name, sizeof(name));
	snprintf(buf, len, "; the link above %s is the narrowest", name);
	return buf;
}

/* From @a to its NUMA node, between the nodes, and on to @b. */
enum blame ask_shm(const struct ask *q)
{
	static check *const checks[] = { shm_machines, shm_disabled, NULL };
	int ca = topo_cpu_of(q->t, q->a), cb = topo_cpu_of(q->t, q->b), stops[4] = { q->a, ca, cb, q->b }, leg = 0;
	char from[96], to[96], narrow[160];
	enum blame blame = run_checks(q, checks);
	double bw = 0;

	if (blame)
		return blame;
	for (int i = 0; i < 3; i++) {
		const struct path *path = paths_get(q->p, stops[i], stops[i + 1]);

		if (path->class == PATH_DIS)
			return answer(q, BLAME_NONE, "host memory");
		if (i == 0 || path->bw_gbps < bw) {
			bw = path->bw_gbps;
			leg = i;
		}
	}
	topo_name(q->t, ca, from, sizeof(from));
	topo_name(q->t, cb, to, sizeof(to));
	return answer(q, BLAME_NONE, "host memory of %s%s%s, %.1f GB/s%s", from, ca == cb ? "" : " and ",
		      ca == cb ? "" : to, bw, say_bottleneck(q, stops[leg], stops[leg + 1], narrow, sizeof(narrow)));
}
