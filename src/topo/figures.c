/* SPDX-License-Identifier: Apache-2.0 */
/* What a link carries, by kind and generation. The figures are those that NCCL 2.30 (src/graph/topo.h, topo.cc) and
 * RCCL 2.21 (the same files) reckon with, so that bandwidths here compare with theirs. */
#include "topo/graph.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const double onboard_bw = 5000.0; /* NCCL's figure for what no link limits */
static const double c2c_bw = 44.7;	 /* of one C2C link: what drivers report for Grace and its GPUs */

double topo_pci_bw(double gts, int width)
{
	if (width <= 0)
		width = 16;
	if (!(gts > 0))
		gts = 8; /* gen 3 */
	/* NCCL: lanes * rate / 80, the rate of a lane in units of 100 Mbit/s less a quarter for the protocol;
	 * generations 1 and 2 lose another fifth to their 8b/10b code. */
	return width * gts * (gts > 5 ? 7.5 : 6.0) / 80.0;
}

double topo_nvlink_bw(int sm)
{
	if (sm >= 100)
		return 40.1;
	if (sm >= 90)
		return 20.6;
	if (sm == 86)
		return 12.0;
	if (sm >= 60 && sm < 70)
		return 18.0;
	return 20.0; /* 70, 80, and unknown */
}

double topo_xgmi_bw(const char *gcn)
{
	const char *arch = !strncmp(gcn, "gfx", 3) ? gcn + 3 : gcn;

	if (!strncmp(arch, "94", 2) || !strncmp(arch, "95", 2))
		return 48.0;
	if (!strcmp(arch, "90a") || !strncmp(arch, "910", 3)) /* "910" is RCCL's older spelling */
		return 36.0;
	return 24.0;
}

static double intel_smp_bw(const struct topo_cpu *cpu)
{
	if (cpu->family == 6 && cpu->model >= 0xcf) /* Emerald Rapids */
		return 40.0;
	if (cpu->family == 6 && cpu->model >= 0x8f) /* Sapphire Rapids */
		return 22.0;
	if (cpu->family == 6 && cpu->model >= 0x55) /* Skylake */
		return 10.0;
	return 6.0;
}

double topo_smp_bw(const struct topo_cpu *cpu)
{
	if (!strncmp(cpu->arch, "ppc64", 5))
		return 32.0;
	if (!strcmp(cpu->arch, "arm64") || !strcmp(cpu->arch, "aarch64"))
		return 6.0;
	if (!strcmp(cpu->vendor, "GenuineIntel"))
		return intel_smp_bw(cpu);
	if (!strcmp(cpu->vendor, "AuthenticAMD"))
		return 16.0;
	if (!strcmp(cpu->vendor, "CentaurHauls") || !strcmp(cpu->vendor, "  Shanghai  ")) /* Zhaoxin */
		return cpu->family == 7 && cpu->model == 0x5b ? 9.0 : 6.0;
	return 10.0; /* not known: as a common server of years ago */
}

double topo_parse_decimal(const char **text)
{
	double v = 0, unit = 1;
	bool fraction = false;

	for (; isdigit((unsigned char)**text) || (**text == '.' && !fraction); ++*text) {
		if (**text == '.') {
			fraction = true;
			continue;
		}
		if (fraction)
			unit /= 10;
		v = fraction ? v + (**text - '0') * unit : v * 10 + (**text - '0');
		if (v > 1e6)
			return 0;
	}
	return v;
}

