/* SPDX-License-Identifier: Apache-2.0 */
/* taut: collective communication between the ranks of a group.
 *
 * A rank is one member of a communicator: a process, or one thread of a process that
 * holds several. Every call returns a status; when it is not TAUT_OK,
 * taut_error_message() gives, in the calling thread, one sentence that names what
 * failed, the value seen and the cure.
 *
 * Threads: a communicator is used by one thread at a time; different communicators may
 * be used at once from different threads. taut_comm_abort() may be called from any
 * thread at any time. Handles are released with their own destroy call; NULL is allowed.
 * The child of a fork() may form groups of its own, but not use its parent's: calls on those
 * communicators and streams fail with TAUT_ERR_ARG there, and release leaves them alone.
 */
#ifndef TAUT_TAUT_H
#define TAUT_TAUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_VERSION_MAJOR 0
#define TAUT_VERSION_MINOR 1
#define TAUT_VERSION_PATCH 0

#if defined(__GNUC__)
#define TAUT_API __attribute__((visibility("default")))
#else
#define TAUT_API
#endif

enum taut_status {
	TAUT_OK = 0,
	TAUT_ERR_ARG,	      /* an argument is out of its range */
	TAUT_ERR_NOMEM,	      /* memory could not be had */
	TAUT_ERR_SYS,	      /* a system call failed */
	TAUT_ERR_NET,	      /* a connection could not be made or broke */
	TAUT_ERR_TIMEOUT,     /* a deadline passed */
	TAUT_ERR_PEER,	      /* another rank is dead */
	TAUT_ERR_MISMATCH,    /* the ranks did not make the same call */
	TAUT_ERR_ABORTED,     /* taut_comm_abort() was called on some rank */
	TAUT_ERR_AUTH,	      /* a peer does not know the secret */
	TAUT_ERR_CONFIG,      /* a setting has a bad value */
	TAUT_ERR_UNSUPPORTED, /* not possible on this machine or in this build */
	TAUT_ERR_BUSY,	      /* not finished yet (taut_stream_query) */
	TAUT_ERR_INTERNAL,    /* a bug in taut */
};

/* Element types. The first twelve have the numbers that NCCL gives them. */
enum taut_type {
	TAUT_INT8 = 0,
	TAUT_UINT8,
	TAUT_INT32,
	TAUT_UINT32,
	TAUT_INT64,
	TAUT_UINT64,
	TAUT_FLOAT16,
	TAUT_FLOAT32,
	TAUT_FLOAT64,
	TAUT_BFLOAT16,
	TAUT_FLOAT8_E4M3, /* OCP, no infinity, NaN 0x7f; sums saturate to the largest finite value */
	TAUT_FLOAT8_E5M2,
	TAUT_INT16,
	TAUT_UINT16,
	TAUT_TYPE_COUNT,
};

/* Reductions. Bitwise ones are for integer types. Integer sums wrap; an integer
 * average is the sum divided towards zero. Values from TAUT_OP_USER up are made by
 * taut_op_create_premul_sum(). */
enum taut_op {
	TAUT_SUM = 0,
	TAUT_PROD,
	TAUT_MAX,
	TAUT_MIN,
	TAUT_AVG,
	TAUT_BAND,
	TAUT_BOR,
	TAUT_BXOR,
	TAUT_OP_COUNT,
	TAUT_OP_USER = 64,
	TAUT_OP_LAST = 1 << 30, /* keeps the enum an int */
};

struct taut_comm;   /* one rank's membership of a group; one thread at a time */
struct taut_stream; /* an ordered queue of host work with a worker thread of its own */

#define TAUT_ID_BYTES 128
#define TAUT_ID_TEXT_BYTES 257 /* hexadecimal digits and the final zero */
#define TAUT_ANY_TAG (-1)      /* taut_recv: whatever tag comes next from that rank */
#define TAUT_NO_COLOR (-1)     /* taut_comm_split: be in no new group */

/* Names the group that is to form and holds the secret that admits its members. Carry
 * it to the other ranks over a channel that only they can read. */
struct taut_id {
	unsigned char bytes[TAUT_ID_BYTES];
};

/* Options of the calls that create a communicator; zero is the default everywhere. */
struct taut_comm_opts {
	size_t size;	    /* sizeof(struct taut_comm_opts) */
	const char *name;   /* in logs and errors; copied */
	int timeout_ms;	    /* deadline for all ranks to join; 0: TAUT_JOIN_TIMEOUT_MS; less is an error */
	const int *exclude; /* taut_comm_shrink: ranks to leave out besides the dead ones */
	int num_exclude;
};

/* --- Messages and names: no state, any thread. --- */

/* major * 10000 + minor * 100 + patch. */
TAUT_API int taut_version(void);
/* "TAUT_ERR_ARG" and so on; never NULL. */
TAUT_API const char *taut_status_name(enum taut_status status);
/* The sentence of this thread's last failed call; "" if none failed. Valid until this
 * thread's next call. */
