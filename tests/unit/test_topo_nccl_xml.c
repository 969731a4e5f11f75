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

/* --- links --- */

#define GPU(id, dev, links)                                                                                            \
	"<pci busid='0000:" id ":00.0' class='0x030200' link_speed='16.0 GT/s PCIe' link_width='16'><gpu dev='" dev    \
	"' sm='80' rank='" dev "' gdr='1'>" links "</gpu></pci>"
#define NVLINK(target, count, class) "<nvlink target='" target "' count='" count "' tclass='" class "'/>"

/* Read, written and read again it is the same. */
static void survives(struct topo *t)
{
	struct topo *again = NULL;
	char *text = NULL, why[256];

	assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
	assert_int_equal(topo_from_nccl_xml(&again, "again.xml", text, strlen(text)), TAUT_OK);
	if (!topo_equal(t, again, why, sizeof(why)))
		fail_msg("%s\n%s", why, text);
	mem_free(text);
	topo_free(again);
	topo_free(t);
}

static void links_between_gpus_count_once(void **state)
{
	struct topo *t = read_below(GPU("01", "0", NVLINK("0000:02:00.0", "4", "0x030200"))
					    GPU("02", "1", NVLINK("0000:01:00.0", "4", "0x030200")));

	(void)state;
	assert_int_equal(t->count[TOPO_NVS], 0);
	assert_int_equal(link_of(t, "gpu0", "gpu1", LINK_NVLINK)->count, 4);
	near(link_of(t, "gpu0", "gpu1", LINK_NVLINK)->bw_gbps, 80);
	assert_int_equal(t->nodes[topo_find(t, "gpu0")].gpu.nvlinks, 4);
	survives(t);
}

static void links_that_two_gpus_count_otherwise_are_noted(void **state)
{
	struct topo *t = read_below(GPU("01", "0", NVLINK("00000000:02:00.0", "4", "0x0302"))
					    GPU("02", "1", NVLINK("0000:01:00.0", "2", "0x030200"))
						    GPU("03", "2", NVLINK("0000:01:00.0", "3", "0x03")));

	(void)state;
	assert_int_equal(link_of(t, "gpu0", "gpu1", LINK_NVLINK)->count, 2);
	assert_int_equal(link_of(t, "gpu0", "gpu2", LINK_NVLINK)->count, 3);
	assert_int_equal(t->nodes[topo_find(t, "gpu0")].gpu.nvlinks, 5);
	noted(t, "GPU 0000:01:00.0 lists 4 links to GPU 0000:02:00.0, which lists 2: counted as 2");
	noted(t, "GPU 0000:01:00.0 lists 0 links to GPU 0000:03:00.0, which lists 3: counted as 3");
	survives(t);
}

static void links_to_what_is_not_there_are_kept_in_number(void **state)
{
	struct topo *t = read_below(GPU("01", "0", NVLINK("0000:01:00.0", "12", "0x030200"))
					    GPU("02", "1", NVLINK("0000:09:00.0", "6", "0x030200")));

	(void)state;
	assert_int_equal(t->nlinks, 2); /* PCI only */
	assert_int_equal(t->nodes[topo_find(t, "gpu0")].gpu.nvlinks, 12);
	assert_int_equal(t->nodes[topo_find(t, "gpu1")].gpu.nvlinks, 6);
	noted(t, "GPU 0000:01:00.0 is the target of its own 12 links");
	noted(t, "6 NVLinks of GPU 0000:02:00.0 go to a GPU that is not listed");
	survives(t);
}

static void switches_are_one_node_that_knows_its_number(void **state)
{
	struct topo *t = read_below(
		GPU("01", "0", NVLINK("0000:c1:00.0", "2", "0x068000") NVLINK("0000:c2:00.0", "3", "0x068000")) GPU(
			"02", "1", NVLINK("0000:c2:00.0", "3", "0x068000") NVLINK("0000:c3:00.0", "2", "0x068000")));

	(void)state;
	assert_int_equal(t->count[TOPO_NVS], 1);
	assert_int_equal(t->nodes[topo_find(t, "nvs0")].switches, 3);
	assert_int_equal(link_of(t, "gpu0", "nvs0", LINK_NVLINK)->count, 5);
	survives(t);
	t = read_below(GPU("01", "0", NVLINK("fffffff:ffff:ff", "18", "0x068000")));
	assert_int_equal(t->nodes[topo_find(t, "nvs0")].switches, 0);
	survives(t);
}

