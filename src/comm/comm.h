/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: what the public calls stand on. A public call becomes a struct op; op_submit()
 * keeps it for the thread's group, queues it on a stream, or runs it; ops_run() turns ops
 * into tasks of the executor.
 *
 * Order: the calls of a communicator run in the order in which they were made, whatever
 * stream they are on: each takes a ticket when it is made and waits for its turn when it runs.
 * Threads: the owner's thread or a stream's worker runs ops; the boot service thread calls
 * comm_on_dial(), comm_on_event() and comm_describe().
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "boot/boot.h"
#include "exec/exec.h"
#include "topo/cluster.h"

#define COMM_CALLS 512 /* calls that a rank remembers for comparison: more than it can be ahead of others */
#define P2P_CHANNEL 255

enum { DEVICE_AUTO, DEVICE_HOST }; /* as TAUT_DEVICE names them */

enum op_kind { OP_COLL, OP_SEND, OP_RECV };

/* One call as its caller made it. Counts and displacements: NULL when regular; copied by
 * op_own() when the call outlives its caller's arrays. */
struct op {
	enum op_kind kind;
	enum sched_coll coll;
	const void *in;
	void *out;
	size_t count; /* elements of a regular block; v-forms: of this rank's single block */
	enum taut_type type;
	enum taut_op op;
	int root; /* or peer */
	int tag;
	bool vectors;
	bool gpu; /* on GPU memory */
	const size_t *in_counts, *in_displs, *out_counts, *out_displs;
	struct taut_comm *comm;
	bool scaled; /* this rank's input is multiplied by scalar first */
	unsigned char scalar[8];
	uint64_t ticket;
	size_t *owned; /* the copies, one allocation */
};

/* Calls of all ranks that are no collectives; numbers beyond enum sched_coll. */
enum comm_call { CALL_SPLIT = COLL_COUNT, CALL_DUP, CALL_ALLOC };

/* What a rank remembers of a call; read at any time by the service thread (a seqlock by seq). */
struct call_record {
	_Atomic uint64_t seq, count;
	_Atomic int coll, type, op, root, vectors;
};

/* The settings that must be the same on all ranks: rank 0's count. */
struct comm_agreed {
	uint64_t slot_bytes, slots, sockets;
	int32_t check, channels, shm_disable, cores;
	uint64_t tune_len;
	double memory_byte_us; /* of a copy on rank 0's machine; 0: not known */
	char wire[16], algo[256], proto[128];
};

struct dialled { /* a peer's connection that nobody has asked for yet */
	struct dialled *next;
	int from, channel, index, fd;
	const struct wire_ops *ops;
};
struct premul {
	unsigned char scalar[8];
	enum taut_type type;
	bool used;
};
struct comm_segment { /* of taut_mem_alloc() */
	struct comm_segment *next;
	int number; /* the same on every rank */
	size_t len;
	unsigned char *base[]; /* by rank, as mapped here; where nothing is shared, own alone */
};
struct plan_entry;

struct taut_comm {
	struct boot *boot;
	struct config cfg;
	char name[64];
	int rank, size;
	int *node_of;
	int32_t *order; /* of rings, so that they go from machine to machine once each; NULL: rank order does */

	/* failure */
	_Atomic int error;    /* enum taut_status */
	pthread_mutex_t lock; /* error_text, dialled, turn */
	pthread_cond_t turn;
	char error_text[1024];
	bool forked; /* this process is a child of the one that the communicator belongs to */
	struct dialled *dialled;
	atomic_bool any_dialled;

	/* order of calls */
	_Atomic uint64_t next_ticket, serving;
	_Atomic int waiters;
	atomic_bool streams_used; /* from the first call on a stream */

	/* running */
	struct exec_net net;
	struct exec_link **links; /* all */
	size_t nlinks, cap_links;
	struct exec_link **link_table; /* by hash of peer and channel */
	size_t link_slots;
	struct exec_inbox **inbox; /* by peer; made at first use */
	struct exec_task *task;	   /* of a call that is not in a group */
	unsigned char *scratch, *temp;
	size_t scratch_len, temp_len;
	size_t nt_bytes; /* results from this size on are stored past the caches */

	/* choosing */
	double memory_byte_us; /* as agreed */
	struct cost_machine machine;
	struct tune *tune;
	struct cost_filter *filter;
	struct plan_entry **plans; /* by hash */
	struct plan_asked *asked;  /* algorithms for GPUs */
	const struct exec_plan *last_plan;
	struct plan_memo {
		const struct exec_plan *plan;
		size_t count;
		enum sched_coll coll;
		enum taut_type type;
		int root;
		bool mapped;
	} memo; /* of the last call with regular blocks */

	struct gpu *gpu; /* NULL: calls are on host memory */
	void *gpu_table; /* that the ranks share: what they have published of GPU memory, or all that they exchange */
	size_t gpu_table_len;
	int *island_of;		  /* sets of ranks whose GPUs address each other; NULL: none does */
	int nislands;		  /* 0: as many as ranks, or no such sets */
	bool islands_linked;	  /* by NVLink */
	struct comm_watch *watch; /* NULL: no peers, or no GPU */
	struct comm_gpu_memory *gpu_memory;

