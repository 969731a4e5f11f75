/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/bind_memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

enum { WORD = 8 * sizeof(unsigned long) };

static bool has(const struct bind_nodes *nodes, int numa)
{
	return numa >= 0 && numa < BIND_NODES && nodes->bits[numa / WORD] >> numa % WORD & 1;
}

static int count(const struct bind_nodes *nodes)
{
	int n = 0;

	for (int i = 0; i < BIND_NODES; i++)
		n += has(nodes, i);
	return n;
}

/* Which there are, and whether the same calls would be let through: containers may forbid them. */
static int ask_kernel(struct bind_nodes *nodes)
{
	struct bind_nodes now = { 0 };
	int mode = 0;

	if (syscall(SYS_get_mempolicy, NULL, nodes->bits, (unsigned long)BIND_NODES, 0ul,
		    (unsigned long)MPOL_F_MEMS_ALLOWED) ||
	    syscall(SYS_get_mempolicy, &mode, now.bits, (unsigned long)BIND_NODES, 0ul, 0ul))
		return -1;
	return (int)syscall(SYS_set_mempolicy, mode, mode == MPOL_DEFAULT ? NULL : now.bits,
			    mode == MPOL_DEFAULT ? 0ul : (unsigned long)BIND_NODES + 1);
}

void bind_find_nodes(struct bind_nodes *out, const struct bind_nodes *given, int all)
{
	*out = given ? *given : (struct bind_nodes){ 0 };
	if (given || all < 2)
		return;
	if (ask_kernel(out)) {
		log_warn(LOG_TOPO,
			 "the memory of the ranks is not bound: set_mempolicy: %s (a container forbids it? it needs "
			 "CAP_SYS_NICE there)",
			 strerror(errno));
		*out = (struct bind_nodes){ 0 };
	}
	if (count(out) < 2)
		*out = (struct bind_nodes){ 0 };
}

bool bind_node_allowed(const struct bind_nodes *nodes, int rank, int numa)
{
	if (numa < 0 || !count(nodes))
		return false;
	if (!has(nodes, numa))
		log_warn(LOG_TOPO,
			 "rank %d: the memory near it is that of NUMA node %d, which this process may not use "
			 "(cpuset.mems "
			 "of its cgroup): its memory is not bound",
			 rank, numa);
	return has(nodes, numa);
}

int bind_prefer_node(int numa)
{
	struct bind_nodes one = { 0 };

	one.bits[numa / WORD] = 1ul << numa % WORD;
	return (int)syscall(SYS_set_mempolicy, MPOL_PREFERRED, one.bits, (unsigned long)BIND_NODES + 1);
}

/* "55882863a000 prefer:0 file=...": memory without a policy of its own shows the process's. */
bool bind_prefers_node(pid_t pid, int numa, char *policy, size_t len)
{
	char path[48], line[256], want[32];
	bool same = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/numa_maps", (int)pid);
	snprintf(policy, len, "not known (%s cannot be read)", path);
	snprintf(want, sizeof(want), "prefer:%d", numa);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fgets(line, sizeof(line), f) && sscanf(line, "%*s %47s", path) == 1) {
		snprintf(policy, len, "\"%s\"", path);
		same = !strcmp(path, want);
	}
	fclose(f);
	return same;
}
