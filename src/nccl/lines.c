/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log in the words that NCCL's users and scripts look for. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "comm/comm.h"
#include "cuda/gpu.h"
#include "nccl/state.h"

/* Once a process; at NCCL_DEBUG=VERSION and WARN, where rank 0 is. */
static void line_version(int rank)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	bool plain = config_nccl_version_wanted();
	char text[64];

	if ((plain && rank) || atomic_flag_test_and_set(&said))
		return;
	snprintf(text, sizeof(text), "NCCL version %d.%d.%d+taut%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH,
		 TAUT_VERSION_MAJOR, TAUT_VERSION_MINOR, TAUT_VERSION_PATCH);
	if (plain)
		log_plain(text);
	else
		log_info(LOG_COMM, "%s", text);
}

void line_start(const struct ncclComm *comm, const struct ncclComm *parent, const char *call)
{
	log_set_device(comm->home.device);
	if (parent) { /* the ranks are not numbered yet */
		log_info(LOG_COMM, "%s comm %p parent %p parentRank %d parentRanks %d cudaDev %d - Init START", call,
			 (const void *)comm, (const void *)parent, parent->rank, parent->nranks, comm->home.device);
		return;
	}
	line_version(comm->rank);
	log_info(LOG_COMM, "%s comm %p rank %d nranks %d cudaDev %d - Init START", call, (const void *)comm, comm->rank,
		 comm->nranks, comm->home.device);
}

/* How data gets from @a to @b. */
static const char *way(const struct taut_comm *t, int a, int b)
{
	static const char *const texts[] = { [GPU_WAY_PEERS] = "P2P/direct pointer",
					     [GPU_WAY_HOST] = "SHM/direct/direct",
					     [GPU_WAY_FAR] = "NET/Socket/0" };

	if (t->gpu)
		return texts[t->island_of && t->island_of[a] == t->island_of[b] ? GPU_WAY_PEERS : gpu_way(t->gpu)];
	if (t->node_of[a] == t->node_of[b] && !t->cfg.shm_disable && strcmp(t->cfg.wire, "tcp"))
		return "SHM/direct/direct";
	return "NET/Socket/0";
}

static bool uses_sockets(const struct taut_comm *t)
{
	if (boot_nodes(t->boot) > 1 || t->size == 1)
		return boot_nodes(t->boot) > 1;
	return t->gpu ? gpu_way(t->gpu) == GPU_WAY_FAR : !strncmp(way(t, 0, 1), "NET", 3);
}

static int at(const struct taut_comm *t, int i)
{
	return t->order ? t->order[i] : i;
}

static void line_ring(const struct taut_comm *t)
{
	char text[256];
	int n = 0, here = 0;

	for (int i = 0; i < t->size && n < (int)sizeof(text) - 16; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", at(t, i));
	if (t->rank == 0)
		log_info(LOG_SCHED | LOG_TOPO, "Channel 00/01 :%s", text);
	while (at(t, here) != t->rank)
		here++;
	if (t->size > 1) {
		int next = at(t, (here + 1) % t->size);

		log_info(LOG_WIRE, "Channel 00/0 : %d[%d] -> %d[%d] via %s", t->rank, taut_comm_local_rank(t), next,
			 boot_peer(t->boot, next)->local_rank, way(t, t->rank, next));
	}
	log_info(LOG_COMM, "Connected all rings");
	log_info(LOG_COMM, "Connected all trees");
}

void line_complete(const struct ncclComm *comm, const char *call)
{
	const struct taut_comm *t = comm->taut;

	if (log_now.level < LOG_INFO)
		return;
	log_info(LOG_WIRE, "Using network %s", uses_sockets(t) ? "Socket" : "Socket (not needed: one machine)");
	line_ring(t);
	log_info(LOG_COMM, "%s comm %p rank %d nranks %d cudaDev %d localRanks %d nNodes %d - Init COMPLETE", call,
		 (const void *)comm, t->rank, t->size, comm->home.device, taut_comm_local_size(t), boot_nodes(t->boot));
}
