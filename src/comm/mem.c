/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that all ranks of the machine address: one memfd a segment, made by the lowest local
 * rank and passed over Unix sockets; rank r's part is the r-th. Used when all ranks are on one machine. */
#include <errno.h>
#include <stdint.h>
#include <strings.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/mem.h"
#include "base/time.h"
#include "comm/comm.h"
#include "wire/fdpass.h"

#define SHARE_CHANNEL 254 /* of hellos that ask for a segment; no exec_link has it */
#define DIFFER_NS 5000000000u
#define AGREE_BYTES 4096 /* smaller calls are faster without */
#define SEG_NONE (-1)	 /* not in a segment */
#define SEG_UNUSED (-2)	 /* this rank has no such buffer */

static size_t page_up(size_t len)
{
	size_t huge = (size_t)2 << 20, unit = len >= huge ? huge : 4096;

	return (len + unit - 1) / unit * unit;
}

static bool can_share(const struct taut_comm *comm)
{
	return comm->size > 1 && boot_nodes(comm->boot) == 1 && !comm->cfg.shm_disable &&
	       strcasecmp(comm->cfg.wire, "tcp") != 0;
}

/* --- waiting for others --- */
static enum taut_status wait_peer(struct taut_comm *comm, uint64_t begun, uint64_t *asked, bool differs)
{
	uint64_t now = now_ns();

	if (now - *asked > comm->net.stall_ms * 1000000ull || differs) {
		comm_stalled(comm, differs);
		*asked = now;
	}
	if (differs)
		sleep_ms(1);
	else if (now - begun < comm->net.spin_ns)
		cpu_relax();
	else if (now - begun < comm->net.spin_ns + 1000000)
		sched_yield();
	else
		usleep(50);
	return comm_check(comm);
}

/* --- passing one descriptor to all --- */
struct share_note { /* goes with the descriptor */
	uint64_t call, len;
};

static enum taut_status give(int sock, int fd, struct share_note note)
{
	if (fdpass_send(sock, &note, sizeof(note), &fd, 1))
		return TAUT_OK;
	return fail(TAUT_ERR_NET, "cannot pass shared memory to a peer: %s", strerror(errno));
}

/* *@fd stays -1 while nothing has come. */
static enum taut_status get(int sock, int *fd, struct share_note *note)
{
	if (fdpass_recv(sock, note, sizeof(*note), fd, 1) >= 0)
		return TAUT_OK;
	return fail(TAUT_ERR_NET, "rank 0 passed no shared memory: %s",
		    errno ? strerror(errno) : "it closed the connection or sent something else");
}

static enum taut_status serve_one(struct taut_comm *comm, int peer, int fd, struct share_note note)
{
	struct exec_link probe = { .peer = peer, .channel = SHARE_CHANNEL };
	uint64_t begun = now_ns(), asked = begun;
	enum taut_status st = TAUT_OK;
	int sock;

	while ((sock = comm_take_dialled(comm, &probe)) < 0 && !st)
		st = wait_peer(comm, begun, &asked, false);
	if (st)
		return st;
	st = give(sock, fd, note);
	close(sock);
	return st;
}

static enum taut_status serve(struct taut_comm *comm, int fd, struct share_note note)
{
	enum taut_status st = TAUT_OK;

	for (int r = 1; r < comm->size && !st; r++)
		st = serve_one(comm, r, fd, note);
	return st;
}

/* A length of its own would be memory that is not there: all ranks are asked who called what. */
static enum taut_status other_call(struct taut_comm *comm)
{
	uint64_t begun = now_ns(), asked = begun;
	enum taut_status st = TAUT_OK;

	while (!st && now_ns() - begun < DIFFER_NS)
		st = wait_peer(comm, begun, &asked, true);
	return st ? st : fail(TAUT_ERR_MISMATCH, "taut_mem_alloc: rank 0 shares memory of another length");
}

static enum taut_status fetch(struct taut_comm *comm, int *fd, struct share_note want)
{
	uint64_t begun = now_ns(), asked = begun;
	struct share_note note;
	int sock;
	enum taut_status st = comm_dial_channel(comm, 0, SHARE_CHANNEL, &sock);

