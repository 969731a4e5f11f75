/* SPDX-License-Identifier: Apache-2.0 */
/* Finding each other: how the ranks of a group meet, trust each other, exchange small
 * records, and learn of failures.
 *
 * Every process runs one service thread (started by the first boot, gone with the last)
 * with one epoll set, one TCP listener (IPv4/IPv6) and one Unix listener in the abstract name space. A
 * `struct boot` is one rank's membership of one group. Everything below the public calls
 * happens on the service thread, so a peer gets answers while this rank's threads compute.
 *
 * Connections. Each starts with a hello (magic, version, group key, target rank), then a
 * mutual keyed challenge with the group's secret (libsodium; each side proves it with a
 * fresh nonce of the other); what fails is closed and counted, and nothing else is parsed
 * from it. A connection for a group or rank that this process has not created yet is parked
 * until it is, within limits of number and time.
 *
 * Meeting. Rank r checks in at rank 0's listener with its own addresses, and gets the
 * addresses of those of its tree neighbours that have checked in before; it dials them, the others dial it. The
 * check-in connection is then closed: no rank keeps more sockets than its tree neighbours.
 * Then the table of all ranks goes up and down the tree. The ranks of one process share one
 * copy of the table.
 *
 * Failure. A closed control socket is a death; between machines silence of five heartbeats
 * is too. Deaths, aborts and mismatches flood the tree and reach on_event() of every rank
 * once. Threads: boot_* may be called from any thread except where it says collective.
 *
 * Leaving. A rank that closes tells its neighbours, so it is not taken for dead. Its children
 * wait a moment (mostly all leave at about the same time), then hang themselves below its
 * parent, or below the lowest rank that is still there: events and questions reach all who
 * stay. An exchange that needs a rank which has left fails on all.
 *
 * fork(): the child closes its copies of the service's descriptors and can form groups of its
 * own, but not use its parent's. Descriptors that boot_dial() and on_dial() gave away are
 * their owners' to close.
 */
#ifndef BOOT_BOOT_H
#define BOOT_BOOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"

struct boot;

struct boot_peer {
	char host[64]; /* name, for messages */
	int pid;
	int node;	/* machine, numbered from 0 in order of first rank; shared memory works inside */
	int local_rank; /* among the ranks of its machine */
	int cpus;	/* processors that it may run on */
};

enum boot_event_kind {
	BOOT_EVENT_DEAD,     /* a rank's process or host is gone */
	BOOT_EVENT_ABORT,    /* somebody called boot_abort() */
	BOOT_EVENT_MISMATCH, /* the ranks' calls differ */
	BOOT_EVENT_FAILED,   /* a rank reported an error of its own that ends the group */
};
struct boot_event {
	enum boot_event_kind kind;
	enum taut_status status;
	int rank;	  /* culprit, or -1 */
	const char *text; /* the sentence, the same on every rank */
};

/* By which another thread can end the making of a group. Zeroed at first; lives until that group is closed. */
struct boot_stop {
	struct boot *at; /* what would end now; boot's own */
	atomic_bool wanted;
};
/* Any thread: what is made with @s, or was, ends as by boot_abort(); no more is made with it. */
void boot_stop(struct boot_stop *s);

/* What the owner of a boot is told, on the service thread; must not block, must not call
 * boot_close(). */
struct boot_callbacks {
	void *ctx;
	/* A peer has dialled this rank (boot_dial there); @fd is the owner's from now on.
	 * @local: a Unix socket of the same machine, on which file descriptors can pass. Called
	 * also for dials that came before boot_create() returned. */
	void (*on_dial)(void *ctx, int from, const void *hello, size_t len, int fd, bool local);
	/* Once per group: the first failure. */
	void (*on_event)(void *ctx, const struct boot_event *event);
	/* Describe this rank's call number @seq (1, 2, ...) for comparison: write to @sig what must
	 * be equal on all ranks and to @text (at most @len bytes) words such as "all_reduce(count 8,
	 * float32, sum)". False: not made yet (then @text may say what the rank does instead). */
	bool (*describe)(void *ctx, uint64_t seq, uint64_t *sig, char *text, size_t len);
	/* In the child of a fork(), before it goes on: the group stays with @parent. Other threads of the
	 * parent, which are not here, may have been in the middle of anything. */
	void (*on_fork)(void *ctx, int parent);
	struct boot_stop *stop; /* (optional) */
};

/* --- Ids --- the 128 bytes: magic, version, group key, secret, rank 0's addresses. */
/* This process listens from now on, until it has joined as rank 0 (or for its life). */
enum taut_status boot_id_create(struct taut_id *out, const struct config *cfg);

