/* SPDX-License-Identifier: Apache-2.0 */
/* The one door between C and the kernels: what a launch is given. Read by gcc, g++ and nvcc.
 *
 * Memory of a rank that its peers may address ("mail"), at the same offsets on every rank:
 *   acks    a line for each rank: the calls that it is known to have begun
 *   posts   a line for each block and rank: "I have finished", and of the first block where the rank's buffers lie
 *   ll      for each rank two areas (calls of even and odd number): messages with their flags
 *   ll128   the same; apart, so that what is data of one is never taken for a flag of the other
 *   stage   for each block a piece in and a piece out, for buffers that peers cannot address; or slots of channels
 *   push    words of the channels
 *   lanes   for each other rank lines and slots for what it sends to this one: messages.cu
 *
 * Calls of a communicator are numbered (epoch) by the kernels themselves, in epochs[], so that
 * the replay of a CUDA graph counts too. Every launch counts all of epochs[], but that of messages,
 * which not all ranks make: those count the slots of each lane. */
#ifndef CUDA_KERNELS_KERNELS_H
#define CUDA_KERNELS_KERNELS_H

#include <stdint.h>

#define GPU_MAX_RANKS 64 /* that address each other */
#define GPU_MAX_BLOCKS 128
/* In epochs[], behind a word for each block: the call that has begun, for who looks; and for each share of a large call
 * the last one in which it was taken. */
#define GPU_EPOCH_BEGUN GPU_MAX_BLOCKS
#define GPU_EPOCH_TAKEN (GPU_MAX_BLOCKS + 1)
#define GPU_EPOCHS (GPU_EPOCH_TAKEN + GPU_MAX_BLOCKS)
#define GPU_LINE 128
/* Channels of push.cuh: half the warps. */
#define GPU_PUSH_RANKS 8
#define GPU_PUSH_CHANNELS (GPU_MAX_BLOCKS / 2 * 16)
#define GPU_PUSH_BYTES (GPU_PUSH_CHANNELS * GPU_PUSH_RANKS * 2 * 8)
/* Shared memory for relay.cuh. */
#define RELAY_WARPS 16 /* of a block */
#define RELAY_STAGES 3
#define RELAY_STAGE 4096u /* bytes: a piece of each source */
#define GPU_RELAY_BYTES (RELAY_WARPS * RELAY_STAGES * RELAY_STAGE)
#define GPU_RELAY_RANKS 8  /* sources, destinations */
#define GPU_MAX_PLACES 512 /* allocations of a rank that peers have mapped */

/* Element kinds of the kernels, each with its own: sums of signed and unsigned integers are the same. */
#define GPU_FOR_KINDS(F)                                                                                               \
	F(GPU_U8)                                                                                                      \
	F(GPU_U16)                                                                                                     \
	F(GPU_U32)                                                                                                     \
	F(GPU_U64)                                                                                                     \
	F(GPU_S8) F(GPU_S16) F(GPU_S32) F(GPU_S64) F(GPU_F16) F(GPU_BF16) F(GPU_F32) F(GPU_F64) F(GPU_E4M3) F(GPU_E5M2)
/* Those of gradients, for which there is a kernel of small sums. */
#define GPU_FOR_SUM_KINDS(F) F(GPU_F16) F(GPU_BF16) F(GPU_F32)

#define GPU_KIND(kind) kind,
enum gpu_kind { GPU_FOR_KINDS(GPU_KIND) GPU_KINDS };
#undef GPU_KIND
enum gpu_op { GPU_COPY, GPU_SUM, GPU_PROD, GPU_MAX, GPU_MIN, GPU_AND, GPU_OR, GPU_XOR };

struct gpu_value {
	uint8_t kind, op;
	uint8_t scaled;	 /* this rank's input is multiplied by scalar first */
	uint32_t divide; /* the sum of integers is divided by this in the end; 0: not */
	uint64_t scalar; /* an element */
};

/* What every launch is given. */
struct gpu_call {
	int rank, nranks;
	uint32_t sig;			 /* of the call: the same on all ranks */
	uint32_t *epochs;		 /* [GPU_EPOCHS], of this rank */
	uint32_t *stop;			 /* host memory: not 0 when kernels are to end */
	uint32_t *trouble;		 /* host memory: 1 + rank whose call differs */
	uint64_t acks, posts, ll, ll128; /* offsets in the mail */
	uint64_t ll_bytes, ll128_bytes;	 /* of one area */
	char *mail[GPU_MAX_RANKS];	 /* of each rank, as this GPU addresses it */
};

/* Who sends what: each sender's piece for each receiver, all of one length. */
struct gpu_shape {
	uint8_t reduces;  /* the result is the reduction over the senders, else a block of each */
	uint8_t scatters; /* a piece is the block of its receiver, else all receivers get the same */
	int32_t from;	  /* the one rank that sends; -1: all */
	int32_t to;	  /* the one rank that receives; -1: all */
};

