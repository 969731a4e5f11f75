/* SPDX-License-Identifier: Apache-2.0 */
/* The mail of ranks that are threads of one process. A kernel of one may still write to the mail of another whose
 * communicator has ended, after an abort say: what the last of them leaves is freed, not before.
 *
 * To free memory is to wait for all that runs in its context, perhaps a kernel of another communicator that waits for
 * the rank that frees. So a rank frees what is of its own context, the others' when no communicator is left for which
 * ranks of this process wait; those free theirs when they leave another one. Any thread. */
#ifndef CUDA_MAILS_H
#define CUDA_MAILS_H

#include "cuda/driver.h"

/* @key names the communicator in this process, where @ranks are its members. Each leaves once. */
void mails_join(uint64_t key, int ranks);
/* @mail is memory of @ctx, in which nothing runs. */
void mails_leave(const struct cuda_driver *cu, uint64_t key, uint64_t mail, const struct cu_ctx *ctx);

#endif
