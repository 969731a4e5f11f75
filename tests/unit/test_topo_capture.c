/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "capture_util.h"
#include "topo/fs.h"
#include "topo/live.h"

static const char *const machines[] = { "h200x2-guest", "dgx-h100",   "power9-v100",	 "container",
					"nothing",	"nc96-guest", "h100-infiniband", "mi250-xgmi" };
enum { MACHINES = sizeof(machines) / sizeof(*machines) };

/* Captures the machine that @text is a capture of. */
static char *capture_again(const char *text)
{
	struct nvml_facts *facts = NULL;
	struct topo_fs *fs = NULL;
	char *nvml, *again = NULL;

	assert_int_equal(fs_pack_read(&fs, "first", text, strlen(text)), TAUT_OK);
	nvml = fs_fact(fs, "nvml");
	if (nvml)
		assert_int_equal(nvml_read_text(&facts, "first", nvml), TAUT_OK);
	assert_int_equal(capture_make(&again, fs, facts, ""), TAUT_OK);
	mem_free(nvml);
	nvml_free(facts);
	fs_close(fs);
	return again;
}

static void what_is_captured_reads_as_the_same_machine(void **state)
{
	(void)state;
	for (int i = 0; i < MACHINES; i++) {
		char *first = capture_text(machines[i]), *second = capture_again(first), *third = capture_again(second);
		struct topo *a = capture_load(machines[i]), *b = NULL;
		char why[256] = "";

		assert_int_equal(topo_from_capture(&b, "second", second, strlen(second)), TAUT_OK);
		for (int n = 0; n < a->nnodes && a->nnodes == b->nnodes;
		     n++) /* guids become numbers, and which is which may differ */
			if (a->nodes[n].kind == TOPO_NET)
				b->nodes[n].net.guid = a->nodes[n].net.guid;
		if (!topo_equal(a, b, why, sizeof(why)))
			print_error("%s: %s\n", machines[i], why);
		assert_string_equal(why, "");
		assert_int_equal(a->nnotes, b->nnotes);
		assert_string_equal(second, third); /* nothing gets lost */
		topo_free(a);
		topo_free(b);
		mem_free(first);
		mem_free(second);
		mem_free(third);
	}
}

/* --- what must not be in it --- */

static const char private_text[] =
	"taut capture 1\n"
	"/proc/cpuinfo: |6\n"
	"processor\t: 0\n"
	"vendor_id\t: GenuineIntel\n"
	"microcode\t: 0x2b000590\n"
	"Serial\t\t: 00000000deadbeef\n"
	"flags\t\t: fpu hypervisor lahf_lm\n"
	"bogomips\t: 4000.00\n"
	"/proc/meminfo: |2\n"
	"MemTotal:       1000 kB\n"
	"MemFree:         777 kB\n"
	"/proc/driver/nvidia/version: NVRM version: NVIDIA UNIX Open Kernel Module  580.1  Release Build  "
	"(builder@secrethost)\n"
	"/sys/bus/pci/devices/0000:01:00.0 -> "
	"../../../devices/VMBUS:01/01234567-89ab-cdef-0123-456789abcdef/pci0000:00/0000:01:00.0\n"
	"/sys/devices/VMBUS:01/01234567-89ab-cdef-0123-456789abcdef/pci0000:00/0000:01:00.0/class: 0x030200\n"
	"/sys/devices/VMBUS:01/01234567-89ab-cdef-0123-456789abcdef/pci0000:00/0000:01:00.0/vendor: 0x10de\n"
	"/sys/class/net/enx0123456789ab -> ../../devices/pci0000:00/0000:02:00.0/net/enx0123456789ab\n"
	"/sys/devices/pci0000:00/0000:02:00.0/net/enx0123456789ab/device -> ../../../0000:02:00.0\n"
	"/sys/devices/pci0000:00/0000:02:00.0/net/enx0123456789ab/address: 01:23:45:67:89:ab\n"
	"/sys/devices/pci0000:00/0000:02:00.0/net/enx0123456789ab/operstate: up\n"
	"/sys/devices/pci0000:00/0000:02:00.0/class: 0x020000\n"
	"/sys/class/infiniband/rocex0123450003abcdef -> "
	"../../devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/device -> ../../../0000:02:00.0\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/node_guid: 0123:4567:89ab:cdef\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/node_desc: secrethost HCA-1\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/ports/1/rate: 100 Gb/sec (4X EDR)\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/ports/1/link_layer: Ethernet\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/ports/1/gids/0: "
	"fe80:0000:0000:0000:0123:45ff:fe67:89ab\n"
	"/sys/devices/pci0000:00/0000:02:00.0/infiniband/rocex0123450003abcdef/ports/1/gid_attrs/ndevs/0: "
	"enx0123456789ab\n"
	"/sys/class/kfd/kfd/topology/nodes/1/properties: |2\nsimd_count 4\nunique_id 424242424242\n"
	"/sys/class/dmi/id/product_serial: S3CR3T\n"
	"/proc/sys/kernel/hostname: secrethost\n";

