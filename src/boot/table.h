/* SPDX-License-Identifier: Apache-2.0 */
/* Who is where: the ranks of a group, the processes that hold them and the hosts these run
 * on, each stored once. One table is shared by all ranks of a process; derived groups copy
 * what they need. Not locked: the service's lock covers it until the group is complete,
 * then it is only read. */
#ifndef BOOT_TABLE_H
#define BOOT_TABLE_H

#include "boot/addr.h"
#include "boot/boot.h"
#include "boot/frame.h"

/* What a rank tells of itself. */
struct record {
	char host[64];
	int pid, cpus;
	uint8_t node[NODE_BYTES]; /* equal: shared memory works between the two */
	uint8_t uniq[UNIQ_BYTES]; /* of the process */
	uint16_t port;
	int naddr;
	struct addr addrs[ADDR_MAX];
};
void record_put(struct buf *b, const struct record *r);
bool record_get(struct record *out, struct reader *r);

struct table_host {
	uint8_t node[NODE_BYTES];
	char *name;
	int naddr;
	struct addr *addrs;
};
struct table_proc {
	uint8_t uniq[UNIQ_BYTES];
	int host, pid, cpus;
	uint16_t port;
};
struct table {
	int size, known; /* ranks; how many of them have a process */
	int nhosts, nprocs;
	struct table_host *hosts;
	struct table_proc *procs;
	int *proc_of;		 /* by rank; -1: not known */
	struct boot_peer *peers; /* by rank; NULL before table_finish() */
	int nodes;
};

struct table *table_new(int size);
void table_free(struct table *t);
/* Replaces what was known of @rank. False: no memory. */
bool table_add(struct table *t, int rank, const struct record *r);
bool table_has(const struct table *t, int rank);
/* @rank must be known. */
void table_record(struct record *out, const struct table *t, int rank);
struct table_proc *table_proc(const struct table *t, int rank);
/* How rank @to is dialled from a process of node @node. */
void table_target(struct target *out, const struct table *t, int to, const uint8_t node[NODE_BYTES]);
bool table_same_node(const struct table *t, int a, int b);
/* All ranks are known: number the nodes, fill peers. False: no memory. */
bool table_finish(struct table *t);
void table_put(struct buf *b, const struct table *t);
/* NULL: damaged, or no memory. */
struct table *table_get(const struct frame *f);
/* The ranks @ranks of @t as a table of their own; NULL: no memory. */
struct table *table_pick(const struct table *t, const int *ranks, int size);
/* "rank 3 (host h, pid 12)", or "rank 3" when no more is known. */
const char *table_name(char *out, size_t len, const struct table *t, int rank);

#endif
