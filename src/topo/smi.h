/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi's view of a pair: from the PCI tree and the NVLinks, without bandwidths. */
#ifndef TOPO_SMI_H
#define TOPO_SMI_H

#include "topo/paths.h"

/* @a and @b: GPUs, ports or NUMA nodes. @nv (set in every case): the NVLinks of the narrowest link when the class
 * is SMI_NV, else 0. */
enum smi_class smi_class_of(const struct topo *t, int a, int b, int *nv);

#endif
