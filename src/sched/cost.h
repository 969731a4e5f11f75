/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the time of a schedule and picks the cheapest candidate.
 *
 * The machine is a handful of measured numbers. The programs of a few representative ranks
 * (of all, in small groups) are followed through time: posts, waiting for the partner, bytes
 * moved, copied and reduced, slice by slice; the slowest rank counts. Every number can come
 * from a tuning file that `taut tune` writes, which also may hold measured best choices that
 * win over the model.
 *
 * All results follow from the query alone and are the same on every rank, if the query is:
 * machine, tune and filter must be what all ranks agreed on. Nothing is kept between calls;
 * any thread. */
#ifndef SCHED_COST_H
#define SCHED_COST_H

#include <stddef.h>

#include "sched/sched.h"

enum sched_proto { PROTO_LL, PROTO_BULK, PROTO_COUNT };
const char *sched_proto_name(enum sched_proto proto);

/* Buffers of a call that stay in the caches move faster than those that do not. */
enum cost_level { COST_CACHE, COST_MEMORY, COST_LEVELS };

/* One kind of link between ranks: 0 inside a machine, 1 between machines. */
struct cost_link {
	double post_us[PROTO_COUNT];		  /* to hand over a message, without its bytes; taking one: half */
	double trip_us[PROTO_COUNT];		  /* until the partner sees it */
	double byte_us[PROTO_COUNT][COST_LEVELS]; /* per byte moved, sender and receiver together */
	size_t ll_max;				  /* largest message of the ll protocol, bytes */
	size_t slot_bytes;			  /* largest message of the bulk protocol */
};
struct cost_machine {
	struct cost_link link[2];
	double copy_byte_us[COST_LEVELS];   /* local, per byte of result */
	double reduce_byte_us[COST_LEVELS]; /* local, of two operands, per byte of result */
	double map_byte_us[COST_LEVELS];    /* per byte that a mapped step reads or writes */
	double barrier_us;		    /* mapped barrier of two ranks */
	double switch_us;		    /* handing the core to another rank, when ranks exceed cores */
	size_t cache_bytes; /* calls up to this size move at COST_CACHE, from 8 times it at COST_MEMORY */
	int cores;	    /* usable by the ranks of one machine */
	bool one_wire;	    /* ranks of a machine use link 1 too (TAUT_WIRE=tcp) */
};
/* Reasonable numbers for a machine that nobody measured; cores: those of this process. */
void cost_machine_default(struct cost_machine *m);
/* A core copies what no cache holds in @byte_us for a byte: all that moves at the speed of memory
 * scales with that, within reason, but is not faster than in the caches. */
void cost_machine_memory(struct cost_machine *m, double byte_us);
/* A message from one rank to another, of a machine or @between two, when nothing else goes on; and a copy. */
double cost_message_us(const struct cost_machine *m, bool between, size_t bytes);
double cost_copy_us(const struct cost_machine *m, size_t bytes);

struct cost_choice {
	const struct sched_algo *algo;
	enum sched_proto proto;
	int channels;
	size_t piece_bytes; /* largest message; never above what every link in use takes with this protocol. Mapped
			       schedules have no messages: PROTO_BULK, SIZE_MAX / 2 */
	double us;	    /* predicted */
	bool measured;	    /* came from the tuning file */
};

/* --- The tuning file: lines of text, # starts a comment.
 *	taut.tune 1
 *	machine NAME VALUE
 *	best COLL NRANKS NODES BYTES_LO BYTES_HI MAPPED ALGO PROTO CHANNELS PIECE
 * BYTES_LO and BYTES_HI (* for no end) both belong to the range; MAPPED is 0 or 1 (a line with 1 whose
 * algorithm is not mapped says: as without mapped buffers); PIECE 0 is the largest that the links take. A `best` line
 *serves a call of the same collective, size and kind of buffer, on one machine or on several as the line says, whose
 *rank count is at most a factor of 2 away; the nearest rank count wins (by ratio, the smaller of two equally near),
 *then the nearest number of machines, then the earlier line. A line whose algorithm does not fit the call or is
 *filtered out is passed over. Where ranks of a machine use the wire between machines (one_wire), each counts as a
 *machine. --- */
struct tune;
#define TUNE_FILE_MAX (1u << 20)
struct tune_best {
	enum sched_coll coll;
	int nranks, nodes;
	size_t lo, hi; /* SIZE_MAX: no end */
	bool mapped;
	const struct sched_algo *algo;
	enum sched_proto proto;
	int channels;
	size_t piece_bytes;
};
/* An empty one, to be filled with tune_set() and tune_add(). */
enum taut_status tune_create(struct tune **out);
/* @name (of the file) is for messages only. TAUT_ERR_CONFIG with line and column when the
 * text is broken. The communicator carries rank 0's text to all ranks. */
