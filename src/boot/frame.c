/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/frame.h"

#include <string.h>

#include "base/mem.h"
#include "boot/boot.h"

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

enum frame_result frame_next(struct frame *out, const uint8_t *buf, size_t len, size_t max)
{
	out->len = 0;
	if (len < FRAME_HEADER)
		return FRAME_MORE;
	if (buf[5] || buf[6] || buf[7] || load32(buf) > max)
		return FRAME_BAD;
	out->type = buf[4];
	out->len = load32(buf);
	out->data = buf + FRAME_HEADER;
	return len - FRAME_HEADER < out->len ? FRAME_MORE : FRAME_OK;
}

struct reader reader_of(const struct frame *f)
{
	return (struct reader){ .at = f->data, .left = f->len };
}

const uint8_t *rd_bytes(struct reader *r, size_t len)
{
	const uint8_t *p = r->at;

	if (r->bad || r->left < len) {
		r->bad = true;
		return NULL;
	}
	r->at += len;
	r->left -= len;
	return p;
}

static uint64_t rd_number(struct reader *r, size_t len)
{
	const uint8_t *p = rd_bytes(r, len);
	uint64_t v = 0;

	for (size_t i = 0; p && i < len; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

uint8_t rd_u8(struct reader *r)
{
	return (uint8_t)rd_number(r, 1);
}

uint16_t rd_u16(struct reader *r)
{
	return (uint16_t)rd_number(r, 2);
}

uint32_t rd_u32(struct reader *r)
{
	return (uint32_t)rd_number(r, 4);
}

uint64_t rd_u64(struct reader *r)
{
	return rd_number(r, 8);
}

void rd_text(struct reader *r, char *out, size_t size)
{
	size_t len = rd_u16(r), keep = len < size ? len : size - 1;
	const uint8_t *p = rd_bytes(r, len);

	if (!p)
		keep = 0;
	for (size_t i = 0; i < keep; i++)
		out[i] = p[i] < 32 || p[i] == 127 ? '?' : (char)p[i];
	out[keep] = '\0';
}

void buf_cleanup(struct buf *b)
{
	mem_free(b->data);
	*b = (struct buf){ 0 };
}

bool buf_reserve(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 128;
	uint8_t *data;

	if (b->failed)
		return false;
	if (b->cap - b->len >= more)
		return true;
	while (cap - b->len < more)
		cap *= 2;
	data = mem_realloc(b->data, cap, 1);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void buf_bytes(struct buf *b, const void *data, size_t len)
{
	if (!len || !buf_reserve(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void buf_number(struct buf *b, uint64_t v, size_t len)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(v >> 8 * i);
	buf_bytes(b, bytes, len);
}

void buf_u8(struct buf *b, uint8_t v)
{
	buf_number(b, v, 1);
}

void buf_u16(struct buf *b, uint16_t v)
{
	buf_number(b, v, 2);
}

void buf_u32(struct buf *b, uint32_t v)
{
	buf_number(b, v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
	buf_number(b, v, 8);
}

void buf_text(struct buf *b, const char *text)
{
	size_t len = strlen(text);

	if (len > UINT16_MAX)
		len = UINT16_MAX;
	buf_u16(b, (uint16_t)len);
	buf_bytes(b, text, len);
}

size_t frame_begin(struct buf *b, enum frame_type type)
{
	const uint8_t head[FRAME_HEADER] = { 0, 0, 0, 0, (uint8_t)type };

	buf_bytes(b, head, sizeof(head));
	return b->len;
}

void frame_end(struct buf *b, size_t begin)
{
	if (!b->failed)
		store32(b->data + begin - FRAME_HEADER, (uint32_t)(b->len - begin));
}

void hello_put(struct buf *b, const struct hello *h)
{
	size_t at = frame_begin(b, FRAME_HELLO);

	buf_u32(b, BOOT_MAGIC);
	buf_u16(b, h->version);
	buf_u16(b, (uint16_t)h->purpose);
	buf_bytes(b, h->key, KEY_BYTES);
	buf_u32(b, h->to);
	buf_u32(b, h->from);
	buf_bytes(b, h->nonce, NONCE_BYTES);
	frame_end(b, at);
}

bool hello_get(struct hello *out, const struct frame *f)
{
	struct reader r = reader_of(f);
	const uint8_t *key, *nonce;

	*out = (struct hello){ 0 };
	if (f->type != FRAME_HELLO || f->len != FRAME_HELLO_BYTES || rd_u32(&r) != BOOT_MAGIC)
		return false;
	out->version = rd_u16(&r);
	if (out->version != BOOT_VERSION)
		return true;
	out->purpose = rd_u16(&r);
	key = rd_bytes(&r, KEY_BYTES);
	out->to = rd_u32(&r);
	out->from = rd_u32(&r);
	nonce = rd_bytes(&r, NONCE_BYTES);
	if (!key || !nonce || out->purpose < FOR_CHECKIN || out->purpose > FOR_LAST)
		return false;
	memcpy(out->key, key, KEY_BYTES);
	memcpy(out->nonce, nonce, NONCE_BYTES);
	return out->to < INT32_MAX && out->from < INT32_MAX;
}

void event_put(struct buf *b, const struct event_msg *e)
{
	size_t at = frame_begin(b, FRAME_EVENT);

	buf_u8(b, e->kind);
	buf_u8(b, e->status);
	buf_u32(b, (uint32_t)e->rank);
	buf_text(b, e->text);
	frame_end(b, at);
}

bool event_get(struct event_msg *out, const struct frame *f)
{
	struct reader r = reader_of(f);

	out->kind = rd_u8(&r);
	out->status = rd_u8(&r);
	out->rank = (int32_t)rd_u32(&r);
	rd_text(&r, out->text, sizeof(out->text));
	return !r.bad && out->kind <= BOOT_EVENT_FAILED && out->status && out->status <= TAUT_ERR_INTERNAL;
}
