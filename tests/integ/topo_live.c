/* SPDX-License-Identifier: Apache-2.0 */
/* This machine, whatever it is: its graph is made, and its capture reads as the same graph. Prints both, for people to
 * look at: topo_live [capture]. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/mem.h"
#include "topo/topo.h"

static const char *const kinds[TOPO_KINDS] = { "numa", "pci", "gpu", "nvswitch", "card", "port" };
static const char *const links[LINK_KINDS] = { "pci", "nvlink", "xgmi", "c2c", "smp", "net" };

static void print_kind(const struct topo_node *n)
{
	char list[128];

	if (n->kind == TOPO_CPU)
		printf(" %s %s %d/%d cpus %s, %llu MiB", n->cpu.arch, n->cpu.vendor, n->cpu.family, n->cpu.model,
		       topo_mask_list(n->cpu.affinity, n->cpu.nmask, list, sizeof(list)),
		       (unsigned long long)(n->cpu.memory >> 20));
	else if (n->kind == TOPO_GPU)
		printf(" dev %d sm %d gdr %d nvlinks %d v%d fabric %d/%d, %llu MiB", n->gpu.dev, n->gpu.sm, n->gpu.gdr,
		       n->gpu.nvlinks, n->gpu.nvlink_version, n->gpu.fabric_hash != 0, n->gpu.clique,
		       (unsigned long long)(n->gpu.memory >> 20));
	else if (n->kind == TOPO_NET)
		printf(" dev %d port %d %s %s, %ld Mbit/s, driver %s, firmware %s, rdma %s, gids %s%s", n->net.dev,
		       n->net.port, n->net.layer, n->net.state, n->net.speed_mbit, n->net.driver, n->net.firmware,
		       n->net.rdma, n->net.gids, n->net.is_virtual ? ", virtual" : "");
	else if (n->kind == TOPO_NVS)
		printf(" %d switches", n->switches);
	if (*n->pci.busid)
		printf(" [%s class %06x %04x:%04x %g GT/s x%d of %g x%d acs %d root %x]", n->pci.busid, n->pci.class,
		       n->pci.vendor, n->pci.device, n->pci.gts, n->pci.width, n->pci.max_gts, n->pci.max_width,
		       n->pci.acs, n->pci.root);
}

static void print(const struct topo *t)
{
	char a[96], b[96];

	for (int i = 0; i < t->nnodes; i++) {
		const struct topo_node *n = &t->nodes[i];

		printf("%d %s \"%s\" (%s) below %d", i, kinds[n->kind], topo_name(t, i, a, sizeof(a)), n->name,
		       n->parent);
		print_kind(n);
		printf("\n");
	}
	for (int i = 0; i < t->nlinks; i++)
		printf("%s - %s: %s x%d %.4g GB/s\n", topo_name(t, t->links[i].a, a, sizeof(a)),
		       topo_name(t, t->links[i].b, b, sizeof(b)), links[t->links[i].kind], t->links[i].count,
		       t->links[i].bw_gbps);
	for (int i = 0; t->p2p && i < t->count[TOPO_GPU] * t->count[TOPO_GPU]; i++)
		printf("p2p %d\n", t->p2p[i]);
	printf("iommu %d, peermem %d, %s\n", t->iommu, t->peermem, t->vm ? "a guest" : "no guest");
	for (int i = 0; i < t->nnotes; i++)
		printf("note: %s\n", t->notes[i].text);
}

/* What a capture does not hold, and what changes from one look to the next: the memory of a guest may grow. */
static void forget(struct topo *t)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_CPU)
			t->nodes[i].cpu.memory = 0;
		else if (t->nodes[i].kind == TOPO_GPU)
			t->nodes[i].gpu.fabric_hash = t->nodes[i].gpu.fabric_hash != 0;
		else if (t->nodes[i].kind == TOPO_NET)
			t->nodes[i].net.guid = t->nodes[i].net.guid != 0;
}

static int compare(struct topo *live, const char *text)
{
	struct topo *t = NULL;
	char why[256] = "it does not read";
	int failed = 1;

	if (!topo_from_capture(&t, "capture", text, strlen(text))) {
		forget(live);
		forget(t);
		failed = !topo_equal(live, t, why, sizeof(why));
	}
	if (failed)
		printf("the capture is another machine: %s\n", why);
	topo_free(t);
	return failed;
}

int main(int argc, char **argv)
{
	struct config cfg;
	struct topo *t = NULL;
	char *text = NULL;
	int failed = 1;

	if (config_defaults(&cfg))
		return 1;
	if (!topo_live(&t, &cfg) && !topo_capture(&text)) {
		print(t);
		if (argc > 1 && !strcmp(argv[1], "capture"))
			fputs(text, stdout);
		failed = compare(t, text);
	}
	mem_free(text);
	topo_free(t);
	config_cleanup(&cfg);
	return failed;
}