/* --- Launchers: who am I, where do we meet --- */
struct boot_env {
	int rank, size;
	int local_rank, local_size; /* -1: not known */
	char launcher[16];	    /* "run", "torchrun", "slurm", "openmpi", "mpich", "manual", "single" */
	struct taut_id id;	    /* derived from rendezvous and secret when the launcher gives no id */
	bool id_given;		    /* else the meeting goes through `rendezvous` */
	/* Where the ranks meet when no id is given:
	 *   "HOST:PORT"      rank 0 listens there (numeric IPv6 in brackets)
	 *   "file:PATH"      rank 0 writes its id to PATH, on a file system that all share
	 *   "abstract:NAME"  one machine: rank 0 listens on the abstract Unix socket NAME (up to
	 *                    100 bytes, no leading zero byte here) besides its usual listeners, with
	 *                    the same hello and challenge; the others dial it until it is there or
	 *                    the deadline passes. Nothing lies on the file system and no port can
	 *                    be taken by another job. */
	char rendezvous[512];
	bool secret_given; /* false: derived from what any user of the host may know: warn when a peer is on another
			      host */
	unsigned char secret[32];
};
enum taut_status boot_env_detect(struct boot_env *out, const struct config *cfg);

/* --- Groups --- */
/* Collective; blocks until all have joined or @timeout_ms passed (the sentence names the
 * missing ranks, and their hosts if known). */
enum taut_status boot_create(struct boot **out, const struct taut_id *id, int rank, int size, int timeout_ms,
			     const struct config *cfg, const struct boot_callbacks *cb);
enum taut_status boot_create_env(struct boot **out, const struct boot_env *env, int timeout_ms,
				 const struct config *cfg, const struct boot_callbacks *cb);
/* Collective over @parent; members of the new group are named in order of new rank by
 * @ranks (ranks of @parent), the same on all members; @tag tells groups made at the same time apart. The
 * addresses are known, so there is no meeting point: tree neighbours dial each other. Called by members only.
 * A failure of @parent ends it, unless @tag has BOOT_TAG_SURVIVORS: a death that made the survivors go on without
 * the dead may become known only now. */
#define BOOT_TAG_SURVIVORS ((uint64_t)1 << 32)
enum taut_status boot_derive(struct boot **out, struct boot *parent, const int *ranks, int size, uint64_t tag,
			     int timeout_ms, const struct boot_callbacks *cb);
/* The survivors of @parent, whatever its state: the lowest rank that answers collects
 * them; all get the same list (ranks of @parent, ascending) in *@ranks (freed by the caller with mem_free). *@number
 * tells two equal lists apart: it is the collector's, as ranks may have been in different ones before. Ranks in
 * @exclude are left out. Called by survivors only, blocks at most @timeout_ms; @stop, which may be NULL, ends that. */
enum taut_status boot_survivors(int **ranks, int *count, uint32_t *number, struct boot *parent, const int *exclude,
				int nexclude, int timeout_ms, const struct boot_stop *stop);
/* @s, which may be NULL, ends @b until it is given to another one, or to none: for what is done over @b while another
 * group is made. TAUT_ERR_ABORTED, and not so, when it was stopped before. */
enum taut_status boot_stop_aim(struct boot_stop *s, struct boot *b);
/* Tells the tree that this rank leaves in order, so that it is not taken for dead. */
void boot_close(struct boot *b);

int boot_rank(const struct boot *b);
int boot_size(const struct boot *b);
int boot_nodes(const struct boot *b);
const struct boot_peer *boot_peer(const struct boot *b, int rank);

/* Collective, one thread: every rank's @len bytes (equal on all, at most 64 KiB), in rank order. */
enum taut_status boot_all_gather(struct boot *b, const void *mine, size_t len, void *all);
/* Collective: rank 0's @len bytes to all. */
enum taut_status boot_broadcast(struct boot *b, void *buf, size_t len);
enum taut_status boot_barrier(struct boot *b);

/* Blocks until connected and proven; *@fd is the caller's, blocking mode. @local asks for a Unix
 * socket (same node only). @hello (at most 256 bytes) is given to on_dial() there. */
enum taut_status boot_dial(int *fd, struct boot *b, int rank, const void *hello, size_t len, bool local);

/* End the group on all ranks; return at once, with what the group ended of and its sentence: that of
 * an earlier failure if there was one, though on_event() may still have to tell it. */
enum taut_status boot_abort(struct boot *b);
/* This rank found an error that ends the group: floods it as BOOT_EVENT_FAILED. */
enum taut_status boot_report(struct boot *b, enum taut_status st, const char *text);
/* This rank is waiting in call @seq: rank 0 asks all ranks to describe that call; if any
 * two differ, all get BOOT_EVENT_MISMATCH with a sentence that says who called what, grouped
 * ("rank 0: ...; ranks 1-3: ..."). A rank that has not made the call yet is no difference. */
void boot_query_call(struct boot *b, uint64_t seq);
/* Connections closed because they failed the challenge or sent garbage, in this process. */
unsigned long boot_rejected(void);

#endif
