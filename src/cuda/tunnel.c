/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/tunnel.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"

#define QUIET_NS 1000000000u /* idle for so long: only the first thread looks by itself */
#define NAP_NS 50000u
#define NAP_MAX_NS 1000000u
#define REST_NS 100000000u
#define FLUSH_NS 5000000000ull
#define LINE_WORDS (GPU_LINE / 8)

enum kind { FRAME_BEGUN, FRAME_WRITTEN, FRAME_READ, FRAME_SLOT, FRAME_TAIL, FRAME_HEAD, FRAMES };

/* Before the payload; both ends are of the same build (boot.h) and byte order. */
struct frame {
	uint32_t kind, lane;
	uint32_t at, len; /* of the payload: where in its slot, bytes */
	uint64_t word;	  /* the mark; of a slot its count */
};

/* Words that tell of the others of their line: stored last, read first. */
static const unsigned flags_of_tail[] = { 0, 1 }, flags_of_head[] = { 0, 2 };

/* One line as it was when it was sent. */
struct line {
	uint64_t word[LINE_WORDS];
};

/* What one thread that sends has sent, of its lanes. */
struct sender {
	struct tunnel *t;
	pthread_t thread;
	int index;
	uint64_t begun[2];
	uint64_t *written;	    /* [lanes] */
	uint64_t *read;		    /* [lanes][nranks] */
	struct line *tails, *heads; /* [nranks][lanes of messages] */
	bool gone[GPU_MAX_RANKS];   /* takes no more */
};

struct receiver {
	struct tunnel *t;
	pthread_t thread;
	int index;
	bool gone[GPU_MAX_RANKS]; /* sends no more */
};

struct tunnel {
	struct tunnel_args a;
	int out[TUNNEL_THREADS][GPU_MAX_RANKS], in[TUNNEL_THREADS][GPU_MAX_RANKS];
	_Atomic uint32_t calls; /* futex: grows when there may be work */
	_Atomic int asleep;
	atomic_bool closing, dropped;
	_Atomic int sending; /* threads that have not ended */
	_Atomic int broken;  /* 1 + rank, set after why */
	pthread_mutex_t lock;
	char why[160];
	struct sender sender[TUNNEL_THREADS];
	struct receiver receiver[TUNNEL_THREADS];
	int senders, receivers; /* started */
};

/* --- places --- */
static unsigned char *mail(const struct tunnel *t, int rank)
{
	return t->a.mem + (size_t)rank * t->a.at.bytes;
}

static uint64_t *begun_words(const struct tunnel *t, int rank)
{
	return (uint64_t *)(void *)(mail(t, rank) + t->a.at.lines);
}

/* As mark_line() of host.cu; @reader -1: "written". */
static uint64_t *mark_line(const struct tunnel *t, int at, uint32_t lane, int reader)
{
	uint64_t lines = (uint64_t)lane * (unsigned)(t->a.nranks + 1) + (unsigned)(reader + 2);

	return (uint64_t *)(void *)(mail(t, at) + t->a.at.lines + lines * GPU_LINE);
}

static unsigned char *slot_of(const struct tunnel *t, int rank, uint32_t lane, uint32_t number)
{
	uint64_t k = (uint64_t)lane * t->a.at.nslots + number % t->a.at.nslots;

	return mail(t, rank) + t->a.at.slots + k * t->a.at.slot_bytes;
}

/* As messages.cu has them: of what @other sends to @at, in the mail of @at; its head in the mail of the sender. */
static uint64_t message_lane(const struct tunnel *t, int at, int other, uint32_t lane)
{
	return (uint64_t)(other - (other > at)) * t->a.at.messages.lanes + lane;
}

static uint64_t *message_line(const struct tunnel *t, int at, int other, uint32_t lane, bool head)
{
	uint64_t lines = message_lane(t, at, other, lane) * 2 + head;

	return (uint64_t *)(void *)(mail(t, at) + t->a.at.messages.lines + lines * GPU_LINE);
}

static unsigned char *message_slot(const struct tunnel *t, int at, int by, uint32_t lane, uint64_t count)
{
	uint64_t i = message_lane(t, at, by, lane) * GPU_MESSAGE_SLOTS + count % GPU_MESSAGE_SLOTS;

	return mail(t, at) + t->a.at.messages.slots + i * t->a.at.messages.slot_bytes;
}

static uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* --- sockets --- */
static void set_broken(struct tunnel *t, int peer, const char *what)
{
	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&t->broken) && !atomic_load(&t->closing)) {
		snprintf(t->why, sizeof(t->why), "%s", what);
		/* release: the sentence comes before the rank */
		atomic_store_explicit(&t->broken, peer + 1, memory_order_release);
		__atomic_store_n(t->a.stop, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&t->lock);
}