enum taut_status tune_parse(struct tune **out, const char *name, const char *text, size_t len);
/* The text that tune_parse() reads back to the same; zero-terminated, the caller frees it
 * with mem_free(). @len without the zero. */
enum taut_status tune_text(char **out, size_t *len, const struct tune *t);
/* Where the file is: @path, or if that is empty $XDG_CACHE_HOME/taut/taut.tune, else
 * ~/.cache/taut/taut.tune. "" when neither variable is set. */
enum taut_status tune_path(char *out, size_t len, const char *path);
/* *@out NULL when @path is "" and there is no file. A file that @path names must exist. */
enum taut_status tune_load(struct tune **out, const char *path);
/* Whether tune_save() will be able to, for those who work long before it: makes the folder. */
enum taut_status tune_save_check(const char *path);
/* Replaces the file at once, making its folder if need be. Only a regular file is replaced. */
enum taut_status tune_save(const struct tune *t, const char *path);
void tune_free(struct tune *t);
/* Takes all numbers of @m but cores, one_wire, slot_bytes and ll_max, which follow from the
 * machine at hand and the settings. */
void tune_set(struct tune *t, const struct cost_machine *m);
enum taut_status tune_add(struct tune *t, const struct tune_best *best);
/* Line @i, from 0; NULL past the last. */
const struct tune_best *tune_line(const struct tune *t, size_t i);
/* The machine numbers of the file, if it has them, over those in *@m. @t may be NULL. */
void tune_apply(const struct tune *t, struct cost_machine *m);

/* --- What may be chosen: TAUT_ALGO and TAUT_PROTO, parsed. Lists separated by ";", each
 * `[COLLECTIVE:][^]NAME,NAME...`; the last that names a collective counts for it, else the
 * last without one. Case does not matter; NCCL's names are known too, and those that taut
 * has nothing for select nothing.
 *
 * A list without a collective is a wish: where nothing of it fits (a collective the
 * algorithm does not do, one machine for two_level ...) the choice is free and a line at
 * TAUT_LOG=info says so. A list for a collective is an order: TAUT_ERR_CONFIG. --- */
struct cost_filter;
/* TAUT_ERR_CONFIG for an unknown name, with the nearest one and the list. NULL is "". */
enum taut_status cost_filter_parse(struct cost_filter **out, const char *algo, const char *proto);
void cost_filter_free(struct cost_filter *f);
/* Is @algo one of those named for @coll, or is none named? */
bool cost_filter_allows(const struct cost_filter *f, enum sched_coll coll, const struct sched_algo *algo);

struct cost_query {
	struct sched_req req; /* req.rank is ignored */
	size_t bytes;	      /* of the largest buffer of a rank (nccl-tests' size) */
	size_t elem;	      /* bytes of one element; 0 counts as 1 */
	bool vectors;	      /* a v-form */
	bool mapped;	      /* all ranks can address all buffers */
	int channels;	      /* TAUT_CHANNELS; 0: chosen */
	const struct cost_machine *machine;
	const struct tune *tune;	  /* NULL: none */
	const struct cost_filter *filter; /* NULL: all */
};
/* The predicted time of one candidate, in us, with the best pieces for it.
 * TAUT_ERR_UNSUPPORTED when it has no schedule for the query. */
enum taut_status cost_predict(double *out_us, const struct cost_query *q, const struct sched_algo *algo,
			      enum sched_proto proto);
/* The predicted time of one way of doing it: algorithm, protocol, channels and piece of @way
 * (the rest is ignored). TAUT_ERR_UNSUPPORTED as above. */
enum taut_status cost_price(double *out_us, const struct cost_query *q, const struct cost_choice *way);
/* The cheapest that is allowed and fits. The same on every rank, as it depends only on
 * what all ranks share. With @q->mapped either a mapped schedule or the very choice without
 * it, so that a rank that does not know yet whether all buffers are mapped may go on. TAUT_ERR_CONFIG when the filter
 * leaves nothing: names the filter and what would fit. */
enum taut_status cost_choose(struct cost_choice *out, const struct cost_query *q);
/* The choice and the runner-up in one line, for TAUT_LOG=info: "all_reduce 1048576 bytes, 4
 * ranks: two_shot bulk, 412 us predicted (next: ring bulk 498 us)". Costs more than
 * cost_choose(). @buf is cut, never overrun; the length without the cut is returned, 0 when
 * there is no choice. */
size_t cost_explain(char *buf, size_t len, const struct cost_query *q);

#endif