	/* comparing calls */
	_Atomic uint64_t seq;		  /* counted by the calling thread */
	_Atomic uint64_t doubt, doubt_at; /* an older call to ask for, and when */
	struct call_record calls[COMM_CALLS];

	/* user operations, shared memory */
	struct premul *premul;
	int npremul;
	struct comm_segment *segments, *unshared;
	int next_segment;
	struct exec_shared_line *shared;
	size_t shared_len;
	unsigned char **peer_in, **peer_out;
	unsigned char barrier_out;
	uint64_t derived; /* groups made from this one by all */
};

/* --- comm.c --- */
/* The group's error as this thread's, if it has failed. */
enum taut_status comm_check(struct taut_comm *comm);
void comm_set_error(struct taut_comm *comm, enum taut_status st, const char *text);
/* A call failed on this rank: if the group has (or within a moment gets) an error, that is
 * the answer; else the sentence goes to all ranks and is. Errors that every rank finds by
 * itself before anything moves (a bad argument, a setting) stay with the call. */
enum taut_status comm_failed(struct taut_comm *comm, enum taut_status st);
/* The same when something may have moved: the group has failed in any case. */
enum taut_status comm_broken(struct taut_comm *comm, enum taut_status st);
/* "two_shot/bulk": how the last collective of this communicator was done. For tools. */
const char *comm_last_choice(const struct taut_comm *comm, char *buf, size_t len);
void comm_lock(struct taut_comm *comm, uint64_t ticket);
void comm_unlock(struct taut_comm *comm);
uint64_t comm_ticket(struct taut_comm *comm);

/* --- link.c --- */
void comm_on_dial(void *ctx, int from, const void *hello, size_t len, int fd, bool local);
struct exec_link *comm_link(struct taut_comm *comm, int peer, int channel); /* NULL: no memory, said */
struct exec_inbox *comm_inbox(struct taut_comm *comm, int peer);
enum taut_status comm_attach_tx(void *ctx, struct exec_link *link);
enum taut_status comm_attach_rx(void *ctx, struct exec_link *link);
/* Asks @peer for a sign of life; if it has left or is gone, that is the group's error. */
void comm_quiet(void *ctx, int peer);
bool comm_same_machine(const struct taut_comm *comm, int peer);
/* A connection that carries no messages: the other side takes it with comm_take_dialled(), which is -1 while it
 * is not there. */
enum taut_status comm_dial_channel(struct taut_comm *comm, int peer, int channel, int *fd);
/* The same by the wire that suits the peer; *@fd is in blocking mode. */
enum taut_status comm_dial_plain(struct taut_comm *comm, int peer, int channel, int *fd);
int comm_take_dialled(struct taut_comm *comm, const struct exec_link *link);
void comm_links_cleanup(struct taut_comm *comm);

/* --- topology.c --- */
/* Fills comm->order from node_of; every rank finds the same. */
enum taut_status comm_find_order(struct taut_comm *comm);
/* TAUT_TOPO_DUMP_FILE, if it is set, is written by the rank that is to; when it cannot be, that is a warning. */
void comm_dump_topology(const struct taut_comm *comm);
/* With TAUT_STRICT: TAUT_ERR_UNSUPPORTED when GPUs of this machine, or a GPU and its card, would fall back to a
 * slower wire. */
enum taut_status comm_check_strict(const struct config *cfg);
/* Do the settings, or what this machine does well, keep GPU @bus from using the memory of one of the @n others (bus
 * addresses; NULL: not asked; 64 at most)? Then its bit is set, and a reason is in @why. What is not known keeps
 * nobody. */
uint64_t comm_p2p_refused(char *why, size_t len, const struct config *cfg, const char *bus, const char *const *others,
			  int n);
/* Collective: all machines of the group as they are now, machine i that of boot's node i. One rank a machine looks;
 * graphs that look alike travel once, and are called by
 * the name of their first host. The same on every rank; the caller's to cluster_free(). */
enum taut_status comm_cluster(struct cluster **out, struct taut_comm *comm);

/* --- call.c: records and comparison --- */
uint64_t call_record(struct taut_comm *comm, const struct op *op, uint32_t *sig);
void call_note(struct taut_comm *comm, enum comm_call call, uint64_t len);
bool comm_describe(void *ctx, uint64_t seq, uint64_t *sig, char *text, size_t len);
void comm_stalled(void *ctx, bool mismatch);

/* --- plan.c --- */
/* How to run @op; @mapped: all ranks can address its buffers. Kept until the end of @comm. */
enum taut_status plan_get(const struct exec_plan **out, struct taut_comm *comm, const struct op *op, bool mapped);
/* The algorithm that TAUT_ALGO asks for; NULL: none that fits, or one that is what GPUs do by themselves. */
enum taut_status plan_asked(const struct sched_algo **out, const struct op *op);
/* What @op would take: a collective on host memory with private buffers, by the cost model; messages and GPU memory,
 * roughly. */
