/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/live.h"

#include <string.h>

#include "base/config.h"
#include "topo/sysfs.h"
#include "topo/topo.h"

/* Without NVML a GPU of NVIDIA's is known by its PCI class only. */
static void note_driver(struct topo *t, const char *why)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->nodes[i].kind == TOPO_GPU && t->nodes[i].pci.vendor == 0x10de) {
			topo_note(t, "NVLink, compute capability and P2P of NVIDIA GPUs: not known: %s", why);
			return;
		}
}

static enum taut_status add_facts(struct scan *s, const struct nvml_facts *facts, const char *why)
{
	int cpu = -1;

	if (!facts) {
		note_driver(s->t, *why ? why : "nothing is there from its driver");
		return TAUT_OK;
	}
	if (nvml_has_more(s->t, facts)) {
		cpu = sysfs_cpu_of(s, "");
		if (cpu < 0)
			return status_last();
	}
	return nvml_merge(s->t, facts, cpu, s->nvswitches);
}

enum taut_status live_build(struct topo **out, const char *source, struct topo_fs *fs, const struct nvml_facts *facts,
			    const char *why)
{
	struct scan s = { .fs = fs, .gpus = facts };
	enum taut_status st = topo_create(&s.t, source);

	if (st)
		return st;
	st = sysfs_scan(&s);
	if (!st)
		st = add_facts(&s, facts, why);
	if (!st)
		st = topo_finish(s.t);
	if (st)
		goto err_free;
	*out = s.t;
	return TAUT_OK;
err_free:
	topo_free(s.t);
	return st;
}

enum taut_status topo_from_root(struct topo **out, const char *path)
{
	struct topo_fs *fs;
	enum taut_status st = fs_dir_open(&fs, path);

	if (st)
		return st;
	if (fs_kind_of(fs, "/sys") != FS_DIR && fs_kind_of(fs, "/proc") != FS_DIR)
		st = fail(
			TAUT_ERR_ARG,
			"%s: no folder sys or proc in it: the root of a machine, or of a copy of these two, is wanted",
			path);
	else
		st = live_build(out, path, fs, NULL, "a folder has no driver");
	fs_close(fs);
	return st;
}

enum taut_status live_open(struct topo_fs **fs, struct nvml_facts **facts, char *why, size_t len)
{
	enum taut_status st = fs_dir_open(fs, "/");

	if (st)
		return st;
	*facts = NULL;
	st = nvml_load(facts, "libnvidia-ml.so.1", why, len);
	if (st)
		fs_close(*fs);
	return st;
}

static enum taut_status this_machine(struct topo **out)
{
	struct nvml_facts *facts;
	struct topo_fs *fs;
	char why[256];
	enum taut_status st = live_open(&fs, &facts, why, sizeof(why));

	if (st)
		return st;
	st = live_build(out, "this machine", fs, facts, why);
	nvml_free(facts);
	fs_close(fs);
	return st;
}

enum taut_status topo_live(struct topo **out, const struct config *cfg)
{
	if (cfg && cfg->topo_file && *cfg->topo_file)
		return topo_read_file(out, cfg->topo_file, TOPO_FORM_AUTO);
	return this_machine(out);
}