static void peers_that_are_listed_as_switches_are_one(void **state)
{
	struct topo *t = read_below(
		GPU("01", "0", NVLINK("0000:02:00.0", "18", "0x068000") NVLINK("0000:03:00.0", "18", "0x068000"))
			GPU("02", "1", "") GPU("03", "2", ""));

	(void)state;
	assert_int_equal(link_of(t, "gpu0", "nvs0", LINK_NVLINK)->count, 18);
	assert_int_equal(t->nodes[topo_find(t, "gpu0")].gpu.nvlinks, 18);
	noted(t, "GPU 0000:01:00.0 lists other GPUs as NVSwitches: counted as 18 links to one");
	survives(t);
}

static void links_to_the_processor_are_read(void **state)
{
	struct topo *t = read_below(GPU("01", "0", NVLINK("0004:00:00.0", "3", "0x068001"))
					    GPU("02", "1", "<c2c bw='44712' count='10'/>"));

	(void)state;
	near(link_of(t, "gpu0", "numa0", LINK_NVLINK)->bw_gbps, 60);
	near(link_of(t, "gpu1", "numa0", LINK_C2C)->bw_gbps, 447.12);
	assert_int_equal(link_of(t, "gpu1", "numa0", LINK_C2C)->count, 10);
	survives(t);
}

static void rccl_files_are_read_and_written(void **state)
{
	static const char xml[] = "<system version='2'><cpu numaid='0'><pci busid='0000:c1:00.0' class='0x038000'>"
				  "<gpu dev='0' sm='104' gcn='910' arch='38911' rank='0' gdr='1'><xgmi "
				  "target='0000:c5:00.0' count='2' tclass='0x038000'/></gpu></pci><pci "
				  "busid='0000:c5:00.0' class='0x120000'><gpu dev='1' sm='104' gcn='gfx90a' "
				  "arch='38911' rank='1' gdr='1'><xgmi target='0000:c1:00.0' count='2' "
				  "tclass='0x120000'/></gpu></pci></cpu></system>";
	struct topo *t = read_text(xml);
	char *text = NULL;

	(void)state;
	assert_string_equal(t->nodes[topo_find(t, "gpu0")].gpu.gcn, "910");
	assert_int_equal(t->nodes[topo_find(t, "gpu0")].gpu.arch, 38911);
	near(link_of(t, "gpu0", "gpu1", LINK_XGMI)->bw_gbps, 72);
	assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
	assert_non_null(strstr(text, "<system version=\"2\">"));
	assert_non_null(strstr(text, "<xgmi target=\"0000:c5:00.0\" count=\"2\" tclass=\"0x120000\"/>"));
	mem_free(text);
	survives(t);
}

static void switches_that_are_one_device_are_linked(void **state)
{
	struct topo *t = read_below(
		"<pci busid='0000:01:00.0' class='0x060400' vendor='0x1000' device='0xc030' link_speed='32.0 GT/s "
		"PCIe' "
		"link_width='16'><pcilink target='0000:02:00.0'/><pci busid='0000:03:00.0' class='0x0302'/></pci><pci "
		"busid='0000:02:00.0' class='0x060400'><pcilink target='0000:01:00.0'/><pcilink "
		"target='0000:77:00.0'/></pci>");

	(void)state;
	near(link_of(t, "01:00.0", "02:00.0", LINK_PCI)->bw_gbps, 5000);
	assert_int_equal(t->nlinks, 4);
	noted(t, "PCI 0000:02:00.0 is linked to 0000:77:00.0, which is no other switch");
	survives(t);
}

/* --- cards --- */

