/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on control connections: framing, a bounds-checked reader, a growing buffer. Pure
 * functions; nothing here does I/O. A frame is a header (u32 length of what follows, u8
 * type, three zero bytes), then its data; numbers are little-endian. */
#ifndef BOOT_FRAME_H
#define BOOT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER = 8, FRAME_HELLO_BYTES = 64, FRAME_STRANGER_MAX = 512, FRAME_HANDSHAKE_MAX = 8192 };
enum { BOOT_MAGIC = 0x54554154, BOOT_VERSION = 1 };
enum { KEY_BYTES = 16, SECRET_BYTES = 32, NONCE_BYTES = 32, MAC_BYTES = 32, UNIQ_BYTES = 16, NODE_BYTES = 8 };

enum frame_type {
	FRAME_HELLO = 1, /* the handshake, see auth.h */
	FRAME_CHALLENGE,
	FRAME_PROOF,
	FRAME_ACCEPT,
	FRAME_REJECT,	   /* u32 status, text */
	FRAME_JOINED = 16, /* up: u32 ranks that hang below */
	FRAME_TABLE,	   /* down: all have joined; the rank table, or nothing where it is known */
	FRAME_UP,	   /* an exchange: u32 number, u8 kind, u32 bytes of a rank, data */
	FRAME_DOWN,
	FRAME_EVENT, /* u8 kind, u8 status, u32 rank, text */
	FRAME_LEAVE, /* u32 rank that takes over the sender's place */
	FRAME_BEAT,
	FRAME_QUERY,  /* up: u64 call */
	FRAME_ASK,    /* down: u32 question, u64 call */
	FRAME_ANSWER, /* up: u32 question, entries */
	FRAME_LIST,   /* u32 number of the list, u32 ranks that survive */
};

/* What a connection is for; part of the hello and of both proofs. */
enum purpose {
	FOR_CHECKIN = 1, /* a rank's record to rank 0; the answer names tree neighbours */
	FOR_TREE,	 /* an edge of the tree */
	FOR_ADOPT,	 /* an edge in place of one to a rank that left */
	FOR_DIAL,	 /* boot_dial() */
	FOR_PROBE,	 /* is this rank still there? */
	FOR_SURVIVE,	 /* boot_survivors() */
	FOR_NOTICE,	 /* an event for a group whose tree is not complete */
	FOR_DESK,	 /* rank 0's record to the process that made the id and is another one */
	FOR_LAST = FOR_DESK,
};

struct frame {
	uint8_t type;
	size_t len;
	const uint8_t *data;
};
enum frame_result { FRAME_MORE, FRAME_OK, FRAME_BAD };
/* The first frame of @buf. OK: it takes FRAME_HEADER + out->len bytes and out->data points
 * into @buf. MORE: bytes are missing (out->len is set once the header is there). BAD: no
 * frame, or longer than @max. */
enum frame_result frame_next(struct frame *out, const uint8_t *buf, size_t len, size_t max);

/* Reading stops at the end: then bad is set and all values are zero. */
struct reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};
struct reader reader_of(const struct frame *f);
uint8_t rd_u8(struct reader *r);
uint16_t rd_u16(struct reader *r);
uint32_t rd_u32(struct reader *r);
uint64_t rd_u64(struct reader *r);
const uint8_t *rd_bytes(struct reader *r, size_t len); /* NULL when bad */
/* A text of a u16 length into @out, cut to @size and printable. */
void rd_text(struct reader *r, char *out, size_t size);

/* Grows by itself; failed is set when memory is short, and all later writes do nothing. */
struct buf {
	uint8_t *data;
	size_t len, cap;
	bool failed;
};
void buf_cleanup(struct buf *b);
bool buf_reserve(struct buf *b, size_t more);
void buf_bytes(struct buf *b, const void *data, size_t len);
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_text(struct buf *b, const char *text);
/* Between begin and end everything written is the frame's data. */
size_t frame_begin(struct buf *b, enum frame_type type);
void frame_end(struct buf *b, size_t begin);

struct hello {
	uint16_t version;
	enum purpose purpose;
	uint8_t key[KEY_BYTES];
	uint32_t to, from;
	uint8_t nonce[NONCE_BYTES];
};
void hello_put(struct buf *b, const struct hello *h);
/* False: not a hello. Another version is parsed as far as the version. */
bool hello_get(struct hello *out, const struct frame *f);

struct event_msg {
	uint8_t kind, status;
	int32_t rank;
	char text[1024];
};
void event_put(struct buf *b, const struct event_msg *e);
bool event_get(struct event_msg *out, const struct frame *f);

#endif
