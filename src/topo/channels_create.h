/* SPDX-License-Identifier: Apache-2.0 */
/* An empty set of channels for the search and the reader to fill. */
#ifndef TOPO_CHANNELS_CREATE_H
#define TOPO_CHANNELS_CREATE_H

#include "topo/channels.h"

/* With room for CHANNELS_MAX channels of @ngpus; @gpus: nodes in the system's order. */
enum taut_status channels_create(struct channels **out, enum channel_pattern pattern, int ngpus, const int *gpus);

#endif