struct gpu_direct_args {
	struct gpu_call call;
	struct gpu_shape shape;
	struct gpu_value value;
	const char *in;
	char *out;
	uint64_t bytes; /* of a piece */
};

/* A buffer as its peers find it: an allocation that its owner has published. */
struct gpu_place {
	uint32_t number; /* of the allocation, from 1; 0: not published */
	uint64_t offset;
};

struct gpu_bulk_args {
	struct gpu_direct_args direct;
	struct gpu_place in, out;
	const uint64_t *maps;  /* [nranks][GPU_MAX_PLACES]: where this GPU addresses allocation k of rank r */
	const uint32_t *ready; /* [GPU_MAX_PLACES]: 1 where all peers have mapped this rank's allocation; [0] is 0 */
	uint64_t stage;	       /* offset in the mail: two pieces of stage_bytes for each block */
	uint64_t stage_bytes;
	uint64_t push;	    /* offset: words of the channels, GPU_PUSH_BYTES */
	uint32_t push_slot; /* bytes of a slot of a channel in the stage, a multiple of 512; 0: none */
	uint32_t relays;    /* 1: the launch has GPU_RELAY_BYTES of shared memory for each block */
	uint32_t core;	    /* blocks that stay, whenever the peers come; the others leave if it takes long */
};

/* By way of host memory: host.cu. */
struct gpu_host_args {
	struct gpu_direct_args direct;
	uint64_t lines, slots;	     /* offsets in the mail */
	uint32_t slot_bytes, nslots; /* of a lane: two blocks */
	uint32_t labels;	     /* slots are carried to their readers */
	uint64_t *marks;	     /* of this rank: one, and two for each lane */
};

/* What readers want of a slot, for those who carry it to them: two words from word GPU_LABEL_AT() of the line "written"
 * of its lane: GPU_LABEL_PLACE() and GPU_LABEL_FOR(). */
enum gpu_label {
	GPU_LABEL_ALL,	  /* len bytes from at on */
	GPU_LABEL_PIECES, /* len bytes from p * at on go to rank p */
	GPU_LABEL_PARTS,  /* of len bytes each rank gets its share, in whole lines */
};
#define GPU_LABEL_AT(slot) (1 + 2 * (slot))
#define GPU_LABEL_PLACE(at, len) ((uint64_t)(len) << 32 | (uint32_t)(at))
#define GPU_LABEL_FOR(form, to)                                                                                        \
	((uint64_t)(uint32_t)((to) + 1) << 32 | (uint32_t)(form)) /* to: the one reader; -1: all */
#define GPU_LABEL_FORM(word) ((enum gpu_label)(uint32_t)(word))
#define GPU_LABEL_TO(word) ((int)((word) >> 32) - 1)

/* --- a schedule of sched.h: schedule.cu --- */
enum gpu_buf { GPU_BUF_NONE, GPU_BUF_IN, GPU_BUF_OUT, GPU_BUF_SCRATCH }; /* as enum sched_buf */

/* One of its message steps. */
struct gpu_step {
	uint8_t src, dst; /* enum gpu_buf */
	uint8_t nfrom, nto;
	uint32_t from, to; /* where in peers[] they begin */
	int32_t src_chunk, dst_chunk, nchunks;
};

/* Two ranks' lanes, as this GPU addresses them: of lane k the lines lie 2 k lines further, its slots k * slot_stride,
 * its counter k words. Each lane has GPU_MESSAGE_SLOTS slots. */
struct gpu_end {
	char *tail_in, *head_in, *slots_in;    /* what comes: its tail and slots are here, its head is there */
	char *tail_out, *head_out, *slots_out; /* what goes: the other way round */
	uint64_t *taken, *sent;		       /* slots so far; this rank's */
	uint64_t slot_stride;
};

struct gpu_schedule_args {
	struct gpu_call call;
	struct gpu_value value;
	const char *in;
	char *out, *scratch;
	uint64_t bytes; /* of a block */
	uint32_t per_block, nsteps;
	uint32_t scratch_chunks; /* of a channel */
	uint32_t chunk_bytes;	 /* at most; a multiple of GPU_LINE, fits every slot */
	const struct gpu_step *steps;
	const uint8_t *peers;
	const struct gpu_end *ends; /* by rank */
	uint64_t *begun, *ended;    /* blocks of launches so far; this rank's */
};

/* --- messages between two ranks --- */
#define GPU_TAIL_BYTES 10 /* word of a tail's line: bytes in each of the slots */
#define GPU_MESSAGE_SLOTS 4
#define GPU_MESSAGES_MOST 64	/* of a launch: its arguments are 4 KiB at most */
#define GPU_UNITS_MOST 128	/* lanes of all flows of a launch */
#define GPU_LANE_LEAST 16384ull /* bytes of a message that a lane is worth */
/* Lanes that share a message; both ends count alike. */
#define GPU_LANES_OF(bytes, most)                                                                                      \
	((bytes) < 2 * GPU_LANE_LEAST	     ? 1u                                                                      \
	 : (bytes) / GPU_LANE_LEAST < (most) ? (uint32_t)((bytes) / GPU_LANE_LEAST)                                    \
					     : (uint32_t)(most))