	if (st)
		return st;
	for (st = get(sock, fd, &note); !st && *fd < 0; st = st ? st : get(sock, fd, &note))
		st = wait_peer(comm, begun, &asked, false);
	close(sock);
	if (!st && (note.call != want.call || note.len != want.len))
		st = other_call(comm);
	return st;
}

static enum taut_status make_memfd(int *out, size_t len)
{
	int fd = memfd_create("taut-mem", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)len)) {
		enum taut_status st = errno_fail(errno, "cannot make %zu bytes of shared memory", len);

		if (fd >= 0)
			close(fd);
		return st;
	}
	*out = fd;
	return TAUT_OK;
}

enum taut_status comm_share(struct taut_comm *comm, void **out, size_t len)
{
	struct share_note note = { .call = comm->seq, .len = len };
	enum taut_status st;
	int fd = -1;
	void *p;

	st = comm->rank == 0 ? make_memfd(&fd, len) : fetch(comm, &fd, note);
	if (!st && comm->rank == 0)
		st = serve(comm, fd, note);
	if (st)
		goto out_close;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		st = errno_fail(errno, "cannot map %zu bytes of shared memory", len);
		goto out_close;
	}
	madvise(p, len, MADV_HUGEPAGE);
	*out = p;
out_close:
	if (fd >= 0)
		close(fd);
	return st;
}

static enum taut_status share_lines(struct taut_comm *comm)
{
	void *p;
	enum taut_status st;

	if (comm->shared)
		return TAUT_OK;
	comm->peer_in = mem_calloc(2 * (size_t)comm->size, sizeof(unsigned char *));
	if (!comm->peer_in)
		return fail(TAUT_ERR_NOMEM, "addresses of %d ranks", comm->size);
	comm->peer_out = comm->peer_in + comm->size;
	comm->shared_len = (size_t)comm->size * sizeof(struct exec_shared_line);
	st = comm_share(comm, &p, comm->shared_len);
	if (st)
		return st;
	comm->shared = p;
	comm->net.shared = p;
	return TAUT_OK;
}

/* --- segments --- */
static enum taut_status segment_new(struct taut_comm *comm, size_t len, void **out)
{
	struct comm_segment *s = mem_calloc(1, sizeof(*s) + (size_t)comm->size * sizeof(unsigned char *));
	size_t part = page_up(len ? len : 1);
	void *base;
	enum taut_status st;

	if (!s)
		return fail(TAUT_ERR_NOMEM, "a segment of shared memory");
	st = share_lines(comm);
	if (!st)
		st = comm_share(comm, &base, part * (size_t)comm->size);
	if (st) {
		mem_free(s);
		return st;
	}
	s->number = comm->next_segment++;
	s->len = part;
	for (int r = 0; r < comm->size; r++)
		s->base[r] = (unsigned char *)base + (size_t)r * part;
	s->next = comm->segments;
	comm->segments = s;
	*out = s->base[comm->rank];
	return TAUT_OK;
}

/* Where no other rank addresses it. */
static enum taut_status unshared_new(struct taut_comm *comm, size_t len, void **out)
{
	struct comm_segment *s = mem_calloc(1, sizeof(*s) + (size_t)comm->size * sizeof(unsigned char *));
	size_t room = page_up(len ? len : 1);
	unsigned char *p = s ? mem_aligned(4096, room) : NULL;

	if (!p) {
		mem_free(s);
		return fail(TAUT_ERR_NOMEM, "taut_mem_alloc: %zu bytes", len);
	}
	memset(p, 0, room);
	s->next = comm->unshared;
	s->len = room;
	s->base[comm->rank] = p;
	comm->unshared = s;
	*out = p;
	return TAUT_OK;
}

enum taut_status taut_mem_alloc(void **out, size_t len, struct taut_comm *comm)
{
	enum taut_status st;
	uint64_t ticket;