static void cards_hang_where_the_file_has_them(void **state)
{
	struct topo *t = read_below(
		"<nic><net name='eth0' dev='3' speed='-1'/></nic><net name='lo' dev='4'/><pci busid='0000:01:00.0' "
		"class='0x060400'><pci busid='0000:02:00.0' class='0x020000'><nic><net name='mlx5_0' dev='0' port='1' "
		"latency='2.5' rail='7' plane='1' coll='1' keep='1' guid='0xffffffffffffffff'/><net name='mlx5_1' "
		"dev='1' "
		"port='2'/></nic></pci><nic><net name='beside' dev='2'/></nic></pci>");
	const struct topo_net *n = &t->nodes[topo_find(t, "mlx5_0")].net;

	(void)state;
	assert_int_equal(t->count[TOPO_NIC], 4);
	assert_int_equal(t->nodes[topo_find(t, "mlx5_0")].parent, topo_find(t, "02:00.0"));
	assert_int_equal(t->nodes[topo_find(t, "mlx5_1")].parent, topo_find(t, "02:00.0"));
	assert_int_equal(t->nodes[t->nodes[topo_find(t, "beside")].parent].parent, topo_find(t, "01:00.0"));
	assert_int_equal(t->nodes[t->nodes[topo_find(t, "lo")].parent].parent, topo_find(t, "numa0"));
	near(n->latency_us, 2.5);
	assert_int_equal(n->rail, 7);
	assert_int_equal(n->plane, 1);
	assert_int_equal(n->coll, 1);
	assert_true(n->keep);
	assert_true(n->guid == UINT64_MAX);
	assert_int_equal(n->gdr, -1);
	assert_int_equal(t->nodes[topo_find(t, "eth0")].net.speed_mbit, 0);
	survives(t);
}

static void a_port_that_carries_no_messages_is_left_out(void **state)
{
	struct topo *t =
		read_below("<nic><net name='gin0' dev='0' net='0' gin='1'/><net name='a' dev='1' net='1'/></nic>");

	(void)state;
	assert_int_equal(t->count[TOPO_NET], 1);
	noted(t, "port gin0 carries no messages between nodes");
	survives(t);
}

static void numbers_given_twice_are_parted(void **state)
{
	struct topo *t = read_below(
		"<pci busid='0000:01:00.0'><gpu dev='0' mlopart='0' rank='0'/><gpu dev='0' mlopart='1' rank='1'/></pci>"
		"<nic><net name='a' dev='1'/><net name='b' dev='1'/><net name='c'/></nic>");

	(void)state;
	assert_int_equal(t->nodes[topo_find(t, "gpu1")].gpu.rank, 1);
	assert_int_equal(t->nodes[topo_find(t, "a")].net.dev, 1);
	assert_int_equal(t->nodes[topo_find(t, "b")].net.dev, 0);
	assert_int_equal(t->nodes[topo_find(t, "c")].net.dev, 2);
	noted(t, "1 GPUs have a dev that another has (0 first)");
	noted(t, "1 ports have a dev that another has (1 first)");
	noted(t, "several devices have the bus id 0000:01:00.0: links between devices are the first's");
	survives(t);
}

static void machines_are_told_apart_by_their_hash(void **state)
{
	struct topo *t = read_text(
		"<system version='1'><cpu host_hash='0xa' numaid='0'>" GPU("01", "0",
									   NVLINK("0000:02:00.0", "2", "0x03"))
			GPU("02", "1",
			    NVLINK("0000:01:00.0", "2",
				   "0x03")) "</cpu><cpu host_hash='0xb' numaid='0'>" GPU("01", "0",
											 NVLINK("fffffff:ff:ff.0", "18",
												"0x068000"))
				GPU("02", "1", "") "</cpu><cpu host_hash='0xa' numaid='1'/></system>");

	(void)state;
	assert_int_equal(t->nmachines, 2);
	assert_int_equal(t->nodes[topo_find(t, "0/numa1")].machine, 0);
	assert_int_equal(link_of(t, "0/gpu0", "0/gpu1", LINK_NVLINK)->count, 2);
	assert_true(topo_link_between(t, topo_find(t, "1/gpu0"), topo_find(t, "1/gpu1"), LINK_NVLINK) < 0);
	assert_int_equal(link_of(t, "1/gpu0", "nvs0", LINK_NVLINK)->count, 18);
	survives(t);
}

/* --- what looks wrong, and what is --- */

