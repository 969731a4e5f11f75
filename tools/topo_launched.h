/* SPDX-License-Identifier: Apache-2.0 */
/* `taut topo` as the ranks of a job (taut run -n 4 taut topo, srun taut topo): the machines of all of them. */
#ifndef TOPO_LAUNCHED_H
#define TOPO_LAUNCHED_H

#include <stdbool.h>

struct config;
/* False: no launcher has started more than this one. Else all have met and rank 0 has printed each kind of system once,
 * with its hosts; *@rc is the exit status. */
bool topo_launched(int *rc, const struct config *cfg);

#endif
