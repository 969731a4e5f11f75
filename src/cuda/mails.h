/* SPDX-License-Identifier: Apache-2.0 */
/* The mail of ranks that are threads of one process. A kernel of one may still write to the mail of another whose
 * communicator has ended, after an abort say: what the last of them leaves is freed, not before. Any thread. */
#ifndef CUDA_MAILS_H
#define CUDA_MAILS_H

#include "cuda/driver.h"

/* @key names the communicator in this process, where @ranks are its members. Each leaves once. */
void mails_join(uint64_t key, int ranks);
void mails_leave(const struct cuda_driver *cu, uint64_t key, uint64_t mail);

#endif