static void oddities_are_noted(void **state)
{
	struct topo *t = read_text("<system version='1' colour='red'><cpu numaid='0' affinity='ff'/><cpu numaid='1' "
				   "affinity='ff'><fan/><pci "
				   "busid='ffff:ff:00.0' class='0x060400' link_speed='2.5 GT/s' link_width='1'>" GPU(
					   "0a", "0", "") "<pci busid='0000:0b:00.0' class='0x020000' "
							  "link_speed='fast' link_width='255'><nic><net name='mlx5_0' "
							  "dev='0' speed='180000'/><net name='mlx5_1' dev='1' "
							  "speed='180000'/></nic></pci></pci></cpu></system>");

	(void)state;
	noted(t, "<system> has an attribute colour, which is not known");
	noted(t, "<cpu> holds <fan>, which is not known there");
	noted(t, "all 2 NUMA nodes have the same processors");
	noted(t, "the link above PCI ffff:ff:00.0 is 2.5 GT/s x1 (0.2 GB/s), that of GPU 0 below it carries 24.0 GB/s");
	noted(t, "link_width 255 is no width of a link");
	noted(t, "link_speed \"fast\" is not understood");
	noted(t, "2 ports (mlx5_0 first) have 180000 Mbit/s, which is no rate of a link");
	survives(t);
	t = read_below("<pci busid='0000:00:1d.0'/>");
	noted(t, "no GPU is described");
	survives(t);
}

static void refused(const char *text, const char *words)
{
	struct topo *t = NULL;

	assert_int_equal(topo_from_nccl_xml(&t, "f.xml", text, strlen(text)), TAUT_ERR_ARG);
	assert_null(t);
	if (!strstr(taut_error_message(), words))
		fail_msg("\"%s\" instead of \"%s\"", taut_error_message(), words);
}

static void mistakes_are_told_by_line_and_column(void **state)
{
	static const struct {
		const char *in_cpu, *words;
	} cases[] = {
		{ "<pci/>", "f.xml:2:3: <pci>: busid is missing: domain:bus:device.function was expected" },
		{ "<pci busid='1'/>", "<pci>: busid is \"1\": domain:bus:device.function was expected" },
		{ "<pci busid='1:0.0' class='0x1234567'/>", "class is \"0x1234567\": 0x and 6 hexadecimal digits" },
		{ "<pci busid='1:0.0' class='blue'/>", "class is \"blue\": up to 16 hexadecimal digits" },
		{ "<pci busid='1:0.0' vendor='0x12345'/>", "vendor is \"0x12345\": a whole number from 0 to 65535" },
		{ "<pci busid='1:0.0' link_width='x16'/>", "link_width is \"x16\": a whole number from 0 to 255" },
		{ "<gpu dev='one'/>", "<gpu>: dev is \"one\": a whole number from -1 to 65535 was expected" },
		{ "<gpu gdr='2'/>", "gdr is \"2\"" },
		{ "<nic><net speed='fast'/></nic>", "<net>: speed is \"fast\"" },
		{ "<nic><net latency='1,5'/></nic>", "latency is \"1,5\": a number like 2.5 was expected" },
		{ "<nic><net guid='0xg'/></nic>", "guid is \"0xg\"" },
		{ "<nic><net guid='-1'/></nic>", "guid is \"-1\"" },
		{ "<gpu dev='0'><nvlink count='1'/></gpu>", "<nvlink>: target is missing" },
		{ "<gpu dev='0'><nvlink target='1:0.0' count='0'/></gpu>", "<nvlink>: count is \"0\"" },
		{ "<gpu dev='0'><c2c bw='-1'/></gpu>", "<c2c>: bw is \"-1\"" },
		{ "<pci busid='1:0.0'><pcilink/></pci>", "<pcilink>: target is missing" },
	};
	char xml[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(xml, sizeof(xml), "<system version='1'><cpu numaid='0'>\n  %s\n</cpu></system>",
			 cases[i].in_cpu);
		refused(xml, cases[i].words);
	}
}

static void what_is_no_topology_is_refused(void **state)
{
	(void)state;
	refused("<system version='1'></system>", "f.xml:1:1: <system>: it holds 0 <cpu>: 1 to 1024 were expected");
	refused("<system version='3'><cpu/></system>", "version is 3: 1 (NCCL) and 2 (RCCL) are read");
	refused("<graphs version='1'/>", "these are channels (NCCL_GRAPH_FILE): a topology starts with <system>");
	refused("<topology/>", "NCCL's topology starts with <system>");
	refused("<system version='1'><cpu numaid='zero'/></system>", "f.xml:1:21: <cpu>: numaid is \"zero\"");
	refused("<system version='1'><cpu affinity='ff,zz'/></system>", "affinity is \"ff,zz\": at most 64 words");
	refused("<system version='1'><cpu host_hash='11112222333344445'/></system>", "host_hash is");
	refused("<system version='1'><cpu numaid='0'>", "not XML: no element found inside <cpu>");
	refused("<!DOCTYPE s [<!ENTITY a 'b'>]><system/>", "entity a is declared");
}