TAUT_API const char *taut_error_message(void);
/* Bytes of one element; 0 for a value that is no type. */
TAUT_API size_t taut_type_size(enum taut_type type);
TAUT_API const char *taut_type_name(enum taut_type type);
TAUT_API const char *taut_op_name(enum taut_op op);

/* --- Communicators --- */

/* Make a new id whose meeting point is this process: it must live until all have joined. It is mostly rank 0, but may
 * be another rank or none: then it sends the others on to rank 0. */
TAUT_API enum taut_status taut_id_create(struct taut_id *out);
TAUT_API enum taut_status taut_id_to_text(char out[TAUT_ID_TEXT_BYTES], const struct taut_id *id);
TAUT_API enum taut_status taut_id_from_text(struct taut_id *out, const char *text);

/* Join group @id as @rank of @size; blocks until all have joined. On success *@out is
 * the caller's. TAUT_ERR_TIMEOUT names the ranks that are missing; *@out is then
 * untouched. @opts may be NULL. */
TAUT_API enum taut_status taut_comm_create(struct taut_comm **out, const struct taut_id *id, int rank, int size,
					   const struct taut_comm_opts *opts);
/* The same with rank, size and meeting point from the launcher: `taut run`, torchrun,
 * Slurm, Open MPI, MPICH, or TAUT_RANK, TAUT_SIZE and TAUT_RENDEZVOUS (host:port or
 * file:PATH) set by hand. With none of them the group has this one rank. */
TAUT_API enum taut_status taut_comm_create_env(struct taut_comm **out, const struct taut_comm_opts *opts);
/* Collective: ranks of one @color (>= 0) form a group ordered by @key, then by rank.
 * TAUT_NO_COLOR: *@out is NULL. */
TAUT_API enum taut_status taut_comm_split(struct taut_comm **out, struct taut_comm *comm, int color, int key,
					  const struct taut_comm_opts *opts);
/* Collective: the same group with connections of its own. */
TAUT_API enum taut_status taut_comm_dup(struct taut_comm **out, struct taut_comm *comm,
					const struct taut_comm_opts *opts);
/* Collective among the ranks that live and are not in opts->exclude: a new group
 * without the others, in the same order. Works from any state of @comm, which stays the
 * caller's and is good for taut_comm_destroy() only if it had failed. */
TAUT_API enum taut_status taut_comm_shrink(struct taut_comm **out, struct taut_comm *comm,
					   const struct taut_comm_opts *opts);
/* End every running and later call on @comm, on every rank, with TAUT_ERR_ABORTED. Any
 * thread; returns at once. */
TAUT_API enum taut_status taut_comm_abort(struct taut_comm *comm);
/* Release; not collective, but calls of other ranks that need this rank must be over. */
TAUT_API void taut_comm_destroy(struct taut_comm *comm);

TAUT_API int taut_comm_rank(const struct taut_comm *comm);
TAUT_API int taut_comm_size(const struct taut_comm *comm);
/* Rank and number of ranks on this machine. */
TAUT_API int taut_comm_local_rank(const struct taut_comm *comm);
TAUT_API int taut_comm_local_size(const struct taut_comm *comm);
/* TAUT_OK while the group works, else why it failed (the sentence is this thread's error
 * message then). Any thread. When a stream has come past a call on GPU memory, it says whether that failed. */
TAUT_API enum taut_status taut_comm_status(struct taut_comm *comm);

/* --- Collectives ---
 * Every rank calls with the same count, type, op and root. @count is in elements; 0 is
 * allowed. Buffers may have any alignment and may not overlap except where "in place"
 * says so. @stream NULL: complete on return. Else a struct taut_stream: queued, buffers
 * stay the library's until the stream has come past the call; an error shows in
 * taut_stream_wait(). The result has the same bits on every rank.
 *
 * GPU memory: where a CUDA context was current when the communicator was created (on every rank, or on
 * none), @in and @out may be memory of that GPU, and @stream is a CUDA stream then: the call returns at once and
 * may be captured in a CUDA graph. @stream NULL is the default stream, waited for. One thread
 * that has several GPUs makes their calls in a group.
 *
 * Calls that differ between ranks end the group with TAUT_ERR_MISMATCH on every rank, with one
 * sentence that says who called what. A rank that only sends in a call (the root of a broadcast, say)
 * may have returned from it by then: it is told by its next call that waits for others, or by
 * taut_comm_status(). A rank that has not made the call yet is waited for, and after some seconds named
 * in the log; one that has left the group or died is an error. */

/* out[i] = op over ranks of in[i]. In place: @in == @out. */
TAUT_API enum taut_status taut_all_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op op,
					  struct taut_comm *comm, void *stream);
/* out = the @count elements of every rank, in rank order. In place: @in == @out + rank * count. */
TAUT_API enum taut_status taut_all_gather(const void *in, void *out, size_t count, enum taut_type type,
					  struct taut_comm *comm, void *stream);
/* @in has size * @count elements; rank r gets the reduced block r. In place: @out == @in + rank * count. */
TAUT_API enum taut_status taut_reduce_scatter(const void *in, void *out, size_t count, enum taut_type type,
					      enum taut_op op, struct taut_comm *comm, void *stream);