/* Short messages go by themselves: 16 bytes for 8 of data and two flags, in lanes of their own, each a warp's. */
#define GPU_SHORT_LANES 64
#define GPU_SHORT_SLOTS 8			    /* of a lane; a power of two */
#define GPU_SHORT_ROWS 4			    /* of a slot: a word for each thread of the warp */
#define GPU_SHORT_HEADER (GPU_SHORT_ROWS * 32 * 16) /* behind the rows, a line */
#define GPU_SHORT_SLOT_BYTES (GPU_SHORT_HEADER + GPU_LINE)
#define GPU_SHORT_WARPS 16	  /* of a block, at most */
#define GPU_SHORT_LANE_LEAST 512u /* bytes of a message that a lane is worth */
#define GPU_SHORT_LANE_MOST 4096u /* the longest short message has at most so many for each lane */
#define GPU_SHORT_LANES_OF(bytes, most)                                                                                \
	((uint32_t)(bytes) <= GPU_SHORT_LANE_LEAST		 ? 1u                                                  \
	 : ((uint32_t)(bytes)-1) / GPU_SHORT_LANE_LEAST < (most) ? ((uint32_t)(bytes)-1) / GPU_SHORT_LANE_LEAST + 1    \
								 : (uint32_t)(most))

struct gpu_message {
	char *buf;
	uint64_t bytes;
	uint64_t word;	/* tag in the low half; signature of the call in the high half, 0 for a user's; a copy: from
			   where */
	uint64_t place; /* of a receive: GPU_PLACE() of its buffer, 0 where the sender cannot address it */
};
#define GPU_DIRECT_LEAST 262144ull /* bytes of a message that is worth an invitation */
#define GPU_PLACE(number, offset) ((uint64_t)(number) << 48 | (offset))

/* Tags that no user gives. */
#define GPU_TAG_ANY (-1)  /* of a receive: any that is not negative */
#define GPU_TAG_CALL (-2) /* a block of a collective */
#define GPU_TAG_STEP (-3) /* a chunk of a schedule's step: no message */

enum gpu_flow_kind { GPU_FLOW_SEND, GPU_FLOW_RECV, GPU_FLOW_COPY };

/* The messages of a launch from, or to, one rank, in their order: the long ones or the short ones. */
struct gpu_flow {
	uint8_t kind, peer, lanes; /* lanes: of the longest */
	uint8_t first, count;	   /* in message[] */
	uint8_t total;		   /* long and short ones */
	uint16_t unit;		   /* number of its first lane among all of its path */
};

enum gpu_path { GPU_PATH_LONG, GPU_PATH_SHORT, GPU_PATHS };

/* What a receive met instead of its message; host memory. */
struct gpu_odd {
	uint64_t set; /* written last */
	uint64_t peer, want_bytes, want_word, bytes, word;
};

/* Words of gpu_messages_args.counters after those of the lanes. */
enum gpu_counter {
	GPU_COUNTER_ODD, /* 1: somebody writes odd */
	GPU_COUNTER_BEGUN,
	GPU_COUNTER_ENDED, /* blocks of long messages, flows of short ones */
	GPU_COUNTERS
};

struct gpu_messages_args {
	struct gpu_call call;
	uint64_t lines, slots; /* offsets in the mail */
	uint32_t slot_bytes;
	uint32_t lanes;		  /* of an ordered pair of ranks */
	uint64_t *counters;	  /* of this rank: [2][nranks][lanes] slots taken and sent, and enum gpu_counter */
	uint64_t credits, shorts; /* offsets in the mail: slots taken, and slots, of short messages */
	uint32_t short_lanes;	  /* of an ordered pair of ranks; 0: all messages are long */
	uint32_t short_most;	  /* bytes of a short message */
	uint64_t *short_counters; /* of this rank: [2][nranks][short_lanes] slots taken and sent */
	uint64_t *numbers;	  /* [GPU_PATHS][2][nranks]: messages taken and sent, as each path keeps it */
	uint64_t near;		  /* bit r: the lanes to and from rank r lie in GPU memory */
	char *near_mail;	  /* of this rank, for those */
	const uint64_t *maps;	  /* as in gpu_bulk_args */
	const uint32_t *ready;
	struct gpu_odd *odd;
	uint32_t nflows, nunits; /* of long messages */
	uint32_t nshort, nwarps; /* flows of short messages, behind the long ones, and lanes */
	uint32_t long_blocks;	 /* the blocks after these have the short ones */
	struct gpu_message message[GPU_MESSAGES_MOST];
	struct gpu_flow flow[GPU_MESSAGES_MOST];
	uint8_t number[GPU_MESSAGES_MOST]; /* of each message, among those of the launch from or to that rank */
};

#endif