static void more_nodes_than_any_machine_has_are_refused(void **state)
{
	static const char one[] = "<pci busid='1:0.0'/>";
	size_t room = (TOPO_MAX_NODES + 1) * sizeof(one) + 128;
	char *xml = mem_calloc(room, 1), *at = xml;
	struct topo *t = NULL;

	(void)state;
	at += sprintf(at, "<system version='1'><cpu>");
	for (int i = 0; i < TOPO_MAX_NODES; i++)
		at += sprintf(at, "%s", one);
	sprintf(at, "</cpu></system>");
	assert_int_equal(topo_from_nccl_xml(&t, "f.xml", xml, strlen(xml)), TAUT_ERR_ARG);
	assert_non_null(strstr(taut_error_message(), "room for 16384"));
	mem_free(xml);
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = NULL;
	char *text = NULL;
	long n;

	(void)state;
	for (n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_from_nccl_xml(&t, "f.xml", pair, strlen(pair));
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	assert_true(n > 40);
	st = TAUT_ERR_NOMEM;
	for (n = 1; st; n++) {
		mem_fail_from(n);
		st = topo_to_nccl_xml(&text, t);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	assert_int_equal(n, 4);
	mem_free(text);
	topo_free(t);
}

static void a_graph_without_numa_nodes_can_be_written(void **state)
{
	struct topo *t = NULL, *again = NULL;
	char *text = NULL;
	int gpu, net;

	(void)state;
	assert_int_equal(topo_create(&t, "bare"), TAUT_OK);
	gpu = topo_add_node(t, TOPO_GPU, -1);
	topo_add_node(t, TOPO_GPU, -1);
	net = topo_add_node(t, TOPO_NET, topo_add_node(t, TOPO_NIC, -1));
	t->nodes[gpu].gpu.listed = true;
	snprintf(t->nodes[net].name, sizeof(t->nodes[net].name), "<&\">");
	assert_int_equal(topo_finish(t), TAUT_OK);
	assert_int_equal(topo_to_nccl_xml(&text, t), TAUT_OK);
	assert_int_equal(topo_from_nccl_xml(&again, "again.xml", text, strlen(text)), TAUT_OK);
	assert_int_equal(again->count[TOPO_GPU], 2);
	assert_true(again->nodes[again->of[TOPO_GPU][0]].gpu.listed);
	assert_false(again->nodes[again->of[TOPO_GPU][1]].gpu.listed);
	assert_true(topo_find(again, "<&\">") >= 0);
	mem_free(text);
	topo_free(again);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_is_read),
		cmocka_unit_test(a_dump_is_written_as_it_was),
		cmocka_unit_test(files_that_nccl_completes_are_read),
		cmocka_unit_test(links_between_gpus_count_once),
		cmocka_unit_test(links_that_two_gpus_count_otherwise_are_noted),
		cmocka_unit_test(links_to_what_is_not_there_are_kept_in_number),
		cmocka_unit_test(switches_are_one_node_that_knows_its_number),
		cmocka_unit_test(peers_that_are_listed_as_switches_are_one),
		cmocka_unit_test(links_to_the_processor_are_read),
		cmocka_unit_test(rccl_files_are_read_and_written),
		cmocka_unit_test(switches_that_are_one_device_are_linked),
		cmocka_unit_test(cards_hang_where_the_file_has_them),
		cmocka_unit_test(a_port_that_carries_no_messages_is_left_out),
		cmocka_unit_test(numbers_given_twice_are_parted),
		cmocka_unit_test(machines_are_told_apart_by_their_hash),
		cmocka_unit_test(oddities_are_noted),
		cmocka_unit_test(mistakes_are_told_by_line_and_column),
		cmocka_unit_test(what_is_no_topology_is_refused),
		cmocka_unit_test(more_nodes_than_any_machine_has_are_refused),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(a_graph_without_numa_nodes_can_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