static void nothing_tells_which_machine_it_was(void **state)
{
	static const char *const secrets[] = { "secrethost", "S3CR3T",	  "deadbeef",	"456789ab",
					       "45:67:89",   "0123:4567", "0003abcdef", "45ff:fe67",
					       "89ab-cdef",  "microcode", "MemFree",	"4242424242" };
	static const char *const kept[] = {
		"vendor_id\t: GenuineIntel\nflags\t: hypervisor\n",
		"/proc/meminfo: MemTotal:       1000 kB\n",
		"NVIDIA UNIX Open Kernel Module  580.1  Release Build  \n",
		"/sys/class/net/enx00000000000",
		"/node_guid: 0000:0000:0000:000",
		"VMBUS:01/00000000-0000-0000-0000-00000000000",
	};
	char *text = capture_again(private_text);
	struct topo *t = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(secrets) / sizeof(*secrets); i++) {
		if (strstr(text, secrets[i]))
			print_error("%s in\n%s", secrets[i], text);
		assert_null(strstr(text, secrets[i]));
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		if (!strstr(text, kept[i]))
			print_error("no %s in\n%s", kept[i], text);
		assert_non_null(strstr(text, kept[i]));
	}
	assert_int_equal(topo_from_capture(&t, "again", text, strlen(text)), TAUT_OK);
	assert_int_equal(t->count[TOPO_NET], 2);
	assert_int_equal(t->count[TOPO_GPU], 1);
	assert_string_equal(t->nodes[t->of[TOPO_NET][0]].net.rdma, t->nodes[t->of[TOPO_NET][1]].name);
	assert_true(t->vm);
	topo_free(t);
	mem_free(text);
}

/* A serial number stands in configuration space: the fact that was read there is kept alone. */
static void configuration_space_is_not_kept(void **state)
{
	struct topo_fs *pack = NULL, *inner = NULL, *recorder = NULL;
	char *text = NULL, *read;

	(void)state;
	assert_int_equal(fs_pack_read(&inner, "in", "taut capture 1\n/d/config: S3CR3T\n", 33), TAUT_OK);
	assert_int_equal(fs_pack_create(&pack), TAUT_OK);
	assert_int_equal(fs_record_open(&recorder, inner, pack), TAUT_OK);
	read = fs_read(recorder, NULL, "/d/config");
	assert_string_equal(read, "S3CR3T");
	fs_keep(recorder, "acs/x", "0x001d");
	fs_keep(inner, "acs/x", "nobody listens");
	assert_int_equal(fs_pack_write(&text, pack), TAUT_OK);
	assert_string_equal(text, "taut capture 1\n/d/\nacs/x: 0x001d\n");
	mem_free(read);
	mem_free(text);
	fs_close(recorder);
	fs_close(inner);
	fs_close(pack);
}

static void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static void every_failing_allocation_is_reported(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo_fs *fs = NULL;
	char *text = NULL;

	(void)state;
	assert_int_equal(fs_pack_read(&fs, "in", private_text, strlen(private_text)), TAUT_OK);
	log_set_sink(drop_line, NULL);
	for (long n = 1; st; n += 1 + n / 16) {
		mem_fail_from(n);
		fs->no_memory = false;
		st = capture_make(&text, fs, NULL, "");
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	mem_free(text);
	fs_close(fs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_captured_reads_as_the_same_machine),
		cmocka_unit_test(nothing_tells_which_machine_it_was),
		cmocka_unit_test(configuration_space_is_not_kept),
		cmocka_unit_test(every_failing_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