	if (!out || !comm)
		return fail(TAUT_ERR_ARG, "taut_mem_alloc: %s is NULL", out ? "comm" : "out");
	if (len > SIZE_MAX / 4 / (size_t)comm->size)
		return fail(TAUT_ERR_ARG, "taut_mem_alloc: %zu bytes are more than memory can hold", len);
	ticket = comm_ticket(comm);
	comm_lock(comm, ticket);
	st = comm_check(comm);
	if (!st)
		call_note(comm, CALL_ALLOC, len);
	if (!st && comm->gpu) {
		st = comm_gpu_alloc(out, len, comm);
	} else if (!st && can_share(comm)) {
		st = segment_new(comm, len, out);
		if (st)
			st = comm_failed(comm, st);
	} else if (!st) {
		st = unshared_new(comm, len, out);
	}
	comm_unlock(comm);
	return st;
}

/* Of @list, the one where @ptr begins; NULL: there is none. */
static struct comm_segment *take(struct comm_segment **list, int rank, const void *ptr)
{
	struct comm_segment *s;

	while (*list && (*list)->base[rank] != ptr)
		list = &(*list)->next;
	s = *list;
	if (s)
		*list = s->next;
	return s;
}

static void segment_free(struct taut_comm *comm, struct comm_segment *s)
{
	munmap(s->base[0], s->len * (size_t)comm->size);
	mem_free(s);
}

static void unshared_free(struct taut_comm *comm, struct comm_segment *s)
{
	mem_free(s->base[comm->rank]);
	mem_free(s);
}

enum taut_status taut_mem_free(void *ptr, struct taut_comm *comm)
{
	enum taut_status st = TAUT_OK;
	struct comm_segment *s;
	uint64_t ticket;

	if (!comm)
		return fail(TAUT_ERR_ARG, "taut_mem_free: comm is NULL");
	if (!ptr)
		return TAUT_OK;
	ticket = comm_ticket(comm);
	comm_lock(comm, ticket);
	if ((s = take(&comm->segments, comm->rank, ptr)))
		segment_free(comm, s);
	else if ((s = take(&comm->unshared, comm->rank, ptr)))
		unshared_free(comm, s);
	else if (comm->gpu)
		st = comm_gpu_free(ptr, comm);
	else
		st = fail(TAUT_ERR_ARG, "taut_mem_free: %p is not from taut_mem_alloc() of this communicator", ptr);
	comm_unlock(comm);
	return st;
}

void mem_cleanup(struct taut_comm *comm)
{
	while (comm->segments) {
		struct comm_segment *s = comm->segments;

		comm->segments = s->next;
		segment_free(comm, s);
	}
	while (comm->unshared) {
		struct comm_segment *s = comm->unshared;

		comm->unshared = s->next;
		unshared_free(comm, s);
	}
	if (comm->shared)
		munmap(comm->shared, comm->shared_len);
	mem_free(comm->peer_in);
}

/* --- agreeing on a call --- */
struct place {
	int64_t seg, off;
};

static struct place place_of(const struct taut_comm *comm, const void *p, size_t len, bool used)
{
	const unsigned char *at = p;

	if (!used)
		return (struct place){ SEG_UNUSED, 0 };
	for (const struct comm_segment *s = comm->segments; s; s = s->next) {
		const unsigned char *base = s->base[comm->rank];

		if (at >= base && at + len <= base + s->len)
			return (struct place){ s->number, at - base };
	}
	return (struct place){ SEG_NONE, 0 };
}

static struct comm_segment *segment_by_number(const struct taut_comm *comm, int64_t number)
{
	struct comm_segment *s = comm->segments;

	while (s && s->number != number)
		s = s->next;
	return s;
}

