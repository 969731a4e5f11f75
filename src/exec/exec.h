/* SPDX-License-Identifier: Apache-2.0 */
/* Runs schedules and point-to-point messages on host memory.
 *
 * A task is one collective (one schedule, run over slices on one or more channels) or one
 * send or receive. exec_run() advances any number of tasks, of one or several communicators, in turn, each
 * as far as it can go without waiting, until all are done: nothing in here blocks but the wait
 * when no task moved, which spins, then yields, then sleeps on the rank's bell.
 *
 * The caller (comm) owns everything a task points to until exec_run() returns. One thread
 * runs the tasks of a communicator at a time.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "exec/reduce.h"
#include "sched/cost.h"
#include "sched/sched.h"
#include "wire/bell.h"
#include "wire/wire.h"

#define EXEC_MAX_CHANNELS 16
#define EXEC_REF_BYTES ((size_t)16 << 10) /* from here on one copy by the kernel beats two through a slot */
#define EXEC_MAX_PENDING 32		  /* sends by reference that one task may have under way */

/* Both directions between this rank and a peer on one channel; made at first use. */
struct exec_link {
	int peer, channel;
	struct wire_conn *tx, *rx;
	const struct exec_task *sender; /* whose message is on its way: those of a link go one after the other */
};

/* One local rank's place in memory that all ranks of the machine share. */
struct exec_shared_line {
	_Alignas(64) _Atomic uint32_t epoch; /* barriers passed */
	_Alignas(64) _Atomic uint64_t call;  /* the call that the words below belong to, with its signature */
	_Atomic int64_t in_seg, in_off, out_seg, out_off; /* where its buffers lie; see comm/mem.c */
};

/* What a communicator lends to its tasks. */
struct exec_net {
	int rank, nranks;
	struct wire_bell *bell;
	const _Atomic int *error; /* enum taut_status; not TAUT_OK once the group has failed */
	void *ctx;
	/* Sets link->tx (dials; may take a moment). */
	enum taut_status (*attach_tx)(void *ctx, struct exec_link *link);
	/* Sets link->rx if the peer has dialled; else leaves it NULL, which is no failure. */
	enum taut_status (*attach_rx)(void *ctx, struct exec_link *link);
	/* A task has waited for stall_ms, or has met a message of another call. */
	void (*stalled)(void *ctx, bool mismatch);
	/* (optional) A message to or from @peer has waited for as long: is that rank still there? */
	void (*quiet)(void *ctx, int peer);
	uint32_t asked;			/* so that each waiting message gets its turn */
	struct exec_link *const *links; /* all of the communicator, for those wires that need polls */
	size_t nlinks;
	bool polls; /* some wire has poll() */
	uint32_t spin_ns, stall_ms;
	struct exec_shared_line *shared; /* by rank; NULL: none */
	uint32_t epoch;			 /* this rank's barriers so far */
};

/* A schedule with its connections resolved; made once, run often. */
struct exec_plan {
	struct sched *sched;
	struct exec_link **links; /* [channel][peer entry of the schedule] */
	int channels;
	enum sched_proto proto;
	size_t piece_bytes; /* limit of one message */
	size_t ll_bytes;    /* v-forms: messages up to this go by ll */
	bool vectors;
};

/* Where the blocks of a buffer lie, in elements. Regular: counts NULL, every block @block
 * long. Else counts[b] and displs[b]. */
struct exec_layout {
	size_t block;
	const size_t *counts, *displs;
};

struct exec_call {
	const struct exec_plan *plan;
	const unsigned char *in;
	unsigned char *out;
	unsigned char *scratch; /* scratch_chunks pieces a channel; NULL when the schedule has none */
	struct exec_layout in_layout, out_layout;
	size_t elem;
	const struct reduce_kernels *red; /* NULL for collectives that do not reduce */
	bool nt;			  /* results are too big for the caches */
	bool by_ref; /* messages are stored as they are, so that the receiver may take them in one copy */
	uint32_t sig;
	/* mapped schedules: where the buffers of each rank are addressable, by rank */
	unsigned char *const *peer_in, *const *peer_out;
};

