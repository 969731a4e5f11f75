/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: a wire around a wire that misbehaves as TAUT_FAULT says. A comma list of
 *
 *   fail:N              the Nth message that this process sends or receives on its wrapped
 *                       wires gives WIRE_BROKEN, and that connection is broken from then on
 *   truncate:N          the Nth message that it receives gives WIRE_MISMATCH, and that connection
 *                       from then on; recv_peek() says half of its length
 *   delay:US[:PERCENT]  PERCENT (10) of the messages wait for US microseconds: AGAIN until then
 *   shuffle:SEED        every other call that may say AGAIN (or "nothing moved", or "not idle") does
 *
 * N counts from 1. What is random follows from SEED (delay alone: 1) and the number of the connection in
 * the process, so that the same calls see the same faults.
 *
 * With delay or shuffle a call may say AGAIN although the wire has something, and nothing rings a bell
 * later: wait_fd() gives a descriptor that is always ready, and sleeps on a bell must be short. */
#ifndef WIRE_FAULT_H
#define WIRE_FAULT_H

#include "wire/wire.h"

/* Wraps *@inout when cfg->fault is not empty; closing it closes what is inside. On failure *@inout
 * is as before and still the caller's: TAUT_ERR_CONFIG names the column that cannot be read. */
enum taut_status fault_wrap(struct wire_conn **inout, const struct config *cfg);
/* Starts all counts again. */
void fault_reset(void);

#endif