/* A peer that has left takes no more: what it left with is not for the sender to judge. */
static void send_frame(struct sender *s, int peer, const struct frame *f, const void *payload, int flags)
{
	int fd = s->t->out[s->index][peer];
	struct iovec iov[2] = { { (void *)(uintptr_t)f, sizeof(*f) }, { (void *)(uintptr_t)payload, f->len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = f->len ? 2 : 1 };

	while (!s->gone[peer] && msg.msg_iovlen) {
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | flags);

		if (n < 0 && errno == EINTR)
			continue;
		s->gone[peer] = n < 0;
		for (; n > 0 && (size_t)n >= msg.msg_iov->iov_len; msg.msg_iov++, msg.msg_iovlen--)
			n -= (ssize_t)msg.msg_iov->iov_len;
		if (n > 0) {
			msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + n;
			msg.msg_iov->iov_len -= (size_t)n;
		}
	}
}

/* --- finding: large messages --- */
static bool find_begun(struct sender *s)
{
	struct tunnel *t = s->t;
	bool found = false;

	for (unsigned i = 0; i < 2 && s->index == 0; i++) {
		struct frame f = { .kind = FRAME_BEGUN, .at = i, .word = load(begun_words(t, t->a.rank) + i) };

		if (f.word == s->begun[i])
			continue;
		s->begun[i] = f.word;
		for (int p = 0; p < t->a.nranks; p++)
			if (p != t->a.rank)
				send_frame(s, p, &f, NULL, 0);
		found = true;
	}
	return found;
}

/* What rank @p wants of the slot. */
static bool wanted(const struct tunnel *t, struct frame *f, uint64_t a, uint64_t b, int p)
{
	uint32_t at = (uint32_t)a, len = (uint32_t)(a >> 32), n = (uint32_t)t->a.nranks, each;

	if (GPU_LABEL_TO(b) >= 0 && GPU_LABEL_TO(b) != p)
		return false;
	switch (GPU_LABEL_FORM(b)) {
	case GPU_LABEL_PIECES:
		at *= (uint32_t)p;
		break;
	case GPU_LABEL_PARTS: /* cut() of host.cu */
		each = ((len + n - 1) / n + GPU_LINE - 1) / GPU_LINE * GPU_LINE;
		at = each * (uint32_t)p < len ? each * (uint32_t)p : len;
		len = len - at < each ? len - at : each;
		break;
	default:
		break;
	}
	f->at = at;
	f->len = len;
	return true;
}

static void send_item(struct sender *s, uint32_t lane, uint64_t mark)
{
	struct tunnel *t = s->t;
	uint32_t number = (uint32_t)mark - 1;
	const uint64_t *label = mark_line(t, t->a.rank, lane, -1) + GPU_LABEL_AT(number % t->a.at.nslots);
	uint64_t place = load(label), readers = load(label + 1); /* until the last reader has answered */
	struct frame f = { .kind = FRAME_WRITTEN, .lane = lane, .word = mark };

	for (int k = 1; k < t->a.nranks; k++) {
		int p = (t->a.rank + k) % t->a.nranks;

		if (wanted(t, &f, place, readers, p))
			send_frame(s, p, &f, slot_of(t, t->a.rank, lane, number) + f.at, 0);
	}
}

/* Marks hold the number of the call and that of its items: kernels.h. */
static bool find_written(struct sender *s, uint32_t lane)
{
	struct tunnel *t = s->t;
	uint64_t now = load(mark_line(t, t->a.rank, lane, -1)), was = s->written[lane];

	if (now == was)
		return false;
	if (was >> 32 != now >> 32)
		was = now >> 32 << 32;
	while (was != now)
		send_item(s, lane, ++was);
	s->written[lane] = now;
	return true;
}

static bool find_read(struct sender *s, uint32_t lane)
{
	struct tunnel *t = s->t;
	bool found = false;

	for (int p = 0; p < t->a.nranks; p++) {
		uint64_t *was = &s->read[(size_t)lane * (size_t)t->a.nranks + (size_t)p];
		struct frame f = { .kind = FRAME_READ, .lane = lane };

		if (p == t->a.rank)
			continue;
		f.word = load(mark_line(t, p, lane, t->a.rank));
		if (f.word == *was)
			continue;
		*was = f.word;
		send_frame(s, p, &f, NULL, 0);
		found = true;
	}
	return found;
}

