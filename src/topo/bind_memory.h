/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a NUMA node, by the system calls alone: libnuma is one library more to need. */
#ifndef TOPO_BIND_MEMORY_H
#define TOPO_BIND_MEMORY_H

#include "topo/bind.h"

/* @given, or the nodes of this machine's @all whose memory this process may use and prefer. None of them when there
 * is but one, or when the kernel does not let it choose: the latter is warned of. */
void bind_find_nodes(struct bind_nodes *out, const struct bind_nodes *given, int all);
/* May @rank prefer @numa's memory? If a cpuset forbids it, that is warned of. */
bool bind_node_allowed(const struct bind_nodes *nodes, int rank, int numa);
/* For the calling thread and what it becomes; its memory comes from elsewhere when the node has none left. Only a
 * system call; -1 with errno. */
int bind_prefer_node(int numa);
/* Does @pid prefer @numa? If not, its policy in words. */
bool bind_prefers_node(pid_t pid, int numa, char *policy, size_t len);

#endif
