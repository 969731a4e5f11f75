/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of one rank of a communicator: memory that its peers may address, where theirs is,
 * and the launch of collectives. Ranks are on one machine; a rank is a process, or a
 * thread with a GPU of its own, or one of several ranks of a GPU.
 *
 * Making one takes steps, with exchanges between them by the caller: gpu_open(); then, with the cards of all ranks,
 * gpu_reach(); then gpu_connect() if that went well on all ranks, else gpu_connect_host(): GPUs that do not address
 * each other exchange data in host memory, or, where their ranks share none, over sockets: tunnel.h. The context that
 * is current at gpu_open() is the rank's from then on. Calls are in order on the caller's stream and return at once;
 * one thread at a time uses a gpu. */
#ifndef CUDA_GPU_H
#define CUDA_GPU_H

#include "cuda/driver.h"
#include "cuda/kernels/kernels.h"
#include "cuda/messages.h"
#include "cuda/tunnel.h"
#include "sched/sched.h"

struct gpu;

/* What the others must know of a rank; the same size on all, bytes of this process. */
struct gpu_card {
	int32_t used;		     /* 0: this rank has no GPU */
	int32_t device;		     /* its number in that process */
	int32_t sms;		     /* multiprocessors */
	int32_t shares;		     /* the handle is valid */
	int32_t node;		     /* machine; set by the caller */
	int32_t relays;		     /* its kernels can use relay.cuh */
	char bus[24];		     /* PCI address: ranks with the same share a GPU */
	uint64_t process;	     /* differs between processes, of other containers too */
	uint64_t ctx, mail;	     /* addresses in that process; mail 0: one rank alone needs none */
	struct cu_ipc_handle handle; /* of mail */
};

/* A call, as comm gives it: counts in elements. */
struct gpu_request {
	enum sched_coll coll;
	const void *in;
	void *out;
	size_t count;
	enum taut_type type;
	enum taut_op op; /* TAUT_AVG too, but no user's */
	int root;
	bool scaled;
	unsigned char scalar[8];
	uint32_t sig;
	const struct sched_algo *algo; /* its schedule is run, where there is one; NULL: what the kernels do best */
};

/* Is @p memory of a GPU? Cheap: no driver, no GPU memory. */
bool gpu_memory(const void *p);
/* *@out NULL and card->used 0 when this thread has no current context: then the rank has no GPU. @schedules: there will
 * be gpu_allow_schedules(), wherever the GPUs are. */
enum taut_status gpu_open(struct gpu **out, struct gpu_card *card, int rank, int nranks, bool schedules);
/* Do all ranks have a GPU? @cards: of all ranks. */
enum taut_status gpu_check_cards(const struct gpu *g, const struct gpu_card *cards);
/* Bit r: rank r is of this machine, and its GPU is this rank's or joined to it by NVLink, as far as the driver knows.
 */
uint64_t gpu_linked(const struct gpu *g, const struct gpu_card *cards);
/* Maps the memory of the ranks of this machine that are @allowed (bit r: rank r): returns which could be, with a line
 * in the log for each other. */
uint64_t gpu_reach(struct gpu *g, const struct gpu_card *cards, uint64_t allowed);
/* Lets go of it again, before any rank frees its own: for gpu_connect_host() and gpu_connect_far(). */
void gpu_unreach(struct gpu *g);
/* @table: share_table_bytes() of zeroed memory that all ranks share; NULL for one rank alone. */
enum taut_status gpu_connect(struct gpu *g, const struct gpu_card *cards, void *table);
/* @mem: gpu_host_bytes() of zeroed memory that all ranks share, to outlive @g. @island_of: ranks with the same number
 * have reached each other; NULL: none has. */
enum taut_status gpu_connect_host(struct gpu *g, const struct gpu_card *cards, void *mem, const int *island_of);
size_t gpu_host_bytes(int nranks);
/* The part of @mem that is this rank's, so that it can be the first to touch it. */
void *gpu_host_part(const struct gpu *g, void *mem, size_t *len);
/* @mem: gpu_far_bytes() of zeroed memory of this rank. @t: threads, spin_ns and
 * sockets, which are its own in any case. @island_of: as above. */
enum taut_status gpu_connect_far(struct gpu *g, const struct gpu_card *cards, void *mem, struct tunnel_args *t,
				 const int *island_of);
size_t gpu_far_bytes(int nranks);
/* From now on calls may name an algorithm; on all ranks, after they have connected. @node_of (of islands, where there
 * are such) and @order, which may be NULL: as in sched_req; they outlive @g. */
enum taut_status gpu_allow_schedules(struct gpu *g, const int *node_of, int nnodes, const int32_t *order);
/* How its ranks exchange data: the same on all. */
enum gpu_way { GPU_WAY_PEERS, GPU_WAY_HOST, GPU_WAY_FAR };
enum gpu_way gpu_way(const struct gpu *g);
/* The rank to which a connection broke, with why; -1: none did. */
int gpu_broken(const struct gpu *g, char *why, size_t len);
/* How far the calls of this rank have come. */
struct gpu_progress {
	uint32_t begun, ended;			 /* number of the last call */
	uint64_t messages_begun, messages_ended; /* blocks of launches */
};
/* TAUT_ERR_SYS when the GPU (this process's context on it) does not work any more. *@known false: it does not answer
 * now. Any one thread besides that of the calls. */
enum taut_status gpu_look(struct gpu *g, struct gpu_progress *out, bool *known);
/* Changes with every call that was made, from 0; *@graphs: some are in a graph, whose replays do not count. */
uint64_t gpu_calls(const struct gpu *g, bool *graphs);
/* GPU memory that the peers have mapped on return, where they can within @ms; zero. */
enum taut_status gpu_segment_alloc(struct gpu *g, void **out, size_t len, int ms);
/* The peers let go of it first. */
void gpu_segment_free(struct gpu *g, void *p);
/* share_publish(), share_keep() and share_forget(), where there are peers. */
bool gpu_publish(struct gpu *g, const void *p, size_t len, int ms);
enum taut_status gpu_keep(struct gpu *g, const void *p, size_t len);
void gpu_forget(struct gpu *g, const void *p, size_t len);
/* Bytes of GPU memory that @g holds. */
size_t gpu_bytes(const struct gpu *g);
enum taut_status gpu_collective(struct gpu *g, const struct gpu_request *op, void *stream);
/* All at once: none of @list waits for another, but those between the same two ranks, which match in order.
 * @list is put in another order. */
enum taut_status gpu_messages(struct gpu *g, struct message *list, size_t n, void *stream);
/* Until all on @stream is done. */
enum taut_status gpu_wait(struct gpu *g, void *stream);
/* TAUT_ERR_MISMATCH with *@peer set when a kernel has met another call there. */
enum taut_status gpu_check(const struct gpu *g, int *peer);
/* Has a receive met another message than its own? Then its kernel has ended. */
bool gpu_met_odd(const struct gpu *g, struct gpu_odd *out);
/* Kernels that wait end; what they were to write is not defined. Any thread. */
void gpu_stop(struct gpu *g);
/* Waits for its kernels; no peer may use its memory any more. NULL is allowed. */
void gpu_close(struct gpu *g);

#endif