static void post(struct taut_comm *comm, uint64_t call, struct place in, struct place out)
{
	struct exec_shared_line *l = &comm->shared[comm->rank];

	/* Readers look at `call` before and after the words: 0 says that they change. */
	atomic_store_explicit(&l->call, 0, memory_order_relaxed);
	fence(memory_order_release);
	atomic_store_explicit(&l->in_seg, in.seg, memory_order_relaxed);
	atomic_store_explicit(&l->in_off, in.off, memory_order_relaxed);
	atomic_store_explicit(&l->out_seg, out.seg, memory_order_relaxed);
	atomic_store_explicit(&l->out_off, out.off, memory_order_relaxed);
	atomic_store_explicit(&l->call, call, memory_order_release);
}

enum answer { ANSWER_WAIT, ANSWER_NO, ANSWER_YES, ANSWER_DIFFERS };

static bool resolve(const struct taut_comm *comm, int rank, struct place at, unsigned char **out)
{
	struct comm_segment *s = at.seg >= 0 ? segment_by_number(comm, at.seg) : NULL;

	*out = s ? s->base[rank] + at.off : NULL;
	return s || at.seg == SEG_UNUSED;
}

/* A rank that is already in a later call did not wait for this one: it had decided "no". */
static enum answer read_peer(struct taut_comm *comm, int rank, uint64_t call)
{
	struct exec_shared_line *l = &comm->shared[rank];
	uint64_t seen = atomic_load_explicit(&l->call, memory_order_acquire);
	struct place in, out;

	if ((int32_t)((uint32_t)(seen >> 32) - (uint32_t)(call >> 32)) < 0 || !seen)
		return ANSWER_WAIT;
	if (seen >> 32 != call >> 32)
		return ANSWER_NO;
	if (seen != call)
		return ANSWER_DIFFERS;
	in.seg = atomic_load_explicit(&l->in_seg, memory_order_relaxed);
	in.off = atomic_load_explicit(&l->in_off, memory_order_relaxed);
	out.seg = atomic_load_explicit(&l->out_seg, memory_order_relaxed);
	out.off = atomic_load_explicit(&l->out_off, memory_order_relaxed);
	fence(memory_order_acquire);
	if (atomic_load_explicit(&l->call, memory_order_relaxed) != call)
		return ANSWER_NO;
	return resolve(comm, rank, in, &comm->peer_in[rank]) && resolve(comm, rank, out, &comm->peer_out[rank])
		       ? ANSWER_YES
		       : ANSWER_NO;
}

static size_t buffer_len(const struct op *op, bool out)
{
	return op->count * taut_type_size(op->type) * (size_t)sched_coll_blocks(op->coll, out, op->comm->size);
}

static bool buffer_used(const struct op *op, bool out)
{
	bool root = op->comm->rank == op->root;

	switch (op->coll) {
	case COLL_BROADCAST:
	case COLL_SCATTER:
		return out || root;
	case COLL_REDUCE:
	case COLL_GATHER:
		return !out || root;
	default:
		return true;
	}
}

enum taut_status mem_agree(bool *out, struct taut_comm *comm, const struct op *op, uint32_t sig, bool in_group)
{
	struct place in_at = place_of(comm, op->in, buffer_len(op, false), buffer_used(op, false));
	struct place out_at = place_of(comm, op->out, buffer_len(op, true), buffer_used(op, true));
	uint64_t call = comm->seq << 32 | sig, begun = 0, asked = 0;
	enum taut_status st = TAUT_OK;

	*out = false;
	if (op_bytes(op) < AGREE_BYTES)
		return TAUT_OK;
	/* In a group nobody waits here: the calls of a group must not wait for each other. */
	if (in_group || op->scaled || in_at.seg == SEG_NONE || out_at.seg == SEG_NONE) {
		post(comm, call, (struct place){ SEG_NONE, 0 }, out_at);
		return TAUT_OK;
	}
	post(comm, call, in_at, out_at);
	for (int r = 0; r < comm->size && !st;) {
		enum answer a = read_peer(comm, r, call);

		if (a == ANSWER_NO)
			return TAUT_OK;
		if (a == ANSWER_YES) {
			r++;
			continue;
		}
		if (!begun)
			begun = asked = now_ns();
		st = wait_peer(comm, begun, &asked, a == ANSWER_DIFFERS);
	}
	*out = !st;
	return st;
}
