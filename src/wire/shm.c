/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory between ranks of one machine.
 *
 * The sender makes a memfd and passes it over the Unix socket, so nothing has a name and
 * nothing is left after kill -9. It holds, in separate cache lines: what the receiver has
 * consumed, a ring of ll lines (56 bytes of payload and an 8-byte flag each), and the bulk
 * slots with a flag line each. A flag is the number of its message (or line), from 1, in the low half and
 * the call's signature in the high half, so a stale flag never looks right. Each side
 * reads the other's counters only when it seems to have run out.
 *
 * A message by reference is a slot that holds where its bytes lie in the sender's memory; the
 * receiver takes them with process_vm_readv(). Whether the kernel allows that, and whether both mean
 * the same process by a number, the receiver tries once on a word of the sender's.
 *
 * The receiver answers with its bell over the same socket; the sender looks for the answer after
 * each message until it is there. (Either it sees the bell, or the receiver, who looks for
 * messages after it has sent the bell, sees the message.) */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "wire/bell.h"
#include "wire/fdpass.h"
#include "wire/wire.h"

#define LINE 64
#define LL_DATA 56
#define LL_LINES 256
#define LL_MAX (LL_LINES / 2 * LL_DATA)
#define HUGE_BYTES ((size_t)2 << 20)

struct shm_line {
	_Alignas(LINE) unsigned char data[LL_DATA];
	_Atomic uint64_t flag;
};
struct shm_slot {
	_Alignas(LINE) _Atomic uint64_t flag;
	uint64_t len;
	uint64_t ref; /* where the bytes are in the sender's memory; 0: in the slot */
};
struct shm_segment {
	_Alignas(LINE) _Atomic uint32_t ll_taken; /* lines consumed; written by the receiver */
	_Alignas(LINE) _Atomic uint32_t slots_taken;
	struct shm_line lines[LL_LINES];
	struct shm_slot slots[]; /* then, at data_at, the slots' bytes */
};

/* What the sender says with the segment, and the receiver with its bell. */
struct shm_note {
	uint32_t bell, slots;
	uint64_t slot_bytes;
	int32_t pid;	   /* sender's */
	uint32_t can_read; /* receiver's answer: by reference is possible */
	uint64_t probe_at, probe;
};

struct shm_conn {
	struct wire_conn base;
	struct shm_segment *seg;
	size_t seg_len;
	unsigned char *data;
	uint32_t nslots;
	uint32_t line;	    /* next ll line, counted without end */
	uint32_t slot;	    /* next slot, likewise */
	uint32_t line_seen; /* sender: consumed lines as last read; receiver: as last written */
	uint32_t slot_seen;
	uint32_t misses;	/* looks at the last line of a message */
	int fd;			/* sender: where the receiver's bell comes from; else -1 */
	struct wire_bell *bell; /* the peer's; NULL: not known yet */
	uint64_t probe;		/* for the peer to read */
	pid_t pid;		/* the peer's; receiver only */
	bool by_ref;		/* sender: the peer can read this process */
	uint32_t ref_end;	/* sender: slots up to the last message by reference */
	unsigned char *stage;	/* receiver: a message by reference that must lie somewhere; lazily */
};

static struct shm_conn *shm_of(const struct wire_conn *c)
{
	return (struct shm_conn *)(uintptr_t)c; /* base is the first member */
}

static uint64_t flag_of(uint32_t number, uint32_t sig)
{
	return (uint64_t)sig << 32 | (uint32_t)(number + 1);
}

static size_t data_at(uint32_t slots)
{
	size_t at = sizeof(struct shm_segment) + slots * sizeof(struct shm_slot);

	return (at + 4095) / 4096 * 4096;
}

/* --- descriptors over the Unix socket --- */
static bool pass_note(int sock, const struct shm_note *note, const int *fds, int nfds)
{
	return fdpass_send(sock, note, sizeof(*note), fds, nfds);
}

