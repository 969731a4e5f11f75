/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the machine that make the cost model agree with what was measured. */
#ifndef TOOLS_TUNE_FIT_H
#define TOOLS_TUNE_FIT_H

#include "tune_plan.h"

/* Starts from *@m and changes what the points of @points speak for; numbers that they say
 * nothing about stay near what they were. *@error: the factor by which the model is then
 * off for the median point (1.2: 20 %). */
enum taut_status tune_fit(struct cost_machine *m, double *error, const struct tune_points *points);

#endif
