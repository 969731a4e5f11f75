/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology XML: what is read from each form, what is refused and where the message points, what is written. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/graph.h"

static struct topo *read_text(const char *text)
{
	struct topo *t = NULL;

	if (topo_from_nccl_xml(&t, "f.xml", text, strlen(text)))
		fail_msg("%s", taut_error_message());
	return t;
}

/* Elements below <system><cpu numaid="0" ...>. */
static struct topo *read_below(const char *text)
{
	char all[4096];

	snprintf(all, sizeof(all), "<system version=\"1\"><cpu numaid=\"0\">%s</cpu></system>", text);
	return read_text(all);
}

static void noted(const struct topo *t, const char *words)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, words))
			return;
	fail_msg("no note \"%s\"", words);
}

static void near(double a, double b)
{
	if (fabs(a - b) > 1e-6)
		fail_msg("%g instead of %g", a, b);
}

static const struct topo_link *link_of(const struct topo *t, const char *a, const char *b, enum topo_link_kind kind)
{
	int l = topo_link_between(t, topo_find(t, a), topo_find(t, b), kind);

	assert_true(l >= 0);
	return &t->links[l];
}

/* As NCCL 2.28 writes it on a guest with two H200. */
static const char pair[] =
	"<system version=\"1\">\n"
	"  <cpu host_hash=\"0x1\" numaid=\"-1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
	"modelid=\"207\">\n"
	"    <pci busid=\"0000:00:06.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" "
	"subsystem_vendor=\"0x10de\" subsystem_device=\"0x18bf\" link_speed=\"32.0 GT/s PCIe\" link_width=\"0\">\n"
	"      <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\">\n"
	"        <nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>\n"
	"      </gpu>\n"
	"    </pci>\n"
	"    <nic>\n"
	"      <net name=\"eth0\" dev=\"0\" latency=\"0\" speed=\"10000\" port=\"0\" guid=\"0x0\" maxconn=\"65536\" "
	"gdr=\"0\"/>\n"
	"    </nic>\n"
	"    <pci busid=\"0000:00:07.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" "
	"subsystem_vendor=\"0x10de\" subsystem_device=\"0x18bf\" link_speed=\"32.0 GT/s PCIe\" link_width=\"0\">\n"
	"      <gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\">\n"
	"        <nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>\n"
	"      </gpu>\n"
	"    </pci>\n"
	"  </cpu>\n"
	"</system>\n";

static void a_dump_is_read(void **state)
{
	struct topo *t = read_text(pair);
	const struct topo_node *gpu = &t->nodes[topo_find(t, "gpu1")], *net = &t->nodes[topo_find(t, "eth0")];

	(void)state;
	assert_int_equal(t->count[TOPO_GPU], 2);
	assert_string_equal(gpu->pci.busid, "0000:00:07.0");
	assert_int_equal(gpu->pci.class, 0x030200);
	assert_int_equal(gpu->pci.subdevice, 0x18bf);
	assert_int_equal(gpu->gpu.sm, 90);
	assert_int_equal(gpu->gpu.gdr, 1);
	assert_int_equal(gpu->gpu.nvlinks, 18);
	assert_true(gpu->gpu.listed);
	assert_int_equal(net->net.speed_mbit, 10000);
	assert_int_equal(net->net.maxconn, 65536);
	assert_int_equal(t->nodes[topo_cpu_of(t, topo_find(t, "gpu0"))].cpu.model, 207);
	near(link_of(t, "gpu0", "nvs0", LINK_NVLINK)->bw_gbps, 18 * 20.6);
	near(link_of(t, "gpu0", "numa0", LINK_PCI)->bw_gbps, 48);
	noted(t, "link width is not known of 2 PCI devices (GPU 0 first): counted as x16");
	topo_free(t);
}

static void a_dump_is_written_as_it_was(void **state)
{
	struct topo *t = read_text(pair);
	char *text = NULL;

	(void)state;
	assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
	assert_string_equal(text, pair);
	mem_free(text);
	topo_free(t);
}

static void files_that_nccl_completes_are_read(void **state)
{
	struct topo *t = read_below("<!-- c --><pci busid='0000:00:16.0'/><pci busid='ffff:ff:01.0' class='0x060400' "
				    "link_speed='8 GT/s' link_width='16'><pci busid='0000:10:1c.0' class='0x03'/>"
				    "<pci busid='0000:10:1b.0' class='0x0200' link_speed='32 GT/s PCIe/s' "
				    "link_width='8'/></pci>");

	(void)state;
	assert_int_equal(t->count[TOPO_PCI], 2);
	assert_int_equal(t->count[TOPO_GPU], 1);
	assert_false(t->nodes[t->of[TOPO_GPU][0]].gpu.listed);
	assert_int_equal(t->count[TOPO_NIC], 1);
	near(link_of(t, "10:1b.0", "ffff:ff:01.0", LINK_PCI)->bw_gbps, 24);
	near(link_of(t, "numa0", "ffff:ff:01.0", LINK_PCI)->bw_gbps, 12);
	noted(t, "GPUs are known by their PCI class only");
	noted(t, "no network port is described");
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_is_read),
		cmocka_unit_test(a_dump_is_written_as_it_was),
		cmocka_unit_test(files_that_nccl_completes_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