/* --- finding: messages --- */
/* Has the line changed? Then it is in @now. */
static bool read_line(struct line *now, const struct line *was, const uint64_t *at, const unsigned flags[2])
{
	uint64_t a = load(at + flags[0]), b = load(at + flags[1]);

	if (a == was->word[flags[0]] && b == was->word[flags[1]])
		return false;
	for (unsigned i = 0; i < LINE_WORDS; i++)
		now->word[i] = load(at + i);
	now->word[flags[0]] = a;
	now->word[flags[1]] = b;
	return true;
}

static bool find_tail(struct sender *s, int p, uint32_t lane)
{
	struct tunnel *t = s->t;
	struct line now, *was = &s->tails[(size_t)p * t->a.at.messages.lanes + lane];
	struct frame f = { .kind = FRAME_SLOT, .lane = lane };

	if (!read_line(&now, was, message_line(t, p, t->a.rank, lane, false), flags_of_tail))
		return false;
	for (f.word = was->word[0]; f.word != now.word[0]; f.word++) {
		f.len = (uint32_t)now.word[GPU_TAIL_BYTES + f.word % GPU_MESSAGE_SLOTS];
		send_frame(s, p, &f, message_slot(t, p, t->a.rank, lane, f.word), MSG_MORE);
	}
	*was = now;
	f = (struct frame){ .kind = FRAME_TAIL, .lane = lane, .len = sizeof(now) };
	send_frame(s, p, &f, &now, 0);
	return true;
}

static bool find_head(struct sender *s, int p, uint32_t lane)
{
	struct tunnel *t = s->t;
	struct line now, *was = &s->heads[(size_t)p * t->a.at.messages.lanes + lane];
	struct frame f = { .kind = FRAME_HEAD, .lane = lane, .len = sizeof(now) };

	if (!read_line(&now, was, message_line(t, p, t->a.rank, lane, true), flags_of_head))
		return false;
	*was = now;
	send_frame(s, p, &f, &now, 0);
	return true;
}

static bool find_all(struct sender *s)
{
	const struct tunnel_args *a = &s->t->a;
	uint32_t step = (uint32_t)a->threads;
	bool found = find_begun(s);

	for (uint32_t l = (uint32_t)s->index; l < a->at.lanes; l += step) {
		found = find_written(s, l) || found;
		found = find_read(s, l) || found;
	}
	for (uint32_t l = (uint32_t)s->index; l < a->at.messages.lanes; l += step) {
		for (int p = 0; p < a->nranks; p++) {
			if (p == a->rank)
				continue;
			found = find_tail(s, p, l) || found;
			found = find_head(s, p, l) || found;
		}
	}
	return found;
}

