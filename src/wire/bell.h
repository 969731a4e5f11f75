/* SPDX-License-Identifier: Apache-2.0 */
/* A rank sleeps on its bell when nothing has come for a while; whoever gives it a message
 * or a credit through shared memory rings it. A bell is a word in memory that the
 * processes of a machine share: all bells of a process lie in one memfd, whose descriptor travels with
 * each connection. Ringing a bell that nobody sleeps on costs a load. */
#ifndef WIRE_BELL_H
#define WIRE_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"
#include "base/status.h"

struct wire_bell {
	_Alignas(64) _Atomic uint32_t rings; /* futex word */
	_Atomic uint32_t sleepers;
};

/* A bell of this process, for one rank. Any thread. */
enum taut_status bell_create(struct wire_bell **out);
void bell_destroy(struct wire_bell *b);
/* For sending to a peer: the memfd (owned by this module, stays open) and the bell's place in it. */
enum taut_status bell_export(const struct wire_bell *b, int *fd, uint32_t *index);
/* A peer's bell; @fd is taken. Released with bell_unmap(). */
enum taut_status bell_map(struct wire_bell **out, int fd, uint32_t index);
void bell_unmap(struct wire_bell *b);

/* Call bell_arm(), look once more for work, then bell_sleep() with the value that arm gave; then bell_disarm(). */
uint32_t bell_arm(struct wire_bell *b);
void bell_sleep(struct wire_bell *b, uint32_t seen, uint64_t timeout_ns);
void bell_disarm(struct wire_bell *b);

void bell_ring_slow(struct wire_bell *b);
/* True when sleepers cannot make this process's stores visible (see bell_arm()), so that each
 * ring needs a fence. */
extern bool bell_needs_fence;
static inline void bell_ring(struct wire_bell *b)
{
	/* The store that made the work visible must come before the look at `sleepers`. The
	 * processor may swap the two; a sleeper makes up for it with a barrier on all processors
	 * that run ranks, which costs the sleeper some microseconds and the ringer nothing. */
	if (__builtin_expect(bell_needs_fence, false))
		fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&b->sleepers, memory_order_relaxed) != 0, false))
		bell_ring_slow(b);
}

#endif
