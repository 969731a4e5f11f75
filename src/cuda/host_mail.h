/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the GPU of the current context addresses, for ranks whose GPUs do not address each other. */
#ifndef CUDA_HOST_MAIL_H
#define CUDA_HOST_MAIL_H

#include "cuda/driver.h"

struct host_mail {
	const struct cuda_driver *cu;
	void *base;   /* the caller's, page by page; NULL: not registered */
	uint64_t gpu; /* as the GPU addresses it */
};

enum taut_status host_mail_open(struct host_mail *out, const struct cuda_driver *cu, void *base, size_t len);
/* No kernel may use it any more. */
void host_mail_close(struct host_mail *m);

#endif