/* --- threads that send --- */
static void sleep_for(struct tunnel *t, uint32_t seen, uint64_t ns)
{
	struct timespec limit = { .tv_nsec = (long)ns };

	atomic_fetch_add(&t->asleep, 1);
	syscall(SYS_futex, &t->calls, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
	atomic_fetch_sub(&t->asleep, 1);
}

void tunnel_wake(struct tunnel *t)
{
	atomic_fetch_add(&t->calls, 1);
	if (atomic_load(&t->asleep))
		syscall(SYS_futex, &t->calls, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static uint64_t nap_ns(const struct sender *s, uint64_t idle)
{
	uint64_t nap = idle / 8 > NAP_NS ? idle / 8 : NAP_NS;

	if (idle > QUIET_NS && s->index)
		return REST_NS;
	return nap < NAP_MAX_NS ? nap : NAP_MAX_NS;
}

static void *run_sender(void *arg)
{
	struct sender *s = arg;
	struct tunnel *t = s->t;
	uint64_t since = now_ns();
	uint32_t seen = atomic_load(&t->calls);

	while (!atomic_load_explicit(&t->dropped, memory_order_relaxed)) {
		bool last = atomic_load(&t->closing); /* before the look that may find nothing */
		uint64_t now;

		if (find_all(s)) {
			if (s->index == 0 && atomic_load_explicit(&t->asleep, memory_order_relaxed))
				tunnel_wake(t);
			since = now_ns();
			continue;
		}
		if (last)
			break;
		now = now_ns();
		if (now - since < t->a.spin_ns) {
			cpu_relax();
			continue;
		}
		sleep_for(t, seen, nap_ns(s, now - since));
		if (atomic_load(&t->calls) != seen)
			since = now_ns();
		seen = atomic_load(&t->calls);
	}
	atomic_fetch_sub(&t->sending, 1);
	return NULL;
}

/* --- threads that receive --- */
/* 1: all @len bytes; 0: the peer has closed before the first; -1: broken. */
static int take(int fd, void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, (char *)buf + at, len - at, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return n == 0 && at == 0 ? 0 : -1;
		at += (size_t)n;
	}
	return 1;
}

static void put_line(uint64_t *to, const struct line *l, const unsigned flags[2])
{
	for (unsigned i = 0; i < LINE_WORDS; i++)
		if (i != flags[0] && i != flags[1])
			store(to + i, l->word[i]);
	store(to + flags[0], l->word[flags[0]]);
	store(to + flags[1], l->word[flags[1]]);
}

/* Where the payload goes; NULL: it is no frame that can be. @line: room for one. */
static void *place_of(const struct tunnel *t, int peer, const struct frame *f, struct line *line)
{
	const struct tunnel_layout *at = &t->a.at;
	bool large = f->kind == FRAME_WRITTEN || f->kind == FRAME_READ;

	if (f->kind >= FRAMES || f->lane >= (large ? at->lanes : at->messages.lanes))
		return NULL;
	switch (f->kind) {
	case FRAME_WRITTEN:
		if (f->at > at->slot_bytes || f->len > at->slot_bytes - f->at)
			return NULL;
		return slot_of(t, peer, f->lane, (uint32_t)f->word - 1) + f->at;
	case FRAME_SLOT:
		return f->len > at->messages.slot_bytes ? NULL : message_slot(t, t->a.rank, peer, f->lane, f->word);
	case FRAME_TAIL:
	case FRAME_HEAD:
		return f->len == sizeof(*line) ? line : NULL;
	case FRAME_BEGUN:
		return f->len || f->at > 1 ? NULL : line;
	default:
		return f->len ? NULL : line;
	}
}

static void tell(const struct tunnel *t, int peer, const struct frame *f, const struct line *line)
{
	int me = t->a.rank;

	switch (f->kind) {
	case FRAME_BEGUN:
		store(begun_words(t, peer) + f->at, f->word);
		break;
	case FRAME_WRITTEN:
		store(mark_line(t, peer, f->lane, -1), f->word);
		break;
	case FRAME_READ:
		store(mark_line(t, me, f->lane, peer), f->word);
		break;
	case FRAME_TAIL:
		put_line(message_line(t, me, peer, f->lane, false), line, flags_of_tail);
		break;
	case FRAME_HEAD:
		put_line(message_line(t, me, peer, f->lane, true), line, flags_of_head);
		break;
	default:
		break;
	}
}

static void receive(struct receiver *r, int peer)
{
	struct tunnel *t = r->t;
	int fd = t->in[r->index][peer], got;
	struct frame f;
	struct line line;
	void *to;

	got = take(fd, &f, sizeof(f));
	to = got > 0 ? place_of(t, peer, &f, &line) : NULL;
	if (to && take(fd, to, f.len) > 0) {
		tell(t, peer, &f, &line);
		return;
	}
	if (got)
		set_broken(t, peer, got > 0 && !to ? "what came is nothing that can be" : strerror(errno));
	r->gone[peer] = true;
}

/* To be woken takes longer than a small message. Only the first thread carries such. */
static bool look_for_some(struct pollfd *fds, int n, uint32_t ns)
{
	uint64_t until = ns ? now_ns() + ns : 0;

	do {
		if (poll(fds, (nfds_t)n, 0) > 0)
			return true;
		cpu_relax();
	} while (until && now_ns() < until);
	return false;
}

/* Waits for the sockets that are still open; their number. */
static int wait_in(struct receiver *r, struct pollfd *fds, int *peers)
{
	int n = 0;

	for (int p = 0; p < r->t->a.nranks; p++) {
		if (p == r->t->a.rank || r->gone[p])
			continue;
		peers[n] = p;
		fds[n++] = (struct pollfd){ .fd = r->t->in[r->index][p], .events = POLLIN };
	}
	if (r->index == 0 && n && look_for_some(fds, n, r->t->a.spin_ns))
		return n;
	if (n > 1)
		poll(fds, (nfds_t)n, -1);
	else if (n)
		fds[0].revents = POLLIN; /* the read waits */
	return n;
}

static void *run_receiver(void *arg)
{
	struct receiver *r = arg;
	struct pollfd fds[GPU_MAX_RANKS];
	int peers[GPU_MAX_RANKS], n;

	while ((n = wait_in(r, fds, peers))) {
		for (int i = 0; i < n; i++)
			if (fds[i].revents)
				receive(r, peers[i]);
		if (atomic_load_explicit(&r->t->asleep, memory_order_relaxed))
			tunnel_wake(r->t);
	}
	return NULL;
}

int tunnel_broken(const struct tunnel *t, char *why, size_t len)
{
	int peer = atomic_load_explicit(&t->broken, memory_order_acquire); /* rank before sentence */

	if (peer)
		snprintf(why, len, "%s", t->why);
	return peer - 1;
}

/* --- life --- */
static bool alloc_sender(struct sender *s, struct tunnel *t, int index)
{
	size_t n = (size_t)t->a.nranks, lanes = t->a.at.lanes, lines = n * t->a.at.messages.lanes;

	*s = (struct sender){ .t = t, .index = index };
	s->written = mem_calloc(lanes, sizeof(*s->written));
	s->read = mem_calloc(lanes * n, sizeof(*s->read));
	s->tails = mem_calloc(lines, sizeof(*s->tails));
	s->heads = mem_calloc(lines, sizeof(*s->heads));
	return s->written && s->read && s->tails && s->heads;
}

static enum taut_status start(struct tunnel *t)
{
	int err = 0;

	for (int i = 0; i < t->a.threads; i++)
		if (!alloc_sender(&t->sender[i], t, i))
			return fail(TAUT_ERR_NOMEM, "what %d threads have sent", t->a.threads);
	for (int i = 0; i < t->a.threads && !err; i++) {
		t->receiver[i] = (struct receiver){ .t = t, .index = i };
		err = thread_start(&t->receiver[i].thread, "taut-tunnel-in", run_receiver, &t->receiver[i]);
		t->receivers += !err;
	}
	for (int i = 0; i < t->a.threads && !err; i++) {
		atomic_fetch_add(&t->sending, 1);
		err = thread_start(&t->sender[i].thread, "taut-tunnel-out", run_sender, &t->sender[i]);
		t->senders += !err;
	}
	return err ? errno_fail(err, "a thread between GPUs that share no memory") : TAUT_OK;
}

static void take_sockets(struct tunnel *t, const struct tunnel_args *a)
{
	memset(t->out, -1, sizeof(t->out));
	memset(t->in, -1, sizeof(t->in));
	for (int k = 0; k < a->threads; k++) {
		for (int p = 0; p < a->nranks; p++) {
			if (p == a->rank)
				continue;
			t->out[k][p] = a->out[k * a->nranks + p];
			t->in[k][p] = a->in[k * a->nranks + p];
		}
	}
}

void tunnel_close_sockets(const struct tunnel_args *args)
{
	for (int i = 0; i < args->threads * args->nranks; i++) {
		if (args->out[i] >= 0)
			close(args->out[i]);
		if (args->in[i] >= 0)
			close(args->in[i]);
	}
}

enum taut_status tunnel_open(struct tunnel **out, const struct tunnel_args *args)
{
	struct tunnel *t = mem_calloc(1, sizeof(*t));
	enum taut_status st;

	if (!t) {
		tunnel_close_sockets(args);
		return fail(TAUT_ERR_NOMEM, "connections between GPUs");
	}
	t->a = *args;
	t->a.out = t->a.in = NULL;
	pthread_mutex_init(&t->lock, NULL);
	take_sockets(t, args);
	st = start(t);
	if (st) {
		tunnel_close(t, false);
		return st;
	}
	*out = t;
	return TAUT_OK;
}

static void end_sockets(int (*fds)[GPU_MAX_RANKS], void (*end)(int fd))
{
	for (int k = 0; k < TUNNEL_THREADS; k++)
		for (int p = 0; p < GPU_MAX_RANKS; p++)
			if (fds[k][p] >= 0)
				end(fds[k][p]);
}

static void shut(int fd)
{
	shutdown(fd, SHUT_RDWR);
}

static void close_fd(int fd)
{
	close(fd);
}

void tunnel_close(struct tunnel *t, bool flush)
{
	uint64_t until = now_ns() + FLUSH_NS;

	if (!t)
		return;
	atomic_store(&t->closing, true);
	tunnel_wake(t);
	while (flush && atomic_load(&t->sending) && now_ns() < until)
		sleep_ms(1);
	atomic_store(&t->dropped, true);
	if (atomic_load(&t->sending))
		end_sockets(t->out, shut); /* a send may hang */
	end_sockets(t->in, shut);
	for (int i = 0; i < t->senders; i++)
		pthread_join(t->sender[i].thread, NULL);
	for (int i = 0; i < t->receivers; i++)
		pthread_join(t->receiver[i].thread, NULL);
	end_sockets(t->out, close_fd);
	end_sockets(t->in, close_fd);
	for (int i = 0; i < t->a.threads; i++) {
		mem_free(t->sender[i].written);
		mem_free(t->sender[i].read);
		mem_free(t->sender[i].tails);
		mem_free(t->sender[i].heads);
	}
	pthread_mutex_destroy(&t->lock);
	mem_free(t);
}
