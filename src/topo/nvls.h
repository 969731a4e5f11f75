/* SPDX-License-Identifier: Apache-2.0 */
/* Channels of NVLS: the NVSwitches add what GPUs hold and send the sum to all. Each GPU leads one. */
#ifndef TOPO_NVLS_H
#define TOPO_NVLS_H

#include "topo/channels.h"

/* n 0 over several systems, and on machines whose NVSwitches and GPUs cannot. */
enum taut_status nvls_find(struct channels **out, const struct topo *t, const struct channels_req *req);
/* Of the bandwidth of all of its channels; 0: it has none. */
double nvls_bound(const struct topo *t, const struct channels_req *req, char *why, size_t len);

#endif