enum exec_kind { EXEC_COLL, EXEC_SEND, EXEC_RECV };

/* Point to point; see p2p.c for the messages. */
struct exec_msg {
	struct exec_link *link;	  /* NULL: to or from this rank itself */
	struct exec_inbox *inbox; /* of the peer */
	void *buf;
	size_t len;
	int tag; /* -1: any */
	size_t at;
	bool started;
	struct exec_task *next; /* receive posted after this one */
};

struct exec_chan {
	uint32_t pc; /* step */
	int32_t run; /* chunk within the step's run */
	uint64_t slice, nslices;
	size_t first, end; /* the channel's range of a block, in elements (regular layouts) */
	uint32_t sent;	   /* messages of this piece already posted */
	uint32_t got;	   /* of an n-ary step: messages in hand */
	bool computed;	   /* this piece's value is stored, or in tmp */
	bool in_tmp;
	bool waiting;	    /* a barrier was announced */
	unsigned char *tmp; /* ll messages, values without a home; lazily */
	size_t tmp_len;
};

struct exec_pending {
	struct wire_conn *tx;
	const unsigned char *from, *to;
};

struct exec_task {
	enum exec_kind kind;
	struct exec_net *net;
	bool done;
	struct exec_task *after; /* not before this one is done; NULL: at once */
	struct exec_call call;
	struct exec_msg msg;
	size_t piece;		    /* elements of a chunk in a slice */
	bool merge;		    /* runs are contiguous everywhere and go as one message */
	uint32_t nopen, shape_open; /* channels with work left, and at the start */
	uint32_t npending;
	struct exec_pending pending[EXEC_MAX_PENDING];
	struct exec_chan chan[EXEC_MAX_CHANNELS];
};

/* --- Plans --- */
/* The scratch bytes that one call needs. */
size_t exec_scratch_bytes(const struct exec_call *call);
/* Prepares @t, which was zeroed before its first use; what it holds (working memory, the shape
 * of the last call) serves the next until exec_task_cleanup(). */
void exec_coll_init(struct exec_task *t, struct exec_net *net, const struct exec_call *call);
void exec_send_init(struct exec_task *t, struct exec_net *net, const struct exec_msg *msg);
void exec_recv_init(struct exec_task *t, struct exec_net *net, const struct exec_msg *msg);
void exec_task_cleanup(struct exec_task *t);
/* Of a task of exec_recv_init() that will not run: its peer's inbox forgets it. */
void exec_recv_cleanup(struct exec_task *t);

/* Until all are done, or the first failure: then *@failed is whose it was, which is no longer usable. The tasks of the
 * others may go on by another call. */
enum taut_status exec_run(struct exec_task *const *tasks, size_t n, struct exec_net **failed);

/* Messages from one peer that came before their receive; see p2p.c. */
struct exec_inbox;
enum taut_status exec_inbox_create(struct exec_inbox **out);
void exec_inbox_destroy(struct exec_inbox *box);

/* --- between the files of this room --- */
enum exec_step { EXEC_MOVED, EXEC_BLOCKED, EXEC_FAILED, EXEC_DIFFERS };

struct exec_span {
	unsigned char *p; /* NULL: no such reference */
	size_t len;
};
/* The piece of @ref + @run in the channel's present slice. */
struct exec_span exec_span_of(const struct exec_task *t, const struct exec_chan *c, struct sched_ref ref, int run);
/* Bytes of part @part of a block in that slice (regular layouts). */
size_t exec_part_len(const struct exec_task *t, const struct exec_chan *c, int part);
/* The message step, the mapped steps and the messages: advance one piece. */
enum exec_step exec_msg_piece(struct exec_task *t, struct exec_chan *c, const struct sched_step *s);
enum exec_step exec_mapped_piece(struct exec_task *t, struct exec_chan *c, const struct sched_step *s);
enum exec_step exec_p2p(struct exec_task *t, enum taut_status *st);
/* True when no pending send reads [p, p + len). */
bool exec_may_write(struct exec_task *t, const unsigned char *p, size_t len);
unsigned char *exec_tmp(struct exec_chan *c, size_t len);

#endif
