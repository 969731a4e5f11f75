/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on a control connection: a stream of frames, each read by every parser that its
 * type may reach. What is accepted must hold together, and survive being written again. */
#include <string.h>

#include "fuzz.h"

#include "boot/auth.h"
#include "boot/boot.h"
#include "boot/call.h"
#include "boot/id.h"
#include "boot/table.h"

static struct frame written(const struct buf *b)
{
	struct frame f;

	must(!b->failed && frame_next(&f, b->data, b->len, UINT32_MAX) == FRAME_OK);
	must(b->len == FRAME_HEADER + f.len);
	return f;
}

static void read_hello(const struct frame *f)
{
	struct hello h, again;
	struct buf b = { 0 };
	struct frame w;

	if (!hello_get(&h, f) || h.version != BOOT_VERSION)
		return;
	must(h.purpose >= FOR_CHECKIN && h.purpose <= FOR_LAST && (int)h.from >= 0 && (int)h.to >= 0);
	hello_put(&b, &h);
	w = written(&b);
	must(w.len == f->len && !memcmp(w.data, f->data, w.len));
	must(hello_get(&again, &w) && again.from == h.from);
	buf_cleanup(&b);
}

static void read_records(const struct frame *f)
{
	struct reader r = reader_of(f);
	struct table *t = table_new(4);
	struct record rec;
	char name[160];

	must(t != NULL);
	rd_u32(&r);
	while (r.left && record_get(&rec, &r)) {
		must(rec.naddr <= ADDR_MAX && memchr(rec.host, 0, sizeof(rec.host)));
		must(table_add(t, rec.pid & 3, &rec));
		must(table_has(t, rec.pid & 3));
		table_name(name, sizeof(name), t, rec.pid & 3);
	}
	if (t->known == t->size)
		must(table_finish(t) && t->nodes >= 1 && t->nodes <= t->size);
	table_free(t);
}

static void read_proof(const struct frame *f)
{
	uint8_t mac[MAC_BYTES], nonce[NONCE_BYTES];
	struct frame payload, inner;
	struct event_msg e;

	challenge_get(nonce, mac, f);
	if (!proof_get(mac, &payload, f))
		return;
	must(payload.len + MAC_BYTES == f->len);
	read_records(&payload);
	if (frame_next(&inner, payload.data, payload.len, payload.len) == FRAME_OK)
		event_get(&e, &inner);
}

static void read_table(const struct frame *f)
{
	struct table *t = table_get(f), *part;
	struct buf b = { 0 };
	struct frame w;
	int last;

	if (!t)
		return;
	must(table_finish(t));
	for (int r = 0; r < t->size; r++)
		must(t->peers[r].node < t->nodes && t->peers[r].local_rank <= r);
	table_put(&b, t);
	w = written(&b);
	part = table_get(&w);
	must(part != NULL && part->size == t->size);
	table_free(part);
	last = t->size - 1;
	part = table_pick(t, &last, 1);
	must(part && part->nprocs == 1);
	table_free(part);
	buf_cleanup(&b);
	table_free(t);
}

static void read_event(const struct frame *f)
{
	struct event_msg e;

	if (event_get(&e, f))
		must(memchr(e.text, 0, sizeof(e.text)) && e.status);
}

static void read_answer(const struct frame *f)
{
	struct call_entry list[CALL_ENTRIES + 1], e;
	struct reader r = reader_of(f);
	char text[300];
	int n = 0;

	rd_u32(&r);
	while (r.left && entry_get(&e, &r)) {
		entry_merge(list, &n, &e);
		must(n >= 1 && n <= CALL_ENTRIES + 1);
	}
	for (int i = 0; i < n; i++)
		for (int k = 1; k < list[i].nranges; k++)
			must(list[i].ranges[k - 1].hi < list[i].ranges[k].lo);
	entries_text(text, sizeof(text), list, n);
}

static void read_id(const uint8_t *data, size_t len)
{
	struct id_parts parts;
	struct taut_id id;

	if (len < sizeof(id))
		return;
	memcpy(&id, data, sizeof(id));
	if (!id_unpack(&parts, &id))
		must(parts.meet.naddr <= ADDR_MAX);
}

static void read_frame(const struct frame *f)
{
	switch (f->type) {
	case FRAME_HELLO:
		read_hello(f);
		break;
	case FRAME_CHALLENGE:
	case FRAME_PROOF:
		read_proof(f);
		break;
	case FRAME_ACCEPT:
		read_records(f);
		break;
	case FRAME_TABLE:
		read_table(f);
		break;
	case FRAME_EVENT:
		read_event(f);
		break;
	case FRAME_ANSWER:
		read_answer(f);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct frame f;
	size_t at = 0;

	log_set_sink(drop_line, NULL);
	must(auth_init());
	read_id(data, len);
	while (frame_next(&f, data + at, len - at, 1 << 20) == FRAME_OK) {
		must(f.len <= len - at - FRAME_HEADER);
		read_frame(&f);
		at += FRAME_HEADER + f.len;
	}
	return 0;
}