enum taut_status plan_price(double *us, const struct op *op);
void plans_free(struct taut_comm *comm);
size_t op_bytes(const struct op *op); /* of the largest buffer, as the cost model counts */

/* --- gpu.c: calls on GPU memory --- */
struct gpu_card;
/* What this rank has is put on @card; then, if @any rank has a GPU, all connect theirs: collective. */
enum taut_status comm_gpu_open(struct taut_comm *comm, struct gpu_card *card);
enum taut_status comm_gpu_connect(struct taut_comm *comm, const struct gpu_card *card, bool any);
bool comm_gpu_call(const struct op *op);
/* Launches and returns; comm_gpu_wait(): until all on the default stream is done. */
enum taut_status comm_gpu_launch(struct op *op, void *stream);
/* Sends and receives of one communicator, as one launch. */
enum taut_status comm_gpu_messages(struct op *const *ops, size_t n, void *stream);
enum taut_status comm_gpu_wait(struct taut_comm *comm);
void comm_gpu_stop(struct taut_comm *comm);
/* Has a kernel met another call than its own? Then the group has failed. Any thread. */
enum taut_status comm_gpu_check(struct taut_comm *comm);
/* taut_mem_alloc() and taut_mem_free() of GPU memory. */
enum taut_status comm_gpu_alloc(void **out, size_t len, struct taut_comm *comm);
enum taut_status comm_gpu_free(void *p, struct taut_comm *comm);
/* @len bytes at @p, of the GPU, stay as they are until comm_gpu_forget(). The peers map them now, where they can;
 * @ms: to wait for that. */
enum taut_status comm_gpu_keep(struct taut_comm *comm, const void *p, size_t len, int ms);
void comm_gpu_forget(struct taut_comm *comm, const void *p, size_t len);
void comm_gpu_close(struct taut_comm *comm);

/* --- gpu_islands.c --- */
/* Maps what this rank's GPU can address and fills comm->island_of and what follows: collective, the same on all ranks.
 */
enum taut_status comm_find_islands(struct taut_comm *comm, const struct gpu_card *cards);

/* --- gpu_watch.c --- */
enum taut_status comm_watch_open(struct taut_comm *comm);
void comm_watch_close(struct taut_comm *comm);

/* --- collectives.c --- */
/* The communicator, type and root of a collective; @call is for the message. */
enum taut_status op_check(const char *call, const struct op *op);

/* --- far.c --- */
/* Between ranks that share no memory: connections, and comm->gpu_table as this rank's copy of all mail. */
enum taut_status comm_gpu_connect_far(struct taut_comm *comm, const struct gpu_card *cards);

/* --- run.c --- */
enum taut_status op_submit(struct op *op, void *stream);
/* Instead, when the call is wrong by @st, which is returned: its group will not run. */
enum taut_status op_refuse(enum taut_status st);
/* Runs @ops, which have tickets, as one; waits. */
enum taut_status ops_run(struct op *ops, size_t n);
/* The first of ops[0] to ops[@i] that is of the same communicator as the last: it stands for all of
 * that communicator, which share its ticket. */
size_t op_first(const struct op *ops, size_t i);
enum taut_status op_own(struct op *op);
void op_release(struct op *op);

/* --- group.c, stream.c --- */
bool group_open(void);
enum taut_status group_add(const struct op *op, void *stream);
void group_spoil(enum taut_status st); /* the group will not run, its end returns @st */
/* The time that the calls of this thread's group would take one after the other; the messages of a communicator, which
 * go at once, count as their longest. */
enum taut_status group_price(double *us);
enum taut_status stream_add(struct taut_stream *s, const struct op *ops,
			    size_t n); /* copies the ops, takes what they own */
/* Is its worker in this process? Asked before the tickets are taken. */
enum taut_status stream_check(const struct taut_stream *s);

/* --- mem.c --- */
/* Collective: @len new bytes, zero, that all ranks have mapped; all are on one machine. Freed with munmap(). */
enum taut_status comm_share(struct taut_comm *comm, void **out, size_t len);
/* Are the buffers of this call addressable by all ranks? All ranks get the same answer. Then
 * comm->peer_in and peer_out say where. */
enum taut_status mem_agree(bool *out, struct taut_comm *comm, const struct op *op, uint32_t sig, bool in_group);
void mem_cleanup(struct taut_comm *comm);

/* What this thread makes from here on ends by boot_stop(@stop), also once it is made; NULL: no more. */
void comm_stop_with(struct boot_stop *stop);
/* As rank @rank of @size at TAUT_RENDEZVOUS, whatever a launcher says. */
enum taut_status comm_create_at_rendezvous(struct taut_comm **out, int rank, int size,
					   const struct taut_comm_opts *opts);

/* --- userop.c --- */
bool userop_exists(const struct taut_comm *comm, enum taut_op op);
/* Checks op->op against the type and fills scaled and scalar. @call is for the message. */
enum taut_status userop_check(struct op *op, const char *call);

#endif
