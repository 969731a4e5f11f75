/* SPDX-License-Identifier: Apache-2.0 */
/* A capture is what live_build() looked at, so that live_build() sees the same where it is read. */
#include <string.h>

#include "base/mem.h"
#include "topo/live.h"
#include "topo/topo.h"

#define FACT "nvml"

static enum taut_status add_facts(struct topo_fs *pack, const struct nvml_facts *facts)
{
	char *text;
	enum taut_status st = facts ? nvml_write_text(&text, facts) : TAUT_OK;

	if (st || !facts)
		return st;
	st = fs_pack_add(pack, FS_FILE, FACT, text);
	mem_free(text);
	return st;
}

/* Fills @pack with what building the graph looks at. */
static enum taut_status record(struct topo_fs *pack, struct topo_fs *fs, const struct nvml_facts *facts,
			       const char *why)
{
	struct topo *t = NULL;
	struct topo_fs *recorder;
	enum taut_status st = fs_record_open(&recorder, fs, pack);

	if (st)
		return st;
	st = live_build(&t, "this machine", recorder, facts, why);
	if (!st && recorder->no_memory)
		st = fail(TAUT_ERR_NOMEM, "capture of this machine");
	topo_free(t);
	fs_close(recorder);
	return st ? st : add_facts(pack, facts);
}

enum taut_status capture_make(char **out, struct topo_fs *fs, const struct nvml_facts *facts, const char *why)
{
	struct topo_fs *pack;
	enum taut_status st = fs_pack_create(&pack);

	if (st)
		return st;
	st = record(pack, fs, facts, why);
	if (!st)
		st = fs_pack_write(out, pack);
	fs_close(pack);
	return st;
}

enum taut_status topo_capture(char **out)
{
	struct nvml_facts *facts;
	struct topo_fs *fs;
	char why[256];
	enum taut_status st = live_open(&fs, &facts, why, sizeof(why));

	if (st)
		return st;
	st = capture_make(out, fs, facts, why);
	nvml_free(facts);
	fs_close(fs);
	return st;
}

static enum taut_status from_pack(struct topo **out, const char *name, struct topo_fs *pack)
{
	char *text = fs_fact(pack, FACT);
	struct nvml_facts *facts = NULL;
	enum taut_status st = text ? nvml_read_text(&facts, name, text) : TAUT_OK;

	if (!st)
		st = live_build(out, name, pack, facts, "the capture has no facts from its driver");
	nvml_free(facts);
	mem_free(text);
	return st;
}

enum taut_status topo_from_capture(struct topo **out, const char *name, const char *text, size_t len)
{
	struct topo_fs *pack;
	enum taut_status st = fs_pack_read(&pack, name, text, len);

	if (st)
		return st;
	st = from_pack(out, name, pack);
	fs_close(pack);
	return st;
}