/* @in is read on @root only. In place: @in == @out. */
TAUT_API enum taut_status taut_broadcast(const void *in, void *out, size_t count, enum taut_type type, int root,
					 struct taut_comm *comm, void *stream);
/* @out is written on @root only. In place on root: @in == @out. */
TAUT_API enum taut_status taut_reduce(const void *in, void *out, size_t count, enum taut_type type, enum taut_op op,
				      int root, struct taut_comm *comm, void *stream);
/* Root's @out gets size * @count elements. In place on root: @in == @out + root * count. */
TAUT_API enum taut_status taut_gather(const void *in, void *out, size_t count, enum taut_type type, int root,
				      struct taut_comm *comm, void *stream);
/* Root's @in has size * @count elements. In place on root: @out == @in + root * count. */
TAUT_API enum taut_status taut_scatter(const void *in, void *out, size_t count, enum taut_type type, int root,
				       struct taut_comm *comm, void *stream);
/* Block r of @in goes to rank r; block s of @out comes from rank s; @count elements each. In place: @in == @out. */
TAUT_API enum taut_status taut_all_to_all(const void *in, void *out, size_t count, enum taut_type type,
					  struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_barrier(struct taut_comm *comm, void *stream);

/* Forms with a count and a displacement (both in elements) for every rank. counts[] of
 * the all-gather, reduce-scatter, gather (on root) and scatter (on root) forms hold size
 * entries, the same on every rank where they are given on every rank. A NULL displs[]
 * means blocks packed in rank order. The arrays are copied. */
TAUT_API enum taut_status taut_all_gather_v(const void *in, void *out, const size_t counts[], const size_t displs[],
					    enum taut_type type, struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_reduce_scatter_v(const void *in, void *out, const size_t counts[], enum taut_type type,
						enum taut_op op, struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_all_to_all_v(const void *in, const size_t in_counts[], const size_t in_displs[],
					    void *out, const size_t out_counts[], const size_t out_displs[],
					    enum taut_type type, struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_gather_v(const void *in, size_t in_count, void *out, const size_t counts[],
					const size_t displs[], enum taut_type type, int root, struct taut_comm *comm,
					void *stream);
TAUT_API enum taut_status taut_scatter_v(const void *in, const size_t counts[], const size_t displs[], void *out,
					 size_t out_count, enum taut_type type, int root, struct taut_comm *comm,
					 void *stream);

/* --- Point to point --- @tag >= 0. Messages of one tag between two ranks keep their order.
 *
 * On GPU memory the messages between two ranks are matched in the order of the calls, whatever their tags: a receive
 * whose tag or length is not that of the next message is TAUT_ERR_MISMATCH. A send to oneself and its receive are
 * calls of one group. An empty message needs a buffer too, which says that it is of GPU memory. In a group the
 * sends and receives of a communicator and stream go together, before its collectives. */
TAUT_API enum taut_status taut_send(const void *buf, size_t count, enum taut_type type, int peer, int tag,
				    struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_recv(void *buf, size_t count, enum taut_type type, int peer, int tag,
				    struct taut_comm *comm, void *stream);
TAUT_API enum taut_status taut_sendrecv(const void *send_buf, size_t send_count, int dst, int send_tag, void *recv_buf,
					size_t recv_count, int src, int recv_tag, enum taut_type type,
					struct taut_comm *comm, void *stream);

/* Calls of this thread between start and end run as one: sends and receives in any
 * pattern cannot deadlock. Nests; the outermost end runs them and returns the first
 * error. */
TAUT_API enum taut_status taut_group_start(void);
TAUT_API enum taut_status taut_group_end(void);

/* --- Operations of one's own --- */

/* A sum in which this rank's input is first multiplied by *@scalar (of @type, read now;
 * ranks may give different ones). Valid on @comm only. */
TAUT_API enum taut_status taut_op_create_premul_sum(enum taut_op *out, const void *scalar, enum taut_type type,
						    struct taut_comm *comm);
TAUT_API void taut_op_destroy(enum taut_op op, struct taut_comm *comm);

/* --- Streams of host work --- */
TAUT_API enum taut_status taut_stream_create(struct taut_stream **out);
/* Waits for the queued work, then releases. */
TAUT_API void taut_stream_destroy(struct taut_stream *stream);
/* Block until all that was queued is done; the first error of the work since the last
 * wait is returned once. */
TAUT_API enum taut_status taut_stream_wait(struct taut_stream *stream);
/* TAUT_ERR_BUSY while work is queued or running, else as taut_stream_wait(). */
TAUT_API enum taut_status taut_stream_query(struct taut_stream *stream);

/* --- Memory that peers can address --- */

/* Collective: @len bytes (the same on every rank), page aligned, that every rank of
 * @comm on this machine can address: collectives on it need no staging copy. GPU memory where @comm has GPUs. */
TAUT_API enum taut_status taut_mem_alloc(void **out, size_t len, struct taut_comm *comm);
/* Collective; @ptr as taut_mem_alloc() gave it. */
TAUT_API enum taut_status taut_mem_free(void *ptr, struct taut_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
