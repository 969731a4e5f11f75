/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the time of a schedule and picks the cheapest candidate.
 *
 * The machine is a handful of measured numbers; the time of a rank's program is summed
 * over its steps (post, wait for the partner, bytes copied or reduced), the slowest of a
 * few representative ranks counts. Every number can come from a tuning file that `taut
 * tune` writes, which also may hold measured best choices that win over the model. */
#ifndef SCHED_COST_H
#define SCHED_COST_H

#include "sched/sched.h"

enum sched_proto { PROTO_LL, PROTO_BULK, PROTO_COUNT };
const char *sched_proto_name(enum sched_proto proto);

/* One kind of link between ranks: 0 inside a machine, 1 between machines. */
struct cost_link {
	double post_us[PROTO_COUNT];   /* to hand over or take a message, without its bytes */
	double trip_us[PROTO_COUNT];   /* until the partner sees it */
	double byte_us[PROTO_COUNT];   /* per byte moved, sender and receiver together */
	double small_byte_us;	       /* per byte while the message fits the nearest cache */
	size_t ll_max;		       /* largest message of the ll protocol, bytes */
	size_t slot_bytes;	       /* largest piece of a bulk message */
};
struct cost_machine {
	struct cost_link link[2];
	double copy_byte_us, reduce_byte_us; /* local, per byte of result */
	double map_byte_us;		     /* per byte that a mapped step reads or writes */
	double barrier_us;		     /* mapped barrier of two ranks */
	double switch_us;		     /* handing the core to another rank, when ranks exceed cores */
	int cores;			     /* usable by the ranks of one machine */
};
/* Reasonable numbers for a machine that nobody measured. */
void cost_machine_default(struct cost_machine *m);

struct cost_choice {
	const struct sched_algo *algo;
	enum sched_proto proto;
	int channels;
	size_t piece_bytes; /* 0: the connection's slot */
	double us;	    /* predicted */
	bool measured;	    /* came from the tuning file */
};

struct tune;
/* @path "" : the file in the cache folder ($XDG_CACHE_HOME or ~/.cache, taut/tune.json). *@out NULL
 * when there is no file; TAUT_ERR_CONFIG with line and column when it is broken. */
enum taut_status tune_load(struct tune **out, const char *path);
void tune_free(struct tune *t);
/* The machine numbers of the file, if it has them, over those in *@m. */
void tune_apply(const struct tune *t, struct cost_machine *m);

/* What may be chosen: TAUT_ALGO and TAUT_PROTO, parsed. */
struct cost_filter;
enum taut_status cost_filter_parse(struct cost_filter **out, const char *algo, const char *proto);
void cost_filter_free(struct cost_filter *f);

struct cost_query {
	struct sched_req req;
	size_t bytes;	      /* of the largest buffer of a rank (nccl-tests' size) */
	size_t elem;	      /* bytes of one element */
	bool vectors;	      /* a v-form */
	bool mapped;	      /* all ranks can address all buffers */
	const struct cost_machine *machine;
	const struct tune *tune;	  /* NULL: none */
	const struct cost_filter *filter; /* NULL: all */
};
/* The predicted time of one candidate, in us. */
enum taut_status cost_predict(double *out_us, const struct cost_query *q, const struct sched_algo *algo,
			      enum sched_proto proto);
/* The cheapest that is allowed and fits. The same on every rank, as it depends only on
 * what all ranks share. TAUT_ERR_CONFIG when the filter leaves nothing: names the filter
 * and what would fit. */
enum taut_status cost_choose(struct cost_choice *out, const struct cost_query *q);

#endif
