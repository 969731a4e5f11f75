/* SPDX-License-Identifier: Apache-2.0 */
/* `taut bench limits`: the yardstick, as a table or JSON. */
#ifndef TOOLS_BENCH_LIMITS_H
#define TOOLS_BENCH_LIMITS_H

int bench_limits(int argc, char **argv); /* argv[0]: "limits"; returns the exit status */

#endif