double topo_parse_gts(const char *text)
{
	double v;

	while (isspace((unsigned char)*text))
		text++;
	v = topo_parse_decimal(&text);
	while (isspace((unsigned char)*text))
		text++;
	return strncmp(text, "GT/s", 4) ? 0 : v;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* From the right: the least significant word comes last. */
int topo_parse_mask(uint32_t *words, int max, const char *text)
{
	int n = 0, digits = 0;

	memset(words, 0, (size_t)max * sizeof(*words));
	for (size_t i = strlen(text); i-- > 0;) {
		int d = hex_digit(text[i]);

		if (text[i] == ',' && digits > 0) {
			digits = 0;
			n++;
			continue;
		}
		if (d < 0 || digits == 8 || n >= max)
			return -1;
		words[n] |= (uint32_t)d << (4 * digits++);
	}
	return digits ? n + 1 : -1;
}

static bool bit(const uint32_t *words, int i)
{
	return words[i / 32] >> (i % 32) & 1;
}

const char *topo_mask_list(const uint32_t *words, int n, char *buf, size_t len)
{
	size_t used = 0;

	if (len)
		*buf = '\0';
	for (int i = 0; i < 32 * n && used < len; i++) {
		int last = i;

		if (!bit(words, i))
			continue;
		while (last + 1 < 32 * n && bit(words, last + 1))
			last++;
		used += (size_t)snprintf(buf + used, len - used, used ? ",%d" : "%d", i);
		if (last > i && used < len)
			used += (size_t)snprintf(buf + used, len - used, "-%d", last);
		i = last;
	}
	return buf;
}

/* --- of one link --- */

/* The capability that both ends have: of two GPUs the older one's. */
static int older_sm(const struct topo_node *a, const struct topo_node *b)
{
	int sa = a->kind == TOPO_GPU ? a->gpu.sm : 0, sb = b->kind == TOPO_GPU ? b->gpu.sm : 0;

	if (!sa || !sb)
		return sa ? sa : sb;
	return topo_nvlink_bw(sa) < topo_nvlink_bw(sb) ? sa : sb;
}

static double xgmi_bw(const struct topo_node *a, const struct topo_node *b)
{
	double ba = topo_xgmi_bw(a->kind == TOPO_GPU ? a->gpu.gcn : b->gpu.gcn);
	double bb = topo_xgmi_bw(b->kind == TOPO_GPU ? b->gpu.gcn : a->gpu.gcn);

	return ba < bb ? ba : bb;
}

static double net_bw(const struct topo_node *a, const struct topo_node *b)
{
	long mbit = a->kind == TOPO_NET ? a->net.speed_mbit : b->net.speed_mbit;

	return (double)(mbit > 0 ? mbit : 10000) / 8000.0; /* NCCL: 10 Gbit/s where a port does not say */
}

/* The end that hangs below the other; of two switches side by side: NULL. */
static const struct topo_node *lower_end(const struct topo *t, const struct topo_link *l)
{
	if (t->nodes[l->a].parent == l->b)
		return &t->nodes[l->a];
	return t->nodes[l->b].parent == l->a ? &t->nodes[l->b] : NULL;
}

static void pci_figures(const struct topo *t, struct topo_link *l)
{
	const struct topo_node *low = lower_end(t, l);
	bool virtual = low && low->kind == TOPO_NIC && !*low->pci.busid && !low->pci.width && !(low->pci.gts > 0);

	if (!low || virtual) { /* two switches in one, a card without a slot: nothing here limits */
		l->bw_gbps = l->bw_gbps > 0 ? l->bw_gbps : onboard_bw;
		l->count = l->count > 0 ? l->count : 1;
		return;
	}
	l->bw_gbps = l->bw_gbps > 0 ? l->bw_gbps : topo_pci_bw(low->pci.gts, low->pci.width);
	if (l->count <= 0)
		l->count = low->pci.width > 0 ? low->pci.width : 16;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

void topo_link_figures(const struct topo *t, struct topo_link *l)
{
	const struct topo_node *a = &t->nodes[l->a], *b = &t->nodes[l->b];

	if (l->kind == LINK_PCI) {
		pci_figures(t, l);
		return;
	}
	if (l->count <= 0)
		l->count = 1;
	if (l->bw_gbps > 0)
		return;
	if (l->kind == LINK_NVLINK)
		l->bw_gbps = l->count * topo_nvlink_bw(older_sm(a, b));
	else if (l->kind == LINK_XGMI && (a->kind == TOPO_GPU || b->kind == TOPO_GPU))
		l->bw_gbps = l->count * xgmi_bw(a, b);
	else if (l->kind == LINK_C2C)
		l->bw_gbps = l->count * c2c_bw;
	else if (l->kind == LINK_SMP && a->kind == TOPO_CPU && b->kind == TOPO_CPU)
		l->bw_gbps = smaller(topo_smp_bw(&a->cpu), topo_smp_bw(&b->cpu));
	else if (l->kind == LINK_NET && (a->kind == TOPO_NET || b->kind == TOPO_NET))
		l->bw_gbps = net_bw(a, b);
}
