/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a group as all its ranks get them: alike and unlike ones, emulated by TAUT_HOSTID, each described by
 * a file of its own (TAUT_TOPO_FILE); ranks in any order on them. And the file of TAUT_TOPO_DUMP_FILE. */
#include <sys/stat.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "ranks.h"
#include "topo/pack.h"

/* One job: which machine each rank is on, and what each machine is. */
struct scene {
	const char *name;
	int ranks;
	int machine_of[8];
	const char *file_of[4]; /* synthetic form; NULL: this machine */
	int kinds;
	long gpus;
	int kind_of[4];
};

/* The last travels in several pieces. */
static const char big[] = "numa:2 gpu:8 nvlink:18 nvswitch:4 nic:8x400G", small[] = "numa:1 gpu:2 nic:1x100G",
		  huge[] = "numa:16 gpu:256 nic:512x400G";

static const struct scene scenes[] = {
	{ "one rank", 1, { 0 }, { big }, 1, 8, { 0 } },
	{ "one machine", 3, { 0, 0, 0 }, { big }, 1, 8, { 0 } },
	{ "three alike", 6, { 0, 0, 1, 1, 2, 2 }, { big, big, big }, 1, 24, { 0, 0, 0 } },
	{ "unlike, dealt", 7, { 0, 1, 2, 0, 1, 2, 1 }, { big, small, big }, 2, 18, { 0, 1, 0 } },
	{ "huge first", 3, { 0, 1, 0 }, { huge, small }, 2, 258, { 0, 1 } },
	{ "huge last", 4, { 0, 1, 2, 2 }, { small, big, huge }, 3, 266, { 0, 1, 2 } },
	{ "small first", 4, { 0, 1, 2, 3 }, { small, big, small, "gpu:4" }, 3, 16, { 0, 1, 0, 2 } },
};

static void check_same_everywhere(struct taut_comm *comm, const struct cluster *c)
{
	for (int k = 0; k < c->nkinds; k++) {
		uint8_t *bytes, *first;
		size_t len;

		must(topo_pack(&bytes, &len, c->kinds[k]) == TAUT_OK);
		first = malloc(len);
		memcpy(first, bytes, len);
		must(taut_broadcast(first, first, len, TAUT_UINT8, 0, comm, NULL) == TAUT_OK);
		must(!memcmp(first, bytes, len));
		free(first);
		mem_free(bytes);
	}
}

static void look(struct taut_comm *comm, int rank, int size, void *arg)
{
	const struct scene *s = arg;
	struct cluster *c = NULL;

	(void)rank;
	(void)size;
	for (int again = 0; again < 2; again++) {
		must(comm_cluster(&c, comm) == TAUT_OK);
		must(c->nkinds == s->kinds && c->ngpus == s->gpus);
		for (int m = 0; m < c->nmachines; m++)
			must(c->places[m].system == m && c->kind_of[m] == s->kind_of[m]);
		check_same_everywhere(comm, c);
		cluster_free(c);
	}
}

/* As run_ranks(), but with each rank's own settings. */
static int run_scene(const struct scene *s, rank_fn fn)
{
	struct rank_start start;
	pid_t pids[8];

	must(pipe(start.pipe) == 0);
	fflush(NULL);
	for (int r = 0; r < s->ranks; r++) {
		pids[r] = fork();
		must(pids[r] >= 0);
		if (pids[r] == 0) {
			char host[32];

			snprintf(host, sizeof(host), "machine-%d", s->machine_of[r]);
			setenv("TAUT_HOSTID", host, 1);
			setenv("TAUT_TOPO_FILE", s->file_of[s->machine_of[r]], 1);
			rank_main(&start, r, s->ranks, fn, (void *)(uintptr_t)s);
		}
	}
	close(start.pipe[0]);
	close(start.pipe[1]);
	return end_ranks(s->ranks, pids);
}

/* A machine that cannot be looked at: all ranks say which and why, and the group lives on. */
static void fault(struct taut_comm *comm, int rank, int size, void *arg)
{
	struct cluster *c;

	(void)size;
	(void)arg;
	must(comm_cluster(&c, comm) == TAUT_ERR_UNSUPPORTED);
	must(strstr(taut_error_message(), "the machine of rank 1 ("));
	must(strstr(taut_error_message(), "/nowhere/at/all"));
	must(taut_barrier(comm, NULL) == TAUT_OK);
	if (rank == 0)
		printf("%s\n", taut_error_message());
}

static void nothing(struct taut_comm *comm, int rank, int size, void *arg)
{
	(void)rank;
	(void)size;
	(void)arg;
	must(taut_barrier(comm, NULL) == TAUT_OK);
}

/* Rank 1 of a group is told to write its machine; what it writes is read as that machine. */
static int dump(void)
{
	char dir[] = "/tmp/taut-dump-XXXXXX", path[160], file[80];
	struct topo *t = NULL;
	int bad;

	must(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/topo-%%p.xml", dir);
	setenv("NCCL_TOPO_DUMP_FILE", file, 1);
	setenv("NCCL_TOPO_DUMP_FILE_RANK", "1", 1);
	bad = run_scene(&(struct scene){ "dump", 2, { 0, 0 }, { big }, 0, 0, { 0 } }, nothing);
	unsetenv("NCCL_TOPO_DUMP_FILE");
	unsetenv("NCCL_TOPO_DUMP_FILE_RANK");
	snprintf(path, sizeof(path), "ls %s | wc -l | grep -qx 1 && mv %s/topo-*.xml %s/t.xml", dir, dir, dir);
	bad += system(path) != 0;
	snprintf(path, sizeof(path), "%s/t.xml", dir);
	must(topo_read_file(&t, path, TOPO_FORM_NCCL_XML) == TAUT_OK);
	must(t->count[TOPO_GPU] == 8 && t->count[TOPO_NET] == 8);
	topo_free(t);
	unlink(path);
	rmdir(dir);
	return bad;
}

int main(void)
{
	const struct scene broken = { "broken", 3, { 0, 1, 1 }, { big, "/nowhere/at/all" }, 0, 0, { 0 } };
	int bad = 0;

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		int n = run_scene(&scenes[i], look);

		printf("%s: %s\n", scenes[i].name, n ? "FAILED" : "ok");
		bad += n;
	}
	bad += run_scene(&broken, fault);
	bad += dump();
	return bad != 0;
}