/* Exactly @nfds descriptors must come along. @wait_ms 0: TAUT_ERR_BUSY when nothing is there. */
static enum taut_status recv_note(int sock, struct shm_note *note, int *fds, int nfds, int wait_ms)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	if (poll(&p, 1, wait_ms) <= 0)
		return wait_ms ? fail_quiet(TAUT_ERR_TIMEOUT, "a peer passed no shared memory within %d ms", wait_ms)
			       : TAUT_ERR_BUSY;
	if (fdpass_recv(sock, note, sizeof(*note), fds, nfds) != 1)
		return fail_quiet(TAUT_ERR_NET, "a peer closed the socket that passes shared memory");
	return TAUT_OK;
}

/* --- making and closing --- */
static enum taut_status map_segment(struct shm_conn *c, int memfd, const struct shm_note *note)
{
	void *p = mmap(NULL, c->seg_len, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	if (p == MAP_FAILED)
		return errno_fail(errno, "cannot map %zu bytes of shared memory for rank %d", c->seg_len, c->base.peer);
	/* Fewer misses in the page tables where the kernel grants it; no harm where not. */
	madvise(p, c->seg_len, MADV_HUGEPAGE);
	c->seg = p;
	c->data = (unsigned char *)p + data_at(note->slots);
	c->nslots = note->slots;
	c->base.slot_bytes = note->slot_bytes;
	c->base.ll_max = LL_MAX;
	c->base.mapped = true;
	return TAUT_OK;
}

static enum taut_status make_segment(int *memfd, size_t len)
{
	int fd = memfd_create("taut-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return errno_fail(errno, "cannot make shared memory (memfd_create)");
	if (ftruncate(fd, (off_t)len)) {
		enum taut_status st = errno_fail(errno, "cannot make %zu bytes of shared memory", len);

		close(fd);
		return st;
	}
	/* So that the receiver's accesses cannot fault: nobody can shrink it any more. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	*memfd = fd;
	return TAUT_OK;
}

static struct shm_conn *conn_new(const struct wire_args *args, int fd)
{
	struct shm_conn *c = mem_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->base.ops = &wire_shm;
	c->base.peer = args->peer;
	c->fd = fd;
	return c;
}

static void shm_close(struct wire_conn *base)
{
	struct shm_conn *c = shm_of(base);

	if (!base)
		return;
	bell_unmap(c->bell);
	mem_free(c->stage);
	if (c->seg)
		munmap(c->seg, c->seg_len);
	if (c->fd >= 0)
		close(c->fd);
	mem_free(c);
}

/* --- by reference --- */
static bool read_peer(pid_t pid, void *to, uint64_t from, size_t len)
{
	while (len) {
		struct iovec local = { to, len }, remote = { (void *)(uintptr_t)from, len };
		ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (got <= 0)
			return false;
		to = (char *)to + got;
		from += (uint64_t)got;
		len -= (size_t)got;
	}
	return true;
}

static bool can_read(const struct shm_note *note)
{
	uint64_t seen = 0;

	return read_peer(note->pid, &seen, note->probe_at, sizeof(seen)) && seen == note->probe;
}

static enum taut_status shm_connect(struct wire_conn **out, const struct wire_args *args, int fd)
{
	struct shm_note note = { .slots = (uint32_t)args->cfg->slots,
				 .slot_bytes = args->cfg->slot_bytes,
				 .pid = getpid() };
	struct shm_conn *c = conn_new(args, fd);
	int fds[2] = { -1, -1 };
	enum taut_status st;

	if (!c) {
		close(fd);
		return fail(TAUT_ERR_NOMEM, "shared memory connection to rank %d", args->peer);
	}
	c->probe = now_ns() ^ (uint64_t)(uintptr_t)c;
	note.probe = c->probe;
	note.probe_at = (uint64_t)(uintptr_t)&c->probe;
	c->seg_len = data_at(note.slots) + note.slots * note.slot_bytes;
	st = make_segment(&fds[0], c->seg_len);
	if (st)
		goto err_close;
	st = map_segment(c, fds[0], &note);
	if (!st)
		st = bell_export(args->bell, &fds[1], &note.bell);
	if (!st && !pass_note(fd, &note, fds, 2))
		st = errno_fail(errno, "cannot pass shared memory to rank %d", args->peer);
	close(fds[0]);
	if (st)
		goto err_close;
	*out = &c->base;
	return TAUT_OK;
err_close:
	shm_close(&c->base);
	return st;
}

static enum taut_status shm_accept(struct wire_conn **out, const struct wire_args *args, int fd)
{
	struct shm_note note, mine = { 0 };
	struct shm_conn *c = conn_new(args, fd);
	int fds[2], own;
	enum taut_status st;

	if (!c) {
		close(fd);
		return fail(TAUT_ERR_NOMEM, "shared memory connection from rank %d", args->peer);
	}
	st = recv_note(fd, &note, fds, 2, 5000);
	if (st)
		goto err_close;
	if (note.slots < 1 || note.slots > 64 || note.slot_bytes > (size_t)1 << 30) {
		st = fail(TAUT_ERR_NET, "rank %d offers %u slots of %llu bytes", args->peer, note.slots,
			  (unsigned long long)note.slot_bytes);
		close(fds[0]);
		close(fds[1]);
		goto err_close;
	}
	c->seg_len = data_at(note.slots) + note.slots * note.slot_bytes;
	st = map_segment(c, fds[0], &note);
	close(fds[0]);
	if (st) {
		close(fds[1]);
		goto err_close;
	}
	st = bell_map(&c->bell, fds[1], note.bell);
	if (!st)
		st = bell_export(args->bell, &own, &mine.bell);
	if (st)
		goto err_close;
	c->pid = note.pid;
	mine.can_read = can_read(&note);
	/* A sender that has already left cannot take it and need not: what it sent is in the segment. */
	if (!pass_note(fd, &mine, &own, 1))
		log_debug(LOG_WIRE, "rank %d has closed its side before its first message was taken", args->peer);
	close(c->fd);
	c->fd = -1;
	*out = &c->base;
	return TAUT_OK;
err_close:
	shm_close(&c->base);
	return st;
}

/* After each message until the receiver's bell is known. */
static void find_bell(struct shm_conn *c)
{
	struct shm_note note;
	int fd;

	fence(memory_order_seq_cst); /* message before look; see head comment */
	if (c->fd < 0 || recv_note(c->fd, &note, &fd, 1, 0))
		return;
	if (!bell_map(&c->bell, fd, note.bell)) {
		close(c->fd);
		c->fd = -1;
		c->by_ref = note.can_read;
		bell_ring(c->bell);
	}
}

static inline void ring_peer(struct shm_conn *c)
{
	if (__builtin_expect(c->bell != NULL, 1))
		bell_ring(c->bell);
	else
		find_bell(c);
}

/* Ask for lines that will be written: the receiver has read them, and to write them one after
 * the other without asking first costs a trip between the cores for each. Measured: 512 bytes
 * back and forth in 0.32 us instead of 0.44, two ranks, Sapphire Rapids. */
#define OWN_BYTES ((size_t)4096) /* beyond, a message is bound by bandwidth */
static inline void own_line(const void *p)
{
#if defined(__x86_64__)
	__asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

static inline void own_slot(const struct shm_conn *c, size_t len)
{
	const unsigned char *p = c->data + (c->slot % c->nslots) * c->base.slot_bytes;

	if (len > OWN_BYTES)
		return;
	for (size_t i = 0; i < len; i += LINE)
		own_line(p + i);
	own_line(&c->seg->slots[c->slot % c->nslots]);
}

static inline void own_ll(const struct shm_conn *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		own_line(&c->seg->lines[(c->line + i) % LL_LINES]);
}

/* --- ll --- */
static enum wire_result shm_send_ll(struct wire_conn *base, const void *buf, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	uint32_t need = len <= LL_DATA ? 1 : (uint32_t)((len + LL_DATA - 1) / LL_DATA);
	const unsigned char *from = buf;

	if (c->line + need - c->line_seen > LL_LINES) {
		/* acquire: the receiver has read the lines before it said so */
		c->line_seen = atomic_load_explicit(&c->seg->ll_taken, memory_order_acquire);
		if (c->line + need - c->line_seen > LL_LINES)
			return WIRE_AGAIN;
	}
	if (need > 1)
		own_ll(c, need);
	for (; len > LL_DATA; len -= LL_DATA, from += LL_DATA) {
		struct shm_line *l = &c->seg->lines[c->line % LL_LINES];

		memcpy(l->data, from, LL_DATA);
		/* release: the payload comes before its flag */
		atomic_store_explicit(&l->flag, flag_of(c->line++, sig), memory_order_release);
	}
	struct shm_line *l = &c->seg->lines[c->line % LL_LINES];

	memcpy(l->data, from, len);
	atomic_store_explicit(&l->flag, flag_of(c->line++, sig), memory_order_release);
	ring_peer(c);
	own_ll(c, need); /* the next message is likely to be of this size */
	return WIRE_DONE;
}

static enum wire_result line_state(const struct shm_line *l, uint32_t number, uint32_t sig)
{
	/* acquire: the flag comes before the payload is read */
	uint64_t flag = atomic_load_explicit(&l->flag, memory_order_acquire);

	if (flag == flag_of(number, sig))
		return WIRE_DONE;
	return (uint32_t)flag == number + 1 ? WIRE_MISMATCH : WIRE_AGAIN;
}

static enum wire_result shm_recv_ll(struct wire_conn *base, void *buf, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	uint32_t need = len <= LL_DATA ? 1 : (uint32_t)((len + LL_DATA - 1) / LL_DATA);
	unsigned char *to = buf;
	/* The last line is written last: when it is there, all are. The others are left alone until
	 * then, or they would go back and forth while they are written; but now and then the first is
	 * looked at, which finds the message of another call that is shorter. */
	uint32_t look = need > 1 && ++c->misses % 64 == 0 ? c->line : c->line + need - 1;
	enum wire_result r = line_state(&c->seg->lines[look % LL_LINES], look, sig);

	if (r == WIRE_DONE && look != c->line + need - 1)
		r = WIRE_AGAIN;
	if (r != WIRE_DONE)
		return r;
	for (uint32_t i = 0; i < need; i++, to += LL_DATA) {
		const struct shm_line *l = &c->seg->lines[c->line++ % LL_LINES];

		if (i + 1 < need)
			memcpy(to, l->data, LL_DATA);
		else
			memcpy(to, l->data, len - i * LL_DATA);
	}
	/* Credits go back a quarter of the ring at a time: one line less bounces. */
	if (c->line - c->line_seen >= LL_LINES / 4) {
		c->line_seen = c->line;
		/* release: the lines were read before the sender may write them again */
		atomic_store_explicit(&c->seg->ll_taken, c->line, memory_order_release);
		bell_ring(c->bell);
	}
	return WIRE_DONE;
}

/* --- bulk --- */
static void *shm_send_ptr(struct wire_conn *base)
{
	struct shm_conn *c = shm_of(base);

	if (c->slot - c->slot_seen >= c->nslots) {
		c->slot_seen = atomic_load_explicit(&c->seg->slots_taken, memory_order_acquire); /* as in send_ll */
		if (c->slot - c->slot_seen >= c->nslots)
			return NULL;
	}
	return c->data + (c->slot % c->nslots) * c->base.slot_bytes;
}

static void shm_send_commit(struct wire_conn *base, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	struct shm_slot *s = &c->seg->slots[c->slot % c->nslots];

	s->len = len;
	s->ref = 0;
	atomic_store_explicit(&s->flag, flag_of(c->slot++, sig), memory_order_release); /* payload before flag */
	ring_peer(c);
	own_slot(c, len); /* the next message is likely to be of this size */
}

static enum wire_result shm_send(struct wire_conn *base, const void *buf, size_t len, uint32_t sig)
{
	void *p = shm_send_ptr(base);

	if (!p)
		return WIRE_AGAIN;
	own_slot(shm_of(base), len);
	memcpy(p, buf, len);
	shm_send_commit(base, len, sig);
	return WIRE_DONE;
}

static enum wire_result shm_send_ref(struct wire_conn *base, const void *buf, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	struct shm_slot *s = &c->seg->slots[c->slot % c->nslots];

	if (!c->by_ref || !len)
		return shm_send(base, buf, len, sig);
	if (!shm_send_ptr(base))
		return WIRE_AGAIN;
	s->len = len;
	s->ref = (uint64_t)(uintptr_t)buf;
	atomic_store_explicit(&s->flag, flag_of(c->slot++, sig), memory_order_release); /* place before flag */
	c->ref_end = c->slot;
	ring_peer(c);
	return WIRE_DONE;
}

static bool shm_send_idle(struct wire_conn *base)
{
	struct shm_conn *c = shm_of(base);

	if ((int32_t)(c->ref_end - c->slot_seen) <= 0)
		return true;
	c->slot_seen = atomic_load_explicit(&c->seg->slots_taken, memory_order_acquire); /* reads before credit */
	return (int32_t)(c->ref_end - c->slot_seen) <= 0;
}

static enum wire_result shm_recv_peek(struct wire_conn *base, size_t *len, uint32_t *sig)
{
	struct shm_conn *c = shm_of(base);
	struct shm_slot *s = &c->seg->slots[c->slot % c->nslots];
	uint64_t flag = atomic_load_explicit(&s->flag, memory_order_acquire); /* flag before payload */

	if ((uint32_t)flag != c->slot + 1)
		return WIRE_AGAIN;
	*len = s->len;
	*sig = (uint32_t)(flag >> 32);
	return WIRE_DONE;
}

static enum wire_result take_ref(struct shm_conn *c, void *to, size_t len)
{
	if (read_peer(c->pid, to, c->seg->slots[c->slot % c->nslots].ref, len))
		return WIRE_DONE;
	c->base.broken = true;
	fail_quiet(TAUT_ERR_NET, "rank %d's memory can no longer be read: %s", c->base.peer, strerror(errno));
	return WIRE_BROKEN;
}

static enum wire_result stage_ref(struct shm_conn *c, const void **out, size_t len)
{
	if (!c->stage)
		c->stage = mem_aligned(4096, c->base.slot_bytes);
	*out = c->stage;
	if (c->stage && len <= c->base.slot_bytes)
		return take_ref(c, c->stage, len);
	fail(TAUT_ERR_NOMEM, "%zu bytes for a message from rank %d", len, c->base.peer);
	return WIRE_BROKEN;
}

static enum wire_result shm_recv_ptr(struct wire_conn *base, const void **out, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	size_t got;
	uint32_t got_sig;

	if (shm_recv_peek(base, &got, &got_sig) == WIRE_AGAIN)
		return WIRE_AGAIN;
	if (got_sig != sig || got != len)
		return WIRE_MISMATCH;
	if (c->seg->slots[c->slot % c->nslots].ref)
		return stage_ref(c, out, len);
	*out = c->data + (c->slot % c->nslots) * c->base.slot_bytes;
	return WIRE_DONE;
}

static void shm_recv_done(struct wire_conn *base)
{
	struct shm_conn *c = shm_of(base);

	atomic_store_explicit(&c->seg->slots_taken, ++c->slot, memory_order_release); /* reads before credit */
	bell_ring(c->bell);
}

static enum wire_result shm_recv(struct wire_conn *base, void *buf, size_t len, uint32_t sig)
{
	struct shm_conn *c = shm_of(base);
	enum wire_result r;
	uint32_t got_sig;
	size_t got;

	if (shm_recv_peek(base, &got, &got_sig) == WIRE_AGAIN)
		return WIRE_AGAIN;
	if (got_sig != sig || got != len)
		return WIRE_MISMATCH;
	if (c->seg->slots[c->slot % c->nslots].ref) {
		r = take_ref(c, buf, len);
		if (r != WIRE_DONE)
			return r;
	} else {
		memcpy(buf, c->data + (c->slot % c->nslots) * c->base.slot_bytes, len);
	}
	shm_recv_done(base);
	return WIRE_DONE;
}

const struct wire_ops wire_shm = {
	.name = "shm",
	.local = true,
	.connect = shm_connect,
	.accept = shm_accept,
	.close = shm_close,
	.send = shm_send,
	.send_ll = shm_send_ll,
	.send_ptr = shm_send_ptr,
	.send_commit = shm_send_commit,
	.send_ref = shm_send_ref,
	.send_idle = shm_send_idle,
	.recv_ptr = shm_recv_ptr,
	.recv_done = shm_recv_done,
	.recv = shm_recv,
	.recv_ll = shm_recv_ll,
	.recv_peek = shm_recv_peek,
};
