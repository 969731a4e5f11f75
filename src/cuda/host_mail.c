/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/host_mail.h"

enum taut_status host_mail_open(struct host_mail *out, const struct cuda_driver *cu, void *base, size_t len)
{
	enum taut_status st = cuda_st(cu->host_register(base, len, CU_REGISTER_PORTABLE | CU_REGISTER_MAPPED),
				      "host memory for the GPU, which must be locked (ulimit -l)");

	if (st)
		return st;
	*out = (struct host_mail){ .cu = cu, .base = base };
	st = cuda_st(cu->host_pointer(&out->gpu, base, 0), "the address of host memory on the GPU");
	if (st)
		host_mail_close(out);
	return st;
}

void host_mail_close(struct host_mail *m)
{
	if (m->base)
		m->cu->host_unregister(m->base);
	m->base = NULL;
}
